// SPDX-License-Identifier: Apache-2.0
//
// Trains and evaluates, in one process or as one task of a cluster.
#include <string.h>

#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/text.h"
#include "estimator/calls/estimator.h"
#include "train/hooks/hook.h"

enum { SECOND = 1000000000, WORKER_STEP = 5, MOST_WORKER_DELAY = 60 };

// ---- Checks ----------------------------------------------------------------
static ls_status check_delay(ls_opt seconds, const char *name) {
  return seconds.set && seconds.value < 0
             ? ls_invalid_argument("Must specify %s >= 0, got %lld", name,
                                   (long long)seconds.value)
             : ls_ok();
}

static ls_status check_exporters(const ls_eval_spec *eval) {
  LS_REQUIRE_ITEMS(eval->exporters, eval->num_exporters);
  for (size_t i = 0; i < eval->num_exporters; ++i) {
    if (eval->exporters[i] == NULL)
      return ls_invalid_argument("exporter %zu is NULL", i);
    for (size_t k = 0; k < i; ++k)
      if (strcmp(ls_exporter_name(eval->exporters[i]),
                 ls_exporter_name(eval->exporters[k])) == 0)
        return ls_invalid_argument("two exporters are called '%s': each "
                                   "writes to a folder of its name",
                                   ls_exporter_name(eval->exporters[i]));
  }
  return ls_ok();
}

static ls_status train_and_evaluate_check(const ls_train_spec *train,
                                          const ls_eval_spec *eval) {
  if (train->input.call == NULL)
    return ls_invalid_argument("a training needs an input_fn");
  if (train->max_steps.set && train->max_steps.value < 1)
    return ls_invalid_argument("Must specify max_steps > 0, got %lld",
                               (long long)train->max_steps.value);
  LS_RETURN_IF_ERROR(
      ls_hooks_check("hooks of a training", train->hooks, train->num_hooks));
  LS_REQUIRE_ITEMS(train->listeners, train->num_listeners);
  if (eval->input.call == NULL)
    return ls_invalid_argument("an evaluation needs an input_fn");
  if (eval->steps.set && eval->steps.value < 1)
    return ls_invalid_argument("Must specify steps > 0, got %lld",
                               (long long)eval->steps.value);
  if (eval->steps.set && eval->whole_input)
    return ls_invalid_argument("steps, %lld, and whole_input: give one of them",
                               (long long)eval->steps.value);
  LS_RETURN_IF_ERROR(
      ls_hooks_check("hooks of an evaluation", eval->hooks, eval->num_hooks));
  LS_RETURN_IF_ERROR(ls_check_evaluation_name(eval->name));
  LS_RETURN_IF_ERROR(check_delay(eval->start_delay_secs, "start_delay_secs"));
  LS_RETURN_IF_ERROR(check_delay(eval->throttle_secs, "throttle_secs"));
  return check_exporters(eval);
}

// ---- In one process --------------------------------------------------------
// A listener of the saver, for one process. If training and evaluation cannot
// run at the same time, it stops the training, evaluates, and trains again.
typedef struct local {
  ls_eval_rounds evaluator;
  ls_runtime *runtime;
  const ls_train_spec *train;
  int64_t throttle;  // Minimum time between evaluations, in nanoseconds.
  bool between;
  bool leads;      // False on ranks that do not evaluate on a CPU.
  bool has_first;  // True after the first checkpoint, which is not evaluated.
  bool wants;      // True if a stop for an evaluation was requested.
  bool has_ended;  // True if the model was evaluated at the training's end.
  int64_t last;    // Time of the last evaluation or of the first checkpoint.
  int64_t evaluated;  // Step of the last evaluation.
} local;

// Evaluates now, unless a stop was requested, which would end the evaluation
// early.
static ls_status evaluate_now(local *self, int64_t step) {
  bool is_new = false, stops = ls_train_stop_requested(self->train->stop);
  ls_ranks *ranks = &self->evaluator.ranks;
  LS_RETURN_IF_ERROR(ls_ranks_any(ranks, stops, &stops));
  if (stops) return ls_ok();
  LS_RETURN_IF_ERROR(ls_eval_rounds_run(&self->evaluator, &is_new));
  self->last = ls_runtime_now(self->runtime);
  self->evaluated = step;
  return is_new ? ls_ok()
                : ls_failed_precondition(
                      "There was no new checkpoint after the training, in "
                      "model_dir: %s",
                      ls_estimator_model_dir(self->evaluator.estimator));
}

