// SPDX-License-Identifier: Apache-2.0
//
// The contexts of replicas, merges and updates, and what needs another one.
#include "lockstep/replica.h"

#include <string.h>

#include "distribute/own.h"
#include "lockstep/cross_device.h"
#include "lockstep/graph.h"
#include "lockstep/strategy_extended.h"
#include "support/contexts.h"
#include "support/function.h"
#include "support/replicas.h"

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
    LS_OWN(ls_nest, merged) =
        ls_replica_merge_call(c->replica[0], NULL, ls_none(), NULL);
    expect_status(ls_nest_status(merged), LS_FAILED_PRECONDITION,
                  "mismatching replica context");
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

TEST(a_replica_context_is_for_its_replica) {
  LS_SPEC("V172 M32 M33");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  contexts c = {0};
  ls_nest_release(run_on(strategy, use_anothers_context, ls_none(), &c));
  assert_int_equal(c.count, 2);
  const char *device = NULL;
  expect_status(ls_replica_device(NULL, &device), LS_FAILED_PRECONDITION,
                "call_for_each_replica");
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
    LS_OWN(ls_nest, merged) =
        ls_replica_merge_call(c->replica[r], NULL, ls_none(), NULL);
    expect_status(ls_nest_status(merged), LS_FAILED_PRECONDITION, "has ended");
    // What it is can be asked for as long as there is the strategy.
    assert_int_equal(ls_replica_num_replicas(c->replica[r]), replicas);
    assert_true(ls_strategy_num_replicas(ls_replica_strategy(c->replica[r])) ==
                replicas);
  }
}

TEST(a_replica_context_ends_with_its_run) {
  LS_SPEC("V172");
  for (int replicas = 1; replicas <= 2; ++replicas) {
    contexts c = {0};
    LS_OWN(ls_strategy, strategy) = mirrored_of(replicas);
    LS_OWN(ls_strategy, other) = mirrored_of(replicas);
    ls_nest_release(run_on(strategy, keep_context, ls_none(), &c));
    expect_ended(&c, replicas);
    const ls_nest args = LS_LIST(ls_nest_f64(1));
    ls_nest_release(run_on(other, use_context_of_an_ended_run, args, &c));
    ls_nest_release(args);
    // In a trace, and in a graph that is being built.
    ls_function *function = unnamed_function(keep_context, &c);
    ls_nest made = strategy_results(strategy, ls_traced(function), ls_none());
    expect_ended(&c, replicas);
    ls_nest_release(made);
    ls_function_release(function);
    LS_OWN(ls_graph, graph) = graph_named("g");
    {
      LS_GRAPH_SCOPE(graph);
      ls_nest_release(run_on(strategy, keep_context, ls_none(), &c));
      expect_status(ls_scope_status(), LS_OK, "");
    }
    expect_ended(&c, replicas);
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
  LS_OWN(ls_nest, merged) =
      ls_replica_merge_call(m->replica, look_from_merge, ls_none(), NULL);
  expect_status(ls_nest_status(merged), LS_FAILED_PRECONDITION,
                "call_for_each_replica");
  return ls_none();
}

static ls_nest merge_and_look(ls_nest args, void *user) {
  merging *m = user;
  (void)args;
  if (ls_replica_number() == 0) m->replica = ls_replica_context();
  return ls_replica_merge_call(ls_replica_context(), look_from_merge, ls_none(),
                               user);
}

TEST(merge_call_needs_the_current_context) {
  LS_SPEC("V175 M32");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  merging m = {0};
  ls_nest_release(run_on(strategy, merge_and_look, ls_none(), &m));
  // Another strategy's context, while this one's replicas run.
  ls_replica *usual = ls_replica_context();
  ls_nest_release(run_on(strategy, use_foreign_context, ls_none(), usual));
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

TEST(the_default_context_merges_at_once) {
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

TEST(some_calls_need_the_cross_replica_context) {
  LS_SPEC("V183 V167 M31");
  LS_OWN(ls_strategy, a) = mirrored_of(2);
  LS_OWN(ls_strategy, b) = mirrored_of(2);
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

TEST(an_update_knows_its_component) {
  LS_SPEC("V156 M36");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){0});
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
  ls_variable_release(u.inner);
}
