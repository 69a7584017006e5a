// SPDX-License-Identifier: Apache-2.0
//
// Update, fetch and map.
#include "lockstep/strategy.h"

#include <string.h>

#include "lockstep/graph.h"
#include "lockstep/session.h"
#include "support/replicas.h"

#define LOCAL "/job:localhost/replica:0/task:0/device:"

// What the calls of a function saw.
typedef struct calls {
  int count;
  double args[8];
  const ls_variable *components[8];
  char devices[8][80], names[8][80];
  bool fails;
} calls;

static ls_nest note_call(ls_nest args, void *user) {
  calls *c = user;
  const int i = c->count++;
  const ls_tensor here = ls_scalar(LS_DTYPE_F32, 7);
  c->components[i] = ls_nest_as_variable(ls_nest_item(args, 0));
  const ls_nest last = ls_nest_item(args, ls_nest_count(args) - 1);
  c->args[i] = last.kind == LS_KIND_SCALAR ? ls_nest_number(last) : -1;
  strncpy(c->devices[i], ls_op_device(ls_tensor_op(here)), 79);
  strncpy(c->names[i], ls_name_scope_current(), 79);
  return ls_none();
}

// ---- Calls -----------------------------------------------------------------
static void an_update_calls_for_each_component(void **state) {
  (void)state;
  LS_SPEC("V201 M134");
  ls_strategy *strategy = mirrored_of(2);
  static const ls_variable_synchronization kinds[] = {
      LS_SYNCHRONIZATION_ON_WRITE, LS_SYNCHRONIZATION_ON_READ};
  for (size_t k = 0; k < 2; ++k) {
    ls_variable *v =
        variable_in(strategy, (variable_kind){.synchronization = kinds[k]});
    const ls_nest args = LS_TUPLE(
        ls_nest_f64(9), distributed_numbers(LS_MIRRORED, (double[]){1, 2}, 2));
    calls c = {0};
    ls_nest made = ls_nest_f64(1);
    {
      LS_NAME_SCOPE("main");
      expect_ok(
          ls_strategy_update(strategy, v, note_call, args, &c, true, &made));
    }
    assert_int_equal(made.kind, LS_KIND_NONE);
    assert_int_equal(c.count, 2);
    for (size_t i = 0; i < 2; ++i) {
      assert_ptr_equal(c.components[i], ls_variable_component(v, i));
      assert_true(c.args[i] == (double)i + 1);
      assert_string_equal(c.devices[i], i == 0 ? LOCAL "CPU:0" : LOCAL "CPU:1");
      assert_string_equal(c.names[i],
                          i == 0 ? "main/update_0/" : "main/update_1/");
    }
    ls_nest_release(args);
    ls_variable_release(v);
  }
  ls_strategy_release(strategy);
}

static void only_distributed_variables_are_updated(void **state) {
  (void)state;
  LS_SPEC("V201");
  ls_strategy *strategy = mirrored_of(2), *other = mirrored_of(2);
  ls_variable *v = variable_in(strategy, (variable_kind){0}), *plain = NULL;
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "alone", .dtype = LS_DTYPE_F32}, &plain));
  calls c = {0};
  ls_nest made = ls_none();
  expect_status(ls_strategy_update(strategy, plain, note_call, ls_none(), &c,
                                   true, &made),
                LS_INVALID_ARGUMENT, "plain variable");
  expect_status(ls_strategy_update(strategy, ls_variable_component(v, 0),
                                   note_call, ls_none(), &c, true, &made),
                LS_INVALID_ARGUMENT, "component");
  {
    LS_STRATEGY_SCOPE(other);
    expect_status(
        ls_strategy_update(strategy, v, note_call, ls_none(), &c, true, &made),
        LS_FAILED_PRECONDITION, "cannot be mixed");
  }
  assert_int_equal(c.count, 0);
  ls_variable_release(v);
  ls_variable_release(plain);
  ls_strategy_release(strategy);
  ls_strategy_release(other);
}

