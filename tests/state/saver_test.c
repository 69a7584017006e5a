// SPDX-License-Identifier: Apache-2.0
// Values of variables in files, and back into as many replicas as there are.
#include "lockstep/saver.h"

#include <unistd.h>

#include "distribute/own.h"
#include "graph/variables/variable.h"
#include "lockstep/handles.h"
#include "runtime/eager/eager.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/saving.h"
#include "support/values.h"

#define ON_READ LS_SYNCHRONIZATION_ON_READ
#define SUM LS_AGGREGATION_SUM

// ---- Mirrored --------------------------------------------------------------
TEST(a_mirrored_variable_is_one_entry_for_any_number_of_replicas) {
  LS_SPEC("V122 V123 M52");
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_strategy, three) = mirrored_of(3);
  LS_OWN(ls_variable, v) = variable_in(two, (variable_kind){0});
  LS_OWN(ls_variable, wide) = variable_in(three, (variable_kind){.initial = 9});
  LS_OWN(ls_variable, alone) = plain("v", 8);
  set_components(v, (double[]){3, 4}, 2);
  {
    LS_STRATEGY_SCOPE(two);
    LS_DEVICE_SCOPE("/cpu:1");
    save(v);
  }
  expect_entry("v", 3);
  restore(v);
  expect_components(v, (double[]){3, 3}, 2);
  restore(wide);
  expect_components(wide, (double[]){3, 3, 3}, 3);
  restore(alone);
  assert_true(value_of(alone) == 3);
  // And from a plain one.
  ls_variable_release(alone);
  alone = plain("v", 5);
  save(alone);
  restore(v);
  expect_components(v, (double[]){5, 5}, 2);
  ls_variable *const component = ls_variable_component(v, 1);
  const ls_saver saver = saver_of(&component);
  expect_status(ls_saver_save(&saver, path), LS_INVALID_ARGUMENT,
                "component 1 of variable 'v'");
}

TEST(in_eager_a_mirrored_variable_without_a_value_is_left_out) {
  LS_SPEC("V124");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){.initial = 1});
  ls_variable *all[] = {v, plain("other", 2)};
  ls_eager_forget(v);
  expect_ok(ls_saver_save(
      &(ls_saver){.variables = all, .num_variables = 2, .exact = true}, path));
  expect_entry("other", 2);
  // One whose values are a session's is missed.
  ls_graph *graph = graph_named("g");
  ls_variable *built = NULL;
  {
    LS_GRAPH_SCOPE(graph);
    built = variable_in(strategy, (variable_kind){0});
  }
  ls_session *session = session_of(graph);
  ls_saver saver = saver_of(&built);
  saver.session = session;
  expect_status(ls_saver_save(&saver, path), LS_FAILED_PRECONDITION,
                "'v' has no value here");
  ls_session_destroy(session);
  ls_variable_release(built);
  ls_graph_destroy(graph);
  ls_variable_release(all[1]);
}

// ---- Synchronized on read --------------------------------------------------
TEST(what_components_make_is_saved_and_shared_out_again) {
  LS_SPEC("V125 V126 M52");
  static const struct {
    ls_variable_aggregation aggregation;
    double saved, two, four;
  } rows[] = {{SUM, 7, 3.5, 1.75},
              {LS_AGGREGATION_MEAN, 3.5, 3.5, 3.5},
              {LS_AGGREGATION_ONLY_FIRST_REPLICA, 3, 3, 3}};
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_strategy, four) = mirrored_of(4);
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    const variable_kind kind = {.synchronization = ON_READ,
                                .aggregation = rows[i].aggregation};
    LS_OWN(ls_variable, v) = variable_in(two, kind);
    LS_OWN(ls_variable, wide) = variable_in(four, kind);
    LS_OWN(ls_variable, alone) = plain("v", 0);
    const double x = rows[i].two, y = rows[i].four;
    set_components(v, (double[]){3, 4}, 2);
    save(v);
    expect_entry("v", rows[i].saved);
    expect_components(v, (double[]){3, 4}, 2);
    restore(v);
    expect_components(v, (double[]){x, x}, 2);
    restore(wide);
    expect_components(wide, (double[]){y, y, y, y}, 4);
    restore(alone);
    assert_true(value_of(alone) == rows[i].saved);
    save(alone);
    restore(v);
    expect_components(v, (double[]){x, x}, 2);
  }
}

