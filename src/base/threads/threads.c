// SPDX-License-Identifier: Apache-2.0
// Threads: pthread behind statuses. What cannot fail on a mutex that was made
// is asserted.
#define _GNU_SOURCE
#include "base/threads/threads.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/memory/allocator.h"

static ls_status thread_status(const char *what, int error) {
  if (error == 0) return ls_ok();
  char text[128] = "";
  const char *words = strerror_r(error, text, sizeof(text));
  return LS_STATUS(LS_RESOURCE_EXHAUSTED, "the system gives no %s: %s", what,
                   words);
}

static void must_work(int error) {
  (void)error;
  LS_ASSERT(error == 0);
}

// ---- Mutex -----------------------------------------------------------------
static ls_status init_mutex(ls_mutex *mutex, int type) {
  pthread_mutexattr_t attributes;
  LS_RETURN_IF_ERROR(
      thread_status("mutex", pthread_mutexattr_init(&attributes)));
  must_work(pthread_mutexattr_settype(&attributes, type));
  const int error = pthread_mutex_init(&mutex->handle, &attributes);
  mutex->made = error == 0;
  must_work(pthread_mutexattr_destroy(&attributes));
  return thread_status("mutex", error);
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
      thread_status("condition", pthread_condattr_init(&attributes)));
  must_work(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC));
  const int error = pthread_cond_init(&condition->handle, &attributes);
  condition->made = error == 0;
  must_work(pthread_condattr_destroy(&attributes));
  return thread_status("condition", error);
}

void ls_condition_deinit(ls_condition *condition) {
  if (condition->made) must_work(pthread_cond_destroy(&condition->handle));
  condition->made = false;
}

void ls_condition_wait(ls_condition *condition, ls_mutex *mutex) {
  must_work(pthread_cond_wait(&condition->handle, &mutex->handle));
}

bool ls_condition_wait_for(ls_condition *condition, ls_mutex *mutex,
                           int64_t nanos) {
  enum { SECOND = 1000000000 };
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  if (nanos < 0) nanos = 0;
  until.tv_sec += (time_t)(nanos / SECOND);
  until.tv_nsec += (long)(nanos % SECOND);
  if (until.tv_nsec >= SECOND) {
    until.tv_nsec -= SECOND;
    ++until.tv_sec;
  }
  const int error =
      pthread_cond_timedwait(&condition->handle, &mutex->handle, &until);
  LS_ASSERT(error == 0 || error == ETIMEDOUT);
  return error != ETIMEDOUT;
}

void ls_condition_signal(ls_condition *condition) {
  must_work(pthread_cond_signal(&condition->handle));
}

void ls_condition_broadcast(ls_condition *condition) {
  must_work(pthread_cond_broadcast(&condition->handle));
}

// ---- Thread ----------------------------------------------------------------
static void *run_thread(void *argument) {
  const ls_thread *thread = argument;
  (void)pthread_setname_np(pthread_self(), thread->name);
  thread->fn(thread->user);
  return NULL;
}

ls_status ls_thread_start(ls_thread *thread, const char *name,
                          void (*fn)(void *user), void *user) {
  // A new thread has its maker's signal mask.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  must_work(pthread_sigmask(SIG_SETMASK, &all, &before));
  thread->fn = fn;
  thread->user = user;
  // A name that is too long for the system is no reason to fail.
  snprintf(thread->name, sizeof(thread->name), "%s", name);
  const int error = pthread_create(&thread->handle, NULL, run_thread, thread);
  thread->made = error == 0;
  must_work(pthread_sigmask(SIG_SETMASK, &before, NULL));
  return thread_status("thread", error);
}

void ls_thread_join(ls_thread *thread) {
  if (thread->made) must_work(pthread_join(thread->handle, NULL));
  thread->made = false;
}

void ls_thread_give_way(void) {
  enum { NICE = 19 };
  // Linux keeps it by thread. Where it may not be, nothing is lost.
  (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
}
