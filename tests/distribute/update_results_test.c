// SPDX-License-Identifier: Apache-2.0
//
// What updates give: one result of all, a tuple, a group.
#include "lockstep/strategy.h"

#include "distribute/own.h"
#include "lockstep/graph.h"
#include "lockstep/graph_ops.h"
#include "lockstep/session.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/variable_parts.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"

#define LOCAL "/job:localhost/replica:0/task:0/device:"

// ---- Results ---------------------------------------------------------------
typedef enum result_kind {
  AN_OP,
  A_TENSOR,
  ONE_OBJECT,
  NUMBERS,
  OWN_VARIABLE
} result_kind;

typedef struct results {
  result_kind kind;
  ls_tensor shared;
} results;

static ls_nest give_result(ls_nest args, void *user) {
  const results *r = user;
  ls_variable *component = ls_nest_as_variable(ls_nest_item(args, 0));
  const ls_tensor written = ls_variable_assign_add(
      component, ls_scalar(LS_DTYPE_F32, (double)ls_update_replica_id().value));
  switch (r->kind) {
  case AN_OP:
    return ls_nest_op(ls_tensor_op(written));
  case A_TENSOR:
    return ls_leaf(written);
  case ONE_OBJECT:
    return ls_nest_f64(4);
  case NUMBERS:
    return ls_nest_i64(ls_update_replica_id().value);
  case OWN_VARIABLE:
    break;
  }
  return ls_nest_variable(component);
}

// Builds an update in a graph. The caller releases the result.
static ls_status build_update(ls_strategy *strategy, ls_variable *v,
                              result_kind kind, bool group, ls_nest *made) {
  results r = {.kind = kind};
  return ls_strategy_update(strategy, v, give_result, ls_none(), &r, group,
                            made);
}

static ls_variable *graph_variable(ls_strategy *strategy) {
  ls_variable *v = NULL;
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "v", .dtype = LS_DTYPE_F32}, &v));
  }
  return v;
}

TEST(one_result_runs_every_update) {
  LS_SPEC("V18 V19 V20 V22 M138");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  ls_session *session = NULL;
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    LS_OWN(ls_variable, v) = graph_variable(strategy);
    ls_nest op = ls_none(), tensor = ls_none(), got = ls_none();
    expect_ok(build_update(strategy, v, AN_OP, true, &op));
    assert_int_equal(op.kind, LS_KIND_OP);
    // A no-op over a no-op for each device, each placed there.
    assert_string_equal(ls_op_type_name(op.as.op), "no_op");
    assert_memory_equal(ls_op_name(op.as.op), "group_deps", 10);
    assert_int_equal(ls_op_num_control_inputs(op.as.op), 2);
    for (size_t i = 0; i < 2; ++i) {
      const ls_op of_device = ls_op_control_input(op.as.op, i);
      assert_string_equal(ls_op_type_name(of_device), "no_op");
      assert_string_equal(ls_op_device(of_device),
                          i == 0 ? LOCAL "CPU:0" : LOCAL "CPU:1");
      assert_int_equal(ls_op_num_control_inputs(of_device), 1);
      assert_string_equal(ls_op_type_name(ls_op_control_input(of_device, 0)),
                          "assign_add");
    }
    expect_ok(build_update(strategy, v, A_TENSOR, true, &tensor));
    assert_true(ls_is_mirrored(tensor));
    for (size_t i = 0; i < 2; ++i) {
      const ls_op of_part =
          ls_tensor_op(ls_nest_tensor(ls_distributed_component(tensor, i), 0));
      assert_string_equal(ls_op_type_name(of_part), "identity");
      assert_string_equal(ls_op_device(of_part),
                          i == 0 ? LOCAL "CPU:0" : LOCAL "CPU:1");
      assert_int_equal(ls_op_num_control_inputs(of_part), 1);
    }
    expect_status(build_update(strategy, v, NUMBERS, true, &got),
                  LS_INVALID_ARGUMENT, "0 is the result of an update");
    const ls_op init = ls_global_initializer();
    expect_ok(ls_session_create(graph, &session));
    ls_nest out = session_results(session, ls_nest_op(init));
    // Fetching component 0's result adds to component 1 as well.
    expect_ok(ls_session_run(session, ls_distributed_component(tensor, 0), NULL,
                             0, &out));
    assert_true(number_of(out) == 0);
    for (size_t i = 0; i < 2; ++i) {
      LS_OWN(ls_array, value) =
          session_array(session, ls_variable_component(v, i));
      assert_true(ls_array_f64(value, 0) == (double)i);
    }
    expect_ok(ls_session_run(session, op, NULL, 0, &out));
    ls_array *value = session_array(session, ls_variable_component(v, 1));
    assert_true(ls_array_f64(value, 0) == 2);
    ls_array_release(value);
    ls_nest_release(out);
    ls_nest_release(tensor);
    ls_session_destroy(session);
  }
}

