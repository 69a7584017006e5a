// SPDX-License-Identifier: Apache-2.0
// Parts of batches that come in a stream.
#include "base/memory/own.h"
#include "data/streams.h"

static ls_status next_parts(ls_stage *stage, ls_nest *element) {
  LS_OWN(ls_nest, whole) = ls_none();
  // A batch that fails may have taken memory.
  LS_RETURN_IF_ERROR(ls_stage_next(stage->inputs[0], &whole));
  return ls_parts_split(stage->dataset, whole, element);
}

static ls_status restart_parts(ls_stage *stage, int64_t epoch) {
  return ls_stage_restart(stage->inputs[0], epoch);
}

static ls_status save_parts(ls_stage *stage, ls_record *record) {
  return ls_stage_save_input(stage, 0, record);
}

static ls_status restore_parts(ls_stage *stage, const ls_record *record) {
  return ls_stage_restore_input(stage, 0, record);
}

static ls_status skip_parts(ls_stage *stage, int64_t count) {
  return ls_stage_skip(stage->inputs[0], count);
}

static const ls_stage_class parts_class = {.next = next_parts,
                                           .restart = restart_parts,
                                           .save = save_parts,
                                           .restore = restore_parts,
                                           .skip = skip_parts};

ls_status ls_stream_open_parts(ls_dataset *dataset, ls_work *work,
                               ls_stage **out_stage) {
  return ls_stage_new(&parts_class, sizeof(ls_stage), dataset, work, false,
                      out_stage);
}
