// SPDX-License-Identifier: Apache-2.0
//
// Arguments by name, and concrete functions.
#include "lockstep/function.h"

#include "distribute/own.h"
#include "lockstep/eager.h"
#include "lockstep/function_plan.h"
#include "lockstep/gradients.h"
#include "lockstep/session.h"
#include "lockstep/strategy.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"

static int calls;

// x * scale, and the scale.
static ls_nest scaled(ls_nest args, void *user) {
  (void)user;
  ++calls;
  const ls_tensor x = ls_nest_tensor(args, 0);
  ls_tensor scale = {0};
  const ls_nest second = ls_nest_item(args, 1);
  scale = second.kind == LS_KIND_NONE ? ls_scalar(LS_DTYPE_F32, 2)
          : second.kind == LS_KIND_SCALAR
              ? ls_scalar(LS_DTYPE_F32, ls_nest_number(second))
              : ls_nest_tensor(args, 1);
  return LS_TUPLE(ls_leaf(ls_mul(x, scale)), ls_nest_i64(7));
}

static const char *const names[] = {"x", "scale"};
static const ls_parameters x_and_scale = {
    .names = names, .count = 2, .num_optional = 1};

static ls_function *declared(void) {
  ls_function *f = NULL;
  expect_ok(ls_function_create(
      &(ls_function_options){
          .call = scaled, .name = "scaled", .parameters = &x_and_scale},
      &f));
  return f;
}

// ---- Arguments by name -----------------------------------------------------
TEST(a_function_takes_arguments_by_name) {
  LS_OWN(ls_function, f) = declared();
  LS_OWN(ls_nest, result) = {0};
  LS_OWN(ls_nest, x) = LS_TUPLE(vector_nest(2, (float[]){1, 2}));
  const ls_nest three = ls_nest_f64(3);
  LS_OWN(ls_nest, named) = ls_nest_dict("", &names[1], &three, 1);
  expect_ok(ls_function_call_named(f, x, named, &result));
  assert_true(nest_element(ls_nest_item(result, 0), 1) == 6);
  expect_ok(ls_function_call(f, x, &result));
  assert_true(nest_element(ls_nest_item(result, 0), 1) == 4);
  LS_OWN(ls_nest, many) =
      LS_TUPLE(vector_nest(1, (float[]){1}), ls_nest_i64(2), ls_nest_i64(3));
  expect_status(ls_function_call(f, many, &result), LS_INVALID_ARGUMENT,
                "too many positional arguments for scaled");
}

TEST(a_strategy_takes_them_for_both_kinds_of_callables) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_function, f) = declared();
  LS_OWN(ls_nest, x) = LS_TUPLE(ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(2), 2)));
  const ls_nest three = ls_nest_f64(3);
  LS_OWN(ls_nest, named) = ls_nest_dict("", &names[1], &three, 1);
  const ls_run_options options = {.named = named};
  ls_callable plain = ls_plain(scaled, NULL);
  plain.parameters = &x_and_scale;
  const ls_callable both[] = {ls_traced(f), plain};
  for (size_t i = 0; i < 2; ++i) {
    LS_OWN(ls_nest, result) = {0};
    LS_OWN(ls_nest, own) = {0};
    expect_ok(ls_strategy_run_with(strategy, both[i], x, &options, &result));
    expect_ok(ls_strategy_replica_result(strategy, result, 1, &own));
    ls_array *array = NULL;
    const ls_nest first = ls_nest_item(own, 0);
    if (first.kind == LS_KIND_TENSOR) {
      expect_ok(ls_tensor_value(first.as.tensor, &array));
      assert_true(ls_array_f64(array, 1) == 6);
      ls_array_release(array);
    } else {
      assert_true(nest_element(first, 1) == 6);
    }
  }
}

// ---- Concrete functions ----------------------------------------------------
static ls_function *concrete_of_two(void) {
  LS_OWN(ls_function, f) = declared();
  ls_function *concrete = NULL;
  LS_OWN(ls_nest, args) = LS_TUPLE(vector_nest(2, (float[]){0, 0}));
  calls = 0;
  expect_ok(ls_function_make_concrete(f, args, &concrete));
  assert_int_equal(calls, 1);
  return concrete;
}

TEST(a_concrete_function_is_never_traced_again) {
  LS_OWN(ls_function, concrete) = concrete_of_two();
  LS_OWN(ls_nest, x) = LS_TUPLE(vector_nest(2, (float[]){1, 2}));
  LS_OWN(ls_nest, result) = {0};
  for (int i = 0; i < 2; ++i) {
    expect_ok(ls_function_call(concrete, x, &result));
    assert_true(nest_element(ls_nest_item(result, 0), 1) == 4);
    assert_true(ls_nest_number(ls_nest_item(result, 1)) == 7);
    ls_function_clear(concrete);
  }
  assert_int_equal(calls, 1);
}

static ls_nest twice(ls_nest args, void *user) {
  ls_nest result = {0};
  const ls_status status = ls_function_call(user, args, &result);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  LS_OWN(ls_nest, again) = LS_TUPLE(ls_nest_retain(ls_nest_item(result, 0)));
  ls_nest_release(result);
  ls_nest last = {0};
  const ls_status second = ls_function_call(user, again, &last);
  return ls_status_is_ok(second) ? last : ls_fail(second);
}

