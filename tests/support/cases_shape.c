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
static void compute_constant(const ref_op *op, const ref_tensor *in,
                             ref_tensor *out) {
  (void)in;
  const ls_attr *value = ls_node_attr(op->node, LS_ATTR_ID_VALUE);
  const void *data = ls_array_data(value->as.array);
  for (int64_t k = 0; k < out->count; ++k)
    out->at[k] = ref_load(out->type.dtype, data, k);
}

static void compute_iota(const ref_op *op, const ref_tensor *in,
                         ref_tensor *out) {
  (void)in;
  const int64_t axis = ref_int(op, "axis", 0);
  for (int64_t k = 0; k < out->count; ++k) {
    int64_t place[LS_MAX_RANK];
    ref_place(out->type.shape, k, place);
    out->at[k].whole = place[axis];
    out->at[k].real = (double)place[axis];
  }
}

static void compute_dim_size(const ref_op *op, const ref_tensor *in,
                             ref_tensor *out) {
  out->at[0].whole = in->type.shape.dim[ref_int(op, "axis", 0)];
}

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

// ---- Sizes and order -------------------------------------------------------
static void compute_broadcast(const ref_op *op, const ref_tensor *in,
                              ref_tensor *out) {
  (void)op;
  for (int64_t k = 0; k < out->count; ++k)
    out->at[k] = in->at[ref_aligned(in, out->type.shape, k)];
}

static void compute_sum_to(const ref_op *op, const ref_tensor *in,
                           ref_tensor *out) {
  (void)op;
  for (int64_t k = 0; k < in->count; ++k) {
    ref_number *to = &out->at[ref_aligned(out, in->type.shape, k)];
    *to = ref_sum(out->type.dtype, *to, in->at[k]);
  }
}

static void compute_transpose(const ref_op *op, const ref_tensor *in,
                              ref_tensor *out) {
  for (int64_t k = 0; k < out->count; ++k) {
    int64_t to[LS_MAX_RANK], from[LS_MAX_RANK];
    ref_place(out->type.shape, k, to);
    for (int32_t i = 0; i < out->type.shape.rank; ++i)
      from[ref_item(op, "permutation", i, 0)] = to[i];
    out->at[k] = in->at[ref_index(in->type.shape, from)];
  }
}

static void compute_reverse(const ref_op *op, const ref_tensor *in,
                            ref_tensor *out) {
  const ls_shape shape = out->type.shape;
  for (int64_t k = 0; k < out->count; ++k) {
    int64_t place[LS_MAX_RANK];
    ref_place(shape, k, place);
    for (int32_t i = 0; i < shape.rank; ++i)
      if (ref_lists(op, "axes", i)) place[i] = shape.dim[i] - 1 - place[i];
    out->at[k] = in->at[ref_index(shape, place)];
  }
}

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
// The element of `whole` where element `index` of a slice lies.
static int64_t sliced_from(const ref_op *op, ls_shape slice, ls_shape whole,
                           int64_t index) {
  int64_t place[LS_MAX_RANK];
  ref_place(slice, index, place);
  for (int32_t i = 0; i < slice.rank; ++i)
    place[i] =
        ref_item(op, "starts", i, 0) + place[i] * ref_item(op, "strides", i, 1);
  return ref_index(whole, place);
}

static void compute_slice(const ref_op *op, const ref_tensor *in,
                          ref_tensor *out) {
  for (int64_t k = 0; k < out->count; ++k)
    out->at[k] = in->at[sliced_from(op, out->type.shape, in->type.shape, k)];
}

static void compute_slice_grad(const ref_op *op, const ref_tensor *in,
                               ref_tensor *out) {
  for (int64_t k = 0; k < in->count; ++k)
    out->at[sliced_from(op, in->type.shape, out->type.shape, k)] = in->at[k];
}

// The element of `whole` where element `index` of a part lies, whose starts,
// clamped, are the operands from `first` on.
static int64_t part_of(const ref_tensor *in, size_t first, ls_shape part,
                       ls_shape whole, int64_t index) {
  int64_t place[LS_MAX_RANK];
  ref_place(part, index, place);
  for (int32_t i = 0; i < part.rank; ++i) {
    const ref_tensor *start = &in[first + (size_t)i];
    const ref_number most = {.whole = whole.dim[i] - part.dim[i]};
    ref_number at = start->at[0];
    if (ref_order(start->type.dtype, at, (ref_number){.whole = 0}) < 0)
      at.whole = 0;
    if (ref_order(start->type.dtype, at, most) > 0) at = most;
    place[i] += at.whole;
  }
  return ref_index(whole, place);
}

static void compute_dynamic_slice(const ref_op *op, const ref_tensor *in,
                                  ref_tensor *out) {
  (void)op;
  for (int64_t k = 0; k < out->count; ++k)
    out->at[k] = in->at[part_of(in, 1, out->type.shape, in->type.shape, k)];
}

