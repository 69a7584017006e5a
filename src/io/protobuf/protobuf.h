// SPDX-License-Identifier: Apache-2.0
// Protobuf's wire format, as it is written: fields, and messages in messages.
// Memory that runs out is told by the text that they are written to.
//
// Thread-compatible.
#ifndef LS_IO_PROTOBUF_PROTOBUF_H_
#define LS_IO_PROTOBUF_PROTOBUF_H_

#include "base/text.h"

// An integer, enum or bool; negative ones take 10 bytes.
void ls_proto_i64(ls_text *out, unsigned field, int64_t value);
void ls_proto_f32(ls_text *out, unsigned field, float value);
void ls_proto_f64(ls_text *out, unsigned field, double value);
void ls_proto_bytes(ls_text *out, unsigned field, const void *data,
                    size_t size);
// A string: bytes that are no UTF-8, for which a reader would refuse all of the
// message, become U+FFFD.
void ls_proto_string(ls_text *out, unsigned field, const char *text);
// A list of doubles, packed; nothing if there are none.
void ls_proto_f64s(ls_text *out, unsigned field, const double *values,
                   size_t count);
// The same of integers.
void ls_proto_i32s(ls_text *out, unsigned field, const int32_t *values,
                   size_t count);

// What is written between the two is a message, the field of one around.
LS_MUST_USE size_t ls_proto_begin(ls_text *out, unsigned field);
void ls_proto_end(ls_text *out, size_t began);

#endif  // LS_IO_PROTOBUF_PROTOBUF_H_
