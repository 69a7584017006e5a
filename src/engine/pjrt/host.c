// SPDX-License-Identifier: Apache-2.0
#include "engine/pjrt/host.h"

#include <string.h>

#include "base/memory/list.h"
#include "base/runtime_internal.h"
#include "base/threads/locked.h"
#include "base/threads/timers.h"

// Runs with host calls, of all back ends.
static ls_mutex runs_lock = {PTHREAD_MUTEX_INITIALIZER, true};
static ls_pjrt_hosts *runs;
static uint64_t num_runs;

ls_pjrt_hosts *ls_pjrt_find_run(uint64_t number) {
  ls_mutex_lock(&runs_lock);
  ls_pjrt_hosts *at = runs;
  while (at != NULL && at->number != number)
    at = at->next;
  ls_mutex_unlock(&runs_lock);
  return at;
}

static int32_t num_devices(const ls_pjrt_hosts *self) {
  return self->executable->num_devices;
}

static const ls_emit_host *site_at(const ls_pjrt_hosts *self, size_t site) {
  return &self->executable->layout.hosts[site];
}

// ---- Sites -----------------------------------------------------------------
bool ls_pjrt_hosts_are_over(ls_pjrt_hosts *self) {
  return LS_LOCKED(&self->threads->lock, self->is_over);
}

// Stops a run; requires the lock.
static void stop(ls_pjrt_hosts *self, ls_status status) {
  self->status = ls_status_join(self->status, status);
  self->is_over = true;
  ls_condition_broadcast(&self->threads->event);
}

void ls_pjrt_hosts_stop(ls_pjrt_hosts *self, ls_status status) {
  ls_mutex_lock(&self->threads->lock);
  stop(self, status);
  ls_mutex_unlock(&self->threads->lock);
}

ls_status ls_pjrt_try_site(ls_pjrt_hosts *self, size_t index, int32_t first,
                           char *const *const *buffers, int32_t devices) {
  const ls_emit_host *site = site_at(self, index);
  const int32_t stride = site->is_for_all ? site->num_local : site->stride;
  return ls_pjrt_call_host(self, &self->sites[index].records[first], site,
                           site->first + first * stride, buffers, devices);
}

// Makes a site's calls of so many devices, from `first` on; gives zeros after a
// failure.
static void call_site(ls_pjrt_hosts *self, size_t index, int32_t first,
                      char *const *const *buffers, int32_t devices) {
  const ls_emit_host *site = site_at(self, index);
  const size_t count = site->num_inputs + site->num_outputs;
  ls_status status = ls_ok();
  if (!ls_pjrt_hosts_are_over(self))
    status = ls_pjrt_try_site(self, index, first, buffers, devices);
  if (!ls_status_is_ok(status)) ls_pjrt_hosts_stop(self, status);
  if (!ls_pjrt_hosts_are_over(self)) return;
  for (int32_t d = 0; d < devices; ++d)
    for (size_t i = site->num_inputs; i < count; ++i)
      memset(buffers[d][i], 0,
             ls_pjrt_host_bytes(site, i) * (size_t)site->num_local);
}

// ---- Calls that all devices share -------------------------------------------
// Calls that all devices share. A device does not wait for another one: it may
// be in a collective, waiting for this one. So the first that comes calls for
// all, and what it brings and gets is kept until all have come; where a call
// takes values of all devices, the last one calls, and the others wait only for
// results.

static void drop_visit(ls_allocator *allocator, ls_pjrt_visit *visit) {
  if (visit == NULL) return;
  ls_release(allocator, visit->buffers);
  ls_release(allocator, visit->lists);
  ls_release(allocator, visit->data);
  ls_release(allocator, visit);
}

// Forgets the visits of a run that is over.
static void end_visits(ls_pjrt_site *site, size_t devices) {
  memset(site->numbers, 0, devices * sizeof(*site->numbers));
  while (site->visits != NULL) {
    ls_pjrt_visit *visit = site->visits;
    site->visits = visit->next;
    visit->next = site->unused;
    site->unused = visit;
  }
}

static void drop_visits(ls_allocator *allocator, ls_pjrt_visit *visits) {
  while (visits != NULL) {
    ls_pjrt_visit *next = visits->next;
    drop_visit(allocator, visits);
    visits = next;
  }
}

