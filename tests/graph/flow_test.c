// SPDX-License-Identifier: Apache-2.0
//
// Flows: what rules over the ops of a stretch of code is asked of each, however
// it is made, and of none besides.
#include "graph/flow.h"

#include <string.h>

#include "distribute/own.h"
#include "graph/make/make.h"
#include "graph/trial.h"
#include "lockstep/gradients.h"
#include "lockstep/session.h"
#include "support/cluster.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"

static ls_tensor one(void) { return ls_scalar(LS_DTYPE_F32, 1); }

// A graph that is current, with a cluster that has a pivot and is not entered.
typedef struct place {
  ls_graph *graph;
  ls_scope scope;
  cluster c;
} place;

static void open_place(place *p, int replicas) {
  *p = (place){.c = cluster_of("c", replicas)};
  expect_ok(ls_graph_create("g", &p->graph));
  ls_graph_begin(&p->scope, p->graph);
  cluster_make_pivot(&p->c);
}

static void close_place(place *p) {
  expect_ok(ls_graph_error(p->graph));
  expect_ok(ls_graph_verify(p->graph));
  ls_scope_end(&p->scope);
  ls_graph_destroy(p->graph);
}
LS_OWNED_STRUCT(place, close_place)

#define CLUSTER_SCOPE(c) LS_SCOPE_(ls_flow_begin, &(c)->flow)

static void expect_control(ls_tensor value, const char *const *names,
                           size_t count) {
  const ls_op op = ls_tensor_op(value);
  assert_int_equal(ls_op_num_control_inputs(op), count);
  for (size_t i = 0; i < count; ++i)
    assert_string_equal(ls_op_name(ls_op_control_input(op, i)), names[i]);
}

// ---- Marks -----------------------------------------------------------------
TEST(an_op_is_marked_from_entry_to_exit) {
  LS_SPEC("O9 O11 O15");
  LS_OWN_BEGUN(place, p, open_place, 2);
  EXPECT_MARK(p.c.pivot, CLUSTER_MARK, "c");
  const ls_tensor before = one();
  for (int entered = 0; entered < 2; ++entered) {
    CLUSTER_SCOPE(&p.c);
    EXPECT_MARK(ls_tensor_op(one()), CLUSTER_MARK, "c");
    {
      CLUSTER_SCOPE(&p.c);  // Again: it is the same, once.
      EXPECT_MARK(ls_tensor_op(ls_neg(before)), CLUSTER_MARK, "c");
    }
    LS_GRAPH_SCOPE(p.graph);
    EXPECT_MARK(ls_tensor_op(one()), CLUSTER_MARK, "c");
  }
  EXPECT_MARK(ls_tensor_op(before), CLUSTER_MARK, "");
  EXPECT_MARK(ls_tensor_op(one()), CLUSTER_MARK, "");
}

TEST(another_graph_is_not_ruled) {
  LS_OWN(ls_graph, other) = NULL;
  LS_OWN_BEGUN(place, p, open_place, 2);
  expect_ok(ls_graph_create("other", &other));
  {
    CLUSTER_SCOPE(&p.c);
    assert_ptr_equal(ls_flow_replicated(), &p.c.flow);
    LS_GRAPH_SCOPE(other);
    EXPECT_MARK(ls_tensor_op(one()), CLUSTER_MARK, "");
    assert_null(ls_flow_replicated());
  }
  assert_null(ls_flow_replicated());
}

TEST(eager_has_no_flows) {
  cluster c = cluster_of("c", 2);
  CLUSTER_SCOPE(&c);
  expect_status(ls_scope_status(), LS_FAILED_PRECONDITION,
                "a cluster needs a graph that is being built");
}

static ls_status fetch(ls_session *session, ls_tensor value, ls_tensor fed,
                       double *out_number) {
  LS_OWN(ls_nest, result) = ls_none();
  LS_OWN(ls_array, array) = array_of(LS_DTYPE_F32, LS_SCALAR, &(double){5});
  const ls_feed feed = {fed, array};
  LS_RETURN_IF_ERROR(ls_session_run(session, ls_leaf(value), &feed,
                                    fed.ref != 0 ? 1 : 0, &result));
  *out_number = ls_nest_number(result);
  return ls_ok();
}

