// SPDX-License-Identifier: Apache-2.0
//
// Combines several values into one: the sum that every table of cross-device
// ops uses, on any device. The sum follows the canonical tree over positions,
// which are replica ids; missing values are left out.
#include <strings.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/numbers.h"
#include "distribute/context/context.h"
#include "distribute/cross_device/cross_device.h"
#include "graph/make/make.h"
#include "graph/region.h"
#include "graph/trial.h"
#include "lockstep/shape_rules.h"
#include "lockstep/strategy_extended.h"
#include "runtime/eager/eager.h"

ls_status ls_check_reduce_op(ls_reduce_op op) {
  return op == LS_REDUCE_SUM || op == LS_REDUCE_MEAN
             ? ls_ok()
             : ls_invalid_argument("%s is neither SUM nor MEAN",
                                   LS_REDUCE_OP_TEXT(op));
}

ls_status ls_reduce_op_parse(const char *text, ls_reduce_op *out_op) {
  LS_REQUIRE_OUT(out_op, text);
  *out_op = LS_REDUCE_SUM;
  if (strcasecmp(text, "sum") == 0) return ls_ok();
  *out_op = LS_REDUCE_MEAN;
  if (strcasecmp(text, "mean") == 0) return ls_ok();
  return ls_invalid_argument("reduce op '%s' is neither SUM nor MEAN", text);
}

// ---- Components ------------------------------------------------------------
typedef struct tensor_list {
  ls_allocator *allocator;
  ls_tensor *items;
  size_t count, capacity;
} tensor_list;

static ls_status combine_push(tensor_list *list, ls_nest leaf) {
  // Each item of a map's result on one device counts as a term.
  if (leaf.kind == LS_KIND_DISTRIBUTED) {
    for (size_t i = 0; i < ls_distributed_count(leaf); ++i)
      LS_RETURN_IF_ERROR(combine_push(list, ls_distributed_component(leaf, i)));
    return ls_ok();
  }
  ls_tensor tensor;
  LS_RETURN_IF_ERROR(ls_region_tensor(leaf, &tensor));
  LS_PUSH_OR_RETURN(list->allocator, list->items, list->count, list->capacity,
                    tensor);
  return ls_ok();
}

static ls_status nothing_left(void) {
  return ls_invalid_argument("the values to put together must be non-empty");
}

ls_status ls_component_tensors(ls_nest leaf, ls_allocator *allocator,
                               ls_tensor **items, size_t *out_count) {
  tensor_list list = {.allocator = allocator};
  LS_OWN_FIELD(allocator, list.items);
  const ls_variable *variable = ls_nest_as_variable(leaf);
  const size_t count = variable == NULL ? 0 : variable->num_components;
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(combine_push(
        &list, (ls_nest){.kind = LS_KIND_VARIABLE,
                         .as.ref = ls_variable_seen(variable, i)}));
  if (count == 0) LS_RETURN_IF_ERROR(combine_push(&list, leaf));
  if (list.count == 0) return nothing_left();
  *items = ls_give(&list.items);
  *out_count = list.count;
  return ls_ok();
}

// ---- Means -----------------------------------------------------------------
static ls_tensor converted(ls_tensor x, ls_dtype dtype) {
  return ls_tensor_dtype(x) == dtype ? x : ls_convert(x, dtype);
}

ls_tensor ls_mean_of_sum(ls_tensor sum, double total, bool divide) {
  const ls_dtype dtype = ls_tensor_dtype(sum);
  const ls_dtype result = ls_mean_dtype(dtype);
  ls_tensor x = converted(sum, ls_wide_dtype(result));
  const bool wide = result == LS_DTYPE_F64;
  if (divide || !ls_dtype_is_float(dtype))
    x = ls_div(x, ls_scalar(ls_tensor_dtype(x), total));
  else if (total != 1)
    x = ls_mul_scalar(x, wide ? 1.0 / total : (double)(1.0f / (float)total));
  return converted(x, result);
}

// ---- Sums ------------------------------------------------------------------
// Returns how many inputs an add or a concatenation may have in the current
// strategy.
static size_t most_inputs(void) {
  const ls_distribution *entry = ls_distribution_current();
  const size_t most = entry != NULL ? entry->strategy->kind->most_inputs : 0;
  return most != 0 ? most : SIZE_MAX;
}

