// SPDX-License-Identifier: Apache-2.0
// The option find_nan: the op that makes the first NaN of a run is named, with
// its line, element, replica and operands, in every way to run.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/memory/map.h"
#include "distribute/own.h"
#include "lockstep/eager.h"
#include "lockstep/flow.h"
#include "lockstep/function.h"
#include "lockstep/gradients.h"
#include "lockstep/models.h"
#include "lockstep/runtime_settings.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"

#include "lockstep/full.h"  // Last: records source lines.

enum { ROWS = 4, WIDTH = 3, REPLICAS = 3 };

// ---- Under a runtime that looks --------------------------------------------
static void with_runtime(bool finds, void (*body)(void)) {
  ls_runtime *runtime = NULL;
  expect_ok(
      ls_runtime_create(&(ls_runtime_options){.find_nan = finds}, &runtime));
  ls_runtime_make_current(runtime);
  body();
  ls_runtime_make_current(NULL);
  expect_ok(ls_runtime_destroy(runtime));
}

static void expect_taken(const char *first, const char *second) {
  char text[LS_NAN_TEXT];
  assert_true(ls_runtime_take_nan(ls_runtime_current(), text, sizeof(text)));
  expect_contains(text, first);
  expect_contains(text, second);
  assert_false(ls_runtime_take_nan(ls_runtime_current(), text, sizeof(text)));
}

// Sixes, but for one element.
static ls_nest rows_with(double value, int64_t at) {
  double values[ROWS * WIDTH];
  for (int64_t i = 0; i < ROWS * WIDTH; ++i)
    values[i] = i == at ? value : 6;
  return ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(ROWS, WIDTH), values));
}

// ---- Bodies ----------------------------------------------------------------
static ls_tensor x_of(ls_nest args) {
  return args.kind == LS_KIND_TENSOR ? args.as.tensor : ls_nest_tensor(args, 0);
}

static ls_tensor log_of(ls_tensor x) { return ls_log(ls_mul_scalar(x, 2)); }

static ls_nest plain(ls_nest args, void *user) {
  (void)user;
  const ls_tensor y = log_of(x_of(args));
  return ls_leaf(ls_reduce_sum(ls_add_scalar(y, 1), LS_ALL_AXES));
}

static ls_nest is_below(ls_nest state, void *user) {
  (void)user;
  return ls_leaf(
      ls_less(ls_nest_tensor(state, 0), ls_scalar_i64(LS_DTYPE_I32, 3)));
}

// Takes 1 off in each trip, and the logarithm of what is left.
static ls_nest take_one_off(ls_nest state, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(state, 1);
  const ls_tensor left = ls_add_scalar(x, -1);
  return LS_TUPLE(ls_leaf(ls_add_scalar(ls_nest_tensor(state, 0), 1)),
                  ls_leaf(left),
                  ls_leaf(ls_add(ls_nest_tensor(state, 2), ls_log(left))));
}

static ls_nest in_loop(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = x_of(args);
  LS_OWN(ls_nest, end) =
      ls_while(is_below, take_one_off, NULL,
               LS_TUPLE(ls_leaf(ls_scalar_i64(LS_DTYPE_I32, 0)), ls_leaf(x),
                        ls_leaf(ls_mul_scalar(x, 0))),
               0);
  return ls_leaf(ls_reduce_sum(ls_nest_tensor(end, 2), LS_ALL_AXES));
}

static ls_nest one_branch(ls_nest none, void *user) {
  (void)none;
  return ls_leaf(log_of(*(const ls_tensor *)user));
}

static ls_nest other_branch(ls_nest none, void *user) {
  (void)none;
  return ls_leaf(ls_neg(*(const ls_tensor *)user));
}

static ls_nest in_branch(ls_nest args, void *user) {
  (void)user;
  ls_tensor x = x_of(args);
  const ls_tensor lowest = ls_reduce_min(x, LS_ALL_AXES);
  LS_OWN(ls_nest, y) = ls_cond(ls_less(lowest, ls_scalar(LS_DTYPE_F32, 0)),
                               one_branch, other_branch, &x);
  return ls_leaf(ls_reduce_sum(y.as.tensor, LS_ALL_AXES));
}

