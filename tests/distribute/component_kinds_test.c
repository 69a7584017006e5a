// SPDX-License-Identifier: Apache-2.0
//
// Distributed arguments of traced functions whose components are host scalars,
// variables, or none.
#include "distribute/own.h"
#include "lockstep/function_plan.h"
#include "support/fault.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/tpu_strategies.h"
#include "support/values.h"

enum { REPLICAS = 2 };

typedef enum form { CALLED, TAPED, BUILT, NUM_FORMS } form;

// Adds the argument to itself; without one gives 7.
static ls_nest doubled(ls_nest args, void *user) {
  const ls_nest leaf = ls_nest_item(args, 0);
  (void)user;
  if (leaf.kind == LS_KIND_NONE) return ls_leaf(ls_scalar(LS_DTYPE_F32, 7));
  if (leaf.kind != LS_KIND_TENSOR) fail_msg("the argument is no tensor");
  return ls_leaf(ls_add(leaf.as.tensor, leaf.as.tensor));
}

static double part_number(ls_nest result, size_t r) {
  const ls_nest part = result.kind == LS_KIND_DISTRIBUTED
                           ? ls_distributed_component(result, r)
                           : result;
  const ls_array *array = ls_nest_as_array(part);
  return array != NULL ? ls_array_f64(array, 0) : number_of(part);
}

static ls_status run_form(ls_strategy *strategy, ls_callback call, form how,
                          ls_nest (*make)(void *user), void *user,
                          ls_nest *out) {
  LS_OWN(ls_function, function) = unnamed_function(call, NULL);
  *out = ls_none();
  if (how != BUILT) {
    LS_OWN(ls_tape, tape) = NULL;
    LS_OWN(ls_nest, args) = LS_TUPLE(make(user));
    if (how == TAPED) expect_ok(ls_tape_begin(&tape));
    return ls_strategy_run(strategy, ls_traced(function), args, out);
  }
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_GRAPH_SCOPE(graph);
  LS_OWN(ls_nest, args) = LS_TUPLE(make(user));
  LS_OWN(ls_nest, built) = ls_none();
  LS_RETURN_IF_ERROR(
      ls_strategy_run(strategy, ls_traced(function), args, &built));
  LS_OWN(ls_session, session) = session_of(graph);
  return ls_session_run(session, built, NULL, 0, out);
}

static void expect_doubled(ls_strategy *strategy, ls_nest (*make)(void *user),
                           void *user, double first, double second) {
  for (form how = 0; how < NUM_FORMS; ++how) {
    LS_OWN(ls_nest, result) = ls_none();
    expect_ok(run_form(strategy, doubled, how, make, user, &result));
    assert_true(part_number(result, 0) == first);
    assert_true(part_number(result, 1) == second);
  }
}

// ---- Components ------------------------------------------------------------
static ls_nest integers(void *user) {
  (void)user;
  const ls_nest items[REPLICAS] = {ls_nest_i64(5), ls_nest_i64(6)};
  return ls_nest_distributed(LS_PER_REPLICA, items, REPLICAS);
}

static ls_nest floats(void *user) {
  (void)user;
  return distributed_numbers(LS_PER_REPLICA, (double[]){0.5, 2}, REPLICAS);
}

static ls_nest nones(void *user) {
  (void)user;
  const ls_nest items[REPLICAS] = {ls_none(), ls_none()};
  return ls_nest_distributed(LS_PER_REPLICA, items, REPLICAS);
}

static ls_nest one_none(void *user) {
  (void)user;
  const ls_nest items[REPLICAS] = {ls_nest_f64(1), ls_none()};
  return ls_nest_distributed(LS_PER_REPLICA, items, REPLICAS);
}

TEST(a_traced_run_takes_host_scalars_of_replicas) {
  LS_OWN(ls_strategy, mirrored) = mirrored_of(REPLICAS);
  expect_doubled(mirrored, integers, NULL, 10, 12);
  expect_doubled(mirrored, floats, NULL, 1, 4);
}

TEST(a_traced_run_takes_no_value_of_replicas) {
  LS_OWN(ls_strategy, mirrored) = mirrored_of(REPLICAS);
  expect_doubled(mirrored, nones, NULL, 7, 7);
  for (form how = 0; how < NUM_FORMS; ++how) {
    ls_nest result = ls_none();
    expect_status(run_form(mirrored, doubled, how, one_none, NULL, &result),
                  LS_INVALID_ARGUMENT, "in a distributed argument");
    ls_nest_release(result);
  }
}

static ls_nest two_variables(void *user) {
  ls_variable *const *variables = user;
  const ls_nest items[REPLICAS] = {ls_nest_variable(variables[0]),
                                   ls_nest_variable(variables[1])};
  return ls_nest_distributed(LS_PER_REPLICA, items, REPLICAS);
}

TEST(a_traced_run_reads_variables_of_replicas) {
  LS_OWN(ls_strategy, mirrored) = mirrored_of(REPLICAS);
  LS_OWN(ls_function, function) = unnamed_function(doubled, NULL);
  LS_OWN(ls_variable, a) = f32_variable("a", 3);
  LS_OWN(ls_variable, b) = f32_variable("b", 4);
  ls_variable *const variables[] = {a, b};
  LS_OWN(ls_nest, args) = LS_TUPLE(two_variables((void *)variables));
  LS_OWN(ls_nest, result) =
      strategy_results(mirrored, ls_traced(function), args);
  assert_true(part_number(result, 0) == 6 && part_number(result, 1) == 8);
  set_variable(b, (double[]){10});
  expect_ok(ls_strategy_run(mirrored, ls_traced(function), args, &result));
  assert_true(part_number(result, 0) == 6 && part_number(result, 1) == 20);
  assert_int_equal(ls_function_num_traces(function), 1);
}

// ---- On cores --------------------------------------------------------------
TEST(a_traced_run_on_cores_takes_host_scalars_and_no_value) {
  LS_OWN(ls_strategy, strategy) = tpu_strategy_of(REPLICAS);
  LS_OWN(ls_nest, result) = ls_none();
  expect_ok(run_form(strategy, doubled, CALLED, integers, NULL, &result));
  assert_true(part_number(result, 0) == 10 && part_number(result, 1) == 12);
  ls_nest_release(result);
  expect_ok(run_form(strategy, doubled, CALLED, nones, NULL, &result));
  assert_true(part_number(result, 1) == 7);
}

// ---- Memory ----------------------------------------------------------------
MEMORY_TEST(run_on_host_scalars) {
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_function, function) = NULL;
  LS_OWN(ls_nest, args) = LS_TUPLE(floats(NULL));
  LS_OWN(ls_nest, result) = ls_none();
  LS_RETURN_IF_ERROR(ls_nest_status(args));
  LS_RETURN_IF_ERROR(mirrored_with(
      (ls_mirrored_options){.num_replicas = LS_SOME(REPLICAS)}, &strategy));
  LS_RETURN_IF_ERROR(
      ls_function_create(&(ls_function_options){.call = doubled}, &function));
  return ls_strategy_run(strategy, ls_traced(function), args, &result);
}
