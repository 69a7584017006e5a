// SPDX-License-Identifier: Apache-2.0
//
// Lanes: how they start, get their turns and merge what they post.
//
// A sweep gives every lane a turn, part by part: in each part in order of
// replica, the parts at the same time if there are several. So lanes come to a
// merge in the order of their part, which is what its stack relies on; where a
// host call could change that, the compiler has put a turn instruction. What a
// sweep has completed in all parts is merged after it, on all threads, and only
// then do lanes see it: a sweep changes nothing that two parts look at.
#ifndef LS_ENGINE_CPU_RUN_LANES_H_
#define LS_ENGINE_CPU_RUN_LANES_H_

#include "engine/cpu/run/instance.h"

// Readies all lanes of a launch, which the shared stream has come to.
void ls_cpu_launch_lanes(ls_instance *self,
                         const ls_cpu_instruction *instruction);

// Gives each lane a turn. Whether one got on. Failures are worker 0's: the one
// that comes first in order of replicas.
bool ls_cpu_sweep(ls_instance *self);

// Adds a lane's value to a slot. False: it is not its turn.
bool ls_cpu_post(ls_instance *self, ls_cpu_worker *worker, ls_cpu_stream *lane,
                 const ls_cpu_instruction *instruction, ls_kernel_call *call,
                 void *const *operands);

// Lanes of a part: from which one on, and how many.
static inline uint32_t ls_cpu_part_first(const ls_cpu_launch *launch,
                                         uint32_t part) {
  return part << launch->part_shift;
}
static inline uint32_t ls_cpu_part_count(const ls_cpu_launch *launch,
                                         uint32_t part, uint32_t replicas) {
  const uint32_t left = replicas - ls_cpu_part_first(launch, part);
  const uint32_t most = 1U << launch->part_shift;
  return left < most ? left : most;
}

// How many workers run instructions beside this one, itself included.
static inline uint64_t ls_cpu_workers_in(const ls_instance *self,
                                         const ls_cpu_worker *worker) {
  if (worker->team != &worker->alone) return 1;
  const ls_cpu_launch *launch = self->launch->params;
  const uint64_t workers = (uint64_t)self->num_workers;
  const uint64_t parts = launch->end_part - launch->first_part;
  return parts < workers ? parts : workers;
}

// How many lanes of the replica's part have posted to a slot, less the lanes of
// the part that come before it: 0 says that it is its turn, more that it has
// posted. Of the launch under way, or one before it.
static inline int32_t ls_cpu_arrived_beyond(const ls_instance *self,
                                            const ls_cpu_launch *launch,
                                            uint32_t slot, int32_t replica) {
  const uint32_t part = (uint32_t)replica >> launch->part_shift;
  const uint32_t arrived = LS_CPU_SEEN(self->parts[part].arrived[slot]);
  return (int32_t)(ls_cpu_part_first(launch, part) + arrived) - replica;
}

#endif  // LS_ENGINE_CPU_RUN_LANES_H_
