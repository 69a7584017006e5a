// SPDX-License-Identifier: Apache-2.0
//
// Lanes: how they start, run and merge the values that they post.
//
// A round runs every lane once, part by part: within a part in order of
// replica, several parts at the same time. So lanes reach a merge in order
// within their part, on which its stack relies; where a host call or another
// class of replicas could change that order, the compiler has inserted a TURN
// instruction. After the round all threads merge the slots that are complete in
// all parts, and only then do lanes see the values: during a round nothing
// changes that two parts read.
#ifndef LS_ENGINE_CPU_RUN_LANES_H_
#define LS_ENGINE_CPU_RUN_LANES_H_

#include "engine/cpu/run/instance.h"

// Starts all lanes of a LAUNCH.
void ls_cpu_launch_lanes(ls_instance *self,
                         const ls_cpu_instruction *instruction);

// Runs each lane once, until it parks or ends. Returns true if one progressed.
// A failure goes to worker 0: that of the lowest replica.
bool ls_cpu_run_round(ls_instance *self);

// Adds a lane's value to a slot. Returns false if lower lanes have not posted
// yet: the replicas do not all come to the same collectives, and none of them
// can continue. Fails with INTERNAL if the lane continues all the same.
bool ls_cpu_post(ls_instance *self, ls_cpu_worker *worker, ls_cpu_stream *lane,
                 const ls_cpu_instruction *instruction, ls_kernel_call *call,
                 void *const *operands);

// Return the first lane of a part and the number of its lanes.
static inline uint32_t ls_cpu_part_first(const ls_cpu_launch *launch,
                                         uint32_t part) {
  return launch->leaves != NULL ? (uint32_t)launch->share.first
                                : part << launch->part_shift;
}
static inline uint32_t ls_cpu_part_count(const ls_cpu_launch *launch,
                                         uint32_t part) {
  const uint32_t left =
      (uint32_t)launch->share.end - ls_cpu_part_first(launch, part);
  const uint32_t most = 1U << launch->part_shift;
  return left < most ? left : most;
}

// Returns how many workers run instructions at the same time, including this
// one.
static inline uint64_t ls_cpu_workers_in(const ls_instance *self,
                                         const ls_cpu_worker *worker) {
  if (worker->team != &worker->alone) return 1;
  const ls_cpu_launch *launch = self->launch->params;
  const uint64_t workers = (uint64_t)self->num_workers;
  const uint64_t parts = launch->end_part - launch->first_part;
  return parts < workers ? parts : workers;
}

// Returns how many lanes of the replica's part have posted to a slot, less the
// number of lower lanes in the part: 0 if the replica is next, more if it has
// posted. Applies to the current launch or an earlier one.
static inline int32_t ls_cpu_arrived_beyond(const ls_instance *self,
                                            const ls_cpu_launch *launch,
                                            uint32_t slot, int32_t replica) {
  const uint32_t part =
      launch->leaves != NULL ? 0 : (uint32_t)replica >> launch->part_shift;
  const uint32_t arrived = LS_CPU_SEEN(self->parts[part].arrived[slot]);
  return (int32_t)(ls_cpu_part_first(launch, part) + arrived) - replica;
}

#endif  // LS_ENGINE_CPU_RUN_LANES_H_
