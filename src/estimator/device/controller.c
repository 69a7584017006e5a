// SPDX-License-Identifier: Apache-2.0
#include "estimator/device/controller.h"

enum { STOP = -2 };  // Signals are below 0, counts above.

struct ls_controller {
  ls_allocator *allocator;
  ls_runtime *runtime;
  const char *name;
  ls_mutex lock;
  ls_condition told;
  int64_t *counts;  // From `first` on they are not read yet.
  size_t first, num_counts, capacity;
  bool once, sent, stopped;
  ls_controller_function fn;
  void *user;
  ls_worker worker;
};

// ---- The thread ------------------------------------------------------------
static void controller_work(void *user) {
  ls_controller *self = user;
  self->fn(self, self->user);
}

bool ls_controller_next(ls_controller *self, int64_t *out_count) {
  ls_mutex_lock(&self->lock);
  while (self->first == self->num_counts && !self->stopped)
    ls_condition_wait(&self->told, &self->lock);
  if (!self->stopped) *out_count = self->counts[self->first++];
  const bool stops = !self->stopped && *out_count == STOP;
  if (stops) self->stopped = true;  // What is behind it stays unread.
  const bool more = !self->stopped;
  ls_mutex_unlock(&self->lock);
  if (stops)
    ls_runtime_log(self->runtime, LS_LOG_INFO, "estimator",
                   "%s read its stop signal", self->name);
  return more;
}

// ---- Who tells it ----------------------------------------------------------
static ls_status controller_put(ls_controller *self, int64_t count) {
  ls_mutex_lock(&self->lock);
  // What was read goes, before there is room for more.
  if (self->first == self->num_counts) self->first = self->num_counts = 0;
  const bool fits = ls_grow(self->allocator, &self->counts, &self->capacity,
                            self->num_counts + 1, sizeof(count));
  if (fits) self->counts[self->num_counts++] = count;
  if (!fits && count == STOP) self->stopped = true;
  ls_condition_signal(&self->told);
  ls_mutex_unlock(&self->lock);
  return fits ? ls_ok() : ls_out_of_memory();
}

ls_status ls_controller_send(ls_controller *self, int64_t count) {
  if (self->once && self->sent) return ls_ok();
  self->sent = true;
  return controller_put(self, count);
}

void ls_controller_stop(ls_controller *self) {
  ls_status_free(
      controller_put(self, STOP));  // Without memory it stops at once.
}

static ls_status make_locks(ls_controller *self) {
  LS_RETURN_IF_ERROR(ls_mutex_init(&self->lock));
  return ls_condition_init(&self->told);
}

static void controller_destroy(ls_controller *self) {
  ls_condition_deinit(&self->told);
  ls_mutex_deinit(&self->lock);
  ls_release(self->allocator, self->counts);
  ls_release(self->allocator, self);
}

ls_status ls_controller_start(const char *name, ls_controller_function fn,
                              void *user, bool once, ls_controller **out) {
  ls_allocator *allocator = ls_current_allocator();
  ls_controller *self = ls_new(allocator, ls_controller);
  *out = NULL;
  if (self == NULL) return ls_out_of_memory();
  self->allocator = allocator;
  self->runtime = ls_runtime_current();
  self->name = name;
  self->fn = fn;
  self->user = user;
  self->once = once;
  ls_status status = make_locks(self);
  if (ls_status_is_ok(status))
    status = ls_worker_start(&self->worker, name, self->runtime,
                             controller_work, self);
  if (ls_status_is_ok(status))
    *out = self;
  else
    controller_destroy(self);
  return status;
}

void ls_controller_join(ls_controller *self) {
  if (self == NULL) return;
  ls_controller_stop(self);
  ls_worker_join(&self->worker);
  controller_destroy(self);
}
