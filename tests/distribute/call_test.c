// SPDX-License-Identifier: Apache-2.0
//
// Running a callback on every replica, and meeting in merge calls.
#include "lockstep/strategy.h"

#include <stdio.h>
#include <string.h>

#include "distribute/own.h"
#include "lockstep/graph.h"
#include "lockstep/strategy_extended.h"
#include "support/callbacks.h"
#include "support/function.h"
#include "support/replicas.h"

// What happened, in order.
typedef struct diary {
  char text[400];
  ls_variable *variable;
  int fails_on;
} diary;

static void note(diary *d, const char *what, int number) {
  const size_t at = strlen(d->text);
  snprintf(d->text + at, sizeof(d->text) - at, number < 0 ? "%s " : "%s%d ",
           what, number);
}

// ---- Arguments and results -------------------------------------------------
TEST(replicas_get_their_parts) {
  LS_SPEC("V166 V168 M149");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  const ls_nest args = LS_TUPLE(
      distributed_numbers(LS_PER_REPLICA, (double[]){1, 2}, 2), ls_nest_f64(5));
  ls_nest made = run_on(strategy, give_args, args, NULL);
  assert_int_equal(made.kind, LS_KIND_TUPLE);
  expect_numbers(ls_nest_item(made, 0), (double[]){1, 2}, 2);
  assert_true(ls_nest_number(ls_nest_item(made, 1)) == 5);
  ls_nest_release(made);
  ls_nest_release(args);
  made = run_on(strategy, give_args, ls_none(), NULL);
  assert_int_equal(made.kind, LS_KIND_NONE);
  // The arguments are a list or a tuple.
  expect_status(ls_strategy_run(strategy, ls_plain(give_args, NULL),
                                ls_nest_f64(1), &made),
                LS_INVALID_ARGUMENT,
                "wrap a single one: LS_TUPLE(ls_nest_retain(batch)); got 1.0");
}

static ls_nest count_calls(ls_nest args, void *user) {
  (void)args;
  ++*(int *)user;
  return ls_none();
}

TEST(a_missing_part_is_found_before_anything_runs) {
  LS_SPEC("M149");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  int calls = 0;
  ls_nest made = ls_none();
  ls_nest args =
      LS_TUPLE(distributed_numbers(LS_PER_REPLICA, (double[]){1}, 1));
  expect_status(
      ls_strategy_run(strategy, ls_plain(count_calls, &calls), args, &made),
      LS_INVALID_ARGUMENT, "CPU:1");
  ls_nest_release(args);
  static const char *const devices[] = {
      "/job:localhost/replica:0/task:0/device:CPU:1",
      "/job:localhost/replica:0/task:0/device:CPU:3"};
  const ls_nest items[] = {ls_nest_f64(1), ls_nest_f64(2)};
  args = LS_TUPLE(ls_nest_distributed_on(LS_PER_REPLICA, items, devices, 2));
  expect_status(
      ls_strategy_run(strategy, ls_plain(count_calls, &calls), args, &made),
      LS_INVALID_ARGUMENT, "CPU:0");
  ls_nest_release(args);
  assert_int_equal(calls, 0);
}

TEST(parts_on_devices_go_to_the_replicas_there) {
  LS_SPEC("M149");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  // In the replicas' order and in the other one, by short names.
  for (int first = 0; first < 2; ++first) {
    const char *const devices[] = {first == 0 ? "cpu:0" : "cpu:1",
                                   first == 0 ? "cpu:1" : "cpu:0"};
    const ls_nest items[] = {ls_nest_f64(first), ls_nest_f64(1 - first)};
    LS_OWN(ls_nest, args) =
        LS_TUPLE(ls_nest_distributed_on(LS_PER_REPLICA, items, devices, 2));
    LS_OWN(ls_nest, made) = run_on(strategy, give_args, args, NULL);
    expect_numbers(ls_nest_item(made, 0), (double[]){0, 1}, 2);
  }
}

static ls_nest look_at_variable(ls_nest args, void *user) {
  assert_ptr_equal(ls_nest_as_variable(ls_nest_item(args, 0)), user);
  return ls_nest_variable(
      ls_variable_component(user, (size_t)ls_replica_number()));
}

TEST(a_distributed_variable_stays_whole) {
  LS_SPEC("V85 V168");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){0});
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_variable(v));
  LS_OWN(ls_nest, made) = run_on(strategy, look_at_variable, args, v);
  assert_ptr_equal(ls_nest_as_variable(made), v);
}