static ls_pjrt_visit *make_visit(const ls_pjrt_hosts *self,
                                 const ls_emit_host *site) {
  ls_allocator *allocator = self->allocator;
  const size_t devices = (size_t)self->executable->num_devices;
  const size_t count = site->num_inputs + site->num_outputs;
  ls_pjrt_visit *visit = ls_new(allocator, ls_pjrt_visit);
  if (visit == NULL) return NULL;
  visit->buffers = ls_new_array(allocator, char **, devices);
  visit->lists = ls_new_array(allocator, char *, devices *count + 1);
  if (visit->buffers != NULL && visit->lists != NULL) {
    for (size_t d = 0; d < devices; ++d)
      visit->buffers[d] = visit->lists + d * count;
    visit->data = ls_allocate_large(
        allocator,
        ls_pjrt_place_operands(site, devices, 1, NULL, visit->buffers) + 1);
  }
  if (visit->data == NULL) {
    drop_visit(allocator, visit);
    return NULL;
  }
  (void)ls_pjrt_place_operands(site, devices, 1, visit->data, visit->buffers);
  return visit;
}

// Finds the visit of this number, or begins it. Requires the lock.
static ls_pjrt_visit *find_visit(const ls_pjrt_hosts *self,
                                 const ls_emit_host *site, ls_pjrt_site *state,
                                 uint64_t number) {
  for (ls_pjrt_visit *at = state->visits; at != NULL; at = at->next)
    if (at->number == number) return at;
  ls_pjrt_visit *visit = state->unused;
  if (visit != NULL)
    state->unused = visit->next;
  else
    visit = make_visit(self, site);
  if (visit == NULL) return NULL;
  visit->number = number;
  visit->num_came = visit->num_left = 0;
  visit->is_called = visit->has_failed = false;
  visit->next = state->visits;
  state->visits = visit;
  return visit;
}

// Leaves a visit; the last one keeps its memory for another. Requires the lock.
static void leave_visit(const ls_pjrt_hosts *self, ls_pjrt_site *state,
                        ls_pjrt_visit *visit) {
  if (++visit->num_left < self->executable->num_devices) return;
  LS_UNLINK(&state->visits, visit, next);
  visit->next = state->unused;
  state->unused = visit;
}

static bool takes_values_of_all(const ls_emit_host *site) {
  for (size_t i = 0; i < site->num_inputs; ++i)
    if (site->wide[i]) return true;
  return false;
}

// Makes the call of a visit. Requires the lock, and releases it meanwhile.
static void make_call(ls_pjrt_hosts *self, size_t index, ls_pjrt_visit *visit) {
  ls_mutex_unlock(&self->threads->lock);
  call_site(self, index, 0, (char *const *const *)visit->buffers,
            self->executable->num_devices);
  ls_mutex_lock(&self->threads->lock);
  visit->is_called = true;
  visit->has_failed = self->is_over;
  ls_condition_broadcast(&self->threads->event);
}

// Makes a call that all devices share: by the first that comes, or
// the last one if the call takes values of all. Returns true if it has failed,
// and all devices know.
static bool visit_call(ls_pjrt_hosts *self, size_t index, int32_t device,
                       char *const *buffers) {
  const ls_emit_host *site = &self->executable->layout.hosts[index];
  ls_pjrt_site *state = &self->sites[index];
  const bool takes_all = takes_values_of_all(site);
  const int32_t caller = takes_all ? self->executable->num_devices : 1;
  ls_mutex_lock(&self->threads->lock);
  ls_pjrt_visit *visit =
      find_visit(self, site, state, state->numbers[device]++);
  if (visit == NULL) {
    // Others may have made the call, or will: this device cannot know.
    ls_mutex_unlock(&self->threads->lock);
    ls_pjrt_hosts_stop(self, ls_out_of_memory());
    call_site(self, index, device, &buffers, 1);
    return false;
  }
  for (size_t i = 0; i < site->num_inputs; ++i)
    if (site->wide[i] || visit->num_came == 0)
      memcpy(visit->buffers[device][i], buffers[i],
             ls_pjrt_device_bytes(site, i));
  if (++visit->num_came == caller) make_call(self, index, visit);
  while (!visit->is_called && (site->num_outputs > 0 || !takes_all) &&
         !(self->is_over && visit->num_came < caller))
    ls_condition_wait(&self->threads->event, &self->threads->lock);
  for (size_t i = site->num_inputs; i < site->num_inputs + site->num_outputs;
       ++i)
    if (visit->is_called)
      memcpy(buffers[i], visit->buffers[device][i],
             ls_pjrt_device_bytes(site, i));
    else
      memset(buffers[i], 0, ls_pjrt_device_bytes(site, i));
  const bool is_known = visit->is_called && visit->has_failed && !takes_all;
  leave_visit(self, state, visit);
  ls_mutex_unlock(&self->threads->lock);
  return is_known;
}

