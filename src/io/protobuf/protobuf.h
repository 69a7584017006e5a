// SPDX-License-Identifier: Apache-2.0
// Protobuf's wire format: reading fields, and writing fields and messages in
// messages.
#ifndef LS_IO_PROTOBUF_PROTOBUF_H_
#define LS_IO_PROTOBUF_PROTOBUF_H_

#include <stdbool.h>

#include "base/export.h"
#include "base/text.h"
#include "io/bytes.h"
#include "lockstep/array.h"

// ---- Reading ---------------------------------------------------------------
// A message is fields, each a number with a wire type, and a value. The caller
// decides what a field means. Thread-safe: the bytes are lent, and there is no
// state.
typedef enum ls_proto_type {
  LS_PROTO_VARINT,
  LS_PROTO_FIXED_64,
  LS_PROTO_BYTES,
  LS_PROTO_START,
  LS_PROTO_END,
  LS_PROTO_FIXED_32
} ls_proto_type;

// The unread part of a message, or of packed numbers.
typedef struct ls_proto_input {
  const unsigned char *at, *end;
} ls_proto_input;

typedef struct ls_proto_field {
  uint32_t number;
  ls_proto_type type;
  uint64_t value;              // Value of a varint or a fixed-size number.
  const unsigned char *at;     // Address of bytes, whose number is `value`.
  const unsigned char *begin;  // Address of the field.
  const char *wrong;           // Fault of the field, a static text, or NULL.
} ls_proto_field;

// Return the message in a field, or in bytes.
static inline ls_proto_input ls_proto_message(const ls_proto_field *field) {
  return (ls_proto_input){field->at, field->at + field->value};
}
static inline ls_proto_input ls_proto_message_of(ls_bytes bytes) {
  const unsigned char *data = (const unsigned char *)bytes.data;
  return (ls_proto_input){data, data + bytes.size};
}

// Reads a varint; returns false if it is cut off or longer than 10 bytes.
static inline bool ls_proto_read_varint(ls_proto_input *in, uint64_t *out) {
  if (in->at < in->end && *in->at < 0x80) {
    *out = *in->at++;
    return true;
  }
  uint64_t value = 0;
  for (int shift = 0; shift < 70 && in->at < in->end; shift += 7) {
    const unsigned char byte = *in->at++;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (shift == 63 && byte > 1) return false;
    if (byte < 0x80) {
      *out = value;
      return true;
    }
  }
  return false;
}

// Reads the next field of a message that is not at its end. Returns NULL, or
// static text that describes the error.
static inline const char *ls_proto_read_field(ls_proto_input *in,
                                              ls_proto_field *out) {
  uint64_t tag = 0;
  if (!ls_proto_read_varint(in, &tag) || tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
    return "a field's number is wrong";
  out->number = (uint32_t)(tag >> 3);
  out->type = (ls_proto_type)(tag & 7);
  const size_t left = (size_t)(in->end - in->at);
  switch (tag & 7) {
  case LS_PROTO_VARINT:
    return ls_proto_read_varint(in, &out->value)
               ? NULL
               : "a number is cut off or too long";
  case LS_PROTO_FIXED_64:
    if (left < 8) return "a number is cut off";
    out->value = ls_load_le64(in->at);
    in->at += 8;
    return NULL;
  case LS_PROTO_FIXED_32:
    if (left < 4) return "a number is cut off";
    out->value = ls_load_le32(in->at);
    in->at += 4;
    return NULL;
  case LS_PROTO_BYTES:
    if (!ls_proto_read_varint(in, &out->value) ||
        out->value > (uint64_t)(in->end - in->at))
      return "a field is longer than its message";
    out->at = in->at;
    in->at += out->value;
    return NULL;
  default:
    return "a field has an unknown wire type";
  }
}

// Reads the next field; returns false at the message's end and at a fault.
static inline bool ls_proto_next(ls_proto_input *in, ls_proto_field *out) {
  if (in->at >= in->end) return false;
  out->begin = in->at;
  out->wrong = ls_proto_read_field(in, out);
  return out->wrong == NULL;
}

// ---- Writing ---------------------------------------------------------------
// The text reports a lack of memory.
// Writes an integer, enum or bool; negative numbers take 10 bytes.
void ls_proto_i64(ls_text *out, unsigned field, int64_t value);
void ls_proto_f32(ls_text *out, unsigned field, float value);
void ls_proto_f64(ls_text *out, unsigned field, double value);
LS_PRIVATE_API void ls_proto_bytes(ls_text *out, unsigned field,
                                   const void *data, size_t size);
// Writes a string. Invalid UTF-8, for which a reader would refuse the whole
// message, becomes U+FFFD.
void ls_proto_string(ls_text *out, unsigned field, const char *text);
// Writes a packed list of doubles; nothing if it is empty.
void ls_proto_f64s(ls_text *out, unsigned field, const double *values,
                   size_t count);
// Write a packed list of integers; nothing if it is empty.
LS_PRIVATE_API void ls_proto_i64s(ls_text *out, unsigned field,
                                  const int64_t *values, size_t count);
void ls_proto_i32s(ls_text *out, unsigned field, const int32_t *values,
                   size_t count);

// Begin and end a message as a field of the enclosing one.
LS_PRIVATE_API LS_MUST_USE size_t ls_proto_begin(ls_text *out, unsigned field);
LS_PRIVATE_API void ls_proto_end(ls_text *out, size_t began);

#endif  // LS_IO_PROTOBUF_PROTOBUF_H_
