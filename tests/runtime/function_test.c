// SPDX-License-Identifier: Apache-2.0
#include "lockstep/function.h"

#include "lockstep/eager.h"
#include "lockstep/function_plan.h"
#include "runtime/own.h"
#include "support/counted.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/values.h"

// ---- Helpers ---------------------------------------------------------------

// ---- Traces ----------------------------------------------------------------
static int traced;

static ls_nest doubled(ls_nest args, void *user) {
  (void)user;
  ++traced;
  return ls_leaf(ls_mul_scalar(ls_nest_tensor(args, 0), 2));
}

TEST(a_function_is_traced_once_per_signature) {
  LS_OWN(ls_function, f) = function_of(doubled, NULL);
  LS_OWN(ls_nest, two) = LS_TUPLE(vector_nest(2, (float[]){1, 2}));
  LS_OWN(ls_nest, three) = LS_TUPLE(vector_nest(3, (float[]){1, 2, 3}));
  LS_OWN(ls_nest, result) = {0};
  traced = 0;
  for (int i = 0; i < 3; ++i) {
    expect_ok(ls_function_call(f, two, &result));
    assert_true(nest_element(result, 1) == 4);
  }
  assert_int_equal(traced, 1);
  expect_ok(ls_function_call(f, three, &result));
  assert_true(nest_element(result, 2) == 6);
  assert_int_equal(traced, 2);
  expect_ok(ls_function_call(f, two, &result));
  assert_int_equal(traced, 2);
  assert_int_equal(ls_function_num_traces(f), 2);
  ls_function_clear(f);
  expect_ok(ls_function_call(f, two, &result));
  assert_int_equal(traced, 3);
}

static ls_nest scaled(ls_nest args, void *user) {
  (void)user;
  ++traced;
  return ls_leaf(
      ls_mul_scalar(ls_nest_tensor(args, 0), ls_nest_item(args, 1).as.f64));
}

TEST(host_scalars_are_part_of_the_signature_by_value) {
  LS_OWN(ls_function, f) = function_of(scaled, NULL);
  LS_OWN(ls_nest, result) = {0};
  traced = 0;
  static const double factors[] = {2, 3, 2, 3, 0.5};
  for (size_t i = 0; i < 5; ++i) {
    LS_OWN(ls_nest, args) =
        LS_TUPLE(vector_nest(1, (float[]){4}), ls_nest_f64(factors[i]));
    expect_ok(ls_function_call(f, args, &result));
    assert_true(nest_element(result, 0) == 4 * factors[i]);
  }
  assert_int_equal(traced, 3);
}

static int warnings;

static void check_warning(void *user, const ls_log_line *line) {
  (void)user;
  if (line->level != LS_LOG_WARNING) return;
  ++warnings;
  assert_non_null(strstr(line->text, "function 'f' was traced for 16 values of "
                                     "a host scalar in argument 1: pass an "));
}

static void scale_often(ls_function *f, int first, int end) {
  LS_OWN(ls_nest, result) = {0};
  for (int i = first; i < end; ++i) {
    LS_OWN(ls_nest, args) =
        LS_TUPLE(vector_nest(1, (float[]){4}), ls_nest_f64(i));
    expect_ok(ls_function_call(f, args, &result));
    assert_true(nest_element(result, 0) == 4.0 * i);
  }
}

TEST(a_function_traced_for_many_host_scalars_warns_once) {
  ls_runtime *runtime = NULL;
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){.threads = 1, .log = check_warning}, &runtime));
  ls_runtime *before = ls_runtime_make_current(runtime);
  ls_function *f = function_of(scaled, NULL);
  traced = warnings = 0;
  scale_often(f, 0, 15);
  assert_int_equal(warnings, 0);
  for (int pass = 0; pass < 2; ++pass)  // All are found again.
    scale_often(f, 0, 300);
  assert_int_equal(warnings, 1);
  assert_int_equal(traced, 300);
  ls_function_clear(f);
  scale_often(f, 0, 2);
  assert_int_equal(traced, 302);
  ls_function_release(f);
  ls_runtime_make_current(before);
  expect_ok(ls_runtime_destroy(runtime));
}

TEST(results_are_filled_in_place_unless_somebody_holds_them) {
  LS_OWN(ls_function, f) = function_of(doubled, NULL);
  LS_OWN(ls_nest, args) = LS_TUPLE(vector_nest(2, (float[]){1, 2}));
  LS_OWN(ls_nest, result) = call_results(f, args);
  LS_OWN(ls_array, first) = ls_nest_as_array(result);
  expect_ok(ls_function_call(f, args, &result));
  assert_ptr_equal(ls_nest_as_array(result), first);
  ls_array_retain(first);
  expect_ok(ls_function_call(f, args, &result));
  assert_ptr_not_equal(ls_nest_as_array(result), first);
  assert_true(ls_array_f64(first, 1) == 4);
}

// ---- Effects ---------------------------------------------------------------
static ls_nest count_up(ls_nest args, void *user) {
  (void)args;
  ls_variable_assign_add(user, ls_scalar(LS_DTYPE_F32, 1));
  ls_variable_assign(user, ls_mul_scalar(ls_variable_read(user), 2));
  return ls_none();
}

