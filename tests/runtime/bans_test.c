// SPDX-License-Identifier: Apache-2.0
//
// Ops that sessions may neither feed nor fetch.
#include "distribute/own.h"
#include "graph/graph.h"
#include "lockstep/session.h"
#include "support/replicas.h"
#include "support/values.h"

// y = 2 x + 1, where the product lies in a scope.
typedef struct net {
  ls_graph *graph;
  ls_session *session;
  ls_tensor x, product, y;
} net;

static void make_net(net *n) {
  expect_ok(ls_graph_create("net", &n->graph));
  {
    LS_GRAPH_SCOPE(n->graph);
    n->x = ls_placeholder(LS_DTYPE_F32, LS_SCALAR, "x");
    {
      LS_NAME_SCOPE("inner");
      n->product = ls_mul_scalar(n->x, 2);
    }
    n->y = ls_add_scalar(n->product, 1);
  }
  expect_ok(ls_session_create(n->graph, &n->session));
}

static void end_net(net *n) {
  ls_session_destroy(n->session);
  ls_graph_destroy(n->graph);
}
LS_OWNED_STRUCT(net, end_net)

// The result's number; a failure's status instead.
static ls_status run_net(const net *n, ls_nest fetches, ls_tensor fed,
                         double *out_y) {
  const double three = 3;
  LS_OWN(ls_array, array) = array_of(LS_DTYPE_F32, LS_SCALAR, &three);
  const ls_feed feed = {fed, array};
  LS_OWN(ls_nest, result) = ls_none();
  const ls_status status =
      ls_session_run(n->session, fetches, &feed, 1, &result);
  if (ls_status_is_ok(status) && out_y != NULL)
    *out_y = ls_array_f64(ls_nest_as_array(result), 0);
  ls_nest_release(fetches);
  return status;
}

TEST(an_op_that_may_not_be_fetched_is_named) {
  LS_SPEC("O18");
  double y = 0;
  LS_OWN_BEGUN(net, n, make_net);
  ls_op_prevent_fetching(ls_tensor_op(n.product));
  const char *const says = "op 'inner/mul' (mul) has been marked as not "
                           "fetchable";
  expect_status(run_net(&n, ls_leaf(n.product), n.x, NULL), LS_INVALID_ARGUMENT,
                says);
  expect_status(run_net(&n, ls_nest_op(ls_tensor_op(n.product)), n.x, NULL),
                LS_INVALID_ARGUMENT, says);
  expect_status(
      run_net(&n, LS_LIST(ls_leaf(n.y), ls_leaf(n.product)), n.x, NULL),
      LS_INVALID_ARGUMENT, says);
  // Others may need it, and it may be fed.
  expect_ok(run_net(&n, ls_leaf(n.y), n.x, &y));
  assert_true(y == 7);
  expect_ok(run_net(&n, ls_leaf(n.y), n.product, &y));
  assert_true(y == 4);
}

TEST(an_op_that_may_not_be_fed_is_named) {
  LS_SPEC("O18");
  double y = 0;
  LS_OWN_BEGUN(net, n, make_net);
  // Also once it has been fed: what was compiled for that stays unused.
  expect_ok(run_net(&n, ls_leaf(n.y), n.product, &y));
  assert_true(y == 4);
  ls_op_prevent_feeding(ls_tensor_op(n.product));
  expect_status(run_net(&n, ls_leaf(n.y), n.product, NULL), LS_INVALID_ARGUMENT,
                "tensor 'inner/mul:0' may not be fed");
  expect_ok(run_net(&n, ls_leaf(n.product), n.x, &y));
  assert_true(y == 6);
}

TEST(bans_of_failed_and_stale_ops_are_nothing) {
  LS_OWN_BEGUN(net, n, make_net);
  ls_op_prevent_feeding((ls_op){0});
  ls_op_prevent_fetching((ls_op){n.graph, 12345});
  expect_ok(run_net(&n, ls_leaf(n.y), n.x, NULL));
}

TEST(a_variable_is_no_fetch) {
  LS_SPEC("V142");
  for (int replicas = 1; replicas <= 3; ++replicas) {
    LS_OWN(net, n) = {0};
    LS_OWN(ls_variable, v) = NULL;
    LS_OWN(ls_strategy, strategy) = mirrored_of(replicas);
    make_net(&n);
    {
      LS_GRAPH_SCOPE(n.graph);
      LS_STRATEGY_SCOPE(strategy);
      expect_ok(ls_variable_create(
          &(ls_variable_options){.name = "v", .dtype = LS_DTYPE_F32}, &v));
    }
    expect_status(run_net(&n, ls_nest_variable(v), n.x, NULL),
                  LS_INVALID_ARGUMENT, "cannot be fetched");
  }
}
