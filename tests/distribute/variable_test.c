// SPDX-License-Identifier: Apache-2.0
//
// What distributed variables have in common.
#include "distribute/variables/variable.h"

#include <stdio.h>

#include "lockstep/graph.h"
#include "lockstep/saver.h"
#include "lockstep/session.h"

#include "distribute/own.h"
#include "support/function.h"
#include "support/values.h"
#include "support/variables.h"

// ---- Common properties -----------------------------------------------------
TEST(the_enums_have_their_numbers) {
  LS_SPEC("V34");
  assert_int_equal(LS_SYNCHRONIZATION_AUTO, 0);
  assert_int_equal(LS_SYNCHRONIZATION_NONE, 1);
  assert_int_equal(LS_SYNCHRONIZATION_ON_WRITE, 2);
  assert_int_equal(LS_SYNCHRONIZATION_ON_READ, 3);
  assert_int_equal(LS_AGGREGATION_NONE, 0);
  assert_int_equal(LS_AGGREGATION_SUM, 1);
  assert_int_equal(LS_AGGREGATION_MEAN, 2);
  assert_int_equal(LS_AGGREGATION_ONLY_FIRST_REPLICA, 3);
  // Zeroed options mean AUTO and NONE.
  LS_OWN(ls_variable, v) = NULL;
  expect_ok(
      ls_variable_create(&(ls_variable_options){.dtype = LS_DTYPE_F32}, &v));
  assert_int_equal(ls_variable_synchronization_of(v), LS_SYNCHRONIZATION_AUTO);
  assert_int_equal(ls_variable_aggregation_of(v), LS_AGGREGATION_NONE);
}

// Refused in the scope, in a build graph, and nothing is left there.

TEST(a_strategy_knows_what_it_made) {
  LS_SPEC("V33");
  LS_OWN(ls_strategy, a) = mirrored_of(2);
  LS_OWN(ls_strategy, b) = mirrored_of(2);
  ls_strategy *usual = NULL;
  LS_OWN(ls_variable, v) = variable_in(a, (variable_kind){0});
  LS_OWN(ls_variable, plain) = NULL;
  expect_ok(ls_strategy_default(&usual));
  expect_ok(ls_variable_create(&(ls_variable_options){.dtype = LS_DTYPE_F32},
                               &plain));
  assert_true(ls_strategy_made(a, v));
  assert_true(ls_strategy_made(a, ls_variable_component(v, 1)));
  assert_false(ls_strategy_made(b, v));
  assert_false(ls_strategy_made(usual, v));
  assert_false(ls_strategy_made(a, plain));
  assert_true(ls_strategy_made(usual, plain));
}

TEST(some_aggregations_are_reduce_ops) {
  LS_SPEC("V41");
  ls_reduce_op op = LS_REDUCE_MAX;
  expect_ok(ls_aggregation_reduce_op(SUM, &op));
  assert_int_equal(op, LS_REDUCE_SUM);
  expect_ok(ls_aggregation_reduce_op(MEAN, &op));
  assert_int_equal(op, LS_REDUCE_MEAN);
  expect_status(ls_aggregation_reduce_op(NONE, &op), LS_INVALID_ARGUMENT,
                "NONE");
  expect_status(ls_aggregation_reduce_op(FIRST, &op), LS_INVALID_ARGUMENT,
                "ONLY_FIRST_REPLICA");
}

// ---- Beside others ---------------------------------------------------------
TEST(only_what_the_strategy_made_is_a_place) {
  LS_SPEC("V30 V31");
  LS_OWN(ls_strategy, a) = mirrored_of(2);
  LS_OWN(ls_strategy, b) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_in(a, (variable_kind){.name = "mine"});
  LS_OWN(ls_variable, plain) = NULL;
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "plain", .dtype = LS_DTYPE_F32}, &plain));
  LS_OWN(ls_nest, whole) = ls_nest_variable(v);
  LS_OWN(ls_nest, alone) = ls_nest_variable(plain);
  LS_OWN(ls_nest, part) = ls_nest_variable(ls_variable_component(v, 1));
  expect_ok(ls_validate_colocate_distributed_variable(whole, a));
  expect_ok(ls_validate_colocate(whole, a));
  expect_ok(ls_validate_colocate(part, a));
  const struct {
    ls_status status;
    const char *names[2];
  } refused[] = {
      {ls_validate_colocate_distributed_variable(part, a),
       {"colocate_vars_with", "'mine/replica_1'"}},
      {ls_validate_colocate_distributed_variable(alone, a),
       {"colocate_vars_with", "'plain'"}},
      {ls_validate_colocate_distributed_variable(ls_nest_f64(4), a),
       {"colocate_vars_with", "4.0"}},
      {ls_validate_colocate_distributed_variable(whole, b),
       {"colocate_vars_with", "'mine' was made in mirrored strategy"}},
      {ls_validate_colocate(part, b),
       {"colocate_vars_with", "was made in mirrored strategy"}},
      {ls_validate_colocate(alone, a), {"colocate_vars_with", "'plain'"}},
      {ls_validate_colocate(ls_none(), a), {"colocate_vars_with", "none"}},
  };
  for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); ++i) {
    expect_contains(ls_status_message(refused[i].status), refused[i].names[0]);
    expect_status(refused[i].status, LS_INVALID_ARGUMENT, refused[i].names[1]);
  }
}