// Sums the items chunk by chunk, then adds the chunks' sums; each chunk is a
// subtree of the canonical tree.
static ls_tensor sum_in_chunks(const ls_tensor *items, size_t count,
                               size_t most) {
  if (count <= most) return ls_add_n(items, count);
  size_t size = 1;
  while (size * 2 <= most)
    size *= 2;
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_ARRAY(allocator, ls_tensor, sums, (count + size - 1) / size);
  if (sums == NULL) return ls_make_failed("add_n", ls_out_of_memory());
  size_t num_sums = 0;
  for (size_t i = 0; i < count; i += size)
    sums[num_sums++] = ls_add_n(items + i, count - i < size ? count - i : size);
  return sum_in_chunks(sums, num_sums, most);
}

// Sums 16-bit floats in f32 if there are several chunks, so that the sum is
// rounded only once.
static ls_tensor combine_add_all(const ls_tensor *items, size_t count) {
  const size_t most = most_inputs();
  const ls_dtype dtype = ls_tensor_dtype(items[0]);
  if (count <= most || !ls_is_half(dtype))
    return sum_in_chunks(items, count, most);
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_ARRAY(allocator, ls_tensor, wide, count);
  if (wide == NULL) return ls_make_failed("add_n", ls_out_of_memory());
  for (size_t i = 0; i < count; ++i)
    wide[i] = ls_convert(items[i], LS_DTYPE_F32);
  const ls_tensor sum = sum_in_chunks(wide, count, most);
  return ls_convert(sum, dtype);
}

// Sums along the canonical tree, leaving out failed tensors; fails if all have
// failed.
static ls_tensor tree_sum(const ls_tensor *items, size_t count) {
  size_t present = 0, half = 1;
  for (size_t i = 0; i < count; ++i)
    present += items[i].ref != 0;
  if (present == 0) return ls_failed_tensor();
  if (present == count) return combine_add_all(items, count);
  while (half * 2 < count)
    half *= 2;
  const ls_tensor a = tree_sum(items, half);
  const ls_tensor b = tree_sum(items + half, count - half);
  if (a.ref == 0 || b.ref == 0) return a.ref == 0 ? b : a;
  return ls_add(a, b);
}

static ls_tensor extreme(ls_reduce_op op, const ls_tensor *items,
                         size_t count) {
  ls_tensor x = items[0];
  for (size_t i = 1; i < count; ++i)
    x = op == LS_REDUCE_MAX ? ls_maximum(x, items[i]) : ls_minimum(x, items[i]);
  return x;
}

ls_status ls_check_same_shapes(const ls_tensor *items, size_t count) {
  size_t first = 0;
  while (first < count && items[first].ref == 0)
    ++first;
  for (size_t i = first + 1; i < count; ++i) {
    if (items[i].ref == 0) continue;
    const ls_dtype dtype = ls_tensor_dtype(items[first]);
    const ls_shape a = ls_tensor_shape(items[first]);
    const ls_shape b = ls_tensor_shape(items[i]);
    if (ls_tensor_dtype(items[i]) == dtype && ls_shape_compatible(a, b))
      continue;
    return ls_invalid_argument(
        "the values are %s on replica %zu and %s on replica %zu",
        LS_SHAPE_TEXT(dtype, a), first,
        LS_SHAPE_TEXT(ls_tensor_dtype(items[i]), b), i);
  }
  return ls_ok();
}

// Terms of a sum: a tensor for each component; a failed tensor if the component
// is missing. The items of a map output are added from left to right.
typedef struct terms {
  ls_allocator *allocator;
  ls_tensor *items;
  size_t count;
  size_t num_values;  // Number of values; each item of a map output counts.
  bool simple;        // True without map outputs and missing values.
  ls_dtype dtype;
} terms;

static ls_status combine_add_term(terms *t, ls_nest component, bool wide) {
  LS_OWN_MEMORY(t->allocator, ls_tensor, items) = NULL;
  size_t count = 0;
  const bool is_absent = component.kind == LS_KIND_NONE ||
                         (component.kind == LS_KIND_DISTRIBUTED &&
                          ls_distributed_count(component) == 0);
  ls_tensor sum = ls_failed_tensor();
  if (!is_absent)
    LS_RETURN_IF_ERROR(
        ls_component_tensors(component, t->allocator, &items, &count));
  for (size_t i = 0; i < count; ++i) {
    t->dtype = ls_tensor_dtype(items[i]);
    const ls_tensor item = wide && ls_is_half(t->dtype)
                               ? ls_convert(items[i], LS_DTYPE_F32)
                           : wide && !t->simple ? ls_widen_integers(items[i])
                                                : items[i];
    sum = i == 0 ? item : ls_add(sum, item);
    LS_RETURN_IF_ERROR(ls_made_status(sum));
  }
  t->items[t->count++] = sum;
  t->num_values += count;
  return ls_ok();
}

