// SPDX-License-Identifier: Apache-2.0
// Trainings of estimators.
#include <stdio.h>
#include <string.h>

#include "base/plain.h"
#include "base/require.h"
#include "base/values/nest_internal.h"
#include "distribute/values/values.h"
#include "estimator/calls/estimator.h"
#include "estimator/calls/job.h"
#include "estimator/hooks/progress_hooks.h"
#include "graph/graph.h"
#include "lockstep/ops.h"
#include "train/folder/run_folder.h"
#include "train/hooks/hook.h"
#include "train/hooks/saving.h"
#include "train/ranks.h"

// ---- Checks ----------------------------------------------------------------
static ls_status train_check_count(ls_opt count, const char *name) {
  return count.set && count.value < 1
             ? ls_invalid_argument("Must specify %s > 0, got %lld", name,
                                   (long long)count.value)
             : ls_ok();
}

static ls_status train_check(const ls_estimator *self,
                             const ls_estimator_training *t) {
  const char *task = ls_estimator_run_values(self)->task_type;
  if (strcmp(task, "evaluator") == 0 || strcmp(task, "ps") == 0)
    return ls_invalid_argument("a task of type '%s' does not train", task);
  if (t->steps.set && t->max_steps.set)
    return ls_invalid_argument("Can not provide both steps and max_steps");
  if (t->lines.checksum < 0 || (t->lines.checksum > 0 && !t->lines.metrics))
    return ls_invalid_argument(
        "checksum is %lld, expected a number of steps, with `metrics`",
        (long long)t->lines.checksum);
  if (t->lines.check_ranks < 0)
    return ls_invalid_argument(
        "check_ranks is %lld, expected a number of steps",
        (long long)t->lines.check_ranks);
  LS_RETURN_IF_ERROR(train_check_count(t->steps, "steps"));
  return train_check_count(t->max_steps, "max_steps");
}

// Finds out if the newest intact checkpoint has reached max_steps. Steps that
// only a damaged checkpoint has must be made again. Skipped checkpoints are
// logged once: by the call that restores or, if nothing is restored, here.
static ls_status is_done(const ls_estimator *self,
                         const ls_estimator_training *t, bool *out_done,
                         int64_t *out_step) {
  int64_t newest = -1;
  LS_RETURN_IF_ERROR(ls_estimator_whole_step(self, false, out_step));
  *out_done = t->max_steps.set && *out_step >= t->max_steps.value;
  if (!*out_done) return ls_ok();
  LS_RETURN_IF_ERROR(ls_estimator_newest_step(self, &newest));
  if (newest > *out_step)
    LS_RETURN_IF_ERROR(ls_estimator_whole_step(self, true, out_step));
  ls_runtime_log(self->runtime, LS_LOG_INFO, "estimator",
                 "Skipping training since max_steps %lld has been reached",
                 (long long)t->max_steps.value);
  return ls_ok();
}

// Begins a training: locks its folder for as long as it lasts, unless nothing
// is left to train, for which it sets `*out_done`.
static ls_status begin_training(const ls_estimator *self,
                                const ls_estimator_training *t,
                                ls_run_folder *folder, bool *out_done,
                                int64_t *out_step) {
  int64_t newest = -1, locked_newest = -1;
  if (!t->overwrite) {
    LS_RETURN_IF_ERROR(ls_estimator_newest_step(self, &newest));
    LS_RETURN_IF_ERROR(is_done(self, t, out_done, out_step));
  }
  if (*out_done) return ls_ok();
  LS_RETURN_IF_ERROR(ls_run_folder_claim(folder, t->overwrite));
  // Another process may have saved until then.
  LS_RETURN_IF_ERROR(ls_estimator_newest_step(self, &locked_newest));
  return locked_newest == newest ? ls_ok()
                                 : is_done(self, t, out_done, out_step);
}

