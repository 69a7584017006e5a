// SPDX-License-Identifier: Apache-2.0
// Convolution layers against plain loops.
#include <math.h>

#include "lockstep/layers.h"
#include "lockstep/session.h"
#include "runtime/own.h"
#include "support/fault.h"
#include "support/function.h"
#include "support/values.h"

LS_OWNED_POINTER(ls_conv_layer, ls_conv_layer_destroy)

enum { MAX_ELEMENTS = 2048 };

// One plane of two dimensions; the third and fourth are batch and channels.
typedef struct plain {
  int64_t n, h, w, c;  // x
  int64_t kh, kw, f;   // Window and filters.
  int64_t oh, ow;      // The result.
  int64_t stride, low_h, low_w, groups;
} plain;

static double x_at(const plain *p, const double *x, int64_t n, int64_t i,
                   int64_t j, int64_t c) {
  if (i < 0 || i >= p->h || j < 0 || j >= p->w) return 0;
  return x[((n * p->h + i) * p->w + j) * p->c + c];
}

static double one_result(const plain *p, const double *x, const double *kernel,
                         int64_t n, int64_t i, int64_t j, int64_t f) {
  const int64_t part = p->c / p->groups, group = f / (p->f / p->groups);
  double sum = 0;
  for (int64_t a = 0; a < p->kh; ++a)
    for (int64_t b = 0; b < p->kw; ++b)
      for (int64_t c = 0; c < part; ++c)
        sum += x_at(p, x, n, i * p->stride + a - p->low_h,
                    j * p->stride + b - p->low_w, group * part + c) *
               kernel[((a * p->kw + b) * part + c) * p->f + f];
  return sum;
}

static void convolve(const plain *p, const double *x, const double *kernel,
                     const double *bias, bool relu, double *y) {
  for (int64_t n = 0; n < p->n; ++n)
    for (int64_t i = 0; i < p->oh; ++i)
      for (int64_t j = 0; j < p->ow; ++j)
        for (int64_t f = 0; f < p->f; ++f) {
          double sum = one_result(p, x, kernel, n, i, j, f) + bias[f];
          if (relu && sum < 0) sum = 0;
          y[((n * p->oh + i) * p->ow + j) * p->f + f] = sum;
        }
}

static const ls_convolution_options same_by_2 = {
    .strides = {.rank = 2, .dim = {2, 2}}, .padding = LS_PADDING_SAME};
static const ls_convolution_options by_channel = {.groups = 4};
static const ls_convolution_options in_a_row = {.padding = LS_PADDING_SAME};
static const ls_convolution_options plainly = {0};

// Rows of rank 1 are planes of height 1.
static const struct {
  const char *name;
  ls_shape window;
  const ls_convolution_options *how;
  bool relu;
  plain p;
} conv_rows[] = {
    {"same, by 2",
     {.rank = 2, .dim = {3, 3}},
     &same_by_2,
     true,
     {2, 5, 6, 3, 3, 3, 4, 3, 3, 2, 1, 0, 1}},
    {"depthwise",
     {.rank = 2, .dim = {3, 2}},
     &by_channel,
     false,
     {2, 5, 4, 4, 3, 2, 8, 3, 3, 1, 0, 0, 4}},
    {"one dimension",
     {.rank = 1, .dim = {3}},
     &in_a_row,
     false,
     {2, 1, 7, 3, 1, 3, 2, 1, 7, 1, 0, 1, 1}},
    {"1 by 1",
     {.rank = 2, .dim = {1, 1}},
     &plainly,
     true,
     {1, 3, 3, 5, 1, 1, 2, 3, 3, 1, 0, 0, 1}},
};

static ls_shape with_ends(int64_t first, ls_shape middle, int64_t last) {
  ls_shape shape = {.rank = middle.rank + 2, .dim = {first}};
  for (int i = 0; i < middle.rank; ++i)
    shape.dim[i + 1] = middle.dim[i];
  shape.dim[shape.rank - 1] = last;
  return shape;
}

static ls_shape space(int rank, int64_t h, int64_t w) {
  return rank == 1 ? LS_SHAPE(w) : LS_SHAPE(h, w);
}

