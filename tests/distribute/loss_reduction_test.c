// SPDX-License-Identifier: Apache-2.0
//
// How losses are reduced over replicas.
#include "distribute/own.h"
#include "lockstep/graph.h"
#include "lockstep/graph_ops.h"
#include "lockstep/losses.h"
#include "lockstep/strategy_extended.h"
#include "support/function.h"
#include "support/replicas.h"

static ls_tensor losses_of(void) {
  return ls_placeholder(LS_DTYPE_F32, LS_SHAPE(4), "losses");
}

TEST(a_loss_is_recorded_on_its_graph) {
  LS_SPEC("V61");
  LS_OWN(ls_graph, other) = graph_named("h");
  LS_OWN(ls_graph, graph) = graph_named("g");
  assert_string_equal(ls_graph_loss_reduction(graph), "");
  {
    LS_GRAPH_SCOPE(graph);
    const ls_tensor losses = losses_of();
    ls_reduce_loss(losses, LS_REDUCTION_SUM);
    assert_string_equal(ls_graph_loss_reduction(graph), "weighted_sum");
    ls_reduce_loss(losses, LS_REDUCTION_NONE);
    assert_string_equal(ls_graph_loss_reduction(graph), "none");
    ls_reduce_loss(losses, LS_REDUCTION_SUM);
    ls_weighted_mean(losses, losses);
    assert_string_equal(ls_graph_loss_reduction(graph), "weighted_mean");
    ls_hinge_loss(losses, losses, LS_REDUCTION_SUM);
    assert_string_equal(ls_graph_loss_reduction(graph), "weighted_sum");
  }
  assert_string_equal(ls_graph_loss_reduction(other), "");
}

// What is asked for with this record, in the scope and outside.
static void expect_reduction(ls_strategy *strategy, const char *record,
                             ls_reduce_op wanted) {
  LS_OWN(ls_graph, graph) = graph_named("g");
  if (record != NULL) expect_ok(ls_graph_record_loss_reduction(graph, record));
  {
    LS_GRAPH_SCOPE(graph);
    {
      LS_STRATEGY_SCOPE(strategy);
      assert_int_equal(ls_loss_reduction(), LS_REDUCE_SUM);
      {
        LS_SCALE_LOSS_SCOPE(strategy);
        if (ls_loss_reduction() != wanted)
          fail_msg("'%s' gives %d", record, (int)ls_loss_reduction());
      }
    }
  }
}

TEST(a_sum_is_no_mean_for_an_estimator) {
  LS_SPEC("V60");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  expect_reduction(strategy, NULL, LS_REDUCE_MEAN);
  expect_reduction(strategy, "weighted_sum", LS_REDUCE_SUM);
  expect_reduction(strategy, "sum", LS_REDUCE_SUM);
  expect_reduction(strategy, "SUM", LS_REDUCE_MEAN);
  expect_reduction(strategy, "weighted_mean", LS_REDUCE_MEAN);
  expect_reduction(strategy, "none", LS_REDUCE_MEAN);
}

static ls_nest note_reduction(ls_nest args, void *user) {
  (void)args;
  ((int *)user)[ls_replica_number()] = (int)ls_loss_reduction();
  return ls_none();
}

TEST(the_switch_is_the_strategys_and_restored) {
  LS_SPEC("V62");
  LS_OWN(ls_strategy, a) = mirrored_of(2);
  LS_OWN(ls_strategy, b) = mirrored_of(2);
  int seen[2] = {-1, -1};
  {
    LS_STRATEGY_SCOPE(a);
    assert_int_equal(ls_loss_reduction(), LS_REDUCE_SUM);
    {
      LS_SCALE_LOSS_SCOPE(a);
      {
        LS_SCALE_LOSS_SCOPE(a);
        assert_int_equal(ls_loss_reduction(), LS_REDUCE_MEAN);
      }
      // As before, not off.
      assert_int_equal(ls_loss_reduction(), LS_REDUCE_MEAN);
      {
        LS_SCALE_LOSS_SCOPE(b);
        assert_int_equal(ls_loss_reduction(), LS_REDUCE_MEAN);
      }
      ls_nest_release(run_on(a, note_reduction, ls_none(), seen));
      assert_int_equal(seen[0], LS_REDUCE_MEAN);
      assert_int_equal(seen[1], LS_REDUCE_MEAN);
    }
    assert_int_equal(ls_loss_reduction(), LS_REDUCE_SUM);
  }
  // That of another strategy is its own.
  {
    LS_SCALE_LOSS_SCOPE(a);
    assert_int_equal(ls_loss_reduction(), LS_REDUCE_SUM);
    {
      LS_STRATEGY_SCOPE(b);
      assert_int_equal(ls_loss_reduction(), LS_REDUCE_SUM);
    }
    {
      LS_STRATEGY_SCOPE(a);
      assert_int_equal(ls_loss_reduction(), LS_REDUCE_MEAN);
    }
  }
}
