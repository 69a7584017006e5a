// SPDX-License-Identifier: Apache-2.0
// Jobs on the cores of a TPU system: their input, their program, and the hooks
// around it.
#include <string.h>

#include "base/values/nest_builder.h"
#include "estimator/calls/job.h"
#include "estimator/hooks/progress_hooks.h"
#include "estimator/spec/calls.h"
#include "lockstep/estimator_hooks.h"
#include "lockstep/host.h"
#include "lockstep/ops.h"
#include "lockstep/shutdown_hooks.h"
#include "train/hooks/hook.h"

#define ENQUEUE_OPS "_tpu_enqueue_ops"
#define TRAIN_OP "_tpu_train_op"

static ls_status build_program(ls_job *job) {
  const ls_estimator *e = job->estimator;
  const ls_estimator_mode mode = job->calls.plan->mode;
  const bool any_batch = job->calls.plan->any_batch && mode != LS_MODE_PREDICT;
  LS_RETURN_IF_ERROR(ls_input_feed_make(
      &job->calls,
      &(ls_input_feed_options){.batch_axis =
                                   e->num_batch_axes > 0 ? e->batch_axis : NULL,
                               .num_batch_axes = e->num_batch_axes,
                               .any_batch = any_batch},
      &job->feed));
  LS_RETURN_IF_ERROR(ls_program_build(
      &(ls_program_options){.calls = &job->calls,
                            .feed = &job->feed,
                            .cache = e->caches[mode],
                            .any_batch = any_batch,
                            .replica_0_loss = e->replica_0_loss},
      &job->program));
  job->spec = ls_estimator_spec_retain(job->program.spec);
  for (size_t i = 0; i < ls_nest_count(job->feed.all_ops); ++i)
    LS_RETURN_IF_ERROR(ls_graph_add_to_collection(
        job->graph, ENQUEUE_OPS, ls_nest_item(job->feed.all_ops, i)));
  return ls_ok();
}

// ---- Checks ----------------------------------------------------------------
static ls_status check_training(ls_job *job) {
  return job->steps_wanted.set || job->max_steps.set
             ? ls_ok()
             : ls_invalid_argument("one of `steps` or `max_steps` must be set "
                                   "for training on TPUs");
}

static ls_status check_evaluation(ls_job *job) {
  const ls_opt steps = job->steps_wanted;
  if (!steps.set && !job->calls.plan->any_batch)
    return ls_invalid_argument("Eval steps must be set where evaluation is on "
                               "TPUs, unless any_batch is (from the command: "
                               "--steps N, of a training --test-steps N)");
  return !steps.set || steps.value > 0
             ? ls_ok()
             : ls_invalid_argument("Eval steps must be positive, got %lld",
                                   (long long)steps.value);
}

// ---- Training --------------------------------------------------------------
static ls_status check_reduces(const ls_job *job) {
  const int64_t replicas = job->calls.plan->system->num_replicas;
  return job->program.reduces || replicas == 1
             ? ls_ok()
             : ls_invalid_argument(
                   "CrossShardOptimizer must be used for model training on "
                   "TPUs: no gradient is summed over the %lld replicas",
                   (long long)replicas);
}

static ls_status check_steps(ls_host_call *call) {
  int64_t steps = 0;
  memcpy(&steps, call->inputs[0], sizeof(steps));
  ls_host_done(call,
               steps > 0
                   ? ls_ok()
                   : ls_out_of_range(
                         "the input has ended before the first step of a run"));
  return ls_ok();
}

static const ls_host_kernel has_steps = {
    .name = "has_steps", .start = check_steps, .flags = LS_HOST_INLINE};