TEST(integers_are_shared_out_towards_zero) {
  LS_SPEC("V126");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) =
      variable_in(strategy, (variable_kind){.dtype = LS_DTYPE_I32,
                                            .synchronization = ON_READ,
                                            .aggregation = SUM});
  set_components(v, (double[]){-3, -4}, 2);
  save(v);
  expect_entry("v", -7);
  restore(v);
  expect_components(v, (double[]){-3, -3}, 2);
}

static ls_nest save_in_replica(ls_nest args, void *user) {
  ls_variable *variable = user;
  (void)args;
  const ls_saver saver = saver_of(&variable);
  const ls_status status = ls_saver_save(&saver, path);
  return ls_status_is_ok(status) ? ls_none() : ls_fail(status);
}

TEST(without_one_value_or_inside_of_a_replica_no_save_is_made) {
  LS_SPEC("V125 V126");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, none) =
      variable_in(strategy, (variable_kind){.synchronization = ON_READ});
  LS_OWN(ls_variable, sum) =
      variable_in(strategy, (variable_kind){.initial = 2,
                                            .synchronization = ON_READ,
                                            .aggregation = SUM});
  const ls_saver saver = saver_of(&none);
  unlink(path);
  expect_status(ls_saver_save(&saver, path), LS_INVALID_ARGUMENT,
                "aggregation NONE");
  ls_nest results = ls_none();
  expect_status(ls_strategy_run(strategy, ls_plain(save_in_replica, sum),
                                ls_none(), &results),
                LS_FAILED_PRECONDITION, "saving a variable");
  assert_int_equal(access(path, F_OK), -1);
  // But what was saved otherwise is restored into it.
  LS_OWN(ls_variable, alone) = plain("v", 6);
  save(alone);
  restore(none);
  expect_components(none, (double[]){6, 6}, 2);
}

// A save while a graph is built adds nothing to it.
TEST(a_save_is_no_op_of_the_graph_that_is_built) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  LS_OWN(ls_variable, v) =
      variable_in(strategy, (variable_kind){.initial = 2,
                                            .synchronization = ON_READ,
                                            .aggregation = SUM});
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    save(v);
    restore(v);
  }
  assert_int_equal(graph->num_nodes, 0);
  expect_entry("v", 6);
  expect_components(v, (double[]){2, 2, 2}, 3);
}

// ---- When ------------------------------------------------------------------
TEST(values_are_those_of_the_save_and_a_restore_reads_none) {
  LS_SPEC("V127");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){.initial = 1});
  LS_OWN(ls_variable, fresh) =
      variable_in(strategy, (variable_kind){.initial = 1});
  const ls_saver saver = saver_of(&v), only_restores = saver_of(&fresh);
  set_components(v, (double[]){5, 5}, 2);
  expect_ok(ls_saver_save(&saver, path));
  expect_entry("v", 5);
  ls_eager_forget(fresh);  // Without a value to read.
  expect_ok(ls_saver_restore(&only_restores, path));
  expect_components(fresh, (double[]){5, 5}, 2);
}

static void run_op(ls_session *session, ls_op op) {
  LS_OWN(ls_nest, none) = session_results(session, ls_nest_op(op));
}

