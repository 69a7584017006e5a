// SPDX-License-Identifier: Apache-2.0
//
// Callbacks that pass nests by pointer, in place of each type of callback.
#include "lockstep/foreign.h"

#include <string.h>

#include "data/dataset.h"
#include "distribute/own.h"
#include "lockstep/eager.h"
#include "lockstep/estimator_functions.h"
#include "lockstep/function.h"
#include "lockstep/gradients.h"
#include "support/replicas.h"

// A foreign function returns -x of its first argument, or what `user` says.
static void negate_args(const ls_nest *args, void *context, void *user,
                        ls_nest *out_result) {
  (void)context;
  (void)user;
  assert_int_equal(out_result->kind, LS_KIND_NONE);
  *out_result = ls_leaf(ls_neg(ls_nest_tensor(args[0], 0)));
}

static void sum_numbers(const ls_nest *args, void *context, void *user,
                        ls_nest *out_result) {
  (void)context;
  double sum = 0;
  for (int i = 0; i < *(int *)user; ++i)
    sum += ls_nest_number(args[i]);
  *out_result = ls_nest_f64(sum);
}

static void refuse(const ls_nest *args, void *context, void *user,
                   ls_nest *out_result) {
  (void)args;
  (void)context;
  *out_result = LS_FAIL(LS_ABORTED, "%s", (const char *)user);
}

static void keep_context(const ls_nest *args, void *context, void *user,
                         ls_nest *out_result) {
  (void)args;
  (void)out_result;
  *(void **)user = context;
}

TEST(a_function_by_pointer_is_traced_and_refuses) {
  ls_foreign_call negate = {.call = negate_args};
  LS_OWN(ls_function, function) = NULL;
  expect_ok(ls_function_create(
      &(ls_function_options){.call = ls_foreign_callback, .user = &negate},
      &function));
  LS_OWN(ls_nest, result) = ls_none();
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_zeros(LS_DTYPE_F32, LS_SCALAR));
  ls_array_set_f64(ls_nest_as_array(ls_nest_item(args, 0)), 0, 3);
  for (int i = 0; i < 2; ++i) {
    expect_ok(ls_function_call(function, args, &result));
    assert_true(ls_nest_number(result) == -3);
  }
  ls_foreign_call no = {.call = refuse, .user = "not today"};
  LS_OWN(ls_function, refused) = NULL;
  expect_ok(ls_function_create(
      &(ls_function_options){.call = ls_foreign_callback, .user = &no},
      &refused));
  expect_status(ls_function_call(refused, args, &result), LS_ABORTED,
                "not today");
}

// The two callbacks of a loop, a branch and a custom gradient.
static void is_below_ten(const ls_nest *args, void *context, void *user,
                         ls_nest *out_result) {
  (void)context;
  (void)user;
  *out_result =
      ls_leaf(ls_less(ls_nest_tensor(args[0], 0), ls_scalar(LS_DTYPE_F32, 10)));
}

static void double_args(const ls_nest *args, void *context, void *user,
                        ls_nest *out_result) {
  (void)context;
  (void)user;
  *out_result = ls_leaf(ls_mul_scalar(ls_nest_tensor(args[0], 0), 2));
}

// Returns the gradient of the output times the input plus the output.
static void mix_gradient(const ls_nest *args, void *context, void *user,
                         ls_nest *out_result) {
  (void)context;
  (void)user;
  *out_result = ls_leaf(
      ls_mul(ls_nest_tensor(args[2], 0),
             ls_add(ls_nest_tensor(args[0], 0), ls_nest_tensor(args[1], 0))));
}

static ls_nest use_two(ls_nest args, void *user) {
  (void)user;
  static ls_foreign_call loop[] = {{.call = is_below_ten},
                                   {.call = double_args}};
  static ls_foreign_call own[] = {{.call = double_args},
                                  {.call = mix_gradient}};
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_nest looped = ls_while(
      ls_foreign_callback, ls_foreign_callback_second, loop, ls_leaf(x), 0);
  const ls_nest y = ls_custom_gradient(
      ls_foreign_callback, ls_foreign_gradient_second, own, ls_leaf(x));
  const ls_nest xs[] = {ls_leaf(x)};
  ls_nest gradient = ls_none();
  const ls_status status = ls_gradients(&y, 1, xs, 1, NULL, &gradient);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  return LS_TUPLE(looped, y, gradient);
}

TEST(two_callbacks_share_an_array_of_calls) {
  LS_OWN(ls_function, function) = NULL;
  expect_ok(
      ls_function_create(&(ls_function_options){.call = use_two}, &function));
  LS_OWN(ls_nest, result) = ls_none();
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_zeros(LS_DTYPE_F32, LS_SCALAR));
  ls_array_set_f64(ls_nest_as_array(ls_nest_item(args, 0)), 0, 3);
  expect_ok(ls_function_call(function, args, &result));
  assert_true(ls_nest_number(ls_nest_item(result, 0)) == 12);
  assert_true(ls_nest_number(ls_nest_item(result, 1)) == 6);
  assert_true(ls_nest_number(ls_nest_item(result, 2)) == 9);
}

