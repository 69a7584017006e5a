// SPDX-License-Identifier: Apache-2.0
// Reports progress: lines of metrics.jsonl, event files, and the caller's
// reporter.
#include <math.h>

#include "base/memory/own.h"
#include "lockstep/eager.h"
#include "lockstep/function_plan.h"
#include "lockstep/optimizer_state.h"
#include "nn/optimizer.h"
#include "train/folder/saved_values.h"
#include "train/loop.h"

// ---- Means -----------------------------------------------------------------
void ls_loop_add_means(const ls_loop *loop, int64_t k, ls_run_means *means) {
  const double examples = (double)loop->examples;
  ++means->steps;
  means->examples += loop->examples;
  means->loss += loop->numbers[k].loss * examples;
  means->accuracy += loop->numbers[k].accuracy * examples;
}

static void describe_steps(const ls_loop *loop, const ls_run_means *means,
                           ls_train_report *r) {
  const double seconds = ls_loop_seconds(loop, means->budget.began);
  const double examples = (double)means->examples;
  r->steps = means->steps;
  r->loss = means->loss / examples;
  r->accuracy = means->accuracy / examples;
  r->examples_per_second = seconds > 0 ? examples / seconds : 0;
  r->seconds = ls_loop_seconds(loop, loop->began);
  r->seconds_left =
      seconds / (double)means->steps * (double)(r->num_steps - r->step);
  r->budget =
      ls_budget_of(loop->runtime, &loop->spent, &means->budget, loop->input);
}

// Describes means at `num_later` steps before the last one; without means only
// the position.
static ls_train_report describe(const ls_loop *loop, const ls_run_means *means,
                                int64_t num_later) {
  const ls_model_type *type = loop->plan.options.model->type;
  ls_train_report r = {.task = ls_model_type_task(type),
                       .epoch = loop->epoch + 1,
                       .num_epochs = loop->plan.options.epochs,
                       .epoch_step = ls_loop_epoch_steps(loop) - num_later,
                       .steps_per_epoch = loop->steps_per_epoch,
                       .step = ls_loop_steps(loop) - num_later,
                       .num_steps = loop->plan.num_steps};
  if (means != NULL && means->steps > 0) describe_steps(loop, means, &r);
  return r;
}

// Adds the last evaluation to a report.
static void describe_test(const ls_loop *loop, ls_train_report *r) {
  const ls_early_stop *early = &loop->saves.early;
  r->tested = true;
  r->test = loop->test;
  r->best_step = early->best_step;
  r->waited = early->waited;
  r->stops_early = early->is_over;
  r->seconds = ls_loop_seconds(loop, loop->began);
}

// ---- Learning rate ---------------------------------------------------------
// Computes the schedule's factor at a step.
static ls_status factor_at(const ls_schedule *schedule, int64_t step,
                           double *out_factor) {
  LS_RETURN_IF_ERROR(ls_frame_begin());
  const ls_status status = ls_tensor_item(
      ls_schedule_factor(schedule, ls_scalar_i64(LS_DTYPE_I64, step)),
      out_factor);
  return ls_status_join(status, ls_frame_end(NULL));
}

// Finds the learning rate of the last step; NaN without an optimizer.
static ls_status find_rate(const ls_model *model, double *out_rate) {
  const ls_optimizer *optimizer = model->type->optimizer != NULL
                                      ? model->type->optimizer(model->self)
                                      : NULL;
  *out_rate = NAN;
  if (optimizer == NULL) return ls_ok();
  if (optimizer->inner != NULL) optimizer = optimizer->inner;
  *out_rate = optimizer->learning_rate;
  if (!ls_schedule_changes(&optimizer->schedule) || optimizer->step == NULL)
    return ls_ok();
  LS_OWN(ls_array, steps) = NULL;
  LS_RETURN_IF_ERROR(ls_variable_value(optimizer->step, &steps));
  const int64_t done = ls_array_i64(steps, 0);
  double factor = 1;
  LS_RETURN_IF_ERROR(
      factor_at(&optimizer->schedule, done > 0 ? done - 1 : 0, &factor));
  *out_rate *= factor;
  return ls_ok();
}

// ---- Gradients -------------------------------------------------------------
// Lists the variables that the optimizer moves.
static ls_status list_trained(const ls_loop *loop, ls_variable ***out,
                              size_t *out_count) {
  size_t all = 0;
  LS_RETURN_IF_ERROR(ls_train_variables(loop->runtime, loop->plan.options.model,
                                        false, out, &all));
  for (size_t i = 0; i < all; ++i)
    if (ls_variable_is_trainable((*out)[i])) (*out)[(*out_count)++] = (*out)[i];
  return ls_ok();
}

