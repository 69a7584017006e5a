// SPDX-License-Identifier: Apache-2.0
// Streams behind each other, and beside each other.
#include "data/streams.h"

// ---- Concatenate -----------------------------------------------------------
typedef struct concatenate_stage {
  ls_stage stage;
  int64_t side;   // The input that is read.
  int64_t given;  // Elements of the first.
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
  concatenate_stage *self = (concatenate_stage *)stage;
  self->side = self->given = 0;
  return ls_stage_restart(stage->inputs[0], epoch);
}

static ls_status save_concatenated(ls_stage *stage, ls_record *record) {
  const concatenate_stage *self = (const concatenate_stage *)stage;
  LS_RETURN_IF_ERROR(ls_record_set_i64(record, "side", self->side));
  LS_RETURN_IF_ERROR(ls_record_set_i64(record, "given", self->given));
  return ls_stage_save_input(stage, (size_t)self->side, record);
}

static ls_status restore_concatenated(ls_stage *stage,
                                      const ls_record *record) {
  concatenate_stage *self = (concatenate_stage *)stage;
  LS_RETURN_IF_ERROR(ls_stage_get_count(record, "side", &self->side));
  LS_RETURN_IF_ERROR(ls_stage_get_count(record, "given", &self->given));
  self->side = self->side != 0;
  return ls_stage_restore_input(stage, (size_t)self->side, record);
}

// The second's numbers are behind the first's.
static int64_t id_concatenated(const ls_stage *stage) {
  const concatenate_stage *self = (const concatenate_stage *)stage;
  const int64_t size = stage->dataset->inputs[0]->size;
  const int64_t id = ls_stage_id(stage->inputs[self->side]);
  if (self->side == 0) return id;
  return id + (size >= 0 ? size : self->given);
}

ls_status ls_stream_open_concatenate(ls_dataset *dataset, ls_work *work,
                                     ls_stage **out_stage) {
  static const ls_stage_class kind = {.next = next_concatenated,
                                      .restart = restart_concatenated,
                                      .save = save_concatenated,
                                      .restore = restore_concatenated,
                                      .id = id_concatenated};
  return ls_stage_new(&kind, sizeof(concatenate_stage), dataset, work, false,
                      out_stage);
}

// ---- Zip -------------------------------------------------------------------
typedef struct zip_stage {
  ls_stage stage;
  bool ended;      // One of them has.
  ls_nest *parts;  // Room for the inputs' elements.
} zip_stage;

// All are read also where one fails, so that they stay beside each other.
static ls_status next_zipped(ls_stage *stage, ls_nest *element) {
  zip_stage *self = (zip_stage *)stage;
  const size_t count = stage->num_inputs;
  ls_status first = ls_ok();
  for (size_t i = 0; i < count; ++i)
    self->parts[i] = ls_none();
  for (size_t i = 0; i < count && !self->ended; ++i) {
    ls_status status = ls_stage_next(stage->inputs[i], &self->parts[i]);
    self->ended = ls_status_code(status) == LS_OUT_OF_RANGE;
    if (self->ended)
      ls_status_free(status);
    else
      first = ls_status_join(first, status);
  }
  if (!self->ended && ls_status_is_ok(first))
    return ls_element_replace(
        ls_zip_pack((const ls_zip_dataset *)stage->dataset, self->parts),
        element);
  for (size_t i = 0; i < count; ++i)
    ls_nest_release(self->parts[i]);
  if (!self->ended) return first;
  ls_status_free(first);
  return ls_out_of_range("one of the data sets beside each other has ended");
}

static ls_status restart_zipped(ls_stage *stage, int64_t epoch) {
  ((zip_stage *)stage)->ended = false;
  for (size_t i = 0; i < stage->num_inputs; ++i)
    LS_RETURN_IF_ERROR(ls_stage_restart(stage->inputs[i], epoch));
  return ls_ok();
}

static ls_status save_zipped(ls_stage *stage, ls_record *record) {
  LS_RETURN_IF_ERROR(
      ls_record_set_i64(record, "ended", ((zip_stage *)stage)->ended));
  for (size_t i = 0; i < stage->num_inputs; ++i)
    LS_RETURN_IF_ERROR(ls_stage_save_input(stage, i, record));
  return ls_ok();
}

static ls_status restore_zipped(ls_stage *stage, const ls_record *record) {
  int64_t ended = 0;
  LS_RETURN_IF_ERROR(ls_stage_get_count(record, "ended", &ended));
  ((zip_stage *)stage)->ended = ended != 0;
  for (size_t i = 0; i < stage->num_inputs; ++i)
    LS_RETURN_IF_ERROR(ls_stage_restore_input(stage, i, record));
  return ls_ok();
}

static ls_status skip_zipped(ls_stage *stage, int64_t count) {
  for (size_t i = 0; i < stage->num_inputs; ++i)
    LS_RETURN_IF_ERROR(ls_stage_skip(stage->inputs[i], count));
  return ls_ok();
}

static void close_zipped(ls_stage *stage) {
  ls_release(stage->work->allocator, ((zip_stage *)stage)->parts);
}

ls_status ls_stream_open_zip(ls_dataset *dataset, ls_work *work,
                             ls_stage **out_stage) {
  static const ls_stage_class kind = {.next = next_zipped,
                                      .restart = restart_zipped,
                                      .save = save_zipped,
                                      .restore = restore_zipped,
                                      .skip = skip_zipped,
                                      .close = close_zipped};
  ls_stage *stage = NULL;
  *out_stage = NULL;
  LS_RETURN_IF_ERROR(
      ls_stage_new(&kind, sizeof(zip_stage), dataset, work, false, &stage));
  zip_stage *self = (zip_stage *)stage;
  self->parts = ls_new_array(work->allocator, ls_nest, stage->num_inputs);
  if (self->parts == NULL) {
    ls_stage_close(stage);
    return ls_out_of_memory();
  }
  *out_stage = stage;
  return ls_ok();
}
