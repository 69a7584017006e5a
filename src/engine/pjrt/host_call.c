// SPDX-License-Identifier: Apache-2.0
#include "engine/pjrt/host.h"

#include <string.h>

#include "base/runtime_internal.h"
#include "base/threads/thread_state.h"
#include "graph/callbacks.h"

// A call of one site and device. Guarded by the host threads' lock once it has
// started.
struct ls_pjrt_record {
  ls_host_job job;        // First member: an abandoned record is a job.
  ls_host_engine engine;  // Target of `call.engine`.
  ls_host_call call;
  ls_host_threads *threads;
  ls_pjrt_executable *executable;  // Retained once the call is abandoned.
  const ls_host_kernel *kernel;
  uint64_t run;     // See ls_run_args.
  void **operands;  // Inputs and outputs as the kernel sees them, in `data`.
  char *data;
  int open;  // Number of missing ends: the return of start, and ls_host_done.
  bool is_done, is_abandoned;
  ls_status status;
};

// Counts the replicas of so many devices.
static int32_t count_replicas(const ls_emit_host *site, int32_t devices) {
  return site->is_for_all ? site->num_local * devices : 1;
}

// Returns true if one call serves all replicas.
static bool is_one_call(const ls_emit_host *site) {
  return site->is_for_all && (site->kernel->flags & LS_HOST_ALL) != 0;
}

// Returns the replicas of one call, as far as an operand tells them apart.
static size_t parts_of(const ls_pjrt_hosts *self, const ls_emit_host *site,
                       size_t operand) {
  return site->wide[operand] && is_one_call(site)
             ? (size_t)count_replicas(site, self->executable->num_devices)
             : 1;
}

// ---- Records ---------------------------------------------------------------
size_t ls_pjrt_place_operands(const ls_emit_host *site, size_t devices,
                              size_t rows, char *memory, char ***lists) {
  size_t size = 0;
  for (size_t i = 0; i < site->num_inputs + site->num_outputs; ++i)
    for (size_t d = 0; d < devices; ++d) {
      lists[d][i] = memory != NULL ? memory + size : NULL;
      if (site->wide[i] || d + 1 == devices)
        size += ls_round_to_line(ls_pjrt_device_bytes(site, i) * rows);
    }
  return size;
}

static void release_memory(ls_allocator *allocator,
                           const ls_pjrt_record *record) {
  ls_release(allocator, record->operands);
  ls_release(allocator, record->data);
}

void ls_pjrt_record_destroy(ls_allocator *allocator, ls_pjrt_record *record) {
  if (record == NULL) return;
  release_memory(allocator, record);
  ls_release(allocator, record);
}

static ls_pjrt_record *make_record(ls_pjrt_hosts *self,
                                   const ls_emit_host *site) {
  ls_allocator *allocator = self->threads->allocator;
  const size_t count = site->num_inputs + site->num_outputs;
  size_t size = 0;
  for (size_t i = 0; i < count; ++i)
    size +=
        ls_round_to_line(ls_pjrt_host_bytes(site, i) * parts_of(self, site, i));
  ls_pjrt_record *record = ls_new(allocator, ls_pjrt_record);
  if (record == NULL) return NULL;
  record->threads = self->threads;
  record->executable = self->executable;
  record->kernel = site->kernel;
  record->operands = ls_new_array(allocator, void *, count + 1);
  record->data = ls_allocate_large(allocator, size + 1);
  if (record->operands == NULL || record->data == NULL) {
    ls_pjrt_record_destroy(allocator, record);
    return NULL;
  }
  char *at = record->data;
  for (size_t i = 0; i < count; ++i) {
    record->operands[i] = at;
    at +=
        ls_round_to_line(ls_pjrt_host_bytes(site, i) * parts_of(self, site, i));
  }
  return record;
}

// ---- Ends of calls ---------------------------------------------------------
// Takes the results of a call that has ended.
static ls_status take_results(ls_pjrt_record *record) {
  ls_status status = record->status;
  record->status = NULL;
  if (!ls_status_is_ok(status)) return status;
  if (record->kernel->take != NULL)
    status = record->kernel->take(&record->call);
  if (record->kernel->end != NULL) record->kernel->end(&record->call);
  return status;
}

