// SPDX-License-Identifier: Apache-2.0
//
// Op makers: slices, joins, lookups by index, scans, sorts.
#include "base/memory/own.h"
#include "graph/make/make.h"

// Makes an attribute from `values`, stored in `items`. If their rank is 0, the
// attribute has `fallback` for each of `rank` axes. The op refuses a rank that
// is unknown or too large.
static ls_attr numbers(ls_attr_id id, ls_shape values, int32_t rank,
                       int64_t fallback, int64_t items[LS_MAX_RANK]) {
  if (values.rank == 0 && rank > 0) {
    values.rank = rank;
    for (int32_t i = 0; i < LS_MAX_RANK; ++i)
      values.dim[i] = fallback;
  }
  memcpy(items, values.dim, sizeof(values.dim));
  return (ls_attr){LS_OWN_KEY((uint16_t)id), .kind = LS_ATTR_INTS,
                   .as.ints = {items, (size_t)values.rank}};
}

// ---- Slices ----------------------------------------------------------------
ls_tensor ls_slice(ls_tensor x, ls_shape starts, ls_shape limits,
                   ls_shape strides) {
  int64_t items[3][LS_MAX_RANK];
  const ls_attr attrs[] = {
      numbers(LS_ATTR_ID_STARTS, starts, 0, 0, items[0]),
      numbers(LS_ATTR_ID_LIMITS, limits, 0, 0, items[1]),
      numbers(LS_ATTR_ID_STRIDES, strides, starts.rank, 1, items[2])};
  return ls_make(LS_OP_SLICE, &x, 1, attrs, LS_COUNT_OF(attrs));
}

ls_tensor ls_slice_axis(ls_tensor x, int axis, int64_t start, int64_t limit) {
  const int32_t rank = ls_tensor_shape(x).rank;
  if (rank == LS_UNKNOWN_RANK) return ls_make_unknown_rank("slice", x);
  const int at = ls_make_axis(x, axis);
  if (at < 0 || at >= rank)
    return ls_make_failed(
        "slice", ls_invalid_argument(
                     "axis %d is out of range for %s", axis,
                     LS_SHAPE_TEXT(ls_tensor_dtype(x), ls_tensor_shape(x))));
  ls_shape starts = {.rank = rank}, limits = {.rank = rank};
  for (int32_t i = 0; i < rank; ++i)
    limits.dim[i] = -1;
  starts.dim[at] = start;
  limits.dim[at] = limit;
  return ls_slice(x, starts, limits, LS_SCALAR);
}

// Makes a dynamic slice. Operands: x, the starts, and optionally a value with
// the sizes.
static ls_tensor dynamic_slice(ls_tensor x, const ls_tensor *starts,
                               const ls_size *sizes, int32_t rank,
                               const ls_tensor *like) {
  ls_tensor inputs[LS_MAX_RANK + 2] = {x};
  size_t count = 1;
  for (int32_t i = 0; i < rank; ++i)
    inputs[count++] = starts[i];
  if (like != NULL) inputs[count++] = *like;
  const ls_attr attr = LS_OWN_SZ(SIZES, sizes, (size_t)rank);
  return ls_make(LS_OP_DYNAMIC_SLICE, inputs, count, &attr, 1);
}

ls_tensor ls_dynamic_slice(ls_tensor x, const ls_tensor *starts,
                           ls_shape sizes) {
  ls_size items[LS_MAX_RANK];
  if (sizes.rank < 0 || sizes.rank > LS_MAX_RANK)
    return ls_make_failed("dynamic_slice",
                          ls_invalid_argument("sizes for %d axes, at most %d",
                                              sizes.rank, LS_MAX_RANK));
  for (int32_t i = 0; i < sizes.rank; ++i)
    items[i] = (ls_size){LS_SIZE_CONSTANT, sizes.dim[i]};
  return dynamic_slice(x, starts, items, sizes.rank, NULL);
}