// Lets rank 0 decide for all ranks, whose folders may differ for a moment.
static ls_status begin_everywhere(const ls_estimator *self,
                                  const ls_estimator_training *t,
                                  ls_run_folder *folder, bool *out_done,
                                  int64_t *out_step) {
  LS_OWN(ls_ranks, ranks) = {0};
  int64_t found[2] = {0};
  ls_status status = ls_ok();
  LS_RETURN_IF_ERROR(ls_estimator_meet_ranks(self, t, NULL, &ranks));
  if (ls_ranks_own(&ranks) == 0)
    status = begin_training(self, t, folder, out_done, out_step);
  found[0] = *out_done;
  found[1] = *out_step;
  LS_RETURN_IF_ERROR(ls_ranks_agree(&ranks, status));
  LS_RETURN_IF_ERROR(ls_ranks_send(&ranks, found, sizeof(found)));
  *out_done = found[0] != 0;
  *out_step = found[1];
  return ls_ok();
}

// ---- The model -------------------------------------------------------------
// Returns true for a summary of the loss, which is recognized by its tag or by
// its op's name, as in other systems.
static bool is_of_loss(ls_op summary) {
  const ls_summary_state *state = ls_summary_of(summary);
  return strcmp(state != NULL ? state->tag : ls_op_name(summary), "loss") == 0;
}

// Warns of parameters that the user's functions, all of which have been called,
// did not read: their names may be misspelled.
static void warn_of_unread_params(const ls_job *job) {
  const ls_nest params = job->estimator->params;
  if (!ls_plan_leads(job->calls.plan)) return;
  for (size_t i = 0; i < ls_nest_count(params); ++i) {
    const char *name = ls_nest_key(params, i);
    char key[200];
    if (ls_nest_was_read(params, i)) continue;
    snprintf(key, sizeof(key), "unread parameter %s", name);
    ls_log_limited(job->estimator->runtime, key, 1, LS_LOG_WARNING, "estimator",
                   "params has '%s', which neither the model function nor the "
                   "input function of the training has read",
                   name);
  }
}

// Builds the graph of a training that continues from step `saved`; -1: starts
// from scratch.
static ls_status train_build(ls_job *job, int64_t saved) {
  LS_GRAPH_SCOPE(job->graph);
  LS_RETURN_IF_ERROR(ls_job_open_events(job, saved));
  LS_SUMMARY_SCOPE(job->summaries);
  LS_RETURN_IF_ERROR(job->kind->build(job));
  warn_of_unread_params(job);
  LS_OWN_MEMORY(ls_current_allocator(), ls_op, ops) = NULL;
  size_t count = 0;
  bool has = false;
  LS_RETURN_IF_ERROR(
      ls_collection_ops(job->graph, LS_COLLECTION_SUMMARIES, &ops, &count));
  for (size_t i = 0; i < count; ++i)
    has = has || is_of_loss(ops[i]);
  if (!has) (void)ls_summary("loss", job->loss);
  return ls_graph_take_error(job->graph);
}

// ---- Hooks -----------------------------------------------------------------
// Returns the number of steps of a run. If seconds limit a run, its steps are
// not known: a large number makes hooks act after each run.
static int64_t steps_per_run(const ls_job *job) {
  return job->length.steps > 0 ? job->length.steps : INT32_MAX;
}

// Returns the interval in hours between checkpoints that are kept for good.
// More than a year, as by default, means never, for which the saver has 0.
static double kept_hours(const ls_run_values *config) {
  enum { NEVER = 10000 };
  const int64_t hours = config->keep_checkpoint_every_n_hours.value;
  return hours >= NEVER ? 0 : (double)hours;
}

