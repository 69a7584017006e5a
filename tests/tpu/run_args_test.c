// SPDX-License-Identifier: Apache-2.0
//
// Arguments of runs of TPU strategies: variables that are handed over whole, by
// position and by name, and what is refused before anything is built.
#include "base/memory/own.h"
#include "distribute/base/strategy.h"
#include "lockstep/ops.h"
#include "lockstep/regroup.h"
#include "support/function.h"
#include "support/spec.h"
#include "support/tpu_runs.h"
#include "support/tpu_strategies.h"

// Adds up what it is given: a variable counts by its value.
static ls_tensor sum_of(ls_nest nest) {
  ls_tensor sum = f32_of(0);
  if (nest.kind == LS_KIND_TENSOR) return nest.as.tensor;
  if (nest.kind == LS_KIND_VARIABLE)
    return ls_variable_read(ls_nest_as_variable(nest));
  for (size_t i = 0; i < ls_nest_count(nest); ++i)
    sum = ls_add(sum, sum_of(ls_nest_item(nest, i)));
  return sum;
}

static ls_nest take_first(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(sum_of(ls_nest_item(args, 0)));
}

// ---- What is handed over --------------------------------------------------
static ls_nest look_at_bound(ls_nest args, void *user) {
  const tpu_runs *runs = user;
  const ls_nest bound = ls_nest_item(args, 0), read = ls_nest_item(args, 1);
  // The same object, and the other leaves of its nest as they were given.
  assert_ptr_equal(ls_nest_as_variable(ls_nest_item(bound, 0)), runs->v);
  assert_int_equal(ls_nest_item(bound, 1).kind, LS_KIND_DISTRIBUTED);
  assert_int_equal(ls_distributed_count(ls_nest_item(bound, 1)),
                   runs->replicas);
  // A variable behind another first leaf is a value.
  assert_int_equal(ls_nest_item(read, 0).kind, LS_KIND_TENSOR);
  assert_int_equal(ls_nest_item(read, 1).kind, LS_KIND_TENSOR);
  assert_int_equal(ls_nest_count(ls_nest_item(args, 2)), 0);
  return ls_leaf(ls_add(ls_variable_read(runs->v), sum_of(read)));
}

static void bind_nests(tpu_runs *runs) {
  if (runs->in_graph) computation_initialize(&runs->computation, runs->v);
  expect_ok(tpu_runs_call(
      runs, look_at_bound, runs, NULL,
      LS_TUPLE(LS_LIST(tpu_runs_variable(runs), tpu_runs_per_replica(runs, 7)),
               LS_TUPLE(tpu_runs_per_replica(runs, 1), tpu_runs_variable(runs)),
               ls_nest_sequence(LS_KIND_LIST, NULL, 0)),
      ls_none()));
  for (int r = 0; r < runs->replicas; ++r)
    assert_true(tpu_runs_number(runs, -1, r) == 201 + r);
}

TEST(a_nest_is_bound_by_its_first_leaf_alone) {
  LS_SPEC("T60 T61 T62");
  tpu_runs_all(bind_nests);
}

static ls_nest write_bound(ls_nest args, void *user) {
  const ls_nest names = ls_nest_item(args, 1);
  (void)user;
  ls_variable *v = ls_nest_as_variable(ls_nest_find(names, "v"));
  const ls_tensor x = ls_nest_find(names, "x").as.tensor;
  assert_int_equal(ls_nest_find(names, "x").kind, LS_KIND_TENSOR);
  return LS_LIST(
      ls_leaf(ls_add(x, ls_nest_tensor(args, 0))),
      ls_leaf(ls_variable_assign_add(v, ls_all_reduce(LS_REDUCE_MAX, x))));
}

static const char *const v_and_x[] = {"v", "x"};

static ls_nest both_by_name(const tpu_runs *runs) {
  return ls_nest_dict("", v_and_x,
                      (const ls_nest[]){tpu_runs_variable(runs),
                                        tpu_runs_per_replica(runs, 10)},
                      2);
}

// Nothing is declared: those with names are a dict behind the others, each of
// which is an argument of its own.
static void bind_undeclared_names(tpu_runs *runs) {
  if (runs->in_graph) computation_initialize(&runs->computation, runs->v);
  expect_ok(tpu_runs_call(runs, write_bound, NULL, NULL,
                          LS_TUPLE(tpu_runs_per_replica(runs, 1)),
                          both_by_name(runs)));
  for (int r = 0; r < runs->replicas; ++r)
    assert_true(tpu_runs_number(runs, 0, r) == 11 + 2 * r);
}

TEST(each_argument_by_name_is_bound_alone) {
  LS_SPEC("T60 T61 T77 T78");
  tpu_runs_all(bind_undeclared_names);
}

// ---- Declared parameters --------------------------------------------------
static const char *const abc[] = {"a", "b", "c"};

