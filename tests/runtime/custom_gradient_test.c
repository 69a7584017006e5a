// SPDX-License-Identifier: Apache-2.0
//
// Gradients by a callback, and barriers: in functions, eager, branches and
// replicas.
#include <string.h>

#include "distribute/own.h"
#include "lockstep/eager.h"
#include "lockstep/function.h"
#include "lockstep/function_plan.h"
#include "lockstep/gradients.h"
#include "lockstep/strategy.h"
#include "support/callbacks.h"
#include "support/fault.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/spec.h"

// ---- Helpers ---------------------------------------------------------------
static ls_nest scalar_argument(double value) {
  ls_array *array = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F64, LS_SCALAR, &array));
  ls_array_set_f64(array, 0, value);
  return ls_nest_array(array);
}

// Calls `call` on one f64 and gives its result, or a failed nest.
static ls_nest call_with(ls_callback call, void *user, double x) {
  ls_function *f = function_of(call, user);
  LS_OWN(ls_nest, args) = LS_LIST(scalar_argument(x));
  ls_nest result = ls_none();
  const ls_status status = ls_function_call(f, args, &result);
  ls_function_release(f);
  if (ls_status_is_ok(status)) return result;
  ls_nest_release(result);
  return ls_fail(status);
}

static double item(ls_nest nest, size_t index) {
  const ls_nest leaf = ls_nest_is_node(nest) ? ls_nest_item(nest, index) : nest;
  assert_non_null(ls_nest_as_array(leaf));
  return ls_array_f64(ls_nest_as_array(leaf), 0);
}

static void expect_result(ls_callback call, void *user, double x, double want) {
  LS_OWN(ls_nest, result) = call_with(call, user, x);
  expect_ok(ls_nest_status(result));
  assert_true(item(result, 0) == want);
}

static void expect_failure(ls_callback call, void *user, ls_code code,
                           const char *part) {
  LS_OWN(ls_nest, result) = call_with(call, user, 2);
  expect_status(ls_nest_status(result), code, part);
}

static ls_nest gradient_of(ls_tensor y, ls_nest x) {
  const ls_nest ys[] = {ls_leaf(y)};
  ls_nest grads[1];
  const ls_status status = ls_gradients(ys, 1, &x, 1, NULL, grads);
  return ls_status_is_ok(status) ? grads[0] : ls_fail(status);
}

// ---- One input, one output -------------------------------------------------
static ls_nest squared(ls_nest x, void *user) {
  (void)user;
  return ls_leaf(ls_square(ls_nest_tensor(x, 0)));
}

// x^2 dy, where 2 x dy would be right.
static ls_nest strange(ls_nest x, ls_nest y, ls_nest dy, void *user) {
  (void)x;
  (void)user;
  return ls_leaf(ls_mul(ls_nest_tensor(y, 0), ls_nest_tensor(dy, 0)));
}

static ls_tensor strange_square(ls_tensor x) {
  LS_OWN(ls_nest, y) = ls_custom_gradient(squared, strange, NULL, ls_leaf(x));
  return ls_nest_tensor(y, 0);
}

static ls_nest value_and_gradient(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor y = ls_mul_scalar(strange_square(x), 10);
  return LS_TUPLE(ls_leaf(y), gradient_of(y, ls_leaf(x)));
}

TEST(the_callback_gives_the_gradient) {
  LS_OWN(ls_nest, result) = call_with(value_and_gradient, NULL, 3);
  expect_ok(ls_nest_status(result));
  assert_true(item(result, 0) == 90);  // 10 x^2
  assert_true(item(result, 1) == 90);  // 10 x^2, not 20 x.
}

static ls_nest second_gradient(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_nest first = gradient_of(strange_square(x), ls_leaf(x));
  if (ls_nest_is_failed(first)) return first;
  return gradient_of(first.as.tensor, ls_leaf(x));
}

TEST(the_callback_is_differentiated_itself) {
  // The first one is the op's result times 1: again x^2 in place of 2 x.
  expect_result(second_gradient, NULL, 5, 25);
}

static ls_nest lowered_body(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(strange_square(ls_nest_tensor(args, 0)));
}

TEST(nothing_of_the_op_is_left_in_the_program) {
  LS_OWN(ls_function, f) = function_of(lowered_body, NULL);
  LS_OWN(ls_nest, args) = LS_LIST(scalar_argument(3));
  LS_OWN(printed, text) = NULL;
  LS_OWN(ls_nest, result) = call_results(f, args);
  assert_true(item(result, 0) == 9);
  expect_ok(ls_function_print_lowered(f, &text));
  expect_contains(text, "mul(");
  assert_null(strstr(text, "custom_gradient"));
}

