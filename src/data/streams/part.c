// SPDX-License-Identifier: Apache-2.0
// Take, skip and shard of streams.
#include "data/streams.h"

typedef struct part_stage {
  ls_stage stage;
  int64_t done;  // Of take: elements given. Else whether it has begun.
} part_stage;

static const ls_part_dataset *part_of(const ls_stage *stage) {
  return (const ls_part_dataset *)stage->dataset;
}

static ls_status part_restart(ls_stage *stage, int64_t epoch) {
  ((part_stage *)stage)->done = 0;
  return ls_stage_restart(stage->inputs[0], epoch);
}

static ls_status part_save(ls_stage *stage, ls_record *record) {
  LS_RETURN_IF_ERROR(
      ls_record_set_i64(record, "done", ((part_stage *)stage)->done));
  return ls_stage_save_input(stage, 0, record);
}

static ls_status part_restore(ls_stage *stage, const ls_record *record) {
  LS_RETURN_IF_ERROR(
      ls_stage_get_count(record, "done", &((part_stage *)stage)->done));
  return ls_stage_restore_input(stage, 0, record);
}

static ls_status open_part(const ls_stage_class *kind, ls_dataset *dataset,
                           ls_work *work, ls_stage **out_stage) {
  return ls_stage_new(kind, sizeof(part_stage), dataset, work, false,
                      out_stage);
}

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

ls_status ls_stream_open_take(ls_dataset *dataset, ls_work *work,
                              ls_stage **out_stage) {
  static const ls_stage_class kind = {.next = next_taken,
                                      .restart = part_restart,
                                      .save = part_save,
                                      .restore = part_restore,
                                      .skip = skip_taken};
  return open_part(&kind, dataset, work, out_stage);
}

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

ls_status ls_stream_open_skip(ls_dataset *dataset, ls_work *work,
                              ls_stage **out_stage) {
  static const ls_stage_class kind = {.next = next_skipped,
                                      .restart = part_restart,
                                      .save = part_save,
                                      .restore = part_restore,
                                      .skip = skip_skipped};
  return open_part(&kind, dataset, work, out_stage);
}

// ---- Shard -----------------------------------------------------------------
// Goes to its next element, which is behind `more` others of it.
static ls_status go_to(ls_stage *stage, int64_t more) {
  part_stage *self = (part_stage *)stage;
  const ls_part_dataset *part = part_of(stage);
  const int64_t before = self->done == 0 ? part->first : part->stride - 1;
  self->done = 1;
  return ls_stage_skip(stage->inputs[0], before + more * part->stride);
}

static ls_status next_sharded(ls_stage *stage, ls_nest *element) {
  LS_RETURN_IF_ERROR(go_to(stage, 0));
  return ls_stage_next(stage->inputs[0], element);
}

static ls_status skip_sharded(ls_stage *stage, int64_t count) {
  if (count <= 0) return ls_ok();
  LS_RETURN_IF_ERROR(go_to(stage, count - 1));
  return ls_stage_skip(stage->inputs[0], 1);
}

ls_status ls_stream_open_shard(ls_dataset *dataset, ls_work *work,
                               ls_stage **out_stage) {
  static const ls_stage_class kind = {.next = next_sharded,
                                      .restart = part_restart,
                                      .save = part_save,
                                      .restore = part_restore,
                                      .skip = skip_sharded};
  return open_part(&kind, dataset, work, out_stage);
}
