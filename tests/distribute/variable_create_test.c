// SPDX-License-Identifier: Apache-2.0
//
// Making distributed variables: options, components, collections.
#include "lockstep/variable.h"

#include "distribute/own.h"
#include "lockstep/graph.h"
#include "lockstep/graph_ops.h"
#include "lockstep/variable_parts.h"
#include "support/function.h"
#include "support/values.h"
#include "support/variables.h"

// ---- Options ---------------------------------------------------------------
static void expect_refused(ls_strategy *strategy, ls_variable_options options,
                           const char *says) {
  ls_variable *v = NULL;
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    {
      LS_STRATEGY_SCOPE(strategy);
      const ls_status status = ls_variable_create(&options, &v);
      assert_int_equal(ls_status_code(status), LS_INVALID_ARGUMENT);
      expect_contains(ls_status_message(status),
                      options.name != NULL ? options.name : "none");
      expect_status(status, LS_INVALID_ARGUMENT, says);
    }
    expect_ok(ls_graph_take_error(graph));
  }
  assert_null(v);
  assert_int_equal(ls_graph_num_ops(graph), 0);
  assert_int_equal(
      ls_graph_collection(graph, LS_COLLECTION_GLOBAL_VARIABLES, NULL, 0), 0);
  assert_int_equal(
      ls_graph_collection(graph, LS_COLLECTION_TRAINABLE_VARIABLES, NULL, 0),
      0);
}

TEST(wrong_options_leave_nothing_behind) {
  LS_SPEC("V35 V36 V37 V38 V40");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  const ls_variable_options base = {.name = "v", .dtype = LS_DTYPE_F32};
  ls_variable_options options = base;
  options.synchronization = LS_SYNCHRONIZATION_NONE;
  expect_refused(strategy, options, "NONE");
  expect_refused(strategy, options, "change synchronization");
  options.name = NULL;
  expect_refused(strategy, options, "'none'");
  options = base;
  options.synchronization = (ls_variable_synchronization)7;
  expect_refused(strategy, options, "synchronization 7");
  // Synchronization is looked at first.
  options.aggregation = (ls_variable_aggregation)9;
  expect_refused(strategy, options, "synchronization 7");
  options.synchronization = LS_SYNCHRONIZATION_AUTO;
  expect_refused(strategy, options, "aggregation 9");
  options = base;
  options.dtype = LS_DTYPE_I32;
  options.aggregation = LS_AGGREGATION_MEAN;
  expect_refused(strategy, options, "MEAN of i32");
  options.synchronization = LS_SYNCHRONIZATION_ON_READ;
  expect_refused(strategy, options, "MEAN of i32");
  // What is asked for is kept; AUTO is ON_WRITE.
  LS_OWN(ls_variable, v) =
      variable_in(strategy, (variable_kind){.aggregation = LS_AGGREGATION_SUM});
  assert_int_equal(ls_variable_synchronization_of(v),
                   LS_SYNCHRONIZATION_ON_WRITE);
  assert_int_equal(ls_variable_aggregation_of(v), LS_AGGREGATION_SUM);
  ls_variable_release(v);
  v = variable_in(strategy, (variable_kind){0});
  assert_int_equal(ls_variable_aggregation_of(v), LS_AGGREGATION_NONE);
}

static bool trainable_of(ls_strategy *strategy, ls_flag flag,
                         ls_variable_synchronization synchronization) {
  LS_OWN(ls_variable, v) = NULL;
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_variable_create(
        &(ls_variable_options){.dtype = LS_DTYPE_F32,
                               .trainable = flag,
                               .synchronization = synchronization},
        &v));
  }
  return ls_variable_is_trainable(v);
}

TEST(trainable_is_the_default_but_for_on_read) {
  LS_SPEC("V39 M45");
  LS_OWN(ls_strategy, s) = mirrored_of(2);
  assert_true(trainable_of(s, LS_FLAG_DEFAULT, LS_SYNCHRONIZATION_AUTO));
  assert_true(trainable_of(s, LS_FLAG_DEFAULT, LS_SYNCHRONIZATION_ON_WRITE));
  assert_false(trainable_of(s, LS_FLAG_DEFAULT, ON_READ));
  assert_true(trainable_of(s, LS_FLAG_ON, ON_READ));
  assert_false(trainable_of(s, LS_FLAG_OFF, LS_SYNCHRONIZATION_AUTO));
  // Which class it is follows from the synchronization.
  LS_OWN(ls_variable, v) =
      variable_in(s, (variable_kind){.synchronization = ON_READ});
  char text[300];
  LS_OWN(ls_nest, leaf) = ls_nest_variable(v);
  expect_contains(ls_nest_print(leaf, text, sizeof(text)),
                  "SyncOnReadVariable");
  assert_false(ls_is_mirrored(leaf));
}

