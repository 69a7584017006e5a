// SPDX-License-Identifier: Apache-2.0
// Layer: train
//
// Parts of a training for custom loops: batches for replicas, means over
// examples, evaluators, progress lines.
//
// Threads: as in lockstep/train.h.
#ifndef LOCKSTEP_TRAINING_PARTS_H_
#define LOCKSTEP_TRAINING_PARTS_H_

#include "lockstep/saver.h"
#include "lockstep/train.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Evaluation ------------------------------------------------------------
// Evaluates models of one type on a data set; compiles once.
typedef struct ls_evaluator ls_evaluator;
// Creates an evaluator; the caller destroys it. The model is lent for the
// evaluator's life, the data set retained.
//   LS_INVALID_ARGUMENT  the data set does not fit the model; see
//                        ls_train_check_data.
LS_API LS_MUST_USE ls_status ls_evaluator_create(const ls_model *model,
                                                 ls_dataset *dataset,
                                                 ls_evaluator **out_evaluator);
LS_API void ls_evaluator_destroy(ls_evaluator *evaluator);  // NULL is fine.
// Evaluates. `stop` may be NULL.
//   LS_CANCELLED  a stop was requested before the end.
LS_API LS_MUST_USE ls_status ls_evaluator_run(ls_evaluator *evaluator,
                                              const ls_train_stop *stop,
                                              ls_evaluation *out_evaluation);

// Returns OK if the data set's elements are examples and labels for a model of
// this type, with at most its number of classes. INVALID_ARGUMENT names both
// otherwise.
LS_API LS_MUST_USE ls_status ls_train_check_data(const ls_model_type *type,
                                                 const ls_dataset *dataset);

// ---- Training --------------------------------------------------------------
// Splits a batch into the arguments of a strategy's step: each array among the
// replicas; for one replica returns the batch itself. The caller owns the
// result, whose views retain the batch's arrays.
LS_API LS_MUST_USE ls_status ls_train_split(ls_strategy *strategy,
                                            ls_nest batch, ls_nest *out_args);
// Computes the mean over the examples of a batch of a value that is, on each
// replica, the mean over its own: `value` has a component for each replica, or
// is one number for all. `args` is a result of ls_train_split. Replicas without
// examples are left out; without any at all the mean is NaN.
//   LS_INVALID_ARGUMENT  another number of components, or no scalar numbers.
LS_API LS_MUST_USE ls_status ls_train_mean(ls_nest args, ls_nest value,
                                           double *out_mean);

// Converts the data set's examples to the model's types and shapes: tuples of
// an example, with bytes of images scaled to 0 to 1, and i32 labels. With
// `shuffle` each epoch has an order of its own. The data set is retained; the
// caller owns the result, which may have failed as in dataset.h.
LS_API ls_dataset *ls_train_examples(const ls_model_type *type,
                                     ls_dataset *dataset, bool shuffle);

// Counts the examples of a data set. One of unknown size is read to its end.
//   LS_INVALID_ARGUMENT  it is infinite, or empty.
LS_API LS_MUST_USE ls_status ls_train_count_examples(const ls_dataset *dataset,
                                                     int64_t *out_count);

// Returns the number of steps of a run with these options: full batches of
// `train_size` examples for the requested epochs or steps (0: not requested). 0
// when there is no batch.
LS_API int64_t ls_train_count_steps(const ls_model_type *type,
                                    int64_t train_size, int64_t batch_size,
                                    int64_t epochs, int64_t steps);

// Prints a configuration as config.json has it, with a checksum; NULL texts and
// zeros are as ls_train_config has them. The caller releases the text
// (ls_text_release).
LS_API LS_MUST_USE ls_status ls_train_config_text(const ls_train_config *config,
                                                  char **out_text);

// ---- First values --------------------------------------------------------
// Initial values of a model, instead of its own.
typedef struct ls_warm_start {
  const char *path;  // Another run's folder, a checkpoint, a .safetensors
                     // or .npz file: see ls_saved_file_open.
  // Selects variables, and the arrays for them. Default: all.
  ls_value_choice values;
} ls_warm_start;

// ---- Progress --------------------------------------------------------------
// Progress lines for people, from reports: on a terminal one line that is
// rewritten in place, else one per epoch and per few seconds.
typedef struct ls_progress ls_progress;

// Zero in a field means its default.
typedef struct ls_progress_options {
  void (*write)(void *user, const char *text);  // Required.
  void *user;
  bool terminal;
  // Returns the columns of the terminal, called for each line; 0: unknown.
  // Default: 80.
  int (*width)(void *user);
} ls_progress_options;

LS_API LS_MUST_USE ls_status ls_progress_create(
    const ls_progress_options *options, ls_progress **out_progress);
// Ends a line that is being rewritten, and frees the progress. NULL is fine.
LS_API void ls_progress_destroy(ls_progress *progress);
// Shows a report; can be used as ls_train_options.report.
LS_API void ls_progress_show(void *progress, const ls_train_report *report);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_TRAINING_PARTS_H_
