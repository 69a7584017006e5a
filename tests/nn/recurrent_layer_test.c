// SPDX-License-Identifier: Apache-2.0
// LSTM and GRU against plain loops, and on a task that needs memory.
#include <math.h>
#include <string.h>

#include "lockstep/function_plan.h"
#include "lockstep/layers.h"
#include "lockstep/losses.h"
#include "lockstep/optimizers.h"
#include "lockstep/session.h"
#include "runtime/own.h"
#include "support/fault.h"
#include "support/function.h"
#include "support/values.h"

LS_OWNED_POINTER(ls_recurrent_layer, ls_recurrent_layer_destroy)

enum { BATCH = 2, STEPS = 3, INPUTS = 2, UNITS = 3, MAX_ELEMENTS = 64 };

static double sigma(double x) { return 1 / (1 + exp(-x)); }

// Variables: kernel, recurrent kernel, bias, recurrent bias.
typedef struct weights {
  double v[4][MAX_ELEMENTS];
} weights;

// Column `c` of x by kernel + bias.
static double column(const double *x, int size, const double *kernel,
                     const double *bias, int wide, int c) {
  double sum = bias[c];
  for (int k = 0; k < size; ++k)
    sum += x[k] * kernel[k * wide + c];
  return sum;
}

static void lstm_step(const weights *w, const double *x, double *h, double *c) {
  enum { WIDE = 4 * UNITS };
  const double none[WIDE] = {0};
  double z[WIDE];
  for (int i = 0; i < WIDE; ++i)
    z[i] = column(x, INPUTS, w->v[0], w->v[2], WIDE, i) +
           column(h, UNITS, w->v[1], none, WIDE, i);
  for (int u = 0; u < UNITS; ++u) {
    c[u] = sigma(z[UNITS + u]) * c[u] + sigma(z[u]) * tanh(z[2 * UNITS + u]);
    h[u] = sigma(z[3 * UNITS + u]) * tanh(c[u]);
  }
}

static void gru_step(const weights *w, const double *x, double *h, double *c) {
  enum { WIDE = 3 * UNITS };
  (void)c;
  double a[WIDE], b[WIDE];
  for (int i = 0; i < WIDE; ++i) {
    a[i] = column(x, INPUTS, w->v[0], w->v[2], WIDE, i);
    b[i] = column(h, UNITS, w->v[1], w->v[3], WIDE, i);
  }
  for (int u = 0; u < UNITS; ++u) {
    const double r = sigma(a[u] + b[u]);
    const double z = sigma(a[UNITS + u] + b[UNITS + u]);
    const double n = tanh(a[2 * UNITS + u] + r * b[2 * UNITS + u]);
    h[u] = (1 - z) * n + z * h[u];
  }
}

static size_t begin_with(ls_recurrent_kind kind, int64_t unrolled,
                         ls_recurrent_layer **out_layer,
                         ls_variable **variables, weights *w) {
  expect_ok(
      ls_recurrent_layer_create(&(ls_recurrent_options){.kind = kind,
                                                        .inputs = INPUTS,
                                                        .units = UNITS,
                                                        .dtype = LS_DTYPE_F64,
                                                        .unrolled = unrolled},
                                out_layer));
  const size_t count = ls_recurrent_layer_variables(*out_layer, variables, 4);
  assert_int_equal(count, kind == LS_RECURRENT_LSTM ? 3 : 4);
  for (size_t i = 0; i < count; ++i) {
    fill_numbers(w->v[i], MAX_ELEMENTS, 30 + (uint32_t)i);
    set_variable(variables[i], w->v[i]);
  }
  return count;
}

static size_t begin(ls_recurrent_kind kind, ls_recurrent_layer **out_layer,
                    ls_variable **variables, weights *w) {
  return begin_with(kind, 0, out_layer, variables, w);
}

