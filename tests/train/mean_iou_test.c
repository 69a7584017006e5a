// SPDX-License-Identifier: Apache-2.0
#include "support/expect.h"

#include <math.h>

#include "lockstep/full.h"
#include "lockstep/training_parts.h"
#include "train/own.h"

LS_OWNED_POINTER(ls_evaluator, ls_evaluator_destroy)

// A model whose logits are its examples.
static ls_nest logits(ls_nest args, void *self) {
  (void)self;
  return ls_leaf(ls_nest_tensor(args, 0));
}

enum { IMAGES = 3, CLASSES = 4 };

// Predicts classes of images of two pixels, and evaluates against labels.
static ls_evaluation evaluate(const int32_t (*predicted)[2],
                              const int32_t (*labels)[2], ls_shape label,
                              const ls_task *task) {
  const ls_model_type type = {.name = "given",
                              .example_shape = label.rank == 2
                                                   ? LS_SHAPE(1, 2, CLASSES)
                                                   : LS_SHAPE(2, CLASSES),
                              .label_shape = label,
                              .num_classes = CLASSES,
                              .task = task,
                              .logits = logits};
  const ls_model model = {.type = &type};
  LS_OWN(ls_evaluator, evaluator) = NULL;
  ls_array *x = NULL, *y = NULL;
  ls_evaluation evaluation;
  ls_shape rows = {.rank = type.example_shape.rank + 1, .dim = {IMAGES}};
  for (int i = 0; i < type.example_shape.rank; ++i)
    rows.dim[i + 1] = type.example_shape.dim[i];
  expect_ok(ls_array_create(LS_DTYPE_F32, rows, &x));
  for (int64_t i = 0; i < IMAGES * 2 * CLASSES; ++i)
    ls_array_set_f64(x, i, 0);
  for (int64_t i = 0; i < IMAGES * 2; ++i)
    ls_array_set_f64(x, i * CLASSES + predicted[i / 2][i % 2], 1);
  rows = label.rank == 2 ? LS_SHAPE(IMAGES, 1, 2) : LS_SHAPE(IMAGES, 2);
  expect_ok(ls_array_create_copy(LS_DTYPE_I32, rows, labels, &y));
  LS_OWN(ls_dataset, data) =
      ls_dataset_from_arrays(LS_TUPLE(ls_nest_array(x), ls_nest_array(y)));
  expect_ok(ls_evaluator_create(&model, data, &evaluator));
  expect_ok(ls_evaluator_run(evaluator, NULL, &evaluation));
  // Another run counts from 0.
  expect_ok(ls_evaluator_run(evaluator, NULL, &evaluation));
  return evaluation;
}

TEST(classes_of_pixels_have_a_mean_intersection_over_union) {
  static const int32_t predicted[IMAGES][2] = {{0, 0}, {1, 0}, {1, 3}};
  static const int32_t labels[IMAGES][2] = {{0, 0}, {1, 1}, {0, 1}};
  const ls_evaluation found = evaluate(predicted, labels, LS_SHAPE(1, 2), NULL);
  assert_int_equal(found.examples, IMAGES);
  assert_true(fabs(found.accuracy - 0.5) < 1e-6);
  // Class 0: 2 of 4 pixels, 1: 1 of 4, 2: none, 3: 0 of 1.
  assert_true(fabs(found.mean_iou - (0.5 + 0.25 + 0) / 3) < 1e-12);
  assert_true(isnan(evaluate(predicted, labels, LS_SHAPE(2), NULL).mean_iou));
}