// The square root's gradient at 0 is infinite, times 0 it is NaN.
static ls_nest in_gradient(ls_nest args, void *user) {
  (void)user;
  const ls_nest y = ls_leaf(
      ls_reduce_sum(ls_mul_scalar(ls_sqrt(args.as.tensor), 0), LS_ALL_AXES));
  ls_nest gradient = ls_none();
  const ls_status status = ls_gradients(&y, 1, &args, 1, NULL, &gradient);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  return ls_leaf(ls_reduce_sum(gradient.as.tensor, LS_ALL_AXES));
}

static const struct {
  ls_callback body;
  double value;
  const char *op;
  const char *range;
} rows[] = {
    {plain, -0.5, "op 'log' (log)", "from -1 to 12"},
    {in_loop, 2.5, "(log)", " in trip 2; from f32[4,3] from -0.5 to 3"},
    {in_branch, -0.5, "(log)", "from -1 to 12"},
};

// ---- In every way ----------------------------------------------------------
static void find_in_function(void) {
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN(ls_function, function) = function_of(rows[i].body, NULL);
    LS_OWN(ls_nest, x) = rows_with(rows[i].value, 2 * WIDTH + 1);
    LS_OWN(ls_nest, y) = call_results(function, x);
    assert_true(isnan(number_of(y)));
    expect_taken(rows[i].op, rows[i].range);
  }
}
TEST(an_op_is_named_with_its_operands) { with_runtime(true, find_in_function); }

static void find_element(void) {
  LS_OWN(ls_function, function) = function_of(plain, NULL);
  LS_OWN(ls_nest, x) = rows_with(-0.5, 2 * WIDTH + 1);
  LS_OWN(ls_nest, y) = call_results(function, x);
  expect_taken("nan_test.c:", "makes NaN at [2,1] of f32[4,3]; from f32[4,3]");
}
TEST(its_line_and_element_are_told) { with_runtime(true, find_element); }

static ls_nest log_alone(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_log(x_of(args)));
}

static void find_scalar(void) {
  LS_OWN(ls_function, function) = function_of(log_alone, NULL);
  for (int is_given = 0; is_given < 2; ++is_given) {
    LS_OWN(ls_nest, x) = ls_nest_array(array_of(
        LS_DTYPE_F32, LS_SCALAR, &(double){is_given ? (double)NAN : -3}));
    LS_OWN(ls_nest, y) = call_results(function, x);
    expect_taken(is_given ? "input 0 is NaN of f32[]"
                          : "makes NaN of f32[]; from f32[] from -3 to -3",
                 "");
  }
}
TEST(a_scalar_has_no_element) { with_runtime(true, find_scalar); }

static void find_on_replicas(void) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(REPLICAS);
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    ls_nest parts[REPLICAS];
    for (int r = 0; r < REPLICAS; ++r)
      parts[r] = rows_with(r == 1 ? rows[i].value : 6, 7);
    LS_OWN(ls_function, function) = function_of(rows[i].body, NULL);
    LS_OWN(ls_nest, args) =
        LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, parts, REPLICAS));
    LS_OWN(ls_nest, out) = ls_none();
    expect_ok(ls_strategy_run(strategy, ls_traced(function), args, &out));
    expect_taken(rows[i].op, " on replica 1");
  }
}
TEST(so_is_the_replica) { with_runtime(true, find_on_replicas); }

static void find_given_on_replicas(void) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(REPLICAS);
  ls_nest parts[REPLICAS];
  for (int r = 0; r < REPLICAS; ++r)
    parts[r] = rows_with(r == 2 ? (double)NAN : 6, 7);
  LS_OWN(ls_function, function) = function_of(plain, NULL);
  LS_OWN(ls_nest, args) =
      LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, parts, REPLICAS));
  LS_OWN(ls_nest, out) = ls_none();
  expect_ok(ls_strategy_run(strategy, ls_traced(function), args, &out));
  expect_taken("input 2 is NaN at [2,1] of f32[4,3] on replica 2", "");
}
TEST(so_is_that_of_a_nan_that_was_given) {
  with_runtime(true, find_given_on_replicas);
}

