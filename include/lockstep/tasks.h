// SPDX-License-Identifier: Apache-2.0
// Layer: models
//
// Tasks of models: classification, regression, several labels of an example, or
// one of a program's own. A type of models is adapted to another one:
//
//   ls_model_type prices;
//   status = ls_model_type_adapt(ls_model_find("mlp"), &ls_task_regression,
//                                2, 1, &prices);
//
// Threads: a task is static data.
#ifndef LOCKSTEP_TASKS_H_
#define LOCKSTEP_TASKS_H_

#include "lockstep/models.h"

#ifdef __cplusplus
extern "C" {
#endif

// A kind of task: how a model's outputs are compared with labels. Static data,
// which a program may have of its own.
struct ls_task {
  const char *name;
  ls_dtype label_dtype;  // i32: numbers of classes; f32: numbers.
  bool is_binary;        // Labels of f32 are 0 or 1.
  // Name of the mean of `scores`, in a step's results and in metrics.jsonl.
  const char *metric;
  bool less_is_better;  // True for a metric that is an error.
  // Make numbers from outputs and labels, a number for each label.
  ls_tensor (*losses)(ls_tensor outputs, ls_tensor labels);
  ls_tensor (*scores)(ls_tensor outputs, ls_tensor labels);
  // Makes a dict of predictions, each with a row for each example.
  ls_nest (*predictions)(ls_tensor outputs);
  // Labels may be LS_VOID_LABEL, of no class, unless there are more classes:
  // losses and scores leave them out.
  bool has_void;
};
// The label of pixels that count for nothing, as in masks of PASCAL VOC.
#define LS_VOID_LABEL 255

// Classification: outputs are logits [..., classes], labels [...] numbers of
// classes; the loss is the softmax cross entropy, the metric "accuracy".
// Predicts "class" and "probability".
LS_API extern const ls_task ls_task_classification;
// Classification of pixels, labels [batch, height, width], which may be void.
// The numbers of an example's other pixels are scaled so that their mean over
// all pixels is that over the others; those of an example of void ones are 0,
// and evaluations do not count it.
LS_API extern const ls_task ls_task_pixels;
// Regression: labels are numbers as the outputs; the loss is the squared error,
// the metric "mae", the mean absolute error. Predicts "value", without its last
// dimension if that is 1.
LS_API extern const ls_task ls_task_regression;
// Several labels of 0 or 1 for each example: outputs are their logits; the loss
// is the sigmoid cross entropy, the metric "accuracy", the fraction of labels
// that are right. Predicts the "probability" of each label.
LS_API extern const ls_task ls_task_multi_label;
// Returns the table of these tasks. Static.
LS_API const ls_task *const *ls_tasks(size_t *out_count);
// Returns the task with this name ("classification", "regression",
// "multi-label"), or NULL.
LS_API const ls_task *ls_task_find(const char *name);

// ---- Types of models -------------------------------------------------------
// Returns the type's task.
LS_API const ls_task *ls_model_type_task(const ls_model_type *type);
// Copies a type for another task, examples of `inputs` elements, and `outputs`
// classes or, in other tasks, numbers for each example. NULL and 0: the type's.
// For labels that are numbers the learning rate becomes 1e-3, and models of the
// library use Adam, whose steps do not grow with the numbers.
//   LS_INVALID_ARGUMENT  the type has a task, inputs or outputs of its own.
LS_API LS_MUST_USE ls_status ls_model_type_adapt(const ls_model_type *type,
                                                 const ls_task *task,
                                                 int64_t inputs,
                                                 int64_t outputs,
                                                 ls_model_type *out_type);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_TASKS_H_
