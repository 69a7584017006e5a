// SPDX-License-Identifier: Apache-2.0
// Layer: dist
//
// Strategies: how one step runs on many replicas.
//
// Replicas are logical: their number is part of the program; how many threads
// work on them is not. A traced function that a strategy runs is traced for
// every replica, each with its own arguments; where the traces agree there is
// one body. Values that are equal on all replicas are computed and stored
// once.
#ifndef LOCKSTEP_STRATEGY_H_
#define LOCKSTEP_STRATEGY_H_

#include "lockstep/distributed.h"
#include "lockstep/function.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Strategies ------------------------------------------------------------
typedef struct ls_strategy ls_strategy;

// Zero in a field means its default.
typedef struct ls_mirrored_options {
  ls_opt num_replicas;  // Replicas on that many logical CPUs. Default 1.
} ls_mirrored_options;
// Creates a mirrored strategy: a copy of the step on each replica, variables
// equal on all. The caller owns a reference.
//   LS_INVALID_ARGUMENT  fewer than one replica.
LS_API LS_MUST_USE ls_status ls_mirrored_strategy_create(
    const ls_mirrored_options *options, ls_strategy **out_strategy);
LS_API ls_strategy *ls_strategy_retain(ls_strategy *strategy);
LS_API void ls_strategy_release(ls_strategy *strategy);
LS_API int32_t ls_strategy_num_replicas(const ls_strategy *strategy);

// Runs the callable on every replica. Replica r gets component r of each
// distributed leaf of `args` (a lent tuple or list), and every other leaf as
// it is. `*results` is the replicas' results put together: leaves that are the
// same on all come back as they are, others as PerReplica. In-out as in
// ls_function_call.
LS_API LS_MUST_USE ls_status ls_strategy_run(ls_strategy *strategy,
                                             ls_callable callable,
                                             ls_nest args, ls_nest *results);

// The sum (or mean) over a PerReplica's arrays, along the canonical tree; any
// other leaf comes back retained. The caller owns the result.
LS_API LS_MUST_USE ls_status ls_strategy_reduce(ls_strategy *strategy,
                                                ls_reduce_op op, ls_nest value,
                                                ls_nest *out_value);

// Cuts dimension 0 of an array into one view per replica: sizes differ by at
// most one, larger ones first. The views keep the array.
LS_API LS_MUST_USE ls_status ls_strategy_split(ls_strategy *strategy,
                                               ls_array *array,
                                               ls_nest *out_value);

// ---- Inside a replica ------------------------------------------------------
// How many replicas the current replica's step runs on; 1 outside.
LS_API int32_t ls_num_replicas(void);
// The replica's id as a plain number, where it is known: while its own trace
// is made. -1 where it is not. (The tensor is ls_replica_id.)
LS_API int32_t ls_replica_number(void);
#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_STRATEGY_H_
