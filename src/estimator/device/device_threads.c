// SPDX-License-Identifier: Apache-2.0
#include "estimator/device/device.h"

#include "runtime/store.h"
#include "train/hooks/hook.h"

// ---- Making ----------------------------------------------------------------
ls_status ls_device_threads_init(ls_device_threads *self,
                                 const ls_device_work *works, void *user,
                                 ls_rendezvous *rendezvous) {
  *self = (ls_device_threads){
      .runtime = ls_runtime_current(), .rendezvous = rendezvous, .user = user};
  for (int i = 0; i < LS_DEVICE_THREADS; ++i) {
    self->threads[i].all = self;
    self->threads[i].work = &works[i];
  }
  LS_RETURN_IF_ERROR(ls_mutex_init(&self->lock));
  return ls_cancel_create(self->runtime, &self->cancel);
}

void ls_device_threads_deinit(ls_device_threads *self) {
  if (self->session != NULL) ls_device_threads_stop(self);
  ls_cancel_destroy(self->cancel);
  ls_mutex_deinit(&self->lock);
}

// ---- A thread --------------------------------------------------------------
static ls_status read_counts(ls_device_thread *self) {
  ls_device_threads *all = self->all;
  int64_t count = 0;
  LS_RETURN_IF_ERROR(self->work->begin(all->user));
  ls_mutex_lock(&all->lock);
  self->has_begun = true;
  ls_mutex_unlock(&all->lock);
  while (ls_worker_next(&self->worker, &count))
    LS_RETURN_IF_ERROR(self->work->work(all->user, count));
  ls_runtime_log(all->runtime, LS_LOG_DEBUG, "estimator",
                 "%s read its stop signal", self->work->name);
  return ls_ok();
}

// Returns true if the thread ended because its session was closed, which is no
// root cause. A close may come from elsewhere, and between two runs.
static bool is_consequence(const ls_device_threads *all, ls_status status) {
  return (all->lost || ls_cancel_is_requested(all->cancel) ||
          ls_session_is_closing(all->session)) &&
         (ls_status_code(status) == LS_CANCELLED ||
          ls_status_code(status) == LS_FAILED_PRECONDITION);
}

static void device_threads_end(ls_device_thread *self, ls_status status) {
  ls_device_threads *all = self->all;
  ls_mutex_lock(&all->lock);
  // The thread may have been marked as ended by ls_device_threads_post already.
  if (self->has_ended) {
    ls_mutex_unlock(&all->lock);
    ls_status_free(status);
    return;
  }
  if (is_consequence(all, status)) {
    ls_status_free(status);
    status = ls_ok();
  }
  self->has_ended = true;
  self->failure = ls_status_clone(status);
  // True if the error closes the session: the current run is useless even if
  // the session recovers.
  const bool loses = !ls_status_is_ok(status) && all->runs && !all->lost;
  if (loses) all->lost = true;
  ls_mutex_unlock(&all->lock);
  ls_rendezvous_record(all->rendezvous, self->work->source, status,
                       all->session);
  if (loses) ls_session_request_close(all->session);
}

static void device_threads_work(void *user) {
  ls_device_thread *self = user;
  ls_cancel *outer = ls_cancel_make_current(self->all->cancel);
  ls_status status = read_counts(self);
  if (!ls_status_is_ok(status))
    status = self->work->map_error(self->all->user, status);
  (void)ls_cancel_make_current(outer);
  device_threads_end(self, status);
}

bool ls_device_threads_should_end(const ls_device_threads *self) {
  return ls_cancel_is_requested(self->cancel);
}

// ---- Start and stop --------------------------------------------------------
ls_status ls_device_threads_start(ls_device_threads *self,
                                  ls_session *session) {
  if (self->session != NULL) ls_device_threads_stop(self);
  self->session = session;
  for (int i = 0; i < LS_DEVICE_THREADS; ++i) {
    ls_device_thread *thread = &self->threads[i];
    LS_RETURN_IF_ERROR(ls_worker_start(&thread->worker, thread->work->name,
                                       self->runtime, device_threads_work,
                                       thread));
  }
  return ls_ok();
}

