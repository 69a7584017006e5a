// SPDX-License-Identifier: Apache-2.0
// Lines of text, which end with LF or CR LF; the last one need not.
//
// Thread-safe.
#ifndef LS_FORMATS_BYTES_LINES_H_
#define LS_FORMATS_BYTES_LINES_H_

#include "formats/bytes/offsets.h"
#include "io/reader.h"
#include "lockstep/array.h"

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

#endif  // LS_FORMATS_BYTES_LINES_H_
