// SPDX-License-Identifier: Apache-2.0
//
// The reference: reductions, products, softmax and cross-entropy.
#include <math.h>

#include "support/expect.h"
#include "support/reference_ops.h"

// ---- Reductions ------------------------------------------------------------
static ref_number reduced(uint16_t type, ls_dtype dtype, ref_number a,
                          ref_number b) {
  switch (type) {
  case LS_OP_REDUCE_MAX:
    return ref_binary_number(LS_OP_MAXIMUM, dtype, a, b);
  case LS_OP_REDUCE_MIN:
    return ref_binary_number(LS_OP_MINIMUM, dtype, a, b);
  case LS_OP_REDUCE_PRODUCT:
    return ref_product(dtype, a, b);
  case LS_OP_REDUCE_AND:
    return ref_binary_number(LS_OP_AND, dtype, a, b);
  case LS_OP_REDUCE_OR:
    return ref_binary_number(LS_OP_OR, dtype, a, b);
  default:
    return ref_sum(dtype, a, b);
  }
}

static ref_number of_nothing(uint16_t type, ls_dtype dtype) {
  switch (type) {
  case LS_OP_REDUCE_MAX:
    return ref_limit(dtype, false);
  case LS_OP_REDUCE_MIN:
    return ref_limit(dtype, true);
  case LS_OP_REDUCE_PRODUCT:
  case LS_OP_REDUCE_AND:
    return ref_one(dtype);
  default:
    return (ref_number){0};
  }
}

void ref_reduce(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  const ls_dtype dtype = out->type.dtype;
  const bool keep = ref_int(op, "keep_dims", 0) != 0;
  for (int64_t k = 0; k < out->count; ++k)
    out->at[k] = of_nothing(op->type, dtype);
  for (int64_t k = 0; k < in->count; ++k) {
    int64_t place[LS_MAX_RANK];
    int32_t rank = 0;
    ref_place(in->type.shape, k, place);
    for (int32_t i = 0; i < in->type.shape.rank; ++i) {
      if (!ref_lists(op, "axes", i))
        place[rank++] = place[i];
      else if (keep)
        place[rank++] = 0;
    }
    ref_number *to = &out->at[ref_index(out->type.shape, place)];
    *to = reduced(op->type, dtype, *to, in->at[k]);
  }
  if (op->type != LS_OP_REDUCE_MEAN) return;
  const double count =
      out->count == 0 ? 1 : (double)in->count / (double)out->count;
  for (int64_t k = 0; k < out->count; ++k) {
    out->at[k].real /= count;
    out->at[k].terms /= count;
  }
}

void ref_add_n(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  for (int64_t k = 0; k < out->count; ++k)
    for (size_t i = 0; i < op->num_in; ++i)
      out->at[k] = ref_sum(out->type.dtype, out->at[k], in[i].at[k]);
}

// ---- Products --------------------------------------------------------------
void ref_matmul(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  const bool ta = ref_int(op, "transpose_a", 0) != 0;
  const bool tb = ref_int(op, "transpose_b", 0) != 0;
  const ls_shape a = in[0].type.shape, b = in[1].type.shape;
  const ls_dtype dtype = out->type.dtype;
  // A vector counts as a matrix of one row.
  const int64_t rows = a.rank < 2 ? 1 : a.dim[a.rank - (ta ? 1 : 2)];
  const int64_t columns = b.dim[b.rank - (tb ? 2 : 1)];
  const int64_t depth = b.dim[b.rank - (tb ? 1 : 2)];
  for (int64_t k = 0; k < out->count; ++k) {
    const int64_t column = k % columns, row = k / columns % rows;
    const int64_t matrix = k / columns / rows;
    const ref_number *x = in[0].at + matrix * rows * depth;
    const ref_number *y =
        in[1].at + (b.rank > 2 ? matrix : 0) * depth * columns;
    ref_number sum = {0};
    for (int64_t i = 0; i < depth; ++i) {
      const ref_number *p = &x[ta ? i * rows + row : row * depth + i];
      const ref_number *q = &y[tb ? column * depth + i : i * columns + column];
      const uint64_t whole = (uint64_t)p->whole * (uint64_t)q->whole;
      sum.real += p->real * q->real;
      sum.terms += fabs(p->real * q->real);
      sum.whole = (int64_t)((uint64_t)sum.whole + whole);
    }
    if (op->type == LS_OP_DENSE && op->num_in > 2)
      sum = ref_sum(dtype, sum, in[2].at[column]);
    if (ref_is(op, "activation", "relu")) sum.real = fmax(sum.real, 0);
    out->at[k] = sum;
  }
}

// ---- Softmax ---------------------------------------------------------------
static double log_of_sum(const ref_number *x, int64_t size) {
  double most = -(double)INFINITY, sum = 0;
  for (int64_t i = 0; i < size; ++i)
    most = fmax(most, x[i].real);
  for (int64_t i = 0; i < size; ++i)
    sum += exp(x[i].real - most);
  return most + log(sum);
}

static int64_t last_of(const ref_tensor *x) {
  return x->type.shape.dim[x->type.shape.rank - 1];
}

void ref_softmax(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  const int64_t size = last_of(in);
  double sum = 0;
  for (int64_t k = 0; k < out->count; ++k) {
    if (k % size == 0) sum = log_of_sum(in->at + k, size);
    const double x = in->at[k].real;
    out->at[k].real = op->type == LS_OP_SOFTMAX ? exp(x - sum) : x - sum;
    if (op->type == LS_OP_LOG_SOFTMAX) out->at[k].terms = fabs(x) + fabs(sum);
  }
}

void ref_cross_entropy(const ref_op *op, const ref_tensor *in,
                       ref_tensor *out) {
  (void)op;
  const int64_t size = last_of(in);
  for (int64_t k = 0; k < out->count; ++k) {
    const ref_number *row = in->at + k * size;
    const int64_t label = in[1].at[k].whole;
    const bool is_column = label >= 0 && label < size;
    const double sum = log_of_sum(row, size);
    out->at[k].real = is_column ? sum - row[label].real : (double)NAN;
    out->at[k].terms = fabs(sum) + (is_column ? fabs(row[label].real) : 0);
  }
}

void ref_cross_entropy_grad(const ref_op *op, const ref_tensor *in,
                            ref_tensor *out) {
  (void)op;
  const int64_t size = last_of(in);
  double sum = 0;
  for (int64_t k = 0; k < out->count; ++k) {
    if (k % size == 0) sum = log_of_sum(in->at + k, size);
    const int64_t row = k / size, label = in[1].at[row].whole;
    const double p = exp(in->at[k].real - sum);
    const double scale = in[2].at[row].real;
    const bool is_column = label >= 0 && label < size;
    out->at[k].real =
        is_column ? (p - (label == k % size)) * scale : (double)NAN;
    out->at[k].terms = fabs(scale);
  }
}