static void find_in_eager(void) {
  expect_ok(ls_frame_begin());
  double values[ROWS * WIDTH] = {1, 1, -3};
  const ls_tensor x = eager_of(LS_DTYPE_F32, LS_SHAPE(ROWS, WIDTH), values);
  const ls_nest y = plain(ls_leaf(x), NULL);
  assert_true(isnan(item_of(y.as.tensor)));
  expect_taken("op log",
               "NaN at [0,2] of f32[4,3]; from f32[4,3] from -6 to 2");
  expect_ok(ls_frame_end(NULL));
}
TEST(so_it_is_in_eager) { with_runtime(true, find_in_eager); }

static void find_in_session(void) {
  LS_OWN(ls_graph, graph) = graph_named("g");
  ls_tensor y = {0};
  {
    LS_GRAPH_SCOPE(graph);
    LS_OWN(ls_nest, x) = rows_with(-1, 0);
    y = plain(ls_leaf(ls_constant(ls_nest_as_array(x))), NULL).as.tensor;
  }
  LS_OWN(ls_session, session) = session_of(graph);
  LS_OWN(ls_nest, out) = session_results(session, ls_leaf(y));
  expect_taken("(log)", "makes NaN at [0,0]");
}
TEST(so_it_is_in_a_session) { with_runtime(true, find_in_session); }

static void find_in_gradient(void) {
  LS_OWN(ls_function, function) = function_of(in_gradient, NULL);
  LS_OWN(ls_nest, x) = rows_with(0, 4);
  LS_OWN(ls_nest, y) = call_results(function, x);
  assert_true(isnan(number_of(y)));
  expect_taken("makes NaN at [1,1]", "from 0 to 0, f32[4,3] from 0 to 2.44949");
}
TEST(so_it_is_in_a_gradient) { with_runtime(true, find_in_gradient); }

// ---- In a training ---------------------------------------------------------
static ls_variable *weight;

static ls_status create_model(const ls_model_options *options,
                              void **out_self) {
  (void)options;
  const double one[WIDTH] = {1, 1, 1};
  weight = variable_of("w", LS_DTYPE_F32, LS_SHAPE(WIDTH), one);
  *out_self = &weight;
  return ls_ok();
}

static void destroy_model(void *self) {
  (void)self;
  ls_variable_release(weight);
}

// Divides 0 by 0.
static ls_nest train_step(ls_nest args, void *self) {
  (void)self;
  const ls_tensor w = ls_variable_read(weight);
  const ls_tensor zero = ls_sub(w, w);
  const ls_tensor x = ls_mul(ls_nest_tensor(args, 0), ls_div(zero, zero));
  const ls_tensor loss = ls_reduce_mean(x, LS_ALL_AXES);
  (void)ls_variable_assign(weight, ls_mul_scalar(w, 0.5));
  const char *const keys[] = {"loss", "accuracy"};
  const ls_nest items[] = {ls_leaf(loss), ls_leaf(loss)};
  return ls_nest_dict("", keys, items, 2);
}

static size_t list_variables(void *self, ls_variable **out, size_t capacity) {
  (void)self;
  if (capacity > 0) out[0] = weight;
  return 1;
}

static const ls_model_type model_type = {.name = "divides",
                                         .batch_size = 8,
                                         .epochs = 1,
                                         .example_shape = {1, {WIDTH}},
                                         .num_classes = 2,
                                         .create = create_model,
                                         .destroy = destroy_model,
                                         .train_step = train_step,
                                         .variables = list_variables};

