// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/run/host_call.h"

#include <stddef.h>

#include "base/runtime_internal.h"
#include "base/threads/thread_state.h"
#include "engine/cpu/run/ranks.h"
#include "engine/cpu/run/recorder.h"

// ---- Records ---------------------------------------------------------------
static size_t line_of(size_t size) { return (size + 63) & ~(size_t)63; }

static void destroy_record(ls_allocator *allocator,
                           ls_cpu_host_record *record) {
  if (record == NULL) return;
  ls_status_free(record->status);
  ls_arena_deinit(&record->strings);
  ls_release(allocator, record->operands);
  ls_release(allocator, record->data);
  ls_release(allocator, record);
}

// The last words of an abandoned call. Its executable goes before it is
// forgotten, and with it the label.
static void bury(ls_cpu_host_record *record) {
  ls_host_threads *threads = record->threads;
  ls_allocator *allocator = threads->allocator;
  ls_mutex_lock(&threads->lock);
  record->job.label = "a call that has just ended";
  ls_mutex_unlock(&threads->lock);
  ls_status_free(record->status);
  ls_arena_deinit(&record->strings);
  ls_release(allocator, record->operands);
  ls_release(allocator, record->data);
  ls_cpu_release_executable(record->executable);
  ls_mutex_lock(&threads->lock);
  ls_host_threads_forget(threads, &record->job);
  ls_mutex_unlock(&threads->lock);
}

// One of the two ends of a call, with the lock held. True: the record is
// nobody's any more.
static bool close_one(ls_cpu_host_record *record) {
  if (--record->open > 0) return false;
  ls_instance *self = record->instance;
  if (self == NULL) return true;
  if (record->is_out != NULL) LS_CPU_SET(*record->is_out, false);
  --self->host_running;
  ++self->host_done;
  ls_runtime_note_move(self->executable->backend->runtime);
  ls_condition_broadcast(&record->threads->event);
  return false;
}

// ---- Strings ---------------------------------------------------------------
// Has strings that are another's point to copies, each with a 0 behind it.
static ls_status keep_strings(ls_arena *arena, ls_bytes *strings,
                              size_t count) {
  size_t size = 0;
  for (size_t i = 0; i < count; ++i) {
    if (strings[i].data == NULL && strings[i].size > 0)
      return ls_invalid_argument("string %zu has %zu bytes at NULL", i,
                                 strings[i].size);
    if (__builtin_add_overflow(size, strings[i].size, &size) ||
        __builtin_add_overflow(size, (size_t)1, &size))
      return ls_out_of_memory();
  }
  char *place = ls_arena_allocate(arena, size);
  if (place == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i) {
    const size_t length = strings[i].size;
    if (length > 0) memcpy(place, strings[i].data, length);
    place[length] = '\0';
    strings[i].data = place;
    place += length + 1;
  }
  return ls_ok();
}

// Those of the record's operands from `begin` to `end` that are strings.
static ls_status keep_operands(ls_cpu_host_record *record, size_t begin,
                               size_t end) {
  const ls_cpu_host *host = record->host;
  for (size_t i = begin; i < end; ++i)
    if (host->types[i].dtype == LS_DTYPE_STRING)
      LS_RETURN_IF_ERROR(keep_strings(&record->strings, record->operands[i],
                                      host->sizes[i] / sizeof(ls_bytes)));
  return ls_ok();
}

// ---- Ends ------------------------------------------------------------------
// May be called on any thread, also before the kernel's start returns. Once the
// lock is open the call, and with it the run, may be gone.
static void record_done(ls_host_call *call, ls_status status) {
  ls_cpu_host_record *record =
      (void *)((char *)call->engine - offsetof(ls_cpu_host_record, done));
  ls_host_threads *threads = record->threads;
  if (__atomic_exchange_n(&record->is_done, true, __ATOMIC_ACQ_REL)) {
    ls_status_free(status);  // Done twice: the first one counts.
    return;
  }
  if (ls_status_is_ok(status))
    status = keep_operands(record, call->num_inputs,
                           call->num_inputs + call->num_outputs);
  ls_mutex_lock(&threads->lock);
  record->status = status;
  const bool is_over = close_one(record);
  ls_mutex_unlock(&threads->lock);
  if (is_over) bury(record);
}

// On a host thread.
static void run_call(ls_host_job *job) {
  ls_cpu_host_record *record = (ls_cpu_host_record *)job;
  ls_host_threads *threads = record->threads;
  ls_this_thread.work.runtime = record->call.runtime;
  ls_this_thread.work.run = record->run;
  ls_float_mode_leave(record->float_mode);
  ls_status status = record->host->kernel->start(&record->call);
  if (!ls_status_is_ok(status)) record_done(&record->call, status);
  ls_mutex_lock(&threads->lock);
  const bool is_over = close_one(record);
  ls_mutex_unlock(&threads->lock);
  if (is_over) bury(record);
  ls_this_thread.work.runtime = NULL;
  ls_this_thread.work.run = 0;
}

