// SPDX-License-Identifier: Apache-2.0
// Estimators, private part.
#ifndef LS_ESTIMATOR_CALLS_ESTIMATOR_H_
#define LS_ESTIMATOR_CALLS_ESTIMATOR_H_

#include "estimator/own.h"
#include "estimator/spec/calls.h"
#include "lockstep/estimator.h"
#include "lockstep/saved_file.h"
#include "lockstep/train_and_evaluate.h"
#include "lockstep/training_parts.h"
#include "net/agreement.h"
#include "state/checkpoint_file.h"

struct ls_estimator {
  ls_runtime *runtime;
  ls_model_function model_fn;
  ls_cache_function caches[LS_NUM_MODES];  // Zeroed if not set.
  char *model_dir;
  // Copy with log_step_count_steps unset; its value is in `log_steps`.
  ls_run_config *config;
  ls_opt log_steps;
  ls_nest params;
  bool has_params;
  ls_plans *plans;
  int64_t *batch_axis;
  size_t num_batch_axes;
  bool exports_to_tpu, replica_0_loss, input_end_fails;
  ls_warm_start warm_start;  // Borrowed; path NULL: none.
  bool has_predictions;      // True while predictions are open.
  char *compile_error;  // Compile error of the last program; NULL: it compiled.
};

static inline const ls_run_values *
ls_estimator_run_values(const ls_estimator *self) {
  return ls_run_config_values(self->config);
}

// Returns the step of the newest checkpoint in the model's folder, read from
// the file's name alone; -1 if there is none.
LS_MUST_USE ls_status ls_estimator_newest_step(const ls_estimator *self,
                                               int64_t *out_step);
// Returns the step of the newest intact checkpoint, whose bytes are all as
// written; -1 if there is none. If `tells`, logs the newer checkpoints that are
// skipped.
//   LS_DATA_LOSS  all checkpoints are damaged
LS_MUST_USE ls_status ls_estimator_whole_step(const ls_estimator *self,
                                              bool tells, int64_t *out_step);

// Returns the path of the checkpoint of a step; the caller releases the text.
LS_MUST_USE ls_status ls_estimator_checkpoint_path(const ls_estimator *self,
                                                   int64_t step,
                                                   char **out_path);

// The checkpoint from which a call starts: the one that the caller names, which
// is never skipped, or the newest intact one. Zeroed if there is none.
typedef struct ls_estimator_checkpoint {
  ls_saved_file *file;
  char *path;
} ls_estimator_checkpoint;
LS_MUST_USE ls_status
ls_estimator_checkpoint_open(const ls_estimator *self, const char *given,
                             ls_estimator_checkpoint *out_checkpoint);
void ls_estimator_checkpoint_close(ls_estimator_checkpoint *checkpoint);

// Joins the ranks of a training, with evaluations or without (NULL), and
// compares the facts that they share (train.c). The caller deinits `ranks`,
// which are zeroed in a process that is alone.
//   LS_FAILED_PRECONDITION  on all ranks: names two of them and what differs.
LS_MUST_USE ls_status ls_estimator_meet_ranks(const ls_estimator *self,
                                              const ls_estimator_training *t,
                                              const ls_eval_spec *eval,
                                              ls_ranks *ranks);

// Trains as ls_estimator_train does, which has zeroed `out_end`. A listener may
// set `*pauses`, which ends the training after the run, to be continued;
// afterwards it is true if that alone has ended it. NULL: never.
LS_MUST_USE ls_status ls_estimator_train_part(
    ls_estimator *estimator, const ls_estimator_training *training,
    bool *pauses, ls_training_end *out_end);

// ---- Results of evaluations ------------------------------------------------
// Results of an evaluation: its losses, and event files.

// ---- Losses ----------------------------------------------------------------
// The loss of an evaluation: a weighted mean. In the replicas of a strategy,
// each replica sums its own losses in order of steps, and the sums are added
// once along the canonical tree, as a program on cores does.
//
// Zeroed, apart from `of_first`, the struct is empty.
typedef struct ls_eval_losses {
  double mean, weight;
  double *sums;  // One per replica, rounded to the loss's type.
  size_t count;
  bool of_first;  // True if only the first replica's losses count.
  bool is_wide;   // True if losses are f64, else f32.
  // True if replicas weight losses by their number of examples.
  bool by_examples;
  int64_t steps, examples;
} ls_eval_losses;

// Adds a loss with this weight; the weight 0 adds nothing.
void ls_eval_losses_add_mean(ls_eval_losses *self, double loss, double weight);
// Adds a step's losses, one per replica, and the replicas' numbers of examples,
// or none.
LS_MUST_USE ls_status ls_eval_losses_add(ls_eval_losses *self, ls_nest losses,
                                         ls_nest examples);
// Returns true if any example was evaluated.
bool ls_eval_losses_any(const ls_eval_losses *self);
// Returns the mean loss; requires that there was an example.
double ls_eval_losses_mean(const ls_eval_losses *self);
// Drops all losses.
void ls_eval_losses_drop(ls_eval_losses *self);

// ---- Event files -----------------------------------------------------------
// Checks that the name of an evaluation (NULL or "" for none) can be part of a
// path.
LS_MUST_USE ls_status ls_check_evaluation_name(const char *name);
// Writes the path of an evaluation's event folder, eval or eval_NAME in the
// model's folder, into a zeroed text; the caller deinits it.
LS_MUST_USE ls_status ls_print_eval_folder(const ls_estimator *self,
                                           const char *name, ls_text *out);
// Returns true for an exporter of the final model.
bool ls_exporter_is_for_end(const ls_exporter *self);
// Writes the results of an evaluation to event files in the event folder.
// `checkpoint` may be NULL.
LS_MUST_USE ls_status ls_write_eval_events(const ls_estimator *self,
                                           const char *name,
                                           const char *checkpoint,
                                           ls_nest metrics);

#endif  // LS_ESTIMATOR_CALLS_ESTIMATOR_H_
