// SPDX-License-Identifier: Apache-2.0
//
// A NULL where something is needed is refused by name.
#include "graph/own.h"
#include "lockstep/flow.h"
#include "lockstep/graph.h"
#include "lockstep/graph_ops.h"
#include "lockstep/host.h"
#include "lockstep/ops.h"
#include "lockstep/slices.h"
#include "support/callbacks.h"
#include "support/expect.h"
#include "support/function.h"

// Something that is not NULL; nobody looks at it before all are there.
static _Alignas(16) char place[512];
static void *const some = place;

TEST(calls_of_graph_refuse_null) {
  expect_null_argument(out_graph, ls_graph_create, some, NULL);
  expect_null_argument(graph, ls_graph_take_error, NULL);
  expect_null_argument(graph, ls_graph_error, NULL);
  expect_null_argument(graph, ls_graph_lookup_op, NULL, some, some);
  expect_null_argument(name, ls_graph_lookup_op, some, NULL, some);
  expect_null_argument(out_op, ls_graph_lookup_op, some, some, NULL);
  expect_null_argument(graph, ls_graph_add_to_collection, NULL, some,
                       (ls_nest){0});
  expect_null_argument(name, ls_graph_add_to_collection, some, NULL,
                       (ls_nest){0});
  expect_null_argument(name, ls_op_attr, (ls_op){0}, NULL, some);
  expect_null_argument(out_attr, ls_op_attr, (ls_op){0}, some, NULL);
  expect_null_argument(attr, ls_op_set_attr, (ls_op){0}, NULL);
  expect_null_argument(graph, ls_graph_record_loss_reduction, NULL, some);
  expect_null_argument(reduction, ls_graph_record_loss_reduction, some, NULL);
  expect_null_argument(graph, ls_graph_print, NULL, some);
  expect_null_argument(out_text, ls_graph_print, some, NULL);
  expect_null_argument(graph, ls_graph_print_gathered, NULL, some);
  expect_null_argument(out_text, ls_graph_print_gathered, some, NULL);
  expect_null_argument(graph, ls_graph_print_dot, NULL, some);
  expect_null_argument(out_text, ls_graph_print_dot, some, NULL);
  expect_null_argument(text, ls_graph_parse, NULL, some, 1, some);
  expect_null_argument(out_graph, ls_graph_parse, some, some, 1, NULL);
  expect_null_argument(kernels, ls_graph_parse, some, NULL, 1, some);
  expect_null_argument(graph, ls_graph_verify, NULL);
}

TEST(calls_of_slices_refuse_null) {
  expect_null_argument(out_parts, ls_slices_parts_of, (ls_nest){0}, NULL);
}

TEST(calls_of_host_refuse_null) {
  expect_null_argument(call, ls_host_give, NULL, 0, some);
}

// ---- Functions and handles of nothing --------------------------------------
static ls_nest yes(ls_nest args, void *user) {
  (void)args, (void)user;
  return ls_leaf(ls_scalar_i64(LS_DTYPE_BOOL, 1));
}

static void expect_failed(ls_nest made, const char *text) {
  expect_status(ls_nest_status(made), LS_INVALID_ARGUMENT, text);
  ls_nest_release(made);
  ls_status_free(ls_graph_take_error(ls_graph_current()));
}

static void flow_needs_its_functions(void) {
  const ls_tensor x = ls_scalar(LS_DTYPE_F32, 1),
                  holds = ls_scalar_i64(LS_DTYPE_BOOL, 1);
  const ls_nest start = ls_leaf(x);
  expect_failed(ls_while(NULL, give_args, NULL, start, 2),
                "the condition of a loop is NULL");
  expect_failed(ls_while(yes, NULL, NULL, start, 2),
                "the body of a loop is NULL");
  expect_failed(ls_step_while(yes, NULL, NULL, start, 2),
                "the body of a loop is NULL");
  expect_failed(ls_cond(holds, NULL, give_args, NULL),
                "first branch of a cond");
  expect_failed(ls_cond(holds, give_args, NULL, NULL),
                "second branch of a cond");
  expect_failed(ls_custom_gradient(NULL, keep_gradients, NULL, start),
                "the forward callback is NULL");
  expect_failed(ls_custom_gradient(give_args, NULL, NULL, start),
                "the gradient callback is NULL");
}

// An op without a graph is as a failed one.
static void a_handle_without_a_graph_is_refused(void) {
  const ls_op no_graph = {NULL, 5};
  const ls_op made = ls_group(&no_graph, 1, NULL);
  if (ls_graph_is_eager(ls_graph_current())) return;
  assert_true(ls_op_is_failed(made));
  expect_status(ls_graph_take_error(ls_graph_current()), LS_INVALID_ARGUMENT,
                "a control input of no_op is a failed op");
  LS_CONTROL_SCOPE(&no_graph, 1);
  const ls_tensor x = ls_neg(ls_scalar(LS_DTYPE_F32, 1));
  assert_true(ls_tensor_is_failed(x));
  expect_status(ls_graph_take_error(ls_graph_current()), LS_INVALID_ARGUMENT,
                "is a failed op");
}

TEST(functions_and_handles_of_nothing_are_refused) {
  flow_needs_its_functions();
  a_handle_without_a_graph_is_refused();
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    flow_needs_its_functions();
    a_handle_without_a_graph_is_refused();
  }
}
