// SPDX-License-Identifier: Apache-2.0
// Private state of an open file of saved values.
#ifndef LS_STATE_SAVED_H_
#define LS_STATE_SAVED_H_

#include "io/npy.h"
#include "io/safetensors.h"
#include "io/zip.h"
#include "lockstep/saved_file.h"
#include "state/checkpoint_file.h"

// ---- The arrays of an npz file as entries ----------------------------------
typedef struct ls_saved_npz {
  ls_file *file;  // NULL: no npz file.
  ls_zip zip;
  ls_safetensors_entry *entries;  // `offset` is the number of the member.
  ls_npy_header *headers;         // One per entry, with file offsets if stored.
  size_t num_entries;
  ls_arena names;
} ls_saved_npz;

// ---- Open files ------------------------------------------------------------
struct ls_saved_file {
  ls_runtime *runtime;
  uint64_t number;  // Unique for each opening of a file.
  // A checkpoint; without a `root` only a safetensors file, in `values`.
  ls_checkpoint_file checkpoint;
  ls_saved_npz npz;  // Used instead for npz files.
  ls_value_source source;
  // Fields of a checkpoint.
  int64_t step, wall;
  ls_checkpoint_metric *metrics;
  size_t num_metrics;
};

// Lists the steps whose .json a folder has, ascending; the caller owns the
// list.
LS_MUST_USE ls_status ls_saved_find_steps(ls_runtime *runtime,
                                          const char *folder,
                                          int64_t **out_steps,
                                          size_t *out_count);
// Opens the newest undamaged checkpoint of a folder, with all values read;
// `logs`: logs newer ones that are damaged. `*out_file` is NULL if the folder
// has none or does not exist.
//   LS_DATA_LOSS         all are damaged
//   LS_INVALID_ARGUMENT  the path is a file
LS_MUST_USE ls_status ls_saved_newest_open(const char *folder, bool logs,
                                           ls_saved_file **out_file);

#endif  // LS_STATE_SAVED_H_
