// SPDX-License-Identifier: Apache-2.0
// Merge calls in compiled steps.
#include <math.h>
#include <string.h>

#include "distribute/own.h"
#include "lockstep/function_plan.h"
#include "lockstep/gradients.h"
#include "lockstep/strategy_extended.h"
#include "support/callbacks.h"
#include "support/function.h"
#include "support/place.h"
#include "support/replicas.h"
#include "support/values.h"

static ls_nest rows_of(int replicas, int64_t rows) {
  return LS_TUPLE(
      split_of(replicas, array_of_numbers(LS_DTYPE_F32, LS_SHAPE(rows, 3), 5)));
}

static const ls_array *part(ls_nest value, size_t replica) {
  return ls_nest_as_array(ls_distributed_count(value) == 0
                              ? value
                              : ls_distributed_component(value, replica));
}

// Two runs, as the second one finds the trace.
static ls_nest run_rows(int replicas, int64_t rows, ls_callback callback,
                        void *user) {
  LS_OWN(ls_nest, args) = rows_of(replicas, rows);
  return call_on(replicas, callback, user, args, 2);
}

// ---- Values ----------------------------------------------------------------
// Gives the sum over replicas to all, and to each what the next one has.
static ls_nest sum_and_turn(ls_strategy *strategy, ls_nest args, void *user) {
  int *calls = user;
  ++*calls;
  assert_true(ls_in_cross_replica_context());
  ls_nest sum = {0};
  const ls_nest value = ls_nest_item(args, 0);
  ls_status status = ls_strategy_reduce(strategy, LS_REDUCE_SUM, value, &sum);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  assert_true(ls_nest_number(ls_nest_item(args, 1)) == 5);
  ls_nest items[8];
  const size_t count = ls_distributed_count(value);
  for (size_t r = 0; r < count; ++r)
    items[r] = ls_nest_retain(ls_distributed_component(value, (r + 1) % count));
  return LS_TUPLE(sum, ls_nest_distributed(LS_PER_REPLICA, items, count),
                  ls_nest_retain(ls_nest_item(args, 1)));
}

// Forward values from before the merge are used after it.
static ls_nest merge_in_the_middle(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor before = ls_reduce_sum(ls_mul_scalar(x, 2), LS_AXES(0));
  LS_OWN(ls_nest, own) = LS_TUPLE(ls_leaf(before), ls_nest_i64(5));
  const ls_nest merged =
      ls_replica_merge_call(ls_replica_context(), sum_and_turn, own, user);
  if (ls_nest_is_failed(merged)) return merged;
  const ls_tensor sum = ls_nest_tensor(merged, 0);
  const ls_tensor next = ls_nest_tensor(merged, 1);
  assert_true(ls_nest_number(ls_nest_item(merged, 2)) == 5);
  const ls_nest result = LS_TUPLE(ls_leaf(ls_add(before, sum)), ls_leaf(next),
                                  ls_leaf(ls_add(ls_mul(x, sum), next)));
  ls_nest_release(merged);
  return result;
}

static void expect_middle(ls_nest got, int replicas, int64_t rows) {
  LS_OWN(ls_array, x) = array_of_numbers(LS_DTYPE_F32, LS_SHAPE(rows, 3), 5);
  double own[8][3] = {{0}}, sum[3] = {0};
  int64_t row = 0;
  for (int r = 0; r < replicas; ++r) {
    const int64_t count = rows / replicas + (r < rows % replicas);
    for (int64_t i = 0; i < count; ++i, ++row)
      for (int k = 0; k < 3; ++k) {
        own[r][k] += 2 * ls_array_f64(x, row * 3 + k);
        sum[k] += 2 * ls_array_f64(x, row * 3 + k);
      }
  }
  row = 0;
  for (int r = 0; r < replicas; ++r) {
    const int64_t count = rows / replicas + (r < rows % replicas);
    const ls_array *last = part(ls_nest_item(got, 2), (size_t)r);
    for (int k = 0; k < 3; ++k) {
      const double next = own[(r + 1) % replicas][k];
      assert_true(fabs(ls_array_f64(part(ls_nest_item(got, 0), (size_t)r), k) -
                       own[r][k] - sum[k]) < 1e-4);
      assert_true(fabs(ls_array_f64(part(ls_nest_item(got, 1), (size_t)r), k) -
                       next) < 1e-4);
      for (int64_t i = 0; i < count; ++i)
        assert_true(fabs(ls_array_f64(last, i * 3 + k) -
                         ls_array_f64(x, (row + i) * 3 + k) * sum[k] - next) <
                    1e-4);
    }
    row += count;
  }
}

