// SPDX-License-Identifier: Apache-2.0
#include "base/threads/host_threads.h"

#include "base/memory/list.h"
#include "base/memory/own.h"
#include "base/threads/thread_state.h"
#include "base/threads/timers.h"
#include "base/threads/worker.h"

enum { PATIENCE_NANOS = 10 * 1000 * 1000 };

LS_OWNED_POINTER(ls_host_threads, ls_host_threads_destroy)

typedef struct ls_host_thread {
  ls_worker worker;
  struct ls_host_thread *next;
} ls_host_thread;

// ---- A thread's side -------------------------------------------------------
static bool can_start(const ls_host_threads *self) {
  return self->first != NULL && self->running == NULL;
}

static ls_host_job *take_first(ls_host_threads *self) {
  ls_host_job *job = self->first;
  (void)ls_host_threads_cancel(self, job);
  self->running = job;
  ++self->num_started;
  return job;
}

static void run_jobs(void *user) {
  ls_host_threads *self = user;
  ls_this_thread.host_threads = self;
  ls_mutex_lock(&self->lock);
  for (;; ++self->num_idle) {
    while (!self->stop && !can_start(self))
      ls_condition_wait(&self->work, &self->lock);
    --self->num_idle;
    if (self->stop) break;
    ls_host_job *job = take_first(self);
    const uint64_t number = self->num_started;
    ls_mutex_unlock(&self->lock);
    job->fn(job);  // The owner may free the job after this call.
    ls_mutex_lock(&self->lock);
    // Only the newest started job is `running`; a job passed over is not.
    if (self->num_started == number) self->running = NULL;
  }
  ls_mutex_unlock(&self->lock);
}

// ---- Threads ---------------------------------------------------------------
static ls_status start_thread(ls_host_threads *self) {
  LS_NEW_OR_RETURN(self->allocator, ls_host_thread, thread);
  ++self->num_idle;
  ls_status status =
      ls_worker_start(&thread->worker, "ls-host", NULL, run_jobs, self);
  if (!ls_status_is_ok(status)) {
    --self->num_idle;
    ls_release(self->allocator, thread);
    return status;
  }
  thread->next = self->threads;
  self->threads = thread;
  return ls_ok();
}

// Starts a thread for the next job if the job may start.
static ls_status start_next(ls_host_threads *self) {
  if (!can_start(self)) return ls_ok();
  if (self->num_idle == 0) return start_thread(self);
  ls_condition_signal(&self->work);
  return ls_ok();
}

ls_status ls_host_threads_create(ls_allocator *allocator,
                                 ls_host_threads **out_threads) {
  *out_threads = NULL;
  LS_OWN_NEW_OR_RETURN(allocator, ls_host_threads, self);
  self->allocator = allocator;
  LS_RETURN_IF_ERROR(ls_mutex_init(&self->lock));
  LS_RETURN_IF_ERROR(ls_condition_init(&self->work));
  LS_RETURN_IF_ERROR(ls_condition_init(&self->event));
  // Starts the first thread now, so that runs allocate nothing.
  LS_RETURN_IF_ERROR(start_thread(self));
  return ls_hand_over(&self, out_threads);
}

void ls_host_threads_destroy(ls_host_threads *self) {
  if (self == NULL) return;
  if (self->threads != NULL) {
    ls_mutex_lock(&self->lock);
    self->stop = true;
    ls_condition_broadcast(&self->work);
    ls_mutex_unlock(&self->lock);
  }
  while (self->threads != NULL) {
    ls_host_thread *thread = self->threads;
    self->threads = thread->next;
    ls_worker_join(&thread->worker);
    ls_release(self->allocator, thread);
  }
  ls_condition_deinit(&self->event);
  ls_condition_deinit(&self->work);
  ls_mutex_deinit(&self->lock);
  ls_release(self->allocator, self);
}

// ---- Jobs ------------------------------------------------------------------
ls_status ls_host_threads_submit(ls_host_threads *self, ls_host_job *job) {
  ls_mutex_lock(&self->lock);
  job->next = NULL;
  if (self->last != NULL) {
    self->last->next = job;
  } else {
    self->first = job;
  }
  self->last = job;
  ls_status status = start_next(self);
  if (!ls_status_is_ok(status)) (void)ls_host_threads_cancel(self, job);
  ls_mutex_unlock(&self->lock);
  return status;
}

bool ls_host_threads_cancel(ls_host_threads *self, ls_host_job *job) {
  ls_host_job *previous = NULL;
  ls_host_job **at = &self->first;
  for (; *at != NULL && *at != job; at = &(*at)->next)
    previous = *at;
  if (*at == NULL) return false;
  *at = job->next;
  if (self->last == job) self->last = previous;
  return true;
}

void ls_host_threads_wait(ls_host_threads *self, int64_t nanos) {
  const uint64_t started = self->num_started;
  const bool is_blocked = self->first != NULL;
  if (is_blocked && nanos > PATIENCE_NANOS) nanos = PATIENCE_NANOS;
  const bool woken = ls_condition_wait_for(&self->event, &self->lock, nanos);
  if (woken || !is_blocked || self->num_started != started) return;
  self->running = NULL;
  // If no thread can be started, later jobs wait for this one to return.
  ls_status_free(start_next(self));
}

bool ls_host_threads_call_timers(ls_host_threads *self, ls_runtime *runtime) {
  enum { WORK_NANOS = 1000 * 1000 };
  const int64_t left = ls_timers_left(runtime);
  if (left == INT64_MAX) return false;
  if (left > 0 && (self->running != NULL || self->first != NULL))
    ls_host_threads_wait(self, WORK_NANOS);
  ls_mutex_unlock(&self->lock);
  const bool moves = left == 0 || ls_timers_skip(runtime);
  if (moves) ls_timers_call(runtime);
  ls_mutex_lock(&self->lock);
  return moves;
}

// ---- Abandoned jobs --------------------------------------------------------
void ls_host_threads_abandon(ls_host_threads *self, ls_host_job *job) {
  job->next = self->abandoned;
  self->abandoned = job;
  ++self->num_abandoned;
}

void ls_host_threads_forget(ls_host_threads *self, ls_host_job *job) {
  LS_UNLINK(&self->abandoned, job, next);
  --self->num_abandoned;
  ls_release(self->allocator, job);
}

ls_status ls_host_threads_check(ls_host_threads *self) {
  if (ls_this_thread.host_threads == self)
    return ls_failed_precondition(
        "a host call cannot destroy the runtime that it is made by");
  ls_mutex_lock(&self->lock);
  ls_status status = ls_ok();
  if (self->abandoned != NULL)
    status = ls_failed_precondition(
        "%zu abandoned host call%s still run%s; one of them: %s",
        self->num_abandoned, self->num_abandoned == 1 ? "" : "s",
        self->num_abandoned == 1 ? "s" : "", self->abandoned->label);
  ls_mutex_unlock(&self->lock);
  return status;
}
