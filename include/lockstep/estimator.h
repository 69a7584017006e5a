// SPDX-License-Identifier: Apache-2.0
// Layer: estimator
//
// Estimators: train, evaluate and use a model function, on the cores of a TPU
// system, on CPUs or in a strategy, with a folder of checkpoints.
//
//   ls_estimator *estimator = NULL;
//   ls_status status = ls_estimator_create(
//       &(ls_estimator_options){.model_fn = {my_model},
//                               .config = config,
//                               .train_batch_size = LS_SOME(256)},
//       &estimator);
//   ...
//   status = ls_estimator_train(
//       estimator,
//       &(ls_estimator_training){.input = {my_input},
//                                .max_steps = LS_SOME(1000)},
//       &result);
//
// Each call builds a graph of its own and starts with the newest checkpoint of
// the folder, so that an interrupted training, whatever ended it, resumes from
// its last save with the same bits. The variable 'global_step' counts steps;
// the model's train op must increment it by one per step.
//
// A request to stop is no failure: training ends after the current run, saves,
// and reports it.
//
// A TPU system has one user at a time: while one estimator trains or evaluates
// on it, or its predictions are open, calls of other estimators for that system
// fail with FAILED_PRECONDITION and name it.
//
// On several ranks (communicator.h) all make the same calls. They train and
// evaluate together on the cores of a system; evaluations on a CPU, without a
// strategy, are each rank's own, and in ls_train_and_evaluate rank 0's.
// Everything else is UNIMPLEMENTED there. Host h of H is on rank h n / H of n,
// which alone draws its input; rank 0 runs the functions of hosts, has the
// values of metrics, and writes all files. A request to stop on one rank stops
// all, a failure fails all.
//
// Threads: one thread at a time uses an estimator; any thread and signal
// handlers may request stops.
#ifndef LOCKSTEP_ESTIMATOR_H_
#define LOCKSTEP_ESTIMATOR_H_

#include "lockstep/estimator_functions.h"
#include "lockstep/train.h"

