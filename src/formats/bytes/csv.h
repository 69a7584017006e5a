// SPDX-License-Identifier: Apache-2.0
// CSV, as in RFC 4180 with common extensions: rows of fields with a delimiter
// between them; rows end with LF or CR LF, the last one need not. A field that
// begins with a quote ends with the next one, except that two in a row stand
// for one; it may hold delimiters and line ends. Empty lines are skipped, and
// so is a byte order mark at the start.
//
// Thread-safe.
#ifndef LS_FORMATS_BYTES_CSV_H_
#define LS_FORMATS_BYTES_CSV_H_

#include "formats/bytes/offsets.h"
#include "io/protobuf/tfrecord.h"
#include "lockstep/array.h"

// Fills `offsets` with the starts of a file's rows, of the first `most` of them
// (0: all).
//   LS_DATA_LOSS         a quote that is not closed; names its line and byte.
//   LS_INVALID_ARGUMENT  text after a closing quote.
LS_MUST_USE ls_status ls_csv_scan(const ls_file *file, char delimiter,
                                  int64_t most, ls_offsets *offsets);
// Returns the number of bytes before the first row: a byte order mark and empty
// lines.
size_t ls_csv_lead(const char *data, size_t size);

// A field's text, without quotes. `quoted` tells "", an empty text, from a
// missing value.
typedef struct ls_csv_field {
  const char *text;
  size_t size;
  bool quoted;
  size_t at;  // The field's start in the row.
} ls_csv_field;

// Splits a row in place: the fields' texts are in `row`. Writes at most `room`
// fields; `*out_count` is the number of all fields. The row should come from
// ls_csv_scan; misplaced quotes of other rows are kept.
void ls_csv_split(char *row, size_t size, char delimiter, ls_csv_field *fields,
                  size_t room, size_t *out_count);

// Returns the text without spaces and tabs around it.
ls_bytes ls_csv_trim(const ls_csv_field *field);

// Reads a field as one value: a number within the bounds of an integer type, a
// float ("nan", "inf"), or for bool 0, 1, true, false in any letters. Ignores
// spaces around it. Not for strings. Returns false if it is no such value.
bool ls_csv_read(const ls_csv_field *field, ls_dtype dtype, void *out);

// Returns the narrowest type that reads the field: i64, f32 or string; NONE for
// a missing value.
ls_dtype ls_csv_kind(const ls_csv_field *field);

#endif  // LS_FORMATS_BYTES_CSV_H_
