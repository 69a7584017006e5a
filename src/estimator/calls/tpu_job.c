// SPDX-License-Identifier: Apache-2.0
// A job on the cores of a TPU system: what feeds them, their program, and what
// is around it.
#include <string.h>

#include "estimator/calls/job.h"
#include "estimator/spec/spec.h"
#include "lockstep/estimator_hooks.h"
#include "lockstep/host.h"
#include "lockstep/ops.h"
#include "lockstep/shutdown_hooks.h"
#include "train/hooks/hook.h"

#define ENQUEUE_OPS "_tpu_enqueue_ops"
#define TRAIN_OP "_tpu_train_op"

static ls_status add_all_to_collection(ls_graph *graph, const char *name,
                                       ls_nest ops) {
  for (size_t i = 0; i < ls_nest_count(ops); ++i)
    LS_RETURN_IF_ERROR(
        ls_graph_add_to_collection(graph, name, ls_nest_item(ops, i)));
  return ls_ok();
}

static ls_status build(ls_job *job) {
  const ls_estimator *e = job->estimator;
  const ls_estimator_mode mode = job->calls.plan->mode;
  const bool any_batch = e->any_batch && mode != LS_MODE_PREDICT;
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
                            .cache = mode == LS_MODE_TRAIN ? e->train_cache
                                     : mode == LS_MODE_EVAL
                                         ? e->eval_cache
                                         : (ls_cache_function){0},
                            .any_batch = any_batch,
                            .replica_0_loss = e->replica_0_loss},
      &job->program));
  job->spec = ls_estimator_spec_retain(job->program.spec);
  return add_all_to_collection(job->graph, ENQUEUE_OPS, job->feed.ops);
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
  ls_host_done(call, steps > 0
                         ? ls_ok()
                         : ls_out_of_range("the input has ended before the "
                                           "first step of a run"));
  return ls_ok();
}

static const ls_host_kernel has_steps = {
    .name = "has_steps", .start = check_steps, .flags = LS_HOST_INLINE};

// What the loop begins with is no loss: a run that has made no step ends as one
// on a CPU that finds no batch, and no hook sees it.
static ls_status take_loss(ls_job *job) {
  const ls_op made = ls_host_call_add(&has_steps, NULL, &job->program.steps, 1);
  LS_CONTROL_SCOPE(&made, 1);
  job->loss = ls_identity(job->program.loss);
  return ls_graph_error(job->graph);
}

static ls_status finish_training(ls_job *job) {
  LS_RETURN_IF_ERROR(check_reduces(job));
  LS_RETURN_IF_ERROR(take_loss(job));
  job->train_op = job->program.run;
  return ls_graph_add_to_collection(job->graph, TRAIN_OP,
                                    ls_nest_op(job->train_op));
}

// ---- Prediction ------------------------------------------------------------
// The program is run with what feeds it, once.
static ls_status finish_prediction(ls_job *job) {
  ls_allocator *allocator = ls_current_allocator();
  const size_t count = ls_nest_count(job->feed.ops);
  ls_nest *items = ls_new_array(allocator, ls_nest, count + 1);
  if (items == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i)
    items[i] = ls_nest_item(job->feed.ops, i);
  items[count] = ls_nest_op(job->program.run);
  ls_nest_release(job->feed.ops);
  job->feed.ops = ls_nest_sequence(LS_KIND_LIST, items, count + 1);
  ls_release(allocator, items);
  return ls_nest_status(job->feed.ops);
}

ls_status ls_job_build_on_tpu(ls_job *job) {
  LS_RETURN_IF_ERROR(build(job));
  job->loss = job->program.loss;
  job->steps = job->program.steps;
  LS_RETURN_IF_ERROR(
      ls_program_scaffold(job->spec, job->graph, &job->scaffold));
  switch (job->calls.plan->mode) {
  case LS_MODE_TRAIN:
    return finish_training(job);
  case LS_MODE_PREDICT:
    return finish_prediction(job);
  default:
    return ls_ok();
  }
}

// ---- Hooks -----------------------------------------------------------------
// What a prediction says is taken by the runs that fetch it, and by nobody
// else.
static ls_status add_device_hook(ls_job *job) {
  const bool predicts = job->calls.plan->mode == LS_MODE_PREDICT;
  LS_RETURN_IF_ERROR(ls_device_hook(
      &(ls_device_hook_options){
          .plan = job->calls.plan,
          .enqueue_ops = job->feed.ops,
          .dequeue_ops = predicts ? ls_none() : job->program.host_ops,
          .close_ops = job->feed.close_ops,
          .compile_status = job->program.compile_status,
          .each_step = job->feed.each_step,
          .predicts = predicts,
          .input_end_fails = job->input_end_fails,
          .rendezvous = job->rendezvous,
          .input_ended = &job->input_ended,
      },
      &job->device_hook));
  return ls_job_hooks_add(&job->hooks, ls_hook_retain(job->device_hook));
}

// What a training does about hosts that go.
static ls_status add_shutdown_hook(ls_job *job) {
  ls_hook *hook = NULL;
  LS_RETURN_IF_ERROR(ls_graceful_shutdown_hook(
      &(ls_graceful_shutdown_options){
          .resolver = job->calls.plan->system->resolver,
          .folder = job->estimator->model_dir,
          .saves = job->user_saves ? LS_FLAG_OFF : LS_FLAG_ON},
      &hook));
  return ls_job_hooks_add(&job->hooks, hook);
}

// What it does about a system that is gone.
static ls_status add_preemption_hook(ls_job *job) {
  ls_hook *hook = NULL;
  LS_RETURN_IF_ERROR(ls_preemption_hook(
      &(ls_preemption_options){.resolver = job->calls.plan->system->resolver,
                               .stop = &job->system_gone,
                               .folder = job->estimator->model_dir},
      &hook));
  return ls_job_hooks_add(&job->hooks, hook);
}

ls_status ls_job_add_device_hooks(ls_job *job) {
  const bool trains = job->calls.plan->mode == LS_MODE_TRAIN;
  ls_hook *feed = job->feed.hook;
  if (!trains) {
    LS_RETURN_IF_ERROR(add_device_hook(job));
    return ls_job_hooks_add(&job->hooks, ls_hook_retain(feed));
  }
  LS_RETURN_IF_ERROR(ls_job_hooks_add(&job->hooks, ls_hook_retain(feed)));
  LS_RETURN_IF_ERROR(add_shutdown_hook(job));
  LS_RETURN_IF_ERROR(add_device_hook(job));
  return add_preemption_hook(job);
}

// ---- The scaffold ----------------------------------------------------------
static ls_status finalize(void *user) {
  ls_job *job = user;
  return ls_program_finalize(&job->scaffold, job->graph);
}

ls_status ls_job_finalize_hook(ls_job *job, ls_hook **out_hook) {
  // It asks for the step, so that nobody does behind it: the graph is frozen.
  return ls_hook_of_steps(&(ls_hook_options){.user = job, .begin = finalize},
                          true, out_hook);
}
