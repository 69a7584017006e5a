// SPDX-License-Identifier: Apache-2.0
// TFRecord files as data sets: plain records, or features of the tf.Examples in
// them.
#include "base/memory/map.h"
#include "base/runtime_internal.h"
#include "base/values/nest_builder.h"
#include "data/own.h"
#include "formats/bytes/example.h"
#include "formats/bytes/offsets.h"
#include "formats/files/source.h"
#include "io/bytes.h"
#include "io/crc32c.h"
#include "io/inflate.h"
#include "lockstep/element_spec.h"
#include "lockstep/files.h"

typedef struct tfrecord_decoder {
  ls_record_decoder base;
  bool check;
  ls_features *features;  // NULL: elements are plain records.
} tfrecord_decoder;

// ---- Files -----------------------------------------------------------------
// A gzip file's first bytes could be a record's length; the record's checksum
// decides.
static ls_status find_packing(ls_source_file *file) {
  unsigned char head[LS_TFRECORD_HEAD] = {0};
  const size_t size = file->file->size < LS_TFRECORD_HEAD
                          ? (size_t)file->file->size
                          : LS_TFRECORD_HEAD;
  LS_RETURN_IF_ERROR(ls_file_read(file->file, 0, head, size));
  const bool is_plain =
      size == LS_TFRECORD_HEAD &&
      ls_load_le32(head + 8) == ls_crc32c_mask(ls_crc32c(0, head, 8));
  if (!is_plain && ls_gzip_is(head, size)) file->packing = LS_PACKING_GZIP;
  return ls_ok();
}

static ls_status scan_tfrecord(const ls_record_decoder *decoder,
                               ls_source_file *file) {
  (void)decoder;
  LS_RETURN_IF_ERROR(find_packing(file));
  file->count = -1;
  if (file->packing != LS_PACKING_NONE) return ls_ok();
  LS_RETURN_IF_ERROR(ls_tfrecord_scan(file->file, &file->offsets));
  file->count = ls_offsets_count(&file->offsets);
  return ls_ok();
}

// ---- Records ---------------------------------------------------------------
static ls_status open_record(const tfrecord_decoder *self,
                             const ls_record_at *at, const char *frame,
                             size_t size, ls_record_place *place,
                             ls_bytes *out) {
  *place = (ls_record_place){at->file->path, at->record, at->offset};
  *out = (ls_bytes){frame, size};
  if (at->opened) return ls_ok();
  return ls_tfrecord_open_frame(place, frame, size, self->check, out);
}

static ls_status read_tfrecord(const ls_record_decoder *decoder,
                               ls_fetch *fetch, const ls_record_at *at,
                               char *bytes, size_t size,
                               const size_t *row_sizes, void *const *rows,
                               size_t k) {
  const tfrecord_decoder *self = (const tfrecord_decoder *)decoder;
  ls_record_place place;
  ls_bytes record;
  LS_RETURN_IF_ERROR(open_record(self, at, bytes, size, &place, &record));
  place.offset += LS_TFRECORD_HEAD;
  return ls_features_read(self->features, fetch, &place, record, row_sizes,
                          rows, k);
}

static ls_status make_tfrecord(const ls_record_decoder *decoder,
                               ls_fetch *fetch, const ls_record_at *at,
                               char *bytes, size_t size, ls_nest *element) {
  const tfrecord_decoder *self = (const tfrecord_decoder *)decoder;
  ls_record_place place;
  ls_bytes record;
  LS_RETURN_IF_ERROR(open_record(self, at, bytes, size, &place, &record));
  if (self->features == NULL)
    return ls_element_of_bytes(record.data, record.size, element);
  place.offset += LS_TFRECORD_HEAD;
  return ls_features_make(self->features, fetch, &place, record, element);
}

static ls_status next_tfrecord(const ls_record_decoder *decoder,
                               ls_reader *reader, ls_record_at *at,
                               char **bytes, size_t *size) {
  const tfrecord_decoder *self = (const tfrecord_decoder *)decoder;
  ls_record_place place = {.record = at->record};
  ls_bytes found;
  LS_RETURN_IF_ERROR(ls_tfrecord_next(reader, &place, self->check, &found));
  at->offset = place.offset;
  *bytes = (char *)(uintptr_t)found.data;
  *size = found.size;
  return ls_ok();
}

static void describe_tfrecords(const ls_record_decoder *decoder,
                               ls_text *text) {
  const tfrecord_decoder *self = (const tfrecord_decoder *)decoder;
  if (self->features != NULL) ls_features_describe(self->features, text);
}

static void destroy_tfrecords(ls_record_decoder *decoder) {
  ls_features_destroy(((tfrecord_decoder *)decoder)->features);
}

