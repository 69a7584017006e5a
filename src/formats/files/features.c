// SPDX-License-Identifier: Apache-2.0
#include "formats/files/source.h"

#include "base/memory/own.h"
#include "base/values/array_internal.h"
#include "base/values/numbers.h"
#include "lockstep/element_spec.h"
#include "lockstep/half.h"
#include "lockstep/shape_rules.h"

typedef struct feature {
  ls_tfrecord_feature wanted;  // `wanted.name` points into `names`.
  int64_t count;               // Values per example; -1: any number.
  size_t leaf;                 // Number of its leaf.
} feature;

struct ls_features {
  ls_allocator *allocator;
  feature *items;
  ls_bytes *names;
  const char **keys;
  size_t count;
  char *texts;
};

// ---- Missing values --------------------------------------------------------
// Stores an integer; returns false if it is out of bounds.
static bool store_integer(ls_dtype dtype, int64_t value, void *to) {
  const bool is_negative = value < 0;
  return ls_store_integer(dtype, is_negative,
                          is_negative ? 0 - (uint64_t)value : (uint64_t)value,
                          to);
}

// Returns true if the type has the value of a missing feature.
static bool has_missing(const ls_tfrecord_feature *wanted) {
  const double value = wanted->missing;
  char room[8];
  if (!wanted->optional || ls_dtype_is_float(wanted->dtype) ||
      wanted->dtype == LS_DTYPE_STRING)
    return true;
  return value >= -0x1p63 && value < 0x1p63 &&
         value == (double)(int64_t)value &&
         store_integer(wanted->dtype, (int64_t)value, room);
}

// ---- Making ----------------------------------------------------------------
static ls_status features_check(const ls_tfrecord_feature *wanted,
                                int64_t *out_count) {
  const ls_dtype dtype = wanted->dtype;
  const ls_shape *shape = &wanted->shape;
  if (wanted->name == NULL)
    return ls_invalid_argument("a feature without a name");
  if (!ls_dtype_is_float(dtype) && !ls_dtype_is_integer(dtype) &&
      dtype != LS_DTYPE_BOOL && dtype != LS_DTYPE_STRING)
    return ls_invalid_argument("feature '%s' as %s: floats, integers, bool and "
                               "string are read",
                               wanted->name, ls_dtype_name(dtype));
  if (!has_missing(wanted))
    return ls_invalid_argument("feature '%s' is %g where it is missing, which "
                               "is no %s",
                               wanted->name, wanted->missing,
                               ls_dtype_name(dtype));
  LS_RETURN_IF_ERROR(ls_status_annotate(ls_shape_check(*shape),
                                        "of feature '%s'", wanted->name));
  const bool any = shape->rank == 1 && shape->dim[0] == LS_UNKNOWN_DIM;
  *out_count = any ? -1 : ls_shape_num_elements(*shape);
  if (!any && !ls_shape_is_known(*shape))
    return ls_invalid_argument("feature '%s' as %s: give a known shape, or "
                               "[-1] for any number of values",
                               wanted->name, LS_SHAPE_TEXT(dtype, *shape));
  return ls_ok();
}

// Finds the leaf of each feature: a dict's leaves are sorted by key.
static ls_status number_leaves(ls_features *self) {
  LS_OWN_ARRAY_OR_RETURN(self->allocator, ls_nest, items, self->count);
  for (size_t i = 0; i < self->count; ++i)
    items[i] = ls_nest_i64((int64_t)i);
  LS_OWN(ls_nest, dict) = ls_nest_dict("", self->keys, items, self->count);
  LS_RETURN_IF_ERROR(ls_nest_status(dict));
  ls_nest_flatten(dict, items, self->count);
  for (size_t leaf = 0; leaf < self->count; ++leaf)
    self->items[items[leaf].as.i64].leaf = leaf;
  return ls_ok();
}

static ls_status features_fill(ls_features *self,
                               const ls_tfrecord_feature *features) {
  size_t size = 0;
  for (size_t i = 0; i < self->count; ++i) {
    LS_RETURN_IF_ERROR(features_check(&features[i], &self->items[i].count));
    size += strlen(features[i].name) + 1;
  }
  self->texts = ls_allocate(self->allocator, size);
  if (self->texts == NULL) return ls_out_of_memory();
  char *at = self->texts;
  for (size_t i = 0; i < self->count; ++i) {
    const size_t length = strlen(features[i].name);
    memcpy(at, features[i].name, length + 1);
    self->items[i].wanted = features[i];
    self->items[i].wanted.name = at;
    self->names[i] = (ls_bytes){at, length};
    self->keys[i] = at;
    at += length + 1;
  }
  return number_leaves(self);
}