TEST(replicas_merge_and_go_on) {
  LS_SPEC("M151 M152");
  for (int replicas = 2; replicas <= 8; ++replicas)
    for (int64_t rows = 1; rows <= 9; rows += 2) {
      int calls = 0;
      LS_OWN(ls_nest, got) =
          run_rows(replicas, rows, merge_in_the_middle, &calls);
      assert_int_equal(calls, 1);  // Traced once, for all.
      expect_middle(got, replicas, rows);
    }
}

// Compiled and op by op give the same bits.
TEST(compiled_merges_give_the_bits_of_others) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(5);
  int calls = 0;
  expect_ok(ls_frame_begin());
  const ls_nest compiled = run_rows(5, 10, merge_in_the_middle, &calls);
  const ls_nest args = rows_of(5, 10);
  ls_nest tensors[5];
  for (size_t r = 0; r < 5; ++r)
    tensors[r] = ls_leaf(ls_constant(
        ls_nest_as_array(ls_distributed_component(ls_nest_item(args, 0), r))));
  const ls_nest eager_args =
      LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, tensors, 5));
  const ls_nest plain =
      run_on(strategy, merge_in_the_middle, eager_args, &calls);
  for (size_t leaf = 0; leaf < 3; ++leaf)
    for (size_t r = 0; r < 5; ++r) {
      const ls_nest value = ls_nest_item(plain, leaf);
      LS_OWN(ls_array, array) =
          tensor_array(ls_distributed_component(value, r).as.tensor);
      const ls_array *other = part(ls_nest_item(compiled, leaf), r);
      assert_int_equal(ls_array_size(array), ls_array_size(other));
      assert_memory_equal(ls_array_data(array), ls_array_data(other),
                          ls_array_size(array));
    }
  ls_nest_release(plain);
  ls_nest_release(eager_args);
  ls_nest_release(args);
  ls_nest_release(compiled);
  expect_ok(ls_frame_end(NULL));
}

// ---- Rounds, effects -------------------------------------------------------
typedef struct world {
  ls_variable *total;
  int merges, prints;
} world;

static ls_nest add_to_total(ls_strategy *strategy, ls_nest args, void *user) {
  world *w = user;
  ++w->merges;
  ls_nest sum = {0};
  const ls_status status =
      ls_strategy_reduce(strategy, LS_REDUCE_SUM, args, &sum);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  ls_print("total grows", sum.as.tensor);
  ls_variable_assign_add(w->total, sum.as.tensor);
  return ls_leaf(ls_variable_read(w->total));
}

static ls_nest merge_three_times(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  ls_tensor value = ls_reduce_sum(x, LS_ALL_AXES);
  for (int i = 0; i < 3; ++i) {
    const ls_nest total = ls_replica_merge_call(
        ls_replica_context(), add_to_total, ls_leaf(value), user);
    if (ls_nest_is_failed(total)) return total;
    value = ls_mul_scalar(ls_add(value, total.as.tensor), 0.25);
  }
  return ls_leaf(value);
}

static void count_lines(void *user, const ls_log_line *line) {
  world *w = user;
  w->prints += strstr(line->text, "total grows") != NULL;
}

