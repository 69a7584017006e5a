// SPDX-License-Identifier: Apache-2.0
// Batches of sparse and of ragged leaves.
#include "base/memory/own.h"
#include "base/values/array_internal.h"
#include "data/composite.h"

// Concatenates arrays of one type along dimension 0.
static ls_status join_arrays(const ls_array *const *arrays, size_t count,
                             ls_array **out) {
  const ls_dtype dtype = ls_array_dtype(arrays[0]);
  ls_shape shape = ls_array_shape(arrays[0]);
  *out = NULL;
  shape.dim[0] = 0;
  for (size_t i = 0; i < count; ++i) {
    ls_shape each = ls_array_shape(arrays[i]);
    const int64_t rows = each.rank > 0 ? each.dim[0] : 0;
    each.dim[0] = shape.dim[0];
    if (ls_array_dtype(arrays[i]) != dtype || !ls_shape_equal(each, shape))
      return ls_invalid_argument(
          "element %zu of a batch has values %s, element 0 has %s", i,
          LS_SHAPE_TEXT(ls_array_dtype(arrays[i]), ls_array_shape(arrays[i])),
          LS_SHAPE_TEXT(dtype, ls_array_shape(arrays[0])));
    shape.dim[0] += rows;
  }
  LS_RETURN_IF_ERROR(ls_array_create(dtype, shape, out));
  const bool lends = ls_dtype_owns_elements(dtype);
  if (lends) ls_array_lend(*out);
  char *to = ls_array_mutable_data(*out);
  for (size_t i = 0; i < count; ++i) {
    const size_t size =
        (size_t)ls_array_num_elements(arrays[i]) * ls_dtype_size(dtype);
    if (size > 0) memcpy(to, ls_array_data(arrays[i]), size);
    to += size;
  }
  return lends ? ls_array_own(*out) : ls_ok();
}

// Concatenates part number `part` of all leaves.
static ls_status join_parts(const ls_nest *leaves, size_t count, size_t part,
                            ls_array **out) {
  ls_allocator *allocator = ls_current_allocator();
  *out = NULL;
  LS_OWN_ARRAY_OR_RETURN(allocator, const ls_array *, arrays, count);
  for (size_t i = 0; i < count; ++i)
    arrays[i] = ls_nest_as_composite(leaves[i])->parts[part];
  return join_arrays(arrays, count, out);
}

// ---- Sparse ----------------------------------------------------------------
// Concatenates the indices of all leaves, each after the number of its element.
static ls_status join_indices(const ls_nest *leaves, size_t count, int rank,
                              ls_array **out) {
  int64_t all = 0;
  *out = NULL;
  for (size_t i = 0; i < count; ++i)
    all += ls_array_shape(ls_nest_as_composite(leaves[i])->parts[0]).dim[0];
  LS_RETURN_IF_ERROR(
      ls_array_create(LS_DTYPE_I64, LS_SHAPE(all, rank + 1), out));
  int64_t *to = ls_array_mutable_data(*out);
  for (size_t i = 0; i < count; ++i) {
    const ls_array *indices = ls_nest_as_composite(leaves[i])->parts[0];
    const int64_t *from = ls_array_data(indices);
    for (int64_t n = ls_array_shape(indices).dim[0]; n > 0; --n) {
      *to++ = (int64_t)i;
      for (int k = 0; k < rank; ++k)
        *to++ = *from++;
    }
  }
  return ls_ok();
}