// ---- Components ------------------------------------------------------------
static const char *device_of(const ls_variable *v, size_t i) {
  return ls_variable_device(ls_variable_component(v, i));
}

TEST(a_component_is_made_on_each_device_in_order) {
  LS_SPEC("M38 M41 V54");
  static const char *const devices[] = {"/cpu:3", "/cpu:1"};
  LS_OWN(ls_strategy, strategy) = NULL;
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.devices = devices, .num_devices = 2}, &strategy));
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){.name = "w"});
  assert_int_equal(ls_variable_num_components(v), 2);
  assert_string_equal(device_of(v, 0),
                      "/job:localhost/replica:0/task:0/device:CPU:3");
  assert_string_equal(device_of(v, 1),
                      "/job:localhost/replica:0/task:0/device:CPU:1");
  const ls_variable *primary = ls_variable_component(v, 0);
  assert_string_equal(ls_variable_name(v), ls_variable_name(primary));
  assert_int_equal(ls_variable_dtype(v), ls_variable_dtype(primary));
  assert_true(ls_shape_equal(ls_variable_shape(v), ls_variable_shape(primary)));
  assert_int_equal(ls_variable_is_trainable(v),
                   ls_variable_is_trainable(primary));
  assert_ptr_equal(ls_variable_strategy(v), strategy);
}

TEST(names_are_absolute_and_unique) {
  LS_SPEC("M39 V53");
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  ls_variable *v[4];
  const ls_variable_options unnamed = {.dtype = LS_DTYPE_F32};
  const ls_variable_options named = {.name = "a", .dtype = LS_DTYPE_F32};
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    {
      LS_STRATEGY_SCOPE(strategy);
      expect_ok(ls_variable_create(&unnamed, &v[0]));
      expect_ok(ls_variable_create(&unnamed, &v[1]));
      {
        LS_NAME_SCOPE("main");
        expect_ok(ls_variable_create(&named, &v[2]));
        expect_ok(ls_variable_create(&named, &v[3]));
      }
    }
  }
  static const char *const names[4][3] = {
      {"Variable", "Variable/replica_1", "Variable/replica_2"},
      {"Variable_1", "Variable_1/replica_1", "Variable_1/replica_2"},
      {"main/a", "main/a/replica_1", "main/a/replica_2"},
      {"main/a_1", "main/a_1/replica_1", "main/a_1/replica_2"},
  };
  for (size_t i = 0; i < 4; ++i) {
    assert_string_equal(ls_variable_name(v[i]), names[i][0]);
    for (size_t c = 0; c < 3; ++c)
      assert_string_equal(ls_variable_name(ls_variable_component(v[i], c)),
                          names[i][c]);
    ls_variable_release(v[i]);
  }
}

static ls_nest draw(ls_nest args, void *user) {
  (void)args;
  ++*(int *)user;
  return ls_leaf(ls_random_normal(LS_DTYPE_F32, LS_SHAPE(3), 0, 1, NULL));
}

TEST(the_initial_value_is_made_once) {
  LS_SPEC("V55 M40");
  LS_OWN(ls_strategy, strategy) = mirrored_of(4);
  LS_OWN(ls_variable, v) = NULL;
  int calls = 0;
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_variable_create(
        &(ls_variable_options){.initializer = draw, .initializer_user = &calls},
        &v));
  }
  assert_int_equal(calls, 1);
  LS_OWN(ls_array, first) = variable_array(ls_variable_component(v, 0));
  for (size_t i = 1; i < 4; ++i) {
    LS_OWN(ls_array, other) = variable_array(ls_variable_component(v, i));
    assert_memory_equal(ls_array_data(first), ls_array_data(other), 12);
  }
  ls_variable_release(v);
  // Each component of a sum starts with the whole value.
  v = variable_in(strategy, (variable_kind){.initial = 1,
                                            .synchronization = ON_READ,
                                            .aggregation = SUM});
  expect_components(v, (double[]){1, 1, 1, 1}, 4);
  assert_true(number_of(ls_leaf(ls_variable_read(v))) == 4);
}

