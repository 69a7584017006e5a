// SPDX-License-Identifier: Apache-2.0
// Parts: batches as replicas take them, PerReplicas of views of one array, in
// replica order. If the input's elements are rows, a batch is written directly
// into the parts of an earlier one that nobody else holds.
#include "base/memory/own.h"
#include "base/require.h"
#include "base/values/array_internal.h"
#include "base/values/nest_internal.h"
#include "data/dataset.h"
#include "data/streams.h"

typedef struct parts_dataset {
  ls_dataset base;
  int64_t count;
} parts_dataset;

// ---- Parts that may be written ---------------------------------------------
// Returns true if the parts are adjacent in memory and have these rows
// together.
static bool can_fill_leaf(const parts_dataset *self, ls_nest leaf,
                          const ls_type *whole) {
  if (leaf.kind != LS_KIND_DISTRIBUTED ||
      ls_distributed_count(leaf) != (size_t)self->count ||
      !ls_object_is_unique(leaf.as.ref))
    return false;
  const char *expected = ls_nest_data(ls_distributed_component(leaf, 0), 0);
  ls_shape shape = whole->shape;
  for (int64_t i = 0; i < self->count; ++i) {
    const ls_array *part =
        ls_nest_as_array(ls_distributed_component(leaf, (size_t)i));
    shape.dim[0] = ls_part_rows(whole->shape.dim[0], self->count, i);
    if (part == NULL || !ls_array_is_unique(part) ||
        ls_array_dtype(part) != whole->dtype ||
        !ls_shape_equal(ls_array_shape(part), shape) ||
        ls_array_data(part) != (const void *)expected)
      return false;
    expected += ls_array_size(part);
  }
  return true;
}

static bool can_fill(const parts_dataset *self, ls_nest element,
                     ls_nest structure, const ls_type *types) {
  if (!ls_nest_is_node(structure))
    return can_fill_leaf(self, element, &types[structure.as.i64]);
  const size_t count = ls_nest_count(structure);
  if (element.kind != structure.kind || ls_nest_count(element) != count ||
      !ls_object_is_unique(element.as.ref))
    return false;
  for (size_t i = 0; i < count; ++i) {
    if (!can_fill(self, ls_nest_item(element, i), ls_nest_item(structure, i),
                  types))
      return false;
  }
  return true;
}

typedef struct new_parts {
  const parts_dataset *self;
  const ls_type *types;
} new_parts;

static ls_nest parts_split(ls_array *array, int64_t count) {
  ls_nest parts = ls_none();
  return ls_made_nest(ls_array_split(array, count, &parts), &parts);
}

static ls_nest new_leaf(ls_nest leaf, void *user) {
  const new_parts *work = user;
  const ls_type *type = &work->types[leaf.as.i64];
  LS_OWN(ls_array, array) = NULL;
  LS_RETURN_FAILED_IF_ERROR(
      ls_array_create_unwritten(type->dtype, type->shape, &array));
  return parts_split(array, work->self->count);
}

// ---- Elements --------------------------------------------------------------
static ls_status get_filled(const parts_dataset *self, ls_fetch *fetch,
                            int64_t index, ls_nest *element) {
  const ls_dataset *base = &self->base, *input = base->inputs[0];
  const size_t count = base->num_leaves;
  LS_ROOM_OR_RETURN(fetch, ls_type, types, count);
  LS_ROOM_OR_RETURN(fetch, ls_nest, leaves, count);
  LS_ROOM_OR_RETURN(fetch, void *, rows, count);
  input->kind->measure(input, index, types);
  if (!can_fill(self, *element, base->structure, types)) {
    new_parts work = {self, types};
    LS_RETURN_IF_ERROR(ls_element_replace(
        ls_nest_map(base->structure, new_leaf, &work), element));
  }
  ls_nest_flatten(*element, leaves, count);
  // The first part is empty only if there are no rows.
  for (size_t i = 0; i < count; ++i)
    rows[i] = ls_nest_data(ls_distributed_component(leaves[i], 0), 0);
  return ls_dataset_fill(input, fetch, index, rows);
}