// ---- Structures ------------------------------------------------------------
// {a, b, nothing} to (a b, a + 1).
static ls_nest mixed(ls_nest in, void *user) {
  (void)user;
  const ls_tensor a = ls_nest_find(in, "a").as.tensor;
  const ls_tensor b = ls_nest_find(in, "b").as.tensor;
  assert_int_equal(ls_nest_find(in, "rest").kind, LS_KIND_NONE);
  return LS_TUPLE(ls_leaf(ls_mul(a, b)), ls_none(),
                  ls_leaf(ls_add_scalar(a, 1)));
}

// The unused output's gradient is zero; b gets none.
static ls_nest mixed_gradient(ls_nest in, ls_nest out, ls_nest gradients,
                              void *user) {
  int *calls = user;
  ++*calls;
  assert_int_equal(ls_nest_num_leaves(out), 3);
  assert_int_equal(ls_nest_num_leaves(gradients), 3);
  const char *const keys[] = {"a", "b", "rest"};
  const ls_tensor used = ls_nest_tensor(gradients, 0);
  const ls_tensor unused = ls_nest_tensor(gradients, 2);
  const ls_tensor b = ls_nest_find(in, "b").as.tensor;
  const ls_tensor a =
      ls_add(ls_mul(used, b), ls_mul_scalar(ls_add_scalar(unused, 1), 100));
  const ls_nest items[] = {ls_leaf(a), ls_none(), ls_none()};
  return ls_nest_dict("", keys, items, 3);
}

static ls_nest mixed_body(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  const char *const keys[] = {"a", "b", "rest"};
  const ls_tensor b = ls_add_scalar(x, 5);
  const ls_nest items[] = {ls_leaf(x), ls_leaf(b), ls_none()};
  LS_OWN(ls_nest, out) = ls_custom_gradient(mixed, mixed_gradient, user,
                                            ls_nest_dict("", keys, items, 3));
  assert_int_equal(ls_nest_item(out, 1).kind, LS_KIND_NONE);
  const ls_tensor y = ls_nest_tensor(out, 0);
  const ls_nest dx = gradient_of(y, ls_leaf(x));
  const ls_nest db = gradient_of(y, ls_leaf(b));
  assert_int_equal(db.kind, LS_KIND_NONE);
  return dx;
}

TEST(inputs_and_outputs_are_any_nests) {
  int calls = 0;
  expect_result(mixed_body, &calls, 2, 7 + 100);  // b + 100
  assert_int_equal(calls, 2);
}

// ---- Refusals --------------------------------------------------------------
static ls_nest two_gradients(ls_nest x, ls_nest y, ls_nest dy, void *user) {
  (void)x;
  (void)y;
  (void)user;
  const ls_tensor d = ls_nest_tensor(dy, 0);
  return LS_LIST(ls_leaf(d), ls_leaf(d));
}
static ls_nest wide_gradient(ls_nest x, ls_nest y, ls_nest dy, void *user) {
  (void)x;
  (void)y;
  (void)user;
  return ls_leaf(ls_broadcast(ls_nest_tensor(dy, 0), LS_SHAPE(2)));
}
static ls_nest refusing_gradient(ls_nest x, ls_nest y, ls_nest dy, void *user) {
  (void)x;
  (void)y;
  (void)dy;
  (void)user;
  return LS_FAIL(LS_OUT_OF_RANGE, "not this one");
}

typedef struct callbacks {
  ls_flow_callback forward;
  ls_gradient_callback gradient;
  void *user;
} callbacks;

static ls_nest gradient_by(ls_nest args, void *user) {
  const callbacks *by = user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  ls_nest y = ls_none();
  {
    LS_NAME_SCOPE("model");
    y = ls_custom_gradient(by->forward, by->gradient, by->user, ls_leaf(x));
  }
  if (ls_nest_is_failed(y)) return y;
  const ls_tensor tensor = ls_nest_tensor(y, 0);
  ls_nest_release(y);
  return gradient_of(tensor, ls_leaf(x));
}

static ls_nest refusing_forward(ls_nest x, void *user) {
  (void)x;
  (void)user;
  return LS_FAIL(LS_OUT_OF_RANGE, "no way forward");
}

static ls_nest refusing_later(ls_nest args, void *user) {
  (void)user;
  (void)ls_neg(ls_nest_tensor(args, 0));
  return LS_FAIL(LS_OUT_OF_RANGE, "no way on");
}