static ls_nest differing_kinds(ls_nest args, void *user) {
  (void)args;
  (void)user;
  return ls_replica_number() == 0 ? LS_LIST(ls_nest_f64(1))
                                  : LS_TUPLE(ls_nest_f64(1));
}

TEST(results_of_different_kinds_are_refused) {
  LS_SPEC("V168");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  ls_nest made = ls_none();
  expect_status(ls_strategy_run(strategy, ls_plain(differing_kinds, NULL),
                                ls_none(), &made),
                LS_INVALID_ARGUMENT, "a tuple of 1");
}

// ---- Merging ---------------------------------------------------------------
static ls_nest merge_and_note(ls_strategy *strategy, ls_nest args, void *user) {
  (void)strategy;
  note(user, "m", (int)ls_distributed_count(ls_nest_item(args, 0)));
  return LS_TUPLE(ls_nest_retain(ls_nest_item(args, 0)),
                  ls_nest_retain(ls_nest_item(args, 1)));
}

static ls_nest two_rounds(ls_nest args, void *user) {
  diary *d = user;
  const int r = ls_replica_number();
  (void)args;
  for (int round = 0; round < 2; ++round) {
    note(d, round == 0 ? "a" : "b", r);
    LS_OWN(ls_nest, given) =
        LS_TUPLE(ls_nest_i64(r + 10 * round), ls_nest_f64(3));
    LS_OWN(ls_nest, merged) =
        ls_replica_merge_call(ls_replica_context(), merge_and_note, given, d);
    // One's own part; what is one object for all is passed as it is.
    assert_true(ls_nest_number(ls_nest_item(merged, 0)) == r + 10 * round);
    assert_true(ls_nest_number(ls_nest_item(merged, 1)) == 3);
  }
  note(d, "c", r);
  return ls_none();
}

TEST(replicas_meet_in_merge_calls) {
  LS_SPEC("V174 M151 M152");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  diary d = {.fails_on = -1};
  ls_nest_release(run_on(strategy, two_rounds, ls_none(), &d));
  assert_string_equal(d.text, "a0 a1 m2 b0 b1 m2 c0 c1 ");
}

static ls_nest merge_zero(ls_strategy *s, ls_nest args, void *user) {
  (void)s;
  (void)args;
  note(user, "zero", -1);
  return ls_none();
}

static ls_nest merge_one(ls_strategy *s, ls_nest args, void *user) {
  (void)s;
  (void)args;
  note(user, "one", -1);
  return ls_none();
}

static ls_nest own_merge(ls_nest args, void *user) {
  (void)args;
  return ls_replica_merge_call(
      ls_replica_context(), ls_replica_number() == 0 ? merge_zero : merge_one,
      ls_none(), user);
}

TEST(replica_0s_merge_function_runs) {
  LS_SPEC("M151");
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  diary d = {.fails_on = -1};
  ls_nest_release(run_on(strategy, own_merge, ls_none(), &d));
  assert_string_equal(d.text, "zero ");
}

static ls_nest merge_components(ls_strategy *s, ls_nest args, void *user) {
  const diary *d = user;
  (void)s;
  assert_ptr_equal(ls_nest_as_variable(ls_nest_item(args, 0)), d->variable);
  return ls_none();
}

static ls_nest give_component(ls_nest args, void *user) {
  const diary *d = user;
  (void)args;
  LS_OWN(ls_nest, given) = LS_TUPLE(ls_nest_variable(
      ls_variable_component(d->variable, (size_t)ls_replica_number())));
  return ls_replica_merge_call(ls_replica_context(), merge_components, given,
                               user);
}

static ls_nest give_differing(ls_nest args, void *user) {
  (void)args;
  LS_OWN(ls_nest, given) = ls_replica_number() == 0
                               ? LS_TUPLE(ls_nest_f64(1))
                               : LS_TUPLE(ls_nest_f64(1), ls_nest_f64(2));
  return ls_replica_merge_call(ls_replica_context(), merge_one, given, user);
}

TEST(merge_arguments_are_regrouped) {
  LS_SPEC("M152");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  diary d = {.variable = variable_in(strategy, (variable_kind){0})};
  ls_nest_release(run_on(strategy, give_component, ls_none(), &d));
  ls_nest made = ls_none();
  expect_status(
      ls_strategy_run(strategy, ls_plain(give_differing, &d), ls_none(), &made),
      LS_INVALID_ARGUMENT, "a tuple of 2");
  ls_variable_release(d.variable);
}

