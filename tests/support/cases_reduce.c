// SPDX-License-Identifier: Apache-2.0
//
// Conformance cases: reductions, products, softmax and cross-entropy.
#include <math.h>

#include "lockstep/ops.h"
#include "lockstep/shape_rules.h"
#include "support/attrs.h"
#include "support/expect.h"
#include "support/op_case.h"

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

static void compute_reduce(const ref_op *op, const ref_tensor *in,
                           ref_tensor *out) {
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

static void compute_add_n(const ref_op *op, const ref_tensor *in,
                          ref_tensor *out) {
  for (int64_t k = 0; k < out->count; ++k)
    for (size_t i = 0; i < op->num_in; ++i)
      out->at[k] = ref_sum(out->type.dtype, out->at[k], in[i].at[k]);
}

static void draw_reduce(trial *t) {
  const ls_shape shape = trial_shape(t, 0, 4);
  trial_add(t, shape);
  for (int32_t i = 0; i < shape.rank; ++i)
    if (trial_between(t, 0, 1) == 0) t->list[0].dim[t->list[0].rank++] = i;
  t->number[0] = trial_between(t, 0, 1);  // Whether dimensions are kept.
}

static ls_nest reduce(const trial *t, uint16_t type, ls_tensor x) {
  const ls_attr attrs[] = {
      LS_ATTR_IS("axes", t->list[0].dim, (size_t)t->list[0].rank),
      LS_ATTR_B("keep_dims", t->number[0] != 0)};
  return ls_leaf(ls_op_output(ls_op_add(&(ls_op_spec){.type = type,
                                                      .inputs = &x,
                                                      .num_inputs = 1,
                                                      .attrs = attrs,
                                                      .num_attrs = 2}),
                              0));
}

static ls_nest make_reduce(const trial *t, const ls_tensor *xs) {
  return reduce(t, t->row->op, xs[0]);
}

static void draw_add_n(trial *t) {
  const ls_shape shape = trial_shape(t, 0, 3);
  const int64_t count = trial_between(t, 2, 4);
  for (int64_t i = 0; i < count; ++i)
    trial_add(t, shape);
}

static ls_nest make_add_n(const trial *t, const ls_tensor *xs) {
  return ls_leaf(ls_add_n(xs, t->count));
}

// ---- Products --------------------------------------------------------------
static void compute_matmul(const ref_op *op, const ref_tensor *in,
                           ref_tensor *out) {
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
    if (ref_is(op, "activation", "relu")) {
      sum.real = fmax(sum.real, 0);
      if (sum.whole < 0 && !ls_dtype_is_unsigned(dtype)) sum.whole = 0;
    }
    out->at[k] = sum;
  }
}

static void turn(ls_shape *shape) {
  const int64_t size = shape->dim[shape->rank - 1];
  shape->dim[shape->rank - 1] = shape->dim[shape->rank - 2];
  shape->dim[shape->rank - 2] = size;
}

// Matrices, or leading dimensions and matrices, or these and one matrix; each
// turned or not.
static void draw_matmul(trial *t) {
  ls_shape x = trial_shape(t, 2, 4);
  ls_shape y = x;
  if (trial_between(t, 0, 1) == 0) y.rank = 2;
  y.dim[y.rank - 2] = x.dim[x.rank - 1];
  y.dim[y.rank - 1] = trial_between(t, 0, 9);
  t->number[0] = x.rank == y.rank && trial_between(t, 0, 1) == 0;
  t->number[1] = trial_between(t, 0, 1);
  if (t->number[0] != 0) turn(&x);
  if (t->number[1] != 0) turn(&y);
  trial_add(t, x);
  trial_add(t, y);
}

static ls_nest make_matmul(const trial *t, const ls_tensor *xs) {
  return ls_leaf(
      ls_matmul_transposed(xs[0], t->number[0] != 0, xs[1], t->number[1] != 0));
}

static void draw_dense(trial *t) {
  const ls_shape x = trial_shape(t, 1, 3);
  const int64_t wide = trial_between(t, 1, 9);
  trial_add(t, x);
  trial_add(t, LS_SHAPE(x.dim[x.rank - 1], wide));
  if (trial_between(t, 0, 1) == 0) trial_add(t, LS_SHAPE(wide));
  t->number[0] = trial_between(t, LS_ACTIVATION_NONE, LS_ACTIVATION_RELU);
}