TEST(steps_follow_the_formulas) {
  for (ls_recurrent_kind kind = 0; kind <= LS_RECURRENT_GRU; ++kind) {
    LS_OWN(ls_recurrent_layer, layer) = NULL;
    ls_variable *variables[4];
    weights w;
    begin(kind, &layer, variables, &w);
    double x[BATCH * STEPS * INPUTS], y[BATCH * STEPS * UNITS];
    double h[BATCH * UNITS] = {0}, c[BATCH * UNITS] = {0};
    fill_numbers(x, BATCH * STEPS * INPUTS, 1);
    for (int b = 0; b < BATCH; ++b)
      for (int t = 0; t < STEPS; ++t) {
        (kind == LS_RECURRENT_LSTM ? lstm_step : gru_step)(
            &w, x + (b * STEPS + t) * INPUTS, h + b * UNITS, c + b * UNITS);
        for (int u = 0; u < UNITS; ++u)
          y[(b * STEPS + t) * UNITS + u] = h[b * UNITS + u];
      }
    expect_ok(ls_frame_begin());
    ls_recurrent_state end = {0};
    expect_tensor(ls_recurrent_layer_apply(
                      layer,
                      eager_of(LS_DTYPE_F64, LS_SHAPE(BATCH, STEPS, INPUTS), x),
                      NULL, &end),
                  y, BATCH * STEPS * UNITS, 1e-12);
    expect_tensor(end.h, h, BATCH * UNITS, 1e-12);
    if (kind == LS_RECURRENT_LSTM)
      expect_tensor(end.c, c, BATCH * UNITS, 1e-12);
    // One more step, by itself.
    for (int b = 0; b < BATCH; ++b)
      (kind == LS_RECURRENT_LSTM ? lstm_step : gru_step)(
          &w, x + b * INPUTS, h + b * UNITS, c + b * UNITS);
    end = ls_recurrent_layer_step(
        layer, eager_of(LS_DTYPE_F64, LS_SHAPE(BATCH, INPUTS), x), end);
    expect_tensor(end.h, h, BATCH * UNITS, 1e-12);
    expect_ok(ls_frame_end(NULL));
  }
}

TEST(a_sequence_can_go_on_from_a_state) {
  for (ls_recurrent_kind kind = 0; kind <= LS_RECURRENT_GRU; ++kind) {
    LS_OWN(ls_recurrent_layer, layer) = NULL;
    ls_variable *variables[4];
    weights w;
    begin(kind, &layer, variables, &w);
    double x[BATCH * STEPS * INPUTS], wanted[BATCH * UNITS];
    fill_numbers(x, BATCH * STEPS * INPUTS, 1);
    expect_ok(ls_frame_begin());
    const ls_tensor all =
        eager_of(LS_DTYPE_F64, LS_SHAPE(BATCH, STEPS, INPUTS), x);
    ls_recurrent_state whole = {0}, half = {0}, rest = {0};
    ls_recurrent_layer_apply(layer, all, NULL, &whole);
    ls_recurrent_layer_apply(layer, ls_slice_axis(all, 1, 0, 1), NULL, &half);
    ls_recurrent_layer_apply(layer, ls_slice_axis(all, 1, 1, -1), &half, &rest);
    ls_array *array = tensor_array(whole.h);
    for (int i = 0; i < BATCH * UNITS; ++i)
      wanted[i] = ls_array_f64(array, i);
    ls_array_release(array);
    expect_tensor(rest.h, wanted, BATCH * UNITS, 1e-12);
    expect_ok(ls_frame_end(NULL));
  }
}

TEST(an_lstm_remembers_at_first) {
  LS_OWN(ls_recurrent_layer, layer) = NULL;
  expect_ok(ls_recurrent_layer_create(
      &(ls_recurrent_options){.inputs = 1, .units = 2}, &layer));
  ls_variable *variables[3];
  assert_int_equal(ls_recurrent_layer_variables(layer, variables, 3), 3);
  assert_string_equal(ls_variable_name(variables[0]), "lstm/kernel");
  assert_string_equal(ls_variable_name(variables[1]), "lstm/recurrent_kernel");
  assert_string_equal(ls_variable_name(variables[2]), "lstm/bias");
  const double wanted[] = {0, 0, 1, 1, 0, 0, 0, 0};
  expect_variable(variables[2], wanted, 8, 0);
}

static ls_nest loss_of(ls_nest args, void *user) {
  ls_recurrent_state end = {0};
  const ls_tensor y =
      ls_recurrent_layer_apply(user, ls_nest_tensor(args, 0), NULL, &end);
  return ls_leaf(ls_add(ls_reduce_sum(ls_square(y), LS_ALL_AXES),
                        ls_reduce_sum(end.h, LS_ALL_AXES)));
}

TEST(gradients_flow_back_through_the_steps) {
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_array(
      array_of_numbers(LS_DTYPE_F64, LS_SHAPE(BATCH, STEPS, INPUTS), 5)));
  for (ls_recurrent_kind kind = 0; kind <= LS_RECURRENT_GRU; ++kind)
    for (int64_t unrolled = 0; unrolled < 2; ++unrolled) {
      LS_OWN(ls_recurrent_layer, layer) = NULL;
      ls_variable *variables[4];
      weights w;
      const size_t count = begin_with(kind, unrolled, &layer, variables, &w);
      expect_variable_gradients(loss_of, layer, args, variables, count, 1e-6);
    }
}