static ls_status after_save(void *user, ls_session *session, int64_t step,
                            bool *out_stop) {
  local *self = user;
  (void)session;
  if (!self->has_first) {
    self->has_first = true;
    self->last = ls_runtime_now(self->runtime);
    return ls_ok();
  }
  if (self->evaluated == step || (!self->between && !self->leads))
    return ls_ok();
  // By the clock of rank 0.
  char is_early = ls_runtime_now(self->runtime) - self->last < self->throttle;
  LS_RETURN_IF_ERROR(
      ls_ranks_send(&self->evaluator.ranks, &is_early, sizeof(is_early)));
  if (is_early) {
    ls_runtime_log(self->runtime, LS_LOG_INFO, "estimator",
                   "no evaluation of the checkpoint of step %lld: there was "
                   "one less than %lld seconds ago",
                   (long long)step, (long long)(self->throttle / SECOND));
    return ls_ok();
  }
  if (!self->between) return evaluate_now(self, step);
  self->wants = true;
  *out_stop = true;
  return ls_ok();
}

static ls_status train_and_evaluate_at_end(void *user, ls_session *session,
                                           int64_t step) {
  local *self = user;
  (void)session;
  if (self->evaluated == step || self->between || !self->leads) return ls_ok();
  return evaluate_now(self, step);
}

static ls_status train_once(local *self, const ls_save_listener *listeners,
                            size_t count, ls_training_end *end) {
  return ls_estimator_train(
      self->evaluator.estimator,
      &(ls_estimator_training){.input = self->train->input,
                               .max_steps = self->train->max_steps,
                               .hooks = self->train->hooks,
                               .num_hooks = self->train->num_hooks,
                               .listeners = listeners,
                               .num_listeners = count,
                               .stop = self->train->stop},
      end);
}

// Trains in parts; each part continues where the previous one was stopped for
// an evaluation.
static ls_status train_in_parts(local *self, const ls_save_listener *listeners,
                                size_t count, ls_training_end *end) {
  do {
    ls_training_end part = {0};
    self->wants = false;
    LS_RETURN_IF_ERROR(train_once(self, listeners, count, &part));
    if (!part.has_loss) {
      part.has_loss = end->has_loss;
      part.loss = end->loss;
    }
    *end = part;
    // Evaluates even if a part made no run; otherwise the evaluation would be
    // requested again and again.
    if ((part.has_loss || self->wants) && self->has_first &&
        self->evaluated != part.step)
      LS_RETURN_IF_ERROR(evaluate_now(self, part.step));
  } while (self->wants && !end->stopped && !end->input_ended &&
           !(self->train->max_steps.set &&
             end->step >= self->train->max_steps.value));
  return ls_ok();
}

static ls_status run_local(local *self, ls_training_end *end) {
  ls_allocator *allocator = ls_current_allocator();
  const size_t count = self->train->num_listeners;
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_save_listener, all, count + 1);
  for (size_t i = 0; i < count; ++i)
    all[i] = self->train->listeners[i];
  all[count] = (ls_save_listener){
      .user = self, .after_save = after_save, .end = train_and_evaluate_at_end};
  return self->between ? train_in_parts(self, all, count + 1, end)
                       : train_once(self, all, count + 1, end);
}

// Finds out how training and evaluation run: on one system of cores, which has
// one program at a time, and on ranks, which then evaluate together. On a CPU
// rank 0 does so alone, for which the others wait.
static ls_status find_ways(const ls_estimator *e, local *self) {
  const ls_plan *training = NULL, *evaluation = NULL;
  LS_RETURN_IF_ERROR(ls_plans_get(e->plans, LS_MODE_TRAIN, false, &training));
  LS_RETURN_IF_ERROR(ls_plans_get(e->plans, LS_MODE_EVAL, false, &evaluation));
  self->between = !training->on_cpu && !evaluation->on_cpu;
  self->leads = true;
  if (ls_plan_ranks(training) == NULL) return ls_ok();
  self->leads = ls_plan_leads(training);
  return self->between ? ls_ranks_init(&self->evaluator.ranks, e->runtime,
                                       "evaluations of an estimator", 0)
                       : ls_plan_check_ranks(evaluation);
}