// ---- Failing ---------------------------------------------------------------
static ls_nest merge_on_one(ls_nest args, void *user) {
  const int which = *(int *)user;
  diary d = {.fails_on = -1};
  (void)args;
  if (ls_replica_number() != which) return ls_none();
  const ls_nest made =
      ls_replica_merge_call(ls_replica_context(), merge_one, ls_none(), &d);
  assert_true(ls_nest_is_failed(made));
  return made;
}

TEST(a_different_number_of_merge_calls_is_refused) {
  LS_SPEC("V176 M153");
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  for (int which = 0; which < 3; ++which) {
    ls_nest made = ls_none();
    expect_status(ls_strategy_run(strategy, ls_plain(merge_on_one, &which),
                                  ls_none(), &made),
                  LS_FAILED_PRECONDITION,
                  "different numbers of merge calls (merge_call)");
  }
}

static ls_nest fail_after_merge(ls_nest args, void *user) {
  diary *d = user;
  const int r = ls_replica_number();
  (void)args;
  note(d, "a", r);
  if (r == d->fails_on) return LS_FAIL(LS_ABORTED, "not today");
  const ls_nest merged =
      ls_replica_merge_call(ls_replica_context(), merge_one, ls_none(), d);
  if (ls_nest_is_failed(merged)) note(d, "stop", r);
  // Whatever it does now does not count, and no merge call works.
  LS_OWN(ls_nest, again) =
      ls_replica_merge_call(ls_replica_context(), merge_one, ls_none(), d);
  assert_true(ls_nest_is_failed(again));
  return merged;
}

TEST(a_failing_replica_stops_all) {
  LS_SPEC("V169 M154 M156");
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  diary d = {.fails_on = 1};
  ls_nest made = ls_nest_f64(8);
  {
    LS_NAME_SCOPE("main");
    const ls_status status = ls_strategy_run(
        strategy, ls_plain(fail_after_merge, &d), ls_none(), &made);
    assert_memory_equal(ls_status_message(status), "not today", 9);
    expect_status(status, LS_ABORTED, "replica 1");
    assert_string_equal(ls_name_scope_current(), "main/");
  }
  // Replica 2 never started; replica 0 was told where it waited.
  assert_string_equal(d.text, "a0 a1 stop0 ");
  assert_true(ls_nest_number(made) == 8);
  assert_false(ls_has_strategy());
  ls_nest_release(run_on(strategy, give_args, ls_none(), NULL));
}

static ls_nest failing_merge(ls_strategy *s, ls_nest args, void *user) {
  (void)s;
  (void)args;
  (void)user;
  return LS_FAIL(LS_DATA_LOSS, "the merge refuses");
}

static ls_nest run_to_fail(ls_nest args, void *user) {
  (void)args;
  diary *d = user;
  const ls_nest made =
      ls_replica_merge_call(ls_replica_context(), failing_merge, ls_none(), d);
  note(d, ls_nest_is_failed(made) ? "stopped" : "went_on", ls_replica_number());
  return made;
}

