// SPDX-License-Identifier: Apache-2.0
//
// Replicas of mirrored and TPU strategies with batches of other sizes: each
// example counts once.
#include "lockstep/distribute_input.h"
#include "lockstep/losses.h"
#include "lockstep/replica.h"
#include "lockstep/tpu_strategy.h"
#include "nn/own.h"
#include "support/function.h"
#include "support/inputs.h"
#include "support/replicas.h"
#include "support/tpu_strategies.h"
#include "support/values.h"

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
