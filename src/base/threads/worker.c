// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "base/threads/worker.h"

#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/runtime_internal.h"
#include "base/threads/locked.h"

// ---- The thread ------------------------------------------------------------
static void *worker_main(void *argument) {
  ls_worker *self = argument;
  (void)pthread_setname_np(pthread_self(), self->name);
  if (self->runtime != NULL) (void)ls_runtime_make_current(self->runtime);
  self->run(self->user);
  ls_mutex_lock(&self->lock);
  self->has_ended = true;
  ls_condition_broadcast(&self->event);
  ls_mutex_unlock(&self->lock);
  return NULL;
}

// Starts the thread with all signals blocked, since a thread inherits its
// maker's signal mask.
static ls_status create_thread(ls_worker *self) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(&self->thread, NULL, worker_main, self);
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  return ls_thread_status("thread", error);
}

static ls_status worker_begin(ls_worker *self) {
  LS_RETURN_IF_ERROR(ls_mutex_init(&self->lock));
  LS_RETURN_IF_ERROR(ls_condition_init(&self->event));
  return create_thread(self);
}

static void worker_deinit(ls_worker *self) {
  ls_condition_deinit(&self->event);
  ls_mutex_deinit(&self->lock);
}

ls_status ls_worker_start(ls_worker *self, const char *name,
                          struct ls_runtime *runtime, void (*run)(void *user),
                          void *user) {
  self->runtime = runtime;
  self->run = run;
  self->user = user;
  self->is_stopped = self->is_busy = self->has_ended = false;
  self->num_waiting = 0;
  self->numbers = self->few;
  self->first = self->count = 0;
  self->capacity = LS_WORKER_FEW;
  snprintf(self->name, sizeof(self->name), "%s", name);
  const ls_status status = worker_begin(self);
  self->is_started = ls_status_is_ok(status);
  if (!self->is_started) worker_deinit(self);
  return status;
}

void ls_worker_stop(ls_worker *self) {
  if (!self->is_started) return;
  ls_mutex_lock(&self->lock);
  __atomic_store_n(&self->is_stopped, true, __ATOMIC_RELEASE);
  ls_condition_broadcast(&self->event);
  ls_mutex_unlock(&self->lock);
}

static ls_allocator *allocator_of(const ls_worker *self) {
  return self->runtime != NULL ? ls_runtime_allocator(self->runtime)
                               : ls_allocator_system();
}

void ls_worker_join(ls_worker *self) {
  if (!self->is_started) return;
  ls_worker_stop(self);
  (void)pthread_join(self->thread, NULL);
  self->is_started = false;
  if (self->numbers != self->few) ls_release(allocator_of(self), self->numbers);
  worker_deinit(self);
}

bool ls_worker_is_stopped(const ls_worker *self) {
  return __atomic_load_n(&self->is_stopped, __ATOMIC_ACQUIRE);
}

void ls_worker_give_way(void) {
  enum { NICE = 19 };
  // Linux sets priorities by thread. A refusal does no harm.
  (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
}

// ---- Numbers ---------------------------------------------------------------
// Makes room for one more number. Returns false without memory.
static bool make_room(ls_worker *self) {
  // Drops the numbers already read.
  if (self->first == self->count) self->first = self->count = 0;
  if (self->count < self->capacity) return true;
  const size_t capacity = 2 * self->capacity;
  ls_allocator *allocator = allocator_of(self);
  int64_t *numbers = ls_new_array(allocator, int64_t, capacity);
  if (numbers == NULL) return false;
  memcpy(numbers, self->numbers, self->count * sizeof(*numbers));
  if (self->numbers != self->few) ls_release(allocator, self->numbers);
  self->numbers = numbers;
  self->capacity = capacity;
  return true;
}

ls_status ls_worker_post(ls_worker *self, int64_t number) {
  ls_mutex_lock(&self->lock);
  const bool has_room = self->is_stopped || make_room(self);
  if (has_room && !self->is_stopped) self->numbers[self->count++] = number;
  ls_condition_broadcast(&self->event);
  ls_mutex_unlock(&self->lock);
  return has_room ? ls_ok() : ls_out_of_memory();
}

bool ls_worker_next(ls_worker *self, int64_t *out_number) {
  ls_mutex_lock(&self->lock);
  self->is_busy = false;
  if (self->num_waiting > 0) ls_condition_broadcast(&self->event);
  while (self->first == self->count && !self->is_stopped)
    ls_condition_wait(&self->event, &self->lock);
  const bool has_number = self->first < self->count;
  if (has_number) *out_number = self->numbers[self->first++];
  self->is_busy = has_number;
  ls_mutex_unlock(&self->lock);
  return has_number;
}

// Returns true if the worker waits for numbers; the lock is held.
static bool is_idle(const ls_worker *self) {
  return self->has_ended || (!self->is_busy && self->first == self->count);
}

bool ls_worker_is_idle(ls_worker *self) {
  if (!self->is_started) return true;
  return LS_LOCKED(&self->lock, is_idle(self));
}

void ls_worker_wait(ls_worker *self) {
  if (!self->is_started) return;
  ls_mutex_lock(&self->lock);
  ++self->num_waiting;
  ls_condition_broadcast(&self->event);
  while (!is_idle(self))
    ls_condition_wait(&self->event, &self->lock);
  --self->num_waiting;
  ls_mutex_unlock(&self->lock);
}

void ls_worker_rest(ls_worker *self, int64_t nanos) {
  ls_mutex_lock(&self->lock);
  if (self->num_waiting == 0 && !self->is_stopped)
    (void)ls_condition_wait_for(&self->event, &self->lock, nanos);
  ls_mutex_unlock(&self->lock);
}

// ---- Every so many seconds -------------------------------------------------
// Waits on the condition rather than sleep by the clock, so that a stop ends
// the wait.
static void wait_until(ls_worker *self, int64_t due) {
  enum { LOOK_NANOS = 1000 * 1000 };
  const ls_runtime *runtime = self->runtime;
  const bool is_real = runtime->clock.sleep == ls_clock_system()->sleep;
  ls_mutex_lock(&self->lock);
  while (!self->is_stopped) {
    const int64_t left = due - ls_runtime_now(runtime);
    if (left <= 0) break;
    (void)ls_condition_wait_for(&self->event, &self->lock,
                                is_real ? left : LOOK_NANOS);
  }
  ls_mutex_unlock(&self->lock);
}

static void worker_repeat(void *user) {
  ls_worker *self = user;
  while (!ls_worker_is_stopped(self)) {
    const int64_t due = ls_runtime_now(self->runtime) + self->every.nanos;
    if (!self->every.call(self->every.user)) break;
    wait_until(self, due);
  }
}

ls_status ls_worker_every(ls_worker *self, const char *name,
                          struct ls_runtime *runtime, int64_t nanos,
                          bool (*call)(void *user), void *user) {
  self->every.nanos = nanos;
  self->every.call = call;
  self->every.user = user;
  return ls_worker_start(self, name, runtime, worker_repeat, self);
}
