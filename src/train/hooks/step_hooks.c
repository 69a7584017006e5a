// SPDX-License-Identifier: Apache-2.0
// Hooks about steps: stopping at a step, waiting for one, counting; and the
// timers that say when hooks are due.
#include "base/plain.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "lockstep/hook.h"
#include "train/hooks/hook.h"

// ---- Timers ----------------------------------------------------------------
ls_status ls_step_timer_begin(ls_step_timer *timer, ls_opt every_steps,
                              ls_opt every_seconds) {
  LS_REQUIRE(timer);
  if (every_steps.set && every_seconds.set)
    return ls_invalid_argument("a timer with an interval of %lld steps and of "
                               "%lld seconds: set one of the two",
                               (long long)every_steps.value,
                               (long long)every_seconds.value);
  if (every_steps.value < 0 || every_seconds.value < 0)
    return ls_invalid_argument(
        "a timer of each %lld %s: at least 0 is possible",
        (long long)(every_steps.set ? every_steps : every_seconds).value,
        every_steps.set ? "steps" : "seconds");
  *timer = (ls_step_timer){
      .every_steps = every_steps.set ? every_steps.value : 0,
      .every_seconds = every_seconds.set ? (double)every_seconds.value : 0,
      .last_step = -1};
  return ls_ok();
}

static double seconds_since(const ls_step_timer *timer) {
  return (double)(ls_runtime_now(ls_runtime_current()) - timer->last_moment) *
         1e-9;
}

bool ls_step_timer_is_due(const ls_step_timer *timer, int64_t step) {
  const bool is_used = timer->every_steps > 0 || timer->every_seconds > 0;
  if (timer->last_step < 0) return is_used;
  if (timer->last_step == step || !is_used) return false;
  return timer->every_steps > 0 ? step - timer->last_step >= timer->every_steps
                                : seconds_since(timer) >= timer->every_seconds;
}

bool ls_step_timer_done(ls_step_timer *timer, int64_t step, double *out_seconds,
                        int64_t *out_steps) {
  const bool was_done = timer->last_step >= 0;
  if (was_done && out_seconds != NULL) *out_seconds = seconds_since(timer);
  if (was_done && out_steps != NULL) *out_steps = step - timer->last_step;
  timer->last_step = step;
  timer->last_moment = ls_runtime_now(ls_runtime_current());
  return was_done;
}

// ---- Stopping --------------------------------------------------------------
typedef struct stop_at {
  ls_opt num_steps;
  int64_t last;  // The last step; -1: not known yet.
} stop_at;

// Computes the last step in the first session; later sessions keep it.
static ls_status stop_after_create(void *state, ls_run_context *context) {
  stop_at *self = state;
  if (self->last < 0)
    self->last = ls_steps_after(context->steps, self->num_steps.value);
  return ls_ok();
}

static ls_status stop_before_run(void *state, ls_run_context *context,
                                 ls_run_wish *wish) {
  wish->most_steps = ((stop_at *)state)->last - context->steps;
  return ls_ok();
}

// The step read in a run may be from before the run's own update, so reads the
// current one if that could be the last.
static ls_status stop_after_run(void *state, ls_run_context *context,
                                ls_nest results) {
  const stop_at *self = state;
  int64_t step = context->steps;
  (void)results;
  if (step < self->last - 1) return ls_ok();
  LS_RETURN_IF_ERROR(ls_run_context_steps(context, &step));
  if (step >= self->last) ls_run_context_request_stop(context);
  return ls_ok();
}

static const ls_hook_type stop_type = {.name = "stop at step",
                                       .size = sizeof(stop_at),
                                       .counts = true,
                                       .after_create_session =
                                           stop_after_create,
                                       .before_run = stop_before_run,
                                       .after_run = stop_after_run};

ls_status ls_stop_at_step_hook(ls_opt num_steps, ls_opt last_step,
                               ls_hook **out_hook) {
  LS_REQUIRE_OUT(out_hook);
  if (num_steps.set == last_step.set)
    return ls_invalid_argument(
        "a hook that stops at a step: %s",
        num_steps.set ? "Only one of num_steps and last_step can be given"
                      : "One of num_steps and last_step must be given");
  const ls_opt given = num_steps.set ? num_steps : last_step;
  if (given.value < 0)
    return ls_invalid_argument("a hook that stops at %lld steps: %s is below 0",
                               (long long)given.value,
                               num_steps.set ? "num_steps" : "last_step");
  const int64_t last = last_step.set ? last_step.value : -1;
  return ls_hook_make(&stop_type, &(stop_at){num_steps, last}, out_hook);
}

