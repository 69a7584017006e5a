// SPDX-License-Identifier: Apache-2.0
// Take, skip, shard and repeat of streams; concatenate and zip.
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
  if (most >= 0) self->done += count;
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
  const int64_t most = (INT64_MAX - before) / part->stride;
  self->done = 1;
  return ls_stage_skip(stage->inputs[0],
                       more < most ? before + more * part->stride : INT64_MAX);
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

// So many repetitions in a row without an element end a repeat: as each one
// reads its input to the end, many more would seem to hang.
enum { MOST_EMPTY = 1000 };

static ls_status repeated_next(ls_stage *stage, ls_nest *element) {
  repeat_stage *self = (repeat_stage *)stage;
  const int64_t times = times_of(stage);
  int num_empty = 0;
  while (times < 0 || self->time < times) {
    const ls_status status = ls_stage_next(stage->inputs[0], element);
    if (ls_status_code(status) != LS_OUT_OF_RANGE) {
      ++self->given;
      return status;
    }
    // Without an end, one that gives nothing would be repeated for ever.
    if (self->given == 0 && times < 0) return status;
    ls_status_free(status);
    num_empty += self->given == 0;
    if (times >= 0 && (self->time + 1 >= times || num_empty == MOST_EMPTY)) {
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

// ---- Concatenate -----------------------------------------------------------
typedef struct concatenate_stage {
  ls_stage stage;
  int64_t side;   // The input being read.
  int64_t given;  // Elements given by the first input.
} concatenate_stage;

static ls_status next_concatenated(ls_stage *stage, ls_nest *element) {
  concatenate_stage *self = (concatenate_stage *)stage;
  if (self->side == 0) {
    const ls_status status = ls_stage_next(stage->inputs[0], element);
    if (ls_status_code(status) != LS_OUT_OF_RANGE) {
      ++self->given;
      return status;
    }
    ls_status_free(status);
    LS_RETURN_IF_ERROR(ls_stage_restart(stage->inputs[1], stage->epoch));
    self->side = 1;
  }
  return ls_stage_next(stage->inputs[1], element);
}

static ls_status restart_concatenated(ls_stage *stage, int64_t epoch) {
  return ls_stage_restart(stage->inputs[0], epoch);
}

static ls_status save_concatenated(ls_stage *stage, ls_record *record) {
  const concatenate_stage *self = (const concatenate_stage *)stage;
  return ls_stage_save_input(stage, (size_t)self->side, record);
}

static ls_status restore_concatenated(ls_stage *stage,
                                      const ls_record *record) {
  concatenate_stage *self = (concatenate_stage *)stage;
  self->side = self->side != 0;
  return ls_stage_restore_input(stage, (size_t)self->side, record);
}

// Numbers of the second input follow those of the first.
static int64_t id_concatenated(const ls_stage *stage) {
  const concatenate_stage *self = (const concatenate_stage *)stage;
  const int64_t size = stage->dataset->inputs[0]->size;
  const int64_t id = ls_stage_id(stage->inputs[self->side]);
  if (self->side == 0) return id;
  return id + (size >= 0 ? size : self->given);
}

const ls_stage_class ls_concatenate_stage = {
    .size = sizeof(concatenate_stage),
    .counters = {LS_STAGE_COUNTER(concatenate_stage, side),
                 LS_STAGE_COUNTER(concatenate_stage, given)},
    .next = next_concatenated,
    .restart = restart_concatenated,
    .save = save_concatenated,
    .restore = restore_concatenated,
    .id = id_concatenated};

// ---- Zip -------------------------------------------------------------------
typedef struct zip_stage {
  ls_stage stage;
  int64_t ended;   // An input has ended.
  ls_nests parts;  // The inputs' elements.
} zip_stage;

// Reads all inputs even after a failure, so that they stay aligned.
static ls_status next_zipped(ls_stage *stage, ls_nest *element) {
  zip_stage *self = (zip_stage *)stage;
  ls_nest *parts = self->parts.items;
  ls_status first = ls_ok();
  for (size_t i = 0; i < stage->num_inputs && !self->ended; ++i) {
    ls_status status = ls_stage_next(stage->inputs[i], &parts[i]);
    self->ended = ls_status_code(status) == LS_OUT_OF_RANGE;
    if (self->ended)
      ls_status_free(status);
    else
      first = ls_status_join(first, status);
  }
  if (!self->ended && ls_status_is_ok(first)) {
    const ls_nest packed =
        ls_zip_pack((const ls_zip_dataset *)stage->dataset, parts);
    memset(parts, 0, self->parts.count * sizeof(*parts));  // Owned by `packed`.
    return ls_element_replace(packed, element);
  }
  for (size_t i = 0; i < self->parts.count; ++i)
    ls_nest_release(ls_give(&parts[i]));
  if (!self->ended) return first;
  ls_status_free(first);
  return ls_out_of_range("one of the zipped data sets has ended");
}

static void close_zipped(ls_stage *stage) {
  ls_nests_deinit(&((zip_stage *)stage)->parts);
}

static ls_status open_zipped(ls_stage *stage) {
  return ls_nests_init(&((zip_stage *)stage)->parts, stage->work->allocator,
                       stage->num_inputs);
}

const ls_stage_class ls_zip_stage = {
    .size = sizeof(zip_stage),
    .counters = {LS_STAGE_COUNTER(zip_stage, ended)},
    .open = open_zipped,
    .next = next_zipped,
    .skip = ls_stage_skip_inputs,
    .close = close_zipped};
