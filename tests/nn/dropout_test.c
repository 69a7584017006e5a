// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>

#include "lockstep/gradients.h"
#include "lockstep/layers.h"
#include "lockstep/session.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/values.h"

enum { SIZE = 10000 };

typedef struct problem {
  double rate;
  bool training;
} problem;

// Two dropouts of ones, and the gradient of the first's sum.
static ls_nest drop(ls_nest args, void *user) {
  const problem *p = user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_nest first = ls_leaf(ls_dropout(x, p->rate, p->training, NULL));
  const ls_tensor second = ls_dropout(x, p->rate, p->training, NULL);
  const ls_nest from = ls_leaf(x);
  ls_nest gradient = ls_none();
  const ls_status status = ls_gradients(&first, 1, &from, 1, NULL, &gradient);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  return LS_TUPLE(first, ls_leaf(second), gradient);
}

static ls_array *ones(int64_t count) {
  ls_array *array = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(count), &array));
  for (int64_t i = 0; i < count; ++i)
    ls_array_set_f64(array, i, 1);
  return array;
}

static double at(ls_nest result, size_t item, int64_t i) {
  return ls_array_f64(ls_nest_as_array(ls_nest_item(result, item)), i);
}

TEST(dropped_elements_are_zero_and_the_mean_stays) {
  problem p = {.rate = 0.25, .training = true};
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_array(ones(SIZE)));
  LS_OWN(ls_nest, got) = call_on(1, drop, &p, args, 1);
  int dropped = 0, differ = 0;
  for (int64_t i = 0; i < SIZE; ++i) {
    const double value = at(got, 0, i);
    assert_true(value == 0 || fabs(value - 4.0 / 3) < 1e-6);
    // The gradient goes where the value went.
    assert_true(at(got, 2, i) == value);
    dropped += value == 0;
    differ += at(got, 1, i) != value;
  }
  // Five standard deviations.
  assert_true(abs(dropped - SIZE / 4) < 5 * 44);
  assert_true(differ > SIZE / 4);
}

TEST(each_step_and_replica_drops_others) {
  problem p = {.rate = 0.5, .training = true};
  LS_OWN(ls_nest, args) = LS_TUPLE(split_of(2, ones(2 * SIZE)));
  LS_OWN(ls_nest, once) = call_on(2, drop, &p, args, 1);
  LS_OWN(ls_nest, twice) = call_on(2, drop, &p, args, 2);
  const ls_nest a = ls_nest_item(once, 0), b = ls_nest_item(twice, 0);
  int replicas = 0, steps = 0;
  for (int64_t i = 0; i < SIZE; ++i) {
    const double value =
        ls_array_f64(ls_nest_as_array(ls_distributed_component(a, 0)), i);
    replicas +=
        value !=
        ls_array_f64(ls_nest_as_array(ls_distributed_component(a, 1)), i);
    steps += value !=
             ls_array_f64(ls_nest_as_array(ls_distributed_component(b, 0)), i);
  }
  assert_true(abs(replicas - SIZE / 2) < 5 * 50);
  assert_true(abs(steps - SIZE / 2) < 5 * 50);
}

TEST(outside_training_nothing_is_dropped) {
  problem p = {.rate = 0.5};
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_array(ones(8)));
  LS_OWN(ls_nest, got) = call_on(1, drop, &p, args, 1);
  for (int64_t i = 0; i < 8; ++i)
    assert_true(at(got, 0, i) == 1 && at(got, 2, i) == 1);
}

// The sizes come with each run.
TEST(a_session_may_feed_any_number_of_rows) {
  ls_tensor x = {0}, y = {0};
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    x = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(-1), "x");
    y = ls_dropout(x, 0.5, true, NULL);
  }
  expect_ok(ls_graph_error(graph));
  LS_OWN(ls_session, session) = session_of(graph);
  for (int64_t count = 100; count <= 200; count += 100) {
    LS_OWN(ls_array, value) = ones(count);
    const ls_feed feed = {x, value};
    LS_OWN(ls_nest, result) = {0};
    expect_ok(ls_session_run(session, ls_leaf(y), &feed, 1, &result));
    const ls_array *got = ls_nest_as_array(result);
    assert_int_equal(ls_array_num_elements(got), count);
    int64_t dropped = 0;
    for (int64_t i = 0; i < count; ++i)
      dropped += ls_array_f64(got, i) == 0;
    assert_true(dropped > count / 4 && dropped < count * 3 / 4);
  }
}

TEST(rates_that_cannot_be_are_refused) {
  const double one = 1;
  expect_ok(ls_frame_begin());
  const ls_tensor x = eager_of(LS_DTYPE_F32, LS_SCALAR, &one);
  expect_status(ls_tensor_status(ls_dropout(x, 1, true, NULL)),
                LS_INVALID_ARGUMENT, "the rate must be from 0 to below 1");
  expect_status(ls_tensor_status(ls_dropout(x, (double)NAN, false, NULL)),
                LS_INVALID_ARGUMENT, "the rate must be from 0 to below 1");
  expect_ok(ls_frame_end(NULL));
}
