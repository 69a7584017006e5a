// SPDX-License-Identifier: Apache-2.0
//
// Shape rules of ops that change shapes: reshaping, reductions, products.
#include "graph/infer/infer.h"
#include "lockstep/shape_rules.h"

// ---- Reshaping -------------------------------------------------------------
// Computes the size that is given as -1, if the other sizes are known.
static ls_status fill_rest(const ls_infer *infer, ls_shape *shape) {
  const ls_attr *sizes = ls_infer_attr(infer, LS_ATTR_ID_SIZES);
  int rest = -1;
  for (size_t i = 0; i < sizes->as.sizes.count; ++i) {
    if (sizes->as.sizes.items[i].operand != LS_SIZE_CONSTANT ||
        sizes->as.sizes.items[i].value != -1)
      continue;
    if (rest >= 0)
      return ls_invalid_argument(
          "reshape: sizes %d and %zu are both -1; one may be", rest, i);
    rest = (int)i;
  }
  const int64_t have = ls_shape_num_elements(infer->in[0].shape);
  if (rest < 0 || have < 0) return ls_ok();
  int64_t others = 1;
  for (int i = 0; i < shape->rank; ++i) {
    if (i == rest) continue;
    if (shape->dim[i] < 0) return ls_ok();
    if (__builtin_mul_overflow(others, shape->dim[i], &others)) others = 0;
  }
  if (others == 0 || have % others != 0)
    return ls_invalid_argument(
        "reshape of %s: the other sizes make %lld, which does not divide it",
        LS_OPERAND_TEXT(infer, 0), (long long)others);
  shape->dim[rest] = have / others;
  return ls_ok();
}

ls_status infer_reshape(ls_infer *infer) {
  ls_shape shape;
  LS_RETURN_IF_ERROR(ls_infer_sizes(infer, &shape));
  LS_RETURN_IF_ERROR(fill_rest(infer, &shape));
  infer->out[0] = (ls_type){infer->in[0].dtype, shape};
  const int64_t have = ls_shape_num_elements(infer->in[0].shape);
  const int64_t want = ls_shape_num_elements(shape);
  if (have >= 0 && want >= 0 && have != want)
    return ls_invalid_argument(
        "reshape of %s to %s: %lld elements against %lld",
        LS_OPERAND_TEXT(infer, 0), LS_SHAPE_TEXT(infer->out[0].dtype, shape),
        (long long)have, (long long)want);
  return ls_shape_check(shape);
}

ls_status infer_broadcast(ls_infer *infer) {
  ls_shape shape, both;
  LS_RETURN_IF_ERROR(ls_infer_sizes(infer, &shape));
  infer->out[0] = (ls_type){infer->in[0].dtype, shape};
  ls_status status = ls_shape_broadcast(infer->in[0].shape, shape, &both);
  const bool fits = ls_status_is_ok(status) &&
                    ls_shape_compatible(both, shape) &&
                    (infer->in[0].shape.rank <= shape.rank);
  ls_status_free(status);
  if (!fits)
    return ls_invalid_argument("broadcast of %s to %s: a size must be equal or "
                               "1, counted from the last dimension",
                               LS_OPERAND_TEXT(infer, 0),
                               LS_SHAPE_TEXT(infer->in[0].dtype, shape));
  return ls_shape_check(shape);
}

ls_status infer_sum_to(ls_infer *infer) {
  ls_shape shape, both;
  const ls_dtype dtype = infer->in[0].dtype;
  if (!ls_dtype_is_float(dtype) && !ls_dtype_is_integer(dtype))
    return ls_invalid_argument("sum_to takes numbers, got %s",
                               LS_OPERAND_TEXT(infer, 0));
  LS_RETURN_IF_ERROR(ls_infer_sizes(infer, &shape));
  infer->out[0] = (ls_type){infer->in[0].dtype, shape};
  ls_status status = ls_shape_broadcast(infer->in[0].shape, shape, &both);
  const bool fits =
      ls_status_is_ok(status) && ls_shape_compatible(both, infer->in[0].shape);
  ls_status_free(status);
  if (fits) return ls_ok();
  return ls_invalid_argument("sum_to of %s: %s does not broadcast to it",
                             LS_OPERAND_TEXT(infer, 0),
                             LS_SHAPE_TEXT(infer->in[0].dtype, shape));
}

