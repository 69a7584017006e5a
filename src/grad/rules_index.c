// SPDX-License-Identifier: Apache-2.0
//
// Rules of ops that slice, join, and look values up by index.
#include "base/memory/own.h"
#include "grad/rules.h"
#include "graph/make/make.h"

static ls_shape shape_of_ints(const ls_node *node, ls_attr_id id) {
  const ls_attr *attr = ls_node_attr(node, id);
  ls_shape shape = {.rank = (int32_t)attr->as.ints.count};
  memcpy(shape.dim, attr->as.ints.items,
         attr->as.ints.count * sizeof(*attr->as.ints.items));
  return shape;
}

// ---- Slices ----------------------------------------------------------------
// Makes an op with the attributes of a slice.
static ls_tensor with_slice(const ls_backward *g, uint16_t op,
                            const ls_tensor *inputs, size_t count) {
  const bool clamps = ls_node_int(g->node, LS_ATTR_ID_CLAMP) != 0;
  const ls_attr attrs[] = {*ls_node_attr(g->node, LS_ATTR_ID_STARTS),
                           *ls_node_attr(g->node, LS_ATTR_ID_LIMITS),
                           *ls_node_attr(g->node, LS_ATTR_ID_STRIDES),
                           LS_OWN_B(CLAMP, true)};
  return ls_make(op, inputs, count, attrs, clamps ? 4 : 3);
}

ls_status gradient_slice(ls_backward *g) {
  const ls_tensor inputs[] = {g->dout[0], ls_gradient_input(g, 0)};
  g->din[0] = with_slice(g, LS_OP_SLICE_GRAD, inputs, 2);
  return ls_ok();
}

// Operand 1 is used for its dimensions only.
ls_status gradient_slice_grad(ls_backward *g) {
  g->din[0] = with_slice(g, LS_OP_SLICE, &g->dout[0], 1);
  return ls_ok();
}

// Lists the starts of a dynamic slice, operands from `first` on.
static void read_starts(ls_backward *g, size_t first, size_t count,
                        ls_tensor starts[LS_MAX_RANK]) {
  for (size_t i = 0; i < count; ++i)
    starts[i] = ls_gradient_input(g, first + i);
}

ls_status gradient_dynamic_slice(ls_backward *g) {
  ls_tensor starts[LS_MAX_RANK];
  read_starts(g, 1, ls_node_attr(g->node, LS_ATTR_ID_SIZES)->as.sizes.count,
              starts);
  const ls_tensor x = ls_gradient_input(g, 0);
  g->din[0] = ls_dynamic_update_slice(ls_gradient_zeros(x), g->dout[0], starts);
  return ls_ok();
}

ls_status gradient_dynamic_update_slice(ls_backward *g) {
  ls_tensor starts[LS_MAX_RANK];
  read_starts(g, 2, g->num_inputs - 2, starts);
  const ls_tensor update = ls_gradient_input(g, 1);
  // Zeros are the first operand, so that they can be updated in place.
  if (g->wanted[1])
    g->din[1] = ls_dynamic_slice_like(g->dout[0], starts, update);
  if (g->wanted[0])
    g->din[0] =
        ls_dynamic_update_slice(g->dout[0], ls_gradient_zeros(update), starts);
  return ls_ok();
}

// ---- Pad, concatenate, reverse ---------------------------------------------
// Undoes a pad: cuts the padding off, puts zeros where elements were cut off,
// and drops interior padding.
static ls_tensor unpadded(const ls_backward *g) {
  const ls_tensor d = g->dout[0];
  ls_shape low = shape_of_ints(g->node, LS_ATTR_ID_PAD_LOW);
  ls_shape high = shape_of_ints(g->node, LS_ATTR_ID_PAD_HIGH);
  ls_shape strides = shape_of_ints(g->node, LS_ATTR_ID_INTERIOR);
  ls_shape starts = {.rank = low.rank}, limits = low;
  bool has_gaps = false;
  for (int32_t i = 0; i < low.rank; ++i) {
    low.dim[i] = -low.dim[i];
    high.dim[i] = -high.dim[i];
    has_gaps = has_gaps || strides.dim[i] != 0;
    ++strides.dim[i];
    limits.dim[i] = -1;
  }
  const ls_tensor inside =
      ls_pad(d, ls_gradient_number(d, 0), low, high, LS_SCALAR);
  return has_gaps ? ls_slice(inside, starts, limits, strides) : inside;
}

