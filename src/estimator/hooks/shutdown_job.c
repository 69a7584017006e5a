// SPDX-License-Identifier: Apache-2.0
// What a training does about a system that goes.
#include "estimator/calls/job.h"
#include "estimator/config/systems.h"
#include "lockstep/shutdown_hooks.h"

ls_status ls_job_add_shutdown_hook(ls_job *job) {
  ls_tpu_resolver *resolver = NULL;
  ls_hook *hook = NULL;
  LS_RETURN_IF_ERROR(ls_estimator_resolver(job->calls.context, &resolver));
  const ls_status status = ls_graceful_shutdown_hook(
      &(ls_graceful_shutdown_options){.resolver = resolver,
                                      .folder = job->estimator->model_dir,
                                      .saves = job->user_saves ? LS_FLAG_OFF
                                                               : LS_FLAG_ON},
      &hook);
  ls_tpu_resolver_release(resolver);
  return ls_status_is_ok(status) ? ls_job_hooks_add(&job->hooks, hook) : status;
}

ls_status ls_job_add_preemption_hook(ls_job *job) {
  ls_tpu_resolver *resolver = NULL;
  ls_hook *hook = NULL;
  LS_RETURN_IF_ERROR(ls_estimator_resolver(job->calls.context, &resolver));
  const ls_status status = ls_preemption_hook(
      &(ls_preemption_options){.resolver = resolver,
                               .stop = &job->system_gone,
                               .folder = job->estimator->model_dir},
      &hook);
  ls_tpu_resolver_release(resolver);
  return ls_status_is_ok(status) ? ls_job_hooks_add(&job->hooks, hook) : status;
}
