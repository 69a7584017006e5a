// SPDX-License-Identifier: Apache-2.0
//
// Gradients of convolutions and of reductions over windows against finite
// differences, and what the makers refuse.
#include "lockstep/graph_ops.h"
#include "lockstep/session.h"
#include "runtime/own.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/gradient_check.h"

// ---- Convolutions ----------------------------------------------------------
static ls_tensor convolution(const ls_tensor *xs, size_t count,
                             const void *user) {
  (void)count;
  return ls_square(ls_convolution(xs[0], xs[1], user));
}

static ls_tensor with_bias(const ls_tensor *xs, size_t count,
                           const void *user) {
  (void)count;
  return ls_square(
      ls_conv_bias_act(xs[0], xs[1], xs[2], LS_ACTIVATION_NONE, user));
}

static ls_tensor with_relu(const ls_tensor *xs, size_t count,
                           const void *user) {
  (void)count;
  return ls_square(
      ls_conv_bias_act(xs[0], xs[1], xs[2], LS_ACTIVATION_RELU, user));
}

// (dy, w, what is as large as x), and (x, dy, what is as large as w).
static ls_tensor grad_input(const ls_tensor *xs, size_t count,
                            const void *user) {
  (void)count;
  return ls_square(ls_conv_grad_input(xs[0], xs[1], xs[2], user));
}

static ls_tensor grad_weights(const ls_tensor *xs, size_t count,
                              const void *user) {
  (void)count;
  return ls_square(ls_conv_grad_weights(xs[0], xs[1], xs[2], user));
}

static const ls_convolution_options same = {.padding = LS_PADDING_SAME};
static const ls_convolution_options strided = {
    .strides = {2, {2, 3}}, .low = {2, {1, 0}}, .high = {2, {0, 2}}};
static const ls_convolution_options dilated = {.dilations = {1, {2}},
                                               .low = {1, {1}}};
static const ls_convolution_options spread = {
    .strides = {1, {3}}, .input_dilations = {1, {2}}, .high = {1, {1}}};
static const ls_convolution_options grouped = {.groups = 2,
                                               .padding = LS_PADDING_SAME};

TEST(convolution_rules_agree_with_differences) {
  const gradient_case rows[] = {
      {"convolution", convolution,
       .shapes = {LS_SHAPE(2, 4, 2), LS_SHAPE(3, 2, 2)}, .count = 2},
      {"same",
       convolution,
       &same,
       {LS_SHAPE(1, 3, 4, 2), LS_SHAPE(3, 2, 2, 3)},
       .count = 2},
      {"strided",
       convolution,
       &strided,
       {LS_SHAPE(1, 5, 4, 1), LS_SHAPE(2, 3, 1, 2)},
       .count = 2},
      {"dilated",
       convolution,
       &dilated,
       {LS_SHAPE(2, 6, 1), LS_SHAPE(3, 1, 2)},
       .count = 2},
      {"spread",
       convolution,
       &spread,
       {LS_SHAPE(1, 5, 2), LS_SHAPE(3, 2, 2)},
       .count = 2},
      {"grouped",
       convolution,
       &grouped,
       {LS_SHAPE(1, 3, 3, 4), LS_SHAPE(2, 2, 2, 4)},
       .count = 2},
      {"depthwise",
       convolution,
       &grouped,
       {LS_SHAPE(1, 5, 2), LS_SHAPE(3, 1, 2)},
       .count = 2},
      {"volume",
       convolution,
       &same,
       {LS_SHAPE(1, 2, 3, 2, 1), LS_SHAPE(2, 2, 1, 1, 2)},
       .count = 2},
      {"bias",
       with_bias,
       &same,
       {LS_SHAPE(2, 3, 2), LS_SHAPE(3, 2, 2), LS_SHAPE(2)},
       .count = 3},
      {"bias and relu",
       with_relu,
       &strided,
       {LS_SHAPE(1, 5, 4, 2), LS_SHAPE(2, 3, 2, 2), LS_SHAPE(2)},
       .count = 3},
      {"conv_grad_input",
       grad_input,
       &strided,
       {LS_SHAPE(1, 3, 2, 2), LS_SHAPE(2, 3, 1, 2), LS_SHAPE(1, 5, 4, 1)},
       .count = 3},
      {"conv_grad_weights",
       grad_weights,
       &strided,
       {LS_SHAPE(1, 5, 4, 1), LS_SHAPE(1, 3, 2, 2), LS_SHAPE(2, 3, 1, 2)},
       .count = 3},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i)
    expect_gradients(&rows[i], 2);
}

