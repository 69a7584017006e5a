// SPDX-License-Identifier: Apache-2.0
// Rows of batches: shares and padding. Also the element dicts that are made of
// such batches.

#include <string.h>

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/values/array_internal.h"
#include "base/values/nest_internal.h"
#include "data/composite.h"
#include "data/dataset.h"
#include "distribute/input/feed.h"
#include "graph/region.h"
#include "lockstep/element_spec.h"
#include "lockstep/ops.h"

// ---- Parts ------------------------------------------------------------------
// Copies rows along an axis into another array, from row `to_first` on.
static void copy_rows(const ls_array *from, int axis, int64_t first,
                      int64_t rows, ls_array *to, int64_t to_first) {
  const ls_shape shape = ls_array_shape(from);
  const size_t from_rows = (size_t)shape.dim[axis];
  const size_t to_rows = (size_t)ls_array_shape(to).dim[axis];
  size_t num_blocks = 1;
  for (int i = 0; i < axis; ++i)
    num_blocks *= (size_t)shape.dim[i];
  if (rows == 0 || ls_array_size(to) == 0) return;
  const size_t row_bytes = ls_array_size(to) / num_blocks / to_rows;
  const char *source = ls_array_data(from);
  char *target = ls_array_mutable_data(to);
  source += (size_t)first * row_bytes;
  target += (size_t)to_first * row_bytes;
  for (size_t i = 0; i < num_blocks; ++i)
    memcpy(target + i * to_rows * row_bytes, source + i * from_rows * row_bytes,
           (size_t)rows * row_bytes);
}

static ls_status copy_part(const ls_array *whole, int axis, int64_t first,
                           int64_t rows, ls_nest *out_part) {
  if (ls_dtype_owns_elements(ls_array_dtype(whole)))
    return ls_invalid_argument(
        "only arrays of numbers are shared out along axis %d (batch_axis)",
        axis);
  ls_shape shape = ls_array_shape(whole);
  shape.dim[axis] = rows;
  LS_RETURN_IF_ERROR(
      ls_take_nest(ls_nest_zeros(ls_array_dtype(whole), shape), out_part));
  copy_rows(whole, axis, first, rows, ls_nest_as_array(*out_part), 0);
  return ls_ok();
}

ls_status ls_rows_take(ls_nest leaf, int axis, int64_t first, int64_t rows,
                       ls_nest *out_part) {
  const ls_composite *composite = ls_nest_as_composite(leaf);
  ls_array *array = ls_nest_as_array(leaf);
  if (composite != NULL)
    return ls_composite_rows(composite, first, rows, out_part);
  return axis == 0 ? ls_array_rows(array, first, rows, out_part)
                   : copy_part(array, axis, first, rows, out_part);
}

// ---- Counting ---------------------------------------------------------------
static bool find_leaf_shape(ls_nest leaf, ls_shape *out_shape) {
  const ls_array *array = ls_nest_as_array(leaf);
  const bool is_tensor = leaf.kind == LS_KIND_TENSOR;
  if (array != NULL) *out_shape = ls_array_shape(array);
  if (is_tensor) *out_shape = ls_tensor_shape(leaf.as.tensor);
  return is_tensor || array != NULL;
}

ls_status ls_shares_count(const ls_row_shares *shares, ls_nest features,
                          int64_t *out_count) {
  ls_nest first = ls_none();
  ls_shape shape = LS_SHAPE_UNKNOWN;
  *out_count = 0;
  if (ls_nest_flatten(features, &first, 1) == 0 ||
      !find_leaf_shape(first, &shape))
    return ls_invalid_argument("Cannot find any Tensor in the features, whose "
                               "first dimension would be the batch size");
  const int axis = ls_shares_axis(shares, 0);
  if (!ls_has_axis(shape, axis) || shape.dim[axis] == LS_UNKNOWN_DIM)
    return ls_invalid_argument("the first of the features is a value of shape "
                               "%s: its first dimension, or else that of "
                               "batch_axis, here %d, must be the batch size",
                               LS_SHAPE_TEXT(LS_DTYPE_F32, shape) + 3, axis);
  *out_count = shape.dim[axis];
  const int64_t room = ls_shares_room(shares);
  return *out_count <= room
             ? ls_ok()
             : ls_invalid_argument(
                   "The real batch size should not be greater than batch_size: "
                   "a batch of %lld, the limit is %lld",
                   (long long)*out_count, (long long)room);
}