static ls_status stack_sparse(const ls_nest *leaves, size_t count, int64_t rows,
                              ls_nest *out) {
  const ls_shape first = ls_nest_as_composite(leaves[0])->spec.type.shape;
  ls_shape shape = {.rank = first.rank + 1, .dim = {rows}};
  for (size_t i = 0; i < count; ++i) {
    const ls_shape each = ls_nest_as_composite(leaves[i])->spec.type.shape;
    if (each.rank != first.rank)
      return ls_invalid_argument("element %zu of a batch has a sparse leaf of "
                                 "%d dimensions, element 0 of %d",
                                 i, each.rank, first.rank);
    for (int k = 0; k < each.rank; ++k)
      if (each.dim[k] > shape.dim[k + 1]) shape.dim[k + 1] = each.dim[k];
  }
  LS_OWN(ls_array, indices) = NULL;
  LS_OWN(ls_array, values) = NULL;
  LS_RETURN_IF_ERROR(join_indices(leaves, count, first.rank, &indices));
  LS_RETURN_IF_ERROR(join_parts(leaves, count, 1, &values));
  *out = ls_nest_sparse(ls_give(&indices), ls_give(&values), shape);
  return ls_nest_status(*out);
}

// ---- Ragged ----------------------------------------------------------------
// Concatenates splits number `number` of all leaves; number 0 makes the new
// outermost splits, which count the rows of each leaf.
static ls_status join_splits(const ls_nest *leaves, size_t count, size_t number,
                             int64_t rows, ls_array **out) {
  int64_t all = 1;
  *out = NULL;
  if (number == 0) {
    all += rows;
  } else {
    for (size_t i = 0; i < count; ++i)
      all += ls_array_num_elements(
                 ls_nest_as_composite(leaves[i])->parts[number]) -
             1;
  }
  LS_RETURN_IF_ERROR(ls_array_create(LS_DTYPE_I64, LS_SHAPE(all), out));
  int64_t *to = ls_array_mutable_data(*out), last = 0;
  *to++ = 0;
  for (size_t i = 0; i < count; ++i) {
    const ls_composite *leaf = ls_nest_as_composite(leaves[i]);
    const ls_array *splits = leaf->parts[number == 0 ? 1 : number];
    const int64_t *from = ls_array_data(splits);
    const int64_t some = ls_array_num_elements(splits);
    if (number == 0) {
      last += some - 1;
      *to++ = last;
      continue;
    }
    for (int64_t k = 1; k < some; ++k)
      *to++ = last + from[k];
    last += from[some - 1];
  }
  for (int64_t i = (int64_t)count; number == 0 && i < rows; ++i)
    *to++ = last;  // Rows after the last leaf are empty.
  return ls_ok();
}

static ls_status stack_ragged(const ls_nest *leaves, size_t count, int64_t rows,
                              ls_nest *out) {
  const size_t num_splits = ls_nest_as_composite(leaves[0])->count;
  LS_OWN(ls_composite_parts, parts) = {{NULL}};
  for (size_t i = 0; i < count; ++i)
    if (ls_nest_as_composite(leaves[i])->count != num_splits)
      return ls_invalid_argument(
          "element %zu of a batch has %zu row splits, element 0 has %zu", i,
          ls_nest_as_composite(leaves[i])->count - 1, num_splits - 1);
  LS_RETURN_IF_ERROR(join_parts(leaves, count, 0, &parts.arrays[0]));
  for (size_t k = 0; k < num_splits; ++k)
    LS_RETURN_IF_ERROR(
        join_splits(leaves, count, k, rows, &parts.arrays[k + 1]));
  *out = ls_composite_ragged(&parts, num_splits);
  return ls_nest_status(*out);
}

ls_status ls_composite_stack(const ls_nest *leaves, size_t count, int64_t rows,
                             ls_nest *out) {
  *out = ls_none();
  const ls_composite *first = ls_nest_as_composite(leaves[0]);
  for (size_t i = 0; i < count; ++i) {
    const ls_composite *leaf = ls_nest_as_composite(leaves[i]);
    if (leaf == NULL || first == NULL || leaf->spec.kind != first->spec.kind)
      return ls_invalid_argument("element %zu of a batch has a leaf of another "
                                 "kind than element 0",
                                 i);
  }
  LS_OWN(ls_nest, made) = ls_none();
  LS_RETURN_IF_ERROR(first->spec.kind == LS_LEAF_SPARSE
                         ? stack_sparse(leaves, count, rows, &made)
                         : stack_ragged(leaves, count, rows, &made));
  return ls_hand_over(&made, out);
}
