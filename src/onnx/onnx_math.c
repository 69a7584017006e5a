// SPDX-License-Identifier: Apache-2.0
//
// Makers of reductions, products and softmax.
#include "graph/make/make.h"
#include "nn/recurrent.h"
#include "onnx/onnx_build.h"

// ---- Reductions ------------------------------------------------------------
typedef struct axis_list {
  int items[LS_MAX_RANK];
  ls_axes axes;
} axis_list;

static void read_axes(ls_onnx_build *b, int32_t rank, axis_list *out) {
  const ls_onnx_known *axes = ls_onnx_list_of(b, "axes", 1);
  out->axes = (ls_axes){.items = out->items};
  out->axes.all = axes == NULL || axes->count == 0;
  for (int64_t i = 0; axes != NULL && i < axes->count && i < LS_MAX_RANK; ++i)
    out->items[out->axes.count++] = ls_onnx_axis(b, axes->items[i].value, rank);
  for (int i = 0; out->axes.all && i < rank; ++i)
    out->items[out->axes.count++] = i;
}

void ls_onnx_make_reduce(ls_onnx_build *b) {
  const char *kind = b->node->type + strlen("Reduce");
  const bool keep = ls_onnx_attr_int(b, "keepdims", 1) != 0;
  ls_tensor x = ls_onnx_in(b, 0);
  const ls_dtype dtype = ls_tensor_dtype(x);
  const bool is_l2 = strcmp(kind, "L2") == 0;
  axis_list list = {.axes = {0}};
  read_axes(b, ls_tensor_shape(x).rank, &list);
  if (ls_dtype_is_integer(dtype) && (is_l2 || strcmp(kind, "Mean") == 0))
    x = ls_convert(x, LS_DTYPE_F64);
  if (dtype == LS_DTYPE_BOOL) x = ls_convert(x, LS_DTYPE_U8);
  uint16_t op = LS_OP_REDUCE_SUM;
  if (strcmp(kind, "Mean") == 0) op = LS_OP_REDUCE_MEAN;
  if (strcmp(kind, "Max") == 0) op = LS_OP_REDUCE_MAX;
  if (strcmp(kind, "Min") == 0) op = LS_OP_REDUCE_MIN;
  if (strcmp(kind, "Prod") == 0) op = LS_OP_REDUCE_PRODUCT;
  if (strcmp(kind, "L1") == 0) x = ls_abs(x);
  if (is_l2 || strcmp(kind, "SumSquare") == 0) x = ls_square(x);
  const bool is_noop =
      list.axes.all && ls_onnx_attr_int(b, "noop_with_empty_axes", 0) != 0;
  list.axes.all = false;
  if (!is_noop) x = ls_make_reduce(op, x, list.axes, keep);
  if (is_l2) x = ls_sqrt(x);
  ls_onnx_give(b, 0, ls_tensor_dtype(x) != dtype ? ls_convert(x, dtype) : x);
}

// Inserts a dimension of size 1.
static ls_tensor insert_axis(ls_onnx_build *b, ls_tensor x, int axis) {
  ls_onnx_number dims[LS_MAX_RANK + 1];
  ls_onnx_dims(x, dims);
  const int32_t rank = ls_tensor_shape(x).rank;
  for (int i = rank; i > axis; --i)
    dims[i] = dims[i - 1];
  dims[axis] = (ls_onnx_number){.value = 1};
  return ls_onnx_sized(b, LS_OP_RESHAPE, x, dims, rank + 1);
}

void ls_onnx_make_arg(ls_onnx_build *b) {
  const ls_tensor x = ls_onnx_in(b, 0);
  const int axis =
      ls_onnx_axis(b, ls_onnx_attr_int(b, "axis", 0), ls_tensor_shape(x).rank);
  if (ls_onnx_attr_int(b, "select_last_index", 0) != 0)
    LS_ONNX_REFUSE(b, "the last of equal elements (select_last_index)");
  const bool is_max = strcmp(b->node->type, "ArgMax") == 0;
  ls_tensor y = is_max ? ls_argmax(x, axis) : ls_argmin(x, axis);
  y = ls_convert(y, LS_DTYPE_I64);
  const bool keep = ls_onnx_attr_int(b, "keepdims", 1) != 0;
  ls_onnx_give(b, 0, keep ? insert_axis(b, y, axis) : y);
}

