// SPDX-License-Identifier: Apache-2.0
//
// Gradients in a flow: it is told beside which op each is made, and of the end.
#include <stdio.h>
#include <string.h>

#include "base/memory/own.h"
#include "graph/flow.h"
#include "lockstep/flow.h"
#include "support/cluster.h"
#include "support/expect.h"
#include "support/gradient_graph.h"
#include "support/spec.h"

static const ls_gradient_options beside = {.colocate_with_ops = true};

#define CLUSTER_SCOPE(c) LS_SCOPE_(ls_flow_begin, &(c)->flow)

static ls_tensor exp_in_part(cluster *c, ls_tensor x) {
  strcpy(c->part, "0");
  const ls_tensor y = ls_exp(x);
  c->part[0] = '\0';
  return y;
}

static void expect_left(const cluster *c) {
  assert_true(c->most_entered > 0);
  assert_int_equal(c->num_entered, 0);
  assert_string_equal(c->part, "");
}

// How many ops from `first` on are of the part, those in regions too; all are
// the cluster's.
static size_t count_in_part(const ls_graph *graph, size_t first,
                            const char *part) {
  size_t count = 0;
  for (size_t i = first; i < graph->num_nodes; ++i) {
    const ls_node *node = graph->nodes[i];
    const ls_op op = {(ls_graph *)graph, node->id};
    if (node->type == LS_OP_PARAMETER) continue;
    EXPECT_MARK(op, CLUSTER_MARK, "c");
    count += strcmp(mark_of(op, CLUSTER_PART), part) == 0;
    for (uint32_t r = 0; r < node->num_regions; ++r)
      count += count_in_part(ls_graph_resolve(node->regions[r]), 0, part);
  }
  return count;
}

TEST(gradients_go_to_a_part_of_their_call) {
  gradient_graph *g = *state;
  LS_SPEC("O52 O54 O55 O56 O57 O58");
  cluster c = cluster_of("c", 2);
  cluster_make_pivot(&c);
  const ls_tensor x = gradient_input("x");
  CLUSTER_SCOPE(&c);
  const ls_tensor h = ls_exp(x), y = exp_in_part(&c, h);
  const ls_tensor z = ls_tanh(y);
  size_t first = ls_graph_num_ops(g->graph);
  const ls_tensor by_x = gradient_of(z, x, &beside);
  expect_left(&c);
  // That of `y` alone, a product with it.
  assert_int_equal(count_in_part(g->graph, first, "0.gradients/uid"), 1);
  assert_int_equal(count_in_part(g->graph, first, "0"), 0);
  // Another call is another part, also over the first one's ops.
  first = ls_graph_num_ops(g->graph);
  gradient_of(by_x, x, &beside);
  expect_left(&c);
  assert_true(count_in_part(g->graph, first, "0.gradients_1/uid") > 0);
  assert_true(
      count_in_part(g->graph, first, "0.gradients/uid.gradients_1/uid") > 0);
  assert_int_equal(count_in_part(g->graph, first, "0.gradients/uid"), 0);
}

// Without colocation nothing is told, but of sums.
TEST(sums_are_beside_their_first_term) {
  gradient_graph *g = *state;
  LS_SPEC("O61 O196");
  cluster c = cluster_of("c", 2);
  cluster_make_pivot(&c);
  CLUSTER_SCOPE(&c);
  const ls_tensor x = ls_exp(ls_scalar(LS_DTYPE_F32, 1));
  const ls_tensor y = exp_in_part(&c, x), z = ls_mul(y, ls_tanh(x));
  size_t first = ls_graph_num_ops(g->graph);
  gradient_of(z, x, NULL);
  assert_int_equal(count_in_part(g->graph, first, ""),
                   ls_graph_num_ops(g->graph) - first);
  expect_left(&c);
  first = ls_graph_num_ops(g->graph);
  const ls_op sum = ls_tensor_op(gradient_of(z, x, &beside));
  assert_string_equal(ls_op_type_name(sum), "add_n");
  EXPECT_MARK(ls_tensor_op(ls_op_input(sum, 0)), CLUSTER_PART,
              "0.gradients_1/uid");
  EXPECT_MARK(sum, CLUSTER_PART, "0.gradients_1/uid");
  expect_left(&c);
}