ls_status infer_transpose(ls_infer *infer) {
  const ls_attr *permutation = ls_infer_attr(infer, LS_ATTR_ID_PERMUTATION);
  const ls_shape from = infer->in[0].shape;
  infer->out[0] = (ls_type){infer->in[0].dtype, LS_SHAPE_UNKNOWN};
  const size_t rank = permutation->as.ints.count;
  unsigned seen = 0;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t p = permutation->as.ints.items[i];
    if ((size_t)p >= rank || (seen >> p & 1))
      return ls_invalid_argument(
          "transpose of %s: entry %zu of the permutation, %lld, is out of "
          "range or there twice",
          LS_OPERAND_TEXT(infer, 0), i, (long long)p);
    seen |= 1u << p;
  }
  ls_shape shape = {.rank = (int32_t)rank};
  for (size_t i = 0; i < rank; ++i)
    shape.dim[i] = from.rank == LS_UNKNOWN_RANK
                       ? LS_UNKNOWN_DIM
                       : from.dim[permutation->as.ints.items[i]];
  if (from.rank != LS_UNKNOWN_RANK && (size_t)from.rank != rank)
    return ls_invalid_argument("transpose of %s by a permutation of %zu",
                               LS_OPERAND_TEXT(infer, 0), rank);
  infer->out[0].shape = shape;
  return ls_ok();
}

// ---- Reductions ------------------------------------------------------------
ls_status infer_reduce(ls_infer *infer) {
  const ls_attr *axes = ls_infer_attr(infer, LS_ATTR_ID_AXES);
  const bool keep = ls_infer_int(infer, LS_ATTR_ID_KEEP_DIMS) != 0;
  const ls_shape from = infer->in[0].shape;
  const ls_dtype dtype = infer->in[0].dtype;
  const bool of_bools = infer->spec->type == LS_OP_REDUCE_AND ||
                        infer->spec->type == LS_OP_REDUCE_OR;
  if (of_bools ? dtype != LS_DTYPE_BOOL
               : !ls_dtype_is_float(dtype) && !ls_dtype_is_integer(dtype))
    return ls_invalid_argument("%s takes %s, got %s", infer->op_name,
                               of_bools ? "bools" : "numbers",
                               LS_OPERAND_TEXT(infer, 0));
  infer->out[0] = (ls_type){dtype, LS_SHAPE_UNKNOWN};
  if (from.rank == LS_UNKNOWN_RANK) return ls_ok();
  unsigned reduced = 0;
  for (size_t i = 0; i < axes->as.ints.count; ++i) {
    const int64_t axis = axes->as.ints.items[i];
    if (axis >= from.rank || (reduced >> axis & 1))
      return ls_invalid_argument(
          "%s of %s: axis %lld is out of range or there twice", infer->op_name,
          LS_OPERAND_TEXT(infer, 0), (long long)axis);
    reduced |= 1u << axis;
  }
  ls_shape shape = {0};
  for (int i = 0; i < from.rank; ++i) {
    if (!(reduced >> i & 1))
      shape.dim[shape.rank++] = from.dim[i];
    else if (keep)
      shape.dim[shape.rank++] = 1;
  }
  infer->out[0].shape = shape;
  return ls_ok();
}

ls_status infer_argmax(ls_infer *infer) {
  int32_t axis = 0;
  const ls_shape from = infer->in[0].shape;
  infer->out[0] = (ls_type){LS_DTYPE_I64, LS_SHAPE_UNKNOWN};
  LS_RETURN_IF_ERROR(ls_infer_axis(infer, &axis));
  if (from.rank == LS_UNKNOWN_RANK) return ls_ok();
  ls_shape shape = {0};
  for (int i = 0; i < from.rank; ++i)
    if (i != axis) shape.dim[shape.rank++] = from.dim[i];
  infer->out[0].shape = shape;
  return ls_ok();
}