void ls_onnx_make_top_k(ls_onnx_build *b) {
  const ls_tensor x = ls_onnx_in(b, 0);
  const int32_t rank = ls_tensor_shape(x).rank;
  const ls_onnx_known *k = ls_onnx_list_of(b, "k", 1);
  const int64_t count =
      k != NULL ? k->items[0].value : ls_onnx_attr_int(b, "k", 0);
  if (ls_onnx_axis(b, ls_onnx_attr_int(b, "axis", -1), rank) != rank - 1 ||
      ls_onnx_attr_int(b, "largest", 1) == 0 || count < 1) {
    LS_ONNX_REFUSE(b, "any but the k largest along the last axis");
    return;
  }
  const ls_op top = ls_top_k(x, count);
  ls_onnx_give(b, 0, ls_op_output(top, 0));
  if (b->node->num_outputs > 1)
    ls_onnx_give(b, 1, ls_convert(ls_op_output(top, 1), LS_DTYPE_I64));
}

// ---- Products --------------------------------------------------------------
// Broadcasts the leading dimensions of x to those of both operands.
static ls_tensor with_leading(ls_onnx_build *b, ls_tensor x, ls_tensor y) {
  ls_onnx_number own[LS_MAX_RANK], other[LS_MAX_RANK], made[LS_MAX_RANK];
  const int32_t rank = ls_tensor_shape(x).rank, wide = ls_tensor_shape(y).rank;
  const int32_t most = rank > wide ? rank : wide;
  bool changes = rank < most;
  ls_onnx_dims(x, own);
  ls_onnx_dims(y, other);
  for (int i = 1; i <= most; ++i) {
    const bool has = i <= rank, grows = i > 2 && i <= wide;
    made[most - i] = has ? own[rank - i] : other[wide - i];
    if (!has || !grows || own[rank - i].is_unknown || own[rank - i].value != 1)
      continue;
    made[most - i] = other[wide - i];
    changes |= other[wide - i].is_unknown || other[wide - i].value != 1;
  }
  return changes ? ls_onnx_sized(b, LS_OP_BROADCAST, x, made, most) : x;
}

void ls_onnx_make_matmul(ls_onnx_build *b) {
  ls_tensor x = ls_onnx_in(b, 0), y = ls_onnx_in(b, 1);
  const int32_t rank = ls_tensor_shape(x).rank, other = ls_tensor_shape(y).rank;
  if (rank < 1 || other < 1) {
    LS_ONNX_REFUSE(b, "a product of scalars, or of unknown ranks");
    return;
  }
  if (rank == 1) x = insert_axis(b, x, 0);
  if (other == 1) y = insert_axis(b, y, 1);
  if (other > 2) {
    const ls_tensor wide = with_leading(b, x, y);
    y = with_leading(b, y, x);
    x = wide;
  }
  ls_tensor product = ls_matmul(x, y);
  if (rank == 1 || other == 1) {
    ls_onnx_number dims[LS_MAX_RANK];
    ls_onnx_dims(product, dims);
    int32_t count = ls_tensor_shape(product).rank;
    if (rank == 1 && count > 1) dims[count - 2] = dims[count - 1];
    count -= (rank == 1) + (other == 1);
    product = ls_onnx_sized(b, LS_OP_RESHAPE, product, dims, count);
  }
  ls_onnx_give(b, 0, product);
}

void ls_onnx_make_gemm(ls_onnx_build *b) {
  const double alpha = ls_onnx_attr_real(b, "alpha", 1),
               beta = ls_onnx_attr_real(b, "beta", 1);
  const ls_tensor right = ls_onnx_in(b, 1);
  ls_tensor y = ls_matmul_transposed(
      ls_onnx_in(b, 0), ls_onnx_attr_int(b, "transA", 0) != 0, right,
      ls_onnx_attr_int(b, "transB", 0) != 0);
  if (alpha != 1) y = ls_mul_scalar(y, alpha);
  if (ls_onnx_has(b, 2)) {
    const ls_tensor c = ls_onnx_in(b, 2);
    y = ls_add(y, beta != 1 ? ls_mul_scalar(c, beta) : c);
  }
  ls_onnx_give(b, 0, y);
}

