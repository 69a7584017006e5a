// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/run/lanes.h"

#include "base/runtime_internal.h"
#include "base/threads/workers.h"
#include "engine/cpu/run/ranks.h"
#include "engine/cpu/run/sums.h"

// ---- Launching -------------------------------------------------------------
// Copies the bases of this run from the caller to the other workers; the
// remaining bases are set per lane, or once for good.
static void share_bases(ls_instance *self) {
  const ls_executable *executable = self->executable;
  const uint32_t first = ls_cpu_base_inputs();
  const size_t size = (ls_cpu_base_split(executable) - first) * sizeof(char *);
  for (int i = 1; i < self->num_workers; ++i) {
    memcpy(self->workers[i].bases + first, self->workers[0].bases + first,
           size);
  }
}

static void reset_part(ls_instance *self, const ls_cpu_launch *launch,
                       uint32_t number) {
  ls_cpu_part *part = &self->parts[number];
  part->num_running = ls_cpu_part_count(launch, number);
  part->num_posts = 0;
  for (uint32_t i = 0; i < launch->num_slots; ++i)
    LS_CPU_SET(part->arrived[launch->first_slot + i], 0);
}

void ls_cpu_launch_lanes(ls_instance *self,
                         const ls_cpu_instruction *instruction) {
  const ls_cpu_launch *launch = instruction->params;
  const uint32_t own = ls_cpu_num_local(&launch->share);
  for (uint32_t i = 0; i < own; ++i) {
    ls_cpu_stream *lane = &self->lanes[i];
    LS_CPU_SET(lane->pc, instruction->target);
    lane->replica = launch->share.first + (int32_t)i;
    lane->iteration = self->main.iteration;
    lane->step = self->main.step;
    LS_CPU_SET(lane->has_ended, false);
    lane->is_early = false;
  }
  for (uint32_t i = 0; i < launch->num_slots; ++i)
    self->slots[launch->first_slot + i] = (ls_cpu_slot){0};
  for (uint32_t i = launch->first_part; i < launch->end_part; ++i)
    reset_part(self, launch, i);
  if (launch->num_parts > 1) share_bases(self);
  self->published = 0;
  LS_CPU_SET(self->launch, instruction);
  LS_CPU_SET(self->num_running, own);
}

// ---- Merging ---------------------------------------------------------------
// Returns the stack of partial sums of a part of this rank.
static char *part_stack(const ls_cpu_launch *launch, const ls_cpu_merge *merge,
                        char *partials, uint32_t part) {
  return partials + (size_t)(part - launch->first_part) * launch->part_depth *
                        merge->stride;
}

// Copies the gathered rows from the staging buffer, once all are there.
static void copy_staged(const ls_cpu_merge *merge, const void *staging,
                        void *result) {
  if (staging != NULL) memcpy(result, staging, merge->offsets[merge->replicas]);
}

// Adds a lane's value to those of its part. With one part, the last lane also
// makes the result.
static void add_value(const ls_instance *self, const ls_cpu_worker *worker,
                      const ls_cpu_instruction *instruction,
                      ls_kernel_call *call, void *const *operands) {
  const ls_cpu_launch *launch = self->launch->params;
  const ls_cpu_merge *merge = instruction->params;
  const bool has_one_part = launch->num_parts == 1;
  const ls_cpu_leaf *leaf = &worker->leaf;
  const bool is_staged = merge->offsets != NULL && instruction->num_out > 2;
  void *wide = is_staged || merge->widen.loop != NULL ? operands[3] : NULL;
  if (merge->offsets != NULL) {
    ls_cpu_merge_put(merge,
                     ls_cpu_part_first(launch, worker->part) + leaf->index,
                     operands[0], wide != NULL ? wide : operands[2]);
    if (has_one_part && leaf->index + 1 == leaf->count)
      copy_staged(merge, wide, operands[2]);
    return;
  }
  void *sum = has_one_part ? ls_cpu_merge_sum(merge, operands[2]) : NULL;
  char *stack = part_stack(launch, merge, operands[1], worker->part);
  ls_cpu_merge_add(merge, call, leaf, operands[0], stack, sum, wide);
  if (has_one_part && leaf->index + 1 == leaf->count)
    ls_cpu_merge_end(merge, call, stack, operands[2]);
}