// A new record; NULL without memory.
static ls_cpu_host_record *make_record(ls_instance *self,
                                       const ls_cpu_host_room *room) {
  ls_allocator *allocator = self->host_threads->allocator;
  ls_cpu_host_record *record = ls_new(allocator, ls_cpu_host_record);
  if (record == NULL) return NULL;
  record->job.fn = run_call;
  record->done = record_done;
  record->threads = self->host_threads;
  record->instance = self;
  record->executable = self->executable;
  ls_arena_init(&record->strings, allocator);
  record->operands = ls_new_array(allocator, void *, room->operands);
  record->data = ls_allocate_large(allocator, room->bytes);
  if (record->operands != NULL && record->data != NULL) return record;
  destroy_record(allocator, record);
  return NULL;
}

static size_t count_own(const ls_executable *executable) {
  return (size_t)(executable->end - executable->first);
}

// Where the i-th record is, NULL after the last: of the shared stream, of the
// lanes if they call the host, and of the calls of all replicas.
static ls_cpu_host_record **record_at(ls_instance *self, size_t i) {
  const ls_executable *executable = self->executable;
  const size_t own = count_own(executable);
  const size_t lanes = executable->lanes_call_host ? own : 0;
  if (i == 0) return &self->main.host;
  if (i <= lanes) return &self->lanes[(size_t)executable->first + i - 1].host;
  i -= 1 + lanes;
  return self->host_all != NULL && i < own ? &self->host_all[i] : NULL;
}

static ls_status make_all(ls_instance *self) {
  const size_t own = count_own(self->executable);
  if (self->host_all == NULL)
    self->host_all = ls_new_array(self->allocator, ls_cpu_host_record *, own);
  if (self->host_is_out == NULL)
    self->host_is_out = ls_new_array(self->allocator, bool, own);
  if (self->host_all == NULL || self->host_is_out == NULL)
    return ls_out_of_memory();
  for (size_t i = 0; i < own; ++i) {
    ls_cpu_host_record **record = &self->host_all[i];
    if (*record == NULL)
      *record = make_record(self, &self->executable->host_room_all);
    if (*record == NULL) return ls_out_of_memory();
    (*record)->is_out = &self->host_is_out[i];
  }
  return ls_ok();
}

ls_status ls_cpu_init_host(ls_instance *self) {
  const ls_executable *executable = self->executable;
  if (!executable->calls_host) return ls_ok();
  LS_RETURN_IF_ERROR(ls_runtime_host_threads(executable->backend->runtime,
                                             &self->host_threads));
  if (executable->calls_host_for_all) LS_RETURN_IF_ERROR(make_all(self));
  ls_cpu_host_record **record = NULL;
  for (size_t i = 0; (record = record_at(self, i)) != NULL; ++i) {
    if (*record == NULL) *record = make_record(self, &executable->host_room);
    if (*record == NULL) return ls_out_of_memory();
    ls_arena_reset(&(*record)->strings);
  }
  return ls_ok();
}

void ls_cpu_deinit_host(ls_instance *self) {
  if (self->host_threads == NULL || self->lanes == NULL) return;
  ls_cpu_host_record **record = NULL;
  for (size_t i = 0; (record = record_at(self, i)) != NULL; ++i)
    destroy_record(self->host_threads->allocator, *record);
  ls_release(self->allocator, self->host_all);
  ls_release(self->allocator, self->host_is_out);
}

// ---- Calls -----------------------------------------------------------------
// Places for copies of the operands, the inputs filled; of wide ones part
// `part`. Strings that a kernel leaves as they are are empty.
static ls_status copy_arguments(ls_cpu_host_record *record,
                                const ls_cpu_instruction *instruction,
                                void *const *operands, size_t part) {
  const ls_cpu_host *host = record->host;
  const uint32_t count = instruction->num_in + instruction->num_out;
  char *at = record->data;
  for (uint32_t i = 0; i < count; ++i) {
    const size_t size = host->sizes[i];
    const char *from = operands[i];
    record->operands[i] = at;
    if (i < instruction->num_in) {
      memcpy(at, from + (host->is_wide[i] ? part * size : 0), size);
    } else if (host->types[i].dtype == LS_DTYPE_STRING) {
      memset(at, 0, size);
    }
    at += line_of(size);
  }
  return keep_operands(record, 0, instruction->num_in);
}