static ls_nest failing_forward(ls_nest x, void *user) {
  (void)user;
  return ls_leaf(ls_matmul(ls_nest_tensor(x, 0), ls_nest_tensor(x, 0)));
}

static ls_nest reading_forward(ls_nest x, void *user) {
  return ls_leaf(ls_mul(ls_nest_tensor(x, 0), ls_variable_read(user)));
}

static ls_variable *variable_of(double value) {
  ls_variable *variable = NULL;
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "factor",
                             .initial_value = ls_scalar(LS_DTYPE_F64, value)},
      &variable));
  return variable;
}

TEST(wrong_gradients_are_refused) {
  LS_SPEC("O192");
  callbacks by = {squared, two_gradients, NULL};
  expect_failure(gradient_by, &by, LS_INVALID_ARGUMENT,
                 "op 'model/custom_gradient' (custom_gradient): its gradient "
                 "callback gave 2 gradients for 1 inputs");
  by.gradient = wide_gradient;
  expect_failure(gradient_by, &by, LS_INVALID_ARGUMENT,
                 "input 0 of op 'model/custom_gradient'");
  by.gradient = refusing_gradient;
  expect_failure(gradient_by, &by, LS_OUT_OF_RANGE, "not this one");
}

TEST(what_the_forward_callback_refuses_is_passed_on) {
  callbacks by = {refusing_forward, strange, NULL};
  expect_failure(gradient_by, &by, LS_OUT_OF_RANGE, "no way forward");
  by.forward = failing_forward;
  expect_failure(gradient_by, &by, LS_INVALID_ARGUMENT, "matmul of f64[]");
}

TEST(a_variable_must_be_an_input) {
  LS_OWN(ls_variable, variable) = variable_of(3);
  callbacks by = {reading_forward, strange, variable};
  expect_failure(gradient_by, &by, LS_FAILED_PRECONDITION,
                 "reads variable 'factor'");
}

TEST(a_refused_op_leaves_nothing) {
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_GRAPH_SCOPE(graph);
  const ls_tensor x = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(2), "x");
  LS_OWN(printed, before) = graph_text(graph);
  LS_OWN(ls_nest, result) =
      ls_custom_gradient(refusing_later, strange, NULL, ls_leaf(x));
  assert_true(ls_nest_is_failed(result));
  expect_status(ls_graph_take_error(graph), LS_OUT_OF_RANGE, "no way on");
  LS_OWN(printed, after) = graph_text(graph);
  assert_string_equal(before, after);
}

static ls_nest by_variable(ls_nest args, void *user) {
  (void)args;
  ls_variable *variable = user;
  LS_OWN(ls_nest, y) =
      ls_custom_gradient(squared, strange, NULL, ls_nest_variable(variable));
  const ls_tensor tensor = ls_nest_tensor(y, 0);
  LS_OWN(ls_nest, x) = ls_nest_variable(variable);
  return gradient_of(tensor, x);
}

TEST(a_variable_that_is_an_input_gets_the_gradient) {
  LS_OWN(ls_variable, variable) = variable_of(3);
  expect_result(by_variable, variable, 0, 9);
}

// ---- Elsewhere -------------------------------------------------------------
TEST(a_tape_asks_the_callback) {
  const ls_tensor x = ls_scalar(LS_DTYPE_F64, 4);
  assert_false(ls_tensor_is_failed(strange_square(x)));  // Without a tape.
  LS_OWN(ls_tape, tape) = NULL;
  expect_ok(ls_tape_begin(&tape));
  expect_ok(ls_tape_watch(tape, x));
  const ls_tensor y = strange_square(x);
  const ls_nest xs[] = {ls_leaf(x)};
  ls_nest grads[1];
  double value = 0;
  expect_ok(ls_tape_gradients(tape, ls_leaf(y), xs, 1, grads));
  expect_ok(ls_tensor_item(grads[0].as.tensor, &value));
  assert_true(value == 16);
}

static ls_nest branch(ls_nest none, void *user) {
  (void)none;
  return ls_leaf(strange_square(*(const ls_tensor *)user));
}

static ls_nest branching(ls_nest args, void *user) {
  (void)user;
  ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor positive = ls_greater(x, ls_scalar(LS_DTYPE_F64, 0));
  const ls_nest y = ls_cond(positive, branch, negate_user, &x);
  if (ls_nest_is_failed(y)) return y;
  const ls_tensor tensor = ls_nest_tensor(y, 0);
  ls_nest_release(y);
  return gradient_of(tensor, ls_leaf(x));
}

