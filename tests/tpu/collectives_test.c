// SPDX-License-Identifier: Apache-2.0
//
// Collectives of replicated computations, and what they refuse.
#include "lockstep/cross_replica.h"

#include <stdio.h>
#include <string.h>

#include "lockstep/gradients.h"
#include "lockstep/graph_ops.h"
#include "lockstep/replicate.h"
#include "lockstep/session.h"
#include "lockstep/strategy_extended.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/placed.h"
#include "support/spec.h"
#include "support/tpu_ways.h"
#include "support/values.h"

enum { REPLICAS = 4, WIDTH = 4 };

static const int32_t pairs_of[] = {0, 2, 1, 3};
static const ls_replica_groups pairs_groups = {pairs_of, 2, 2};

// ---- Running ---------------------------------------------------------------
// Replica r's x: 10 r + 0 to 10 r + 3.
static ls_nest inputs(void) {
  ls_nest each[REPLICAS];
  for (int r = 0; r < REPLICAS; ++r) {
    double x[WIDTH];
    for (int i = 0; i < WIDTH; ++i)
      x[i] = 10.0 * r + i;
    LS_OWN(ls_array, array) = array_of(LS_DTYPE_F32, LS_SHAPE(WIDTH), x);
    each[r] = LS_LIST(ls_leaf(ls_constant(array)));
  }
  return ls_nest_sequence(LS_KIND_LIST, each, REPLICAS);
}

// What `fn` gives on each replica, [replica][WIDTH].
static void run(ls_callback fn, double got[REPLICAS][WIDTH]) {
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_OWN(ls_session, session) = NULL;
  LS_OWN(ls_nest, outputs) = ls_none();
  {
    LS_GRAPH_SCOPE(graph);
    LS_OWN(ls_nest, in) = inputs();
    expect_ok(ls_replicate(fn, NULL, in, NULL, &outputs));
  }
  expect_ok(ls_graph_verify(graph));
  expect_ok(ls_session_create(graph, &session));
  LS_OWN(ls_nest, results) = session_results(session, outputs);
  for (size_t r = 0; r < REPLICAS; ++r) {
    const ls_array *array =
        ls_nest_as_array(ls_nest_item(ls_nest_item(results, r), 0));
    assert_int_equal(ls_array_num_elements(array), WIDTH);
    for (int i = 0; i < WIDTH; ++i)
      got[r][i] = ls_array_f64(array, i);
  }
}

// The computation is refused with this text.
static void expect_refused(ls_callback fn, const void *user, const char *says) {
  ls_nest outputs = ls_none();
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    LS_OWN(ls_nest, in) = inputs();
    expect_status(ls_replicate(fn, (void *)(uintptr_t)user, in, NULL, &outputs),
                  LS_INVALID_ARGUMENT, says);
  }
}

// ---- Sums ------------------------------------------------------------------
static ls_nest sum_all(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_cross_replica_sum(ls_nest_tensor(args, 0), NULL));
}

static ls_nest sum_pairs(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_cross_replica_sum(ls_nest_tensor(args, 0), &pairs_groups));
}

TEST(a_sum_is_of_the_replicas_group) {
  LS_SPEC("O130 O131");
  double got[REPLICAS][WIDTH];
  run(sum_all, got);
  for (int r = 0; r < REPLICAS; ++r)
    for (int i = 0; i < WIDTH; ++i)
      assert_true(got[r][i] == 60 + 4.0 * i);
  run(sum_pairs, got);
  for (int r = 0; r < REPLICAS; ++r)
    for (int i = 0; i < WIDTH; ++i)
      assert_true(got[r][i] == (r % 2 == 0 ? 20 : 40) + 2.0 * i);
}

// d sum_i w_i sum_group(x)_i / dx, with weights of the replica: the sum of the
// group's weights.
static ls_nest gradient_of_sum(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor weight = ls_convert(
      ls_add(ls_replica_id(), ls_scalar(LS_DTYPE_I32, 1)), LS_DTYPE_F32);
  const ls_tensor y = ls_mul(ls_cross_replica_sum(x, user), weight);
  const ls_nest xs = ls_leaf(x), ys = ls_leaf(y);
  ls_nest gradient = ls_none();
  const ls_status status = ls_gradients(&ys, 1, &xs, 1, NULL, &gradient);
  return ls_status_is_ok(status) ? gradient : ls_fail(status);
}

