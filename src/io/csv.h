// SPDX-License-Identifier: Apache-2.0
// CSV, as RFC 4180 and those who stretch it have it: rows of fields with a
// delimiter between them; rows end with LF or CR LF, the last one need not. A
// field that begins with a quote ends with the next one, of two in a row one is
// meant; it may hold delimiters and line ends. Lines with nothing on them are
// passed over, and so is a byte order mark at the start.
//
// Thread-safe.
#ifndef LS_IO_CSV_H_
#define LS_IO_CSV_H_

#include "io/offsets.h"
#include "io/protobuf/tfrecord.h"
#include "lockstep/array.h"

// Where the rows of a file begin, of the first `most` of them (0: all):
// `offsets` is filled.
//   LS_DATA_LOSS         a quote that is not closed; names its line and byte.
//   LS_INVALID_ARGUMENT  text behind a closing quote.
LS_MUST_USE ls_status ls_csv_scan(const ls_file *file, char delimiter,
                                  int64_t most, ls_offsets *offsets);
// The bytes before the first row: a byte order mark, and lines with nothing on
// them.
size_t ls_csv_lead(const char *data, size_t size);

// A field's text, without quotes. Whether there were some: "" is a text, and
// nothing is no value.
typedef struct ls_csv_field {
  const char *text;
  size_t size;
  bool quoted;
  size_t at;  // Where it begins in the row.
} ls_csv_field;

// Takes a row apart, in place: texts are in `row`. At most `room` fields;
// `*out_count` is how many there are, also if there are more. A row that the
// scan has found comes apart; of another one what its quotes make of it.
void ls_csv_split(char *row, size_t size, char delimiter, ls_csv_field *fields,
                  size_t room, size_t *out_count);

// Reads a field as one value: a number within the bounds of an integer type,
// a float ("nan", "inf"), or for bool 0, 1, true, false in any letters. Spaces
// around it do not count. Not for strings. False: it is none.
bool ls_csv_read(const ls_csv_field *field, ls_dtype dtype, void *out);

// What is there of a text's kind: i64, f32 or string; NONE for no value.
ls_dtype ls_csv_kind(const ls_csv_field *field);

#endif  // LS_IO_CSV_H_
