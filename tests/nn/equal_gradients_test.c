// SPDX-License-Identifier: Apache-2.0
// A step that trains on the same examples on all replicas is warned of.
#include "support/counted.h"
#include "support/expect.h"

#include <stdio.h>

#include "base/memory/own.h"
#include "lockstep/bag.h"
#include "lockstep/function_plan.h"
#include "lockstep/runtime.h"
#include "support/replicas.h"

enum { ROWS = 8, WIDTH = 3 };

// How a step of these tests comes to differ between replicas, if it does.
typedef enum difference {
  NOTHING,
  REPLICA_ID,
  RANDOM_EXAMPLES,
  NOISE,
} difference;

typedef struct world {
  ls_bag bag;
  ls_runtime *runtime, *before;
  int warnings;
  char text[600];
  ls_strategy *strategy;
  ls_dense_layer *layer;
  ls_optimizer *optimizer;  // NULL: the step does not train.
  difference by;
  bool in_loop;
} world;

static void keep_warning(void *user, const ls_log_line *line) {
  world *w = user;
  if (line->level != LS_LOG_WARNING) return;
  ++w->warnings;
  snprintf(w->text, sizeof(w->text), "%s", line->text);
}

static void begin(world *w, int replicas) {
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){.log = keep_warning, .log_user = w}, &w->runtime));
  w->before = ls_runtime_make_current(w->runtime);
  w->strategy = mirrored_of(replicas);
}

static void end(world *w) {
  ls_bag_empty(&w->bag);
  ls_strategy_release(w->strategy);
  ls_runtime_make_current(w->before);
  expect_ok(ls_runtime_destroy(w->runtime));
}
LS_OWNED_STRUCT(world, end)

static ls_tensor loss_of(const world *w, ls_tensor x) {
  if (w->by == REPLICA_ID)
    x = ls_add(x, ls_convert(ls_replica_id(), LS_DTYPE_F32));
  if (w->by == RANDOM_EXAMPLES)
    x = ls_random_normal(LS_DTYPE_F32, LS_SHAPE(ROWS, WIDTH), 0, 1, NULL);
  if (w->by == NOISE) x = ls_dropout(x, 0.5, true, NULL);
  return ls_reduce_mean(ls_square(ls_dense_layer_apply(w->layer, x)),
                        LS_ALL_AXES);
}

static ls_nest step(ls_nest args, void *user) {
  const world *w = user;
  const ls_tensor loss = loss_of(w, ls_nest_tensor(args, 0));
  if (w->optimizer != NULL) ls_optimizer_minimize(w->optimizer, loss);
  return ls_leaf(ls_all_reduce(LS_REDUCE_MEAN, loss));
}

static ls_array *examples(int64_t rows) {
  ls_array *array = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(rows, WIDTH), &array));
  for (int64_t i = 0; i < rows * WIDTH; ++i)
    ls_array_set_f64(array, i, 0.1 * (double)(i % 7));
  return array;
}

// Makes what a step needs; `mirrored` variables are the strategy's own.
static ls_function *make_step(world *w, bool mirrored) {
  if (mirrored) {
    LS_STRATEGY_SCOPE(w->strategy);
    w->layer = ls_dense_layer_in(&w->bag, .inputs = WIDTH, .units = 2);
  } else
    w->layer = ls_dense_layer_in(&w->bag, .inputs = WIDTH, .units = 2);
  w->optimizer = ls_sgd_in(&w->bag, .learning_rate = 0.1);
  ls_function *function =
      ls_function_in(&w->bag, .call = step, .user = w, .name = "step");
  expect_ok(ls_bag_take_error(&w->bag));
  return function;
}

// Runs a step on `rows` examples, split among the replicas or whole.
static void run(world *w, ls_function *function, int64_t rows, bool split) {
  LS_OWN(ls_array, array) = examples(rows);
  ls_nest value = {0};
  if (split)
    expect_ok(ls_strategy_split(w->strategy, array, &value));
  else
    value = ls_nest_array(ls_array_retain(array));
  LS_OWN(ls_nest, args) = LS_TUPLE(value);
  LS_OWN(ls_nest, results) =
      strategy_results(w->strategy, ls_traced(function), args);
}

TEST(a_whole_batch_on_each_replica_is_warned_of_once) {
  for (int replicas = 2; replicas <= 3; ++replicas)
    for (int mirrored = 0; mirrored < 2; ++mirrored) {
      LS_OWN_BEGUN(world, w, begin, replicas);
      ls_function *function = make_step(&w, mirrored);
      run(&w, function, ROWS, false);
      run(&w, function, ROWS, false);
      run(&w, function, ROWS / 2, false);  // Another trace.
      assert_int_equal(w.warnings, 1);
      assert_int_equal(ls_function_num_traces(function), 2);
      expect_contains(w.text, "'step' trains on the same examples on each of");
      expect_contains(w.text, replicas == 2 ? "ls_dataset_parts(data, 2)"
                                            : "ls_dataset_parts(data, 3)");
    }
}