static void arguments_of_an_update_are_mirrored(void **state) {
  (void)state;
  LS_SPEC("M136");
  ls_strategy *strategy = mirrored_of(2);
  ls_variable *v = variable_in(strategy, (variable_kind){0});
  calls c = {0};
  ls_nest made = ls_none();
  const ls_nest args = LS_TUPLE(
      LS_LIST(ls_nest_f64(3),
              distributed_numbers(LS_PER_REPLICA, (double[]){4, 4}, 2)));
  const ls_status status =
      ls_strategy_update(strategy, v, note_call, args, &c, true, &made);
  expect_contains(ls_status_message(status), "PerReplica:{\n  0: 4.0,");
  expect_status(status, LS_INVALID_ARGUMENT, "in ([3.0, PerReplica");
  assert_int_equal(c.count, 0);
  ls_nest_release(args);
  ls_variable_release(v);
  ls_strategy_release(strategy);
}

static void devices_are_updated_without_a_variable(void **state) {
  (void)state;
  LS_SPEC("M139");
  ls_strategy *strategy = mirrored_of(2);
  static const char *const devices[] = {"/cpu:1", "/cpu:0"};
  static const char *const foreign[] = {"/cpu:5"};
  const ls_nest args =
      LS_TUPLE(distributed_numbers(LS_MIRRORED, (double[]){1, 2}, 2));
  calls c = {0};
  ls_nest made = ls_nest_f64(1);
  expect_ok(ls_strategy_update_non_slot(strategy, devices, 2, note_call, args,
                                        &c, true, &made));
  assert_int_equal(made.kind, LS_KIND_NONE);
  assert_int_equal(c.count, 2);
  assert_string_equal(c.devices[0], LOCAL "CPU:1");
  assert_string_equal(c.names[0], "update_1/");
  assert_string_equal(c.names[1], "update_0/");
  assert_null(c.components[0]);
  expect_status(ls_strategy_update_non_slot(strategy, NULL, 0, note_call, args,
                                            &c, true, &made),
                LS_INVALID_ARGUMENT, "list of devices");
  expect_status(ls_strategy_update_non_slot(strategy, foreign, 1, note_call,
                                            args, &c, true, &made),
                LS_INVALID_ARGUMENT, "'/cpu:5'");
  assert_int_equal(c.count, 2);
  ls_nest_release(args);
  ls_strategy_release(strategy);
}

typedef struct in_replica {
  ls_strategy *strategy;
  ls_variable *variable;
} in_replica;