bool ls_cpu_post(ls_instance *self, ls_cpu_worker *worker, ls_cpu_stream *lane,
                 const ls_cpu_instruction *instruction, ls_kernel_call *call,
                 void *const *operands) {
  const ls_cpu_launch *launch = self->launch->params;
  const uint32_t number = instruction->number;
  ls_cpu_slot *slot = &self->slots[number];
  ls_cpu_part *part = &self->parts[worker->part];
  const ls_cpu_leaf *leaf = &worker->leaf;
  if (part->arrived[number] != leaf->index) {
    lane->is_early = true;
    return false;
  }
  if (lane->is_early) {
    ls_cpu_worker_fail(
        worker, ls_cpu_annotate_merge(
                    self, instruction,
                    ls_internal("lower replicas have overwritten the value of "
                                "replica %d",
                                lane->replica)));
    return false;
  }
  lane->generation = slot->generation;
  lane->round = self->round;
  LS_CPU_SET(part->arrived[number], leaf->index + 1);
  add_value(self, worker, instruction, call, operands);
  if (leaf->index + 1 < leaf->count) return true;
  if (leaf->count < (uint32_t)launch->share.replicas) {
    part->posts[part->num_posts++] =
        (uint32_t)(instruction - self->executable->instructions);
    return true;
  }
  LS_CPU_SET(part->arrived[number], 0);
  ++slot->generation;
  return true;
}

// Exchanges the sums of this rank's subtrees, and adds up all ranks'.
static ls_status exchange_sums(ls_instance *self,
                               const ls_cpu_instruction *post,
                               const ls_cpu_parts *parts, void *result) {
  const ls_executable *executable = self->executable;
  const ls_cpu_launch *launch = self->launch->params;
  const ls_cpu_merge *merge = post->params;
  const ls_cpu_sums *sums = merge->sums;
  const size_t distance =
      launch->leaves != NULL ? merge->stride : parts->stride;
  void **operands = self->flights[sums->index].operands;
  for (uint32_t i = 0, own = 0; i < sums->num_subtrees; ++i) {
    const ls_cpu_subtree *subtree = &sums->subtrees[i];
    const uint32_t part = subtree->first >> launch->part_shift;
    if (subtree->rank != executable->communicator->rank) continue;
    *operands++ =
        parts->stacks +
        (launch->leaves != NULL ? own : part - parts->first) * distance;
    ++own;
  }
  *operands++ = ls_cpu_resolve(
      &self->workers[0],
      executable->places[post->operand + post->num_in + post->num_out - 1]);
  *operands = result;
  ls_status status =
      ls_cpu_sums_start(self, sums, post, self->slots[post->number].generation);
  if (ls_status_is_ok(status)) status = ls_cpu_sums_finish(self, sums);
  return ls_cpu_annotate_merge(self, post, status);
}

// Adds up the values that all parts have posted to a slot, or copies the
// gathered rows to the result.
static ls_status merge_parts(ls_instance *self,
                             const ls_cpu_instruction *post) {
  const ls_cpu_worker *caller = &self->workers[0];
  const ls_cpu_launch *launch = self->launch->params;
  const ls_cpu_merge *merge = post->params;
  const bool is_alone = self->executable->communicator == NULL;
  const ls_cpu_place *outs =
      self->executable->places + post->operand + post->num_in;
  char *stacks = ls_cpu_resolve(caller, outs[0]);
  void *result = ls_cpu_resolve(caller, outs[1]);
  if (merge->offsets != NULL) {
    copy_staged(merge,
                post->num_out > 2 ? ls_cpu_resolve(caller, outs[2]) : NULL,
                result);
    return is_alone ? ls_ok() : ls_cpu_exchange_rows(self, post, result);
  }
  ls_kernel_call call = {.scratch = self->team.scratch, .team = &self->team};
  const ls_cpu_parts parts = {stacks, launch->part_depth * merge->stride,
                              launch->first_part, launch->num_parts};
  void *sum = ls_cpu_merge_sum(merge, result);
  ls_cpu_merge_parts(merge, &call, &parts, launch->first_part, launch->end_part,
                     sum);
  if (merge->sums != NULL) return exchange_sums(self, post, &parts, result);
  ls_cpu_merge_end(merge, &call, stacks, result);
  return ls_ok();
}

