// SPDX-License-Identifier: Apache-2.0
//
// Attributes that are set after an op was made keep to its operands, outputs
// and regions, and later runs of sessions have them.
#include <string.h>

#include "graph/own.h"
#include "lockstep/flow.h"
#include "lockstep/graph_ops.h"
#include "lockstep/ops.h"
#include "lockstep/session.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/values.h"

static ls_nest is_low(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(
      ls_less(ls_nest_tensor(values, 0), ls_scalar(LS_DTYPE_F32, 3)));
}

static ls_nest add_one(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1));
}

// Sets an attribute that the op refuses, and expects the graph as before.
static void expect_refused(ls_graph *graph, ls_tensor x, ls_attr attr,
                           const char *part) {
  LS_OWN(printed, before) = graph_text(graph);
  expect_status(ls_op_set_attr(ls_tensor_op(x), &attr), LS_INVALID_ARGUMENT,
                part);
  LS_OWN(printed, after) = graph_text(graph);
  assert_string_equal(before, after);
}

TEST(an_attribute_fits_the_op) {
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_GRAPH_SCOPE(graph);
  LS_OWN(ls_nest, loop) =
      ls_while(is_low, add_one, NULL, ls_leaf(ls_scalar(LS_DTYPE_F32, 0)), 0);
  expect_refused(
      graph, ls_nest_tensor(loop, 0),
      (ls_attr){.name = "num_carried", .kind = LS_ATTR_INT, .as.i = 1048576},
      "while: 1048576 values are carried");
  const ls_tensor y = ls_reshape(
      ls_placeholder(LS_DTYPE_F32, LS_SHAPE(2, 3), "x"), LS_SHAPE(6));
  ls_size sizes[] = {{LS_SIZE_CONSTANT, 3}, {LS_SIZE_CONSTANT, 2}};
  expect_refused(
      graph, y,
      (ls_attr){.name = "sizes", .kind = LS_ATTR_SIZES, .as.sizes = {sizes, 2}},
      "output 0 is f32[6], by the shape rule f32[3,2]");
  sizes[0].value = 6;
  expect_ok(
      ls_op_set_attr(ls_tensor_op(y), &(ls_attr){.name = "sizes",
                                                 .kind = LS_ATTR_SIZES,
                                                 .as.sizes = {sizes, 1}}));
  expect_ok(ls_graph_verify(graph));
}

// ---- Sessions --------------------------------------------------------------
static void set_value(ls_tensor constant, double value) {
  LS_OWN(ls_array, array) = array_of(LS_DTYPE_F32, LS_SCALAR, &value);
  expect_ok(ls_op_set_attr(
      ls_tensor_op(constant),
      &(ls_attr){.name = "value", .kind = LS_ATTR_ARRAY, .as.array = array}));
}

static ls_tensor inside;  // A constant in a branch.

static ls_nest give_inside(ls_nest args, void *user) {
  (void)args, (void)user;
  return ls_leaf(inside = ls_scalar(LS_DTYPE_F32, 5));
}

static ls_nest give_nothing(ls_nest args, void *user) {
  (void)args, (void)user;
  return ls_leaf(ls_scalar(LS_DTYPE_F32, 0));
}

static double fetched(ls_session *session, ls_tensor tensor) {
  LS_OWN(ls_nest, result) = session_results(session, ls_leaf(tensor));
  return nest_element(result, 0);
}

TEST(runs_see_an_attribute_that_was_set_after_a_run) {
  LS_OWN(ls_graph, graph) = graph_named("g");
  ls_tensor number, twice, thrice, branch;
  {
    LS_GRAPH_SCOPE(graph);
    number = ls_scalar(LS_DTYPE_F32, 3);
    twice = ls_mul_scalar(number, 2);
    thrice = ls_mul_scalar(number, 3);
    const ls_tensor yes = ls_less(ls_scalar(LS_DTYPE_F32, 0), number);
    LS_OWN(ls_nest, made) = ls_cond(yes, give_inside, give_nothing, NULL);
    branch = ls_nest_tensor(made, 0);
  }
  LS_OWN(ls_session, session) = session_of(graph);
  assert_true(fetched(session, twice) == 6);
  assert_true(fetched(session, branch) == 5);
  set_value(number, 10);
  assert_true(fetched(session, twice) == 20);
  assert_true(fetched(session, thrice) == 30);
  set_value(inside, 7);
  assert_true(fetched(session, branch) == 7);
  assert_true(fetched(session, twice) == 20);
}