// Releases the executable, which owns the label, before the job is forgotten.
static void free_abandoned(ls_pjrt_record *record) {
  ls_host_threads *threads = record->threads;
  record->call.outputs = NULL;
  ls_status_free(take_results(record));
  ls_mutex_lock(&threads->lock);
  record->job.label = "a call that has just ended";
  ls_mutex_unlock(&threads->lock);
  ls_pjrt_release_executable((ls_executable *)record->executable);
  release_memory(threads->allocator, record);
  ls_mutex_lock(&threads->lock);
  // Releases the record; the runtime may end from then on.
  ls_host_threads_forget(threads, &record->job);
  ls_mutex_unlock(&threads->lock);
}

// Counts one of the two ends of a call.
static void close_record(ls_pjrt_record *record) {
  ls_host_threads *threads = record->threads;
  ls_mutex_lock(&threads->lock);
  const bool is_over = --record->open == 0;
  const bool is_abandoned = is_over && record->is_abandoned;
  if (is_over) ls_runtime_note_move(record->call.runtime);
  ls_condition_broadcast(&threads->event);
  ls_mutex_unlock(&threads->lock);
  if (is_abandoned) free_abandoned(record);
}

static void record_done(ls_host_call *call, ls_status status) {
  ls_pjrt_record *record =
      (void *)((char *)call->engine - offsetof(ls_pjrt_record, engine));
  if (__atomic_exchange_n(&record->is_done, true, __ATOMIC_ACQ_REL)) {
    ls_status_free(status);  // Ignores all calls but the first.
    return;
  }
  record->status = status;
  close_record(record);
}

// Copies a result that the kernel lends.
static ls_status record_give(ls_host_call *call, size_t output,
                             const void *data) {
  ls_pjrt_record *record =
      (void *)((char *)call->engine - offsetof(ls_pjrt_record, engine));
  const size_t parts = (size_t)call->num_replicas;
  memcpy(record->operands[call->num_inputs + output], data,
         ls_type_bytes(call->output_types[output]) * parts);
  return ls_ok();
}

static void run_kernel(ls_pjrt_record *record) {
  ls_status status = record->kernel->start(&record->call);
  if (!ls_status_is_ok(status)) record_done(&record->call, status);
  close_record(record);
}

static void run_job(ls_host_job *job) {
  ls_pjrt_record *record = (ls_pjrt_record *)job;
  const ls_at_work before = ls_this_thread.work;
  ls_this_thread.work =
      (ls_at_work){.runtime = record->call.runtime, .run = record->run};
  run_kernel(record);
  ls_this_thread.work = before;
}

// ---- Calls -----------------------------------------------------------------
static void fill_record(const ls_pjrt_hosts *self, ls_pjrt_record *record,
                        const ls_emit_host *site, int32_t replica) {
  record->engine = (ls_host_engine){record_done, record_give};
  record->job = (ls_host_job){.fn = run_job, .label = site->label};
  record->run = self->run;
  record->status = NULL;
  record->is_done = false;
  record->open = 2;
  record->call = (ls_host_call){
      .runtime = self->runtime,
      .state = site->state,
      .op_name = site->name,
      .replica = replica,
      .num_replicas =
          is_one_call(site)
              ? (int32_t)count_replicas(site, self->executable->num_devices)
              : 1,
      .num_inputs = site->num_inputs,
      .input_types = site->types,
      .inputs = (const void *const *)record->operands,
      .input_strides = site->strides,
      .num_outputs = site->num_outputs,
      .output_types = site->types + site->num_inputs,
      .outputs = record->operands + site->num_inputs,
      .engine = &record->engine,
  };
}

// Notes that a call waits, or no longer does. Requires the lock.
static void note_wait(ls_pjrt_hosts *self, const ls_pjrt_record *record,
                      int by) {
  self->num_out += by;
  self->waits_for = by > 0 ? record->job.label : NULL;
}

