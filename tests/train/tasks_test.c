// SPDX-License-Identifier: Apache-2.0
// Tasks beside classification: training, evaluation and loading of models whose
// labels are numbers.
#include "support/counted.h"
#include "support/expect.h"

#include <math.h>

#include "base/memory/allocator.h"
#include "base/runtime_internal.h"
#include "data/own.h"
#include "lockstep/tasks.h"
#include "lockstep/train.h"
#include "lockstep/training_parts.h"
#include "support/scratch.h"
#include "support/training.h"
#include "support/values.h"

enum { EXAMPLES = 42, INPUTS = 3 };

LS_OWNED_POINTER(ls_evaluator, ls_evaluator_destroy)

TEST_FILE(.set_up = scratch_enter, .tear_down = scratch_leave);

// A run of tiny, for another task.
typedef struct setup {
  ls_model_type type;
  ls_strategy *strategy;
  ls_model model;
  ls_dataset *data;
  ls_train_options options;
  ls_train_result result;
} setup;

// Makes labels of an example: linear values, or the signs of its numbers.
static double label_of(const ls_task *task, const double *x, int64_t output) {
  if (task->is_binary) return x[output % INPUTS] > 0;
  return x[0] * 0.5 - x[1] + (double)output * x[2];
}

static ls_dataset *make_data(const ls_task *task, int64_t outputs,
                             bool is_flat) {
  double x[EXAMPLES * INPUTS], y[EXAMPLES * INPUTS];
  for (int64_t i = 0; i < EXAMPLES; ++i) {
    for (int64_t k = 0; k < INPUTS; ++k)
      x[i * INPUTS + k] = sin((double)(i * INPUTS + k) * 1.7);
    for (int64_t k = 0; k < outputs; ++k)
      y[i * outputs + k] = label_of(task, x + i * INPUTS, k);
  }
  ls_array *examples = array_of(LS_DTYPE_F32, LS_SHAPE(EXAMPLES, INPUTS), x);
  ls_array *labels =
      array_of(LS_DTYPE_F64,
               is_flat ? LS_SHAPE(EXAMPLES) : LS_SHAPE(EXAMPLES, outputs), y);
  return ls_dataset_from_arrays(
      LS_TUPLE(ls_nest_array(examples), ls_nest_array(labels)));
}

static void begin(setup *s, const ls_task *task, int64_t outputs,
                  int64_t replicas, bool is_flat) {
  *s = (setup){0};
  expect_ok(ls_model_type_adapt(ls_model_find("tiny"), task, INPUTS, outputs,
                                &s->type));
  s->data = make_data(task, outputs, is_flat);
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(replicas)}, &s->strategy));
  expect_ok(ls_model_create(&s->type,
                            &(ls_model_options){.metrics = true,
                                                .learning_rate = 0.2,
                                                .inputs = INPUTS},
                            &s->model));
  s->options = (ls_train_options){.model = &s->model,
                                  .strategy = s->strategy,
                                  .train = s->data,
                                  .test = s->data,
                                  .batch_size = 10,
                                  .epochs = 40};
}

static void end(setup *s) {
  ls_model_destroy(&s->model);
  ls_strategy_release(s->strategy);
  ls_dataset_release(s->data);
}
LS_OWNED_STRUCT(setup, end)

TEST(a_task_has_a_name_and_a_metric) {
  size_t count = 0;
  const ls_task *const *tasks = ls_tasks(&count);
  assert_int_equal(count, 3);
  for (size_t i = 0; i < count; ++i)
    assert_ptr_equal(ls_task_find(tasks[i]->name), tasks[i]);
  assert_null(ls_task_find("ranking"));
  assert_null(ls_task_find(NULL));
  assert_string_equal(ls_model_type_task(ls_model_find("gpt"))->name,
                      "classification");
  assert_string_equal(ls_task_regression.metric, "mae");
  assert_true(ls_task_regression.less_is_better);
}

