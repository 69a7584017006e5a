// SPDX-License-Identifier: Apache-2.0
//
// Waits for host calls: of the runs that one thread drives, and of a failed
// run.
#include "base/runtime_internal.h"
#include "engine/cpu/run/host_call.h"
#include "engine/cpu/run/instance.h"

uint64_t ls_cpu_host_events(ls_instance *self) {
  if (self->host_threads == NULL) return 0;
  ls_mutex_lock(&self->host_threads->lock);
  const uint64_t done = self->host_done;
  ls_mutex_unlock(&self->host_threads->lock);
  return done;
}

bool ls_cpu_host_is_idle(ls_instance *self) {
  if (self->host_threads == NULL) return true;
  ls_mutex_lock(&self->host_threads->lock);
  const bool is_idle =
      self->host_running == 0 && self->host_done == self->host_seen;
  ls_mutex_unlock(&self->host_threads->lock);
  return is_idle;
}

// Returns true if a call made for all replicas has failed on one of them; the
// failure is reported once the others have ended or stalled. Requires the lock.
static bool has_failed(const ls_instance *self) {
  for (uint32_t k = 0; self->sites != NULL && k < self->executable->num_sites;
       ++k)
    for (uint32_t i = 0; i < self->sites[k].count; ++i) {
      const ls_cpu_host_record *record = self->sites[k].records[i];
      if (record != NULL && !record->host->ends_at_once && record->open == 0 &&
          !ls_status_is_ok(record->status))
        return true;
    }
  return false;
}

// ---- Runs that wait --------------------------------------------------------
// Returns true if one of the runs can continue. Requires the lock.
static bool can_any_continue(ls_instance *const *instances, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (instances[i]->host_done != instances[i]->host_seen ||
        ls_cancel_any(instances[i]->cancels))
      return true;
  return false;
}

static bool any_failed(ls_instance *const *instances, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (has_failed(instances[i])) return true;
  return false;
}

// Blocks until one of the runs can continue. Returns false if nothing has
// progressed for too long. Polls, because the runtime's clock may be a test's.
// Requires the lock.
static bool wait_for_any(ls_instance *const *instances, size_t count) {
  enum { LOOK_NANOS = 20 * 1000 * 1000 };
  ls_host_threads *threads = instances[0]->host_threads;
  ls_runtime *runtime = instances[0]->executable->backend->runtime;
  const int64_t limit = ls_runtime_stall_nanos(runtime);
  int64_t begin = ls_runtime_now(runtime);
  uint64_t progress = 0;
  (void)ls_runtime_goes_on(runtime, &progress);
  while (!can_any_continue(instances, count)) {
    const bool moves = ls_host_threads_call_timers(threads, runtime);
    const int64_t now_ns = ls_runtime_now(runtime);
    const bool goes_on = ls_runtime_goes_on(runtime, &progress);
    const int64_t timer = ls_timers_left(runtime);
    if ((goes_on || timer != INT64_MAX || moves) &&
        !any_failed(instances, count))
      begin = now_ns;
    if (moves) continue;
    int64_t left = limit - (now_ns - begin);
    if (left <= 0) return false;
    if (left > timer) left = timer;
    ls_host_threads_wait(threads, left < LOOK_NANOS ? left : LOOK_NANOS);
  }
  return true;
}

// Returns the reason why a stalled run ends; only the first run's report lists
// the other runs.
static ls_status find_stall_reason(ls_instance *self,
                                   ls_instance *const *instances,
                                   size_t count) {
  ls_status status = ls_cpu_failed_call(self);
  if (!ls_status_is_ok(status)) return status;
  return ls_cpu_stalled(self, instances, self == instances[0] ? count : 0);
}

void ls_cpu_wait_for_host(ls_instance *const *instances, size_t count) {
  ls_host_threads *threads = instances[0]->host_threads;
  ls_runtime *runtime = instances[0]->executable->backend->runtime;
  const int64_t began = ls_runtime_now(runtime);
  __atomic_fetch_add(&runtime->waiting_runs, 1, __ATOMIC_RELAXED);
  ls_mutex_lock(&threads->lock);
  const bool goes_on = wait_for_any(instances, count);
  ls_mutex_unlock(&threads->lock);
  __atomic_fetch_sub(&runtime->waiting_runs, 1, __ATOMIC_RELAXED);
  ls_wait_end(runtime, LS_WAIT_HOST, began);
  for (size_t i = 0; !goes_on && i < count; ++i)
    ls_cpu_worker_fail(&instances[i]->workers[0],
                       find_stall_reason(instances[i], instances, count));
}

