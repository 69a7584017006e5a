// SPDX-License-Identifier: Apache-2.0
// Arrays in safetensors files, of the current runtime.
#ifndef LS_TESTS_SUPPORT_SAFETENSORS_H_
#define LS_TESTS_SUPPORT_SAFETENSORS_H_

#include "io/safetensors.h"

typedef struct named_array {
  const char *name;
  ls_array *array;
} named_array;

// Writes a file of these arrays.
ls_status safetensors_write(const char *path, const named_array *arrays,
                            size_t count, const ls_safetensors_note *notes,
                            size_t num_notes);
// Opens a file and reads all of its arrays once.
ls_status safetensors_open_whole(const char *path, ls_safetensors_file *file);
// The array of this name, to be released; NULL: there is none.
ls_array *safetensors_array(const ls_safetensors_file *file, const char *name);

#endif  // LS_TESTS_SUPPORT_SAFETENSORS_H_