// Batches of 10 and, at an epoch's end, of 2 examples, on 1 and 3 replicas, in
// steps and in loops of steps.
TEST(a_model_learns_numbers) {
  double losses[3] = {0};
  for (int i = 0; i < 3; ++i) {
    LS_OWN_BEGUN(setup, s, begin, &ls_task_regression, 2, i == 1 ? 3 : 1,
                 false);
    s.options.iterations_per_loop = i == 2 ? 3 : 1;
    expect_ok(ls_train(&s.options, &s.result));
    losses[i] = s.result.test.loss;
    assert_int_equal(s.result.test.examples, EXAMPLES);
    assert_true(s.result.test.loss < 0.05);
    assert_true(s.result.test.accuracy < 0.2 && s.result.test.accuracy > 0);
  }
  assert_float_equal(losses[0], losses[1], 1e-4);
  assert_true(losses[0] == losses[2]);
}

TEST(a_single_number_may_be_a_scalar) {
  double losses[2] = {0};
  for (int i = 0; i < 2; ++i) {
    LS_OWN_BEGUN(setup, s, begin, &ls_task_regression, 1, 1, i == 0);
    expect_ok(ls_train(&s.options, &s.result));
    losses[i] = s.result.test.loss;
  }
  assert_true(losses[0] == losses[1] && losses[0] < 0.05);
}

TEST(a_model_learns_several_labels) {
  for (int64_t replicas = 1; replicas < 4; replicas += 2) {
    LS_OWN_BEGUN(setup, s, begin, &ls_task_multi_label, 3, replicas, false);
    expect_ok(ls_train(&s.options, &s.result));
    assert_true(s.result.test.accuracy > 0.9 && s.result.test.accuracy <= 1);
  }
}

static char *read_lines(const char *path) {
  const ls_file_system *files = ls_file_system_system();
  char *text = NULL;
  size_t size = 0;
  expect_ok(files->read(files->user, path, SIZE_MAX, ls_allocator_system(),
                        &text, &size));
  return text;
}

// The metrics of a run have the name of the task's, in its folder and in its
// rules; the model is loaded from the folder.
TEST(a_run_is_named_after_its_metric) {
  LS_OWN_BEGUN(setup, s, begin, &ls_task_regression, 1, 1, true);
  s.options.run_folder = "run";
  s.options.epochs = 3;
  s.options.keep_best = "test_mae";
  s.options.stop_early = "test_mae";
  expect_ok(ls_train(&s.options, &s.result));
  LS_OWN_MEMORY(ls_allocator_system(), char, lines) =
      read_lines("run/metrics.jsonl");
  expect_contains(lines, "\"mae\":");
  expect_contains(lines, "\"test_mae\":");
  assert_null(strstr(lines, "accuracy"));
  assert_true(s.result.best < 1 && s.result.best_step > 0);
  s.options.resume = true;
  s.options.epochs = 4;
  expect_ok(ls_train(&s.options, &s.result));
  assert_int_equal(s.result.steps, 4 * 5);

  LS_OWN(ls_model, loaded) = {0};
  expect_ok(ls_model_create(
      &s.type, &(ls_model_options){.seed = 5, .inputs = INPUTS}, &loaded));
  expect_ok(ls_train_load("run", &loaded));
  LS_OWN(ls_evaluator, evaluator) = NULL;
  ls_evaluation evaluation = {0};
  expect_ok(ls_evaluator_create(&loaded, s.data, &evaluator));
  expect_ok(ls_evaluator_run(evaluator, NULL, &evaluation));
  assert_true(evaluation.accuracy == s.result.test.accuracy);

  s.options.keep_best = "accuracy";
  expect_null(ls_train(&s.options, &s.result),
              "keep_best is 'accuracy', expected loss, mae, test_loss or "
              "test_mae");
  s.options.keep_best = NULL;
  s.options.stop_early = "test_accuracy";
  expect_null(ls_train(&s.options, &s.result),
              "a run stops early by test_loss or test_mae, with :min or "
              ":max after it, not by 'test_accuracy'");
  remove_tree("run");
}

// ---- Refusals --------------------------------------------------------------
static void expect_label_refused(const ls_task *task, double label,
                                 const char *expected) {
  const double x[2 * INPUTS] = {1, 2, 3, 4, 5, 6}, y[4] = {0, 1, 1, label};
  LS_OWN_BEGUN(setup, s, begin, task, 2, 1, false);
  ls_array *examples = array_of(LS_DTYPE_F32, LS_SHAPE(2, INPUTS), x);
  ls_array *labels = array_of(LS_DTYPE_F32, LS_SHAPE(2, 2), y);
  LS_OWN(ls_dataset, data) = ls_dataset_from_arrays(
      LS_TUPLE(ls_nest_array(examples), ls_nest_array(labels)));
  LS_OWN(ls_evaluator, evaluator) = NULL;
  ls_evaluation evaluation = {0};
  expect_ok(ls_evaluator_create(&s.model, data, &evaluator));
  expect_null(ls_evaluator_run(evaluator, NULL, &evaluation), expected);
}

