// SPDX-License-Identifier: Apache-2.0
// Layer: estimator
//
// Training with evaluations on the way, and exports of the evaluated models.
//
//   ls_train_and_evaluation end;
//   ls_status status = ls_train_and_evaluate(
//       estimator,
//       &(ls_train_spec){.input = {my_input}, .max_steps = LS_SOME(10000)},
//       &(ls_eval_spec){.input = {my_eval_input},
//                       .exporters = &best,
//                       .num_exporters = 1},
//       &end);
//
// Threads: as for estimators; one thread at a time uses an exporter.
#ifndef LOCKSTEP_TRAIN_AND_EVALUATE_H_
#define LOCKSTEP_TRAIN_AND_EVALUATE_H_

#include "lockstep/estimator_export.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Exporters -------------------------------------------------------------
typedef enum ls_exporter_kind {
  LS_EXPORTER_LATEST,  // Every evaluated model.
  // Only the final model: that of max_steps or, without it, of the last step of
  // a training that no stop has ended. A training that ends before max_steps,
  // as by stop_early, has none.
  LS_EXPORTER_FINAL,
  LS_EXPORTER_BEST,    // Models better than all earlier ones.
} ls_exporter_kind;

// Zero in a field means its default. Everything is lent for the exporter's
// life, except the name and the folder, which are copied.
typedef struct ls_exporter_options {
  ls_exporter_kind kind;
  const char *name;  // Required: exports are <model_dir>/export/NAME/SECONDS.
  ls_receiver_function receiver;  // Required.
  const ls_serving_asset *assets;
  size_t num_assets;
  ls_flag onnx, stablehlo;  // See ls_estimator_exporting.
  int64_t batch_size;
  // Number of newest exports to keep. Default 5; for LS_EXPORTER_FINAL all.
  ls_opt keep;

  // For LS_EXPORTER_BEST: returns true if `metrics` are better than the best so
  // far. Default: their "loss" is smaller.
  bool (*is_better)(void *user, ls_nest best, ls_nest metrics);
  void *user;
  // Folder of event files of earlier evaluations, from which the best so far is
  // found. Default: that of the evaluation.
  const char *events;
} ls_exporter_options;

typedef struct ls_exporter ls_exporter;
// Creates an exporter; the caller destroys it.
//   LS_INVALID_ARGUMENT  no name, or one that is no part of a path; no
//                        receiver; keep below 1; a field of another kind.
LS_API LS_MUST_USE ls_status ls_exporter_create(
    const ls_exporter_options *options, ls_exporter **out_exporter);
LS_API void ls_exporter_destroy(ls_exporter *exporter);  // NULL is fine.
LS_API const char *ls_exporter_name(const ls_exporter *exporter);

// The evaluated model. Lent.
typedef struct ls_exporter_call {
  const char *checkpoint;  // Default: the newest.
  ls_nest metrics;
  const char *evaluation;  // Name of the evaluation. Default: none.
  bool is_final;           // LS_EXPORTER_FINAL exports it.
} ls_exporter_call;
// Exports the model if the exporter's kind selects it: `*out_path` is the
// folder, which the caller owns (ls_text_release), else NULL. LS_EXPORTER_BEST
// always exports the first model, if its folder has no export.
LS_API LS_MUST_USE ls_status ls_exporter_export(ls_exporter *exporter,
                                                ls_estimator *estimator,
                                                const ls_exporter_call *call,
                                                char **out_path);

// ---- Training and evaluation -----------------------------------------------
// Zero in a field means its default.
typedef struct ls_train_spec {
  ls_input_function input;  // Required.
  ls_opt max_steps;         // Default: up to the end of the input.
  ls_hook *const *hooks;
  size_t num_hooks;
  const ls_save_listener *listeners;
  size_t num_listeners;
  const ls_train_stop *stop;
  bool overwrite;  // As in ls_estimator_training, like the lines.
  ls_training_lines lines;
} ls_train_spec;

typedef struct ls_eval_spec {
  ls_input_function input;  // Required.
  ls_opt steps;             // Default 100.
  // Evaluates up to the end of the input, instead of `steps`.
  bool whole_input;
  const char *name;
  ls_hook *const *hooks;
  size_t num_hooks;
  ls_exporter *const *exporters;  // Their names must differ.
  size_t num_exporters;
  ls_opt start_delay_secs;  // Initial delay of an evaluator. Default 120.
  ls_opt throttle_secs;     // Time between evaluations. Default 600.
  // Ends the training once a metric, such as "loss", "accuracy" or "f1:max",
  // has not become better for `patience` evaluations by more than `min_delta`:
  // lower losses, or as :min or :max says. Evaluations of earlier calls count,
  // by their event files. For trainings in one process. Default: never.
  const char *stop_early;
  int64_t patience;  // Default 3.
  double min_delta;  // Default 0.
  // Also keeps the checkpoint whose evaluation was best by such a metric.
  // Default: that of `stop_early`.
  const char *keep_best;
} ls_eval_spec;

// Result, which the caller owns (ls_train_and_evaluation_deinit). A task that
// does not evaluate has no metrics.
typedef struct ls_train_and_evaluation {
  ls_training_end training;  // For tasks that train.
  ls_nest metrics;  // Metrics of the last evaluation; a none leaf without one.
  // Path of each exporter's export at that evaluation; NULL: none.
  char **exports;
  size_t num_exports;
  int64_t num_evaluations;
  // By `stop_early`, else `keep_best`: the step of the best evaluation, 0 for
  // none, and its value.
  int64_t best_step;
  double best;
  bool stopped_early;  // By `stop_early`.
} ls_train_and_evaluation;
LS_API void ls_train_and_evaluation_deinit(ls_train_and_evaluation *result);

// Does this process's part, by its task's type:
//   no cluster, "master"  trains; evaluates new checkpoints, except for the
//                         first one, when throttle_secs have passed since the
//                         last evaluation, and the final one, also if an
//                         earlier call has saved it and was stopped before it
//                         evaluated it; then exports
//   "evaluator"           evaluates and exports new checkpoints as they come,
//                         until one has max_steps
//   "chief", "worker"     trains; a worker begins min(60, 5 (index + 1))
//                         seconds later, as a rank with the others or, without
//                         a communicator, by itself in a folder of its own
// All waits are by the runtime's clock, and end when a stop is requested, after
// which nothing is evaluated or exported. If both run on the same TPU system,
// the training is ended for an evaluation, and resumes from its checkpoint: its
// hooks begin again. `out_result` may be NULL.
//   LS_INVALID_ARGUMENT     no input; numbers that are too small; duplicate
//                           names of exporters; a second evaluator.
//   LS_FAILED_PRECONDITION  there is no new checkpoint to evaluate; another
//                           process trains in the folder.
//   LS_UNIMPLEMENTED        a task of type "ps", or an unknown one.
LS_API LS_MUST_USE ls_status ls_train_and_evaluate(
    ls_estimator *estimator, const ls_train_spec *train,
    const ls_eval_spec *eval, ls_train_and_evaluation *out_result);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_TRAIN_AND_EVALUATE_H_
