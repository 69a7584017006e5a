// SPDX-License-Identifier: Apache-2.0
//
// Where a replica may make a merge call: in its callback itself.
#include <stdio.h>

#include "distribute/own.h"
#include "lockstep/function.h"
#include "lockstep/function_plan.h"
#include "lockstep/graph.h"
#include "support/callbacks.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"

// The merge call, in a callback of a function, loop or branch; `user` is the
// replica.
static ls_nest merge_inside(ls_nest args, void *user) {
  const ls_nest merged =
      ls_replica_merge_call(user, merge_none, ls_none(), NULL);
  if (ls_nest_is_failed(merged)) return merged;
  return ls_nest_retain(args);
}

static ls_nest is_small(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_less(ls_nest_tensor(args, 0), ls_scalar(LS_DTYPE_F32, 3)));
}

static ls_nest in_a_function(ls_nest args, void *user) {
  (void)args;
  (void)user;
  ls_nest made = ls_none();
  LS_OWN(ls_function, function) =
      unnamed_function(merge_inside, ls_replica_context());
  const ls_status status = ls_function_call(function, ls_none(), &made);
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
  return ls_while(merge_inside, give_args, ls_replica_context(),
                  LS_TUPLE(ls_leaf(ls_scalar(LS_DTYPE_BOOL, 1))), 2);
}