static ls_nest gradient_of_all(ls_nest args, void *user) {
  (void)user;
  return gradient_of_sum(args, NULL);
}

static ls_nest gradient_of_pairs(ls_nest args, void *user) {
  (void)user;
  return gradient_of_sum(args, (void *)(uintptr_t)&pairs_groups);
}

TEST(the_gradient_of_a_sum_is_the_sum_of_gradients) {
  LS_SPEC("O131");
  double got[REPLICAS][WIDTH];
  run(gradient_of_all, got);
  for (int r = 0; r < REPLICAS; ++r)
    assert_true(got[r][0] == 10);
  run(gradient_of_pairs, got);
  for (int r = 0; r < REPLICAS; ++r)
    assert_true(got[r][0] == (r % 2 == 0 ? 4 : 6));
}

static ls_nest sum_flags(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  return ls_leaf(ls_cross_replica_sum(ls_greater(x, x), NULL));
}

TEST(what_is_no_number_is_not_added) {
  LS_SPEC("O131");
  expect_refused(sum_flags, NULL, "cross_replica_sum of bool");
}

TEST(outside_of_a_computation_replica_0_is_alone) {
  LS_SPEC("O130");
  LS_OWN_BEGUN(logged_runtime, logged, logged_runtime_begin);
  LS_OWN(ls_graph, graph) = graph_named("g");
  ls_tensor sum = {0};
  {
    LS_GRAPH_SCOPE(graph);
    sum = ls_cross_replica_sum(ls_scalar(LS_DTYPE_F32, 3), NULL);
  }
  assert_int_equal(count_logged(&logged, "replica 0 alone"), 1);
  LS_OWN(ls_session, session) = session_of(graph);
  LS_OWN(ls_nest, result) = session_results(session, ls_leaf(sum));
  assert_true(ls_nest_number(result) == 3);
}

// ---- Groups ----------------------------------------------------------------
static ls_nest sum_in(ls_nest args, void *user) {
  return ls_leaf(ls_cross_replica_sum(ls_nest_tensor(args, 0), user));
}

TEST(groups_are_a_partition) {
  LS_SPEC("O135");
  const struct {
    int32_t members[4];
    size_t size, count;
    const char *says;
  } cases[] = {
      {{0, 1, 2, 4},
       2,
       2,
       "replica 4 is in a group; there are replicas 0 to 3"},
      {{0, 1, 1, 3}, 2, 2, "replica 1 is in two groups"},
      {{0, 1}, 2, 1, "replica 2 is in no group"},
      {{0}, 0, 0, "groups of 0 members"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); ++i)
    expect_refused(
        sum_in,
        &(ls_replica_groups){cases[i].members, cases[i].size, cases[i].count},
        cases[i].says);
}

// ---- Exchanges -------------------------------------------------------------
static ls_nest exchange_all(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(
      ls_cross_replica_all_to_all(ls_nest_tensor(args, 0), 0, 0, 4, NULL));
}

static ls_nest exchange_pairs(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_cross_replica_all_to_all(ls_nest_tensor(args, 0), 0, 0, 2,
                                             &pairs_groups));
}

TEST(parts_go_to_the_members_of_a_group) {
  LS_SPEC("O132");
  double got[REPLICAS][WIDTH];
  run(exchange_all, got);
  for (int r = 0; r < REPLICAS; ++r)
    for (int i = 0; i < WIDTH; ++i)
      assert_true(got[r][i] == 10.0 * i + r);
  run(exchange_pairs, got);
  for (int r = 0; r < REPLICAS; ++r) {
    const int place = r / 2, first = r % 2;
    for (int i = 0; i < WIDTH; ++i)
      assert_true(got[r][i] ==
                  10.0 * (first + 2 * (i / 2)) + place * 2 + i % 2);
  }
}

typedef struct exchange_case {
  int concat_axis, split_axis;
  int64_t split_count;
  bool in_pairs;
  const char *says;
} exchange_case;

static ls_nest exchange_as(ls_nest args, void *user) {
  const exchange_case *c = user;
  return ls_leaf(ls_cross_replica_all_to_all(
      ls_nest_tensor(args, 0), c->concat_axis, c->split_axis, c->split_count,
      c->in_pairs ? &pairs_groups : NULL));
}

