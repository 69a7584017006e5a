// SPDX-License-Identifier: Apache-2.0
#include "base/threads/timers.h"

#include "base/runtime_internal.h"

void ls_timer_set(ls_runtime *runtime, ls_timer *timer, int64_t nanos) {
  ls_timers *self = &runtime->timers;
  const int64_t now = ls_runtime_now(runtime);
  timer->due = nanos < INT64_MAX - now ? now + nanos : INT64_MAX;
  ls_mutex_lock(&self->lock);
  ls_timer **at = &self->first;
  while (*at != NULL && (*at)->due <= timer->due)
    at = &(*at)->next;
  timer->next = *at;
  *at = timer;
  ls_mutex_unlock(&self->lock);
}

bool ls_timer_clear(ls_runtime *runtime, ls_timer *timer) {
  ls_timers *self = &runtime->timers;
  ls_mutex_lock(&self->lock);
  ls_timer **at = &self->first;
  while (*at != NULL && *at != timer)
    at = &(*at)->next;
  const bool is_there = *at != NULL;
  if (is_there) *at = timer->next;
  ls_mutex_unlock(&self->lock);
  return is_there;
}

int64_t ls_timers_left(ls_runtime *runtime) {
  ls_timers *self = &runtime->timers;
  ls_mutex_lock(&self->lock);
  const int64_t due = self->first != NULL ? self->first->due : INT64_MAX;
  ls_mutex_unlock(&self->lock);
  if (due == INT64_MAX) return due;
  const int64_t left = due - ls_runtime_now(runtime);
  return left > 0 ? left : 0;
}

bool ls_timers_skip(ls_runtime *runtime) {
  enum { LOOK_NANOS = 20 * 1000 * 1000 };
  const int64_t left = ls_timers_left(runtime);
  if (left == INT64_MAX || runtime->clock.sleep == ls_clock_system()->sleep)
    return false;
  ls_runtime_sleep(runtime, left < LOOK_NANOS ? left : LOOK_NANOS);
  return ls_timers_left(runtime) < left;
}

void ls_timers_call(ls_runtime *runtime) {
  ls_timers *self = &runtime->timers;
  for (;;) {
    const int64_t now = ls_runtime_now(runtime);
    ls_mutex_lock(&self->lock);
    ls_timer *timer = self->first;
    const bool is_due = timer != NULL && timer->due <= now;
    if (is_due) self->first = timer->next;
    ls_mutex_unlock(&self->lock);
    if (!is_due) return;
    timer->fn(timer);
  }
}
