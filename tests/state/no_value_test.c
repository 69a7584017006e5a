// SPDX-License-Identifier: Apache-2.0
//
// Variables that are made without a value.
#include <string.h>
#include <unistd.h>

#include "base/runtime_internal.h"
#include "distribute/own.h"
#include "io/safetensors.h"
#include "lockstep/flow.h"
#include "lockstep/graph.h"
#include "lockstep/saver.h"
#include "lockstep/session.h"
#include "lockstep/variable_parts.h"
#include "runtime/own.h"
#include "support/callbacks.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"

static const char path[] = "no-value-test.safetensors";

static void expect_one_entry(const char *name) {
  LS_OWN(ls_safetensors_file, file) = {0};
  expect_ok(ls_safetensors_open(ls_runtime_current(), path, &file));
  assert_int_equal(file.num_entries, 1);
  assert_non_null(ls_safetensors_entry_of(&file, name));
}

// Made without one, which every way to read it says, until it is written.
TEST(a_variable_may_be_made_without_a_value) {
  LS_SPEC("V124");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  const ls_variable_options options = {
      .name = "v", .dtype = LS_DTYPE_F32, .no_value = true};
  for (int mirrored = 0; mirrored < 2; ++mirrored) {
    LS_OWN(ls_variable, v) = NULL;
    if (mirrored) {
      LS_STRATEGY_SCOPE(strategy);
      expect_ok(ls_variable_create(&options, &v));
    } else
      expect_ok(ls_variable_create(&options, &v));
    ls_variable *all[] = {v, NULL};
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "other", .dtype = LS_DTYPE_F32},
        &all[1]));
    const ls_saver saver = {.variables = all, .num_variables = 2};
    ls_array *value = NULL;
    expect_ok(ls_frame_begin());
    assert_true(ls_nest_number(ls_leaf(ls_variable_is_initialized(v, NULL))) ==
                0);
    expect_status(ls_variable_value(v, &value), LS_FAILED_PRECONDITION, "'v'");
    expect_status(ls_tensor_status(ls_variable_read(v)), LS_FAILED_PRECONDITION,
                  "'v'");
    if (mirrored) {
      expect_ok(ls_saver_save(&saver, path));
      expect_one_entry("other");
    } else {
      expect_status(ls_saver_save(&saver, path), LS_FAILED_PRECONDITION, "'v'");
    }
    expect_ok(
        ls_tensor_status(ls_variable_assign(v, ls_scalar(LS_DTYPE_F32, 3))));
    assert_true(ls_nest_number(ls_leaf(ls_variable_read(v))) == 3);
    assert_true(ls_nest_number(ls_leaf(ls_variable_is_initialized(v, NULL))) ==
                1);
    if (mirrored) expect_components(v, (double[]){3, 3}, 2);
    expect_ok(ls_saver_save(&saver, path));
    expect_ok(ls_frame_end(NULL));
    ls_variable_release(all[1]);
  }
}

TEST(one_without_a_value_has_nothing_to_start_with) {
  LS_SPEC("V124");
  ls_variable *v = NULL;
  expect_ok(ls_frame_begin());
  expect_status(
      ls_variable_create(
          &(ls_variable_options){.name = "v",
                                 .initial_value = ls_scalar(LS_DTYPE_F32, 1),
                                 .no_value = true},
          &v),
      LS_INVALID_ARGUMENT, "both no_value and an initial value");
  expect_status(ls_variable_create(
                    &(ls_variable_options){.name = "v", .no_value = true}, &v),
                LS_INVALID_ARGUMENT, "needs a dtype");
  expect_ok(ls_frame_end(NULL));
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    expect_status(ls_variable_create(
                      &(ls_variable_options){
                          .name = "v", .dtype = LS_DTYPE_F32, .no_value = true},
                      &v),
                  LS_INVALID_ARGUMENT, "until its initializer runs");
  }
}

