// SPDX-License-Identifier: Apache-2.0
#include "train/own_hooks.h"

static void own_reports_show(const ls_own_reports *self) {
  const ls_train_options *o = &self->place->plan->options;
  if (o->report != NULL) o->report(o->report_user, &self->report);
}

static void own_reports_describe(ls_own_reports *self, int64_t num_later) {
  self->report = ls_run_means_describe(&self->window, self->place, num_later);
}

// ---- Of steps --------------------------------------------------------------
static ls_status own_reports_before_steps(void *state, ls_run_context *context,
                                          ls_run_wish *wish) {
  ls_own_reports *self = state;
  (void)context, (void)wish;
  if (!ls_run_epoch_has_steps(self->place))
    ls_run_means_begin_epoch(&self->window, self->place);
  return ls_ok();
}

static ls_status own_reports_after_steps(void *state, ls_run_context *context,
                                         ls_nest results) {
  ls_own_reports *self = state;
  const int64_t made = self->place->made;
  (void)context, (void)results;
  for (int64_t k = 0; k < made; ++k) {
    ls_run_means_add(&self->window, self->place, k);
    own_reports_describe(self, made - 1 - k);
    own_reports_show(self);
  }
  return ls_ok();
}

const ls_hook_type ls_own_reports_of_steps = {
    .name = "",
    .before_run = own_reports_before_steps,
    .after_run = own_reports_after_steps};

// ---- Of epochs -------------------------------------------------------------
// Ends the epoch's time before the evaluation, which is no part of it.
static ls_status after_end(void *state, ls_run_context *context,
                           ls_nest results) {
  ls_own_reports *self = state;
  (void)context, (void)results;
  if (ls_run_epoch_is_over(self->place)) own_reports_describe(self, 0);
  return ls_ok();
}

const ls_hook_type ls_own_reports_at_end = {.name = "", .after_run = after_end};

static ls_status after_epochs(void *state, ls_run_context *context,
                              ls_nest results) {
  ls_own_reports *self = state;
  const ls_run_place *place = self->place;
  (void)context, (void)results;
  if (!ls_run_epoch_is_over(place)) return ls_ok();
  if (place->tested == ls_run_steps(place)) {
    self->report.tested = true;
    self->report.test = place->test;
    self->report.seconds = ls_run_seconds(place, place->began);
  }
  self->report.epoch_end = true;
  own_reports_show(self);
  return ls_ok();
}

// Reports an epoch that was stopped.
static ls_status end_epochs(void *state, ls_run_context *context) {
  ls_own_reports *self = state;
  (void)context;
  if (!ls_run_epoch_has_steps(self->place) || ls_run_epoch_is_over(self->place))
    return ls_ok();
  own_reports_describe(self, 0);
  self->report.epoch_end = true;
  own_reports_show(self);
  return ls_ok();
}

const ls_hook_type ls_own_reports_of_epochs = {
    .name = "", .after_run = after_epochs, .end = end_epochs};

// ---- Of the stop -----------------------------------------------------------
static ls_status end_stop(void *state, ls_run_context *context) {
  ls_own_reports *self = state;
  (void)context;
  if (!self->place->stopped) return ls_ok();
  // Nothing was reported of an epoch without a step.
  if (self->report.epoch != self->place->epoch + 1)
    self->report = ls_run_means_describe(&(ls_run_means){0}, self->place, 0);
  self->report.stopped = true;
  own_reports_show(self);
  return ls_ok();
}

const ls_hook_type ls_own_reports_of_stop = {.name = "", .end = end_stop};
