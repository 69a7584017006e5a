// SPDX-License-Identifier: Apache-2.0
#include "lockstep/replica.h"

#include <pthread.h>
#include <string.h>

#include "lockstep/graph.h"
#include "support/replicas.h"

// Exactly one of the two is there, always.
static void expect_one_context(void) {
  assert_int_equal(ls_replica_context() == NULL, ls_in_cross_replica_context());
}

static void expect_default(void) {
  ls_strategy *usual = NULL;
  expect_ok(ls_strategy_default(&usual));
  assert_ptr_equal(ls_strategy_current(), usual);
  assert_false(ls_has_strategy());
  assert_false(ls_in_cross_replica_context());
  assert_non_null(ls_replica_context());
  expect_one_context();
}

static void expect_cross(ls_strategy *strategy) {
  assert_ptr_equal(ls_strategy_current(), strategy);
  assert_true(ls_has_strategy());
  assert_true(ls_in_cross_replica_context());
  expect_one_context();
}

static void a_thread_starts_in_the_default_context(void **state) {
  (void)state;
  LS_SPEC("V151");
  expect_default();
  ls_replica *replica = ls_replica_context();
  assert_int_equal(ls_replica_num_replicas(replica), 1);
  ls_graph *graph = NULL;
  expect_ok(ls_graph_create("g", &graph));
  {
    LS_GRAPH_SCOPE(graph);
    expect_default();
    assert_int_equal(ls_replica_number(), 0);
    assert_int_equal(ls_graph_num_ops(graph), 0);
  }
  ls_graph_destroy(graph);
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
  const ls_nest given = LS_TUPLE(ls_nest_f64(5));
  const ls_nest merged =
      ls_replica_merge_call(replica, look_merged, given, user);
  ls_nest_release(given);
  assert_ptr_equal(ls_replica_context(), replica);
  return merged;
}