static ls_status add_lines(ls_job *job, const ls_estimator_training *t,
                           int64_t saved) {
  const ls_plan *plan = job->calls.plan;
  const int64_t first_step = saved > 0 ? saved : 0;
  if ((!t->lines.metrics && t->lines.report == NULL &&
       t->lines.events == NULL) ||
      !ls_plan_leads(plan))
    return ls_ok();
  return LS_ADD_HOOK(
      &job->hooks, ls_lines_hook,
      &(ls_lines_options){
          .wanted = t->lines,
          .folder = job->estimator->model_dir,
          .variables = job->scaffold.saved,
          .num_variables = job->scaffold.num_saved,
          .first_step = first_step,
          .num_steps = t->steps.set ? ls_steps_after(first_step, t->steps.value)
                       : t->max_steps.set ? t->max_steps.value
                                          : 0,
          .steps_per_run = steps_per_run(job),
          .batch_size = (double)plan->batch_size.value,
          .tests_again = t->kept_step != NULL && !t->is_evaluated});
}

static ls_status add_check_of_ranks(ls_job *job, const ls_estimator_training *t,
                                    int64_t saved) {
  if (job->ranks.communicator == NULL) return ls_ok();
  return LS_ADD_HOOK(
      &job->hooks, ls_ranks_hook,
      &(ls_ranks_check){.ranks = &job->ranks,
                        .variables = job->scaffold.saved,
                        .num_variables = job->scaffold.num_saved,
                        .data = job->num_iterators > 0
                                    ? ls_iterator_dataset(job->iterators[0])
                                    : NULL,
                        .is_new = saved < 0,
                        .every = t->lines.check_ranks,
                        .steps_per_run = steps_per_run(job)});
}

static ls_status add_saver(ls_job *job, const ls_estimator_training *t) {
  const ls_run_values *config = ls_estimator_run_values(job->estimator);
  const ls_estimator_spec_options *spec = ls_estimator_spec_values(job->spec);
  const bool by_steps = config->save_checkpoints_steps.set &&
                        config->save_checkpoints_steps.value > 0;
  const bool by_seconds = config->save_checkpoints_secs.set &&
                          config->save_checkpoints_secs.value > 0;
  job->user_saves =
      ls_hooks_have_saver(spec->training_hooks, spec->num_training_hooks) ||
      ls_hooks_have_saver(t->hooks, t->num_hooks);
  if ((!by_steps && !by_seconds) || job->user_saves)
    return t->kept_step == NULL && !t->lines.keep_best_loss && !t->lines.attest
               ? ls_ok()
               : ls_failed_precondition(
                     "checkpoints shall be kept or attested (keep_best, "
                     "kept_step, attest), and the estimator itself saves none");
  return LS_ADD_HOOK(
      &job->hooks, ls_saver_hook,
      &(ls_saver_hook_options){
          .folder = job->estimator->model_dir,
          .variables = job->scaffold.saved,
          .num_variables = job->scaffold.num_saved,
          .every_steps =
              by_steps ? config->save_checkpoints_steps : (ls_opt){0},
          .every_seconds =
              by_seconds ? config->save_checkpoints_secs : (ls_opt){0},
          .steps_per_run = LS_SOME(steps_per_run(job)),
          .keep = config->keep_checkpoint_max,
          .keep_every_hours = kept_hours(config),
          .kept_step = t->kept_step,
          .metric = "loss",
          .keep_lowest = t->lines.keep_best_loss,
          .graph_text =
              config->checkpoint_save_graph_def ? LS_FLAG_ON : LS_FLAG_OFF,
      });
}

// Adds one hook that writes all summaries of the graph.
static ls_status add_summaries(ls_job *job) {
  const ls_opt every =
      ls_estimator_run_values(job->estimator)->save_summary_steps;
  LS_OWN_MEMORY(ls_current_allocator(), ls_op, ops) = NULL;
  size_t count = 0;
  if (!every.set || every.value < 1) return ls_ok();
  LS_RETURN_IF_ERROR(
      ls_collection_ops(job->graph, LS_COLLECTION_SUMMARIES, &ops, &count));
  if (count == 0) return ls_ok();
  return LS_ADD_HOOK(&job->hooks, ls_summary_hook,
                     &(ls_summary_hook_options){.ops = ops,
                                                .num_ops = count,
                                                .writer = job->summaries,
                                                .every_steps = every});
}

