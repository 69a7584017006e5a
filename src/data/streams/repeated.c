// SPDX-License-Identifier: Apache-2.0
// Repeat of streams: its times are epochs of the input.
#include "data/streams.h"

typedef struct repeat_stage {
  ls_stage stage;
  int64_t time;   // Which one is read.
  int64_t given;  // Elements of it: one without any is the last.
} repeat_stage;

static int64_t times_of(const ls_stage *stage) {
  return ((const ls_repeat_dataset *)stage->dataset)->times;
}

// The same as of indexed ones.
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

static ls_status repeated_save(ls_stage *stage, ls_record *record) {
  const repeat_stage *self = (const repeat_stage *)stage;
  LS_RETURN_IF_ERROR(ls_record_set_i64(record, "time", self->time));
  LS_RETURN_IF_ERROR(ls_record_set_i64(record, "given", self->given));
  return ls_stage_save_input(stage, 0, record);
}

static ls_status repeated_restore(ls_stage *stage, const ls_record *record) {
  repeat_stage *self = (repeat_stage *)stage;
  LS_RETURN_IF_ERROR(ls_stage_get_count(record, "time", &self->time));
  LS_RETURN_IF_ERROR(ls_stage_get_count(record, "given", &self->given));
  return ls_stage_restore_input(stage, 0, record);
}

ls_status ls_stream_open_repeat(ls_dataset *dataset, ls_work *work,
                                ls_stage **out_stage) {
  static const ls_stage_class kind = {.next = repeated_next,
                                      .restart = repeated_restart,
                                      .save = repeated_save,
                                      .restore = repeated_restore};
  return ls_stage_new(&kind, sizeof(repeat_stage), dataset, work, false,
                      out_stage);
}
