// SPDX-License-Identifier: Apache-2.0
//
// Loops and branches in which outside compiled ops write variables of the host
// (steps: graph/gather/host_cluster.c) and through which replicas may take
// different paths. All replicas run a step together, so all must reach it: such
// a loop or branch is taken apart.
//
//   cond(p, { a; step; b }, { c })
//     ->  cond(p, { a }); step, of the replicas with p; cond(p, { b });
//         cond(not p, { c })
//
//   while(p) { a; step }
//     ->  while(p of any replica) { cond(p, { a }); step, of those with p }
//
// Steps run in the order of the ops, and each in the order of replicas:
// replicas that take the first branch run before the others.
#ifndef LS_LOWER_APART_H_
#define LS_LOWER_APART_H_

#include "graph/copy.h"
#include "lower/flow.h"

// Returns true if the op, or an op in its regions, is a step.
bool ls_holds_step(const ls_node *node);
// Returns true if the condition of a loop writes variables.
bool ls_condition_writes(const ls_node *loop);

// Lowers a loop or branch by taking it apart.
//   LS_INVALID_ARGUMENT  the op also contains a collective
//   LS_UNIMPLEMENTED     its gradient is taken, or its condition draws random
//                        numbers
ls_status ls_lower_apart(ls_lower_scope *scope, ls_node *node);
// Lowers a loop whose condition writes variables: computes the condition before
// the loop and at the end of each iteration.
ls_status ls_lower_turned(ls_lower_scope *scope, ls_node *node);

// ---- Shared by the files apart*.c -------------------------------------------
// The state of taking a loop or branch apart into the ops that replace it.
typedef struct ls_apart {
  ls_lower_scope *scope;
  ls_node *node;
  ls_arena memory;
  bool together;  // True: all replicas take the same path, without masks.
  ls_graph *to;   // Graph of all new ops; captures values of the op's graph.
} ls_apart;

// A region that is being copied into the graph `c.to`, without its steps.
typedef struct ls_apart_level {
  ls_copying c;
  uint64_t mask;  // True for replicas that run the region; 0: all replicas do.
} ls_apart_level;
LS_OWNED_(ls_apart_level, ls_apart_level, ls_copying_deinit(&ls_owned->c))

// ---- Ops --------------------------------------------------------------------
ls_status ls_apart_make_region(const ls_apart *a, const char *name,
                               ls_graph *around, ls_graph **out_graph);
// Appends an op with regions, which are taken over. Its operands are `leading`
// and the captures of the regions; `types` are the types of its outputs.
ls_status ls_apart_append_flow(const ls_apart *a, ls_graph *to, uint16_t type,
                               const uint64_t *leading, size_t num_leading,
                               const ls_attr *attrs, size_t num_attrs,
                               ls_graph **regions, size_t num_regions,
                               const ls_type *types, size_t num_outputs,
                               ls_node **out_node);
ls_status ls_apart_append_cond(const ls_apart *a, ls_graph *to,
                               uint64_t predicate, ls_graph **regions,
                               const ls_type *types, size_t num_outputs,
                               ls_node **out_node);
// Two regions, owned until an op takes them over.
typedef struct ls_apart_regions {
  ls_graph *items[2];
} ls_apart_regions;
static inline void ls_apart_regions_drop(ls_apart_regions *regions) {
  ls_graph_free(regions->items[0]);
  ls_graph_free(regions->items[1]);
}
LS_OWNED_STRUCT(ls_apart_regions, ls_apart_regions_drop)

// ---- apart_mask.c -----------------------------------------------------------
// Returns true for a constant, which needs no mask and is known to its users.
bool ls_apart_is_free(const ls_node *node);
// Returns true if an op can be put into a branch by the mask.
bool ls_apart_is_plain(const ls_apart_level *l, const ls_node *node);
// Copies the plain ops between two positions into a branch by the level's mask.
ls_status ls_apart_mask_plain(ls_apart *a, ls_apart_level *l, size_t first,
                              size_t last);
// Copies a step. In it, each replica's ops become a branch by the replica's
// mask.
ls_status ls_apart_mask_step(ls_apart *a, ls_apart_level *l, ls_node *node);

// ---- apart.c ----------------------------------------------------------------
// Maps the captures of a region to the copies of their outer values.
ls_status ls_apart_map_captures(ls_copying *inner, ls_copying *around);

#endif  // LS_LOWER_APART_H_
