// SPDX-License-Identifier: Apache-2.0
//
// Scopes and options that say how and where new variables of a strategy are
// made.
#include <string.h>

#include "distribute/own.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/variable.h"
#include "lockstep/variable_parts.h"
#include "support/placed.h"

static ls_status make(const char *name, ls_variable_options options,
                      ls_variable **out_variable) {
  options.name = name;
  options.dtype = LS_DTYPE_F32;
  return ls_variable_create(&options, out_variable);
}

static void expect_places(const ls_variable *variable,
                          const char *const *devices, size_t count) {
  assert_int_equal(ls_variable_num_components(variable), count);
  for (size_t i = 0; i < count; ++i)
    assert_string_equal(ls_variable_device(ls_variable_component(variable, i)) +
                            strlen(LOCAL_DEVICE),
                        devices[i]);
}

// ---- Synchronized on read --------------------------------------------------
static ls_nest make_in_replica(ls_nest args, void *user) {
  (void)args;
  ls_scope scope = {0};
  ls_replica_sync_on_read_variables_scope_begin(&scope, ls_replica_context(),
                                                LS_REDUCE_MEAN);
  ls_variable *v = NULL;
  expect_ok(make("w", (ls_variable_options){0}, &v));
  ls_scope_end(&scope);
  assert_int_equal(ls_variable_synchronization_of(v),
                   LS_SYNCHRONIZATION_ON_READ);
  if (ls_replica_number() == 0)
    *(ls_variable **)user = v;
  else
    ls_variable_release(v);
  return ls_none();
}

TEST(variables_are_synchronized_on_read_in_a_scope) {
  LS_SPEC("M46 M174 M45");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = NULL;
  LS_OWN(ls_variable, plain) = NULL;
  {
    LS_STRATEGY_SCOPE(strategy);
    for (int op = LS_REDUCE_SUM; op <= LS_REDUCE_MEAN; ++op) {
      {
        LS_SYNC_ON_READ_VARIABLES_SCOPE(strategy, (ls_reduce_op)op);
        expect_ok(
            make("v", (ls_variable_options){.trainable = LS_FLAG_ON}, &v));
      }
      assert_int_equal(ls_variable_synchronization_of(v),
                       LS_SYNCHRONIZATION_ON_READ);
      assert_int_equal(ls_variable_aggregation_of(v),
                       op == LS_REDUCE_SUM ? LS_AGGREGATION_SUM
                                           : LS_AGGREGATION_MEAN);
      assert_false(ls_variable_is_trainable(v));
      ls_variable_release(v);
    }
    {
      LS_SYNC_ON_READ_VARIABLES_SCOPE(strategy, LS_REDUCE_MAX);
      expect_status(ls_scope_status(), LS_INVALID_ARGUMENT, "by MAX");
    }
    expect_ok(make("p", (ls_variable_options){0}, &plain));
    assert_int_equal(ls_variable_synchronization_of(plain),
                     LS_SYNCHRONIZATION_ON_WRITE);
  }
  // In a replica, too.
  v = NULL;
  ls_nest_release(run_on(strategy, make_in_replica, ls_none(), &v));
  assert_int_equal(ls_variable_aggregation_of(v), LS_AGGREGATION_MEAN);
}

TEST(a_scope_is_for_its_strategy) {
  LS_SPEC("M174 V165");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_strategy, other) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){0});
  ls_variable *w = NULL;
  LS_OWN(ls_nest, beside) = ls_nest_variable(v);
  {
    LS_SYNC_ON_READ_VARIABLES_SCOPE(strategy, LS_REDUCE_SUM);
    expect_status(ls_scope_status(), LS_FAILED_PRECONDITION,
                  "mirrored strategy");
    expect_status(make("w", (ls_variable_options){0}, &w),
                  LS_FAILED_PRECONDITION, "mirrored strategy");
  }
  {
    LS_COLOCATE_VARIABLES_SCOPE(strategy, beside);
    expect_status(ls_scope_status(), LS_FAILED_PRECONDITION,
                  "colocate_vars_with of mirrored strategy");
  }
  {
    LS_STRATEGY_SCOPE(other);
    {
      LS_COLOCATE_VARIABLES_SCOPE(strategy, beside);
      expect_status(ls_scope_status(), LS_FAILED_PRECONDITION,
                    "mirrored strategy");
    }
    // Not made under it.
    {
      LS_COLOCATE_VARIABLES_SCOPE(other, beside);
      expect_status(ls_scope_status(), LS_INVALID_ARGUMENT, "'v'");
    }
    {
      LS_COLOCATE_VARIABLES_SCOPE(other, ls_nest_i64(4));
      expect_status(ls_scope_status(), LS_INVALID_ARGUMENT, "4");
    }
    LS_OWN(ls_nest, away) =
        placed_values("CPU", LS_DTYPE_F32, 3, 0, (double[]){1, 2, 3});
    {
      LS_COLOCATE_VARIABLES_SCOPE(other, away);
      expect_status(ls_scope_status(), LS_INVALID_ARGUMENT, "CPU:2");
    }
  }
  // A strategy is not left while they are open.
  expect_ok(ls_strategy_set_current(strategy));
  ls_scope scopes[2] = {{0}};
  ls_sync_on_read_variables_scope_begin(&scopes[0], strategy, LS_REDUCE_SUM);
  ls_colocate_variables_scope_begin(&scopes[1], strategy, beside);
  expect_ok(make("w", (ls_variable_options){0}, &w));
  assert_int_equal(ls_variable_num_components(w), 2);
  ls_variable_release(w);
  expect_status(ls_strategy_set_current(other), LS_FAILED_PRECONDITION,
                "mirrored strategy");
  expect_status(ls_strategy_set_current(NULL), LS_FAILED_PRECONDITION,
                "still open");
  ls_scope_end(&scopes[1]);
  ls_scope_end(&scopes[0]);
  expect_ok(ls_strategy_set_current(NULL));
}