TEST(components_get_their_values_one_by_one) {
  LS_SPEC("V124");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = NULL;
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_variable_create(&(ls_variable_options){.name = "v",
                                                        .dtype = LS_DTYPE_F32,
                                                        .no_value = true},
                                 &v));
  }
  expect_ok(ls_frame_begin());
  ls_variable *first = ls_variable_component(v, 0);
  ls_variable *second = ls_variable_component(v, 1);
  expect_ok(
      ls_tensor_status(ls_variable_assign(first, ls_scalar(LS_DTYPE_F32, 3))));
  assert_true(item_of(ls_variable_read(first)) == 3);
  expect_status(ls_tensor_status(ls_variable_read(second)),
                LS_FAILED_PRECONDITION, "has no value");
  assert_true(item_of(ls_variable_is_initialized(v, NULL)) == 0);
  ls_variable_assign(second, ls_scalar(LS_DTYPE_F32, 4));
  assert_true(item_of(ls_variable_is_initialized(v, NULL)) == 1);
  expect_components(v, (double[]){3, 4}, 2);
  expect_ok(ls_frame_end(NULL));
}

// ---- Branches and loops ----------------------------------------------------
static ls_nest write_three(ls_nest none, void *variable) {
  (void)none;
  return ls_leaf(ls_variable_assign(variable, ls_scalar(LS_DTYPE_F32, 3)));
}

static ls_nest write_nothing(ls_nest none, void *variable) {
  (void)none, (void)variable;
  return ls_leaf(ls_scalar(LS_DTYPE_F32, 0));
}

static ls_nest write_in_branch(ls_nest none, void *variable) {
  const ls_tensor one = ls_scalar(LS_DTYPE_F32, 1);
  (void)none;
  return ls_cond(ls_equal(one, one), write_three, write_nothing, variable);
}

static ls_nest write_in_trip(ls_nest values, void *variable) {
  LS_OWN(ls_nest, written) = write_three(ls_none(), variable);
  return LS_LIST(ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1)));
}

static ls_nest write_in_loop(ls_nest none, void *variable) {
  (void)none;
  return ls_while(below_three, write_in_trip, variable,
                  LS_LIST(ls_leaf(ls_scalar_i64(LS_DTYPE_I32, 0))), 0);
}

static const char reads_too[] =
    "'v' is read but was never initialized; run its initializer "
    "(ls_global_initializer) or assign a value first. A branch or loop that "
    "assigns it reads it, too";

// Writes in eager, where it works, or in a function; without replicas or on
// some.
static void expect_written(ls_callback callback, int replicas, bool in_eager) {
  LS_OWN(ls_strategy, strategy) = replicas > 0 ? mirrored_of(replicas) : NULL;
  LS_OWN(ls_variable, v) = NULL;
  const ls_variable_options options = {
      .name = "v", .dtype = LS_DTYPE_F32, .no_value = true};
  if (strategy != NULL) {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_variable_create(&options, &v));
  } else {
    expect_ok(ls_variable_create(&options, &v));
  }
  LS_OWN(ls_function, function) = function_of(callback, v);
  LS_OWN(ls_nest, results) = ls_none();
  expect_ok(ls_frame_begin());
  ls_status status = ls_ok();
  if (strategy != NULL) {
    status = ls_strategy_run(
        strategy, in_eager ? ls_plain(callback, v) : ls_traced(function),
        ls_none(), &results);
  } else if (in_eager) {
    results = callback(ls_none(), v);
    status = ls_nest_status(results);
  } else {
    status = ls_function_call(function, ls_none(), &results);
  }
  if (in_eager) {
    expect_ok(status);
    expect_variable(v, (double[]){3}, 1, 0);
  } else {
    expect_status(status, LS_FAILED_PRECONDITION, reads_too);
  }
  ls_nest_release(results);
  results = ls_none();
  expect_ok(ls_frame_end(NULL));
}

