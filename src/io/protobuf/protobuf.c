// SPDX-License-Identifier: Apache-2.0
#include "io/protobuf/protobuf.h"

#include "io/json.h"

enum { VARINT = 0, FIXED_64 = 1, SIZED = 2, FIXED_32 = 5, MOST_VARINT = 10 };

static size_t print_varint(uint64_t value, unsigned char buffer[MOST_VARINT]) {
  size_t size = 0;
  for (; value >= 0x80; value >>= 7)
    buffer[size++] = (unsigned char)(value | 0x80);
  buffer[size++] = (unsigned char)value;
  return size;
}

static void add_varint(ls_text *out, uint64_t value) {
  unsigned char buffer[MOST_VARINT];
  ls_text_append_bytes(out, buffer, print_varint(value, buffer));
}

static void add_head(ls_text *out, unsigned field, unsigned kind) {
  add_varint(out, (uint64_t)field << 3 | kind);
}

void ls_proto_i64(ls_text *out, unsigned field, int64_t value) {
  add_head(out, field, VARINT);
  add_varint(out, (uint64_t)value);
}

void ls_proto_f32(ls_text *out, unsigned field, float value) {
  unsigned char bytes[4];
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof(bits));
  ls_store_le32(bytes, bits);
  add_head(out, field, FIXED_32);
  ls_text_append_bytes(out, bytes, sizeof(bytes));
}

static void add_f64(ls_text *out, double value) {
  unsigned char bytes[8];
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(bits));
  ls_store_le64(bytes, bits);
  ls_text_append_bytes(out, bytes, sizeof(bytes));
}

void ls_proto_f64(ls_text *out, unsigned field, double value) {
  add_head(out, field, FIXED_64);
  add_f64(out, value);
}

void ls_proto_bytes(ls_text *out, unsigned field, const void *data,
                    size_t size) {
  add_head(out, field, SIZED);
  add_varint(out, size);
  if (size > 0) ls_text_append_bytes(out, data, size);
}

void ls_proto_string(ls_text *out, unsigned field, const char *text) {
  if (ls_json_is_utf8(text)) {
    ls_proto_bytes(out, field, text, strlen(text));
    return;
  }
  const size_t began = ls_proto_begin(out, field);
  while (*text != '\0') {
    const size_t size = ls_json_character_size(text);
    if (size > 0)
      ls_text_append_bytes(out, text, size);
    else
      ls_text_append(out, "\xef\xbf\xbd");
    text += size > 0 ? size : 1;
  }
  ls_proto_end(out, began);
}

void ls_proto_f64s(ls_text *out, unsigned field, const double *values,
                   size_t count) {
  if (count == 0) return;
  add_head(out, field, SIZED);
  add_varint(out, 8 * count);
  for (size_t i = 0; i < count; ++i)
    add_f64(out, values[i]);
}

void ls_proto_i64s(ls_text *out, unsigned field, const int64_t *values,
                   size_t count) {
  if (count == 0) return;
  const size_t began = ls_proto_begin(out, field);
  for (size_t i = 0; i < count; ++i)
    add_varint(out, (uint64_t)values[i]);
  ls_proto_end(out, began);
}

void ls_proto_i32s(ls_text *out, unsigned field, const int32_t *values,
                   size_t count) {
  if (count == 0) return;
  const size_t began = ls_proto_begin(out, field);
  for (size_t i = 0; i < count; ++i)
    add_varint(out, (uint64_t)(int64_t)values[i]);
  ls_proto_end(out, began);
}

size_t ls_proto_begin(ls_text *out, unsigned field) {
  add_head(out, field, SIZED);
  return out->size;
}

// Inserts the size in front of the message, which moves up.
void ls_proto_end(ls_text *out, size_t began) {
  unsigned char buffer[MOST_VARINT];
  if (out->failed) return;
  const size_t size = out->size - began;
  const size_t size_bytes = print_varint(size, buffer);
  ls_text_append_bytes(out, buffer, size_bytes);
  if (out->failed) return;
  memmove(out->data + began + size_bytes, out->data + began, size);
  memcpy(out->data + began, buffer, size_bytes);
}