// ---- Which component --------------------------------------------------------
static ls_slice_info slice_of(const char *name) {
  ls_slice_info slice = {.full_shape = LS_SHAPE(10), .offset = LS_SHAPE(4)};
  snprintf(slice.full_name, sizeof(slice.full_name), "%s", name);
  return slice;
}

static ls_nest negate(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_neg(ls_nest_tensor(args, 0)));
}

TEST(a_variable_is_as_its_first_component) {
  LS_SPEC("V78");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = NULL;
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(
        ls_variable_create(&(ls_variable_options){.name = "w",
                                                  .dtype = LS_DTYPE_F64,
                                                  .shape = LS_SHAPE(3),
                                                  .trainable = LS_FLAG_OFF,
                                                  .constraint = negate,
                                                  .aggregation = SUM},
                           &v));
  }
  const ls_variable *first = ls_variable_component(v, 0);
  assert_string_equal(ls_variable_name(v), ls_variable_name(first));
  assert_int_equal(ls_variable_dtype(v), LS_DTYPE_F64);
  assert_true(ls_shape_equal(ls_variable_shape(v), ls_variable_shape(first)));
  assert_false(ls_variable_is_trainable(v));
  assert_true(ls_variable_has_constraint(v));
  assert_true(ls_variable_has_constraint(first));
  assert_null(ls_variable_graph(v));
  assert_int_equal(ls_variable_id(v), ls_variable_id(first));
  assert_int_not_equal(ls_variable_id(v),
                       ls_variable_id(ls_variable_component(v, 1)));
  assert_int_equal(ls_variable_synchronization_of(v),
                   ls_variable_synchronization_of(first));
  assert_int_equal(ls_variable_aggregation_of(v), SUM);
  assert_ptr_equal(ls_variable_strategy(v), strategy);
  assert_null(ls_variable_slice(v));
  const ls_slice_info slice = slice_of("all");
  expect_ok(ls_variable_set_slice(v, &slice));
  for (size_t i = 0; i < 2; ++i) {
    const ls_slice_info *set = ls_variable_slice(ls_variable_component(v, i));
    assert_string_equal(set->full_name, "all");
    assert_int_equal(set->offset.dim[0], 4);
  }
  assert_ptr_equal(ls_variable_slice(v), ls_variable_slice(first));
}

typedef struct places {
  ls_variable *v;
  const char *devices[2];
  uint64_t initial[2];
  ls_variable *handles[2];
  ls_op_description ops[2];
} places;

static ls_nest note_place(ls_nest args, void *user) {
  places *p = user;
  (void)args;
  const ls_opt update = ls_update_replica_id();
  const size_t i =
      update.set ? (size_t)update.value : (size_t)ls_replica_number();
  p->devices[i] = ls_variable_device(p->v);
  p->ops[i] = ls_variable_op_description(p->v);
  if (ls_variable_graph(p->v) != NULL)
    p->initial[i] = ls_variable_initial_value(p->v).ref;
  expect_ok(ls_variable_handle(p->v, &p->handles[i]));
  return ls_none();
}

static void expect_places(const places *p) {
  for (size_t i = 0; i < 2; ++i) {
    ls_variable *component = ls_variable_component(p->v, i);
    assert_string_equal(p->devices[i], ls_variable_device(component));
    assert_ptr_equal(p->handles[i], component);
    assert_string_equal(p->ops[i].name, ls_variable_name(component));
    if (ls_variable_graph(p->v) != NULL)
      assert_int_equal(p->initial[i], ls_variable_initial_value(component).ref);
  }
}