static void expect_refused_in_session(ls_callback callback) {
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_OWN(ls_variable, v) = NULL;
  LS_OWN(ls_nest, made) = ls_none();
  ls_nest results = ls_none();
  {
    LS_GRAPH_SCOPE(graph);
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "v", .dtype = LS_DTYPE_F32}, &v));
    made = callback(ls_none(), v);
  }
  LS_OWN(ls_session, session) = session_of(graph);
  expect_status(ls_session_run(session, made, NULL, 0, &results),
                LS_FAILED_PRECONDITION, reads_too);
}

TEST(a_branch_or_loop_that_writes_a_variable_keeps_its_value) {
  const ls_callback callbacks[] = {write_in_branch, write_in_loop};
  for (size_t i = 0; i < LS_COUNT_OF(callbacks); ++i) {
    for (int replicas = 0; replicas < 4; ++replicas)
      for (int in_eager = 0; in_eager < 2; ++in_eager)
        expect_written(callbacks[i], replicas, in_eager == 1);
    expect_refused_in_session(callbacks[i]);
  }
}

// ---- Some components -------------------------------------------------------
typedef struct split_variable {
  ls_strategy *strategy;
  ls_variable *variable;
} split_variable;

static ls_tensor f32_of(double value) {
  return ls_scalar(LS_DTYPE_F32, value);
}

static ls_nest assign_three(ls_nest none, void *user) {
  (void)none;
  return ls_leaf(
      ls_variable_assign(((split_variable *)user)->variable, f32_of(3)));
}

// All components get a value in replicas, the first another one after it.
static ls_nest assign_all_and_one(ls_nest none, void *user) {
  split_variable *self = user;
  LS_OWN(ls_function, inner) = function_of(assign_three, self);
  LS_OWN(ls_nest, results) = ls_none();
  expect_ok(ls_strategy_run(self->strategy, ls_traced(inner), none, &results));
  ls_variable_assign(ls_variable_component(self->variable, 0), f32_of(5));
  return ls_leaf(f32_of(0));
}

static ls_nest assign_by_state(ls_nest none, void *user) {
  split_variable *self = user;
  const ls_tensor has_value = ls_variable_is_initialized(self->variable, NULL);
  (void)none;
  return ls_leaf(ls_variable_assign(
      self->variable, ls_select(has_value, f32_of(7), f32_of(3))));
}

// Runs the callback after a write of the first component, or as it is.
static void expect_split(ls_callback callback, bool in_replicas,
                         bool is_on_read, const double *expected) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  split_variable self = {.strategy = strategy};
  LS_OWN(ls_variable, v) = NULL;
  ls_variable_options options = {
      .name = "v", .dtype = LS_DTYPE_F32, .no_value = true};
  if (is_on_read) {
    options.synchronization = LS_SYNCHRONIZATION_ON_READ;
    options.aggregation = LS_AGGREGATION_SUM;
  }
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_variable_create(&options, &v));
  }
  self.variable = v;
  LS_OWN(ls_function, function) = function_of(callback, &self);
  LS_OWN(ls_nest, results) = ls_none();
  expect_ok(ls_frame_begin());
  if (in_replicas) {
    ls_variable_assign(ls_variable_component(v, 0), f32_of(1));
    expect_ok(
        ls_strategy_run(strategy, ls_traced(function), ls_none(), &results));
  } else {
    expect_ok(ls_function_call(function, ls_none(), &results));
  }
  expect_components(v, expected, 2);
  ls_nest_release(results);
  results = ls_none();
  expect_ok(ls_frame_end(NULL));
}

TEST(a_component_keeps_the_value_that_all_got) {
  for (int is_on_read = 0; is_on_read < 2; ++is_on_read)
    expect_split(assign_all_and_one, false, is_on_read == 1, (double[]){5, 3});
}

TEST(a_variable_of_which_a_component_has_no_value_has_none) {
  for (int is_on_read = 0; is_on_read < 2; ++is_on_read)
    expect_split(assign_by_state, true, is_on_read == 1, (double[]){3, 3});
}

TEST_FILE(.leaves = path)