// ---- Softmax ---------------------------------------------------------------
// Along one axis; before opset 13 along it and all that follow.
void ls_onnx_make_softmax(ls_onnx_build *b) {
  const bool is_log = b->node->type[0] == 'L';
  const bool is_old = b->file->opset < 13;
  ls_tensor x = ls_onnx_in(b, 0);
  const int32_t rank = ls_tensor_shape(x).rank;
  const int axis =
      ls_onnx_axis(b, ls_onnx_attr_int(b, "axis", is_old ? 1 : -1), rank);
  if (is_old && axis < rank - 1) {
    const ls_shape shape = ls_tensor_shape(x);
    const int64_t width = ls_onnx_product(shape, axis, rank);
    if (width < 0) LS_ONNX_REFUSE(b, "a softmax over unknown sizes");
    const ls_tensor rows = ls_reshape(x, LS_SHAPE(-1, width));
    ls_onnx_give(
        b, 0,
        ls_reshape_like(is_log ? ls_log_softmax(rows) : ls_softmax(rows), x));
    return;
  }
  int permutation[LS_MAX_RANK];
  for (int i = 0; i < rank; ++i)
    permutation[i] = i == axis ? rank - 1 : (i == rank - 1 ? axis : i);
  const bool moves = axis != rank - 1;
  if (moves) x = ls_transpose(x, permutation);
  const ls_tensor y = is_log ? ls_log_softmax(x) : ls_softmax(x);
  ls_onnx_give(b, 0, moves ? ls_transpose(y, permutation) : y);
}

// ---- Recurrent layers ------------------------------------------------------
enum { X, W, R, B, LENGTHS, STATE, CELL, PEEPHOLES };
enum { MOST_GATES = 4, UNROLLED = 32 };

typedef struct recurrence {
  ls_onnx_build *b;
  ls_recurrent_kind kind;
  int64_t units, gates;
  ls_onnx_number sizes[2];  // Sizes of a state: batch and units.
} recurrence;

// Takes one direction's part of an input.
static ls_tensor direction_of(ls_tensor x, int64_t direction) {
  const ls_shape shape = ls_tensor_shape(x);
  const ls_tensor part = ls_slice_axis(x, 0, direction, direction + 1);
  return shape.rank == 2 ? ls_reshape(part, LS_SHAPE(-1))
                         : ls_reshape(part, LS_SHAPE(-1, shape.dim[2]));
}

// Reorders the gates along axis 0: i o f c to i f c o, or z r h to r z h.
static ls_tensor reorder_gates(const recurrence *r, ls_tensor x) {
  static const int orders[2][MOST_GATES] = {{0, 2, 3, 1}, {1, 0, 2}};
  ls_tensor parts[MOST_GATES];
  for (int i = 0; i < r->gates; ++i) {
    const int64_t from = orders[r->kind == LS_RECURRENT_GRU][i];
    parts[i] = ls_slice_axis(x, 0, from * r->units, (from + 1) * r->units);
  }
  return ls_concatenate(parts, (size_t)r->gates, 0);
}

static ls_tensor initial_of(const recurrence *r, size_t input,
                            int64_t direction) {
  ls_onnx_build *b = r->b;
  const ls_dtype dtype = ls_tensor_dtype(ls_onnx_in(b, X));
  if (!ls_onnx_has(b, input))
    return ls_onnx_sized(b, LS_OP_BROADCAST, ls_scalar(dtype, 0), r->sizes, 2);
  return direction_of(ls_onnx_in(b, input), direction);
}

// Runs one direction over x, [batch, steps, inputs].
static ls_tensor run_direction(const recurrence *r, ls_tensor x,
                               int64_t direction, bool is_reversed,
                               ls_recurrent_state *state) {
  ls_onnx_build *b = r->b;
  const bool is_lstm = r->kind == LS_RECURRENT_LSTM;
  const ls_tensor kernel =
      reorder_gates(r, direction_of(ls_onnx_in(b, W), direction));
  const ls_tensor recurrent =
      reorder_gates(r, direction_of(ls_onnx_in(b, R), direction));
  ls_recurrent_steps steps = {.kind = r->kind,
                              .units = r->units,
                              .unrolled = UNROLLED,
                              .allocator = b->memory->allocator,
                              .kernel = ls_transpose(recurrent, NULL)};
  if (is_reversed) x = ls_reverse(x, LS_AXES(1));
  ls_tensor projected = ls_matmul(x, ls_transpose(kernel, NULL));
  if (ls_onnx_has(b, B)) {
    const ls_tensor all = direction_of(ls_onnx_in(b, B), direction);
    const int64_t half = r->gates * r->units;
    const ls_tensor own = reorder_gates(r, ls_slice_axis(all, 0, 0, half));
    const ls_tensor other =
        reorder_gates(r, ls_slice_axis(all, 0, half, 2 * half));
    projected = ls_add(projected, is_lstm ? ls_add(own, other) : own);
    if (!is_lstm) steps.bias = other;
  }
  state->h = initial_of(r, STATE, direction);
  if (is_lstm) state->c = initial_of(r, CELL, direction);
  const ls_tensor y = ls_recurrent_run(&steps, projected, state);
  return is_reversed ? ls_reverse(y, LS_AXES(1)) : y;
}

