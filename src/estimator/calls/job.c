// SPDX-License-Identifier: Apache-2.0
// Begins and ends a call of an estimator, and makes its session.
#include "estimator/calls/job.h"

#include "estimator/config/config.h"
#include "train/hooks/saving.h"

// ---- The system ------------------------------------------------------------
// Refuses a second use of a system. A core has one program and one pair of
// queues, so that a system has one user at a time, which shuts it down at the
// end.
static ls_status refuse_use(const ls_system_use *other, const char *folder) {
  static const char *const acts[LS_NUM_MODES] = {
      [LS_MODE_TRAIN] = "trains on it",
      [LS_MODE_EVAL] = "evaluates on it",
      [LS_MODE_PREDICT] = "has predictions open on it (ls_predictions_close)"};
  return ls_failed_precondition(
      "the estimator in '%s' cannot use TPU system '%s' of job %s: that in "
      "'%s' %s; wait for its end, or use another system",
      folder, other->id->name, ls_job_text(other->id->job), other->folder,
      acts[other->mode]);
}

// Registers a use of a system. Requires the runtime's lock.
static ls_status add_use(ls_system_use *self) {
  ls_estimator_state *state = ls_estimator_state_get(self->runtime);
  if (state == NULL) return ls_out_of_memory();
  for (const ls_system_use *at = state->uses; at != NULL; at = at->next)
    if (ls_system_id_equal(at->id, self->id))
      return refuse_use(at, self->folder);
  self->next = state->uses;
  state->uses = self;
  return ls_ok();
}

static ls_status system_use_begin(ls_system_use *self, const ls_plan *plan,
                                  const char *folder) {
  *self = (ls_system_use){.runtime = plan->runtime,
                          .id = ls_object_retain(plan->system->resolver->id),
                          .folder = folder,
                          .mode = plan->mode};
  ls_runtime_lock(self->runtime);
  const ls_status status = add_use(self);
  ls_runtime_unlock(self->runtime);
  if (ls_status_is_ok(status)) return status;
  ls_object_release(self->id);
  self->id = NULL;
  return status;
}

static void system_use_end(ls_system_use *self) {
  if (self->id == NULL) return;
  ls_runtime_lock(self->runtime);
  ls_estimator_state *state = ls_estimator_state_get(self->runtime);
  ls_system_use **at = &state->uses;
  while (*at != self)
    at = &(*at)->next;
  *at = self->next;
  ls_runtime_unlock(self->runtime);
  ls_object_release(self->id);
  self->id = NULL;
}

// ---- The beginning ---------------------------------------------------------
ls_status ls_job_make_graph(ls_job *job, const char *name) {
  const ls_opt seed = ls_estimator_run_values(job->estimator)->random_seed;
  LS_RETURN_IF_ERROR(ls_graph_create(name, &job->graph));
  return seed.set ? ls_graph_set_seed(job->graph, seed.value) : ls_ok();
}

static ls_status call_act(ls_job *job, ls_job_act act) {
  return act != NULL ? act(job) : ls_ok();
}

ls_status ls_job_add_hooks(ls_job *job, ls_hook_place place) {
  return call_act(job, (*job->kind->add_hooks)[job->calls.plan->mode][place]);
}

static ls_status create_step(ls_job *job) {
  ls_variable *step = NULL;
  if (job->strategy == NULL) return ls_global_step_create(job->graph, &step);
  LS_GRAPH_SCOPE(job->graph);
  LS_STRATEGY_SCOPE(job->strategy);
  return ls_global_step_create(job->graph, &step);
}

