// SPDX-License-Identifier: Apache-2.0
// Stops at a step; waits for one.
#include "base/require.h"
#include "train/hooks/hook.h"

// ---- Stopping --------------------------------------------------------------
typedef struct stop_at {
  ls_opt num_steps;
  int64_t last;  // -1: not known yet.
} stop_at;

// Counts so many steps from the first session on, also in a later one.
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

// What was read in the run may be from before its step, so where that would be
// the last one it is read again.
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