static void complete_slot(ls_instance *self, const ls_cpu_instruction *post) {
  const ls_cpu_launch *launch = self->launch->params;
  ls_cpu_slot *slot = &self->slots[post->number];
  ls_status status = merge_parts(self, post);
  if (!ls_status_is_ok(status)) ls_cpu_worker_fail(&self->workers[0], status);
  ++slot->generation;
  slot->parts = 0;
  for (uint32_t i = launch->first_part; i < launch->end_part; ++i)
    LS_CPU_SET(self->parts[i].arrived[post->number], 0);
}

// Merges the slots that the last round has completed in all parts.
static void merge_completed(ls_instance *self) {
  const ls_cpu_launch *launch = self->launch->params;
  const uint32_t num_parts = launch->end_part - launch->first_part;
  for (uint32_t i = launch->first_part; i < launch->end_part; ++i) {
    ls_cpu_part *part = &self->parts[i];
    for (uint32_t k = 0; k < part->num_posts; ++k) {
      const uint32_t pc = part->posts[k];
      const ls_cpu_instruction *post = &self->executable->instructions[pc];
      ls_cpu_cost *cost = self->workers[0].costs;
      const ls_runtime *clock = self->executable->backend->runtime;
      const int64_t begin = cost != NULL ? ls_runtime_now(clock) : 0;
      if (++self->slots[post->number].parts < num_parts) continue;
      complete_slot(self, post);
      if (cost == NULL) continue;
      cost[pc].nanos += (uint64_t)(ls_runtime_now(clock) - begin);
    }
    part->num_posts = 0;
  }
}

// ---- Rounds ----------------------------------------------------------------
// Sets the destination of a lane's contributions: on the stack, the partial sum
// that the kernel adds to, or staging.
static void place_contributions(const ls_instance *self, ls_cpu_worker *worker,
                                const ls_cpu_launch *launch) {
  char **contributions =
      worker->bases + ls_cpu_base_contributions(self->executable);
  // With one part, the complete sum has a buffer of its own.
  const void *final_sum = launch->num_parts == 1 ? self : NULL;
  for (uint32_t i = 0; i < launch->num_contributions; ++i) {
    const ls_cpu_contribution *c = &launch->contributions[i];
    char *stack = part_stack(launch, c->merge,
                             ls_cpu_resolve(worker, c->partials), worker->part);
    char *target = ls_cpu_merge_top(c->merge, stack, &worker->leaf);
    worker->adds[i] = false;
    if (target == NULL && c->adds) {
      target = ls_cpu_merge_left(c->merge, stack, &worker->leaf, final_sum);
      worker->adds[i] = target != NULL;
    }
    contributions[i] =
        target != NULL ? target : ls_cpu_resolve(worker, c->staging);
  }
}

// Sets the bases of a lane's values: `narrow` values have a place per lane,
// `wide` ones are concatenated. Returns the next place.
static const ls_cpu_place *
find_values(const ls_executable *executable, const ls_cpu_worker *worker,
            const ls_cpu_share *share, uint32_t replica,
            const ls_cpu_place *place, uint32_t narrow, uint32_t wide,
            char **out_bases) {
  const uint32_t own = ls_cpu_num_local(share);
  const uint32_t lane = replica - (uint32_t)share->first;
  for (uint32_t i = 0; i < narrow; ++i, place += share->replicas)
    *out_bases++ = ls_cpu_resolve(worker, place[replica]);
  for (uint32_t i = 0; i < wide; ++i, ++place) {
    const size_t size = executable->place_sizes[place - executable->places];
    *out_bases++ = (char *)ls_cpu_resolve(worker, *place) + size / own * lane;
  }
  return place;
}

