// SPDX-License-Identifier: Apache-2.0
//
// Gradients through calls and branches, and inside them.
#include "base/memory/own.h"
#include "graph/region.h"
#include "support/expect.h"
#include "support/gradient_graph.h"
#include "support/spec.h"

typedef struct captured {
  ls_tensor a, b, gradient;
  ls_variable *variable;
} captured;

// A function that is called: exp(p) * a * v.
static ls_nest function_body(ls_nest args, void *user) {
  const captured *c = user;
  const ls_tensor product = ls_mul(ls_exp(ls_nest_tensor(args, 0)), c->a);
  return ls_leaf(ls_mul(product, ls_variable_read(c->variable)));
}

static ls_tensor call(ls_tensor argument, captured *c) {
  ls_graph *graph = ls_graph_current(), *body = NULL;
  const ls_type type = {ls_tensor_dtype(argument), ls_tensor_shape(argument)};
  ls_nest result;
  LS_OWN(ls_nest, args) = ls_none();
  expect_ok(
      ls_graph_make(LS_GRAPH_FUNCTION, "body", graph->runtime, graph, &body));
  expect_ok(ls_region_parameters(body, ls_leaf(argument), &type, 1, &args));
  expect_ok(ls_region_trace(body, function_body, args, c, &result));
  ls_nest_release(result);
  ls_tensor inputs[8] = {argument};
  for (size_t i = 0; i < body->num_captures; ++i)
    inputs[1 + i] = body->captures[i].outer;
  return ls_op_output(
      ls_op_add(&(ls_op_spec){.type = LS_OP_CALL,
                              .inputs = inputs,
                              .num_inputs = 1 + body->num_captures,
                              .regions = &body,
                              .num_regions = 1}),
      0);
}

TEST(calls_are_differentiated_through_their_body) {
  LS_SPEC("O193");
  gradient_graph *f = *state;
  const ls_tensor x = gradient_input("x");
  captured c = {.a = gradient_input("a"), .variable = gradient_variable("v")};
  const ls_tensor y = call(x, &c);
  const ls_nest ys[] = {ls_leaf(y)};
  const ls_nest xs[] = {ls_leaf(x), ls_leaf(c.a), ls_nest_variable(c.variable)};
  ls_nest grads[3];
  const size_t before = ls_graph_num_ops(f->graph);
  expect_ok(ls_gradients(ys, 1, xs, 3, NULL, grads));
  assert_string_equal(gradient_names_from(f, before),
                      "gradients/grad_ys_0 gradients/call_grad/mul_1_grad/mul "
                      "gradients/call_grad/mul_1_grad/mul_1 "
                      "gradients/call_grad/mul_grad/mul "
                      "gradients/call_grad/mul_grad/mul_1 "
                      "gradients/call_grad/exp_grad/mul");
  for (int i = 0; i < 3; ++i)
    assert_int_equal(grads[i].kind, LS_KIND_TENSOR);
  // Forward values are further results of the call, not computed again.
  const ls_op forward = ls_tensor_op(y);
  assert_true(ls_op_num_outputs(forward) > 1);
  const ls_op last = ls_tensor_op(ls_nest_tensor(grads[0], 0));
  assert_int_equal(ls_tensor_op(ls_op_input(last, 1)).id, forward.id);
  ls_nest_release(xs[2]);
  ls_variable_release(c.variable);
}

static ls_nest then_branch(ls_nest none, void *user) {
  (void)none;
  const captured *c = user;
  const ls_tensor product = ls_mul(ls_exp(c->a), c->b);
  return ls_leaf(ls_mul(product, ls_variable_read(c->variable)));
}

static ls_nest else_branch(ls_nest none, void *user) {
  (void)none;
  const captured *c = user;
  return ls_leaf(ls_tanh(c->a));
}

TEST(the_gradient_of_a_cond_is_a_cond) {
  LS_SPEC("O194");
  gradient_graph *f = *state;
  captured c = {.a = gradient_input("a"),
                .b = gradient_input("b"),
                .variable = gradient_variable("v")};
  const ls_tensor p = ls_placeholder(LS_DTYPE_BOOL, LS_SCALAR, "p");
  LS_OWN(ls_nest, result) = ls_cond(p, then_branch, else_branch, &c);
  const ls_nest xs[] = {ls_leaf(c.a), ls_leaf(c.b),
                        ls_nest_variable(c.variable)};
  ls_nest grads[3];
  expect_ok(ls_gradients(&result, 1, xs, 3, NULL, grads));
  const ls_op backward = gradient_op(f, "gradients/cond_grad/cond");
  assert_true(ls_tensor_equal(ls_op_input(backward, 0), p));
  // a is captured by both branches; each gives its part.
  assert_int_equal(ls_op_num_outputs(backward), 4);
  assert_int_equal(ls_op_num_inputs(gradient_op(f, "gradients/add_n")), 2);
  for (int i = 0; i < 3; ++i)
    assert_int_equal(grads[i].kind, LS_KIND_TENSOR);
  // The variable's value then is a further result of the forward cond.
  assert_int_equal(ls_op_num_outputs(gradient_op(f, "cond")), 2);
  // And a second time.
  expect_ok(ls_gradients(&grads[0], 1, xs, 3, NULL, grads));
  assert_int_equal(grads[1].kind, LS_KIND_TENSOR);
  ls_nest_release(xs[2]);
  ls_variable_release(c.variable);
}

// Takes the gradient of exp(a * b) with respect to a, a value from outside.
static ls_nest gradient_inside(ls_nest none, void *user) {
  (void)none;
  captured *c = user;
  return ls_leaf(gradient_of(ls_exp(c->b), c->a, NULL));
}

static ls_nest nothing_inside(ls_nest none, void *user) {
  (void)none;
  captured *c = user;
  return ls_leaf(ls_identity(c->a));
}

TEST(gradients_inside_a_branch_reach_values_around_it) {
  LS_SPEC("O193");
  gradient_graph *f = *state;
  const ls_tensor a = gradient_input("a");
  captured c = {.a = a, .b = ls_mul(a, a)};
  const ls_tensor p = ls_placeholder(LS_DTYPE_BOOL, LS_SCALAR, "p");
  LS_OWN(ls_nest, result) = ls_cond(p, gradient_inside, nothing_inside, &c);
  assert_int_equal(result.kind, LS_KIND_TENSOR);
  // Nothing was added out here.
  assert_string_equal(gradient_names_from(f, 0), "a mul p cond");
}

TEST_FILE(.before_each = gradient_graph_set_up,
          .after_each = gradient_graph_tear_down)
