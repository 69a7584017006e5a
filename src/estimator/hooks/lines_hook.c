// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "estimator/hooks/progress_hooks.h"
#include "graph/graph.h"
#include "runtime/store.h"
#include "train/events/run_events.h"
#include "train/folder/run_folder.h"
#include "train/hooks/saving.h"
#include "train/ranks.h"

enum { EVERY = 100, REPORT_NANOS = 100000000 };

// A step, and when it was made.
typedef struct point {
  int64_t step, moment;
} point;

typedef struct lines {
  ls_lines_options options;
  ls_run_folder folder;
  ls_run_events events;
  ls_saved_values values;  // To be summed.
  ls_variable *
      *gradients;  // Gradients of the last step, owned; NULL: not kept.
  size_t num_gradients;
  point first, last;  // At the start, and at the last line.
  int64_t summed;     // Step of the last checksum.
  int64_t runs;       // Since the last line, and the sum of their losses.
  double sum;
  int64_t reported;
  int64_t began;  // Start by the clock, as if the run had never paused.
} lines;

// Returns true if a multiple of `every` was reached since a step.
static bool crosses(int64_t step, int64_t since, int64_t every) {
  return every > 0 && step / every != since / every;
}

// Returns true if a line is due: at the end before the saver's last save.
static bool is_due(const lines *self, int64_t step) {
  const int64_t all = self->options.num_steps;
  return crosses(step, self->last.step, EVERY) || (all > 0 && step >= all);
}

static ls_status find_gradients(lines *self, const ls_graph *graph) {
  if (!self->options.wanted.gradient_norm || self->gradients != NULL)
    return ls_ok();
  LS_RETURN_IF_ERROR(
      ls_collection_variables(graph, LS_COLLECTION_KEPT_GRADIENTS,
                              &self->gradients, &self->num_gradients));
  return self->num_gradients > 0
             ? ls_ok()
             : ls_invalid_argument(
                   "gradient_norm: the model function moves no variable by an "
                   "optimizer of this library");
}

// Cuts lines of later steps off.
static ls_status cut_lines(lines *self, int64_t step, double *out_seconds) {
  const ls_lines_options *o = &self->options;
  *out_seconds = 0;
  return o->wanted.metrics
             ? ls_run_folder_look_back(&self->folder, step, true,
                                       o->tests_again, out_seconds)
             : ls_ok();
}

static ls_status lines_begin(void *state) {
  lines *self = state;
  double seconds = 0;
  return cut_lines(self, self->options.first_step, &seconds);
}

static ls_status lines_create(void *state, ls_run_context *context) {
  lines *self = state;
  const ls_lines_options *o = &self->options;
  double seconds = 0;
  LS_RETURN_IF_ERROR(find_gradients(self, context->graph));
  LS_RETURN_IF_ERROR(ls_saved_values_take(&self->values, context, o->variables,
                                          o->num_variables));
  LS_RETURN_IF_ERROR(cut_lines(self, context->steps, &seconds));
  self->options.tests_again = false;  // A lost session has made it.
  LS_RETURN_IF_ERROR(ls_run_events_close(&self->events));
  LS_RETURN_IF_ERROR(ls_run_events_open(
      &self->events, context->runtime,
      &(ls_train_options){.events = o->wanted.events, .run_folder = o->folder},
      context->steps, false));
  self->first = (point){context->steps, ls_runtime_now(context->runtime)};
  self->last = self->first;
  self->began = self->first.moment - (int64_t)(seconds * 1e9);
  self->summed = context->steps;
  self->runs = 0;
  self->sum = 0;
  return ls_ok();
}

// Describes the steps since a point.
static ls_train_report describe_since(const lines *self, const point *since,
                                      const point *now, double loss) {
  const ls_lines_options *o = &self->options;
  const int64_t steps = now->step - since->step;
  const double seconds = (double)(now->moment - since->moment) * 1e-9;
  const double rate = seconds > 0 ? (double)steps / seconds : 0;
  const int64_t left = o->num_steps > 0 ? o->num_steps - now->step : 0;
  return (ls_train_report){
      .step = now->step,
      .num_steps = o->num_steps,
      .epoch_step = now->step,
      .steps_per_epoch = o->num_steps,
      .steps = steps,
      .loss = loss,
      .examples_per_second = o->batch_size * rate,
      .seconds = (double)(now->moment - self->began) * 1e-9,
      .seconds_left = rate > 0 ? (double)left / rate : 0};
}

