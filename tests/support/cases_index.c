// SPDX-License-Identifier: Apache-2.0
//
// Conformance cases: lookups by index, scans and orders.
#include "lockstep/ops.h"
#include "support/expect.h"
#include "support/op_case.h"

static ls_dtype index_type(trial *t) {
  return (ls_dtype)trial_between(t, LS_DTYPE_I8, LS_DTYPE_U64);
}

static int64_t draw_axis(trial *t, ls_shape shape) {
  return t->number[0] = trial_between(t, 0, shape.rank - 1);
}

// ---- Lookups ---------------------------------------------------------------
// x, indices, some out of range, and updates as large as what is looked up.
static void draw_lookup(trial *t) {
  ls_shape shape = trial_shape(t, 1, 3);
  const ls_shape picks = trial_shape(t, 0, 2);
  const int32_t axis = (int32_t)draw_axis(t, shape);
  if (shape.dim[axis] == 0) shape.dim[axis] = 1;  // What would be found?
  trial_add(t, shape);
  trial_add_in(t, index_type(t), picks, -2, (double)shape.dim[axis] + 2);
  ls_shape updates = {.rank = shape.rank - 1 + picks.rank};
  for (int32_t i = 0; i < updates.rank; ++i)
    updates.dim[i] = i < axis                ? shape.dim[i]
                     : i < axis + picks.rank ? picks.dim[i - axis]
                                             : shape.dim[i + 1 - picks.rank];
  trial_add(t, updates);
}

static ls_nest make_gather(const trial *t, const ls_tensor *xs) {
  return ls_leaf(ls_gather(xs[0], xs[1], (int)t->number[0]));
}

#define SCATTER(name, id)                                                      \
  static ls_nest make_scatter_##name(const trial *t, const ls_tensor *xs) {    \
    return ls_leaf(ls_scatter_axis(LS_SCATTER_##id, xs[0], xs[1], xs[2],       \
                                   (int)t->number[0]));                        \
  }
SCATTER(update, UPDATE)
SCATTER(add, ADD)
SCATTER(sub, SUB)
SCATTER(mul, MUL)
SCATTER(div, DIV)
SCATTER(min, MIN)
SCATTER(max, MAX)

// As a lookup along axis 0; it is as large as x.
static void draw_rows(trial *t) {
  ls_shape shape = trial_shape(t, 1, 3);
  const ls_shape picks = trial_shape(t, 1, 1);
  if (shape.dim[0] == 0) shape.dim[0] = 1;
  const double size = (double)shape.dim[0];
  trial_add(t, shape);
  trial_add_in(t, index_type(t), picks, -2, size + 2);
  shape.dim[0] = picks.dim[0];
  trial_add(t, shape);
}

static ls_nest make_slices(const trial *t, const ls_tensor *xs) {
  (void)t;
  return ls_leaf(ls_indexed_slices(xs[1], xs[2], xs[0]));
}

static void draw_along(trial *t) {
  ls_shape shape = trial_shape(t, 1, 3);
  const int64_t axis = draw_axis(t, shape);
  if (shape.dim[axis] == 0) shape.dim[axis] = 1;
  const double size = (double)shape.dim[axis];
  trial_add(t, shape);
  shape.dim[axis] = trial_between(t, 0, 4);
  trial_add_in(t, index_type(t), shape, -2, size + 2);
  trial_add(t, shape);
}

static ls_nest make_take_along(const trial *t, const ls_tensor *xs) {
  return ls_leaf(ls_take_along(xs[0], xs[1], (int)t->number[0]));
}

static ls_nest make_add_along(const trial *t, const ls_tensor *xs) {
  return ls_leaf(ls_add_along(xs[0], xs[1], xs[2], (int)t->number[0]));
}

// Of any indices into the trial's type.
static void draw_one_hot(trial *t) {
  t->number[0] = trial_between(t, 0, 5);
  trial_add_in(t, index_type(t), trial_shape(t, 0, 3), -2, 7);
}

static ls_nest make_one_hot(const trial *t, const ls_tensor *xs) {
  return ls_leaf(ls_one_hot(xs[0], t->number[0], t->dtype));
}

// ---- Scans -----------------------------------------------------------------
static void draw_lines(trial *t) {
  const ls_shape shape = trial_shape(t, 1, 3);
  draw_axis(t, shape);
  trial_add(t, shape);
  trial_add(t, shape);
  t->number[1] = trial_between(t, 0, 1);
  t->number[2] = trial_between(t, 0, 1);
}

static ls_nest make_cumsum(const trial *t, const ls_tensor *xs) {
  return ls_leaf(ls_cumsum(xs[0], (int)t->number[0], t->number[1] != 0,
                           t->number[2] != 0));
}

