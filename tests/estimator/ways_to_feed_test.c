// SPDX-License-Identifier: Apache-2.0
//
// What an estimator learns and says does not depend on the way in which its
// cores are fed.
#include <stdio.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "lockstep/element_spec.h"
#include "lockstep/streams.h"
#include "support/estimators.h"

typedef struct way {
  const char *name;
  ls_tpu_config tpu;
} way;

static const way ways[] = {
    {"host", {.num_shards = {0}}},
    {"replicas", {.per_host_input = LS_INPUT_PER_HOST_V2}},
    {"slices", {.eval_training_input = LS_INPUT_SLICED}},
    {"all", {.per_host_input = LS_INPUT_BROADCAST}},
};

static estimator_case case_of(const ls_tpu_config *tpu, int replicas) {
  return (estimator_case){
      .way = tpu == NULL ? ON_CPU : ON_TPU,
      .replicas = replicas,
      .folder = "trained",
      .goes_on = true,
      .config.tpu = tpu,
  };
}

// ---- Training --------------------------------------------------------------
TEST(replicas_learn_the_same_from_their_own_elements) {
  LS_SPEC("E99 E101");
  estimator_case cases[2];
  for (int i = 0; i < 2; ++i) {
    cases[i] = case_of(&ways[i].tpu, 3);
    cases[i].folder = ways[i].name;
    cases[i].goes_on = false;
    cases[i].repeats = true;
    estimator_case_begin(&cases[i]);
    const ls_training_end end = estimator_case_train(&cases[i], 7);
    assert_int_equal(end.step, 7);
  }
  estimator_cases_expect_equal(&cases[0], &cases[1], 0);
  for (int i = 0; i < 2; ++i)
    estimator_case_end(&cases[i]);
}

// ---- Prediction ------------------------------------------------------------
enum { ROWS = 50, FEW = 5, MOST_ROWS = ROWS + FEW };

// Classes and first probabilities of all rows; how many.
static int predict_with(estimator_case *c, ls_input_function input,
                        bool batches, int64_t *classes, double *first) {
  ls_predictions *predictions = NULL;
  LS_OWN(ls_nest, row) = ls_none();
  int count = 0;
  expect_ok(ls_estimator_predict(
      c->estimator,
      &(ls_estimator_prediction){.input = input, .batches = batches},
      &predictions));
  ls_status status = ls_ok();
  while (ls_status_is_ok(status = ls_predictions_next(predictions, &row))) {
    const ls_array *numbers =
        ls_nest_as_array(ls_nest_find(row, "probabilities"));
    const ls_array *classified = ls_nest_as_array(ls_nest_find(row, "classes"));
    for (int64_t i = 0; i < ls_array_num_elements(classified); ++i) {
      assert_true(count < MOST_ROWS);
      classes[count] = ls_array_i64(classified, i);
      first[count++] = ls_array_f64(numbers, i * ESTIMATOR_CLASSES);
    }
  }
  expect_status(status, LS_OUT_OF_RANGE, "");
  expect_ok(ls_predictions_close(predictions));
  return count;
}

static int predict(estimator_case *c, int64_t *classes, double *first) {
  return predict_with(c, estimator_input(c), false, classes, first);
}

static void train_once(void) {
  LS_OWN(estimator_case, c) = case_of(NULL, 1);
  c.goes_on = false;
  c.repeats = true;
  estimator_case_begin(&c);
  (void)estimator_case_train(&c, 20);
}

TEST(every_row_is_predicted_once_in_its_place) {
  LS_SPEC("E92 E97 E100 E102 E104 E105 E179");
  int64_t wanted[ROWS], classes[ROWS];
  double numbers[ROWS], first[ROWS];
  train_once();
  estimator_case on_cpu = case_of(NULL, 1);
  on_cpu.examples = ROWS;
  estimator_case_begin(&on_cpu);
  assert_int_equal(predict(&on_cpu, wanted, numbers), ROWS);
  estimator_case_end(&on_cpu);
  for (size_t w = 0; w < LS_COUNT_OF(ways); ++w)
    for (int replicas = 1; replicas <= 3; ++replicas) {
      LS_OWN(estimator_case, c) = case_of(&ways[w].tpu, replicas);
      c.examples = ROWS;
      estimator_case_begin(&c);
      assert_int_equal(predict(&c, classes, first), ROWS);
      for (int i = 0; i < ROWS; ++i) {
        assert_int_equal(classes[i], wanted[i]);
        assert_true(first[i] == numbers[i]);
      }
      // Of nothing there are no predictions.
      c.examples = 0;
      assert_int_equal(predict(&c, classes, first), 0);
    }
}