// ---- Windows ---------------------------------------------------------------
typedef struct window_use {
  ls_window_op op;
  ls_shape window;
  ls_window_options options;
} window_use;

static ls_tensor window(const ls_tensor *xs, size_t count, const void *user) {
  const window_use *use = user;
  (void)count;
  return ls_square(
      ls_reduce_window(use->op, xs[0], use->window, &use->options));
}

TEST(window_rules_agree_with_differences) {
  static const window_use uses[] = {
      {LS_WINDOW_SUM, {1, {2}}, {.strides = {1, {1}}}},
      {LS_WINDOW_SUM, {2, {2, 3}}, {.padding = LS_PADDING_SAME}},
      {LS_WINDOW_MEAN, {2, {2, 2}}, {.padding = LS_PADDING_SAME}},
      {LS_WINDOW_MEAN,
       {2, {3, 2}},
       {.strides = {2, {2, 1}}, .low = {2, {2, 1}}, .count_padding = true}},
      {LS_WINDOW_MEAN, {1, {2}}, {.dilations = {1, {2}}, .high = {1, {1}}}},
      {LS_WINDOW_MAX, {2, {2, 2}}, {.count_padding = false}},
      {LS_WINDOW_MAX,
       {2, {3, 3}},
       {.strides = {2, {2, 2}}, .padding = LS_PADDING_SAME}},
      {LS_WINDOW_MAX, {3, {2, 1, 2}}, {.strides = {3, {1, 1, 1}}}},
  };
  for (size_t i = 0; i < sizeof(uses) / sizeof(*uses); ++i) {
    gradient_case row = {"window", window, &uses[i], .count = 1};
    row.shapes[0] = uses[i].window.rank == 1   ? LS_SHAPE(2, 5, 2)
                    : uses[i].window.rank == 2 ? LS_SHAPE(1, 5, 4, 2)
                                               : LS_SHAPE(1, 2, 2, 3, 1);
    expect_gradients(&row, 2);
  }
}

// ---- Sizes that are known late ---------------------------------------------
static ls_array *ones(ls_shape shape) {
  ls_array *array = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F64, shape, &array));
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
    ls_array_set_f64(array, i, 1);
  return array;
}

// The gradients of the mean of maxima of a convolution.
static ls_nest late_gradients(ls_tensor x, ls_tensor w) {
  const ls_tensor pooled =
      ls_max_pool(ls_convolution(x, w, &same), LS_SHAPE(2, 2),
                  &(ls_window_options){.padding = LS_PADDING_SAME});
  const ls_tensor mean = ls_avg_pool(pooled, LS_SHAPE(2, 2), NULL);
  const ls_nest ys[] = {ls_leaf(ls_reduce_sum(mean, LS_ALL_AXES))};
  const ls_nest xs[] = {ls_leaf(x), ls_leaf(w)};
  ls_nest grads[2];
  expect_ok(ls_gradients(ys, 1, xs, 2, NULL, grads));
  return ls_nest_sequence(LS_KIND_LIST, grads, 2);
}

TEST(sizes_may_be_known_late) {
  LS_OWN(ls_graph, graph) = graph_named("late");
  LS_OWN(ls_session, session) = session_of(graph);
  ls_feed feeds[2];
  LS_OWN(ls_nest, wanted) = ls_none();
  LS_OWN(ls_nest, got) = ls_none();
  {
    LS_GRAPH_SCOPE(graph);
    feeds[0].tensor =
        ls_placeholder(LS_DTYPE_F64, LS_SHAPE(-1, -1, -1, 2), "x");
    feeds[1].tensor =
        ls_placeholder(LS_DTYPE_F64, LS_SHAPE(-1, -1, -1, -1), "w");
    wanted = late_gradients(feeds[0].tensor, feeds[1].tensor);
  }
  expect_ok(ls_graph_verify(graph));
  LS_OWN(ls_array, x) = ones(LS_SHAPE(1, 4, 4, 2));
  LS_OWN(ls_array, w) = ones(LS_SHAPE(3, 3, 2, 1));
  feeds[0].value = x;
  feeds[1].value = w;
  expect_ok(ls_session_run(session, wanted, feeds, 2, &got));
  // The maxima, each with weight 1/4, are the four outputs whose windows hold
  // no padding: those in the middle.
  const double rows[] = {0.25, 0.5, 0.5, 0.25};
  const ls_array *dx = ls_nest_as_array(ls_nest_item(got, 0));
  for (int64_t i = 0; i < 32; ++i)
    assert_true(ls_array_f64(dx, i) == rows[i / 8] * rows[i / 2 % 4] * 4);
  const ls_array *dw = ls_nest_as_array(ls_nest_item(got, 1));
  for (int64_t i = 0; i < 18; ++i)
    assert_true(ls_array_f64(dw, i) == 1);
}