TEST(the_component_that_is_meant_depends_on_the_place) {
  LS_SPEC("V79 V80 V81");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_graph, graph) = graph_named("g");
  for (int eager = 0; eager < 2; ++eager) {
    ls_scope scope = {0};
    if (!eager) ls_graph_begin(&scope, graph);
    places p = {.v = variable_in(strategy, (variable_kind){.name = "w"})};
    ls_variable *first = ls_variable_component(p.v, 0), *handle = NULL;
    ls_variable *second = ls_variable_component(p.v, 1);
    ls_nest_release(run_on(strategy, note_place, ls_none(), &p));
    expect_places(&p);
    places u = {.v = p.v};
    ls_nest made = ls_none();
    expect_ok(ls_strategy_update(strategy, p.v, note_place, ls_none(), &u,
                                 false, &made));
    ls_nest_release(made);
    expect_places(&u);
    // Without a strategy in force it is the first, wherever the ops go.
    {
      LS_DEVICE_SCOPE("/cpu:1");
      assert_string_equal(ls_variable_device(p.v), ls_variable_device(first));
      expect_ok(ls_variable_handle(p.v, &handle));
      assert_ptr_equal(handle, first);
    }
    {
      LS_STRATEGY_SCOPE(strategy);
      assert_string_equal(ls_variable_device(p.v), ls_variable_device(first));
      const ls_status status = ls_variable_handle(p.v, &handle);
      expect_contains(ls_status_message(status), "handle of variable 'w");
      expect_contains(ls_status_message(status), "replica context");
      expect_status(status, LS_FAILED_PRECONDITION, "update");
      assert_null(handle);
      {
        LS_DEVICE_SCOPE("/cpu:1");
        assert_string_equal(ls_variable_device(p.v),
                            ls_variable_device(second));
        // The op is described by that of the first.
        const ls_op_description op = ls_variable_op_description(p.v);
        assert_string_equal(op.name, ls_variable_name(first));
        assert_string_equal(op.type, "variable");
        assert_ptr_equal(op.graph, eager ? NULL : graph);
      }
    }
    if (eager)
      expect_status(ls_tensor_status(ls_variable_initial_value(p.v)),
                    LS_FAILED_PRECONDITION, "eager");
    ls_variable_release(p.v);
    ls_scope_end(&scope);
  }
  ls_op_description a = {"w", "variable", graph}, b = a;
  assert_true(ls_op_description_equal(&a, &b));
  b.name = "x";
  assert_false(ls_op_description_equal(&a, &b));
  b = a;
  b.type = "table";
  assert_false(ls_op_description_equal(&a, &b));
  b = a;
  b.graph = NULL;
  assert_false(ls_op_description_equal(&a, &b));
}

// ---- Initializing -----------------------------------------------------------
static bool fetch_bool(ls_session *session, ls_tensor x) {
  LS_OWN(ls_nest, value) = session_results(session, ls_leaf(x));
  return ls_array_f64(ls_nest_as_array(value), 0) != 0;
}

static void run_op(ls_session *session, ls_op op) {
  LS_OWN(ls_nest, none) = session_results(session, ls_nest_op(op));
}

TEST(it_is_initialized_when_all_components_are) {
  LS_SPEC("V82 V83 M51");
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  ls_session *session = NULL, *other = NULL;
  ls_graph *graph = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    LS_OWN(ls_variable, v) =
        variable_in(strategy, (variable_kind){.initial = 4});
    const ls_tensor all = ls_variable_is_initialized(v, "all_there");
    assert_string_equal(ls_op_name(ls_tensor_op(all)), "all_there");
    assert_string_equal(ls_op_type_name(ls_tensor_op(all)), "and");
    expect_ok(ls_session_create(graph, &session));
    assert_false(fetch_bool(session, all));
    for (size_t i = 0; i < 3; ++i) {
      assert_false(fetch_bool(session, all));
      run_op(session, ls_variable_initializer(ls_variable_component(v, i)));
    }
    assert_true(fetch_bool(session, all));
    // Their group does it at once, in a session of its own.
    expect_ok(ls_session_create(graph, &other));
    assert_false(fetch_bool(other, all));
    assert_string_equal(ls_op_type_name(ls_variable_initializer(v)), "no_op");
    run_op(other, ls_variable_initializer(v));
    assert_true(fetch_bool(other, all));
    for (size_t i = 0; i < 3; ++i) {
      LS_OWN(ls_array, value) =
          session_array(other, ls_variable_component(v, i));
      assert_true(ls_array_f64(value, 0) == 4);
    }
    // In one run the order of the ops counts.
    ls_session_destroy(other);
    expect_ok(ls_session_create(graph, &other));
    const ls_op init = ls_variable_initializer(v);
    {
      LS_CONTROL_SCOPE(&init, 1);
      assert_true(fetch_bool(other, ls_variable_is_initialized(v, NULL)));
    }
    // Another initializer can be set.
    const ls_op mine = ls_group(NULL, 0, "mine");
    expect_ok(ls_variable_set_initializer(v, mine));
    assert_int_equal(ls_variable_initializer(v).id, mine.id);
    expect_status(ls_variable_set_initializer(v, (ls_op){0}),
                  LS_INVALID_ARGUMENT, "build graph");
  }
  ls_session_destroy(session);
  ls_session_destroy(other);
  ls_graph_destroy(graph);
  // In eager a variable is initialized when it is made.
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){.initial = 4});
  assert_true(ls_op_is_failed(ls_variable_initializer(v)));
  assert_true(number_of(ls_leaf(ls_variable_is_initialized(v, NULL))) == 1);
}

