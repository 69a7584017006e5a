// SPDX-License-Identifier: Apache-2.0
// Stops at a step; waits for one.
#include "base/require.h"
#include "train/hooks/hook.h"

// ---- Stopping --------------------------------------------------------------
typedef struct stop_at {
  ls_opt num_steps, last_step;
  int64_t last;  // -1: not known yet.
} stop_at;

// So many steps are counted from the first session on, also in a later one.
static ls_status stop_after_create(void *user, ls_run_context *context) {
  stop_at *self = user;
  int64_t now = 0;
  if (self->last >= 0) return ls_ok();
  LS_RETURN_IF_ERROR(ls_run_context_steps(context, &now));
  self->last = ls_steps_after(now, self->num_steps.value);
  return ls_ok();
}

static ls_status stop_before_run(void *user, ls_run_context *context,
                                 ls_run_wish *wish) {
  wish->most_steps = ((stop_at *)user)->last - context->steps;
  return ls_ok();
}

// What was read in the run may be from before its step, so where that would be
// the last one it is read again.
static ls_status stop_after_run(void *user, ls_run_context *context,
                                ls_nest results) {
  const stop_at *self = user;
  int64_t now = context->steps;
  (void)results;
  if (now < self->last - 1) return ls_ok();
  LS_RETURN_IF_ERROR(ls_run_context_steps(context, &now));
  if (now >= self->last) ls_run_context_request_stop(context);
  return ls_ok();
}

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
  stop_at *self = ls_hook_state(sizeof(*self));
  if (self == NULL) return ls_out_of_memory();
  *self = (stop_at){num_steps, last_step, last_step.set ? last_step.value : -1};
  return ls_hook_of_steps(
      &(ls_hook_options){.name = "stop at step",
                         .user = self,
                         .after_create_session = stop_after_create,
                         .before_run = stop_before_run,
                         .after_run = stop_after_run,
                         .destroy = ls_hook_free},
      false, out_hook);
}

// ---- Waiting ---------------------------------------------------------------
typedef struct waiter {
  int64_t until;
  bool done;
} waiter;

static ls_status wait_before_run(void *user, ls_run_context *context,
                                 ls_run_wish *wish) {
  enum { LOOK_NANOS = 500 * 1000 * 1000 };
  waiter *self = user;
  (void)wish;
  while (!self->done && self->until > 0 &&
         !ls_run_context_stop_requested(context)) {
    int64_t now = 0;
    LS_RETURN_IF_ERROR(ls_run_context_steps(context, &now));
    self->done = now >= self->until;
    if (!self->done) ls_runtime_sleep(context->runtime, LOOK_NANOS);
  }
  return ls_ok();
}

ls_status ls_wait_for_step_hook(int64_t step, ls_hook **out_hook) {
  LS_REQUIRE_OUT(out_hook);
  waiter *self = ls_hook_state(sizeof(*self));
  if (self == NULL) return ls_out_of_memory();
  *self = (waiter){.until = step};
  return ls_hook_of_steps(&(ls_hook_options){.name = "wait for step",
                                             .user = self,
                                             .before_run = wait_before_run,
                                             .destroy = ls_hook_free},
                          true, out_hook);
}