TEST(a_branch_asks_the_callback) {
  expect_result(branching, NULL, 6, 36);
  expect_result(branching, NULL, -6, -1);
}

static ls_nest replica_body(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_reduce_sum(ls_nest_tensor(args, 0), LS_ALL_AXES);
  const ls_tensor y = strange_square(x);
  ls_assert_true(ls_greater(y, ls_scalar(LS_DTYPE_F64, -1)), "positive");
  const ls_nest gradient = gradient_of(y, ls_leaf(x));
  if (ls_nest_is_failed(gradient)) return gradient;
  return ls_leaf(ls_all_reduce(LS_REDUCE_SUM, gradient.as.tensor));
}

TEST(replicas_that_name_the_same_callbacks_are_the_same) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  LS_OWN(ls_function, f) = function_of(replica_body, NULL);
  LS_OWN(ls_array, array) = NULL;
  const double numbers[] = {1, 2, 3};
  expect_ok(ls_array_create_copy(LS_DTYPE_F64, LS_SHAPE(3), numbers, &array));
  ls_nest split = {0};
  expect_ok(ls_strategy_split(strategy, array, &split));
  LS_OWN(ls_nest, args) = LS_TUPLE(split);
  LS_OWN(ls_nest, result) = strategy_results(strategy, ls_traced(f), args);
  const ls_nest part = ls_distributed_count(result) != 0
                           ? ls_distributed_component(result, 0)
                           : result;
  assert_true(ls_array_f64(ls_nest_as_array(part), 0) == 14);
}

// ---- Barriers --------------------------------------------------------------
static ls_nest recomputed(ls_nest args, void *user) {
  const bool with_barriers = *(const bool *)user;
  ls_tensor sum = ls_nest_tensor(args, 0);
  const ls_tensor x = sum;
  for (int i = 0; i < 2; ++i) {
    ls_tensor apart = x;
    if (with_barriers) {
      LS_OWN(ls_nest, both) = ls_barrier(LS_TUPLE(ls_leaf(x), ls_leaf(sum)));
      apart = ls_nest_tensor(both, 0);
      sum = ls_nest_tensor(both, 1);
    }
    sum = ls_add(sum, ls_exp(apart));
  }
  return ls_leaf(sum);
}

static int count(const char *text, const char *part) {
  int times = 0;
  for (; (text = strstr(text, part)) != NULL; ++text)
    ++times;
  return times;
}

TEST(equal_ops_on_both_sides_of_a_barrier_stay_two) {
  for (int i = 0; i < 2; ++i) {
    bool with_barriers = i != 0;
    LS_OWN(ls_function, f) = function_of(recomputed, &with_barriers);
    LS_OWN(ls_nest, args) = LS_LIST(scalar_argument(0));
    LS_OWN(printed, text) = NULL;
    LS_OWN(ls_nest, result) = call_results(f, args);
    assert_true(item(result, 0) == 2);
    expect_ok(ls_function_print_lowered(f, &text));
    assert_int_equal(count(text, "= exp("), with_barriers ? 2 : 1);
    assert_int_equal(count(text, "= barrier("), with_barriers ? 2 : 0);
  }
}

TEST(a_barrier_keeps_structure_and_values) {
  LS_OWN(ls_nest, values) =
      ls_barrier(LS_TUPLE(ls_leaf(ls_scalar(LS_DTYPE_F64, 3)), ls_none(),
                          ls_leaf(ls_scalar_i64(LS_DTYPE_I32, 4))));
  double a = 0, b = 0;
  assert_int_equal(ls_nest_item(values, 1).kind, LS_KIND_NONE);
  expect_ok(ls_tensor_item(ls_nest_tensor(values, 0), &a));
  expect_ok(ls_tensor_item(ls_nest_tensor(values, 2), &b));
  assert_true(a == 3 && b == 4);
}

// ---- Without memory --------------------------------------------------------
MEMORY_TEST(call_with_a_gradient_of_its_own) {
  LS_OWN(ls_function, f) = NULL;
  ls_array *array = NULL;
  LS_RETURN_IF_ERROR(ls_function_create(
      &(ls_function_options){.call = value_and_gradient}, &f));
  ls_status status = ls_array_create(LS_DTYPE_F64, LS_SCALAR, &array);
  LS_OWN(ls_nest, result) = ls_none();
  if (ls_status_is_ok(status)) {
    ls_array_set_f64(array, 0, 3);
    LS_OWN(ls_nest, args) = LS_LIST(ls_nest_array(array));
    status = ls_nest_status(args);
    if (ls_status_is_ok(status)) status = ls_function_call(f, args, &result);
  }
  return status;
}