static ls_nest exchange_three(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_cross_replica_all_to_all(
      ls_slice_axis(ls_nest_tensor(args, 0), 0, 0, 3), 0, 0, 4, NULL));
}

TEST(exchanges_that_cannot_be_are_refused_with_their_numbers) {
  LS_SPEC("O133");
  const exchange_case cases[] = {
      {0, 0, 0, false, "split count 0 is less than 1"},
      {0, 0, 3, true, "split count 3 for groups of 2 members"},
      {1, 0, 4, false, "concat axis 1 of a value of rank 1"},
      {0, -1, 4, false, "split axis -1 of a value of rank 1"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); ++i)
    expect_refused(exchange_as, &cases[i], cases[i].says);
  expect_refused(exchange_three, NULL,
                 "dimension 0 of size 3 cannot be split into 4 parts");
}

static ls_nest permute(ls_nest args, void *user) {
  (void)user;
  static const int32_t pairs[][2] = {{0, 3}, {3, 1}};
  return ls_leaf(ls_cross_replica_permute(ls_nest_tensor(args, 0), pairs, 2));
}

static ls_nest permute_twice(ls_nest args, void *user) {
  (void)user;
  static const int32_t pairs[][2] = {{0, 3}, {0, 1}};
  return ls_leaf(ls_cross_replica_permute(ls_nest_tensor(args, 0), pairs, 2));
}

static ls_nest gradient_of_permute(ls_nest args, void *user) {
  (void)user;
  static const int32_t pairs[][2] = {{0, 3}, {3, 1}};
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor weight = ls_convert(ls_replica_id(), LS_DTYPE_F32);
  const ls_tensor y = ls_mul(ls_cross_replica_permute(x, pairs, 2), weight);
  const ls_nest xs = ls_leaf(x), ys = ls_leaf(y);
  ls_nest gradient = ls_none();
  const ls_status status = ls_gradients(&ys, 1, &xs, 1, NULL, &gradient);
  return ls_status_is_ok(status) ? gradient : ls_fail(status);
}

TEST(a_target_gets_its_sources_value) {
  LS_SPEC("O134");
  double got[REPLICAS][WIDTH];
  run(permute, got);
  for (int i = 0; i < WIDTH; ++i) {
    assert_true(got[0][i] == 0);
    assert_true(got[1][i] == 30 + i);
    assert_true(got[2][i] == 0);
    assert_true(got[3][i] == i);
  }
  run(gradient_of_permute, got);
  assert_true(got[0][0] == 3);
  assert_true(got[1][0] == 0);
  assert_true(got[2][0] == 0);
  assert_true(got[3][0] == 1);
  expect_refused(permute_twice, NULL, "replica 0 to 1");
}

// ---- Outside ---------------------------------------------------------------
static ls_tensor reduce_all(ls_tensor x) {
  return ls_all_reduce(LS_REDUCE_SUM, x);
}

static ls_tensor cross_sum(ls_tensor x) {
  return ls_cross_replica_sum(x, NULL);
}

static ls_nest gradient_alone(ls_nest args, void *user) {
  const ls_nest y = ls_nest_item(args, 0), x = ls_nest_item(args, 1);
  ls_nest gradient = ls_none();
  (void)user;
  const ls_status status = ls_gradients(&y, 1, &x, 1, NULL, &gradient);
  return ls_status_is_ok(status) ? gradient : ls_fail(status);
}

static ls_nest gradient_outside(ls_nest args, void *user) {
  ls_tensor (*const *collective)(ls_tensor) = user;
  ls_tensor x = ls_failed_tensor();
  expect_ok(ls_distributed_as_tensor(ls_nest_item(args, 0), &x));
  const ls_tensor y = ls_square((*collective)(x));
  LS_OWN(ls_nest, both) = LS_LIST(ls_leaf(y), ls_leaf(x));
  return ls_outside_compilation(gradient_alone, NULL, both);
}

TEST(no_gradient_of_a_collective_runs_outside) {
  static const double numbers[] = {1, 2};
  static ls_tensor (*const collectives[])(ls_tensor) = {reduce_all, cross_sum};
  for (size_t i = 0; i < LS_COUNT_OF(collectives); ++i) {
    const tpu_step step = {.fn = gradient_outside,
                           .user = (void *)(uintptr_t)&collectives[i],
                           .numbers = numbers};
    tpu_run_refused(&step, 2, LS_INVALID_ARGUMENT, "collectives run on cores");
  }
}
