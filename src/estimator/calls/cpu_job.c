// SPDX-License-Identifier: Apache-2.0
// A job on a CPU: one model, step by step.
#include "estimator/calls/job.h"
#include "lockstep/replicate.h"

void ls_job_log_cpu(const ls_job *job) {
  ls_runtime_log(job->estimator->runtime, LS_LOG_INFO, "estimator",
                 "Running %s on CPU",
                 ls_estimator_mode_name(job->calls.plan->mode));
}

ls_status ls_call_model_alone(const ls_estimator_calls *calls, ls_nest features,
                              ls_nest labels, ls_estimator_spec **out_spec) {
  // Cross-shard optimizers are told that there is one shard.
  LS_SCOPE_(ls_shard_scope_begin, 1);
  return ls_call_model(calls,
                       &(ls_model_inputs){.features = features,
                                          .labels = labels,
                                          .mask = ls_failed_tensor()},
                       out_spec);
}

ls_status ls_job_build_on_cpu(ls_job *job) {
  ls_job_log_cpu(job);
  LS_RETURN_IF_ERROR(ls_cpu_input_make(&job->calls, &job->cpu_input));
  LS_RETURN_IF_ERROR(ls_call_model_alone(&job->calls, job->cpu_input.features,
                                         job->cpu_input.labels, &job->spec));
  LS_RETURN_IF_ERROR(ls_graph_error(job->graph));
  const ls_estimator_spec_options *spec_options =
      ls_estimator_spec_values(job->spec);
  job->loss = spec_options->loss;
  job->train_op = spec_options->train_op;
  if (spec_options->scaffold != NULL)
    ls_scaffold_copy(&job->scaffold, spec_options->scaffold);
  return ls_ok();
}