static void find_in_training(void) {
  // What an earlier run has made is not the step's.
  LS_OWN(ls_function, function) = function_of(plain, NULL);
  LS_OWN(ls_nest, x) = rows_with(-1, 0);
  LS_OWN(ls_nest, y) = call_results(function, x);
  ls_model model = {0};
  expect_ok(ls_model_create(&model_type, NULL, &model));
  LS_OWN(ls_strategy, strategy) = mirrored_of(1);
  ls_dataset *data = ls_dataset_synthetic(&(ls_synthetic_options){
      .size = 16, .shape = LS_SHAPE(WIDTH), .num_classes = 2});
  ls_train_result result;
  expect_status(ls_train(&(ls_train_options){.model = &model,
                                             .strategy = strategy,
                                             .train = data},
                         &result),
                LS_OUT_OF_RANGE, "op 'div' (div) at ");
  ls_dataset_release(data);
  ls_model_destroy(&model);
}
TEST(a_training_tells_the_op_of_its_step) {
  with_runtime(true, find_in_training);
}

// ---- Given -----------------------------------------------------------------
static void find_given(void) {
  LS_OWN(ls_function, function) = function_of(plain, NULL);
  LS_OWN(ls_nest, x) = rows_with((double)NAN, 5);
  LS_OWN(ls_nest, y) = call_results(function, x);
  expect_taken("input 0 is NaN at [1,2] of f32[4,3]", "");
}
TEST(a_nan_that_was_given_is_named) { with_runtime(true, find_given); }

static ls_nest times_variable(ls_nest args, void *user) {
  return ls_leaf(ls_reduce_sum(ls_mul(args.as.tensor, ls_variable_read(user)),
                               LS_ALL_AXES));
}

static void find_variable(void) {
  const double values[WIDTH] = {0, (double)NAN, 0};
  LS_OWN(ls_variable, w) =
      variable_of("w", LS_DTYPE_F32, LS_SHAPE(WIDTH), values);
  LS_OWN(ls_function, function) = function_of(times_variable, w);
  LS_OWN(ls_nest, x) = rows_with(1, 0);
  LS_OWN(ls_nest, y) = call_results(function, x);
  expect_taken("variable 'w' is NaN at [1] of f32[3]", "");
}
TEST(so_is_a_variable) { with_runtime(true, find_variable); }

// ---- Nothing to find -------------------------------------------------------
static double bits_of_sum;
static void run_without_nan(void) {
  LS_OWN(ls_function, function) = function_of(plain, NULL);
  LS_OWN(ls_nest, x) = rows_with(3, 5);
  LS_OWN(ls_nest, y) = call_results(function, x);
  char text[LS_NAN_TEXT];
  assert_false(ls_runtime_take_nan(ls_runtime_current(), text, sizeof(text)));
  if (bits_of_sum == 0) bits_of_sum = number_of(y);
  assert_true(number_of(y) == bits_of_sum);
}
TEST(the_bits_are_the_same) {
  bits_of_sum = 0;
  with_runtime(false, run_without_nan);
  with_runtime(true, run_without_nan);
}

static void do_not_look(void) {
  LS_OWN(ls_function, function) = function_of(plain, NULL);
  LS_OWN(ls_nest, x) = rows_with(-1, 0);
  LS_OWN(ls_nest, y) = call_results(function, x);
  char text[LS_NAN_TEXT];
  assert_true(isnan(number_of(y)));
  assert_false(ls_runtime_take_nan(ls_runtime_current(), text, sizeof(text)));
  assert_false(ls_runtime_take_nan(NULL, text, sizeof(text)));
}
// ---- Results of ops --------------------------------------------------------
typedef struct seen {
  size_t inputs, logs, with_rows;
  int64_t last_trip;
  uint64_t hash;
} seen;

static void see(void *user, const ls_op_result *result) {
  seen *all = user;
  assert_int_equal(
      result->hash,
      ls_hash_large(result->data, (size_t)ls_shape_num_elements(result->shape) *
                                      ls_dtype_size(result->dtype)));
  all->hash = all->hash * 31 + result->hash;
  all->inputs += strcmp(result->label, "input 0") == 0;
  if (strstr(result->label, "(log)") == NULL) return;
  ++all->logs;
  all->with_rows += result->has_rows;
  all->last_trip = result->trip;
}

