// SPDX-License-Identifier: Apache-2.0
//
// Combines sparse slices of several components: concatenates them in order of
// replica ids. If one component is dense, the result is dense.
#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "distribute/cross_device/cross_device.h"
#include "graph/region.h"
#include "runtime/eager/eager.h"

// Components as a list, in which each item of a map output is separate.
typedef struct leaf_list {
  ls_allocator *allocator;
  ls_nest *items;
  size_t count, capacity, sparse;
} leaf_list;

static ls_status push_leaf(leaf_list *list, ls_nest leaf) {
  if (leaf.kind == LS_KIND_NONE) return ls_ok();
  if (leaf.kind == LS_KIND_DISTRIBUTED) {
    for (size_t i = 0; i < ls_distributed_count(leaf); ++i)
      LS_RETURN_IF_ERROR(push_leaf(list, ls_distributed_component(leaf, i)));
    return ls_ok();
  }
  LS_PUSH_OR_RETURN(list->allocator, list->items, list->count, list->capacity,
                    leaf);
  list->sparse += leaf.kind == LS_KIND_SLICES;
  return ls_ok();
}

// Concatenates values and indices and keeps duplicate indices. Indices of
// different types become i64.
static ls_status join_slices(ls_reduce_op op, const leaf_list *list,
                             ls_tensor *values, ls_tensor *indices,
                             ls_nest *out_value) {
  ls_tensor shape = ls_failed_tensor();
  bool mixed = false;
  for (size_t i = 0; i < list->count; ++i) {
    ls_slices_parts parts;
    LS_RETURN_IF_ERROR(ls_slices_parts_of(list->items[i], &parts));
    values[i] = parts.values;
    indices[i] = parts.indices;
    if (i == 0) shape = parts.dense_shape;
    mixed = mixed || ls_tensor_dtype(indices[i]) != ls_tensor_dtype(indices[0]);
  }
  for (size_t i = 0; mixed && i < list->count; ++i)
    indices[i] = ls_convert(indices[i], LS_DTYPE_I64);
  ls_tensor where = ls_concatenate(indices, list->count, 0);
  ls_tensor noun = ls_concatenate(values, list->count, 0);
  if (op == LS_REDUCE_MEAN)
    noun = ls_mean_of_sum(noun, (double)list->count, false);
  LS_RETURN_IF_ERROR(ls_made_status(where));
  LS_RETURN_IF_ERROR(ls_made_status(noun));
  return ls_take_nest(ls_nest_slices(ls_leaf(noun), where, shape), out_value);
}

// Sums if some values are dense: makes every value dense by adding its rows,
// then sums along the tree.
static ls_status dense_sum(ls_reduce_op op, const leaf_list *list,
                           ls_tensor *items, ls_nest *out_value) {
  ls_tensor like = ls_failed_tensor(), sum;
  for (size_t i = 0; i < list->count; ++i) {
    if (list->items[i].kind == LS_KIND_SLICES) continue;
    LS_RETURN_IF_ERROR(ls_region_tensor(list->items[i], &items[i]));
    if (like.ref == 0) like = items[i];
  }
  for (size_t i = 0; i < list->count; ++i) {
    if (list->items[i].kind != LS_KIND_SLICES) continue;
    ls_slices_parts parts;
    LS_RETURN_IF_ERROR(ls_slices_parts_of(list->items[i], &parts));
    items[i] = ls_indexed_slices(parts.indices, parts.values, like);
    LS_RETURN_IF_ERROR(ls_made_status(items[i]));
  }
  LS_RETURN_IF_ERROR(ls_reduce_tensors(op, items, list->count, &sum));
  *out_value = ls_leaf(sum);
  return ls_ok();
}

static ls_status reduce_slices(ls_reduce_op op, const leaf_list *list,
                               ls_nest *out_value) {
  if (list->count == 1) {
    *out_value = ls_nest_retain(list->items[0]);
    return ls_ok();
  }
  LS_OWN_ARRAY_OR_RETURN(list->allocator, ls_tensor, room, 2 * list->count);
  return list->sparse == list->count
             ? join_slices(op, list, room, room + list->count, out_value)
             : dense_sum(op, list, room, out_value);
}

bool ls_has_sparse_parts(const ls_components *parts) {
  for (size_t i = 0; i < parts->devices.count; ++i) {
    const ls_nest item = parts->items[i];
    if (item.kind == LS_KIND_SLICES) return true;
    for (size_t k = 0; k < ls_distributed_count(item); ++k)
      if (ls_distributed_component(item, k).kind == LS_KIND_SLICES) return true;
  }
  return false;
}

ls_status ls_join_parts(ls_reduce_op op, const ls_components *parts,
                        ls_nest *out_value) {
  leaf_list list = {.allocator = ls_current_allocator()};
  LS_OWN_FIELD(list.allocator, list.items);
  for (size_t i = 0; i < parts->devices.count; ++i)
    LS_RETURN_IF_ERROR(push_leaf(&list, parts->items[i]));
  return reduce_slices(op, &list, out_value);
}