#ifdef __cplusplus
extern "C" {
#endif

// Zero in a field means its default. Functions and their `user` are lent for
// the estimator's life.
typedef struct ls_estimator_options {
  ls_model_function model_fn;                 // Required.
  ls_cache_function train_cache, eval_cache;  // Default: no cache.
  const char *model_dir;  // Default: the configuration's, else a new temporary
                          // folder.
  ls_run_config *config;  // Required; made by ls_tpu_run_config_create.
  ls_nest params;   // A dict of numbers, arrays and nests. Default: empty.
  ls_flag use_tpu;  // Default on.
  // Global batch sizes.
  ls_opt train_batch_size, eval_batch_size, predict_batch_size;
  // Batch axis of each tensor of a batch, features before labels: a host's
  // batch, or a strategy's, is split and padded along it. Default: 0. Not for
  // predictions with LS_INPUT_PER_HOST_V1.
  const int64_t *batch_axis;
  size_t num_batch_axes;
  ls_flag eval_on_tpu, export_to_tpu;  // Default on.
  // Initial values of a training that has no checkpoint: for all variables but
  // the global step; with patterns for the trained ones that match. Where the
  // source has values only, as an export does, variables that are not trained,
  // such as an optimizer's, may be missing: they start with their own initial
  // values, and the log reports them, unless `values.missing` is off. Lent for
  // the estimator's life.
  const ls_warm_start *warm_start;

  // Training and evaluation on TPUs accept batches of any size, which are
  // padded and masked (ls_model_call.mask). Where hosts have data of their own,
  // a host whose data end early feeds batches without an example until all have
  // ended. Default: the first host that ends, ends the input, after the last
  // step that all hosts have.
  bool any_batch;
  bool any_use_batch;  // The same for evaluations and predictions alone.
  // Reports replica 0's loss instead of the mean over examples.
  bool replica_0_loss;
  // Makes an end of input before the requested steps an error
  // (LS_OUT_OF_RANGE). Default: it ends the training or evaluation.
  bool input_end_fails;
} ls_estimator_options;

typedef struct ls_estimator ls_estimator;

// Creates an estimator; the caller destroys it.
//   LS_INVALID_ARGUMENT  names the problem: no TPU configuration, reserved
//                        parameters, batch sizes, a model function's arguments,
//                        two model folders.
LS_API LS_MUST_USE ls_status ls_estimator_create(
    const ls_estimator_options *options, ls_estimator **out_estimator);
LS_API void ls_estimator_destroy(ls_estimator *estimator);  // NULL is fine.

// Lent for the estimator's life. The configuration is a copy in which
// `log_step_count_steps` is unset: the estimator's own hooks report at that
// interval.
LS_API const char *ls_estimator_model_dir(const ls_estimator *estimator);
LS_API const ls_run_config *
ls_estimator_run_config(const ls_estimator *estimator);
// Returns a copy of the parameters, which the caller owns.
LS_API ls_nest ls_estimator_params(const ls_estimator *estimator);

// Returns why the program of the last call on TPUs did not compile, if the
// environment's TPU_SPLIT_COMPILE_AND_EXECUTE is 1: such a call makes no step
// and does not fail. NULL if it compiled or the variable is not set. Lent until
// the next call on TPUs.
LS_API const char *
ls_estimator_last_compile_error(const ls_estimator *estimator);

// ---- Training --------------------------------------------------------------
// Records and checks of the steps of a training, as those of ls_train.
// Zeroed: nothing.
typedef struct ls_training_lines {
  // Writes metrics.jsonl in the folder, as ls_train does: a line with the mean
  // loss of the runs' last steps (with iterations_per_loop "1" of all steps)
  // every 100 steps and at the end, and one for each evaluation of
  // ls_train_and_evaluate; with `checksum` also lines with a checksum of all
  // variables every so many steps.
  bool metrics;
  ls_train_log log;  // Also gets these lines, without those of evaluations.
  int64_t checksum;
  // Adds the norm of the last step's gradients, of all replicas and clipped, to
  // lines of steps; optimizers of this library keep them for it.
  bool gradient_norm;
  // Compares the variables of all ranks every so many steps.
  int64_t check_ranks;
  // Folder of event files of these lines and, at the end, of weights, as in
  // ls_train_options; "": the run's. Those of the model's summaries are there
  // without it. Default: none.
  const char *events;
  // Begins a chain of hashes, as in ls_train_options: of the data of the input
  // function's data set, of lines and checkpoints; saves wait for it. A chain
  // in the folder of a training that goes on does so without it. `config` is
  // what the chain has as the run's configuration, a JSON object. Default: {}.
  bool attest;
  const char *config;
  // Also keeps the checkpoint before which this mean loss was lowest.
  bool keep_best_loss;
  // Called after runs, at most every 0.1 s, without epochs: ls_progress_show.
  void (*report)(void *user, const ls_train_report *report);
  void *report_user;
} ls_training_lines;

typedef struct ls_estimator_training {
  ls_input_function input;  // Required.
  // Additional steps, or the global step to end at; on TPUs exactly one of the
  // two. On CPUs both may be unset: up to the end of the input.
  ls_opt steps, max_steps;
  ls_hook *const *hooks;
  size_t num_hooks;
  const ls_save_listener *listeners;  // Listeners of the saver.
  size_t num_listeners;
  const ls_train_stop *stop;
  // Replaces the run in the folder, which is put back if the training ends
  // without a checkpoint.
  bool overwrite;
  ls_training_lines lines;
  // Also keeps the checkpoint of this step, which listeners may change. The
  // line of an evaluation of the step from which the training goes on is cut
  // off then, as it will be made again, unless `is_evaluated`.
  const int64_t *kept_step;
  bool is_evaluated;
  // Continues a training of this input: a saved position at its end ends the
  // training. Default: a new training begins the input again there.
  bool continues_input;
} ls_estimator_training;

typedef struct ls_training_end {
  int64_t step;   // The global step; -1: stopped before there was one.
  bool has_loss;  // At least one run was made.
  double loss;    // Loss of the last run.
  bool stopped;   // A stop was requested.
  bool input_ended;
} ls_training_end;

// Trains. `out_end` may be NULL. If no step is left to make, nothing is built.
//   the root cause of a failure, of whatever thread
//   LS_FAILED_PRECONDITION  ranks differ in options, data or initial values
LS_API LS_MUST_USE ls_status ls_estimator_train(
    ls_estimator *estimator, const ls_estimator_training *training,
    ls_training_end *out_end);

// ---- Evaluation ------------------------------------------------------------
typedef struct ls_estimator_evaluation {
  ls_input_function input;  // Required.
  // Default: up to the end of the input; on TPUs only with any_batch.
  ls_opt steps;
  ls_hook *const *hooks;
  size_t num_hooks;
  // A path "DIR/model.ckpt-7", which must be intact. Default: the newest intact
  // checkpoint (ls_estimator_latest_checkpoint).
  const char *checkpoint;
  const char *name;  // Name of this evaluation: no '/'. Default: none.
  const ls_train_stop *stop;
  // Logs a failure to write the event files. Default: the evaluation fails.
  bool events_are_optional;
} ls_estimator_evaluation;

// Evaluates. `*out_metrics`, which the caller owns, is a dict of metrics by
// name, with "loss", a mean, and "global_step"; they are written to event files
// in `model_dir`/eval, or /eval_NAME. If no example was evaluated, because a
// stop was requested earlier or the input is empty, it has "global_step" alone,
// the log has a warning, and nothing is written. A stop during the evaluation
// ends it: metrics are those of the batches so far and are not written to event
// files.
LS_API LS_MUST_USE ls_status ls_estimator_evaluate(
    ls_estimator *estimator, const ls_estimator_evaluation *evaluation,
    ls_nest *out_metrics);
// Returns true if the metrics cover at least one example.
LS_API bool ls_estimator_has_evaluated(ls_nest metrics);

// ---- Prediction ------------------------------------------------------------
typedef struct ls_estimator_prediction {
  ls_input_function input;  // Required.
  const char *const *keys;  // Keys of the predictions to return. Default: all.
  size_t num_keys;
  ls_hook *const *hooks;
  size_t num_hooks;
  const char *checkpoint;  // See ls_estimator_evaluation.
  bool batches;            // Returns whole batches. Default: row by row.
  // Lent until the predictions are closed, as are the functions' `user`.
  const ls_train_stop *stop;
} ls_estimator_prediction;

// Predictions in progress. An estimator makes one set at a time and must
// outlive it; while it is open it refuses to train and evaluate on TPUs
// (LS_FAILED_PRECONDITION).
typedef struct ls_predictions ls_predictions;
// Starts predictions; the caller closes them.
//   LS_FAILED_PRECONDITION  earlier predictions are still open.
LS_API LS_MUST_USE ls_status ls_estimator_predict(
    ls_estimator *estimator, const ls_estimator_prediction *prediction,
    ls_predictions **out_predictions);
// Reads the next row or batch into `*row`, in-out as in ls_session_run.
//   LS_OUT_OF_RANGE  there are no more.
LS_API LS_MUST_USE ls_status ls_predictions_next(ls_predictions *predictions,
                                                 ls_nest *row);
// Closes predictions, also early. NULL is fine.
LS_API LS_MUST_USE ls_status ls_predictions_close(ls_predictions *predictions);

// ---- The trained model -----------------------------------------------------
// Returns the path of the newest intact checkpoint, "DIR/model.ckpt-7", which
// all calls start with unless they are given one: it is read completely, and
// newer, damaged ones are skipped, with one warning that names both. The caller
// owns the text (ls_text_release); NULL if there is none.
//   LS_DATA_LOSS  there are checkpoints, and none is intact.
LS_API LS_MUST_USE ls_status
ls_estimator_latest_checkpoint(const ls_estimator *estimator, char **out_path);
// Lists the names of its variables, in order. The caller frees the list with
// ls_estimator_free_names.
//   LS_FAILED_PRECONDITION  "Could not find trained model".
LS_API LS_MUST_USE ls_status ls_estimator_variable_names(
    const ls_estimator *estimator, char ***out_names, size_t *out_count);
LS_API void ls_estimator_free_names(char **names, size_t count);
// Returns the value of one of them; the caller owns the array.
//   LS_FAILED_PRECONDITION  there is no trained model.
//   LS_NOT_FOUND            no variable of that name is in the checkpoint.
LS_API LS_MUST_USE ls_status ls_estimator_variable_value(
    const ls_estimator *estimator, const char *name, ls_array **out_array);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_ESTIMATOR_H_