TEST(ungrouped_results_are_tuples) {
  LS_SPEC("V17 V21 M137 M138");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_strategy, one) = mirrored_of(1);
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){0});
  ls_nest made = ls_none();
  expect_ok(build_update(strategy, v, NUMBERS, false, &made));
  expect_printed(made, "(0, 1)");
  ls_nest_release(made);
  expect_ok(build_update(strategy, v, ONE_OBJECT, false, &made));
  expect_printed(made, "(4.0,)");
  ls_nest_release(made);
  expect_ok(build_update(strategy, v, OWN_VARIABLE, false, &made));
  assert_int_equal(made.kind, LS_KIND_TUPLE);
  assert_int_equal(ls_nest_count(made), 2);
  assert_ptr_equal(ls_nest_as_variable(ls_nest_item(made, 1)),
                   ls_variable_component(v, 1));
  ls_nest_release(made);
  const ls_nest nothing[] = {ls_none(), ls_none()};
  expect_ok(ls_update_regroup(strategy, nothing, 2, false, &made));
  expect_printed(made, "(none,)");
  ls_nest_release(made);
  // Grouped, what is one object stays as it is, and components are whole.
  expect_ok(build_update(strategy, v, ONE_OBJECT, true, &made));
  expect_printed(made, "4.0");
  expect_ok(build_update(strategy, v, OWN_VARIABLE, true, &made));
  assert_ptr_equal(ls_nest_as_variable(made), v);
  ls_nest_release(made);
  LS_OWN(ls_variable, w) = variable_in(one, (variable_kind){0});
  expect_ok(build_update(one, w, A_TENSOR, true, &made));
  assert_int_equal(made.kind, LS_KIND_TENSOR);
  // In eager everything has run: ops leave nothing.
  expect_ok(build_update(strategy, v, AN_OP, true, &made));
  assert_int_equal(made.kind, LS_KIND_NONE);
}

TEST(one_device_is_one_group) {
  LS_SPEC("V22 V197 M26");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    ls_nest parts[2];
    {
      LS_DEVICE_SCOPE("/cpu:1");
      parts[0] = ls_leaf(ls_scalar(LS_DTYPE_F32, 1));
      parts[1] = ls_leaf(ls_scalar(LS_DTYPE_F32, 2));
    }
    const ls_tensor first = parts[0].as.tensor;
    const ls_nest value = ls_nest_distributed(LS_PER_REPLICA, parts, 2);
    ls_op op;
    expect_ok(ls_strategy_group(strategy, value, NULL, &op));
    assert_string_equal(ls_op_name(op), "group_deps");
    assert_string_equal(ls_op_device(op), "/device:CPU:1");
    assert_int_equal(ls_op_num_control_inputs(op), 2);
    expect_ok(ls_strategy_group(strategy, value, "all", &op));
    assert_string_equal(ls_op_name(op), "all");
    ls_nest_release(value);
    // One result and no name: its own op.
    const size_t before = ls_graph_num_ops(graph);
    expect_ok(ls_strategy_group(strategy, ls_leaf(first), NULL, &op));
    assert_int_equal(op.id, ls_tensor_op(first).id);
    assert_int_equal(ls_graph_num_ops(graph), before);
    expect_ok(ls_strategy_group(strategy, ls_leaf(first), "named", &op));
    assert_string_equal(ls_op_name(op), "named");
  }
}

TEST(a_group_of_several_devices_has_the_name_asked_for) {
  LS_SPEC("V22 V197");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_OWN(ls_session, session) = NULL;
  ls_op op, found;
  LS_OWN(ls_variable, v) = NULL;
  {
    LS_GRAPH_SCOPE(graph);
    v = variable_in(strategy, (variable_kind){.initial = 1});
    ls_nest parts[2];
    for (size_t i = 0; i < 2; ++i) {
      LS_DEVICE_SCOPE(i == 0 ? "/cpu:0" : "/cpu:1");
      parts[i] = ls_leaf(
          ls_variable_assign_add(ls_variable_component(v, i), scalar_of(10)));
    }
    LS_OWN(ls_nest, value) = ls_nest_distributed(LS_PER_REPLICA, parts, 2);
    expect_ok(ls_strategy_group(strategy, value, "both", &op));
  }
  expect_ok(ls_graph_take_error(graph));
  assert_string_equal(ls_op_name(op), "both");
  expect_ok(ls_graph_lookup_op(graph, "both", &found));
  assert_int_equal(found.id, op.id);
  // What is found by its name runs all of it.
  ls_nest fetched = ls_none();
  expect_ok(ls_session_create(graph, &session));
  {
    LS_GRAPH_SCOPE(graph);
    expect_ok(ls_session_run(session, ls_nest_op(ls_global_initializer()), NULL,
                             0, &fetched));
  }
  expect_ok(ls_session_run(session, ls_nest_op(found), NULL, 0, &fetched));
  for (size_t i = 0; i < 2; ++i) {
    LS_OWN(ls_array, array) =
        session_array(session, ls_variable_component(v, i));
    assert_true(ls_array_f64(array, 0) == 11);
  }
}