static seen watch_once(ls_callback body, double value) {
  seen all = {.last_trip = -2};
  LS_OWN(ls_function, function) = function_of(body, NULL);
  LS_OWN(ls_nest, x) = rows_with(value, 1);
  ls_runtime_watch_ops(ls_runtime_current(), see, &all);
  LS_OWN(ls_nest, y) = call_results(function, x);
  ls_runtime_watch_ops(ls_runtime_current(), NULL, NULL);
  LS_OWN(ls_nest, again) = call_results(function, x);
  return all;
}

static void watch_ops(void) {
  const seen one = watch_once(in_loop, 5), same = watch_once(in_loop, 5);
  assert_int_equal(one.inputs, 1);
  assert_int_equal(one.logs, 3);
  assert_int_equal(one.with_rows, 3);
  assert_int_equal(one.last_trip, 2);
  assert_int_equal(one.hash, same.hash);
  assert_int_not_equal(one.hash, watch_once(in_loop, 5.5).hash);
  const seen outside = watch_once(plain, 5);
  assert_int_equal(outside.logs, 1);
  assert_int_equal(outside.last_trip, -1);
}

// ---- Ops of the library's own in a branch ----------------------------------
typedef struct held_step {
  ls_optimizer *optimizer;
  ls_variable *w;
  size_t without_line, with_rows, wrong_rows;
} held_step;

// Applies the gradients of two calls, in a branch.
static ls_nest hold_gradients(ls_nest args, void *user) {
  const held_step *self = user;
  const ls_tensor y = ls_matmul(args.as.tensor, ls_variable_read(self->w));
  const ls_tensor loss = ls_reduce_mean(y, LS_ALL_AXES);
  (void)ls_optimizer_minimize(self->optimizer, loss);
  return ls_leaf(loss);
}

static void see_place(void *user, const ls_op_result *result) {
  held_step *self = user;
  self->with_rows += result->has_rows;
  self->wrong_rows += result->has_rows && result->shape.dim[0] != ROWS;
  self->without_line += strncmp(result->label, "op ", 3) == 0 &&
                        strstr(result->label, "nan_test.c:") == NULL;
}

static void watch_held_step(void) {
  held_step self = {0};
  const double values[WIDTH * WIDTH] = {1, 2, 3};
  LS_OWN(ls_variable, w) =
      variable_of("w", LS_DTYPE_F32, LS_SHAPE(WIDTH, WIDTH), values);
  expect_ok(ls_sgd_create(&(ls_sgd_options){.accumulate = 2}, &self.optimizer));
  self.w = w;
  LS_OWN(ls_function, function) = function_of(hold_gradients, &self);
  LS_OWN(ls_nest, x) = rows_with(5, 1);
  ls_runtime_watch_ops(ls_runtime_current(), see_place, &self);
  for (int i = 0; i < 2; ++i) {
    LS_OWN(ls_nest, y) = call_results(function, x);
  }
  ls_runtime_watch_ops(ls_runtime_current(), NULL, NULL);
  ls_optimizer_release(self.optimizer);
  assert_int_equal(self.without_line, 0);
  assert_true(self.with_rows > 0);
  assert_int_equal(self.wrong_rows, 0);
}

static void with_one_thread(void (*body)(void)) {
  ls_runtime *runtime = NULL;
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){.find_nan = true, .threads = 1}, &runtime));
  ls_runtime_make_current(runtime);
  body();
  ls_runtime_make_current(NULL);
  expect_ok(ls_runtime_destroy(runtime));
}

TEST(each_result_of_each_op_is_seen) { with_one_thread(watch_ops); }

TEST(a_step_in_a_branch_has_the_line_of_its_call_and_no_rows) {
  with_one_thread(watch_held_step);
}

TEST(nothing_is_looked_for_without_the_option) {
  with_runtime(false, do_not_look);
}