// ---- One replica -----------------------------------------------------------
TEST(the_variable_of_one_replica_is_its_component) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(1);
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){.initial = 4});
  // Given from outside, saved and restored, and by an op.
  const ls_saver saver = {.variables = &v, .num_variables = 1};
  set_variable(ls_variable_component(v, 0), (double[]){7});
  expect_variable(v, (double[]){7}, 1, 0);
  assert_true(number_of(ls_leaf(ls_variable_read(v))) == 7);
  expect_ok(ls_saver_save(&saver, "one-replica.safetensors"));
  set_variable(ls_variable_component(v, 0), (double[]){0});
  expect_ok(ls_saver_restore(&saver, "one-replica.safetensors"));
  expect_components(v, (double[]){7}, 1);
  set_components(v, (double[]){8}, 1);
  expect_variable(v, (double[]){8}, 1, 0);
  expect_components(v, (double[]){8}, 1);
}

// ---- Copies -----------------------------------------------------------------
TEST(a_copy_has_values_of_its_own) {
  LS_SPEC("V84");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_strategy, other) = mirrored_of(2);
  for (int kind = 0; kind < 4; ++kind) {
    strategy->uses_policies = kind >= 2;
    const bool on_read = kind % 2 == 1;
    LS_OWN(ls_variable, v) = variable_in(
        strategy,
        (variable_kind){.initial = 5,
                        .synchronization =
                            on_read ? ON_READ : LS_SYNCHRONIZATION_ON_WRITE,
                        .aggregation = MEAN});
    if (on_read) set_components(v, (double[]){3, 4}, 2);
    LS_OWN(ls_variable, copy) = NULL;
    {
      LS_STRATEGY_SCOPE(strategy);
      expect_ok(ls_variable_copy(v, &copy));
    }
    const double values[2] = {on_read ? 3 : 5, on_read ? 4 : 5};
    expect_components(copy, values, 2);
    ls_nest_release(write_across(v, LS_WRITE_ASSIGN, ls_nest_f64(9)));
    expect_components(copy, values, 2);
    for (size_t i = 0; i < 2; ++i) {
      assert_ptr_not_equal(ls_variable_component(copy, i),
                           ls_variable_component(v, i));
      assert_string_equal(ls_variable_device(ls_variable_component(copy, i)),
                          ls_variable_device(ls_variable_component(v, i)));
    }
    assert_string_equal(copy->class_name, v->class_name);
    assert_ptr_equal(ls_variable_strategy(copy), strategy);
    assert_int_equal(ls_variable_aggregation_of(copy), MEAN);
    assert_int_equal(ls_variable_synchronization_of(copy),
                     ls_variable_synchronization_of(v));
    if (kind >= 2) {
      const ls_variable_policy *a = v->policy, *b = copy->policy;
      assert_ptr_not_equal(a, b);
      assert_ptr_equal(a->rules, b->rules);
      assert_int_equal(b->aggregation, MEAN);
    } else {
      assert_null(copy->policy);
    }
    ls_variable *none = NULL;
    {
      LS_STRATEGY_SCOPE(other);
      expect_status(ls_variable_copy(v, &none), LS_FAILED_PRECONDITION,
                    "cannot be mixed");
    }
    assert_null(none);
  }
  strategy->uses_policies = false;
}