ls_status gradient_pad(ls_backward *g) {
  if (g->wanted[0]) g->din[0] = unpadded(g);
  if (!g->wanted[1]) return ls_ok();
  const ls_tensor no = ls_scalar(LS_DTYPE_BOOL, 0);
  const ls_tensor yes = ls_scalar(LS_DTYPE_BOOL, 1);
  const ls_tensor is_value =
      ls_pad(ls_broadcast_like(no, ls_gradient_input(g, 0)), yes,
             shape_of_ints(g->node, LS_ATTR_ID_PAD_LOW),
             shape_of_ints(g->node, LS_ATTR_ID_PAD_HIGH),
             shape_of_ints(g->node, LS_ATTR_ID_INTERIOR));
  g->din[1] = ls_reduce_sum(
      ls_select(is_value, g->dout[0], ls_gradient_number(g->dout[0], 0)),
      LS_ALL_AXES);
  return ls_ok();
}

// Returns true if the operands' sizes along the axis are known.
static bool sizes_known(const ls_backward *g, int axis) {
  for (size_t i = 0; i < g->num_inputs; ++i) {
    const ls_shape shape = ls_tensor_shape(ls_op_input(g->op, i));
    if (shape.rank < 0 || shape.dim[axis] < 0) return false;
  }
  return true;
}

ls_status gradient_concatenate(ls_backward *g) {
  const int axis = (int)ls_node_int(g->node, LS_ATTR_ID_AXIS);
  if (sizes_known(g, axis)) {
    int64_t start = 0;
    for (size_t i = 0; i < g->num_inputs; ++i) {
      const int64_t size = ls_tensor_shape(ls_op_input(g->op, i)).dim[axis];
      if (g->wanted[i])
        g->din[i] = ls_slice_axis(g->dout[0], axis, start, start + size);
      start += size;
    }
    return ls_ok();
  }
  const ls_graph *graph = ls_graph_current();
  LS_OWN(ls_arena, memory) = {.allocator = graph->allocator};
  ls_tensor *likes = ls_arena_new_array(&memory, ls_tensor, g->num_inputs);
  for (size_t i = 0; likes != NULL && i < g->num_inputs; ++i)
    likes[i] = ls_gradient_input(g, i);
  if (likes != NULL) {
    const ls_op pieces = ls_split_like(g->dout[0], likes, g->num_inputs, axis);
    for (size_t i = 0; i < g->num_inputs; ++i)
      if (g->wanted[i]) g->din[i] = ls_op_output(pieces, (unsigned)i);
  }
  return likes == NULL ? ls_out_of_memory() : ls_ok();
}

// Operands after the first are used for their dimensions only.
ls_status gradient_split_like(ls_backward *g) {
  const ls_graph *graph = ls_graph_current();
  LS_OWN(ls_arena, memory) = {.allocator = graph->allocator};
  ls_tensor *pieces = ls_arena_new_array(&memory, ls_tensor, g->num_outputs);
  for (size_t i = 0; pieces != NULL && i < g->num_outputs; ++i)
    pieces[i] = g->dout[i].ref != 0
                    ? g->dout[i]
                    : ls_gradient_zeros(ls_gradient_input(g, i + 1));
  if (pieces != NULL)
    g->din[0] = ls_concatenate(pieces, g->num_outputs,
                               (int)ls_node_int(g->node, LS_ATTR_ID_AXIS));
  return pieces == NULL ? ls_out_of_memory() : ls_ok();
}

ls_status gradient_reverse(ls_backward *g) {
  const ls_shape axes = shape_of_ints(g->node, LS_ATTR_ID_AXES);
  int items[LS_MAX_RANK];
  for (int32_t i = 0; i < axes.rank; ++i)
    items[i] = (int)axes.dim[i];
  g->din[0] = ls_reverse(g->dout[0],
                         (ls_axes){.items = items, .count = (size_t)axes.rank});
  return ls_ok();
}

// ---- Lookups ---------------------------------------------------------------
// Converts indices to i64, or keeps u64, and the number of slices, a scalar, to
// the same type.
static ls_tensor widened_indices(ls_tensor indices, ls_tensor *size) {
  const ls_dtype dtype =
      ls_tensor_dtype(indices) == LS_DTYPE_U64 ? LS_DTYPE_U64 : LS_DTYPE_I64;
  *size = ls_convert(*size, dtype);
  return ls_convert(indices, dtype);
}

static ls_tensor in_range(ls_tensor indices, ls_tensor size) {
  indices = widened_indices(indices, &size);
  const ls_tensor zero = ls_scalar(ls_tensor_dtype(indices), 0);
  const ls_tensor begun = ls_greater_equal(indices, zero);
  return ls_and(begun, ls_less(indices, size));
}