TEST(layers_convolve_as_plain_loops_do) {
  static double x[MAX_ELEMENTS], kernel[MAX_ELEMENTS], y[MAX_ELEMENTS];
  double bias[8];
  for (size_t k = 0; k < sizeof(conv_rows) / sizeof(*conv_rows); ++k) {
    const plain *p = &conv_rows[k].p;
    LS_OWN(ls_conv_layer, layer) = NULL;
    expect_ok(ls_conv_layer_create(
        &(ls_conv_options){.channels = p->c,
                           .filters = p->f,
                           .window = conv_rows[k].window,
                           .how = *conv_rows[k].how,
                           .activation = conv_rows[k].relu ? LS_ACTIVATION_RELU
                                                           : LS_ACTIVATION_NONE,
                           .dtype = LS_DTYPE_F64},
        &layer));
    ls_variable *variables[2] = {NULL};
    assert_int_equal(ls_conv_layer_variables(layer, variables, 2), 2);
    assert_string_equal(ls_variable_name(variables[0]), "conv/kernel");
    assert_string_equal(ls_variable_name(variables[1]), "conv/bias");
    fill_numbers(x, MAX_ELEMENTS, 1);
    fill_numbers(kernel, MAX_ELEMENTS, 2);
    fill_numbers(bias, 8, 3);
    set_variable(variables[0], kernel);
    set_variable(variables[1], bias);
    convolve(p, x, kernel, bias, conv_rows[k].relu, y);
    const int rank = conv_rows[k].window.rank;
    expect_ok(ls_frame_begin());
    const ls_tensor got = ls_conv_layer_apply(
        layer, eager_of(LS_DTYPE_F64,
                        with_ends(p->n, space(rank, p->h, p->w), p->c), x));
    assert_true(
        ls_shape_equal(ls_tensor_shape(got),
                       with_ends(p->n, space(rank, p->oh, p->ow), p->f)));
    expect_tensor(got, y, (size_t)(p->n * p->oh * p->ow * p->f), 1e-12);
    expect_ok(ls_frame_end(NULL));
  }
}

// Three dimensions: a window of ones over ones counts the places it covers.
TEST(a_layer_can_have_three_dimensions) {
  LS_OWN(ls_conv_layer, layer) = NULL;
  expect_ok(ls_conv_layer_create(
      &(ls_conv_options){.channels = 2,
                         .filters = 1,
                         .window = LS_SHAPE(2, 2, 2),
                         .no_bias = true,
                         .kernel_initializer = ls_init_ones()},
      &layer));
  assert_int_equal(ls_conv_layer_variables(layer, NULL, 0), 1);
  expect_ok(ls_frame_begin());
  const ls_tensor y = ls_conv_layer_apply(
      layer, ls_fill(LS_DTYPE_F32, LS_SHAPE(1, 3, 3, 2, 2), 1));
  const double wanted[] = {16, 16, 16, 16};
  assert_true(ls_shape_equal(ls_tensor_shape(y), LS_SHAPE(1, 2, 2, 1, 1)));
  expect_tensor(y, wanted, 4, 0);
  expect_ok(ls_frame_end(NULL));
}

// ---- Transposed ------------------------------------------------------------
// Each place of x adds its multiples of the window to the result.
static void spread(const double *x, const double *kernel, int64_t size,
                   int64_t window, int64_t stride, int64_t low, double *y,
                   int64_t size_y) {
  for (int64_t i = 0; i < size_y * size_y; ++i)
    y[i] = 0;
  for (int64_t i = 0; i < size; ++i)
    for (int64_t j = 0; j < size; ++j)
      for (int64_t a = 0; a < window; ++a)
        for (int64_t b = 0; b < window; ++b) {
          const int64_t row = i * stride + a - low,
                        column = j * stride + b - low;
          if (row < 0 || row >= size_y || column < 0 || column >= size_y)
            continue;
          y[row * size_y + column] += x[i * size + j] * kernel[a * window + b];
        }
}

TEST(a_transposed_layer_spreads_what_another_gathers) {
  const struct {
    ls_shape strides;
    ls_padding padding;
    int64_t stride, size_y, low;
  } rows[] = {{LS_SHAPE(2, 2), LS_PADDING_SAME, 2, 6, 0},
              {LS_SHAPE(2, 2), LS_PADDING_VALID, 2, 7, 0},
              {LS_SCALAR, LS_PADDING_SAME, 1, 3, 1},
              {LS_SCALAR, LS_PADDING_VALID, 1, 5, 0}};
  double x[9], kernel[9], y[49];
  fill_numbers(x, 9, 1);
  fill_numbers(kernel, 9, 2);
  for (size_t k = 0; k < sizeof(rows) / sizeof(*rows); ++k) {
    LS_OWN(ls_conv_layer, layer) = NULL;
    expect_ok(ls_conv_layer_create(
        &(ls_conv_options){
            .channels = 1,
            .filters = 1,
            .window = LS_SHAPE(3, 3),
            .how = {.strides = rows[k].strides, .padding = rows[k].padding},
            .transposed = true,
            .dtype = LS_DTYPE_F64},
        &layer));
    ls_variable *variable = NULL;
    ls_conv_layer_variables(layer, &variable, 1);
    set_variable(variable, kernel);
    spread(x, kernel, 3, 3, rows[k].stride, rows[k].low, y, rows[k].size_y);
    expect_ok(ls_frame_begin());
    expect_tensor(ls_conv_layer_apply(
                      layer, eager_of(LS_DTYPE_F64, LS_SHAPE(1, 3, 3, 1), x)),
                  y, (size_t)(rows[k].size_y * rows[k].size_y), 1e-14);
    expect_ok(ls_frame_end(NULL));
  }
}

