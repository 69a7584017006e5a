// SPDX-License-Identifier: Apache-2.0
// Concatenate and zip of streams.
#include "data/streams.h"

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