static ls_nest merge_to_fail(ls_strategy *strategy, ls_nest args, void *user) {
  ls_nest made = ls_none();
  (void)args;
  const ls_status status =
      ls_strategy_run(strategy, ls_plain(run_to_fail, user), ls_none(), &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

static ls_nest nested_to_fail(ls_nest args, void *user) {
  (void)args;
  return ls_replica_merge_call(ls_replica_context(), merge_to_fail, ls_none(),
                               user);
}

TEST(a_failing_merge_stops_all) {
  LS_SPEC("M155 M156");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  diary d = {.fails_on = -1};
  ls_nest made = ls_none();
  expect_status(
      ls_strategy_run(strategy, ls_plain(run_to_fail, &d), ls_none(), &made),
      LS_DATA_LOSS, "the merge refuses");
  assert_string_equal(d.text, "stopped0 stopped1 ");
  d.text[0] = '\0';
  expect_status(
      ls_strategy_run(strategy, ls_plain(nested_to_fail, &d), ls_none(), &made),
      LS_DATA_LOSS, "the merge refuses");
  assert_string_equal(d.text, "stopped0 stopped1 ");
  ls_nest_release(run_on(strategy, give_args, ls_none(), NULL));
}

// ---- Parts of a merge function's result ------------------------------------
static ls_nest merge_some(ls_strategy *strategy, ls_nest args, void *user) {
  (void)strategy, (void)args;
  const ls_nest items[] = {ls_nest_f64(1), ls_nest_f64(2), ls_nest_f64(3)};
  return ls_nest_distributed(LS_PER_REPLICA, items, *(const size_t *)user);
}

static ls_nest take_some(ls_nest args, void *user) {
  (void)args;
  return ls_replica_merge_call(ls_replica_context(), merge_some, ls_none(),
                               user);
}

static void expect_parts(ls_strategy *strategy, ls_callable callable,
                         size_t count) {
  LS_OWN(ls_nest, made) = ls_none();
  const ls_status status =
      ls_strategy_run(strategy, callable, ls_none(), &made);
  if (count == 2)
    expect_ok(status);
  else
    expect_status(status, LS_INVALID_ARGUMENT,
                  "in the result of a merge function");
}

TEST(a_merge_function_returns_a_part_for_each_replica) {
  LS_SPEC("M151");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  for (size_t count = 1; count <= 3; ++count) {
    LS_OWN(ls_function, function) = function_of(take_some, &count);
    expect_parts(strategy, ls_plain(take_some, &count), count);
    // In a trace, replicas have no host scalars of their own.
    if (count != 2) expect_parts(strategy, ls_traced(function), count);
    LS_OWN(ls_graph, graph) = graph_named("g");
    LS_GRAPH_SCOPE(graph);
    expect_parts(strategy, ls_plain(take_some, &count), count);
  }
}

// A merge function's result: the first components are tensors, others none.
typedef struct partial {
  ls_distributed_kind kind;
  size_t count, tensors;
} partial;

static ls_nest merge_partly(ls_strategy *strategy, ls_nest args, void *user) {
  const partial *p = user;
  ls_nest items[3] = {0};
  (void)strategy, (void)args;
  for (size_t i = 0; i < p->tensors; ++i)
    items[i] = ls_leaf(ls_scalar(LS_DTYPE_F32, 1));
  return ls_nest_distributed(p->kind, items, p->count);
}

static ls_nest take_partly(ls_nest args, void *user) {
  (void)args;
  return ls_replica_merge_call(ls_replica_context(), merge_partly, ls_none(),
                               user);
}

TEST(traced_merges_give_all_replicas_tensors_or_none) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  for (size_t tensors = 0; tensors <= 2; ++tensors) {
    partial p = {LS_PER_REPLICA, 2, tensors};
    LS_OWN(ls_function, function) = function_of(take_partly, &p);
    LS_OWN(ls_nest, results) = ls_none();
    const ls_status status =
        ls_strategy_run(strategy, ls_traced(function), ls_none(), &results);
    if (tensors == 1)
      expect_status(status, LS_UNIMPLEMENTED, "component 1 is none");
    else
      expect_ok(status);
  }
  partial more = {LS_MIRRORED, 3, 3};
  LS_OWN(ls_function, function) = function_of(take_partly, &more);
  expect_parts(strategy, ls_plain(take_partly, &more), 3);
  expect_parts(strategy, ls_traced(function), 3);
}

// ---- Order of components
// -----------------------------------------------------
static ls_nest mark_own(ls_nest args, void *user) {
  (void)user;
  const ls_tensor id = ls_convert(ls_replica_id(), LS_DTYPE_F32);
  return ls_leaf(ls_add(first_argument(args), ls_mul_scalar(id, 100)));
}

TEST(every_kind_of_run_finds_parts_by_their_devices) {
  LS_SPEC("M149");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_function, function) = function_of(mark_own, NULL);
  static const char *const devices[] = {"cpu:1", "cpu:0"};
  static const char *const others[] = {"cpu:1", "cpu:3"};
  const ls_nest items[] = {ls_leaf(scalar_of(20)), ls_leaf(scalar_of(10))};
  LS_OWN(ls_nest, args) =
      LS_TUPLE(ls_nest_distributed_on(LS_PER_REPLICA, items, devices, 2),
               ls_nest_i64(1));
  LS_OWN(ls_nest, astray) =
      LS_TUPLE(ls_nest_distributed_on(LS_PER_REPLICA, items, others, 2));
  for (int traced = 0; traced < 2; ++traced) {
    const ls_callable callable =
        traced ? ls_traced(function) : ls_plain(mark_own, NULL);
    LS_OWN(ls_nest, made) = strategy_results(strategy, callable, args);
    expect_numbers(made, (double[]){10, 120}, 2);
    LS_OWN(ls_nest, none) = ls_none();
    expect_status(ls_strategy_run(strategy, callable, astray, &none),
                  LS_INVALID_ARGUMENT, "CPU:0");
  }
}

