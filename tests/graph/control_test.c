// SPDX-License-Identifier: Apache-2.0
//
// Control inputs: what operands imply is left out, and what is in a graph
// around is waited for by the op that holds the region.
#include <string.h>

#include "base/memory/allocator.h"
#include "distribute/own.h"
#include "lockstep/flow.h"
#include "lockstep/gradients.h"
#include "lockstep/graph_ops.h"
#include "lockstep/session.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"
#include "support/ways.h"

static ls_tensor one(void) { return ls_scalar(LS_DTYPE_F32, 1); }

// Expects the op's control inputs to be these.
static void expect_waits(ls_tensor value, const ls_op *ops, size_t count) {
  const ls_op op = ls_tensor_op(value);
  if (ls_op_num_control_inputs(op) != count)
    fail_msg("'%s' has %zu control inputs, wanted %zu", ls_op_name(op),
             ls_op_num_control_inputs(op), count);
  for (size_t i = 0; i < count; ++i)
    assert_string_equal(ls_op_name(ls_op_control_input(op, i)),
                        ls_op_name(ops[i]));
}

// ---- What operands imply ---------------------------------------------------
TEST(an_op_waits_for_what_its_operands_do_not) {
  LS_SPEC("O30");
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    const ls_tensor outside = one(), control[2] = {one(), one()};
    const ls_op ops[2] = {ls_tensor_op(control[0]), ls_tensor_op(control[1])};
    ls_tensor inside = ls_failed_tensor();
    {
      LS_CONTROL_SCOPE(ops, 2);
      expect_waits(ls_neg(outside), ops, 2);
      inside = ls_neg(outside);
      expect_waits(ls_neg(inside), NULL, 0);
      // An operand that is waited for is no control input.
      expect_waits(ls_neg(control[0]), ops + 1, 1);
      expect_waits(ls_add(control[0], control[1]), NULL, 0);
    }
    {
      LS_CONTROL_SCOPE(ops, 2);  // Another one, where `inside` was not made.
      expect_waits(ls_neg(inside), ops, 2);
    }
    expect_waits(ls_neg(inside), NULL, 0);
  }
}

TEST(a_scope_knows_the_ops_of_those_inside) {
  LS_SPEC("O30");
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    const ls_op ops[2] = {ls_tensor_op(one()), ls_tensor_op(one())};
    const ls_tensor outside = one();
    LS_CONTROL_SCOPE(ops, 1);
    ls_tensor inner = ls_failed_tensor(), cleared = ls_failed_tensor();
    const ls_tensor outer = ls_neg(outside);
    {
      LS_CONTROL_SCOPE(ops + 1, 1);
      inner = ls_neg(outside);
      expect_waits(inner, (const ls_op[]){ops[1], ops[0]}, 2);
      expect_waits(ls_neg(outer), ops + 1, 1);
      {
        LS_CONTROL_SCOPE(NULL, 0);
        cleared = ls_neg(outside);
        expect_waits(cleared, NULL, 0);
      }
      expect_waits(ls_neg(cleared), (const ls_op[]){ops[1], ops[0]}, 2);
    }
    expect_waits(ls_neg(inner), NULL, 0);
    expect_waits(ls_neg(cleared), ops, 1);
  }
}

// What a maker names itself stays.
TEST(a_group_keeps_its_members) {
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    const ls_op ops[2] = {ls_tensor_op(one()), ls_tensor_op(one())};
    LS_CONTROL_SCOPE(ops, 1);
    const ls_op group = ls_group(ops, 2, NULL);
    assert_int_equal(ls_op_num_control_inputs(group), 2);
  }
}

// ---- In regions ------------------------------------------------------------
// A variable counts up, and what waits for it is made in regions only.
typedef struct counting {
  ls_op counted;
  int depth;
  bool in_condition;
} counting;

static ls_nest is_small(ls_nest values, void *user) {
  const counting *c = user;
  const ls_tensor x = ls_nest_tensor(values, 0);
  if (!c->in_condition) return ls_leaf(ls_less(x, ls_scalar(LS_DTYPE_F32, 3)));
  LS_CONTROL_SCOPE(&c->counted, 1);
  return ls_leaf(ls_less(x, ls_scalar(LS_DTYPE_F32, 3)));
}

static ls_nest add_one(ls_nest values, void *user);

static ls_nest add_in_branch(ls_nest none, void *user) {
  (void)none;
  LS_OWN(ls_nest, values) = LS_LIST(ls_leaf(one()));
  return add_one(values, user);
}

static ls_nest take_two(ls_nest none, void *user) {
  (void)none;
  (void)user;
  return LS_LIST(ls_leaf(ls_scalar(LS_DTYPE_F32, 2)));
}