TEST(every_effect_runs_at_each_call_in_order) {
  LS_OWN(ls_variable, v) = f32_variable("v", 1);
  LS_OWN(ls_function, f) = function_of(count_up, v);
  LS_OWN(ls_nest, result) = {0};
  double want = 1;
  for (int i = 0; i < 4; ++i) {
    expect_ok(ls_function_call(f, ls_none(), &result));
    want = (want + 1) * 2;
    LS_OWN(ls_array, value) = variable_array(v);
    assert_true(ls_array_f64(value, 0) == want);
  }
}

static ls_nest swap(ls_nest args, void *user) {
  (void)args;
  ls_variable **v = user;
  const ls_tensor a = ls_variable_read(v[0]), b = ls_variable_read(v[1]);
  ls_variable_assign(v[0], b);
  ls_variable_assign(v[1], a);
  return LS_TUPLE(ls_leaf(a), ls_leaf(b));
}

TEST(a_read_keeps_its_value_when_the_variable_changes) {
  ls_variable *v[] = {f32_variable("a", 3), f32_variable("b", 5)};
  LS_OWN(ls_function, f) = function_of(swap, v);
  LS_OWN(ls_nest, result) = call_results(f, ls_none());
  assert_true(nest_element(ls_nest_item(result, 0), 0) == 3);
  assert_true(nest_element(ls_nest_item(result, 1), 0) == 5);
  expect_ok(ls_function_call(f, ls_none(), &result));
  assert_true(nest_element(ls_nest_item(result, 0), 0) == 5);
  assert_true(nest_element(ls_nest_item(result, 1), 0) == 3);
  ls_variable_release(v[0]);
  ls_variable_release(v[1]);
}

// ---- Control flow ----------------------------------------------------------
static ls_nest below_limit(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(
      ls_less(ls_nest_tensor(values, 0), ls_scalar_i64(LS_DTYPE_I32, 10)));
}

static ls_nest add_and_write(ls_nest values, void *user) {
  const ls_tensor i = ls_nest_tensor(values, 0),
                  sum = ls_nest_tensor(values, 1);
  ls_variable_assign_add(user, ls_scalar(LS_DTYPE_F32, 1));
  return LS_TUPLE(ls_leaf(ls_add(i, ls_scalar_i64(LS_DTYPE_I32, 1))),
                  ls_leaf(ls_add(sum, ls_variable_read(user))));
}

static ls_nest loop(ls_nest args, void *user) {
  return ls_while(below_limit, add_and_write, user,
                  LS_TUPLE(ls_nest_item(args, 0), ls_nest_item(args, 1)), 0);
}

TEST(a_loop_carries_values_and_variables) {
  LS_OWN(ls_variable, v) = f32_variable("v", 0);
  LS_OWN(ls_function, f) = function_of(loop, v);
  ls_array *start = NULL, *sum = NULL;
  expect_ok(ls_array_create(LS_DTYPE_I32, LS_SCALAR, &start));
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SCALAR, &sum));
  ls_array_set_i64(start, 0, 6);
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_array(start), ls_nest_array(sum));
  LS_OWN(ls_nest, result) = call_results(f, args);
  assert_true(nest_element(ls_nest_item(result, 0), 0) == 10);
  assert_true(nest_element(ls_nest_item(result, 1), 0) == 1 + 2 + 3 + 4);
  expect_ok(ls_function_call(f, args, &result));
  assert_true(nest_element(ls_nest_item(result, 1), 0) == 5 + 6 + 7 + 8);
  ls_array_set_i64(start, 0, 12);  // No trip at all.
  expect_ok(ls_function_call(f, args, &result));
  assert_true(nest_element(ls_nest_item(result, 0), 0) == 12);
  assert_true(nest_element(ls_nest_item(result, 1), 0) == 0);
}

typedef struct branch_user {
  ls_variable *variable;
  ls_tensor x;
} branch_user;

static ls_nest write_x(ls_nest none, void *user) {
  (void)none;
  const branch_user *u = user;
  return ls_leaf(ls_variable_assign(u->variable, u->x));
}

static ls_nest negate_x(ls_nest none, void *user) {
  (void)none;
  return ls_leaf(ls_neg(((const branch_user *)user)->x));
}

static ls_nest branch(ls_nest args, void *user) {
  branch_user u = {.variable = user, .x = ls_nest_tensor(args, 0)};
  const ls_tensor positive = ls_greater(u.x, ls_scalar(LS_DTYPE_F32, 0));
  return ls_cond(positive, write_x, negate_x, &u);
}

