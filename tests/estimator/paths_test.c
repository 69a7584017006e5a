// SPDX-License-Identifier: Apache-2.0
// What cores of a system, replicas of a strategy and a CPU make of one model.
#include <math.h>
#include <string.h>

#include "base/memory/own.h"
#include "support/estimators.h"

typedef struct outcome {
  double train_loss, loss, accuracy, mean, count;
} outcome;

static outcome evaluated(estimator_case *c, ls_opt steps) {
  LS_OWN(ls_nest, metrics) = estimator_evaluate(c, steps);
  const outcome o = {.loss = estimator_metric(metrics, "loss"),
                     .accuracy = estimator_metric(metrics, "accuracy"),
                     .mean = estimator_metric(metrics, "mean"),
                     .count = estimator_metric(metrics, "count")};
  return o;
}

// ---- The same bytes --------------------------------------------------------
static outcome run(estimator_case *c) {
  estimator_case_begin(c);
  const ls_training_end end = estimator_case_train(c, 120);
  assert_int_equal(end.step, 120);
  outcome o = evaluated(c, LS_SOME(4));
  o.train_loss = end.loss;
  return o;
}

TEST(cores_and_replicas_of_a_strategy_make_the_same_bytes) {
  LS_SPEC("E174 E137");
  static const int counts[] = {1, 3, 8};
  static const char *const lengths[] = {"1", "50"};
  for (int r = 0; r < 3; ++r) {
    LS_OWN(estimator_case, mirrored) = {.way = IN_STRATEGY,
                                        .replicas = counts[r],
                                        .folder = "bytes-mirrored",
                                        .repeats = true};
    const outcome wanted = run(&mirrored);
    for (int l = 0; l < 2; ++l) {
      LS_OWN(estimator_case, cores) = {.way = ON_TPU,
                                       .replicas = counts[r],
                                       .folder = "bytes-cores",
                                       .iterations = lengths[l],
                                       .repeats = true};
      const outcome got = run(&cores);
      assert_memory_equal(&got, &wanted, sizeof(got));
      estimator_cases_expect_equal(&mirrored, &cores, 0);
    }
  }
}

TEST(a_cpu_makes_the_same_to_rounding) {
  LS_SPEC("E175 E178");
  LS_OWN(estimator_case,
         core) = {.way = ON_TPU, .folder = "rounding-core", .repeats = true};
  LS_OWN(estimator_case,
         cpu) = {.way = ON_CPU, .folder = "rounding-cpu", .repeats = true};
  const outcome a = run(&cpu), b = run(&core);
  assert_true(fabs(a.train_loss - b.train_loss) < 1e-5);
  assert_true(fabs(a.loss - b.loss) < 1e-5);
  assert_true(fabs(a.mean - b.mean) < 1e-5);
  assert_true(a.accuracy == b.accuracy);
  estimator_cases_expect_equal(&cpu, &core, 1e-5);
}

// ---- Any batch -------------------------------------------------------------
// Evaluates all of the data, by the values that training has left in `folder`.
static outcome evaluate_all(estimator_way way, int replicas, int64_t batch,
                            const char *folder) {
  LS_OWN(estimator_case, c) = {.way = way,
                               .replicas = replicas,
                               .batch = batch,
                               .examples = 10007,
                               .any_batch = true,
                               .folder = folder,
                               .goes_on = true};
  estimator_case_begin(&c);
  return evaluated(&c, (ls_opt){0});
}

static void expect_all_once(outcome o, outcome wanted) {
  assert_true(o.count == 10007);
  assert_true(o.accuracy == wanted.accuracy);
  assert_true(fabs(o.mean - wanted.mean) < 1e-6);
  assert_true(fabs(o.loss - wanted.mean) < 1e-5);
}

TEST(each_example_counts_once_whatever_the_batches) {
  LS_SPEC("E214");
  static const int counts[] = {1, 3, 8};
  static const int64_t batches[] = {1, 64, 1000};
  estimator_case trained = {.folder = "once", .repeats = true};
  estimator_case_begin(&trained);
  (void)estimator_case_train(&trained, 20);
  estimator_case_end(&trained);
  const outcome wanted = evaluate_all(ON_CPU, 1, 10007, "once");
  for (int r = 0; r < 3; ++r)
    for (int b = 0; b < 3; ++b) {
      expect_all_once(evaluate_all(ON_TPU, counts[r], batches[b], "once"),
                      wanted);
      expect_all_once(evaluate_all(IN_STRATEGY, counts[r], batches[b], "once"),
                      wanted);
    }
}

// Steps on batches of 10, 10 and 3 of 23 examples on 4 cores: parts of 3, 3, 2
// and 2, and of 1, 1, 1 and none.
TEST(a_short_batch_has_the_gradient_of_its_examples) {
  LS_SPEC("E214");
  LS_OWN(estimator_case, cores) = {.way = ON_TPU,
                                   .replicas = 4,
                                   .batch = 10,
                                   .examples = 23,
                                   .any_batch = true,
                                   .folder = "short-cores"};
  LS_OWN(estimator_case,
         cpu) = {.batch = 10, .examples = 23, .folder = "short-cpu"};
  estimator_case_begin(&cpu);
  estimator_case_begin(&cores);
  const ls_training_end a = estimator_case_train(&cpu, 100);
  const ls_training_end b = estimator_case_train(&cores, 100);
  assert_true(a.input_ended && b.input_ended);
  assert_int_equal(a.step, 3);
  assert_int_equal(b.step, 3);
  assert_true(fabs(a.loss - b.loss) < 1e-5);
  estimator_cases_expect_equal(&cpu, &cores, 1e-5);
}