static ls_status fill_terms(terms *t, ls_reduce_op op,
                            const ls_components *parts, bool accumulates) {
  const size_t count = parts->devices.count;
  LS_SET_ARRAY_OR_RETURN(t->allocator, ls_tensor, t->items, count);
  t->simple = true;
  for (size_t i = 0; i < count; ++i)
    t->simple = t->simple && parts->items[i].kind != LS_KIND_NONE &&
                parts->items[i].kind != LS_KIND_DISTRIBUTED;
  // The add of n items computes 16-bit floats in f32 anyway.
  const bool wide = !accumulates && (op == LS_REDUCE_MEAN || !t->simple);
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(combine_add_term(t, parts->items[i], wide));
  if (t->num_values == 0) return nothing_left();
  LS_RETURN_IF_ERROR(ls_check_same_shapes(t->items, count));
  for (size_t i = 0; wide && t->simple && i < count; ++i)
    t->items[i] = ls_widen_integers(t->items[i]);
  return ls_ok();
}

static ls_status reduce_terms(ls_reduce_op op, const terms *t,
                              ls_tensor *out_tensor) {
  if (op == LS_REDUCE_MAX || op == LS_REDUCE_MIN) {
    *out_tensor = extreme(op, t->items, t->count);
    return ls_made_status(*out_tensor);
  }
  ls_tensor x = tree_sum(t->items, t->count);
  if (op == LS_REDUCE_MEAN) x = ls_mean_of_sum(x, (double)t->num_values, false);
  *out_tensor =
      converted(x, op == LS_REDUCE_MEAN ? ls_mean_dtype(t->dtype) : t->dtype);
  return ls_made_status(*out_tensor);
}

// Passes only the terms that are present to the caller's function.
static ls_status accumulate_terms(ls_reduce_op op, terms *t,
                                  ls_accumulate_function accumulate, void *user,
                                  ls_tensor *out_tensor) {
  size_t count = 0;
  for (size_t i = 0; i < t->count; ++i)
    if (t->items[i].ref != 0) t->items[count++] = t->items[i];
  ls_tensor x = accumulate(t->items, count, user);
  LS_RETURN_IF_ERROR(ls_made_status(x));
  if (op == LS_REDUCE_MEAN) x = ls_mean_of_sum(x, (double)t->num_values, false);
  *out_tensor = x;
  return ls_made_status(x);
}

ls_status ls_reduce_tensors(ls_reduce_op op, const ls_tensor *items,
                            size_t count, ls_tensor *out_tensor) {
  ls_allocator *allocator = ls_current_allocator();
  *out_tensor = ls_failed_tensor();
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, leaves, count);
  for (size_t i = 0; i < count; ++i)
    leaves[i] = ls_leaf(items[i]);
  const ls_components parts = {.items = leaves, .devices.count = count};
  terms t = {.allocator = allocator};
  LS_OWN_FIELD(allocator, t.items);
  LS_RETURN_IF_ERROR(fill_terms(&t, op, &parts, false));
  LS_RETURN_IF_ERROR(reduce_terms(op, &t, out_tensor));
  if (count == 1) {
    *out_tensor = ls_identity(*out_tensor);
    LS_RETURN_IF_ERROR(ls_made_status(*out_tensor));
  }
  return ls_ok();
}

// ---- Slices -----------------------------------------------------------------
// Slices of several components are concatenated in order of replica ids. If one
// component is dense, the result is dense.

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

bool ls_has_sparse_parts(const ls_components *parts) {
  for (size_t i = 0; i < parts->devices.count; ++i) {
    const ls_nest item = parts->items[i];
    if (item.kind == LS_KIND_SLICES) return true;
    for (size_t k = 0; k < ls_distributed_count(item); ++k)
      if (ls_distributed_component(item, k).kind == LS_KIND_SLICES) return true;
  }
  return false;
}

static ls_status join_parts(ls_reduce_op op, const ls_components *parts,
                            ls_nest *out_value) {
  leaf_list list = {.allocator = ls_current_allocator()};
  LS_OWN_FIELD(list.allocator, list.items);
  for (size_t i = 0; i < parts->devices.count; ++i)
    LS_RETURN_IF_ERROR(push_leaf(&list, parts->items[i]));
  if (list.count == 1) {
    *out_value = ls_nest_retain(list.items[0]);
    return ls_ok();
  }
  LS_OWN_ARRAY_OR_RETURN(list.allocator, ls_tensor, room, 2 * list.count);
  return list.sparse == list.count
             ? join_slices(op, &list, room, room + list.count, out_value)
             : dense_sum(op, &list, room, out_value);
}

