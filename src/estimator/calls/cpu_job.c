// SPDX-License-Identifier: Apache-2.0
// Jobs on a CPU: one model, step by step.
#include "estimator/calls/job.h"
#include "lockstep/replicate.h"

void ls_job_log_cpu(const ls_job *job) {
  ls_runtime_log(job->estimator->runtime, LS_LOG_INFO, "estimator",
                 "Running %s on CPU",
                 ls_estimator_mode_name(job->calls.plan->mode));
}

ls_status ls_call_model_alone(const ls_estimator_calls *calls, ls_nest features,
                              ls_nest labels, ls_estimator_spec **out_spec) {
  // Makes cross-shard optimizers see a single shard.
  LS_SCOPE_(ls_shard_scope_begin, 1);
  return ls_call_model(calls,
                       &(ls_model_inputs){.features = features,
                                          .labels = labels,
                                          .mask = ls_failed_tensor()},
                       out_spec);
}

static ls_status cpu_job_build(ls_job *job) {
  ls_job_log_cpu(job);
  LS_RETURN_IF_ERROR(ls_cpu_input_make(&job->calls, &job->cpu_input));
  LS_RETURN_IF_ERROR(ls_call_model_alone(&job->calls, job->cpu_input.features,
                                         job->cpu_input.labels, &job->spec));
  LS_RETURN_IF_ERROR(ls_graph_error(job->graph));
  const ls_estimator_spec_options *spec_options =
      ls_estimator_spec_values(job->spec);
  job->loss = spec_options->loss;
  job->train_op = spec_options->train_op;
  job->losses = ls_leaf(job->loss);
  job->metrics = ls_nest_retain(spec_options->eval_metric_ops);
  job->predictions = spec_options->predictions;
  job->iterators = &job->cpu_input.iterator;
  job->num_iterators = job->cpu_input.iterator != NULL;
  if (spec_options->scaffold != NULL)
    ls_scaffold_copy(&job->scaffold, spec_options->scaffold);
  return ls_ok();
}

// Adds a batch's loss, weighted by its number of examples.
static ls_status cpu_job_take_losses(const ls_job *job, ls_nest fetched,
                                     ls_eval_losses *losses) {
  const int64_t rows = ls_cpu_input_rows(&job->cpu_input);
  ls_eval_losses_add_mean(losses, ls_nest_number(fetched),
                          rows >= 0 ? (double)rows : 1);
  return ls_ok();
}

ls_status ls_cpu_job_check_evaluation(ls_job *job) {
  const ls_opt steps = job->steps_wanted;
  return !steps.set || steps.value > 0
             ? ls_ok()
             : ls_invalid_argument("Must specify steps > 0, got %lld",
                                   (long long)steps.value);
}

// ---- Hooks -----------------------------------------------------------------
static ls_status add_input_hook(ls_job *job) {
  return ls_hook_list_add(&job->hooks, ls_hook_retain(job->cpu_input.hook));
}

static ls_status add_stop_hook(ls_job *job) {
  ls_hook *hook = NULL;
  if (!job->steps_wanted.set && !job->max_steps.set) return ls_ok();
  LS_RETURN_IF_ERROR(
      ls_stop_at_step_hook(job->steps_wanted, job->max_steps, &hook));
  return ls_hook_list_add(&job->hooks, hook);
}

const ls_job_hook_acts ls_cpu_job_hooks = {
    [LS_MODE_TRAIN] = {[LS_HOOKS_OF_INPUT] = add_input_hook,
                       [LS_HOOKS_OF_STEPS] = add_stop_hook,
                       [LS_HOOKS_BEHIND_MODEL] = ls_job_add_examples_hook},
    [LS_MODE_EVAL] = {[LS_HOOKS_OF_INPUT] = add_input_hook},
    [LS_MODE_PREDICT] = {[LS_HOOKS_OF_INPUT] = add_input_hook},
};

const ls_job_kind ls_cpu_job = {
    .check = {[LS_MODE_EVAL] = ls_cpu_job_check_evaluation},
    .build = cpu_job_build,
    .add_hooks = &ls_cpu_job_hooks,
    .take_losses = cpu_job_take_losses,
    .reads_input = true,
};
