// SPDX-License-Identifier: Apache-2.0
//
// Division of work among threads: either each thread takes parts of the lanes,
// or all threads share the blocks of each instruction.
//
// With parts a thread waits for others only where lanes do, and small
// instructions run in parallel, too; but each thread reads all weights and
// their sums, while with blocks it reads only its share. So parts pay if there
// are many instructions relative to the size of merged values, and the lanes
// divide evenly. Both ways give the same bits.
#include "base/runtime_internal.h"
#include "engine/cpu/compile/compile.h"
#include "engine/cpu/run/ranks.h"
#include "engine/cpu/run/team.h"
#include "lockstep/runtime_settings.h"

// Estimates: time of a round on one core that is worth waking threads; cost of
// sharing an instruction's blocks; and bytes of merged values that a core
// processes per nanosecond, over all their uses. Measured on two cores:
// resnet20 and gpt on 8 replicas take 15% and 10% less with parts, cnn on 64
// takes 12% more, mlp and cnn on 8 are even.
enum { WORTH_NANOS = 40000, SHARE_NANOS = 5000, MERGED_BYTES_PER_NANO = 10 };

// Estimated nanoseconds of all lanes: on one core from one park to the next,
// and in total either way. `nanos` and `blocks` are of one lane.
typedef struct estimate {
  double nanos, blocks, merged;
  int64_t parks;
} estimate;

static estimate estimate_of(const ls_cpu_compiler *self, int64_t threads,
                            uint32_t begin, uint32_t end) {
  estimate sum = {.parks = 1};
  for (uint32_t i = begin; i < end; ++i) {
    const ls_cpu_instruction *at = &self->instructions[i];
    const ls_cpu_note *note = &self->origins[i].note;
    const double nanos = ls_cpu_team_nanos(note->flops, note->bytes);
    const bool by_team = at->code == LS_CPU_KERNEL && at->number != 0;
    sum.nanos += nanos;
    sum.blocks += by_team ? nanos / (double)threads + SHARE_NANOS : nanos;
    sum.parks += at->code == LS_CPU_WAIT || at->code == LS_CPU_MEET ||
                 at->code == LS_CPU_HOST_FINISH;
    if (at->code == LS_CPU_POST) {
      sum.merged += (double)self->storages[self->operands[at->operand]].size;
    }
  }
  return sum;
}

// Returns the percentage of the threads' time that parts of 2^shift lanes keep
// busy.
static int64_t fill_of(int64_t lanes, int64_t threads, uint32_t shift) {
  const int64_t parts = ((lanes - 1) >> shift) + 1;
  const int64_t rounds = (parts + threads - 1) / threads;
  return 100 * lanes / ((rounds << shift) * threads);
}

// Returns the number of this rank's lanes.
static int64_t lanes_of(const ls_cpu_compiler *self) {
  return ls_cpu_num_local(&self->share);
}

static bool parts_pay(const ls_cpu_compiler *self, const ls_cpu_launch *launch,
                      const estimate *lane, int64_t threads, int64_t fill) {
  const double sweep = lane->nanos / launch->num_bodies *
                       (double)lanes_of(self) / (double)lane->parks;
  const double parts = (lane->nanos + lane->merged / MERGED_BYTES_PER_NANO) *
                       100 / (double)(threads * fill);
  return sweep >= WORTH_NANOS && parts < lane->blocks;
}

static void set_parts(ls_cpu_compiler *self, ls_cpu_launch *launch,
                      uint32_t shift) {
  const uint32_t lanes = (uint32_t)self->share.replicas;
  launch->part_shift = shift;
  launch->num_parts = ((lanes - 1) >> shift) + 1;
  launch->part_depth =
      ls_cpu_merge_depth(launch->num_parts == 1 ? lanes : 1U << shift);
  launch->first_part = (uint32_t)self->share.first >> shift;
  launch->end_part = ((uint32_t)(self->share.end - 1) >> shift) + 1;
  if (launch->num_parts > self->out->num_parts) {
    self->out->num_parts = launch->num_parts;
  }
}

// Makes one part of this rank's lanes.
static void set_rank_part(ls_cpu_compiler *self, ls_cpu_launch *launch) {
  ls_cpu_leaf *leaves = ls_arena_new_array(&self->out->arena, ls_cpu_leaf,
                                           (size_t)lanes_of(self));
  if (!ls_cpu_has_memory(self, leaves != NULL)) return;
  launch->num_parts = (uint32_t)self->out->communicator->ranks;
  launch->part_shift = 31;
  launch->part_depth = ls_cpu_ranks_leaves(&self->share, leaves);
  launch->end_part = 1;
  launch->leaves = leaves;
  if (launch->num_parts > self->out->num_parts)
    self->out->num_parts = launch->num_parts;
}

// Returns the shift of parts for threads. Among equally even choices takes the
// largest parts, which have the fewest partial sums; but two parts per thread
// if possible: if one thread is delayed, another takes its second part.
static uint32_t find_shift(int64_t lanes, int64_t threads, uint32_t most) {
  uint32_t best = 0;
  for (uint32_t shift = 1; shift <= most && lanes >> shift > 0; ++shift)
    if (fill_of(lanes, threads, shift) >= fill_of(lanes, threads, best))
      best = shift;
  const bool is_better = best > 0 && fill_of(lanes, threads, best - 1) >=
                                         fill_of(lanes, threads, best);
  return is_better ? best - 1 : best;
}

void ls_cpu_choose_parts(ls_cpu_compiler *self, ls_cpu_launch *launch,
                         uint32_t begin, uint32_t end) {
  enum { ALL = 31 };  // One part, of any number of lanes.
  const ls_runtime *runtime = self->out->backend->runtime;
  const ls_lanes_by by = ls_debug_lanes(runtime);
  const int64_t threads = ls_runtime_threads(runtime);
  const int64_t lanes = lanes_of(self);
  const bool on_ranks = ls_cpu_has_remote(&self->share);
  const uint32_t most = on_ranks ? ls_cpu_ranks_shift(self->out->communicator,
                                                      self->share.replicas)
                                 : ALL;
  const uint32_t shift = find_shift(lanes, threads, most);
  const int64_t fill = fill_of(lanes, threads, shift);
  bool by_threads = by == LS_LANES_BY_THREADS;
  if (threads > 1 && by != LS_LANES_BY_BLOCKS && !by_threads) {
    const estimate lane = estimate_of(self, threads, begin, end);
    // On ranks many small parts would each keep a sum.
    by_threads = parts_pay(self, launch, &lane, threads, fill) &&
                 lanes >> most <= 2 * threads;
  }
  if (threads > 1 && by_threads)
    set_parts(self, launch, shift);
  else if (on_ranks)
    set_rank_part(self, launch);
  else
    set_parts(self, launch, ALL);
}
