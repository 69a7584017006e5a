// SPDX-License-Identifier: Apache-2.0
//
// A value that is fed replaces the tensor for all who read it, also where its
// op runs for another reason, and beside a replicated computation.
#include "lockstep/session.h"

#include "lockstep/graph_ops.h"
#include "lockstep/replicate.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/values.h"

typedef struct net {
  ls_graph *graph;
  ls_session *session;
  ls_variable *v, *w;
  ls_tensor added, twice;           // v + 1, assigned to v; and twice that.
  ls_tensor behind;                 // w, read behind the op of `added`.
  ls_tensor x, assigned;            // 5, assigned to w behind x.
  ls_tensor four, top[2], tens[2];  // The two largest of four, where they are.
} net;

static ls_nest doubled(ls_nest args, void *user) {
  (void)user;
  return LS_LIST(ls_leaf(ls_mul_scalar(ls_nest_tensor(args, 0), 2)));
}

static void add_computation(void) {
  LS_OWN(ls_nest, inputs) =
      LS_LIST(LS_LIST(ls_leaf(ls_scalar(LS_DTYPE_F32, 3))));
  LS_OWN(ls_nest, outputs) = ls_none();
  expect_ok(ls_replicate(doubled, NULL, inputs, NULL, &outputs));
}

static ls_op add_ops(net *n, bool with_computation) {
  LS_GRAPH_SCOPE(n->graph);
  n->v = variable_of("v", LS_DTYPE_F32, LS_SCALAR, (double[]){1});
  n->w = variable_of("w", LS_DTYPE_F32, LS_SCALAR, (double[]){3});
  n->added = ls_variable_assign_add(n->v, ls_scalar(LS_DTYPE_F32, 1));
  n->twice = ls_mul_scalar(n->added, 2);
  n->x = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(LS_UNKNOWN_DIM), "x");
  const ls_op x = ls_tensor_op(n->x), added = ls_tensor_op(n->added);
  {
    LS_CONTROL_SCOPE(&x, 1);
    n->assigned = ls_variable_assign(n->w, ls_scalar(LS_DTYPE_F32, 5));
  }
  {
    LS_CONTROL_SCOPE(&added, 1);
    n->behind = ls_mul_scalar(ls_variable_read(n->w), 1);
  }
  n->four = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(4), "four");
  const ls_op top = ls_top_k(n->four, 2);
  for (unsigned i = 0; i < 2; ++i) {
    n->top[i] = ls_op_output(top, i);
    n->tens[i] = ls_mul_scalar(ls_convert(n->top[i], LS_DTYPE_F32), 10);
  }
  if (with_computation) add_computation();
  return ls_global_initializer();
}

static void net_begin(net *n, bool with_computation) {
  *n = (net){.graph = graph_named("net")};
  const ls_op init = add_ops(n, with_computation);
  n->session = session_of(n->graph);
  ls_nest_release(session_results(n->session, ls_nest_op(init)));
}

static void net_end(net *n) {
  ls_session_destroy(n->session);
  ls_variable_release(n->v);
  ls_variable_release(n->w);
  ls_graph_destroy(n->graph);
}
LS_OWNED_STRUCT(net, net_end)

// Runs the fetches, which it releases; the first number of each leaf is the
// wanted one.
static void expect_run(net *n, ls_nest fetches, const ls_feed *feeds,
                       size_t num_feeds, const double *wanted) {
  LS_OWN(ls_nest, results) = ls_none();
  expect_ok(ls_session_run(n->session, fetches, feeds, num_feeds, &results));
  for (size_t i = 0; i < ls_nest_count(results); ++i)
    if (ls_nest_item(results, i).kind != LS_KIND_NONE)
      assert_true(nest_element(ls_nest_item(results, i), 0) == wanted[i]);
  ls_nest_release(fetches);
}

static void feed_what_runs_anyway(bool with_computation) {
  LS_OWN_BEGUN(net, n, net_begin, with_computation);
  LS_OWN(ls_array, hundred) =
      array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){100});
  const ls_feed feed = {n.added, hundred};
  expect_run(&n,
             LS_LIST(ls_nest_op(ls_tensor_op(n.added)), ls_leaf(n.twice),
                     ls_leaf(n.added)),
             &feed, 1, (double[]){0, 200, 100});
  assert_true(session_number(n.session, n.v) == 2);
  expect_run(&n, LS_LIST(ls_leaf(n.behind), ls_leaf(n.twice)), &feed, 1,
             (double[]){3, 200});
  assert_true(session_number(n.session, n.v) == 3);
  expect_run(&n, LS_LIST(ls_leaf(n.twice)), &feed, 1, (double[]){200});
  assert_true(session_number(n.session, n.v) == 3);
}

TEST(a_feed_replaces_what_runs_anyway) {
  feed_what_runs_anyway(false);
  feed_what_runs_anyway(true);
}

static void feed_one_output(bool with_computation) {
  LS_OWN_BEGUN(net, n, net_begin, with_computation);
  LS_OWN(ls_array, four) =
      array_of(LS_DTYPE_F32, LS_SHAPE(4), (double[]){1, 4, 2, 3});
  LS_OWN(ls_array, two) = array_of(LS_DTYPE_F32, LS_SHAPE(2), (double[]){7, 8});
  const ls_feed feeds[] = {{n.four, four}, {n.top[0], two}};
  expect_run(&n,
             LS_LIST(ls_leaf(n.tens[0]), ls_leaf(n.tens[1]), ls_leaf(n.top[0]),
                     ls_leaf(n.top[1])),
             feeds, 2, (double[]){70, 10, 7, 1});
}

TEST(a_feed_replaces_one_output_and_leaves_the_other) {
  feed_one_output(false);
  feed_one_output(true);
}

static void run_behind_a_feed(bool with_computation) {
  LS_OWN_BEGUN(net, n, net_begin, with_computation);
  LS_OWN(ls_array, three) =
      array_of(LS_DTYPE_F32, LS_SHAPE(3), (double[]){6, 7, 8});
  const ls_feed feed = {n.x, three};
  ls_nest results = ls_none();
  expect_status(
      ls_session_run(n.session, ls_leaf(n.assigned), NULL, 0, &results),
      LS_INVALID_ARGUMENT, "placeholder 'x' f32[?] is needed but was not fed");
  expect_run(&n, LS_LIST(ls_leaf(n.assigned)), &feed, 1, (double[]){5});
  assert_true(session_number(n.session, n.w) == 5);
  expect_run(&n, LS_LIST(ls_nest_op(ls_tensor_op(n.x)), ls_leaf(n.x)), &feed, 1,
             (double[]){0, 6});
}

TEST(a_placeholder_that_is_fed_may_be_waited_for) {
  run_behind_a_feed(false);
  run_behind_a_feed(true);
}
