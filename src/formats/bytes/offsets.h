// SPDX-License-Identifier: Apache-2.0
// Starts of the records of a file, found by one pass over it: record i is the
// bytes from items[i] to items[i + 1].
//
// Thread-compatible; read by any number of threads.
#ifndef LS_FORMATS_BYTES_OFFSETS_H_
#define LS_FORMATS_BYTES_OFFSETS_H_

#include "base/files.h"
#include "base/memory/own.h"

typedef struct ls_offsets {
  ls_allocator *allocator;
  int64_t *items;  // Ends with the end of the last record.
  size_t size, capacity;
} ls_offsets;

void ls_offsets_init(ls_offsets *offsets, ls_allocator *allocator);
void ls_offsets_deinit(ls_offsets *offsets);
LS_OWNED_STRUCT(ls_offsets, ls_offsets_deinit)
LS_MUST_USE ls_status ls_offsets_add(ls_offsets *offsets, int64_t offset);

static inline int64_t ls_offsets_count(const ls_offsets *offsets) {
  return offsets->size == 0 ? 0 : (int64_t)offsets->size - 1;
}

// Load and save offsets in a file of their own, which is valid only for a file
// of that size and time and for records of this kind. `*out_found`: a valid one
// exists; one that is damaged or of another file counts as missing.
LS_MUST_USE ls_status ls_offsets_load(ls_runtime *runtime, const char *path,
                                      const ls_file *file, uint32_t kind,
                                      ls_offsets *offsets, bool *out_found);
LS_MUST_USE ls_status ls_offsets_save(ls_runtime *runtime, const char *path,
                                      const ls_file *file, uint32_t kind,
                                      const ls_offsets *offsets);

#endif  // LS_FORMATS_BYTES_OFFSETS_H_