// ---- Runs that have failed -------------------------------------------------
// Waits until no call is under way, or no call has ended for as long as the
// runtime allows. Requires the lock.
static void wait_for_ends(ls_instance *self) {
  enum { LOOK_NANOS = 20 * 1000 * 1000 };
  const ls_runtime *runtime = self->executable->backend->runtime;
  const int64_t limit = ls_runtime_stall_nanos(runtime);
  int64_t begin = ls_runtime_now(runtime);
  uint64_t seen = self->host_done;
  while (self->host_running > 0) {
    const int64_t now_ns = ls_runtime_now(runtime);
    if (self->host_done != seen) begin = now_ns;
    seen = self->host_done;
    const int64_t left = limit - (now_ns - begin);
    if (left <= 0) return;
    ls_host_threads_wait(self->host_threads,
                         left < LOOK_NANOS ? left : LOOK_NANOS);
  }
}

// Drops a call that no thread has started. Requires the lock.
static void drop_call(ls_instance *self, ls_cpu_host_record *record) {
  record->open = 0;
  record->needs_take = false;
  if (record->is_out != NULL) LS_CPU_SET(*record->is_out, false);
  --self->host_running;
}

// Cancels the calls whose kernels can be cancelled; a call that no thread has
// started ends here.
static void cancel_calls(ls_instance *self) {
  ls_host_threads *threads = self->host_threads;
  ls_cpu_host_record **at = NULL;
  for (size_t i = 0; (at = ls_cpu_record_at(self, i)) != NULL; ++i) {
    ls_cpu_host_record *record = *at;
    if (record == NULL || record->host == NULL) continue;
    const ls_cpu_host *host = record->host;
    if (host->kernel->cancel == NULL || host->ends_at_once) continue;
    ls_mutex_lock(&threads->lock);
    bool is_out = record->open > 0;
    if (is_out && !host->is_inline &&
        ls_host_threads_cancel(threads, &record->job)) {
      drop_call(self, record);
      is_out = false;
    }
    ls_mutex_unlock(&threads->lock);
    if (is_out) host->kernel->cancel(&record->call);
  }
}

// Ends a call that no thread has started; abandons any other one with its
// record, which is replaced at the next run. Requires the lock.
static void abandon_call(ls_instance *self, ls_cpu_host_record **place) {
  ls_cpu_host_record *record = *place;
  if (!record->host->is_inline &&
      ls_host_threads_cancel(self->host_threads, &record->job)) {
    drop_call(self, record);
    return;
  }
  if (record->is_out != NULL) LS_CPU_SET(*record->is_out, false);
  record->instance = NULL;
  record->is_out = NULL;
  ls_count_retain(&record->executable->references);
  ls_host_threads_abandon(self->host_threads, &record->job);
  *place = NULL;
  self->host_is_ready = false;
  --self->host_running;
}

// Drops the results of a call that a failed run did not wait for.
static ls_status drop_results(ls_cpu_host_record *record) {
  ls_status taken = ls_cpu_take_results(record, NULL);
  ls_status status = record->status;
  record->status = NULL;
  if (ls_status_is_ok(status)) return taken;
  ls_status_free(taken);
  return status;
}

ls_status ls_cpu_drain_host(ls_instance *self, bool wait) {
  ls_status first = ls_ok();
  if (self->host_threads == NULL) return first;
  cancel_calls(self);
  ls_mutex_lock(&self->host_threads->lock);
  if (wait) wait_for_ends(self);
  ls_cpu_host_record **record = NULL;
  for (size_t i = 0; (record = ls_cpu_record_at(self, i)) != NULL; ++i)
    if (*record != NULL && (*record)->host != NULL && (*record)->open > 0)
      abandon_call(self, record);
  ls_mutex_unlock(&self->host_threads->lock);
  for (size_t i = 0; (record = ls_cpu_record_at(self, i)) != NULL; ++i) {
    if (*record == NULL || (*record)->host == NULL) continue;
    ls_status status = drop_results(*record);
    if (ls_status_is_ok(first) && ls_status_code(status) == LS_CANCELLED)
      first = status;
    else
      ls_status_free(status);
  }
  return first;
}
