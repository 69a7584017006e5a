// SPDX-License-Identifier: Apache-2.0
// Sessions, checkpoints and threads on the devices of a plug-in.
#include <pthread.h>
#include <unistd.h>

#include "lockstep/full.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/plugin.h"
#include "support/saving.h"
#include "support/values.h"

// A session's graph with a random first value, a step and a reset.
typedef struct counter {
  ls_graph *graph;
  ls_session *session;
  ls_variable *drawn, *count;
  ls_op init, step, reset;
  ls_tensor product;
} counter;

static void counter_open(counter *c) {
  expect_ok(ls_graph_create("counter", &c->graph));
  {
    LS_GRAPH_SCOPE(c->graph);
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "drawn",
                               .initial_value = ls_random_normal(
                                   LS_DTYPE_F32, LS_SHAPE(64, 64), 0, 1,
                                   &(ls_random_options){.seed = 3})},
        &c->drawn));
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "count",
                               .initial_value = ls_scalar(LS_DTYPE_F32, 1)},
        &c->count));
    c->product = ls_reduce_sum(
        ls_mul(ls_variable_read(c->drawn), ls_variable_read(c->count)),
        LS_ALL_AXES);
    c->step = ls_tensor_op(
        ls_variable_assign_add(c->count, ls_scalar(LS_DTYPE_F32, 1)));
    c->reset =
        ls_tensor_op(ls_variable_assign(c->count, ls_scalar(LS_DTYPE_F32, 10)));
    c->init = ls_global_initializer();
  }
  expect_ok(ls_graph_take_error(c->graph));
  expect_ok(ls_session_create(c->graph, &c->session));
}

static void counter_close(counter *c) {
  ls_session_destroy(c->session);
  ls_variable_release(c->drawn);
  ls_variable_release(c->count);
  ls_graph_destroy(c->graph);
}
LS_OWNED_STRUCT(counter, counter_close)

static void run_op(counter *c, ls_op op) {
  LS_OWN(ls_nest, result) = session_results(c->session, ls_nest_op(op));
}

static double fetch(counter *c) {
  LS_OWN(ls_nest, result) = session_results(c->session, ls_leaf(c->product));
  return nest_element(result, 0);
}

// Takes steps and returns the products seen.
static void see_products(double products[3]) {
  LS_OWN_BEGUN(counter, c, counter_open);
  run_op(&c, c.init);
  products[0] = fetch(&c);
  run_op(&c, c.step);
  run_op(&c, c.step);
  products[1] = fetch(&c);
  run_op(&c, c.reset);  // Written on the host, read on the device.
  run_op(&c, c.step);
  products[2] = fetch(&c);
  assert_true(session_number(c.session, c.count) == 11);
}

TEST(a_session_runs_on_a_device) {
  double want[3], got[3];
  see_products(want);
  LS_OWN(open_place, here) = plugin_runtime(1);
  see_products(got);
  for (int i = 0; i < 3; ++i)
    assert_true(got[i] - want[i] < 1e-3 && want[i] - got[i] < 1e-3);
  assert_true(got[1] / got[0] > 2.99 && got[1] / got[0] < 3.01);
}

static ls_status infer_flag(const ls_object *state, const ls_type *in,
                            size_t num_in, ls_type *out, size_t *num_out) {
  (void)state, (void)in, (void)num_in;
  *num_out = 1;
  out[0] = (ls_type){LS_DTYPE_STRING, LS_SCALAR};
  return ls_ok();
}

static ls_status tell_flag(ls_host_call *call) {
  static char yes[] = "yes", no[] = "no";
  const bool flag = *(const bool *)call->inputs[0];
  *(ls_bytes *)call->outputs[0] =
      (ls_bytes){.data = flag ? yes : no, .size = flag ? 3 : 2};
  ls_host_done(call, ls_ok());
  return ls_ok();
}