static void contexts_follow_scope_run_and_merge(void **state) {
  (void)state;
  LS_SPEC("V152 V153 M29");
  ls_strategy *strategy = mirrored_of(3);
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
  ls_strategy_release(strategy);
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

static void a_merge_function_may_run_replicas(void **state) {
  (void)state;
  LS_SPEC("V167 M29");
  ls_strategy *strategy = mirrored_of(2);
  seen s = {.strategy = strategy};
  ls_nest_release(run_on(strategy, merge_to_run, ls_none(), &s));
  assert_int_equal(s.replicas, 2);
  assert_int_equal(s.merges, 1);
  ls_strategy_release(strategy);
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

static void the_state_belongs_to_graph_and_thread(void **state) {
  (void)state;
  LS_SPEC("V154");
  ls_strategy *strategy = mirrored_of(2);
  ls_graph *graph = NULL;
  ls_function *function = NULL;
  expect_ok(ls_graph_create("g", &graph));
  expect_ok(ls_function_create(
      &(ls_function_options){.call = look_in_trace, .user = strategy},
      &function));
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
    ls_nest results = ls_none();
    expect_ok(ls_function_call(function, ls_none(), &results));
    ls_nest_release(results);
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
  ls_function_release(function);
  ls_graph_destroy(graph);
  ls_strategy_release(strategy);
}

static void *default_of(void *user) {
  expect_ok(ls_strategy_default(user));
  return NULL;
}

static void there_is_one_default_strategy(void **state) {
  (void)state;
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

static void a_strategys_scope_nests_in_itself(void **state) {
  (void)state;
  LS_SPEC("V159 M30");
  ls_strategy *strategy = mirrored_of(2);
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
  ls_strategy_release(strategy);
}

typedef struct two {
  ls_strategy *a, *b;
} two;

static void expect_mixing(ls_strategy *entered) {
  {
    LS_STRATEGY_SCOPE(entered);
    expect_status(ls_scope_status(), LS_FAILED_PRECONDITION,
                  "inside of mirrored strategy");
    // Every call in a refused scope says so.
    ls_variable *v = NULL;
    expect_status(
        ls_variable_create(&(ls_variable_options){.dtype = LS_DTYPE_F32}, &v),
        LS_FAILED_PRECONDITION, "cannot be mixed");
    ls_nest made = ls_none();
    expect_status(
        ls_strategy_reduce(entered, LS_REDUCE_MEAN, ls_nest_f64(1), &made),
        LS_FAILED_PRECONDITION, "cannot be mixed");
    assert_true(ls_tensor_is_failed(scalar_of(1)));
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

static void scopes_of_two_strategies_do_not_mix(void **state) {
  (void)state;
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

static void the_default_strategys_scope_changes_nothing(void **state) {
  (void)state;
  LS_SPEC("V162");
  ls_strategy *usual = NULL, *strategy = mirrored_of(2);
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
  ls_strategy_release(strategy);
}

static void a_strategy_can_be_set_without_a_scope(void **state) {
  (void)state;
  LS_SPEC("V164");
  ls_strategy *a = mirrored_of(2), *b = mirrored_of(3);
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
  ls_strategy_release(a);
  ls_strategy_release(b);
}

// ---- Replica contexts ------------------------------------------------------
typedef struct contexts {
  ls_replica *replica[2];
  ls_strategy *other;
  int count;
} contexts;

static ls_nest use_anothers_context(ls_nest args, void *user) {
  contexts *c = user;
  (void)args;
  const char *device = NULL;
  ls_replica *mine = ls_replica_context();
  expect_ok(ls_replica_device(mine, &device));
  const char *wanted = c->count == 0
                           ? "/job:localhost/replica:0/task:0/device:CPU:0"
                           : "/job:localhost/replica:0/task:0/device:CPU:1";
  assert_string_equal(device, wanted);
  ls_tensor id;
  expect_ok(ls_replica_id_in_sync_group(mine, &id));
  assert_int_equal(ls_tensor_dtype(id), LS_DTYPE_I32);
  assert_true(number_of(ls_leaf(id)) == c->count);
  bool single = true;
  expect_ok(ls_replica_is_single(mine, &single));
  assert_false(single);
  c->replica[c->count++] = mine;
  if (c->count == 2) {
    expect_status(ls_replica_device(c->replica[0], &device),
                  LS_FAILED_PRECONDITION, "mismatching replica context");
    const ls_nest merged =
        ls_replica_merge_call(c->replica[0], NULL, ls_none(), NULL);
    expect_status(ls_nest_status(merged), LS_FAILED_PRECONDITION,
                  "mismatching replica context");
    ls_nest_release(merged);
  }
  return ls_none();
}

static ls_nest use_foreign_context(ls_nest args, void *user) {
  (void)args;
  const char *device = NULL;
  expect_status(ls_replica_device(user, &device), LS_FAILED_PRECONDITION,
                "cannot be mixed");
  return ls_none();
}

static void a_replica_context_is_for_its_replica(void **state) {
  (void)state;
  LS_SPEC("V172 M32 M33");
  ls_strategy *strategy = mirrored_of(2);
  contexts c = {0};
  ls_nest_release(run_on(strategy, use_anothers_context, ls_none(), &c));
  assert_int_equal(c.count, 2);
  const char *device = NULL;
  expect_status(ls_replica_device(NULL, &device), LS_FAILED_PRECONDITION,
                "call_for_each_replica");
  ls_strategy_release(strategy);
}

static ls_nest keep_context(ls_nest args, void *user) {
  contexts *c = user;
  (void)args;
  c->replica[ls_replica_number()] = ls_replica_context();
  return ls_leaf(ls_scalar(LS_DTYPE_F32, 1));
}

static ls_nest use_context_of_an_ended_run(ls_nest args, void *user) {
  contexts *c = user;
  const char *device = NULL;
  expect_status(ls_replica_device(c->replica[0], &device),
                LS_FAILED_PRECONDITION, "has ended");
  return ls_nest_retain(ls_nest_item(args, 0));
}

static void expect_ended(const contexts *c, int replicas) {
  for (int r = 0; r < replicas; ++r) {
    const char *device = NULL;
    bool single = false;
    ls_tensor id;
    expect_status(ls_replica_device(c->replica[r], &device),
                  LS_FAILED_PRECONDITION, "has ended");
    expect_status(ls_replica_is_single(c->replica[r], &single),
                  LS_FAILED_PRECONDITION, "has ended");
    expect_status(ls_replica_id_in_sync_group(c->replica[r], &id),
                  LS_FAILED_PRECONDITION, "has ended");
    expect_status(ls_replica_set_examples(c->replica[r], scalar_of(1)),
                  LS_FAILED_PRECONDITION, "has ended");
    const ls_nest merged =
        ls_replica_merge_call(c->replica[r], NULL, ls_none(), NULL);
    expect_status(ls_nest_status(merged), LS_FAILED_PRECONDITION, "has ended");
    ls_nest_release(merged);
    // What it is can be asked for as long as there is the strategy.
    assert_int_equal(ls_replica_num_replicas(c->replica[r]), replicas);
    assert_true(ls_strategy_num_replicas(ls_replica_strategy(c->replica[r])) ==
                replicas);
  }
}

static void a_replica_context_ends_with_its_run(void **state) {
  (void)state;
  LS_SPEC("V172");
  for (int replicas = 1; replicas <= 2; ++replicas) {
    contexts c = {0};
    ls_strategy *strategy = mirrored_of(replicas);
    ls_strategy *other = mirrored_of(replicas);
    ls_nest_release(run_on(strategy, keep_context, ls_none(), &c));
    expect_ended(&c, replicas);
    const ls_nest args = LS_LIST(ls_nest_f64(1));
    ls_nest_release(run_on(other, use_context_of_an_ended_run, args, &c));
    ls_nest_release(args);
    // In a trace, and in a graph that is being built.
    ls_function *function = NULL;
    ls_nest made = ls_none();
    expect_ok(ls_function_create(
        &(ls_function_options){.call = keep_context, .user = &c}, &function));
    expect_ok(ls_strategy_run(strategy, ls_traced(function), ls_none(), &made));
    expect_ended(&c, replicas);
    ls_nest_release(made);
    ls_function_release(function);
    ls_graph *graph = NULL;
    expect_ok(ls_graph_create("g", &graph));
    {
      LS_GRAPH_SCOPE(graph);
      ls_nest_release(run_on(strategy, keep_context, ls_none(), &c));
      expect_status(ls_scope_status(), LS_OK, "");
    }
    expect_ended(&c, replicas);
    ls_graph_destroy(graph);
    ls_strategy_release(other);
    ls_strategy_release(strategy);
  }
}

typedef struct merging {
  ls_replica *replica;
  ls_strategy *other;
} merging;

static ls_nest look_from_merge(ls_strategy *strategy, ls_nest args,
                               void *user) {
  merging *m = user;
  (void)args;
  const char *device = NULL;
  expect_status(ls_replica_device(m->replica, &device), LS_FAILED_PRECONDITION,
                "call_for_each_replica");
  // These can be asked anywhere.
  assert_ptr_equal(ls_replica_strategy(m->replica), strategy);
  assert_int_equal(ls_replica_num_replicas(m->replica), 2);
  const ls_nest merged =
      ls_replica_merge_call(m->replica, look_from_merge, ls_none(), NULL);
  expect_status(ls_nest_status(merged), LS_FAILED_PRECONDITION,
                "call_for_each_replica");
  ls_nest_release(merged);
  return ls_none();
}

static ls_nest merge_and_look(ls_nest args, void *user) {
  merging *m = user;
  (void)args;
  if (ls_replica_number() == 0) m->replica = ls_replica_context();
  return ls_replica_merge_call(ls_replica_context(), look_from_merge, ls_none(),
                               user);
}

static void merge_call_needs_the_current_context(void **state) {
  (void)state;
  LS_SPEC("V175 M32");
  ls_strategy *strategy = mirrored_of(2);
  merging m = {0};
  ls_nest_release(run_on(strategy, merge_and_look, ls_none(), &m));
  // Another strategy's context, while this one's replicas run.
  ls_replica *usual = ls_replica_context();
  ls_nest_release(run_on(strategy, use_foreign_context, ls_none(), usual));
  ls_strategy_release(strategy);
}

static ls_nest merge_default(ls_strategy *strategy, ls_nest args, void *user) {
  assert_false(ls_has_strategy());
  assert_true(ls_in_cross_replica_context());
  assert_null(ls_replica_context());
  ls_strategy *usual = NULL;
  expect_ok(ls_strategy_default(&usual));
  assert_ptr_equal(strategy, usual);
  assert_true(ls_nest_number(args) == 4);
  return *(bool *)user ? LS_FAIL(LS_ABORTED, "refused") : ls_nest_f64(5);
}

static void the_default_context_merges_at_once(void **state) {
  (void)state;
  LS_SPEC("V179 M35");
  bool fails = false;
  ls_nest made = ls_replica_merge_call(ls_replica_context(), merge_default,
                                       ls_nest_f64(4), &fails);
  assert_true(ls_nest_number(made) == 5);
  expect_default();
  fails = true;
  made = ls_replica_merge_call(ls_replica_context(), merge_default,
                               ls_nest_f64(4), &fails);
  expect_status(ls_nest_status(made), LS_ABORTED, "refused");
  ls_nest_release(made);
  expect_default();
}

// ---- Needing the cross-replica context -------------------------------------
static ls_nest call_across(ls_nest args, void *user) {
  ls_strategy *strategy = user;
  ls_nest made = ls_none();
  (void)args;
  const ls_nest value = ls_nest_f64(1);
  const ls_destinations none = {0};
  const ls_code code = LS_FAILED_PRECONDITION;
  const char *says =
      ls_strategy_current() == strategy ? "merge_call" : "cannot be mixed";
  expect_status(ls_strategy_reduce(strategy, LS_REDUCE_MEAN, value, &made),
                code, says);
  expect_status(
      ls_strategy_reduce_to(strategy, LS_REDUCE_MEAN, value, none, &made), code,
      says);
  expect_status(ls_strategy_batch_reduce_to(strategy, LS_REDUCE_MEAN, &value,
                                            &none, 1, &made),
                code, says);
  expect_status(ls_strategy_broadcast_to(strategy, value, none, &made), code,
                says);
  expect_status(ls_strategy_gather(strategy, value, 0, &made), code, says);
  expect_status(
      ls_strategy_update_non_slot(strategy, (const char *[]){"/cpu:0"}, 1,
                                  call_across, ls_none(), NULL, true, &made),
      code, says);
  expect_status(ls_strategy_fetch(strategy, value, NULL, NULL, NULL, &made),
                code, says);
  expect_status(ls_strategy_worker_device_index(strategy, &made), code, says);
  expect_status(
      ls_strategy_run(strategy, ls_plain(call_across, user), ls_none(), &made),
      code, says);
  if (ls_strategy_current() == strategy)
    expect_status(ls_strategy_gather(strategy, value, 0, &made), code,
                  "all_gather");
  return ls_none();
}

static void some_calls_need_the_cross_replica_context(void **state) {
  (void)state;
  LS_SPEC("V183 V167 M31");
  ls_strategy *a = mirrored_of(2), *b = mirrored_of(2);
  ls_nest_release(run_on(a, call_across, ls_none(), a));
  ls_nest_release(run_on(a, call_across, ls_none(), b));
  {
    LS_STRATEGY_SCOPE(b);
    call_across(ls_none(), a);
  }
  // Outside of any scope they enter it themselves.
  ls_nest made = ls_none();
  expect_ok(ls_strategy_reduce(a, LS_REDUCE_MEAN, ls_nest_f64(1), &made));
  expect_default();
  ls_strategy_release(a);
  ls_strategy_release(b);
}

// ---- The update context ----------------------------------------------------
typedef struct updates {
  ls_strategy *strategy;
  ls_variable *inner;
  int count;
  bool fails;
} updates;

static ls_nest look_inner(ls_nest args, void *user) {
  (void)args;
  updates *u = user;
  assert_true(ls_update_replica_id().set);
  ++u->count;
  return ls_none();
}

static ls_nest look_in_update(ls_nest args, void *user) {
  updates *u = user;
  (void)args;
  const long long id = ls_update_replica_id().value;
  expect_cross(u->strategy);
  {
    LS_STRATEGY_SCOPE(u->strategy);
    expect_cross(u->strategy);
  }
  const char *device = ls_update_device();
  assert_string_equal(device + strlen(device) - 5, id == 0 ? "CPU:0" : "CPU:1");
  ls_nest made = ls_none();
  expect_ok(ls_strategy_update(u->strategy, u->inner, look_inner, ls_none(), u,
                               true, &made));
  assert_int_equal(ls_update_replica_id().value, id);
  assert_string_equal(ls_update_device(), device);
  return u->fails ? LS_FAIL(LS_ABORTED, "no update") : ls_none();
}

static void an_update_knows_its_component(void **state) {
  (void)state;
  LS_SPEC("V156 M36");
  ls_strategy *strategy = mirrored_of(2);
  ls_variable *v = variable_in(strategy, (variable_kind){0});
  updates u = {.strategy = strategy,
               .inner = variable_in(strategy, (variable_kind){.name = "w"})};
  ls_nest made = ls_none();
  assert_false(ls_update_replica_id().set);
  assert_string_equal(ls_update_device(), "");
  expect_ok(ls_strategy_update(strategy, v, look_in_update, ls_none(), &u, true,
                               &made));
  assert_int_equal(u.count, 4);
  assert_false(ls_update_replica_id().set);
  u.fails = true;
  expect_status(ls_strategy_update(strategy, v, look_in_update, ls_none(), &u,
                                   true, &made),
                LS_ABORTED, "no update");
  assert_false(ls_update_replica_id().set);
  expect_default();
  ls_variable_release(v);
  ls_variable_release(u.inner);
  ls_strategy_release(strategy);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_thread_starts_in_the_default_context),
      cmocka_unit_test(contexts_follow_scope_run_and_merge),
      cmocka_unit_test(a_merge_function_may_run_replicas),
      cmocka_unit_test(the_state_belongs_to_graph_and_thread),
      cmocka_unit_test(there_is_one_default_strategy),
      cmocka_unit_test(a_strategys_scope_nests_in_itself),
      cmocka_unit_test(scopes_of_two_strategies_do_not_mix),
      cmocka_unit_test(the_default_strategys_scope_changes_nothing),
      cmocka_unit_test(a_strategy_can_be_set_without_a_scope),
      cmocka_unit_test(a_replica_context_is_for_its_replica),
      cmocka_unit_test(a_replica_context_ends_with_its_run),
      cmocka_unit_test(merge_call_needs_the_current_context),
      cmocka_unit_test(the_default_context_merges_at_once),
      cmocka_unit_test(some_calls_need_the_cross_replica_context),
      cmocka_unit_test(an_update_knows_its_component),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  expect_ok(ls_runtime_destroy(NULL));
  return failed;
}