// ---- Padding ----------------------------------------------------------------
typedef struct padding_walk {
  const ls_row_shares *shares;
  int64_t count;
  size_t leaf;  // Index of the next leaf.
} padding_walk;

static ls_status check_rows(const padding_walk *walk, ls_dtype dtype,
                            ls_shape shape, int axis) {
  if (shape.rank == 0)
    return ls_invalid_argument("a scalar cannot be padded to %lld examples: "
                               "each feature and label needs a batch dimension",
                               (long long)ls_shares_room(walk->shares));
  return ls_has_axis(shape, axis) && shape.dim[axis] == walk->count
             ? ls_ok()
             : ls_invalid_argument("a batch of %lld examples has a leaf %s, "
                                   "whose examples are along axis %d",
                                   (long long)walk->count,
                                   LS_SHAPE_TEXT(dtype, shape), axis);
}

static ls_status pad_array(const padding_walk *walk, int axis, ls_nest leaf,
                           ls_nest *out_padded) {
  const ls_row_shares *shares = walk->shares;
  const ls_array *array = ls_nest_as_array(leaf);
  const ls_dtype dtype = ls_array_dtype(array);
  ls_shape shape = ls_array_shape(array);
  if (ls_dtype_owns_elements(dtype))
    return ls_invalid_argument(
        "only arrays of numbers can be padded, and fed to cores");
  LS_RETURN_IF_ERROR(check_rows(walk, dtype, shape, axis));
  if (walk->count == ls_shares_room(shares))
    return ls_take_nest(ls_nest_retain(leaf), out_padded);
  shape.dim[axis] = ls_shares_room(shares);
  LS_RETURN_IF_ERROR(ls_take_nest(ls_nest_zeros(dtype, shape), out_padded));
  for (int64_t i = 0; i < shares->parts; ++i)
    copy_rows(array, axis, ls_shares_begin(shares, walk->count, i),
              ls_shares_rows(shares, walk->count, i),
              ls_nest_as_array(*out_padded), i * shares->room);
  return ls_ok();
}

static ls_tensor pad_part(const padding_walk *walk, ls_tensor value, int axis,
                          int64_t part) {
  const ls_row_shares *shares = walk->shares;
  const int64_t first = ls_shares_begin(shares, walk->count, part);
  const int64_t end = ls_shares_begin(shares, walk->count, part + 1);
  ls_shape high = {.rank = ls_tensor_shape(value).rank};
  high.dim[axis] = shares->room - (end - first);
  const ls_tensor zero = ls_fill(ls_tensor_dtype(value), LS_SCALAR, 0);
  return ls_pad(ls_slice_axis(value, axis, first, end), zero, LS_SCALAR, high,
                LS_SCALAR);
}

static ls_status pad_tensor(const padding_walk *walk, int axis, ls_nest leaf,
                            ls_nest *out_padded) {
  ls_tensor value;
  const size_t parts = (size_t)walk->shares->parts;
  LS_RETURN_IF_ERROR(ls_region_tensor(leaf, &value));
  LS_RETURN_IF_ERROR(
      check_rows(walk, ls_tensor_dtype(value), ls_tensor_shape(value), axis));
  *out_padded = ls_leaf(value);
  if (walk->count == ls_shares_room(walk->shares)) return ls_ok();
  LS_OWN_ARRAY_OR_RETURN(ls_current_allocator(), ls_tensor, padded, parts);
  for (size_t i = 0; i < parts; ++i)
    padded[i] = pad_part(walk, value, axis, (int64_t)i);
  *out_padded = ls_leaf(ls_concatenate(padded, parts, axis));
  return ls_ok();
}

static ls_status pad_spec(const padding_walk *walk, int axis, ls_nest leaf,
                          ls_nest *out_padded) {
  ls_leaf_spec spec = *ls_nest_as_spec(leaf);
  const int64_t room = ls_shares_room(walk->shares);
  const bool is_known = spec.type.shape.rank >= 0;
  if (spec.kind != LS_LEAF_DENSE ||
      (is_known && !ls_has_axis(spec.type.shape, axis)))
    return ls_invalid_argument(
        "%s cannot be padded to %lld examples along axis %d: each feature and "
        "label is dense and has a batch dimension",
        LS_SHAPE_TEXT(spec.type.dtype, spec.type.shape), (long long)room, axis);
  if (is_known) spec.type.shape.dim[axis] = room;
  return ls_take_nest(ls_nest_spec_of(&spec), out_padded);
}

