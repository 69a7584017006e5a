// SPDX-License-Identifier: Apache-2.0
//
// Who shares what: threads take parts of the lanes, or blocks of instructions.
//
// With parts a thread runs whole lanes, on data that stays in its caches, and
// waits for the others only where lanes do. That pays where the parts come out
// about even and there is something to do between two waits. Both ways give the
// same bits.
#include "base/runtime_internal.h"
#include "engine/cpu/compile.h"
#include "engine/cpu/team.h"

// What a sweep must take on one core to be worth waking anybody, and which
// share of the threads' time parts must fill, in percent: blocks, which have
// waits and data that change cores, fill about as much.
enum { WORTH_NANOS = 40000, LEAST_FILL = 80 };

// The time of a turn of all lanes, from one park to the next, on one core.
static int64_t sweep_nanos(const ls_cpu_compiler *self,
                           const ls_cpu_launch *launch, uint32_t begin,
                           uint32_t end) {
  int64_t nanos = 0, parks = 1;
  for (uint32_t i = begin; i < end; ++i) {
    const ls_cpu_note *note = &self->origins[i].note;
    nanos += ls_cpu_team_nanos(note->flops, note->bytes);
    const ls_cpu_code code = self->instructions[i].code;
    parks += code == LS_CPU_WAIT || code == LS_CPU_MEET ||
             code == LS_CPU_HOST_FINISH;
  }
  return nanos / launch->num_bodies * self->replicas / parks;
}

// The share of the threads' time that parts of 2^shift lanes fill, in percent.
static int64_t fill_of(int64_t lanes, int64_t threads, uint32_t shift) {
  const int64_t parts = ((lanes - 1) >> shift) + 1;
  const int64_t rounds = (parts + threads - 1) / threads;
  return 100 * lanes / ((rounds << shift) * threads);
}

static void set_parts(ls_cpu_compiler *self, ls_cpu_launch *launch,
                      uint32_t shift) {
  const uint32_t lanes = (uint32_t)self->replicas;
  launch->part_shift = shift;
  launch->num_parts = ((lanes - 1) >> shift) + 1;
  launch->part_depth =
      ls_cpu_merge_depth(launch->num_parts == 1 ? lanes : 1U << shift);
  if (launch->num_parts > self->out->num_parts) {
    self->out->num_parts = launch->num_parts;
  }
}

void ls_cpu_choose_parts(ls_cpu_compiler *self, ls_cpu_launch *launch,
                         uint32_t begin, uint32_t end) {
  enum { ALL = 31 };  // One part, of any number of lanes.
  const ls_runtime *runtime = self->out->backend->runtime;
  const ls_lanes_by by = ls_debug_lanes(runtime);
  const int64_t threads = ls_runtime_threads(runtime);
  uint32_t best = ALL;
  if (threads > 1 && by != LS_LANES_BY_BLOCKS) {
    // Of equals the largest, which have the fewest partial sums.
    best = 0;
    for (uint32_t shift = 1; self->replicas >> shift > 0; ++shift) {
      const int64_t fill = fill_of(self->replicas, threads, shift);
      if (fill >= fill_of(self->replicas, threads, best)) best = shift;
    }
    const bool pays =
        fill_of(self->replicas, threads, best) >= LEAST_FILL &&
        sweep_nanos(self, launch, begin, end) >= WORTH_NANOS;
    if (by == LS_LANES_BY_COST && !pays) best = ALL;
  }
  set_parts(self, launch, best);
}
