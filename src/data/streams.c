// SPDX-License-Identifier: Apache-2.0
// Stages of streams.
#include "data/streams.h"

static ls_status unavailable(const ls_dataset *dataset) {
  return LS_STATUS(LS_UNIMPLEMENTED, "'%s' of a stream", dataset->kind->name);
}

ls_status ls_stream_open_take(ls_dataset *dataset, ls_work *work,
                              ls_stage **out_stage) {
  (void)work;
  *out_stage = NULL;
  return unavailable(dataset);
}

ls_status ls_stream_open_skip(ls_dataset *dataset, ls_work *work,
                              ls_stage **out_stage) {
  (void)work;
  *out_stage = NULL;
  return unavailable(dataset);
}

ls_status ls_stream_open_shard(ls_dataset *dataset, ls_work *work,
                               ls_stage **out_stage) {
  (void)work;
  *out_stage = NULL;
  return unavailable(dataset);
}

ls_status ls_stream_open_repeat(ls_dataset *dataset, ls_work *work,
                                ls_stage **out_stage) {
  (void)work;
  *out_stage = NULL;
  return unavailable(dataset);
}

ls_status ls_stream_open_shuffle(ls_dataset *dataset, ls_work *work,
                                 ls_stage **out_stage) {
  (void)work;
  *out_stage = NULL;
  return unavailable(dataset);
}

ls_status ls_stream_open_map(ls_dataset *dataset, ls_work *work,
                             ls_stage **out_stage) {
  (void)work;
  *out_stage = NULL;
  return unavailable(dataset);
}

ls_status ls_stream_open_convert(ls_dataset *dataset, ls_work *work,
                                 ls_stage **out_stage) {
  (void)work;
  *out_stage = NULL;
  return unavailable(dataset);
}

ls_status ls_stream_open_concatenate(ls_dataset *dataset, ls_work *work,
                                     ls_stage **out_stage) {
  (void)work;
  *out_stage = NULL;
  return unavailable(dataset);
}

ls_status ls_stream_open_zip(ls_dataset *dataset, ls_work *work,
                             ls_stage **out_stage) {
  (void)work;
  *out_stage = NULL;
  return unavailable(dataset);
}

ls_status ls_stream_open_batch(ls_dataset *dataset, ls_work *work,
                               ls_stage **out_stage) {
  (void)work;
  *out_stage = NULL;
  return unavailable(dataset);
}

ls_status ls_stream_open_prefetch(ls_dataset *dataset, ls_work *work,
                                  ls_stage **out_stage) {
  (void)work;
  *out_stage = NULL;
  return unavailable(dataset);
}