static ls_nest in_a_branch(ls_nest args, void *user) {
  (void)args;
  (void)user;
  const ls_tensor yes = ls_scalar(LS_DTYPE_BOOL, 1);
  return ls_cond(yes, merge_inside, give_args, ls_replica_context());
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

TEST(no_merge_call_but_in_the_replica_itself) {
  LS_SPEC("V177");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  expect_refused(strategy, in_a_function);
  static const ls_callback all[] = {in_a_body, in_a_condition, in_a_branch};
  for (size_t i = 0; i < sizeof(all) / sizeof(*all); ++i) {
    LS_OWN(ls_graph, graph) = graph_named("g");
    {
      LS_GRAPH_SCOPE(graph);
      expect_refused(strategy, all[i]);
      ls_status_free(ls_graph_take_error(graph));
    }
  }
  // Eager loops and branches are plain C: no other graph.
  ls_nest_release(run_on(strategy, in_a_branch, ls_none(), NULL));
}

// ---- Collectives -----------------------------------------------------------
static ls_nest reduce_inside(ls_nest args, void *user) {
  (void)user;
  const ls_nest sum = ls_replica_all_reduce(ls_replica_context(), LS_REDUCE_SUM,
                                            ls_nest_item(args, 0));
  return ls_nest_is_failed(sum) ? sum : LS_TUPLE(sum);
}

static ls_nest gather_inside(ls_nest args, void *user) {
  (void)user;
  const ls_tensor all =
      ls_all_gather(ls_reshape(ls_nest_tensor(args, 0), LS_SHAPE(1)), 0);
  return LS_TUPLE(ls_leaf(ls_reshape(ls_slice_axis(all, 0, 0, 1), LS_SCALAR)));
}

static ls_nest one_tensor(void) {
  return LS_TUPLE(ls_leaf(ls_scalar(LS_DTYPE_F32, 1)));
}

static ls_nest gather_one(ls_nest args, void *user) {
  (void)args;
  LS_OWN(ls_nest, given) = one_tensor();
  return gather_inside(given, user);
}

static ls_nest give_one(ls_nest args, void *user) {
  (void)args, (void)user;
  return one_tensor();
}

static ls_nest reduce_in_a_body(ls_nest args, void *user) {
  (void)args, (void)user;
  return ls_while(is_small, reduce_inside, NULL, one_tensor(), 2);
}

static ls_nest gather_in_a_branch(ls_nest args, void *user) {
  (void)args, (void)user;
  const ls_tensor yes = ls_scalar(LS_DTYPE_BOOL, 1);
  return ls_cond(yes, gather_one, give_one, NULL);
}

static ls_nest reduce_in_a_function(ls_nest args, void *user) {
  (void)args, (void)user;
  ls_nest made = ls_none();
  LS_OWN(ls_nest, given) = one_tensor();
  LS_OWN(ls_function, function) = unnamed_function(reduce_inside, NULL);
  const ls_status status = ls_function_call(function, given, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

static void expect_traced(ls_strategy *strategy, ls_callback callback,
                          const char *noun) {
  LS_OWN(ls_function, function) = unnamed_function(callback, NULL);
  ls_nest made = ls_none();
  const ls_status status =
      ls_strategy_run(strategy, ls_plain(callback, NULL), ls_none(), &made);
  expect_contains(ls_status_message(status), noun);
  expect_status(status, LS_FAILED_PRECONDITION, "run a traced function");
  ls_status_free(ls_graph_take_error(ls_graph_current()));
  LS_OWN(ls_nest, traced) =
      strategy_results(strategy, ls_traced(function), ls_none());
}

TEST(collectives_of_plain_callbacks_are_in_the_replica_itself) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  expect_traced(strategy, reduce_in_a_function, "all_reduce inside");
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_GRAPH_SCOPE(graph);
  expect_traced(strategy, reduce_in_a_body, "all_reduce inside");
  expect_traced(strategy, gather_in_a_branch, "all_gather inside");
}

// ---- Writes ----------------------------------------------------------------
static ls_nest write_inside(ls_nest args, void *user) {
  (void)args;
  return ls_leaf(ls_variable_assign_add(user, ls_scalar(LS_DTYPE_F32, 1)));
}

static ls_nest write_in_a_function(ls_nest args, void *user) {
  LS_OWN(ls_nest, made) = ls_none();
  const ls_status status = ls_function_call(user, args, &made);
  return ls_status_is_ok(status) ? ls_none() : ls_fail(status);
}

static ls_nest scatter_inside(ls_nest args, void *user) {
  (void)args;
  return ls_leaf(ls_variable_scatter(user, LS_SCATTER_ADD,
                                     ls_fill(LS_DTYPE_I32, LS_SHAPE(1), 0),
                                     ls_fill(LS_DTYPE_F32, LS_SHAPE(1), 1)));
}

static ls_variable *rows_in(ls_strategy *strategy,
                            ls_variable_aggregation aggregation) {
  ls_variable *made = NULL;
  LS_OWN(ls_array, zeros) = array_of(LS_DTYPE_F32, LS_SHAPE(1), (double[]){0});
  LS_STRATEGY_SCOPE(strategy);
  expect_ok(
      ls_variable_create(&(ls_variable_options){.initial_array = zeros,
                                                .aggregation = aggregation},
                         &made));
  return made;
}

// Expects that each replica adds 1 to its `own` component, or that nothing is
// written.
static void expect_added(ls_strategy *strategy, ls_callback inside,
                         ls_variable *v, bool own) {
  LS_OWN(ls_function, function) = unnamed_function(inside, v);
  LS_OWN(ls_nest, made) = ls_none();
  for (int run = 1; run <= 2; ++run) {
    expect_status(ls_strategy_run(strategy,
                                  ls_plain(write_in_a_function, function),
                                  ls_none(), &made),
                  own ? LS_OK : LS_FAILED_PRECONDITION,
                  own ? "" : "inside a nested function");
    const double each = own ? run : 0;
    expect_components(v, (double[]){each, each}, 2);
  }
}

TEST(a_nested_function_writes_the_component_of_the_replica_that_calls_it) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  for (int i = LS_AGGREGATION_NONE; i <= LS_AGGREGATION_ONLY_FIRST_REPLICA;
       ++i) {
    const ls_variable_aggregation aggregation = (ls_variable_aggregation)i;
    LS_OWN(ls_variable, v) =
        variable_in(strategy, (variable_kind){.aggregation = aggregation});
    LS_OWN(ls_variable, rows) = rows_in(strategy, aggregation);
    expect_added(strategy, write_inside, v, i == LS_AGGREGATION_NONE);
    expect_added(strategy, scatter_inside, rows, i == LS_AGGREGATION_NONE);
  }
}

// ---- Control dependencies ---------------------------------------------------
typedef struct waiting {
  int who;  // The replica that has one open; -1: all.
  ls_variable *log;
} waiting;

static ls_nest read_log(ls_strategy *strategy, ls_nest args, void *user) {
  (void)strategy;
  (void)args;
  const waiting *w = user;
  return ls_leaf(ls_variable_read(ls_variable_component(w->log, 0)));
}

// Each replica counts, and the merge waits for the one whose write is open.
static ls_nest merge_behind(ls_nest args, void *user) {
  waiting *w = user;
  (void)args;
  ls_replica *replica = ls_replica_context();
  const ls_op write =
      ls_tensor_op(ls_variable_assign_add(w->log, ls_scalar(LS_DTYPE_F32, 1)));
  if (w->who >= 0 && w->who != ls_replica_number())
    return ls_replica_merge_call(replica, read_log, ls_none(), w);
  LS_CONTROL_SCOPE(&write, 1);
  return ls_replica_merge_call(replica, read_log, ls_none(), w);
}

TEST(a_merge_waits_for_what_any_replica_has_open) {
  LS_SPEC("V171 V178");
  for (int replicas = 1; replicas <= 3; ++replicas)
    for (int who = -1; who < replicas; ++who) {
      LS_OWN(ls_strategy, strategy) = mirrored_of(replicas);
      waiting w = {.who = who,
                   .log =
                       variable_in(strategy, (variable_kind){.name = "log"})};
      LS_OWN(ls_nest, results) = ls_none();
      LS_OWN(ls_function, f) = unnamed_function(merge_behind, &w);
      for (int run = 0; run < 2; ++run)
        expect_ok(ls_strategy_run(strategy, ls_traced(f), ls_none(), &results));
      LS_OWN(printed, text) = graph_text(ls_function_graph(f));
      if (replicas > 1) expect_contains(text, "merge_call() ^%");
      ls_variable_release(w.log);
    }
}

// ---------------------------------------------------------------
typedef struct told {
  ls_replica *kept;
  int later;
  char text[2][300];
} told;

// In the second run replica 1 asks with a context that is not its own.
static ls_nest keep_or_use(ls_nest args, void *user) {
  told *t = user;
  const int id = ls_replica_number();
  (void)args;
  if (!t->later) {
    if (id == 0) t->kept = ls_replica_context();
    return ls_none();
  }
  const ls_nest made = ls_replica_merge_call(
      id == 1 ? t->kept : ls_replica_context(), merge_none, ls_none(), NULL);
  LS_OWN(ls_status, status) = ls_nest_status(made);
  snprintf(t->text[id], sizeof(t->text[id]), "%s",
           ls_status_is_ok(status) ? "" : ls_status_message(status));
  return made;
}

TEST(every_replica_is_told_the_cause) {
  LS_SPEC("V169");
  for (int in_graph = 0; in_graph < 2; ++in_graph)
    for (int traced = 0; traced < 2; ++traced) {
      LS_OWN(ls_strategy, strategy) = mirrored_of(2);
      LS_OWN(ls_graph, graph) = graph_named("g");
      told t = {0};
      for (; t.later < 2; ++t.later) {
        LS_OWN(ls_nest, results) = ls_none();
        ls_scope scope = {0};
        if (in_graph) ls_graph_begin(&scope, graph);
        LS_OWN(ls_function, f) = unnamed_function(keep_or_use, &t);
        expect_status(
            ls_strategy_run(strategy,
                            traced ? ls_traced(f) : ls_plain(keep_or_use, &t),
                            ls_none(), &results),
            t.later ? LS_FAILED_PRECONDITION : LS_OK,
            t.later ? "merge_call" : "");
        ls_scope_end(&scope);
      }
      for (int r = 0; r < 2; ++r)
        expect_contains(t.text[r], "replica context");
    }
}