static void compute_dynamic_update_slice(const ref_op *op, const ref_tensor *in,
                                         ref_tensor *out) {
  (void)op;
  ref_copy(&in[0], out);
  for (int64_t k = 0; k < in[1].count; ++k)
    out->at[part_of(in, 2, in[1].type.shape, out->type.shape, k)] = in[1].at[k];
}

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
static void compute_pad(const ref_op *op, const ref_tensor *in,
                        ref_tensor *out) {
  for (int64_t k = 0; k < out->count; ++k)
    out->at[k] = in[1].at[0];
  for (int64_t k = 0; k < in->count; ++k) {
    int64_t place[LS_MAX_RANK];
    bool inside = true;
    ref_place(in->type.shape, k, place);
    for (int32_t i = 0; i < in->type.shape.rank; ++i) {
      place[i] = ref_item(op, "low", i, 0) +
                 place[i] * (1 + ref_item(op, "interior", i, 0));
      inside = inside && place[i] >= 0 && place[i] < out->type.shape.dim[i];
    }
    if (inside) out->at[ref_index(out->type.shape, place)] = in->at[k];
  }
}

// Copies a piece from or to where it lies in the whole along an axis.
static void move_piece(ref_tensor *whole, ref_tensor *piece, int64_t axis,
                       int64_t start, bool into) {
  for (int64_t k = 0; k < piece->count; ++k) {
    int64_t place[LS_MAX_RANK];
    ref_place(piece->type.shape, k, place);
    place[axis] += start;
    ref_number *there = &whole->at[ref_index(whole->type.shape, place)];
    if (into)
      *there = piece->at[k];
    else
      piece->at[k] = *there;
  }
}

static void compute_concatenate(const ref_op *op, const ref_tensor *in,
                                ref_tensor *out) {
  const int64_t axis = ref_int(op, "axis", 0);
  int64_t start = 0;
  for (size_t i = 0; i < op->num_in; ++i) {
    ref_tensor piece = in[i];
    move_piece(out, &piece, axis, start, true);
    start += piece.type.shape.dim[axis];
  }
}

static void compute_split_like(const ref_op *op, const ref_tensor *in,
                               ref_tensor *out) {
  const int64_t axis = ref_int(op, "axis", 0);
  ref_tensor whole = in[0];
  int64_t start = 0;
  for (size_t i = 0; i < op->num_out; ++i) {
    move_piece(&whole, &out[i], axis, start, false);
    start += out[i].type.shape.dim[axis];
  }
}

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

#define CASE(id, computed, types, maker, drawer, ...)                          \
  {                                                                            \
    .op = LS_OP_##id, .compute = (computed), .dtypes = (types), .make = maker, \
    .draw = drawer, __VA_ARGS__                                                \
  }
#define MOVE(id, computed, maker, drawer)                                      \
  CASE(id, computed, EVERY, maker, drawer, .low = -9, .high = 9, .gradient = 2)

const op_case shape_cases[] = {
    CASE(CONSTANT, compute_constant, EVERY, make_constant, NULL, .odd = true),
    CASE(PARAMETER, NULL, EVERY, make_itself, NULL, .odd = true),
    CASE(IOTA, compute_iota, NUMBERS, make_iota, draw_iota, .low = 0),
    {.op = LS_OP_IDENTITY,
     .compute = ref_copies,
     .dtypes = EVERY,
     .one = ls_identity,
     .gradient = 2},
    {.op = LS_OP_STOP_GRADIENT,
     .compute = ref_copies,
     .dtypes = EVERY,
     .one = ls_stop_gradient},
    CASE(NO_OP, ref_nothing, EVERY, make_group, NULL, .in_graphs = true),
    CASE(DIM_SIZE, compute_dim_size, EVERY, make_dim_size, draw_ranked,
         .low = 0),
    CASE(BARRIER, ref_copies, EVERY, make_barrier, draw_three, .gradient = 2),
    MOVE(RESHAPE, ref_copies, make_reshape, draw_reshape),
    MOVE(BROADCAST, compute_broadcast, make_broadcast, draw_broadcast),
    CASE(SUM_TO, compute_sum_to, NUMBERS, make_sum_to, draw_sum_to,
         .gradient = 2),
    MOVE(TRANSPOSE, compute_transpose, make_transpose, draw_transpose),
    MOVE(REVERSE, compute_reverse, make_reverse, draw_reverse),
    MOVE(SLICE, compute_slice, make_slice, draw_slice),
    MOVE(SLICE_GRAD, compute_slice_grad, make_slice_grad, draw_slice),
    MOVE(DYNAMIC_SLICE, compute_dynamic_slice, make_dynamic_slice,
         draw_dynamic),
    MOVE(DYNAMIC_UPDATE_SLICE, compute_dynamic_update_slice,
         make_dynamic_update, draw_dynamic),
    MOVE(PAD, compute_pad, make_pad, draw_pad),
    MOVE(CONCATENATE, compute_concatenate, make_concatenate, draw_pieces),
    MOVE(SPLIT_LIKE, compute_split_like, make_split, draw_pieces),
    {0},
};
