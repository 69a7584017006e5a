// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "lockstep/function_plan.h"
#include "runtime/function.h"
#include "train/own_hooks.h"

// ---- A save ----------------------------------------------------------------
static size_t list_metrics(const ls_own_saver *self,
                           ls_checkpoint_metric *out) {
  const ls_run_place *place = self->place;
  const ls_run_means *kept = &self->kept;
  const double examples = (double)kept->examples;
  size_t count = 0;
  if (kept->examples > 0) {
    out[count++] = (ls_checkpoint_metric){"loss", kept->loss / examples};
    if (!isnan(kept->accuracy))
      out[count++] =
          (ls_checkpoint_metric){"accuracy", kept->accuracy / examples};
  }
  if (place->tested == ls_run_steps(place)) {
    out[count++] = (ls_checkpoint_metric){"test_loss", place->test.loss};
    out[count++] =
        (ls_checkpoint_metric){"test_accuracy", place->test.accuracy};
  }
  return count;
}

// A run that this one overwrites is kept until it has a checkpoint itself.
static ls_status drop_former(const ls_own_saver *self, bool waits) {
  return self->folder->keeps && self->saves->saving.saved >= 0 &&
                 ls_saving_has_checkpoint(&self->saves->saving, waits)
             ? ls_run_folder_drop_former(self->folder)
             : ls_ok();
}

static ls_status own_saver_save(ls_own_saver *self) {
  const ls_run_place *place = self->place;
  ls_checkpoint_metric metrics[LS_RUN_METRICS];
  const size_t count = list_metrics(self, metrics);
  const int64_t began = ls_span_begin(place->runtime);
  // A save waits for the one before anyway.
  LS_RETURN_IF_ERROR(drop_former(self, true));
  self->saves->seconds = ls_run_seconds(place, place->began);
  self->saves->input_stalls = place->stalls;
  if (self->saves->evaluate != NULL)
    self->saves->evaluated = place->tested == ls_run_steps(place)
                                 ? place->tested_from
                                 : ls_function_steps(self->saves->evaluate);
  const ls_status status =
      ls_saving_save(&self->saves->saving, ls_run_steps(place), metrics, count);
  self->kept = (ls_run_means){0};
  self->is_due = false;
  ls_run_end_span(place, "save", began, ls_run_steps(place));
  return status;
}

// Ranks have agreed on it beside the stop.
static ls_status save_if_due(ls_own_saver *self) {
  const ls_saving *saving = &self->saves->saving;
  if (self->ranks->trunk == NULL) {
    self->has_failed = ls_saving_has_failed(saving);
    self->is_due = ls_saving_is_due(saving, ls_run_steps(self->place));
  }
  if (self->has_failed) LS_RETURN_IF_ERROR(ls_saving_wait(saving));
  self->has_failed = false;
  return self->is_due && ls_saves_are_known(self->saves) ? own_saver_save(self)
                                                         : ls_ok();
}

// ---- Of steps --------------------------------------------------------------
enum { DUE = 1, FAILED = 2 };

// What is done behind the next step.
static int64_t tell_ranks(void *state) {
  const ls_own_saver *self = state;
  const ls_saving *saving = &self->saves->saving;
  return (ls_saving_is_due(saving, ls_run_steps(self->place) + 1) ? DUE : 0) |
         (ls_saving_has_failed(saving) ? FAILED : 0);
}

static void hear_ranks(void *state, int64_t first, int64_t bits) {
  ls_own_saver *self = state;
  self->is_due = (first & DUE) != 0;
  self->has_failed = (bits & FAILED) != 0;
}

static ls_status join_ranks(void *state, ls_run_context *context) {
  ls_own_saver *self = state;
  (void)context;
  self->ranks->party = (ls_rank_party){self, tell_ranks, hear_ranks};
  return ls_ok();
}

static ls_status own_saver_before_steps(void *state, ls_run_context *context,
                                        ls_run_wish *wish) {
  const ls_own_saver *self = state;
  wish->most_steps = ls_saving_steps_left(&self->saves->saving, context->steps);
  return ls_ok();
}

static ls_status own_saver_after_steps(void *state, ls_run_context *context,
                                       ls_nest results) {
  ls_own_saver *self = state;
  (void)context, (void)results;
  for (int64_t k = 0; k < self->place->made; ++k)
    ls_run_means_add(&self->kept, self->place, k);
  const int64_t began = ls_runtime_now(self->place->runtime);
  const ls_status saved = save_if_due(self);
  const ls_status status =
      ls_status_is_ok(saved) ? drop_former(self, false) : saved;
  self->place->spent.save += ls_runtime_now(self->place->runtime) - began;
  return status;
}

const ls_hook_type ls_own_saver_of_steps = {.name = "",
                                            .after_create_session = join_ranks,
                                            .before_run =
                                                own_saver_before_steps,
                                            .after_run = own_saver_after_steps};

// ---- Of evaluations, and the end -------------------------------------------
// The best by an evaluation is one that was saved with it.
static bool saves_tests(const ls_own_saver *self) {
  const char *best = self->place->plan->options.keep_best;
  return best != NULL && strncmp(best, "test_", 5) == 0;
}

// Also by one that a run made which goes on, as it was stopped before it.
static ls_status create_tests(void *state, ls_run_context *context) {
  ls_own_saver *self = state;
  const ls_run_place *place = self->place;
  (void)context;
  return saves_tests(self) && place->again && !place->stops(place->loop)
             ? own_saver_save(self)
             : ls_ok();
}

static ls_status after_tests(void *state, ls_run_context *context,
                             ls_nest results) {
  ls_own_saver *self = state;
  const ls_run_place *place = self->place;
  (void)context, (void)results;
  return saves_tests(self) && ls_run_epoch_is_over(place) &&
                 !place->stops(place->loop)
             ? own_saver_save(self)
             : ls_ok();
}

// A run without a single step is no run.
static ls_status end_all(void *state, ls_run_context *context) {
  ls_own_saver *self = state;
  const ls_run_place *place = self->place;
  (void)context;
  if (ls_run_steps(place) == 0 && place->stopped) {
    if (!place->plan->options.resume) ls_run_folder_abandon(self->folder);
    return ls_ok();
  }
  if (self->saves->folder == NULL) return ls_ok();
  if (self->saves->saving.saved != ls_run_steps(place))
    LS_RETURN_IF_ERROR(own_saver_save(self));
  LS_RETURN_IF_ERROR(ls_saving_wait(&self->saves->saving));
  LS_RETURN_IF_ERROR(drop_former(self, true));
  return ls_run_folder_save_model(self->folder, place->plan->options.model,
                                  ls_run_steps(place));
}

const ls_hook_type ls_own_saver_of_tests = {.name = "",
                                            .after_create_session =
                                                create_tests,
                                            .after_run = after_tests,
                                            .end = end_all};
