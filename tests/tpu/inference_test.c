// SPDX-License-Identifier: Apache-2.0
//
// Computations for inference, and graphs that are tidied.
#include "lockstep/shard.h"

#include "graph/own.h"
#include "lockstep/gradients.h"
#include "lockstep/graph_ops.h"
#include "lockstep/session.h"
#include "lockstep/variable_parts.h"
#include "support/function.h"
#include "support/placed.h"
#include "support/spec.h"
#include "support/values.h"

static ls_tensor three(void) { return ls_fill(LS_DTYPE_F32, LS_SHAPE(2), 3); }

static double fetch(ls_session *session, ls_nest fetches) {
  double number = 0;
  LS_OWN(ls_nest, results) = session_results(session, fetches);
  if (ls_nest_num_leaves(results) == 1 && results.kind == LS_KIND_LIST)
    number = ls_array_f64(ls_nest_as_array(ls_nest_item(results, 0)), 1);
  return number;
}

// ---- Inference -------------------------------------------------------------
static ls_variable *weight;

static ls_nest serve(ls_nest args, void *user) {
  (void)user;
  LS_OWN(ls_array, number) =
      array_of(LS_DTYPE_F32, LS_SCALAR, (const double[]){3});
  const ls_status status = ls_variable_create(
      &(ls_variable_options){.name = "w", .initial_array = number}, &weight);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const ls_tensor w = ls_variable_read(weight);
  return ls_leaf(ls_mul(ls_mul(ls_nest_tensor(args, 0), w),
                        ls_variable_as_tensor(weight)));
}

TEST(what_serves_reads_its_variables_outside) {
  LS_SPEC("O128");
  ls_nest outputs = ls_none();
  LS_OWN(ls_graph, graph) = graph_named("g");
  expect_status(ls_validate_inference_rewrite(graph), LS_FAILED_PRECONDITION,
                "graph 'g'");
  {
    LS_GRAPH_SCOPE(graph);
    LS_OWN(ls_nest, x) = LS_LIST(ls_leaf(three()));
    expect_ok(ls_rewrite_for_inference(serve, NULL, x, NULL, &outputs));
  }
  expect_ok(ls_validate_inference_rewrite(graph));
  ls_op guarantee = {0};
  expect_ok(ls_graph_lookup_op(graph, "w/GuaranteeConst", &guarantee));
  assert_false(ls_op_is_replicated(guarantee));
  ls_session *session = session_of(graph);
  fetch(session, ls_nest_op(ls_variable_initializer(weight)));
  assert_true(fetch(session, outputs) == 27);
  ls_nest_release(outputs);
  ls_session_destroy(session);
  ls_variable_release(weight);
}

static ls_nest serve_gradient(ls_nest args, void *user) {
  const ls_nest y = serve(args, user);
  const ls_nest xs = ls_leaf(ls_variable_read(weight));
  ls_nest gradient = ls_none();
  const ls_status status = ls_gradients(&y, 1, &xs, 1, NULL, &gradient);
  return ls_status_is_ok(status) ? LS_LIST(gradient) : ls_fail(status);
}

// d (3 w w + 3 w w) / dw at w = 3.
TEST(gradients_pass_the_promise) {
  ls_nest outputs = ls_none();
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    LS_OWN(ls_nest, x) = LS_LIST(ls_leaf(three()));
    expect_ok(
        ls_rewrite_for_inference(serve_gradient, NULL, x, NULL, &outputs));
  }
  ls_session *session = session_of(graph);
  fetch(session, ls_nest_op(ls_variable_initializer(weight)));
  ls_nest results = session_results(session, outputs);
  assert_true(ls_nest_number(ls_nest_item(results, 0)) == 36);
  ls_nest_release(results);
  ls_nest_release(outputs);
  ls_session_destroy(session);
  ls_variable_release(weight);
}

static ls_nest write_it(ls_nest args, void *user) {
  LS_OWN(ls_nest, made) = serve(args, user);
  return ls_leaf(ls_variable_assign(weight, ls_scalar(LS_DTYPE_F32, 1)));
}

static ls_nest read_other(ls_nest args, void *user) {
  (void)args;
  return ls_leaf(ls_variable_read(user));
}

TEST(what_serves_neither_writes_nor_reads_other_variables) {
  LS_SPEC("O128");
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_OWN(ls_variable, other) = NULL;
  {
    LS_GRAPH_SCOPE(graph);
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "other", .initial_value = three()},
        &other));
    LS_OWN(ls_nest, x) = LS_LIST(ls_leaf(three()));
    ls_nest outputs = ls_none();
    expect_status(ls_rewrite_for_inference(write_it, NULL, x, NULL, &outputs),
                  LS_UNIMPLEMENTED, "assign 'assign' of variable 'w'");
    expect_status(
        ls_rewrite_for_inference(read_other, other, x, NULL, &outputs),
        LS_UNIMPLEMENTED, "read_variable");
  }
  ls_variable_release(weight);
}

// ---- Pruning ---------------------------------------------------------------
static ls_op used, unused;

static ls_nest hold_placeholders(ls_nest args, void *user) {
  (void)args, (void)user;
  const ls_tensor a = ls_placeholder(LS_DTYPE_F32, LS_SCALAR, "used");
  used = ls_tensor_op(a);
  unused = ls_tensor_op(ls_placeholder(LS_DTYPE_F32, LS_SCALAR, "unused"));
  return ls_leaf(ls_neg(a));
}

TEST(what_nobody_uses_leaves_its_computation) {
  LS_SPEC("O129");
  LS_OWN_BEGUN(logged_runtime, logged, logged_runtime_begin);
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_OWN(ls_nest, outputs) = ls_none();
  {
    LS_GRAPH_SCOPE(graph);
    expect_ok(ls_replicate(hold_placeholders, NULL, ls_none(), NULL, &outputs));
  }
  assert_true(ls_op_is_replicated(used) && ls_op_is_replicated(unused));
  expect_ok(ls_prune_unconnected_ops(graph));
  assert_true(ls_op_is_replicated(used));
  assert_false(ls_op_is_replicated(unused));
  assert_int_equal(count_logged(&logged, "'unused' (placeholder)"), 1);
  expect_ok(ls_graph_verify(graph));
}