static ls_nest add_one(ls_nest values, void *user) {
  counting *c = user;
  const ls_tensor x = ls_nest_tensor(values, 0);
  if (c->depth > 0) {
    --c->depth;
    const ls_nest made = ls_cond(ls_less(x, ls_scalar(LS_DTYPE_F32, 9)),
                                 add_in_branch, take_two, c);
    ++c->depth;
    return made;
  }
  LS_CONTROL_SCOPE(&c->counted, c->in_condition ? 0 : 1);
  return LS_LIST(ls_leaf(ls_add_scalar(x, 1)));
}

static void make_count(ways *self) {
  ways_vector(self, "count", 0, (double[]){5});
}

static ls_nest count_and_loop(ls_nest args, ways *self) {
  (void)args;
  counting c = *(const counting *)self->user;
  c.counted = ls_tensor_op(ls_variable_assign_add(self->variables[0], one()));
  return ls_while(is_small, add_one, &c, LS_LIST(ls_leaf(one())), 2);
}

static void it_has_counted(const ways *self) {
  for (int r = 0; r < self->replicas; ++r)
    ways_expect(self, "count", ways_value(self, 0, r, 0), 6, 0);
}

#define LOOP(text, ...)                                                        \
  {                                                                            \
    .name = text, .user = &(const counting){__VA_ARGS__}, .make = make_count,  \
    .step = count_and_loop, .check = it_has_counted                            \
  }

TEST(what_a_region_waits_for_runs_in_every_way) {
  const ways_case cases[] = {
      LOOP("in a body", .depth = 0),
      LOOP("in a condition", .in_condition = true),
      LOOP("in a branch in a body", .depth = 1),
      LOOP("in branches in branches", .depth = 3),
  };
  ways_hold(cases, LS_COUNT_OF(cases));
}

static ls_nest wait_in_replica(ls_nest args, void *user) {
  (void)args;
  LS_CONTROL_SCOPE((const ls_op *)user, 1);
  return ls_leaf(ls_all_reduce(LS_REDUCE_SUM, one()));
}

// The op that waits is the one in the graph of what is waited for.
TEST(the_op_that_holds_the_region_waits) {
  for (int replicas = 1; replicas <= 3; ++replicas) {
    LS_OWN(ls_graph, graph) = graph_named("g");
    LS_OWN(ls_nest, made) = ls_none();
    LS_OWN(ls_strategy, strategy) = mirrored_of(replicas);
    ls_op before = {0};
    LS_OWN(ls_function, function) = function_of(wait_in_replica, &before);
    {
      LS_GRAPH_SCOPE(graph);
      before = ls_group(NULL, 0, "before");
      expect_ok(
          ls_strategy_run(strategy, ls_traced(function), ls_none(), &made));
      expect_ok(ls_graph_verify(graph));
    }
    size_t waiting = 0;
    for (size_t i = 0; i < ls_graph_num_ops(graph); ++i) {
      const ls_op op = ls_graph_op(graph, i);
      for (size_t k = 0; k < ls_op_num_control_inputs(op); ++k)
        waiting += ls_op_control_input(op, k).id == before.id;
      if (strcmp(ls_op_type_name(op), "replicate") == 0)
        assert_int_equal(ls_op_num_control_inputs(op), 1);
    }
    assert_true(waiting >= 1);
  }
}

static ls_nest sum_of_ones(ls_nest args, void *user) {
  (void)args;
  (void)user;
  return ls_leaf(ls_all_reduce(LS_REDUCE_SUM, one()));
}

TEST(replicas_wait_for_the_scope_around_them) {
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_OWN(ls_nest, made) = ls_none();
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_function, function) = function_of(sum_of_ones, NULL);
  {
    LS_GRAPH_SCOPE(graph);
    const ls_op before = ls_group(NULL, 0, "before");
    LS_CONTROL_SCOPE(&before, 1);
    expect_ok(ls_strategy_run(strategy, ls_traced(function), ls_none(), &made));
  }
  ls_op replicate = {0};
  for (size_t i = 0; i < ls_graph_num_ops(graph); ++i)
    if (strcmp(ls_op_type_name(ls_graph_op(graph, i)), "replicate") == 0)
      replicate = ls_graph_op(graph, i);
  assert_int_equal(ls_op_num_control_inputs(replicate), 1);
  assert_string_equal(ls_op_name(ls_op_control_input(replicate, 0)), "before");
}

// ---- In gradients ----------------------------------------------------------
static ls_nest square(ls_nest values, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(values, 0);
  return LS_LIST(ls_leaf(ls_mul(x, x)));
}

static ls_nest wait_in_gradient(ls_nest inputs, ls_nest outputs,
                                ls_nest gradients, void *user) {
  (void)outputs;
  LS_CONTROL_SCOPE((const ls_op *)user, 1);
  return LS_LIST(
      ls_leaf(ls_mul(ls_nest_tensor(inputs, 0), ls_nest_tensor(gradients, 0))));
}

static ls_nest square_once(ls_nest values, void *user) {
  return ls_custom_gradient(square, wait_in_gradient, user,
                            ls_nest_retain(values));
}