ls_tensor ls_dynamic_slice_like(ls_tensor x, const ls_tensor *starts,
                                ls_tensor like) {
  const ls_shape shape = ls_tensor_shape(like);
  if (shape.rank == LS_UNKNOWN_RANK)
    return ls_make_unknown_rank("dynamic_slice", like);
  if (ls_shape_is_known(shape)) return ls_dynamic_slice(x, starts, shape);
  ls_size items[LS_MAX_RANK];
  for (int32_t i = 0; i < shape.rank; ++i)
    items[i] = shape.dim[i] >= 0 ? (ls_size){LS_SIZE_CONSTANT, shape.dim[i]}
                                 : (ls_size){shape.rank + 1, i};
  return dynamic_slice(x, starts, items, shape.rank, &like);
}

ls_tensor ls_dynamic_update_slice(ls_tensor x, ls_tensor update,
                                  const ls_tensor *starts) {
  const int32_t rank = ls_tensor_shape(x).rank != LS_UNKNOWN_RANK
                           ? ls_tensor_shape(x).rank
                           : ls_tensor_shape(update).rank;
  if (rank == LS_UNKNOWN_RANK)
    return ls_make_unknown_rank("dynamic_update_slice", x);
  ls_tensor inputs[LS_MAX_RANK + 2] = {x, update};
  for (int32_t i = 0; i < rank; ++i)
    inputs[i + 2] = starts[i];
  return ls_make(LS_OP_DYNAMIC_UPDATE_SLICE, inputs, (size_t)rank + 2, NULL, 0);
}

// ---- Pad, concatenate, reverse ---------------------------------------------
ls_tensor ls_pad(ls_tensor x, ls_tensor value, ls_shape low, ls_shape high,
                 ls_shape interior) {
  int64_t items[3][LS_MAX_RANK];
  const int32_t rank = low.rank > high.rank ? low.rank : high.rank;
  const ls_attr attrs[] = {
      numbers(LS_ATTR_ID_PAD_LOW, low, rank, 0, items[0]),
      numbers(LS_ATTR_ID_PAD_HIGH, high, rank, 0, items[1]),
      numbers(LS_ATTR_ID_INTERIOR, interior, rank, 0, items[2])};
  return ls_make(LS_OP_PAD, (const ls_tensor[]){x, value}, 2, attrs,
                 LS_COUNT_OF(attrs));
}

ls_tensor ls_concatenate(const ls_tensor *items, size_t count, int axis) {
  if (items == NULL) return ls_make(LS_OP_CONCATENATE, NULL, count, NULL, 0);
  if (count == 1) return items[0];
  // The first operand of known rank resolves a negative axis.
  size_t known = 0;
  while (known + 1 < count &&
         ls_tensor_shape(items[known]).rank == LS_UNKNOWN_RANK)
    ++known;
  const ls_attr attr =
      LS_OWN_I(AXIS, count == 0 ? axis : ls_make_axis(items[known], axis));
  return ls_make(LS_OP_CONCATENATE, items, count, &attr, 1);
}

ls_op ls_split_like(ls_tensor x, const ls_tensor *likes, size_t count,
                    int axis) {
  enum { FEW = 16 };
  ls_tensor few[FEW + 1];
  ls_tensor *inputs = few;
  ls_graph *graph = ls_graph_current();
  if (graph == NULL) return (ls_op){0};
  if (likes == NULL && count > 0) {
    ls_make_failed("split_like",
                   ls_invalid_argument("%zu operands at NULL", count));
    return (ls_op){0};
  }
  LS_OWN(ls_arena, memory) = {.allocator = graph->allocator};
  if (count > FEW) inputs = ls_arena_new_array(&memory, ls_tensor, count + 1);
  ls_op op = {0};
  if (inputs == NULL) {
    ls_make_failed("split_like", ls_out_of_memory());
  } else {
    inputs[0] = x;
    if (count > 0) memcpy(inputs + 1, likes, count * sizeof(*likes));
    const ls_attr attr = LS_OWN_I(AXIS, ls_make_axis(x, axis));
    op = ls_make_op(LS_OP_SPLIT_LIKE, NULL, inputs, count + 1, &attr, 1);
  }
  return op;
}

