// SPDX-License-Identifier: Apache-2.0
// Safetensors: named arrays in one file that other tools read too. Eight bytes
// with the size of a JSON header, the header, the elements, little-endian.
//
// Elements stand without gaps, arrays with wider elements first, so that each
// one is aligned for its type.
#ifndef LS_IO_SAFETENSORS_H_
#define LS_IO_SAFETENSORS_H_

#include "base/memory/arena.h"
#include "base/runtime_internal.h"
#include "lockstep/array.h"

typedef struct ls_safetensor {
  const char *name;
  ls_array *array;
} ls_safetensor;

// A note in the header.
typedef struct ls_safetensors_note {
  const char *key, *value;
} ls_safetensors_note;

// The bytes of a file, which the caller gives back with ls_release. Everything
// is lent.
//   LS_INVALID_ARGUMENT  a name given twice or reserved, or a dtype that the
//                        format does not have.
LS_MUST_USE ls_status ls_safetensors_encode(ls_allocator *allocator,
                                            const ls_safetensor *tensors,
                                            size_t num_tensors,
                                            const ls_safetensors_note *notes,
                                            size_t num_notes, char **out_bytes,
                                            size_t *out_size);
// The same, into a file that is replaced as a whole.
LS_MUST_USE ls_status ls_safetensors_write(
    ls_runtime *runtime, const char *path, const ls_safetensor *tensors,
    size_t num_tensors, const ls_safetensors_note *notes, size_t num_notes);

// What a file holds, in the order of its header.
typedef struct ls_safetensors {
  ls_safetensor *tensors;
  size_t num_tensors;
  ls_safetensors_note *notes;
  size_t num_notes;
  ls_arena *arena;  // Of the names and notes.
  ls_allocator *allocator;
} ls_safetensors;

// Reads a file's bytes; arrays are copies. `name` is what messages call it.
// However the header is made, its memory is a few times its size.
//   LS_DATA_LOSS         cut off, elements are not where the header says, or
//                        arrays overlap or leave a hole.
//   LS_INVALID_ARGUMENT  the header is no such JSON.
LS_MUST_USE ls_status ls_safetensors_decode(ls_allocator *allocator,
                                            const char *name, const void *bytes,
                                            size_t size,
                                            ls_safetensors *out_file);
LS_MUST_USE ls_status ls_safetensors_read(ls_runtime *runtime, const char *path,
                                          ls_safetensors *out_file);
// Frees the list and its references to the arrays. Zeroed is fine.
void ls_safetensors_deinit(ls_safetensors *file);
// The array of this name, lent; NULL without one.
ls_array *ls_safetensors_find(const ls_safetensors *file, const char *name);

#endif  // LS_IO_SAFETENSORS_H_