TEST(gradients_inside_of_a_part_are_its_own) {
  gradient_graph *g = *state;
  LS_SPEC("O60");
  cluster c = cluster_of("c", 2);
  cluster_make_pivot(&c);
  CLUSTER_SCOPE(&c);
  strcpy(c.part, "1");
  const ls_tensor x = ls_scalar(LS_DTYPE_F32, 1), y = ls_tanh(ls_exp(x));
  const size_t first = ls_graph_num_ops(g->graph);
  gradient_of(y, x, &beside);
  assert_int_equal(count_in_part(g->graph, first, "1"),
                   ls_graph_num_ops(g->graph) - first);
  assert_int_equal(c.num_entered, 0);
}

// A flow may say where they are: here outside of where the cluster is.
TEST(what_a_flow_says_ends_with_the_colocation) {
  gradient_graph *g = *state;
  LS_SPEC("O59");
  (void)g;
  cluster c = cluster_of("c", 2);
  cluster_make_pivot(&c);
  c.around = "/job:w";
  CLUSTER_SCOPE(&c);
  LS_DEVICE_SCOPE("/device:FOO:1");
  const ls_tensor x = ls_scalar(LS_DTYPE_F32, 1), h = ls_exp(x);
  const ls_tensor y = exp_in_part(&c, h);
  const ls_op by_x = ls_tensor_op(gradient_of(y, x, &beside));
  // d x = d h * h, d h = d y * y.
  assert_string_equal(ls_op_device(by_x), "/device:FOO:1");
  EXPECT_MARK(by_x, CLUSTER_PART, "");
  const ls_op by_h = ls_tensor_op(ls_op_input(by_x, 0));
  EXPECT_MARK(by_h, CLUSTER_PART, "0.gradients/uid");
  assert_string_equal(ls_op_device(by_h), "/job:w");
  assert_string_equal(ls_op_device(ls_tensor_op(ls_exp(x))), "/device:FOO:1");
}

static ls_nest is_small(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(
      ls_less(ls_nest_tensor(values, 0), ls_scalar(LS_DTYPE_F32, 9)));
}

static ls_nest tanh_of_exp(ls_nest values, void *user) {
  return LS_LIST(
      ls_leaf(ls_tanh(exp_in_part(user, ls_nest_tensor(values, 0)))));
}

TEST(gradients_of_loops_have_their_part_in_it) {
  gradient_graph *g = *state;
  LS_SPEC("O29 O56");
  cluster c = cluster_of("c", 2);
  cluster_make_pivot(&c);
  CLUSTER_SCOPE(&c);
  const ls_tensor x = ls_scalar(LS_DTYPE_F32, 1);
  LS_OWN(ls_nest, made) =
      ls_while(is_small, tanh_of_exp, &c, LS_LIST(ls_leaf(x)), 3);
  assert_int_equal(count_in_part(g->graph, 0, "0"), 1);
  const size_t first = ls_graph_num_ops(g->graph);
  gradient_of(ls_nest_tensor(made, 0), x, &beside);
  expect_left(&c);
  // What it takes from its stack and a product.
  assert_int_equal(count_in_part(g->graph, first, "0.gradients/uid"), 2);
}

typedef struct branching {
  cluster *c;
  ls_tensor x;
} branching;

static ls_nest in_branch(ls_nest none, void *user) {
  const branching *b = user;
  (void)none;
  return LS_LIST(ls_leaf(ls_tanh(exp_in_part(b->c, b->x))));
}