// Sets the bases that differ from lane to lane.
static void enter_lane(const ls_instance *self, ls_cpu_worker *worker,
                       uint32_t replica) {
  const ls_executable *executable = self->executable;
  const ls_cpu_instruction *instruction = self->launch;
  const ls_cpu_launch *launch = instruction->params;
  const ls_cpu_place *place = executable->places + instruction->operand;
  char **bases = worker->bases;
  bases[LS_CPU_BASE_FRAME] =
      self->frames +
      (replica - (uint32_t)launch->share.first) * self->frame_stride;
  place = find_values(executable, worker, &launch->share, replica, place,
                      launch->num_split, launch->num_wide_split,
                      bases + ls_cpu_base_split(executable));
  find_values(executable, worker, &launch->share, replica, place,
              launch->num_gathered, launch->num_wide_gathered,
              bases + ls_cpu_base_gathered(executable));
  place_contributions(self, worker, launch);
}

static void run_part(ls_instance *self, ls_cpu_worker *worker,
                     uint32_t number) {
  const ls_cpu_launch *launch = self->launch->params;
  ls_cpu_part *part = &self->parts[number];
  const uint32_t first = ls_cpu_part_first(launch, number);
  const uint32_t end = first + ls_cpu_part_count(launch, number);
  part->has_moved = false;
  worker->part = number;
  for (uint32_t r = first; r < end && ls_status_is_ok(worker->status); ++r) {
    ls_cpu_stream *lane = &self->lanes[r - (uint32_t)launch->share.first];
    if (lane->has_ended) continue;
    worker->leaf = launch->leaves != NULL
                       ? launch->leaves[r - first]
                       : ls_cpu_leaf_at(r - first, end - first);
    enter_lane(self, worker, r);
    if (ls_cpu_run_stream(self, worker, lane)) part->has_moved = true;
    part->num_running -= lane->has_ended;
  }
  part->status = worker->status;
  worker->status = NULL;
}

// Runs a worker's share of the parts, each instruction without a team.
static void run_parts(void *user, int index, int64_t begin, int64_t end) {
  ls_instance *self = user;
  ls_cpu_worker *worker = &self->workers[index];
  worker->team = &worker->alone;
  const ls_cpu_launch *launch = self->launch->params;
  for (int64_t i = begin; i < end; ++i)
    run_part(self, worker, launch->first_part + (uint32_t)i);
  worker->team = &self->team;
}

bool ls_cpu_run_round(ls_instance *self) {
  const int64_t began = ls_cpu_span_begin(self);
  const ls_cpu_launch *launch = self->launch->params;
  ++self->round;
  const uint32_t num_parts = launch->end_part - launch->first_part;
  if (num_parts == 1) {
    run_part(self, &self->workers[0], launch->first_part);
  } else if (self->num_workers == 1) {
    run_parts(self, 0, 0, num_parts);
  } else {
    ls_status status =
        ls_workers_share(self->team.workers, run_parts, self, num_parts);
    // No thread was available, and nothing was run.
    if (!ls_status_is_ok(status)) {
      ls_status_free(status);
      run_parts(self, 0, 0, num_parts);
    }
  }
  bool has_moved = false;
  uint32_t num_running = 0;
  for (uint32_t i = launch->first_part; i < launch->end_part; ++i) {
    ls_cpu_part *part = &self->parts[i];
    has_moved |= part->has_moved;
    num_running += part->num_running;
    if (!ls_status_is_ok(part->status))
      ls_cpu_worker_fail(&self->workers[0], part->status);
  }
  LS_CPU_SET(self->num_running, num_running);
  if (launch->num_parts > 1 && ls_status_is_ok(self->workers[0].status))
    merge_completed(self);
  if (has_moved) ls_cpu_span_round(self, began);
  return has_moved;
}