static ls_nest add_argument(ls_nest args, void *user) {
  (void)user;
  ls_nest made = ls_none();
  const ls_status status =
      ls_variable_write(ls_nest_as_variable(ls_nest_item(args, 0)),
                        LS_WRITE_ADD, ls_nest_item(args, 1), NULL, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

static ls_nest update_from_replica(ls_nest args, void *user) {
  const in_replica *u = user;
  (void)args;
  ls_nest made = ls_none();
  const ls_nest given = LS_TUPLE(ls_leaf(scalar_of(ls_replica_number() + 1)));
  const ls_status status = ls_strategy_update(
      u->strategy, u->variable, add_argument, given, NULL, true, &made);
  ls_nest_release(given);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

static void a_replica_updates_in_a_merge_call(void **state) {
  (void)state;
  LS_SPEC("V182 V205");
  ls_strategy *strategy = mirrored_of(2);
  in_replica u = {strategy,
                  variable_in(strategy, (variable_kind){.initial = 10})};
  const ls_nest made = run_on(strategy, update_from_replica, ls_none(), &u);
  // Nothing is aggregated.
  expect_components(u.variable, (double[]){11, 12}, 2);
  expect_numbers(made, (double[]){11, 12}, 2);
  ls_nest_release(made);
  ls_variable_release(u.variable);
  u.variable =
      variable_in(strategy, (variable_kind){.aggregation = LS_AGGREGATION_SUM});
  ls_nest refused = ls_none();
  expect_status(ls_strategy_run(strategy, ls_plain(update_from_replica, &u),
                                ls_none(), &refused),
                LS_INVALID_ARGUMENT, "not mirrored");
  expect_components(u.variable, (double[]){0, 0}, 2);
  ls_variable_release(u.variable);
  ls_strategy_release(strategy);
}

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

static void one_result_runs_every_update(void **state) {
  (void)state;
  LS_SPEC("V18 V19 V20 V22 M138");
  ls_strategy *strategy = mirrored_of(2);
  ls_graph *graph = NULL;
  ls_session *session = NULL;
  expect_ok(ls_graph_create("g", &graph));
  {
    LS_GRAPH_SCOPE(graph);
    ls_variable *v = graph_variable(strategy);
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
    ls_nest out = ls_none();
    expect_ok(ls_session_run(session, ls_nest_op(init), NULL, 0, &out));
    // Fetching component 0's result adds to component 1 as well.
    expect_ok(ls_session_run(session, ls_distributed_component(tensor, 0), NULL,
                             0, &out));
    assert_true(number_of(out) == 0);
    for (size_t i = 0; i < 2; ++i) {
      ls_array *value = NULL;
      expect_ok(ls_session_variable_value(session, ls_variable_component(v, i),
                                          &value));
      assert_true(ls_array_f64(value, 0) == (double)i);
      ls_array_release(value);
    }
    expect_ok(ls_session_run(session, op, NULL, 0, &out));
    ls_array *value = NULL;
    expect_ok(ls_session_variable_value(session, ls_variable_component(v, 1),
                                        &value));
    assert_true(ls_array_f64(value, 0) == 2);
    ls_array_release(value);
    ls_nest_release(out);
    ls_nest_release(tensor);
    ls_session_destroy(session);
    ls_variable_release(v);
  }
  ls_graph_destroy(graph);
  ls_strategy_release(strategy);
}

static void ungrouped_results_are_tuples(void **state) {
  (void)state;
  LS_SPEC("V17 V21 M137 M138");
  ls_strategy *strategy = mirrored_of(2), *one = mirrored_of(1);
  ls_variable *v = variable_in(strategy, (variable_kind){0});
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
  ls_variable *w = variable_in(one, (variable_kind){0});
  expect_ok(build_update(one, w, A_TENSOR, true, &made));
  assert_int_equal(made.kind, LS_KIND_TENSOR);
  // In eager everything has run: ops leave nothing.
  expect_ok(build_update(strategy, v, AN_OP, true, &made));
  assert_int_equal(made.kind, LS_KIND_NONE);
  ls_variable_release(v);
  ls_variable_release(w);
  ls_strategy_release(strategy);
  ls_strategy_release(one);
}

static void one_device_is_one_group(void **state) {
  (void)state;
  LS_SPEC("V22 V197 M26");
  ls_strategy *strategy = mirrored_of(2);
  ls_graph *graph = NULL;
  expect_ok(ls_graph_create("g", &graph));
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
    assert_string_equal(ls_op_device(op), "/cpu:1");
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
  ls_graph_destroy(graph);
  ls_strategy_release(strategy);
}

static void a_group_of_several_devices_has_the_name_asked_for(void **state) {
  (void)state;
  LS_SPEC("V22 V197");
  ls_strategy *strategy = mirrored_of(2);
  ls_graph *graph = NULL;
  ls_session *session = NULL;
  ls_op op, found;
  expect_ok(ls_graph_create("g", &graph));
  ls_variable *v = NULL;
  {
    LS_GRAPH_SCOPE(graph);
    v = variable_in(strategy, (variable_kind){.initial = 1});
    ls_nest parts[2];
    for (size_t i = 0; i < 2; ++i) {
      LS_DEVICE_SCOPE(i == 0 ? "/cpu:0" : "/cpu:1");
      parts[i] = ls_leaf(
          ls_variable_assign_add(ls_variable_component(v, i), scalar_of(10)));
    }
    const ls_nest value = ls_nest_distributed(LS_PER_REPLICA, parts, 2);
    expect_ok(ls_strategy_group(strategy, value, "both", &op));
    ls_nest_release(value);
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
    ls_array *array = NULL;
    expect_ok(ls_session_variable_value(session, ls_variable_component(v, i),
                                        &array));
    assert_true(ls_array_f64(array, 0) == 11);
    ls_array_release(array);
  }
  ls_session_destroy(session);
  ls_variable_release(v);
  ls_graph_destroy(graph);
  ls_strategy_release(strategy);
}

// ---- Fetch -----------------------------------------------------------------
static ls_nest times_ten(ls_nest args, void *user) {
  int *times = user;
  ls_tensor x;
  ++*times;
  expect_ok(ls_distributed_as_tensor(args, &x));
  return ls_leaf(ls_mul_scalar(x, 10));
}

static void fetched_values_are_tensors(void **state) {
  (void)state;
  LS_SPEC("M141 M142 M143 M144 M145");
  ls_strategy *strategy = mirrored_of(2);
  ls_variable *v = variable_in(strategy, (variable_kind){0});
  ls_variable *sums = variable_in(
      strategy, (variable_kind){.name = "sums",
                                .synchronization = LS_SYNCHRONIZATION_ON_READ,
                                .aggregation = LS_AGGREGATION_SUM});
  set_components(v, (double[]){3, 4}, 2);
  set_components(sums, (double[]){3, 4}, 2);
  const struct {
    ls_variable *variable;
    const char *to;
    double wanted;
    const char *device;
  } cases[] = {
      {v, NULL, 3, LOCAL "CPU:0"},  // There is a component.
      {v, "/cpu:1", 4, LOCAL "CPU:1"},
      {v, "/cpu:7", 3, LOCAL "CPU:7"},  // The first that has one.
      {sums, NULL, 7, LOCAL "CPU:0"},   // Reduced.
      {sums, "/cpu:1", 7, LOCAL "CPU:1"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); ++i) {
    const ls_nest leaf = ls_nest_variable(cases[i].variable);
    ls_nest made = ls_none();
    int times = 0;
    expect_ok(
        ls_strategy_fetch(strategy, leaf, cases[i].to, NULL, NULL, &made));
    assert_int_equal(made.kind, LS_KIND_TENSOR);
    assert_true(number_of(made) == cases[i].wanted);
    assert_string_equal(ls_op_device(ls_tensor_op(made.as.tensor)),
                        cases[i].device);
    expect_ok(ls_strategy_fetch(strategy, leaf, cases[i].to, times_ten, &times,
                                &made));
    assert_int_equal(times, 1);
    assert_true(number_of(made) == 10 * cases[i].wanted);
    ls_nest_release(leaf);
  }
  ls_nest made = ls_none();
  const ls_nest differing =
      distributed_numbers(LS_PER_REPLICA, (double[]){1, 2}, 2);
  expect_status(ls_strategy_fetch(strategy, differing, NULL, NULL, NULL, &made),
                LS_INVALID_ARGUMENT, "PerReplica");
  expect_status(ls_strategy_fetch(strategy, ls_leaf(scalar_of(1)), NULL, NULL,
                                  NULL, &made),
                LS_INVALID_ARGUMENT, "tensor");
  static const char *const elsewhere[] = {LOCAL "GPU:0", LOCAL "GPU:1"};
  const ls_nest items[] = {ls_nest_f64(1), ls_nest_f64(2)};
  const ls_nest away = ls_nest_distributed_on(LS_MIRRORED, items, elsewhere, 2);
  const ls_status status =
      ls_strategy_fetch(strategy, away, NULL, NULL, NULL, &made);
  expect_contains(ls_status_message(status), LOCAL "CPU:0");
  expect_status(status, LS_INVALID_ARGUMENT, LOCAL "GPU:1");
  expect_status(ls_strategy_fetch(strategy, away, "", NULL, NULL, &made),
                LS_INVALID_ARGUMENT, "one device");
  ls_nest_release(away);
  ls_nest_release(differing);
  ls_variable_release(v);
  ls_variable_release(sums);
  ls_strategy_release(strategy);
}

// ---- Map -------------------------------------------------------------------
static ls_nest square(ls_nest args, void *user) {
  calls *c = user;
  const ls_nest item = ls_nest_item(args, 0);
  assert_true(ls_in_cross_replica_context());
  const ls_tensor made = scalar_of(ls_nest_number(item) * ls_nest_number(item));
  strncpy(c->devices[c->count], ls_op_device(ls_tensor_op(made)), 79);
  c->args[c->count++] = ls_nest_number(ls_nest_item(args, 1));
  return ls_leaf(made);
}

static void items_are_dealt_to_devices(void **state) {
  (void)state;
  LS_SPEC("M146 M147 M148 M81");
  ls_strategy *strategy = mirrored_of(2), *three = mirrored_of(3);
  const ls_nest items[] = {ls_nest_f64(1), ls_nest_f64(2), ls_nest_f64(3)};
  const ls_nest args =
      LS_TUPLE(distributed_numbers(LS_MIRRORED, (double[]){5, 6, 7}, 3));
  calls c = {0};
  ls_nest made = ls_none();
  expect_ok(ls_strategy_map(strategy, items, 3, square, args, &c, &made));
  assert_int_equal(ls_distributed_kind_of(made), LS_PER_REPLICA);
  assert_int_equal(ls_distributed_count(made), 2);
  const ls_nest first = ls_distributed_component(made, 0);
  assert_int_equal(ls_distributed_kind_of(first), LS_MAP_OUTPUT);
  expect_numbers(first, (double[]){1, 9}, 2);
  expect_numbers(ls_distributed_component(made, 1), (double[]){4}, 1);
  static const double parts[] = {5, 6, 5};
  for (int k = 0; k < 3; ++k) {
    assert_true(c.args[k] == parts[k]);
    assert_string_equal(c.devices[k],
                        k % 2 == 0 ? LOCAL "CPU:0" : LOCAL "CPU:1");
  }
  // A mean is over items, not devices.
  ls_nest mean = ls_none();
  expect_ok(ls_strategy_reduce(strategy, LS_REDUCE_SUM, made, &mean));
  assert_true(number_of(mean) == 14);
  expect_ok(ls_strategy_reduce(strategy, LS_REDUCE_MEAN, made, &mean));
  assert_true(number_of(mean) == (double)(14.0f * (1.0f / 3)));
  ls_nest_release(made);
  // What a device has made nothing of is skipped.
  const ls_nest one = ls_nest_f64(8);
  const ls_nest outputs[] = {ls_nest_distributed(LS_MAP_OUTPUT, NULL, 0),
                             ls_nest_distributed(LS_MAP_OUTPUT, &one, 1)};
  const ls_nest uneven = ls_nest_distributed(LS_PER_REPLICA, outputs, 2);
  expect_ok(ls_strategy_reduce(strategy, LS_REDUCE_MEAN, uneven, &mean));
  assert_true(number_of(mean) == 8);
  ls_nest_release(uneven);
  // Devices without an item are absent.
  c.count = 0;
  expect_ok(ls_strategy_map(three, items, 2, square, args, &c, &made));
  assert_int_equal(ls_distributed_count(made), 2);
  ls_nest_release(made);
  expect_ok(ls_strategy_map(three, NULL, 0, square, args, &c, &made));
  assert_int_equal(made.kind, LS_KIND_DISTRIBUTED);
  assert_int_equal(ls_distributed_count(made), 0);
  expect_status(ls_strategy_reduce(three, LS_REDUCE_SUM, made, &mean),
                LS_INVALID_ARGUMENT, "must be non-empty");
  ls_nest_release(made);
  ls_nest_release(args);
  ls_strategy_release(strategy);
  ls_strategy_release(three);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_update_calls_for_each_component),
      cmocka_unit_test(only_distributed_variables_are_updated),
      cmocka_unit_test(arguments_of_an_update_are_mirrored),
      cmocka_unit_test(devices_are_updated_without_a_variable),
      cmocka_unit_test(a_replica_updates_in_a_merge_call),
      cmocka_unit_test(one_result_runs_every_update),
      cmocka_unit_test(ungrouped_results_are_tuples),
      cmocka_unit_test(one_device_is_one_group),
      cmocka_unit_test(a_group_of_several_devices_has_the_name_asked_for),
      cmocka_unit_test(fetched_values_are_tensors),
      cmocka_unit_test(items_are_dealt_to_devices),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  expect_ok(ls_runtime_destroy(NULL));
  return failed;
}
