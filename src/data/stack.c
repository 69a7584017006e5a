// SPDX-License-Identifier: Apache-2.0
// Stacks elements along a new dimension 0, padded if the options say so.
#include "base/memory/own.h"
#include "base/values/array_internal.h"
#include "data/composite.h"
#include "data/streams.h"

// ---- Sparse and ragged leaves ----------------------------------------------
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

// Stacks `count` leaves of one kind to one with `rows` rows along a new
// dimension 0; rows after the last leaf are empty. Sparse leaves may differ in
// size.
static ls_status composite_stack(const ls_nest *leaves, size_t count,
                                 int64_t rows, ls_nest *out) {
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

// ---- Shapes ----------------------------------------------------------------
// Computes the shape of a leaf's elements in a batch: their common shape, or
// with padding the longest of each dimension or the padded shape of the
// options.
static ls_status common_shape(const ls_batch_dataset *self, size_t leaf,
                              const ls_nest *leaves, size_t count,
                              ls_shape *out) {
  const ls_shape *padded =
      self->padded_shapes == NULL ? NULL : &self->padded_shapes[leaf];
  *out = ls_array_shape(ls_nest_as_array(leaves[0]));
  for (size_t i = 0; i < count; ++i) {
    const ls_shape shape = ls_array_shape(ls_nest_as_array(leaves[i]));
    const bool fits = padded == NULL ? ls_shape_equal(shape, *out)
                                     : shape.rank == padded->rank;
    if (!fits)
      return ls_invalid_argument(
          "element %zu of a batch has %s in leaf %zu, element 0 has %s: pad "
          "them (padded_shapes) or make them alike",
          i, LS_SHAPE_TEXT(ls_array_dtype(ls_nest_as_array(leaves[i])), shape),
          leaf,
          LS_SHAPE_TEXT(ls_array_dtype(ls_nest_as_array(leaves[0])), *out));
    for (int k = 0; padded != NULL && k < shape.rank; ++k) {
      if (padded->dim[k] >= 0 && shape.dim[k] > padded->dim[k])
        return ls_invalid_argument(
            "element %zu of a batch has %s in leaf %zu, which is padded to %s",
            i,
            LS_SHAPE_TEXT(ls_array_dtype(ls_nest_as_array(leaves[i])), shape),
            leaf,
            LS_SHAPE_TEXT(ls_array_dtype(ls_nest_as_array(leaves[i])),
                          *padded));
      if (shape.dim[k] > out->dim[k]) out->dim[k] = shape.dim[k];
    }
  }
  for (int k = 0; padded != NULL && k < out->rank; ++k) {
    if (padded->dim[k] >= 0) out->dim[k] = padded->dim[k];
  }
  return ls_ok();
}

// ---- Copying ---------------------------------------------------------------
// Copies an array into the corner of a larger one, dimension by dimension.
static void copy_corner(const char *from, ls_shape small, char *to,
                        ls_shape large, int dim, size_t size) {
  size_t from_step = size, to_step = size;
  for (int k = dim + 1; k < small.rank; ++k) {
    from_step *= (size_t)small.dim[k];
    to_step *= (size_t)large.dim[k];
  }
  if (dim >= small.rank - 1 || from_step == to_step) {
    const size_t count = small.rank == 0 ? 1 : (size_t)small.dim[dim];
    if (count > 0) memcpy(to, from, count * from_step);
    return;
  }
  for (int64_t i = 0; i < small.dim[dim]; ++i)
    copy_corner(from + (size_t)i * from_step, small, to + (size_t)i * to_step,
                large, dim + 1, size);
}

// Fills the first `count` elements with the padding; rows after them stay zero.
static void fill_padding(ls_array *array, ls_shape each, size_t count,
                         double padding) {
  const int64_t all = ls_shape_num_elements(each) * (int64_t)count;
  for (int64_t i = 0; i < all; ++i)
    ls_array_set_f64(array, i, padding);
}

static ls_status copy_elements(ls_array *batch, ls_shape each,
                               const ls_nest *leaves, size_t count) {
  const ls_dtype dtype = ls_array_dtype(batch);
  const size_t size = ls_dtype_size(dtype);
  const size_t step = (size_t)ls_shape_num_elements(each) * size;
  const bool lends = ls_dtype_owns_elements(dtype);
  if (lends) ls_array_lend(batch);
  char *to = ls_array_mutable_data(batch);
  for (size_t i = 0; i < count; ++i, to += step) {
    const ls_array *from = ls_nest_as_array(leaves[i]);
    const ls_shape shape = ls_array_shape(from);
    if (ls_shape_equal(shape, each))
      memcpy(to, ls_array_data(from), step);
    else
      copy_corner(ls_array_data(from), shape, to, each, 0, size);
  }
  return lends ? ls_array_own(batch) : ls_ok();
}

// Stacks leaf number `leaf` of all elements.
static ls_status stack_leaf(const ls_batch_dataset *self, size_t leaf,
                            const ls_nest *leaves, size_t count, int64_t rows,
                            ls_nest *out) {
  const ls_leaf_spec *spec = &self->base.inputs[0]->leaves[leaf];
  const ls_dtype dtype = spec->type.dtype;
  if (spec->kind != LS_LEAF_DENSE)
    return ls_status_annotate(composite_stack(leaves, count, rows, out),
                              "in leaf %zu", leaf);
  for (size_t i = 0; i < count; ++i) {
    const ls_array *array = ls_nest_as_array(leaves[i]);
    if (array == NULL)
      return ls_invalid_argument("element %zu of a batch has no array in leaf "
                                 "%zu",
                                 i, leaf);
    if (ls_array_dtype(array) != dtype)
      return ls_invalid_argument("element %zu of a batch is of %s in leaf %zu, "
                                 "which is of %s",
                                 i, ls_dtype_name(ls_array_dtype(array)), leaf,
                                 ls_dtype_name(dtype));
  }
  ls_shape each, all = {.dim = {rows}};
  LS_RETURN_IF_ERROR(common_shape(self, leaf, leaves, count, &each));
  all.rank = each.rank + 1;
  if (all.rank > LS_MAX_RANK)
    return ls_invalid_argument("a batch of %s has more than %d dimensions",
                               LS_SHAPE_TEXT(dtype, each), LS_MAX_RANK);
  for (int k = 0; k < each.rank; ++k)
    all.dim[k + 1] = each.dim[k];
  ls_array *batch = NULL;
  LS_RETURN_IF_ERROR(ls_array_create(dtype, all, &batch));
  const double padding = self->padding == NULL ? 0 : self->padding[leaf];
  if (padding != 0) fill_padding(batch, each, count, padding);
  const ls_status status = copy_elements(batch, each, leaves, count);
  if (!ls_status_is_ok(status))
    ls_array_release(batch);
  else
    *out = ls_nest_array(batch);
  return status;
}

// ---- Mask and ids ----------------------------------------------------------
static ls_nest make_mask(int64_t rows, size_t count) {
  const ls_nest mask = ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(rows));
  float *at = ls_nest_data(mask, 0);
  for (size_t i = 0; i < count && at != NULL; ++i)
    at[i] = 1;
  return mask;
}

