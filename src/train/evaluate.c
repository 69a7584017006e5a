// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "base/require.h"
#include "base/runtime_internal.h"
#include "lockstep/nn.h"
#include "lockstep/train.h"

// Labels a call: enough to keep the products busy.
static const int64_t evaluation_labels = 1000;

struct ls_evaluator {
  ls_allocator *allocator;
  const ls_model *model;
  ls_examples *dataset;
  ls_batcher *batcher;
  ls_function *function;
  ls_nest batch, results;
};

static ls_dtype dtype_of(const ls_model_type *type) {
  return type->example_dtype != LS_DTYPE_NONE ? type->example_dtype
                                              : LS_DTYPE_F32;
}

static int64_t labels_of(const ls_model_type *type) {
  return ls_shape_num_elements(type->label_shape);
}

// ---- Data ------------------------------------------------------------------
// "f32[16] of 4 classes", with labels that are no scalars behind the examples.
static void print_data(ls_dtype dtype, ls_shape example, ls_shape label,
                       int64_t classes, char *buffer, size_t size) {
  snprintf(buffer, size, "%s%s%s of %lld classes",
           LS_SHAPE_TEXT(dtype, example), label.rank > 0 ? " labelled " : "",
           label.rank > 0 ? LS_SHAPE_TEXT(LS_DTYPE_I32, label) : "",
           (long long)classes);
}

// u8 examples are dealt as what the model takes.
static bool can_be(ls_dtype from, ls_dtype to) {
  return from == to || from == LS_DTYPE_U8;
}

ls_status ls_train_check_data(const ls_model_type *type,
                              const ls_examples *dataset) {
  LS_REQUIRE(type);
  LS_REQUIRE(dataset);
  const ls_shape example = ls_examples_example_shape(dataset);
  const ls_shape label = ls_examples_label_shape(dataset);
  const int64_t classes = ls_examples_num_classes(dataset);
  const ls_dtype wanted = dtype_of(type);
  const ls_dtype has = ls_array_dtype(ls_examples_examples(dataset));
  if (can_be(has, wanted) &&
      ls_shape_num_elements(example) ==
          ls_shape_num_elements(type->example_shape) &&
      ls_shape_equal(label, type->label_shape) && classes <= type->num_classes)
    return ls_ok();
  char takes[480], are[480];
  print_data(wanted, type->example_shape, type->label_shape, type->num_classes,
             takes, sizeof(takes));
  print_data(has == LS_DTYPE_U8 ? wanted : has, example, label, classes, are,
             sizeof(are));
  return ls_invalid_argument("model '%s' takes examples %s; these are %s",
                             type->name, takes, are);
}

// ---- Evaluation ------------------------------------------------------------
// Sums over a batch, so that batches of any size can be added up.
static ls_nest evaluate_batch(ls_nest args, void *user) {
  const ls_model *model = user;
  const ls_nest result = model->type->logits(args, model->self);
  if (ls_nest_is_failed(result)) return result;
  const ls_tensor logits = ls_nest_tensor(result, 0);
  const ls_tensor labels = ls_nest_tensor(args, 1);
  ls_nest_release(result);
  const ls_tensor losses = ls_softmax_cross_entropy(logits, labels);
  return LS_TUPLE(ls_leaf(ls_reduce_sum(losses, LS_ALL_AXES)),
                  ls_leaf(ls_count_correct(logits, labels)));
}

static ls_status fill(ls_evaluator *evaluator) {
  const ls_model *model = evaluator->model;
  LS_RETURN_IF_ERROR(ls_train_check_data(model->type, evaluator->dataset));
  const int64_t batch = evaluation_labels / labels_of(model->type);
  LS_RETURN_IF_ERROR(ls_batcher_create(
      evaluator->dataset,
      &(ls_batcher_options){.batch_size = batch > 0 ? batch : 1,
                            .dtype = dtype_of(model->type),
                            .example_shape = model->type->example_shape},
      &evaluator->batcher));
  return ls_function_create(
      &(ls_function_options){.call = evaluate_batch,
                             .user = (void *)(uintptr_t)model,
                             .name = "evaluate"},
      &evaluator->function);
}

ls_status ls_evaluator_create(const ls_model *model, ls_examples *dataset,
                              ls_evaluator **out_evaluator) {
  LS_REQUIRE(model);
  LS_REQUIRE(dataset);
  LS_REQUIRE(out_evaluator);
  *out_evaluator = NULL;
  LS_REQUIRE(model->type);
  LS_REQUIRE(model->type->logits);
  ls_allocator *allocator = ls_current_allocator();
  ls_evaluator *evaluator = ls_new(allocator, ls_evaluator);
  if (evaluator == NULL) return ls_out_of_memory();
  evaluator->allocator = allocator;
  evaluator->model = model;
  evaluator->dataset = ls_examples_retain(dataset);
  const ls_status status = fill(evaluator);
  if (!ls_status_is_ok(status))
    ls_evaluator_destroy(evaluator);
  else
    *out_evaluator = evaluator;
  return status;
}

void ls_evaluator_destroy(ls_evaluator *evaluator) {
  if (evaluator == NULL) return;
  ls_nest_release(evaluator->batch);
  ls_nest_release(evaluator->results);
  ls_function_release(evaluator->function);
  ls_batcher_destroy(evaluator->batcher);
  ls_examples_release(evaluator->dataset);
  ls_release(evaluator->allocator, evaluator);
}

ls_status ls_evaluator_run(ls_evaluator *evaluator, const ls_train_stop *stop,
                           ls_evaluation *out_evaluation) {
  LS_REQUIRE(evaluator);
  LS_REQUIRE(out_evaluation);
  *out_evaluation = (ls_evaluation){0};
  const int64_t batches = ls_batcher_num_batches(evaluator->batcher);
  double loss = 0, correct = 0;
  LS_RETURN_IF_ERROR(ls_batcher_seek(evaluator->batcher, 0, 0));
  for (int64_t i = 0; i < batches; ++i) {
    if (ls_train_stop_requested(stop))
      return LS_STATUS(LS_CANCELLED, "the evaluation was stopped by request");
    LS_RETURN_IF_ERROR(ls_batcher_next(evaluator->batcher, &evaluator->batch));
    LS_RETURN_IF_ERROR(ls_function_call(evaluator->function, evaluator->batch,
                                        &evaluator->results));
    const ls_nest results = evaluator->results;
    loss += ls_array_f64(ls_nest_as_array(ls_nest_item(results, 0)), 0);
    correct += ls_array_f64(ls_nest_as_array(ls_nest_item(results, 1)), 0);
  }
  const int64_t examples = ls_examples_size(evaluator->dataset);
  const double labels =
      (double)examples * (double)labels_of(evaluator->model->type);
  *out_evaluation = (ls_evaluation){.examples = examples,
                                    .loss = loss / labels,
                                    .accuracy = correct / labels};
  return ls_ok();
}
