// SPDX-License-Identifier: Apache-2.0
// Programs compiled for devices that are not here, and figures of programs.
#include "estimator/own.h"
#include "lockstep/full.h"
#include "lockstep/function_plan.h"
#include "lockstep/host.h"
#include "runtime/own.h"
#include "support/callbacks.h"
#include "support/estimators.h"
#include "support/function.h"
#include "support/loop_case.h"
#include "support/plugin.h"
#include "support/values.h"

static ls_nest multiply_variable(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor w = ls_variable_read(user);
  return ls_leaf(ls_variable_assign(user, ls_add(w, ls_matmul(x, w))));
}

enum { SIZE = 32 };

// A function of a matrix that multiplies a variable, and its arguments.
typedef struct product {
  ls_variable *variable;
  ls_function *function;
  ls_nest args;
} product;

static product product_make(void) {
  static double numbers[SIZE * SIZE];
  product made = {.variable = variable_of("w", LS_DTYPE_F32,
                                          LS_SHAPE(SIZE, SIZE), numbers)};
  made.function = function_of(multiply_variable, made.variable);
  made.args = LS_TUPLE(ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(SIZE, SIZE)));
  return made;
}

static void product_end(product *made) {
  ls_nest_release(made->args);
  ls_object_release(made->function);
  ls_object_release(made->variable);
}
LS_OWNED_STRUCT(product, product_end)

static ls_program_figures figures_of(const ls_function *function) {
  ls_program_figures figures;
  expect_ok(ls_function_describe_program(function, &figures));
  return figures;
}

TEST(a_function_without_a_program_has_no_figures) {
  LS_OWN(open_place, here) = runtime_begin((ls_runtime_options){0});
  LS_OWN(product, made) = product_make();
  ls_program_figures figures;
  expect_status(ls_function_describe_program(made.function, &figures),
                LS_FAILED_PRECONDITION, "call it first");
}

TEST(the_cpu_engine_tells_figures_of_its_plan) {
  enum { BYTES = 4 * SIZE * SIZE };
  LS_OWN(open_place, here) = runtime_begin((ls_runtime_options){0});
  LS_OWN(product, made) = product_make();
  LS_OWN(ls_nest, results) = call_results(made.function, made.args);
  const ls_program_figures figures = figures_of(made.function);
  assert_int_equal(figures.num_devices, 1);
  assert_true(figures.flops >= 2 * SIZE * SIZE * SIZE);
  assert_true(figures.bytes_accessed >= 4 * BYTES);
  assert_int_equal(figures.argument_bytes, 2 * BYTES);
  assert_int_equal(figures.result_bytes, 2 * BYTES);
  assert_int_equal(figures.alias_bytes, BYTES);
  assert_true(figures.temporary_bytes > 0 && figures.code_bytes >= 0);
  assert_true(figures.compile_seconds > 0);
}

TEST(a_plugin_tells_figures_of_a_program) {
  enum { BYTES = 4 * SIZE * SIZE };
  LS_OWN(open_place, here) = plugin_runtime(1);
  LS_OWN(product, made) = product_make();
  LS_OWN(ls_nest, results) = call_results(made.function, made.args);
  const ls_program_figures figures = figures_of(made.function);
  assert_int_equal(figures.num_devices, 1);
  assert_true(figures.flops == -1 || figures.flops >= 2 * SIZE * SIZE * SIZE);
  assert_int_equal(figures.argument_bytes, 2 * BYTES);
  assert_true(figures.compile_seconds > 0);
}

TEST(a_plugin_of_cpus_has_no_topologies) {
  ls_device_facts facts;
  LS_OWN(open_place, here) = runtime_begin(
      (ls_runtime_options){.device = plugin_device(), .topology = "cpu:2x2"});
  expect_status(ls_device_describe(here.runtime, &facts), LS_UNIMPLEMENTED,
                "of topology 'cpu:2x2'");
}

TEST(a_topology_that_libtpu_does_not_know_is_refused) {
  static const char *const names[] = {"v9:2x2", "v5e:3x3", "v5e:100x100",
                                      "v5e:2x2x9"};
  for (size_t i = 0; i < LS_COUNT_OF(names); ++i) {
    ls_device_facts facts;
    LS_OWN(open_place, here) = runtime_begin(
        (ls_runtime_options){.device = tpu_device(), .topology = names[i]});
    expect_status(ls_device_describe(here.runtime, &facts), LS_INVALID_ARGUMENT,
                  names[i]);
  }
}

TEST(a_program_for_a_topology_is_compiled_and_not_run) {
  LS_OWN(open_place, here) = runtime_begin(
      (ls_runtime_options){.device = tpu_device(), .topology = "v5e:2x2"});
  ls_device_facts facts;
  expect_ok(ls_device_describe(here.runtime, &facts));
  assert_string_equal(facts.type, "TPU");
  assert_int_equal(facts.count, 4);
  LS_OWN(product, made) = product_make();
  for (int i = 0; i < 2; ++i) {
    LS_OWN(ls_nest, results) = {0};
    expect_status(ls_function_call(made.function, made.args, &results),
                  LS_UNAVAILABLE, "topology 'v5e:2x2'");
  }
  const ls_program_figures figures = figures_of(made.function);
  assert_int_equal(figures.num_devices, 1);
  assert_true(figures.flops >= 2 * SIZE * SIZE * SIZE);
  assert_true(figures.bytes_accessed > 0 && figures.code_bytes > 0);
  assert_true(figures.argument_bytes > figures.alias_bytes);
  assert_true(figures.alias_bytes > 0 && figures.temporary_bytes >= 0);
  static const double zeros[SIZE * SIZE];
  expect_variable(made.variable, zeros, SIZE * SIZE, 0);
}

