// SPDX-License-Identifier: Apache-2.0
//
// What gradients cost, most of them of loops: what is saved, and memory.
#include <string.h>

#include "lockstep/function_plan.h"
#include "runtime/own.h"
#include "support/counted.h"
#include "support/fault.h"
#include "support/function.h"
#include "support/recurrence.h"

// ---- What is saved ---------------------------------------------------------
static ls_nest loss_beside_gradients(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const recurrence r = {ls_nest_tensor(args, 1), ls_nest_tensor(args, 2),
                        ls_nest_tensor(args, 3)};
  const ls_tensor loss = loss_of(recur(x, r));
  const ls_nest ys[] = {ls_leaf(loss)}, xs[] = {ls_leaf(x)};
  ls_nest grads[1];
  const ls_status status = ls_gradients(ys, 1, xs, 1, NULL, grads);
  return ls_status_is_ok(status) ? ls_leaf(loss) : ls_fail(status);
}

TEST(a_loop_saves_nothing_for_a_gradient_that_nobody_wants) {
  LS_OWN(ls_function, f) = function_of(loss_beside_gradients, NULL);
  LS_OWN(ls_nest, args) = recurrence_args(2, 3);
  LS_OWN(printed, text) = NULL;
  LS_OWN(ls_nest, result) = call_results(f, args);
  expect_ok(ls_function_print_lowered(f, &text));
  assert_null(strstr(text, "stack"));
  expect_contains(text, "{num_carried = 2,");
}

// Values that are asked for because of their shapes are not saved either.
static ls_nest sum_rows(ls_nest values, void *user) {
  const recurrence *r = user;
  const ls_tensor one = ls_scalar_i64(LS_DTYPE_I32, 1);
  const ls_tensor i = ls_add(ls_nest_tensor(values, 0), one);
  const ls_tensor h = ls_nest_tensor(values, 1);
  const ls_tensor mean = ls_reduce_mean(ls_add(h, r->b), LS_AXES(0));
  return LS_LIST(ls_leaf(i), ls_leaf(ls_add(h, mean)));
}

static ls_nest gradient_of_rows(ls_nest args, void *user) {
  (void)user;
  recurrence r = {.b = ls_nest_tensor(args, 2),
                  .trips = ls_nest_tensor(args, 3)};
  const ls_tensor x = ls_nest_tensor(args, 0);
  LS_OWN(ls_nest, made) =
      ls_while(is_below, sum_rows, &r,
               LS_LIST(ls_leaf(ls_scalar_i64(LS_DTYPE_I32, 0)), ls_leaf(x)), 0);
  const ls_nest ys[] = {ls_leaf(ls_nest_tensor(made, 1))};
  const ls_nest xs[] = {ls_leaf(x)};
  ls_nest grads[1];
  const ls_status status = ls_gradients(ys, 1, xs, 1, NULL, grads);
  return ls_status_is_ok(status) ? grads[0] : ls_fail(status);
}

TEST(a_loop_saves_no_value_for_its_shape) {
  LS_OWN(ls_function, f) = function_of(gradient_of_rows, NULL);
  LS_OWN(ls_nest, args) = recurrence_args(2, 3);
  LS_OWN(printed, text) = NULL;
  LS_OWN(ls_nest, result) = call_results(f, args);
  // y = x + mean x over two rows, thrice: each column's sum doubles.
  expect_near(ls_array_f64(ls_nest_as_array(result), 0), 8);
  expect_ok(ls_function_print_lowered(f, &text));
  assert_null(strstr(text, "stack"));
}

// ---- Memory ----------------------------------------------------------------
MEMORY_TEST(differentiate_a_loop) {
  LS_OWN(ls_function, f) = NULL;
  LS_OWN(ls_array, x) = NULL;
  LS_OWN(ls_array, w) = NULL;
  LS_OWN(ls_array, b) = NULL;
  LS_OWN(ls_array, trips) = NULL;
  LS_OWN(ls_nest, result) = ls_none();
  LS_OWN(ls_nest, args) = ls_none();
  LS_RETURN_IF_ERROR(ls_function_create(
      &(ls_function_options){.call = gradients_of_recurrence}, &f));
  LS_RETURN_IF_ERROR(ls_array_create(LS_DTYPE_F64, LS_SHAPE(20, 3), &x));
  LS_RETURN_IF_ERROR(ls_array_create(LS_DTYPE_F64, LS_SHAPE(3, 3), &w));
  LS_RETURN_IF_ERROR(ls_array_create(LS_DTYPE_F64, LS_SHAPE(3), &b));
  LS_RETURN_IF_ERROR(ls_array_create(LS_DTYPE_I32, LS_SCALAR, &trips));
  ls_array_set_f64(trips, 0, 30);
  const ls_nest leaves[] = {
      ls_nest_array(ls_array_retain(x)), ls_nest_array(ls_array_retain(w)),
      ls_nest_array(ls_array_retain(b)), ls_nest_array(ls_array_retain(trips))};
  args = ls_nest_sequence(LS_KIND_LIST, leaves, 4);
  LS_RETURN_IF_ERROR(ls_nest_status(args));
  return ls_function_call(f, args, &result);
}

// The memory that a gradient takes for itself, in a graph with `others` ops
// beside its own.
static uint64_t gradient_bytes(int others) {
  LS_OWN(counted, memory) = counted_begin(1);
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_GRAPH_SCOPE(graph);
  const ls_tensor x = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(3), "x");
  const ls_tensor y = ls_exp(x);
  for (int i = 0; i < others; ++i)
    ls_tanh(x);
  ls_gradient(ls_mul(y, y), x);
  expect_ok(ls_graph_take_error(graph));
  const ls_allocator_counts counts = counted_now(&memory);
  return counts.peak_bytes - counts.live_bytes;
}

TEST(a_gradient_costs_the_same_beside_many_other_ops) {
  assert_true(gradient_bytes(10000) <= gradient_bytes(10) + 10000);
}

TEST(a_run_as_long_as_one_before_takes_no_memory) {
  LS_OWN(counted, memory) = counted_begin(1);
  LS_OWN(ls_function, f) = function_of(gradients_of_recurrence, NULL);
  LS_OWN(ls_nest, args) = recurrence_args(40, 100);
  ls_array *trips = ls_nest_as_array(ls_nest_item(args, 3));
  LS_OWN(ls_nest, result) = ls_none();
  // The second call's program is bound before, so only stacks can grow.
  for (int i = 0; i < 2; ++i)
    expect_ok(ls_function_call(f, args, &result));
  const uint64_t warm = counted_now(&memory).allocations;
  for (int i = 100; i >= 0; i -= 20) {
    ls_array_set_f64(trips, 0, i);
    expect_ok(ls_function_call(f, args, &result));
  }
  ls_array_set_f64(trips, 0, 100);
  expect_ok(ls_function_call(f, args, &result));
  assert_int_equal(counted_now(&memory).allocations, warm);
  ls_array_set_f64(trips, 0, 1000);
  expect_ok(ls_function_call(f, args, &result));
  assert_true(counted_now(&memory).allocations > warm);
}
