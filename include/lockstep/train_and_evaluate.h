// SPDX-License-Identifier: Apache-2.0
// Layer: estimator
//
// A training that is evaluated on its way, and whose models are exported as
// they come.
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
// Threads: as of estimators; an exporter is used by one at a time.
#ifndef LOCKSTEP_TRAIN_AND_EVALUATE_H_
#define LOCKSTEP_TRAIN_AND_EVALUATE_H_

#include "lockstep/estimator_export.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Exporters -------------------------------------------------------------
typedef enum ls_exporter_kind {
  LS_EXPORTER_LATEST,  // Each model that is evaluated.
  LS_EXPORTER_FINAL,   // That of the end alone.
  LS_EXPORTER_BEST,    // Those that are better than all before.
} ls_exporter_kind;

// Zero in a field means its default. What is given is lent for the exporter's
// life, but the name and the folder, which are copied.
typedef struct ls_exporter_options {
  ls_exporter_kind kind;
  const char *name;  // Required: exports are <model_dir>/export/NAME/SECONDS.
  ls_receiver_function receiver;  // Required.
  const ls_serving_asset *assets;
  size_t num_assets;
  ls_flag onnx, stablehlo;  // As in ls_estimator_exporting.
  int64_t batch_size;
  ls_opt keep;  // So many are kept, the newest. Default 5; of the end: all.

  // Of the best: whether `metrics` are better than those of the best so far.
  // Default: their "loss" is smaller.
  bool (*is_better)(void *user, ls_nest best, ls_nest metrics);
  void *user;
  // In which folder event files say what former evaluations have given, by
  // which the best so far is found. Default: that of the evaluation.
  const char *events;
} ls_exporter_options;

typedef struct ls_exporter ls_exporter;
//   LS_INVALID_ARGUMENT  no name, or one that is no part of a path; no
//                        receiver; keep below 1; a field of another kind.
LS_API LS_MUST_USE ls_status ls_exporter_create(
    const ls_exporter_options *options, ls_exporter **out_exporter);
LS_API void ls_exporter_destroy(ls_exporter *exporter);  // NULL is fine.
LS_API const char *ls_exporter_name(const ls_exporter *exporter);

// What was evaluated. Lent.
typedef struct ls_exporter_call {
  const char *checkpoint;  // Default: the newest.
  ls_nest metrics;
  const char *evaluation;  // Its name. Default: none.
  bool is_final;           // Nothing is trained behind it.
} ls_exporter_call;
// Exports, if this is one to export: `*out_path` is its folder, the caller's
// (ls_text_release), else NULL. Of the best the first one is always, where
// there is no export in its folder.
LS_API LS_MUST_USE ls_status ls_exporter_export(ls_exporter *exporter,
                                                ls_estimator *estimator,
                                                const ls_exporter_call *call,
                                                char **out_path);

// ---- What is trained and evaluated -----------------------------------------
// Zero in a field means its default.
typedef struct ls_train_spec {
  ls_input_function input;  // Required.
  ls_opt max_steps;         // Default: up to the end of the input.
  ls_hook *const *hooks;
  size_t num_hooks;
  const ls_save_listener *listeners;
  size_t num_listeners;
  const ls_train_stop *stop;
} ls_train_spec;

typedef struct ls_eval_spec {
  ls_input_function input;  // Required.
  ls_opt steps;             // Default 100.
  bool whole_input;         // Up to its end, in place of steps.
  const char *name;
  ls_hook *const *hooks;
  size_t num_hooks;
  ls_exporter *const *exporters;  // Of different names.
  size_t num_exporters;
  ls_opt start_delay_secs;  // An evaluator's. Default 120.
  ls_opt throttle_secs;     // From an evaluation to the next. Default 600.
} ls_eval_spec;

// How it went; the caller's. Of who does not evaluate there are no metrics.
typedef struct ls_train_and_evaluation {
  ls_training_end training;  // Of who trains.
  ls_nest metrics;           // Of the last evaluation; none: there was none.
  char **exports;            // What came of each exporter then; NULL: nothing.
  size_t num_exports;
  int64_t num_evaluations;
} ls_train_and_evaluation;
LS_API void ls_train_and_evaluation_deinit(ls_train_and_evaluation *result);

// Does what is this process' part, by its task's type:
//   no cluster, "master"  trains; evaluates what is saved, but for the first
//                         checkpoint, when throttle_secs have passed since the
//                         last one, and the end; then exports
//   "evaluator"           evaluates and exports new checkpoints as they come,
//                         until one has max_steps
//   "chief", "worker"     trains; a worker begins min(60, 5 (index + 1))
//                         seconds later
// All waits are by the runtime's clock, and end when a stop is requested,
// behind which nothing is evaluated or exported. Where both go on on the same
// TPU system, a training is ended for an evaluation, and goes on from its
// checkpoint: its hooks begin again. `out_result` may be NULL.
//   LS_INVALID_ARGUMENT     no input; numbers that are too small; names of
//                           exporters that are equal; a second evaluator.
//   LS_FAILED_PRECONDITION  there is no new checkpoint to be evaluated.
//   LS_UNIMPLEMENTED        a task of type "ps", or another.
LS_API LS_MUST_USE ls_status ls_train_and_evaluate(
    ls_estimator *estimator, const ls_train_spec *train,
    const ls_eval_spec *eval, ls_train_and_evaluation *out_result);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_TRAIN_AND_EVALUATE_H_
