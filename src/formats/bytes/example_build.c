// SPDX-License-Identifier: Apache-2.0
// Builds tf.Examples from the innermost message outwards, because a message's
// size precedes it.
#include "formats/bytes/example.h"
#include "io/bytes.h"

enum { BYTES_FIELD = 2 };  // Wire type of a field that starts with its size.

void ls_example_init(ls_example_builder *builder, ls_allocator *allocator) {
  ls_text_init(&builder->features, allocator);
  ls_text_init(&builder->feature, allocator);
  ls_text_init(&builder->list, allocator);
}

void ls_example_deinit(ls_example_builder *builder) {
  ls_text_deinit(&builder->features);
  ls_text_deinit(&builder->feature);
  ls_text_deinit(&builder->list);
}

static size_t print_varint(uint64_t value, unsigned char buffer[10]) {
  size_t size = 0;
  for (; value >= 0x80; value >>= 7)
    buffer[size++] = (unsigned char)(value | 0x80);
  buffer[size++] = (unsigned char)value;
  return size;
}

static void add_varint(ls_text *text, uint64_t value) {
  unsigned char buffer[10];
  ls_text_append_bytes(text, buffer, print_varint(value, buffer));
}

static void add_head(ls_text *text, unsigned number, size_t size) {
  ls_text_append_char(text, (char)(number << 3 | BYTES_FIELD));
  add_varint(text, size);
}

static void add_field(ls_text *text, unsigned number, const void *data,
                      size_t size) {
  add_head(text, number, size);
  if (size > 0) ls_text_append_bytes(text, data, size);
}

// Appends `inner` as a field; a failure of `inner` becomes one of `text`.
static void add_message(ls_text *text, unsigned number, const ls_text *inner) {
  add_field(text, number, inner->data, inner->size);
  text->failed |= inner->failed;
}

// Wraps the current list in a feature of this name.
static void add_feature(ls_example_builder *builder, const char *name,
                        ls_feature_kind kind) {
  unsigned char sizes[10];
  ls_text *feature = &builder->feature, *features = &builder->features;
  ls_text_clear(feature);
  add_message(feature, (unsigned)kind, &builder->list);
  const size_t name_size = strlen(name);
  add_head(features, 1,
           2 + print_varint(name_size, sizes) + name_size +
               print_varint(feature->size, sizes) + feature->size);
  add_field(features, 1, name, name_size);
  add_message(features, 2, feature);
}

void ls_example_add_bytes(ls_example_builder *builder, const char *name,
                          const ls_bytes *values, size_t count) {
  ls_text_clear(&builder->list);
  for (size_t i = 0; i < count; ++i)
    add_field(&builder->list, 1, values[i].data, values[i].size);
  add_feature(builder, name, LS_FEATURE_BYTES);
}

void ls_example_add_floats(ls_example_builder *builder, const char *name,
                           const float *values, size_t count) {
  ls_text_clear(&builder->list);
  if (count > 0) add_head(&builder->list, 1, 4 * count);
  for (size_t i = 0; i < count; ++i) {
    unsigned char bytes[4];
    uint32_t bits = 0;
    memcpy(&bits, values + i, 4);
    ls_store_le32(bytes, bits);
    ls_text_append_bytes(&builder->list, bytes, 4);
  }
  add_feature(builder, name, LS_FEATURE_FLOATS);
}

void ls_example_add_ints(ls_example_builder *builder, const char *name,
                         const int64_t *values, size_t count) {
  unsigned char buffer[10];
  size_t size = 0;
  for (size_t i = 0; i < count; ++i)
    size += print_varint((uint64_t)values[i], buffer);
  ls_text_clear(&builder->list);
  if (count > 0) add_head(&builder->list, 1, size);
  for (size_t i = 0; i < count; ++i)
    add_varint(&builder->list, (uint64_t)values[i]);
  add_feature(builder, name, LS_FEATURE_INTS);
}

// Wraps builder->features in an example, which goes to `list`.
ls_status ls_example_end(ls_example_builder *builder, ls_bytes *out_example) {
  ls_text_clear(&builder->list);
  add_message(&builder->list, 1, &builder->features);
  ls_text_clear(&builder->features);
  const ls_status status = ls_text_status(&builder->list);
  *out_example = ls_status_is_ok(status)
                     ? (ls_bytes){builder->list.data, builder->list.size}
                     : (ls_bytes){0};
  return status;
}