// Clamps the indices, as the lookup did.
static ls_tensor clamped_indices(ls_backward *g, int axis) {
  ls_tensor size = ls_dim_size(ls_gradient_input(g, 0), axis);
  const ls_tensor indices = widened_indices(ls_gradient_input(g, 1), &size);
  const ls_dtype dtype = ls_tensor_dtype(indices);
  const ls_tensor last = ls_sub(size, ls_scalar(dtype, 1));
  return ls_clamp(ls_scalar(dtype, 0), indices, last);
}

static ls_tensor indices_in_range(ls_backward *g, int axis) {
  const ls_tensor size = ls_dim_size(ls_gradient_input(g, 0), axis);
  return in_range(ls_gradient_input(g, 1), size);
}

// Reshapes `mask`, one bool per index of a scatter, to broadcast with the
// updates.
static ls_tensor as_updates(ls_tensor mask, int32_t inner) {
  for (int32_t i = 0; i < inner; ++i)
    mask = ls_gradient_with_last(mask);
  return mask;
}

// Reshapes [indices..., rest] to [n, rest], where x is [rows, rest].
static ls_tensor as_rows(ls_tensor values, ls_shape indices, ls_tensor x) {
  const ls_shape shape = ls_tensor_shape(x);
  ls_size sizes[LS_MAX_RANK] = {
      {LS_SIZE_CONSTANT, ls_shape_num_elements(indices)}};
  for (int i = 1; i < shape.rank; ++i)
    sizes[i] = shape.dim[i] >= 0 ? (ls_size){LS_SIZE_CONSTANT, shape.dim[i]}
                                 : (ls_size){1, i};
  const ls_attr attr = LS_OWN_SZ(SIZES, sizes, (size_t)shape.rank);
  return ls_make(LS_OP_RESHAPE, (const ls_tensor[]){values, x},
                 ls_shape_is_known(shape) ? 1 : 2, &attr, 1);
}

// Makes the gradient of a table as slices: the rows that were looked up.
static ls_tensor looked_up_gradient(ls_backward *g) {
  const ls_tensor x = ls_gradient_input(g, 0);
  const ls_shape shape = ls_tensor_shape(ls_op_input(g->op, 1));
  ls_tensor indices = clamped_indices(g, 0), values = g->dout[0];
  if (shape.rank != 1) {
    indices = ls_reshape(indices, LS_SHAPE(ls_shape_num_elements(shape)));
    values = as_rows(values, shape, x);
  }
  return ls_indexed_slices(indices, values, x);
}

// Makes the gradient of a lookup along an axis, other than 0 for a gather:
// dense, with zeros for elements that were not looked up.
static ls_tensor gathered_gradient(ls_backward *g, int axis) {
  const ls_tensor x = ls_gradient_input(g, 0), d = g->dout[0];
  const ls_dtype wide = ls_sum_dtype(d);
  const ls_tensor zeros = ls_broadcast_like(ls_scalar(wide, 0), x);
  const ls_tensor terms = ls_convert(d, wide);
  const ls_tensor indices = clamped_indices(g, axis);
  const ls_tensor sums =
      g->node->type == LS_OP_GATHER
          ? ls_scatter_axis(LS_SCATTER_ADD, zeros, indices, terms, axis)
          : ls_add_along(zeros, indices, terms, axis);
  return ls_convert(sums, ls_tensor_dtype(d));
}

ls_status gradient_take_along(ls_backward *g) {
  g->din[0] = gathered_gradient(g, (int)ls_node_int(g->node, LS_ATTR_ID_AXIS));
  return ls_ok();
}

ls_status gradient_gather(ls_backward *g) {
  const int axis = (int)ls_node_int(g->node, LS_ATTR_ID_AXIS);
  const bool rows =
      axis == 0 && ls_tensor_shape(ls_op_input(g->op, 0)).rank > 0;
  g->din[0] = rows ? looked_up_gradient(g) : gathered_gradient(g, axis);
  return ls_ok();
}

ls_status gradient_indexed_slices(ls_backward *g) {
  const ls_tensor indices = ls_gradient_input(g, 0), d = g->dout[0];
  const ls_shape shape = ls_tensor_shape(ls_op_output(g->op, 0));
  if (shape.rank >= 0 && shape.dim[0] == 0) {
    g->din[1] = ls_gradient_zeros(ls_gradient_input(g, 1));
    return ls_ok();
  }
  const ls_tensor take =
      as_updates(in_range(indices, ls_dim_size(d, 0)), shape.rank - 1);
  const ls_tensor rows = ls_gather(d, indices, 0);
  g->din[1] = ls_select(take, rows, ls_gradient_number(d, 0));
  return ls_ok();
}

