// SPDX-License-Identifier: Apache-2.0
//
// Which context a thread is in, and which scopes may be entered there.
#include "lockstep/replica.h"

#include <pthread.h>

#include "distribute/own.h"
#include "lockstep/graph.h"
#include "lockstep/graph_ops.h"
#include "lockstep/variable_parts.h"
#include "support/contexts.h"
#include "support/function.h"
#include "support/replicas.h"

TEST(a_thread_starts_in_the_default_context) {
  LS_SPEC("V151");
  expect_default();
  ls_replica *replica = ls_replica_context();
  assert_int_equal(ls_replica_num_replicas(replica), 1);
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    expect_default();
    assert_int_equal(ls_replica_number(), 0);
    assert_int_equal(ls_graph_num_ops(graph), 0);
  }
}

typedef struct seen {
  ls_strategy *strategy;
  int replicas, merges;
} seen;

static ls_nest look_merged(ls_strategy *strategy, ls_nest args, void *user) {
  seen *s = user;
  assert_ptr_equal(strategy, s->strategy);
  expect_cross(strategy);
  assert_true(ls_nest_number(ls_nest_item(args, 0)) == 5);
  ++s->merges;
  // From here it may go into replicas again.
  return ls_none();
}

static ls_nest look_around(ls_nest args, void *user) {
  seen *s = user;
  (void)args;
  assert_ptr_equal(ls_strategy_current(), s->strategy);
  assert_true(ls_has_strategy());
  assert_false(ls_in_cross_replica_context());
  expect_one_context();
  ls_replica *replica = ls_replica_context();
  assert_ptr_equal(ls_replica_strategy(replica), s->strategy);
  assert_int_equal(ls_replica_number(), s->replicas++);
  LS_OWN(ls_nest, given) = LS_TUPLE(ls_nest_f64(5));
  const ls_nest merged =
      ls_replica_merge_call(replica, look_merged, given, user);
  assert_ptr_equal(ls_replica_context(), replica);
  return merged;
}

TEST(contexts_follow_scope_run_and_merge) {
  LS_SPEC("V152 V153 M29");
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  seen s = {.strategy = strategy};
  expect_default();
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_cross(strategy);
    ls_nest_release(run_on(strategy, look_around, ls_none(), &s));
    expect_cross(strategy);
  }
  expect_default();
  assert_int_equal(s.replicas, 3);
  assert_int_equal(s.merges, 1);
}

static ls_nest run_inside(ls_strategy *strategy, ls_nest args, void *user) {
  (void)args;
  seen *s = user;
  s->replicas = 0;
  const ls_nest made = run_on(strategy, look_around, ls_none(), s);
  expect_cross(strategy);
  return made;
}

static ls_nest merge_to_run(ls_nest args, void *user) {
  (void)args;
  return ls_replica_merge_call(ls_replica_context(), run_inside, ls_none(),
                               user);
}

TEST(a_merge_function_may_run_replicas) {
  LS_SPEC("V167 M29");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  seen s = {.strategy = strategy};
  ls_nest_release(run_on(strategy, merge_to_run, ls_none(), &s));
  assert_int_equal(s.replicas, 2);
  assert_int_equal(s.merges, 1);
}

static void *look_in_thread(void *strategy) {
  expect_default();
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_cross(strategy);
  }
  return NULL;
}

static ls_nest look_in_trace(ls_nest args, void *user) {
  (void)args;
  expect_cross(user);
  return ls_none();
}

TEST(the_state_belongs_to_graph_and_thread) {
  LS_SPEC("V154");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_OWN(ls_function, function) = unnamed_function(look_in_trace, strategy);
  {
    LS_STRATEGY_SCOPE(strategy);
    {
      LS_GRAPH_SCOPE(graph);
      expect_default();
    }
    expect_cross(strategy);
    pthread_t thread;
    pthread_create(&thread, NULL, look_in_thread, strategy);
    pthread_join(thread, NULL);
    LS_OWN(ls_nest, results) = call_results(function, ls_none());
  }
  // And the other way round.
  {
    LS_GRAPH_SCOPE(graph);
    {
      LS_STRATEGY_SCOPE(strategy);
      {
        LS_NAME_SCOPE("a");
        expect_cross(strategy);
      }
    }
    expect_default();
  }
}

static void *default_of(void *user) {
  expect_ok(ls_strategy_default(user));
  return NULL;
}

TEST(there_is_one_default_strategy) {
  LS_SPEC("V155");
  ls_strategy *seen_by[4] = {0}, *mine = NULL;
  pthread_t threads[4];
  for (size_t i = 0; i < 4; ++i)
    pthread_create(&threads[i], NULL, default_of, &seen_by[i]);
  for (size_t i = 0; i < 4; ++i)
    pthread_join(threads[i], NULL);
  expect_ok(ls_strategy_default(&mine));
  for (size_t i = 0; i < 4; ++i)
    assert_ptr_equal(seen_by[i], mine);
}

