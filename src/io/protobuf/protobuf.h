// SPDX-License-Identifier: Apache-2.0
// Writes protobuf's wire format: fields, and messages in messages. The text
// reports a lack of memory.
//
// Thread-compatible.
#ifndef LS_IO_PROTOBUF_PROTOBUF_H_
#define LS_IO_PROTOBUF_PROTOBUF_H_

#include "base/text.h"

// Writes an integer, enum or bool; negative numbers take 10 bytes.
void ls_proto_i64(ls_text *out, unsigned field, int64_t value);
void ls_proto_f32(ls_text *out, unsigned field, float value);
void ls_proto_f64(ls_text *out, unsigned field, double value);
void ls_proto_bytes(ls_text *out, unsigned field, const void *data,
                    size_t size);
// Writes a string. Invalid UTF-8, for which a reader would refuse the whole
// message, becomes U+FFFD.
void ls_proto_string(ls_text *out, unsigned field, const char *text);
// Writes a packed list of doubles; nothing if it is empty.
void ls_proto_f64s(ls_text *out, unsigned field, const double *values,
                   size_t count);
// Writes a packed list of integers; nothing if it is empty.
void ls_proto_i32s(ls_text *out, unsigned field, const int32_t *values,
                   size_t count);

// Begin and end a message as a field of the enclosing one.
LS_MUST_USE size_t ls_proto_begin(ls_text *out, unsigned field);
void ls_proto_end(ls_text *out, size_t began);

#endif  // LS_IO_PROTOBUF_PROTOBUF_H_