TEST(void_pixels_count_for_nothing) {
  enum { VOID = LS_VOID_LABEL };
  static const int32_t predicted[IMAGES][2] = {{0, 0}, {1, 0}, {1, 3}};
  static const int32_t whole[IMAGES][2] = {{0, 0}, {1, 1}, {0, 1}};
  static const int32_t labels[IMAGES][2] = {{0, 0}, {1, VOID}, {VOID, 1}};
  const ls_shape shape = LS_SHAPE(1, 2);
  const ls_evaluation all = evaluate(predicted, whole, shape, NULL);
  const ls_evaluation same = evaluate(predicted, whole, shape, &ls_task_pixels);
  assert_memory_equal(&all, &same, sizeof(all));
  const ls_evaluation found =
      evaluate(predicted, labels, shape, &ls_task_pixels);
  // An image's mean is that of its pixels that are not void.
  assert_true(fabs(found.accuracy - (1 + 1 + 0) / 3.0) < 1e-6);
  // Class 0: 2 of 2 pixels, 1: 1 of 2, 3: 0 of 1.
  assert_true(fabs(found.mean_iou - (1 + 0.5 + 0) / 3) < 1e-12);
  const double right = log(exp(1) + 3) - 1, wrong = log(exp(1) + 3);
  assert_true(fabs(found.loss - (right + right + wrong) / 3) < 1e-6);
}

TEST(images_of_void_pixels_count_in_no_evaluation) {
  enum { VOID = LS_VOID_LABEL };
  static const int32_t predicted[IMAGES][2] = {{0, 0}, {1, 0}, {1, 3}};
  static const int32_t labels[IMAGES][2] = {{VOID, VOID}, {1, 1}, {VOID, VOID}};
  static const int32_t none[IMAGES][2] = {
      {VOID, VOID}, {VOID, VOID}, {VOID, VOID}};
  const ls_shape shape = LS_SHAPE(1, 2);
  const ls_evaluation found =
      evaluate(predicted, labels, shape, &ls_task_pixels);
  const double right = log(exp(1) + 3) - 1, wrong = log(exp(1) + 3);
  assert_int_equal(found.examples, IMAGES);
  assert_true(fabs(found.accuracy - 0.5) < 1e-6);
  assert_true(fabs(found.loss - (right + wrong) / 2) < 1e-6);
  const ls_evaluation nothing =
      evaluate(predicted, none, shape, &ls_task_pixels);
  assert_true(isnan(nothing.accuracy) && isnan(nothing.loss));
}

static ls_array *copy_of(ls_dtype dtype, ls_shape shape, const void *data) {
  ls_array *array = NULL;
  expect_ok(ls_array_create_copy(dtype, shape, data, &array));
  return array;
}

static ls_nest find_gradient(ls_nest args, void *user) {
  const ls_nest x = ls_leaf(ls_nest_tensor(args, 0));
  const ls_nest loss = ls_leaf(ls_reduce_mean(
      ls_task_pixels.losses(ls_nest_tensor(args, 0), ls_nest_tensor(args, 1)),
      LS_ALL_AXES));
  ls_nest gradient = ls_none();
  (void)user;
  const ls_status status = ls_gradients(&loss, 1, &x, 1, NULL, &gradient);
  return ls_status_is_ok(status) ? gradient : ls_fail(status);
}

TEST(void_pixels_have_no_gradient) {
  static const float x[] = {1, 2, 1, 2};
  static const int32_t labels[] = {LS_VOID_LABEL, 1};
  LS_OWN(ls_function, function) = NULL;
  LS_OWN(ls_nest, results) = ls_none();
  LS_OWN(ls_nest, args) =
      LS_TUPLE(ls_nest_array(copy_of(LS_DTYPE_F32, LS_SHAPE(1, 1, 2, 2), x)),
               ls_nest_array(copy_of(LS_DTYPE_I32, LS_SHAPE(1, 1, 2), labels)));
  expect_ok(ls_function_create(&(ls_function_options){.call = find_gradient},
                               &function));
  expect_ok(ls_function_call(function, args, &results));
  const ls_array *gradient = ls_nest_as_array(results);
  assert_true(ls_array_f64(gradient, 0) == 0 && ls_array_f64(gradient, 1) == 0);
  // As if the other pixel were the only one.
  const double first = 1 / (1 + exp(1));
  assert_true(fabs(ls_array_f64(gradient, 2) - first) < 1e-6);
  assert_true(fabs(ls_array_f64(gradient, 3) + first) < 1e-6);
}