ls_status ls_job_add_examples_hook(ls_job *job) {
  const ls_opt batch = job->calls.plan->batch_size;
  return LS_ADD_HOOK(&job->hooks, ls_examples_hook, job->estimator->log_steps,
                     steps_per_run(job), (double)batch.value, job->events);
}

static ls_status train_add_hooks(ls_job *job, const ls_estimator_training *t,
                                 int64_t saved) {
  const ls_estimator_spec_options *spec = ls_estimator_spec_values(job->spec);
  ls_hook_list *hooks = &job->hooks;
  LS_GRAPH_SCOPE(job->graph);
  LS_RETURN_IF_ERROR(add_check_of_ranks(job, t, saved));
  LS_RETURN_IF_ERROR(add_lines(job, t, saved));
  LS_RETURN_IF_ERROR(add_saver(job, t));
  LS_RETURN_IF_ERROR(ls_hook_list_add_all(hooks, spec->training_chief_hooks,
                                          spec->num_training_chief_hooks));
  LS_RETURN_IF_ERROR(add_summaries(job));
  LS_RETURN_IF_ERROR(ls_job_add_hooks(job, LS_HOOKS_OF_INPUT));
  LS_RETURN_IF_ERROR(ls_hook_list_add_all(hooks, t->hooks, t->num_hooks));
  LS_RETURN_IF_ERROR(ls_job_add_hooks(job, LS_HOOKS_OF_STEPS));
  LS_RETURN_IF_ERROR(
      LS_ADD_HOOK(hooks, ls_nan_hook, job->loss, LS_FLAG_DEFAULT));
  LS_RETURN_IF_ERROR(LS_ADD_HOOK(hooks, ls_moving_step_hook,
                                 ls_op_name(spec->train_op),
                                 job->length.steps));
  LS_RETURN_IF_ERROR(ls_job_add_hooks(job, LS_HOOKS_BEFORE_MODEL));
  LS_RETURN_IF_ERROR(ls_hook_list_add_all(hooks, spec->training_hooks,
                                          spec->num_training_hooks));
  return ls_job_add_hooks(job, LS_HOOKS_BEHIND_MODEL);
}

// ---- Runs ------------------------------------------------------------------
// Lists the fetches by name; hooks use the same names (ls_run_context_number).
static ls_nest list_fetches(const ls_job *job) {
  const char *const names[] = {"loss", "train_op"};
  const ls_nest items[] = {ls_leaf(job->loss), ls_nest_op(job->train_op)};
  return ls_nest_dict("", names, items, 2);
}

static ls_status take_loss(ls_job *job, ls_monitored_session *session,
                           ls_nest results, void *user) {
  ls_training_end *end = user;
  (void)job, (void)session;
  end->loss = ls_nest_number(ls_nest_find(results, "loss"));
  end->has_loss = true;
  return ls_ok();
}

// Adds the hook that reads the global step into `*step` at the end.
static ls_status add_last_step(ls_job *job, ls_nest *step) {
  ls_tensor read;
  LS_GRAPH_SCOPE(job->graph);
  LS_RETURN_IF_ERROR(ls_global_step_read(&read));
  return LS_ADD_HOOK(&job->hooks, ls_final_ops_hook, ls_leaf(read), NULL, 0,
                     step);
}