TEST(components_stand_beside_those_of_another) {
  LS_SPEC("V54");
  static const char *const devices[] = {"/cpu:3", "/cpu:1"};
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_strategy, other) = mirrored_of(2);
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.devices = devices, .num_devices = 2}, &strategy));
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){.name = "w"});
  LS_OWN(ls_variable, foreign) = variable_in(other, (variable_kind){0});
  LS_OWN(ls_variable, slot) = NULL;
  {
    LS_STRATEGY_SCOPE(strategy);
    ls_variable_options options = {
        .name = "w/m", .dtype = LS_DTYPE_F32, .colocate_with = v};
    expect_ok(ls_variable_create(&options, &slot));
    assert_string_equal(device_of(slot, 0), device_of(v, 0));
    assert_string_equal(device_of(slot, 1), device_of(v, 1));
    ls_variable_release(slot);
    options.colocate_with = ls_variable_component(v, 1);
    expect_ok(ls_variable_create(&options, &slot));
    assert_int_equal(ls_variable_num_components(slot), 1);
    assert_string_equal(device_of(slot, 0), device_of(v, 1));
    ls_variable_release(slot);
    options.colocate_with = foreign;
    expect_status(ls_variable_create(&options, &slot), LS_INVALID_ARGUMENT,
                  "was made in");
  }
  // Without a strategy: on the one device.
  expect_ok(ls_variable_create(
      &(ls_variable_options){.dtype = LS_DTYPE_F32,
                             .colocate_with = ls_variable_component(v, 0)},
      &slot));
  assert_string_equal(ls_variable_device(slot), device_of(v, 0));
}

// ---- Collections -----------------------------------------------------------
static size_t collected(const ls_graph *graph, const char *name,
                        ls_variable *variable) {
  ls_nest leaves[8];
  const size_t count = ls_graph_collection(graph, name, leaves, 8);
  size_t found = 0;
  for (size_t i = 0; i < count; ++i)
    found += ls_nest_as_variable(leaves[i]) == variable;
  return found;
}

TEST(the_container_is_in_the_collections) {
  LS_SPEC("V43 V49 M42 M43 M44");
  static const char *const mine[] = {"mine", LS_COLLECTION_TRAINABLE_VARIABLES};
  static const char *const none[] = {NULL};
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  ls_variable *usual = NULL, *asked = NULL, *nowhere = NULL;
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    {
      LS_STRATEGY_SCOPE(strategy);
      ls_variable_options options = {.dtype = LS_DTYPE_F32};
      expect_ok(ls_variable_create(&options, &usual));
      options.collections = mine;
      options.num_collections = 2;
      expect_ok(ls_variable_create(&options, &asked));
      options.collections = none;
      options.num_collections = 0;
      options.trainable = LS_FLAG_OFF;
      expect_ok(ls_variable_create(&options, &nowhere));
    }
  }
  ls_variable *const all[] = {usual, asked, nowhere};
  static const char *const names[] = {LS_COLLECTION_GLOBAL_VARIABLES, "mine",
                                      LS_COLLECTION_TRAINABLE_VARIABLES};
  static const size_t wanted[3][3] = {{1, 0, 1}, {0, 1, 1}, {0, 0, 0}};
  for (size_t v = 0; v < 3; ++v)
    for (size_t n = 0; n < 3; ++n) {
      assert_int_equal(collected(graph, names[n], all[v]), wanted[v][n]);
      for (size_t i = 0; i < 2; ++i)
        assert_int_equal(
            collected(graph, names[n], ls_variable_component(all[v], i)), 0);
    }
  assert_string_equal(mine[0], "mine");
  for (size_t v = 0; v < 3; ++v)
    ls_variable_release(all[v]);
}

TEST(eager_keeps_the_global_step_only) {
  LS_SPEC("V50 M42");
  static const char *const both[] = {"mine", LS_COLLECTION_GLOBAL_STEP};
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = NULL;
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_variable_create(&(ls_variable_options){.dtype = LS_DTYPE_I64,
                                                        .collections = both,
                                                        .num_collections = 2},
                                 &v));
  }
  ls_graph *graph = ls_graph_current();
  assert_int_equal(collected(graph, LS_COLLECTION_GLOBAL_STEP, v), 1);
  assert_int_equal(ls_graph_collection(graph, "mine", NULL, 0), 0);
  const ls_nest leaf = {.kind = LS_KIND_VARIABLE, .as.ref = v};
  ls_graph_remove_from_collection(graph, LS_COLLECTION_GLOBAL_STEP, leaf);
}
