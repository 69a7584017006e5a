// SPDX-License-Identifier: Apache-2.0
// Reads the bytes of a file in order, unpacked if need be: a window moves over
// them, so that a file may be larger than memory.
//
// A reader needs memory for the bytes that its caller requests at once and a
// buffer of fixed size, however much packed data expand.
//
// Thread-compatible; many readers may share one file.
#ifndef LS_IO_READER_H_
#define LS_IO_READER_H_

#include "base/export.h"
#include "base/files.h"
#include "base/memory/own.h"
#include "io/inflate.h"

typedef struct ls_reader {
  const ls_file *file;  // Lent.
  // The window: bytes read and not yet taken.
  char *data;
  size_t size;
  int64_t position;  // Position of `data` in the unpacked bytes.
  bool ended;        // The window reaches the end of the data.
  // Bytes per read; may be changed at any time.
  size_t chunk;
  // The fields below are private.
  ls_allocator *allocator;
  int64_t next, end;  // Range of the file still to read.
  char *buffer;       // Memory of the window.
  size_t capacity;
  ls_inflater *inflater;  // NULL: the file is not packed.
  unsigned char *packed;  // Bytes read and not yet unpacked.
  size_t packed_at, packed_size;
} ls_reader;

enum { LS_READER_CHUNK = 256 << 10 };

// Options of a reader. Zero in a field means its default.
typedef struct ls_reader_options {
  int64_t from, size;  // Range of the file. Default: from 0; to its end.
  ls_packing packing;
  size_t chunk;  // Default LS_READER_CHUNK.
} ls_reader_options;

// Opens a reader at the start, without reading. Zeroed readers may be closed.
LS_PRIVATE_API LS_MUST_USE ls_status
ls_reader_open(const ls_file *file, ls_allocator *allocator,
               const ls_reader_options *options, ls_reader *out_reader);
LS_PRIVATE_API void ls_reader_close(ls_reader *reader);
LS_OWNED_STRUCT(ls_reader, ls_reader_close)

// Makes the window at least `size` bytes long, if that many are left.
//   LS_DATA_LOSS  the file was cut off, or its packing is damaged.
LS_PRIVATE_API LS_MUST_USE ls_status ls_reader_need(ls_reader *reader,
                                                    size_t size);
// Extends the window by one chunk, unless the data have ended.
LS_PRIVATE_API LS_MUST_USE ls_status ls_reader_more(ls_reader *reader);
// Drops the first `size` bytes of the window, which must be that long.
LS_PRIVATE_API void ls_reader_take(ls_reader *reader, size_t size);
// Drops the next `size` bytes, also beyond the window; does not read them if
// the file is not packed. Stops at the end; `position` shows where.
LS_PRIVATE_API LS_MUST_USE ls_status ls_reader_skip(ls_reader *reader,
                                                    int64_t size);

#endif  // LS_IO_READER_H_
