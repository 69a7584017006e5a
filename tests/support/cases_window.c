// SPDX-License-Identifier: Apache-2.0
//
// Conformance cases: reductions over windows.
#include "lockstep/ops.h"
#include "support/attrs.h"
#include "support/geometry.h"

typedef struct windows {
  geometry g;
  int64_t places, outputs, taps, channels;
} windows;

static windows windows_of(const ref_op *op, ls_shape x, ls_shape y) {
  ls_shape taps = {.rank = x.rank - 2};
  for (int32_t i = 0; i < taps.rank; ++i)
    taps.dim[i] = ref_item(op, "window", i, 1);
  windows w = {.g = geometry_of(op, x, y, taps)};
  w.places = ls_shape_num_elements(w.g.places);
  w.outputs = ls_shape_num_elements(w.g.outputs);
  w.taps = ls_shape_num_elements(taps);
  w.channels = x.dim[x.rank - 1];
  return w;
}

// The element of x that element `k` of the result sees with a tap; -1: none.
static int64_t element(const windows *w, int64_t k, int64_t tap) {
  const int64_t channel = k % w->channels, o = k / w->channels % w->outputs;
  const int64_t image = k / w->channels / w->outputs;
  const int64_t place = seen(&w->g, o, tap);
  if (place < 0) return -1;
  return (image * w->places + place) * w->channels + channel;
}

// What a mean divides by; 1 for others.
static double divisor(const ref_op *op, const windows *w, int64_t k) {
  if (!ref_is(op, "reduce", "mean")) return 1;
  if (ref_int(op, "count_padding", 0) != 0) return (double)w->taps;
  int64_t count = 0;
  for (int64_t tap = 0; tap < w->taps; ++tap)
    count += element(w, k, tap) >= 0;
  return (double)count;
}

// The first maximum of what element `k` sees; -1: padding alone.
static int64_t maximum_at(const windows *w, const ref_tensor *x, int64_t k) {
  int64_t best = -1;
  for (int64_t tap = 0; tap < w->taps; ++tap) {
    const int64_t at = element(w, k, tap);
    if (at >= 0 &&
        (best < 0 || ref_order(x->type.dtype, x->at[at], x->at[best]) > 0))
      best = at;
  }
  return best;
}

static void compute_reduce_window(const ref_op *op, const ref_tensor *in,
                                  ref_tensor *out) {
  const windows w = windows_of(op, in->type.shape, out->type.shape);
  const ls_dtype dtype = out->type.dtype;
  for (int64_t k = 0; k < out->count; ++k) {
    if (ref_is(op, "reduce", "max")) {
      const int64_t at = maximum_at(&w, in, k);
      out->at[k] = at < 0 ? ref_limit(dtype, false) : in->at[at];
      continue;
    }
    for (int64_t tap = 0; tap < w.taps; ++tap) {
      const int64_t at = element(&w, k, tap);
      if (at >= 0) out->at[k] = ref_sum(dtype, out->at[k], in->at[at]);
    }
    const double count = divisor(op, &w, k);
    out->at[k].real /= count;
    if (count > 0) out->at[k].terms /= count;
  }
}

static void compute_window_sum_grad(const ref_op *op, const ref_tensor *in,
                                    ref_tensor *out) {
  const windows w = windows_of(op, out->type.shape, in->type.shape);
  for (int64_t k = 0; k < in->count; ++k)
    for (int64_t tap = 0; tap < w.taps; ++tap) {
      const int64_t at = element(&w, k, tap);
      if (at < 0) continue;
      const double part = in->at[k].real / divisor(op, &w, k);
      out->at[at] =
          ref_sum(out->type.dtype, out->at[at], ref_real_number(part));
    }
}

// Of x and the gradient of its maxima, that of x; or of x and what is as
// large, its elements at the maxima.
static void compute_window_max(const ref_op *op, const ref_tensor *in,
                               ref_tensor *out) {
  const bool picks = op->type == LS_OP_WINDOW_MAX_PICK;
  const ls_shape y = picks ? out->type.shape : in[1].type.shape;
  const windows w = windows_of(op, in->type.shape, y);
  for (int64_t k = 0; k < ls_shape_num_elements(y); ++k) {
    const int64_t at = maximum_at(&w, in, k);
    if (at >= 0 && picks) out->at[k] = in[1].at[at];
    if (at >= 0 && !picks)
      out->at[at] = ref_sum(out->type.dtype, out->at[at], in[1].at[k]);
  }
}

// x, what is as large as the result, and what is as large as x.
static void draw_windows(trial *t, manner how) {
  ls_shape outputs;
  const ls_shape places = draw_geometry(t, how, &outputs);
  const int64_t images = trial_between(t, 1, 2);
  const int64_t channels = trial_between(t, 1, 4);
  trial_add(t, around(images, places, channels));
  trial_add(t, around(images, outputs, channels));
  trial_add(t, around(images, places, channels));
  t->number[0] = trial_between(t, 0, 1);  // Whether padding counts.
}

static void draw_window(trial *t) { draw_windows(t, ANY); }

// What is no number has no differences.
static void draw_seeing(trial *t) { draw_windows(t, SEEING); }

