// SPDX-License-Identifier: Apache-2.0
//
// What functions refuse, and what a failed op leaves.
#include "lockstep/function.h"
#include "lockstep/function_plan.h"

#include <string.h>

#include "runtime/own.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/values.h"

// ---- Refusals --------------------------------------------------------------
static ls_nest wrong_shapes(ls_nest args, void *user) {
  (void)user;
  ls_tensor sum = {0};
  {
    LS_NAME_SCOPE("layer");
    sum = ls_at_tensor(
        ls_add(ls_nest_tensor(args, 0), ls_fill(LS_DTYPE_F32, LS_SHAPE(3), 1)),
        "model.c", 12);
  }
  return ls_leaf(ls_exp(sum));
}

TEST(a_failed_op_surfaces_once_with_its_place) {
  LS_OWN(ls_function, f) = function_of(wrong_shapes, NULL);
  LS_OWN(ls_nest, args) = LS_TUPLE(vector_nest(2, (float[]){1, 2}));
  ls_nest result = {0};
  const ls_status status = ls_function_call(f, args, &result);
  assert_non_null(strstr(ls_status_message(status), "f32[2]"));
  assert_non_null(strstr(ls_status_message(status), "f32[3]"));
  assert_non_null(strstr(ls_status_message(status), "layer/add"));
  assert_non_null(strstr(ls_status_message(status), "model.c:12"));
  expect_status(status, LS_INVALID_ARGUMENT, "broadcast");
  assert_int_equal(ls_function_num_traces(f), 0);
}

static ls_nest add_items(ls_nest args, void *user) {
  const size_t *item = user;
  return ls_leaf(ls_add(ls_nest_tensor(args, 0), ls_nest_tensor(args, *item)));
}

TEST(an_item_that_is_no_tensor_is_named) {
  static const char *const texts[] = {
      "item 1 of the nest is a host scalar, f64: read it by ls_nest_number",
      "there is no item 2 in a nest of 2"};
  LS_OWN(ls_nest, args) =
      LS_TUPLE(vector_nest(2, (float[]){1, 2}), ls_nest_f64(3));
  for (size_t i = 0; i < 2; ++i) {
    size_t item = i + 1;
    LS_OWN(ls_function, f) = function_of(add_items, &item);
    ls_nest result = {0};
    expect_status(ls_function_call(f, args, &result), LS_INVALID_ARGUMENT,
                  texts[i]);
  }
}

// Looks for an optional item first.
static ls_nest add_zeroed(ls_nest args, void *user) {
  const bool *looks = user;
  if (*looks) (void)ls_nest_tensor(args, 1);
  return ls_leaf(*looks ? ls_nest_tensor(args, 0)
                        : ls_add(ls_nest_tensor(args, 0), (ls_tensor){0}));
}

TEST(an_item_missed_in_one_callback_is_not_named_in_another) {
  LS_OWN(ls_nest, args) = LS_TUPLE(vector_nest(2, (float[]){1, 2}));
  for (int looks = 1; looks >= 0; --looks) {
    bool user = looks;
    LS_OWN(ls_function, f) = function_of(add_zeroed, &user);
    LS_OWN(ls_nest, result) = ls_none();
    (void)ls_nest_tensor(args, 2);
    LS_OWN(ls_status, status) = ls_function_call(f, args, &result);
    assert_int_equal(ls_status_code(status),
                     looks ? LS_OK : LS_INVALID_ARGUMENT);
    if (!looks)
      assert_null(strstr(ls_status_message(status), "there is no item"));
  }
}

static ls_nest refuse(ls_nest args, void *user) {
  (void)args;
  (void)user;
  return LS_FAIL(LS_OUT_OF_RANGE, "no more of it");
}

TEST(a_callback_refuses_by_a_failed_nest) {
  LS_OWN(ls_function, f) = function_of(refuse, NULL);
  ls_nest result = {0};
  expect_status(ls_function_call(f, ls_none(), &result), LS_OUT_OF_RANGE,
                "no more of it");
}

static ls_tensor stolen;

static ls_nest steal(ls_nest args, void *user) {
  (void)user;
  stolen = ls_neg(ls_nest_tensor(args, 0));
  return ls_leaf(stolen);
}

static ls_nest use_stolen(ls_nest args, void *user) {
  (void)args;
  (void)user;
  return ls_leaf(ls_neg(stolen));
}

TEST(a_value_of_another_functions_graph_is_refused) {
  LS_OWN(ls_function, f) = function_of(steal, NULL);
  LS_OWN(ls_function, g) = function_of(use_stolen, NULL);
  LS_OWN(ls_nest, args) = LS_TUPLE(vector_nest(2, (float[]){1, 2}));
  LS_OWN(ls_nest, result) = call_results(f, args);
  expect_status(ls_function_call(g, ls_none(), &result), LS_INVALID_ARGUMENT,
                "not inside it");
}

static ls_nest check(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  ls_assert_true(
      ls_less(ls_reduce_max(x, LS_ALL_AXES), ls_scalar(LS_DTYPE_F32, 3)),
      "x stays below 3");
  return ls_leaf(x);
}

TEST(a_failed_assertion_fails_the_run_and_the_next_one_works) {
  LS_OWN(ls_function, f) = function_of(check, NULL);
  LS_OWN(ls_nest, good) = LS_TUPLE(vector_nest(2, (float[]){1, 2}));
  LS_OWN(ls_nest, bad) = LS_TUPLE(vector_nest(2, (float[]){1, 4}));
  LS_OWN(ls_nest, result) = call_results(f, good);
  expect_status(ls_function_call(f, bad, &result), LS_INVALID_ARGUMENT,
                "x stays below 3");
  expect_ok(ls_function_call(f, good, &result));
}