TEST(a_session_may_feed_any_batch_to_a_transposed_layer) {
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_OWN(ls_session, session) = NULL;
  LS_OWN(ls_conv_layer, layer) = NULL;
  ls_tensor x = {0}, y = {0};
  ls_op init = {0};
  {
    LS_GRAPH_SCOPE(graph);
    expect_ok(ls_conv_layer_create(
        &(ls_conv_options){.channels = 2,
                           .filters = 3,
                           .window = LS_SHAPE(2, 2),
                           .how = {.strides = LS_SHAPE(2, 2)},
                           .transposed = true,
                           .activation = LS_ACTIVATION_RELU},
        &layer));
    x = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(-1, 4, 5, 2), "x");
    y = ls_conv_layer_apply(layer, x);
    init = ls_global_initializer();
  }
  expect_ok(ls_graph_error(graph));
  expect_ok(ls_session_create(graph, &session));
  LS_OWN(ls_nest, result) = session_results(session, ls_nest_op(init));
  for (int64_t rows = 1; rows <= 3; ++rows) {
    LS_OWN(ls_array, value) =
        array_of_numbers(LS_DTYPE_F32, LS_SHAPE(rows, 4, 5, 2), 1);
    const ls_feed feed = {x, value};
    expect_ok(ls_session_run(session, ls_leaf(y), &feed, 1, &result));
    assert_true(ls_shape_equal(ls_array_shape(ls_nest_as_array(result)),
                               LS_SHAPE(rows, 8, 10, 3)));
  }
}

// ---- Gradients -------------------------------------------------------------
typedef struct net {
  ls_conv_layer *down, *up;
} net;

static ls_nest loss_of(ls_nest args, void *user) {
  const net *n = user;
  const ls_tensor x = ls_conv_layer_apply(n->down, ls_nest_tensor(args, 0));
  const ls_tensor y = ls_conv_layer_apply(n->up, ls_tanh(x));
  return ls_leaf(ls_reduce_sum(ls_square(y), LS_ALL_AXES));
}

TEST(gradients_flow_through_both_kinds) {
  net n = {0};
  ls_conv_options options = {
      .channels = 2,
      .filters = 3,
      .window = LS_SHAPE(3, 3),
      .how = {.strides = LS_SHAPE(2, 2), .padding = LS_PADDING_SAME},
      .dtype = LS_DTYPE_F64};
  expect_ok(ls_conv_layer_create(&options, &n.down));
  options.name = "up";
  options.channels = 3;
  options.filters = 2;
  options.transposed = true;
  expect_ok(ls_conv_layer_create(&options, &n.up));
  ls_variable *variables[4] = {NULL};
  ls_conv_layer_variables(n.down, variables, 2);
  ls_conv_layer_variables(n.up, variables + 2, 2);
  const ls_nest args = LS_TUPLE(
      ls_nest_array(array_of_numbers(LS_DTYPE_F64, LS_SHAPE(2, 6, 6, 2), 9)));
  expect_variable_gradients(loss_of, &n, args, variables, 4, 1e-6);
  ls_nest_release(args);
  ls_conv_layer_destroy(n.down);
  ls_conv_layer_destroy(n.up);
}

// ---- What is refused -------------------------------------------------------
TEST(layers_that_cannot_be_are_refused) {
  const struct {
    ls_conv_options options;
    const char *part;
  } rows[] = {
      {{.name = "c", .window = {.rank = 2, .dim = {3, 3}}},
       "convolution 'c' needs at least one channel and one filter"},
      {{.channels = 3,
        .filters = 4,
        .window = {.rank = 1, .dim = {3}},
        .how = {.groups = 2}},
       "2 groups cannot share 3 channels and 4 filters"},
      {{.channels = 1, .filters = 1}, "a window of 1 to 3 sizes"},
      {{.channels = 1, .filters = 1, .window = {.rank = 1}},
       "a window of 1 to 3 sizes"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
    ls_conv_layer *layer = NULL;
    expect_status(ls_conv_layer_create(&rows[i].options, &layer),
                  LS_INVALID_ARGUMENT, rows[i].part);
    assert_null(layer);
  }
}

MEMORY_TEST(make_a_conv_layer) {
  ls_conv_layer *layer = NULL;
  LS_RETURN_IF_ERROR(ls_frame_begin());
  const ls_status status = ls_conv_layer_create(
      &(ls_conv_options){.channels = 1, .filters = 2, .window = LS_SHAPE(3, 3)},
      &layer);
  ls_conv_layer_destroy(layer);
  ls_status_free(ls_frame_end(NULL));
  return status;
}
