// SPDX-License-Identifier: Apache-2.0
#include "train/own_hooks.h"

// ---- Lines -----------------------------------------------------------------
static ls_status log_report(ls_own_lines *self, const ls_train_report *report) {
  return ls_status_join(
      ls_run_folder_log(self->folder, report),
      ls_run_events_log(&self->events, report, self->place->function));
}

static ls_status log_window(ls_own_lines *self) {
  if (self->window.steps == 0) return ls_ok();
  const ls_train_report report =
      ls_run_means_describe(&self->window, self->place, 0);
  // Writes it once: a line that failed may be there by half.
  const ls_status status = log_report(self, &report);
  ls_run_means_begin(&self->window, self->place);
  return status;
}

// ---- Lines of steps
// --------------------------------------------------------------
static ls_status open_events(void *state, ls_run_context *context) {
  ls_own_lines *self = state;
  const ls_run_place *place = self->place;
  (void)context;
  return ls_run_events_open(&self->events, place->runtime,
                            &place->plan->options, ls_run_steps(place),
                            place->again);
}

static ls_status own_lines_before_steps(void *state, ls_run_context *context,
                                        ls_run_wish *wish) {
  ls_own_lines *self = state;
  (void)context;
  if (!ls_run_epoch_has_steps(self->place))
    ls_run_means_begin_epoch(&self->window, self->place);
  wish->most_steps = self->place->plan->options.log_every - self->window.steps;
  return ls_ok();
}

static ls_status own_lines_after_steps(void *state, ls_run_context *context,
                                       ls_nest results) {
  ls_own_lines *self = state;
  (void)context, (void)results;
  for (int64_t k = 0; k < self->place->made; ++k)
    ls_run_means_add(&self->window, self->place, k);
  return self->window.steps == self->place->plan->options.log_every
             ? log_window(self)
             : ls_ok();
}

const ls_hook_type ls_own_lines_of_steps = {.name = "",
                                            .after_create_session = open_events,
                                            .before_run =
                                                own_lines_before_steps,
                                            .after_run = own_lines_after_steps};

// ---- Of the rest -----------------------------------------------------------
static ls_status after_rest(void *state, ls_run_context *context,
                            ls_nest results) {
  ls_own_lines *self = state;
  (void)context, (void)results;
  if (!ls_run_epoch_is_over(self->place)) return ls_ok();
  LS_RETURN_IF_ERROR(log_window(self));
  return ls_run_events_log_weights(&self->events, ls_run_steps(self->place));
}

static ls_status end_rest(void *state, ls_run_context *context) {
  (void)context;
  return log_window(state);
}

const ls_hook_type ls_own_lines_of_rest = {
    .name = "", .after_run = after_rest, .end = end_rest};

// ---- Of evaluations --------------------------------------------------------
static ls_status log_test(ls_own_lines *self) {
  const ls_run_place *place = self->place;
  static const ls_run_means none;
  if (place->tested == self->tested) return ls_ok();
  self->tested = place->tested;
  ls_train_report report = ls_run_means_describe(&none, place, 0);
  report.tested = true;
  report.test = place->test;
  report.seconds = ls_run_seconds(place, place->began);
  return log_report(self, &report);
}

static ls_status create_tests(void *state, ls_run_context *context) {
  (void)context;
  return log_test(state);
}

static ls_status after_tests(void *state, ls_run_context *context,
                             ls_nest results) {
  (void)context, (void)results;
  return log_test(state);
}

const ls_hook_type ls_own_lines_of_tests = {
    .name = "", .after_create_session = create_tests, .after_run = after_tests};

// ---- The end ---------------------------------------------------------------
ls_status ls_own_lines_close(ls_own_lines *self) {
  const ls_status status = log_window(self);
  return ls_status_join(status, ls_run_events_close(&self->events));
}