static ls_status train_model(ls_job *job, const ls_estimator_training *t,
                             int64_t saved, ls_training_end *end) {
  ls_monitored_session *session = NULL;
  LS_OWN(ls_nest, fetches) = ls_none();
  LS_OWN(ls_nest, step) = ls_none();
  if (t->lines.gradient_norm) ls_graph_keep_gradients(job->graph);
  const ls_status built = train_build(job, saved);
  if (ls_status_code(built) == LS_CANCELLED && ls_job_is_stopped(job)) {
    ls_status_free(built);
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(built);
  ls_job_set_state(job);
  if (saved < 0) LS_RETURN_IF_ERROR(ls_job_set_values(job));
  LS_RETURN_IF_ERROR(train_add_hooks(job, t, saved));
  ls_saver_hooks_lend(job->hooks.hooks, job->hooks.count, &job->state);
  if (t->num_listeners > 0)
    LS_RETURN_IF_ERROR(ls_status_annotate(
        ls_saver_hooks_add_listeners(job->hooks.hooks, job->hooks.count,
                                     t->listeners, t->num_listeners),
        "listeners, and evaluations during a training, need checkpoints"));
  LS_RETURN_IF_ERROR(ls_job_attest(job, &t->lines, saved));
  LS_RETURN_IF_ERROR(add_last_step(job, &step));
  LS_RETURN_IF_ERROR(ls_take_nest(list_fetches(job), &fetches));
  LS_RETURN_IF_ERROR(ls_job_session(job, true, &session));
  LS_RETURN_IF_ERROR(ls_job_run_all(job, session, fetches, take_loss, end));
  end->step = (int64_t)ls_nest_number(step);
  return ls_job_check_input_end(job);
}

// Trains once. `*again` is true if the saved position was at the end of the
// data, so that no step was made. `was_asked`: a stop was requested before the
// call, whose hooks see its begin and its end all the same.
static ls_status train_once(ls_estimator *self, const ls_estimator_training *t,
                            int64_t saved, bool afresh, bool was_asked,
                            bool *pauses, ls_training_end *end, bool *again) {
  ls_job job = {.stop = t->stop,
                .stops_build = !was_asked,
                .pauses = pauses,
                .afresh = afresh,
                .steps_wanted = t->steps,
                .max_steps = t->max_steps};
  ls_status status = ls_job_begin(&job, self, LS_MODE_TRAIN, &t->input);
  if (ls_status_is_ok(status)) status = train_model(&job, t, saved, end);
  end->input_ended = job.input_ended;
  end->stopped = ls_job_is_stopped(&job);
  *again = !afresh && job.restored && job.input_ended && !end->has_loss;
  return ls_job_end(&job, "training_loop", status);
}

// Trains in the folder; `end` is zeroed.
static ls_status train_in(ls_estimator *self, const ls_estimator_training *t,
                          bool *pauses, ls_run_folder *folder,
                          ls_training_end *end) {
  const bool asked = ls_train_stop_requested(t->stop);
  bool done = false, again = false;
  int64_t step = -1;
  LS_RETURN_IF_ERROR(begin_everywhere(self, t, folder, &done, &step));
  end->step = step;
  if (done) return ls_ok();
  LS_RETURN_IF_ERROR(
      train_once(self, t, step, false, asked, pauses, end, &again));
  again = again && !t->continues_input;
  if (again)
    LS_RETURN_IF_ERROR(
        train_once(self, t, step, true, asked, pauses, end, &again));
  if (!end->has_loss && !t->continues_input)
    ls_runtime_log(self->runtime, LS_LOG_WARNING, "estimator",
                   "training has made no step");
  return ls_ok();
}

ls_status ls_estimator_train_part(ls_estimator *estimator,
                                  const ls_estimator_training *training,
                                  bool *pauses, ls_training_end *out_end) {
  ls_training_end end = {0};
  LS_RETURN_IF_ERROR(
      ls_hooks_check("hooks", training->hooks, training->num_hooks));
  LS_REQUIRE_ITEMS(training->listeners, training->num_listeners);
  LS_RETURN_IF_ERROR(train_check(estimator, training));
  LS_OWN(ls_run_folder, folder) = {0};
  ls_run_folder_init(&folder, estimator->runtime, estimator->model_dir);
  LS_RETURN_IF_ERROR(ls_run_folder_settle(
      &folder, train_in(estimator, training, pauses, &folder, &end)));
  if (out_end != NULL) *out_end = end;
  return ls_ok();
}

ls_status ls_estimator_train(ls_estimator *estimator,
                             const ls_estimator_training *training,
                             ls_training_end *out_end) {
  if (out_end != NULL) *out_end = (ls_training_end){0};
  LS_REQUIRE(estimator, training);
  return ls_estimator_train_part(estimator, training, NULL, out_end);
}

// ---- Facts that ranks share ------------------------------------------------
// Compares facts of a training whose plan can run on ranks.
static ls_status compare_facts(ls_ranks *ranks, const ls_plan *plan,
                               const ls_estimator *self,
                               const ls_estimator_training *t,
                               const ls_eval_spec *eval) {
  static const ls_eval_spec no_evaluations = {0};
  const ls_eval_spec *e = eval != NULL ? eval : &no_evaluations;
  const ls_run_values *config = plan->config;
  char least[40];
  ls_format(least, sizeof(least), "%.17g", e->min_delta);
  const ls_run_fact facts[] = {
      {"number of cores", .number = plan->system->num_replicas},
      {"number of hosts", .number = plan->system->num_hosts},
      {"batch size", .number = plan->batch_size.value},
      {"number of steps", .number = t->max_steps.value},
      {"number of additional steps", .number = t->steps.value},
      {"iterations_per_loop", .text = config->tpu->iterations_per_loop},
      {"seed", .number = config->random_seed.value},
      {"use of evaluations", .number = eval != NULL},
      {"number of steps of an evaluation", .number = e->steps.value},
      {"evaluation of the whole input", .number = e->whole_input},
      {"number of seconds between evaluations",
       .number = e->throttle_secs.value},
      {"rule of early stopping", .text = ls_text_or_none(e->stop_early)},
      {"patience", .number = e->patience},
      {"min_delta", .text = least},
      {"best metric", .text = ls_text_or_none(e->keep_best)},
      {"keep_best_loss", .number = t->lines.keep_best_loss},
      {"number of steps between saves",
       .number = config->save_checkpoints_steps.value},
      {"number of seconds between saves",
       .number = config->save_checkpoints_secs.value},
      {"number of checkpoints", .number = config->keep_checkpoint_max.value},
      {"number of hours between kept checkpoints",
       .number = config->keep_checkpoint_every_n_hours.value},
      {"number of steps between summaries",
       .number = config->save_summary_steps.value},
      {"number of steps between reports", .number = self->log_steps.value},
      {"replacement of a run", .number = t->overwrite},
      {"use of a warm start", .number = self->warm_start.path != NULL},
      {"use of lines of metrics", .number = t->lines.metrics},
      {"number of steps between checksums", .number = t->lines.checksum},
      {"check_ranks", .number = t->lines.check_ranks},
      {"gradient_norm", .number = t->lines.gradient_norm},
      {"attest", .number = t->lines.attest},
  };
  return ls_run_facts_compare(ranks, ls_ok(), facts, LS_COUNT_OF(facts));
}

ls_status ls_estimator_meet_ranks(const ls_estimator *self,
                                  const ls_estimator_training *t,
                                  const ls_eval_spec *eval, ls_ranks *ranks) {
  const ls_plan *plan = NULL;
  LS_RETURN_IF_ERROR(
      ls_ranks_init(ranks, self->runtime, "a training of an estimator", 0));
  ls_status status = ls_plans_get(self->plans, LS_MODE_TRAIN, false, &plan);
  if (ls_status_is_ok(status)) status = ls_plan_check_ranks(plan);
  return ls_status_is_ok(status) && ranks->communicator != NULL
             ? compare_facts(ranks, plan, self, t, eval)
             : ls_run_facts_compare(ranks, status, NULL, 0);
}
