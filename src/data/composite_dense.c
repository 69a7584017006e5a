// SPDX-License-Identifier: Apache-2.0
// Sparse and ragged leaves as dense arrays.
#include "base/memory/own.h"
#include "base/plain.h"
#include "base/values/array_internal.h"
#include "data/composite.h"
#include "lockstep/element_spec.h"

static const int64_t *splits_of(const ls_composite *self, size_t level) {
  return ls_array_data(self->parts[level + 1]);
}

// Returns the smallest dense shape: each ragged dimension is as long as its
// longest row.
static ls_shape natural_shape(const ls_composite *self) {
  ls_shape shape = self->spec.type.shape;
  for (size_t k = 0; k + 1 < self->count && self->spec.kind == LS_LEAF_RAGGED;
       ++k) {
    const int64_t *at = splits_of(self, k);
    const int64_t rows = ls_array_num_elements(self->parts[k + 1]) - 1;
    shape.dim[k + 1] = 0;
    for (int64_t i = 0; i < rows; ++i)
      if (at[i + 1] - at[i] > shape.dim[k + 1])
        shape.dim[k + 1] = at[i + 1] - at[i];
  }
  return shape;
}

static ls_status choose_shape(const ls_composite *self, const ls_shape *wanted,
                              ls_shape *out) {
  *out = natural_shape(self);
  if (wanted == NULL) return ls_ok();
  bool fits = wanted->rank == out->rank;
  for (int k = 0; k < out->rank && fits; ++k) {
    if (wanted->dim[k] < 0) continue;
    fits = wanted->dim[k] >= out->dim[k];
    if (fits) out->dim[k] = wanted->dim[k];
  }
  return fits ? ls_ok()
              : ls_invalid_argument(
                    "a leaf of %s has no room in %s",
                    LS_SHAPE_TEXT(self->spec.type.dtype, natural_shape(self)),
                    LS_SHAPE_TEXT(self->spec.type.dtype, *wanted));
}

// ---- Copying ---------------------------------------------------------------
static void copy_sparse(const ls_composite *self, const ls_shape *shape,
                        char *to) {
  const ls_array *values = self->parts[1];
  const size_t size = ls_dtype_size(ls_array_dtype(values));
  const int64_t *index = ls_array_data(self->parts[0]);
  const char *from = ls_array_data(values);
  for (int64_t i = 0; i < ls_array_num_elements(values); ++i, from += size) {
    size_t at = 0;
    for (int k = 0; k < shape->rank; ++k)
      at = at * (size_t)shape->dim[k] + (size_t)*index++;
    memcpy(to + at * size, from, size);
  }
}

typedef struct ragged_copy {
  const ls_composite *self;
  const char *values;
  size_t row;  // Bytes of one value.
  size_t steps[LS_MAX_RANK + 1];
} ragged_copy;

// Copies row `index` of a level; level 0 is the outermost.
static void copy_ragged(const ragged_copy *copy, size_t level, int64_t index,
                        char *to) {
  if (level + 1 == copy->self->count) {
    memcpy(to, copy->values + (size_t)index * copy->row, copy->row);
    return;
  }
  const int64_t *at = splits_of(copy->self, level);
  for (int64_t i = at[index]; i < at[index + 1]; ++i)
    copy_ragged(copy, level + 1, i,
                to + (size_t)(i - at[index]) * copy->steps[level + 1]);
}

// Inner dimensions of the target cannot be longer than those of the values:
// they are not ragged.
static ls_status copy_rows(const ls_composite *self, const ls_shape *shape,
                           char *to) {
  const ls_array *values = self->parts[0];
  const ls_shape inner = ls_array_shape(values);
  ragged_copy copy = {.self = self, .values = ls_array_data(values)};
  copy.row = ls_dtype_size(ls_array_dtype(values));
  for (int k = 1; k < inner.rank; ++k) {
    copy.row *= (size_t)inner.dim[k];
    if (inner.dim[k] != shape->dim[k + (int)self->count - 1])
      return ls_invalid_argument(
          "only the rows and ragged dimensions of a ragged leaf can be padded, "
          "not to %s",
          LS_SHAPE_TEXT(ls_array_dtype(values), *shape));
  }
  copy.steps[self->count - 1] = copy.row;
  for (size_t k = self->count - 1; k > 0; --k)
    copy.steps[k - 1] = copy.steps[k] * (size_t)shape->dim[k];
  const int64_t rows = ls_array_num_elements(self->parts[1]) - 1;
  for (int64_t i = 0; i < rows; ++i)
    copy_ragged(&copy, 0, i, to + (size_t)i * copy.steps[0]);
  return ls_ok();
}

static ls_status copy_values(const ls_composite *self, double padding,
                             const ls_shape *shape, ls_array *to) {
  const bool lends = ls_dtype_owns_elements(ls_array_dtype(to));
  ls_status status = ls_ok();
  for (int64_t i = 0; padding != 0 && !lends && i < ls_array_num_elements(to);
       ++i)
    ls_array_set_f64(to, i, padding);
  if (lends) ls_array_lend(to);
  char *data = ls_array_mutable_data(to);
  if (self->spec.kind == LS_LEAF_SPARSE)
    copy_sparse(self, shape, data);
  else
    status = copy_rows(self, shape, data);
  return lends ? ls_status_join(status, ls_array_own(to)) : status;
}