ls_status ls_job_begin(ls_job *job, ls_estimator *estimator,
                       ls_estimator_mode mode, const ls_input_function *input) {
  enum { SOURCES = 3 };  // The loop, the infeed thread and the outfeed thread.
  const ls_plan *plan = NULL;
  job->estimator = estimator;
  job->input = *input;
  LS_RETURN_IF_ERROR(ls_rendezvous_create(SOURCES, &job->rendezvous));
  LS_RETURN_IF_ERROR(ls_plans_get(estimator->plans, mode, false, &plan));
  LS_RETURN_IF_ERROR(ls_plan_check_ranks(plan));
  if (ls_plan_ranks(plan) != NULL)
    LS_RETURN_IF_ERROR(
        ls_ranks_init(&job->ranks, plan->runtime, "a job of an estimator", 0));
  job->kind = !plan->on_cpu            ? &ls_tpu_job
              : plan->strategy != NULL ? &ls_strategy_job
                                       : &ls_cpu_job;
  job->strategy = plan->strategy;
  job->length.steps = 1;
  job->input_end_fails = estimator->input_end_fails &&
                         (job->steps_wanted.set || job->max_steps.set);
  job->calls = (ls_estimator_calls){
      .plan = plan,
      .model = &estimator->model_fn,
      .input = &job->input,
      .config = estimator->config,
      .params = estimator->params,
      .batch_axis = estimator->batch_axis,
      .num_batch_axes = estimator->num_batch_axes,
  };
  if (estimator->has_predictions && !plan->on_cpu)
    return ls_failed_precondition(
        "predictions of this estimator are open and use its system: close them "
        "first (ls_predictions_close)");
  if (!plan->on_cpu)
    LS_RETURN_IF_ERROR(system_use_begin(&job->use, plan, estimator->model_dir));
  LS_RETURN_IF_ERROR(ls_job_make_graph(job, "estimator"));
  LS_RETURN_IF_ERROR(create_step(job));
  return call_act(job, job->kind->check[mode]);
}

// ---- Events ----------------------------------------------------------------
ls_status ls_job_open_events(ls_job *job, int64_t saved) {
  // Without a writer, records are dropped.
  if (!ls_plan_leads(job->calls.plan))
    return ls_summary_writer_create(ls_event_writer_record, NULL,
                                    &job->summaries);
  LS_RETURN_IF_ERROR(ls_event_writer_open(
      &(ls_event_writer_options){.folder = job->estimator->model_dir,
                                 .first_step = saved + 1,
                                 .begins = true},
      &job->events));
  return ls_summary_writer_create(ls_event_writer_record, job->events,
                                  &job->summaries);
}

// ---- The session -----------------------------------------------------------
ls_status ls_job_session(ls_job *job, bool restores,
                         ls_monitored_session **out_session) {
  const ls_run_values *config = ls_estimator_run_values(job->estimator);
  const bool on_ranks = job->ranks.communicator != NULL;
  LS_RETURN_IF_ERROR(ls_job_add_hooks(job, LS_HOOKS_LAST));
  return ls_monitored_session_make(
      &(ls_monitored_options){
          .graph = job->graph,
          .scaffold = &job->scaffold,
          .hooks = job->hooks.hooks,
          .num_hooks = job->hooks.count,
          .checkpoints = restores ? job->estimator->model_dir : NULL,
          .states = &job->state,
          .num_states = restores ? 1 : 0,
          .stop = on_ranks ? &job->agreed : job->stop,
          .other_stop = on_ranks ? NULL : &job->system_gone,
          // Ranks that lose a session end, and are started again.
          .creation_timeout_seconds =
              on_ranks ? (ls_opt)LS_SOME(0)
                       : config->session_creation_timeout_secs,
          .most_losses = on_ranks ? (ls_opt)LS_SOME(0) : (ls_opt){0},
          .config = config->session_config,
          .ranks = on_ranks ? LS_FLAG_ON : LS_FLAG_OFF,
      },
      true, out_session);
}

// Logs the end of the input if that ended the runs (OUT_OF_RANGE). Returns
// `status`.
static ls_status job_end_runs(ls_job *job, ls_status status) {
  if (ls_status_code(status) != LS_OUT_OF_RANGE) return status;
  if (job->kind->reads_input)
    ls_runtime_log(job->estimator->runtime, LS_LOG_INFO, "estimator",
                   "the input has ended: %.*s",
                   (int)strcspn(ls_status_message(status), "\n"),
                   ls_status_message(status));
  job->input_ended = true;
  return status;
}

bool ls_job_is_stopped(const ls_job *job) {
  return ls_train_stop_requested(job->ranks.communicator != NULL ? &job->agreed
                                                                 : job->stop);
}

