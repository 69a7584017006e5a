// SPDX-License-Identifier: Apache-2.0
#include "lockstep/rendezvous.h"

#include <math.h>
#include <string.h>

#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/threads/locked.h"
#include "base/status_cause.h"
#include "base/threads/timers.h"
#include "train/hooks/hook.h"

typedef struct source {
  char *name;
  ls_status status;  // The first error; OK (NULL): the source ended well.
} source;

struct ls_rendezvous {
  ls_runtime *runtime;
  ls_allocator *allocator;
  ls_mutex lock;
  source *sources;  // In the order of the sources' first reports.
  size_t num_sources, capacity, wanted;
  ls_timer timer;       // Closes `session`.
  ls_session *session;  // NULL: no session to close.
  bool waits;           // True while the timer is set. Atomic; written last.
};

static void close_session(ls_timer *timer) {
  ls_rendezvous *self =
      (ls_rendezvous *)((char *)timer - offsetof(ls_rendezvous, timer));
  ls_mutex_lock(&self->lock);
  const bool closes = self->session != NULL;
  ls_mutex_unlock(&self->lock);
  // Logs without the lock, because log handlers may need it, and before the
  // session is closed, so that the line comes before the end of the run.
  if (closes)
    ls_runtime_log(self->runtime, LS_LOG_WARNING, "estimator",
                   "closing the session: a source has failed");
  ls_mutex_lock(&self->lock);
  if (self->session != NULL) ls_session_request_close(self->session);
  ls_mutex_unlock(&self->lock);
  __atomic_store_n(&self->waits, false, __ATOMIC_RELEASE);
}

// Takes the lock; with `sets_timer`, when no session will be closed or once the
// function of an earlier timer has ended, so that it does not act for a new
// one.
static void rendezvous_lock(ls_rendezvous *self, bool sets_timer) {
  for (;;) {
    ls_mutex_lock(&self->lock);
    if (!sets_timer || self->session != NULL ||
        !__atomic_load_n(&self->waits, __ATOMIC_ACQUIRE))
      return;
    ls_mutex_unlock(&self->lock);
    ls_spin_pause();
  }
}

ls_status ls_rendezvous_create(size_t num_sources, ls_rendezvous **out) {
  LS_REQUIRE_OUT(out);
  ls_allocator *allocator = ls_current_allocator();
  LS_NEW_OR_RETURN(allocator, ls_rendezvous, self);
  self->runtime = ls_runtime_current();
  self->allocator = allocator;
  self->wanted = num_sources;
  self->timer.fn = close_session;
  const ls_status status = ls_mutex_init(&self->lock);
  if (ls_status_is_ok(status))
    *out = self;
  else
    ls_release(allocator, self);
  return status;
}

void ls_rendezvous_destroy(ls_rendezvous *self) {
  if (self == NULL) return;
  // Cancels the timer. After the call its function is not running.
  while (__atomic_load_n(&self->waits, __ATOMIC_ACQUIRE))
    if (ls_timer_clear(self->runtime, &self->timer))
      __atomic_store_n(&self->waits, false, __ATOMIC_RELEASE);
    else
      ls_spin_pause();
  for (size_t i = 0; i < self->num_sources; ++i) {
    ls_status_free(self->sources[i].status);
    ls_release(self->allocator, self->sources[i].name);
  }
  ls_release(self->allocator, self->sources);
  ls_mutex_deinit(&self->lock);
  ls_release(self->allocator, self);
}

// ---- Recording -------------------------------------------------------------
// Returns the entry of a source, made if there is none; NULL without memory.
static source *entry_of(ls_rendezvous *self, const char *name) {
  for (size_t i = 0; i < self->num_sources; ++i)
    if (strcmp(self->sources[i].name, name) == 0) return &self->sources[i];
  char *copy = ls_copy_text(self->allocator, name, strlen(name));
  if (copy == NULL || !LS_GROW(self->allocator, self->sources, self->capacity,
                               self->num_sources + 1)) {
    ls_release(self->allocator, copy);
    return NULL;
  }
  source *made = &self->sources[self->num_sources++];
  *made = (source){.name = copy};
  return made;
}

void ls_rendezvous_record(ls_rendezvous *self, const char *name,
                          ls_status status, ls_session *session) {
  if (ls_status_is_ok(status)) return;
  if (ls_loses_session(status)) {
    ls_runtime_log(self->runtime, LS_LOG_INFO, "estimator",
                   "%s: %s; the session recovers", name,
                   ls_status_message(status));
    ls_status_free(status);
    return;
  }
  // True if the failure closes the session. A failed check of numbers is part
  // of the run, which it ends without closing.
  const bool closes =
      session != NULL && ls_status_cause(status) != LS_CAUSE_NUMBERS;
  rendezvous_lock(self, closes);
  source *entry = entry_of(self, name);
  const ls_status replaced = entry != NULL ? entry->status : status;
  if (entry != NULL) entry->status = status;
  const bool begins = closes && self->session == NULL;
  if (begins) {
    self->session = session;
    __atomic_store_n(&self->waits, true, __ATOMIC_RELEASE);
    ls_timer_set(self->runtime, &self->timer, 5000000000);
  }
  ls_mutex_unlock(&self->lock);
  // If there is no memory for the entry, the failure is only logged.
  if (entry == NULL)
    ls_runtime_log(self->runtime, LS_LOG_ERROR, "estimator", "%s: %s", name,
                   ls_status_message(status));
  ls_status_free(replaced);
}

void ls_rendezvous_forget(ls_rendezvous *self, ls_session *session) {
  ls_mutex_lock(&self->lock);
  if (session != NULL && self->session == session) {
    self->session = NULL;
    // The timer's function, if it runs already, finds no session.
    if (ls_timer_clear(self->runtime, &self->timer))
      __atomic_store_n(&self->waits, false, __ATOMIC_RELEASE);
  }
  ls_mutex_unlock(&self->lock);
}

void ls_rendezvous_record_done(ls_rendezvous *self, const char *name) {
  (void)LS_LOCKED(&self->lock, entry_of(self, name));
}

// ---- Reporting -------------------------------------------------------------
static ls_status first_failure(const ls_rendezvous *self) {
  ls_status cancelled = ls_ok();
  for (size_t i = 0; i < self->num_sources; ++i) {
    const ls_status status = self->sources[i].status;
    if (ls_status_is_ok(status)) continue;
    if (ls_status_code(status) != LS_CANCELLED) return ls_status_clone(status);
    if (ls_status_is_ok(cancelled)) cancelled = status;
  }
  return ls_status_clone(cancelled);
}

ls_status ls_rendezvous_status(ls_rendezvous *self, double seconds) {
  enum { LOOK_NANOS = 10 * 1000 * 1000 };
  const double most = 1e9;  // As good as forever; with a NaN there is no wait.
  LS_REQUIRE(self);
  const int64_t until =
      ls_runtime_now(self->runtime) +
      (seconds > 0 ? (int64_t)(fmin(seconds, most) * 1e9) : 0);
  while (LS_LOCKED(&self->lock, self->num_sources) < self->wanted &&
         ls_runtime_now(self->runtime) < until)
    ls_runtime_sleep(self->runtime, LOOK_NANOS);
  return LS_LOCKED(&self->lock, first_failure(self));
}