static const ls_record_format tfrecord_format = {.name = "tfrecords",
                                                 .scan = scan_tfrecord,
                                                 .read = read_tfrecord,
                                                 .make = make_tfrecord,
                                                 .next = next_tfrecord,
                                                 .describe = describe_tfrecords,
                                                 .destroy = destroy_tfrecords};

static ls_status begin_tfrecords(tfrecord_decoder *self,
                                 const ls_tfrecord_options *options) {
  self->base.load = options->load;
  self->base.index_kind = options->keep_index == LS_FLAG_ON ? 2 : 0;
  self->check = options->check != LS_FLAG_OFF;
  if (options->num_features == 0) {
    self->base.spec = ls_nest_spec(LS_DTYPE_STRING, LS_SCALAR);
  } else {
    LS_RETURN_IF_ERROR(ls_features_create(
        options->features, options->num_features, &self->features));
    self->base.spec = ls_features_spec(self->features);
  }
  return ls_nest_status(self->base.spec);
}

ls_dataset *ls_dataset_tfrecords(const char *const *paths, size_t num_paths,
                                 const ls_tfrecord_options *options) {
  static const ls_tfrecord_options none;
  tfrecord_decoder *decoder = (tfrecord_decoder *)ls_record_decoder_new(
      &tfrecord_format, sizeof(*decoder));
  if (decoder == NULL) return NULL;
  const ls_status status =
      begin_tfrecords(decoder, options != NULL ? options : &none);
  return ls_record_source_new(paths, num_paths, &decoder->base, status);
}

// ---- The first example -----------------------------------------------------
typedef struct example {
  ls_allocator *allocator;
  const ls_record_place *place;
  ls_bytes bytes;
  ls_map places;  // Place + 1 of each key.
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
  size_t place = (uintptr_t)ls_map_find(&self->places, name.data, name.size);
  if (place == 0) {
    place = self->count + 1;
    self->keys[self->count] =
        ls_copy_text(self->allocator, name.data, name.size);
    if (self->keys[self->count] == NULL ||
        !ls_map_insert(&self->places, name.data, name.size, (void *)place))
      return ls_out_of_memory();
    ++self->count;
  }
  ls_nest *value = &self->values.items[place - 1];
  ls_nest_release(*value);
  return make_values(self, name, feature, value);
}

static void end_example(example *self) {
  ls_map_deinit(&self->places);
  for (size_t i = 0; self->keys != NULL && i < self->room; ++i)
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
  ls_map_init(&self.places, self.allocator);
  LS_SET_ARRAY_OR_RETURN(self.allocator, char *, self.keys, self.room + 1);
  LS_RETURN_IF_ERROR(
      ls_nests_init(&self.values, self.allocator, self.room + 1));
  LS_RETURN_IF_ERROR(
      ls_example_visit(&place, bytes.data, bytes.size, take_feature, &self));
  *out = ls_nest_dict("", (const char *const *)self.keys, self.values.items,
                      self.count);
  self.values.count = 0;  // The dict owns the values.
  return ls_nest_status(*out);
}

// Reads the first record of a file, and nothing behind it.
static ls_status read_first_of(const char *path, ls_nest *out) {
  LS_OWN(ls_source_file, file) = NULL;
  LS_OWN(ls_reader, reader) = {0};
  ls_record_place place = {0};
  ls_bytes bytes;
  LS_RETURN_IF_ERROR(ls_source_file_open(path, NULL, &file));
  LS_RETURN_IF_ERROR(find_packing(file));
  LS_RETURN_IF_ERROR(
      ls_reader_open(file->file, file->allocator,
                     &(ls_reader_options){.packing = file->packing}, &reader));
  LS_RETURN_IF_ERROR(ls_tfrecord_next(&reader, &place, true, &bytes));
  return read_example(path, bytes, out);
}

static ls_status read_first(const char *const *paths, size_t num_paths,
                            ls_nest *out) {
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_MEMORY(allocator, const char *, found) = NULL;
  size_t count = 0;
  LS_RETURN_IF_ERROR(
      ls_source_paths(paths, num_paths, allocator, &found, &count));
  for (size_t i = 0; i < count; ++i) {
    const ls_status status = read_first_of(found[i], out);
    if (ls_status_code(status) != LS_OUT_OF_RANGE) return status;
    ls_status_free(status);
  }
  return ls_out_of_range("'%s' has no record", paths[0]);
}

ls_nest ls_tfrecord_first_example(const char *const *paths, size_t num_paths) {
  LS_OWN(ls_nest, found) = ls_none();
  const ls_status status = read_first(paths, num_paths, &found);
  return ls_status_is_ok(status) ? ls_give(&found) : ls_fail(status);
}