// Only a part of one replica's computation is fed and fetched.
TEST(sessions_hold_what_a_flow_bans) {
  LS_SPEC("O17 O18");
  for (int replicas = 1; replicas <= 2; ++replicas) {
    double number = 0;
    ls_tensor compiled = ls_failed_tensor(), host = ls_failed_tensor();
    LS_OWN_BEGUN(place, p, open_place, replicas);
    {
      CLUSTER_SCOPE(&p.c);
      compiled = ls_neg(one());
      strcpy(p.c.part, "0");
      host = ls_neg(compiled);
      p.c.part[0] = '\0';
    }
    const ls_tensor behind = ls_identity(host);
    LS_OWN(ls_session, session) = session_of(p.graph);
    const ls_tensor none = ls_failed_tensor();
    expect_ok(fetch(session, behind, none, &number));
    assert_true(number == 1);
    expect_status(fetch(session, compiled, none, &number), LS_INVALID_ARGUMENT,
                  "marked as not fetchable");
    expect_status(fetch(session, behind, compiled, &number),
                  LS_INVALID_ARGUMENT, "may not be fed");
    if (replicas == 1) {
      expect_ok(fetch(session, host, none, &number));
      expect_ok(fetch(session, behind, host, &number));
      assert_true(number == 5);
    } else {
      expect_status(fetch(session, host, none, &number), LS_INVALID_ARGUMENT,
                    "marked as not fetchable");
      expect_status(fetch(session, behind, host, &number), LS_INVALID_ARGUMENT,
                    "may not be fed");
    }
  }
}

// ---- Control inputs --------------------------------------------------------
TEST(what_waits_outside_comes_in_as_an_identity) {
  LS_SPEC("O22 O23 O24");
  LS_OWN_BEGUN(place, p, open_place, 2);
  const ls_op outside[2] = {ls_tensor_op(one()), ls_group(NULL, 0, "no_value")};
  LS_CONTROL_SCOPE(outside, 2);
  CLUSTER_SCOPE(&p.c);
  LS_NAME_SCOPE("inner");
  const ls_tensor x = one();
  expect_control(x, (const char *[]){"pivot", "inner/identity"}, 2);
  const ls_op identity = ls_op_control_input(ls_tensor_op(x), 1);
  EXPECT_MARK(identity, CLUSTER_MARK, "c");
  assert_int_equal(ls_op_num_control_inputs(identity), 0);
  assert_int_equal(ls_op_input(identity, 0).ref,
                   ls_op_output(outside[0], 0).ref);
  // What has no value is not lost.
  assert_int_equal(p.c.num_outside, 1);
  assert_int_equal(p.c.outside[0].id, outside[1].id);
  // What is inside stays.
  const ls_op inside = ls_tensor_op(x);
  LS_CONTROL_SCOPE(&inside, 1);
  expect_control(one(), (const char *[]){"inner/constant", "inner/identity_1"},
                 2);
}

TEST(an_op_without_operands_waits_for_the_pivot) {
  LS_SPEC("O25 O30");
  LS_OWN_BEGUN(place, p, open_place, 2);
  {
    CLUSTER_SCOPE(&p.c);
    const ls_tensor x = one();
    expect_control(x, (const char *[]){"pivot"}, 1);
    expect_control(ls_neg(x), NULL, 0);
    const ls_op inside = ls_tensor_op(x);
    {
      LS_CONTROL_SCOPE(&inside, 1);
      expect_control(one(), (const char *[]){"constant"}, 1);
    }
    LS_CONTROL_SCOPE(&p.c.pivot, 1);
    const ls_tensor y = ls_neg(x);
    expect_control(y, (const char *[]){"pivot"}, 1);
    expect_control(ls_neg(y), NULL, 0);
  }
}

// ---- Regions ---------------------------------------------------------------
static ls_nest below_nine(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(
      ls_less(ls_nest_tensor(values, 0), ls_scalar(LS_DTYPE_F32, 9)));
}

static ls_nest keep(ls_nest none, void *user) {
  (void)none;
  return LS_LIST(ls_leaf(*(const ls_tensor *)user));
}

static ls_nest square(ls_nest none, void *user) {
  (void)none;
  const ls_tensor x = *(const ls_tensor *)user;
  return LS_LIST(ls_leaf(ls_mul(x, ls_exp(x))));
}

static ls_nest branch(ls_nest values, void *user) {
  (void)user;
  ls_tensor x = ls_nest_tensor(values, 0);
  return ls_cond(ls_less(x, one()), keep, square, &x);
}

// Every op of the graph and of those inside, but for what no maker made.
static size_t expect_all_marked(const ls_graph *graph, size_t from,
                                const char *mark) {
  size_t count = 0;
  for (size_t i = from; i < graph->num_nodes; ++i) {
    const ls_node *node = graph->nodes[i];
    if (node->type == LS_OP_PARAMETER) continue;
    EXPECT_MARK(((ls_op){(ls_graph *)graph, node->id}), CLUSTER_MARK, mark);
    ++count;
    for (uint32_t r = 0; r < node->num_regions; ++r)
      count += expect_all_marked(ls_graph_resolve(node->regions[r]), 0, mark);
  }
  return count;
}

