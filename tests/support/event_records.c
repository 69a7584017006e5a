// SPDX-License-Identifier: Apache-2.0
#include "support/event_records.h"

#include <string.h>

#include "io/bytes.h"
#include "io/crc32c.h"
#include "support/expect.h"

static uint64_t take_varint(ls_bytes *left) {
  uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    assert_true(left->size > 0 && shift < 70);
    const unsigned char c = (unsigned char)*left->data;
    ++left->data;
    --left->size;
    value |= (uint64_t)(c & 0x7f) << shift;
    if (c < 0x80) return value;
  }
}

static const char *take(ls_bytes *left, size_t size) {
  const char *at = left->data;
  assert_true(size <= left->size);
  left->data += size;
  left->size -= size;
  return at;
}

bool proto_next(ls_bytes *left, proto_field *out) {
  if (left->size == 0) return false;
  const uint64_t head = take_varint(left);
  *out = (proto_field){.number = (unsigned)(head >> 3), .kind = head & 7};
  assert_int_not_equal(out->number, 0);
  switch (out->kind) {
  case 0:
    out->value = take_varint(left);
    break;
  case 1:
    out->value = ls_load_le64(take(left, 8));
    break;
  case 5:
    out->value = ls_load_le32(take(left, 4));
    break;
  default:
    assert_int_equal(out->kind, 2);
    out->bytes.size = (size_t)take_varint(left);
    out->bytes.data = take(left, out->bytes.size);
  }
  return true;
}

bool proto_find(ls_bytes message, unsigned number, size_t nth,
                proto_field *out) {
  while (proto_next(&message, out))
    if (out->number == number && nth-- == 0) return true;
  return false;
}

ls_bytes proto_at(ls_bytes message, const unsigned *path) {
  proto_field field;
  for (; *path != 0; ++path) {
    assert_true(proto_find(message, *path, 0, &field));
    assert_int_equal(field.kind, 2);
    message = field.bytes;
  }
  return message;
}

int64_t proto_i64(ls_bytes message, unsigned number) {
  proto_field field;
  assert_true(proto_find(message, number, 0, &field));
  assert_int_equal(field.kind, 0);
  return (int64_t)field.value;
}

double proto_f64(ls_bytes message, unsigned number) {
  proto_field field;
  assert_true(proto_find(message, number, 0, &field));
  if (field.kind == 1) {
    double value;
    memcpy(&value, &field.value, sizeof(value));
    return value;
  }
  assert_int_equal(field.kind, 5);
  const uint32_t bits = (uint32_t)field.value;
  float value;
  memcpy(&value, &bits, sizeof(value));
  return (double)value;
}

bool proto_is(ls_bytes bytes, const char *text) {
  return bytes.size == strlen(text) &&
         memcmp(bytes.data, text, bytes.size) == 0;
}

// ---- Events ----------------------------------------------------------------
static void expect_sum(const char *data, size_t size) {
  assert_int_equal(ls_load_le32(data + size),
                   ls_crc32c_mask(ls_crc32c_portable(0, data, size)));
}

size_t event_records(const void *data, size_t size, ls_bytes *out,
                     size_t room) {
  ls_bytes left = {data, size};
  size_t count = 0;
  while (left.size >= 12) {
    const char *head = take(&left, 12);
    const uint64_t length = ls_load_le64(head);
    expect_sum(head, 8);
    if (length + 4 > left.size) break;
    const char *bytes = take(&left, (size_t)length + 4);
    expect_sum(bytes, (size_t)length);
    assert_true(count < room);
    out[count++] = (ls_bytes){bytes, (size_t)length};
  }
  return count;
}

ls_bytes event_value(const ls_bytes *events, size_t count, const char *tag,
                     int64_t step) {
  for (size_t i = 0; i < count; ++i) {
    proto_field summary, value;
    if (!proto_find(events[i], 5, 0, &summary) ||
        proto_i64(events[i], 2) != step)
      continue;
    for (size_t k = 0; proto_find(summary.bytes, 1, k, &value); ++k)
      if (proto_is(PROTO_AT(value.bytes, 1), tag)) return value.bytes;
  }
  return (ls_bytes){0};
}