// Takes the loss of a run that made a step. A run without a step ends as a CPU
// run without a batch does, so that no hook sees the loop's initial loss.
static ls_status finish_training(ls_job *job) {
  LS_RETURN_IF_ERROR(check_reduces(job));
  const ls_op made = ls_host_call_add(&has_steps, NULL, &job->program.steps, 1);
  {
    LS_CONTROL_SCOPE(&made, 1);
    job->loss = ls_identity(job->program.loss);
  }
  LS_RETURN_IF_ERROR(ls_graph_error(job->graph));
  job->train_op = job->program.run;
  return ls_graph_add_to_collection(job->graph, TRAIN_OP,
                                    ls_nest_op(job->train_op));
}

// ---- Evaluation ------------------------------------------------------------
static ls_status finish_evaluation(ls_job *job) {
  job->losses = LS_TUPLE(ls_leaf(job->loss), ls_leaf(job->program.steps));
  job->metrics = ls_nest_retain(job->program.metrics);
  return ls_nest_status(job->losses);
}

// Takes the losses of a run as a mean over its steps.
static ls_status tpu_job_take_losses(const ls_job *job, ls_nest fetched,
                                     ls_eval_losses *losses) {
  (void)job;
  ls_eval_losses_add_mean(losses, ls_nest_number(ls_nest_item(fetched, 0)),
                          ls_nest_number(ls_nest_item(fetched, 1)));
  return ls_ok();
}

// ---- Prediction ------------------------------------------------------------
// Appends the check of variables to the ops that feed the program, which run
// once.
static ls_status finish_prediction(ls_job *job) {
  job->predictions = job->program.predictions;
  LS_OWN(ls_nest_builder, ops) = {0};
  for (size_t i = 0; i < ls_nest_count(job->feed.ops); ++i)
    ls_nest_builder_append(&ops, ls_nest_item(job->feed.ops, i));
  ls_nest_builder_append(&ops, ls_nest_op(job->program.check));
  ls_nest_release(job->feed.ops);
  job->feed.ops = ls_nest_builder_finish(&ops, LS_KIND_LIST);
  return ls_nest_status(job->feed.ops);
}

static ls_status tpu_job_build(ls_job *job) {
  static const ls_job_act finish[LS_NUM_MODES] = {
      [LS_MODE_TRAIN] = finish_training,
      [LS_MODE_EVAL] = finish_evaluation,
      [LS_MODE_PREDICT] = finish_prediction};
  LS_RETURN_IF_ERROR(build_program(job));
  job->loss = job->program.loss;
  job->iterators = job->feed.iterators;
  job->num_iterators = job->feed.num_iterators;
  LS_RETURN_IF_ERROR(ls_loop_length_parse(
      ls_plan_tpu(job->calls.plan)->iterations_per_loop, &job->length));
  LS_RETURN_IF_ERROR(
      ls_program_scaffold(job->spec, job->graph, &job->scaffold));
  return finish[job->calls.plan->mode](job);
}

// ---- Hooks -----------------------------------------------------------------
// Adds the hook that feeds the cores. In a prediction the fetches take the
// results from the outfeed, so that the hook does not.
static ls_status add_device_hook(ls_job *job) {
  const bool predicts = job->calls.plan->mode == LS_MODE_PREDICT;
  LS_RETURN_IF_ERROR(ls_device_hook(
      &(ls_device_hook_options){
          .plan = job->calls.plan,
          .enqueue_ops = job->feed.ops,
          .dequeue_ops = predicts || !ls_plan_leads(job->calls.plan)
                             ? ls_none()
                             : job->program.host_ops,
          .close_ops = job->feed.close_ops,
          .compile_status = job->program.compile_status,
          .each_step = job->feed.each_step,
          .predicts = predicts,
          .input_end_fails = job->input_end_fails,
          .rendezvous = job->rendezvous,
          .input_ended = &job->input_ended,
      },
      &job->device_hook));
  return ls_hook_list_add(&job->hooks, ls_hook_retain(job->device_hook));
}