TEST(ops_of_bodies_are_ops_of_the_flow) {
  LS_SPEC("O9 O29");
  LS_OWN_BEGUN(place, p, open_place, 2);
  const ls_tensor x = one();
  const size_t first = ls_graph_num_ops(p.graph);
  {
    CLUSTER_SCOPE(&p.c);
    LS_OWN(ls_nest, made) =
        ls_while(below_nine, branch, NULL, LS_LIST(ls_leaf(x)), 5);
    const ls_nest y = ls_nest_item(made, 0), of_x = ls_leaf(x);
    LS_OWN(ls_nest, gradient) = ls_none();
    assert_true(expect_all_marked(p.graph, first, "c") > 5);
    // Gradients of loops are drafted, and what is copied has its mark.
    expect_ok(ls_gradients(&y, 1, &of_x, 1, NULL, &gradient));
  }
  assert_true(expect_all_marked(p.graph, first, "c") > 20);
}

static ls_nest replica_step(ls_nest args, void *user) {
  (void)args;
  (void)user;
  return ls_leaf(ls_all_reduce(LS_REDUCE_SUM, ls_exp(one())));
}

TEST(ops_of_replicas_and_functions_are_ops_of_the_flow) {
  LS_SPEC("O29");
  for (int replicas = 1; replicas <= 3; ++replicas)
    for (int traced = 0; traced < 2; ++traced) {
      LS_OWN(place, p) = {0};
      LS_OWN(ls_nest, made) = ls_none();
      LS_OWN(ls_strategy, strategy) = mirrored_of(replicas);
      LS_OWN(ls_function, function) = function_of(replica_step, NULL);
      open_place(&p, replicas);
      {
        CLUSTER_SCOPE(&p.c);
        expect_ok(ls_strategy_run(strategy,
                                  traced != 0 ? ls_traced(function)
                                              : ls_plain(replica_step, NULL),
                                  ls_none(), &made));
      }
      assert_true(expect_all_marked(p.graph, 0, "c") > 2);
    }
}

static ls_nest note_flow(ls_nest none, void *user) {
  (void)none;
  *(ls_flow **)user = ls_flow_replicated();
  return LS_LIST(ls_leaf(one()));
}

static const ls_flow_type plain_type = {.name = "a plain flow"};

TEST(the_innermost_replicated_flow_is_found) {
  LS_SPEC("O49");
  ls_flow *found = NULL, plain = {&plain_type};
  LS_OWN_BEGUN(place, p, open_place, 2);
  CLUSTER_SCOPE(&p.c);
  {
    LS_SCOPE_(ls_flow_begin, &plain);
    assert_ptr_equal(ls_flow_replicated(), &p.c.flow);
    EXPECT_MARK(ls_tensor_op(one()), CLUSTER_MARK, "c");
    const ls_tensor yes = ls_scalar_i64(LS_DTYPE_BOOL, 1);
    ls_nest_release(ls_cond(yes, note_flow, note_flow, &found));
  }
  assert_ptr_equal(found, &p.c.flow);
  LS_OWN(ls_function, function) = function_of(note_flow, &found);
  found = NULL;
  LS_OWN(ls_nest, made) = call_results(function, ls_none());
  assert_ptr_equal(found, &p.c.flow);
}

// ---- Leaving ---------------------------------------------------------------
TEST(init_scopes_and_cleared_control_leave) {
  LS_SPEC("O204");
  LS_OWN(place, p) = {0};
  LS_OWN(ls_variable, v) = NULL;
  open_place(&p, 2);
  const ls_tensor outside = one();
  {
    CLUSTER_SCOPE(&p.c);
    const ls_op inside = ls_tensor_op(one());
    LS_CONTROL_SCOPE(&inside, 1);
    {
      LS_INIT_SCOPE;
      const ls_tensor x = one();
      EXPECT_MARK(ls_tensor_op(x), CLUSTER_MARK, "");
      expect_control(x, NULL, 0);
      assert_null(ls_flow_replicated());
    }
    {
      LS_CONTROL_SCOPE(NULL, 0);
      const ls_tensor x = ls_neg(outside);
      EXPECT_MARK(ls_tensor_op(x), CLUSTER_MARK, "");
      expect_control(x, NULL, 0);
      {
        CLUSTER_SCOPE(&p.c);  // And back, without the control scopes.
        expect_control(one(), (const char *[]){"pivot"}, 1);
      }
      EXPECT_MARK(ls_tensor_op(one()), CLUSTER_MARK, "");
    }
    EXPECT_MARK(ls_tensor_op(one()), CLUSTER_MARK, "c");
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "v", .dtype = LS_DTYPE_F32}, &v));
    EXPECT_MARK(ls_tensor_op(ls_variable_read(v)), CLUSTER_MARK, "c");
  }
  // What makes its value runs outside.
  EXPECT_MARK(ls_variable_initializer(v), CLUSTER_MARK, "");
  LS_OWN(ls_session, session) = session_of(p.graph);
  LS_OWN(ls_nest, result) =
      session_results(session, ls_nest_op(ls_variable_initializer(v)));
}