static ls_nest split_leaf(ls_nest leaf, void *user) {
  ls_array *array = ls_nest_as_array(leaf);
  if (array == NULL)
    return LS_FAIL(LS_INVALID_ARGUMENT,
                   "parts for replicas of a leaf that is no array");
  return parts_split(array, ((const parts_dataset *)user)->count);
}

static ls_status split_batch(const ls_dataset *dataset, ls_nest whole,
                             ls_nest *element) {
  return ls_element_replace(
      ls_nest_map(whole, split_leaf, (void *)(uintptr_t)dataset), element);
}

static ls_status get_split(const parts_dataset *self, ls_fetch *fetch,
                           int64_t index, ls_nest *element) {
  LS_OWN(ls_nest, whole) = ls_none();
  LS_RETURN_IF_ERROR(
      ls_dataset_get(self->base.inputs[0], fetch, index, &whole));
  return split_batch(&self->base, whole, element);
}

static ls_status get_parts(const ls_dataset *dataset, ls_fetch *fetch,
                           int64_t index, ls_nest *element) {
  const parts_dataset *self = (const parts_dataset *)dataset;
  LS_OWN(ls_fetch_mark, mark) = ls_fetch_begin(fetch);
  return dataset->inputs[0]->kind->fill != NULL
             ? get_filled(self, fetch, index, element)
             : get_split(self, fetch, index, element);
}

static ls_status next_parts(ls_stage *stage, ls_nest *element) {
  LS_OWN(ls_nest, whole) = ls_none();
  // A batch that fails may still have been allocated.
  LS_RETURN_IF_ERROR(ls_stage_next(stage->inputs[0], &whole));
  return split_batch(stage->dataset, whole, element);
}

static const ls_stage_class parts_stage = {.next = next_parts,
                                           .skip = ls_stage_skip_inputs};

// ---- Making ----------------------------------------------------------------
static ls_dataset *remake_parts(const ls_dataset *dataset,
                                ls_dataset **inputs) {
  return ls_dataset_parts(inputs[0], ((const parts_dataset *)dataset)->count);
}

// The number of parts is not described: elements are the same with another
// number.
static const ls_dataset_class parts_class = {.name = "parts",
                                             .is_quick = true,
                                             .remake = remake_parts,
                                             .get = get_parts,
                                             .stage = &parts_stage};

// Makes the spec of a replica's part.
static ls_status set_parts_spec(parts_dataset *self) {
  ls_dataset *base = &self->base;
  LS_OWN_ARRAY_OR_RETURN(base->allocator, ls_leaf_spec, leaves,
                         base->num_leaves);
  for (size_t i = 0; i < base->num_leaves; ++i) {
    leaves[i] = base->leaves[i];
    ls_shape *shape = &leaves[i].type.shape;
    if (shape->rank == 0)
      return ls_invalid_argument(
          "leaf %zu to split over replicas is a scalar: batch elements first",
          i);
    const int64_t rows = shape->rank > 0 ? shape->dim[0] : LS_UNKNOWN_DIM;
    if (shape->rank > 0)
      shape->dim[0] = rows >= 0 && rows % self->count == 0 ? rows / self->count
                                                           : LS_UNKNOWN_DIM;
  }
  const ls_status status = ls_dataset_set_leaves(
      base, ls_nest_retain(base->structure), leaves, base->num_leaves);
  base->rows = false;  // Leaves are not arrays.
  return status;
}

ls_dataset *ls_dataset_parts(ls_dataset *dataset, int64_t count) {
  parts_dataset *self =
      LS_DATASET_NEW(parts_dataset, &parts_class, &dataset, 1, ls_ok());
  if (self == NULL || !ls_status_is_ok(self->base.failure))
    return (ls_dataset *)self;
  self->count = count;
  return ls_dataset_fail(
      &self->base,
      count >= 1 ? set_parts_spec(self)
                 : ls_invalid_argument("parts for %lld replicas: one at least",
                                       (long long)count));
}