ls_status ls_loop_keep_gradients(const ls_loop *loop) {
  const ls_train_options *o = &loop->plan.options;
  LS_OWN_MEMORY(ls_runtime_allocator(loop->runtime), ls_variable *, trained) =
      NULL;
  size_t count = 0;
  if (!o->gradient_norm) return ls_ok();
  if (o->model->type->optimizer == NULL)
    return ls_invalid_argument("gradient_norm: model '%s' has no optimizer",
                               o->model->type->name);
  LS_RETURN_IF_ERROR(list_trained(loop, &trained, &count));
  return ls_optimizer_keep_gradients(o->model->type->optimizer(o->model->self),
                                     trained, count);
}

void ls_add_squares(const ls_array *gradient, double *sum) {
  const int64_t count = ls_array_num_elements(gradient);
  for (int64_t i = 0; i < count; ++i) {
    const double element = ls_array_f64(gradient, i);
    *sum += element * element;
  }
}

// Adds the squares of a stored gradient; none was stored if the loss does not
// depend on the variable.
static ls_status add_squares(const ls_optimizer *optimizer,
                             const ls_variable *variable, double *sum) {
  ls_variable *kept = NULL;
  LS_OWN(ls_array, gradient) = NULL;
  LS_RETURN_IF_ERROR(ls_optimizer_kept_gradient(optimizer, variable, &kept));
  LS_RETURN_IF_ERROR(ls_variable_value(kept, &gradient));
  ls_add_squares(gradient, sum);
  return ls_ok();
}

// Computes the norm of the last step's gradients; NaN if it is not wanted.
static ls_status find_norm(const ls_loop *loop, double *out_norm) {
  const ls_model *model = loop->plan.options.model;
  LS_OWN_MEMORY(ls_runtime_allocator(loop->runtime), ls_variable *, trained) =
      NULL;
  size_t count = 0;
  double sum = 0;
  *out_norm = NAN;
  if (!loop->plan.options.gradient_norm) return ls_ok();
  LS_RETURN_IF_ERROR(list_trained(loop, &trained, &count));
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(
        add_squares(model->type->optimizer(model->self), trained[i], &sum));
  *out_norm = sqrt(sum);
  return ls_ok();
}

// ---- Lines -----------------------------------------------------------------
static ls_status log_report(ls_loop *loop, const ls_train_report *report) {
  ls_last_step last = {.rate = NAN, .gradient_norm = NAN};
  const bool has_lines =
      ls_run_folder_has_lines(&loop->folder) || loop->events.train != NULL;
  if (has_lines && !report->tested && !loop->is_ahead) {
    LS_RETURN_IF_ERROR(find_rate(loop->plan.options.model, &last.rate));
    LS_RETURN_IF_ERROR(find_norm(loop, &last.gradient_norm));
  }
  return ls_status_join(ls_run_folder_log(&loop->folder, report, &last),
                        ls_run_events_log(&loop->events, report, &last,
                                          ls_function_graph(loop->function)));
}

static ls_status log_lines(ls_loop *loop) {
  if (loop->lines.steps == 0) return ls_ok();
  const ls_train_report report = describe(loop, &loop->lines, 0);
  // Writes each line once: a failed write may have left half of it.
  const ls_status status = log_report(loop, &report);
  loop->lines = (ls_run_means){0};
  ls_budget_begin(loop->runtime, &loop->spent, &loop->lines.budget);
  return status;
}

static ls_status open_events(void *state, ls_run_context *context) {
  ls_loop *loop = state;
  return ls_run_events_open(&loop->events, loop->runtime, &loop->plan.options,
                            context->steps, loop->is_again);
}

static ls_status lines_before_steps(void *state, ls_run_context *context,
                                    ls_run_wish *wish) {
  const ls_loop *loop = state;
  const ls_train_options *o = &loop->plan.options;
  wish->most_steps = o->log_every - loop->lines.steps;
  if (o->checksum == 0) return ls_ok();
  const int64_t left = o->checksum - context->steps % o->checksum;
  if (left < wish->most_steps) wish->most_steps = left;
  return ls_ok();
}