TEST(a_strategys_scope_nests_in_itself) {
  LS_SPEC("V159 M30");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  ls_scope outer = {0}, inner = {0};
  for (int again = 0; again < 2; ++again) {
    ls_strategy_scope_begin(&outer, strategy);
    ls_strategy_scope_begin(&inner, strategy);
    expect_ok(ls_scope_status());
    expect_cross(strategy);
    expect_ok(ls_strategy_scope_end(&inner));
    expect_cross(strategy);
    expect_ok(ls_strategy_scope_end(&outer));
    expect_default();
  }
}

typedef struct two {
  ls_strategy *a, *b;
} two;

static void expect_mixing(ls_strategy *entered) {
  {
    LS_STRATEGY_SCOPE(entered);
    expect_status(ls_scope_status(), LS_FAILED_PRECONDITION,
                  "inside mirrored strategy");
    // Every call in a refused scope says so.
    ls_variable *v = NULL;
    expect_status(
        ls_variable_create(&(ls_variable_options){.dtype = LS_DTYPE_F32}, &v),
        LS_FAILED_PRECONDITION, "cannot be mixed");
    ls_nest made = ls_none();
    expect_status(
        ls_strategy_reduce(entered, LS_REDUCE_MEAN, ls_nest_f64(1), &made),
        LS_FAILED_PRECONDITION, "cannot be mixed");
    expect_status(ls_tensor_status(scalar_of(1)), LS_FAILED_PRECONDITION,
                  "cannot be mixed");
  }
  expect_ok(ls_scope_status());
}

static ls_nest enter_others(ls_nest args, void *user) {
  const two *both = user;
  (void)args;
  expect_mixing(both->b);
  {
    LS_STRATEGY_SCOPE(both->a);
    expect_status(ls_scope_status(), LS_FAILED_PRECONDITION, "merge_call");
  }
  ls_strategy *usual = NULL;
  expect_ok(ls_strategy_default(&usual));
  {
    LS_STRATEGY_SCOPE(usual);
    expect_status(ls_scope_status(), LS_FAILED_PRECONDITION, "must not nest");
  }
  return ls_none();
}

static ls_nest enter_again(ls_strategy *strategy, ls_nest args, void *user) {
  (void)args;
  (void)user;
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_cross(strategy);
  }
  expect_cross(strategy);
  return ls_none();
}

static ls_nest merge_to_enter(ls_nest args, void *user) {
  (void)args;
  return ls_replica_merge_call(ls_replica_context(), enter_again, ls_none(),
                               user);
}

TEST(scopes_of_two_strategies_do_not_mix) {
  LS_SPEC("V160 V161 M30");
  two both = {mirrored_of(2), mirrored_of(2)};
  {
    LS_STRATEGY_SCOPE(both.a);
    expect_mixing(both.b);
    expect_cross(both.a);
  }
  ls_nest_release(run_on(both.a, enter_others, ls_none(), &both));
  ls_nest_release(run_on(both.a, merge_to_enter, ls_none(), &both));
  expect_default();
  ls_strategy_release(both.a);
  ls_strategy_release(both.b);
}

TEST(the_default_strategys_scope_changes_nothing) {
  LS_SPEC("V162");
  ls_strategy *usual = NULL;
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  ls_variable *v = NULL;
  expect_ok(ls_strategy_default(&usual));
  {
    LS_STRATEGY_SCOPE(strategy);
    {
      LS_STRATEGY_SCOPE(usual);
      expect_status(ls_scope_status(), LS_FAILED_PRECONDITION, "must not nest");
    }
  }
  {
    LS_STRATEGY_SCOPE(usual);
    {
      LS_STRATEGY_SCOPE(usual);
      expect_ok(ls_scope_status());
      assert_false(ls_has_strategy());
      expect_ok(ls_variable_create(
          &(ls_variable_options){.dtype = LS_DTYPE_F32}, &v));
      assert_int_equal(ls_variable_num_components(v), 0);
      ls_variable_release(v);
    }
    {
      LS_STRATEGY_SCOPE(strategy);
      expect_cross(strategy);
      expect_status(
          ls_variable_create(&(ls_variable_options){.dtype = LS_DTYPE_F32}, &v),
          LS_FAILED_PRECONDITION, "the default strategy");
      assert_null(v);
    }
  }
}

TEST(a_strategy_can_be_set_without_a_scope) {
  LS_SPEC("V164");
  LS_OWN(ls_strategy, a) = mirrored_of(2);
  LS_OWN(ls_strategy, b) = mirrored_of(3);
  expect_ok(ls_strategy_set_current(a));
  expect_cross(a);
  expect_ok(ls_strategy_set_current(b));
  expect_cross(b);
  ls_variable *v = NULL;
  expect_ok(
      ls_variable_create(&(ls_variable_options){.dtype = LS_DTYPE_F32}, &v));
  assert_int_equal(ls_variable_num_components(v), 3);
  ls_variable_release(v);
  expect_ok(ls_strategy_set_current(NULL));
  expect_default();
  {
    LS_STRATEGY_SCOPE(a);
    expect_status(ls_strategy_set_current(b), LS_FAILED_PRECONDITION,
                  "cannot be put in force");
    expect_status(ls_strategy_set_current(NULL), LS_FAILED_PRECONDITION,
                  "cannot be put in force");
    expect_cross(a);
  }
}
