// SPDX-License-Identifier: Apache-2.0
//
// What TPU strategies run, where, and what it gives: kinds of callables, places
// where a run is refused, results of all kinds.
#include <string.h>

#include "distribute/own.h"
#include "lockstep/function_plan.h"
#include "lockstep/object.h"
#include "lockstep/regroup.h"
#include "lockstep/slices.h"
#include "support/callbacks.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/spec.h"
#include "support/tpu_runs.h"
#include "support/tpu_strategies.h"

// ---- Kinds of callables ---------------------------------------------------
static int num_calls;
static ls_nest add_number(ls_nest args, void *user) {
  ++num_calls;
  return ls_leaf(
      ls_add(ls_nest_tensor(args, 0), f32_of(*(const double *)user)));
}

// An object that is called by a function.
typedef struct model {
  ls_object object;
  ls_function *call;
} model;

static ls_function *call_of(ls_object *object) {
  return ((model *)object)->call;
}

static void keep(ls_object *object) { (void)object; }

static const ls_object_type model_type = {
    .name = "model", .destroy = keep, .call_entry = call_of};
static const ls_object_type thing_type = {.name = "thing", .destroy = keep};

static ls_function *concrete_of(ls_function *f) {
  ls_function *concrete = NULL;
  LS_OWN(ls_nest, like) = LS_TUPLE(
      ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, (const double[]){0})));
  expect_ok(ls_function_make_concrete(f, like, &concrete));
  return concrete;
}

TEST(functions_concrete_ones_and_objects_are_run) {
  LS_SPEC("T57 T196");
  double one = 1;
  for (int replicas = 1; replicas <= 3; ++replicas) {
    tpu_runs runs = {.replicas = replicas,
                     .strategy = tpu_strategy_of(replicas)};
    LS_OWN(ls_function, f) = function_of(add_number, &one);
    LS_OWN(ls_function, concrete) = concrete_of(f);
    model m = {.call = f};
    ls_object_init(&m.object, &model_type);
    const ls_callable all[] = {ls_traced(f), ls_traced(concrete),
                               ls_called(&m.object)};
    // The object's runs are its function's; the concrete one is a trace.
    static const int calls[] = {1, 0, 0};
    LS_OWN(ls_nest, args) = LS_TUPLE(tpu_runs_per_replica(&runs, 5));
    for (size_t i = 0; i < 3; ++i) {
      num_calls = 0;
      for (int run = 0; run < 2; ++run)
        expect_ok(ls_strategy_run(runs.strategy, all[i], args, &runs.result));
      for (int r = 0; r < replicas; ++r)
        assert_true(tpu_runs_number(&runs, -1, r) == 6 + r);
      assert_int_equal(num_calls, calls[i]);
    }
    // Built in a graph they are the same.
    runs.in_graph = true;
    computation_open(&runs.computation);
    for (size_t i = 0; i < 3; ++i) {
      expect_ok(ls_strategy_run(runs.strategy, all[i], args, &runs.result));
      for (int r = 0; r < replicas; ++r)
        assert_true(tpu_runs_number(&runs, -1, r) == 6 + r);
    }
    computation_close(&runs.computation);
    ls_nest_release(runs.result);
    ls_strategy_release(runs.strategy);
  }
}

TEST(what_cannot_be_called_is_refused) {
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  ls_object thing;
  ls_object_init(&thing, &thing_type);
  model empty = {.call = NULL};
  ls_object_init(&empty.object, &model_type);
  ls_nest result = ls_none();
  expect_status(ls_strategy_run(s, ls_called(&thing), ls_none(), &result),
                LS_INVALID_ARGUMENT, "a thing is no function");
  expect_status(
      ls_strategy_run(s, ls_called(&empty.object), ls_none(), &result),
      LS_INVALID_ARGUMENT, "a model is no function");
  expect_status(ls_strategy_run(s, ls_plain(NULL, NULL), ls_none(), &result),
                LS_INVALID_ARGUMENT, "nothing to run");
}

