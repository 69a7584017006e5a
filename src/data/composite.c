// SPDX-License-Identifier: Apache-2.0
// Sparse and ragged leaves: making and reading them.
#include "data/composite.h"

#include "base/plain.h"
#include "base/require.h"
#include "lockstep/shape_rules.h"

static void destroy_composite(ls_object *object) {
  ls_composite *self = (ls_composite *)object;
  for (size_t i = 0; i < self->count; ++i)
    ls_array_release(self->parts[i]);
  ls_release(self->allocator, self);
}

static void print_composite(const ls_object *object, char *buffer,
                            size_t size) {
  const ls_composite *self = (const ls_composite *)object;
  ls_format(buffer, size, "%s %s",
            self->spec.kind == LS_LEAF_SPARSE ? "sparse" : "ragged",
            LS_SHAPE_TEXT(self->spec.type.dtype, self->spec.type.shape));
}

static const ls_object_type composite_type = {.name = "composite",
                                              .destroy = destroy_composite,
                                              .print = print_composite};

const ls_composite *ls_nest_as_composite(ls_nest leaf) {
  if (leaf.kind != LS_KIND_OBJECT || leaf.as.ref == NULL) return NULL;
  const ls_object *object = leaf.as.ref;
  return object->type == &composite_type ? (const ls_composite *)object : NULL;
}

// Makes a leaf of the given parts, which the leaf takes over.
static ls_nest make_leaf(ls_leaf_kind kind, ls_dtype dtype, ls_shape shape,
                         ls_array *const *parts, size_t count) {
  ls_allocator *allocator = ls_current_allocator();
  ls_composite *self =
      ls_allocate_zeroed(allocator, 1, sizeof(*self) + count * sizeof(*parts));
  if (self == NULL) {
    for (size_t i = 0; i < count; ++i)
      ls_array_release(parts[i]);
    return ls_fail(ls_out_of_memory());
  }
  ls_object_init(&self->object, &composite_type);
  self->allocator = allocator;
  self->spec = (ls_leaf_spec){.kind = kind, .type = {dtype, shape}};
  self->count = count;
  memcpy(self->parts, parts, count * sizeof(*parts));
  return ls_nest_object(LS_KIND_OBJECT, &self->object);
}

// ---- Sparse ----------------------------------------------------------------
// Checks that the index is inside the shape and after the previous index.
static ls_status check_index(const int64_t *index, bool first,
                             const ls_shape *shape, int64_t number) {
  bool behind = first || shape->rank == 0;
  for (int k = 0; k < shape->rank; ++k) {
    if (index[k] < 0 || index[k] >= shape->dim[k])
      return ls_invalid_argument(
          "value %lld of a sparse leaf is at %lld in dimension %d, which is "
          "%lld long",
          (long long)number, (long long)index[k], k, (long long)shape->dim[k]);
    if (behind) continue;
    const int64_t before = index[k - shape->rank];
    if (index[k] < before) break;
    behind = index[k] > before;
  }
  return behind ? ls_ok()
                : ls_invalid_argument(
                      "value %lld of a sparse leaf is out of order",
                      (long long)number);
}

static ls_status check_sparse(const ls_array *indices, const ls_array *values,
                              const ls_shape *shape) {
  if (indices == NULL || values == NULL)
    return ls_invalid_argument("a sparse leaf needs indices and values");
  LS_RETURN_IF_ERROR(ls_shape_check(*shape));
  const ls_shape at = ls_array_shape(indices), all = ls_array_shape(values);
  if (!ls_shape_is_known(*shape) || all.rank != 1 || at.rank != 2 ||
      ls_array_dtype(indices) != LS_DTYPE_I64 || at.dim[0] != all.dim[0] ||
      at.dim[1] != shape->rank)
    return ls_invalid_argument(
        "a sparse leaf of %s cannot have indices %s and values %s: i64[n,rank] "
        "and [n] are needed",
        LS_SHAPE_TEXT(ls_array_dtype(values), *shape),
        LS_SHAPE_TEXT(ls_array_dtype(indices), at),
        LS_SHAPE_TEXT(ls_array_dtype(values), all));
  const int64_t *index = ls_array_data(indices);
  for (int64_t i = 0; i < all.dim[0]; ++i, index += shape->rank)
    LS_RETURN_IF_ERROR(check_index(index, i == 0, shape, i));
  return ls_ok();
}

ls_nest ls_nest_sparse(ls_array *indices, ls_array *values,
                       ls_shape dense_shape) {
  const ls_status status = check_sparse(indices, values, &dense_shape);
  if (!ls_status_is_ok(status)) {
    ls_array_release(indices);
    ls_array_release(values);
    return ls_fail(status);
  }
  ls_array *const parts[] = {indices, values};
  return make_leaf(LS_LEAF_SPARSE, ls_array_dtype(values), dense_shape, parts,
                   2);
}