// ---- Loops -----------------------------------------------------------------
enum { LONG = 40 };

// All steps, the state behind them, and the gradient of x.
static ls_nest run_long(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_recurrent_state begin = {ls_nest_tensor(args, 1),
                                    ls_nest_tensor(args, 2)};
  ls_recurrent_state end = {0};
  const ls_tensor y = ls_recurrent_layer_apply(user, x, &begin, &end);
  const ls_nest ys = ls_leaf(ls_reduce_sum(ls_square(y), LS_ALL_AXES));
  const ls_nest xs = ls_leaf(x);
  ls_nest gradient = ls_none();
  const ls_status status = ls_gradients(&ys, 1, &xs, 1, NULL, &gradient);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  return LS_TUPLE(ls_leaf(y), ls_leaf(end.h),
                  ls_leaf(end.c.ref != 0 ? end.c : end.h), gradient);
}

static ls_nest call_long(ls_recurrent_kind kind, int64_t unrolled, ls_nest args,
                         bool *out_loops) {
  LS_OWN(ls_recurrent_layer, layer) = NULL;
  ls_variable *variables[4];
  weights w;
  begin_with(kind, unrolled, &layer, variables, &w);
  LS_OWN(ls_function, function) = unnamed_function(run_long, layer);
  ls_nest result = call_results(function, args);
  LS_OWN(printed, text) = NULL;
  expect_ok(ls_function_print_lowered(function, &text));
  *out_loops = strstr(text, "while") != NULL;
  return result;
}

TEST(a_loop_gives_the_bits_of_steps_apart) {
  LS_OWN(ls_nest, args) = LS_TUPLE(
      ls_nest_array(
          array_of_numbers(LS_DTYPE_F64, LS_SHAPE(BATCH, LONG, INPUTS), 5)),
      ls_nest_array(array_of_numbers(LS_DTYPE_F64, LS_SHAPE(BATCH, UNITS), 6)),
      ls_nest_array(array_of_numbers(LS_DTYPE_F64, LS_SHAPE(BATCH, UNITS), 7)));
  for (ls_recurrent_kind kind = 0; kind <= LS_RECURRENT_GRU; ++kind) {
    bool loops = true;
    LS_OWN(ls_nest, want) = call_long(kind, LONG, args, &loops);
    assert_false(loops);
    LS_OWN(ls_nest, got) = call_long(kind, 0, args, &loops);
    assert_true(loops);
    for (size_t i = 0; i < 4; ++i) {
      const ls_array *a = ls_nest_as_array(ls_nest_item(want, i));
      const ls_array *b = ls_nest_as_array(ls_nest_item(got, i));
      assert_true(ls_shape_equal(ls_array_shape(a), ls_array_shape(b)));
      if (i < 3)
        assert_memory_equal(ls_array_data(a), ls_array_data(b),
                            ls_array_size(a));
      for (int64_t k = 0; k < ls_array_num_elements(a); ++k)
        assert_true(fabs(ls_array_f64(a, k) - ls_array_f64(b, k)) < 1e-12);
    }
  }
}

static void feed_rows(int64_t unrolled) {
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_OWN(ls_session, session) = NULL;
  LS_OWN(ls_recurrent_layer, layer) = NULL;
  ls_tensor x = {0}, y = {0};
  ls_op init = {0};
  {
    LS_GRAPH_SCOPE(graph);
    expect_ok(ls_recurrent_layer_create(
        &(ls_recurrent_options){
            .inputs = INPUTS, .units = UNITS, .unrolled = unrolled},
        &layer));
    x = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(-1, STEPS, INPUTS), "x");
    y = ls_recurrent_layer_apply(layer, x, NULL, NULL);
    init = ls_global_initializer();
  }
  expect_ok(ls_graph_error(graph));
  expect_ok(ls_session_create(graph, &session));
  LS_OWN(ls_nest, result) = session_results(session, ls_nest_op(init));
  for (int64_t rows = 1; rows <= 3; ++rows) {
    LS_OWN(ls_array, value) =
        array_of_numbers(LS_DTYPE_F32, LS_SHAPE(rows, STEPS, INPUTS), 1);
    const ls_feed feed = {x, value};
    expect_ok(ls_session_run(session, ls_leaf(y), &feed, 1, &result));
    assert_true(ls_shape_equal(ls_array_shape(ls_nest_as_array(result)),
                               LS_SHAPE(rows, STEPS, UNITS)));
  }
}

