// SPDX-License-Identifier: Apache-2.0
// The bytes of a file one after another, unpacked if they are packed: a window
// that moves over them, so that a file may be larger than memory.
//
// A reader takes memory for what its caller needs at once and a buffer of fixed
// size, however much comes out of packed data.
//
// Thread-compatible; many may read one file.
#ifndef LS_IO_READER_H_
#define LS_IO_READER_H_

#include "base/files.h"
#include "io/inflate.h"

typedef struct ls_reader {
  const ls_file *file;  // Lent.
  // The window: bytes that are there and not yet taken.
  char *data;
  size_t size;
  int64_t position;  // Of `data` in the bytes, unpacked if they are packed.
  bool ended;        // Nothing follows the window.
  // How much is read at once; may be changed at any time.
  size_t chunk;
  // Private from here on.
  ls_allocator *allocator;
  int64_t next, end;  // What of the file has not been read.
  char *buffer;       // Holds the window.
  size_t capacity;
  ls_inflater *inflater;  // NULL: not packed.
  unsigned char *packed;  // What has been read and not unpacked.
  size_t packed_at, packed_size;
} ls_reader;

enum { LS_READER_CHUNK = 256 << 10 };

// How to read. Zero in a field means its default.
typedef struct ls_reader_options {
  int64_t from, size;  // Which part of the file. Default: from 0; to its end.
  ls_packing packing;
  size_t chunk;  // Default LS_READER_CHUNK.
} ls_reader_options;

// A reader at the start; nothing is read yet. Zeroed readers may be closed.
LS_MUST_USE ls_status ls_reader_open(const ls_file *file,
                                     ls_allocator *allocator,
                                     const ls_reader_options *options,
                                     ls_reader *out_reader);
void ls_reader_close(ls_reader *reader);

// Makes the window at least `size` bytes long, if there are so many.
//   LS_DATA_LOSS  the file was cut off, or its packing is damaged.
LS_MUST_USE ls_status ls_reader_need(ls_reader *reader, size_t size);
// Makes the window longer by what is read at once, unless it has ended.
LS_MUST_USE ls_status ls_reader_more(ls_reader *reader);
// Drops the first `size` bytes of the window, which has them.
void ls_reader_take(ls_reader *reader, size_t size);
// Drops the next `size` bytes, also beyond the window, without reading them
// where nothing is packed. Beyond the end: ends there; `position` tells.
LS_MUST_USE ls_status ls_reader_skip(ls_reader *reader, int64_t size);

#endif  // LS_IO_READER_H_