TEST(parts_of_a_batch_are_not_warned_of) {
  for (int replicas = 1; replicas <= 3; ++replicas)
    for (int mirrored = 0; mirrored < 2; ++mirrored) {
      LS_OWN_BEGUN(world, w, begin, replicas);
      ls_function *function = make_step(&w, mirrored);
      run(&w, function, ROWS, true);
      run(&w, function, ROWS - 1, true);  // Replicas of several classes.
      assert_int_equal(w.warnings, 0);
    }
}

TEST(one_replica_has_the_whole_batch) {
  LS_OWN_BEGUN(world, w, begin, 1);
  run(&w, make_step(&w, true), ROWS, false);
  assert_int_equal(w.warnings, 0);
}

TEST(steps_that_draw_their_own_examples_are_not_warned_of) {
  for (difference by = REPLICA_ID; by <= RANDOM_EXAMPLES; ++by) {
    LS_OWN(world, w) = {.by = by};
    begin(&w, 2);
    run(&w, make_step(&w, true), ROWS, false);
    assert_int_equal(w.warnings, 0);
  }
}

TEST(a_whole_batch_is_warned_of_in_spite_of_noise) {
  for (int split = 0; split < 2; ++split) {
    LS_OWN(world, w) = {.by = NOISE};
    begin(&w, 2);
    run(&w, make_step(&w, true), ROWS, split);
    assert_int_equal(w.warnings, !split);
    if (!split) expect_contains(w.text, "differ by random numbers alone");
  }
}

TEST(what_does_not_train_is_not_warned_of) {
  LS_OWN_BEGUN(world, w, begin, 2);
  ls_function *function = make_step(&w, true);
  w.optimizer = NULL;
  run(&w, function, ROWS, false);
  assert_int_equal(w.warnings, 0);
}

TEST(steps_that_hold_gradients_are_warned_of_too) {
  for (int split = 0; split < 2; ++split) {
    LS_OWN_BEGUN(world, w, begin, 2);
    ls_function *function = make_step(&w, true);
    w.optimizer = ls_sgd_in(&w.bag, .learning_rate = 0.1, .accumulate = 2);
    run(&w, function, ROWS, split);
    assert_int_equal(w.warnings, !split);
  }
}

static ls_nest call_inner(ls_nest args, void *user) {
  ls_nest result = {0};
  const ls_status status = ls_function_call(user, args, &result);
  return ls_status_is_ok(status) ? result : ls_fail(status);
}

TEST(a_step_inside_of_another_function_is_warned_of_too) {
  for (int split = 0; split < 2; ++split) {
    LS_OWN_BEGUN(world, w, begin, 2);
    ls_function *inner = make_step(&w, false);
    ls_function *outer = ls_function_in(&w.bag, .call = call_inner,
                                        .user = inner, .name = "outer");
    run(&w, outer, ROWS, split);
    assert_int_equal(w.warnings, !split);
  }
}

// The loop as README.md has it.
TEST(a_loop_over_dealt_parts_is_steady) {
  LS_OWN(counted, memory) = counted_begin(1);
  for (int replicas = 1; replicas <= 3; ++replicas) {
    world w = {.strategy = mirrored_of(replicas)};
    ls_function *function = make_step(&w, true);
    ls_dataset *data = ls_dataset_synthetic(
        &(ls_synthetic_options){.size = 35, .shape = LS_SHAPE(WIDTH)});
    data = ls_dataset_batch(ls_dataset_shuffle(data, NULL),
                            &(ls_batch_options){.size = 5});
    data = ls_dataset_in(&w.bag, ls_dataset_parts(data, replicas));
    ls_iterator *batches = ls_iterator_in(&w.bag, data, .prefetch = LS_SOME(0));
    ls_nest *batch = ls_nest_in(&w.bag, ls_none());
    ls_nest *loss = ls_nest_in(&w.bag, ls_none());
    expect_ok(ls_bag_take_error(&w.bag));
    uint64_t allocations = 0;
    for (int i = 0; i < 7; ++i) {
      expect_ok(ls_iterator_next(batches, batch));
      expect_ok(ls_strategy_run(w.strategy, ls_traced(function), *batch, loss));
      if (i == 1) allocations = counted_now(&memory).allocations;
    }
    assert_int_equal(counted_now(&memory).allocations, allocations);
    ls_bag_empty(&w.bag);
    ls_strategy_release(w.strategy);
  }
}
