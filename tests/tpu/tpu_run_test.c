// SPDX-License-Identifier: Apache-2.0
//
// Runs of TPU strategies: what is accepted, how arguments reach the replicas,
// and what comes back.
#include <string.h>

#include "distribute/own.h"
#include "lockstep/flow.h"
#include "lockstep/function_plan.h"
#include "lockstep/gradients.h"
#include "lockstep/ops.h"
#include "lockstep/regroup.h"
#include "lockstep/replicate.h"
#include "support/callbacks.h"
#include "support/computation.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/spec.h"
#include "support/tpu_strategies.h"

static ls_nest per_replica(int count, double first) {
  ls_nest items[8];
  for (int r = 0; r < count; ++r)
    items[r] = ls_nest_array(
        array_of(LS_DTYPE_F32, LS_SCALAR, (const double[]){first + r}));
  return ls_nest_distributed(LS_PER_REPLICA, items, (size_t)count);
}

static double part(ls_nest value, size_t replica) {
  return ls_nest_number(ls_distributed_count(value) > 0
                            ? ls_distributed_component(value, replica)
                            : value);
}

// ---- What is accepted ------------------------------------------------------
static int num_calls;
static ls_nest add_one(ls_nest args, void *user) {
  (void)user;
  ++num_calls;
  return ls_leaf(ls_add(ls_nest_tensor(args, 0), f32_of(1)));
}

TEST(a_plain_callback_needs_a_graph) {
  LS_SPEC("T57 T58 T73");
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  const ls_nest args = LS_TUPLE(per_replica(2, 1));
  ls_nest result = ls_none();
  num_calls = 0;
  const ls_status status =
      ls_strategy_run(s, ls_plain(add_one, NULL), args, &result);
  assert_non_null(strstr(ls_status_message(status), "ls_strategy_run"));
  expect_status(status, LS_UNIMPLEMENTED, "wrap the callback");
  assert_int_equal(num_calls, 0);
  ls_nest_release(args);
  // In a graph it is called at each run, once for all replicas.
  LS_OWN_BEGUN(computation, c, computation_open);
  for (int run = 1; run <= 2; ++run) {
    LS_OWN(ls_nest, given) = LS_TUPLE(ls_nest_distributed(
        LS_PER_REPLICA,
        (const ls_nest[]){ls_leaf(f32_of(4)), ls_leaf(f32_of(5))}, 2));
    expect_ok(ls_strategy_run(s, ls_plain(add_one, NULL), given, &c.outputs));
    assert_int_equal(num_calls, run);
    for (size_t r = 0; r < 2; ++r)
      assert_true(computation_fetch(
                      &c, ls_distributed_component(c.outputs, r).as.tensor) ==
                  (double)r + 5);
  }
  op_named(c.graph, "cluster_1/pivot");
}

// ---- Under a tape ----------------------------------------------------------
static ls_nest multiply(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_mul(ls_nest_tensor(args, 0), ls_nest_tensor(args, 1)));
}

typedef struct inner_run {
  ls_strategy *strategy;
  ls_callable callable;
} inner_run;

