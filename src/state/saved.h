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

// Finds out if a file begins like an npz file.
LS_MUST_USE ls_status ls_saved_npz_is(const ls_file *file, bool *out_is);
// Opens an npz file; takes `file` over, also on failure, which leaves `out`
// zeroed.
//   LS_INVALID_ARGUMENT  a member that is no array of numbers, or two of one
//                        name.
LS_MUST_USE ls_status ls_saved_npz_open(ls_file *file, ls_saved_npz *out);
void ls_saved_npz_close(ls_saved_npz *npz);  // Accepts a zeroed file.

// Reads an entry's elements and verifies its checksum.
LS_MUST_USE ls_status ls_saved_npz_get(const ls_saved_npz *npz,
                                       const ls_safetensors_entry *entry,
                                       void *data);

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
