// SPDX-License-Identifier: Apache-2.0
//
// Conformance cases: sources, structure, and ops that move elements.
#include "lockstep/ops.h"
#include "support/attrs.h"
#include "support/expect.h"
#include "support/op_case.h"

// An op without a maker, on all operands.
static ls_op add_op(uint16_t type, const ls_tensor *xs, size_t count,
                    const ls_attr *attrs, size_t num_attrs) {
  return ls_op_add(&(ls_op_spec){.type = type,
                                 .inputs = xs,
                                 .num_inputs = count,
                                 .attrs = attrs,
                                 .num_attrs = num_attrs});
}

// ---- Sources and structure -------------------------------------------------
static ls_nest make_constant(const trial *t, const ls_tensor *xs) {
  (void)xs;
  return LS_TUPLE(ls_leaf(ls_constant(t->operand[0])),
                  ls_leaf(ls_scalar(t->dtype, 1.5)),
                  ls_leaf(ls_scalar_i64(t->dtype, 1)));
}

static void draw_iota(trial *t) {
  t->list[0] = trial_shape(t, 1, 4);
  t->number[0] = trial_between(t, 0, t->list[0].rank - 1);
}

static ls_nest make_iota(const trial *t, const ls_tensor *xs) {
  (void)xs;
  return ls_leaf(ls_iota(t->dtype, t->list[0], (int)t->number[0]));
}

static ls_nest make_itself(const trial *t, const ls_tensor *xs) {
  (void)t;
  return ls_leaf(xs[0]);
}

static ls_nest make_group(const trial *t, const ls_tensor *xs) {
  (void)t;
  const ls_tensor x = ls_identity(xs[0]);
  const ls_op op = ls_tensor_op(x);
  ls_group(&op, 1, "together");
  return ls_leaf(x);
}

static ls_nest make_dim_size(const trial *t, const ls_tensor *xs) {
  (void)t;
  return ls_leaf(ls_dim_size(xs[0], -1));
}

static void draw_ranked(trial *t) { trial_add(t, trial_shape(t, 1, 4)); }

static void draw_three(trial *t) {
  for (int i = 0; i < 3; ++i)
    trial_add(t, trial_shape(t, 0, 3));
}

static ls_nest make_barrier(const trial *t, const ls_tensor *xs) {
  (void)t;
  return ls_barrier(LS_TUPLE(ls_leaf(xs[0]), ls_leaf(xs[1]), ls_leaf(xs[2])));
}

// ---- Sizes -----------------------------------------------------------------
// The same elements along other dimensions, one of which may be left open.
static void draw_reshape(trial *t) {
  const ls_shape from = trial_shape(t, 0, 4);
  trial_add(t, from);
  ls_shape to = {.rank = 0};
  const int64_t count = ls_shape_num_elements(from);
  for (int32_t i = from.rank; i-- > 0;)
    to.dim[to.rank++] = from.dim[i];
  if (to.rank > 1 && trial_between(t, 0, 1) == 0) {
    to.dim[to.rank - 2] *= to.dim[to.rank - 1];
    --to.rank;
  }
  if (to.rank > 0 && count > 0) to.dim[trial_between(t, 0, to.rank - 1)] = -1;
  t->list[0] = to;
}

static ls_nest make_reshape(const trial *t, const ls_tensor *xs) {
  return ls_leaf(ls_reshape(xs[0], t->list[0]));
}

static void draw_broadcast(trial *t) {
  t->list[0] = trial_shape(t, 0, 4);
  trial_add(t, trial_part(t, t->list[0]));
}

static ls_nest make_broadcast(const trial *t, const ls_tensor *xs) {
  return ls_leaf(ls_broadcast(xs[0], t->list[0]));
}

static void draw_sum_to(trial *t) {
  const ls_shape shape = trial_shape(t, 0, 4);
  trial_add(t, shape);
  trial_add(t, trial_part(t, shape));
}

static ls_nest make_sum_to(const trial *t, const ls_tensor *xs) {
  const ls_shape to = ls_array_shape(t->operand[1]);
  ls_size sizes[LS_MAX_RANK];
  for (int32_t i = 0; i < to.rank; ++i)
    sizes[i] = (ls_size){LS_SIZE_CONSTANT, to.dim[i]};
  const ls_attr attr = LS_ATTR_SZ("sizes", sizes, (size_t)to.rank);
  return ls_leaf(ls_op_output(add_op(LS_OP_SUM_TO, xs, 1, &attr, 1), 0));
}

