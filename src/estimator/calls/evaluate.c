// SPDX-License-Identifier: Apache-2.0
// Evaluations: run a model over an input, and collect losses and metrics.
#include <string.h>

#include "base/require.h"
#include "base/values/nest_builder.h"
#include "base/values/nest_internal.h"
#include "estimator/calls/estimator.h"
#include "estimator/calls/job.h"
#include "lockstep/estimator_hooks.h"
#include "lockstep/ops.h"
#include "train/hooks/hook.h"
#include "train/hooks/saving.h"

// The fetches of each run, and the losses so far.
typedef struct eval_run {
  const ls_estimator_evaluation *evaluation;
  ls_nest fetches;  // The losses, and the update op.
  ls_eval_losses losses;
  int64_t sessions;  // Number of sessions when the sum `losses` was begun.
} eval_run;

// ---- Fetches ----------------------------------------------------------
static ls_status add_update(ls_op *ops, size_t *count, ls_nest update) {
  if (update.kind == LS_KIND_OP)
    ops[(*count)++] = update.as.op;
  else if (update.kind == LS_KIND_TENSOR)
    ops[(*count)++] = ls_tensor_op(update.as.tensor);
  else if (update.kind != LS_KIND_NONE)
    return ls_invalid_argument("a metric's update must be an op");
  return ls_ok();
}

static ls_status make_update(ls_job *job, ls_nest metrics, ls_op *ops,
                             ls_op *out_op) {
  size_t count = 0;
  for (size_t i = 0; i < ls_nest_count(metrics); ++i)
    LS_RETURN_IF_ERROR(
        add_update(ops, &count, ls_nest_item(ls_nest_item(metrics, i), 1)));
  // Adds the op that counts a batch in the evaluation's step. A loop on the
  // device counts its batches in another way.
  ls_variable *step = NULL;
  LS_RETURN_IF_ERROR(ls_eval_step_get(ls_graph_current(), &step));
  ops[count++] = ls_tensor_op(
      ls_variable_assign_add(step, ls_scalar(ls_variable_dtype(step), 1)));
  *out_op = ls_group(ops, count, "eval_op");
  return ls_op_is_failed(*out_op) ? ls_graph_take_error(job->graph) : ls_ok();
}

static ls_status evaluate_build(ls_job *job, eval_run *e) {
  LS_GRAPH_SCOPE(job->graph);
  LS_RETURN_IF_ERROR(job->kind->build(job));
  static const char *const taken[] = {"loss", "global_step"};
  for (size_t i = 0; i < ls_nest_count(job->metrics); ++i)
    for (size_t t = 0; t < 2; ++t)
      if (strcmp(ls_nest_key(job->metrics, i), taken[t]) == 0)
        return ls_invalid_argument(
            "a metric cannot be called '%s': an evaluation has one of its own",
            taken[t]);
  ls_op update = {0};
  LS_OWN_ARRAY_OR_RETURN(ls_current_allocator(), ls_op, ops,
                         ls_nest_count(job->metrics) + 1);
  LS_RETURN_IF_ERROR(make_update(job, job->metrics, ops, &update));
  return ls_take_nest(LS_LIST(ls_nest_retain(job->losses), ls_nest_op(update)),
                      &e->fetches);
}

// ---- Hooks -----------------------------------------------------------------
static ls_status evaluate_add_hooks(ls_job *job, const eval_run *e,
                                    ls_nest final_values, ls_nest *out_values) {
  const ls_estimator_spec_options *spec = ls_estimator_spec_values(job->spec);
  ls_hook_list *hooks = &job->hooks;
  LS_GRAPH_SCOPE(job->graph);
  LS_RETURN_IF_ERROR(ls_job_add_hooks(job, LS_HOOKS_OF_INPUT));
  LS_RETURN_IF_ERROR(ls_hook_list_add_all(hooks, e->evaluation->hooks,
                                          e->evaluation->num_hooks));
  if (job->steps_wanted.set)
    LS_RETURN_IF_ERROR(
        LS_ADD_HOOK(hooks, ls_stop_after_evals_hook, job->steps_wanted.value));
  LS_RETURN_IF_ERROR(ls_job_add_hooks(job, LS_HOOKS_OF_STEPS));
  LS_RETURN_IF_ERROR(ls_job_add_hooks(job, LS_HOOKS_BEFORE_MODEL));
  LS_RETURN_IF_ERROR(ls_hook_list_add_all(hooks, spec->evaluation_hooks,
                                          spec->num_evaluation_hooks));
  return LS_ADD_HOOK(hooks, ls_final_ops_hook, final_values, NULL, 0,
                     out_values);
}

// Lists the metrics' values by name, and the global step.
static ls_status final_values(ls_job *job, ls_nest metrics, ls_nest *out) {
  LS_OWN(ls_nest_builder, values) = {0};
  ls_tensor step;
  LS_GRAPH_SCOPE(job->graph);
  for (size_t i = 0; i < ls_nest_count(metrics); ++i)
    ls_nest_builder_append_named(&values, ls_nest_key(metrics, i),
                                 ls_nest_item(ls_nest_item(metrics, i), 0));
  LS_RETURN_IF_ERROR(ls_global_step_read(&step));
  ls_nest_builder_append_named(&values, "global_step", ls_leaf(step));
  return ls_take_nest(ls_nest_builder_finish(&values, LS_KIND_DICT), out);
}

