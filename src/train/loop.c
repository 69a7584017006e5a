// SPDX-License-Identifier: Apache-2.0
// Training runs: start or resume in a folder, epochs, end.
#include "train/loop.h"

#include "base/plain.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "data/iterator.h"
#include "distribute/base/strategy.h"
#include "lockstep/iterator.h"
#include "lockstep/train.h"
#include "state/checkpoints.h"
#include "state/record.h"
#include "train/folder/saves.h"
#include "train/input.h"

// ---- Making ----------------------------------------------------------------
// Returns the prefetch count: 0 for quick input, which all threads make between
// steps when they have nothing else to do; making it ahead would slow the steps
// down.
static ls_opt find_prefetch(const ls_loop *loop) {
  const ls_dataset *batches = loop->batches;
  // With device loops another thread reads the input at the same time.
  if (loop->plan.options.iterations_per_loop > 1) return (ls_opt){0};
  const bool is_quick = batches != NULL && ls_status_is_ok(batches->failure) &&
                        ls_dataset_is_quick(batches);
  return is_quick ? LS_SOME(0) : (ls_opt){0};
}

static ls_status make_input(ls_loop *loop) {
  const ls_train_options *o = &loop->plan.options;
  loop->batches =
      ls_train_batches(o->model->type, o->train, o->batch_size, true);
  const int64_t replicas = ls_strategy_num_replicas(o->strategy);
  if (replicas > 1) loop->batches = ls_dataset_parts(loop->batches, replicas);
  LS_RETURN_IF_ERROR(ls_iterator_create(
      loop->batches,
      &(ls_iterator_options){.name = "train",
                             .seed = (uint64_t)o->seed,
                             .prefetch = find_prefetch(loop)},
      &loop->input));
  return ls_iterator_let_help(loop->input);
}

static ls_status make_hooks(ls_loop *loop) {
  const ls_train_options *o = &loop->plan.options;
  LS_RETURN_IF_ERROR(ls_hooks_check("hooks", o->hooks, o->num_hooks));
  for (size_t i = 0; i < o->num_hooks; ++i)
    loop->is_guarded |= ls_hook_guards_loss(o->hooks[i]);
  LS_RETURN_IF_ERROR(ls_loop_add_hooks(loop));
  return ls_hook_list_check_called(&loop->hooks);
}

// Calls the model's step, which is traced for one replica after the other: for
// many this takes long, and a stop before the first step of a run ends it.
static ls_nest call_step(ls_nest args, void *user) {
  const ls_loop *loop = user;
  const ls_model *model = loop->plan.options.model;
  return ls_loop_ends_trace(loop)
             ? LS_FAIL(LS_CANCELLED, "stopped before the first step")
             : model->type->train_step(args, model->self);
}