// Five rows, then full batches: those of the second replica follow the padding
// of the first one.
static ls_nest uneven(void *user, ls_input_call *call) {
  const ls_input_function rows = estimator_input(user);
  LS_OWN(ls_nest, full) = rows.call(rows.user, call);
  ls_dataset *all =
      ls_dataset_unbatch(ls_dataset_retain(ls_nest_as_dataset(full)));
  ls_dataset *few =
      ls_dataset_batch(ls_dataset_take(all, 5), &(ls_batch_options){.size = 5});
  return ls_nest_dataset(
      ls_dataset_concatenate(few, ls_dataset_retain(ls_nest_as_dataset(full))));
}

TEST(rows_after_padding_are_predicted) {
  LS_SPEC("E97");
  int64_t wanted[MOST_ROWS], classes[MOST_ROWS];
  double numbers[MOST_ROWS], first[MOST_ROWS];
  train_once();
  for (int batches = 0; batches < 2; ++batches)
    for (int cores = 0; cores < 2; ++cores) {
      LS_OWN(estimator_case, c) = case_of(cores ? &ways[1].tpu : NULL, 2);
      c.examples = ROWS;
      estimator_case_begin(&c);
      const int count = predict_with(
          &c, (ls_input_function){.call = uneven, .user = &c}, batches == 1,
          cores ? classes : wanted, cores ? first : numbers);
      assert_int_equal(count, MOST_ROWS);
      for (int i = 0; i < count && cores; ++i) {
        assert_int_equal(classes[i], wanted[i]);
        assert_true(first[i] == numbers[i]);
      }
    }
}

// ---- Evaluation ------------------------------------------------------------
static ls_nest evaluate(estimator_case *c) {
  ls_nest metrics = ls_none();
  expect_ok(ls_estimator_evaluate(
      c->estimator, &(ls_estimator_evaluation){.input = estimator_input(c)},
      &metrics));
  return metrics;
}

TEST(every_example_is_evaluated_once) {
  LS_SPEC("E214");
  enum { EXAMPLES = 10007 };
  static const int64_t batches[] = {1, 64, 1000};
  static const int counts[] = {1, 3, 8};
  train_once();
  estimator_case on_cpu = case_of(NULL, 1);
  on_cpu.examples = EXAMPLES;
  on_cpu.batch = 1000;
  estimator_case_begin(&on_cpu);
  LS_OWN(ls_nest, wanted) = evaluate(&on_cpu);
  estimator_case_end(&on_cpu);
  for (size_t b = 0; b < LS_COUNT_OF(batches); ++b)
    for (size_t r = 0; r < LS_COUNT_OF(counts); ++r) {
      LS_OWN(estimator_case, c) = case_of(&ways[0].tpu, counts[r]);
      c.examples = EXAMPLES;
      c.batch = batches[b];
      c.any_batch = true;
      estimator_case_begin(&c);
      LS_OWN(ls_nest, got) = evaluate(&c);
      static const char *const names[] = {"accuracy", "mean", "loss"};
      for (int i = 0; i < 3; ++i) {
        const double a = estimator_metric(got, names[i]);
        const double z = estimator_metric(wanted, names[i]);
        if (a < z - 1e-4 || a > z + 1e-4)
          print_error("%s: %.9g, wanted %.9g, batches of %lld on %d\n",
                      names[i], a, z, (long long)batches[b], counts[r]);
        assert_true(a >= z - 1e-4 && a <= z + 1e-4);
      }
    }
}