ls_status ls_features_create(const ls_tfrecord_feature *features, size_t count,
                             ls_features **out) {
  *out = NULL;
  if (features == NULL)
    return ls_invalid_argument("%zu features, and no list of them", count);
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_NEW_OR_RETURN(allocator, ls_features, self);
  self->allocator = allocator;
  self->count = count;
  self->items = ls_new_array(allocator, feature, count);
  self->names = ls_new_array(allocator, ls_bytes, count);
  self->keys = ls_new_array(allocator, const char *, count);
  LS_RETURN_IF_NO_MEMORY(self->items);
  LS_RETURN_IF_NO_MEMORY(self->names);
  LS_RETURN_IF_NO_MEMORY(self->keys);
  LS_RETURN_IF_ERROR(features_fill(self, features));
  return ls_hand_over(&self, out);
}

void ls_features_destroy(ls_features *features) {
  if (features == NULL) return;
  ls_allocator *allocator = features->allocator;
  ls_release(allocator, features->items);
  ls_release(allocator, features->names);
  ls_release(allocator, features->keys);
  ls_release(allocator, features->texts);
  ls_release(allocator, features);
}

ls_nest ls_features_spec(const ls_features *features) {
  LS_OWN_ARRAY(features->allocator, ls_nest, items, features->count);
  if (items == NULL) return ls_fail(ls_out_of_memory());
  for (size_t i = 0; i < features->count; ++i)
    items[i] = ls_nest_spec(features->items[i].wanted.dtype,
                            features->items[i].wanted.shape);
  return ls_nest_dict("", features->keys, items, features->count);
}

void ls_features_describe(const ls_features *features, ls_text *text) {
  for (size_t i = 0; i < features->count; ++i) {
    const ls_tfrecord_feature *wanted = &features->items[i].wanted;
    ls_text_append_format(text, ", %s=%s", wanted->name,
                          LS_SHAPE_TEXT(wanted->dtype, wanted->shape));
    if (wanted->optional)
      ls_text_append_format(text, "|%.17g", wanted->missing);
  }
}

// ---- Numbers ---------------------------------------------------------------
static ls_status wrong(const feature *self, const ls_record_place *place,
                       const char *noun, long long found, long long wanted) {
  return ls_invalid_argument(
      LS_RECORD_FORMAT ": feature '%s', read as %s, has %lld %s, "
                       "expected %lld",
      LS_RECORD_ARGUMENTS(place), self->wanted.name,
      LS_SHAPE_TEXT(self->wanted.dtype, self->wanted.shape), found, noun,
      wanted);
}

static void store_float(ls_dtype dtype, float value, void *to) {
  if (dtype == LS_DTYPE_F64) memcpy(to, &(double){value}, 8);
  if (dtype == LS_DTYPE_F32) memcpy(to, &value, 4);
  if (dtype == LS_DTYPE_F16) memcpy(to, &(uint16_t){ls_f16_from_f32(value)}, 2);
  if (dtype == LS_DTYPE_BF16)
    memcpy(to, &(uint16_t){ls_bf16_from_f32(value)}, 2);
}

static void store_missing(const feature *self, size_t count, char *to) {
  const ls_dtype dtype = self->wanted.dtype;
  const size_t size = ls_dtype_size(dtype);
  for (size_t i = 0; i < count; ++i, to += size) {
    if (dtype == LS_DTYPE_F64)
      memcpy(to, &self->wanted.missing, 8);
    else if (ls_dtype_is_float(dtype))
      store_float(dtype, (float)self->wanted.missing, to);
    else
      (void)!store_integer(dtype, (int64_t)self->wanted.missing, to);
  }
}

// A feature of an example about to be read.
typedef struct reading {
  const feature *self;
  const ls_record_place *place;
  ls_feature_place at;
  const ls_feature *found;
  ls_fetch *fetch;
} reading;