static void draw_transpose(trial *t) {
  const ls_shape shape = trial_shape(t, 0, 5);
  trial_add(t, shape);
  for (int32_t i = 0; i < shape.rank; ++i) {  // A shuffle.
    const int64_t to = trial_between(t, 0, i);
    t->list[0].dim[i] = t->list[0].dim[to];
    t->list[0].dim[to] = i;
  }
}

static ls_nest make_transpose(const trial *t, const ls_tensor *xs) {
  int permutation[LS_MAX_RANK];
  for (int i = 0; i < LS_MAX_RANK; ++i)
    permutation[i] = (int)t->list[0].dim[i];
  return ls_leaf(ls_transpose(xs[0], permutation));
}

static void draw_reverse(trial *t) {
  const ls_shape shape = trial_shape(t, 0, 4);
  trial_add(t, shape);
  for (int32_t i = 0; i < shape.rank; ++i)
    if (trial_between(t, 0, 1) == 0) t->list[0].dim[t->list[0].rank++] = i;
}

static ls_nest make_reverse(const trial *t, const ls_tensor *xs) {
  int axes[LS_MAX_RANK];
  for (int i = 0; i < LS_MAX_RANK; ++i)
    axes[i] = (int)t->list[0].dim[i];
  return ls_leaf(ls_reverse(
      xs[0], (ls_axes){.items = axes, .count = (size_t)t->list[0].rank}));
}

// ---- Slices ----------------------------------------------------------------
// Starts, limits and strides; what is cut out is the second operand.
static void draw_slice(trial *t) {
  const ls_shape shape = trial_shape(t, 0, 4);
  ls_shape cut = {.rank = shape.rank};
  trial_add(t, shape);
  for (int k = 0; k < 3; ++k)
    t->list[k].rank = shape.rank;
  for (int32_t i = 0; i < shape.rank; ++i) {
    const int64_t start = trial_between(t, 0, shape.dim[i]);
    const int64_t end = trial_between(t, start, shape.dim[i]);
    const int64_t stride = trial_between(t, 1, 3);
    t->list[0].dim[i] = start;
    t->list[1].dim[i] = end == shape.dim[i] ? -1 : end;
    t->list[2].dim[i] = stride;
    cut.dim[i] = (end - start + stride - 1) / stride;
  }
  trial_add(t, cut);
}

static ls_nest make_slice(const trial *t, const ls_tensor *xs) {
  return ls_leaf(ls_slice(xs[0], t->list[0], t->list[1], t->list[2]));
}

static ls_nest make_slice_grad(const trial *t, const ls_tensor *xs) {
  const size_t rank = (size_t)t->list[0].rank;
  const ls_attr attrs[] = {LS_ATTR_IS("starts", t->list[0].dim, rank),
                           LS_ATTR_IS("limits", t->list[1].dim, rank),
                           LS_ATTR_IS("strides", t->list[2].dim, rank)};
  const ls_tensor operands[] = {xs[1], xs[0]};
  return ls_leaf(
      ls_op_output(add_op(LS_OP_SLICE_GRAD, operands, 2, attrs, 3), 0));
}

// x, a part of it, and starts, some of which are out of range.
static void draw_dynamic(trial *t) {
  const ls_shape shape = trial_shape(t, 0, 4);
  ls_shape part = {.rank = shape.rank};
  trial_add(t, shape);
  for (int32_t i = 0; i < shape.rank; ++i)
    part.dim[i] = trial_between(t, 0, shape.dim[i]);
  t->list[0] = part;
  trial_add(t, part);
  const ls_dtype kinds[] = {LS_DTYPE_I32, LS_DTYPE_I64, LS_DTYPE_U8};
  const ls_dtype kind = kinds[trial_between(t, 0, 2)];
  for (int32_t i = 0; i < shape.rank; ++i)
    trial_add_in(t, kind, LS_SCALAR, -2, 6);
}

static ls_nest make_dynamic_slice(const trial *t, const ls_tensor *xs) {
  return ls_leaf(ls_dynamic_slice(xs[0], xs + 2, t->list[0]));
}