ls_status ls_reduce_parts(ls_reduce_op op, const ls_components *parts,
                          ls_accumulate_function accumulate, void *user,
                          ls_nest *out_value) {
  *out_value = ls_none();
  if (ls_has_sparse_parts(parts)) return join_parts(op, parts, out_value);
  terms t = {.allocator = ls_current_allocator()};
  LS_OWN_FIELD(t.allocator, t.items);
  ls_tensor made = ls_failed_tensor();
  LS_RETURN_IF_ERROR(fill_terms(&t, op, parts, accumulate != NULL));
  LS_RETURN_IF_ERROR(accumulate == NULL
                         ? reduce_terms(op, &t, &made)
                         : accumulate_terms(op, &t, accumulate, user, &made));
  *out_value = ls_leaf(made);
  return ls_ok();
}

// ---- One gradient ----------------------------------------------------------
static ls_status sum_gradient(const ls_tensor *items, size_t count, bool mean,
                              ls_tensor *out_sum, ls_tensor *out_not_finite) {
  if (out_not_finite != NULL) *out_not_finite = ls_failed_tensor();
  LS_RETURN_IF_ERROR(
      ls_reduce_tensors(mean && count > 1 ? LS_REDUCE_MEAN : LS_REDUCE_SUM,
                        items, count, out_sum));
  if (out_not_finite == NULL) return ls_ok();
  ls_tensor finite = ls_failed_tensor();
  for (size_t i = 0; i < count; ++i) {
    const ls_tensor each = ls_reduce_and(ls_is_finite(items[i]), LS_ALL_AXES);
    finite = i == 0 ? each : ls_and(finite, each);
  }
  *out_not_finite = ls_not(finite);
  return ls_made_status(*out_not_finite);
}

ls_status ls_sum_gradient(const ls_tensor *items, size_t count, bool mean,
                          ls_tensor *out_sum, ls_tensor *out_not_finite) {
  LS_REQUIRE_OUT(out_sum);
  LS_CLEAR_OUT(out_not_finite);
  LS_REQUIRE_ITEMS(items, count);
  return LS_TRIAL(sum_gradient(items, count, mean, out_sum, out_not_finite));
}

// ---- Gathering -------------------------------------------------------------
// Concatenates the first chunk, then the result with each next chunk.
static ls_tensor concatenate_in_chunks(const ls_tensor *items, size_t count,
                                       int axis) {
  const size_t most = most_inputs();
  if (count <= most) return ls_concatenate(items, count, axis);
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_ARRAY(allocator, ls_tensor, chunk, most);
  if (chunk == NULL) return ls_make_failed("concatenate", ls_out_of_memory());
  ls_tensor made = ls_concatenate(items, most, axis);
  for (size_t i = most; i < count; i += most - 1) {
    const size_t more = count - i < most - 1 ? count - i : most - 1;
    chunk[0] = made;
    memcpy(chunk + 1, items + i, more * sizeof(*items));
    made = ls_concatenate(chunk, more + 1, axis);
  }
  return made;
}

ls_status ls_gather_tensors(const ls_tensor *items, size_t count, int axis,
                            ls_tensor *out_tensor) {
  *out_tensor = ls_failed_tensor();
  size_t known = count;  // First item of known rank.
  for (size_t i = 0; i < count; ++i) {
    const ls_shape shape = ls_tensor_shape(items[i]);
    if (shape.rank < 0) continue;
    if (known == count) known = i;
    const ls_shape first = ls_tensor_shape(items[known]);
    if (shape.rank == 0)
      return ls_invalid_argument(
          "scalars cannot be gathered: there is no axis to put them along");
    if (axis < 0 || axis >= shape.rank)
      return ls_invalid_argument(
          "gather along axis %d of rank %d; 0 to %d are possible", axis,
          shape.rank, shape.rank - 1);
    bool fits = shape.rank == first.rank;
    for (int d = 0; fits && d < shape.rank; ++d)
      fits = d == axis || shape.dim[d] < 0 || first.dim[d] < 0 ||
             shape.dim[d] == first.dim[d];
    if (!fits)
      return ls_invalid_argument(
          "gather along axis %d: replica %zu has %s, replica %zu %s", axis,
          known, LS_SHAPE_TEXT(ls_tensor_dtype(items[known]), first), i,
          LS_SHAPE_TEXT(ls_tensor_dtype(items[i]), shape));
  }
  *out_tensor = count == 1 ? ls_identity(items[0])
                           : concatenate_in_chunks(items, count, axis);
  return ls_made_status(*out_tensor);
}
