// SPDX-License-Identifier: Apache-2.0
//
// Loops and branches in which outside compiled ops write variables of the host
// (steps: graph/gather/host_cluster.c) and through which replicas may go in
// ways of their own. A step is done by all replicas together, so all must come
// to it: such a loop or branch is taken apart.
//
//   cond(p, { a; step; b }, { c })
//     ->  cond(p, { a }); step, of the replicas with p; cond(p, { b });
//         cond(not p, { c })
//
//   while(p) { a; step }
//     ->  while(p of any replica) { cond(p, { a }); step, of those with p }
//
// Steps come in the order of the ops, each of them in the order of replicas:
// what those do that take the first branch comes before what the others do.
#ifndef LS_LOWER_APART_H_
#define LS_LOWER_APART_H_

#include "lower/flow.h"

// Whether the op, or one in its regions, is a step.
bool ls_holds_step(const ls_node *node);
// Whether the condition of a loop writes variables.
bool ls_condition_writes(const ls_node *loop);

// Lowers a loop or branch taken apart.
//   LS_INVALID_ARGUMENT  what replicas put together is in it, too.
//   LS_UNIMPLEMENTED     its gradient is taken; its condition draws.
ls_status ls_lower_apart(ls_lower_scope *scope, ls_node *node);
// Lowers a loop whose condition writes variables: that is computed before the
// loop, and at the end of each trip.
ls_status ls_lower_turned(ls_lower_scope *scope, ls_node *node);

#endif  // LS_LOWER_APART_H_