static ls_nest make_dynamic_update(const trial *t, const ls_tensor *xs) {
  (void)t;
  return ls_leaf(ls_dynamic_update_slice(xs[0], xs[1], xs + 2));
}

// ---- Pad, join, cut --------------------------------------------------------
static void draw_pad(trial *t) {
  const ls_shape shape = trial_shape(t, 0, 4);
  trial_add(t, shape);
  trial_add(t, LS_SCALAR);
  for (int k = 0; k < 3; ++k)
    t->list[k].rank = shape.rank;
  for (int32_t i = 0; i < shape.rank; ++i) {
    const int64_t between = trial_between(t, 0, 2), size = shape.dim[i];
    const int64_t inside = size == 0 ? 0 : size + (size - 1) * between;
    t->list[0].dim[i] = trial_between(t, inside == 0 ? 0 : -1, 3);
    t->list[1].dim[i] = trial_between(t, inside < 2 ? 0 : -1, 3);
    t->list[2].dim[i] = between;
  }
}

static ls_nest make_pad(const trial *t, const ls_tensor *xs) {
  return ls_leaf(ls_pad(xs[0], xs[1], t->list[0], t->list[1], t->list[2]));
}

// Pieces that differ along an axis, and the whole.
static void draw_pieces(trial *t) {
  ls_shape shape = trial_shape(t, 1, 4);
  const int64_t axis = trial_between(t, 0, shape.rank - 1);
  int64_t sum = 0;
  for (int i = 0; i < 3; ++i) {
    shape.dim[axis] = trial_between(t, 0, 4);
    sum += shape.dim[axis];
    trial_add(t, shape);
  }
  shape.dim[axis] = sum;
  trial_add(t, shape);
  t->number[0] = axis;
}

static ls_nest make_concatenate(const trial *t, const ls_tensor *xs) {
  return ls_leaf(ls_concatenate(xs, 3, (int)t->number[0]));
}

static ls_nest make_split(const trial *t, const ls_tensor *xs) {
  const ls_op op = ls_split_like(xs[3], xs, 3, (int)t->number[0]);
  return LS_TUPLE(ls_leaf(ls_op_output(op, 0)), ls_leaf(ls_op_output(op, 1)),
                  ls_leaf(ls_op_output(op, 2)));
}

#define CASE(id, types, maker, drawer, ...)                                    \
  {                                                                            \
    .op = LS_OP_##id, .dtypes = (types), .make = maker, .draw = drawer,        \
    __VA_ARGS__                                                                \
  }
#define MOVE(id, maker, drawer)                                                \
  CASE(id, EVERY, maker, drawer, .low = -9, .high = 9, .gradient = 2)

const op_case shape_cases[] = {
    CASE(CONSTANT, EVERY, make_constant, NULL, .odd = true),
    CASE(PARAMETER, EVERY, make_itself, NULL, .odd = true),
    CASE(IOTA, NUMBERS, make_iota, draw_iota, .low = 0),
    {.op = LS_OP_IDENTITY, .dtypes = EVERY, .one = ls_identity, .gradient = 2},
    {.op = LS_OP_STOP_GRADIENT, .dtypes = EVERY, .one = ls_stop_gradient},
    CASE(NO_OP, EVERY, make_group, NULL, .in_graphs = true),
    CASE(DIM_SIZE, EVERY, make_dim_size, draw_ranked, .low = 0),
    CASE(BARRIER, EVERY, make_barrier, draw_three, .gradient = 2),
    MOVE(RESHAPE, make_reshape, draw_reshape),
    MOVE(BROADCAST, make_broadcast, draw_broadcast),
    CASE(SUM_TO, NUMBERS, make_sum_to, draw_sum_to, .gradient = 2),
    MOVE(TRANSPOSE, make_transpose, draw_transpose),
    MOVE(REVERSE, make_reverse, draw_reverse),
    MOVE(SLICE, make_slice, draw_slice),
    MOVE(SLICE_GRAD, make_slice_grad, draw_slice),
    MOVE(DYNAMIC_SLICE, make_dynamic_slice, draw_dynamic),
    MOVE(DYNAMIC_UPDATE_SLICE, make_dynamic_update, draw_dynamic),
    MOVE(PAD, make_pad, draw_pad),
    MOVE(CONCATENATE, make_concatenate, draw_pieces),
    MOVE(SPLIT_LIKE, make_split, draw_pieces),
    {0},
};
