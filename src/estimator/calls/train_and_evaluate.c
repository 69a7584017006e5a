// SPDX-License-Identifier: Apache-2.0
//
// Trains and evaluates, in one process or as one task of a cluster.
#include <string.h>

#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/text.h"
#include "estimator/calls/estimator.h"
#include "estimator/config/config.h"
#include "graph/text/text.h"
#include "lockstep/events.h"
#include "train/events/run_events.h"
#include "train/folder/run_folder.h"
#include "train/hooks/hook.h"
#include "train/run_plan.h"

// ---- Judges ----------------------------------------------------------------
// Judges of the evaluations between the parts of a training: which checkpoint
// is the best, and if the training ends early, as in ls_train.

// A metric, and what its evaluations were so far.
typedef struct ls_judge {
  ls_stop_metric metric;
  ls_early_stop state;
} ls_judge;

// Zeroed: judge nothing.
typedef struct ls_judges {
  ls_judge stop, keep;
} ls_judges;

static bool judges_any(const ls_judges *self) {
  return self->keep.metric.name[0] != '\0';  // Stopping keeps the best.
}

// Reads the rules of an evaluation.
//   LS_INVALID_ARGUMENT  names the field that is wrong.
static ls_status judges_init(ls_judges *self, const ls_eval_spec *eval) {
  *self = (ls_judges){0};
  LS_RETURN_IF_ERROR(ls_status_annotate(
      ls_stop_metric_parse(eval->stop_early, eval->patience, eval->min_delta,
                           NULL, &self->stop.metric),
      "early stopping by evaluations"));
  const bool keeps = eval->keep_best != NULL && eval->keep_best[0] != '\0';
  return ls_status_annotate(
      ls_stop_metric_parse(keeps ? eval->keep_best : eval->stop_early, 0, 0,
                           NULL, &self->keep.metric),
      "keep_best of evaluations");
}

// Counts a value as event files have it, so that a resumed training, which
// reads those, ends at the same step.
static void judge_count(ls_judge *self, int64_t step, double value) {
  ls_early_stop_count(&self->state, &self->metric, step, (double)(float)value);
}

// ---- Earlier evaluations ---------------------------------------------------
static ls_status judge_recall(ls_judge *self, const char *folder,
                              int64_t step) {
  LS_OWN(ls_event_numbers, numbers) = NULL;
  if (self->metric.name[0] == '\0') return ls_ok();
  LS_RETURN_IF_ERROR(ls_events_read(folder, self->metric.name, &numbers));
  for (size_t i = 0; i < numbers->count && numbers->items[i].step <= step; ++i)
    judge_count(self, numbers->items[i].step, numbers->items[i].value);
  return ls_ok();
}

// Recalls earlier evaluations, up to `step`, from their event files.
static ls_status judges_recall(ls_judges *self, const ls_estimator *of,
                               const char *evaluation, int64_t step) {
  LS_OWN(ls_text, folder) = {0};
  LS_RETURN_IF_ERROR(ls_print_eval_folder(of, evaluation, &folder));
  LS_RETURN_IF_ERROR(judge_recall(&self->stop, ls_text_data(&folder), step));
  return judge_recall(&self->keep, ls_text_data(&folder), step);
}

// ---- An evaluation ---------------------------------------------------------
static ls_status judge_take(ls_judge *self, ls_nest metrics, int64_t step) {
  const char *name = self->metric.name;
  double value = 0;
  if (name[0] == '\0') return ls_ok();
  const ls_nest found = ls_nest_find(metrics, name);
  if (found.kind != LS_KIND_NONE) {
    LS_RETURN_IF_ERROR(ls_status_annotate(ls_nest_to_number(found, &value),
                                          "metric '%s'", name));
    judge_count(self, step, value);
    return ls_ok();
  }
  LS_OWN(ls_text, all) = {.allocator = ls_current_allocator()};
  for (size_t i = 0; i < ls_nest_count(metrics); ++i)
    if (strcmp(ls_nest_key(metrics, i), "global_step") != 0)
      ls_text_append_format(&all, "%s%s", all.size > 0 ? ", " : "",
                            ls_nest_key(metrics, i));
  LS_RETURN_IF_ERROR(ls_text_status(&all));
  return ls_invalid_argument("the evaluation has no metric '%s'; it has %s",
                             name, ls_text_data(&all));
}