TEST(effects_of_a_merge_happen_once) {
  LS_SPEC("M151");
  double last[2] = {0};
  for (int i = 0; i < 2; ++i) {
    world w = {0};
    LS_OWN(open_place, home) =
        runtime_begin((ls_runtime_options){.log = count_lines, .log_user = &w});
    LS_OWN(ls_strategy, strategy) = mirrored_of(4);
    w.total = variable_in(strategy, (variable_kind){.name = "total"});
    LS_OWN(ls_function, f) = unnamed_function(merge_three_times, &w);
    LS_OWN(ls_nest, args) = rows_of(4, i == 0 ? 8 : 7);
    LS_OWN(ls_nest, result) = {0};
    for (int run = 0; run < 2; ++run)
      expect_ok(ls_strategy_run(strategy, ls_traced(f), args, &result));
    assert_int_equal(w.merges, 3 * (int)ls_function_num_traces(f));
    assert_int_equal(w.prints, 6);
    LS_OWN(ls_array, value) = variable_array(w.total);
    last[i] = ls_array_f64(value, 0);
    assert_true(isfinite(last[i]));
    ls_variable_release(w.total);
  }
  assert_true(last[0] != 0);
}

// ---- Gradients -------------------------------------------------------------
static ls_nest double_all(ls_strategy *strategy, ls_nest args, void *user) {
  (void)user;
  ls_nest sum = {0};
  const ls_status status =
      ls_strategy_reduce(strategy, LS_REDUCE_SUM, args, &sum);
  return ls_status_is_ok(status) ? sum : ls_fail(status);
}

// The gradient of what was computed before a merge, asked for behind it.
static ls_nest gradient_around(ls_nest args, void *user) {
  const bool through = *(const bool *)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor loss = ls_reduce_sum(ls_mul(x, x), LS_ALL_AXES);
  const ls_nest merged = ls_replica_merge_call(ls_replica_context(), double_all,
                                               ls_leaf(loss), NULL);
  if (ls_nest_is_failed(merged)) return merged;
  const ls_nest y = through ? merged : ls_leaf(loss), leaf = ls_leaf(x);
  ls_nest gradient = {0};
  const ls_status status = ls_gradients(&y, 1, &leaf, 1, NULL, &gradient);
  return ls_status_is_ok(status) ? LS_TUPLE(gradient, ls_nest_retain(merged))
                                 : ls_fail(status);
}

TEST(gradients_pass_beside_a_merge) {
  bool through = false;
  LS_OWN(ls_nest, got) = run_rows(2, 4, gradient_around, &through);
  LS_OWN(ls_array, x) = array_of_numbers(LS_DTYPE_F32, LS_SHAPE(4, 3), 5);
  for (size_t r = 0; r < 2; ++r)
    for (int64_t i = 0; i < 6; ++i)
      assert_true(fabs(ls_array_f64(part(ls_nest_item(got, 0), r), i) -
                       2 * ls_array_f64(x, (int64_t)r * 6 + i)) < 1e-6);
}

// ---- Refusals --------------------------------------------------------------
static void expect_refused(ls_callback callback, void *user, ls_code code,
                           const char *part_of_message) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  LS_OWN(ls_function, f) = unnamed_function(callback, user);
  LS_OWN(ls_nest, args) = rows_of(3, 6);
  ls_nest result = {0};
  expect_status(ls_strategy_run(strategy, ls_traced(f), args, &result), code,
                part_of_message);
  // The strategy goes on.
  assert_int_equal(ls_replica_number(), 0);
}

// What is read in a branch cannot be read again for a gradient.
typedef struct choice {
  ls_variable *variable;
  ls_tensor x;
} choice;

static ls_nest times_variable(ls_nest args, void *user) {
  const choice *c = user;
  (void)args;
  return ls_leaf(ls_mul(c->x, ls_variable_read(c->variable)));
}

static ls_nest as_it_is(ls_nest args, void *user) {
  const choice *c = user;
  (void)args;
  return ls_leaf(c->x);
}

static ls_nest choose(ls_strategy *strategy, ls_nest args, void *user) {
  const ls_nest sum = double_all(strategy, args, NULL);
  if (ls_nest_is_failed(sum)) return sum;
  choice c = {.variable = user};
  expect_ok(ls_distributed_as_tensor(sum, &c.x));
  ls_nest_release(sum);
  return ls_cond(ls_greater(c.x, ls_scalar(LS_DTYPE_F32, 0)), times_variable,
                 as_it_is, &c);
}

