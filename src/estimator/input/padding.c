// SPDX-License-Identifier: Apache-2.0
// Batches of any size as batches of one size.
#include "estimator/input/padding.h"

#include <string.h>

#include "base/runtime_internal.h"
#include "base/values/array_internal.h"
#include "base/values/nest_internal.h"
#include "data/dataset.h"
#include "graph/region.h"
#include "lockstep/element_spec.h"

// What a walk over leaves needs.
typedef struct walk {
  ls_batch_padding padding;
  int64_t count;
  size_t leaf;  // Which comes next.
} walk;

static int next_axis(walk *w) {
  return ls_batch_axis(w->padding.axes, w->padding.num_axes, w->leaf++);
}

static bool has_leaves(ls_nest nest) {
  return nest.kind != LS_KIND_NONE && !ls_nest_is_failed(nest);
}

// ---- How many --------------------------------------------------------------
static bool padding_shape_of(ls_nest leaf, ls_shape *out_shape) {
  const ls_array *array = ls_nest_as_array(leaf);
  const bool is_tensor = leaf.kind == LS_KIND_TENSOR;
  if (array != NULL) *out_shape = ls_array_shape(array);
  if (is_tensor) *out_shape = ls_tensor_shape(leaf.as.tensor);
  return is_tensor || array != NULL;
}

ls_status ls_padding_count(ls_batch_padding padding, ls_nest features,
                           int64_t *out_count) {
  ls_nest first = ls_none();
  ls_shape shape = LS_SHAPE_UNKNOWN;
  *out_count = 0;
  if (ls_nest_flatten(features, &first, 1) == 0 ||
      !padding_shape_of(first, &shape))
    return ls_invalid_argument("Cannot find any Tensor in the features, whose "
                               "first dimension would be the batch size");
  const int axis = ls_batch_axis(padding.axes, padding.num_axes, 0);
  if (!ls_has_axis(shape, axis) || shape.dim[axis] == LS_UNKNOWN_DIM)
    return ls_invalid_argument("the first of the features is a value of shape "
                               "%s: its first dimension, or else that of "
                               "batch_axis, here %d, must be the batch size",
                               LS_SHAPE_TEXT(LS_DTYPE_F32, shape) + 3, axis);
  *out_count = shape.dim[axis];
  const int64_t most = ls_padding_size(padding);
  return *out_count <= most
             ? ls_ok()
             : ls_invalid_argument(
                   "The real batch size should not be greater than batch_size: "
                   "a batch of %lld where there is room for %lld",
                   (long long)*out_count, (long long)most);
}

static ls_status check_rows(const walk *w, ls_dtype dtype, ls_shape shape,
                            int axis) {
  if (shape.rank == 0)
    return ls_invalid_argument("a scalar cannot be padded to %lld examples: "
                               "each feature and label needs a batch dimension",
                               (long long)ls_padding_size(w->padding));
  return ls_has_axis(shape, axis) && shape.dim[axis] == w->count
             ? ls_ok()
             : ls_invalid_argument("a batch of %lld examples has a leaf %s, "
                                   "whose examples are along axis %d",
                                   (long long)w->count,
                                   LS_SHAPE_TEXT(dtype, shape), axis);
}

// ---- Arrays ----------------------------------------------------------------
// For each place in the dimensions before the axis.
static void copy_parts(const walk *w, int axis, const ls_array *from,
                       ls_array *to) {
  const ls_batch_padding padding = w->padding;
  const ls_shape shape = ls_array_shape(to);
  size_t before = 1;
  for (int i = 0; i < axis; ++i)
    before *= (size_t)shape.dim[i];
  if (ls_array_size(to) == 0) return;
  const size_t row =
      ls_array_size(to) / before / (size_t)(padding.parts * padding.rows);
  const char *source = ls_array_data(from);
  char *target = ls_array_mutable_data(to);
  for (size_t b = 0; b < before; ++b)
    for (int64_t i = 0; i < padding.parts; ++i) {
      const size_t bytes =
          (size_t)ls_part_rows(w->count, padding.parts, i) * row;
      if (bytes > 0) memcpy(target, source, bytes);
      source += bytes;
      target += (size_t)padding.rows * row;
    }
}

static ls_nest pad_array(ls_nest leaf, void *user) {
  walk *w = user;
  const int axis = next_axis(w);
  const ls_array *array = ls_nest_as_array(leaf);
  if (array == NULL || ls_dtype_owns_elements(ls_array_dtype(array)))
    return LS_FAIL(LS_INVALID_ARGUMENT,
                   "only arrays of numbers can be padded, and fed to cores");
  ls_shape shape = ls_array_shape(array);
  ls_status status = check_rows(w, ls_array_dtype(array), shape, axis);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  if (w->count == ls_padding_size(w->padding)) return ls_nest_retain(leaf);
  shape.dim[axis] = ls_padding_size(w->padding);
  const ls_nest made = ls_nest_zeros(ls_array_dtype(array), shape);
  if (ls_nest_is_failed(made)) return made;
  copy_parts(w, axis, array, ls_nest_as_array(made));
  return made;
}