// ---- Products --------------------------------------------------------------
ls_status infer_matmul(ls_infer *infer) {
  const ls_shape a = infer->in[0].shape, b = infer->in[1].shape;
  const bool ta = ls_infer_int(infer, LS_ATTR_ID_TRANSPOSE_A) != 0;
  const bool tb = ls_infer_int(infer, LS_ATTR_ID_TRANSPOSE_B) != 0;
  infer->out[0] = (ls_type){infer->in[0].dtype, LS_SHAPE_UNKNOWN};
  const bool dtypes = infer->in[0].dtype == infer->in[1].dtype &&
                      (ls_dtype_is_float(infer->in[0].dtype) ||
                       ls_dtype_is_integer(infer->in[0].dtype));
  if (dtypes && (a.rank == LS_UNKNOWN_RANK || b.rank == LS_UNKNOWN_RANK))
    return ls_ok();
  if (b.rank == 2 && a.rank > 2 && ta)
    return ls_invalid_argument(
        "matmul of %s transposed by %s: a transposed x of more than 2 "
        "dimensions takes no single matrix: transpose it first",
        LS_OPERAND_TEXT(infer, 0), LS_OPERAND_TEXT(infer, 1));
  bool fits =
      dtypes && a.rank >= 2 && b.rank >= 2 && (a.rank == b.rank || b.rank == 2);
  if (fits) {
    const int64_t k = a.dim[a.rank - (ta ? 2 : 1)];
    const int64_t also_k = b.dim[b.rank - (tb ? 1 : 2)];
    fits = k < 0 || also_k < 0 || k == also_k;
  }
  ls_shape shape = a;
  for (int i = 0; fits && b.rank > 2 && i < a.rank - 2; ++i) {
    fits = a.dim[i] < 0 || b.dim[i] < 0 || a.dim[i] == b.dim[i];
    if (a.dim[i] < 0) shape.dim[i] = b.dim[i];
  }
  if (!fits)
    return ls_invalid_argument(
        "matmul of %s%s by %s%s: inner sizes, leading sizes and dtypes must be "
        "equal",
        LS_OPERAND_TEXT(infer, 0), ta ? " transposed" : "",
        LS_OPERAND_TEXT(infer, 1), tb ? " transposed" : "");
  shape.dim[a.rank - 2] = a.dim[a.rank - (ta ? 1 : 2)];
  shape.dim[a.rank - 1] = b.dim[b.rank - (tb ? 2 : 1)];
  infer->out[0].shape = shape;
  return ls_ok();
}

ls_status infer_add_products(ls_infer *infer) {
  bool fits = infer->num_in % 2 == 0;
  for (size_t i = 0; fits && i < infer->num_in; ++i) {
    const ls_type type = infer->in[i], first = infer->in[i % 2];
    fits = (type.dtype == LS_DTYPE_F32 || type.dtype == LS_DTYPE_F64) &&
           type.dtype == infer->in[0].dtype && type.shape.rank == 2 &&
           type.shape.dim[1] == first.shape.dim[1] &&
           type.shape.dim[0] == infer->in[i - i % 2].shape.dim[0];
  }
  if (!fits)
    return ls_invalid_argument(
        "add_products needs pairs of matrices of f32 or f64 with equal rows, "
        "and equal columns of all left and of all right ones");
  infer->out[0] = (ls_type){
      infer->in[0].dtype,
      {.rank = 2,
       .dim = {infer->in[0].shape.dim[1], infer->in[1].shape.dim[1]}}};
  return ls_ok();
}

