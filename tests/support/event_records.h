// SPDX-License-Identifier: Apache-2.0
// Event files read back: frames of records, and fields of protobuf messages.
// Everything is held to be well formed, but for a last record that is cut off.
#ifndef LS_TESTS_SUPPORT_EVENT_RECORDS_H_
#define LS_TESTS_SUPPORT_EVENT_RECORDS_H_

#include "lockstep/array.h"

typedef struct proto_field {
  unsigned number, kind;
  uint64_t value;  // Of kinds 0, 1 and 5.
  ls_bytes bytes;  // Of kind 2.
} proto_field;

// The next field of a message, of which `*left` remains. False: its end.
bool proto_next(ls_bytes *left, proto_field *out);
// The nth field of that number, from 0. False: there is none.
bool proto_find(ls_bytes message, unsigned number, size_t nth,
                proto_field *out);
// The message at the end of a path of numbers that ends with 0; it must be
// there.
ls_bytes proto_at(ls_bytes message, const unsigned *path);
#define PROTO_AT(message, ...)                                                 \
  proto_at((message), (const unsigned[]){__VA_ARGS__, 0})
// A number at the end of a path; as a double, of kinds 1 and 5.
int64_t proto_i64(ls_bytes message, unsigned number);
double proto_f64(ls_bytes message, unsigned number);
bool proto_is(ls_bytes bytes, const char *text);

// The events of a file, as many as there is room for; their number.
size_t event_records(const void *data, size_t size, ls_bytes *out, size_t room);
// The value of a summary of a tag at a step: the message. Empty: there is none.
ls_bytes event_value(const ls_bytes *events, size_t count, const char *tag,
                     int64_t step);

#endif  // LS_TESTS_SUPPORT_EVENT_RECORDS_H_
