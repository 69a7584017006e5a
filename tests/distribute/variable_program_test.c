// SPDX-License-Identifier: Apache-2.0
//
// Distributed variables in programs: sessions and traced functions. What is
// equal on all replicas is stored once, and either way gives the same values.
#include "lockstep/session.h"

#include <string.h>

#include "base/runtime_internal.h"
#include "distribute/own.h"
#include "lockstep/function_plan.h"
#include "lockstep/graph.h"
#include "lockstep/strategy_extended.h"
#include "runtime/program.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"

// ---- In a session ----------------------------------------------------------
typedef struct built {
  ls_strategy *strategy;
  ls_graph *graph;
  ls_session *session;
  ls_variable *variable;
  ls_nest assigned;  // Five to all of them.
  ls_op plain;       // The same, without the value.
  ls_tensor one;     // Two to the second.
  ls_tensor reads[2];
} built;

static void build(built *b) {
  *b = (built){.strategy = mirrored_of(2)};
  expect_ok(ls_graph_create("g", &b->graph));
  {
    LS_GRAPH_SCOPE(b->graph);
    {
      LS_STRATEGY_SCOPE(b->strategy);
      expect_ok(ls_variable_create(
          &(ls_variable_options){.name = "v", .dtype = LS_DTYPE_F32},
          &b->variable));
    }
    for (size_t i = 0; i < 2; ++i)
      b->reads[i] = ls_variable_read(ls_variable_component(b->variable, i));
    expect_ok(ls_variable_write(b->variable, LS_WRITE_ASSIGN, ls_nest_f64(5),
                                &(ls_write_options){.name = "five"},
                                &b->assigned));
    ls_nest op = ls_none();
    expect_ok(ls_variable_write(b->variable, LS_WRITE_ASSIGN, ls_nest_f64(5),
                                &(ls_write_options){.no_read_value = true},
                                &op));
    assert_int_equal(op.kind, LS_KIND_OP);
    b->plain = op.as.op;
    b->one = ls_variable_assign(ls_variable_component(b->variable, 1),
                                ls_scalar(LS_DTYPE_F32, 2));
  }
  expect_ok(ls_session_create(b->graph, &b->session));
}

static void drop(built *b) {
  ls_nest_release(b->assigned);
  ls_session_destroy(b->session);
  ls_variable_release(b->variable);
  ls_graph_destroy(b->graph);
  ls_strategy_release(b->strategy);
}
LS_OWNED_STRUCT(built, drop)

static void run(built *b, ls_nest fetch) {
  LS_OWN(ls_nest, out) = session_results(b->session, fetch);
}

// By fetching, and from outside.
static void expect_values(built *b, double first, double second) {
  const double wanted[] = {first, second};
  LS_OWN(ls_nest, fetch) = LS_LIST(ls_leaf(b->reads[0]), ls_leaf(b->reads[1]));
  LS_OWN(ls_nest, out) = session_results(b->session, fetch);
  for (size_t i = 0; i < 2; ++i) {
    assert_true(number_of(ls_nest_item(out, i)) == wanted[i]);
    LS_OWN(ls_array, value) =
        session_array(b->session, ls_variable_component(b->variable, i));
    assert_true(ls_array_f64(value, 0) == wanted[i]);
  }
}

TEST(one_initializer_is_for_all_components) {
  LS_SPEC("V82 M41");
  LS_OWN(built, b) = {0};
  build(&b);
  const ls_op init = ls_variable_initializer(b.variable);
  assert_string_equal(ls_op_type_name(init), "no_op");
  assert_ptr_equal(init.graph, b.graph);
  ls_variable *eager = variable_in(b.strategy, (variable_kind){0});
  assert_true(ls_op_is_failed(ls_variable_initializer(eager)));
  ls_variable_release(eager);
  for (size_t i = 0; i < 2; ++i)
    assert_false(ls_op_is_failed(
        ls_variable_initializer(ls_variable_component(b.variable, i))));
  ls_nest out = ls_none();
  expect_status(ls_session_run(b.session, ls_leaf(b.reads[1]), NULL, 0, &out),
                LS_FAILED_PRECONDITION, "v/replica_1");
  // One component alone can be initialized, too.
  run(&b, ls_nest_op(
              ls_variable_initializer(ls_variable_component(b.variable, 0))));
  expect_status(ls_session_run(b.session, ls_leaf(b.reads[1]), NULL, 0, &out),
                LS_FAILED_PRECONDITION, "v/replica_1");
  ls_nest_release(out);
  run(&b, ls_nest_op(init));
  expect_values(&b, 0, 0);
}

TEST(a_write_is_an_op_for_each_component) {
  LS_SPEC("V94 V104");
  LS_OWN(built, b) = {0};
  build(&b);
  assert_true(ls_is_mirrored(b.assigned));
  for (size_t i = 0; i < 2; ++i) {
    ls_op op;
    const char *name = i == 0 ? "update_0/five" : "update_1/five";
    expect_ok(ls_graph_lookup_op(b.graph, name, &op));
    assert_string_equal(ls_op_type_name(op), "assign");
    assert_string_equal(
        ls_op_device(op),
        ls_variable_device(ls_variable_component(b.variable, i)));
  }
  run(&b, ls_nest_op(ls_variable_initializer(b.variable)));
  // Any one of the results brings all.
  run(&b, ls_distributed_component(b.assigned, 1));
  expect_values(&b, 5, 5);
  run(&b, ls_leaf(b.one));
  expect_values(&b, 5, 2);
  run(&b, ls_nest_op(b.plain));
  expect_values(&b, 5, 5);
}

