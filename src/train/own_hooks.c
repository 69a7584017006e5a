// SPDX-License-Identifier: Apache-2.0
// The two hooks of a run itself. The one before the caller's hooks reports
// progress: lines of metrics.jsonl, event files, and the caller's reporter. The
// one after them keeps results: checkpoints, the final model, and evaluations
// after epochs.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/own.h"
#include "lockstep/eager.h"
#include "lockstep/function_plan.h"
#include "lockstep/optimizer_state.h"
#include "nn/optimizer.h"
#include "runtime/function.h"
#include "train/folder/saves.h"
#include "train/input.h"
#include "train/loop.h"

// ---- Means -----------------------------------------------------------------
// Adds the numbers of step `k` of the last run to means.
static void loop_add_means(const ls_loop *loop, int64_t k,
                           ls_run_means *means) {
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
  LS_OWN(ls_text, text) = {.allocator = ls_runtime_allocator(loop->runtime)};
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

static ls_status loop_log_test(ls_loop *loop) {
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
    loop_add_means(loop, k, &loop->lines);
}

static void report_steps(ls_loop *loop) {
  for (int64_t k = 0; k < loop->made; ++k) {
    loop_add_means(loop, k, &loop->reports);
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

static const ls_hook_type reports_type = {.name = "",
                                          .after_create_session = open_events,
                                          .before_run = lines_before_steps,
                                          .after_run = reports_after_steps,
                                          .run_failed = reports_after_failure};

// At the run's end: writes the last line, and reports an epoch that was
// stopped.
static ls_status loop_log_rest(ls_loop *loop) {
  LS_RETURN_IF_ERROR(log_lines(loop));
  if (!ls_loop_epoch_has_steps(loop) || ls_loop_epoch_is_over(loop))
    return ls_ok();
  loop->report = describe(loop, &loop->reports, 0);
  loop->report.epoch_end = true;
  show_report(loop);
  return ls_ok();
}

static void loop_report_stop(ls_loop *loop) {
  if (!loop->is_stopped) return;
  // An epoch without a step has no report yet.
  if (loop->report.epoch != loop->epoch + 1)
    loop->report = describe(loop, NULL, 0);
  loop->report.stopped = true;
  show_report(loop);
}

// ---- A save ----------------------------------------------------------------
// Lists the metrics of a save; `test_metric` is room for a name.
static size_t list_metrics(const ls_loop *loop, char test_metric[64],
                           ls_checkpoint_metric *out) {
  const ls_run_means *means = &loop->saved;
  const char *metric = loop->accuracy.name;
  const double examples = (double)means->examples;
  size_t count = 0;
  if (means->examples > 0) {
    out[count++] = (ls_checkpoint_metric){"loss", means->loss / examples};
    if (!isnan(means->accuracy))
      out[count++] = (ls_checkpoint_metric){metric, means->accuracy / examples};
  }
  if (loop->tested == ls_loop_steps(loop)) {
    out[count++] = (ls_checkpoint_metric){"test_loss", loop->test.loss};
    snprintf(test_metric, 64, "test_%s", metric);
    out[count++] = (ls_checkpoint_metric){test_metric, loop->test.accuracy};
  }
  return count;
}

// Removes the run that this run overwrites, once this run has a checkpoint.
static ls_status drop_former(ls_loop *loop, bool waits) {
  const ls_saving *saving = &loop->saves.saving;
  return loop->folder.keeps && saving->saved >= 0 &&
                 ls_saving_has_checkpoint(saving, waits)
             ? ls_run_folder_drop_former(&loop->folder)
             : ls_ok();
}

static ls_status save_run(ls_loop *loop) {
  ls_saves *saves = &loop->saves;
  const int64_t steps = ls_loop_steps(loop);
  ls_checkpoint_metric metrics[LS_RUN_METRICS];
  char test_metric[64];
  const size_t count = list_metrics(loop, test_metric, metrics);
  const int64_t began = ls_span_begin(loop->runtime);
  // Waits, which the next save would do anyway.
  LS_RETURN_IF_ERROR(drop_former(loop, true));
  saves->seconds = ls_loop_seconds(loop, loop->began);
  saves->input_stalls = loop->stalls;
  if (saves->evaluate != NULL)
    saves->evaluated = loop->tested == steps
                           ? loop->tested_from
                           : ls_function_steps(saves->evaluate);
  if (loop->chain.runtime != NULL)
    LS_RETURN_IF_ERROR(ls_saving_wait(&saves->saving));
  loop->chain.metrics = loop->folder.metrics;
  ls_status status = ls_run_folder_sync_lines(&loop->folder);
  if (ls_status_is_ok(status))
    status = ls_saving_save(&saves->saving, steps, metrics, count);
  loop->saved = (ls_run_means){0};
  loop->save_is_due = false;
  ls_loop_end_span(loop, "save", began, steps);
  return status;
}

// Saves if the ranks have agreed, together with the stop, that a save is due.
static ls_status save_if_due(ls_loop *loop) {
  const ls_saving *saving = &loop->saves.saving;
  if (loop->ranks.all.communicator == NULL) {
    loop->save_has_failed = ls_saving_has_failed(saving);
    loop->save_is_due = ls_saving_is_due(saving, ls_loop_steps(loop));
  }
  if (loop->save_has_failed) LS_RETURN_IF_ERROR(ls_saving_wait(saving));
  loop->save_has_failed = false;
  return loop->save_is_due && ls_saves_are_known(&loop->saves) ? save_run(loop)
                                                               : ls_ok();
}

// ---- Saves of steps --------------------------------------------------------
enum { DUE = 1, FAILED = 2 };

// Returns as bits if a save is due after the next step, and if a save has
// failed.
static int64_t find_save_bits(void *state) {
  const ls_loop *loop = state;
  const ls_saving *saving = &loop->saves.saving;
  return (ls_saving_is_due(saving, ls_loop_steps(loop) + 1) ? DUE : 0) |
         (ls_saving_has_failed(saving) ? FAILED : 0);
}

static void take_save_bits(void *state, int64_t first, int64_t bits) {
  ls_loop *loop = state;
  loop->save_is_due = (first & DUE) != 0;
  loop->save_has_failed = (bits & FAILED) != 0;
}

static ls_status save_steps(ls_loop *loop) {
  for (int64_t k = 0; k < loop->made; ++k)
    loop_add_means(loop, k, &loop->saved);
  const int64_t began = ls_runtime_now(loop->runtime);
  ls_status status = save_if_due(loop);
  if (ls_status_is_ok(status)) status = drop_former(loop, false);
  loop->spent.save += ls_runtime_now(loop->runtime) - began;
  return status;
}

// ---- Saves of evaluations, and at the end ----------------------------------
// Saves after an evaluation, so that the best checkpoint has its metric.
static ls_status save_test(ls_loop *loop, bool has_test) {
  const char *best = loop->plan.options.keep_best;
  return best != NULL && strncmp(best, "test_", 5) == 0 && has_test &&
                 !ls_loop_stops(loop)
             ? save_run(loop)
             : ls_ok();
}

// Saves at the end; a run without a step leaves nothing.
static ls_status save_last(ls_loop *loop) {
  ls_saving *saving = &loop->saves.saving;
  const int64_t steps = ls_loop_steps(loop);
  if (steps == 0 && loop->is_stopped) {
    if (loop->plan.options.resume) return ls_ok();
    const ls_status status = ls_saving_close(saving);  // Unlocks the folder.
    ls_run_folder_abandon(&loop->folder);
    return status;
  }
  if (loop->saves.folder == NULL) return ls_ok();
  if (!loop->is_stopped) LS_RETURN_IF_ERROR(ls_loop_settle(loop));
  if (saving->saved != steps) LS_RETURN_IF_ERROR(save_run(loop));
  LS_RETURN_IF_ERROR(ls_saving_wait(saving));
  LS_RETURN_IF_ERROR(drop_former(loop, true));
  LS_RETURN_IF_ERROR(
      ls_run_folder_save_model(&loop->folder, loop->plan.options.model, steps));
  return ls_chain_end(&loop->chain, steps, "model.safetensors",
                      loop->is_stopped, &loop->folder.metrics);
}

// ---- Evaluations -----------------------------------------------------------
static ls_status run_test(ls_loop *loop, ls_run_context *context) {
  ls_evaluation evaluation;
  const int64_t began = ls_span_begin(loop->runtime);
  const uint64_t calls =
      ls_function_steps(ls_evaluator_function(loop->evaluator));
  const ls_status status =
      ls_evaluator_run(loop->evaluator, loop->plan.options.stop, &evaluation);
  ls_loop_end_span(loop, "evaluate", began, context->steps);
  if (ls_status_code(status) == LS_CANCELLED) {
    ls_status_free(status);
    ls_run_context_request_stop(context);
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(status);
  loop->test = evaluation;
  loop->tested = context->steps;
  loop->tested_from = calls;
  return ls_ok();
}

// Counts the evaluation of the last step for early stopping, if there was one.
static void count_test(ls_loop *loop) {
  const ls_run_plan *plan = &loop->plan;
  if (plan->options.stop_early != NULL && loop->tested >= 0 &&
      loop->tested == ls_loop_steps(loop))
    ls_early_stop_count(&loop->saves.early, &plan->stop, loop->tested,
                        strcmp(plan->stop.name, "test_loss") == 0
                            ? loop->test.loss
                            : loop->test.accuracy);
}

// ---- The hook after the caller's -------------------------------------------
// Repeats the evaluation and its save in a run that was stopped at the end of
// an epoch.
static ls_status results_create(void *state, ls_run_context *context) {
  ls_loop *loop = state;
  loop->ranks.party = (ls_rank_party){loop, find_save_bits, take_save_bits};
  if (loop->evaluator != NULL && loop->is_again)
    LS_RETURN_IF_ERROR(run_test(loop, context));
  count_test(loop);
  LS_RETURN_IF_ERROR(loop_log_test(loop));
  return save_test(loop, loop->is_again);
}

static ls_status results_before_run(void *state, ls_run_context *context,
                                    ls_run_wish *wish) {
  const ls_loop *loop = state;
  wish->most_steps = ls_saving_steps_left(&loop->saves.saving, context->steps);
  return ls_ok();
}

// Collective: ranks without a test set take part, too.
static ls_status results_after_run(void *state, ls_run_context *context,
                                   ls_nest results) {
  ls_loop *loop = state;
  (void)results;
  LS_RETURN_IF_ERROR(save_steps(loop));
  if (!ls_loop_epoch_is_over(loop)) return ls_ok();
  // At an epoch's end: writes the steps' last line and the weights.
  LS_RETURN_IF_ERROR(log_lines(loop));
  LS_RETURN_IF_ERROR(log_weights(loop, ls_loop_steps(loop)));
  // Stops the epoch's time before the evaluation, which does not count.
  loop->report = describe(loop, &loop->reports, 0);
  if (!ls_loop_stops(loop) && loop->evaluator != NULL)
    LS_RETURN_IF_ERROR(run_test(loop, context));
  count_test(loop);
  LS_RETURN_IF_ERROR(loop_log_test(loop));
  if (loop->tested == ls_loop_steps(loop)) describe_test(loop, &loop->report);
  loop->report.epoch_end = true;
  show_report(loop);
  return save_test(loop, true);
}

static ls_status results_end(void *state, ls_run_context *context) {
  (void)context;
  LS_RETURN_IF_ERROR(loop_log_rest(state));
  LS_RETURN_IF_ERROR(save_last(state));
  loop_report_stop(state);
  return ls_ok();
}

static const ls_hook_type results_type = {.name = "",
                                          .after_create_session =
                                              results_create,
                                          .before_run = results_before_run,
                                          .after_run = results_after_run,
                                          .end = results_end};

ls_status ls_loop_add_hooks(ls_loop *loop) {
  const ls_train_options *o = &loop->plan.options;
  LS_RETURN_IF_ERROR(
      LS_ADD_HOOK(&loop->hooks, ls_hook_lend, &reports_type, loop));
  LS_RETURN_IF_ERROR(
      ls_hook_list_add_all(&loop->hooks, o->hooks, o->num_hooks));
  return LS_ADD_HOOK(&loop->hooks, ls_hook_lend, &results_type, loop);
}
