// SPDX-License-Identifier: Apache-2.0
// The features of the first tf.Example of TFRecord files.
#include "base/runtime_internal.h"
#include "base/values/nest_builder.h"
#include "data/own.h"
#include "formats/bytes/example.h"
#include "lockstep/files.h"
#include "lockstep/iterator.h"

typedef struct example {
  ls_allocator *allocator;
  const ls_record_place *place;
  ls_bytes bytes;
  char **keys;
  ls_nests values;
  size_t count, room;  // Features so far (with repeated names), and capacity.
} example;

static ls_status count_feature(void *user, ls_bytes name,
                               const ls_feature *feature) {
  (void)name;
  (void)feature;
  ++((example *)user)->room;
  return ls_ok();
}

// Writes up to `room` values of the feature to `to`, of its kind's type.
static ls_status read_values(const ls_feature_place *place,
                             const ls_feature *feature, void *to, size_t room,
                             size_t *out_count) {
  if (feature->kind == LS_FEATURE_BYTES)
    return ls_feature_bytes(place, feature, to, room, out_count);
  if (feature->kind == LS_FEATURE_FLOATS)
    return ls_feature_floats(place, feature, to, room, out_count);
  return ls_feature_ints(place, feature, to, room, out_count);
}

static ls_status make_values(const example *self, ls_bytes name,
                             const ls_feature *feature, ls_nest *out) {
  const ls_feature_place place = {self->place, self->bytes.data, name};
  const ls_dtype dtype = feature->kind == LS_FEATURE_BYTES    ? LS_DTYPE_STRING
                         : feature->kind == LS_FEATURE_FLOATS ? LS_DTYPE_F32
                                                              : LS_DTYPE_I64;
  size_t count = 0;
  *out = ls_none();
  if (feature->kind == LS_FEATURE_ABSENT) return ls_ok();
  LS_RETURN_IF_ERROR(read_values(&place, feature, NULL, 0, &count));
  // The record lends the bytes; the array copies them.
  LS_OWN_ARRAY_OR_RETURN(self->allocator, char, values,
                         ls_dtype_size(dtype) * count + 1);
  ls_array *array = NULL;
  LS_RETURN_IF_ERROR(read_values(&place, feature, values, count, &count));
  LS_RETURN_IF_ERROR(
      ls_array_create_copy(dtype, LS_SHAPE((int64_t)count), values, &array));
  *out = ls_nest_array(array);
  return ls_ok();
}

// Among features with one name the last counts.
static ls_status take_feature(void *user, ls_bytes name,
                              const ls_feature *feature) {
  example *self = user;
  size_t at = 0;
  while (at < self->count && (strlen(self->keys[at]) != name.size ||
                              memcmp(self->keys[at], name.data, name.size)))
    ++at;
  if (at == self->count) {
    self->keys[at] = ls_copy_text(self->allocator, name.data, name.size);
    if (self->keys[at] == NULL) return ls_out_of_memory();
    ++self->count;
  }
  ls_nest_release(self->values.items[at]);
  return make_values(self, name, feature, &self->values.items[at]);
}

static void end_example(example *self) {
  for (size_t i = 0; i < self->count; ++i)
    ls_release(self->allocator, self->keys[i]);
  ls_release(self->allocator, self->keys);
  ls_nests_deinit(&self->values);
}
LS_OWNED_STRUCT(example, end_example)

static ls_status read_example(const char *file, ls_bytes bytes, ls_nest *out) {
  const ls_record_place place = {.file = file};
  LS_OWN(example, self) = {
      .allocator = ls_current_allocator(), .place = &place, .bytes = bytes};
  LS_RETURN_IF_ERROR(
      ls_example_visit(&place, bytes.data, bytes.size, count_feature, &self));
  self.keys = ls_new_array(self.allocator, char *, self.room + 1);
  LS_RETURN_IF_NO_MEMORY(self.keys);
  LS_RETURN_IF_ERROR(
      ls_nests_init(&self.values, self.allocator, self.room + 1));
  LS_RETURN_IF_ERROR(
      ls_example_visit(&place, bytes.data, bytes.size, take_feature, &self));
  *out = ls_nest_dict("", (const char *const *)self.keys, self.values.items,
                      self.count);
  self.values.count = 0;  // The dict owns the values.
  return ls_nest_status(*out);
}

static ls_status read_first(const char *const *paths, size_t num_paths,
                            ls_nest *out) {
  // Reads only the first record; scans no file.
  LS_OWN(ls_dataset, dataset) = ls_dataset_tfrecords(paths, num_paths, NULL);
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_nest, record) = ls_none();
  LS_RETURN_IF_ERROR(ls_iterator_create(
      dataset, &(ls_iterator_options){.prefetch = LS_SOME(0)}, &iterator));
  const ls_status status = ls_iterator_next(iterator, &record);
  if (ls_status_code(status) == LS_OUT_OF_RANGE) {
    ls_status_free(status);
    return ls_out_of_range("'%s' has no record", paths[0]);
  }
  LS_RETURN_IF_ERROR(status);
  const ls_bytes *bytes = ls_array_data(ls_nest_as_array(record));
  return read_example(paths[0], *bytes, out);
}

ls_nest ls_tfrecord_first_example(const char *const *paths, size_t num_paths) {
  LS_OWN(ls_nest, found) = ls_none();
  const ls_status status = read_first(paths, num_paths, &found);
  return ls_status_is_ok(status) ? ls_give(&found) : ls_fail(status);
}