// ---- Ragged ----------------------------------------------------------------
// Checks splits of `split` items.
static ls_status check_splits(const ls_array *splits, int64_t split,
                              size_t number) {
  if (splits == NULL || ls_array_dtype(splits) != LS_DTYPE_I64 ||
      ls_array_shape(splits).rank != 1 || ls_array_shape(splits).dim[0] < 1)
    return ls_invalid_argument("row splits %zu of a ragged leaf must be "
                               "i64[rows + 1]",
                               number);
  const int64_t count = ls_array_shape(splits).dim[0];
  const int64_t *at = ls_array_data(splits);
  bool rises = at[0] == 0 && at[count - 1] == split;
  for (int64_t i = 1; i < count; ++i)
    rises = rises && at[i] >= at[i - 1];
  return rises ? ls_ok()
               : ls_invalid_argument(
                     "row splits %zu of a ragged leaf must rise from 0 to %lld",
                     number, (long long)split);
}

static ls_status check_ragged(const ls_array *values,
                              ls_array *const *row_splits, size_t num_splits) {
  if (values == NULL || row_splits == NULL || num_splits == 0)
    return ls_invalid_argument("a ragged leaf needs values and row splits");
  const ls_shape shape = ls_array_shape(values);
  if (shape.rank < 1 || shape.rank + (int64_t)num_splits > LS_MAX_RANK)
    return ls_invalid_argument(
        "values %s of a ragged leaf with %zu row splits: they are rows, and it "
        "has at most %d dimensions",
        LS_SHAPE_TEXT(ls_array_dtype(values), shape), num_splits, LS_MAX_RANK);
  int64_t split = shape.dim[0];
  for (size_t i = num_splits; i > 0; --i) {
    LS_RETURN_IF_ERROR(check_splits(row_splits[i - 1], split, i - 1));
    split = ls_array_shape(row_splits[i - 1]).dim[0] - 1;
  }
  return ls_ok();
}

ls_nest ls_nest_ragged(ls_array *values, ls_array *const *row_splits,
                       size_t num_splits) {
  ls_array *parts[LS_MAX_RANK + 1] = {values};
  const ls_status status = check_ragged(values, row_splits, num_splits);
  if (!ls_status_is_ok(status)) {
    ls_array_release(values);
    for (size_t i = 0; row_splits != NULL && i < num_splits; ++i)
      ls_array_release(row_splits[i]);
    return ls_fail(status);
  }
  const ls_shape inner = ls_array_shape(values);
  ls_shape shape = {.rank = inner.rank + (int)num_splits};
  shape.dim[0] = ls_array_shape(row_splits[0]).dim[0] - 1;
  for (size_t i = 0; i < num_splits; ++i) {
    parts[i + 1] = row_splits[i];
    shape.dim[i + 1] = LS_UNKNOWN_DIM;
  }
  for (int k = 1; k < inner.rank; ++k)
    shape.dim[k + (int)num_splits] = inner.dim[k];
  return make_leaf(LS_LEAF_RAGGED, ls_array_dtype(values), shape, parts,
                   num_splits + 1);
}

// ---- Getters ---------------------------------------------------------------
ls_status ls_nest_leaf_spec(ls_nest leaf, ls_leaf_spec *out_spec) {
  LS_REQUIRE_OUT(out_spec);
  const ls_array *array = ls_nest_as_array(leaf);
  const ls_composite *composite = ls_nest_as_composite(leaf);
  if (array == NULL && composite == NULL)
    return ls_invalid_argument("a leaf that is no array, and neither sparse "
                               "nor ragged, has no spec");
  *out_spec = array == NULL ? composite->spec
                            : (ls_leaf_spec){.type = {ls_array_dtype(array),
                                                      ls_array_shape(array)}};
  return ls_ok();
}

static ls_nest expand(ls_nest leaf, void *user) {
  (void)user;
  const ls_composite *self = ls_nest_as_composite(leaf);
  if (self == NULL) return ls_nest_retain(leaf);
  ls_nest items[LS_MAX_RANK + 1];
  size_t count = 0;
  for (; count < self->count; ++count)
    items[count] = ls_nest_array(ls_array_retain(self->parts[count]));
  if (self->spec.kind == LS_LEAF_SPARSE) {
    const ls_shape *shape = &self->spec.type.shape;
    items[count] = ls_nest_zeros(LS_DTYPE_I64, LS_SHAPE(shape->rank));
    int64_t *dims = ls_nest_data(items[count++], 0);
    if (dims != NULL)
      memcpy(dims, shape->dim, (size_t)shape->rank * sizeof(*dims));
  }
  return ls_nest_sequence(LS_KIND_TUPLE, items, count);
}

ls_nest ls_nest_components(ls_nest nest) {
  return ls_nest_map(nest, expand, NULL);
}