// Which part of a wide value is a replica's: each rank has its own.
static size_t part_of(const ls_instance *self, int32_t replica) {
  return (size_t)(replica - self->executable->first);
}

static ls_status fill_record(ls_instance *self, ls_cpu_host_record *record,
                             const ls_cpu_instruction *instruction,
                             void *const *operands, int32_t replica) {
  const ls_cpu_host *host = instruction->params;
  const uint32_t num_in = instruction->num_in;
  record->host = host;
  record->job.label = host->label;
  record->float_mode = self->float_mode;
  record->run = self->run;
  record->status = NULL;
  record->is_done = false;
  record->open = 2;
  const ls_status status =
      copy_arguments(record, instruction, operands, part_of(self, replica));
  record->call = (ls_host_call){
      .runtime = self->executable->backend->runtime,
      .state = host->state,
      .op_name = host->name,
      .replica = replica,
      .num_inputs = num_in,
      .input_types = host->types,
      .inputs = (const void *const *)record->operands,
      .num_outputs = instruction->num_out,
      .output_types = host->types + num_in,
      .outputs = record->operands + num_in,
      .engine = &record->done,
  };
  return status;
}

// `status`: whether its arguments are there.
static void start_call(ls_instance *self, ls_cpu_host_record *record,
                       ls_status status) {
  ls_host_threads *threads = self->host_threads;
  ls_mutex_lock(&threads->lock);
  ++self->host_running;
  if (record->is_out != NULL) LS_CPU_SET(*record->is_out, true);
  ls_mutex_unlock(&threads->lock);
  if (ls_status_is_ok(status))
    status = ls_host_threads_submit(threads, &record->job);
  if (ls_status_is_ok(status)) return;
  record_done(&record->call, status);
  ls_mutex_lock(&threads->lock);
  (void)close_one(record);
  ls_mutex_unlock(&threads->lock);
}

void ls_cpu_start_host(ls_instance *self, ls_cpu_stream *stream,
                       const ls_cpu_instruction *instruction,
                       void *const *operands) {
  const ls_cpu_host *host = instruction->params;
  const ls_executable *executable = self->executable;
  LS_CPU_SET(stream->host_since, ls_runtime_now(executable->backend->runtime));
  if (!host->is_for_all) {
    start_call(self, stream->host,
               fill_record(self, stream->host, instruction, operands,
                           stream->replica));
    return;
  }
  self->host_taken = 0;
  for (int32_t r = executable->first; r < executable->end; ++r) {
    ls_cpu_host_record *record = self->host_all[r - executable->first];
    start_call(self, record,
               fill_record(self, record, instruction, operands, r));
  }
}

// How a call went, if it has ended.
static ls_status take_status(ls_instance *self, ls_cpu_host_record *record,
                             bool *out_has_ended) {
  ls_mutex_lock(&self->host_threads->lock);
  *out_has_ended = record->open == 0;
  ls_status status = *out_has_ended ? record->status : NULL;
  if (*out_has_ended) record->status = NULL;
  ls_mutex_unlock(&self->host_threads->lock);
  return ls_status_annotate(status, "in %s, replica %d", record->host->label,
                            record->call.replica);
}

// Takes the results of one call. False: it has not ended.
static bool take_call(ls_instance *self, ls_cpu_worker *worker,
                      ls_cpu_host_record *record,
                      const ls_cpu_instruction *instruction,
                      void *const *operands) {
  const ls_cpu_host *host = instruction->params;
  const int32_t replica = record->call.replica;
  bool has_ended = false;
  ls_status status = take_status(self, record, &has_ended);
  if (!has_ended) return false;
  if (!ls_status_is_ok(status)) {
    ls_cpu_worker_fail(worker, status);
    return true;
  }
  const uint32_t num_in = instruction->num_in;
  for (uint32_t i = num_in; i < num_in + instruction->num_out; ++i) {
    const size_t size = host->sizes[i];
    char *to = operands[i];
    memcpy(to + (host->is_wide[i] ? part_of(self, replica) * size : 0),
           record->operands[i], size);
  }
  return true;
}

bool ls_cpu_finish_host(ls_instance *self, ls_cpu_worker *worker,
                        ls_cpu_stream *stream,
                        const ls_cpu_instruction *instruction,
                        void *const *operands) {
  const ls_cpu_host *host = instruction->params;
  if (!host->is_for_all)
    return take_call(self, worker, stream->host, instruction, operands);
  const uint32_t count = (uint32_t)count_own(self->executable);
  for (; self->host_taken < count; ++self->host_taken) {
    ls_cpu_host_record *record = self->host_all[self->host_taken];
    if (!take_call(self, worker, record, instruction, operands)) return false;
    if (!ls_status_is_ok(worker->status)) return true;
  }
  // Nothing that follows may meet: a call that fails ends the run everywhere.
  ls_status status = ls_cpu_ranks_agree(self, instruction);
  if (!ls_status_is_ok(status)) ls_cpu_worker_fail(worker, status);
  return true;
}

