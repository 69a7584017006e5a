// SPDX-License-Identifier: Apache-2.0
//
// Makers of reductions, products and softmax.
#include "graph/make/make.h"
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
  axis_list list = {.axes = {0}};
  read_axes(b, ls_tensor_shape(x).rank, &list);
  uint16_t op = LS_OP_REDUCE_SUM;
  if (strcmp(kind, "Mean") == 0) op = LS_OP_REDUCE_MEAN;
  if (strcmp(kind, "Max") == 0) op = LS_OP_REDUCE_MAX;
  if (strcmp(kind, "Min") == 0) op = LS_OP_REDUCE_MIN;
  if (strcmp(kind, "Prod") == 0) op = LS_OP_REDUCE_PRODUCT;
  if (strcmp(kind, "L1") == 0) x = ls_abs(x);
  if (strcmp(kind, "L2") == 0 || strcmp(kind, "SumSquare") == 0)
    x = ls_square(x);
  const bool is_noop =
      list.axes.all && ls_onnx_attr_int(b, "noop_with_empty_axes", 0) != 0;
  list.axes.all = false;
  if (!is_noop) x = ls_make_reduce(op, x, list.axes, keep);
  ls_onnx_give(b, 0, strcmp(kind, "L2") == 0 ? ls_sqrt(x) : x);
}

ls_tensor ls_onnx_insert_axis(ls_onnx_build *b, ls_tensor x, int axis) {
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
  ls_onnx_give(b, 0, keep ? ls_onnx_insert_axis(b, y, axis) : y);
}

void ls_onnx_make_top_k(ls_onnx_build *b) {
  const ls_tensor x = ls_onnx_in(b, 0);
  const int32_t rank = ls_tensor_shape(x).rank;
  const ls_onnx_known *k = ls_onnx_known_in(b, 1);
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
  if (rank == 1) x = ls_onnx_insert_axis(b, x, 0);
  if (other == 1) y = ls_onnx_insert_axis(b, y, 1);
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
  ls_tensor y = ls_matmul_transposed(
      ls_onnx_in(b, 0), ls_onnx_attr_int(b, "transA", 0) != 0, ls_onnx_in(b, 1),
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