static ls_nest run_inside(ls_nest args, void *user) {
  const inner_run *run = user;
  ls_nest made = ls_none();
  const ls_status status =
      ls_strategy_run(run->strategy, run->callable, args, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

// A plain callback is run by a traced function; numbers become tensors.
TEST(a_tape_refuses_no_run) {
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  LS_OWN(ls_function, traced) = function_of(multiply, NULL);
  inner_run plain = {s, ls_plain(multiply, NULL)};
  LS_OWN(ls_function, outer) = function_of(run_inside, &plain);
  LS_OWN(ls_nest, args) = LS_TUPLE(per_replica(2, 1), ls_nest_f64(3));
  for (int taped = 0; taped < 2; ++taped) {
    LS_OWN(ls_nest, by_traced) = ls_none();
    LS_OWN(ls_nest, by_plain) = ls_none();
    LS_OWN(ls_nest, refused) = ls_none();
    LS_OWN(ls_tape, tape) = NULL;
    if (taped) expect_ok(ls_tape_begin(&tape));
    expect_ok(ls_strategy_run(s, ls_traced(traced), args, &by_traced));
    expect_ok(ls_function_call(outer, args, &by_plain));
    expect_status(ls_strategy_run(s, plain.callable, args, &refused),
                  LS_UNIMPLEMENTED, "wrap the callback");
    if (taped) expect_ok(ls_tape_end(tape));
    expect_numbers(by_traced, (const double[]){3, 6}, 2);
    expect_numbers(by_plain, (const double[]){3, 6}, 2);
  }
}

// ---- Gradients outside of the replicas -------------------------------------
static ls_nest square(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  return ls_leaf(ls_mul(x, x));
}

static void a_gradient_is_refused(ls_strategy *strategy) {
  LS_OWN(ls_function, traced) = function_of(square, NULL);
  LS_OWN_BEGUN(computation, c, computation_open);
  const ls_nest xs[] = {ls_leaf(f32_of(2)), ls_leaf(f32_of(3))};
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, xs, 2));
  LS_OWN(ls_nest, sum) = ls_none();
  ls_nest gradients[2];
  expect_ok(ls_strategy_run(strategy, ls_traced(traced), args, &c.outputs));
  expect_ok(ls_strategy_reduce(strategy, LS_REDUCE_SUM, c.outputs, &sum));
  expect_status(ls_gradients(&sum, 1, xs, 2, NULL, gradients), LS_NOT_FOUND,
                "take the gradient in the replicas' callback");
}

TEST(a_gradient_does_not_pass_traced_replicas) {
  LS_OWN(ls_strategy, tpu) = tpu_strategy_of(2);
  LS_OWN(ls_strategy, mirrored) = mirrored_of(2);
  a_gradient_is_refused(tpu);
  a_gradient_is_refused(mirrored);
}

TEST(a_traced_function_is_traced_once) {
  LS_SPEC("T72 T75 T108 T112");
  for (int replicas = 1; replicas <= 4; replicas *= 2) {
    LS_OWN(ls_strategy, s) = tpu_strategy_of(replicas);
    LS_OWN(ls_function, f) = function_of(add_one, NULL);
    LS_OWN(ls_nest, args) = LS_TUPLE(per_replica(replicas, 1));
    LS_OWN(ls_nest, result) = ls_none();
    num_calls = 0;
    for (int run = 0; run < 3; ++run)
      expect_ok(ls_strategy_run(s, ls_traced(f), args, &result));
    assert_int_equal(num_calls, 1);
    assert_int_equal(result.kind,
                     replicas == 1 ? LS_KIND_ARRAY : LS_KIND_DISTRIBUTED);
    for (int r = 0; r < replicas; ++r)
      assert_true(part(result, (size_t)r) == r + 2);
  }
}

// ---- Arguments -------------------------------------------------------------
static ls_nest look_around(ls_nest args, void *user) {
  (void)user;
  ls_replica *replica = ls_replica_context();
  assert_non_null(replica);
  assert_int_equal(ls_replica_num_replicas(replica), 2);
  assert_int_equal(ls_nest_item(args, 1).kind, LS_KIND_NONE);
  ls_tensor id;
  expect_ok(ls_replica_id_in_sync_group(replica, &id));
  // The numbers are scalars of their own.
  const ls_nest list = ls_nest_item(args, 2);
  assert_int_equal(list.kind, LS_KIND_LIST);
  assert_int_equal(ls_tensor_dtype(ls_nest_tensor(list, 0)), LS_DTYPE_I32);
  assert_int_equal(ls_tensor_dtype(ls_nest_tensor(list, 1)), LS_DTYPE_F32);
  return LS_LIST(ls_leaf(id), ls_nest_retain(ls_nest_item(args, 0)),
                 ls_nest_retain(ls_nest_item(list, 0)));
}