TEST(only_the_branch_taken_has_its_effect) {
  LS_OWN(ls_variable, v) = f32_variable("v", 7);
  LS_OWN(ls_function, f) = function_of(branch, v);
  ls_array *x = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SCALAR, &x));
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_array(x));
  ls_array_set_f64(x, 0, -2);
  LS_OWN(ls_nest, result) = call_results(f, args);
  assert_true(nest_element(result, 0) == 2);
  ls_array *value = variable_array(v);
  assert_true(ls_array_f64(value, 0) == 7);
  ls_array_release(value);
  ls_array_set_f64(x, 0, 5);
  expect_ok(ls_function_call(f, args, &result));
  assert_true(nest_element(result, 0) == 5);
  expect_ok(ls_variable_value(v, &value));
  assert_true(ls_array_f64(value, 0) == 5);
  ls_array_release(value);
}

// ---- Around it -------------------------------------------------------------
static ls_nest outer_call(ls_nest args, void *user) {
  ls_nest inner = {0};
  const ls_status status = ls_function_call(user, args, &inner);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const ls_nest result = ls_leaf(ls_neg(ls_nest_tensor(inner, 0)));
  ls_nest_release(inner);
  return result;
}

TEST(a_function_called_in_a_trace_becomes_part_of_it) {
  LS_OWN(ls_function, f) = function_of(doubled, NULL);
  LS_OWN(ls_function, g) = function_of(outer_call, f);
  LS_OWN(ls_nest, args) = LS_TUPLE(vector_nest(2, (float[]){1, 2}));
  LS_OWN(ls_nest, result) = call_results(g, args);
  assert_true(nest_element(result, 1) == -4);
  assert_int_equal(ls_function_num_traces(f), 0);
}

static ls_nest add_captured(ls_nest args, void *user) {
  return ls_leaf(ls_add(ls_nest_tensor(args, 0), *(ls_tensor *)user));
}

TEST(an_eager_value_is_captured_as_it_is_at_the_trace) {
  ls_tensor captured = ls_scalar(LS_DTYPE_F32, 10);
  LS_OWN(ls_function, f) = function_of(add_captured, &captured);
  LS_OWN(ls_nest, args) = LS_TUPLE(vector_nest(1, (float[]){1}));
  LS_OWN(ls_nest, result) = call_results(f, args);
  captured = ls_scalar(LS_DTYPE_F32, 20);
  expect_ok(ls_function_call(f, args, &result));
  assert_true(nest_element(result, 0) == 11);
}

static ls_nest draw(ls_nest args, void *user) {
  (void)args;
  (void)user;
  const ls_shape shape = LS_SHAPE(4);
  return LS_TUPLE(
      ls_leaf(ls_random_uniform(LS_DTYPE_F32, shape, 0, 1, NULL)),
      ls_leaf(ls_random_uniform(LS_DTYPE_F32, shape, 0, 1, NULL)),
      ls_leaf(ls_random_uniform(LS_DTYPE_F32, shape, 0, 1,
                                &(ls_random_options){.fixed = true})));
}

TEST(random_ops_draw_by_stream_and_step) {
  LS_OWN(ls_function, f) = function_of(draw, NULL);
  LS_OWN(ls_function, g) = function_of(draw, NULL);
  LS_OWN(ls_nest, first) = call_results(f, ls_none());
  LS_OWN(ls_nest, second) = call_results(f, ls_none());
  LS_OWN(ls_nest, other) = call_results(g, ls_none());
  assert_true(nest_element(ls_nest_item(first, 0), 0) !=
              nest_element(ls_nest_item(first, 1), 0));
  assert_true(nest_element(ls_nest_item(first, 0), 0) !=
              nest_element(ls_nest_item(second, 0), 0));
  assert_true(nest_element(ls_nest_item(first, 2), 0) ==
              nest_element(ls_nest_item(second, 2), 0));
  for (int64_t i = 0; i < 4; ++i)
    assert_true(nest_element(ls_nest_item(first, 0), i) ==
                nest_element(ls_nest_item(other, 0), i));
}

TEST(a_function_goes_on_at_the_step_it_is_set_to) {
  LS_OWN(ls_function, f) = function_of(draw, NULL);
  LS_OWN(ls_function, g) = function_of(draw, NULL);
  LS_OWN(ls_nest, third) = {0};
  for (int i = 0; i < 3; ++i)
    expect_ok(ls_function_call(f, ls_none(), &third));
  assert_int_equal(ls_function_steps(f), 3);
  ls_function_set_steps(g, 2);
  LS_OWN(ls_nest, again) = call_results(g, ls_none());
  assert_int_equal(ls_function_steps(g), 3);
  for (int64_t i = 0; i < 4; ++i)
    assert_true(nest_element(ls_nest_item(third, 0), i) ==
                nest_element(ls_nest_item(again, 0), i));
}

TEST(discarded_functions_free_their_variables) {
  LS_OWN(counted, memory) = counted_begin(1);
  uint64_t settled = 0;
  for (int i = 0; i < 20; ++i) {
    expect_ok(ls_frame_begin());
    ls_variable *v = f32_variable("v", 1);
    ls_function *f = function_of(count_up, v);
    ls_nest_release(call_results(f, ls_none()));
    ls_function_release(f);
    ls_variable_release(v);
    expect_ok(ls_frame_end(NULL));
    const uint64_t live = counted_now(&memory).live_bytes;
    if (i == 9) settled = live;
    if (i > 9) assert_true(live <= settled);
  }
}
