// SPDX-License-Identifier: Apache-2.0
//
// What models train by, wherever they are.
#include "distribute/own.h"
#include "lockstep/estimator_functions.h"
#include "lockstep/graph_ops.h"
#include "lockstep/session.h"
#include "support/fault.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"

typedef struct job {
  ls_variable *w;
  ls_optimizer *optimizer;
  ls_nest made;
} job;

static ls_nest step(ls_nest args, void *user) {
  const job *j = user;
  (void)args;
  const ls_tensor w = ls_variable_read(j->w);
  return ls_nest_op(ls_train_op(j->optimizer, ls_mul(w, w)));
}

static void make(job *j) {
  static const double one = 1;
  j->w = variable_of("w", LS_DTYPE_F32, LS_SCALAR, &one);
  expect_ok(
      ls_sgd_create(&(ls_sgd_options){.learning_rate = 0.25}, &j->optimizer));
}

// Alone and in replicas that share a graph.
TEST(a_train_op_moves_variables_and_the_global_step) {
  for (int replicas = 1; replicas <= 3; ++replicas) {
    job j = {0};
    LS_OWN(ls_strategy, strategy) = mirrored_of(replicas);
    LS_OWN(ls_graph, graph) = graph_named("g");
    ls_variable *global_step = NULL;
    ls_nest init = ls_none();
    {
      LS_GRAPH_SCOPE(graph);
      LS_STRATEGY_SCOPE(strategy);
      expect_ok(ls_global_step_create(graph, &global_step));
      make(&j);
      expect_ok(
          ls_strategy_run(strategy, ls_plain(step, &j), ls_none(), &j.made));
      init = ls_nest_op(ls_global_initializer());
    }
    LS_OWN(ls_session, session) = session_of(graph);
    LS_OWN(ls_nest, results) = session_results(session, init);
    ls_nest fetches[3];
    for (int r = 0; r < replicas; ++r)
      expect_ok(ls_strategy_replica_result(strategy, j.made, r, &fetches[r]));
    LS_OWN(ls_nest, all) =
        ls_nest_sequence(LS_KIND_LIST, fetches, (size_t)replicas);
    for (int i = 1; i < 4; ++i) {
      expect_ok(ls_session_run(session, all, NULL, 0, &results));
      assert_true(session_number(session, global_step) == i);
    }
    assert_true(session_number(session, j.w) == 0.125);
    ls_nest_release(j.made);
    ls_variable_release(j.w);
    ls_optimizer_release(j.optimizer);
  }
}

TEST(a_train_op_needs_a_global_step) {
  job j = {0};
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    make(&j);
    const size_t before = ls_graph_num_ops(graph);
    const ls_tensor w = ls_variable_read(j.w);
    const ls_op op = ls_train_op(j.optimizer, ls_mul(w, w));
    assert_true(ls_op_is_failed(op));
    expect_status(ls_graph_take_error(graph), LS_FAILED_PRECONDITION,
                  "Global step should be created");
    assert_int_equal(ls_graph_num_ops(graph), before + 2);  // As it was.
    assert_true(ls_op_is_failed(ls_train_op(NULL, w)));
    expect_status(ls_graph_take_error(graph), LS_INVALID_ARGUMENT,
                  "needs an optimizer");
  }
  ls_variable_release(j.w);
  ls_optimizer_release(j.optimizer);
}

// Without memory: what is told is that, on whichever replica it is, and not
// that this one meets the others at another place.
MEMORY_TEST(make_a_train_op_in_replicas) {
  LS_OWN(ls_graph, graph) = NULL;
  LS_RETURN_IF_ERROR(ls_graph_create("g", &graph));
  ls_status status = ls_ok();
  {
    job j = {0};
    LS_OWN(ls_strategy, strategy) = NULL;
    ls_variable *global_step = NULL;
    LS_GRAPH_SCOPE(graph);
    status = ls_mirrored_strategy_create(
        &(ls_mirrored_options){.num_replicas = LS_SOME(2)}, &strategy);
    if (ls_status_is_ok(status)) {
      LS_STRATEGY_SCOPE(strategy);
      status = ls_global_step_create(graph, &global_step);
      if (ls_status_is_ok(status))
        status = ls_variable_create(
            &(ls_variable_options){.name = "w",
                                   .initial_value = ls_scalar(LS_DTYPE_F32, 1)},
            &j.w);
      if (ls_status_is_ok(status))
        status = ls_sgd_create(&(ls_sgd_options){.learning_rate = 0.25},
                               &j.optimizer);
      if (ls_status_is_ok(status))
        status =
            ls_strategy_run(strategy, ls_plain(step, &j), ls_none(), &j.made);
    }
    if (ls_status_is_ok(status)) status = ls_graph_error(graph);
    ls_nest_release(j.made);
    ls_variable_release(j.w);
    ls_optimizer_release(j.optimizer);
  }
  return status;
}
