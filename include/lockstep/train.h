// SPDX-License-Identifier: Apache-2.0
// Layer: train
//
// The training loop: epochs of steps, evaluation, a folder that keeps what the
// run was and how it went, progress for people, and a way to stop.
//
// The library prints nothing and sets no signal handler: lines of progress go
// to the caller's function, and a handler of the caller's requests the stop.
#ifndef LOCKSTEP_TRAIN_H_
#define LOCKSTEP_TRAIN_H_

#include "lockstep/data.h"
#include "lockstep/models.h"
#include "lockstep/strategy.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Stopping --------------------------------------------------------------
// A request that a loop should end after the step it is in. Zeroed: none yet.
typedef struct ls_train_stop {
  int requested;  // Touched by these two functions only.
} ls_train_stop;
// From any thread, and from a signal handler.
LS_API void ls_train_stop_request(ls_train_stop *stop);
LS_API bool ls_train_stop_requested(const ls_train_stop *stop);

// ---- Evaluation ------------------------------------------------------------
// Means over a whole dataset.
typedef struct ls_evaluation {
  int64_t examples;
  double loss, accuracy;
} ls_evaluation;

// Evaluates models of one type on a dataset; compiles once. Owned by one.
typedef struct ls_evaluator ls_evaluator;
// The model is lent for the evaluator's life, the dataset retained.
//   LS_INVALID_ARGUMENT  the dataset does not fit the model; see
//                        ls_train_check_data.
LS_API LS_MUST_USE ls_status ls_evaluator_create(const ls_model *model,
                                                 ls_dataset *dataset,
                                                 ls_evaluator **out_evaluator);
LS_API void ls_evaluator_destroy(ls_evaluator *evaluator);  // NULL is fine.
// `stop` may be NULL.
//   LS_CANCELLED  a stop was requested before the end.
LS_API LS_MUST_USE ls_status ls_evaluator_run(ls_evaluator *evaluator,
                                              const ls_train_stop *stop,
                                              ls_evaluation *out_evaluation);

// OK if the dataset's examples can be given to a model of this type and it has
// no more classes than that. INVALID_ARGUMENT naming both otherwise.
LS_API LS_MUST_USE ls_status ls_train_check_data(const ls_model_type *type,
                                                 const ls_dataset *dataset);

// ---- Training --------------------------------------------------------------
// A batch as the arguments of a strategy's step: each array is split among the
// replicas; for one replica the batch itself. The caller owns the result, whose
// views keep the batch's arrays.
LS_API LS_MUST_USE ls_status ls_train_split(ls_strategy *strategy,
                                            ls_nest batch, ls_nest *out_args);
// How far a run is, after each step.
typedef struct ls_train_report {
  int64_t epoch, num_epochs;            // This one counts from 1.
  int64_t epoch_step, steps_per_epoch;  // Steps done in this epoch.
  int64_t step, num_steps;              // In the whole run.
  double loss, accuracy;                // Means over this epoch so far.
  double examples_per_second;           // The same.
  double seconds;                       // Since the run began.
  double seconds_left;                  // By the steps of this epoch.
  bool epoch_end;                       // The epoch's last report.
  bool tested;                          // It has an evaluation on the test set.
  ls_evaluation test;
} ls_train_report;

// Steps of a run with these options: full batches of `train_size` examples for
// the epochs or steps asked for (0: not asked for). 0 when there is no batch.
LS_API int64_t ls_train_count_steps(const ls_model_type *type,
                                    int64_t train_size, int64_t batch_size,
                                    int64_t epochs, int64_t steps);

// What to train and how. Zero in a field means its default.
typedef struct ls_train_options {
  const ls_model *model;      // Required; made with `.metrics`. Lent.
  ls_strategy *strategy;      // Required. Lent.
  ls_dataset *train;          // Required. Lent.
  ls_dataset *test;           // Evaluated after each epoch. Default: none.
  int64_t batch_size;         // Of all replicas. Default: the model's.
  int64_t epochs;             // Default: the model's, or as `steps` needs.
  int64_t steps;              // End after so many. Default: no limit.
  int64_t seed;               // Of the order of examples.
  const char *run_folder;     // Default: none is written.
  bool overwrite;             // Replace what a run left there before.
  const char *data_name;      // For config.json, like the next two.
  double learning_rate;       // Default: the model's.
  const char *schedule;       // Of the learning rate. Default "constant".
  int64_t log_every;          // Steps a line of metrics.jsonl. Default 100.
  const ls_train_stop *stop;  // Default: never.
  void (*report)(void *user, const ls_train_report *report);  // Default: none.
  void *report_user;
} ls_train_options;

// How it went.
typedef struct ls_train_result {
  int64_t steps;
  double seconds;
  bool stopped;  // By request.
  bool tested;
  ls_evaluation test;  // The last one.
} ls_train_result;

// Trains. Each epoch deals all full batches in an order of its own. The run
// folder gets
//   config.json        what was asked for, with defaults filled in
//   metrics.jsonl      a line per `log_every` steps and per evaluation
//   model.safetensors  the trained variables, at the end or when stopped
// A request to stop is no failure: what there is gets saved.
//   LS_INVALID_ARGUMENT  what the replicas cannot share evenly, a dataset that
//                        does not fit, and other options that cannot be.
//   LS_ALREADY_EXISTS    the folder holds a run.
//   LS_OUT_OF_RANGE      the loss is no number any more.
LS_API LS_MUST_USE ls_status ls_train(const ls_train_options *options,
                                      ls_train_result *out_result);

// ---- Progress --------------------------------------------------------------
// Lines for people, from reports: on a terminal one that is rewritten in
// place, else one per epoch and per few seconds.
typedef struct ls_progress ls_progress;

// Zero in a field means its default.
typedef struct ls_progress_options {
  void (*write)(void *user, const char *text);  // Required.
  void *user;
  bool terminal;
  int width;  // Columns of the terminal. Default 80.
} ls_progress_options;

LS_API LS_MUST_USE ls_status ls_progress_create(
    const ls_progress_options *options, ls_progress **out_progress);
// Ends a line that is being rewritten, and frees. NULL is fine.
LS_API void ls_progress_destroy(ls_progress *progress);
// Takes a report; fits ls_train_options.report.
LS_API void ls_progress_show(void *progress, const ls_train_report *report);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_TRAIN_H_
