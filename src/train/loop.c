// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "base/plain.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "data/iterator.h"
#include "distribute/base/strategy.h"
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

static bool stop_requested(void *user);

// Makes the hooks; what they stand on is made later.
static ls_status make_hooks(ls_loop *it) {
  const ls_train_options *o = &it->plan.options;
  LS_RETURN_IF_ERROR(ls_hooks_check("hooks", o->hooks, o->num_hooks));
  ls_run_place *place = &it->place;
  place->stops = stop_requested;
  place->loop = it;
  place->context = &it->hooks.context;
  it->own = (ls_own_hooks){
      .lines = {.place = place, .folder = &it->folder, .tested = -1},
      .reports = {.place = place},
      .saver = {.place = place,
                .saves = &it->saves,
                .folder = &it->folder,
                .ranks = &it->ranks},
      .tests = {.place = place}};
  for (size_t i = 0; i < o->num_hooks; ++i)
    it->is_guarded |= ls_hook_guards_loss(o->hooks[i]);
  LS_RETURN_IF_ERROR(
      ls_own_hooks_list(&it->own, o->hooks, o->num_hooks, &it->hooks));
  return ls_hook_list_check_called(&it->hooks);
}

static ls_status loop_make(const ls_train_options *options, ls_loop *it) {
  it->runtime = ls_runtime_current();
  if (it->runtime == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(ls_run_plan_make(options, it->runtime, &it->plan));
  LS_RETURN_IF_ERROR(
      ls_run_ranks_init(&it->ranks, it->runtime, options->strategy));
  LS_RETURN_IF_ERROR(ls_stretch_check(it));
  LS_RETURN_IF_ERROR(make_hooks(it));
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

// Where the run is, for who looks on.
static void begin_place(ls_loop *it) {
  const ls_trunk *trunk = it->ranks.trunk;
  ls_run_place *place = &it->place;
  place->runtime = it->runtime;
  place->plan = &it->plan;
  place->function = it->function;
  place->input = it->input;
  place->tested = -1;
  it->own.tests.evaluator = it->evaluator;
  it->hooks.context.called =
      (ls_called_step){.model = it->plan.options.model,
                       .step = it->function,
                       .rank = trunk != NULL ? trunk->rank : 0,
                       .num_ranks = trunk != NULL ? trunk->ranks : 1};
}

static void begin_epoch(ls_loop *it, int64_t epoch) {
  const ls_run_plan *plan = &it->plan;
  ls_run_place *place = &it->place;
  place->epoch = epoch;
  place->epoch_begin = epoch * plan->steps_per_epoch;
  place->epoch_first = ls_run_epoch_steps(place);
  const int64_t left = plan->num_steps - place->epoch_begin;
  place->steps_per_epoch =
      left < plan->steps_per_epoch ? left : plan->steps_per_epoch;
}

// A run that goes on at the end of an epoch is at that epoch's end again.
static ls_status create_hooks(ls_loop *it) {
  ls_run_place *place = &it->place;
  const int64_t steps = ls_run_steps(place), epoch = it->plan.steps_per_epoch;
  place->again =
      steps > 0 && (steps % epoch == 0 || steps == it->plan.num_steps);
  if (place->again) {
    LS_RETURN_IF_ERROR(ls_loop_settle(it));
    begin_epoch(it, (steps - 1) / epoch);
  }
  return ls_hook_list_create(&it->hooks);
}

static ls_status loop_begin(const ls_train_options *options, ls_loop *it) {
  LS_RETURN_IF_ERROR(loop_make(options, it));
  begin_place(it);
  LS_RETURN_IF_ERROR(ls_hook_list_begin(&it->hooks));
  const ls_train_options *o = &it->plan.options;
  LS_RETURN_IF_ERROR(ls_saves_init(
      &it->saves, it->runtime, &it->plan, o->run_folder, it->function,
      it->evaluator != NULL ? ls_evaluator_function(it->evaluator) : NULL,
      it->input));
  const bool writes = ls_run_ranks_writes(&it->ranks);
  if (!writes) it->plan.options.events = NULL;
  ls_run_folder_init(&it->folder, it->runtime, writes ? o->run_folder : NULL);
  it->place.began = ls_runtime_now(it->runtime);
  LS_RETURN_IF_ERROR(ls_loop_begin(it));
  return create_hooks(it);
}

static void loop_end(ls_loop *it) {
  ls_run_ranks_deinit(&it->ranks);
  ls_run_folder_deinit(&it->folder);
  ls_device_loop_destroy(it->device_loop);
  ls_nest_release(it->args);
  ls_nest_release(it->results);
  ls_evaluator_destroy(it->evaluator);
  ls_function_release(it->function);
  ls_iterator_release(it->input);
  ls_dataset_release(it->batches);
  ls_release(ls_current_allocator(), it->numbers);
}

// ---- Counting --------------------------------------------------------------
// Such a step does not count.
static ls_status no_number(const ls_loop *it, double loss) {
  char rate[32] = "";
  if (it->plan.config.learning_rate != 0)
    ls_format(rate, sizeof(rate), " %g", it->plan.config.learning_rate);
  return ls_out_of_range(
      "the loss is %g at step %lld: the learning rate%s may be too high", loss,
      (long long)ls_run_steps(&it->place) + 1, rate);
}

ls_status ls_loop_count(ls_loop *it, int64_t steps, int64_t examples) {
  ls_run_place *place = &it->place;
  place->numbers = it->numbers;
  place->examples = examples;
  while (place->made < steps &&
         (it->is_guarded || isfinite(it->numbers[place->made].loss)))
    ++place->made;
  place->context->steps += place->made;
  return place->made == steps ? ls_ok()
                              : no_number(it, it->numbers[place->made].loss);
}

// ---- A step ----------------------------------------------------------------
// The mean over the batch of a scalar in the results; nan without it.
static ls_status scalar(const ls_loop *it, ls_named_result *which,
                        double *out_value) {
  ls_nest leaf = ls_none();
  *out_value = (double)NAN;
  return ls_named_result_has(which, it->results, &leaf)
             ? ls_train_mean(it->args, leaf, out_value)
             : ls_ok();
}

static ls_status take_number(ls_loop *it) {
  if (!ls_grow(ls_runtime_allocator(it->runtime), &it->numbers,
               &it->numbers_capacity, 1, sizeof(*it->numbers)))
    return ls_out_of_memory();
  LS_RETURN_IF_ERROR(scalar(it, &it->loss, &it->numbers->loss));
  return scalar(it, &it->accuracy, &it->numbers->accuracy);
}

// The batch of before goes back to be written again.
static ls_status loop_deal(ls_loop *it) {
  LS_RETURN_IF_ERROR(ls_iterator_next(it->input, &it->args));
  return ls_train_check_labels(it->plan.options.model->type, it->args);
}

static ls_status take_step(ls_loop *it) {
  const int64_t traced = ls_span_begin(it->runtime);
  const int64_t began = ls_runtime_now(it->runtime);
  LS_RETURN_IF_ERROR(loop_deal(it));
  ls_run_end_span(&it->place, "input", traced, ls_run_steps(&it->place) + 1);
  const int64_t dealt = ls_runtime_now(it->runtime);
  LS_RETURN_IF_ERROR(ls_strategy_run(it->plan.options.strategy,
                                     ls_traced(it->function), it->args,
                                     &it->results));
  it->place.spent.input += dealt - began;
  it->place.spent.run += ls_runtime_now(it->runtime) - dealt;
  if (!it->checked)
    LS_RETURN_IF_ERROR(
        ls_train_check_step(it->plan.options.model, it->function, it->results));
  it->checked = true;
  const int64_t examples = ls_train_batch_size(it->args);
  LS_RETURN_IF_ERROR(ls_saves_check_program(&it->saves, examples));
  LS_RETURN_IF_ERROR(take_number(it));
  return ls_loop_count(it, 1, examples);
}

static ls_status loop_step(ls_loop *it) {
  const int64_t number = ls_run_steps(&it->place) + 1;
  const int64_t began = ls_span_begin(it->runtime);
  ls_status status = take_step(it);
  if (ls_status_is_ok(status)) status = ls_loop_settle(it);
  ls_run_end_span(&it->place, "step", began, number);
  return status;
}

// ---- A run -----------------------------------------------------------------
// Makes one step, or several. Of a loop of steps that went wrong some may
// count.
static ls_status run_steps(void *user, bool *out_has_run) {
  ls_loop *it = user;
  ls_run_context *context = &it->hooks.context;
  LS_RETURN_IF_ERROR(ls_stretch_prepare(it));
  int64_t count = ls_stretch_length(it);
  LS_RETURN_IF_ERROR(ls_hook_list_count_steps(&it->hooks, &count));
  const bool is_loop = count > 1;
  it->place.made = 0;
  const ls_status status = is_loop ? ls_stretch_run(it, count) : loop_step(it);
  *out_has_run = it->place.made > 0 && (is_loop || ls_status_is_ok(status));
  context->called.args = it->args;
  context->results =
      is_loop ? ls_device_loop_results(it->device_loop) : it->results;
  return status;
}

// ---- Stopping --------------------------------------------------------------
// All ranks come here the same number of times, and go the same way.
static bool stop_requested(void *user) {
  ls_loop *it = user;
  ls_run_place *place = &it->place;
  if (place->stopped) return true;
  if (ls_train_stop_requested(it->plan.options.stop) ||
      ls_run_context_stop_requested(&it->hooks.context))
    it->asked = true;
  it->unmet = ls_run_ranks_ask(&it->ranks, it->asked, &place->stopped);
  if (!ls_status_is_ok(it->unmet)) place->stopped = true;
  return place->stopped;
}

// An evaluation may have been stopped behind the last step.
static ls_status find_last_stop(ls_loop *it) {
  bool stops = false;
  const bool asked =
      it->asked || ls_run_context_stop_requested(&it->hooks.context);
  LS_RETURN_IF_ERROR(ls_run_ranks_ask(&it->ranks, asked, &stops));
  it->place.stopped |= stops;
  return ls_ok();
}

// ---- Epochs ----------------------------------------------------------------
// Or until a stop.
static void wait_for_input(ls_loop *it) {
  const int64_t began = ls_runtime_now(it->runtime);
  const ls_train_stop *stop = it->plan.options.stop;
  const bool ready =
      ls_iterator_wait(it->input, ls_train_stop_asked, (void *)(uintptr_t)stop);
  it->place.spent.input += ls_runtime_now(it->runtime) - began;
  it->place.stalls = !ready;
  if (!ready) it->asked = true;
}

// Whether there is another step to do, and its batch.
static bool loop_goes_on(ls_loop *it) {
  if (ls_run_epoch_is_over(&it->place)) return false;
  wait_for_input(it);
  return !stop_requested(it);
}

// A run that goes on is there already.
static ls_status seek_input(ls_loop *it) {
  const ls_run_place *place = &it->place;
  if (ls_iterator_epoch(it->input) == place->epoch &&
      ls_iterator_position(it->input) == place->epoch_first)
    return ls_ok();
  LS_RETURN_IF_ERROR(ls_iterator_seek_epoch(it->input, place->epoch));
  return ls_iterator_seek(it->input, place->epoch_first);
}

static ls_status epoch(ls_loop *it, int64_t number) {
  begin_epoch(it, number);
  LS_RETURN_IF_ERROR(seek_input(it));
  ls_budget_begin(it->runtime, &it->place.spent, &it->place.epoch_budget);
  while (loop_goes_on(it))
    LS_RETURN_IF_ERROR(ls_hook_list_run(
        &it->hooks, &(ls_hooked_run){.make = run_steps, .user = it}));
  return ls_ok();
}

static ls_status loop_run(ls_loop *it, ls_train_result *result) {
  const ls_run_plan *plan = &it->plan;
  const int64_t first = ls_run_steps(&it->place) / plan->steps_per_epoch;
  for (int64_t i = first;
       i < plan->options.epochs && ls_run_steps(&it->place) < plan->num_steps &&
       !stop_requested(it);
       ++i)
    LS_RETURN_IF_ERROR(epoch(it, i));
  LS_RETURN_IF_ERROR(it->unmet);
  LS_RETURN_IF_ERROR(find_last_stop(it));
  result->seconds = ls_run_seconds(&it->place, it->place.began);
  return ls_hook_list_end(&it->hooks);
}

ls_status ls_train(const ls_train_options *options,
                   ls_train_result *out_result) {
  LS_REQUIRE_OUT(out_result);
  LS_REQUIRE(options);
  LS_REQUIRE(options->strategy);
  LS_REQUIRE(options->train);
  LS_REQUIRE(options->model);
  LS_REQUIRE(options->model->type);
  LS_REQUIRE(options->model->type->name);
  LS_REQUIRE(options->model->type->train_step);
  LS_REQUIRE(options->model->type->variables);
  LS_REQUIRE_ITEMS(options->hooks, options->num_hooks);
  ls_loop it = {.loss = {.name = "loss"}, .accuracy = {.name = "accuracy"}};
  ls_status status = loop_begin(options, &it);
  if (ls_status_is_ok(status)) status = loop_run(&it, out_result);
  out_result->steps = it.hooks.context.steps;
  out_result->stopped = it.place.stopped;
  out_result->tested = it.place.tested >= 0;
  out_result->test = it.place.test;
  status = ls_status_join(status, ls_own_lines_close(&it.own.lines));
  ls_hook_list_deinit(&it.hooks);
  status = ls_status_join(status, ls_saves_deinit(&it.saves));
  status = ls_run_folder_settle(&it.folder, status);
  if (!ls_status_is_ok(status) && out_result->steps == 0 && !options->resume)
    ls_run_folder_abandon(&it.folder);
  loop_end(&it);
  // The loss is the same on all ranks.
  if (ls_status_code(status) != LS_OUT_OF_RANGE)
    ls_strategy_tell_ranks(options->strategy, status);
  return status;
}
