// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "base/require.h"
#include "base/threads/poller.h"
#include "estimator/config/setting.h"
#include "estimator/config/state.h"
#include "lockstep/shutdown_hooks.h"
#include "tpu/pod/pod.h"

enum { MOST_SECONDS = 60, ANSWER_SECONDS = 5 };
static const int64_t SECOND = INT64_C(1000000000);

typedef struct ls_watchdog {
  ls_allocator *allocator;
  ls_runtime *runtime;
  ls_pod *pod;
  ls_poller *poller;
} ls_watchdog;

// ---- One watchdog ----------------------------------------------------------
static bool ping(ls_poller *poller, void *user) {
  const ls_watchdog *self = user;
  for (int32_t i = 0; i < ls_pod_num_hosts(self->pod); ++i) {
    ls_pod_health health;
    if (ls_poller_is_stopped(poller)) return false;
    const ls_status status =
        ls_pod_ask_health(self->pod, i, ANSWER_SECONDS * SECOND, &health);
    if (!ls_status_is_ok(status))
      ls_runtime_log(self->runtime, LS_LOG_DEBUG, "estimator",
                     "the watchdog goes on: %s", ls_status_message(status));
    ls_status_free(status);
  }
  return true;
}

static void end_watchdog(ls_watchdog *self) {
  if (self == NULL) return;
  ls_poller_stop(self->poller);
  if (self->pod != NULL) ls_status_free(ls_pod_watch(self->pod, 0));
  ls_pod_release(self->pod);
  ls_release(self->allocator, self);
}

static ls_status make(ls_runtime *runtime, ls_tpu_resolver *resolver,
                      int64_t timeout_nanos, ls_watchdog **out) {
  const int64_t tenth = timeout_nanos / 10;
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  ls_watchdog *self = ls_new(allocator, ls_watchdog);
  if (self == NULL) return ls_out_of_memory();
  self->allocator = allocator;
  self->runtime = runtime;
  ls_status status = ls_tpu_pod(resolver, &self->pod);
  if (ls_status_is_ok(status)) status = ls_pod_watch(self->pod, timeout_nanos);
  if (ls_status_is_ok(status))
    status = ls_poller_start(
        "watchdog",
        tenth < MOST_SECONDS * SECOND ? tenth : MOST_SECONDS * SECOND, ping,
        self, &self->poller);
  if (ls_status_is_ok(status))
    *out = self;
  else
    end_watchdog(self);
  return status;
}

// ---- The runtime's ---------------------------------------------------------
// Of a system that was shut down it has nothing to do any more.
static bool is_at_work(ls_runtime *runtime, const ls_watchdog *self) {
  if (self == NULL) return false;
  ls_pod *there = ls_pod_find(runtime, self->pod->name, self->pod->job);
  ls_object_release(there);
  return there == self->pod;
}

// With the runtime's lock held, so that there is one. The one before is the
// caller's, who ends it without the lock, for which its thread may wait.
static ls_status start(ls_runtime *runtime, ls_tpu_resolver *resolver,
                       int64_t seconds, ls_watchdog **out_before,
                       bool *out_begun) {
  ls_estimator_state *state = ls_estimator_state_get(runtime);
  if (state == NULL) return ls_out_of_memory();
  if (is_at_work(runtime, state->watchdog)) return ls_ok();
  *out_before = state->watchdog;
  state->watchdog = NULL;
  *out_begun = true;
  state->end_watchdog = end_watchdog;
  return make(runtime, resolver, seconds * SECOND, &state->watchdog);
}

ls_status ls_watchdog_start(ls_tpu_resolver *resolver,
                            int64_t timeout_seconds) {
  LS_REQUIRE(resolver);
  ls_runtime *runtime = ls_runtime_current();
  if (timeout_seconds < 1 || timeout_seconds > INT32_MAX)
    return ls_invalid_argument("a watchdog of %lld seconds: expected 1 to %d",
                               (long long)timeout_seconds, INT32_MAX);
  ls_watchdog *before = NULL;
  bool begun = false;
  ls_runtime_lock(runtime);
  const ls_status status =
      start(runtime, resolver, timeout_seconds, &before, &begun);
  ls_runtime_unlock(runtime);
  end_watchdog(before);
  if (begun && ls_status_is_ok(status))
    ls_runtime_log(runtime, LS_LOG_INFO, "estimator",
                   "watchdog of %lld seconds: hosts are asked how they are",
                   (long long)timeout_seconds);
  return status;
}

ls_status ls_watchdog_start_by_environment(ls_tpu_resolver *resolver) {
  LS_REQUIRE(resolver);
  ls_setting setting;
  ls_setting_read(ls_runtime_current(), "TF_TPU_WATCHDOG_TIMEOUT", &setting);
  if (setting.value == NULL) return ls_ok();
  char *end = NULL;
  const long long seconds = strtoll(setting.value, &end, 10);
  if (end == setting.value || *end != '\0' || seconds < 0 ||
      seconds > INT32_MAX)
    return ls_invalid_argument("%s is '%s', expected a number of seconds, 0 "
                               "to %d",
                               setting.name, setting.value, INT32_MAX);
  return seconds == 0 ? ls_ok() : ls_watchdog_start(resolver, seconds);
}

void ls_watchdog_stop(void) {
  ls_runtime *runtime = ls_runtime_current();
  ls_runtime_lock(runtime);
  ls_estimator_state *state = ls_runtime_slot(runtime, LS_SLOT_ESTIMATOR);
  ls_watchdog *watchdog = state != NULL ? state->watchdog : NULL;
  if (watchdog != NULL) state->watchdog = NULL;
  ls_runtime_unlock(runtime);
  end_watchdog(watchdog);
}