// Reads a single bytes value as the raw elements.
static ls_status read_raw(const reading *in, size_t count, char *to) {
  const ls_dtype dtype = in->self->wanted.dtype;
  ls_bytes bytes = {0};
  size_t values = 0;
  LS_RETURN_IF_ERROR(ls_feature_bytes(&in->at, in->found, &bytes, 1, &values));
  if (values != 1)
    return wrong(in->self, in->place, "bytes values", (long long)values, 1);
  const size_t size = count * ls_dtype_size(dtype);
  if (bytes.size != size)
    return wrong(in->self, in->place, "bytes", (long long)bytes.size,
                 (long long)size);
  if (size > 0) memcpy(to, bytes.data, size);
  for (size_t i = 0; dtype == LS_DTYPE_BOOL && i < size; ++i)
    to[i] = to[i] != 0;
  return ls_ok();
}

static ls_status read_floats(const reading *in, size_t count, char *to,
                             size_t *values) {
  const ls_dtype dtype = in->self->wanted.dtype;
  if (dtype == LS_DTYPE_F32)
    return ls_feature_floats(&in->at, in->found, (float *)(void *)to, count,
                             values);
  LS_OWN(ls_fetch_mark, mark) = ls_fetch_begin(in->fetch);
  LS_ROOM_OR_RETURN(in->fetch, float, room, count);
  LS_RETURN_IF_ERROR(
      ls_feature_floats(&in->at, in->found, room, count, values));
  for (size_t i = 0; i < count && i < *values; ++i)
    store_float(dtype, room[i], to + i * ls_dtype_size(dtype));
  return ls_ok();
}

static ls_status read_integers(const reading *in, size_t count, char *to,
                               size_t *values) {
  const ls_dtype dtype = in->self->wanted.dtype;
  if (dtype == LS_DTYPE_I64)
    return ls_feature_ints(&in->at, in->found, (int64_t *)(void *)to, count,
                           values);
  LS_OWN(ls_fetch_mark, mark) = ls_fetch_begin(in->fetch);
  LS_ROOM_OR_RETURN(in->fetch, int64_t, room, count);
  LS_RETURN_IF_ERROR(ls_feature_ints(&in->at, in->found, room, count, values));
  for (size_t i = 0; i < count && i < *values; ++i) {
    if (store_integer(dtype, room[i], to + i * ls_dtype_size(dtype))) continue;
    return ls_invalid_argument(
        LS_RECORD_FORMAT ": feature '%s' has %lld, which is no %s%s",
        LS_RECORD_ARGUMENTS(in->place), in->self->wanted.name,
        (long long)room[i], ls_dtype_name(dtype),
        dtype == LS_DTYPE_U8 ? LS_BYTES_HINT "FEATURE=i64,LABEL'" : "");
  }
  return ls_ok();
}

// Reads `count` numbers into `to`.
static ls_status read_numbers(const reading *in, size_t count, char *to) {
  const feature *self = in->self;
  size_t values = 0;
  if (in->found->kind == LS_FEATURE_ABSENT && self->wanted.optional) {
    store_missing(self, count, to);
    return ls_ok();
  }
  if (in->found->kind == LS_FEATURE_BYTES) return read_raw(in, count, to);
  LS_RETURN_IF_ERROR(ls_dtype_is_float(self->wanted.dtype)
                         ? read_floats(in, count, to, &values)
                         : read_integers(in, count, to, &values));
  if (values == count) return ls_ok();
  return wrong(self, in->place, "values", (long long)values, (long long)count);
}

// ---- Examples --------------------------------------------------------------
// Finds all features of an example, in the fetch's room.
static ls_status find_features(const ls_features *features, ls_fetch *fetch,
                               const ls_record_place *place, ls_bytes example,
                               reading **out) {
  const size_t count = features->count;
  LS_ROOM_OR_RETURN(fetch, ls_feature, found, count);
  LS_ROOM_OR_RETURN(fetch, reading, reads, count);
  LS_RETURN_IF_ERROR(ls_example_find(place, example.data, example.size,
                                     features->names, count, found));
  for (size_t i = 0; i < count; ++i)
    reads[i] = (reading){.self = &features->items[i],
                         .place = place,
                         .at = {place, example.data, features->names[i]},
                         .found = &found[i],
                         .fetch = fetch};
  *out = reads;
  return ls_ok();
}

