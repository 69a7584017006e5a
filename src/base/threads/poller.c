// SPDX-License-Identifier: Apache-2.0
//
// It waits by a condition, not by the clock's sleep: so it ends at once when it
// is stopped, and a clock of the caller's is not moved by it but looked at.
#include "base/threads/poller.h"

struct ls_poller {
  ls_allocator *allocator;
  ls_runtime *runtime;
  int64_t nanos;
  bool (*fn)(ls_poller *self, void *user);
  void *user;
  ls_mutex lock;
  ls_condition told;
  bool stopped;  // Atomic.
  ls_thread thread;
};

bool ls_poller_is_stopped(const ls_poller *self) {
  return __atomic_load_n(&self->stopped, __ATOMIC_ACQUIRE);
}

// False: it was stopped.
static bool wait_until(ls_poller *self, int64_t due) {
  enum { LOOK_NANOS = 1000 * 1000 };
  const bool is_real = self->runtime->clock.sleep == ls_clock_system()->sleep;
  ls_mutex_lock(&self->lock);
  while (!ls_poller_is_stopped(self)) {
    const int64_t left = due - ls_runtime_now(self->runtime);
    if (left <= 0) break;
    (void)ls_condition_wait_for(&self->told, &self->lock,
                                is_real ? left : LOOK_NANOS);
  }
  ls_mutex_unlock(&self->lock);
  return !ls_poller_is_stopped(self);
}

static void poller_work(void *user) {
  ls_poller *self = user;
  ls_runtime_make_current(self->runtime);
  for (;;) {
    const int64_t due = ls_runtime_now(self->runtime) + self->nanos;
    if (ls_poller_is_stopped(self) || !self->fn(self, self->user) ||
        !wait_until(self, due))
      break;
  }
  ls_runtime_make_current(NULL);
}

static ls_status make_locks(ls_poller *self) {
  LS_RETURN_IF_ERROR(ls_mutex_init(&self->lock));
  return ls_condition_init(&self->told);
}

static void poller_destroy(ls_poller *self) {
  ls_condition_deinit(&self->told);
  ls_mutex_deinit(&self->lock);
  ls_release(self->allocator, self);
}

ls_status ls_poller_start(const char *name, int64_t nanos,
                          bool (*fn)(ls_poller *self, void *user), void *user,
                          ls_poller **out_poller) {
  ls_allocator *allocator = ls_current_allocator();
  ls_poller *self = ls_new(allocator, ls_poller);
  *out_poller = NULL;
  if (self == NULL) return ls_out_of_memory();
  self->allocator = allocator;
  self->runtime = ls_runtime_current();
  self->nanos = nanos;
  self->fn = fn;
  self->user = user;
  ls_status status = make_locks(self);
  if (ls_status_is_ok(status))
    status = ls_thread_start(&self->thread, name, poller_work, self);
  if (ls_status_is_ok(status))
    *out_poller = self;
  else
    poller_destroy(self);
  return status;
}

void ls_poller_stop(ls_poller *self) {
  if (self == NULL) return;
  ls_mutex_lock(&self->lock);
  __atomic_store_n(&self->stopped, true, __ATOMIC_RELEASE);
  ls_condition_signal(&self->told);
  ls_mutex_unlock(&self->lock);
  ls_thread_join(&self->thread);
  poller_destroy(self);
}