// A value from around the run, in both ways of looking at it.
static ls_nest use_captured(ls_nest args, void *user) {
  const ls_nest captured = *(const ls_nest *)user;
  (void)args;
  ls_tensor x = ls_failed_tensor();
  ls_nest own = ls_none();
  expect_ok(ls_distributed_as_tensor(captured, &x));
  expect_ok(ls_distributed_get(captured, NULL, &own));
  assert_true(number_of(own) == number_of(ls_leaf(x)));
  return ls_leaf(x);
}

TEST(a_captured_part_is_found_by_its_device_too) {
  LS_SPEC("M149");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  static const char *const devices[] = {"cpu:1", "cpu:0"};
  const ls_nest items[] = {ls_leaf(scalar_of(20)), ls_leaf(scalar_of(10))};
  LS_OWN(ls_nest, value) =
      ls_nest_distributed_on(LS_PER_REPLICA, items, devices, 2);
  LS_OWN(ls_nest, made) = run_on(strategy, use_captured, ls_none(), &value);
  expect_numbers(made, (double[]){10, 20}, 2);
}

// ---- Failures op by op ------------------------------------------------------
typedef enum misstep {
  ASSERTS_ON_ONE,
  ASSIGNS_OTHER_SHAPE,
  ADDS_OTHER_SHAPES,
  LOOKS_FOR_A_TENSOR,
  REDUCES_NO_TENSOR,
} misstep;

typedef struct walk {
  misstep misstep;
  ls_variable *own, *common;
  int handled;
  ls_function *function;
} walk;

static ls_nest misstep_first(ls_nest args, void *user) {
  walk *w = user;
  const ls_tensor two = ls_fill(LS_DTYPE_F32, LS_SHAPE(2), 1);
  if (w->misstep == ASSERTS_ON_ONE)
    ls_assert_true(ls_less(ls_replica_id(), ls_scalar(LS_DTYPE_I32, 1)),
                   "the first replica");
  else if (w->misstep == ASSIGNS_OTHER_SHAPE)
    ls_variable_assign(w->own, two);
  else if (w->misstep == ADDS_OTHER_SHAPES)
    ls_add(two, ls_fill(LS_DTYPE_F32, LS_SHAPE(3), 1));
  else if (w->misstep == LOOKS_FOR_A_TENSOR)
    ls_neg(ls_nest_tensor(args, 0));
  else
    ls_all_reduce(LS_REDUCE_SUM, ls_nest_tensor(args, 0));
  ls_variable_assign(w->own, scalar_of(5));
  ls_variable_assign(w->common, scalar_of(5));
  return ls_none();
}

TEST(the_first_op_that_fails_fails_a_run_op_by_op) {
  static const struct {
    misstep misstep;
    const char *says;
    double own;
  } cases[] = {
      // Replica 0 has written by then.
      {ASSERTS_ON_ONE, "assertion failed: the first replica", 5},
      {ASSIGNS_OTHER_SHAPE, "f32[2]", 0},
      {ADDS_OTHER_SHAPES, "f32[2] and f32[3]", 0},
      {LOOKS_FOR_A_TENSOR, "make it a tensor by ls_tensor_from_array", 0},
      {REDUCES_NO_TENSOR, "make it a tensor by ls_tensor_from_array", 0},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i)
    for (int replicas = 1; replicas <= 3; ++replicas) {
      const bool needs_others = cases[i].misstep == ASSERTS_ON_ONE ||
                                cases[i].misstep == REDUCES_NO_TENSOR;
      if (needs_others && replicas == 1) continue;
      LS_OWN(ls_strategy, strategy) = mirrored_of(replicas);
      LS_OWN(ls_variable, own) = NULL;
      LS_OWN(ls_variable, common) = variable_in(
          strategy, (variable_kind){.aggregation = LS_AGGREGATION_MEAN});
      expect_ok(ls_variable_create(&(ls_variable_options){.name = "own",
                                                          .dtype = LS_DTYPE_F32,
                                                          .shape = LS_SCALAR},
                                   &own));
      walk w = {.misstep = cases[i].misstep, .own = own, .common = common};
      LS_OWN(ls_nest, args) =
          LS_TUPLE(ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(2)));
      LS_OWN(ls_nest, made) = ls_none();
      expect_status(
          ls_strategy_run(strategy, ls_plain(misstep_first, &w), args, &made),
          LS_INVALID_ARGUMENT, cases[i].says);
      LS_OWN(ls_array, value) = NULL;
      expect_ok(ls_variable_value(own, &value));
      assert_true(ls_array_f64(value, 0) == cases[i].own);
      if (replicas > 1)
        expect_components(common, (double[]){0, 0, 0}, (size_t)replicas);
    }
}