static bool is_supported(ls_onnx_build *b, bool is_lstm) {
  static const char *const refused[] = {"activations", "activation_alpha",
                                        "activation_beta", "clip"};
  const ls_onnx_attr *names = ls_onnx_attr_find(b->node, refused[0]);
  for (size_t i = 1; i < 4; ++i)
    if (ls_onnx_attr_find(b->node, refused[i]) != NULL)
      LS_ONNX_REFUSE(b, "%s of a recurrent layer", refused[i]);
  if (names != NULL && names->kind != LS_ONNX_STRINGS) {
    LS_ONNX_REFUSE(b, "activations of a recurrent layer that are no names");
    return false;
  }
  for (size_t i = 0; names != NULL && i < names->count; ++i) {
    const bool is_gate = i % (is_lstm ? 3 : 2) == 0;
    if (strcmp(names->texts[i], is_gate ? "Sigmoid" : "Tanh") != 0)
      LS_ONNX_REFUSE(b, "activation %s of a recurrent layer", names->texts[i]);
  }
  if (!is_lstm && ls_onnx_attr_int(b, "linear_before_reset", 0) == 0)
    LS_ONNX_REFUSE(b, "a GRU with linear_before_reset = 0");
  if (ls_onnx_attr_int(b, "layout", 0) != 0 ||
      ls_onnx_attr_int(b, "input_forget", 0) != 0 || ls_onnx_has(b, LENGTHS) ||
      ls_onnx_has(b, PEEPHOLES))
    LS_ONNX_REFUSE(b, "layout, input_forget, sequence lengths or peepholes");
  return ls_status_is_ok(b->status);
}

// Joins the directions along a new axis.
static ls_tensor join_directions(recurrence *r, const ls_tensor *parts,
                                 size_t count, int axis) {
  ls_tensor made[2];
  for (size_t i = 0; i < count; ++i)
    made[i] = insert_axis(r->b, parts[i], axis);
  return ls_concatenate(made, count, axis);
}

void ls_onnx_make_recurrent(ls_onnx_build *b) {
  const bool is_lstm = b->node->type[0] == 'L';
  const char *way = ls_onnx_attr_text(b, "direction", "forward");
  const bool is_both = strcmp(way, "bidirectional") == 0;
  const int swapped[] = {1, 0, 2};
  const ls_shape state = ls_tensor_shape(ls_onnx_in(b, R)),
                 shape = ls_tensor_shape(ls_onnx_in(b, X));
  recurrence r = {.b = b,
                  .kind = is_lstm ? LS_RECURRENT_LSTM : LS_RECURRENT_GRU,
                  .units = state.dim[2],
                  .gates = is_lstm ? 4 : 3};
  if (!is_supported(b, is_lstm)) return;
  if (state.rank != 3 || shape.rank != 3 || shape.dim[0] < 1 ||
      state.dim[0] != (is_both ? 2 : 1) ||
      state.dim[1] != r.gates * state.dim[2]) {
    LS_ONNX_REFUSE(b,
                   "sequences of unknown length, or weights of other shapes");
    return;
  }
  const ls_tensor x = ls_transpose(ls_onnx_in(b, X), swapped);
  ls_onnx_number dims[LS_MAX_RANK];
  ls_onnx_dims(x, dims);
  r.sizes[0] = dims[0];
  r.sizes[1] = (ls_onnx_number){.value = r.units};
  ls_tensor all[2], h[2], c[2];
  for (int64_t i = 0; i < state.dim[0]; ++i) {
    ls_recurrent_state end = {.h = ls_failed_tensor()};
    const bool is_reversed = i == 1 || strcmp(way, "reverse") == 0;
    all[i] = run_direction(&r, x, i, is_reversed, &end);
    all[i] = ls_transpose(all[i], swapped);
    h[i] = end.h;
    c[i] = end.c;
  }
  const size_t count = (size_t)state.dim[0];
  ls_onnx_give(b, 0, join_directions(&r, all, count, 1));
  ls_onnx_give(b, 1, join_directions(&r, h, count, 0));
  if (is_lstm) ls_onnx_give(b, 2, join_directions(&r, c, count, 0));
}
