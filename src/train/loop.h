// SPDX-License-Identifier: Apache-2.0
// A run on its way.
#ifndef LS_TRAIN_LOOP_H_
#define LS_TRAIN_LOOP_H_

#include "base/trace.h"
#include "train/budget.h"
#include "train/device_loop.h"
#include "train/hooks/list.h"
#include "train/ranks.h"
#include "train/run_events.h"
#include "train/run_folder.h"
#include "train/saves.h"

// Means over the examples of some steps.
typedef struct ls_window {
  int64_t steps, examples;
  double loss, accuracy;  // Sums over examples.
  int64_t began;          // Of the clock.
  ls_budget budget;
} ls_window;

typedef struct ls_loop {
  ls_runtime *runtime;
  ls_run_plan plan;
  ls_function *function;
  bool checked;  // The first step was one.
  ls_dataset *batches;
  ls_iterator *input;
  ls_device_loop *device_loop;  // NULL: each step is a run.
  ls_evaluator *evaluator;      // NULL: no test set.
  ls_run_folder folder;
  // What the folder says of the steps behind those that it went on from is
  // there still.
  bool continues;
  int64_t resumed;
  bool replaces;  // A former run is there, on rank 0, until the first step.
  ls_saves saves;
  ls_run_ranks ranks;
  bool asked;       // This rank was asked to stop.
  bool due;         // Rank 0 is to save, behind the next step.
  bool failed;      // Some rank knows of a save that failed.
  ls_status unmet;  // Ranks could not agree.
  ls_run_events events;
  ls_hook_list hooks;     // The caller's.
  bool is_guarded;        // One of them judges the loss.
  ls_nest args, results;  // `args`: a batch, dealt to replicas.
  ls_window epoch, logged;
  ls_window kept;       // Since the last save.
  int64_t tested;       // The step of the last evaluation; -1: none.
  int64_t epoch_first;  // The first step of this epoch that is run here.
  int64_t began;        // Of the clock, as if the run had never paused.
  ls_train_report report;
  ls_train_result *result;
} ls_loop;

static inline double ls_loop_seconds(const ls_loop *it, int64_t began) {
  return (double)(ls_runtime_now(it->runtime) - began) * 1e-9;
}

// What it has done since `began`, for that step.
static inline void ls_loop_end_span(const ls_loop *it, const char *kind,
                                    int64_t began, int64_t step) {
  if (began != LS_NO_SPAN)
    ls_span_end(it->runtime, &(ls_span){.kind = kind,
                                        .began = began,
                                        .of = LS_SPAN_OF_STEP,
                                        .number = step});
}

// ---- Its steps (loop.c) ----------------------------------------------------
// One was made: it counts.
//   LS_OUT_OF_RANGE  its loss is no number.
LS_MUST_USE ls_status ls_loop_count(ls_loop *it, int64_t examples, double loss,
                                    double accuracy);
// Tells of the last one that counts.
LS_MUST_USE ls_status ls_loop_tell(ls_loop *it);
// Adds to what the windows' steps have taken so far.
void ls_loop_spend(ls_loop *it, int64_t input, int64_t run, int64_t save);

// ---- Many steps in one run (stretch.c) -------------------------------------
// Whether the options can be.
LS_MUST_USE ls_status ls_stretch_check(const ls_loop *it);
// Behind a step that is a run of its own: what follows may be such a stretch.
LS_MUST_USE ls_status ls_stretch_prepare(ls_loop *it);
// How many steps the next run is to make: none of them goes over what is done
// between steps. 1: it is a step of its own.
int64_t ls_stretch_length(const ls_loop *it);
// Makes them, or fewer where a stop is asked for.
LS_MUST_USE ls_status ls_stretch_run(ls_loop *it, int64_t steps);

// ---- Its folder (loop_folder.c) --------------------------------------------
// Begins there, or goes on with what is there.
LS_MUST_USE ls_status ls_loop_begin(ls_loop *it);
// The run is what it is to be: what it takes the place of goes.
LS_MUST_USE ls_status ls_loop_settle(ls_loop *it);
LS_MUST_USE ls_status ls_loop_save(ls_loop *it);
LS_MUST_USE ls_status ls_loop_save_if_due(ls_loop *it);
// The end, or a stop: all of it is on the disk afterwards.
LS_MUST_USE ls_status ls_loop_save_all(ls_loop *it);

#endif  // LS_TRAIN_LOOP_H_