static ls_nest make_cumprod(const trial *t, const ls_tensor *xs) {
  return ls_leaf(ls_cumprod(xs[0], (int)t->number[0], t->number[1] != 0,
                            t->number[2] != 0));
}

static ls_nest make_linear_scan(const trial *t, const ls_tensor *xs) {
  return ls_leaf(
      ls_linear_scan(xs[0], xs[1], (int)t->number[0], t->number[1] != 0));
}

// ---- Orders ----------------------------------------------------------------
// Many are equal, so that stability shows.
static void draw_order(trial *t) {
  const ls_shape shape = trial_shape(t, 1, 3);
  draw_axis(t, shape);
  trial_add(t, shape);
  trial_add_in(t, LS_DTYPE_I16, shape, -99, 99);
  t->number[1] = trial_between(t, 0, 1);
  t->number[2] = trial_between(t, 0, shape.dim[shape.rank - 1]);
}

static ls_nest make_sort(const trial *t, const ls_tensor *xs) {
  const ls_op op = ls_sort_by(xs, 2, (int)t->number[0], t->number[1] != 0);
  return LS_TUPLE(ls_leaf(ls_op_output(op, 0)), ls_leaf(ls_op_output(op, 1)),
                  ls_leaf(ls_op_output(op, 2)));
}

static ls_nest make_top_k(const trial *t, const ls_tensor *xs) {
  const ls_op op = ls_top_k(xs[0], t->number[2]);
  return LS_TUPLE(ls_leaf(ls_op_output(op, 0)), ls_leaf(ls_op_output(op, 1)));
}

static void draw_arg(trial *t) {
  ls_shape shape = trial_shape(t, 1, 3);
  const int64_t axis = draw_axis(t, shape);
  if (shape.dim[axis] == 0) shape.dim[axis] = 1;
  trial_add(t, shape);
}

static ls_nest make_argmax(const trial *t, const ls_tensor *xs) {
  return ls_leaf(ls_argmax(xs[0], (int)t->number[0]));
}

static ls_nest make_argmin(const trial *t, const ls_tensor *xs) {
  return ls_leaf(ls_argmin(xs[0], (int)t->number[0]));
}

#define CASE(id, types, maker, drawer, ...)                                    \
  {                                                                            \
    .op = LS_OP_##id, .dtypes = (types), .make = maker, .draw = drawer,        \
    __VA_ARGS__                                                                \
  }

const op_case index_cases[] = {
    CASE(GATHER, EVERY, make_gather, draw_lookup, .gradient = 2),
    CASE(SCATTER, EVERY, make_scatter_update, draw_lookup, .gradient = 2),
    CASE(SCATTER, NUMBERS, make_scatter_add, draw_lookup, .gradient = 2),
    CASE(SCATTER, NUMBERS, make_scatter_sub, draw_lookup, .gradient = 2),
    CASE(SCATTER, NUMBERS, make_scatter_mul, draw_lookup, .slack = 4),
    CASE(SCATTER, NUMBERS, make_scatter_div, draw_lookup, .low = 1, .high = 4,
         .slack = 4),
    CASE(SCATTER, NUMBERS, make_scatter_min, draw_lookup, .odd = true),
    CASE(SCATTER, NUMBERS, make_scatter_max, draw_lookup, .odd = true),
    CASE(INDEXED_SLICES, NUMBERS, make_slices, draw_rows, .gradient = 2),
    CASE(TAKE_ALONG, EVERY, make_take_along, draw_along, .gradient = 2),
    CASE(ADD_ALONG, NUMBERS, make_add_along, draw_along, .gradient = 2),
    CASE(ONE_HOT, EVERY, make_one_hot, draw_one_hot, .low = 0),
    CASE(CUMSUM, NUMBERS, make_cumsum, draw_lines, .slack = 4, .gradient = 2),
    CASE(CUMPROD, NUMBERS, make_cumprod, draw_lines, .slack = 16, .gradient = 2,
         .from = 0.5, .to = 1.5),
    CASE(LINEAR_SCAN, NUMBERS, make_linear_scan, draw_lines, .low = -1,
         .high = 1, .slack = 8, .gradient = 2),
    CASE(SORT, EVERY, make_sort, draw_order, .low = -4, .high = 4, .odd = true,
         .gradient = 2),
    CASE(TOP_K, NUMBERS, make_top_k, draw_order, .low = -4, .high = 4,
         .odd = true, .gradient = 2),
    CASE(ARGMAX, NUMBERS, make_argmax, draw_arg, .low = -4, .high = 4,
         .odd = true),
    CASE(ARGMIN, NUMBERS, make_argmin, draw_arg, .low = -4, .high = 4,
         .odd = true),
    {0},
};