TEST(each_replica_gets_its_id_and_its_part) {
  LS_SPEC("T77 T78 T79 T82");
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  LS_OWN(ls_function, f) = function_of(look_around, NULL);
  LS_OWN(ls_nest, args) = LS_TUPLE(per_replica(2, 7), ls_none(),
                                   LS_LIST(ls_nest_i64(3), ls_nest_f64(2.5)));
  LS_OWN(ls_nest, result) = strategy_results(s, ls_traced(f), args);
  for (size_t r = 0; r < 2; ++r) {
    assert_true(part(ls_nest_item(result, 0), r) == (double)r);
    assert_true(part(ls_nest_item(result, 1), r) == 7 + (double)r);
    assert_true(part(ls_nest_item(result, 2), r) == 3);
  }
  const ls_graph *graph = ls_function_graph(f);
  static const char *const names[] = {
      "input0",  "input1",           "input3",
      "input4",  "cluster_f/pivot",  "replicated_input_0",
      "output0", "output_0_shard_0", "output_2_shard_1"};
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); ++i)
    op_named(graph, names[i]);
}

static ls_nest add_to_first(ls_nest args, void *user) {
  (void)user;
  const ls_nest bound = ls_nest_item(args, 0);
  assert_int_equal(bound.kind, LS_KIND_VARIABLE);
  assert_int_equal(ls_nest_item(args, 1).kind, LS_KIND_TENSOR);
  ls_variable *v = ls_nest_as_variable(bound);
  return ls_leaf(ls_variable_assign_add(
      v, ls_all_reduce(LS_REDUCE_SUM, ls_nest_tensor(args, 1))));
}

TEST(a_variable_argument_is_handed_over_whole) {
  LS_SPEC("T60 T61 T69");
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  LS_OWN(ls_variable, v) = NULL;
  {
    LS_STRATEGY_SCOPE(s);
    v = variable_of("v", LS_DTYPE_F32, LS_SCALAR, (const double[]){100});
  }
  LS_OWN(ls_function, f) = function_of(add_to_first, NULL);
  LS_OWN(ls_nest, args) = LS_TUPLE(
      ls_nest_object(LS_KIND_VARIABLE, (ls_object *)ls_variable_retain(v)),
      per_replica(2, 1));
  LS_OWN(ls_nest, result) = strategy_results(s, ls_traced(f), args);
  assert_true(part(result, 0) == 103);
  expect_variable(v, (const double[]){103}, 1, 0);
}

static ls_nest merge_sum(ls_strategy *strategy, ls_nest args, void *user) {
  (void)user;
  assert_true(ls_in_cross_replica_context());
  assert_ptr_equal(ls_strategy_current(), strategy);
  return ls_leaf(ls_all_reduce(LS_REDUCE_SUM, args.as.tensor));
}

static ls_nest merge_in_branch(ls_nest none, void *user) {
  (void)none;
  return ls_replica_merge_call(ls_replica_context(), merge_sum,
                               ls_leaf(*(const ls_tensor *)user), NULL);
}

static ls_nest merge_calls(ls_nest args, void *user) {
  (void)user;
  ls_tensor x = ls_nest_tensor(args, 0);
  return LS_LIST(
      ls_replica_merge_call(ls_replica_context(), merge_sum, ls_leaf(x), NULL),
      ls_cond(ls_less(f32_of(0), f32_of(1)), merge_in_branch, negate_user, &x));
}

TEST(merge_calls_run_where_they_stand) {
  LS_SPEC("T191");
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  LS_OWN(ls_function, f) = function_of(merge_calls, NULL);
  LS_OWN(ls_nest, args) = LS_TUPLE(per_replica(2, 1));
  LS_OWN(ls_nest, result) = strategy_results(s, ls_traced(f), args);
  for (size_t r = 0; r < 2; ++r)
    for (size_t i = 0; i < 2; ++i)
      assert_true(part(ls_nest_item(result, i), r) == 3);
}