static ls_nest make_ids(int64_t rows, const int64_t *ids, size_t count) {
  const ls_nest nest = ls_nest_zeros(LS_DTYPE_I64, LS_SHAPE(rows));
  int64_t *at = ls_nest_data(nest, 0);
  for (size_t i = 0; i < (size_t)rows && at != NULL; ++i)
    at[i] = i < count ? ids[i] : -1;
  return nest;
}

// Returns (element, mask, ids), or those of them that the options request;
// takes the element, which has `rows` rows, over.
static ls_nest wrap_batch(const ls_batch_dataset *self, ls_nest element,
                          int64_t rows, const int64_t *ids, size_t count) {
  const bool pads = self->options.remainder == LS_REMAINDER_PAD;
  if (!pads && !self->options.ids) return element;
  if (!self->options.ids) return LS_TUPLE(element, make_mask(rows, count));
  if (!pads) return LS_TUPLE(element, make_ids(rows, ids, count));
  return LS_TUPLE(element, make_mask(rows, count), make_ids(rows, ids, count));
}

// ---- Whole batches ---------------------------------------------------------
ls_status ls_batch_stack(const ls_batch_dataset *self, const ls_nest *elements,
                         size_t count, const int64_t *ids, ls_nest *batch) {
  const ls_dataset *input = self->base.inputs[0];
  const size_t leaves = input->num_leaves;
  ls_allocator *allocator = self->base.allocator;
  const bool pads = self->options.remainder == LS_REMAINDER_PAD;
  const int64_t rows = pads ? self->options.size : (int64_t)count;
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, all, count * leaves);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, column, count);
  LS_OWN(ls_nests, stacked) = {0};
  LS_RETURN_IF_ERROR(ls_nests_init(&stacked, allocator, leaves));
  for (size_t i = 0; i < count; ++i) {
    LS_RETURN_IF_ERROR(ls_nest_same_structure(input->structure, elements[i]));
    ls_nest_flatten(elements[i], all + i * leaves, leaves);
  }
  for (size_t k = 0; k < leaves; ++k) {
    for (size_t i = 0; i < count; ++i)
      column[i] = all[i * leaves + k];
    LS_RETURN_IF_ERROR(
        stack_leaf(self, k, column, count, rows, &stacked.items[k]));
  }
  const ls_nest packed = ls_nest_pack(input->structure, stacked.items, leaves);
  stacked.count = 0;  // The packed nest owns the arrays.
  return ls_element_replace(wrap_batch(self, packed, rows, ids, count), batch);
}