void ls_device_threads_join(ls_device_threads *self, ls_device_thread_id id) {
  ls_worker_join(&self->threads[id].worker);
}

void ls_device_threads_stop(ls_device_threads *self) {
  if (self->session == NULL) return;
  ls_cancel_request(self->cancel);
  for (int i = 0; i < LS_DEVICE_THREADS; ++i) {
    ls_device_thread *thread = &self->threads[i];
    ls_device_threads_join(self, (ls_device_thread_id)i);
    ls_status_free(thread->failure);
    *thread = (ls_device_thread){.all = self, .work = thread->work};
  }
  ls_rendezvous_forget(self->rendezvous, self->session);
  ls_cancel_reset(self->cancel);
  self->session = NULL;
  self->runs = self->lost = false;
}

// ---- Runs ------------------------------------------------------------------
// Returns the error of a thread, the infeed thread's first.
static ls_status failure_of(const ls_device_threads *self) {
  for (int i = 0; i < LS_DEVICE_THREADS; ++i)
    if (!ls_status_is_ok(self->threads[i].failure))
      return ls_status_annotate(ls_status_clone(self->threads[i].failure),
                                "on the thread %s",
                                self->threads[i].work->name);
  return ls_ok();
}

ls_status ls_device_threads_unkept(const ls_device_threads *self) {
  for (int i = 0; i < LS_DEVICE_THREADS; ++i)
    if (ls_loses_session(self->threads[i].failure))
      return ls_status_clone(self->threads[i].failure);
  return ls_ok();
}

// Does an idle thread's work on the calling thread. A failure is returned
// directly, so that no session needs to be closed.
static ls_status device_threads_help(ls_device_thread *self) {
  ls_device_threads *all = self->all;
  ls_status status = self->work->work(all->user, 1);
  if (ls_status_is_ok(status)) return status;
  status = self->work->map_error(all->user, status);
  ls_mutex_lock(&all->lock);
  // True if the error only follows from the other thread's failure, which
  // closed the session; it is not recorded.
  const bool follows = is_consequence(all, status);
  self->has_ended = true;
  if (!follows) self->failure = ls_status_clone(status);
  ls_mutex_unlock(&all->lock);
  if (!follows)
    ls_rendezvous_record(all->rendezvous, self->work->source,
                         ls_status_clone(status), NULL);
  return status;
}

static ls_status device_threads_post(ls_device_thread *self, int64_t count) {
  ls_device_threads *all = self->all;
  ls_mutex_lock(&all->lock);
  const bool is_idle =
      self->has_begun && !self->has_ended && ls_worker_is_idle(&self->worker);
  ls_mutex_unlock(&all->lock);
  if (is_idle && count == 1 && self->work->helped)
    return device_threads_help(self);
  if (self->work->once && self->has_count) return ls_ok();
  self->has_count = true;
  return ls_worker_post(&self->worker, count);
}

ls_status ls_device_threads_post(ls_device_threads *self, int64_t count) {
  ls_mutex_lock(&self->lock);
  const ls_status status = failure_of(self);
  self->runs = ls_status_is_ok(status);
  ls_mutex_unlock(&self->lock);
  LS_RETURN_IF_ERROR(status);
  for (int i = 0; i < LS_DEVICE_THREADS; ++i)
    LS_RETURN_IF_ERROR(device_threads_post(&self->threads[i], count));
  return ls_ok();
}

ls_status ls_device_threads_run_ended(ls_device_threads *self,
                                      ls_status status) {
  ls_mutex_lock(&self->lock);
  self->runs = false;
  const ls_status failure = self->lost ? failure_of(self) : ls_ok();
  ls_mutex_unlock(&self->lock);
  if (ls_status_is_ok(failure)) return status;
  ls_status_free(status);
  return failure;
}

void ls_device_threads_settle(ls_device_threads *self, ls_device_thread_id id) {
  ls_worker_wait(&self->threads[id].worker);
}