// ---- Answers ----------------------------------------------------------------
bool ls_pjrt_is_shared(const ls_pjrt_hosts *self, const ls_emit_host *site) {
  return num_devices(self) > 1 &&
         (site->is_shared ||
          (site->is_for_all && (site->kernel->flags & LS_HOST_ALL) != 0));
}

void ls_pjrt_answer_call(ls_pjrt_hosts *self, size_t index, uint64_t *device,
                         char *const *buffers) {
  const ls_emit_host *site = site_at(self, index);
  const int32_t own = (int32_t)(*device & ~LS_EMIT_TICKET_FAILED);
  bool is_known = num_devices(self) == 1;
  if ((*device & LS_EMIT_TICKET_FAILED) == 0 && ls_pjrt_is_shared(self, site)) {
    is_known = visit_call(self, index, own, buffers);
  } else {
    call_site(self, index, own, &buffers, 1);
    is_known &= ls_pjrt_hosts_are_over(self);
  }
  ls_mutex_lock(&self->threads->lock);
  if (is_known && (*device & LS_EMIT_TICKET_FAILED) == 0)
    self->loop = site->loop;
  if (is_known) *device |= LS_EMIT_TICKET_FAILED;
  self->is_torn |= self->is_over && (*device & LS_EMIT_TICKET_FAILED) == 0;
  ls_mutex_unlock(&self->threads->lock);
}

// ---- Runs ------------------------------------------------------------------
static void launch_runs(void *user) {
  ls_pjrt_hosts *self = user;
  for (int64_t unused = 0; ls_worker_next(&self->worker, &unused);) {
    ls_pjrt_run_hosted(self->instance);
    ls_mutex_lock(&self->threads->lock);
    self->has_ended = true;
    ls_runtime_note_move(self->runtime);
    ls_condition_broadcast(&self->threads->event);
    ls_mutex_unlock(&self->threads->lock);
  }
}

static ls_status make_sites(ls_pjrt_hosts *self) {
  const size_t count = self->executable->layout.num_hosts;
  const size_t devices = (size_t)num_devices(self);
  ls_arena *arena = &self->instance->arena;
  self->sites = ls_arena_new_array(arena, ls_pjrt_site, count);
  for (size_t i = 0; self->sites != NULL && i < count; ++i) {
    ls_pjrt_site *site = &self->sites[i];
    site->records = ls_arena_new_array(arena, ls_pjrt_record *, devices);
    site->numbers = ls_arena_new_array(arena, uint64_t, devices);
    site->staged = ls_arena_new_array(arena, char *, devices);
    LS_RETURN_IF_NO_MEMORY(site->records != NULL && site->numbers != NULL &&
                           site->staged != NULL);
  }
  return self->sites != NULL ? ls_ok() : ls_out_of_memory();
}

static void drop_site(const ls_pjrt_hosts *self, const ls_pjrt_site *site) {
  for (int32_t d = 0; site->records != NULL && d < num_devices(self); ++d)
    ls_pjrt_record_destroy(self->threads->allocator, site->records[d]);
  for (int32_t d = 0; site->staged != NULL && d < num_devices(self); ++d)
    ls_release(self->allocator, site->staged[d]);
  drop_visits(self->allocator, site->visits);
  drop_visits(self->allocator, site->unused);
}

void ls_pjrt_hosts_destroy(ls_pjrt_hosts *self) {
  if (self == NULL) return;
  ls_worker_join(&self->worker);
  for (size_t i = 0;
       self->sites != NULL && i < self->executable->layout.num_hosts; ++i)
    drop_site(self, &self->sites[i]);
  ls_release(self->allocator, self);
}
LS_OWNED_POINTER(ls_pjrt_hosts, ls_pjrt_hosts_destroy)

ls_status ls_pjrt_hosts_create(ls_pjrt_instance *instance,
                               ls_pjrt_hosts **out_hosts) {
  ls_pjrt_executable *executable = instance->executable;
  ls_runtime *runtime = executable->backend->base.runtime;
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  *out_hosts = NULL;
  LS_OWN_NEW_OR_RETURN(allocator, ls_pjrt_hosts, self);
  self->executable = executable;
  self->allocator = allocator;
  self->runtime = runtime;
  self->instance = instance;
  LS_RETURN_IF_ERROR(ls_runtime_host_threads(runtime, &self->threads));
  LS_RETURN_IF_ERROR(make_sites(self));
  LS_RETURN_IF_ERROR(
      ls_worker_start(&self->worker, "launches", runtime, launch_runs, self));
  return ls_hand_over(&self, out_hosts);
}