// ---- Places ----------------------------------------------------------------
TEST(components_are_where_they_are_asked_for) {
  LS_SPEC("M47 M174");
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  ls_variable *v = NULL;
  LS_OWN(ls_variable, few) = NULL;
  static const char *const two[] = {"/cpu:2", "/cpu:0"};
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(make("all", (ls_variable_options){0}, &v));
    expect_places(v, (const char *[]){"CPU:0", "CPU:1", "CPU:2"}, 3);
    ls_variable_release(v);
    expect_ok(make(
        "few", (ls_variable_options){.devices = two, .num_devices = 2}, &few));
    expect_places(few, (const char *[]){"CPU:2", "CPU:0"}, 2);
    assert_string_equal(ls_variable_name(ls_variable_component(few, 1)),
                        "few/replica_1");
    // One device: still distributed, unless it is said to be alone.
    expect_ok(make(
        "one", (ls_variable_options){.devices = two, .num_devices = 1}, &v));
    expect_places(v, (const char *[]){"CPU:2"}, 1);
    ls_variable_release(v);
    expect_ok(
        make("alone", (ls_variable_options){.single_device = "/cpu:1"}, &v));
    assert_int_equal(ls_variable_num_components(v), 0);
    assert_string_equal(ls_variable_device(v), LOCAL_DEVICE "CPU:1");
    ls_variable_release(v);
    // Beside a variable, and beside a value.
    const ls_nest beside = ls_nest_variable(few);
    {
      LS_COLOCATE_VARIABLES_SCOPE(strategy, beside);
      expect_ok(make("beside", (ls_variable_options){0}, &v));
      expect_places(v, (const char *[]){"CPU:2", "CPU:0"}, 2);
      ls_variable_release(v);
      // What is asked for further in counts.
      expect_ok(make("inner",
                     (ls_variable_options){.devices = two, .num_devices = 1},
                     &v));
      expect_places(v, (const char *[]){"CPU:2"}, 1);
      ls_variable_release(v);
    }
    ls_nest_release(beside);
    const ls_tensor items[] = {scalar_of(1), scalar_of(2)};
    static const char *const places[] = {LOCAL_DEVICE "CPU:1",
                                         LOCAL_DEVICE "CPU:0"};
    const ls_nest value = placed_on(places, items, 2);
    {
      LS_COLOCATE_VARIABLES_SCOPE(strategy, value);
      expect_ok(make("as_value", (ls_variable_options){0}, &v));
      expect_places(v, (const char *[]){"CPU:1", "CPU:0"}, 2);
      ls_variable_release(v);
    }
    ls_nest_release(value);
    expect_status(make("x",
                       (ls_variable_options){.devices = two,
                                             .num_devices = 2,
                                             .single_device = "/cpu:0"},
                       &v),
                  LS_INVALID_ARGUMENT, "several of");
    expect_status(make("x", (ls_variable_options){.devices = two}, &v),
                  LS_INVALID_ARGUMENT, "empty list");
  }
}

// A component is on one device, which its creators see as the scope they are
// in.
static ls_status expect_no_devices(const ls_creator *next,
                                   const ls_variable_options *options,
                                   void *user, ls_variable **out_variable) {
  assert_null(options->devices);
  assert_int_equal(options->num_devices, 0);
  ++*(int *)user;
  return ls_creator_create(next, options, out_variable);
}

TEST(creators_of_components_are_asked_for_no_devices) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  static const char *const two[] = {"/cpu:2", "/cpu:0"};
  LS_OWN(ls_variable, v) = NULL;
  int count = 0;
  {
    LS_CREATOR_SCOPE(expect_no_devices, &count);
    {
      LS_STRATEGY_SCOPE(strategy);
      expect_ok(make(
          "v", (ls_variable_options){.devices = two, .num_devices = 2}, &v));
    }
  }
  assert_int_equal(count, 2);
}
