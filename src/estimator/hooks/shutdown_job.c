// SPDX-License-Identifier: Apache-2.0
// What a training does about a system that goes.
#include "estimator/calls/job.h"
#include "lockstep/shutdown_hooks.h"

ls_status ls_job_add_shutdown_hook(ls_job *job) {
  ls_hook *hook = NULL;
  LS_RETURN_IF_ERROR(ls_graceful_shutdown_hook(
      &(ls_graceful_shutdown_options){
          .resolver = job->calls.plan->system->resolver,
          .folder = job->estimator->model_dir,
          .saves = job->user_saves ? LS_FLAG_OFF : LS_FLAG_ON},
      &hook));
  return ls_job_hooks_add(&job->hooks, hook);
}

ls_status ls_job_add_preemption_hook(ls_job *job) {
  ls_hook *hook = NULL;
  LS_RETURN_IF_ERROR(ls_preemption_hook(
      &(ls_preemption_options){.resolver = job->calls.plan->system->resolver,
                               .stop = &job->system_gone,
                               .folder = job->estimator->model_dir},
      &hook));
  return ls_job_hooks_add(&job->hooks, hook);
}
