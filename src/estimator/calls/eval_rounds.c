// SPDX-License-Identifier: Apache-2.0
//
// Evaluates checkpoints while a training writes them.
#include "estimator/calls/estimator.h"

#include <string.h>

#include "base/runtime_internal.h"
#include "estimator/config/config.h"

enum {
  SECOND = 1000000000,
  STEPS = 100,
  START_DELAY = 120,
  THROTTLE = 600,
  WARN_EACH = 600,
};

int64_t ls_eval_rounds_throttle(const ls_eval_spec *eval) {
  return ls_nanos_of_seconds(eval->throttle_secs.set ? eval->throttle_secs.value
                                                     : THROTTLE);
}

bool ls_eval_rounds_wait(const ls_runtime *runtime, int64_t nanos,
                         const ls_train_stop *stop) {
  const int64_t until = ls_runtime_now(runtime) + nanos;
  for (;;) {
    const int64_t left = until - ls_runtime_now(runtime);
    if (ls_train_stop_requested(stop)) return false;
    if (left <= 0) return true;
    ls_runtime_sleep(runtime, left < SECOND ? left : SECOND);
  }
}

void ls_eval_rounds_drop_exports(ls_train_and_evaluation *result) {
  for (size_t i = 0; i < result->num_exports; ++i)
    ls_text_release(result->exports[i]);
  ls_release(ls_current_allocator(), result->exports);
  result->exports = NULL;
  result->num_exports = 0;
}

void ls_eval_rounds_deinit(ls_eval_rounds *self) {
  ls_text_release(self->previous);
  ls_ranks_deinit(&self->ranks);
}

// ---- One evaluation --------------------------------------------------------
static bool is_final(const ls_eval_rounds *self) {
  return self->max_steps.set && self->step >= self->max_steps.value;
}

static ls_status export_all(ls_eval_rounds *self, const char *checkpoint) {
  ls_train_and_evaluation *out = self->out;
  // Rank 0 writes the exports.
  const size_t count =
      ls_ranks_own(&self->ranks) == 0 ? self->eval->num_exporters : 0;
  out->exports = ls_new_array(ls_current_allocator(), char *, count + 1);
  if (out->exports == NULL) return ls_out_of_memory();
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

static ls_status eval_rounds_evaluate(ls_eval_rounds *self,
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
  ls_eval_rounds_drop_exports(self->out);
  self->out->metrics = ls_give(&metrics);
  ++self->out->num_evaluations;
  return export_all(self, checkpoint);
}

// Finds the step of the newest intact checkpoint; -1: there is none, or no new
// one. Looks only if the newest checkpoint's name has changed, because finding
// an intact one reads whole files.
static ls_status find_new(ls_eval_rounds *self, int64_t *out_step) {
  int64_t newest = -1;
  LS_RETURN_IF_ERROR(ls_estimator_newest_step(self->estimator, &newest));
  if (newest < 0 || (self->previous != NULL && newest == self->newest))
    return ls_ok();
  LS_RETURN_IF_ERROR(ls_estimator_whole_step(self->estimator, true, out_step));
  self->newest = newest;
  return ls_ok();
}

// Rank 0 finds the checkpoint for all.
ls_status ls_eval_rounds_run(ls_eval_rounds *self, bool *out_is_new) {
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

// ---- Rounds ----------------------------------------------------------------
static void warn_of_checkpoint(ls_eval_rounds *self) {
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

ls_status ls_eval_rounds_go_on(ls_eval_rounds *self) {
  const ls_runtime *runtime = self->estimator->runtime;
  const ls_opt delay = self->eval->start_delay_secs;
  const int64_t throttle = ls_eval_rounds_throttle(self->eval);
  int64_t wait = ls_nanos_of_seconds(delay.set ? delay.value : START_DELAY);
  while (ls_eval_rounds_wait(runtime, wait, self->stop)) {
    const int64_t began = ls_runtime_now(runtime);
    bool is_new = false;
    LS_RETURN_IF_ERROR(ls_eval_rounds_run(self, &is_new));
    if (is_new && is_final(self)) return ls_ok();
    if (!is_new) warn_of_checkpoint(self);
    wait = throttle - (ls_runtime_now(runtime) - began);
    // Waits at least a second for a new checkpoint, even without throttling.
    if (!is_new && wait < SECOND) wait = SECOND;
  }
  return ls_ok();
}