TEST(a_sessions_values_are_its_own) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_OWN(ls_session, other) = NULL;
  LS_OWN(ls_session, one) = NULL;
  LS_OWN(ls_variable, v) = NULL;
  LS_OWN(ls_variable, eager) = plain("v", 1);
  {
    LS_GRAPH_SCOPE(graph);
    v = variable_in(strategy, (variable_kind){.initial = 6,
                                              .synchronization = ON_READ,
                                              .aggregation = SUM});
  }
  expect_ok(ls_session_create(graph, &one));
  expect_ok(ls_session_create(graph, &other));
  run_op(one, ls_variable_initializer(v));
  ls_saver saver = saver_of(&v);
  saver.session = one;
  expect_ok(ls_saver_save(&saver, path));
  expect_entry("v", 12);
  restore(eager);
  assert_true(value_of(eager) == 12);
  saver.session = other;
  expect_ok(ls_saver_restore(&saver, path));
  for (size_t i = 0; i < 2; ++i) {
    LS_OWN(ls_array, value) = session_array(other, ls_variable_component(v, i));
    assert_true(ls_array_f64(value, 0) == 6);
  }
  saver.session = NULL;
  expect_status(ls_saver_save(&saver, path), LS_INVALID_ARGUMENT, "graph 'g'");
  saver = saver_of(&eager);
  saver.session = one;
  expect_status(ls_saver_save(&saver, path), LS_INVALID_ARGUMENT,
                "'v' is an eager one");
}

// ---- Handles ---------------------------------------------------------------
TEST(a_packed_variable_is_restored_on_each_device) {
  LS_SPEC("V128");
  ls_variable *parts[2] = {NULL}, *packed = NULL;
  {
    LS_DEVICE_SCOPE("/cpu:0");
    parts[0] = plain("a", 3);
  }
  {
    LS_DEVICE_SCOPE("/cpu:1");
    parts[1] = plain("b", 4);
  }
  const ls_nest leaves[] = {ls_nest_variable(parts[0]),
                            ls_nest_variable(parts[1])};
  expect_ok(ls_packed_variable_create("a/packed/", leaves, 2, &packed));
  save(packed);
  expect_entry("a/packed/", 3);
  restore(packed);
  assert_true(value_of(parts[0]) == 3);
  assert_true(value_of(parts[1]) == 3);
  for (int i = 0; i < 2; ++i) {
    ls_nest_release(leaves[i]);
    ls_variable_release(parts[i]);
  }
  ls_variable_release(packed);
}

// ---- To go on from ---------------------------------------------------------
TEST(components_that_were_written_one_by_one_come_back) {
  LS_SPEC("V212");
  static const char *const names[] = {"v", "v:0", "v:1"};
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_strategy, three) = mirrored_of(3);
  const variable_kind kind = {
      .dtype = LS_DTYPE_I32, .synchronization = ON_READ, .aggregation = SUM};
  LS_OWN(ls_variable, v) = variable_in(two, kind);
  LS_OWN(ls_variable, wide) = variable_in(three, kind);
  ls_saver saver = saver_of(&v);
  saver.exact = true;
  set_components(v, (double[]){3, 4}, 2);
  expect_ok(ls_saver_save(&saver, path));
  expect_entries(names, (double[]){7, 3, 4}, 3);
  set_components(v, (double[]){0, 0}, 2);
  expect_ok(ls_saver_restore(&saver, path));
  expect_components(v, (double[]){3, 4}, 2);
  // By a saver that does not go on, or with other replicas: by the rules.
  restore(v);
  expect_components(v, (double[]){3, 3}, 2);
  saver.variables = &wide;
  expect_ok(ls_saver_restore(&saver, path));
  expect_components(wide, (double[]){2, 2, 2}, 3);
  expect_ok(ls_saver_save(&saver, path));  // Of one value for all now.
  expect_entry("v", 6);
}

// By what was written, not by comparing: equal ones are saved each.
TEST(equal_components_count_as_they_were_written) {
  LS_SPEC("V212");
  static const char *const names[] = {"v", "v:0", "v:1"};
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){.initial = 5});
  ls_saver saver = saver_of(&v);
  saver.exact = true;
  expect_ok(ls_saver_save(&saver, path));
  expect_entry("v", 5);
  set_components(v, (double[]){5, 5}, 2);
  expect_ok(ls_saver_save(&saver, path));
  expect_entries(names, (double[]){5, 5, 5}, 3);
  set_components(v, (double[]){1, 2}, 2);
  expect_ok(ls_saver_save(&saver, path));
  set_components(v, (double[]){8, 8}, 2);
  expect_ok(ls_saver_restore(&saver, path));
  expect_components(v, (double[]){1, 2}, 2);
}

TEST_FILE(.leaves = path)
