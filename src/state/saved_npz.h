// SPDX-License-Identifier: Apache-2.0
// The arrays of an npz file as entries of saved values.
#ifndef LS_STATE_SAVED_NPZ_H_
#define LS_STATE_SAVED_NPZ_H_

#include "io/npy.h"
#include "io/safetensors.h"
#include "io/zip.h"

typedef struct ls_saved_npz {
  ls_file *file;  // NULL: none.
  ls_zip zip;
  ls_safetensors_entry *entries;  // `offset` is the member's number.
  ls_npy_header *headers;         // Of each entry; offsets are the file's where
                                  // its member is stored as it is.
  size_t num_entries;
  ls_arena names;
} ls_saved_npz;

// Whether a file begins as such do.
LS_MUST_USE ls_status ls_saved_npz_is(const ls_file *file, bool *out_is);
// Takes over the file, also where it fails; then it is as zeroed.
//   LS_INVALID_ARGUMENT  a member that is no array of numbers, or two of one
//                        name.
LS_MUST_USE ls_status ls_saved_npz_open(ls_file *file, ls_saved_npz *out);
void ls_saved_npz_close(ls_saved_npz *npz);  // Zeroed is fine.

// Reads an entry's elements; its checksum is right.
LS_MUST_USE ls_status ls_saved_npz_get(const ls_saved_npz *npz,
                                       const ls_safetensors_entry *entry,
                                       void *data);

#endif  // LS_STATE_SAVED_NPZ_H_