TEST(losses_and_schedules_return_a_tensor) {
  ls_foreign_call negate = {.call = negate_args},
                  no = {.call = refuse, .user = ""};
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_leaf(ls_scalar(LS_DTYPE_F64, 2)));
  double value = 0;
  expect_ok(ls_tensor_item(ls_foreign_loss(args, &negate), &value));
  assert_true(value == -2);
  expect_ok(ls_tensor_item(
      ls_foreign_schedule(ls_scalar(LS_DTYPE_F64, 5), &negate), &value));
  assert_true(value == -5);
  assert_true(ls_tensor_is_failed(ls_foreign_loss(args, &no)));
}

TEST(numbers_come_as_scalars) {
  int one = 1, two = 2;
  ls_foreign_call sum = {.call = sum_numbers, .user = &one},
                  both = {.call = sum_numbers, .user = &two};
  assert_true(ls_nest_number(ls_foreign_make(&sum, 7)) == 7);
  assert_true(ls_nest_number(ls_foreign_value(3, 4, &both)) == 7);
}

TEST(what_is_no_nest_is_the_context) {
  void *seen = NULL;
  ls_foreign_call keep = {.call = keep_context, .user = &seen};
  ls_input_call input = {.mode = 0};
  ls_foreign_input(&keep, &input);
  assert_ptr_equal(seen, &input);
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  ls_foreign_merge(strategy, ls_none(), &keep);
  assert_ptr_equal(seen, strategy);
  ls_foreign_step(NULL, ls_none(), &keep);
  assert_null(seen);
  ls_foreign_dataset((ls_input_context){.num_pipelines = 1}, &keep);
  assert_non_null(seen);
}

// Returns the number of the element.
static void give_id(const ls_nest *args, void *context, void *user,
                    ls_nest *out_result) {
  (void)args;
  (void)user;
  *out_result = ls_nest_zeros(LS_DTYPE_I64, LS_SCALAR);
  ls_array_set_i64(ls_nest_as_array(*out_result), 0,
                   10 * ((const ls_map_call *)context)->id);
}

TEST(a_map_gets_facts_about_its_element) {
  ls_foreign_call give = {.call = give_id};
  ls_dataset *numbers =
      ls_dataset_map(ls_dataset_range(5, 8, 1),
                     &(ls_map_options){.call = ls_foreign_map, .user = &give});
  LS_OWN(ls_iterator, iterator) = NULL;
  expect_ok(ls_iterator_create(numbers, NULL, &iterator));
  LS_OWN(ls_nest, element) = ls_none();
  for (int i = 0; i < 3; ++i) {
    expect_ok(ls_iterator_next(iterator, &element));
    assert_true(ls_nest_number(element) == 10 * i);
  }
  ls_dataset_release(numbers);
}

// ---- Languages with one stack ----------------------------------------------
static ls_nest merge_first(ls_strategy *strategy, ls_nest args, void *user) {
  (void)strategy;
  (void)user;
  return ls_nest_retain(ls_nest_item(args, 0));
}

static void call_merge(const ls_nest *args, void *context, void *user,
                       ls_nest *out_result) {
  (void)context;
  (void)user;
  *out_result =
      ls_replica_merge_call(ls_replica_context(), merge_first, args[0], NULL);
}

TEST(a_callback_that_cannot_be_paused_makes_no_merge_call) {
  for (int replicas = 1; replicas <= 2; ++replicas)
    for (int one_stack = 0; one_stack <= 1; ++one_stack) {
      LS_OWN(ls_strategy, strategy) = mirrored_of(replicas);
      ls_foreign_call merge = {.call = call_merge, .one_stack = one_stack != 0};
      LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_f64(1));
      LS_OWN(ls_nest, result) = ls_none();
      const ls_callable callable = ls_plain(ls_foreign_callback, &merge);
      if (replicas > 1 && one_stack != 0)
        expect_status(ls_strategy_run(strategy, callable, args, &result),
                      LS_UNIMPLEMENTED, "cannot pause");
      else
        expect_ok(ls_strategy_run(strategy, callable, args, &result));
    }
}

TEST(declarations_name_all_that_is_public) {
  const char *text = ls_declarations();
  static const char *const parts[] = {
      "typedef enum ls_code {\nLS_OK = 0,", "ls_tensor ls_relu(ls_tensor x);",
      "typedef ls_nest (*ls_callback)(ls_nest args, void *user);",
      "LS_OP_RELU,", "ls_train(const ls_train_options *options,"};
  for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); ++i)
    expect_contains(text, parts[i]);
  assert_null(strstr(text, "inline"));
  assert_null(strchr(text, '#'));
}