// ---- Runs ------------------------------------------------------------------
// Adds a run's losses. A new session evaluates from the start, so that the
// losses of earlier sessions are dropped.
static ls_status take_losses(ls_job *job, ls_monitored_session *session,
                             ls_nest results, void *user) {
  eval_run *e = user;
  const int64_t sessions = ls_monitored_sessions(session);
  if (sessions != e->sessions) ls_eval_losses_drop(&e->losses);
  e->sessions = sessions;
  return job->kind->take_losses(job, ls_nest_item(results, 0), &e->losses);
}

// Takes the metrics' values, which hosts of rank 0 have. If no example was
// evaluated, the values have no meaning, and only the step is returned.
static ls_status take_metrics(const ls_job *job, eval_run *e, ls_nest values,
                              ls_nest *out_metrics) {
  static const char *const step[] = {"global_step"};
  const bool any = ls_eval_losses_any(&e->losses);
  if (any && ls_plan_leads(job->calls.plan)) {
    *out_metrics = ls_nest_retain(values);
  } else {
    const ls_nest at = ls_nest_retain(ls_nest_find(values, step[0]));
    LS_RETURN_IF_ERROR(
        ls_take_nest(ls_nest_dict("", step, &at, 1), out_metrics));
  }
  if (!any) {
    // A hook may have requested a stop as well, before the first run.
    const bool was_stopped = ls_train_stop_requested(job->stop) ||
                             (e->sessions == 0 && !job->input_ended);
    ls_runtime_log(job->estimator->runtime, LS_LOG_WARNING, "estimator",
                   "nothing was evaluated: %s",
                   was_stopped ? "a stop was requested before"
                               : "there was no example");
    return ls_ok();
  }
  return ls_params_set(out_metrics, "loss",
                       ls_nest_f64(ls_eval_losses_mean(&e->losses)));
}

static ls_status evaluate_checkpoint(ls_job *job, eval_run *e,
                                     ls_nest *out_metrics) {
  ls_monitored_session *session = NULL;
  LS_OWN(ls_nest, wanted) = ls_none();
  LS_OWN(ls_nest, values) = ls_none();
  LS_RETURN_IF_ERROR(evaluate_build(job, e));
  LS_RETURN_IF_ERROR(ls_job_set_values(job));
  LS_RETURN_IF_ERROR(final_values(job, job->metrics, &wanted));
  LS_RETURN_IF_ERROR(evaluate_add_hooks(job, e, wanted, &values));
  LS_RETURN_IF_ERROR(ls_job_session(job, false, &session));
  LS_RETURN_IF_ERROR(ls_job_run_all(job, session, e->fetches, take_losses, e));
  LS_RETURN_IF_ERROR(ls_job_check_input_end(job));
  return take_metrics(job, e, values, out_metrics);
}

static ls_status evaluate_from(ls_estimator *self,
                               const ls_estimator_evaluation *evaluation,
                               const ls_estimator_checkpoint *checkpoint,
                               ls_nest *out_metrics) {
  eval_run e = {.evaluation = evaluation,
                .losses.of_first = self->replica_0_loss};
  ls_job job = {.stop = evaluation->stop,
                .checkpoint = checkpoint,
                .steps_wanted = evaluation->steps};
  ls_status status = ls_job_begin(&job, self, LS_MODE_EVAL, &evaluation->input);
  if (ls_status_is_ok(status))
    status = evaluate_checkpoint(&job, &e, out_metrics);
  ls_nest_release(e.fetches);
  ls_eval_losses_drop(&e.losses);
  return ls_job_end(&job, "evaluation_loop", status);
}

bool ls_estimator_has_evaluated(ls_nest metrics) {
  return ls_nest_find(metrics, "loss").kind != LS_KIND_NONE;
}

static ls_status evaluate_and_write(ls_estimator *self,
                                    const ls_estimator_evaluation *evaluation,
                                    const ls_estimator_checkpoint *checkpoint,
                                    ls_nest *out_metrics) {
  LS_RETURN_IF_ERROR(evaluate_from(self, evaluation, checkpoint, out_metrics));
  const ls_plan *plan = NULL;
  LS_RETURN_IF_ERROR(ls_plans_get(self->plans, LS_MODE_EVAL, false, &plan));
  // An evaluation that a stop cut short does not measure the model.
  if (!ls_plan_leads(plan) || !ls_estimator_has_evaluated(*out_metrics) ||
      ls_train_stop_requested(evaluation->stop))
    return ls_ok();
  LS_OWN(ls_status, status) = ls_write_eval_events(
      self, evaluation->name, checkpoint->path, *out_metrics);
  if (!evaluation->events_are_optional) return ls_give(&status);
  if (!ls_status_is_ok(status))
    ls_runtime_log(self->runtime, LS_LOG_WARNING, "estimator",
                   "the metrics are not written: %s",
                   ls_status_message(status));
  return ls_ok();
}

ls_status ls_estimator_evaluate(ls_estimator *estimator,
                                const ls_estimator_evaluation *evaluation,
                                ls_nest *out_metrics) {
  LS_REQUIRE_OUT(out_metrics, estimator, evaluation);
  LS_RETURN_IF_ERROR(
      ls_hooks_check("hooks", evaluation->hooks, evaluation->num_hooks));
  LS_RETURN_IF_ERROR(ls_check_evaluation_name(evaluation->name));
  ls_estimator_checkpoint checkpoint;
  LS_RETURN_IF_ERROR(ls_estimator_checkpoint_open(
      estimator, evaluation->checkpoint, &checkpoint));
  const ls_status status =
      evaluate_and_write(estimator, evaluation, &checkpoint, out_metrics);
  ls_estimator_checkpoint_close(&checkpoint);
  if (!ls_status_is_ok(status)) {
    ls_nest_release(*out_metrics);
    *out_metrics = ls_none();
  }
  return status;
}