ls_nest ls_pad_arrays(ls_batch_padding padding, ls_nest arrays, int64_t count) {
  walk w = {.padding = padding, .count = count};
  if (!has_leaves(arrays)) return ls_nest_retain(arrays);
  return ls_nest_map(arrays, pad_array, &w);
}

// ---- Tensors ---------------------------------------------------------------
static ls_tensor pad_part(ls_tensor value, int axis, int64_t first,
                          int64_t count, int64_t rows) {
  ls_shape high = {.rank = ls_tensor_shape(value).rank};
  high.dim[axis] = rows - count;
  const ls_tensor zero = ls_fill(ls_tensor_dtype(value), LS_SCALAR, 0);
  return ls_pad(ls_slice_axis(value, axis, first, first + count), zero,
                LS_SCALAR, high, LS_SCALAR);
}

static ls_nest pad_tensor(ls_nest leaf, void *user) {
  walk *w = user;
  const int axis = next_axis(w);
  ls_tensor value;
  ls_status status = ls_region_tensor(leaf, &value);
  if (ls_status_is_ok(status))
    status =
        check_rows(w, ls_tensor_dtype(value), ls_tensor_shape(value), axis);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  if (w->count == ls_padding_size(w->padding)) return ls_leaf(value);
  const size_t parts = (size_t)w->padding.parts;
  ls_tensor *made = ls_new_array(ls_current_allocator(), ls_tensor, parts);
  if (made == NULL) return ls_fail(ls_out_of_memory());
  int64_t first = 0;
  for (size_t i = 0; i < parts; ++i) {
    const int64_t rows = ls_part_rows(w->count, w->padding.parts, (int64_t)i);
    made[i] = pad_part(value, axis, first, rows, w->padding.rows);
    first += rows;
  }
  const ls_tensor all = ls_concatenate(made, parts, axis);
  ls_release(ls_current_allocator(), made);
  return ls_leaf(all);
}

ls_nest ls_pad_tensors(ls_batch_padding padding, ls_nest tensors,
                       int64_t count) {
  walk w = {.padding = padding, .count = count};
  if (!has_leaves(tensors)) return ls_nest_retain(tensors);
  return ls_nest_map(tensors, pad_tensor, &w);
}

// ---- Specs -----------------------------------------------------------------
static ls_nest pad_spec(ls_nest leaf, void *user) {
  walk *w = user;
  const int axis = next_axis(w);
  ls_leaf_spec spec = *ls_nest_as_spec(leaf);
  const bool is_known = spec.type.shape.rank >= 0;
  if (spec.kind != LS_LEAF_DENSE ||
      (is_known && !ls_has_axis(spec.type.shape, axis)))
    return LS_FAIL(LS_INVALID_ARGUMENT,
                   "%s cannot be padded to %lld examples along axis %d: each "
                   "feature and label is dense and has a batch dimension",
                   LS_SHAPE_TEXT(spec.type.dtype, spec.type.shape),
                   (long long)ls_padding_size(w->padding), axis);
  if (is_known) spec.type.shape.dim[axis] = ls_padding_size(w->padding);
  return ls_nest_spec_of(&spec);
}

ls_nest ls_pad_specs(ls_batch_padding padding, ls_nest specs) {
  walk w = {.padding = padding};
  if (!has_leaves(specs)) return ls_nest_retain(specs);
  return ls_nest_map(specs, pad_spec, &w);
}

// ---- Masks -----------------------------------------------------------------
static ls_nest mask_of(ls_batch_padding padding, int64_t count, ls_dtype dtype,
                       bool real) {
  const ls_nest made = ls_nest_zeros(dtype, LS_SHAPE(ls_padding_size(padding)));
  if (ls_nest_is_failed(made)) return made;
  ls_array *array = ls_nest_as_array(made);
  for (int64_t i = 0; i < ls_padding_size(padding); ++i) {
    const int64_t part = i / padding.rows;
    const bool has =
        i % padding.rows < ls_part_rows(count, padding.parts, part);
    ls_array_set_i64(array, i, has == real);
  }
  return made;
}

ls_nest ls_padding_real(ls_batch_padding padding, int64_t count) {
  return mask_of(padding, count, LS_DTYPE_F32, true);
}

ls_nest ls_padding_mask(ls_batch_padding padding, int64_t count) {
  return mask_of(padding, count, LS_DTYPE_I32, false);
}
