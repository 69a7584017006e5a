// SPDX-License-Identifier: Apache-2.0
//
// What messages call strategies, and the scopes of replicas.
#include "distribute/own.h"
#include "lockstep/graph.h"
#include "lockstep/graph_ops.h"
#include "support/function.h"
#include "support/replicas.h"

TEST(a_label_tells_strategies_apart) {
  LS_OWN(ls_strategy, strategy) = NULL;
  ls_strategy *other = NULL, *usual = NULL;
  expect_ok(mirrored_with(
      (ls_mirrored_options){.name = "train", .num_replicas = LS_SOME(2)},
      &strategy));
  assert_string_equal(ls_strategy_label(strategy),
                      "mirrored strategy 'train' (2 replicas on CPU:0, CPU:1)");
  expect_ok(
      mirrored_with((ls_mirrored_options){.num_replicas = LS_SOME(9)}, &other));
  expect_contains(ls_strategy_label(other),
                  " (9 replicas on CPU:0, CPU:1, CPU:2 ... CPU:8)");
  // Both are named where they are mixed.
  {
    LS_STRATEGY_SCOPE(strategy);
    {
      LS_STRATEGY_SCOPE(other);
      const ls_status status = ls_scope_status();
      expect_contains(ls_status_message(status), ls_strategy_label(strategy));
      expect_status(status, LS_FAILED_PRECONDITION, ls_strategy_label(other));
    }
  }
  ls_strategy_release(other);
  expect_ok(ls_one_device_strategy_create("GPU:3", &other));
  expect_contains(ls_strategy_label(other), " (1 replica on GPU:3)");
  // Without a name it has a number, and no other strategy has that.
  LS_OWN(ls_strategy, twin) = NULL;
  expect_ok(ls_one_device_strategy_create("GPU:3", &twin));
  assert_string_not_equal(ls_strategy_label(other), ls_strategy_label(twin));
  expect_ok(ls_strategy_default(&usual));
  assert_string_equal(ls_strategy_label(usual), "the default strategy");
  ls_strategy_release(other);
}

static ls_nest name_op(ls_nest args, void *user) {
  (void)args;
  (void)user;
  return ls_leaf(
      ls_identity_named(ls_scalar(LS_DTYPE_F32, ls_replica_number()), "x"));
}

TEST(the_scopes_of_replicas_may_have_their_old_name) {
  LS_SPEC("M159");
  static const char *const names[] = {"x", "tower_1/x", "tower_2/x"};
  ls_strategy *strategy = NULL;
  expect_ok(mirrored_with((ls_mirrored_options){.num_replicas = LS_SOME(3),
                                                .scope_prefix = "tower"},
                          &strategy));
  ls_graph *graph = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    LS_OWN(ls_nest, made) =
        strategy_results(strategy, ls_plain(name_op, NULL), ls_none());
    for (size_t r = 0; r < 3; ++r)
      assert_string_equal(ls_op_name(ls_tensor_op(ls_nest_tensor(
                              ls_distributed_component(made, r), 0))),
                          names[r]);
  }
  ls_graph_destroy(graph);
  ls_strategy_release(strategy);
  static const char *const wrong[] = {"", "a/b"};
  for (size_t i = 0; i < 2; ++i)
    expect_status(
        mirrored_with((ls_mirrored_options){.num_replicas = LS_SOME(2),
                                            .scope_prefix = wrong[i]},
                      &strategy),
        LS_INVALID_ARGUMENT, "scope_prefix");
}

static ls_nest count_as_constant(ls_nest args, void *user) {
  (void)args;
  (void)user;
  return ls_leaf(ls_scalar_i64(LS_DTYPE_I32, ls_replica_number()));
}

TEST(a_number_of_a_replica_in_a_trace_is_asked_for) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_function, function) = unnamed_function(count_as_constant, NULL);
  ls_nest made = ls_none();
  const ls_status status =
      ls_strategy_run(strategy, ls_traced(function), ls_none(), &made);
  expect_contains(ls_status_message(status), "value is 0 against 1");
  expect_status(status, LS_UNIMPLEMENTED, "ls_replica_id()");
}
