// SPDX-License-Identifier: Apache-2.0
//
// What running replicas needs of the other files of this folder.
#ifndef LS_DISTRIBUTE_REPLICAS_CALL_H_
#define LS_DISTRIBUTE_REPLICAS_CALL_H_

#include "distribute/base/strategy.h"
#include "runtime/eager/eager.h"

typedef struct ls_replica_task ls_replica_task;
typedef struct ls_rounds ls_rounds;

// merge_call on the default strategy.
ls_nest ls_default_merge(ls_strategy *strategy, ls_merge_function function,
                         ls_nest args, void *user);
// What the last merge call has `made` (taken over) of a replica's `args`, such
// that gradients pass to those; and how they do (merge_gradient.c).
ls_nest ls_merge_meeting(const ls_rounds *rounds, ls_nest args, ls_nest made);
ls_status ls_merge_gradient(const ls_tensor *given, size_t num_given,
                            const ls_tensor *got, const ls_tensor *gradients,
                            size_t num_got, ls_tensor *out_gradients);
// ls_all_reduce where replicas meet: by the strategy's table.
ls_tensor ls_replica_table_reduce(ls_reduce_op op, ls_tensor x);
// The merged part of all_reduce and all_gather: each leaf is one value a
// replica, the same object counting as often as there are replicas.
ls_nest ls_all_reduce_merged(ls_strategy *strategy, ls_reduce_op op,
                             ls_nest args);
ls_nest ls_all_gather_merged(ls_strategy *strategy, int axis, ls_nest args);

#endif  // LS_DISTRIBUTE_REPLICAS_CALL_H_
