// SPDX-License-Identifier: Apache-2.0
// Some rows of sparse and ragged leaves, and leaves without rows.
#include "base/values/nest_internal.h"
#include "base/values/numbers.h"
#include "data/composite.h"

static const int64_t *numbers_of(const ls_array *array) {
  return ls_array_data(array);
}

static ls_status take_array(ls_nest leaf, ls_array **out_array) {
  *out_array = ls_array_retain(ls_nest_as_array(leaf));
  ls_nest_release(leaf);
  return ls_ok();
}

static ls_status rows_of_array(ls_array *array, int64_t first, int64_t rows,
                               ls_array **out_array) {
  ls_nest leaf = ls_none();
  LS_RETURN_IF_ERROR(ls_array_rows(array, first, rows, &leaf));
  return take_array(leaf, out_array);
}

// ---- Sparse ----------------------------------------------------------------
// Returns the first value in row `row` or a later one: values are in row order.
static int64_t find_row(const ls_composite *leaf, int64_t row) {
  const int64_t *indices = numbers_of(leaf->parts[0]);
  const int32_t rank = leaf->spec.type.shape.rank;
  const size_t count = (size_t)ls_array_shape(leaf->parts[1]).dim[0];
  return (int64_t)ls_count_up_to(indices, (size_t)rank * sizeof(*indices),
                                 count, row - 1);
}

static ls_status shifted_indices(const ls_composite *leaf, int64_t from,
                                 int64_t count, int64_t first,
                                 ls_array **out_indices) {
  const int32_t rank = leaf->spec.type.shape.rank;
  LS_RETURN_IF_ERROR(
      ls_array_create(LS_DTYPE_I64, LS_SHAPE(count, rank), out_indices));
  int64_t *to = ls_array_mutable_data(*out_indices);
  const int64_t *indices = numbers_of(leaf->parts[0]) + from * rank;
  for (int64_t i = 0; i < count * rank; ++i)
    to[i] = i % rank == 0 ? indices[i] - first : indices[i];
  return ls_ok();
}

static ls_status sparse_rows(const ls_composite *leaf, int64_t first,
                             int64_t rows, ls_nest *out) {
  const int64_t from = find_row(leaf, first);
  const int64_t count = find_row(leaf, first + rows) - from;
  LS_OWN(ls_array, indices) = NULL;
  LS_OWN(ls_array, values) = NULL;
  LS_RETURN_IF_ERROR(shifted_indices(leaf, from, count, first, &indices));
  LS_RETURN_IF_ERROR(rows_of_array(leaf->parts[1], from, count, &values));
  ls_shape shape = leaf->spec.type.shape;
  shape.dim[0] = rows;
  return ls_take_nest(
      ls_nest_sparse(ls_give(&indices), ls_give(&values), shape), out);
}

// ---- Ragged ----------------------------------------------------------------
// Copies splits first to first + rows, rebased to 0; replaces `*first` and
// `*rows` by the range of items that they split.
static ls_status split_rows(const ls_array *splits, int64_t *first,
                            int64_t *rows, ls_array **out_splits) {
  LS_RETURN_IF_ERROR(
      ls_array_create(LS_DTYPE_I64, LS_SHAPE(*rows + 1), out_splits));
  const int64_t *from = numbers_of(splits) + *first;
  int64_t *to = ls_array_mutable_data(*out_splits);
  for (int64_t i = 0; i <= *rows; ++i)
    to[i] = from[i] - from[0];
  *rows = to[*rows];
  *first = from[0];
  return ls_ok();
}

static ls_status ragged_rows(const ls_composite *leaf, int64_t first,
                             int64_t rows, ls_nest *out) {
  LS_OWN(ls_composite_parts, parts) = {{NULL}};
  const size_t count = leaf->count - 1;
  for (size_t i = 1; i <= count; ++i)
    LS_RETURN_IF_ERROR(
        split_rows(leaf->parts[i], &first, &rows, &parts.arrays[i]));
  LS_RETURN_IF_ERROR(
      rows_of_array(leaf->parts[0], first, rows, &parts.arrays[0]));
  return ls_take_nest(ls_composite_ragged(&parts, count), out);
}

ls_status ls_composite_rows(const ls_composite *leaf, int64_t first,
                            int64_t rows, ls_nest *out) {
  *out = ls_none();
  return leaf->spec.kind == LS_LEAF_SPARSE
             ? sparse_rows(leaf, first, rows, out)
             : ragged_rows(leaf, first, rows, out);
}

// ---- Without rows ----------------------------------------------------------
static ls_status empty_sparse(ls_type type, ls_nest *out) {
  LS_OWN(ls_array, indices) = NULL;
  LS_OWN(ls_array, values) = NULL;
  LS_RETURN_IF_ERROR(
      ls_array_create(LS_DTYPE_I64, LS_SHAPE(0, type.shape.rank), &indices));
  LS_RETURN_IF_ERROR(ls_array_create(type.dtype, LS_SHAPE(0), &values));
  return ls_take_nest(
      ls_nest_sparse(ls_give(&indices), ls_give(&values), type.shape), out);
}

// Splits reach down to the last unknown dimension.
static ls_status empty_ragged(ls_type type, ls_nest *out) {
  size_t count = 1;
  for (int d = 2; d < type.shape.rank; ++d)
    if (type.shape.dim[d] < 0) count = (size_t)d;
  ls_shape each = {.rank = type.shape.rank - (int32_t)count};
  for (int d = 1; d < each.rank; ++d)
    each.dim[d] = type.shape.dim[(size_t)d + count];
  LS_OWN(ls_composite_parts, parts) = {{NULL}};
  for (size_t i = 1; i <= count; ++i)
    LS_RETURN_IF_ERROR(
        ls_array_create(LS_DTYPE_I64, LS_SHAPE(1), &parts.arrays[i]));
  LS_RETURN_IF_ERROR(ls_array_create(type.dtype, each, &parts.arrays[0]));
  return ls_take_nest(ls_composite_ragged(&parts, count), out);
}

ls_status ls_composite_empty(const ls_leaf_spec *spec, ls_nest *out) {
  ls_type type = spec->type;
  *out = ls_none();
  if (type.shape.rank < 1 ||
      (spec->kind == LS_LEAF_RAGGED && type.shape.rank < 2))
    return ls_invalid_argument("a leaf of %s has no rows",
                               LS_SHAPE_TEXT(type.dtype, type.shape));
  if (spec->kind == LS_LEAF_RAGGED) return empty_ragged(type, out);
  type.shape.dim[0] = 0;
  for (int d = 1; d < type.shape.rank; ++d)
    if (type.shape.dim[d] < 0) type.shape.dim[d] = 0;
  return empty_sparse(type, out);
}