// ---- Loops and hosts -------------------------------------------------------
enum { STEPS = 100 };

static ls_nest step_of_loop(ls_nest values, void *user) {
  const ls_tensor w = ls_variable_read(user);
  (void)ls_variable_assign(user, ls_sub(w, ls_matmul(w, w)));
  return ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1));
}

static ls_nest loop_of_steps(ls_nest args, void *user) {
  (void)args;
  return ls_step_while(always_true, step_of_loop, user,
                       ls_leaf(ls_scalar_i64(LS_DTYPE_I32, 0)), STEPS);
}

TEST(a_loop_of_steps_is_compiled_for_a_topology) {
  LS_OWN(open_place, here) = runtime_begin(
      (ls_runtime_options){.device = tpu_device(), .topology = "v5e:2x2"});
  LS_OWN(product, made) = product_make();
  LS_OWN(ls_function, loop) = function_of(loop_of_steps, made.variable);
  LS_OWN(ls_nest, results) = {0};
  expect_status(ls_function_call(loop, (ls_nest){0}, &results), LS_UNAVAILABLE,
                "topology 'v5e:2x2'");
  const ls_program_figures figures = figures_of(loop);
  assert_true(figures.flops >= 2 * SIZE * SIZE * SIZE);
  assert_int_equal(figures.alias_bytes, 0);  // Old values are kept apart.
}

static ls_status infer_same(const ls_object *state, const ls_type *in,
                            size_t num_in, ls_type *out, size_t *num_out) {
  (void)state, (void)num_in;
  out[0] = in[0];
  *num_out = 1;
  return ls_ok();
}

static ls_status start_nothing(ls_host_call *call) {
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static ls_nest call_host(ls_nest args, void *user) {
  static const ls_host_kernel kernel = {
      .name = "nothing", .infer = infer_same, .start = start_nothing};
  const ls_tensor x = ls_relu(ls_nest_tensor(args, 0));
  const ls_tensor y = ls_op_output(ls_host_call_add(&kernel, NULL, &x, 1), 0);
  (void)user;
  return ls_leaf(ls_matmul(y, y));
}

TEST(a_call_of_the_host_is_refused_for_a_topology) {
  LS_OWN(open_place, here) = runtime_begin(
      (ls_runtime_options){.device = tpu_device(), .topology = "v5e:2x2"});
  LS_OWN(product, made) = product_make();
  LS_OWN(ls_function, function) = function_of(call_host, NULL);
  LS_OWN(ls_nest, results) = {0};
  expect_status(ls_function_call(function, made.args, &results),
                LS_UNIMPLEMENTED, "calls of the host");
}

// ---- Estimators ------------------------------------------------------------
static ls_nest send_nothing(ls_nest values, void *user) {
  (void)values, (void)user;
  return ls_nest_op(ls_group(NULL, 0, "nothing"));
}

static void begin_estimator(estimator_case *c, bool goes_on) {
  *c = (estimator_case){.way = ON_TPU,
                        .replicas = 4,
                        .folder = "for-a-topology",
                        .goes_on = goes_on,
                        .iterations = "100",
                        .repeats = true,
                        .host_call = send_nothing,
                        .host_call_every = LS_SOME(10)};
  estimator_case_begin(c);
}

static void compile_estimator(const char *topology) {
  LS_OWN(open_place, here) = runtime_begin(
      (ls_runtime_options){.device = tpu_device(), .topology = topology});
  LS_OWN(estimator_case, c) = {.way = ON_TPU};
  begin_estimator(&c, false);
  expect_status(
      ls_estimator_train(c.estimator,
                         &(ls_estimator_training){.input = estimator_input(&c),
                                                  .max_steps = LS_SOME(STEPS)},
                         NULL),
      LS_UNAVAILABLE, topology);
}

TEST(a_loop_of_an_estimator_is_compiled_for_topologies) {
  static const char *const names[] = {"v4:2x2x1", "v5e:2x2", "v5p:2x2x1",
                                      "v6e:2x2"};
  (void)tpu_device();  // Skips the test before there is anything to free.
  const size_t drawn = loop_random_seed() % LS_COUNT_OF(names);
  for (size_t i = 0; i < LS_COUNT_OF(names); ++i)
    if (i == drawn || plugin_tests_all()) compile_estimator(names[i]);
}

// Steps put tensors for the hosts into the outfeed.
TEST(an_evaluation_and_a_prediction_are_compiled_for_a_topology) {
  const char *device = tpu_device();
  {
    LS_OWN(open_place, here) = runtime_begin((ls_runtime_options){0});
    LS_OWN(estimator_case, c) = {.way = ON_TPU};
    begin_estimator(&c, false);
    assert_int_equal(estimator_case_train(&c, 1).step, 1);
  }
  LS_OWN(open_place, here) = runtime_begin(
      (ls_runtime_options){.device = device, .topology = "v5e:2x2"});
  LS_OWN(estimator_case, c) = {.way = ON_TPU};
  begin_estimator(&c, true);
  LS_OWN(ls_nest, metrics) = {0};
  expect_status(ls_estimator_evaluate(
                    c.estimator,
                    &(ls_estimator_evaluation){.input = estimator_input(&c),
                                               .steps = LS_SOME(STEPS)},
                    &metrics),
                LS_UNAVAILABLE, "topology 'v5e:2x2'");
  c.repeats = false;
  LS_OWN(ls_nest, row) = {0};
  ls_predictions *p = estimator_predict(&c, (ls_estimator_prediction){0});
  expect_status(ls_predictions_next(p, &row), LS_UNAVAILABLE,
                "topology 'v5e:2x2'");
  expect_status(ls_predictions_close(p), LS_UNAVAILABLE, "topology 'v5e:2x2'");
}
