// SPDX-License-Identifier: Apache-2.0
//
// Gradients of loops: where they stand, and what is refused.
#include "graph/own.h"
#include "lockstep/graph_ops.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/recurrence.h"
#include "support/spec.h"

// ---- Names and refusals ----------------------------------------------------
TEST(gradients_of_a_loop_stand_beside_it) {
  LS_SPEC("O181 O190 O194");
  LS_OWN(ls_graph, graph) = graph_named("names");
  {
    LS_GRAPH_SCOPE(graph);
    const ls_tensor x = ls_placeholder(LS_DTYPE_F64, LS_SHAPE(2, 3), "x");
    const recurrence r = {ls_placeholder(LS_DTYPE_F64, LS_SHAPE(3, 3), "w"),
                          ls_scalar(LS_DTYPE_F64, 0.1),
                          ls_scalar_i64(LS_DTYPE_I32, 4)};
    const ls_nest ys[] = {ls_leaf(recur(x, r))}, xs[] = {ls_leaf(r.w)};
    ls_nest grads[1];
    expect_ok(ls_gradients(ys, 1, xs, 1,
                           &(ls_gradient_options){.colocate_with_ops = true},
                           grads));
    const ls_op made = ls_tensor_op(ls_nest_tensor(grads[0], 0));
    assert_string_equal(ls_op_name(made), "gradients/while_grad/while");
    const ls_attr *class = NULL;
    expect_ok(ls_op_attr(made, "_class", &class));
    assert_string_equal(class->as.strings.items[0], "loc:@while");
    char *text = graph_text(graph);
    expect_contains(text, "# \"tanh_grad/mul\"");
    expect_contains(text, "_class = strings[\"loc:@while\"]} # \"stack_pop\"");
    LS_OWN(ls_graph, parsed) = NULL;
    expect_ok(ls_graph_parse(text, NULL, 0, &parsed));
    LS_OWN(printed, again) = graph_text(parsed);
    assert_string_equal(again, text);
    ls_text_release(text);
  }
  expect_ok(ls_graph_verify(graph));
}

// Where a gradient is asked for inside of a loop, with respect to what.
typedef struct inside {
  ls_tensor initial, captured;
  bool of_parameter, of_capture;
} inside;

static ls_nest once(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(
      ls_less(ls_nest_tensor(values, 0), ls_scalar(LS_DTYPE_F64, 1)));
}

static ls_nest ask_inside(ls_nest values, void *user) {
  const inside *in = user;
  const ls_tensor v = ls_nest_tensor(values, 0);
  const ls_nest ys[] = {ls_leaf(ls_mul(ls_square(v), in->captured))};
  const ls_nest xs[] = {ls_leaf(in->of_parameter ? v
                                : in->of_capture ? in->captured
                                                 : in->initial)};
  ls_nest grads[1];
  const ls_status status = ls_gradients(ys, 1, xs, 1, NULL, grads);
  return ls_status_is_ok(status) ? grads[0] : ls_fail(status);
}

TEST(initial_values_are_refused_inside_of_a_loop) {
  LS_SPEC("O194");
  const struct {
    bool of_parameter, of_capture;
    const char *name;  // NULL: allowed.
  } rows[] = {
      {true, false, NULL}, {false, true, NULL}, {false, false, "start"}};
  for (size_t i = 0; i < 3; ++i) {
    LS_OWN(ls_graph, graph) = graph_named("inside");
    {
      LS_GRAPH_SCOPE(graph);
      inside in = {.initial = ls_placeholder(LS_DTYPE_F64, LS_SCALAR, "start"),
                   .captured =
                       ls_placeholder(LS_DTYPE_F64, LS_SCALAR, "captured"),
                   .of_parameter = rows[i].of_parameter,
                   .of_capture = rows[i].of_capture};
      const ls_nest made =
          ls_while(once, ask_inside, &in, ls_leaf(ls_exp(in.initial)), 0);
      ls_status status = ls_nest_status(made);
      ls_nest_release(made);
      if (rows[i].name == NULL) {
        expect_ok(status);
      } else {
        expect_status(status, LS_INVALID_ARGUMENT, rows[i].name);
        expect_status(ls_graph_take_error(graph), LS_INVALID_ARGUMENT,
                      rows[i].name);
      }
    }
  }
}

static ls_nest ask_for_other_loop(ls_nest values, void *user) {
  const inside *in = user;
  const ls_nest ys[] = {ls_leaf(in->captured)}, xs[] = {ls_leaf(in->initial)};
  ls_nest grads[1];
  const ls_status status = ls_gradients(ys, 1, xs, 1, NULL, grads);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const ls_tensor sum = ls_reduce_sum(ls_nest_tensor(grads[0], 0), LS_ALL_AXES);
  return ls_leaf(ls_add(ls_nest_tensor(values, 0), sum));
}

TEST(a_loop_around_is_no_place_for_the_gradient_of_another) {
  LS_OWN(ls_graph, graph) = graph_named("around");
  {
    LS_GRAPH_SCOPE(graph);
    const ls_tensor x = ls_placeholder(LS_DTYPE_F64, LS_SHAPE(2, 3), "x");
    const recurrence r = {ls_placeholder(LS_DTYPE_F64, LS_SHAPE(3, 3), "w"),
                          ls_scalar(LS_DTYPE_F64, 0.1),
                          ls_scalar_i64(LS_DTYPE_I32, 4)};
    inside in = {.initial = x, .captured = recur(x, r)};
    const ls_nest made = ls_while(once, ask_for_other_loop, &in,
                                  ls_leaf(ls_scalar(LS_DTYPE_F64, 0)), 0);
    expect_status(ls_nest_status(made), LS_UNIMPLEMENTED, "loop 'while'");
    ls_nest_release(made);
    expect_status(ls_graph_take_error(graph), LS_UNIMPLEMENTED, "loop 'while'");
  }
}
