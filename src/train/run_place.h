// SPDX-License-Identifier: Apache-2.0
// Where a run is: what the hooks that make the run what it is go by. Its steps
// are counted in one place, the context of its hooks.
#ifndef LS_TRAIN_RUN_PLACE_H_
#define LS_TRAIN_RUN_PLACE_H_

#include "base/trace.h"
#include "train/budget.h"
#include "train/hooks/hook.h"
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
  ls_run_context *context;  // Counts the steps of the whole run.
  int64_t began;            // Of the clock, as if the run had never paused.
  // The epoch, from 0; the steps before it, its first step that is made here,
  // and how many it has.
  int64_t epoch, epoch_begin, epoch_first, steps_per_epoch;
  ls_budget epoch_budget;  // Begun with the epoch.
  ls_spent spent;
  // The last run: so many steps of so many examples each.
  const ls_step_numbers *numbers;
  int64_t made, examples;
  bool stalls;  // The input makes an element that is waited for.
  // It goes on at the end of an epoch, whose evaluation is done again.
  bool again;
  ls_evaluation test;    // The last one,
  int64_t tested;        //   and its step; -1: none.
  uint64_t tested_from;  // So many calls of its function came before it.
  bool stopped;          // By request.
  // Returns whether the run stops here, as all ranks agree, which all ask.
  bool (*stops)(void *loop);
  void *loop;
} ls_run_place;

static inline double ls_run_seconds(const ls_run_place *place, int64_t began) {
  return (double)(ls_runtime_now(place->runtime) - began) * 1e-9;
}

static inline int64_t ls_run_steps(const ls_run_place *place) {
  return place->context->steps;
}

// Returns how many steps of the epoch there are up to here.
static inline int64_t ls_run_epoch_steps(const ls_run_place *place) {
  return ls_run_steps(place) - place->epoch_begin;
}

// Ends a span of a step that `began`.
static inline void ls_run_end_span(const ls_run_place *place, const char *kind,
                                   int64_t began, int64_t step) {
  if (began != LS_NO_SPAN)
    ls_span_end(place->runtime, &(ls_span){.kind = kind,
                                           .began = began,
                                           .of = LS_SPAN_OF_STEP,
                                           .number = step});
}

// Returns whether a step of the epoch was made here.
static inline bool ls_run_epoch_has_steps(const ls_run_place *place) {
  return ls_run_epoch_steps(place) > place->epoch_first;
}
static inline bool ls_run_epoch_is_over(const ls_run_place *place) {
  return ls_run_epoch_steps(place) >= place->steps_per_epoch;
}

// ---- Windows ---------------------------------------------------------------
// Means over the examples of some steps.
typedef struct ls_run_means {
  int64_t steps, examples;
  double loss, accuracy;  // Sums over examples.
  ls_budget budget;       // Begun with it.
} ls_run_means;

// Begins an empty one: now, or at the epoch's begin.
void ls_run_means_begin(ls_run_means *window, const ls_run_place *place);
void ls_run_means_begin_epoch(ls_run_means *window, const ls_run_place *place);
// Adds step `k` of the last run.
void ls_run_means_add(ls_run_means *window, const ls_run_place *place,
                      int64_t k);
// Describes it as of `num_later` steps before the last one; of an empty one
// only where the run is.
ls_train_report ls_run_means_describe(const ls_run_means *window,
                                      const ls_run_place *place,
                                      int64_t num_later);

#endif  // LS_TRAIN_RUN_PLACE_H_
