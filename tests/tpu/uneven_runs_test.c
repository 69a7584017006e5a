// SPDX-License-Identifier: Apache-2.0
//
// Replicas of mirrored and TPU strategies with batches of other sizes: each
// example counts once, in runs and in steps on an iterator.
#include "lockstep/distribute_input.h"
#include "lockstep/losses.h"
#include "lockstep/optimizers.h"
#include "lockstep/replica.h"
#include "lockstep/steps.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/tpu_strategy.h"
#include "nn/own.h"
#include "support/computation.h"
#include "support/function.h"
#include "support/inputs.h"
#include "support/replicas.h"
#include "support/tpu_strategies.h"
#include "support/values.h"
#include "tpu/steps/steps.h"

enum { REPLICAS = 2 };

static ls_strategy *strategy_of(bool tpu) {
  return tpu ? tpu_strategy_of(REPLICAS) : mirrored_of(REPLICAS);
}

// ---- Runs ------------------------------------------------------------------
// A PerReplica of vectors: the numbers from `first` on, `rows` of them on
// replica 0, then `others` on replica 1.
static ls_nest vectors(double first, int64_t rows, int64_t others) {
  ls_nest parts[REPLICAS];
  for (int r = 0; r < REPLICAS; ++r) {
    double values[8];
    const int64_t count = r == 0 ? rows : others;
    for (int64_t i = 0; i < count; ++i)
      values[i] = first++;
    parts[r] = ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(count), values));
  }
  return ls_nest_distributed(LS_PER_REPLICA, parts, REPLICAS);
}

// The mean of all examples of the leaf "x", or of the first leaf.
static ls_nest mean_of_all(ls_nest args, void *user) {
  (void)user;
  while (ls_nest_is_node(args))
    args = args.kind == LS_KIND_DICT ? ls_nest_find(args, "x")
                                     : ls_nest_item(args, 0);
  const ls_tensor x = args.kind == LS_KIND_ARRAY
                          ? ls_tensor_from_array(ls_nest_as_array(args))
                          : args.as.tensor;
  return ls_leaf(ls_examples_mean(ls_reduce_mean(x, LS_AXES(0))));
}

static void expect_mean(ls_strategy *strategy, ls_callable callable,
                        ls_nest args) {
  LS_OWN(ls_nest, means) = strategy_results(strategy, callable, args);
  expect_numbers(means, (const double[]){3, 3}, REPLICAS);
}

// The rows of "y" are none, as "x" comes first in a dict.
static ls_nest named_batch(void) {
  static const char *const keys[] = {"y", "x"};
  return ls_nest_dict("", keys,
                      (const ls_nest[]){vectors(0, 1, 4), vectors(1, 3, 2)}, 2);
}

TEST(a_nested_batch_counts_each_example_once) {
  LS_OWN(ls_function, function) = function_of(mean_of_all, NULL);
  const ls_nest nests[] = {
      LS_TUPLE(vectors(1, 3, 2)),
      LS_TUPLE(LS_TUPLE(vectors(1, 3, 2), vectors(0, 1, 4))),
      LS_TUPLE(LS_LIST(LS_TUPLE(vectors(1, 3, 2)))),
      LS_TUPLE(named_batch()),
  };
  for (size_t i = 0; i < sizeof(nests) / sizeof(*nests); ++i) {
    for (int tpu = 0; tpu < 2; ++tpu) {
      LS_OWN(ls_strategy, strategy) = strategy_of(tpu);
      expect_mean(strategy, ls_traced(function), nests[i]);
      if (!tpu) expect_mean(strategy, ls_plain(mean_of_all, NULL), nests[i]);
    }
    ls_nest_release(nests[i]);
  }
}

static ls_dataset *pairs_in_one_batch(void) {
  LS_OWN(ls_array, x) =
      array_of(LS_DTYPE_F32, LS_SHAPE(5), (const double[]){1, 2, 3, 4, 5});
  LS_OWN(ls_array, y) =
      array_of(LS_DTYPE_F32, LS_SHAPE(5), (const double[]){0, 0, 0, 0, 0});
  return ls_dataset_batch(
      ls_dataset_from_arrays(LS_TUPLE(ls_nest_array(ls_array_retain(x)),
                                      ls_nest_array(ls_array_retain(y)))),
      &(ls_batch_options){.size = 5});
}