// ---- Refusals --------------------------------------------------------------
TEST(an_op_that_is_not_admitted_is_not_made) {
  LS_OWN_BEGUN(place, p, open_place, 2);
  {
    CLUSTER_SCOPE(&p.c);
    const ls_tensor x = one();
    const size_t there = ls_graph_num_ops(p.graph);
    p.c.refused = LS_OP_EXP;
    {
      LS_NAME_SCOPE("inner");
      assert_true(ls_tensor_is_failed(ls_exp(x)));
    }
    expect_status(ls_graph_take_error(p.graph), LS_UNIMPLEMENTED,
                  "c has no exp\nin op 'inner/exp' of graph 'g'");
    // Of a loop whose body has one, nothing is left either.
    LS_OWN(ls_nest, made) =
        ls_while(below_nine, branch, NULL, LS_LIST(ls_leaf(x)), 5);
    assert_true(ls_nest_is_failed(made));
    expect_status(ls_graph_take_error(p.graph), LS_UNIMPLEMENTED,
                  "c has no exp");
    assert_int_equal(ls_graph_num_ops(p.graph), there);
  }
  assert_false(ls_tensor_is_failed(ls_exp(one())));
}

// Innermost first: the one around finds the mark of the one inside.
TEST(an_op_that_cannot_be_marked_is_taken_back) {
  LS_SPEC("O16");
  LS_OWN_BEGUN(place, p, open_place, 2);
  cluster inner = cluster_of("inner", 2);
  CLUSTER_SCOPE(&p.c);
  const ls_tensor x = one();
  const size_t there = ls_graph_num_ops(p.graph);
  for (int in_trial = 0; in_trial < 2; ++in_trial) {
    ls_trial trial;
    if (in_trial != 0) ls_trial_begin(&trial);
    {
      CLUSTER_SCOPE(&inner);
      assert_true(ls_tensor_is_failed(ls_neg(x)));
    }
    const ls_status status = in_trial != 0 ? ls_trial_end(&trial, ls_ok())
                                           : ls_graph_take_error(p.graph);
    expect_status(status, LS_INVALID_ARGUMENT,
                  "clusters cannot be nested\nin op neg");
    assert_int_equal(ls_graph_num_ops(p.graph), there);
  }
  // One with regions as well, which stay their maker's to free.
  ls_tensor kept = x;
  const ls_tensor no = ls_scalar_i64(LS_DTYPE_BOOL, 0);
  {
    CLUSTER_SCOPE(&inner);
    LS_OWN(ls_nest, made) = ls_cond(no, keep, keep, &kept);
    assert_true(ls_nest_is_failed(made));
  }
  expect_status(ls_graph_take_error(p.graph), LS_INVALID_ARGUMENT, "'cond'");
}

// ---- Flows in flows --------------------------------------------------------
typedef struct listener {
  ls_flow flow;
  char *heard;
  char name;
} listener;

static ls_status hear_admit(ls_flow *self, ls_op_spec *spec, ls_arena *memory) {
  listener *l = (listener *)self;
  (void)memory;
  (void)spec;
  strncat(l->heard, &l->name, 1);
  // An op of the flow's own is asked of itself and of those around.
  if (spec->type != LS_OP_EXP) return ls_ok();
  ls_scope alone = {0};
  ls_flow_alone_begin(&alone);
  strcat(l->heard, "(");
  ls_neg(spec->inputs[0]);
  strcat(l->heard, ")");
  ls_scope_end(&alone);
  return ls_ok();
}

static ls_status hear_mark(ls_flow *self, ls_op op) {
  listener *l = (listener *)self;
  (void)op;
  strcat(l->heard, "+");
  strncat(l->heard, &l->name, 1);
  return ls_ok();
}

static const ls_flow_type listening = {
    .name = "a listener", .admit = hear_admit, .mark = hear_mark};

TEST(the_innermost_flow_is_asked_first) {
  LS_SPEC("O29");
  char heard[100] = "";
  listener a = {{&listening}, heard, 'a'}, b = {{&listening}, heard, 'b'};
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    const ls_tensor x = one();
    LS_SCOPE_(ls_flow_begin, &a.flow);
    {
      LS_SCOPE_(ls_flow_begin, &b.flow);
      ls_neg(x);
      assert_string_equal(heard, "ba+b+a");
      heard[0] = '\0';
      ls_exp(x);
      assert_string_equal(heard, "b(ba+b+a)a(a+a)+b+a");
      // Entering the one around leaves the one inside.
      LS_SCOPE_(ls_flow_begin, &a.flow);
      heard[0] = '\0';
      ls_neg(x);
      assert_string_equal(heard, "a+a");
    }
    heard[0] = '\0';
    ls_neg(x);
    assert_string_equal(heard, "a+a");
  }
}