// A function is known by itself: one that lies where another lay is new.
TEST(a_new_function_is_traced_anew_wherever_it_lies) {
  LS_SPEC("T72 T196");
  tpu_runs runs = {.replicas = 2, .strategy = tpu_strategy_of(2)};
  LS_OWN(ls_nest, args) = LS_TUPLE(tpu_runs_per_replica(&runs, 5));
  double number = 0;
  num_calls = 0;
  for (int i = 0; i < 20; ++i) {
    number = i;
    LS_OWN(ls_function, f) = function_of(add_number, &number);
    expect_ok(ls_strategy_run(runs.strategy, ls_traced(f), args, &runs.result));
    assert_true(tpu_runs_number(&runs, -1, 1) == 6 + i);
  }
  assert_int_equal(num_calls, 20);
  ls_nest_release(runs.result);
  ls_strategy_release(runs.strategy);
}

static ls_nest return_constant(ls_nest args, void *user) {
  (void)args;
  return ls_leaf(f32_of(*(const double *)user));
}

// The arguments' types are the same, the functions are not.
static void run_two_callbacks(tpu_runs *runs) {
  double one = 1, two = 2;
  LS_OWN(ls_function, f) = function_of(return_constant, &one);
  LS_OWN(ls_function, g) = function_of(return_constant, &two);
  for (int run = 0; run < 2; ++run)
    for (int second = 0; second < 2; ++second) {
      const ls_callable callable =
          runs->in_graph ? ls_plain(return_constant, second ? &two : &one)
                         : ls_traced(second ? g : f);
      ls_nest result = strategy_results(runs->strategy, callable, ls_none());
      ls_nest_release(runs->result);
      runs->result = result;
      for (int r = 0; r < runs->replicas; ++r)
        assert_true(tpu_runs_number(runs, -1, r) == 1 + second);
    }
}

TEST(callbacks_of_one_signature_stay_distinct) {
  LS_SPEC("T114");
  tpu_runs_all(run_two_callbacks);
}

// ---- Where a run is refused -----------------------------------------------
typedef struct inner_run {
  ls_strategy *strategy;
  bool replicates;
} inner_run;

