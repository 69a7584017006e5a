// SPDX-License-Identifier: Apache-2.0
// Starts of the records of a file, found by one pass over it: record i is the
// bytes from items[i] to items[i + 1].
//
// Thread-compatible; read by any number of threads.
#ifndef LS_FORMATS_BYTES_OFFSETS_H_
#define LS_FORMATS_BYTES_OFFSETS_H_

#include "base/files.h"
#include "base/memory/own.h"
#include "io/reader.h"
#include "lockstep/array.h"

typedef struct ls_offsets {
  ls_allocator *allocator;
  int64_t *items;  // Ends with the end of the last record.
  size_t size, capacity;
  int64_t first, step;  // Without items: of records of one size.
} ls_offsets;

void ls_offsets_init(ls_offsets *offsets, ls_allocator *allocator);
void ls_offsets_deinit(ls_offsets *offsets);
LS_OWNED_STRUCT(ls_offsets, ls_offsets_deinit)
LS_MUST_USE ls_status ls_offsets_add(ls_offsets *offsets, int64_t offset);

static inline int64_t ls_offsets_count(const ls_offsets *offsets) {
  return offsets->size == 0 ? 0 : (int64_t)offsets->size - 1;
}

static inline int64_t ls_offsets_at(const ls_offsets *offsets, int64_t i) {
  return offsets->items != NULL ? offsets->items[i]
                                : offsets->first + i * offsets->step;
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

// ---- Lines -----------------------------------------------------------------
// Lines end with LF or CR LF; the last one need not.
//
// Fills `offsets` with the starts of a file's lines.
LS_MUST_USE ls_status ls_lines_scan(const ls_file *file, ls_offsets *offsets);

// Returns a line without its line end.
ls_bytes ls_line_trim(const char *data, size_t size);

// Reads the next line of a reader into its window, valid until the reader's
// next use.
//   LS_OUT_OF_RANGE      there is none.
//   LS_INVALID_ARGUMENT  packed data with a line longer than about this.
enum { LS_LINE_PACKED_MOST = 1 << 26 };
LS_MUST_USE ls_status ls_lines_next(ls_reader *reader, ls_bytes *out_line);

// Returns the number of the line, from 1, that contains byte `offset` of a
// file, for messages; 0 if the file cannot be read any more.
int64_t ls_lines_number(const ls_file *file, int64_t offset);

// ---- TFRecord files --------------------------------------------------------
// Fills `offsets` with the starts of a plain file's records. Checks lengths,
// but does not read the records' bytes.
//   LS_DATA_LOSS  names file, record and byte.
LS_MUST_USE ls_status ls_tfrecord_scan(const ls_file *file,
                                       ls_offsets *offsets);

#endif  // LS_FORMATS_BYTES_OFFSETS_H_