TEST(a_session_may_feed_any_number_of_rows) {
  feed_rows(STEPS);
  feed_rows(1);
}

// ---- Learning --------------------------------------------------------------
// The first of several bits is to be told at the end.
enum { BITS = 8, EXAMPLES = 64 };

typedef struct task {
  ls_recurrent_layer *layer;
  ls_dense_layer *logit;
  ls_optimizer *optimizer;
} task;

static ls_nest train(ls_nest args, void *user) {
  const task *t = user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  ls_recurrent_state end = {0};
  ls_recurrent_layer_apply(t->layer, x, NULL, &end);
  const ls_tensor logit =
      ls_reshape(ls_dense_layer_apply(t->logit, end.h), LS_SHAPE(-1));
  const ls_tensor first = ls_reshape(ls_slice_axis(x, 1, 0, 1), LS_SHAPE(-1));
  // Bits are -1 and 1.
  const ls_tensor target = ls_mul_scalar(ls_add_scalar(first, 1), 0.5);
  const ls_tensor loss =
      ls_sigmoid_cross_entropy_loss(logit, target, LS_REDUCTION_MEAN);
  ls_optimizer_minimize(t->optimizer, loss);
  return ls_leaf(loss);
}

TEST(both_kinds_learn_to_remember) {
  ls_array *bits =
      array_of_numbers(LS_DTYPE_F32, LS_SHAPE(EXAMPLES, BITS, 1), 8);
  for (int64_t i = 0; i < EXAMPLES * BITS; ++i)
    ls_array_set_f64(bits, i, ls_array_f64(bits, i) < 0 ? -1 : 1);
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_array(bits));
  for (ls_recurrent_kind kind = 0; kind <= LS_RECURRENT_GRU; ++kind) {
    task t = {0};
    expect_ok(ls_recurrent_layer_create(
        &(ls_recurrent_options){.kind = kind, .inputs = 1, .units = 8},
        &t.layer));
    expect_ok(ls_dense_layer_create(
        &(ls_dense_options){.inputs = 8, .units = 1}, &t.logit));
    expect_ok(ls_adam_create(
        &(ls_adam_options){.learning_rate = 0.02, .clip = {.global_norm = 1}},
        &t.optimizer));
    const ls_nest loss = call_on(1, train, &t, args, 150);
    const double got = ls_array_f64(ls_nest_as_array(loss), 0);
    if (!(got < 0.05)) fail_msg("kind %d: the loss is %g", (int)kind, got);
    ls_nest_release(loss);
    ls_optimizer_release(t.optimizer);
    ls_dense_layer_destroy(t.logit);
    ls_recurrent_layer_destroy(t.layer);
  }
}

// ---- What is refused -------------------------------------------------------
TEST(layers_that_cannot_be_are_refused) {
  ls_recurrent_layer *layer = NULL;
  expect_status(
      ls_recurrent_layer_create(
          &(ls_recurrent_options){.kind = LS_RECURRENT_GRU, .inputs = 3},
          &layer),
      LS_INVALID_ARGUMENT,
      "gru layer 'gru' needs at least one input and one unit, got 3 "
      "and 0");
  expect_status(
      ls_recurrent_layer_create(
          &(ls_recurrent_options){.kind = (ls_recurrent_kind)7}, &layer),
      LS_INVALID_ARGUMENT, "no kind 7 of recurrent layers");
  expect_status(
      ls_recurrent_layer_create(
          &(ls_recurrent_options){.inputs = 1, .units = 1, .unrolled = -2},
          &layer),
      LS_INVALID_ARGUMENT, "lstm layer 'lstm' cannot unroll -2 steps");
  assert_null(layer);
}

MEMORY_TEST(make_a_recurrent_layer) {
  ls_recurrent_layer *layer = NULL;
  LS_RETURN_IF_ERROR(ls_frame_begin());
  const ls_status status = ls_recurrent_layer_create(
      &(ls_recurrent_options){.kind = LS_RECURRENT_GRU,
                              .inputs = 1,
                              .units = 1,
                              .recurrent_initializer = ls_init_zeros()},
      &layer);
  ls_recurrent_layer_destroy(layer);
  ls_status_free(ls_frame_end(NULL));
  return status;
}
