// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "data/iterator.h"
#include "lockstep/function_plan.h"
#include "lockstep/train.h"
#include "train/input.h"

// Labels per call, enough for efficient matrix products.
static const int64_t evaluation_labels = 1000;

LS_OWNED_POINTER(ls_evaluator, ls_evaluator_destroy)
struct ls_evaluator {
  ls_allocator *allocator;
  const ls_model *model;
  ls_dataset *batches;
  ls_iterator *iterator;
  ls_function *function;
  ls_nest batch, results;
  // Numbers of pixels of each class in both labels and predictions, then in
  // either; NULL unless labels are of pixels.
  double *overlaps;
  int64_t counted;  // Examples with a label that is not void.
};

static int64_t labels_of(const ls_model_type *type) {
  return ls_shape_num_elements(type->label_shape);
}

static bool has_pixels(const ls_model_type *type) {
  return type->label_shape.rank == 2 &&
         ls_model_type_task(type)->label_dtype == LS_DTYPE_I32;
}

static bool has_void(const ls_model_type *type) {
  return has_pixels(type) && ls_model_type_task(type)->has_void &&
         type->num_classes <= LS_VOID_LABEL;
}

// ---- Evaluation ------------------------------------------------------------
// Returns the numbers of pixels of each class in both, and in either.
static ls_tensor count_overlaps(ls_tensor logits, ls_tensor labels,
                                int64_t classes) {
  const ls_tensor is_class =
      ls_less(labels, ls_scalar_i64(ls_tensor_dtype(labels), classes));
  // The index of no class is a row of zeros.
  const ls_tensor none = ls_scalar_i64(LS_DTYPE_I64, -1);
  const ls_tensor found = ls_select(is_class, ls_argmax(logits, -1), none);
  const ls_tensor predicted = ls_one_hot(found, classes, LS_DTYPE_F32);
  const ls_tensor labeled = ls_one_hot(labels, classes, LS_DTYPE_F32);
  const ls_tensor both[] = {ls_mul(predicted, labeled),
                            ls_maximum(predicted, labeled)};
  const ls_tensor sums[] = {ls_reduce_sum(both[0], LS_AXES(0, 1, 2)),
                            ls_reduce_sum(both[1], LS_AXES(0, 1, 2))};
  return ls_concatenate(sums, 2, 0);
}

// Returns the number of examples with a pixel that is not void.
static ls_tensor count_examples(ls_tensor labels) {
  const ls_tensor counts = ls_not_equal(
      labels, ls_scalar_i64(ls_tensor_dtype(labels), LS_VOID_LABEL));
  return ls_reduce_sum(
      ls_reduce_max(ls_convert(counts, LS_DTYPE_F32), LS_AXES(1, 2)),
      LS_ALL_AXES);
}

// Returns sums over a batch, so that batches of any size can be added up.
static ls_nest evaluate_batch(ls_nest args, void *user) {
  const ls_model *model = user;
  const ls_task *task = ls_model_type_task(model->type);
  const ls_nest result = model->type->logits(args, model->self);
  if (ls_nest_is_failed(result)) return result;
  const ls_tensor outputs = ls_nest_tensor(result, 0);
  const ls_tensor labels = ls_nest_tensor(args, 1);
  ls_nest_release(result);
  const ls_tensor losses = task->losses(outputs, labels);
  const ls_tensor scores = task->scores(outputs, labels);
  ls_nest sums[4] = {ls_leaf(ls_reduce_sum(losses, LS_ALL_AXES)),
                     ls_leaf(ls_reduce_sum(scores, LS_ALL_AXES))};
  size_t count = 2;
  if (has_pixels(model->type))
    sums[count++] =
        ls_leaf(count_overlaps(outputs, labels, model->type->num_classes));
  if (has_void(model->type)) sums[count++] = ls_leaf(count_examples(labels));
  return ls_nest_sequence(LS_KIND_TUPLE, sums, count);
}

static ls_status evaluate_fill(ls_evaluator *evaluator, ls_dataset *dataset) {
  const ls_model *model = evaluator->model;
  LS_RETURN_IF_ERROR(ls_train_check_data(model->type, dataset));
  if (has_pixels(model->type)) {
    LS_SET_ARRAY_OR_RETURN(evaluator->allocator, double, evaluator->overlaps,
                           2 * (size_t)model->type->num_classes);
  }
  const int64_t batch = evaluation_labels / labels_of(model->type);
  evaluator->batches =
      ls_train_batches(model->type, dataset, batch > 0 ? batch : 1, false);
  LS_RETURN_IF_ERROR(ls_iterator_create(
      evaluator->batches, &(ls_iterator_options){.name = "evaluate"},
      &evaluator->iterator));
  return ls_function_create(
      &(ls_function_options){.call = evaluate_batch,
                             .user = (void *)(uintptr_t)model,
                             .name = "evaluate"},
      &evaluator->function);
}