static ls_nest take_declared(ls_nest args, void *user) {
  const tpu_runs *runs = user;
  assert_int_equal(ls_nest_count(args), 3);
  assert_ptr_equal(ls_nest_as_variable(ls_nest_item(args, 1)), runs->v);
  return LS_LIST(ls_nest_retain(ls_nest_item(args, 0)),
                 ls_nest_retain(ls_nest_item(args, 2)),
                 ls_leaf(sum_of(ls_nest_item(args, 1))));
}

static void expect_declared(tpu_runs *runs) {
  for (int r = 0; r < runs->replicas; ++r) {
    assert_true(tpu_runs_number(runs, 0, r) == 1 + r);
    assert_true(tpu_runs_number(runs, 1, r) == 5 + r);
    assert_true(tpu_runs_number(runs, 2, r) == 100);
  }
}

static void bind_declared(tpu_runs *runs) {
  const ls_parameters p = {.names = abc, .count = 3};
  if (runs->in_graph) computation_initialize(&runs->computation, runs->v);
  for (int named = 0; named <= 3; ++named) {
    // The last `named` by name, in another order.
    ls_nest all[] = {tpu_runs_per_replica(runs, 1), tpu_runs_variable(runs),
                     tpu_runs_per_replica(runs, 5)};
    ls_nest by_name[3];
    const char *keys[3];
    for (int i = 0; i < named; ++i) {
      keys[i] = abc[2 - i];
      by_name[i] = all[2 - i];
    }
    expect_ok(tpu_runs_call(
        runs, take_declared, runs, &p,
        ls_nest_sequence(LS_KIND_TUPLE, all, (size_t)(3 - named)),
        named == 0 ? ls_none()
                   : ls_nest_dict("", keys, by_name, (size_t)named)));
    expect_declared(runs);
  }
  // One is given twice.
  const ls_nest again = tpu_runs_variable(runs);
  expect_status(tpu_runs_call(runs, take_declared, runs, &p,
                              LS_TUPLE(tpu_runs_per_replica(runs, 1),
                                       tpu_runs_variable(runs),
                                       tpu_runs_per_replica(runs, 5)),
                              ls_nest_dict("", &abc[1], &again, 1)),
                LS_INVALID_ARGUMENT, "'b' is given by position and by name");
}

TEST(variables_and_values_mix_by_position_and_by_name) {
  LS_SPEC("T63 T68");
  tpu_runs_all(bind_declared);
}

static void refuse_too_many(tpu_runs *runs) {
  const ls_parameters p = {.names = abc, .count = 1};
  for (int with_variable = 0; with_variable < 2; ++with_variable)
    expect_status(
        tpu_runs_call(runs, take_declared, runs, &p,
                      LS_TUPLE(with_variable ? tpu_runs_variable(runs)
                                             : tpu_runs_per_replica(runs, 1),
                               ls_nest_f64(2)),
                      ls_none()),
        LS_INVALID_ARGUMENT, "too many positional arguments");
}

TEST(more_arguments_than_parameters_are_refused) {
  LS_SPEC("T64");
  tpu_runs_all(refuse_too_many);
}

static void find_parts(tpu_runs *runs) {
  if (runs->in_graph) computation_initialize(&runs->computation, runs->v);
  const size_t count = (size_t)runs->replicas;
  const char *devices[TPU_RUNS_REPLICAS];
  ls_nest items[TPU_RUNS_REPLICAS];
  for (size_t r = 0; r < count; ++r) {
    const size_t at = count - 1 - r;
    devices[r] = ls_strategy_device(runs->strategy, (int32_t)at);
    items[r] = ls_leaf(f32_of((double)at));
  }
  expect_ok(tpu_runs_call(
      runs, take_first, NULL, NULL,
      LS_TUPLE(ls_nest_distributed_on(LS_PER_REPLICA, items, devices, count)),
      ls_none()));
  for (int r = 0; r < runs->replicas; ++r)
    assert_true(tpu_runs_number(runs, -1, r) == r);
}

TEST(each_replica_gets_the_part_on_its_device) {
  LS_SPEC("T78 M149");
  tpu_runs_all(find_parts);
}

// ---- More by position -----------------------------------------------------
static ls_nest take_tail(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(sum_of(args));
}

static const ls_parameters with_tail = {
    .names = abc, .count = 1, .variadic = true, .any_names = true};

