// SPDX-License-Identifier: Apache-2.0
// Take, skip, shard and repeat of streams.
#include "data/streams.h"

typedef struct part_stage {
  ls_stage stage;
  int64_t done;  // Take: elements given. Other stages: 1 after a read.
} part_stage;

static const ls_part_dataset *part_of(const ls_stage *stage) {
  return (const ls_part_dataset *)stage->dataset;
}

#define PART_STAGE                                                             \
  .size = sizeof(part_stage), .counters = {LS_STAGE_COUNTER(part_stage, done)}

// ---- Take ------------------------------------------------------------------
static ls_status next_taken(ls_stage *stage, ls_nest *element) {
  part_stage *self = (part_stage *)stage;
  const int64_t count = part_of(stage)->count;
  if (count >= 0 && self->done >= count)
    return ls_out_of_range("all %lld elements are taken", (long long)count);
  const ls_status status = ls_stage_next(stage->inputs[0], element);
  self->done += ls_status_code(status) != LS_OUT_OF_RANGE;
  return status;
}

static ls_status skip_taken(ls_stage *stage, int64_t count) {
  part_stage *self = (part_stage *)stage;
  const int64_t most = part_of(stage)->count;
  if (most >= 0 && count > most - self->done) count = most - self->done;
  self->done += count;
  return ls_stage_skip(stage->inputs[0], count);
}

const ls_stage_class ls_take_stage = {PART_STAGE, .next = next_taken,
                                      .skip = skip_taken};

// ---- Skip ------------------------------------------------------------------
static ls_status skip_skipped(ls_stage *stage, int64_t count) {
  part_stage *self = (part_stage *)stage;
  if (self->done == 0) {
    LS_RETURN_IF_ERROR(ls_stage_skip(stage->inputs[0], part_of(stage)->first));
    self->done = 1;
  }
  return count > 0 ? ls_stage_skip(stage->inputs[0], count) : ls_ok();
}

static ls_status next_skipped(ls_stage *stage, ls_nest *element) {
  if (part_of(stage)->first < 0)
    return ls_out_of_range("all elements are skipped");
  LS_RETURN_IF_ERROR(skip_skipped(stage, 0));
  return ls_stage_next(stage->inputs[0], element);
}

const ls_stage_class ls_skip_stage = {PART_STAGE, .next = next_skipped,
                                      .skip = skip_skipped};

// ---- Shard -----------------------------------------------------------------
// Goes to the shard's next element, past `more` others of the shard.
static ls_status go_to_element(ls_stage *stage, int64_t more) {
  part_stage *self = (part_stage *)stage;
  const ls_part_dataset *part = part_of(stage);
  const int64_t before = self->done == 0 ? part->first : part->stride - 1;
  self->done = 1;
  return ls_stage_skip(stage->inputs[0], before + more * part->stride);
}

static ls_status next_sharded(ls_stage *stage, ls_nest *element) {
  LS_RETURN_IF_ERROR(go_to_element(stage, 0));
  return ls_stage_next(stage->inputs[0], element);
}

static ls_status skip_sharded(ls_stage *stage, int64_t count) {
  if (count <= 0) return ls_ok();
  LS_RETURN_IF_ERROR(go_to_element(stage, count - 1));
  return ls_stage_skip(stage->inputs[0], 1);
}

const ls_stage_class ls_shard_stage = {PART_STAGE, .next = next_sharded,
                                       .skip = skip_sharded};

// ---- Repeat ----------------------------------------------------------------
// Repeats its input: each repetition is an epoch of the input.
typedef struct repeat_stage {
  ls_stage stage;
  int64_t time;   // The repetition being read.
  int64_t given;  // Elements read of the repetition; the last one has none.
} repeat_stage;

static int64_t times_of(const ls_stage *stage) {
  return ((const ls_repeat_dataset *)stage->dataset)->times;
}

// Numbers epochs as repeats of indexed data sets do.
static ls_status enter_time(ls_stage *stage, int64_t time) {
  const int64_t times = times_of(stage);
  const uint64_t each = times > 0 ? (uint64_t)times : INT32_MAX;
  ((repeat_stage *)stage)->time = time;
  ((repeat_stage *)stage)->given = 0;
  return ls_stage_restart(
      stage->inputs[0],
      (int64_t)((uint64_t)stage->epoch * each + (uint64_t)time));
}

static ls_status repeated_next(ls_stage *stage, ls_nest *element) {
  repeat_stage *self = (repeat_stage *)stage;
  const int64_t times = times_of(stage);
  while (times < 0 || self->time < times) {
    const ls_status status = ls_stage_next(stage->inputs[0], element);
    if (ls_status_code(status) != LS_OUT_OF_RANGE) {
      ++self->given;
      return status;
    }
    if (self->given == 0) return status;
    ls_status_free(status);
    if (times >= 0 && self->time + 1 >= times) {
      self->time = times;
      break;
    }
    LS_RETURN_IF_ERROR(enter_time(stage, self->time + 1));
  }
  return ls_out_of_range("all %lld times are read", (long long)times);
}

static ls_status repeated_restart(ls_stage *stage, int64_t epoch) {
  (void)epoch;
  return enter_time(stage, 0);
}

const ls_stage_class ls_repeat_stage = {
    .size = sizeof(repeat_stage),
    .counters = {LS_STAGE_COUNTER(repeat_stage, time),
                 LS_STAGE_COUNTER(repeat_stage, given)},
    .next = repeated_next,
    .restart = repeated_restart};