TEST(it_is_copied_into_functions_and_replicas) {
  LS_OWN(ls_function, concrete) = concrete_of_two();
  LS_OWN(ls_function, outer) = function_of(twice, concrete);
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_nest, x) = LS_TUPLE(vector_nest(2, (float[]){1, 2}));
  LS_OWN(ls_nest, own) = {0};
  LS_OWN(ls_nest, result) = call_results(outer, x);
  assert_true(nest_element(ls_nest_item(result, 0), 1) == 8);
  ls_nest_release(result);
  result = ls_none();
  expect_ok(ls_strategy_run(strategy, ls_traced(concrete), x, &result));
  expect_ok(ls_strategy_replica_result(strategy, result, 1, &own));
  assert_true(nest_element(ls_nest_item(own, 0), 1) == 4);
  assert_int_equal(calls, 1);
}

// The argument plus the replica's number, on each replica of `user`.
static ls_nest add_number(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_add(ls_nest_tensor(args, 0),
                        ls_convert(ls_replica_id(), LS_DTYPE_F32)));
}
static ls_nest run_replicas(ls_nest args, void *user) {
  ls_nest made = ls_none();
  const ls_status status =
      ls_strategy_run(user, ls_plain(add_number, NULL), args, &made);
  return ls_status_is_ok(status)
             ? LS_TUPLE(made, ls_leaf(ls_nest_tensor(args, 0)))
             : ls_fail(status);
}

TEST(it_returns_values_of_replicas) {
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_function, f) = function_of(run_replicas, two);
  LS_OWN(ls_function, concrete) = NULL;
  LS_OWN(ls_nest, x) = LS_TUPLE(vector_nest(2, (float[]){1, 2}));
  expect_ok(ls_function_make_concrete(f, x, &concrete));
  LS_OWN(ls_nest, result) = call_results(concrete, x);
  const ls_nest each = ls_nest_item(result, 0);
  assert_int_equal(ls_distributed_count(each), 2);
  for (size_t r = 0; r < 2; ++r)
    assert_true(nest_element(ls_distributed_component(each, r), 1) ==
                2 + (double)r);
  assert_true(nest_element(ls_nest_item(result, 1), 0) == 1);
}

TEST(it_is_copied_into_a_graph_with_a_session) {
  LS_OWN(ls_function, concrete) = concrete_of_two();
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_OWN(ls_session, session) = NULL;
  LS_OWN(ls_nest, made) = {0};
  {
    LS_GRAPH_SCOPE(graph);
    LS_OWN(ls_nest, x) =
        LS_TUPLE(ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(2), 3)));
    expect_ok(ls_function_call(concrete, x, &made));
  }
  expect_ok(ls_session_create(graph, &session));
  LS_OWN(ls_nest, result) = session_results(session, ls_nest_item(made, 0));
  assert_true(nest_element(result, 1) == 6);
  assert_int_equal(calls, 1);
}

TEST(other_arguments_are_refused_by_name) {
  LS_OWN(ls_function, concrete) = concrete_of_two();
  ls_nest result = {0};
  LS_OWN(ls_nest, longer) = LS_TUPLE(vector_nest(3, (float[]){1, 2, 3}));
  expect_status(ls_function_call(concrete, longer, &result),
                LS_INVALID_ARGUMENT,
                "concrete function 'scaled' takes f32[2] as leaf 0");
  LS_OWN(ls_nest, valued) =
      LS_TUPLE(vector_nest(2, (float[]){1, 2}), ls_nest_i64(3));
  expect_status(ls_function_call(concrete, valued, &result),
                LS_INVALID_ARGUMENT, "another value of leaf 1");
}

TEST(it_is_made_in_eager_of_one_replicas_arguments) {
  ls_function *f = declared(), *concrete = NULL;
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    expect_status(ls_function_make_concrete(f, ls_none(), &concrete),
                  LS_FAILED_PRECONDITION, "graph 'g' is being built");
  }
  const ls_nest parts[] = {vector_nest(1, (float[]){1}),
                           vector_nest(1, (float[]){2})};
  LS_OWN(ls_nest, args) =
      LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, parts, 2));
  expect_status(ls_function_make_concrete(f, args, &concrete),
                LS_INVALID_ARGUMENT, "leaf 0 of the arguments is distributed");
  assert_null(concrete);
  ls_function_release(f);
}

TEST(a_tape_sees_through_it) {
  LS_OWN(ls_function, concrete) = concrete_of_two();
  LS_OWN(ls_tape, tape) = NULL;
  LS_OWN(ls_nest, gradient) = {0};
  const ls_tensor x = ls_fill(LS_DTYPE_F32, LS_SHAPE(2), 3);
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_leaf(x));
  const ls_nest xs = ls_leaf(x);
  expect_ok(ls_tape_begin(&tape));
  expect_ok(ls_tape_watch(tape, x));
  LS_OWN(ls_nest, y) = call_results(concrete, args);
  expect_ok(ls_tape_end(tape));
  expect_ok(ls_tape_gradients(tape, ls_nest_item(y, 0), &xs, 1, &gradient));
  LS_OWN(ls_array, array) = tensor_array(gradient.as.tensor);
  assert_true(ls_array_f64(array, 1) == 2);
}