static ls_nest handle_refusal(ls_nest args, void *user) {
  walk *w = user;
  (void)args;
  const ls_tensor bad = ls_add(scalar_of(1), ls_scalar(LS_DTYPE_I32, 1));
  expect_status(ls_tensor_status(ls_neg(bad)), LS_INVALID_ARGUMENT, "i32");
  LS_OWN(ls_nest, after) = ls_none();
  const ls_nest two = ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(2), 1));
  const ls_status status =
      ls_variable_write(w->own, LS_WRITE_ASSIGN, two, NULL, &after);
  w->handled += ls_status_code(status) == LS_INVALID_ARGUMENT;
  ls_status_free(status);
  ls_variable_assign(w->own, scalar_of(7));
  return ls_none();
}

TEST(a_failure_that_the_callback_gets_fails_no_run) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, own) = variable_in(strategy, (variable_kind){0});
  walk w = {.own = own};
  ls_nest_release(run_on(strategy, handle_refusal, ls_none(), &w));
  assert_int_equal(w.handled, 2);
  expect_components(own, (double[]){7, 7}, 2);
}

static ls_nest add_one(ls_nest args, void *user) {
  const walk *w = user;
  (void)args;
  return ls_leaf(ls_variable_assign_add(w->own, ls_scalar(LS_DTYPE_F32, 1)));
}

// Writes after a failure that nobody reads, also in a function, and drops the
// status of a write.
static ls_nest write_after_failure(ls_nest args, void *user) {
  const walk *w = user;
  (void)args;
  ls_add(scalar_of(1), ls_scalar(LS_DTYPE_I32, 1));
  ls_variable_assign_sub(w->own, scalar_of(5));
  LS_OWN(ls_nest, after) = ls_none();
  expect_status(
      ls_variable_write(w->own, LS_WRITE_ASSIGN, ls_nest_f64(9), NULL, &after),
      LS_INVALID_ARGUMENT, "not run, as an earlier op failed: add");
  if (w->function != NULL)
    expect_status(ls_function_call(w->function, ls_none(), &after),
                  LS_INVALID_ARGUMENT, "not run, as an earlier op failed: add");
  return ls_none();
}

TEST(a_refused_write_does_not_hide_the_first_failure) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  for (int mirrored = 0; mirrored < 2; ++mirrored) {
    LS_OWN(ls_variable, plain) = NULL;
    LS_OWN(ls_variable, own) = variable_in(strategy, (variable_kind){0});
    expect_ok(ls_variable_create(
        &(ls_variable_options){.dtype = LS_DTYPE_F32, .shape = LS_SCALAR},
        &plain));
    walk w = {.own = mirrored ? own : plain};
    LS_OWN(ls_function, function) = function_of(add_one, &w);
    if (!mirrored) w.function = function;
    LS_OWN(ls_nest, made) = ls_none();
    LS_OWN(ls_status, status) = ls_strategy_run(
        strategy, ls_plain(write_after_failure, &w), ls_none(), &made);
    assert_int_equal(ls_status_code(status), LS_INVALID_ARGUMENT);
    expect_contains(ls_status_message(status), "add of f32[] and i32[]");
    assert_null(strstr(ls_status_message(status), "assign"));
    expect_components(own, (double[]){0, 0}, 2);
    LS_OWN(ls_array, value) = NULL;
    expect_ok(ls_variable_value(plain, &value));
    assert_true(ls_array_f64(value, 0) == 0);
  }
}

static ls_nest assert_in_merge(ls_strategy *strategy, ls_nest args,
                               void *user) {
  (void)strategy, (void)args, (void)user;
  ls_assert_true(ls_less(scalar_of(2), scalar_of(1)), "two below one");
  return ls_none();
}

static ls_nest merge_to_assert(ls_nest args, void *user) {
  (void)args, (void)user;
  return ls_replica_merge_call(ls_replica_context(), assert_in_merge, ls_none(),
                               NULL);
}

TEST(an_assertion_in_a_merge_function_fails_the_run) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_nest, made) = ls_none();
  expect_status(ls_strategy_run(strategy, ls_plain(merge_to_assert, NULL),
                                ls_none(), &made),
                LS_INVALID_ARGUMENT, "two below one");
}
