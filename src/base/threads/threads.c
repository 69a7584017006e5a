// SPDX-License-Identifier: Apache-2.0
// Locks and waits: pthread calls with statuses. Failures that are impossible on
// an initialized mutex are asserted.
#define _GNU_SOURCE
#include "base/threads/threads.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "base/memory/allocator.h"
#include "base/status_cause.h"
#include "base/threads/thread_state.h"

ls_status ls_thread_status(const char *noun, int error) {
  if (error == 0) return ls_ok();
  const char *reason = strerror(error);
  return LS_NO_MEMORY("the system gives no %s: %s", noun, reason);
}

static void must_work(int error) {
  (void)error;
  LS_ASSERT(error == 0);
}

// ---- Mutex -----------------------------------------------------------------
static ls_status init_mutex(ls_mutex *mutex, int type) {
  pthread_mutexattr_t attributes;
  LS_RETURN_IF_ERROR(
      ls_thread_status("mutex", pthread_mutexattr_init(&attributes)));
  must_work(pthread_mutexattr_settype(&attributes, type));
  const int error = pthread_mutex_init(&mutex->handle, &attributes);
  mutex->made = error == 0;
  must_work(pthread_mutexattr_destroy(&attributes));
  return ls_thread_status("mutex", error);
}

ls_status ls_mutex_init(ls_mutex *mutex) {
  return init_mutex(mutex, PTHREAD_MUTEX_NORMAL);
}

ls_status ls_mutex_init_recursive(ls_mutex *mutex) {
  return init_mutex(mutex, PTHREAD_MUTEX_RECURSIVE);
}

void ls_mutex_deinit(ls_mutex *mutex) {
  if (mutex->made) must_work(pthread_mutex_destroy(&mutex->handle));
  mutex->made = false;
}

void ls_mutex_lock(ls_mutex *mutex) {
  must_work(pthread_mutex_lock(&mutex->handle));
}

void ls_mutex_unlock(ls_mutex *mutex) {
  must_work(pthread_mutex_unlock(&mutex->handle));
}

// ---- Condition -------------------------------------------------------------
ls_status ls_condition_init(ls_condition *condition) {
  pthread_condattr_t attributes;
  LS_RETURN_IF_ERROR(
      ls_thread_status("condition", pthread_condattr_init(&attributes)));
  must_work(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC));
  const int error = pthread_cond_init(&condition->handle, &attributes);
  condition->made = error == 0;
  must_work(pthread_condattr_destroy(&attributes));
  return ls_thread_status("condition", error);
}

void ls_condition_deinit(ls_condition *condition) {
  if (condition->made) must_work(pthread_cond_destroy(&condition->handle));
  condition->made = false;
}

void ls_condition_signal(ls_condition *condition) {
  must_work(pthread_cond_signal(&condition->handle));
}

void ls_condition_broadcast(ls_condition *condition) {
  must_work(pthread_cond_broadcast(&condition->handle));
}

// ---- Waits -----------------------------------------------------------------
enum { NANOS_PER_SECOND = 1000000000 };

static struct timespec timespec_of(int64_t nanos) {
  return (struct timespec){.tv_sec = (time_t)(nanos / NANOS_PER_SECOND),
                           .tv_nsec = (long)(nanos % NANOS_PER_SECOND)};
}

void ls_condition_wait(ls_condition *condition, ls_mutex *mutex) {
  must_work(pthread_cond_wait(&condition->handle, &mutex->handle));
}

bool ls_condition_wait_for(ls_condition *condition, ls_mutex *mutex,
                           int64_t nanos) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  struct timespec until = timespec_of(nanos > 0 ? nanos : 0);
  until.tv_sec += now.tv_sec;
  until.tv_nsec += now.tv_nsec;
  if (until.tv_nsec >= NANOS_PER_SECOND) {
    until.tv_nsec -= NANOS_PER_SECOND;
    ++until.tv_sec;
  }
  const int error =
      pthread_cond_timedwait(&condition->handle, &mutex->handle, &until);
  LS_ASSERT(error == 0 || error == ETIMEDOUT);
  return error != ETIMEDOUT;
}

void ls_thread_sleep(int64_t nanos) {
  if (nanos <= 0) return;
  struct timespec left = timespec_of(nanos);
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

void ls_thread_yield(void) { (void)sched_yield(); }

// ---- Events ----------------------------------------------------------------
ls_status ls_event_init(ls_event *event) {
  *event = (ls_event){.is_set = false};
  LS_RETURN_IF_ERROR(ls_mutex_init(&event->lock));
  const ls_status status = ls_condition_init(&event->changed);
  if (!ls_status_is_ok(status)) ls_mutex_deinit(&event->lock);
  return status;
}

void ls_event_deinit(ls_event *event) {
  ls_condition_deinit(&event->changed);
  ls_mutex_deinit(&event->lock);
}

void ls_event_set(void *event) {
  ls_event *self = event;
  ls_mutex_lock(&self->lock);
  self->is_set = true;
  ls_condition_broadcast(&self->changed);
  ls_mutex_unlock(&self->lock);
}

void ls_event_wait(ls_event *event) {
  ls_mutex_lock(&event->lock);
  while (!event->is_set)
    ls_condition_wait(&event->changed, &event->lock);
  ls_mutex_unlock(&event->lock);
}

bool ls_event_wait_for(ls_event *event, int64_t nanos) {
  ls_mutex_lock(&event->lock);
  if (!event->is_set)
    (void)ls_condition_wait_for(&event->changed, &event->lock, nanos);
  const bool is_set = event->is_set;
  ls_mutex_unlock(&event->lock);
  return is_set;
}

// ---- Per-thread state ------------------------------------------------------
_Thread_local ls_thread_state ls_this_thread;

static pthread_key_t end_key;
static bool has_end_key;

// Calls the layers' functions, the highest first. A function that registers
// again causes one more call of this.
static void leave_thread(void *state) {
  ls_thread_state *self = state;
  for (int i = LS_THREAD_LAYERS - 1; i >= 0; --i) {
    void (*leave)(void) = self->leave[i];
    self->leave[i] = NULL;
    if (leave != NULL) leave();
  }
  for (int i = 0; i < LS_THREAD_LAYERS; ++i)
    if (self->leave[i] != NULL) return;
  *self = (ls_thread_state){0};
}

static void make_end_key(void) {
  has_end_key = pthread_key_create(&end_key, leave_thread) == 0;
}

bool ls_thread_at_end(ls_thread_layer layer, void (*leave)(void)) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_end_key);
  if (!has_end_key || pthread_setspecific(end_key, &ls_this_thread) != 0)
    return false;
  ls_this_thread.leave[layer] = leave;
  return true;
}
