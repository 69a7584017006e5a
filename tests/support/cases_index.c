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

// Index `at` of `indices`, or a number out of range that is as far out as any.
static int64_t index_of(const ref_tensor *indices, int64_t at) {
  const int64_t index = indices->at[at].whole;
  const bool large = indices->type.dtype == LS_DTYPE_U64 && index < 0;
  return large ? INT64_MAX : index;
}

static int64_t clamped(int64_t index, int64_t size) {
  if (index >= size) index = size - 1;
  return index < 0 ? 0 : index;
}

// ---- Lookups ---------------------------------------------------------------
static void compute_gather(const ref_op *op, const ref_tensor *in,
                           ref_tensor *out) {
  const int32_t axis = (int32_t)ref_int(op, "axis", 0);
  const ls_shape shape = in->type.shape;
  const int64_t inner = ref_inner(shape, axis), size = shape.dim[axis];
  const int64_t picks = in[1].count;
  for (int64_t k = 0; k < out->count; ++k) {
    const int64_t pick = k / inner % picks, outer = k / inner / picks;
    const int64_t at = clamped(index_of(&in[1], pick), size);
    out->at[k] = in->at[(outer * size + at) * inner + k % inner];
  }
}

static ref_number combined(const ref_op *op, ls_dtype dtype, ref_number x,
                           ref_number update) {
  static const struct {
    const char *name;
    uint16_t type;
  } rows[] = {{"add", LS_OP_ADD},     {"sub", LS_OP_SUB},
              {"mul", LS_OP_MUL},     {"div", LS_OP_DIV},
              {"min", LS_OP_MINIMUM}, {"max", LS_OP_MAXIMUM}};
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    if (ref_is(op, "combine", rows[i].name))
      return ref_binary_number(rows[i].type, dtype, x, update);
  return update;
}

void ref_scatter(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  const int32_t axis = (int32_t)ref_int(op, "axis", 0);
  const ls_shape shape = in->type.shape;
  const ls_dtype dtype = out->type.dtype;
  const int64_t inner = ref_inner(shape, axis), size = shape.dim[axis];
  const int64_t outers = ref_outer(shape, axis), picks = in[1].count;
  ref_copy(&in[0], out);
  for (int64_t outer = 0; outer < outers; ++outer)
    for (int64_t pick = 0; pick < picks; ++pick) {
      const int64_t at = index_of(&in[1], pick);
      if (at < 0 || at >= size) continue;
      for (int64_t i = 0; i < inner; ++i) {
        ref_number *to = &out->at[(outer * size + at) * inner + i];
        const ref_number update = in[2].at[(outer * picks + pick) * inner + i];
        *to = ref_stored(dtype, combined(op, dtype, *to, update));
      }
    }
}

// Zeros with the slices added; 16-bit floats are rounded at the end.
static void compute_indexed_slices(const ref_op *op, const ref_tensor *in,
                                   ref_tensor *out) {
  const int64_t inner = ref_inner(out->type.shape, 0);
  (void)op;
  for (int64_t k = 0; k < in[1].count; ++k) {
    const int64_t at = index_of(&in[0], k / inner);
    if (at < 0 || at >= out->type.shape.dim[0]) continue;
    ref_number *to = &out->at[at * inner + k % inner];
    *to = ref_sum(out->type.dtype, *to, in[1].at[k]);
  }
}

static void compute_take_along(const ref_op *op, const ref_tensor *in,
                               ref_tensor *out) {
  const int64_t axis = ref_int(op, "axis", 0);
  for (int64_t k = 0; k < out->count; ++k) {
    int64_t place[LS_MAX_RANK];
    ref_place(out->type.shape, k, place);
    place[axis] = clamped(index_of(&in[1], k), in->type.shape.dim[axis]);
    out->at[k] = in->at[ref_index(in->type.shape, place)];
  }
}

