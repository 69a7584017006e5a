// SPDX-License-Identifier: Apache-2.0
// An open file of saved values, inside.
#ifndef LS_STATE_SAVED_H_
#define LS_STATE_SAVED_H_

#include "io/npy.h"
#include "io/safetensors.h"
#include "io/zip.h"
#include "lockstep/saved_file.h"
#include "state/checkpoint_file.h"

// ---- The arrays of an npz file as entries ----------------------------------
typedef struct ls_saved_npz {
  ls_file *file;  // NULL: none.
  ls_zip zip;
  ls_safetensors_entry *entries;  // `offset` is the member's number.
  ls_npy_header *headers;         // Of each entry; offsets are the file's where
                                  // its member is stored as it is.
  size_t num_entries;
  ls_arena names;
} ls_saved_npz;

// Tells whether a file begins as npz files do.
LS_MUST_USE ls_status ls_saved_npz_is(const ls_file *file, bool *out_is);
// Takes over the file, also where it fails; then it is as zeroed.
//   LS_INVALID_ARGUMENT  a member that is no array of numbers, or two of one
//                        name.
LS_MUST_USE ls_status ls_saved_npz_open(ls_file *file, ls_saved_npz *out);
void ls_saved_npz_close(ls_saved_npz *npz);  // Zeroed is fine.

// Reads an entry's elements and compares its checksum.
LS_MUST_USE ls_status ls_saved_npz_get(const ls_saved_npz *npz,
                                       const ls_safetensors_entry *entry,
                                       void *data);

// ---- Open files ------------------------------------------------------------
struct ls_saved_file {
  ls_runtime *runtime;
  uint64_t number;  // Of the open file: opened again it has another one.
  // A checkpoint; without a `root` a safetensors file alone, in `values`.
  ls_checkpoint_file checkpoint;
  ls_saved_npz npz;  // Or this.
  ls_value_source source;
  // Fields of a checkpoint.
  int64_t step, wall;
  ls_checkpoint_metric *metrics;
  size_t num_metrics;
};

// Lists the steps that a folder has the .json of, ascending: the caller's.
LS_MUST_USE ls_status ls_saved_find_steps(ls_runtime *runtime,
                                          const char *folder,
                                          int64_t **out_steps,
                                          size_t *out_count);
// Opens the newest undamaged checkpoint of a folder, with all values read.
// Newer ones that are damaged are passed over, which `logs` logs. `*out_file`
// is NULL if the folder has none or does not exist.
//   LS_DATA_LOSS         all are damaged
//   LS_INVALID_ARGUMENT  the path is a file
LS_MUST_USE ls_status ls_saved_newest_open(const char *folder, bool logs,
                                           ls_saved_file **out_file);

#endif  // LS_STATE_SAVED_H_