// ---- Refusals --------------------------------------------------------------
static void expect_refused(ls_graph *graph, ls_code code, const char *part) {
  expect_status(ls_graph_take_error(graph), code, part);
}

TEST(makers_refuse_what_does_not_fit) {
  LS_OWN(ls_graph, graph) = graph_named("refusals");
  {
    LS_GRAPH_SCOPE(graph);
    const ls_tensor x = ls_fill(LS_DTYPE_F32, LS_SHAPE(1, 4, 4, 6), 1);
    const ls_tensor w = ls_fill(LS_DTYPE_F32, LS_SHAPE(3, 3, 6, 8), 1);
    ls_convolution(x, w, &(ls_convolution_options){.low = {2, {-1, 0}}});
    expect_refused(graph, LS_INVALID_ARGUMENT, "-1, must be 0 to");
    ls_convolution(x, w, &(ls_convolution_options){.strides = {2, {0, 1}}});
    expect_refused(graph, LS_INVALID_ARGUMENT, "'strides' is 0");
    ls_convolution(x, w, &(ls_convolution_options){.dilations = {1, {2}}});
    expect_refused(graph, LS_INVALID_ARGUMENT, "'dilations' must have 2");
    ls_convolution(x, w, &(ls_convolution_options){.dilations = {2, {2, 2}}});
    expect_refused(graph, LS_INVALID_ARGUMENT, "the window spans 5");
    ls_convolution(x, w, &(ls_convolution_options){.groups = 2});
    expect_refused(graph, LS_INVALID_ARGUMENT, "in 2 groups");
    ls_convolution(x, w,
                   &(ls_convolution_options){.padding = LS_PADDING_SAME,
                                             .low = {2, {1, 1}}});
    expect_refused(graph, LS_INVALID_ARGUMENT, "is 'same'");
    ls_convolution(
        x, w, &(ls_convolution_options){.low = {2, {1, 1}}, .high = {1, {1}}});
    expect_refused(graph, LS_INVALID_ARGUMENT, "low has 2 numbers, high 1");
    ls_conv_bias_act(x, w, ls_fill(LS_DTYPE_F32, LS_SHAPE(6), 1),
                     LS_ACTIVATION_RELU, NULL);
    expect_refused(graph, LS_INVALID_ARGUMENT, "the bias is f32[6]");
    ls_conv_grad_input(x, w, x, NULL);
    expect_refused(graph, LS_INVALID_ARGUMENT, "gives f32[1,2,2,8]");
    ls_conv_grad_weights(x, x, w, NULL);
    expect_refused(graph, LS_INVALID_ARGUMENT, "operand 1 is f32[1,4,4,6]");
    ls_max_pool(x, LS_SHAPE(2), NULL);
    expect_refused(graph, LS_INVALID_ARGUMENT, "a window of 1 dimensions");
    ls_max_pool(x, LS_SHAPE(2, 2), &(ls_window_options){.count_padding = true});
    expect_refused(graph, LS_INVALID_ARGUMENT, "only a mean");
    ls_avg_pool(ls_convert(x, LS_DTYPE_I32), LS_SHAPE(2, 2), NULL);
    expect_refused(graph, LS_INVALID_ARGUMENT, "a mean is of floats");
    ls_reduce_window((ls_window_op)7, x, LS_SHAPE(2, 2), NULL);
    expect_refused(graph, LS_INVALID_ARGUMENT, "LS_WINDOW_SUM, MAX, MEAN");
  }
}