static void compute_add_along(const ref_op *op, const ref_tensor *in,
                              ref_tensor *out) {
  const int64_t axis = ref_int(op, "axis", 0);
  const ls_dtype dtype = out->type.dtype;
  ref_copy(&in[0], out);
  for (int64_t k = 0; k < in[1].count; ++k) {
    int64_t place[LS_MAX_RANK];
    ref_place(in[1].type.shape, k, place);
    place[axis] = index_of(&in[1], k);
    if (place[axis] < 0 || place[axis] >= in->type.shape.dim[axis]) continue;
    ref_number *to = &out->at[ref_index(out->type.shape, place)];
    *to = ref_stored(dtype,
                     ref_binary_number(LS_OP_ADD, dtype, *to, in[2].at[k]));
  }
}

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
static ref_number scanned(const ref_op *op, ls_dtype dtype, ref_number so_far,
                          const ref_tensor *in, int64_t at) {
  if (op->type == LS_OP_CUMSUM) return ref_sum(dtype, so_far, in->at[at]);
  if (op->type == LS_OP_CUMPROD) return ref_product(dtype, so_far, in->at[at]);
  return ref_sum(dtype, ref_product(dtype, so_far, in[0].at[at]), in[1].at[at]);
}

static void compute_scan(const ref_op *op, const ref_tensor *in,
                         ref_tensor *out) {
  const int32_t axis = (int32_t)ref_int(op, "axis", 0);
  const ls_shape shape = out->type.shape;
  const ls_dtype dtype = out->type.dtype;
  const int64_t inner = ref_inner(shape, axis), size = shape.dim[axis];
  const bool reverse = ref_int(op, "reverse", 0) != 0;
  const bool exclusive = ref_int(op, "exclusive", 0) != 0;
  for (int64_t line = 0; line < ref_outer(shape, axis) * inner; ++line) {
    const int64_t first = line / inner * size * inner + line % inner;
    ref_number so_far = {0};
    if (op->type == LS_OP_CUMPROD) so_far = ref_one(dtype);
    for (int64_t i = 0; i < size; ++i) {
      const int64_t at = first + (reverse ? size - 1 - i : i) * inner;
      const ref_number before = so_far;
      so_far = scanned(op, dtype, so_far, in, at);
      out->at[at] = exclusive ? before : so_far;
    }
  }
}

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
// The places of `size` numbers, `step` apart, in their stable order: each is
// put behind those that are not after it.
static void order_line(ls_dtype dtype, const ref_number *line, int64_t step,
                       int64_t size, bool descending, int64_t *out) {
  for (int64_t i = 0; i < size; ++i) {
    int64_t low = 0, high = i;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      const int order =
          ref_order(dtype, line[out[middle] * step], line[i * step]);
      if (descending ? order >= 0 : order <= 0)
        low = middle + 1;
      else
        high = middle;
    }
    memmove(out + low + 1, out + low, (size_t)(i - low) * sizeof(*out));
    out[low] = i;
  }
}

static void compute_sort(const ref_op *op, const ref_tensor *in,
                         ref_tensor *out) {
  const int32_t axis = (int32_t)ref_int(op, "axis", 0);
  const ls_shape shape = in->type.shape;
  const int64_t inner = ref_inner(shape, axis), size = shape.dim[axis];
  const bool descending = ref_int(op, "descending", 0) != 0;
  int64_t *order = ref_allocate(op->run, (size_t)size, sizeof(*order));
  for (int64_t line = 0; line < ref_outer(shape, axis) * inner; ++line) {
    const int64_t first = line / inner * size * inner + line % inner;
    order_line(in->type.dtype, in->at + first, inner, size, descending, order);
    for (int64_t i = 0; i < size; ++i) {
      for (size_t n = 0; n < op->num_in; ++n)
        out[n].at[first + i * inner] = in[n].at[first + order[i] * inner];
      out[op->num_in].at[first + i * inner].whole = order[i];
    }
  }
}

static void compute_top_k(const ref_op *op, const ref_tensor *in,
                          ref_tensor *out) {
  const ls_shape shape = in->type.shape;
  const int64_t size = shape.dim[shape.rank - 1], k = ref_int(op, "k", 0);
  int64_t *order = ref_allocate(op->run, (size_t)size, sizeof(*order));
  for (int64_t line = 0; line < ref_outer(shape, shape.rank - 1); ++line) {
    order_line(in->type.dtype, in->at + line * size, 1, size, true, order);
    for (int64_t i = 0; i < k; ++i) {
      out[0].at[line * k + i] = in->at[line * size + order[i]];
      out[1].at[line * k + i].whole = order[i];
    }
  }
}

