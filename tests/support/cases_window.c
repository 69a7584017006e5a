// SPDX-License-Identifier: Apache-2.0
//
// Conformance cases: convolutions and reductions over windows.
#include "lockstep/ops.h"
#include "support/attrs.h"
#include "support/expect.h"
#include "support/op_case.h"

// What the lists of a trial hold, a number for each spatial dimension.
enum { STRIDES, DILATIONS, SPREADS, LOW, HIGH, TAPS };

// How windows are drawn: over elements that are apart, and so that each sees at
// least one element.
typedef enum manner { ANY, SPREAD, SEEING } manner;

// Whether each of `outputs` windows sees an element along dimension `i`.
static bool all_see(const trial *t, int32_t i, int64_t size, int64_t outputs) {
  for (int64_t o = 0; o < outputs; ++o) {
    bool sees = false;
    for (int64_t k = 0; k < t->list[TAPS].dim[i]; ++k) {
      const int64_t at = o * t->list[STRIDES].dim[i] +
                         k * t->list[DILATIONS].dim[i] - t->list[LOW].dim[i];
      sees = sees || (at >= 0 && at < size);
    }
    if (!sees) return false;
  }
  return true;
}

// Draws where windows lie; gives the input's spatial sizes, and the result's.
static ls_shape draw_geometry(trial *t, manner how, ls_shape *outputs) {
  ls_shape places = {.rank = (int32_t)trial_between(t, 1, 3)};
  const bool same = trial_between(t, 0, 3) == 0;
  t->number[1] = same;
  for (int k = STRIDES; k <= TAPS; ++k)
    t->list[k].rank = places.rank;
  *outputs = places;
  const int64_t most = places.rank == 3 ? 3 : 6;
  for (int32_t i = 0; i < places.rank; ++i) {
    const int64_t taps = trial_between(t, 1, 3);
    const int64_t dilation = same && how == SEEING ? 1 : trial_between(t, 1, 2);
    const int64_t stride = trial_between(t, 1, 3);
    const int64_t apart = how == SPREAD ? trial_between(t, 1, 2) : 1;
    const int64_t low = same ? 0 : trial_between(t, 0, 2);
    const int64_t high = same ? 0 : trial_between(t, 0, 2);
    const int64_t span = (taps - 1) * dilation + 1;
    int64_t size = trial_between(t, 1, most);
    while (!same && low + (size - 1) * apart + 1 + high < span)
      ++size;
    const int64_t have = (size - 1) * apart + 1;
    places.dim[i] = size;
    outputs->dim[i] = same ? (have + stride - 1) / stride
                           : (low + have + high - span) / stride + 1;
    t->list[STRIDES].dim[i] = stride;
    t->list[DILATIONS].dim[i] = dilation;
    t->list[SPREADS].dim[i] = apart;
    t->list[LOW].dim[i] = low;
    t->list[HIGH].dim[i] = high;
    t->list[TAPS].dim[i] = taps;
    if (how != SEEING || same || all_see(t, i, size, outputs->dim[i])) continue;
    t->list[LOW].dim[i] = t->list[HIGH].dim[i] = 0;
    places.dim[i] = span + stride;
    outputs->dim[i] = 2;
  }
  return places;
}

// [first, spatial..., last].
static ls_shape around(int64_t first, ls_shape spatial, int64_t last) {
  ls_shape shape = {.rank = spatial.rank + 2};
  shape.dim[0] = first;
  for (int32_t i = 0; i < spatial.rank; ++i)
    shape.dim[i + 1] = spatial.dim[i];
  shape.dim[spatial.rank + 1] = last;
  return shape;
}

// ---- Convolutions ----------------------------------------------------------
// Input, weights, result and bias. The case takes some of them.
typedef struct conv_shapes {
  ls_shape x, w, y, bias;
} conv_shapes;

static conv_shapes draw_shapes(trial *t) {
  ls_shape outputs;
  const ls_shape places = draw_geometry(t, SPREAD, &outputs);
  const int64_t groups = trial_between(t, 1, 2),
                images = trial_between(t, 1, 2);
  const int64_t some = trial_between(t, 1, 3);
  const int64_t outs = groups * trial_between(t, 1, 3);
  t->number[0] = groups;
  conv_shapes s = {
      .x = around(images, places, groups * some),
      .w = t->list[TAPS],
      .y = around(images, outputs, outs),
      .bias = LS_SHAPE(outs),
  };
  s.w.dim[s.w.rank++] = some;
  s.w.dim[s.w.rank++] = outs;
  return s;
}