ls_status ls_features_read(const ls_features *features, ls_fetch *fetch,
                           const ls_record_place *place, ls_bytes example,
                           const size_t *row_sizes, void *const *rows,
                           size_t k) {
  LS_OWN(ls_fetch_mark, mark) = ls_fetch_begin(fetch);
  reading *reads = NULL;
  LS_RETURN_IF_ERROR(find_features(features, fetch, place, example, &reads));
  for (size_t i = 0; i < features->count; ++i) {
    const feature *self = reads[i].self;
    LS_RETURN_IF_ERROR(
        read_numbers(&reads[i], (size_t)self->count,
                     (char *)rows[self->leaf] + k * row_sizes[self->leaf]));
  }
  return ls_ok();
}

// Counts the elements of a feature without fixed count.
static ls_status count_values(const reading *in, size_t *out) {
  const ls_dtype dtype = in->self->wanted.dtype;
  ls_bytes raw = {0};
  *out = 0;
  if (in->found->kind == LS_FEATURE_ABSENT && in->self->wanted.optional)
    return ls_ok();
  if (in->found->kind == LS_FEATURE_BYTES || dtype == LS_DTYPE_STRING) {
    LS_RETURN_IF_ERROR(ls_feature_bytes(&in->at, in->found, &raw, 1, out));
    if (dtype != LS_DTYPE_STRING) *out = raw.size / ls_dtype_size(dtype);
    return ls_ok();
  }
  return ls_dtype_is_float(dtype)
             ? ls_feature_floats(&in->at, in->found, NULL, 0, out)
             : ls_feature_ints(&in->at, in->found, NULL, 0, out);
}

static ls_status make_strings(const reading *in, ls_shape shape, size_t count,
                              ls_array **out) {
  LS_OWN(ls_fetch_mark, mark) = ls_fetch_begin(in->fetch);
  LS_ROOM_OR_RETURN(in->fetch, ls_bytes, texts, count);
  size_t values = count;
  if (in->found->kind == LS_FEATURE_ABSENT && in->self->wanted.optional) {
    for (size_t i = 0; i < count; ++i)
      texts[i] = (ls_bytes){.data = ""};
  } else {
    LS_RETURN_IF_ERROR(
        ls_feature_bytes(&in->at, in->found, texts, count, &values));
  }
  if (values != count)
    return wrong(in->self, in->place, "values", (long long)values,
                 (long long)count);
  return ls_array_create_copy(LS_DTYPE_STRING, shape, texts, out);
}

static ls_status make_array(const reading *in, ls_nest *out) {
  const ls_tfrecord_feature *wanted = &in->self->wanted;
  ls_shape shape = wanted->shape;
  size_t count = (size_t)in->self->count;
  LS_OWN(ls_array, array) = NULL;
  if (in->self->count < 0) {
    LS_RETURN_IF_ERROR(count_values(in, &count));
    shape = LS_SHAPE((int64_t)count);
  }
  if (wanted->dtype == LS_DTYPE_STRING) {
    LS_RETURN_IF_ERROR(make_strings(in, shape, count, &array));
  } else {
    LS_RETURN_IF_ERROR(ls_array_create_unwritten(wanted->dtype, shape, &array));
    LS_RETURN_IF_ERROR(read_numbers(in, count, ls_array_mutable_data(array)));
  }
  *out = ls_nest_array(ls_give(&array));
  return ls_ok();
}

ls_status ls_features_make(const ls_features *features, ls_fetch *fetch,
                           const ls_record_place *place, ls_bytes example,
                           ls_nest *element) {
  LS_OWN(ls_fetch_mark, mark) = ls_fetch_begin(fetch);
  LS_OWN(ls_nests, items) = {0};
  reading *reads = NULL;
  LS_RETURN_IF_ERROR(ls_nests_init(&items, &fetch->stack, features->count));
  LS_RETURN_IF_ERROR(find_features(features, fetch, place, example, &reads));
  for (size_t i = 0; i < features->count; ++i)
    LS_RETURN_IF_ERROR(make_array(&reads[i], &items.items[i]));
  items.count = 0;  // The dict owns the items.
  return ls_element_replace(
      ls_nest_dict("", features->keys, items.items, features->count), element);
}
