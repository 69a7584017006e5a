// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "base/threads/worker.h"
#include "estimator/config/config.h"
#include "lockstep/shutdown_hooks.h"
#include "tpu/system/resolver.h"

enum { MOST_SECONDS = 60, ANSWER_SECONDS = 5 };
static const int64_t SECOND = INT64_C(1000000000);

typedef struct ls_watchdog {
  struct ls_watchdog *next;  // Next in the runtime's list.
  ls_allocator *allocator;
  ls_runtime *runtime;
  ls_pod *pod;
  ls_worker worker;
} ls_watchdog;

// ---- One watchdog ----------------------------------------------------------
static bool ping_watchdog(void *user) {
  const ls_watchdog *self = user;
  if (ls_pod_is_gone(self->pod)) return false;
  for (int32_t i = 0; i < ls_pod_num_hosts(self->pod); ++i) {
    ls_pod_health health;
    if (ls_worker_is_stopped(&self->worker)) return false;
    const ls_status status =
        ls_pod_ask_health(self->pod, i, ANSWER_SECONDS * SECOND, &health);
    if (!ls_status_is_ok(status))
      ls_runtime_log(self->runtime, LS_LOG_DEBUG, "estimator",
                     "the watchdog continues: %s", ls_status_message(status));
    ls_status_free(status);
  }
  return true;
}

static void destroy_watchdog(ls_watchdog *self) {
  ls_worker_join(&self->worker);
  if (self->pod != NULL) ls_status_free(ls_pod_watch(self->pod, 0));
  ls_pod_release(self->pod);
  ls_release(self->allocator, self);
}

LS_OWNED_POINTER(ls_watchdog, destroy_watchdog)

// Ends a list of watchdogs, which may be NULL.
static void end_watchdogs(ls_watchdog *first) {
  while (first != NULL) {
    ls_watchdog *next = first->next;
    destroy_watchdog(first);
    first = next;
  }
}

static ls_status watchdog_make(ls_runtime *runtime, ls_tpu_resolver *resolver,
                               int64_t timeout_nanos, ls_watchdog **out) {
  const int64_t tenth = timeout_nanos / 10;
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  LS_OWN_NEW_OR_RETURN(allocator, ls_watchdog, self);
  self->allocator = allocator;
  self->runtime = runtime;
  LS_RETURN_IF_ERROR(ls_tpu_pod(resolver, &self->pod));
  LS_RETURN_IF_ERROR(ls_pod_watch(self->pod, timeout_nanos));
  LS_RETURN_IF_ERROR(ls_worker_every(
      &self->worker, "watchdog", runtime,
      tenth < MOST_SECONDS * SECOND ? tenth : MOST_SECONDS * SECOND,
      ping_watchdog, self));
  return ls_hand_over(&self, out);
}

// ---- The runtime's list ----------------------------------------------------
// Returns false if the watchdog's system was shut down, so that the watchdog is
// idle.
static bool is_at_work(ls_runtime *runtime, const ls_watchdog *self) {
  ls_pod *there = ls_pod_find(runtime, self->pod->name, self->pod->job);
  ls_object_release(there);
  return there == self->pod;
}

// Takes the idle watchdogs out of the list and returns them as a list. Requires
// the runtime's lock.
static ls_watchdog *take_idle(ls_runtime *runtime, ls_estimator_state *state) {
  ls_watchdog *idle = NULL;
  for (ls_watchdog **at = &state->watchdogs; *at != NULL;) {
    ls_watchdog *watchdog = *at;
    if (is_at_work(runtime, watchdog)) {
      at = &watchdog->next;
      continue;
    }
    *at = watchdog->next;
    watchdog->next = idle;
    idle = watchdog;
  }
  return idle;
}

static bool is_watched(const ls_estimator_state *state,
                       const ls_system_id *id) {
  const ls_watchdog *at = state->watchdogs;
  while (at != NULL && !ls_system_id_equal(at->pod->id, id))
    at = at->next;
  return at != NULL;
}

// Starts a watchdog unless the system has one. Requires the runtime's lock. The
// caller ends the idle watchdogs without the lock, which their threads may
// need.
static ls_status watchdog_start(ls_runtime *runtime, ls_tpu_resolver *resolver,
                                int64_t seconds, ls_watchdog **out_idle,
                                bool *out_begun) {
  ls_estimator_state *state = ls_estimator_state_get(runtime);
  if (state == NULL) return ls_out_of_memory();
  *out_idle = take_idle(runtime, state);
  if (is_watched(state, resolver->id)) return ls_ok();
  ls_watchdog *made = NULL;
  LS_RETURN_IF_ERROR(watchdog_make(runtime, resolver, seconds * SECOND, &made));
  made->next = state->watchdogs;
  state->end_watchdogs = end_watchdogs;
  state->watchdogs = made;
  *out_begun = true;
  return ls_ok();
}

ls_status ls_watchdog_start(ls_tpu_resolver *resolver,
                            int64_t timeout_seconds) {
  LS_REQUIRE(resolver);
  ls_runtime *runtime = ls_runtime_current();
  if (timeout_seconds < 1 || timeout_seconds > INT32_MAX)
    return ls_invalid_argument("a watchdog of %lld seconds: expected 1 to %d",
                               (long long)timeout_seconds, INT32_MAX);
  ls_watchdog *idle = NULL;
  bool begun = false;
  ls_runtime_lock(runtime);
  const ls_status status =
      watchdog_start(runtime, resolver, timeout_seconds, &idle, &begun);
  ls_runtime_unlock(runtime);
  end_watchdogs(idle);
  if (begun)
    ls_runtime_log(runtime, LS_LOG_INFO, "estimator",
                   "watchdog of %lld seconds: queries the health of the hosts "
                   "of TPU system '%s' of job %s",
                   (long long)timeout_seconds, resolver->id->name,
                   ls_job_text(resolver->id->job));
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
    return ls_invalid_argument(
        "%s is '%s', expected a number of seconds, 0 to %d", setting.name,
        setting.value, INT32_MAX);
  return seconds == 0 ? ls_ok() : ls_watchdog_start(resolver, seconds);
}

void ls_watchdog_stop(void) {
  ls_runtime *runtime = ls_runtime_current();
  ls_runtime_lock(runtime);
  ls_estimator_state *state = ls_runtime_slot(runtime, LS_SLOT_ESTIMATOR);
  ls_watchdog *watchdogs = state != NULL ? state->watchdogs : NULL;
  if (state != NULL) state->watchdogs = NULL;
  ls_runtime_unlock(runtime);
  end_watchdogs(watchdogs);
}
