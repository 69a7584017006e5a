// SPDX-License-Identifier: Apache-2.0
// Keeps results of a run: its checkpoints, the final model, and evaluations
// after epochs.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lockstep/function_plan.h"
#include "runtime/function.h"
#include "train/input.h"
#include "train/loop.h"

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
    ls_loop_add_means(loop, k, &loop->saved);
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
    if (!loop->plan.options.resume) ls_run_folder_abandon(&loop->folder);
    return ls_ok();
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
  LS_RETURN_IF_ERROR(ls_loop_log_test(loop));
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
  LS_RETURN_IF_ERROR(ls_loop_log_epoch(loop));
  if (!ls_loop_stops(loop) && loop->evaluator != NULL)
    LS_RETURN_IF_ERROR(run_test(loop, context));
  count_test(loop);
  LS_RETURN_IF_ERROR(ls_loop_log_test(loop));
  ls_loop_report_epoch(loop);
  return save_test(loop, true);
}

static ls_status results_end(void *state, ls_run_context *context) {
  (void)context;
  LS_RETURN_IF_ERROR(ls_loop_log_rest(state));
  LS_RETURN_IF_ERROR(save_last(state));
  ls_loop_report_stop(state);
  return ls_ok();
}

static const ls_hook_type results_type = {.name = "",
                                          .after_create_session =
                                              results_create,
                                          .before_run = results_before_run,
                                          .after_run = results_after_run,
                                          .end = results_end};

static ls_status lend_hook(ls_loop *loop, const ls_hook_type *type) {
  ls_hook *hook = NULL;
  LS_RETURN_IF_ERROR(ls_hook_lend(type, loop, &hook));
  return ls_hook_list_add(&loop->hooks, hook);
}

ls_status ls_loop_add_hooks(ls_loop *loop) {
  const ls_train_options *o = &loop->plan.options;
  LS_RETURN_IF_ERROR(lend_hook(loop, &ls_reports_of_steps));
  LS_RETURN_IF_ERROR(
      ls_hook_list_add_all(&loop->hooks, o->hooks, o->num_hooks));
  return lend_hook(loop, &results_type);
}