// Adds a line with a checksum of the variables, if that is due.
static ls_status log_sum(ls_loop *loop) {
  const ls_train_options *o = &loop->plan.options;
  const int64_t steps = ls_loop_steps(loop);
  uint64_t sum = 0;
  if (o->checksum == 0 || steps % o->checksum != 0 ||
      !ls_run_folder_has_lines(&loop->folder))
    return ls_ok();
  LS_OWN(ls_text, text) = {0};
  ls_text_init(&text, ls_runtime_allocator(loop->runtime));
  LS_RETURN_IF_ERROR(ls_train_sum(loop->runtime, o->model, steps, &text, &sum));
  return ls_run_folder_log_sum(&loop->folder, steps, sum);
}

static ls_status log_weights(ls_loop *loop, int64_t step) {
  LS_OWN_MEMORY(ls_runtime_allocator(loop->runtime), ls_variable *, variables) =
      NULL;
  size_t count = 0;
  if (loop->events.train == NULL) return ls_ok();
  LS_RETURN_IF_ERROR(ls_train_variables(loop->runtime, loop->plan.options.model,
                                        false, &variables, &count));
  return ls_run_events_log_weights(&loop->events, NULL, variables, count, step);
}

ls_status ls_loop_log_test(ls_loop *loop) {
  if (loop->tested == loop->logged_test) return ls_ok();
  loop->logged_test = loop->tested;
  ls_train_report report = describe(loop, NULL, 0);
  describe_test(loop, &report);
  return log_report(loop, &report);
}

ls_status ls_loop_close_lines(ls_loop *loop) {
  const ls_status status = log_lines(loop);
  return ls_status_join(status, ls_run_events_close(&loop->events));
}

// ---- Reports ---------------------------------------------------------------
static void show_report(const ls_loop *loop) {
  const ls_train_options *o = &loop->plan.options;
  if (o->report != NULL) o->report(o->report_user, &loop->report);
}

static void count_lines(ls_loop *loop) {
  for (int64_t k = 0; k < loop->made; ++k)
    ls_loop_add_means(loop, k, &loop->lines);
}

static void report_steps(ls_loop *loop) {
  for (int64_t k = 0; k < loop->made; ++k) {
    ls_loop_add_means(loop, k, &loop->reports);
    loop->report = describe(loop, &loop->reports, loop->made - 1 - k);
    show_report(loop);
  }
}

static ls_status reports_after_steps(void *state, ls_run_context *context,
                                     ls_nest results) {
  ls_loop *loop = state;
  (void)context, (void)results;
  count_lines(loop);
  LS_RETURN_IF_ERROR(log_sum(loop));  // Before means, as at an epoch's end.
  if (loop->lines.steps == loop->plan.options.log_every)
    LS_RETURN_IF_ERROR(log_lines(loop));
  report_steps(loop);
  return ls_ok();
}

static ls_status reports_after_failure(void *state, ls_status status) {
  ls_loop *loop = state;
  if (!loop->is_ahead) return status;
  count_lines(loop);
  report_steps(loop);
  return status;
}

const ls_hook_type ls_reports_of_steps = {.name = "",
                                          .after_create_session = open_events,
                                          .before_run = lines_before_steps,
                                          .after_run = reports_after_steps,
                                          .run_failed = reports_after_failure};

ls_status ls_loop_log_epoch(ls_loop *loop) {
  LS_RETURN_IF_ERROR(log_lines(loop));
  LS_RETURN_IF_ERROR(log_weights(loop, ls_loop_steps(loop)));
  // Stops the epoch's time before the evaluation, which does not count.
  loop->report = describe(loop, &loop->reports, 0);
  return ls_ok();
}

void ls_loop_report_epoch(ls_loop *loop) {
  if (loop->tested == ls_loop_steps(loop)) describe_test(loop, &loop->report);
  loop->report.epoch_end = true;
  show_report(loop);
}

ls_status ls_loop_log_rest(ls_loop *loop) {
  LS_RETURN_IF_ERROR(log_lines(loop));
  if (!ls_loop_epoch_has_steps(loop) || ls_loop_epoch_is_over(loop))
    return ls_ok();
  loop->report = describe(loop, &loop->reports, 0);
  loop->report.epoch_end = true;
  show_report(loop);
  return ls_ok();
}

void ls_loop_report_stop(ls_loop *loop) {
  if (!loop->is_stopped) return;
  // An epoch without a step has no report yet.
  if (loop->report.epoch != loop->epoch + 1)
    loop->report = describe(loop, NULL, 0);
  loop->report.stopped = true;
  show_report(loop);
}
