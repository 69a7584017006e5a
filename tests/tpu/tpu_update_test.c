// SPDX-License-Identifier: Apache-2.0
//
// Updates of variables by TPU strategies.
#include <stdio.h>
#include <string.h>

#include "distribute/own.h"
#include "lockstep/flow.h"
#include "lockstep/graph_ops.h"
#include "lockstep/ops.h"
#include "lockstep/regroup.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/variable_parts.h"
#include "support/function.h"
#include "support/placed.h"
#include "support/tpu_ways.h"

static const double counted[TPU_RUN_REPLICAS] = {1, 2, 3, 4, 5, 6, 7, 8};

// ---- What updates ----------------------------------------------------------
typedef struct updating {
  ls_variable_synchronization synchronization;
  ls_variable_aggregation aggregation;
  bool group, replica_value, fails;
  ls_callback call;  // In a branch, with the replica's `args`.
  ls_nest args;
  ls_variable *variable;
  int calls;
} updating;

static ls_variable *make_variable(void *user) {
  updating *u = user;
  LS_OWN(ls_array, initial) =
      array_of(LS_DTYPE_F32, LS_SCALAR, (const double[]){100});
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "v",
                             .initial_array = initial,
                             .synchronization = u->synchronization,
                             .aggregation = u->aggregation},
      &u->variable));
  return u->variable;
}

// v += x: whole in a computation.
static ls_nest add_whole(ls_nest args, void *user) {
  updating *u = user;
  ++u->calls;
  assert_int_equal(args.kind, LS_KIND_TUPLE);
  assert_int_equal(ls_nest_count(args), 2);
  assert_ptr_equal(ls_nest_as_variable(ls_nest_item(args, 0)), u->variable);
  assert_true(ls_in_cross_replica_context());
  assert_false(ls_update_replica_id().set);
  if (u->fails) return LS_FAIL(LS_ABORTED, "the function's own");
  return ls_leaf(ls_variable_assign_add(u->variable, ls_nest_tensor(args, 1)));
}

static ls_nest update_merged(ls_strategy *s, ls_nest args, void *user) {
  updating *u = user;
  ls_nest made = ls_none();
  const ls_status status =
      ls_strategy_update(s, u->variable, add_whole, args, u, u->group, &made);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  if (!u->group) {
    assert_int_equal(made.kind, LS_KIND_TUPLE);
    assert_int_equal(ls_nest_count(made), 1);
  }
  return made;
}

static ls_nest sum_and_update(ls_nest args, void *user) {
  updating *u = user;
  u->calls = 0;
  LS_OWN(ls_nest, given) =
      LS_TUPLE(u->replica_value
                   ? ls_nest_retain(ls_nest_item(args, 0))
                   : ls_replica_all_reduce(ls_replica_context(), LS_REDUCE_SUM,
                                           ls_nest_item(args, 0)));
  const ls_nest made =
      ls_replica_merge_call(ls_replica_context(), update_merged, given, u);
  assert_int_equal(u->calls, 1);
  return made;
}

// From the replica itself.
static ls_nest update_here(ls_nest args, void *user) {
  updating *u = user;
  ls_nest made = ls_none();
  u->calls = 0;
  LS_OWN(ls_nest, given) =
      LS_TUPLE(u->replica_value
                   ? ls_nest_retain(ls_nest_item(args, 0))
                   : ls_replica_all_reduce(ls_replica_context(), LS_REDUCE_SUM,
                                           ls_nest_item(args, 0)));
  const ls_status status = ls_strategy_update(
      ls_strategy_current(), u->variable, add_whole, given, u, u->group, &made);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  assert_int_equal(u->calls, 1);
  return made;
}

