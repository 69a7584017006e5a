// SPDX-License-Identifier: Apache-2.0
#include "base/require.h"
#include "base/runtime_internal.h"
#include "lockstep/hook.h"

ls_status ls_step_timer_begin(ls_step_timer *timer, ls_opt every_steps,
                              ls_opt every_seconds) {
  LS_REQUIRE(timer);
  if (every_steps.set && every_seconds.set)
    return ls_invalid_argument("a timer of each %lld steps and of each %lld "
                               "seconds: one of the two is possible",
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
