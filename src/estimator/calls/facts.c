// SPDX-License-Identifier: Apache-2.0
// Facts of a training that all its ranks share.
#include "base/plain.h"
#include "estimator/calls/estimator.h"
#include "train/ranks.h"

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