// From the callback that is called once for all replicas, as in steps on an
// iterator.
static ls_nest call_update(ls_strategy *s, ls_nest args, void *user) {
  ls_nest made = ls_none();
  const ls_status status =
      ls_strategy_call_for_each_replica(s, update_here, args, user, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

static ls_nest update_called(ls_nest args, void *user) {
  return ls_replica_merge_call(ls_replica_context(), call_update, args, user);
}

static ls_nest then_call(ls_nest values, void *user) {
  updating *u = user;
  (void)values;
  LS_OWN(ls_nest, made) = u->call(u->args, u);
  return ls_nest_is_failed(made) ? ls_give(&made) : ls_leaf(f32_of(1));
}

static ls_nest else_zero(ls_nest values, void *user) {
  (void)values;
  (void)user;
  return ls_leaf(f32_of(0));
}

static ls_nest call_in_branch(ls_nest args, void *user) {
  updating *u = user;
  u->args = args;
  return ls_cond(ls_less(f32_of(0), f32_of(1)), then_call, else_zero, u);
}

static ls_nest call_each_in_branch(ls_strategy *s, ls_nest args, void *user) {
  ls_nest made = ls_none();
  const ls_status status =
      ls_strategy_call_for_each_replica(s, call_in_branch, args, user, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

static ls_nest branch_called(ls_nest args, void *user) {
  return ls_replica_merge_call(ls_replica_context(), call_each_in_branch, args,
                               user);
}

// From a callback in a merge call, with a sum made before that.
static ls_nest update_with(ls_nest args, void *user) {
  updating *u = user;
  ls_nest made = ls_none();
  const ls_status status = ls_strategy_update(
      ls_strategy_current(), u->variable, add_whole, args, u, u->group, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

static ls_nest call_each_with(ls_strategy *s, ls_nest args, void *user) {
  ls_nest made = ls_none();
  const ls_status status =
      ls_strategy_call_for_each_replica(s, update_with, args, user, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

static ls_nest sum_and_call(ls_nest args, void *user) {
  LS_OWN(ls_nest, given) = LS_TUPLE(ls_replica_all_reduce(
      ls_replica_context(), LS_REDUCE_SUM, ls_nest_item(args, 0)));
  return ls_replica_merge_call(ls_replica_context(), call_each_with, given,
                               user);
}

static ls_variable *make_plain(void *user) {
  updating *u = user;
  LS_OWN(ls_array, initial) =
      array_of(LS_DTYPE_F32, LS_SCALAR, (const double[]){100});
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "plain",
                             .initial_array = initial,
                             .single_device = "/device:CPU:0"},
      &u->variable));
  assert_int_equal(ls_variable_num_components(u->variable), 0);
  return u->variable;
}

static void all_have_added_to_one(tpu_run *run) {
  const int n = tpu_run_replicas(run);
  for (int r = 0; r < n; ++r)
    assert_true(tpu_run_number(run, r, 0, 0) == 100 + n * (n + 1) / 2);
}

static void all_have_added(tpu_run *run) {
  const int n = tpu_run_replicas(run);
  for (int r = 0; r < n; ++r) {
    assert_true(tpu_run_number(run, r, 0, 0) == 100 + n * (n + 1) / 2);
    assert_true(tpu_run_component(run, (size_t)r) == 100 + n * (n + 1) / 2);
  }
}

static void each_has_added_its_own(tpu_run *run) {
  for (int r = 0; r < tpu_run_replicas(run); ++r)
    assert_true(tpu_run_component(run, (size_t)r) == 100 + counted[r]);
}

TEST(a_computation_updates_once) {
  LS_SPEC("T182 V204");
  static const ls_variable_aggregation all[] = {
      LS_AGGREGATION_NONE, LS_AGGREGATION_SUM, LS_AGGREGATION_MEAN,
      LS_AGGREGATION_ONLY_FIRST_REPLICA};
  for (int group = 0; group < 2; ++group)
    for (size_t i = 0; i < 4; ++i) {
      updating u = {.aggregation = all[i], .group = group};
      tpu_step step = {.fn = sum_and_update,
                       .user = &u,
                       .numbers = counted,
                       .make = make_variable};
      tpu_run_all(&step, all_have_added);
      step.fn = update_here;
      tpu_run_all(&step, all_have_added);
      step.fn = update_called;
      tpu_run_all(&step, all_have_added);
    }
  updating u = {.group = true};
  const tpu_step plain = {
      .fn = sum_and_update, .user = &u, .numbers = counted, .make = make_plain};
  tpu_run_all(&plain, all_have_added_to_one);
  u.fails = true;
  tpu_run_refused(
      &(tpu_step){.fn = sum_and_update, .user = &u, .make = make_variable}, 2,
      LS_ABORTED, "the function's own");
}

static void components_have_added(tpu_run *run) {
  const int n = tpu_run_replicas(run);
  for (int r = 0; r < n; ++r)
    assert_true(tpu_run_component(run, (size_t)r) == 100 + n * (n + 1) / 2);
}

TEST(a_branch_updates_with_a_sum_made_in_it) {
  updating u = {.aggregation = LS_AGGREGATION_SUM, .group = true};
  tpu_step step = {.user = &u, .numbers = counted, .make = make_variable};
  static const ls_callback all[] = {update_here, update_called, sum_and_call};
  for (size_t i = 0; i < 3; ++i) {
    u.call = all[i];
    step.fn = call_in_branch;
    tpu_run_all(&step, components_have_added);
  }
  u.call = update_here;
  step.fn = branch_called;
  tpu_run_all(&step, components_have_added);
  u.replica_value = true;
  tpu_run_refused(&step, 2, LS_INVALID_ARGUMENT, "is not mirrored");
}

// Components drift apart only where that is the rule.
TEST(replicas_update_with_what_is_one_for_all) {
  LS_SPEC("V182");
  updating u = {.group = true, .replica_value = true};
  tpu_step step = {
      .fn = update_here, .user = &u, .numbers = counted, .make = make_variable};
  tpu_run_all(&step, each_has_added_its_own);
  u.synchronization = LS_SYNCHRONIZATION_ON_READ;
  u.aggregation = LS_AGGREGATION_SUM;
  tpu_run_all(&step, each_has_added_its_own);
  u.synchronization = LS_SYNCHRONIZATION_AUTO;
  tpu_run_refused(&step, 2, LS_INVALID_ARGUMENT, "is not mirrored");
  step.fn = update_called;
  tpu_run_refused(&step, 2, LS_INVALID_ARGUMENT, "is not mirrored");
}

// Nor is anything aggregated where no replica is entered, as in steps on an
// iterator.
typedef struct across_update {
  ls_strategy *strategy;
  updating of;
} across_update;

static ls_nest update_across(ls_nest args, void *user) {
  across_update *a = user;
  ls_nest made = ls_none();
  LS_OWN(ls_nest, given) = LS_TUPLE(ls_nest_retain(ls_nest_item(args, 0)));
  LS_STRATEGY_SCOPE(a->strategy);
  a->of.calls = 0;
  const ls_status status = ls_strategy_update(
      a->strategy, a->of.variable, add_whole, given, &a->of, true, &made);
  assert_int_equal(a->of.calls, 1);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

TEST(an_update_aggregates_nothing) {
  LS_SPEC("V204");
  static const ls_variable_aggregation all[] = {LS_AGGREGATION_SUM,
                                                LS_AGGREGATION_MEAN};
  for (size_t i = 0; i < 2; ++i) {
    across_update a = {.strategy = tpu_strategy_of(8),
                       .of.aggregation = all[i]};
    computation c;
    computation_open(&c);
    {
      LS_STRATEGY_SCOPE(a.strategy);
      make_variable(&a.of);
    }
    computation_initialize(&c, a.of.variable);
    ls_nest each[8];
    for (int r = 0; r < 8; ++r)
      each[r] = LS_LIST(ls_leaf(f32_of(5)));
    const ls_nest inputs = ls_nest_sequence(LS_KIND_LIST, each, 8);
    expect_ok(ls_replicate(update_across, &a, inputs, NULL, &c.outputs));
    ls_nest_release(inputs);
    for (size_t r = 0; r < 8; ++r)
      assert_true(computation_output(&c, r, 0) == 105 + 5 * (double)r);
    ls_variable_release(a.of.variable);
    computation_close(&c);
    ls_strategy_release(a.strategy);
  }
}

// ---- Outside ---------------------------------------------------------------
typedef struct component_update {
  ls_variable *variable;
  int calls;
  bool gives_op, is_plain;
} component_update;

static ls_nest add_component(ls_nest args, void *user) {
  component_update *u = user;
  const size_t i = (size_t)u->calls++;
  char scope[32];
  // It is the second one in its graph.
  snprintf(scope, sizeof(scope), "update_%zu%s/", i, u->is_plain ? "_1" : "");
  ls_variable *v = ls_nest_as_variable(ls_nest_item(args, 0));
  assert_ptr_equal(v, u->is_plain ? u->variable
                                  : ls_variable_component(u->variable, i));
  assert_true(ls_in_cross_replica_context());
  assert_true(ls_update_replica_id().set);
  assert_int_equal(ls_update_replica_id().value, (int64_t)i);
  if (!ls_graph_is_eager(ls_graph_current()))
    assert_string_equal(ls_name_scope_current(), scope);
  assert_int_equal(ls_nest_count(args), 2);
  ls_tensor x = ls_failed_tensor();
  expect_ok(ls_distributed_as_tensor(ls_nest_item(args, 1), &x));
  const ls_tensor made = ls_variable_assign_add(v, x);
  if (!ls_graph_is_eager(ls_graph_current()) && !u->is_plain)
    assert_string_equal(ls_op_device(ls_tensor_op(made)),
                        ls_variable_device(v));
  return u->gives_op ? ls_nest_op(ls_tensor_op(made)) : ls_leaf(made);
}

// A value for each component: i + 1, or the same on all.
static ls_nest values_for(int count, ls_distributed_kind kind) {
  ls_nest items[8];
  for (int r = 0; r < count; ++r)
    items[r] = ls_leaf(f32_of(kind == LS_MIRRORED ? 1 : r + 1));
  return LS_TUPLE(ls_nest_distributed(kind, items, (size_t)count));
}

static ls_variable *made_in(ls_strategy *s, updating *u) {
  LS_STRATEGY_SCOPE(s);
  return make_variable(u);
}

static double component_value(computation *c, ls_variable *v) {
  double value = 0;
  if (c != NULL) return computation_fetch(c, ls_variable_read(v));
  read_variable(v, &value, 1);
  return value;
}

// In eager without a graph, else in that.
static void update_each(computation *c, int n, bool group,
                        ls_distributed_kind kind) {
  LS_OWN(ls_strategy, s) = tpu_strategy_of(n);
  updating made_as = {.aggregation = kind == LS_MIRRORED ? LS_AGGREGATION_SUM
                                                         : LS_AGGREGATION_NONE};
  component_update u = {.variable = made_in(s, &made_as)};
  if (c != NULL) computation_initialize(c, u.variable);
  LS_OWN(ls_nest, args) = values_for(n, kind);
  ls_nest each = ls_none();
  LS_OWN(ls_nest, made) = ls_none();
  expect_ok(
      ls_strategy_update(s, u.variable, add_component, args, &u, group, &made));
  assert_int_equal(u.calls, n);
  if (!group) {
    assert_int_equal(made.kind, LS_KIND_TUPLE);
    assert_int_equal(ls_nest_count(made), n);
  } else if (n > 1) {
    assert_int_equal(ls_distributed_kind_of(made), LS_MIRRORED);
  }
  // One result brings all of them.
  if (c != NULL) {
    expect_ok(ls_strategy_local_results(s, made, &each));
    const ls_nest first = group ? ls_nest_item(each, 0) : each;
    expect_ok(computation_run(c, first));
    ls_nest_release(each);
  }
  for (int r = 0; r < n; ++r)
    assert_true(
        component_value(c, ls_variable_component(u.variable, (size_t)r)) ==
        101 + (kind == LS_MIRRORED ? 0 : r));
  ls_variable_release(u.variable);
}

TEST(each_component_is_updated_outside) {
  LS_SPEC("T183 T184 V203");
  static const ls_distributed_kind kinds[] = {LS_MIRRORED, LS_PER_REPLICA};
  for (int n = 1; n <= 3; ++n)
    for (int group = 0; group < 2; ++group)
      for (size_t k = 0; k < 2; ++k) {
        update_each(NULL, n, group, kinds[k]);
        LS_OWN_BEGUN(computation, c, computation_open);
        update_each(&c, n, group, kinds[k]);
      }
}

// Across replicas in a function.
typedef struct traced_update {
  ls_strategy *strategy;
  component_update update;
} traced_update;

static ls_nest update_in_function(ls_nest args, void *user) {
  traced_update *t = user;
  ls_nest made = ls_none();
  (void)args;
  t->update.calls = 0;
  LS_OWN(ls_nest, given) = values_for(2, LS_PER_REPLICA);
  const ls_status status =
      ls_strategy_update(t->strategy, t->update.variable, add_component, given,
                         &t->update, true, &made);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  if (made.kind == LS_KIND_OP || ls_distributed_count(made) == 0) return made;
  const ls_nest first = ls_nest_retain(ls_distributed_component(made, 0));
  ls_nest_release(made);
  return first;
}

TEST(a_function_updates_each_component) {
  LS_SPEC("T183 T184");
  updating none = {0}, sum = {.aggregation = LS_AGGREGATION_SUM};
  traced_update t = {.strategy = tpu_strategy_of(2)};
  t.update.variable = made_in(t.strategy, &none);
  ls_function *f = function_of(update_in_function, &t);
  ls_nest results = call_results(f, ls_none());
  for (int r = 0; r < 2; ++r)
    assert_true(component_value(NULL, ls_variable_component(t.update.variable,
                                                            (size_t)r)) ==
                101 + r);
  ls_nest_release(results);
  ls_function_release(f);
  ls_variable_release(t.update.variable);
  t.update.variable = made_in(t.strategy, &sum);
  f = function_of(update_in_function, &t);
  results = ls_none();
  expect_status(ls_function_call(f, ls_none(), &results), LS_INVALID_ARGUMENT,
                "is not mirrored");
  assert_int_equal(t.update.calls, 0);
  ls_function_release(f);
  ls_variable_release(t.update.variable);
  ls_strategy_release(t.strategy);
}

// Ops become one, that runs behind all.
TEST(updates_that_give_ops_are_grouped) {
  LS_SPEC("T183");
  updating made_as = {0};
  LS_OWN(ls_strategy, s) = tpu_strategy_of(3);
  LS_OWN_BEGUN(computation, c, computation_open);
  component_update u = {.variable = made_in(s, &made_as), .gives_op = true};
  computation_initialize(&c, u.variable);
  LS_OWN(ls_nest, args) = values_for(3, LS_PER_REPLICA);
  ls_nest made = ls_none();
  expect_ok(
      ls_strategy_update(s, u.variable, add_component, args, &u, true, &made));
  assert_int_equal(made.kind, LS_KIND_OP);
  expect_ok(computation_run(&c, made));
  for (size_t r = 0; r < 3; ++r)
    assert_true(component_value(&c, ls_variable_component(u.variable, r)) ==
                101 + (double)r);
  ls_variable_release(u.variable);
}

// ---- Which variables -------------------------------------------------------
static void refuse_others(computation *c) {
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  LS_OWN(ls_strategy, mirrored) = mirrored_of(2);
  updating made_as = {0}, sum = {.aggregation = LS_AGGREGATION_SUM};
  ls_nest made = ls_none();
  component_update u = {.variable = made_in(mirrored, &made_as)};
  LS_OWN(ls_nest, args) = values_for(2, LS_PER_REPLICA);
  expect_status(
      ls_strategy_update(s, u.variable, add_component, args, &u, true, &made),
      LS_INVALID_ARGUMENT, "mirrored strategy");
  assert_int_equal(u.calls, 0);
  ls_variable_release(u.variable);
  // An aggregated one takes what is mirrored.
  u.variable = made_in(s, &sum);
  LS_OWN(ls_nest, one) = values_for(1, LS_MIRRORED);
  expect_status(
      ls_strategy_update(s, u.variable, add_component, args, &u, true, &made),
      LS_INVALID_ARGUMENT, "is not mirrored");
  expect_status(
      ls_strategy_update(s, u.variable, add_component, one, &u, true, &made),
      LS_INVALID_ARGUMENT, "1 components for 2");
  expect_status(ls_strategy_update(s, u.variable, add_component, ls_nest_i64(3),
                                   &u, true, &made),
                LS_INVALID_ARGUMENT, "a list or a tuple");
  expect_status(
      ls_strategy_update(s, NULL, add_component, args, &u, true, &made),
      LS_INVALID_ARGUMENT, "variable");
  assert_int_equal(u.calls, 0);
  ls_variable_release(u.variable);
  // One that is synchronized on read takes anything.
  updating on_read = {.synchronization = LS_SYNCHRONIZATION_ON_READ,
                      .aggregation = LS_AGGREGATION_SUM};
  u.variable = made_in(s, &on_read);
  if (c != NULL) computation_initialize(c, u.variable);
  expect_ok(
      ls_strategy_update(s, u.variable, add_component, args, &u, true, &made));
  assert_int_equal(u.calls, 2);
  ls_nest_release(made);
  ls_variable_release(u.variable);
  // A plain one is one component.
  u = (component_update){
      .variable =
          variable_of("plain", LS_DTYPE_F32, LS_SCALAR, (const double[]){100}),
      .is_plain = true};
  if (c != NULL) computation_initialize(c, u.variable);
  made = ls_none();
  expect_ok(
      ls_strategy_update(s, u.variable, add_component, args, &u, true, &made));
  assert_int_equal(u.calls, 1);
  if (c != NULL) expect_ok(computation_run(c, made));
  assert_true(component_value(c, u.variable) == 101);
  ls_nest_release(made);
  // Of a mirrored strategy it is refused.
  made = ls_none();
  expect_status(ls_strategy_update(mirrored, u.variable, add_component, args,
                                   &u, true, &made),
                LS_INVALID_ARGUMENT, "plain variable");
  assert_int_equal(u.calls, 1);
  ls_variable_release(u.variable);
}

TEST(own_and_plain_variables_are_updated) {
  LS_SPEC("T182 T184 V202 V203");
  refuse_others(NULL);
  LS_OWN_BEGUN(computation, c, computation_open);
  refuse_others(&c);
}

// ---- Without a variable ----------------------------------------------------
typedef struct host_update {
  const char *host;
  int calls;
} host_update;

static ls_nest on_host(ls_nest args, void *user) {
  host_update *u = user;
  ++u->calls;
  assert_int_equal(args.kind, LS_KIND_TUPLE);
  assert_int_equal(ls_nest_count(args), 1);
  assert_int_equal(ls_nest_item(args, 0).kind, LS_KIND_DISTRIBUTED);
  assert_false(ls_update_replica_id().set);
  assert_true(ls_in_cross_replica_context());
  const ls_tensor x = f32_of(6);
  if (!ls_graph_is_eager(ls_graph_current()))
    assert_string_equal(ls_op_device(ls_tensor_op(x)), u->host);
  return LS_LIST(ls_leaf(x), ls_nest_retain(ls_nest_item(args, 0)));
}

static void update_without_a_variable(int n) {
  static const char *nowhere[] = {"no device//at all"};
  const char *devices[2];
  size_t count = 0;
  LS_OWN(ls_strategy, s) = tpu_strategy_of(n);
  ls_device_name host;
  expect_ok(ls_tpu_strategy_host(s, &host));
  expect_ok(ls_strategy_non_slot_devices(s, NULL, 0, devices, 2, &count));
  assert_int_equal(count, 1);
  assert_string_equal(devices[0], host.text);
  host_update u = {.host = host.text};
  LS_OWN(ls_nest, args) = values_for(n, LS_PER_REPLICA);
  for (int group = 0; group < 2; ++group)
    for (size_t given = 0; given < 2; ++given) {
      LS_OWN(ls_nest, made) = ls_none();
      u.calls = 0;
      expect_ok(ls_strategy_update_non_slot(s, given != 0 ? nowhere : NULL,
                                            given, on_host, args, &u, group,
                                            &made));
      assert_int_equal(u.calls, 1);
      assert_int_equal(made.kind, LS_KIND_LIST);
      const ls_nest first = ls_nest_item(made, 0);
      const ls_nest second = ls_nest_item(made, 1);
      if (group) {
        assert_int_equal(first.kind, LS_KIND_TENSOR);
        assert_int_equal(second.kind, LS_KIND_DISTRIBUTED);
      } else {
        assert_int_equal(first.kind, LS_KIND_TUPLE);
        assert_int_equal(ls_nest_count(first), 1);
        assert_int_equal(second.kind, LS_KIND_TUPLE);
        assert_int_equal(ls_nest_count(second), n);
      }
    }
  ls_nest made = ls_none();
  expect_status(ls_strategy_update_non_slot(s, NULL, 0, on_host, ls_nest_i64(1),
                                            &u, true, &made),
                LS_INVALID_ARGUMENT, "a list or a tuple");
}

static ls_nest update_in_trace(ls_nest args, void *user) {
  (void)args;
  (void)user;
  update_without_a_variable(2);
  return ls_none();
}

static ls_nest count_on_host(ls_nest args, void *user) {
  host_update *u = user;
  (void)args;
  ++u->calls;
  assert_false(ls_update_replica_id().set);
  return ls_leaf(f32_of(6));
}

static ls_nest count_merged(ls_strategy *s, ls_nest args, void *user) {
  ls_nest made = ls_none();
  (void)args;
  const ls_status status = ls_strategy_update_non_slot(
      s, NULL, 0, count_on_host, ls_none(), user, true, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

static ls_nest merge_and_count(ls_nest args, void *user) {
  return ls_replica_merge_call(ls_replica_context(), count_merged, args, user);
}

static void all_have_six(tpu_run *run) {
  for (int r = 0; r < tpu_run_replicas(run); ++r)
    assert_true(tpu_run_number(run, r, 0, 0) == 6);
}

TEST(state_without_a_variable_is_on_the_host) {
  LS_SPEC("T185");
  for (int n = 1; n <= 3; ++n) {
    update_without_a_variable(n);
    LS_OWN_BEGUN(computation, c, computation_open);
    update_without_a_variable(n);
  }
  ls_function *f = function_of(update_in_trace, NULL);
  ls_nest_release(call_results(f, ls_none()));
  ls_function_release(f);
  host_update u = {.host = NULL};
  tpu_run_all(&(tpu_step){.fn = merge_and_count, .user = &u}, all_have_six);
}