static ls_nest run_inside(ls_nest args, void *user) {
  const inner_run *inner = user;
  ls_nest made = ls_none(), inputs = ls_none();
  ls_status status;
  if (inner->replicates) {
    inputs = LS_LIST(LS_LIST(ls_nest_retain(ls_nest_item(args, 0))));
    status = ls_replicate(give_first, NULL, inputs, NULL, &made);
    ls_nest_release(inputs);
  } else {
    status = ls_strategy_run(inner->strategy, ls_plain(give_first, NULL), args,
                             &made);
  }
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

static void refuse_inside(tpu_runs *runs) {
  LS_OWN(ls_strategy, other) = tpu_strategy_of(2);
  ls_nest result = ls_none();
  inner_run inner = {.strategy = runs->strategy};
  expect_status(tpu_runs_call(runs, run_inside, &inner, NULL,
                              LS_TUPLE(tpu_runs_per_replica(runs, 1)),
                              ls_none()),
                LS_FAILED_PRECONDITION, "a replica of it is running");
  inner.strategy = other;
  expect_status(tpu_runs_call(runs, run_inside, &inner, NULL,
                              LS_TUPLE(tpu_runs_per_replica(runs, 1)),
                              ls_none()),
                LS_FAILED_PRECONDITION, ls_strategy_label(other));
  inner.replicates = true;
  expect_status(tpu_runs_call(runs, run_inside, &inner, NULL,
                              LS_TUPLE(tpu_runs_per_replica(runs, 1)),
                              ls_none()),
                LS_INVALID_ARGUMENT, "cannot be nested");
  // In another strategy's scope; both are named.
  for (int named = 0; named < 2; ++named) {
    LS_STRATEGY_SCOPE(other);
    LS_OWN(ls_function, f) = function_of(give_first, NULL);
    LS_OWN(ls_nest, args) = LS_TUPLE(tpu_runs_per_replica(runs, 1));
    expect_status(ls_strategy_run(runs->strategy, ls_traced(f), args, &result),
                  LS_FAILED_PRECONDITION,
                  ls_strategy_label(named ? other : runs->strategy));
  }
  // Nothing is left of it.
  expect_ok(tpu_runs_call(runs, give_first, NULL, NULL,
                          LS_TUPLE(tpu_runs_per_replica(runs, 1)), ls_none()));
  for (int r = 0; r < runs->replicas; ++r)
    assert_true(tpu_runs_number(runs, -1, r) == 1 + r);
}

TEST(runs_do_not_nest) {
  LS_SPEC("T76");
  tpu_runs_all(refuse_inside);
}

// ---- Arguments of all replicas --------------------------------------------
static ls_nest two_types(const tpu_runs *runs) {
  ls_nest items[TPU_RUNS_REPLICAS];
  for (int r = 0; r < runs->replicas; ++r)
    items[r] = ls_nest_array(array_of(r == 1 ? LS_DTYPE_I32 : LS_DTYPE_F32,
                                      LS_SCALAR, (const double[]){r}));
  return ls_nest_distributed(LS_PER_REPLICA, items, (size_t)runs->replicas);
}

static ls_nest two_structures(const tpu_runs *runs) {
  ls_nest items[TPU_RUNS_REPLICAS];
  for (int r = 0; r < runs->replicas; ++r) {
    const ls_nest leaf =
        ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, (const double[]){r}));
    items[r] = r == 1 ? LS_TUPLE(leaf, ls_nest_f64(1)) : LS_TUPLE(leaf);
  }
  return ls_nest_distributed(LS_PER_REPLICA, items, (size_t)runs->replicas);
}

static void refuse_differences(tpu_runs *runs) {
  if (runs->replicas == 1) return;
  expect_status(
      tpu_runs_call(runs, give_first, NULL, NULL,
                    LS_TUPLE(tpu_runs_per_replica(runs, 1), two_types(runs)),
                    ls_none()),
      LS_INVALID_ARGUMENT,
      "replica 0 has (i32, f32, f32), replica 1 has (i32, f32, i32)");
  if (!runs->in_graph) return;
  const ls_nest different = two_structures(runs);
  if (ls_nest_is_failed(different)) return;
  expect_status(tpu_runs_call(runs, give_first, NULL, NULL, LS_TUPLE(different),
                              ls_none()),
                LS_INVALID_ARGUMENT, "in input 1 of replica 1");
}

TEST(replicas_have_the_same_inputs) {
  LS_SPEC("T80");
  tpu_runs_all(refuse_differences);
  // Other numbers of inputs, which only a computation by itself can have.
  LS_OWN_BEGUN(computation, c, computation_open);
  const ls_nest inputs =
      LS_LIST(LS_LIST(ls_nest_f64(1)), LS_LIST(ls_nest_f64(1), ls_nest_f64(2)));
  expect_status(ls_replicate(give_first, NULL, inputs, NULL, &c.outputs),
                LS_INVALID_ARGUMENT, "replica 0 has 1 inputs, replica 1 has 2");
  ls_nest_release(inputs);
  LS_OWN(ls_nest, nested) = LS_LIST(LS_LIST(LS_TUPLE(ls_nest_f64(1))),
                                    LS_LIST(LS_LIST(ls_nest_f64(1))));
  expect_status(ls_replicate(give_first, NULL, nested, NULL, &c.outputs),
                LS_INVALID_ARGUMENT, "in input 0 of replica 1");
}

// ---- Results --------------------------------------------------------------
static ls_nest return_all_kinds(ls_nest args, void *user) {
  tpu_runs *runs = user;
  return LS_TUPLE(
      tpu_runs_variable(runs), ls_nest_f64(2.5), ls_nest_i64(4),
      ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, (const double[]){8})),
      ls_nest_retain(ls_nest_item(args, 0)));
}