// Finds out if the runs end. Ranks agree: a request on one stops all.
static ls_status should_stop(ls_job *job, ls_monitored_session *session,
                             bool *out_stops) {
  bool wanted = ls_train_stop_requested(job->stop) ||
                ls_train_stop_requested(&job->system_gone);
  *out_stops = ls_monitored_session_should_stop(session);
  if (job->ranks.communicator != NULL) {
    LS_RETURN_IF_ERROR(ls_ranks_any(&job->ranks, wanted, &wanted));
    LS_RETURN_IF_ERROR(ls_ranks_any(&job->ranks, *out_stops, out_stops));
    if (wanted) ls_train_stop_request(&job->agreed);
    *out_stops |= wanted;
  }
  job->is_paused = job->pauses != NULL && *job->pauses && !*out_stops;
  *out_stops |= job->is_paused;
  return ls_ok();
}

static ls_status run_once(ls_job *job, ls_monitored_session *session,
                          ls_nest fetches, ls_job_take take, void *user) {
  ls_nest results = ls_none();
  LS_RETURN_IF_ERROR(
      ls_monitored_session_run(session, fetches, NULL, 0, &results));
  return take(job, session, results, user);
}

ls_status ls_job_run_all(ls_job *job, ls_monitored_session *session,
                         ls_nest fetches, ls_job_take take, void *user) {
  bool stops = false;
  ls_status status = should_stop(job, session, &stops);
  while (ls_status_is_ok(status) && !stops) {
    status = run_once(job, session, fetches, take, user);
    if (ls_status_is_ok(status)) status = should_stop(job, session, &stops);
  }
  // All ranks hear of the cause before the session ends.
  ls_communicator *ranks = job->ranks.communicator;
  if (ranks != NULL && !ls_status_is_ok(status) &&
      ls_status_code(status) != LS_OUT_OF_RANGE)
    ranks->cancel(ranks, status);
  status = ls_monitored_session_close(session, job_end_runs(job, status));
  if (job->pauses != NULL) *job->pauses = job->is_paused;
  return status;
}

ls_status ls_job_check_input_end(const ls_job *job) {
  return job->kind->reads_input && job->input_ended && job->input_end_fails
             ? LS_STATUS(LS_OUT_OF_RANGE,
                         "the input has ended, where it shall not end")
             : ls_ok();
}

// ---- The end ---------------------------------------------------------------
static void job_drop(ls_job *job) {
  ls_job_chain_deinit(&job->chain);
  ls_saver_hooks_take_back(job->hooks.hooks, job->hooks.count);
  ls_hook_list_deinit(&job->hooks);
  ls_hook_release(job->device_hook);
  ls_program_drop(&job->program);
  ls_input_feed_drop(&job->feed);
  ls_cpu_input_drop(&job->cpu_input);
  ls_nest_release(job->metrics);
  ls_nest_release(job->losses);
  ls_estimator_spec_release(job->spec);
  ls_graph_destroy(job->graph);
  ls_summary_writer_release(job->summaries);
  ls_rendezvous_destroy(job->rendezvous);
  ls_ranks_deinit(&job->ranks);
  system_use_end(&job->use);
}

// Copies the compiler's error to the estimator, which keeps it after this job
// and after later jobs without a program, such as an evaluation on a CPU.
static ls_status keep_compile_error(ls_job *job) {
  if (job->device_hook == NULL) return ls_ok();
  ls_estimator *estimator = job->estimator;
  ls_allocator *allocator = ls_runtime_allocator(estimator->runtime);
  ls_release(allocator, estimator->compile_error);
  return ls_keep_text(allocator, ls_device_hook_compile_error(job->device_hook),
                      &estimator->compile_error);
}

ls_status ls_job_end(ls_job *job, const char *source, ls_status status) {
  status = ls_status_join(status, keep_compile_error(job));
  if (job->rendezvous == NULL) {
    job_drop(job);
    return status;
  }
  // Adds this error, which ended the call: the rendezvous does not keep errors
  // from which a session can recover.
  LS_OWN(ls_status, own) = ls_status_clone(status);
  if (!ls_status_is_ok(status))
    ls_rendezvous_record(job->rendezvous, source, status, NULL);
  ls_rendezvous_record_done(job->rendezvous, source);
  ls_status best = ls_rendezvous_status(job->rendezvous, 0);
  if (ls_status_is_ok(best)) best = ls_give(&own);
  ls_event_writer *events = job->events;
  job_drop(job);
  return ls_status_join(best, ls_event_writer_close(events));
}