ls_tensor ls_reverse(ls_tensor x, ls_axes axes) {
  const int32_t rank = ls_tensor_shape(x).rank;
  if (rank == LS_UNKNOWN_RANK) return ls_make_unknown_rank("reverse", x);
  int64_t items[LS_MAX_RANK];
  const size_t count = axes.all ? (size_t)rank : axes.count;
  if (count > LS_MAX_RANK)
    return ls_make_failed(
        "reverse",
        ls_invalid_argument("%zu axes, the value has rank %d", count, rank));
  for (size_t i = 0; i < count; ++i)
    items[i] = axes.all ? (int64_t)i : ls_make_axis(x, axes.items[i]);
  const ls_attr attr = LS_OWN_IS(AXES, items, count);
  return ls_make(LS_OP_REVERSE, &x, 1, &attr, 1);
}

// ---- Lookups ---------------------------------------------------------------
ls_tensor ls_gather(ls_tensor x, ls_tensor indices, int axis) {
  const ls_attr attr = LS_OWN_I(AXIS, ls_make_axis(x, axis));
  return ls_make(LS_OP_GATHER, (const ls_tensor[]){x, indices}, 2, &attr, 1);
}

const char *ls_scatter_name(ls_scatter_op op) {
  static const char *const names[] = {
      [LS_SCATTER_UPDATE] = "update", [LS_SCATTER_ADD] = "add",
      [LS_SCATTER_SUB] = "sub",       [LS_SCATTER_MUL] = "mul",
      [LS_SCATTER_DIV] = "div",       [LS_SCATTER_MIN] = "min",
      [LS_SCATTER_MAX] = "max"};
  return (unsigned)op < LS_COUNT_OF(names) ? names[op] : NULL;
}

ls_status ls_no_scatter(ls_scatter_op op) {
  return ls_invalid_argument("scatter op %d is none of LS_SCATTER_UPDATE, ADD, "
                             "SUB, MUL, DIV, MIN, MAX",
                             (int)op);
}

ls_tensor ls_scatter_axis(ls_scatter_op op, ls_tensor x, ls_tensor indices,
                          ls_tensor updates, int axis) {
  const char *name = ls_scatter_name(op);
  if (name == NULL) return ls_make_failed("scatter", ls_no_scatter(op));
  const ls_attr attrs[] = {LS_OWN_S(COMBINE, name),
                           LS_OWN_I(AXIS, ls_make_axis(x, axis))};
  return ls_make(LS_OP_SCATTER, (const ls_tensor[]){x, indices, updates}, 3,
                 attrs, LS_COUNT_OF(attrs));
}

ls_tensor ls_indexed_slices(ls_tensor indices, ls_tensor values,
                            ls_tensor like) {
  const ls_shape shape = ls_tensor_shape(like);
  const ls_tensor inputs[] = {indices, values, like};
  if (!ls_tensor_is_failed(like) && shape.rank < 1)
    return ls_make_failed(
        "indexed_slices",
        ls_invalid_argument(
            "'%s', which is %s, has no slices that are known while building",
            ls_tensor_name(like), LS_SHAPE_TEXT(ls_tensor_dtype(like), shape)));
  ls_size sizes[LS_MAX_RANK];
  const bool known = ls_shape_is_known(shape);
  const ls_attr attr = ls_make_sizes(shape, 2, sizes);
  return ls_make(LS_OP_INDEXED_SLICES, inputs, known ? 2 : 3, &attr, 1);
}

bool ls_tensor_is_slices(ls_tensor tensor, ls_tensor *out_indices,
                         ls_tensor *out_values) {
  *out_indices = *out_values = ls_failed_tensor();
  const ls_graph *graph = ls_graph_resolve(tensor.graph);
  if (graph == NULL || graph->kind == LS_GRAPH_EAGER) return false;
  const ls_node *node = ls_graph_node_of(graph, tensor.ref);
  if (node == NULL || node->type != LS_OP_INDEXED_SLICES) return false;
  *out_indices = (ls_tensor){tensor.graph, node->inputs[0]};
  *out_values = (ls_tensor){tensor.graph, node->inputs[1]};
  return true;
}

