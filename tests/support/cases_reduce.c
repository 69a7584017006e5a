// SPDX-License-Identifier: Apache-2.0
//
// Conformance cases: reductions, products, softmax and cross-entropy.
#include "lockstep/ops.h"
#include "support/attrs.h"
#include "support/expect.h"
#include "support/op_case.h"

// ---- Reductions ------------------------------------------------------------
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

#define CASE(id, types, maker, drawer, ...)                                    \
  {                                                                            \
    .op = LS_OP_##id, .dtypes = (types), .make = maker, .draw = drawer,        \
    __VA_ARGS__                                                                \
  }
#define REDUCE(id, types, ...)                                                 \
  CASE(id, types, make_reduce, draw_reduce, __VA_ARGS__)

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
    CASE(ADD_N, NUMBERS, make_add_n, draw_add_n, .gradient = 2),
    CASE(MATMUL, NUMBERS, make_matmul, draw_matmul, .low = -9, .high = 9,
         .gradient = 2),
    CASE(DENSE, FLOATS, make_dense, draw_dense, .gradient = 2),
    {.op = LS_OP_SOFTMAX,
     .dtypes = FLOATS,
     .one = ls_softmax,
     .draw = draw_rows,
     .low = -6,
     .high = 6,
     .slack = 4,
     .gradient = 2},
    {.op = LS_OP_LOG_SOFTMAX,
     .dtypes = FLOATS,
     .one = ls_log_softmax,
     .draw = draw_rows,
     .low = -6,
     .high = 6,
     .slack = 4,
     .gradient = 2},
    CASE(CROSS_ENTROPY, FLOATS, make_cross_entropy, draw_labels, .low = -6,
         .high = 6, .slack = 4, .gradient = 2),
    CASE(CROSS_ENTROPY_GRAD, FLOATS, make_cross_entropy_grad, draw_labels,
         .low = -6, .high = 6, .slack = 4, .gradient = 2),
    {0},
};
