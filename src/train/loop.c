// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "base/plain.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "data/iterator.h"
#include "distribute/strategies/strategy.h"
#include "lockstep/iterator.h"
#include "lockstep/train.h"
#include "train/evaluator.h"
#include "train/input.h"
#include "train/loop.h"
#include "train/step_check.h"

// ---- Making ----------------------------------------------------------------
// What is quick is dealt between steps by all threads, which have nothing else
// to do then: making it ahead would take them from the steps.
static ls_opt ahead_of(const ls_loop *it) {
  const ls_dataset *batches = it->batches;
  // While a loop of steps runs, another thread reads.
  if (it->plan.options.iterations_per_loop > 1) return (ls_opt){0};
  const bool quick = batches != NULL && ls_status_is_ok(batches->failure) &&
                     ls_dataset_is_quick(batches);
  return quick ? LS_SOME(0) : (ls_opt){0};
}

static ls_status make_input(ls_loop *it) {
  const ls_train_options *o = &it->plan.options;
  it->batches = ls_train_batches(o->model->type, o->train, o->batch_size, true);
  const int64_t replicas = ls_strategy_num_replicas(o->strategy);
  if (replicas > 1) it->batches = ls_dataset_parts(it->batches, replicas);
  LS_RETURN_IF_ERROR(ls_iterator_create(
      it->batches,
      &(ls_iterator_options){
          .name = "train", .seed = (uint64_t)o->seed, .prefetch = ahead_of(it)},
      &it->input));
  return ls_iterator_let_help(it->input);
}