// ---- Waiting ---------------------------------------------------------------
typedef struct waiter {
  int64_t until;
  bool is_done;
} waiter;

static ls_status wait_before_run(void *state, ls_run_context *context,
                                 ls_run_wish *wish) {
  enum { LOOK_NANOS = 500 * 1000 * 1000 };
  waiter *self = state;
  (void)wish;
  while (!self->is_done && self->until > 0 &&
         !ls_run_context_stop_requested(context)) {
    LS_RETURN_IF_ERROR(ls_run_context_steps(context, &context->steps));
    self->is_done = context->steps >= self->until;
    if (!self->is_done) ls_runtime_sleep(context->runtime, LOOK_NANOS);
  }
  return ls_ok();
}

static const ls_hook_type wait_type = {.name = "wait for step",
                                       .size = sizeof(waiter),
                                       .counts = true,
                                       .needs_session = true,
                                       .before_run = wait_before_run};

ls_status ls_wait_for_step_hook(int64_t step, ls_hook **out_hook) {
  LS_REQUIRE_OUT(out_hook);
  return ls_hook_make(&wait_type, &(waiter){.until = step}, out_hook);
}

// ---- Counting --------------------------------------------------------------
typedef struct counter {
  ls_counter_hook_options options;
  ls_step_timer timer;
  int64_t last;  // The step read by the last run; -1: none.
  int num_warnings;
  char tag[80];
} counter;

static ls_status counter_begin(void *state) {
  ((counter *)state)->timer.last_step = -1;
  return ls_ok();
}

static ls_status counter_after_create(void *state, ls_run_context *context) {
  counter *self = state;
  ls_variable *variable = NULL;
  if (context->graph != NULL)
    LS_RETURN_IF_ERROR(ls_global_step_get(context->graph, &variable));
  ls_format(self->tag, sizeof(self->tag), "%s/sec",
            variable != NULL ? ls_variable_name(variable) : "global_step");
  self->last = -1;
  return ls_ok();
}

static ls_status counter_report(const counter *self,
                                const ls_run_context *context, const char *tag,
                                int64_t step, double value) {
  ls_runtime_log(context->runtime, LS_LOG_INFO, "train", "%s: %g", tag, value);
  return self->options.writer == NULL
             ? ls_ok()
             : ls_event_writer_scalar(self->options.writer, tag, step, value);
}

static ls_status counter_count(counter *self, const ls_run_context *context) {
  double seconds = 0;
  int64_t step = 0, steps = 0;
  LS_RETURN_IF_ERROR(ls_run_context_steps(context, &step));
  if (!ls_step_timer_is_due(&self->timer, step) ||
      !ls_step_timer_done(&self->timer, step, &seconds, &steps) || seconds <= 0)
    return ls_ok();
  const double speed = (double)steps / seconds;
  LS_RETURN_IF_ERROR(counter_report(self, context, self->tag, step, speed));
  return self->options.batch_size > 0
             ? counter_report(self, context, "examples/sec", step,
                              speed * self->options.batch_size)
             : ls_ok();
}

static ls_status counter_after_run(void *state, ls_run_context *context,
                                   ls_nest results) {
  enum { MOST_WARNINGS = 5 };
  counter *self = state;
  const int64_t read = context->steps;
  (void)results;
  if (ls_step_timer_is_due(&self->timer,
                           read + self->options.steps_per_run.value))
    LS_RETURN_IF_ERROR(counter_count(self, context));
  if (read == self->last && self->num_warnings < MOST_WARNINGS) {
    ++self->num_warnings;
    ls_runtime_log(context->runtime, LS_LOG_WARNING, "train",
                   "the global step has not grown in a run: it is still %lld "
                   "(does the train op add to it?)",
                   (long long)read);
  }
  self->last = read;
  return ls_ok();
}

static const ls_hook_type counter_type = {.name = "step counter",
                                          .size = sizeof(counter),
                                          .counts = true,
                                          .begin = counter_begin,
                                          .after_create_session =
                                              counter_after_create,
                                          .after_run = counter_after_run};

ls_status ls_counter_hook(const ls_counter_hook_options *options,
                          ls_hook **out_hook) {
  LS_REQUIRE_OUT(out_hook);
  counter self = {.last = -1};
  if (options != NULL) self.options = *options;
  if (!self.options.every_steps.set && !self.options.every_seconds.set)
    self.options.every_steps = LS_SOME(100);
  if (!self.options.steps_per_run.set) self.options.steps_per_run = LS_SOME(1);
  LS_RETURN_IF_ERROR(ls_step_timer_begin(&self.timer, self.options.every_steps,
                                         self.options.every_seconds));
  return ls_hook_make(&counter_type, &self, out_hook);
}