// Repeats `value`, a tensor of one dimension, once for each slice of `like`
// along `axis`.
static ls_tensor repeated(ls_tensor value, ls_tensor like, int axis) {
  const ls_size size = {1, axis};
  const ls_attr attr = LS_OWN_SZ(SIZES, &size, 1);
  return ls_make(LS_OP_BROADCAST, (const ls_tensor[]){value, like}, 2, &attr,
                 1);
}

// Finds the updates that no later update with the same index overwrites: each
// update writes its number to its slice, and then compares the number found
// there with its own.
static ls_tensor last_updates(ls_backward *g, int axis) {
  const ls_tensor indices = ls_gradient_input(g, 1);
  const ls_tensor flat = ls_reshape(indices, LS_SHAPE(-1));
  const ls_tensor one = ls_scalar(LS_DTYPE_I64, 1);
  const ls_tensor numbers =
      ls_cumsum(ls_broadcast_like(one, flat), 0, true, false);
  const ls_tensor x = ls_gradient_input(g, 0);
  const ls_tensor nobody = repeated(ls_scalar(LS_DTYPE_I64, -1), x, axis);
  const ls_tensor writers =
      ls_scatter(LS_SCATTER_UPDATE, nobody, flat, numbers);
  const ls_tensor last = ls_equal(ls_gather(writers, flat, 0), numbers);
  return ls_reshape_like(last, indices);
}

// Returns the gradient of the updates; those of an axis without elements do not
// count.
static ls_tensor update_gradient(ls_backward *g, int axis, bool updates) {
  const ls_shape shape = ls_tensor_shape(ls_op_input(g->op, 0));
  if (shape.rank >= 0 && shape.dim[axis] == 0)
    return ls_gradient_zeros(ls_gradient_input(g, 2));
  const ls_tensor take =
      updates ? last_updates(g, axis) : indices_in_range(g, axis);
  const ls_tensor indices = ls_gradient_input(g, 1), d = g->dout[0];
  const ls_tensor none = ls_gradient_number(d, 0);
  if (g->node->type == LS_OP_ADD_ALONG)
    return ls_select(take, ls_take_along(d, indices, axis), none);
  const ls_tensor rows = ls_gather(d, indices, axis);
  return ls_select(as_updates(take, shape.rank - 1 - axis), rows, none);
}

ls_status gradient_scatter(ls_backward *g) {
  const char *combine = ls_node_attr(g->node, LS_ATTR_ID_COMBINE)->as.string;
  const int axis = (int)ls_node_int(g->node, LS_ATTR_ID_AXIS);
  const bool updates = strcmp(combine, "update") == 0;
  const bool subtracts = strcmp(combine, "sub") == 0;
  if (!updates && !subtracts && strcmp(combine, "add") != 0)
    return ls_unimplemented(
        "op %s has no gradient: it depends on all updates of an index and on "
        "their order; use add, sub or update",
        LS_OP_TEXT_BY(g->op, "scatter", combine));
  if (ls_tensor_shape(ls_op_input(g->op, 0)).rank < 0 ||
      ls_tensor_shape(ls_op_input(g->op, 1)).rank < 0)
    return ls_gradient_needs(g, "ranks");
  if (g->wanted[0] && !updates) g->din[0] = g->dout[0];
  if (g->wanted[0] && updates) {
    const ls_tensor zeros = ls_gradient_zeros(ls_gradient_input(g, 2));
    g->din[0] = ls_scatter_axis(LS_SCATTER_UPDATE, g->dout[0],
                                ls_gradient_input(g, 1), zeros, axis);
  }
  if (!g->wanted[2]) return ls_ok();
  g->din[2] = update_gradient(g, axis, updates);
  if (subtracts) g->din[2] = ls_neg(g->din[2]);
  return ls_ok();
}

// ---- Along an axis ---------------------------------------------------------
ls_status gradient_add_along(ls_backward *g) {
  const int axis = (int)ls_node_int(g->node, LS_ATTR_ID_AXIS);
  if (g->wanted[0]) g->din[0] = g->dout[0];
  if (g->wanted[2]) g->din[2] = update_gradient(g, axis, false);
  return ls_ok();
}
