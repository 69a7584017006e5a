// SPDX-License-Identifier: Apache-2.0
//
// The replica context of a TPU strategy.
#ifndef LS_TPU_STRATEGY_REPLICA_H_
#define LS_TPU_STRATEGY_REPLICA_H_

#include "distribute/context/context.h"
#include "graph/compare/compare.h"

// Of one callback, on its C stack.
typedef struct ls_tpu_replica {
  ls_replica *replica;
  ls_distribution entry;
  ls_same_values same, *outer_same;
} ls_tpu_replica;

// Enters the context of all replicas, whose callback is traced once; and leaves
// it, whatever came of the callback.
ls_status ls_tpu_replica_begin(ls_tpu_replica *out, ls_strategy *strategy);
void ls_tpu_replica_end(ls_tpu_replica *replica);

// Of its class: calls the callback once, as replica 0.
ls_status ls_tpu_class_call_each(ls_strategy *strategy, ls_callback callback,
                                 ls_nest args, void *user, ls_nest *results);

#endif  // LS_TPU_STRATEGY_REPLICA_H_
