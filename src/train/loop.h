// SPDX-License-Identifier: Apache-2.0
// A training run: epochs of steps, which its hooks count, and all that its own
// hooks have to go by.
#ifndef LS_TRAIN_LOOP_H_
#define LS_TRAIN_LOOP_H_

#include "base/trace.h"
#include "lockstep/training_parts.h"
#include "train/budget.h"
#include "train/device_loop.h"
#include "train/events/run_events.h"
#include "train/folder/run_folder.h"
#include "train/folder/saves.h"
#include "train/hooks/list.h"
#include "train/ranks.h"
#include "train/run_plan.h"

// Means over the examples of some steps.
typedef struct ls_run_means {
  int64_t steps, examples;
  double loss, accuracy;  // Sums over examples.
  ls_budget budget;       // Begun with it.
} ls_run_means;

typedef struct ls_loop {
  ls_runtime *runtime;
  ls_run_plan plan;
  ls_run_ranks ranks;
  ls_function *function;  // A step.
  bool is_checked;        // The first step was one.
  bool is_guarded;        // A hook of the caller's checks the loss.
  ls_dataset *batches;
  ls_iterator *input;
  bool stalls;                  // It makes an element that is waited for.
  ls_device_loop *device_loop;  // NULL: each step is a run.
  ls_nest args, results;        // `args`: a batch, sharded over replicas.
  ls_named_result loss, accuracy;
  ls_hook_list hooks;  // Their context counts the steps of the whole run.

  // The last run: so many steps of so many examples each.
  ls_step_numbers *numbers;
  size_t numbers_capacity;
  int64_t made, examples;
  ls_spent spent;

  int64_t began;  // Of the clock, as if the run had never paused.
  // The epoch, from 0; the steps before it, its first step that is made here,
  // and how many it has.
  int64_t epoch, epoch_begin, epoch_first, steps_per_epoch;
  bool was_asked;   // This rank was asked to stop,
  bool is_stopped;  //   and the run has.
  ls_status unmet;  // Ranks could not agree.

  ls_run_folder folder;
  // The folder still has lines of steps after those that it goes on from.
  bool continues;
  int64_t resumed;
  bool replaces;  // A former run is there, on rank 0, until the first step.
  // It goes on at the end of an epoch, whose evaluation is done again.
  bool is_again;

  // Lines and reports. (own_reports.c)
  ls_run_events events;
  ls_run_means lines;    // Since the last line.
  ls_run_means reports;  // Of this epoch.
  ls_train_report report;
  int64_t logged_test;  // The step of the last evaluation with a line; -1.

  // Saves and evaluations. (own_saver.c)
  ls_saves saves;
  ls_run_means saved;       // Since the last save.
  bool save_is_due;         // As rank 0 sees it.
  bool save_has_failed;     // On some rank.
  ls_evaluator *evaluator;  // NULL: no test set.
  ls_evaluation test;       // The last one,
  int64_t tested;           //   and its step; -1: none.
  uint64_t tested_from;     // So many calls of its function came before it.
} ls_loop;

// ---- Where it is -----------------------------------------------------------
static inline int64_t ls_loop_steps(const ls_loop *loop) {
  return loop->hooks.context.steps;
}
// Returns how many steps of the epoch there are up to here.
static inline int64_t ls_loop_epoch_steps(const ls_loop *loop) {
  return ls_loop_steps(loop) - loop->epoch_begin;
}
// Returns whether a step of the epoch was made here.
static inline bool ls_loop_epoch_has_steps(const ls_loop *loop) {
  return ls_loop_epoch_steps(loop) > loop->epoch_first;
}
static inline bool ls_loop_epoch_is_over(const ls_loop *loop) {
  return ls_loop_epoch_steps(loop) >= loop->steps_per_epoch;
}
// Returns whether the run stops here, as all ranks agree, which all ask.
bool ls_loop_stops(ls_loop *loop);

static inline double ls_loop_seconds(const ls_loop *loop, int64_t began) {
  return (double)(ls_runtime_now(loop->runtime) - began) * 1e-9;
}
// Ends a span of a step that `began`.
static inline void ls_loop_end_span(const ls_loop *loop, const char *kind,
                                    int64_t began, int64_t step) {
  if (began != LS_NO_SPAN)
    ls_span_end(loop->runtime, &(ls_span){.kind = kind,
                                          .began = began,
                                          .of = LS_SPAN_OF_STEP,
                                          .number = step});
}

// ---- Its steps (steps.c) ---------------------------------------------------
// Checks the options of loops of steps.
LS_MUST_USE ls_status ls_loop_check_options(const ls_loop *loop);
// Makes a run, of one step or several: see ls_hooked_run.
LS_MUST_USE ls_status ls_loop_make_run(void *loop, bool *out_has_run);

// Settles the run in its folder: what it takes the place of goes. (loop.c)
LS_MUST_USE ls_status ls_loop_settle(ls_loop *loop);

// ---- Its own hooks: see the README -----------------------------------------
// Adds them all and those of the caller to the loop's empty list.
LS_MUST_USE ls_status ls_loop_add_hooks(ls_loop *loop);
// Adds step `k` of the last run to means.
void ls_loop_add_means(const ls_loop *loop, int64_t k, ls_run_means *means);
// Ends lines and events, also of a run that fails: writes a line of the steps
// after the last line, and closes files.
LS_MUST_USE ls_status ls_loop_close_lines(ls_loop *loop);

// The loop is their state.
extern const ls_hook_type ls_lines_of_steps;
extern const ls_hook_type ls_lines_of_rest;  // After an epoch.
extern const ls_hook_type ls_lines_of_tests;
extern const ls_hook_type ls_reports_of_steps;
extern const ls_hook_type ls_reports_at_end;     // Of an epoch,
extern const ls_hook_type ls_reports_of_epochs;  //   and reported.
extern const ls_hook_type ls_reports_of_stop;
extern const ls_hook_type ls_saver_of_steps;
extern const ls_hook_type ls_saver_of_tests;  // And the end.
extern const ls_hook_type ls_tests_of_epochs;

#endif  // LS_TRAIN_LOOP_H_
