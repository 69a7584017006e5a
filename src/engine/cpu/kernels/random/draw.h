// SPDX-License-Identifier: Apache-2.0
//
// Keys of the random ops' draws.
//
// A key consists of the op's seed plus a large odd multiple of the run's; the
// op's stream; the run's step unless the op is `fixed`; the iteration of the
// enclosing loops; and the replica unless the op draws the same on all: the
// lane's or the run's, or the op's attribute in a build graph.
#ifndef LS_ENGINE_CPU_KERNELS_RANDOM_DRAW_H_
#define LS_ENGINE_CPU_KERNELS_RANDOM_DRAW_H_

#include "base/values/random.h"
#include "engine/cpu/kernels/kernel.h"

// Parameters of a random op that select its key.
typedef struct ls_draw {
  uint64_t seed, stream, replica;
  bool fixed, same_on_all_replicas;
} ls_draw;

static inline ls_draw ls_draw_of(const ls_node *node) {
  return (ls_draw){
      .seed = (uint64_t)ls_node_int(node, LS_ATTR_ID_SEED),
      .stream = (uint64_t)ls_node_int(node, LS_ATTR_ID_STREAM),
      .replica = (uint64_t)ls_node_int(node, LS_ATTR_ID_REPLICA),
      .fixed = ls_node_int(node, LS_ATTR_ID_FIXED) != 0,
      .same_on_all_replicas =
          ls_node_int(node, LS_ATTR_ID_SAME_ON_ALL_REPLICAS) != 0,
  };
}

static inline ls_random_source ls_draw_source(const ls_draw *draw,
                                              const ls_kernel_call *call) {
  const ls_random_key key = {
      .seed = draw->seed + call->seed * UINT64_C(0x9E3779B97F4A7C15),
      .stream = draw->stream,
      .step = draw->fixed ? 0 : call->step,
      .iteration = call->iteration,
      .id = draw->same_on_all_replicas
                ? 0
                : draw->replica + (uint64_t)call->replica,
  };
  return ls_random_source_make(&key);
}

#endif  // LS_ENGINE_CPU_KERNELS_RANDOM_DRAW_H_
