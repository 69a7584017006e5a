// SPDX-License-Identifier: Apache-2.0
// Results of an evaluation: its losses, and event files.
#ifndef LS_ESTIMATOR_CALLS_EVAL_RESULTS_H_
#define LS_ESTIMATOR_CALLS_EVAL_RESULTS_H_

#include "estimator/calls/estimator.h"

// ---- Losses ----------------------------------------------------------------
// The loss of an evaluation: a mean of weighted ones; or, in the replicas of a
// strategy, each adds its own in the order of steps, and all are put together
// once, along the canonical tree, as a program on cores does.
//
// Zeroed but for `of_first`: nothing is added.
typedef struct ls_eval_losses {
  double mean, weight;
  double *sums;  // One a replica, rounded as their type is.
  size_t count;
  bool of_first;     // The first replica's alone.
  bool is_wide;      // f64; else f32.
  bool by_examples;  // Losses are by the replicas' numbers of examples.
  int64_t steps, examples;
} ls_eval_losses;

// Adds one of this weight; 0: none.
void ls_eval_losses_add_mean(ls_eval_losses *self, double loss, double weight);
// Adds a step's: a value a replica, and the numbers of examples, or none.
LS_MUST_USE ls_status ls_eval_losses_add(ls_eval_losses *self, ls_nest losses,
                                         ls_nest examples);
// Returns whether there was an example.
bool ls_eval_losses_any(const ls_eval_losses *self);
// Returns the mean over all, where there was one.
double ls_eval_losses_mean(const ls_eval_losses *self);
// Drops all that was added.
void ls_eval_losses_drop(ls_eval_losses *self);

// ---- Event files -----------------------------------------------------------
// Checks that the name of an evaluation, NULL or "" for none, can be a part of
// the path of its events.
LS_MUST_USE ls_status ls_check_evaluation_name(const char *name);
// Writes the path of the folder of an evaluation's events, eval or eval_NAME in
// the model's folder, into a zeroed text, which the caller deinits.
LS_MUST_USE ls_status ls_print_eval_folder(const ls_estimator *self,
                                           const char *name, ls_text *out);
// Writes the results of an evaluation to event files there. `checkpoint` NULL:
// there was none.
LS_MUST_USE ls_status ls_write_eval_events(const ls_estimator *self,
                                           const char *name,
                                           const char *checkpoint,
                                           ls_nest metrics);

#endif  // LS_ESTIMATOR_CALLS_EVAL_RESULTS_H_