ls_status infer_dense(ls_infer *infer) {
  const ls_shape x = infer->in[0].shape, w = infer->in[1].shape;
  const ls_dtype dtype = infer->in[0].dtype;
  bool fits = infer->in[1].dtype == dtype && ls_dtype_is_float(dtype) &&
              (w.rank == 2 || w.rank == LS_UNKNOWN_RANK) &&
              (x.rank == LS_UNKNOWN_RANK || x.rank >= 1);
  ls_shape shape = x;
  if (fits && x.rank > 0 && w.rank == 2) {
    const int64_t k = x.dim[x.rank - 1];
    fits = k < 0 || w.dim[0] < 0 || k == w.dim[0];
  }
  if (x.rank > 0)
    shape.dim[x.rank - 1] = w.rank == 2 ? w.dim[1] : LS_UNKNOWN_DIM;
  if (!fits)
    return ls_invalid_argument(
        "dense of %s by %s: w must be [in, out] with the same float dtype, "
        "where `in` is x's last size",
        LS_OPERAND_TEXT(infer, 0), LS_OPERAND_TEXT(infer, 1));
  if (infer->num_in == 3) {
    const ls_shape bias = infer->in[2].shape;
    if (infer->in[2].dtype != dtype || (bias.rank != 1 && bias.rank != -1) ||
        (bias.rank == 1 && w.rank == 2 && bias.dim[0] >= 0 && w.dim[1] >= 0 &&
         bias.dim[0] != w.dim[1]))
      return ls_invalid_argument("dense by %s: the bias is %s",
                                 LS_OPERAND_TEXT(infer, 1),
                                 LS_OPERAND_TEXT(infer, 2));
  }
  infer->out[0] = (ls_type){dtype, shape};
  return ls_ok();
}

// ---- Cross entropy ---------------------------------------------------------
ls_status infer_cross_entropy(ls_infer *infer) {
  const ls_shape logits = infer->in[0].shape;
  ls_shape rows = LS_SHAPE_UNKNOWN;
  bool fits = ls_dtype_is_float(infer->in[0].dtype) &&
              ls_dtype_is_integer(infer->in[1].dtype) && logits.rank != 0;
  if (fits && logits.rank > 0) {
    rows = logits;
    rows.dim[--rows.rank] = 0;
    fits = ls_shape_compatible(rows, infer->in[1].shape);
  }
  if (!fits)
    return ls_invalid_argument("%s of %s with labels %s: labels must be "
                               "integers, one for each row of float logits",
                               infer->op_name, LS_OPERAND_TEXT(infer, 0),
                               LS_OPERAND_TEXT(infer, 1));
  infer->out[0].dtype = infer->in[0].dtype;
  return ls_shape_merge(rows, infer->in[1].shape, &infer->out[0].shape);
}

ls_status infer_cross_entropy_grad(ls_infer *infer) {
  LS_RETURN_IF_ERROR(infer_cross_entropy(infer));
  if (infer->in[2].dtype != infer->in[0].dtype ||
      !ls_shape_compatible(infer->in[2].shape, infer->out[0].shape))
    return ls_invalid_argument("%s of %s: the rows' gradients are %s",
                               infer->op_name, LS_OPERAND_TEXT(infer, 0),
                               LS_OPERAND_TEXT(infer, 2));
  infer->out[0] = infer->in[0];
  return ls_ok();
}

ls_status infer_one_hot(ls_infer *infer) {
  const int64_t depth = ls_infer_int(infer, LS_ATTR_ID_DEPTH);
  if (!ls_dtype_is_integer(infer->in[0].dtype) ||
      infer->in[0].shape.rank == LS_MAX_RANK)
    return ls_invalid_argument("one_hot of %s with depth %lld",
                               LS_OPERAND_TEXT(infer, 0), (long long)depth);
  infer->out[0] = (ls_type){ls_infer_dtype(infer), infer->in[0].shape};
  ls_shape *shape = &infer->out[0].shape;
  if (shape->rank != LS_UNKNOWN_RANK) shape->dim[shape->rank++] = depth;
  return ls_shape_check(*shape);
}