static void compute_one_hot(const ref_op *op, const ref_tensor *in,
                            ref_tensor *out) {
  const int64_t depth = ref_int(op, "depth", 0);
  for (int64_t k = 0; k < in->count; ++k) {
    const int64_t at = index_of(in, k);
    if (at >= 0 && at < depth)
      out->at[k * depth + at] = ref_one(out->type.dtype);
  }
}

static void compute_argmax(const ref_op *op, const ref_tensor *in,
                           ref_tensor *out) {
  const int32_t axis = (int32_t)ref_int(op, "axis", 0);
  const ls_shape shape = in->type.shape;
  const ls_dtype dtype = in->type.dtype;
  const int64_t inner = ref_inner(shape, axis), size = shape.dim[axis];
  const int sign = op->type == LS_OP_ARGMAX ? 1 : -1;
  for (int64_t line = 0; line < out->count; ++line) {
    const ref_number *x = in->at + line / inner * size * inner + line % inner;
    int64_t best = 0;
    for (int64_t i = 1; i < size; ++i) {
      const ref_number a = x[i * inner], b = x[best * inner];
      if (b.real != b.real) break;  // The first nan stays.
      if (a.real != a.real || sign * ref_order(dtype, a, b) > 0) best = i;
    }
    out->at[line].whole = best;
  }
}

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

#define CASE(id, computed, types, maker, drawer, ...)                          \
  {                                                                            \
    .op = LS_OP_##id, .compute = (computed), .dtypes = (types), .make = maker, \
    .draw = drawer, __VA_ARGS__                                                \
  }

const op_case index_cases[] = {
    CASE(GATHER, compute_gather, EVERY, make_gather, draw_lookup,
         .gradient = 2),
    CASE(SCATTER, ref_scatter, EVERY, make_scatter_update, draw_lookup,
         .gradient = 2),
    CASE(SCATTER, ref_scatter, NUMBERS, make_scatter_add, draw_lookup,
         .gradient = 2),
    CASE(SCATTER, ref_scatter, NUMBERS, make_scatter_sub, draw_lookup,
         .gradient = 2),
    CASE(SCATTER, ref_scatter, NUMBERS, make_scatter_mul, draw_lookup,
         .slack = 4),
    CASE(SCATTER, ref_scatter, NUMBERS, make_scatter_div, draw_lookup, .low = 1,
         .high = 4, .slack = 4),
    CASE(SCATTER, ref_scatter, NUMBERS, make_scatter_min, draw_lookup,
         .odd = true),
    CASE(SCATTER, ref_scatter, NUMBERS, make_scatter_max, draw_lookup,
         .odd = true),
    CASE(INDEXED_SLICES, compute_indexed_slices, NUMBERS, make_slices,
         draw_rows, .gradient = 2),
    CASE(TAKE_ALONG, compute_take_along, EVERY, make_take_along, draw_along,
         .gradient = 2),
    CASE(ADD_ALONG, compute_add_along, NUMBERS, make_add_along, draw_along,
         .gradient = 2),
    CASE(ONE_HOT, compute_one_hot, EVERY, make_one_hot, draw_one_hot, .low = 0),
    CASE(CUMSUM, compute_scan, NUMBERS, make_cumsum, draw_lines, .slack = 4,
         .gradient = 2),
    CASE(CUMPROD, compute_scan, NUMBERS, make_cumprod, draw_lines, .slack = 16,
         .gradient = 2, .from = 0.5, .to = 1.5),
    CASE(LINEAR_SCAN, compute_scan, NUMBERS, make_linear_scan, draw_lines,
         .low = -1, .high = 1, .slack = 8, .gradient = 2),
    CASE(SORT, compute_sort, EVERY, make_sort, draw_order, .low = -4, .high = 4,
         .odd = true, .gradient = 2),
    CASE(TOP_K, compute_top_k, NUMBERS, make_top_k, draw_order, .low = -4,
         .high = 4, .odd = true, .gradient = 2),
    CASE(ARGMAX, compute_argmax, NUMBERS, make_argmax, draw_arg, .low = -4,
         .high = 4, .odd = true),
    CASE(ARGMIN, compute_argmax, NUMBERS, make_argmin, draw_arg, .low = -4,
         .high = 4, .odd = true),
    {0},
};