static ls_nest gradient_past_branch(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_nest loss = ls_leaf(ls_reduce_sum(x, LS_ALL_AXES));
  const ls_nest y =
      ls_replica_merge_call(ls_replica_context(), choose, loss, user);
  if (ls_nest_is_failed(y)) return y;
  const ls_nest leaf = ls_leaf(x);
  ls_nest gradient = {0};
  const ls_status status = ls_gradients(&y, 1, &leaf, 1, NULL, &gradient);
  return ls_status_is_ok(status) ? gradient : ls_fail(status);
}

TEST(a_gradient_does_not_read_a_variable_again) {
  LS_OWN(ls_variable, variable) = NULL;
  ls_array *one = array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){1});
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "factor", .initial_array = one},
      &variable));
  ls_array_release(one);
  expect_refused(gradient_past_branch, variable, LS_NOT_FOUND,
                 "cannot be computed again");
}

static ls_nest some_merge(ls_nest args, void *user) {
  const int waits = *(const int *)user;
  const bool early = ls_replica_number() == 1;
  if (early != (waits != 0)) return ls_nest_retain(ls_nest_item(args, 0));
  const ls_nest merged =
      ls_replica_merge_call(ls_replica_context(), merge_none, ls_none(), NULL);
  if (!ls_nest_is_failed(merged)) return ls_nest_retain(ls_nest_item(args, 0));
  return merged;
}

TEST(other_numbers_of_merges_are_refused) {
  LS_SPEC("M153 M156");
  int waits = 0;
  expect_refused(some_merge, &waits, LS_FAILED_PRECONDITION,
                 "different numbers of merge calls");
  waits = 1;
  expect_refused(some_merge, &waits, LS_FAILED_PRECONDITION,
                 "different numbers of merge calls");
}

static ls_nest fail_in_merge(ls_strategy *strategy, ls_nest args, void *user) {
  (void)strategy;
  (void)args;
  (void)user;
  return LS_FAIL(LS_ABORTED, "no merging today");
}

static ls_nest merge_that_fails(ls_nest args, void *user) {
  (void)args;
  int *told = user;
  const ls_nest merged = ls_replica_merge_call(ls_replica_context(),
                                               fail_in_merge, ls_none(), NULL);
  assert_true(ls_nest_is_failed(merged));
  ++*told;
  return merged;
}

TEST(a_failing_merge_ends_all_replicas) {
  LS_SPEC("M155 M156");
  int told = 0;
  expect_refused(merge_that_fails, &told, LS_ABORTED, "no merging today");
  assert_int_equal(told, 3);
}

static ls_nest use_a_replicas_value(ls_strategy *strategy, ls_nest args,
                                    void *user) {
  (void)strategy;
  (void)args;
  return ls_leaf(ls_neg(*(const ls_tensor *)user));
}

static ls_nest smuggle(ls_nest args, void *user) {
  ls_tensor *x = user;
  const ls_tensor own = ls_neg(ls_nest_tensor(args, 0));
  if (ls_replica_number() == 0) *x = own;
  return ls_replica_merge_call(ls_replica_context(), use_a_replicas_value,
                               ls_none(), x);
}

TEST(a_merge_sees_arguments_only) {
  ls_tensor x = {0};
  expect_refused(smuggle, &x, LS_INVALID_ARGUMENT, "of the merge");
}

static ls_nest loop_once(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(
      ls_less(ls_nest_tensor(values, 0), ls_scalar_i64(LS_DTYPE_I64, 1)));
}

static ls_nest merge_in_body(ls_nest values, void *user) {
  (void)values;
  (void)user;
  return ls_replica_merge_call(ls_replica_context(), merge_none, ls_none(),
                               NULL);
}

static ls_nest merge_in_loop(ls_nest args, void *user) {
  (void)args;
  return ls_while(loop_once, merge_in_body, user,
                  LS_TUPLE(ls_leaf(ls_scalar_i64(LS_DTYPE_I64, 0))), 0);
}

TEST(merges_in_loops_are_refused) {
  LS_SPEC("V177 M157");
  expect_refused(merge_in_loop, NULL, LS_FAILED_PRECONDITION, "control flow");
}
