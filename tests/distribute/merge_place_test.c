// SPDX-License-Identifier: Apache-2.0
//
// Where a replica may make a merge call: in its callback itself.
#include "lockstep/function.h"
#include "lockstep/graph.h"
#include "support/replicas.h"

static ls_nest merge_none(ls_strategy *strategy, ls_nest args, void *user) {
  (void)strategy;
  (void)args;
  (void)user;
  return ls_none();
}

// The merge call, in a callback of a function, loop or branch; `user` is the
// replica.
static ls_nest merge_inside(ls_nest args, void *user) {
  const ls_nest merged =
      ls_replica_merge_call(user, merge_none, ls_none(), NULL);
  if (ls_nest_is_failed(merged)) return merged;
  return ls_nest_retain(args);
}

static ls_nest pass(ls_nest args, void *user) {
  (void)user;
  return ls_nest_retain(args);
}

static ls_nest is_small(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_less(ls_nest_tensor(args, 0), ls_scalar(LS_DTYPE_F32, 3)));
}

static ls_nest in_a_function(ls_nest args, void *user) {
  (void)args;
  (void)user;
  ls_function *function = NULL;
  ls_nest made = ls_none();
  expect_ok(
      ls_function_create(&(ls_function_options){.call = merge_inside,
                                                .user = ls_replica_context()},
                         &function));
  const ls_status status = ls_function_call(function, ls_none(), &made);
  ls_function_release(function);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

static ls_nest in_a_body(ls_nest args, void *user) {
  (void)args;
  (void)user;
  return ls_while(is_small, merge_inside, ls_replica_context(),
                  LS_TUPLE(ls_leaf(ls_scalar(LS_DTYPE_F32, 1))), 2);
}

static ls_nest in_a_condition(ls_nest args, void *user) {
  (void)args;
  (void)user;
  return ls_while(merge_inside, pass, ls_replica_context(),
                  LS_TUPLE(ls_leaf(ls_scalar(LS_DTYPE_BOOL, 1))), 2);
}

static ls_nest in_a_branch(ls_nest args, void *user) {
  (void)args;
  (void)user;
  const ls_tensor yes = ls_scalar(LS_DTYPE_BOOL, 1);
  return ls_cond(yes, merge_inside, pass, ls_replica_context());
}

static ls_nest in_itself(ls_nest args, void *user) {
  (void)user;
  return merge_inside(args, ls_replica_context());
}

static void expect_refused(ls_strategy *strategy, ls_callback callback) {
  ls_nest made = ls_none();
  const ls_status status =
      ls_strategy_run(strategy, ls_plain(callback, NULL), ls_none(), &made);
  expect_contains(ls_status_message(status), "merge_call");
  expect_contains(ls_status_message(status), "nested function");
  expect_status(status, LS_FAILED_PRECONDITION, "control flow");
  // No replica hangs, and nothing of it is left.
  ls_nest_release(run_on(strategy, in_itself, ls_none(), NULL));
  assert_false(ls_has_strategy());
}

static void no_merge_call_but_in_the_replica_itself(void **state) {
  (void)state;
  LS_SPEC("V177");
  ls_strategy *strategy = mirrored_of(2);
  expect_refused(strategy, in_a_function);
  static const ls_callback all[] = {in_a_body, in_a_condition, in_a_branch};
  for (size_t i = 0; i < sizeof(all) / sizeof(*all); ++i) {
    ls_graph *graph = NULL;
    expect_ok(ls_graph_create("g", &graph));
    {
      LS_GRAPH_SCOPE(graph);
      expect_refused(strategy, all[i]);
      ls_status_free(ls_graph_take_error(graph));
    }
    ls_graph_destroy(graph);
  }
  // Eager loops and branches are plain C: no other graph.
  ls_nest_release(run_on(strategy, in_a_branch, ls_none(), NULL));
  ls_strategy_release(strategy);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_merge_call_but_in_the_replica_itself),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  expect_ok(ls_runtime_destroy(NULL));
  return failed;
}
