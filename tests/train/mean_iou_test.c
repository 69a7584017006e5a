// SPDX-License-Identifier: Apache-2.0
#include "support/expect.h"

#include <math.h>

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
                              const int32_t (*labels)[2], ls_shape label) {
  const ls_model_type type = {.name = "given",
                              .example_shape = label.rank == 2
                                                   ? LS_SHAPE(1, 2, CLASSES)
                                                   : LS_SHAPE(2, CLASSES),
                              .label_shape = label,
                              .num_classes = CLASSES,
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
  const ls_evaluation found = evaluate(predicted, labels, LS_SHAPE(1, 2));
  assert_int_equal(found.examples, IMAGES);
  assert_true(fabs(found.accuracy - 0.5) < 1e-6);
  // Class 0: 2 of 4 pixels, 1: 1 of 4, 2: none, 3: 0 of 1.
  assert_true(fabs(found.mean_iou - (0.5 + 0.25 + 0) / 3) < 1e-12);
  assert_true(isnan(evaluate(predicted, labels, LS_SHAPE(2)).mean_iou));
}