static ls_status make(const ls_train_options *options, ls_loop *it) {
  it->runtime = ls_runtime_current();
  if (it->runtime == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(ls_run_plan_make(options, it->runtime, &it->plan));
  LS_RETURN_IF_ERROR(
      ls_run_ranks_init(&it->ranks, it->runtime, options->strategy));
  LS_RETURN_IF_ERROR(ls_stretch_check(it));
  LS_RETURN_IF_ERROR(
      ls_hook_list_init(&it->hooks, options->hooks, options->num_hooks));
  LS_RETURN_IF_ERROR(ls_hook_list_check_called(&it->hooks));
  LS_RETURN_IF_ERROR(make_input(it));
  const ls_train_options *o = &it->plan.options;
  const ls_model *model = o->model;
  LS_RETURN_IF_ERROR(
      ls_function_create(&(ls_function_options){.call = model->type->train_step,
                                                .user = model->self,
                                                .name = "train_step",
                                                .seed = o->seed},
                         &it->function));
  return o->test != NULL ? ls_evaluator_create(model, o->test, &it->evaluator)
                         : ls_ok();
}

static void begin_hooks(ls_loop *it) {
  const ls_trunk *trunk = it->ranks.trunk;
  it->hooks.context.called =
      (ls_called_step){.model = it->plan.options.model,
                       .step = it->function,
                       .rank = trunk != NULL ? trunk->rank : 0,
                       .num_ranks = trunk != NULL ? trunk->ranks : 1};
  for (size_t i = 0; i < it->hooks.count; ++i)
    it->is_guarded |= ls_hook_guards_loss(it->hooks.hooks[i]);
}

static ls_status begin(const ls_train_options *options, ls_loop *it) {
  it->tested = -1;
  LS_RETURN_IF_ERROR(make(options, it));
  begin_hooks(it);
  LS_RETURN_IF_ERROR(ls_hook_list_begin(&it->hooks));
  const ls_train_options *o = &it->plan.options;
  LS_RETURN_IF_ERROR(ls_saves_init(
      &it->saves, it->runtime, &it->plan, o->run_folder, it->function,
      it->evaluator != NULL ? ls_evaluator_function(it->evaluator) : NULL,
      it->input));
  const bool writes = ls_run_ranks_writes(&it->ranks);
  if (!writes) it->plan.options.events = NULL;
  ls_run_folder_init(&it->folder, it->runtime, writes ? o->run_folder : NULL);
  it->began = ls_runtime_now(it->runtime);
  LS_RETURN_IF_ERROR(ls_loop_begin(it));
  it->hooks.context.steps = it->result->steps;
  return ls_hook_list_create(&it->hooks);
}

static void end(ls_loop *it) {
  ls_run_ranks_deinit(&it->ranks);
  ls_run_folder_deinit(&it->folder);
  ls_device_loop_destroy(it->device_loop);
  ls_nest_release(it->args);
  ls_nest_release(it->results);
  ls_evaluator_destroy(it->evaluator);
  ls_function_release(it->function);
  ls_iterator_release(it->input);
  ls_dataset_release(it->batches);
}

// ---- A step ----------------------------------------------------------------
// The mean over the batch of a scalar in the results; nan without it.
static ls_status scalar(const ls_loop *it, const char *key, double *out_value) {
  const ls_nest leaf = ls_nest_find(it->results, key);
  *out_value = (double)NAN;
  return leaf.kind == LS_KIND_NONE ? ls_ok()
                                   : ls_train_mean(it->args, leaf, out_value);
}

static void add(ls_window *w, int64_t examples, double loss, double accuracy) {
  ++w->steps;
  w->examples += examples;
  w->loss += loss * (double)examples;
  w->accuracy += accuracy * (double)examples;
}

// The batch of before goes back to be written again.
static ls_status deal(ls_loop *it) {
  LS_RETURN_IF_ERROR(ls_iterator_next(it->input, &it->args));
  return ls_train_check_labels(it->plan.options.model->type, it->args);
}

// Such a step does not count.
static ls_status no_number(const ls_loop *it, double loss) {
  char rate[32] = "";
  if (it->plan.config.learning_rate != 0)
    ls_format(rate, sizeof(rate), " %g", it->plan.config.learning_rate);
  return ls_out_of_range(
      "the loss is %g at step %lld: the learning rate%s may be too high", loss,
      (long long)it->result->steps + 1, rate);
}

void ls_loop_spend(ls_loop *it, int64_t input, int64_t run, int64_t save) {
  ls_budget *const budgets[] = {&it->epoch.budget, &it->logged.budget};
  for (size_t i = 0; i < LS_COUNT_OF(budgets); ++i) {
    budgets[i]->input += input;
    budgets[i]->run += run;
    budgets[i]->save += save;
  }
}

ls_status ls_loop_count(ls_loop *it, int64_t examples, double loss,
                        double accuracy) {
  if (!it->is_guarded && !isfinite(loss)) return no_number(it, loss);
  add(&it->epoch, examples, loss, accuracy);
  add(&it->logged, examples, loss, accuracy);
  add(&it->kept, examples, loss, accuracy);
  ++it->result->steps;
  return ls_ok();
}

static ls_status take_step(ls_loop *it) {
  const int64_t traced = ls_span_begin(it->runtime);
  const int64_t began = ls_runtime_now(it->runtime);
  LS_RETURN_IF_ERROR(deal(it));
  ls_loop_end_span(it, "input", traced, it->result->steps + 1);
  const int64_t dealt = ls_runtime_now(it->runtime);
  LS_RETURN_IF_ERROR(ls_strategy_run(it->plan.options.strategy,
                                     ls_traced(it->function), it->args,
                                     &it->results));
  ls_loop_spend(it, dealt - began, ls_runtime_now(it->runtime) - dealt, 0);
  if (!it->checked)
    LS_RETURN_IF_ERROR(
        ls_train_check_step(it->plan.options.model, it->function, it->results));
  it->checked = true;
  LS_RETURN_IF_ERROR(
      ls_saves_check_program(&it->saves, ls_train_batch_size(it->args)));
  double loss, accuracy;
  LS_RETURN_IF_ERROR(scalar(it, "loss", &loss));
  LS_RETURN_IF_ERROR(scalar(it, "accuracy", &accuracy));
  LS_RETURN_IF_ERROR(
      ls_loop_count(it, ls_train_batch_size(it->args), loss, accuracy));
  LS_RETURN_IF_ERROR(ls_stretch_prepare(it));
  return ls_loop_settle(it);
}

static ls_status step(ls_loop *it) {
  const int64_t number = it->result->steps + 1;
  const int64_t began = ls_span_begin(it->runtime);
  const ls_status status = take_step(it);
  ls_loop_end_span(it, "step", began, number);
  return status;
}

// ---- Reports ---------------------------------------------------------------
static void window_begin(const ls_loop *it, ls_window *w) {
  *w = (ls_window){.began = ls_runtime_now(it->runtime)};
  ls_budget_begin(it->runtime, &w->budget);
}

// Fills in the numbers of `w`.
static void describe(ls_loop *it, const ls_window *w) {
  ls_train_report *r = &it->report;
  const double seconds = ls_loop_seconds(it, w->began);
  const double examples = (double)w->examples;
  r->step = it->result->steps;
  r->epoch_step = it->epoch_first + it->epoch.steps;
  r->loss = w->loss / examples;
  r->accuracy = w->accuracy / examples;
  r->examples_per_second = seconds > 0 ? examples / seconds : 0;
  r->seconds = ls_loop_seconds(it, it->began);
  r->seconds_left =
      seconds / (double)w->steps * (double)(r->num_steps - r->step);
  r->budget = ls_budget_of(it->runtime, &w->budget, it->input);
}

static ls_status log_report(ls_loop *it) {
  return ls_status_join(
      ls_run_folder_log(&it->folder, &it->report),
      ls_run_events_log(&it->events, &it->report, it->function));
}

static ls_status log_window(ls_loop *it) {
  if (it->logged.steps == 0) return ls_ok();
  describe(it, &it->logged);
  // Once: a line that could not be written may be there by half.
  const ls_status status = log_report(it);
  window_begin(it, &it->logged);
  return status;
}

static void show(ls_loop *it) {
  if (it->plan.options.report != NULL)
    it->plan.options.report(it->plan.options.report_user, &it->report);
}

ls_status ls_loop_tell(ls_loop *it) {
  if (it->logged.steps == it->plan.options.log_every)
    LS_RETURN_IF_ERROR(log_window(it));
  describe(it, &it->epoch);
  show(it);
  return ls_ok();
}

// ---- Epochs ----------------------------------------------------------------
// All ranks come here the same number of times, and go the same way.
static bool stop_requested(ls_loop *it) {
  enum { STOP = 1, DUE = 2, FAILED = 4 };
  if (it->result->stopped) return true;
  if (ls_train_stop_requested(it->plan.options.stop) ||
      ls_run_context_stop_requested(&it->hooks.context))
    it->asked = true;
  int64_t first = 0, bits = 0;
  // What is done behind the next step.
  const bool due = it->ranks.trunk != NULL &&
                   ls_saves_due(&it->saves, it->result->steps + 1);
  const bool failed =
      it->ranks.trunk != NULL && ls_saves_have_failed(&it->saves);
  it->unmet = ls_run_ranks_tell(&it->ranks,
                                (it->asked ? STOP : 0) | (due ? DUE : 0) |
                                    (failed ? FAILED : 0),
                                &first, &bits);
  it->due = (first & DUE) != 0;
  it->failed = (bits & FAILED) != 0;
  it->result->stopped = (bits & STOP) != 0 || !ls_status_is_ok(it->unmet);
  return it->result->stopped;
}

static ls_status test(ls_loop *it) {
  if (it->evaluator == NULL) return ls_ok();
  ls_evaluation evaluation;
  const int64_t began = ls_span_begin(it->runtime);
  ls_status status =
      ls_evaluator_run(it->evaluator, it->plan.options.stop, &evaluation);
  ls_loop_end_span(it, "evaluate", began, it->result->steps);
  if (ls_status_code(status) == LS_CANCELLED) {
    ls_status_free(status);
    it->asked = true;
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(status);
  it->result->tested = true;
  it->result->test = evaluation;
  it->tested = it->result->steps;
  it->report.tested = true;
  it->report.test = evaluation;
  it->report.seconds = ls_loop_seconds(it, it->began);
  return log_report(it);
}

static void begin_report(ls_loop *it, int64_t epoch) {
  const int64_t before = epoch * it->plan.steps_per_epoch;
  const int64_t left = it->plan.num_steps - before;
  it->epoch_first = it->result->steps - before;
  it->report = (ls_train_report){
      .epoch = epoch + 1,
      .num_epochs = it->plan.options.epochs,
      .steps_per_epoch =
          left < it->plan.steps_per_epoch ? left : it->plan.steps_per_epoch,
      .step = it->result->steps,
      .num_steps = it->plan.num_steps};
}

// Or until a stop.
static void wait_for_input(ls_loop *it) {
  const int64_t began = ls_runtime_now(it->runtime);
  const ls_train_stop *stop = it->plan.options.stop;
  const bool ready =
      ls_iterator_wait(it->input, ls_train_stop_asked, (void *)(uintptr_t)stop);
  ls_loop_spend(it, ls_runtime_now(it->runtime) - began, 0, 0);
  it->saves.input_stalls = !ready;
  if (!ready) it->asked = true;
}

// Whether there is another step to do, and its batch.
static bool goes_on(ls_loop *it) {
  if (it->epoch_first + it->epoch.steps >= it->report.steps_per_epoch)
    return false;
  wait_for_input(it);
  return !stop_requested(it);
}

static ls_status make_steps(ls_loop *it, int64_t count) {
  if (count > 1) return ls_stretch_run(it, count);
  LS_RETURN_IF_ERROR(step(it));
  return ls_loop_tell(it);
}

// One step, or several, and what hooks do around them.
static ls_status run_steps(ls_loop *it) {
  ls_run_context *context = &it->hooks.context;
  LS_RETURN_IF_ERROR(ls_hook_list_before(&it->hooks));
  int64_t count = ls_stretch_length(it);
  LS_RETURN_IF_ERROR(ls_hook_list_count_steps(&it->hooks, &count));
  LS_RETURN_IF_ERROR(make_steps(it, count));
  // A loop of steps may have been stopped before its first.
  if (context->steps == it->result->steps) return ls_ok();
  context->steps = it->result->steps;
  context->called.args = it->args;
  context->results =
      count > 1 ? ls_device_loop_results(it->device_loop) : it->results;
  return ls_hook_list_after(&it->hooks, ls_none(), 0);
}

static ls_status epoch_steps(ls_loop *it) {
  while (goes_on(it)) {
    LS_RETURN_IF_ERROR(ls_hook_list_judge(&it->hooks, run_steps(it)));
    // What the caller counts by reports is saved as it is behind this one.
    const int64_t began = ls_runtime_now(it->runtime);
    LS_RETURN_IF_ERROR(ls_loop_save_if_due(it));
    ls_loop_spend(it, 0, 0, ls_runtime_now(it->runtime) - began);
  }
  return ls_ok();
}

// A run that goes on is there already.
static ls_status seek_input(ls_loop *it, int64_t epoch) {
  if (ls_iterator_epoch(it->input) == epoch &&
      ls_iterator_position(it->input) == it->epoch_first)
    return ls_ok();
  LS_RETURN_IF_ERROR(ls_iterator_seek_epoch(it->input, epoch));
  return ls_iterator_seek(it->input, it->epoch_first);
}

// The best by an evaluation is one that was saved with it.
static ls_status save_tested(ls_loop *it) {
  const char *best = it->plan.options.keep_best;
  const bool wanted = best != NULL && strncmp(best, "test_", 5) == 0;
  return wanted && !stop_requested(it) ? ls_loop_save(it) : ls_ok();
}

static ls_status epoch(ls_loop *it, int64_t number) {
  begin_report(it, number);
  LS_RETURN_IF_ERROR(seek_input(it, number));
  window_begin(it, &it->epoch);
  window_begin(it, &it->logged);
  // The steps before an error are logged, too.
  const ls_status status = epoch_steps(it);
  LS_RETURN_IF_ERROR(ls_status_join(status, log_window(it)));
  if (it->epoch.steps == 0) return ls_ok();
  describe(it, &it->epoch);
  if (it->report.epoch_step == it->report.steps_per_epoch)
    LS_RETURN_IF_ERROR(
        ls_run_events_log_weights(&it->events, it->result->steps));
  if (!stop_requested(it)) LS_RETURN_IF_ERROR(test(it));
  it->report.epoch_end = true;
  show(it);
  return save_tested(it);
}

// A run that goes on at the end of an epoch may have been stopped before its
// evaluation, which is done again.
static ls_status begin_again(ls_loop *it) {
  const int64_t steps = it->result->steps;
  const bool again = steps > 0 && (steps % it->plan.steps_per_epoch == 0 ||
                                   steps == it->plan.num_steps);
  LS_RETURN_IF_ERROR(ls_run_events_open(&it->events, it->runtime,
                                        &it->plan.options, steps, again));
  if (!again) return ls_ok();
  LS_RETURN_IF_ERROR(ls_loop_settle(it));
  begin_report(it, (steps - 1) / it->plan.steps_per_epoch);
  return test(it);
}

// An evaluation may have been stopped behind the last step.
static ls_status find_last_stop(ls_loop *it) {
  int64_t first = 0, bits = 0;
  LS_RETURN_IF_ERROR(ls_run_ranks_tell(&it->ranks, it->asked, &first, &bits));
  it->result->stopped |= bits != 0;
  return ls_ok();
}

static ls_status run(ls_loop *it) {
  LS_RETURN_IF_ERROR(begin_again(it));
  const int64_t first = it->result->steps / it->plan.steps_per_epoch;
  for (int64_t i = first;
       i < it->plan.options.epochs && it->result->steps < it->plan.num_steps &&
       !stop_requested(it);
       ++i)
    LS_RETURN_IF_ERROR(epoch(it, i));
  LS_RETURN_IF_ERROR(it->unmet);
  LS_RETURN_IF_ERROR(find_last_stop(it));
  it->result->seconds = ls_loop_seconds(it, it->began);
  LS_RETURN_IF_ERROR(ls_hook_list_end(&it->hooks));
  // A run without a single step is no run.
  const bool none = it->result->steps == 0 && it->result->stopped;
  if (!none) LS_RETURN_IF_ERROR(ls_loop_save_all(it));
  if (none && !it->plan.options.resume) ls_run_folder_abandon(&it->folder);
  it->report.stopped = it->result->stopped;
  if (it->report.stopped) show(it);
  return ls_ok();
}

ls_status ls_train(const ls_train_options *options,
                   ls_train_result *out_result) {
  LS_REQUIRE(options);
  LS_REQUIRE(out_result);
  *out_result = (ls_train_result){0};
  LS_REQUIRE(options->strategy);
  LS_REQUIRE(options->train);
  LS_REQUIRE(options->model);
  LS_REQUIRE(options->model->type);
  LS_REQUIRE(options->model->type->name);
  LS_REQUIRE(options->model->type->train_step);
  LS_REQUIRE(options->model->type->variables);
  LS_REQUIRE_ITEMS(options->hooks, options->num_hooks);
  ls_loop it = {.result = out_result};
  ls_status status = begin(options, &it);
  if (ls_status_is_ok(status)) {
    status = run(&it);
    status = ls_status_join(status, ls_run_events_close(&it.events));
  }
  ls_hook_list_deinit(&it.hooks);
  status = ls_status_join(status, ls_saves_deinit(&it.saves));
  if (!ls_status_is_ok(status) && out_result->steps == 0 && !options->resume)
    ls_run_folder_abandon(&it.folder);
  end(&it);
  // The loss is the same on all ranks.
  if (ls_status_code(status) != LS_OUT_OF_RANGE)
    ls_strategy_tell_ranks(options->strategy, status);
  return status;
}