// Counts an evaluation.
//   LS_INVALID_ARGUMENT  it has no such metric: names those that it has.
static ls_status judges_count(ls_judges *self, ls_nest metrics, int64_t step) {
  LS_RETURN_IF_ERROR(judge_take(&self->stop, metrics, step));
  return judge_take(&self->keep, metrics, step);
}

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
        return ls_invalid_argument("two exporters are called '%s': each writes "
                                   "to a folder of its name",
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

// ---- Evaluate checkpoints as they come --------------------------------------
enum { STEPS = 100, START_DELAY = 120, THROTTLE = 600, WARN_EACH = 600 };

typedef struct eval_rounds {
  ls_estimator *estimator;  // Borrowed, like all fields except `previous`.
  const ls_eval_spec *eval;
  ls_opt max_steps;
  const ls_train_stop *stop;
  ls_train_and_evaluation *out;
  char *previous;  // Path of the last evaluated checkpoint.
  int64_t step;    // Step of that checkpoint.
  int64_t newest;  // Newest step at that time, damaged or not.
  int64_t warned;  // Time of the last warning that there is no new checkpoint.
  bool has_warned;
  ls_ranks ranks;  // The ranks that evaluate together; zeroed: none.
} eval_rounds;

// Returns the minimum time between evaluations in nanoseconds.
static int64_t eval_rounds_throttle(const ls_eval_spec *eval) {
  return ls_nanos_of_seconds(eval->throttle_secs.set ? eval->throttle_secs.value
                                                     : THROTTLE);
}

// Waits for the time; returns false if a stop was requested before it passed.
static bool eval_rounds_wait(const ls_runtime *runtime, int64_t nanos,
                             const ls_train_stop *stop) {
  const int64_t until = ls_runtime_now(runtime) + nanos;
  for (;;) {
    const int64_t left = until - ls_runtime_now(runtime);
    if (ls_train_stop_requested(stop)) return false;
    if (left <= 0) return true;
    ls_runtime_sleep(runtime, left < SECOND ? left : SECOND);
  }
}

static void eval_rounds_drop_exports(ls_train_and_evaluation *result) {
  for (size_t i = 0; i < result->num_exports; ++i)
    ls_text_release(result->exports[i]);
  ls_print_array_release(result->exports);
  result->exports = NULL;
  result->num_exports = 0;
}

static void eval_rounds_deinit(eval_rounds *self) {
  ls_text_release(self->previous);
  ls_ranks_deinit(&self->ranks);
}

static bool is_final(const eval_rounds *self) {
  return self->max_steps.set && self->step >= self->max_steps.value;
}

static ls_status export_all(eval_rounds *self, const char *checkpoint) {
  ls_train_and_evaluation *out = self->out;
  // Rank 0 writes the exports.
  const size_t count =
      ls_ranks_own(&self->ranks) == 0 ? self->eval->num_exporters : 0;
  out->exports =
      ls_print_array(ls_current_allocator(), count + 1, sizeof(*out->exports));
  LS_RETURN_IF_NO_MEMORY(out->exports);
  out->num_exports = count;
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(
        ls_exporter_export(self->eval->exporters[i], self->estimator,
                           &(ls_exporter_call){.checkpoint = checkpoint,
                                               .metrics = out->metrics,
                                               .evaluation = self->eval->name,
                                               .is_final = is_final(self)},
                           &out->exports[i]));
  return ls_ok();
}

static ls_status eval_rounds_evaluate(eval_rounds *self,
                                      const char *checkpoint) {
  const ls_eval_spec *eval = self->eval;
  LS_OWN(ls_nest, metrics) = ls_none();
  ls_opt steps = eval->steps;
  if (!steps.set && !eval->whole_input) steps = LS_SOME(STEPS);
  LS_RETURN_IF_ERROR(ls_estimator_evaluate(
      self->estimator,
      &(ls_estimator_evaluation){.input = eval->input,
                                 .steps = steps,
                                 .hooks = eval->hooks,
                                 .num_hooks = eval->num_hooks,
                                 .checkpoint = checkpoint,
                                 .name = eval->name,
                                 .stop = self->stop},
      &metrics));
  self->step = ls_params_i64(metrics, "global_step", 0);
  // An incomplete evaluation exports nothing.
  if (!ls_estimator_has_evaluated(metrics) ||
      ls_train_stop_requested(self->stop))
    return ls_ok();
  ls_nest_release(self->out->metrics);
  eval_rounds_drop_exports(self->out);
  self->out->metrics = ls_give(&metrics);
  ++self->out->num_evaluations;
  return export_all(self, checkpoint);
}

// Finds the step of the newest intact checkpoint; -1: there is none, or no new
// one. Looks only if the newest checkpoint's name has changed, because finding
// an intact one reads whole files.
static ls_status find_new(eval_rounds *self, int64_t *out_step) {
  int64_t newest = -1;
  LS_RETURN_IF_ERROR(ls_estimator_newest_step(self->estimator, &newest));
  if (newest < 0 || (self->previous != NULL && newest == self->newest))
    return ls_ok();
  LS_RETURN_IF_ERROR(ls_estimator_whole_step(self->estimator, true, out_step));
  self->newest = newest;
  return ls_ok();
}

// Evaluates the newest checkpoint and calls the exporters, unless that
// checkpoint was evaluated last. Rank 0 finds the
// checkpoint for all.
static ls_status eval_rounds_run(eval_rounds *self, bool *out_is_new) {
  char *path = NULL;
  int64_t step = -1;
  *out_is_new = false;
  const bool leads = ls_ranks_own(&self->ranks) == 0;
  LS_RETURN_IF_ERROR(
      ls_ranks_agree(&self->ranks, leads ? find_new(self, &step) : ls_ok()));
  LS_RETURN_IF_ERROR(ls_ranks_send(&self->ranks, &step, sizeof(step)));
  if (step < 0) return ls_ok();
  LS_RETURN_IF_ERROR(
      ls_estimator_checkpoint_path(self->estimator, step, &path));
  if (self->previous != NULL && strcmp(path, self->previous) == 0) {
    ls_text_release(path);
    return ls_ok();
  }
  ls_text_release(self->previous);
  self->previous = path;
  *out_is_new = true;
  return eval_rounds_evaluate(self, path);
}

static void warn_of_checkpoint(eval_rounds *self) {
  ls_runtime *runtime = self->estimator->runtime;
  const int64_t now = ls_runtime_now(runtime);
  if (self->has_warned && now - self->warned < (int64_t)WARN_EACH * SECOND)
    return;
  self->has_warned = true;
  self->warned = now;
  ls_runtime_log(runtime, LS_LOG_WARNING, "estimator",
                 self->previous == NULL
                     ? "there is no checkpoint to evaluate in %s yet"
                     : "there is no new checkpoint to evaluate in %s",
                 ls_estimator_model_dir(self->estimator));
}

// Evaluates new checkpoints until a checkpoint has the training's last step or
// a stop is requested.
static ls_status eval_rounds_go_on(eval_rounds *self) {
  const ls_runtime *runtime = self->estimator->runtime;
  const ls_opt delay = self->eval->start_delay_secs;
  const int64_t throttle = eval_rounds_throttle(self->eval);
  int64_t wait = ls_nanos_of_seconds(delay.set ? delay.value : START_DELAY);
  while (eval_rounds_wait(runtime, wait, self->stop)) {
    const int64_t began = ls_runtime_now(runtime);
    bool is_new = false;
    LS_RETURN_IF_ERROR(eval_rounds_run(self, &is_new));
    if (is_new && is_final(self)) return ls_ok();
    if (!is_new) warn_of_checkpoint(self);
    wait = throttle - (ls_runtime_now(runtime) - began);
    // Waits at least a second for a new checkpoint, even without throttling.
    if (!is_new && wait < SECOND) wait = SECOND;
  }
  return ls_ok();
}

// ---- In one process --------------------------------------------------------
// A listener of the saver, for one process. If training and evaluation cannot
// run at the same time, it stops the training, evaluates, and trains again.
typedef struct local {
  eval_rounds evaluator;
  ls_runtime *runtime;
  const ls_train_spec *train;
  int64_t throttle;  // Minimum time between evaluations, in nanoseconds.
  bool between;
  bool leads;      // False on ranks that do not evaluate on a CPU.
  bool has_first;  // True after the first checkpoint, which is not evaluated.
  bool wants;      // True if an evaluation was requested.
  bool pauses;     // True if the training goes on after it.
  int64_t last;    // Time of the last evaluation or of the first checkpoint.
  int64_t evaluated;  // Step of the last evaluation.
  ls_judges judges;
  ls_run_folder folder;  // Gets lines of evaluations,
  ls_run_events events;  // and so do these, from the first one on.
} local;

static ls_status open_events(local *self, int64_t step) {
  if (self->events.test != NULL) return ls_ok();
  return ls_run_events_open(
      &self->events, self->runtime,
      &(ls_train_options){.events = self->train->lines.events,
                          .run_folder = self->evaluator.estimator->model_dir},
      step, true);
}

static ls_status add_line(local *self, int64_t step) {
  const ls_judge *judge = &self->judges.stop;
  const ls_nest metrics = self->evaluator.out->metrics;
  if (!self->train->lines.metrics) return ls_ok();
  LS_RETURN_IF_ERROR(ls_run_folder_log_metrics(
      &self->folder, step, metrics,
      judge->metric.name[0] != '\0' ? &judge->state : NULL));
  LS_RETURN_IF_ERROR(open_events(self, step));
  return self->events.test != NULL
             ? ls_run_events_log_metrics(&self->events, step, metrics)
             : ls_ok();
}

// Lets the judges see an evaluation that rank 0 has made, if it was complete,
// and adds its line.
static ls_status judge_evaluation(local *self, int64_t before, int64_t step) {
  const ls_train_and_evaluation *made = self->evaluator.out;
  ls_ranks *ranks = &self->evaluator.ranks;
  ls_status status = ls_ok();
  if (made->num_evaluations > before && ls_ranks_own(ranks) == 0) {
    status = judges_count(&self->judges, made->metrics, step);
    if (ls_status_is_ok(status)) status = add_line(self, step);
  }
  LS_RETURN_IF_ERROR(ls_ranks_agree(ranks, status));
  return ls_ranks_send(ranks, &self->judges, sizeof(self->judges));
}

// Returns true if the training was stopped before the evaluation of a
// checkpoint that the judges wait for.
static bool has_missed(const local *self, int64_t step) {
  const ls_opt every = ls_estimator_run_values(self->evaluator.estimator)
                           ->save_checkpoints_steps;
  // The line of an evaluation is cut off where a training goes on.
  const bool waits =
      self->train->lines.metrics || step > self->judges.keep.state.step;
  return judges_any(&self->judges) && step > 0 && waits && every.set &&
         every.value > 0 && step % every.value == 0 && self->throttle <= 0;
}

// Evaluates now, unless a stop was requested, which would end the evaluation
// early.
static ls_status evaluate_now(local *self, int64_t step) {
  bool is_new = false, stops = ls_train_stop_requested(self->train->stop);
  ls_ranks *ranks = &self->evaluator.ranks;
  LS_RETURN_IF_ERROR(ls_ranks_any(ranks, stops, &stops));
  if (stops) return ls_ok();
  const int64_t before = self->evaluator.out->num_evaluations;
  LS_RETURN_IF_ERROR(eval_rounds_run(&self->evaluator, &is_new));
  self->last = ls_runtime_now(self->runtime);
  self->evaluated = step;
  return is_new ? judge_evaluation(self, before, step)
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
    if (!has_missed(self, step)) return ls_ok();
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
  if (!self->between) {
    LS_RETURN_IF_ERROR(evaluate_now(self, step));
    *out_stop = self->judges.stop.state.is_over;
    return ls_ok();
  }
  self->wants = self->pauses = true;
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
  return ls_estimator_train_part(
      self->evaluator.estimator,
      &(ls_estimator_training){
          .input = self->train->input,
          .max_steps = self->train->max_steps,
          .hooks = self->train->hooks,
          .num_hooks = self->train->num_hooks,
          .listeners = listeners,
          .num_listeners = count,
          .stop = self->train->stop,
          .overwrite = self->train->overwrite && !self->has_first,
          .lines = self->train->lines,
          .is_evaluated = self->evaluated >= 0 ||
                          !has_missed(self, self->evaluator.out->training.step),
          .continues_input = self->evaluator.out->training.has_loss,
          .kept_step = judges_any(&self->judges)
                           ? &self->judges.keep.state.best_step
                           : NULL},
      &self->pauses, end);
}

// Trains in parts; each part continues where the previous one was stopped for
// an evaluation.
static ls_status train_in_parts(local *self, const ls_save_listener *listeners,
                                size_t count, ls_training_end *end) {
  do {
    ls_training_end part = {0};
    self->wants = self->pauses = false;
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
  } while (self->pauses && !end->stopped && !end->input_ended &&
           !self->judges.stop.state.is_over &&
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

static ls_status find_missed(const local *self, int64_t step,
                             bool *out_missed) {
  LS_OWN(ls_text, folder) = {0};
  LS_OWN(ls_event_numbers, numbers) = NULL;
  LS_RETURN_IF_ERROR(ls_print_eval_folder(
      self->evaluator.estimator, self->evaluator.eval->name, &folder));
  LS_RETURN_IF_ERROR(ls_events_read(ls_text_data(&folder), "loss", &numbers));
  *out_missed = true;
  for (size_t i = 0; i < numbers->count; ++i)
    *out_missed &= numbers->items[i].step != step;
  return ls_ok();
}

// Evaluates the last step if it was made by an earlier call, which was stopped
// before it could evaluate it.
static ls_status evaluate_missed(local *self) {
  const ls_training_end *end = &self->evaluator.out->training;
  const ls_opt max_steps = self->train->max_steps;
  ls_ranks *ranks = &self->evaluator.ranks;
  ls_status status = ls_ok();
  bool is_missed = false;
  if (end->has_loss || self->evaluated >= 0 || !max_steps.set ||
      end->step < max_steps.value || (!self->between && !self->leads))
    return ls_ok();
  if (ls_ranks_own(ranks) == 0)
    status = find_missed(self, end->step, &is_missed);
  LS_RETURN_IF_ERROR(ls_ranks_agree(ranks, status));
  LS_RETURN_IF_ERROR(ls_ranks_send(ranks, &is_missed, sizeof(is_missed)));
  return is_missed ? evaluate_now(self, end->step) : ls_ok();
}

// Lets exporters of the final model have it where no max_steps says which it
// is, but the end of the training.
static ls_status export_final(const local *self) {
  const eval_rounds *evaluator = &self->evaluator;
  const ls_train_and_evaluation *out = evaluator->out;
  const ls_exporter_call call = {.checkpoint = evaluator->previous,
                                 .metrics = out->metrics,
                                 .evaluation = evaluator->eval->name,
                                 .is_final = true};
  if (self->train->max_steps.set ||
      ls_train_stop_requested(self->train->stop) ||
      ls_params_i64(out->metrics, "global_step", -1) != out->training.step)
    return ls_ok();
  for (size_t i = 0; i < out->num_exports; ++i) {
    ls_exporter *exporter = evaluator->eval->exporters[i];
    if (ls_exporter_is_for_end(exporter))
      LS_RETURN_IF_ERROR(ls_exporter_export(exporter, evaluator->estimator,
                                            &call, &out->exports[i]));
  }
  return ls_ok();
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

// Lets the judges recall evaluations of the checkpoint's steps; rank 0 does for
// all.
static ls_status recall(local *self, int64_t *out_step) {
  const ls_eval_spec *eval = self->evaluator.eval;
  const ls_estimator *estimator = self->evaluator.estimator;
  LS_OWN(ls_ranks, ranks) = {0};
  const ls_plan *plan = NULL;
  LS_RETURN_IF_ERROR(judges_init(&self->judges, eval));
  if (!judges_any(&self->judges)) return ls_ok();
  LS_RETURN_IF_ERROR(
      ls_plans_get(estimator->plans, LS_MODE_TRAIN, false, &plan));
  if (ls_plan_ranks(plan) != NULL)
    LS_RETURN_IF_ERROR(
        ls_ranks_init(&ranks, self->runtime, "evaluations of an estimator", 0));
  ls_status status = ls_ok();
  *out_step = -1;
  if (ls_ranks_own(&ranks) == 0 && !self->train->overwrite) {
    status = ls_estimator_whole_step(estimator, false, out_step);
    if (ls_status_is_ok(status))
      status = judges_recall(&self->judges, estimator, eval->name, *out_step);
  }
  LS_RETURN_IF_ERROR(ls_ranks_agree(&ranks, status));
  LS_RETURN_IF_ERROR(ls_ranks_send(&ranks, out_step, sizeof(*out_step)));
  return ls_ranks_send(&ranks, &self->judges, sizeof(self->judges));
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
                .throttle = eval_rounds_throttle(eval),
                .evaluated = -1};
  LS_OWN(ls_ranks, ranks) = {0};
  ls_run_folder_init(&self.folder, estimator->runtime, estimator->model_dir);
  ls_status status = ls_estimator_meet_ranks(
      estimator,
      &(ls_estimator_training){.max_steps = train->max_steps,
                               .overwrite = train->overwrite,
                               .lines = train->lines},
      eval, &ranks);
  if (ls_status_is_ok(status)) status = find_ways(estimator, &self);
  if (ls_status_is_ok(status)) status = recall(&self, &out->training.step);
  if (ls_status_is_ok(status) && !self.judges.stop.state.is_over)
    status = run_local(&self, &out->training);
  if (ls_status_is_ok(status)) status = evaluate_missed(&self);
  if (ls_status_is_ok(status)) status = export_final(&self);
  const ls_judge *judge = self.judges.stop.metric.name[0] != '\0'
                              ? &self.judges.stop
                              : &self.judges.keep;
  out->best_step = judge->state.best_step;
  out->best = judge->state.best;
  out->stopped_early = self.judges.stop.state.is_over;
  eval_rounds_deinit(&self.evaluator);
  ls_run_folder_deinit(&self.folder);
  return ls_status_join(status, ls_run_events_close(&self.events));
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
  if (!eval_rounds_wait(estimator->runtime, ls_nanos_of_seconds(delay),
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
                               .stop = train->stop,
                               .overwrite = train->overwrite,
                               .lines = train->lines},
      &out->training);
}

static ls_status evaluate_alone(ls_estimator *estimator,
                                const ls_train_spec *train,
                                const ls_eval_spec *eval,
                                ls_train_and_evaluation *out) {
  const int32_t index = ls_estimator_run_values(estimator)->task_id;
  if (index > 0)
    return ls_invalid_argument(
        "evaluator %d: there can only be one evaluator, of index 0",
        (int)index);
  eval_rounds evaluator = {.estimator = estimator,
                           .eval = eval,
                           .max_steps = train->max_steps,
                           .stop = train->stop,
                           .out = out};
  const ls_status status = eval_rounds_go_on(&evaluator);
  eval_rounds_deinit(&evaluator);
  return status;
}

static ls_status train_and_evaluate_run(ls_estimator *estimator,
                                        const ls_train_spec *train,
                                        const ls_eval_spec *eval,
                                        ls_train_and_evaluation *out) {
  const ls_run_values *config = ls_estimator_run_values(estimator);
  const char *task = config->task_type;
  const bool alone = config->cluster == NULL || config->cluster->num_jobs == 0;
  const bool evaluates = strcmp(task, "evaluator") == 0;
  if (!evaluates && (alone || strcmp(task, "master") == 0))
    return train_and_evaluate(estimator, train, eval, out);
  if (eval->stop_early != NULL || eval->keep_best != NULL)
    return ls_unimplemented(
        "stop_early and keep_best of an evaluation in task '%s': they are for "
        "trainings in one process; ls_early_stopping_hook ends others",
        task);
  if (evaluates) return evaluate_alone(estimator, train, eval, out);
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
  eval_rounds_drop_exports(result);
  *result = (ls_train_and_evaluation){0};
}

ls_status ls_train_and_evaluate(ls_estimator *estimator,
                                const ls_train_spec *train,
                                const ls_eval_spec *eval,
                                ls_train_and_evaluation *out_result) {
  ls_train_and_evaluation result = {0};
  if (out_result != NULL) *out_result = result;
  LS_REQUIRE(estimator, train, eval);
  LS_RETURN_IF_ERROR(train_and_evaluate_check(train, eval));
  const ls_status status =
      train_and_evaluate_run(estimator, train, eval, &result);
  if (ls_status_is_ok(status) && out_result != NULL)
    *out_result = result;
  else
    ls_train_and_evaluation_deinit(&result);
  return status;
}