// In trainings, adds the hook for hosts that announce their end.
static ls_status add_shutdown_hook(ls_job *job) {
  return LS_ADD_HOOK(&job->hooks, ls_graceful_shutdown_hook,
                     &(ls_graceful_shutdown_options){
                         .resolver = job->calls.plan->system->resolver,
                         .folder = job->estimator->model_dir,
                         .saves = job->user_saves ? LS_FLAG_OFF : LS_FLAG_ON});
}

// Adds the hook for a system that is gone.
static ls_status add_preemption_hook(ls_job *job) {
  return LS_ADD_HOOK(
      &job->hooks, ls_preemption_hook,
      &(ls_preemption_options){.resolver = job->calls.plan->system->resolver,
                               .stop = &job->system_gone,
                               .folder = job->estimator->model_dir});
}

static ls_status add_feed_hook(ls_job *job) {
  return ls_hook_list_add(&job->hooks, ls_hook_retain(job->feed.hook));
}

static ls_status add_training_hooks(ls_job *job) {
  LS_RETURN_IF_ERROR(add_feed_hook(job));
  LS_RETURN_IF_ERROR(add_shutdown_hook(job));
  LS_RETURN_IF_ERROR(add_device_hook(job));
  LS_RETURN_IF_ERROR(add_preemption_hook(job));
  LS_RETURN_IF_ERROR(LS_ADD_HOOK(&job->hooks, ls_loss_log_hook, job->loss,
                                 job->length, job->estimator->log_steps));
  return ls_job_add_examples_hook(job);
}

static ls_status add_run_hooks(ls_job *job) {
  LS_RETURN_IF_ERROR(add_device_hook(job));
  return add_feed_hook(job);
}

// Adds the hook that sets the steps of each run and ends the training.
static ls_status stop_training(ls_job *job) {
  return LS_ADD_HOOK(&job->hooks, ls_tpu_stop_hook, job->length,
                     job->steps_wanted, job->max_steps);
}

static ls_status stop_evaluation(ls_job *job) {
  const ls_opt steps = job->steps_wanted;
  return LS_ADD_HOOK(&job->hooks, ls_eval_iterations_hook,
                     steps.set ? steps.value : INT32_MAX);
}

static ls_status stop_prediction(ls_job *job) {
  return LS_ADD_HOOK(&job->hooks, ls_predict_stop_hook, job->program.stopping);
}

// Finalizes scaffolds after all hooks have added ops to the graph. Ops that
// scaffolds make must not use values of the program.
static ls_status finalize(void *state) {
  ls_job *job = state;
  return ls_program_finalize(&job->scaffold, job->graph);
}

// The hook counts steps itself (`counts`), so that no later hook adds ops to
// the frozen graph.
static const ls_hook_type finalizer_type = {
    .name = "hook", .counts = true, .needs_session = true, .begin = finalize};

static ls_status add_finalizer(ls_job *job) {
  return LS_ADD_HOOK(&job->hooks, ls_hook_lend, &finalizer_type, job);
}

static const ls_job_hook_acts hook_acts = {
    [LS_MODE_TRAIN] = {[LS_HOOKS_OF_STEPS] = stop_training,
                       [LS_HOOKS_BEFORE_MODEL] = add_training_hooks,
                       [LS_HOOKS_LAST] = add_finalizer},
    [LS_MODE_EVAL] = {[LS_HOOKS_OF_STEPS] = stop_evaluation,
                      [LS_HOOKS_BEFORE_MODEL] = add_run_hooks,
                      [LS_HOOKS_LAST] = add_finalizer},
    [LS_MODE_PREDICT] = {[LS_HOOKS_OF_STEPS] = stop_prediction,
                         [LS_HOOKS_BEFORE_MODEL] = add_run_hooks,
                         [LS_HOOKS_LAST] = add_finalizer},
};

const ls_job_kind ls_tpu_job = {
    .check =
        {[LS_MODE_TRAIN] = check_training, [LS_MODE_EVAL] = check_evaluation},
    .build = tpu_job_build,
    .add_hooks = &hook_acts,
    .take_losses = tpu_job_take_losses,
};