static ls_nest always(ls_nest values, void *user) {
  (void)values;
  (void)user;
  return ls_leaf(ls_scalar_i64(LS_DTYPE_BOOL, 1));
}

// Gradients of loops are drafted and copied: what they wait for goes with it.
TEST(a_loops_gradient_waits_too) {
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    ls_op before = ls_group(NULL, 0, "before");
    const ls_tensor x = one();
    LS_OWN(ls_nest, made) =
        ls_while(always, square_once, &before, LS_LIST(ls_leaf(x)), 3);
    const ls_nest y = ls_nest_item(made, 0), of_x = ls_leaf(x);
    LS_OWN(ls_nest, gradient) = ls_none();
    expect_ok(ls_gradients(&y, 1, &of_x, 1, NULL, &gradient));
    size_t waiting = 0;
    for (size_t i = 0; i < ls_graph_num_ops(graph); ++i) {
      const ls_op op = ls_graph_op(graph, i);
      if (ls_op_num_control_inputs(op) == 0) continue;
      assert_string_equal(ls_op_type_name(op), "while");
      assert_string_equal(ls_op_name(ls_op_control_input(op, 0)), "before");
      ++waiting;
    }
    assert_int_equal(waiting, 1);
  }
}

// ---- Refusals --------------------------------------------------------------
static ls_nest note_op(ls_nest values, void *user) {
  const ls_tensor x = ls_add_scalar(ls_nest_tensor(values, 0), 1);
  *(ls_op *)user = ls_tensor_op(x);
  return LS_LIST(ls_leaf(x));
}

TEST(nothing_waits_for_what_is_elsewhere) {
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_OWN(ls_graph, other) = NULL;
  ls_op elsewhere = {0}, inside = {0};
  expect_ok(ls_graph_create("other", &other));
  {
    LS_GRAPH_SCOPE(other);
    elsewhere = ls_group(NULL, 0, "there");
  }
  {
    LS_GRAPH_SCOPE(graph);
    ls_nest_release(
        ls_while(always, note_op, &inside, LS_LIST(ls_leaf(one())), 2));
    assert_true(ls_op_is_failed(ls_group(&elsewhere, 1, NULL)));
    expect_status(ls_graph_take_error(graph), LS_INVALID_ARGUMENT,
                  "control input 'there' belongs to graph 'other', but the op "
                  "is being added to graph 'g', which is not inside it");
    {
      LS_CONTROL_SCOPE(&inside, 1);
      assert_true(ls_tensor_is_failed(one()));
    }
    expect_status(ls_graph_take_error(graph), LS_INVALID_ARGUMENT,
                  "belongs to graph 'while_body'");
  }
}

static ls_nest wait_for_eager(ls_nest args, void *user) {
  (void)args;
  LS_CONTROL_SCOPE((const ls_op *)user, 1);
  return ls_leaf(one());
}

// What ran in eager is done with; if it failed, so does who waits.
TEST(a_function_waits_for_what_ran_before_it) {
  ls_op before = ls_tensor_op(one());
  LS_OWN(ls_function, function) = function_of(wait_for_eager, &before);
  ls_nest made = call_results(function, ls_none());
  assert_true(ls_nest_number(made) == 1);
  ls_nest_release(made);
  made = ls_none();
  ls_function_clear(function);
  before = ls_tensor_op(ls_matmul(one(), one()));
  ls_status_free(ls_graph_take_error(ls_graph_current()));
  expect_status(ls_function_call(function, ls_none(), &made),
                LS_INVALID_ARGUMENT, "matmul");
}

// ---- Arguments -------------------------------------------------------------
// One, behind the first value, which is a parameter.
static ls_tensor one_behind(ls_nest values) {
  const ls_op first = ls_tensor_op(ls_nest_tensor(values, 0));
  LS_CONTROL_SCOPE(&first, 1);
  return one();
}

static ls_nest add_one_behind(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(ls_add(ls_nest_tensor(values, 0), one_behind(values)));
}

static ls_nest wait_for_arguments(ls_nest args, void *user) {
  (void)user;
  LS_OWN(ls_nest, loop) = ls_while(always, add_one_behind, NULL,
                                   ls_leaf(ls_nest_tensor(args, 0)), 3);
  return LS_LIST(ls_leaf(one_behind(args)), ls_leaf(ls_nest_tensor(loop, 0)));
}

TEST(an_op_may_wait_for_an_argument_or_a_loops_value) {
  LS_OWN(ls_function, function) = function_of(wait_for_arguments, NULL);
  LS_OWN(ls_array, five) = array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){5});
  LS_OWN(ls_nest, args) = LS_LIST(ls_nest_array(ls_array_retain(five)));
  LS_OWN(ls_nest, made) = call_results(function, args);
  assert_true(number_of(ls_nest_item(made, 0)) == 1);
  assert_true(number_of(ls_nest_item(made, 1)) == 8);
}
