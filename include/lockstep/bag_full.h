// SPDX-License-Identifier: Apache-2.0
// Layer: nn
//
// Bag makers (lockstep/bag.h) for types of lockstep/full.h: TPU resolvers and
// strategies, infeed queues, summary writers, cross-shard optimizers.
//
// Threads: as in lockstep/bag.h.
#ifndef LOCKSTEP_BAG_FULL_H_
#define LOCKSTEP_BAG_FULL_H_

#include "lockstep/bag.h"
#include "lockstep/infeed.h"
#include "lockstep/optimizer_state.h"
#include "lockstep/summary.h"
#include "lockstep/tpu_strategy.h"

#ifdef __cplusplus
extern "C" {
#endif

LS_BAG_MAKER_(ls_cross_shard, ls_optimizer, ls_cross_shard_options,
              ls_optimizer_release)
LS_BAG_MAKER_(ls_tpu_resolver, ls_tpu_resolver, ls_tpu_resolver_options,
              ls_tpu_resolver_release)
LS_BAG_MAKER_(ls_tpu_strategy, ls_strategy, ls_tpu_options, ls_strategy_release)
LS_BAG_MAKER_(ls_infeed_queue, ls_infeed_queue, ls_infeed_options,
              ls_infeed_queue_release)

// Maker of a summary writer.
static inline void ls_summary_writer_drop_(void *thing) {
  ls_summary_writer_release((ls_summary_writer *)thing);
}
static inline ls_summary_writer *
ls_summary_writer_in(ls_bag *bag, ls_summary_function function, void *user) {
  ls_summary_writer *made = NULL;
  if (bag->error != NULL) return NULL;
  const ls_status status = ls_summary_writer_create(function, user, &made);
  return (ls_summary_writer *)ls_bag_keep(bag, status, made,
                                          ls_summary_writer_drop_);
}

#ifndef __cplusplus
#define ls_cross_shard_in(bag, ...)                                            \
  ls_cross_shard_in_((bag), &(ls_cross_shard_options){__VA_ARGS__})
#define ls_tpu_resolver_in(bag, ...)                                           \
  ls_tpu_resolver_in_((bag), &(ls_tpu_resolver_options){__VA_ARGS__})
#define ls_tpu_strategy_in(bag, ...)                                           \
  ls_tpu_strategy_in_((bag), &(ls_tpu_options){__VA_ARGS__})
#define ls_infeed_queue_in(bag, ...)                                           \
  ls_infeed_queue_in_((bag), &(ls_infeed_options){__VA_ARGS__})
#endif  // __cplusplus

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_BAG_FULL_H_