static ls_status loop_make(const ls_train_options *options, ls_loop *loop) {
  loop->runtime = ls_runtime_current();
  if (loop->runtime == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(
      ls_run_ranks_init(&loop->ranks, loop->runtime, options->strategy));
  LS_RETURN_IF_ERROR(ls_run_plan_make(options, loop->runtime, &loop->plan));
  const ls_train_options *o = &loop->plan.options;
  const ls_model *model = o->model;
  loop->ranks.sums = (ls_rank_sums){
      .runtime = loop->runtime, .model = model, .every = o->check_ranks};
  LS_RETURN_IF_ERROR(ls_loop_check_options(loop));
  LS_RETURN_IF_ERROR(make_hooks(loop));
  LS_RETURN_IF_ERROR(make_input(loop));
  LS_RETURN_IF_ERROR(
      ls_function_create(&(ls_function_options){.call = call_step,
                                                .user = loop,
                                                .name = "train_step",
                                                .seed = o->seed},
                         &loop->function));
  loop->hooks.context.called =
      (ls_called_step){.model = model,
                       .examples = ls_loop_examples,
                       .user = loop,
                       .step = loop->function,
                       .rank = (int32_t)ls_ranks_own(&loop->ranks.all),
                       .num_ranks = (int32_t)ls_ranks_count(&loop->ranks.all)};
  return o->test != NULL ? ls_evaluator_create(model, o->test, &loop->evaluator)
                         : ls_ok();
}

// ---- In a run folder -------------------------------------------------------
// Begins without a checkpoint, on all ranks with the same values.
static ls_status warm_up(ls_loop *loop) {
  const ls_train_options *o = &loop->plan.options;
  if (o->warm_start != NULL)
    LS_RETURN_IF_ERROR(ls_run_ranks_agree(
        &loop->ranks,
        ls_warm_start_apply(loop->runtime, o->model, o->warm_start)));
  return ls_run_ranks_compare(&loop->ranks);
}

// Lets the loop begin after the steps of a checkpoint in `folder`.
static ls_status go_on_at(ls_loop *loop, const char *folder, int64_t steps) {
  if (steps > loop->plan.num_steps)
    return ls_invalid_argument(
        "the run in '%s' is already at step %lld, beyond the requested %lld",
        folder, (long long)steps, (long long)loop->plan.num_steps);
  loop->hooks.context.steps = loop->resumed = steps;
  loop->began -= (int64_t)(loop->saves.seconds * 1e9);
  return ls_ok();
}

static ls_status resume_in_folder(ls_loop *loop) {
  const bool writes = ls_run_ranks_writes(&loop->ranks);
  int64_t steps = 0;
  LS_RETURN_IF_ERROR(ls_run_ranks_agree(
      &loop->ranks, writes ? ls_run_folder_enter(&loop->folder) : ls_ok()));
  LS_RETURN_IF_ERROR(ls_saves_resume(&loop->saves, &loop->ranks, &steps));
  // A resumed run has its warm start in its checkpoints.
  if (loop->saves.saving.saved < 0) LS_RETURN_IF_ERROR(warm_up(loop));
  loop->continues = writes;
  return go_on_at(loop, loop->saves.folder, steps);
}

static ls_status start_in_folder(ls_loop *loop) {
  const ls_train_options *o = &loop->plan.options;
  const bool writes = ls_run_ranks_writes(&loop->ranks);
  int64_t steps = 0;
  if (o->from != NULL) {
    LS_RETURN_IF_ERROR(ls_saves_go_on(&loop->saves, &loop->ranks, &steps));
    LS_RETURN_IF_ERROR(go_on_at(loop, o->from, steps));
  } else {
    LS_RETURN_IF_ERROR(warm_up(loop));
  }
  LS_RETURN_IF_ERROR(ls_run_ranks_agree(
      &loop->ranks,
      writes
          ? ls_run_folder_start(&loop->folder, &loop->plan.config, o->overwrite)
          : ls_ok()));
  loop->replaces = loop->folder.replaces;
  LS_RETURN_IF_ERROR(
      ls_ranks_send(&loop->ranks.all, &loop->replaces, sizeof(loop->replaces)));
  return loop->replaces ? ls_ok() : ls_saves_open(&loop->saves, &loop->ranks);
}

static ls_status begin_chain(ls_loop *loop) {
  const ls_train_options *o = &loop->plan.options;
  const ls_record *identity = loop->saves.identity;
  ls_checkpoints *checkpoints = loop->saves.saving.checkpoints;
  ls_chain_start start = {.folder = loop->folder.path,
                          .resumes = o->resume,
                          .attest = o->attest,
                          .step = loop->resumed,
                          .train = o->train,
                          .test = o->test,
                          .metrics = &loop->folder.metrics};
  LS_OWN(ls_text, config) = {.allocator = ls_runtime_allocator(loop->runtime)};
  loop->begins_chain = false;
  ls_train_config_print(&loop->plan.config, &config);
  LS_RETURN_IF_ERROR(ls_text_status(&config));
  start.config = ls_text_data(&config);
  LS_RETURN_IF_ERROR(ls_record_get_text(identity, "numerics", &start.numerics));
  LS_RETURN_IF_ERROR(
      ls_record_get_text(identity, "hash of the data", &start.identity));
  LS_RETURN_IF_ERROR(ls_chain_begin(&loop->chain, loop->runtime, &start));
  if (loop->chain.runtime != NULL && checkpoints != NULL)
    ls_checkpoints_on_written(checkpoints, ls_chain_save, &loop->chain);
  return ls_ok();
}

ls_status ls_loop_settle(ls_loop *loop) {
  ls_run_folder *folder = &loop->folder;
  const bool continues = loop->continues;
  double seconds = 0;
  loop->continues = false;
  if (loop->replaces) {
    LS_RETURN_IF_ERROR(ls_run_ranks_agree(
        &loop->ranks, ls_run_ranks_writes(&loop->ranks)
                          ? ls_run_folder_commit(folder, &loop->plan.config)
                          : ls_ok()));
    loop->replaces = false;
    LS_RETURN_IF_ERROR(ls_saves_open(&loop->saves, &loop->ranks));
  }
  // The chain's line comes first: killed after it, the run fits the line or the
  // one before it.
  if (continues)
    LS_RETURN_IF_ERROR(
        ls_run_folder_look_back(folder, loop->resumed, false, true, &seconds));
  if (loop->begins_chain) LS_RETURN_IF_ERROR(begin_chain(loop));
  return continues
             ? ls_run_folder_continue(folder, &loop->plan.config, loop->resumed)
             : ls_ok();
}

// ---- Start -----------------------------------------------------------------
static void begin_epoch(ls_loop *loop, int64_t epoch) {
  const ls_run_plan *plan = &loop->plan;
  loop->epoch = epoch;
  loop->epoch_begin = epoch * plan->steps_per_epoch;
  loop->epoch_first = ls_loop_epoch_steps(loop);
  const int64_t left = plan->num_steps - loop->epoch_begin;
  loop->steps_per_epoch =
      left < plan->steps_per_epoch ? left : plan->steps_per_epoch;
}

// Sets the epoch. A run that resumes at the end of an epoch repeats that end.
static ls_status create_hooks(ls_loop *loop) {
  const int64_t steps = ls_loop_steps(loop), epoch = loop->plan.steps_per_epoch;
  loop->is_again =
      steps > 0 && (steps % epoch == 0 || steps == loop->plan.num_steps);
  if (loop->is_again) {
    LS_RETURN_IF_ERROR(ls_loop_settle(loop));
    begin_epoch(loop, (steps - 1) / epoch);
  }
  return ls_hook_list_create(&loop->hooks);
}

// Hashes the data, and those of evaluations.
static ls_status identify_sets(const ls_loop *loop, char data[17],
                               char test[17]) {
  const ls_train_options *o = &loop->plan.options;
  uint64_t hashes[2] = {0};
  LS_RETURN_IF_ERROR(
      ls_train_identify_data(loop->runtime, o->train, &hashes[0]));
  if (o->test != NULL)
    LS_RETURN_IF_ERROR(
        ls_train_identify_data(loop->runtime, o->test, &hashes[1]));
  ls_format(data, 17, "%016llx", (unsigned long long)hashes[0]);
  ls_format(test, 17, "%016llx", (unsigned long long)hashes[1]);
  return ls_ok();
}

// Fails on all ranks if one cannot begin, or if they differ.
static ls_status compare_ranks(ls_loop *loop, ls_status own) {
  const ls_train_options *o = &loop->plan.options;
  ls_ranks *ranks = &loop->ranks.all;
  char data[17], test[17], least[40];
  if (ranks->communicator == NULL) return own;
  if (ls_status_is_ok(own)) own = identify_sets(loop, data, test);
  if (!ls_status_is_ok(own)) return ls_run_facts_compare(ranks, own, NULL, 0);
  ls_format(least, sizeof(least), "%.17g", o->min_delta);
  const ls_run_fact facts[] = {
      {"model", .text = o->model->type->name},
      {"number of replicas", .number = ls_strategy_num_replicas(o->strategy)},
      {"number of examples", .number = loop->plan.examples},
      {"batch size", .number = o->batch_size},
      {"number of epochs", .number = o->epochs},
      {"number of steps", .number = loop->plan.num_steps},
      {"seed", .number = o->seed},
      {"number of steps in a line of metrics", .number = o->log_every},
      {"number of steps between saves", .number = o->save_steps},
      {"number of checkpoints", .number = o->keep.value},
      {"rule of early stopping", .text = ls_text_or_none(o->stop_early)},
      {"patience", .number = o->patience},
      {"min_delta", .text = least},
      {"best metric", .text = ls_text_or_none(o->keep_best)},
      {"gradient_norm", .number = o->gradient_norm},
      {"use of a run folder", .number = o->run_folder != NULL},
      {"resumption", .number = o->resume},
      {"use of another run's checkpoint", .number = o->from != NULL},
      {"step of that checkpoint",
       .number = o->from_step.set ? o->from_step.value : -1},
      {"use of a warm start", .number = o->warm_start != NULL},
      {"check_ranks", .number = o->check_ranks},
      {"number of steps between checksums", .number = o->checksum},
      {"attest", .number = o->attest},
      {"use of a test set", .number = o->test != NULL},
      {"data, by their hash", .text = data},
      {"test set, by its hash", .text = test},
  };
  return ls_run_facts_compare(ranks, own, facts, LS_COUNT_OF(facts));
}

static ls_status loop_begin(const ls_train_options *options, ls_loop *loop) {
  LS_RETURN_IF_ERROR(compare_ranks(loop, loop_make(options, loop)));
  loop->tested = -1;
  LS_RETURN_IF_ERROR(ls_hook_list_begin(&loop->hooks));
  const char *folder = loop->plan.options.run_folder;
  LS_RETURN_IF_ERROR(ls_saves_init(
      &loop->saves, loop->runtime, &loop->plan, folder, loop->function,
      loop->evaluator != NULL ? ls_evaluator_function(loop->evaluator) : NULL,
      loop->input));
  LS_RETURN_IF_ERROR(ls_loop_keep_gradients(loop));
  const bool writes = ls_run_ranks_writes(&loop->ranks);
  if (!writes) loop->plan.options.events = NULL;
  ls_run_folder_init(&loop->folder, loop->runtime, writes ? folder : NULL);
  if (writes) loop->folder.log = loop->plan.options.log;
  loop->begins_chain = writes && folder != NULL;
  loop->began = ls_runtime_now(loop->runtime);
  LS_RETURN_IF_ERROR(loop->plan.options.resume ? resume_in_folder(loop)
                                               : start_in_folder(loop));
  return create_hooks(loop);
}

static void loop_deinit(ls_loop *loop) {
  ls_run_ranks_deinit(&loop->ranks);
  ls_run_folder_deinit(&loop->folder);
  ls_device_loop_destroy(loop->device_loop);
  ls_nest_release(loop->args);
  ls_nest_release(loop->results);
  for (size_t k = 0; k < LS_STEPS_AHEAD; ++k)
    ls_nest_release(loop->ahead[k]);
  ls_evaluator_destroy(loop->evaluator);
  ls_function_release(loop->function);
  ls_iterator_release(loop->input);
  ls_dataset_release(loop->batches);
  ls_release(ls_current_allocator(), loop->numbers);
}

// ---- Stopping --------------------------------------------------------------
static bool is_asked(const ls_loop *loop) {
  return loop->was_asked || ls_run_context_stop_requested(&loop->hooks.context);
}

// Collective: all ranks call this equally often, and get the same result.
bool ls_loop_stops(ls_loop *loop) {
  if (loop->is_stopped) return true;
  loop->was_asked =
      is_asked(loop) || ls_train_stop_requested(loop->plan.options.stop);
  loop->unmet = ls_run_ranks_sum(&loop->ranks, ls_loop_steps(loop));
  if (ls_status_is_ok(loop->unmet))
    loop->unmet =
        ls_run_ranks_stop(&loop->ranks, loop->was_asked, &loop->is_stopped);
  if (!ls_status_is_ok(loop->unmet)) loop->is_stopped = true;
  return loop->is_stopped;
}

// Ranks do not agree on a stop while they trace.
bool ls_loop_ends_trace(const ls_loop *loop) {
  const int64_t steps = ls_loop_steps(loop);
  return !loop->is_checked && loop->ranks.all.communicator == NULL &&
         (steps == 0 || loop->saves.saving.saved == steps) &&
         ls_train_stop_requested(loop->plan.options.stop);
}

// ---- Epochs ----------------------------------------------------------------
void ls_loop_wait_for_input(ls_loop *loop) {
  const int64_t began = ls_runtime_now(loop->runtime);
  const ls_train_stop *stop = loop->plan.options.stop;
  loop->stalls = !ls_iterator_wait(loop->input, ls_train_stop_asked,
                                   (void *)(uintptr_t)stop);
  loop->spent.input += ls_runtime_now(loop->runtime) - began;
  if (loop->stalls) loop->was_asked = true;
}

// Returns true if there is another step, and gets its batch.
static bool loop_goes_on(ls_loop *loop) {
  if (ls_loop_epoch_is_over(loop)) return false;
  ls_loop_wait_for_input(loop);
  return !ls_loop_stops(loop);
}

// Moves the input to the epoch, unless a resumed run is there already.
static ls_status seek_input(ls_loop *loop) {
  if (ls_iterator_epoch(loop->input) == loop->epoch &&
      ls_iterator_position(loop->input) == loop->epoch_first)
    return ls_ok();
  LS_RETURN_IF_ERROR(ls_iterator_seek_epoch(loop->input, loop->epoch));
  return ls_iterator_seek(loop->input, loop->epoch_first);
}

static ls_status run_epoch(ls_loop *loop, int64_t number) {
  const ls_hooked_run run = {.make = ls_loop_make_run, .user = loop};
  begin_epoch(loop, number);
  LS_RETURN_IF_ERROR(seek_input(loop));
  loop->lines = loop->reports = loop->saved = (ls_run_means){0};
  ls_budget_begin(loop->runtime, &loop->spent, &loop->lines.budget);
  loop->reports.budget = loop->lines.budget;
  while (loop_goes_on(loop))
    LS_RETURN_IF_ERROR(ls_hook_list_run(&loop->hooks, &run));
  return ls_ok();
}

static ls_status loop_run(ls_loop *loop, ls_train_result *result) {
  const ls_run_plan *plan = &loop->plan;
  const int64_t first = ls_loop_steps(loop) / plan->steps_per_epoch;
  for (int64_t i = first;
       i < plan->options.epochs && ls_loop_steps(loop) < plan->num_steps &&
       !loop->saves.early.is_over && !ls_loop_stops(loop);
       ++i)
    LS_RETURN_IF_ERROR(run_epoch(loop, i));
  LS_RETURN_IF_ERROR(loop->unmet);
  // Agrees on a stop once more: an evaluation may have been stopped after the
  // last step.
  bool stops = false;
  LS_RETURN_IF_ERROR(ls_run_ranks_stop(&loop->ranks, is_asked(loop), &stops));
  loop->is_stopped |= stops;
  result->seconds = ls_loop_seconds(loop, loop->began);
  return ls_hook_list_end(&loop->hooks);
}

ls_status ls_train(const ls_train_options *options,
                   ls_train_result *out_result) {
  LS_REQUIRE_OUT(out_result, options, options->strategy, options->train);
  LS_REQUIRE(options->model, options->model->type, options->model->type->name);
  LS_REQUIRE(options->model->type->train_step, options->model->type->variables);
  LS_REQUIRE_ITEMS(options->hooks, options->num_hooks);
  ls_loop loop = {
      .loss = {.name = "loss"},
      .accuracy = {.name = ls_model_type_task(options->model->type)->metric},
      .logged_test = -1};
  ls_status status = loop_begin(options, &loop);
  if (ls_status_is_ok(status)) status = loop_run(&loop, out_result);
  out_result->task = ls_model_type_task(options->model->type);
  out_result->steps = ls_loop_steps(&loop);
  out_result->stopped = loop.is_stopped;
  out_result->tested = loop.tested >= 0;
  out_result->test = loop.test;
  out_result->stopped_early = loop.saves.early.is_over;
  out_result->best_step = loop.saves.early.best_step;
  out_result->best = loop.saves.early.best;
  status = ls_status_join(status, ls_loop_close_lines(&loop));
  ls_hook_list_deinit(&loop.hooks);
  status = ls_status_join(status, ls_saves_deinit(&loop.saves));
  ls_chain_deinit(&loop.chain);
  status = ls_run_folder_settle(&loop.folder, status);
  if (!ls_status_is_ok(status) && out_result->steps == loop.resumed &&
      !options->resume)
    ls_run_folder_abandon(&loop.folder);
  loop_deinit(&loop);
  // LS_OUT_OF_RANGE (a loss that is NaN) needs no report: all ranks have the
  // same loss.
  if (ls_status_code(status) != LS_OUT_OF_RANGE)
    ls_strategy_tell_ranks(options->strategy, status);
  return status;
}