// What a branch's gradient computes again is of the part that it was of.
TEST(gradients_of_branches_have_their_part_in_it) {
  gradient_graph *g = *state;
  LS_SPEC("O29 O56");
  cluster c = cluster_of("c", 2);
  cluster_make_pivot(&c);
  CLUSTER_SCOPE(&c);
  branching b = {&c, ls_scalar(LS_DTYPE_F32, 1)};
  LS_OWN(ls_nest, made) = ls_cond(ls_less(b.x, ls_scalar(LS_DTYPE_F32, 9)),
                                  in_branch, in_branch, &b);
  assert_int_equal(count_in_part(g->graph, 0, "0"), 2);
  const size_t first = ls_graph_num_ops(g->graph);
  gradient_of(ls_nest_tensor(made, 0), b.x, &beside);
  expect_left(&c);
  assert_int_equal(count_in_part(g->graph, first, "0"), 2);
  assert_int_equal(count_in_part(g->graph, first, "0.gradients/uid"), 2);
}

// ---- Refusals --------------------------------------------------------------
static ls_nest as_it_is(ls_nest values, void *user) {
  (void)user;
  return LS_LIST(ls_leaf(ls_exp(ls_nest_tensor(values, 0))));
}

static ls_nest refuse(ls_nest inputs, ls_nest outputs, ls_nest gradients,
                      void *user) {
  (void)inputs;
  (void)outputs;
  (void)gradients;
  (void)user;
  return LS_FAIL(LS_ABORTED, "not today");
}

TEST(a_gradient_that_fails_is_left_too) {
  gradient_graph *g = *state;
  LS_SPEC("O47");
  cluster c = cluster_of("c", 2);
  cluster_make_pivot(&c);
  CLUSTER_SCOPE(&c);
  const ls_tensor x = ls_scalar(LS_DTYPE_F32, 1), h = ls_tanh(x);
  strcpy(c.part, "0");
  LS_OWN(ls_nest, made) =
      ls_custom_gradient(as_it_is, refuse, NULL, LS_LIST(ls_leaf(h)));
  c.part[0] = '\0';
  const ls_nest y = ls_nest_item(made, 0), of_x = ls_leaf(x);
  ls_nest gradient = ls_none();
  const size_t there = ls_graph_num_ops(g->graph);
  expect_status(ls_gradients(&y, 1, &of_x, 1, &beside, &gradient), LS_ABORTED,
                "not today");
  assert_int_equal(ls_graph_num_ops(g->graph), there);
  expect_left(&c);
}

TEST(what_a_flow_refuses_is_not_entered) {
  gradient_graph *g = *state;
  LS_SPEC("O53 O57");
  cluster c = cluster_of("c", 2);
  cluster_make_pivot(&c);
  CLUSTER_SCOPE(&c);
  const ls_tensor x = ls_scalar(LS_DTYPE_F32, 1), y = exp_in_part(&c, x);
  ls_scope scope = {0};
  ls_flow_gradient_begin(&scope, ls_tensor_op(y), "__unsupported__");
  expect_status(ls_scope_status(), LS_UNIMPLEMENTED, "No gradient_uid");
  assert_true(ls_tensor_is_failed(ls_neg(x)));
  ls_scope_end(&scope);
  expect_status(ls_graph_take_error(g->graph), LS_UNIMPLEMENTED,
                "No gradient_uid");
  assert_int_equal(c.num_entered, 0);
  assert_false(ls_tensor_is_failed(ls_neg(x)));
  // One that cannot be left is the graph's error.
  ls_flow_gradient_begin(&scope, ls_tensor_op(x), "uid");
  c.num_entered = 0;
  ls_scope_end(&scope);
  expect_status(ls_graph_take_error(g->graph), LS_INTERNAL,
                "Badly nested gradient colocation: empty stack, 'constant'");
}

TEST_FILE(.before_each = gradient_graph_set_up,
          .after_each = gradient_graph_tear_down)