static ls_convolution_options options_of(const trial *t) {
  const bool same = t->number[1] != 0;
  return (ls_convolution_options){
      .strides = t->list[STRIDES],
      .dilations = t->list[DILATIONS],
      .input_dilations = t->list[SPREADS],
      .padding = same ? LS_PADDING_SAME : LS_PADDING_VALID,
      .low = same ? LS_SCALAR : t->list[LOW],
      .high = same ? LS_SCALAR : t->list[HIGH],
      .groups = t->number[0],
  };
}

static void draw_convolution(trial *t) {
  const conv_shapes s = draw_shapes(t);
  trial_add(t, s.x);
  trial_add(t, s.w);
  trial_add(t, s.bias);
  t->number[2] = trial_between(t, LS_ACTIVATION_NONE, LS_ACTIVATION_RELU);
}

static void draw_grad_input(trial *t) {
  const conv_shapes s = draw_shapes(t);
  trial_add(t, s.y);
  trial_add(t, s.w);
  trial_add(t, s.x);
}

static void draw_grad_weights(trial *t) {
  const conv_shapes s = draw_shapes(t);
  trial_add(t, s.x);
  trial_add(t, s.y);
  trial_add(t, s.w);
}

static ls_nest make_convolution(const trial *t, const ls_tensor *xs) {
  const ls_convolution_options options = options_of(t);
  return ls_leaf(ls_convolution(xs[0], xs[1], &options));
}

static ls_nest make_conv_bias_act(const trial *t, const ls_tensor *xs) {
  const ls_convolution_options options = options_of(t);
  return ls_leaf(ls_conv_bias_act(xs[0], xs[1], xs[2],
                                  (ls_activation)t->number[2], &options));
}

static ls_nest make_grad_input(const trial *t, const ls_tensor *xs) {
  const ls_convolution_options options = options_of(t);
  return ls_leaf(ls_conv_grad_input(xs[0], xs[1], xs[2], &options));
}

static ls_nest make_grad_weights(const trial *t, const ls_tensor *xs) {
  const ls_convolution_options options = options_of(t);
  return ls_leaf(ls_conv_grad_weights(xs[0], xs[1], xs[2], &options));
}

// ---- Windows ---------------------------------------------------------------
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

#define CASE(id, types, maker, drawer, ...)                                    \
  {                                                                            \
    .op = LS_OP_##id, .dtypes = (types), .make = maker, .draw = drawer,        \
    __VA_ARGS__                                                                \
  }

const op_case window_cases[] = {
    CASE(CONVOLUTION, FLOATS, make_convolution, draw_convolution,
         .gradient = 2),
    CASE(CONV_BIAS_ACT, FLOATS, make_conv_bias_act, draw_convolution,
         .gradient = 2),
    CASE(CONV_GRAD_INPUT, FLOATS, make_grad_input, draw_grad_input,
         .gradient = 2),
    CASE(CONV_GRAD_WEIGHTS, FLOATS, make_grad_weights, draw_grad_weights,
         .gradient = 2),
    CASE(REDUCE_WINDOW, NUMBERS, make_window_sum, draw_window, .gradient = 2),
    CASE(REDUCE_WINDOW, NUMBERS, make_window_max, draw_window, .odd = true),
    CASE(REDUCE_WINDOW, NUMBERS, make_window_max, draw_seeing, .gradient = 2),
    CASE(REDUCE_WINDOW, FLOATS, make_window_mean, draw_window),
    CASE(REDUCE_WINDOW, FLOATS, make_window_mean, draw_seeing, .gradient = 2),
    CASE(WINDOW_SUM_GRAD, FLOATS, make_sum_grad, draw_window, .gradient = 2),
    CASE(WINDOW_SUM_GRAD, FLOATS, make_mean_grad, draw_window),
    CASE(WINDOW_SUM_GRAD, FLOATS, make_mean_grad, draw_seeing, .gradient = 2),
    CASE(WINDOW_MAX_GRAD, FLOATS, make_max_grad, draw_window, .gradient = 2),
    CASE(WINDOW_MAX_PICK, FLOATS, make_max_pick, draw_window, .gradient = 2),
    {0},
};