TEST(a_label_that_is_no_number_is_refused) {
  expect_label_refused(&ls_task_regression, NAN,
                       "label 2 of 2 of row 1 of a batch is nan: labels of "
                       "regression are finite numbers");
  expect_label_refused(&ls_task_multi_label, 0.5,
                       "label 2 of 2 of row 1 of a batch is 0.5: labels of "
                       "multi-label are 0 or 1");
}

TEST(numbers_are_no_classes) {
  LS_OWN(ls_dataset, data) = make_data(&ls_task_regression, 1, true);
  ls_model_type type = {0};
  expect_ok(ls_model_type_adapt(ls_model_find("tiny"), NULL, INPUTS, 0, &type));
  assert_int_equal(type.num_classes, 4);
  assert_true(type.flops_per_example == 0);  // No longer known.
  expect_null(ls_train_check_data(&type, data),
              "labels of classification are integers, these are f64[]: "
              "numbers are learned by regression");
  expect_ok(ls_model_type_adapt(ls_model_find("tiny"), &ls_task_regression,
                                INPUTS, 2, &type));
  expect_null(ls_train_check_data(&type, data),
              "model 'tiny' takes examples f32[3] labelled f32[2]; these "
              "are f32[3] labelled f64[]");
}

TEST(a_type_that_cannot_be_adapted_says_so) {
  ls_model_type type = {0};
  expect_null(ls_model_type_adapt(ls_model_find("gpt"), &ls_task_regression, 0,
                                  0, &type),
              "model 'gpt' is for classification, not for regression");
  expect_null(ls_model_type_adapt(ls_model_find("gpt"), NULL, 0, 3, &type),
              "model 'gpt' has 256 outputs, not 3");
  expect_null(ls_model_type_adapt(ls_model_find("cnn"), NULL, 3, 0, &type),
              "model 'cnn' takes examples of f32[28,28,1], not of 3 "
              "elements");
}

// Adapting again begins with the labels of the type's own task.
TEST(labels_have_the_shape_of_the_task) {
  ls_model_type numbers = {0}, classes = {0};
  expect_ok(ls_model_type_adapt(ls_model_find("cnn"), &ls_task_regression, 0, 2,
                                &numbers));
  assert_int_equal(numbers.label_shape.rank, 1);
  assert_int_equal(numbers.label_shape.dim[0], 2);
  expect_ok(
      ls_model_type_adapt(&numbers, &ls_task_classification, 0, 7, &classes));
  assert_int_equal(classes.label_shape.rank, 0);
  assert_int_equal(classes.num_classes, 7);
  LS_OWN(ls_nest, batch) = ls_none();
  expect_ok(ls_model_synthetic_batch(&numbers, 3, &batch));
  const ls_array *labels = ls_nest_as_array(ls_nest_item(batch, 1));
  assert_int_equal(ls_array_dtype(labels), LS_DTYPE_F32);
  assert_int_equal(ls_array_num_elements(labels), 6);
}

// ---- Numbers of the data that are not finite
// ---------------------------------
TEST(an_example_without_finite_numbers_is_named) {
  const double values[] = {NAN, -INFINITY};
  for (size_t i = 0; i < LS_COUNT_OF(values); ++i) {
    LS_OWN_BEGUN(setup, s, begin, &ls_task_regression, 1, 2, true);
    double x[EXAMPLES * INPUTS] = {0}, y[EXAMPLES] = {0};
    x[17 * INPUTS + 1] = values[i];
    LS_OWN(ls_dataset, data) = ls_dataset_from_arrays(LS_TUPLE(
        ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(EXAMPLES, INPUTS), x)),
        ls_nest_array(array_of(LS_DTYPE_F64, LS_SHAPE(EXAMPLES), y))));
    s.options.train = data;
    expect_status(ls_train(&s.options, &s.result), LS_OUT_OF_RANGE,
                  i == 0 ? ": example 17 of the data has NaN"
                         : ": example 17 of the data has an infinite number");
  }
}