static void convert_results(tpu_runs *runs) {
  if (runs->in_graph) computation_initialize(&runs->computation, runs->v);
  expect_ok(tpu_runs_call(runs, return_all_kinds, runs, NULL,
                          LS_TUPLE(tpu_runs_per_replica(runs, 1)), ls_none()));
  static const double wanted[] = {100, 2.5, 4, 8};
  for (int r = 0; r < runs->replicas; ++r) {
    for (int i = 0; i < 4; ++i)
      assert_true(tpu_runs_number(runs, i, r) == wanted[i]);
    assert_true(tpu_runs_number(runs, 4, r) == 1 + r);
  }
}

static ls_object thing;
static ls_nest return_thing(ls_nest args, void *user) {
  (void)user;
  return LS_TUPLE(ls_nest_retain(ls_nest_item(args, 0)),
                  ls_nest_object(LS_KIND_OBJECT, ls_object_retain(&thing)));
}

static void refuse_other_results(tpu_runs *runs) {
  ls_object_init(&thing, &thing_type);
  expect_status(tpu_runs_call(runs, return_thing, NULL, NULL,
                              LS_TUPLE(tpu_runs_per_replica(runs, 1)),
                              ls_none()),
                LS_INVALID_ARGUMENT, "in result 1");
}

// Two rows of three, the first r + 1.
static ls_nest return_slices(ls_nest args, void *user) {
  const bool *const has_shape = user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor rows =
      ls_concatenate((const ls_tensor[]){ls_reshape(x, LS_SHAPE(1)),
                                         ls_fill(LS_DTYPE_F32, LS_SHAPE(1), 9)},
                     2, 0);
  const ls_tensor indices = ls_iota(LS_DTYPE_I32, LS_SHAPE(2), 0);
  const ls_tensor shape = ls_fill(LS_DTYPE_I32, LS_SHAPE(1), 3);
  return LS_TUPLE(ls_leaf(ls_neg(x)),
                  ls_nest_slices(ls_leaf(rows), indices,
                                 *has_shape ? shape : (ls_tensor){0}),
                  ls_leaf(x));
}

static void return_composites(tpu_runs *runs) {
  for (int with_shape = 0; with_shape < 2; ++with_shape) {
    bool has_shape = with_shape;
    const ls_status status =
        tpu_runs_call(runs, return_slices, &has_shape, NULL,
                      LS_TUPLE(tpu_runs_per_replica(runs, 1)), ls_none());
    if (!runs->in_graph) {
      expect_status(status, LS_UNIMPLEMENTED, "slices as a result");
      continue;
    }
    expect_ok(status);
    const ls_nest leaf = ls_nest_item(runs->result, 1);
    for (int r = 0; r < runs->replicas; ++r) {
      ls_slices_parts parts;
      expect_ok(ls_slices_parts_of(
          runs->replicas == 1 ? leaf
                              : ls_distributed_component(leaf, (size_t)r),
          &parts));
      assert_int_equal(parts.dense_shape.ref != 0, with_shape);
      assert_true(tpu_runs_number(runs, 0, r) == -1 - r);
      assert_true(tpu_runs_number(runs, 2, r) == 1 + r);
      const ls_tensor dense = ls_reduce_sum(parts.values, LS_ALL_AXES);
      const ls_tensor sum = ls_reduce_sum(parts.indices, LS_ALL_AXES);
      assert_true(computation_fetch(&runs->computation, dense) == 10 + r);
      assert_true(computation_fetch(&runs->computation, sum) == 1);
    }
  }
}

TEST(results_become_tensors_and_slices_stay_slices) {
  LS_SPEC("T113");
  tpu_runs_all(convert_results);
  tpu_runs_all(refuse_other_results);
  tpu_runs_all(return_composites);
}