uint64_t ls_pjrt_hosts_begin(ls_pjrt_hosts *self, const ls_run_args *args) {
  self->run = args->run;
  memcpy(self->cancels, args->cancels, sizeof(self->cancels));
  self->has_ended = self->is_over = false;
  self->moved = ls_runtime_now(self->runtime);
  self->loop = 0;
  self->is_torn = false;
  for (size_t i = 0; i < self->executable->layout.num_hosts; ++i)
    end_visits(&self->sites[i], (size_t)num_devices(self));
  self->status = NULL;
  ls_mutex_lock(&runs_lock);
  self->number = ++num_runs;
  self->next = runs;
  runs = self;
  ls_mutex_unlock(&runs_lock);
  return self->number;
}

ls_status ls_pjrt_hosts_launch(ls_pjrt_hosts *self) {
  return ls_worker_post(&self->worker, 0);
}

bool ls_pjrt_hosts_has_ended(ls_pjrt_hosts *self) {
  return LS_LOCKED(&self->threads->lock, self->has_ended);
}

// Returns a program that has ended, or that was cancelled and does not know it
// yet. Requires the lock.
static ls_pjrt_hosts *find_event(ls_pjrt_hosts *const *hosts, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (hosts[i]->has_ended ||
        (!hosts[i]->is_over && ls_cancel_any(hosts[i]->cancels)))
      return hosts[i];
  return NULL;
}

static int32_t count_calls(ls_pjrt_hosts *const *hosts, size_t count) {
  int32_t calls = 0;
  for (size_t i = 0; i < count; ++i)
    calls += hosts[i]->num_out;
  return calls;
}

// Waits for a while, and returns the time that is left to the limit. Requires
// the lock, and releases it meanwhile.
static int64_t wait_a_while(ls_pjrt_hosts *const *hosts, size_t count) {
  enum { LOOK_NANOS = 20 * 1000 * 1000 };
  ls_pjrt_hosts *self = hosts[0];
  ls_runtime *runtime = self->runtime;
  const int64_t timer = ls_timers_left(runtime);
  const int64_t nanos = timer < LOOK_NANOS ? timer : LOOK_NANOS;
  const bool moves = ls_host_threads_call_timers(self->threads, runtime);
  if (!moves) ls_host_threads_wait(self->threads, nanos);
  if (ls_runtime_goes_on(runtime, &self->progress) || moves ||
      timer != INT64_MAX || count_calls(hosts, count) == 0)
    self->moved = ls_runtime_now(runtime);
  return ls_runtime_stall_nanos(runtime) -
         (ls_runtime_now(runtime) - self->moved);
}

void ls_pjrt_hosts_wait(ls_pjrt_hosts *const *hosts, size_t count,
                        bool others) {
  ls_host_threads *threads = hosts[0]->threads;
  ls_runtime *runtime = hosts[0]->runtime;
  const int64_t limit = ls_runtime_stall_nanos(runtime);
  __atomic_fetch_add(&runtime->waiting_runs, 1, __ATOMIC_RELAXED);
  ls_mutex_lock(&threads->lock);
  ls_pjrt_hosts *event = NULL;
  int64_t left = limit;
  while ((event = find_event(hosts, count)) == NULL && left > 0) {
    left = wait_a_while(hosts, count);
    if (others && left > 0) break;
  }
  if (event != NULL && !event->has_ended)
    stop(event, LS_STATUS(LS_CANCELLED, "the run was cancelled"));
  for (size_t i = 0; event == NULL && left <= 0 && i < count; ++i)
    if (hosts[i]->num_out > 0)
      stop(hosts[i],
           LS_STATUS(LS_DEADLINE_EXCEEDED,
                     "no progress for %lld ms: a host call has not ended, %s",
                     (long long)(limit / 1000000),
                     hosts[i]->waits_for != NULL ? hosts[i]->waits_for : ""));
  ls_mutex_unlock(&threads->lock);
  __atomic_fetch_sub(&runtime->waiting_runs, 1, __ATOMIC_RELAXED);
}

ls_status ls_pjrt_hosts_finish(ls_pjrt_hosts *self, uint64_t *out_loop) {
  ls_worker_wait(&self->worker);
  *out_loop = self->is_torn ? 0 : self->loop;
  ls_mutex_lock(&runs_lock);
  LS_UNLINK(&runs, self, next);
  ls_mutex_unlock(&runs_lock);
  ls_status status = self->status;
  self->status = NULL;
  return status;
}