TEST(a_run_on_the_next_element_counts_each_example_once) {
  LS_OWN(ls_function, function) = function_of(mean_of_all, NULL);
  for (int tpu = 0; tpu < 2; ++tpu) {
    LS_OWN(ls_strategy, strategy) = strategy_of(tpu);
    LS_OWN(ls_distributed_iterator, iterator) =
        iterator_on(distributed(strategy, pairs_in_one_batch(), NULL));
    LS_OWN(ls_nest, means) = ls_none();
    expect_ok(
        ls_strategy_run_next(strategy, ls_traced(function), iterator, &means));
    expect_numbers(means, (const double[]){3, 3}, REPLICAS);
  }
}

// ---- Steps on an iterator --------------------------------------------------
enum { STEPS = 3 };

typedef struct training {
  ls_strategy *strategy;
  ls_variable *v;
  ls_optimizer *optimizer;
  ls_step_context *building;
} training;

// The step of a replica: `args` are a table that all have, and the batch.
static ls_nest train_replica(ls_nest args, void *user) {
  const training *t = user;
  const ls_tensor x = ls_convert(ls_nest_tensor(args, 1), LS_DTYPE_F32);
  const ls_tensor loss =
      ls_reduce_mean(ls_square(ls_sub(ls_variable_read(t->v), x)), LS_AXES(0));
  const ls_op trained = ls_optimizer_minimize(t->optimizer, loss);
  const ls_status status = ls_step_context_set_output(
      t->building, "loss", ls_leaf(ls_examples_mean(loss)),
      LS_SOME(LS_REDUCE_MEAN));
  return ls_status_is_ok(status) ? ls_nest_op(trained) : ls_fail(status);
}

static ls_nest train(ls_step_context *context, ls_nest inputs, void *user) {
  training *t = user;
  ls_nest made = ls_none();
  t->building = context;
  LS_OWN(ls_nest, args) = LS_TUPLE(
      ls_leaf(ls_iota(LS_DTYPE_F32, LS_SHAPE(7), 0)), ls_nest_retain(inputs));
  const ls_status status = ls_strategy_call_for_each_replica(
      t->strategy, train_replica, args, t, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

// Trains v in batches of so many numbers; returns it.
static double trained(ls_strategy *strategy, int64_t batch) {
  training t = {.strategy = strategy};
  LS_OWN_BEGUN(computation, c, computation_open);
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){0});
  LS_OWN(ls_optimizer, optimizer) = NULL;
  LS_OWN(ls_distributed_iterator, iterator) = NULL;
  LS_OWN(ls_step_context, context) = NULL;
  ls_nest run = ls_none();
  expect_ok(ls_sgd_create(&(ls_sgd_options){.learning_rate = 0.1}, &optimizer));
  t.v = v;
  t.optimizer = optimizer;
  LS_OWN(ls_nest, data) =
      distributed(strategy, whole_batches(STEPS * batch, batch), NULL);
  expect_ok(ls_distributed_iterator_create(
      data, &(ls_distributed_iterator_options){.kind = LS_ITERATOR_ONE_SHOT},
      &iterator));
  expect_ok(ls_strategy_run_steps(
      strategy, &(ls_steps){.fn = train, .user = &t, .iterator = iterator},
      &context));
  computation_initialize(&c, v);
  run = ls_nest_op(ls_step_context_run_op(context));
  for (int k = 0; k < STEPS; ++k)
    expect_ok(computation_run(&c, run));
  return computation_fetch(&c, ls_variable_read(v));
}

// The numbers of a step are those from 0 on.
static double trained_by_hand(int64_t batch) {
  double v = 0, x = 0;
  for (int k = 0; k < STEPS; ++k) {
    double gradient = 0;
    for (int64_t i = 0; i < batch; ++i)
      gradient += 2 * (v - x++);
    v -= 0.1 * gradient / (double)batch;
  }
  return v;
}

TEST(steps_on_an_iterator_count_each_example_once) {
  // With one example replica 1 has none.
  static const int64_t batches[] = {5, 1, 4};
  for (size_t i = 0; i < sizeof(batches) / sizeof(*batches); ++i)
    for (int tpu = 0; tpu < 2; ++tpu) {
      LS_OWN(ls_strategy, strategy) = strategy_of(tpu);
      const double v = trained(strategy, batches[i]);
      assert_float_equal(v, trained_by_hand(batches[i]), 1e-4);
    }
}