static ls_nest pad_leaf(ls_nest leaf, void *user) {
  padding_walk *walk = user;
  const int axis = ls_shares_axis(walk->shares, walk->leaf++);
  ls_nest padded = ls_none();
  return ls_made_nest(
      ls_nest_as_spec(leaf) != NULL    ? pad_spec(walk, axis, leaf, &padded)
      : ls_nest_as_array(leaf) != NULL ? pad_array(walk, axis, leaf, &padded)
                                       : pad_tensor(walk, axis, leaf, &padded),
      &padded);
}

ls_nest ls_shares_pad(const ls_row_shares *shares, size_t first_leaf,
                      ls_nest values, int64_t count) {
  padding_walk walk = {.shares = shares, .count = count, .leaf = first_leaf};
  if (values.kind == LS_KIND_NONE || ls_nest_is_failed(values))
    return ls_nest_retain(values);
  return ls_nest_map(values, pad_leaf, &walk);
}

ls_nest ls_shares_mask(const ls_row_shares *shares, int64_t count,
                       ls_dtype dtype, bool marks_real) {
  const int64_t room = ls_shares_room(shares);
  const ls_nest mask = ls_nest_zeros(dtype, LS_SHAPE(room));
  ls_array *array = ls_nest_as_array(mask);
  if (array == NULL) return mask;
  for (int64_t i = 0; i < room; ++i) {
    const int64_t real = ls_shares_rows(shares, count, i / shares->room);
    ls_array_set_i64(array, i, (i % shares->room < real) == marks_real);
  }
  return mask;
}

// ---- Elements ---------------------------------------------------------------
static const char *const field_names[] = {"features", "labels", "mask", "ended",
                                          "signals"};
enum { NUM_FIELDS = LS_COUNT_OF(field_names) };

static ls_nest *field_of(ls_feed_element *fed, size_t index) {
  ls_nest *const fields[NUM_FIELDS] = {&fed->features, &fed->labels, &fed->mask,
                                       &fed->ended, &fed->signals};
  return fields[index];
}

void ls_feed_element_drop(ls_feed_element *fed) {
  for (size_t i = 0; i < NUM_FIELDS; ++i)
    ls_nest_release(*field_of(fed, i));
  *fed = (ls_feed_element){0};
}

ls_status ls_features_split(ls_nest value, ls_nest *out_features,
                            ls_nest *out_labels) {
  *out_features = value;
  *out_labels = ls_none();
  if (value.kind != LS_KIND_TUPLE) return ls_ok();
  const size_t count = ls_nest_count(value);
  if (count != 2)
    return ls_invalid_argument(
        "input_fn returns a tuple of %zu: it must be a len 2 tuple (features, "
        "labels); use a list or a dict for several features",
        count);
  *out_features = ls_nest_item(value, 0);
  *out_labels = ls_nest_item(value, 1);
  return ls_ok();
}

ls_status ls_features_pad(const ls_row_shares *shares, ls_nest features,
                          ls_nest labels, int64_t count,
                          ls_feed_element *out_fed) {
  const size_t first_label = ls_nest_num_leaves(features);
  LS_RETURN_IF_ERROR(ls_take_nest(ls_shares_pad(shares, 0, features, count),
                                  &out_fed->features));
  return ls_take_nest(ls_shares_pad(shares, first_label, labels, count),
                      &out_fed->labels);
}

ls_nest ls_feed_element_dict(const ls_feed_element *fed) {
  ls_feed_element fields = *fed;
  const char *keys[NUM_FIELDS];
  ls_nest items[NUM_FIELDS];
  size_t count = 0;
  for (size_t i = 0; i < NUM_FIELDS; ++i) {
    const ls_nest field = *field_of(&fields, i);
    if (i > 0 && field.kind == LS_KIND_NONE) continue;
    keys[count] = field_names[i];
    items[count++] = ls_nest_retain(field);
  }
  return ls_nest_dict("", keys, items, count);
}

void ls_feed_element_take(ls_nest dict, ls_feed_element *out_fed) {
  for (size_t i = 0; i < NUM_FIELDS; ++i)
    *field_of(out_fed, i) = ls_nest_retain(ls_nest_find(dict, field_names[i]));
}