static ls_status train_and_evaluate(ls_estimator *estimator,
                                    const ls_train_spec *train,
                                    const ls_eval_spec *eval,
                                    ls_train_and_evaluation *out) {
  local self = {.evaluator = {.estimator = estimator,
                              .eval = eval,
                              .max_steps = train->max_steps,
                              .stop = train->stop,
                              .out = out},
                .runtime = estimator->runtime,
                .train = train,
                .throttle = ls_eval_rounds_throttle(eval),
                .evaluated = -1};
  ls_status status = find_ways(estimator, &self);
  if (ls_status_is_ok(status)) status = run_local(&self, &out->training);
  ls_eval_rounds_deinit(&self.evaluator);
  return status;
}

// ---- Task of a cluster -----------------------------------------------------
static ls_status train_alone(ls_estimator *estimator,
                             const ls_train_spec *train,
                             ls_train_and_evaluation *out) {
  const ls_run_values *config = ls_estimator_run_values(estimator);
  int64_t delay = 0;
  if (strcmp(config->task_type, "worker") == 0)
    delay = WORKER_STEP * ((int64_t)config->task_id + 1);
  if (delay > MOST_WORKER_DELAY) delay = MOST_WORKER_DELAY;
  if (delay > 0)
    ls_runtime_log(estimator->runtime, LS_LOG_INFO, "estimator",
                   "worker %d waits %lld seconds before it trains",
                   (int)config->task_id, (long long)delay);
  if (!ls_eval_rounds_wait(estimator->runtime, ls_nanos_of_seconds(delay),
                           train->stop)) {
    out->training.stopped = true;
    return ls_ok();
  }
  return ls_estimator_train(
      estimator,
      &(ls_estimator_training){.input = train->input,
                               .max_steps = train->max_steps,
                               .hooks = train->hooks,
                               .num_hooks = train->num_hooks,
                               .listeners = train->listeners,
                               .num_listeners = train->num_listeners,
                               .stop = train->stop},
      &out->training);
}

static ls_status evaluate_alone(ls_estimator *estimator,
                                const ls_train_spec *train,
                                const ls_eval_spec *eval,
                                ls_train_and_evaluation *out) {
  const int32_t index = ls_estimator_run_values(estimator)->task_id;
  if (index > 0)
    return ls_invalid_argument("evaluator %d: there can only be one evaluator, "
                               "of index 0",
                               (int)index);
  ls_eval_rounds evaluator = {.estimator = estimator,
                              .eval = eval,
                              .max_steps = train->max_steps,
                              .stop = train->stop,
                              .out = out};
  const ls_status status = ls_eval_rounds_go_on(&evaluator);
  ls_eval_rounds_deinit(&evaluator);
  return status;
}

static ls_status train_and_evaluate_run(ls_estimator *estimator,
                                        const ls_train_spec *train,
                                        const ls_eval_spec *eval,
                                        ls_train_and_evaluation *out) {
  const ls_run_values *config = ls_estimator_run_values(estimator);
  const char *task = config->task_type;
  if (strcmp(task, "evaluator") == 0)
    return evaluate_alone(estimator, train, eval, out);
  const bool alone = config->cluster == NULL || config->cluster->num_jobs == 0;
  if (alone || strcmp(task, "master") == 0)
    return train_and_evaluate(estimator, train, eval, out);
  if (strcmp(task, "chief") == 0 || strcmp(task, "worker") == 0)
    return train_alone(estimator, train, out);
  return ls_unimplemented("there is no task type '%s': the types are chief, "
                          "worker, master and evaluator",
                          task);
}

// ---- Train and evaluate ----------------------------------------------------
void ls_train_and_evaluation_deinit(ls_train_and_evaluation *result) {
  if (result == NULL) return;
  ls_nest_release(result->metrics);
  ls_eval_rounds_drop_exports(result);
  *result = (ls_train_and_evaluation){0};
}

ls_status ls_train_and_evaluate(ls_estimator *estimator,
                                const ls_train_spec *train,
                                const ls_eval_spec *eval,
                                ls_train_and_evaluation *out_result) {
  ls_train_and_evaluation result = {0};
  if (out_result != NULL) *out_result = result;
  LS_REQUIRE(estimator);
  LS_REQUIRE(train);
  LS_REQUIRE(eval);
  LS_RETURN_IF_ERROR(train_and_evaluate_check(train, eval));
  const ls_status status =
      train_and_evaluate_run(estimator, train, eval, &result);
  if (ls_status_is_ok(status) && out_result != NULL)
    *out_result = result;
  else
    ls_train_and_evaluation_deinit(&result);
  return status;
}
