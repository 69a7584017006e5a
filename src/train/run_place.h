// SPDX-License-Identifier: Apache-2.0
// Where a run is, as its loop counts: what the hooks that make the run what it
// is have to go by.
#ifndef LS_TRAIN_RUN_PLACE_H_
#define LS_TRAIN_RUN_PLACE_H_

#include "base/trace.h"
#include "train/budget.h"
#include "train/run_plan.h"

// The means over the examples of a step.
typedef struct ls_step_numbers {
  double loss, accuracy;
} ls_step_numbers;

typedef struct ls_run_place {
  ls_runtime *runtime;
  const ls_run_plan *plan;      // Lent, as all here.
  const ls_function *function;  // A step.
  ls_iterator *input;
  int64_t began;  // Of the clock, as if the run had never paused.
  int64_t steps;  // Those that count, of the whole run.
  // The epoch, from 0; its first step that is made here, how many have been
  // made here, and how many it has.
  int64_t epoch, epoch_first, epoch_steps, steps_per_epoch;
  ls_budget epoch_budget;  // Begun with the epoch.
  ls_spent spent;
  // What was run last: so many steps of so many examples each.
  const ls_step_numbers *numbers;
  int64_t made, examples;
  bool stalls;  // The input makes an element that is waited for.
  // It goes on at the end of an epoch, whose evaluation is done again.
  bool again;
  ls_evaluation test;    // The last one,
  int64_t tested;        //   and its step; -1: none.
  uint64_t tested_from;  // So many calls of its function came before it.
  bool stopped;          // By request.
  // Whether the run stops here, as all ranks agree, who all ask.
  bool (*stops)(void *loop);
  void *loop;
} ls_run_place;

static inline double ls_run_seconds(const ls_run_place *place, int64_t began) {
  return (double)(ls_runtime_now(place->runtime) - began) * 1e-9;
}

// What it has done since `began`, for that step.
static inline void ls_run_end_span(const ls_run_place *place, const char *kind,
                                   int64_t began, int64_t step) {
  if (began != LS_NO_SPAN)
    ls_span_end(place->runtime, &(ls_span){.kind = kind,
                                           .began = began,
                                           .of = LS_SPAN_OF_STEP,
                                           .number = step});
}

// The run is behind the last step of an epoch.
static inline bool ls_run_epoch_is_over(const ls_run_place *place) {
  return place->epoch_first + place->epoch_steps >= place->steps_per_epoch;
}

// ---- Windows ---------------------------------------------------------------
// Means over the examples of some steps.
typedef struct ls_run_means {
  int64_t steps, examples;
  double loss, accuracy;  // Sums over examples.
  ls_budget budget;       // Begun with it.
} ls_run_means;

// An empty one: from now, or from the epoch's begin.
void ls_run_means_begin(ls_run_means *window, const ls_run_place *place);
void ls_run_means_begin_epoch(ls_run_means *window, const ls_run_place *place);
// Takes in step `k` of those that were made last.
void ls_run_means_add(ls_run_means *window, const ls_run_place *place,
                      int64_t k);
// What it says `behind` steps before the last one; of an empty one only where
// the run is.
ls_train_report ls_run_means_describe(const ls_run_means *window,
                                      const ls_run_place *place,
                                      int64_t behind);

#endif  // LS_TRAIN_RUN_PLACE_H_