ls_tensor ls_scatter(ls_scatter_op op, ls_tensor x, ls_tensor indices,
                     ls_tensor updates) {
  return ls_scatter_axis(op, x, indices, updates, 0);
}

ls_tensor ls_take_along(ls_tensor x, ls_tensor indices, int axis) {
  const ls_attr attr = LS_OWN_I(AXIS, ls_make_axis(x, axis));
  return ls_make(LS_OP_TAKE_ALONG, (const ls_tensor[]){x, indices}, 2, &attr,
                 1);
}

ls_tensor ls_add_along(ls_tensor x, ls_tensor indices, ls_tensor updates,
                       int axis) {
  const ls_attr attr = LS_OWN_I(AXIS, ls_make_axis(x, axis));
  return ls_make(LS_OP_ADD_ALONG, (const ls_tensor[]){x, indices, updates}, 3,
                 &attr, 1);
}

// ---- Scans -----------------------------------------------------------------
static ls_tensor cumulative(uint16_t type, ls_tensor x, int axis,
                            bool exclusive, bool reverse) {
  const ls_attr attrs[] = {LS_OWN_I(AXIS, ls_make_axis(x, axis)),
                           LS_OWN_B(EXCLUSIVE, exclusive),
                           LS_OWN_B(REVERSE, reverse)};
  return ls_make(type, &x, 1, attrs, LS_COUNT_OF(attrs));
}

ls_tensor ls_cumsum(ls_tensor x, int axis, bool exclusive, bool reverse) {
  return cumulative(LS_OP_CUMSUM, x, axis, exclusive, reverse);
}

ls_tensor ls_cumprod(ls_tensor x, int axis, bool exclusive, bool reverse) {
  return cumulative(LS_OP_CUMPROD, x, axis, exclusive, reverse);
}

ls_tensor ls_linear_scan(ls_tensor a, ls_tensor b, int axis, bool reverse) {
  const ls_attr attrs[] = {LS_OWN_I(AXIS, ls_make_axis(a, axis)),
                           LS_OWN_B(REVERSE, reverse)};
  return ls_make(LS_OP_LINEAR_SCAN, (const ls_tensor[]){a, b}, 2, attrs,
                 LS_COUNT_OF(attrs));
}

// ---- Sorts -----------------------------------------------------------------
ls_op ls_sort_by(const ls_tensor *items, size_t count, int axis,
                 bool descending) {
  const ls_attr attrs[] = {LS_OWN_I(AXIS, count == 0 || items == NULL
                                              ? axis
                                              : ls_make_axis(items[0], axis)),
                           LS_OWN_B(DESCENDING, descending)};
  return ls_make_op(LS_OP_SORT, NULL, items, count, attrs, LS_COUNT_OF(attrs));
}

ls_tensor ls_sort(ls_tensor x, int axis, bool descending) {
  return ls_op_output(ls_sort_by(&x, 1, axis, descending), 0);
}

ls_tensor ls_argsort(ls_tensor x, int axis, bool descending) {
  return ls_op_output(ls_sort_by(&x, 1, axis, descending), 1);
}

ls_op ls_top_k(ls_tensor x, int64_t k) {
  const ls_attr attr = LS_OWN_I(K, k);
  return ls_make_op(LS_OP_TOP_K, NULL, &x, 1, &attr, 1);
}

ls_tensor ls_argmin(ls_tensor x, int axis) {
  const ls_attr attr = LS_OWN_I(AXIS, ls_make_axis(x, axis));
  return ls_make(LS_OP_ARGMIN, &x, 1, &attr, 1);
}

ls_tensor ls_clamp(ls_tensor low, ls_tensor x, ls_tensor high) {
  return ls_make(LS_OP_CLAMP, (const ls_tensor[]){low, x, high}, 3, NULL, 0);
}