TEST(states_come_and_go) {
  LS_OWN(built, b) = {0};
  build(&b);
  run(&b, ls_nest_op(ls_variable_initializer(b.variable)));
  // The same fetches in both states, again and again.
  for (int again = 0; again < 3; ++again) {
    run(&b, ls_leaf(b.one));
    expect_values(&b, again == 0 ? 0 : 5, 2);
    run(&b, ls_nest_op(b.plain));
    expect_values(&b, 5, 5);
  }
}

// ---- In a traced function --------------------------------------------------
static bool is_shared(const ls_variable *v) {
  ls_runtime_state *state = NULL;
  expect_ok(ls_runtime_state_get(ls_runtime_current(), &state));
  return ls_store_is_shared(state->store, v);
}

typedef struct step {
  ls_variable *variable;
  ls_write_op op;
  int traces;
} step;

static ls_nest train(ls_nest args, void *user) {
  step *s = user;
  ls_nest made = ls_none();
  ++s->traces;
  const ls_status status =
      ls_variable_write(s->variable, s->op, ls_nest_item(args, 0), NULL, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

static ls_nest read_twice(ls_nest args, void *user) {
  (void)args;
  return ls_leaf(ls_mul_scalar(ls_variable_read(user), 2));
}

static ls_nest split_scalars(ls_strategy *strategy, const double *values,
                             int64_t count) {
  ls_array *array = NULL;
  ls_nest items[8];
  for (int64_t i = 0; i < count; ++i) {
    expect_ok(ls_array_create(LS_DTYPE_F32, LS_SCALAR, &array));
    ls_array_set_f64(array, 0, values[i]);
    items[i] = ls_nest_array(array);
  }
  (void)strategy;
  return LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, items, (size_t)count));
}

TEST(compiled_replicas_write_what_eager_ones_do) {
  LS_SPEC("V97 V98");
  static const struct {
    ls_variable_aggregation aggregation;
    double wanted[3];
  } cases[] = {{LS_AGGREGATION_SUM, {3, 13, 7}},
               {LS_AGGREGATION_MEAN, {1.5, 11.5, 8.5}},
               {LS_AGGREGATION_ONLY_FIRST_REPLICA, {1, 11, 9}}};
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_nest, args) = split_scalars(strategy, (double[]){1, 2}, 2);
  for (size_t c = 0; c < 3; ++c)
    for (int op = 0; op < 3; ++op) {
      LS_OWN(ls_variable, v) = variable_in(
          strategy,
          (variable_kind){.initial = 10, .aggregation = cases[c].aggregation});
      step s = {.variable = v, .op = (ls_write_op)op};
      LS_OWN(ls_function, f) = function_of(train, &s);
      const double wanted = cases[c].wanted[op];
      LS_OWN(ls_nest, made) = strategy_results(strategy, ls_traced(f), args);
      expect_components(v, (double[]){wanted, wanted}, 2);
      // One buffer for all, before and after.
      assert_true(is_shared(v));
    }
}

TEST(equal_components_have_one_buffer) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){.initial = 3});
  LS_OWN(ls_function, f) = function_of(read_twice, v);
  assert_true(is_shared(v));
  LS_OWN(ls_nest, made) = strategy_results(strategy, ls_traced(f), ls_none());
  expect_numbers(made, (double[]){6, 6}, 2);
  assert_int_equal(ls_function_num_traces(f), 2 - 1);
  set_components(v, (double[]){3, 3}, 2);
  assert_false(is_shared(v));  // It follows from writes, not from values.
  expect_ok(ls_strategy_run(strategy, ls_traced(f), ls_none(), &made));
  expect_numbers(made, (double[]){6, 6}, 2);
  assert_false(is_shared(v));
  LS_OWN(ls_nest, written) = ls_none();
  expect_ok(
      ls_variable_write(v, LS_WRITE_ASSIGN, ls_nest_f64(4), NULL, &written));
  assert_true(is_shared(v));
  expect_ok(ls_strategy_run(strategy, ls_traced(f), ls_none(), &made));
  expect_numbers(made, (double[]){8, 8}, 2);
}

static ls_nest assign_across(ls_nest args, void *user) {
  ls_nest made = ls_none();
  const ls_status status =
      ls_variable_write(user, LS_WRITE_ADD, ls_nest_item(args, 0), NULL, &made);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const ls_nest second = ls_nest_retain(ls_distributed_component(made, 1));
  ls_nest_release(made);
  return second;
}

TEST(a_function_across_replicas_writes_once) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){.initial = 3});
  LS_OWN(ls_function, f) = function_of(assign_across, v);
  ls_array *one = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SCALAR, &one));
  ls_array_set_f64(one, 0, 1);
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_array(one));
  LS_OWN(ls_nest, made) = ls_none();
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_function_call(f, args, &made));
    assert_true(number_of(made) == 4);
    assert_true(is_shared(v));  // Two ops with one value are one write.
    set_components(v, (double[]){1, 2}, 2);
    expect_ok(ls_function_call(f, args, &made));
    assert_true(number_of(made) == 3);
    expect_components(v, (double[]){2, 3}, 2);
    assert_false(is_shared(v));
  }
}