static ls_status make_dense_array(const ls_composite *self, double padding,
                                  const ls_shape *wanted, ls_array **out) {
  ls_shape shape;
  LS_OWN(ls_array, array) = NULL;
  LS_RETURN_IF_ERROR(choose_shape(self, wanted, &shape));
  LS_RETURN_IF_ERROR(ls_array_create(self->spec.type.dtype, shape, &array));
  LS_RETURN_IF_ERROR(copy_values(self, padding, &shape, array));
  return ls_hand_over(&array, out);
}

ls_nest ls_nest_to_dense(ls_nest leaf, double padding, const ls_shape *shape) {
  if (ls_nest_as_array(leaf) != NULL) return ls_nest_retain(leaf);
  const ls_composite *self = ls_nest_as_composite(leaf);
  if (self == NULL)
    return LS_FAIL(
        LS_INVALID_ARGUMENT,
        "a leaf that is neither sparse nor ragged has no dense form");
  ls_array *array = NULL;
  const ls_status status = make_dense_array(self, padding, shape, &array);
  return ls_status_is_ok(status) ? ls_nest_array(array) : ls_fail(status);
}

// ---- Data sets -------------------------------------------------------------
// User data of the map that makes leaves dense.
typedef struct to_dense {
  ls_allocator *allocator;
  size_t leaf, count;
  double padding;
  bool has_shape;
  ls_shape shape;
} to_dense;

static void release_dense(void *user) {
  to_dense *self = user;
  if (self != NULL) ls_release(self->allocator, self);
}

static ls_nest make_dense(ls_nest element, const ls_map_call *call,
                          void *user) {
  const to_dense *self = user;
  (void)call;
  LS_OWN_ARRAY(self->allocator, ls_nest, leaves, self->count);
  if (leaves == NULL) return ls_fail(ls_out_of_memory());
  ls_nest_flatten(element, leaves, self->count);
  for (size_t i = 0; i < self->count; ++i)
    leaves[i] = i == self->leaf
                    ? ls_nest_to_dense(leaves[i], self->padding,
                                       self->has_shape ? &self->shape : NULL)
                    : ls_nest_retain(leaves[i]);
  return ls_nest_pack(element, leaves, self->count);
}

// Makes the spec of the dense elements; dimensions that depend on the element
// are unknown.
static ls_nest dense_spec(const ls_dataset *dataset, size_t leaf,
                          const ls_shape *shape) {
  LS_OWN_ARRAY(dataset->allocator, ls_nest, items, dataset->num_leaves);
  if (items == NULL) return ls_fail(ls_out_of_memory());
  for (size_t i = 0; i < dataset->num_leaves; ++i) {
    ls_leaf_spec spec = dataset->leaves[i];
    if (i == leaf) spec.kind = LS_LEAF_DENSE;
    for (int k = 0; i == leaf && shape != NULL && k < shape->rank; ++k)
      if (shape->dim[k] >= 0) spec.type.shape.dim[k] = shape->dim[k];
    items[i] = ls_nest_spec_of(&spec);
  }
  return ls_nest_pack(dataset->structure, items, dataset->num_leaves);
}

static ls_status check_dense(const ls_dataset *dataset, int leaf,
                             const ls_shape *shape) {
  LS_RETURN_IF_ERROR(ls_dataset_status(dataset));
  if (leaf < 0 || (size_t)leaf >= dataset->num_leaves)
    return ls_invalid_argument(
        "to_dense of leaf %d: elements have %zu, counted from 0", leaf,
        dataset->num_leaves);
  const ls_type *type = &dataset->leaves[leaf].type;
  if (shape == NULL || shape->rank == type->shape.rank) return ls_ok();
  return ls_invalid_argument("leaf %d, %s, cannot be made a dense %s", leaf,
                             LS_SHAPE_TEXT(type->dtype, type->shape),
                             LS_SHAPE_TEXT(type->dtype, *shape));
}

ls_dataset *ls_dataset_to_dense(ls_dataset *dataset, int leaf, double padding,
                                const ls_shape *shape) {
  char name[64];
  to_dense *self = NULL;
  ls_status status = check_dense(dataset, leaf, shape);
  if (ls_status_is_ok(status)) {
    self = ls_new(dataset->allocator, to_dense);
    if (self == NULL) status = ls_out_of_memory();
  }
  if (!ls_status_is_ok(status)) {
    // Returns a failed map, to report the status in the usual way.
    ls_dataset *failed = ls_dataset_map(
        dataset, &(ls_map_options){.call = make_dense,
                                   .result = ls_fail(ls_status_clone(status))});
    return ls_dataset_fail(failed, status);
  }
  *self = (to_dense){.allocator = dataset->allocator,
                     .leaf = (size_t)leaf,
                     .count = dataset->num_leaves,
                     .padding = padding,
                     .has_shape = shape != NULL};
  if (shape != NULL) self->shape = *shape;
  ls_format(name, sizeof(name), "to_dense, leaf %d, %g, %s", leaf, padding,
            shape == NULL ? "all" : LS_SHAPE_TEXT(LS_DTYPE_NONE, *shape));
  return ls_dataset_map(
      dataset,
      &(ls_map_options){.name = name,
                        .call = make_dense,
                        .user = self,
                        .release = release_dense,
                        .result = dense_spec(dataset, (size_t)leaf, shape)});
}
