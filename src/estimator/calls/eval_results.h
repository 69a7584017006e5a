// SPDX-License-Identifier: Apache-2.0
// Results of an evaluation: its losses, and event files.
#ifndef LS_ESTIMATOR_CALLS_EVAL_RESULTS_H_
#define LS_ESTIMATOR_CALLS_EVAL_RESULTS_H_

#include "estimator/calls/estimator.h"

// ---- Losses ----------------------------------------------------------------
// The loss of an evaluation. It is a weighted mean; or, in the replicas of a
// strategy, each replica sums its own losses in order of steps, and the sums
// are added once along the canonical tree, as a program on cores does.
//
// Zeroed, except for `of_first`, it is empty.
typedef struct ls_eval_losses {
  double mean, weight;
  double *sums;  // One per replica, rounded to the loss's type.
  size_t count;
  bool of_first;  // Counts only the first replica's losses.
  bool is_wide;   // True if losses are f64, else f32.
  // True if replicas weight losses by their number of examples.
  bool by_examples;
  int64_t steps, examples;
} ls_eval_losses;

// Adds a loss with this weight; 0 adds nothing.
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
// Writes the results of an evaluation to event files there. `checkpoint` may be
// NULL.
LS_MUST_USE ls_status ls_write_eval_events(const ls_estimator *self,
                                           const char *name,
                                           const char *checkpoint,
                                           ls_nest metrics);

#endif  // LS_ESTIMATOR_CALLS_EVAL_RESULTS_H_