// Waits until the call has ended. Abandons it if the run is over and it cannot
// be withdrawn; returns false then.
static bool wait_for_call(ls_pjrt_hosts *self, ls_pjrt_record *record) {
  enum { LOOK_NANOS = 20 * 1000 * 1000 };
  bool was_told = false;
  ls_mutex_lock(&self->threads->lock);
  note_wait(self, record, 1);
  while (record->open > 0) {
    if (self->is_over && ls_host_threads_cancel(self->threads, &record->job)) {
      record->open = 0;
      record->status = LS_STATUS(LS_CANCELLED, "the run is over");
      break;
    }
    if (self->is_over && !was_told && record->kernel->cancel != NULL) {
      was_told = true;
      ls_mutex_unlock(&self->threads->lock);
      record->kernel->cancel(&record->call);
      ls_mutex_lock(&self->threads->lock);
      continue;
    }
    if (self->is_over && !was_told) {
      record->is_abandoned = true;
      ls_count_retain(&record->executable->references);
      ls_host_threads_abandon(self->threads, &record->job);
      break;
    }
    ls_host_threads_wait(self->threads, LOOK_NANOS);
  }
  const bool has_ended = record->open == 0;
  note_wait(self, record, -1);
  ls_mutex_unlock(&self->threads->lock);
  return has_ended;
}

// Makes one call; `*place` has no record any more if it was abandoned.
static ls_status call_kernel(ls_pjrt_hosts *self, ls_pjrt_record **place,
                             const ls_emit_host *site) {
  ls_pjrt_record *record = *place;
  if ((site->kernel->flags & LS_HOST_INLINE) != 0)
    run_job(&record->job);
  else
    LS_RETURN_IF_ERROR(ls_host_threads_submit(self->threads, &record->job));
  if (wait_for_call(self, record)) return take_results(record);
  *place = NULL;
  return LS_STATUS(LS_CANCELLED, "the call was abandoned");
}

// Copies an operand of the replicas from `first` on between the record and the
// buffers of their devices; what is not wide, from the first device and to all.
static void copy_operand(const ls_pjrt_hosts *self, const ls_emit_host *site,
                         const ls_pjrt_record *record, size_t operand,
                         size_t first, char *const *const *buffers,
                         size_t devices) {
  const bool is_in = operand < site->num_inputs, is_wide = site->wide[operand];
  const size_t size = ls_pjrt_host_bytes(site, operand);
  const size_t local = (size_t)site->num_local;
  const size_t parts = is_wide ? parts_of(self, site, operand)
                       : is_in ? 1
                               : devices;
  for (size_t i = 0; i < parts; ++i) {
    char *own = (char *)record->operands[operand] + (is_wide ? i * size : 0);
    char *buffer = is_wide ? buffers[(first + i) / local][operand] +
                                 (first + i) % local * size
                           : buffers[i][operand];
    memcpy(is_in ? own : buffer, is_in ? buffer : own, size);
  }
}

ls_status ls_pjrt_call_host(ls_pjrt_hosts *self, ls_pjrt_record **place,
                            const ls_emit_host *site, int32_t first,
                            char *const *const *buffers, int32_t devices) {
  const int32_t calls = is_one_call(site) ? 1 : count_replicas(site, devices);
  const size_t count = site->num_inputs + site->num_outputs;
  for (int32_t r = 0; r < calls; ++r) {
    if (*place == NULL) *place = make_record(self, site);
    LS_RETURN_IF_NO_MEMORY(*place != NULL);
    fill_record(self, *place, site, first + r);
    if (site->num_outputs == 0 && site->kernel->skips != NULL &&
        site->kernel->skips(&(*place)->call))
      continue;
    for (size_t i = 0; i < site->num_inputs; ++i)
      copy_operand(self, site, *place, i, (size_t)r, buffers, (size_t)devices);
    LS_RETURN_IF_ERROR(ls_status_annotate(call_kernel(self, place, site),
                                          "in %s, replica %d", site->label,
                                          first + r));
    LS_RETURN_IF_ERROR(ls_pjrt_check_labels(
        self->executable, site,
        (const void *const *)(*place)->operands + site->num_inputs,
        (*place)->call.num_replicas));
    for (size_t i = site->num_inputs; i < count; ++i)
      copy_operand(self, site, *place, i, (size_t)r, buffers, (size_t)devices);
  }
  return ls_ok();
}