// Monitored sessions ask so whether variables have values.
TEST(host_calls_alone_stay_on_the_host) {
  static const ls_host_kernel kernel = {
      .name = "tell_flag", .infer = infer_flag, .start = tell_flag};
  LS_OWN(open_place, here) = plugin_runtime(1);
  LS_OWN_BEGUN(counter, c, counter_open);
  ls_tensor told;
  {
    LS_GRAPH_SCOPE(c.graph);
    const ls_tensor flag = ls_variable_is_initialized(c.count, NULL);
    told = ls_op_output(ls_host_call_add(&kernel, NULL, &flag, 1), 0);
  }
  LS_OWN(ls_nest, before) = session_results(c.session, ls_leaf(told));
  run_op(&c, c.init);
  LS_OWN(ls_nest, after) = session_results(c.session, ls_leaf(told));
  const ls_bytes *texts[] = {ls_array_data(ls_nest_as_array(before)),
                             ls_array_data(ls_nest_as_array(after))};
  assert_int_equal(texts[0]->size, 2);
  assert_int_equal(texts[1]->size, 3);
}

static ls_nest add_one(ls_nest args, void *user) {
  (void)args;
  return ls_leaf(ls_variable_assign_add(user, ls_scalar(LS_DTYPE_F32, 1)));
}

TEST(a_checkpoint_has_the_values_of_a_device_and_gives_them_back) {
  LS_OWN(open_place, here) = plugin_runtime(1);
  LS_OWN(ls_variable, variable) = plain("v", 1);
  LS_OWN(ls_function, function) = function_of(add_one, variable);
  LS_OWN(ls_nest, results) = {0};
  for (int i = 0; i < 3; ++i)
    expect_ok(ls_function_call(function, (ls_nest){0}, &results));
  save(variable);
  expect_entry("v", 4);
  expect_ok(ls_function_call(function, (ls_nest){0}, &results));
  assert_true(value_of(variable) == 5);
  restore(variable);
  assert_true(value_of(variable) == 4);
  expect_ok(ls_function_call(function, (ls_nest){0}, &results));
  assert_true(value_of(variable) == 5);
  unlink(path);
}

enum { THREADS = 3, STEPS = 40 };

typedef struct stepper {
  ls_runtime *runtime;
  ls_function *function;
  bool failed;
} stepper;

static void *take_steps(void *user) {
  stepper *self = user;
  ls_runtime_make_current(self->runtime);
  LS_OWN(ls_nest, results) = {0};
  for (int i = 0; i < STEPS && !self->failed; ++i) {
    const ls_status status =
        ls_function_call(self->function, (ls_nest){0}, &results);
    self->failed = !ls_status_is_ok(status);
    ls_status_free(status);
  }
  return NULL;
}

TEST(threads_take_steps_on_one_variable) {
  LS_OWN(open_place, here) = plugin_runtime(1);
  LS_OWN(ls_variable, variable) = plain("v", 0);
  LS_OWN(ls_function, function) = function_of(add_one, variable);
  stepper self = {here.runtime, function, false};
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; ++i)
    assert_int_equal(pthread_create(&threads[i], NULL, take_steps, &self), 0);
  for (int i = 0; i < THREADS; ++i)
    pthread_join(threads[i], NULL);
  assert_false(self.failed);
  assert_true(value_of(variable) == THREADS * STEPS);
}

TEST(a_cancelled_run_is_not_launched) {
  LS_OWN(open_place, here) = plugin_runtime(1);
  LS_OWN(ls_variable, variable) = plain("v", 1);
  LS_OWN(ls_function, function) = function_of(add_one, variable);
  LS_OWN(ls_nest, results) = {0};
  ls_cancel *cancel = NULL;
  expect_ok(ls_cancel_create(here.runtime, &cancel));
  ls_cancel_request(cancel);
  ls_cancel_make_current(cancel);
  expect_status(ls_function_call(function, (ls_nest){0}, &results),
                LS_CANCELLED, "cancelled");
  ls_cancel_make_current(NULL);
  ls_cancel_destroy(cancel);
  assert_true(value_of(variable) == 1);
  expect_ok(ls_function_call(function, (ls_nest){0}, &results));
  assert_true(value_of(variable) == 2);
}

TEST(a_result_outlives_its_runtime) {
  LS_OWN(ls_nest, results) = {0};
  {
    LS_OWN(open_place, here) = plugin_runtime(1);
    LS_OWN(ls_variable, variable) = plain("v", 1);
    LS_OWN(ls_function, function) = function_of(add_one, variable);
    expect_ok(ls_function_call(function, (ls_nest){0}, &results));
  }
  assert_true(nest_element(results, 0) == 2);
}
