// SPDX-License-Identifier: Apache-2.0
// An open file of saved values, inside.
#ifndef LS_STATE_SAVED_H_
#define LS_STATE_SAVED_H_

#include "lockstep/saved_file.h"
#include "state/checkpoint_file.h"
#include "state/saved_npz.h"

struct ls_saved_file {
  ls_runtime *runtime;
  uint64_t number;  // Of the open file: opened again it has another one.
  // A checkpoint; without a `root` a safetensors file alone, in `values`.
  ls_checkpoint_file checkpoint;
  ls_saved_npz npz;  // Or this.
  ls_value_source source;
  // Of a checkpoint.
  int64_t step, wall;
  ls_checkpoint_metric *metrics;
  size_t num_metrics;
};

// The steps that a folder has the .json of, in ascending order: the caller's.
LS_MUST_USE ls_status ls_saved_find_steps(ls_runtime *runtime,
                                          const char *folder,
                                          int64_t **out_steps,
                                          size_t *out_count);
// Opens the newest checkpoint of a folder that is whole; all its values have
// been read. Newer ones that are damaged are passed over, of which the log is
// told with `tells`. `*out_file` NULL: the folder has none, or is not there.
//   LS_DATA_LOSS         there are some, and none is whole.
//   LS_INVALID_ARGUMENT  it is a file.
LS_MUST_USE ls_status ls_saved_newest_open(const char *folder, bool tells,
                                           ls_saved_file **out_file);

#endif  // LS_STATE_SAVED_H_
