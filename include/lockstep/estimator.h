// SPDX-License-Identifier: Apache-2.0
// Layer: estimator
//
// Estimators: a model function trained, evaluated and used, on the cores of a
// TPU system, on CPUs or in a strategy, from and to a folder of checkpoints.
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
// Each call builds a graph of its own and begins with the newest checkpoint of
// the folder, so that a training that was ended, by whatever, goes on where it
// was saved last, with the same bits. Examples and steps are counted by the
// variable 'global_step', which the model's train op must move by one a step.
//
// A request to stop is no failure: training ends after the run that it is in,
// saves, and says so.
//
// A TPU system has one user at a time: while a call of an estimator trains or
// evaluates on it, or predictions of one are open, calls of others for that
// system are FAILED_PRECONDITION and name it.
//
// Threads: an estimator is used by one thread at a time; stops are requested
// from any thread and from signal handlers.
#ifndef LOCKSTEP_ESTIMATOR_H_
#define LOCKSTEP_ESTIMATOR_H_

#include "lockstep/estimator_functions.h"
#include "lockstep/train.h"

#ifdef __cplusplus
extern "C" {
#endif

// Zero in a field means its default. Functions, and where they are given
// something, that, are lent for the estimator's life.
typedef struct ls_estimator_options {
  ls_model_function model_fn;                 // Required.
  ls_cache_function train_cache, eval_cache;  // Default: no cache.
  const char *model_dir;  // Default: the configuration's, else a new temporary
                          // folder.
  ls_run_config *config;  // Required: of a TPU run.
  ls_nest params;   // A dict of numbers, arrays and nests. Default: empty.
  ls_flag use_tpu;  // Default on.
  ls_opt train_batch_size, eval_batch_size, predict_batch_size;  // Global.
  // Along which axis the examples of each tensor of a batch lie, features
  // before labels: there a host's batch is split, or a strategy's, and filled
  // up. Default: 0. Not with predictions of LS_INPUT_PER_HOST_V1.
  const int64_t *batch_axis;
  size_t num_batch_axes;
  ls_flag eval_on_tpu, export_to_tpu;  // Default on.
  // What a training begins with that has no checkpoint: all variables but the
  // global step; with patterns those that are trained. Where values are all
  // there is, as in an export, variables that are not trained may be missing,
  // an optimizer's: they begin with their own values, and the log tells, unless
  // `values.missing` is off. Lent for the estimator's life.
  const ls_warm_start *warm_start;

  // Training and evaluation on TPUs take batches of any size, which are filled
  // up and masked (ls_model_call.mask). Where hosts have data of their own, one
  // whose data end before the others' feeds batches without an example until
  // all have ended. Without this the first that ends ends the input.
  bool any_batch;
  // The loss that is told is replica 0's, instead of the mean over examples.
  bool replica_0_loss;
  // The end of the input before the steps that a training or an evaluation was
  // to make is an error (LS_OUT_OF_RANGE). Default: it ends them.
  bool input_end_fails;
} ls_estimator_options;

typedef struct ls_estimator ls_estimator;

//   LS_INVALID_ARGUMENT  names what is wrong: no TPU configuration, reserved
//                        parameters, batch sizes, a model function's arguments,
//                        two model folders.
LS_API LS_MUST_USE ls_status ls_estimator_create(
    const ls_estimator_options *options, ls_estimator **out_estimator);
LS_API void ls_estimator_destroy(ls_estimator *estimator);  // NULL is fine.

// Lent for the estimator's life. The configuration is a copy, in which
// `log_step_count_steps` is unset: the estimator's own hooks tell that often.
LS_API const char *ls_estimator_model_dir(const ls_estimator *estimator);
LS_API const ls_run_config *
ls_estimator_run_config(const ls_estimator *estimator);
// A copy, the caller's.
LS_API ls_nest ls_estimator_params(const ls_estimator *estimator);

// Why the program of the last call on TPUs did not compile, where the
// environment's TPU_SPLIT_COMPILE_AND_EXECUTE is 1: such a call makes no step
// and is no failure. NULL: it did, or nobody asked. Lent until the next call on
// TPUs.
LS_API const char *
ls_estimator_last_compile_error(const ls_estimator *estimator);

// ---- Training --------------------------------------------------------------
typedef struct ls_estimator_training {
  ls_input_function input;  // Required.
  // Steps more than there were, or up to; on TPUs one of the two. On CPUs
  // neither: up to the end of the input.
  ls_opt steps, max_steps;
  ls_hook *const *hooks;
  size_t num_hooks;
  const ls_save_listener *listeners;  // Of the saver.
  size_t num_listeners;
  const ls_train_stop *stop;
} ls_estimator_training;

typedef struct ls_training_end {
  int64_t step;   // The global step.
  bool has_loss;  // Some run was made.
  double loss;    // Of the last one.
  bool stopped;   // As it was asked to.
  bool input_ended;
} ls_training_end;

// Trains. `out_end` may be NULL. Without a step to make nothing is built.
//   the first real cause of a failure, of whatever thread
LS_API LS_MUST_USE ls_status ls_estimator_train(
    ls_estimator *estimator, const ls_estimator_training *training,
    ls_training_end *out_end);

// ---- Evaluation ------------------------------------------------------------
typedef struct ls_estimator_evaluation {
  ls_input_function input;  // Required.
  ls_opt steps;  // Default: up to the end of the input; on TPUs only with
                 // any_batch.
  ls_hook *const *hooks;
  size_t num_hooks;
  // A path "DIR/model.ckpt-7", which is never passed over. Default: the newest
  // that is whole (ls_estimator_latest_checkpoint).
  const char *checkpoint;
  const char *name;  // Of this among evaluations: no '/'. Default: none.
  const ls_train_stop *stop;
} ls_estimator_evaluation;

// Evaluates. `*out_metrics`, the caller's, is a dict of metrics by name, with
// "loss", a mean, and "global_step"; they are written to event files in
// `model_dir`/eval, or /eval_NAME. Where no example was evaluated, as a stop
// was requested before or the input has none, there is "global_step" alone, a
// warning, and nothing is written. A stop on the way ends it: metrics are those
// of the batches until then, which no event file says.
LS_API LS_MUST_USE ls_status ls_estimator_evaluate(
    ls_estimator *estimator, const ls_estimator_evaluation *evaluation,
    ls_nest *out_metrics);
// Whether such metrics are of an example at least.
LS_API bool ls_estimator_has_evaluated(ls_nest metrics);

// ---- Prediction ------------------------------------------------------------
typedef struct ls_estimator_prediction {
  ls_input_function input;  // Required.
  const char *const *keys;  // Of predictions, which are wanted. Default: all.
  size_t num_keys;
  ls_hook *const *hooks;
  size_t num_hooks;
  const char *checkpoint;     // As of evaluations.
  bool batches;               // Gives whole ones. Default: row by row.
  const ls_train_stop *stop;  // Lent until they are closed, as is what
                              // functions are given.
} ls_estimator_prediction;

// Predictions on their way. An estimator makes one at a time, must outlive it,
// and while it is open refuses to train and evaluate on TPUs
// (LS_FAILED_PRECONDITION).
typedef struct ls_predictions ls_predictions;
//   LS_FAILED_PRECONDITION  there is one that was not closed.
LS_API LS_MUST_USE ls_status ls_estimator_predict(
    ls_estimator *estimator, const ls_estimator_prediction *prediction,
    ls_predictions **out_predictions);
// The next row or batch, into `*row`, in-out as in ls_session_run.
//   LS_OUT_OF_RANGE  there are no more.
LS_API LS_MUST_USE ls_status ls_predictions_next(ls_predictions *predictions,
                                                 ls_nest *row);
// Ends them, also early. NULL is fine.
LS_API LS_MUST_USE ls_status ls_predictions_close(ls_predictions *predictions);

// ---- What was trained ------------------------------------------------------
// The path of the newest checkpoint that is whole, "DIR/model.ckpt-7", which
// all calls begin with that are given none: all of it is read, and newer ones
// that are damaged are passed over, with one warning that names both. The
// caller's (ls_text_release); NULL if there is none.
//   LS_DATA_LOSS  there are some, and none is whole.
LS_API LS_MUST_USE ls_status
ls_estimator_latest_checkpoint(const ls_estimator *estimator, char **out_path);
// The names of its variables, in order: a list of the caller's, that
// ls_estimator_free_names frees.
//   LS_FAILED_PRECONDITION  "Could not find trained model".
LS_API LS_MUST_USE ls_status ls_estimator_variable_names(
    const ls_estimator *estimator, char ***out_names, size_t *out_count);
LS_API void ls_estimator_free_names(char **names, size_t count);
// The value of one of them, the caller's.
//   LS_FAILED_PRECONDITION  as above.
//   LS_NOT_FOUND            no variable of that name is in it.
LS_API LS_MUST_USE ls_status ls_estimator_variable_value(
    const ls_estimator *estimator, const char *name, ls_array **out_array);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_ESTIMATOR_H_