static void mix_with_tail(tpu_runs *runs) {
  if (runs->in_graph) computation_initialize(&runs->computation, runs->v);
  // In the tail, alone and behind values.
  expect_status(tpu_runs_call(runs, take_tail, NULL, &with_tail,
                              LS_TUPLE(ls_nest_f64(1), tpu_runs_variable(runs)),
                              ls_none()),
                LS_INVALID_ARGUMENT, "argument 1 is a variable");
  expect_status(tpu_runs_call(runs, take_tail, NULL, &with_tail,
                              LS_TUPLE(ls_nest_f64(1), ls_nest_f64(2),
                                       LS_LIST(tpu_runs_variable(runs))),
                              ls_none()),
                LS_INVALID_ARGUMENT, "name a parameter for it, or capture");
  // A value there behind a variable.
  expect_status(tpu_runs_call(runs, take_tail, NULL, &with_tail,
                              LS_TUPLE(tpu_runs_variable(runs), ls_nest_f64(2)),
                              ls_none()),
                LS_INVALID_ARGUMENT, "mixes variables");
  // A variable by name goes with values there.
  const ls_nest v = tpu_runs_variable(runs);
  expect_ok(tpu_runs_call(
      runs, take_tail, NULL, &with_tail,
      LS_TUPLE(ls_nest_f64(1), ls_nest_f64(2), tpu_runs_per_replica(runs, 3)),
      ls_nest_dict("", v_and_x, &v, 1)));
  for (int r = 0; r < runs->replicas; ++r)
    assert_true(tpu_runs_number(runs, -1, r) == 106 + r);
}

TEST(variables_stay_out_of_the_variadic_tail) {
  LS_SPEC("T65 T66");
  tpu_runs_all(mix_with_tail);
}

static void refuse_positional_only(tpu_runs *runs) {
  const ls_parameters p = {.names = abc, .count = 2, .num_positional_only = 1};
  const ls_nest v = tpu_runs_variable(runs);
  expect_status(tpu_runs_call(runs, take_tail, NULL, &p,
                              LS_TUPLE(tpu_runs_variable(runs), ls_nest_f64(2)),
                              ls_none()),
                LS_INVALID_ARGUMENT, "1 by position and 0 by name");
  expect_status(tpu_runs_call(runs, take_tail, NULL, &p,
                              LS_TUPLE(ls_nest_f64(2)),
                              ls_nest_dict("", &abc[1], &v, 1)),
                LS_INVALID_ARGUMENT, "0 by position and 1 by name");
  const ls_nest two = ls_nest_f64(2);
  expect_ok(tpu_runs_call(runs, take_tail, NULL, &p,
                          LS_TUPLE(tpu_runs_per_replica(runs, 1)),
                          ls_nest_dict("", &abc[1], &two, 1)));
  for (int r = 0; r < runs->replicas; ++r)
    assert_true(tpu_runs_number(runs, -1, r) == 3 + r);
  // Too many are the function's to refuse.
  expect_status(
      tpu_runs_call(runs, take_tail, NULL, &p,
                    LS_TUPLE(ls_nest_f64(1), ls_nest_f64(2), ls_nest_f64(3)),
                    ls_none()),
      LS_INVALID_ARGUMENT, "too many positional arguments");
}

TEST(variables_and_positional_only_parameters_do_not_mix) {
  LS_SPEC("T67");
  tpu_runs_all(refuse_positional_only);
}

// ---- One function ---------------------------------------------------------
static int num_calls;
static ls_nest add_to(ls_nest args, void *user) {
  (void)user;
  ++num_calls;
  // What all replicas have together keeps the variable's value one.
  return ls_leaf(ls_variable_assign_add(
      ls_nest_as_variable(ls_nest_item(args, 0)),
      ls_all_reduce(LS_REDUCE_MEAN, ls_nest_tensor(args, 1))));
}

// A function object is compiled and reused, whatever is bound; each variable
// has a trace of its own.
TEST(a_function_with_bound_variables_is_reused) {
  LS_SPEC("T74");
  tpu_runs runs = {.replicas = 2, .strategy = tpu_strategy_of(2)};
  ls_variable *variables[2];
  for (int i = 0; i < 2; ++i) {
    LS_STRATEGY_SCOPE(runs.strategy);
    variables[i] =
        variable_of("v", LS_DTYPE_F32, LS_SCALAR, (const double[]){100});
  }
  ls_function *f = function_of(add_to, NULL);
  num_calls = 0;
  for (int step = 1; step <= 4; ++step)
    for (int i = 0; i < 2; ++i) {
      runs.v = variables[i];
      LS_OWN(ls_nest, args) =
          LS_TUPLE(tpu_runs_variable(&runs), ls_nest_f64(2));
      expect_ok(
          ls_strategy_run(runs.strategy, ls_traced(f), args, &runs.result));
      for (int r = 0; r < 2; ++r)
        assert_true(tpu_runs_number(&runs, -1, r) == 100 + 2 * step);
    }
  assert_int_equal(num_calls, 2);
  ls_nest_release(runs.result);
  ls_function_release(f);
  for (int i = 0; i < 2; ++i)
    ls_variable_release(variables[i]);
  ls_strategy_release(runs.strategy);
}