static ls_nest make_dense(const trial *t, const ls_tensor *xs) {
  const ls_tensor none = {0};
  return ls_leaf(ls_dense(xs[0], xs[1], t->count > 2 ? xs[2] : none,
                          (ls_activation)t->number[0]));
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

static void compute_softmax(const ref_op *op, const ref_tensor *in,
                            ref_tensor *out) {
  const int64_t size = last_of(in);
  double sum = 0;
  for (int64_t k = 0; k < out->count; ++k) {
    if (k % size == 0) sum = log_of_sum(in->at + k, size);
    const double x = in->at[k].real;
    out->at[k].real = op->type == LS_OP_SOFTMAX ? exp(x - sum) : x - sum;
    if (op->type == LS_OP_LOG_SOFTMAX) out->at[k].terms = fabs(x) + fabs(sum);
  }
}

static void compute_cross_entropy(const ref_op *op, const ref_tensor *in,
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

static void compute_cross_entropy_grad(const ref_op *op, const ref_tensor *in,
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

static void draw_rows(trial *t) { trial_add(t, trial_shape(t, 1, 3)); }

// Logits, labels and a number for each row.
static void draw_labels(trial *t) {
  ls_shape shape = trial_shape(t, 1, 3);
  if (shape.dim[shape.rank - 1] == 0) shape.dim[shape.rank - 1] = 1;
  trial_add(t, shape);
  const int64_t columns = shape.dim[--shape.rank];
  const ls_dtype kind = (ls_dtype)trial_between(t, LS_DTYPE_I8, LS_DTYPE_U64);
  shape.dim[shape.rank] = 0;
  trial_add_in(t, kind, shape, 0, (double)columns);
  trial_add_in(t, t->dtype, shape, -2, 2);
}

static ls_nest make_cross_entropy(const trial *t, const ls_tensor *xs) {
  (void)t;
  return ls_leaf(ls_softmax_cross_entropy(xs[0], xs[1]));
}

static ls_nest make_cross_entropy_grad(const trial *t, const ls_tensor *xs) {
  (void)t;
  return ls_leaf(ls_softmax_cross_entropy_grad(xs[0], xs[1], xs[2]));
}

#define CASE(id, computed, types, maker, drawer, ...)                          \
  {                                                                            \
    .op = LS_OP_##id, .compute = (computed), .dtypes = (types), .make = maker, \
    .draw = drawer, __VA_ARGS__                                                \
  }
#define REDUCE(id, types, ...)                                                 \
  CASE(id, compute_reduce, types, make_reduce, draw_reduce, __VA_ARGS__)

const op_case reduce_cases[] = {
    REDUCE(REDUCE_SUM, NUMBERS, .low = -9, .high = 9, .gradient = 2),
    REDUCE(REDUCE_MEAN, FLOATS, .low = -9, .high = 9, .gradient = 2),
    // The sums are more than f16 holds.
    REDUCE(REDUCE_MEAN, FLOATS, .low = 20000, .high = 60000),
    REDUCE(REDUCE_MAX, NUMBERS, .low = -9, .high = 9, .odd = true,
           .gradient = 2),
    REDUCE(REDUCE_MIN, NUMBERS, .low = -9, .high = 9, .odd = true,
           .gradient = 2),
    REDUCE(REDUCE_PRODUCT, NUMBERS, .low = -2, .high = 2, .slack = 16,
           .gradient = 2, .from = 0.5, .to = 1.5),
    REDUCE(REDUCE_AND, BOOLS, .low = 0),
    REDUCE(REDUCE_OR, BOOLS, .low = 0),
    CASE(ADD_N, compute_add_n, NUMBERS, make_add_n, draw_add_n, .gradient = 2),
    CASE(MATMUL, compute_matmul, NUMBERS, make_matmul, draw_matmul, .low = -9,
         .high = 9, .gradient = 2),
    CASE(DENSE, compute_matmul, FLOATS, make_dense, draw_dense, .gradient = 2),
    {.op = LS_OP_SOFTMAX,
     .compute = compute_softmax,
     .dtypes = FLOATS,
     .one = ls_softmax,
     .draw = draw_rows,
     .low = -6,
     .high = 6,
     .slack = 4,
     .gradient = 2},
    {.op = LS_OP_LOG_SOFTMAX,
     .compute = compute_softmax,
     .dtypes = FLOATS,
     .one = ls_log_softmax,
     .draw = draw_rows,
     .low = -6,
     .high = 6,
     .slack = 4,
     .gradient = 2},
    CASE(CROSS_ENTROPY, compute_cross_entropy, FLOATS, make_cross_entropy,
         draw_labels, .low = -6, .high = 6, .slack = 4, .gradient = 2),
    CASE(CROSS_ENTROPY_GRAD, compute_cross_entropy_grad, FLOATS,
         make_cross_entropy_grad, draw_labels, .low = -6, .high = 6, .slack = 4,
         .gradient = 2),
    {0},
};