// ---- Results ---------------------------------------------------------------
typedef struct shape_of_result {
  int form;
  ls_variable *counter;
} shape_of_result;

static ls_nest return_form(ls_nest args, void *user) {
  const shape_of_result *f = user;
  const ls_nest x = ls_nest_retain(ls_nest_item(args, 0));
  const ls_op op = ls_tensor_op(ls_variable_assign_add(f->counter, f32_of(1)));
  switch (f->form) {
  case 0:
    return ls_none();
  case 1:
    return ls_nest_op(op);
  case 2:
    return LS_LIST(x, ls_none(), ls_nest_op(op));
  case 3:
    return LS_LIST(ls_nest_op(op), ls_nest_op(op));
  case 4:
    return ls_nest_dict("", (const char *const[]){"k"},
                        (const ls_nest[]){LS_TUPLE(x, ls_none())}, 1);
  case 5:
    return LS_LIST(ls_nest_op(op), x);
  case 6:
    return LS_TUPLE(x, ls_nest_op(op));
  case 7:
    return LS_LIST(LS_LIST(x, ls_nest_op(op)));
  case 8:
    return LS_LIST(x, ls_nest_op(op), ls_none());
  case 9:
    return LS_LIST(ls_nest_op(op), ls_none(), ls_nest_op(op));
  default:
    return ls_nest_sequence(LS_KIND_TUPLE, NULL, 0);
  }
}

static ls_status run_form(ls_strategy *s, shape_of_result *form,
                          ls_nest *result) {
  LS_OWN(ls_function, f) = function_of(return_form, form);
  LS_OWN(ls_nest, args) = LS_TUPLE(per_replica(2, 1));
  return ls_strategy_run(s, ls_traced(f), args, result);
}

TEST(results_have_the_form_that_was_returned) {
  LS_SPEC("T86 T108 T109 T110 T111 T112");
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  shape_of_result form = {0};
  {
    LS_STRATEGY_SCOPE(s);
    form.counter =
        variable_of("runs", LS_DTYPE_F32, LS_SCALAR, (const double[]){0});
  }
  double runs = 0;
  for (form.form = 0; form.form < 11; ++form.form) {
    ls_nest result = ls_none();
    const ls_status status = run_form(s, &form, &result);
    if (form.form >= 5 && form.form <= 9) {
      expect_status(status, LS_INVALID_ARGUMENT,
                    form.form == 6 || form.form == 7
                        ? "assign_add"
                        : "Tensor values followed by");
      continue;
    }
    expect_ok(status);
    // The work is done whatever comes back.
    expect_variable(form.counter, (const double[]){++runs}, 1, 0);
    switch (form.form) {
    case 0:
    case 1:
      assert_int_equal(result.kind, LS_KIND_NONE);
      break;
    case 2:
      assert_int_equal(result.kind, LS_KIND_LIST);
      assert_int_equal(ls_nest_count(result), 2);
      assert_true(part(ls_nest_item(result, 0), 1) == 2);
      assert_int_equal(ls_nest_item(result, 1).kind, LS_KIND_NONE);
      break;
    case 3:
      assert_int_equal(result.kind, LS_KIND_LIST);
      assert_int_equal(ls_nest_count(result), 0);
      break;
    case 4: {
      const ls_nest pair = ls_nest_find(result, "k");
      assert_int_equal(pair.kind, LS_KIND_TUPLE);
      assert_true(part(ls_nest_item(pair, 0), 1) == 2);
      assert_int_equal(ls_nest_item(pair, 1).kind, LS_KIND_NONE);
      break;
    }
    default:
      assert_int_equal(result.kind, LS_KIND_TUPLE);
      assert_int_equal(ls_nest_count(result), 0);
    }
    ls_nest_release(result);
  }
  ls_variable_release(form.counter);
}