ls_status ls_cpu_failed_call(ls_instance *self) {
  const ls_executable *executable = self->executable;
  const ls_cpu_instruction *at = &executable->instructions[self->main.pc];
  if (at->code != LS_CPU_HOST_FINISH ||
      !((const ls_cpu_host *)at->params)->is_for_all)
    return ls_ok();
  ls_status status = ls_ok();
  bool has_ended = false;
  for (size_t i = self->host_taken;
       i < count_own(executable) && ls_status_is_ok(status); ++i)
    status = take_status(self, self->host_all[i], &has_ended);
  return status;
}

// ---- Waiting ---------------------------------------------------------------
uint64_t ls_cpu_host_events(ls_instance *self) {
  if (self->host_threads == NULL) return 0;
  ls_mutex_lock(&self->host_threads->lock);
  const uint64_t done = self->host_done;
  ls_mutex_unlock(&self->host_threads->lock);
  return done;
}

// With the lock held: a call of all replicas has failed on one of them, which
// is told once the others have ended or stood still.
static bool has_failed(const ls_instance *self) {
  const size_t count = self->host_all == NULL ? 0 : count_own(self->executable);
  for (size_t i = 0; i < count; ++i)
    if (self->host_all[i] != NULL && self->host_all[i]->open == 0 &&
        !ls_status_is_ok(self->host_all[i]->status))
      return true;
  return false;
}

// With the lock held. The runtime's clock may be a test's, so it is looked at
// now and then. `alone`: what other runs do does not matter.
static ls_cpu_wait wait_for_event(ls_instance *self, uint64_t seen,
                                  bool alone) {
  enum { LOOK_NANOS = 20 * 1000 * 1000 };
  const ls_runtime *runtime = self->executable->backend->runtime;
  const int64_t limit = ls_runtime_stall_nanos(runtime);
  int64_t begin = ls_runtime_now(runtime);
  uint64_t progress = 0;
  (void)ls_runtime_goes_on(runtime, &progress);
  while (self->host_done == seen && self->host_running > 0) {
    const int64_t now = ls_runtime_now(runtime);
    const bool goes_on = ls_runtime_goes_on(runtime, &progress);
    if (goes_on && !alone && !has_failed(self)) begin = now;
    const int64_t left = limit - (now - begin);
    if (left <= 0) return LS_CPU_TOO_LONG;
    ls_host_threads_wait(self->host_threads,
                         left < LOOK_NANOS ? left : LOOK_NANOS);
  }
  return self->host_done != seen ? LS_CPU_WENT_ON : LS_CPU_NO_CALL;
}

ls_cpu_wait ls_cpu_wait_for_host(ls_instance *self, uint64_t seen) {
  if (self->host_threads == NULL) return LS_CPU_NO_CALL;
  ls_mutex_lock(&self->host_threads->lock);
  const ls_cpu_wait how = wait_for_event(self, seen, false);
  ls_mutex_unlock(&self->host_threads->lock);
  return how;
}

// With the lock held. A call that no thread has begun ends here; another one
// keeps its record, and there will be a new one.
static void give_up(ls_instance *self, ls_cpu_host_record **place) {
  ls_cpu_host_record *record = *place;
  if (ls_host_threads_cancel(self->host_threads, &record->job)) {
    record->open = 0;
  } else {
    record->instance = NULL;
    ls_count_retain(&record->executable->references);
    ls_host_threads_abandon(self->host_threads, &record->job);
    *place = NULL;
  }
  --self->host_running;
}

void ls_cpu_drain_host(ls_instance *self, bool wait) {
  if (self->host_threads == NULL) return;
  ls_mutex_lock(&self->host_threads->lock);
  while (wait &&
         wait_for_event(self, self->host_done, true) == LS_CPU_WENT_ON) {
  }
  ls_cpu_host_record **record = NULL;
  for (size_t i = 0; (record = record_at(self, i)) != NULL; ++i)
    if (*record != NULL && (*record)->open > 0) give_up(self, record);
  ls_mutex_unlock(&self->host_threads->lock);
  // Results of calls that a failed run did not wait for.
  for (size_t i = 0; (record = record_at(self, i)) != NULL; ++i) {
    if (*record == NULL) continue;
    ls_status_free((*record)->status);
    (*record)->status = NULL;
  }
}