// Computes the norm of the last step's gradients; NaN if they are not kept.
static ls_status find_norm(const lines *self, ls_session *session,
                           double *out_norm) {
  double sum = 0;
  *out_norm = NAN;
  for (size_t i = 0; i < self->num_gradients; ++i) {
    LS_OWN(ls_array, gradient) = NULL;
    LS_RETURN_IF_ERROR(
        ls_session_variable_value(session, self->gradients[i], &gradient));
    ls_add_squares(gradient, &sum);
    *out_norm = sqrt(sum);
  }
  return ls_ok();
}

static ls_status write_line(lines *self, const ls_run_context *context,
                            const point *now) {
  ls_last_step last = {.rate = NAN};
  const ls_train_report report =
      describe_since(self, &self->last, now, self->sum / (double)self->runs);
  self->last = *now;
  self->runs = 0;
  self->sum = 0;
  if (!self->options.wanted.metrics && self->events.train == NULL)
    return ls_ok();
  LS_RETURN_IF_ERROR(find_norm(self, context->session, &last.gradient_norm));
  LS_RETURN_IF_ERROR(
      ls_run_events_log(&self->events, &report, &last, context->graph));
  if (!self->options.wanted.metrics) return ls_ok();
  LS_RETURN_IF_ERROR(ls_run_folder_log(&self->folder, &report, &last));
  return ls_run_folder_sync_lines(&self->folder);
}

static ls_status write_sum(lines *self, const ls_run_context *context,
                           int64_t step) {
  const ls_saver *saver = &self->values.saver;
  uint64_t sum = 0;
  LS_OWN(ls_text, text) = {.allocator = ls_current_allocator()};
  LS_RETURN_IF_ERROR(ls_variables_sum(
      context->runtime, ls_session_store(context->session), saver->variables,
      saver->num_variables, step, &text, &sum));
  self->summed = step;
  return ls_run_folder_log_sum(&self->folder, step, sum);
}

// The step that is known may be from before the run's own update: the current
// one is read only if something would be due then.
static ls_status lines_after(void *state, ls_run_context *context,
                             ls_nest results) {
  lines *self = state;
  const ls_training_lines *wanted = &self->options.wanted;
  const int64_t next = context->steps + self->options.steps_per_run;
  point now = {.moment = ls_runtime_now(context->runtime)};
  double loss = 0;
  (void)results;
  LS_RETURN_IF_ERROR(ls_run_context_number(context, "loss", &loss));
  self->sum += loss;
  ++self->runs;
  const bool reports =
      wanted->report != NULL && now.moment - self->reported >= REPORT_NANOS;
  if (!reports && !is_due(self, next) &&
      !crosses(next, self->summed, wanted->checksum))
    return ls_ok();
  LS_RETURN_IF_ERROR(ls_run_context_steps(context, &now.step));
  if (reports) {
    const ls_train_report report =
        describe_since(self, &self->first, &now, loss);
    self->reported = now.moment;
    wanted->report(wanted->report_user, &report);
  }
  if (crosses(now.step, self->summed, wanted->checksum))
    LS_RETURN_IF_ERROR(write_sum(self, context, now.step));
  return is_due(self, now.step) ? write_line(self, context, &now) : ls_ok();
}

static ls_status lines_end(void *state, ls_run_context *context) {
  lines *self = state;
  point now = {.moment = ls_runtime_now(context->runtime)};
  LS_RETURN_IF_ERROR(ls_run_context_steps(context, &now.step));
  if (self->runs > 0) LS_RETURN_IF_ERROR(write_line(self, context, &now));
  LS_RETURN_IF_ERROR(ls_run_events_log_weights(
      &self->events, context->session, self->values.saver.variables,
      self->values.saver.num_variables, now.step));
  return ls_run_events_close(&self->events);
}

static void lines_destroy(void *state) {
  lines *self = state;
  ls_status_free(ls_run_events_close(&self->events));
  ls_saved_values_drop(&self->values);
  ls_release(ls_current_allocator(), self->gradients);
  ls_run_folder_deinit(&self->folder);
}

static const ls_hook_type lines_type = {.name = "lines of metrics",
                                        .size = sizeof(lines),
                                        .counts = true,
                                        .needs_session = true,
                                        .begin = lines_begin,
                                        .after_create_session = lines_create,
                                        .after_run = lines_after,
                                        .end = lines_end,
                                        .destroy = lines_destroy};

ls_status ls_lines_hook(const ls_lines_options *options, ls_hook **out_hook) {
  LS_RETURN_IF_ERROR(ls_hook_make(&lines_type, NULL, out_hook));
  lines *self = (*out_hook)->state;
  self->options = *options;
  ls_run_folder_init(&self->folder, ls_runtime_current(), options->folder);
  self->folder.log = options->wanted.log;
  return ls_ok();
}