static ls_nest window_of(const trial *t, ls_window_op op, ls_tensor x) {
  const bool same = t->number[1] != 0;
  const ls_window_options options = {
      .strides = t->list[STRIDES],
      .dilations = t->list[DILATIONS],
      .padding = same ? LS_PADDING_SAME : LS_PADDING_VALID,
      .low = same ? LS_SCALAR : t->list[LOW],
      .high = same ? LS_SCALAR : t->list[HIGH],
      .count_padding = op == LS_WINDOW_MEAN && t->number[0] != 0,
  };
  return ls_leaf(ls_reduce_window(op, x, t->list[TAPS], &options));
}

static ls_nest make_window_sum(const trial *t, const ls_tensor *xs) {
  return window_of(t, LS_WINDOW_SUM, xs[0]);
}

static ls_nest make_window_max(const trial *t, const ls_tensor *xs) {
  return window_of(t, LS_WINDOW_MAX, xs[0]);
}

static ls_nest make_window_mean(const trial *t, const ls_tensor *xs) {
  return window_of(t, LS_WINDOW_MEAN, xs[0]);
}

// The ops that gradients are made of have no makers.
static ls_nest add_window_op(const trial *t, const ls_tensor *inputs,
                             size_t count, const ls_attr *more, size_t some) {
  const size_t rank = (size_t)t->list[TAPS].rank;
  int64_t padding[2 * LS_MAX_RANK];
  for (size_t i = 0; i < rank; ++i) {
    padding[2 * i] = t->list[LOW].dim[i];
    padding[2 * i + 1] = t->list[HIGH].dim[i];
  }
  ls_attr attrs[8] = {LS_ATTR_IS("window", t->list[TAPS].dim, rank),
                      LS_ATTR_IS("strides", t->list[STRIDES].dim, rank),
                      LS_ATTR_IS("dilations", t->list[DILATIONS].dim, rank),
                      t->number[1] != 0
                          ? LS_ATTR_B("same", true)
                          : LS_ATTR_IS("padding", padding, 2 * rank)};
  for (size_t i = 0; i < some; ++i)
    attrs[4 + i] = more[i];
  return ls_leaf(ls_op_output(ls_op_add(&(ls_op_spec){.type = t->row->op,
                                                      .inputs = inputs,
                                                      .num_inputs = count,
                                                      .attrs = attrs,
                                                      .num_attrs = 4 + some}),
                              0));
}

static ls_nest sum_grad(const trial *t, ls_tensor dy, bool mean) {
  const ls_shape x = ls_array_shape(t->operand[0]);
  ls_size sizes[LS_MAX_RANK];
  for (int32_t i = 0; i < x.rank; ++i)
    sizes[i] = (ls_size){LS_SIZE_CONSTANT, x.dim[i]};
  const ls_attr more[] = {
      LS_ATTR_S("reduce", mean ? "mean" : "sum"),
      LS_ATTR_SZ("sizes", sizes, (size_t)x.rank),
      LS_ATTR_B("count_padding", mean && t->number[0] != 0)};
  return add_window_op(t, &dy, 1, more, 3);
}

static ls_nest make_sum_grad(const trial *t, const ls_tensor *xs) {
  return sum_grad(t, xs[1], false);
}

static ls_nest make_mean_grad(const trial *t, const ls_tensor *xs) {
  return sum_grad(t, xs[1], true);
}

static ls_nest make_max_grad(const trial *t, const ls_tensor *xs) {
  return add_window_op(t, xs, 2, NULL, 0);
}

static ls_nest make_max_pick(const trial *t, const ls_tensor *xs) {
  return add_window_op(t, (const ls_tensor[]){xs[0], xs[2]}, 2, NULL, 0);
}

#define CASE(id, computed, types, maker, drawer, ...)                          \
  {                                                                            \
    .op = LS_OP_##id, .compute = (computed), .dtypes = (types), .make = maker, \
    .draw = drawer, __VA_ARGS__                                                \
  }

const op_case window_cases[] = {
    CASE(REDUCE_WINDOW, compute_reduce_window, NUMBERS, make_window_sum,
         draw_window, .gradient = 2),
    CASE(REDUCE_WINDOW, compute_reduce_window, NUMBERS, make_window_max,
         draw_window, .odd = true),
    CASE(REDUCE_WINDOW, compute_reduce_window, NUMBERS, make_window_max,
         draw_seeing, .gradient = 2),
    CASE(REDUCE_WINDOW, compute_reduce_window, FLOATS, make_window_mean,
         draw_window),
    CASE(REDUCE_WINDOW, compute_reduce_window, FLOATS, make_window_mean,
         draw_seeing, .gradient = 2),
    CASE(WINDOW_SUM_GRAD, compute_window_sum_grad, FLOATS, make_sum_grad,
         draw_window, .gradient = 2),
    CASE(WINDOW_SUM_GRAD, compute_window_sum_grad, FLOATS, make_mean_grad,
         draw_window),
    CASE(WINDOW_SUM_GRAD, compute_window_sum_grad, FLOATS, make_mean_grad,
         draw_seeing, .gradient = 2),
    CASE(WINDOW_MAX_GRAD, compute_window_max, FLOATS, make_max_grad,
         draw_window, .gradient = 2),
    CASE(WINDOW_MAX_PICK, compute_window_max, FLOATS, make_max_pick,
         draw_window, .gradient = 2),
    {0},
};
