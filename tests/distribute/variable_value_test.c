// SPDX-License-Identifier: Apache-2.0
//
// The value of a distributed variable on the host: what a read across replicas
// gives, of the store's own variables.
#include "distribute/own.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"

static ls_variable *on_read(ls_strategy *strategy,
                            ls_variable_aggregation aggregation) {
  return variable_in(
      strategy, (variable_kind){.synchronization = LS_SYNCHRONIZATION_ON_READ,
                                .aggregation = aggregation});
}

// Adds 1 on the first replica and 2 on the second.
static ls_nest add_number(ls_nest args, void *user) {
  (void)args;
  const ls_tensor id = ls_convert(ls_replica_id(), LS_DTYPE_F32);
  return ls_leaf(ls_variable_assign_add(user, ls_add_scalar(id, 1)));
}

static void set_both(ls_session *session, ls_variable *variable, double value) {
  LS_OWN(ls_array, array) =
      array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){value});
  expect_ok(session != NULL
                ? ls_session_set_variable_value(session, variable, array)
                : ls_variable_set_value(variable, array));
}

static void expect_host_value(ls_session *session, ls_variable *variable,
                              double wanted) {
  LS_OWN(ls_array, array) = session != NULL ? session_array(session, variable)
                                            : variable_array(variable);
  assert_true(ls_array_f64(array, 0) == wanted);
}

static const struct {
  ls_variable_aggregation aggregation;
  double read;
} cases[] = {{LS_AGGREGATION_SUM, 3},
             {LS_AGGREGATION_MEAN, 1.5},
             {LS_AGGREGATION_ONLY_FIRST_REPLICA, 1}};

TEST(a_value_in_a_session_is_the_one_that_a_read_gives) {
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i) {
    LS_OWN(ls_graph, graph) = graph_named("values");
    LS_OWN(ls_strategy, strategy) = mirrored_of(2);
    LS_OWN(ls_nest, results) = ls_none();
    LS_OWN(ls_nest, added) = ls_none();
    ls_variable *v = NULL;
    ls_op init = {0};
    ls_tensor read = ls_failed_tensor();
    {
      LS_GRAPH_SCOPE(graph);
      v = on_read(strategy, cases[i].aggregation);
      added = run_on(strategy, add_number, ls_none(), v);
      init = ls_global_initializer();
      LS_STRATEGY_SCOPE(strategy);
      read = ls_variable_read(v);
    }
    LS_OWN(ls_session, session) = session_of(graph);
    expect_ok(ls_session_run(session, ls_nest_op(init), NULL, 0, &results));
    expect_ok(ls_session_run(session, added, NULL, 0, &results));
    expect_host_value(session, v, cases[i].read);
    set_both(session, v, 6);
    expect_host_value(session, v, 6);
    expect_ok(ls_session_run(session, ls_leaf(read), NULL, 0, &results));
    assert_true(number_of(results) == 6);
    ls_variable_release(v);
  }
}

TEST(a_value_set_in_eager_is_the_one_that_a_read_gives) {
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i) {
    LS_OWN(ls_strategy, strategy) = mirrored_of(2);
    ls_variable *v = on_read(strategy, cases[i].aggregation);
    LS_OWN(ls_function, function) = function_of(add_number, v);
    LS_OWN(ls_nest, added) =
        strategy_results(strategy, ls_traced(function), ls_none());
    expect_host_value(NULL, v, cases[i].read);
    set_both(NULL, v, 6);
    expect_host_value(NULL, v, 6);
    ls_variable_release(v);
  }
}

// ---- Variables of another store --------------------------------------------
TEST(a_variable_of_another_store_is_refused) {
  LS_OWN(ls_graph, graph) = graph_named("own");
  LS_OWN(ls_graph, other) = graph_named("other");
  LS_OWN(ls_array, value) = array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){1});
  const double zero = 0;
  ls_variable *v = NULL, *w = NULL;
  {
    LS_GRAPH_SCOPE(graph);
    v = variable_of("v", LS_DTYPE_F32, LS_SCALAR, &zero);
  }
  {
    LS_GRAPH_SCOPE(other);
    w = variable_of("w", LS_DTYPE_F32, LS_SCALAR, &zero);
  }
  LS_OWN(ls_variable, eager) = variable_of("e", LS_DTYPE_F32, LS_SCALAR, &zero);
  LS_OWN(ls_session, session) = session_of(graph);
  ls_array *got = NULL;
  expect_status(ls_session_set_variable_value(session, w, value),
                LS_INVALID_ARGUMENT, "'w' is of graph 'other'");
  expect_status(ls_session_set_variable_value(session, eager, value),
                LS_INVALID_ARGUMENT, "'e' is an eager one");
  expect_status(ls_session_variable_value(session, w, &got),
                LS_INVALID_ARGUMENT, "'w' is of graph 'other'");
  expect_status(ls_variable_set_value(v, value), LS_UNIMPLEMENTED,
                "is of graph 'own'");
  expect_ok(ls_session_set_variable_value(session, v, value));
  expect_host_value(session, v, 1);
  ls_variable_release(v);
  ls_variable_release(w);
}