ls_status ls_evaluator_create(const ls_model *model, ls_dataset *dataset,
                              ls_evaluator **out_evaluator) {
  LS_REQUIRE_OUT(out_evaluator, model, dataset, model->type);
  LS_REQUIRE(model->type->logits);
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_NEW_OR_RETURN(allocator, ls_evaluator, evaluator);
  evaluator->allocator = allocator;
  evaluator->model = model;
  LS_RETURN_IF_ERROR(evaluate_fill(evaluator, dataset));
  return ls_hand_over(&evaluator, out_evaluator);
}

void ls_evaluator_destroy(ls_evaluator *evaluator) {
  if (evaluator == NULL) return;
  ls_nest_release(evaluator->batch);
  ls_nest_release(evaluator->results);
  ls_function_release(evaluator->function);
  ls_iterator_release(evaluator->iterator);
  ls_dataset_release(evaluator->batches);
  ls_release(evaluator->allocator, evaluator->overlaps);
  ls_release(evaluator->allocator, evaluator);
}

ls_function *ls_evaluator_function(const ls_evaluator *evaluator) {
  return evaluator->function;
}

static int64_t evaluator_num_overlaps(const ls_evaluator *evaluator) {
  return evaluator->overlaps != NULL ? 2 * evaluator->model->type->num_classes
                                     : 0;
}

// Adds a batch's sums; `*out_has_batch` is false after the last batch.
static ls_status add_batch(ls_evaluator *evaluator, bool *out_has_batch,
                           ls_evaluation *sums) {
  ls_status status = ls_iterator_next(evaluator->iterator, &evaluator->batch);
  *out_has_batch = ls_status_code(status) != LS_OUT_OF_RANGE;
  if (!*out_has_batch) {
    ls_status_free(status);
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(status);
  int64_t row = 0;
  status =
      ls_train_check_labels(evaluator->model->type, evaluator->batch, &row);
  if (!ls_status_is_ok(status))
    return ls_train_name_example(evaluator->allocator, evaluator->batches, 0, 0,
                                 sums->examples + row, status);
  LS_RETURN_IF_ERROR(ls_function_call(evaluator->function, evaluator->batch,
                                      &evaluator->results));
  const ls_nest results = evaluator->results;
  const int64_t rows = ls_train_batch_size(evaluator->batch);
  sums->examples += rows;
  evaluator->counted +=
      has_void(evaluator->model->type)
          ? (int64_t)ls_array_f64(ls_nest_as_array(ls_nest_item(results, 3)), 0)
          : rows;
  sums->loss += ls_array_f64(ls_nest_as_array(ls_nest_item(results, 0)), 0);
  sums->accuracy += ls_array_f64(ls_nest_as_array(ls_nest_item(results, 1)), 0);
  for (int64_t i = 0; i < evaluator_num_overlaps(evaluator); ++i)
    evaluator->overlaps[i] +=
        ls_array_f64(ls_nest_as_array(ls_nest_item(results, 2)), i);
  return ls_ok();
}

// Returns the mean intersection over union of the classes that occur.
static double evaluator_mean_iou(const ls_evaluator *evaluator) {
  const int64_t classes = evaluator_num_overlaps(evaluator) / 2;
  double sum = 0, count = 0;
  for (int64_t i = 0; i < classes; ++i) {
    const double either = evaluator->overlaps[classes + i];
    if (either == 0) continue;
    sum += evaluator->overlaps[i] / either;
    ++count;
  }
  return count > 0 ? sum / count : NAN;
}

static ls_status evaluate_add_all(ls_evaluator *evaluator,
                                  const ls_train_stop *stop,
                                  ls_evaluation *sums) {
  LS_RETURN_IF_ERROR(ls_iterator_seek_epoch(evaluator->iterator, 0));
  evaluator->counted = 0;
  for (int64_t i = 0; i < evaluator_num_overlaps(evaluator); ++i)
    evaluator->overlaps[i] = 0;
  for (bool has_batch = true; has_batch;) {
    if (!ls_iterator_wait(evaluator->iterator, ls_train_stop_asked,
                          (void *)(uintptr_t)stop))
      return LS_STATUS(LS_CANCELLED, "the evaluation was stopped by request");
    LS_RETURN_IF_ERROR(add_batch(evaluator, &has_batch, sums));
  }
  return ls_ok();
}

ls_status ls_evaluator_run(ls_evaluator *evaluator, const ls_train_stop *stop,
                           ls_evaluation *out_evaluation) {
  LS_REQUIRE_OUT(out_evaluation, evaluator);
  ls_evaluation sums = {0};
  const uint64_t calls = ls_function_steps(evaluator->function);
  const ls_status status = evaluate_add_all(evaluator, stop, &sums);
  if (!ls_status_is_ok(status)) {
    // Restores the draw counter, so that a repeated evaluation draws the same
    // numbers.
    ls_function_set_steps(evaluator->function, calls);
    return status;
  }
  const double labels =
      (double)evaluator->counted * (double)labels_of(evaluator->model->type);
  *out_evaluation = (ls_evaluation){.examples = sums.examples,
                                    .loss = sums.loss / labels,
                                    .accuracy = sums.accuracy / labels,
                                    .mean_iou = evaluator_mean_iou(evaluator)};
  return ls_ok();
}
