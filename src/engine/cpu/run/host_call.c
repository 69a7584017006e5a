// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/run/host_call.h"

#include <stddef.h>

#include "base/runtime_internal.h"
#include "base/threads/thread_state.h"
#include "base/values/array_internal.h"
#include "engine/cpu/run/ranks.h"

// ---- Records ----------------------------------------------------------------
// Records of host calls: their memory, and the strings in it.

static void release_contents(ls_allocator *allocator,
                             ls_cpu_host_record *record) {
  ls_status_free(record->status);
  ls_arena_deinit(&record->strings);
  ls_release(allocator, record->operands);
  ls_release(allocator, record->data);
  const uint32_t copies = record->copies == NULL ? 0 : record->host->num_out;
  for (uint32_t i = 0; i < copies; ++i)
    ls_release(allocator, record->copies[i]);
  ls_release(allocator, record->copies);
}

static void destroy_record(ls_allocator *allocator,
                           ls_cpu_host_record *record) {
  if (record == NULL) return;
  release_contents(allocator, record);
  ls_release(allocator, record);
}

// Releases the executable, which owns the label, before the job is forgotten.
static void free_abandoned(ls_cpu_host_record *record) {
  ls_host_threads *threads = record->threads;
  ls_allocator *allocator = threads->allocator;
  ls_status_free(ls_cpu_take_results(record, NULL));
  ls_mutex_lock(&threads->lock);
  record->job.label = "a call that has just ended";
  ls_mutex_unlock(&threads->lock);
  release_contents(allocator, record);
  ls_cpu_release_executable(record->executable);
  ls_mutex_lock(&threads->lock);
  ls_host_threads_forget(threads, &record->job);
  ls_mutex_unlock(&threads->lock);
}

// Makes strings point to copies in the arena, each with a terminating 0.
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
  ls_strings_copy(strings, count, place);
  return ls_ok();
}

// Copies the strings of operands `begin` to `end`, whose bytes belong to
// others, into the record.
static ls_status copy_strings(ls_cpu_host_record *record, size_t begin,
                              size_t end) {
  const ls_cpu_host *host = record->host;
  const size_t parts = (size_t)record->call.num_replicas;
  for (size_t i = begin; i < end; ++i) {
    if (host->types[i].dtype != LS_DTYPE_STRING) continue;
    const size_t count = host->sizes[i] / sizeof(ls_bytes);
    LS_RETURN_IF_ERROR(
        keep_strings(&record->strings, record->operands[i],
                     host->strides[i] == 0 ? count : count * parts));
  }
  return ls_ok();
}

ls_status ls_cpu_take_results(ls_cpu_host_record *record,
                              void *const *outputs) {
  if (!record->needs_take) return ls_ok();
  record->needs_take = false;
  if (!ls_status_is_ok(record->status)) return ls_ok();
  record->call.outputs = outputs;
  const ls_cpu_host *host = record->host;
  ls_status status = host->kernel->take(&record->call);
  if (ls_status_is_ok(status) && outputs != NULL)
    status = copy_strings(record, host->num_in, host->num_in + host->num_out);
  if (!ls_status_is_ok(status)) record->is_lent = false;
  if (host->kernel->end != NULL && !record->is_lent)
    host->kernel->end(&record->call);
  return status;
}

// ---- Lent results ----------------------------------------------------------
// Copies an unaligned lent result into the record.
static ls_status copy_given(ls_cpu_host_record *record, size_t output,
                            const void **data) {
  const ls_cpu_host *host = record->host;
  ls_allocator *allocator = record->threads->allocator;
  const size_t size = host->sizes[host->num_in + output];
  if (record->copies == NULL)
    record->copies = ls_new_array(allocator, char *, host->num_out);
  if (record->copies != NULL && record->copies[output] == NULL)
    record->copies[output] = ls_allocate_large(allocator, size);
  if (record->copies == NULL || record->copies[output] == NULL)
    return ls_out_of_memory();
  memcpy(record->copies[output], *data, size);
  *data = record->copies[output];
  return ls_ok();
}

// Lends a result to the engine: see ls_host_give.
static ls_status give(ls_host_call *call, size_t output, const void *data) {
  ls_cpu_host_record *record =
      (void *)((char *)call->engine - offsetof(ls_cpu_host_record, engine));
  const ls_cpu_host *host = record->host;
  const uint32_t base =
      host->given == NULL ? LS_CPU_NOT_GIVEN : host->given[output];
  if (call->outputs == NULL) return ls_ok();
  if (base == LS_CPU_NOT_GIVEN) {
    if (call->outputs[output] != NULL)
      memcpy(call->outputs[output], data,
             ls_cpu_operand_bytes(host, host->num_in + (uint32_t)output));
    return ls_ok();
  }
  if ((uintptr_t)data % LS_CACHE_LINE != 0)
    LS_RETURN_IF_ERROR(copy_given(record, output, &data));
  ls_instance *self = record->instance;
  self->workers[0].bases[ls_cpu_base_given(self->executable) + base] =
      (char *)(uintptr_t)data;  // Results are never written.
  record->is_lent = true;
  return ls_ok();
}

static void return_lent(ls_cpu_host_record *record) {
  if (!record->is_lent) return;
  record->is_lent = false;
  record->host->kernel->end(&record->call);
}

void ls_cpu_return_all_lent(ls_instance *self) {
  const ls_executable *executable = self->executable;
  if (executable->num_given == 0 || self->sites == NULL) return;
  for (uint32_t k = 0; k < executable->num_sites; ++k)
    for (uint32_t i = 0; i < self->sites[k].count; ++i)
      if (self->sites[k].records[i] != NULL)
        return_lent(self->sites[k].records[i]);
}

// ---- Making records --------------------------------------------------------
// Makes a record; returns NULL without memory.
static ls_cpu_host_record *make_record(ls_instance *self,
                                       ls_cpu_host_room room) {
  ls_allocator *allocator = self->host_threads->allocator;
  ls_cpu_host_record *record = ls_new(allocator, ls_cpu_host_record);
  if (record == NULL) return NULL;
  record->threads = self->host_threads;
  record->instance = self;
  record->executable = self->executable;
  ls_arena_init(&record->strings, allocator);
  record->operands = ls_new_array(allocator, void *, room.operands + 1);
  if (room.bytes > 0) record->data = ls_allocate_large(allocator, room.bytes);
  if (record->operands != NULL && (record->data != NULL || room.bytes == 0))
    return record;
  destroy_record(allocator, record);
  return NULL;
}

ls_cpu_host_record **ls_cpu_record_at(ls_instance *self, size_t i) {
  const ls_executable *executable = self->executable;
  if (executable->lanes_call_host) {
    if (i < executable->num_lanes) return &self->lanes[i].host;
    i -= executable->num_lanes;
  }
  for (uint32_t k = 0; self->sites != NULL && k < executable->num_sites; ++k) {
    if (i < self->sites[k].count) return &self->sites[k].records[i];
    i -= self->sites[k].count;
  }
  return NULL;
}

static int32_t count_calls(const ls_cpu_host *host) {
  return host->by_one_call ? 1 : (int32_t)ls_cpu_num_local(&host->share);
}

static ls_status make_site(ls_instance *self, const ls_cpu_host *host,
                           ls_cpu_site *site) {
  ls_allocator *allocator = self->allocator;
  const uint32_t count = host->ends_at_once ? 1 : (uint32_t)count_calls(host);
  if (site->records == NULL)
    site->records = ls_new_array(allocator, ls_cpu_host_record *, count);
  if (site->is_out == NULL) site->is_out = ls_new_array(allocator, bool, count);
  if (site->records == NULL || site->is_out == NULL) return ls_out_of_memory();
  site->count = count;
  const ls_cpu_host_room room = ls_cpu_room_of(host);
  for (uint32_t i = 0; i < count; ++i) {
    if (site->records[i] == NULL) site->records[i] = make_record(self, room);
    if (site->records[i] == NULL) return ls_out_of_memory();
    site->records[i]->is_out = &site->is_out[i];
    site->records[i]->host = host;
  }
  return ls_ok();
}

static ls_status make_sites(ls_instance *self) {
  const ls_executable *executable = self->executable;
  if (executable->num_sites == 0) return ls_ok();
  if (self->sites == NULL)
    LS_SET_ARRAY_OR_RETURN(self->allocator, ls_cpu_site, self->sites,
                           executable->num_sites);
  for (uint32_t k = 0; k < executable->num_sites; ++k)
    LS_RETURN_IF_ERROR(make_site(self, executable->sites[k], &self->sites[k]));
  return ls_ok();
}

ls_status ls_cpu_init_host(ls_instance *self) {
  const ls_executable *executable = self->executable;
  if (!executable->calls_host) return ls_ok();
  if (self->host_is_ready && !executable->host_has_strings) return ls_ok();
  if (self->host_threads == NULL)
    LS_RETURN_IF_ERROR(ls_runtime_host_threads(executable->backend->runtime,
                                               &self->host_threads));
  LS_RETURN_IF_ERROR(make_sites(self));
  ls_cpu_host_record **record = NULL;
  for (size_t i = 0; (record = ls_cpu_record_at(self, i)) != NULL; ++i) {
    if (*record == NULL) *record = make_record(self, executable->lanes_room);
    if (*record == NULL) return ls_out_of_memory();
    ls_arena_reset(&(*record)->strings);
  }
  self->host_is_ready = true;
  return ls_ok();
}

void ls_cpu_deinit_host(ls_instance *self) {
  if (self->host_threads == NULL || self->lanes == NULL) return;
  ls_cpu_host_record **record = NULL;
  for (size_t i = 0; (record = ls_cpu_record_at(self, i)) != NULL; ++i)
    destroy_record(self->host_threads->allocator, *record);
  for (uint32_t k = 0; self->sites != NULL && k < self->executable->num_sites;
       ++k) {
    ls_release(self->allocator, self->sites[k].records);
    ls_release(self->allocator, self->sites[k].is_out);
  }
  ls_release(self->allocator, self->sites);
}

// ---- Ends ------------------------------------------------------------------
// Counts one of the two end events of a call; requires the lock. Returns true
// if the record was abandoned and must be freed.
static bool cpu_close_record(ls_cpu_host_record *record) {
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

static void close_with_lock(ls_cpu_host_record *record) {
  ls_mutex_lock(&record->threads->lock);
  const bool is_over = cpu_close_record(record);
  ls_mutex_unlock(&record->threads->lock);
  if (is_over) free_abandoned(record);
}

// Ends the call. May run on any thread, even before the kernel's start returns.
// After the lock is released the call, and with it the run, may be freed.
static void record_done(ls_host_call *call, ls_status status) {
  ls_cpu_host_record *record =
      (void *)((char *)call->engine - offsetof(ls_cpu_host_record, engine));
  const ls_cpu_host *host = record->host;
  if (__atomic_exchange_n(&record->is_done, true, __ATOMIC_ACQ_REL)) {
    ls_status_free(status);  // Ignores all calls but the first.
    return;
  }
  if (ls_status_is_ok(status) && host->kernel->take == NULL)
    status = copy_strings(record, host->num_in, host->num_in + host->num_out);
  // Readers wait until the record is closed below.
  record->status = status;
  if (!host->ends_at_once) close_with_lock(record);
}

static void call_kernel(ls_cpu_host_record *record, int64_t queued) {
  const int64_t began = ls_span_begin(record->call.runtime);
  ls_status status = record->host->kernel->start(&record->call);
  ls_cpu_span_call(record, queued, began);
  if (!ls_status_is_ok(status)) record_done(&record->call, status);
}

// Runs a call on a host thread.
static void run_call(ls_host_job *job) {
  ls_cpu_host_record *record = (ls_cpu_host_record *)job;
  ls_this_thread.work.runtime = record->call.runtime;
  ls_this_thread.work.run = record->run;
  ls_float_mode_leave(record->float_mode);
  call_kernel(record, record->queued);
  close_with_lock(record);
  ls_this_thread.work.runtime = NULL;
  ls_this_thread.work.run = 0;
}

// ---- Starting --------------------------------------------------------------
// Returns the index of a replica's part in a wide value, which has this rank's
// parts only.
static size_t part_index(const ls_cpu_host *host, int32_t replica) {
  return (size_t)(replica - host->share.first);
}

// Sets the operands that the kernel sees: copies, with the inputs filled in, or
// the instruction's operands themselves. Wide ones start at part `part`.
// Strings start empty.
static ls_status set_arguments(ls_cpu_host_record *record,
                               const ls_cpu_host *host, void *const *operands,
                               size_t part) {
  char *copy = record->data;
  record->call.inputs = (const void *const *)record->operands;
  if (!record->needs_take)
    record->call.outputs = record->operands + host->num_in;
  for (uint32_t i = 0; i < host->num_in + host->num_out; ++i) {
    const bool is_in = i < host->num_in;
    const size_t size = ls_cpu_operand_bytes(host, i);
    char *operand = is_in || host->ends_at_once
                        ? (char *)operands[i] + part * host->strides[i]
                        : NULL;
    if (is_in ? host->copies_in : host->copies_out) {
      if (is_in) memcpy(copy, operand, size);
      operand = copy;
      copy += ls_round_to_line(size);
    }
    record->operands[i] = operand;
    if (!is_in && operand != NULL && host->types[i].dtype == LS_DTYPE_STRING)
      memset(operand, 0, size);
  }
  return host->copies_in ? copy_strings(record, 0, host->num_in) : ls_ok();
}

static void fill_record(ls_instance *self, ls_cpu_host_record *record,
                        const ls_cpu_host *host, int32_t replica) {
  const ls_executable *executable = self->executable;
  return_lent(record);
  record->host = host;
  record->engine = (ls_host_engine){record_done, give};
  record->job.label = host->label;
  record->float_mode = self->float_mode;
  record->run = self->run;
  record->status = NULL;
  record->is_done = false;
  record->needs_take = host->kernel->take != NULL;
  record->open = host->ends_at_once ? 0 : 2;
  record->call = (ls_host_call){
      .runtime = executable->backend->runtime,
      .state = host->state,
      .op_name = host->name,
      .replica = replica,
      .num_replicas = (int32_t)host->parts,
      .num_inputs = host->num_in,
      .input_types = host->types,
      .input_strides = host->strides,
      .num_outputs = host->num_out,
      .output_types = host->types + host->num_in,
      .engine = &record->engine,
  };
}

// Returns true if the kernel has nothing to do: the call has ended.
static bool is_skipped(ls_cpu_host_record *record) {
  const ls_host_kernel *kernel = record->host->kernel;
  if (kernel->skips == NULL || record->call.num_outputs > 0 ||
      !kernel->skips(&record->call))
    return false;
  record->needs_take = false;
  record->open = 0;
  return true;
}

// Calls a kernel that ends at once: no lock is needed, as no other thread sees
// the record.
static void call_at_once(ls_cpu_host_record *record) {
  const int64_t began = ls_span_begin(record->call.runtime);
  ls_status status = record->host->kernel->start(&record->call);
  ls_cpu_span_call(record, LS_NO_SPAN, began);
  if (ls_status_is_ok(status) && !record->is_done)
    status = ls_internal("inline kernel '%s' has not ended its call, and is "
                         "not marked as waiting",
                         record->host->kernel->name);
  if (!ls_status_is_ok(status)) record_done(&record->call, status);
}

// Starts the call, or ends it at once if `status`, the result of setting its
// arguments, is a failure.
static void start_call(ls_instance *self, ls_cpu_host_record *record,
                       ls_status status) {
  ls_host_threads *threads = self->host_threads;
  ls_mutex_lock(&threads->lock);
  ++self->host_running;
  if (record->is_out != NULL) LS_CPU_SET(*record->is_out, true);
  ls_mutex_unlock(&threads->lock);
  record->job.fn = run_call;
  record->queued = ls_cpu_span_begin(self);
  if (ls_status_is_ok(status) && record->host->is_inline) {
    call_kernel(record, LS_NO_SPAN);
    close_with_lock(record);
    return;
  }
  if (ls_status_is_ok(status))
    status = ls_host_threads_submit(threads, &record->job);
  if (ls_status_is_ok(status)) return;
  record_done(&record->call, status);
  close_with_lock(record);
}

// Makes the calls of all replicas whose kernel ends at once. They share a
// record, which keeps the first failure.
static void start_at_once(ls_instance *self, ls_cpu_host_record *record,
                          const ls_cpu_host *host, int32_t first,
                          void *const *operands) {
  const int32_t count = count_calls(host);
  for (int32_t i = 0; i < count; ++i) {
    fill_record(self, record, host, first + i);
    if (is_skipped(record)) continue;
    ls_status status =
        set_arguments(record, host, operands, part_index(host, first + i));
    if (ls_status_is_ok(status))
      call_at_once(record);
    else
      record->status = status;
    if (ls_status_is_ok(record->status) && record->needs_take) {
      status = ls_cpu_take_results(record, record->operands + host->num_in);
      record->status = status;
    }
    if (!ls_status_is_ok(record->status)) return;
  }
}

void ls_cpu_start_host(ls_instance *self, ls_cpu_stream *stream,
                       const ls_cpu_instruction *instruction,
                       void *const *operands) {
  const ls_cpu_host *host = instruction->params;
  const ls_executable *executable = self->executable;
  ls_cpu_site *site =
      host->site == LS_CPU_NO_SITE ? NULL : &self->sites[host->site];
  const int32_t first =
      host->is_for_all ? host->share.first : stream->replica + host->replica;
  if (host->ends_at_once) {
    start_at_once(self, site == NULL ? stream->host : site->records[0], host,
                  first, operands);
    return;
  }
  LS_CPU_SET(stream->host_since, ls_runtime_now(executable->backend->runtime));
  if (site != NULL) site->taken = 0;
  for (int32_t i = 0; i < count_calls(host); ++i) {
    ls_cpu_host_record *record = site == NULL ? stream->host : site->records[i];
    fill_record(self, record, host, first + i);
    if (is_skipped(record)) continue;
    start_call(
        self, record,
        set_arguments(record, host, operands, part_index(host, first + i)));
  }
}

// ---- Taking results --------------------------------------------------------
static ls_status annotate_call(const ls_cpu_host_record *record,
                               ls_status status) {
  return ls_status_annotate(status, "in %s, replica %d", record->host->label,
                            record->call.replica);
}

static bool has_ended(const ls_instance *self,
                      const ls_cpu_host_record *record) {
  if (record->host->ends_at_once) return true;
  ls_mutex_lock(&self->host_threads->lock);
  const bool has_closed = record->open == 0;
  ls_mutex_unlock(&self->host_threads->lock);
  return has_closed;
}

// Returns the status of an ended call.
static ls_status take_status(ls_cpu_host_record *record) {
  ls_status status = record->status;
  if (!ls_status_is_ok(status)) record->needs_take = false;
  record->status = NULL;
  return annotate_call(record, status);
}

// Copies the results to the outputs. In `record->operands` they follow the
// inputs.
static ls_status copy_results(ls_cpu_host_record *record,
                              void *const *outputs) {
  const ls_cpu_host *host = record->host;
  const size_t part = part_index(host, record->call.replica);
  for (uint32_t i = 0; i < host->num_out; ++i) {
    const uint32_t k = host->num_in + i;
    char *target = (char *)outputs[i] + part * host->strides[k];
    const size_t size = ls_cpu_operand_bytes(host, k);
    if (record->needs_take)
      record->operands[k] = target;
    else if (host->copies_out && size > 0)
      memcpy(target, record->operands[k], size);
  }
  if (!record->needs_take) return ls_ok();
  return annotate_call(
      record, ls_cpu_take_results(record, record->operands + host->num_in));
}

// Takes the results of one call. Returns false if it has not ended.
static bool take_call(ls_instance *self, ls_cpu_worker *worker,
                      ls_cpu_host_record *record, void *const *outputs) {
  if (!has_ended(self, record)) return false;
  ls_status status = take_status(record);
  if (ls_status_is_ok(status) && !record->host->ends_at_once)
    status = copy_results(record, outputs);
  if (ls_status_code(status) == LS_OUT_OF_RANGE &&
      (record->host->kernel->flags & LS_HOST_ENDS) != 0)
    self->is_at_end = true;
  if (!ls_status_is_ok(status)) ls_cpu_worker_fail(worker, status);
  return true;
}

bool ls_cpu_finish_host(ls_instance *self, ls_cpu_worker *worker,
                        ls_cpu_stream *stream,
                        const ls_cpu_instruction *instruction,
                        void *const *operands) {
  const ls_cpu_host *host = instruction->params;
  void *const *outputs = operands + instruction->num_in;
  if (host->site == LS_CPU_NO_SITE)
    return take_call(self, worker, stream->host, outputs);
  ls_cpu_site *site = &self->sites[host->site];
  for (; site->taken < site->count; ++site->taken) {
    if (!take_call(self, worker, site->records[site->taken], outputs))
      return false;
    if (!ls_status_is_ok(worker->status)) return true;
  }
  site->taken = 0;
  if (!host->is_for_all) return true;
  // Ranks agree before they go on: a call that fails must end the run
  // everywhere before another exchange.
  ls_status status = ls_cpu_ranks_agree(self, instruction);
  if (!ls_status_is_ok(status)) ls_cpu_worker_fail(worker, status);
  return true;
}

ls_status ls_cpu_failed_call(ls_instance *self) {
  const ls_executable *executable = self->executable;
  const ls_cpu_instruction *at = &executable->instructions[self->main.pc];
  if (at->code != LS_CPU_HOST_FINISH) return ls_ok();
  const ls_cpu_site *site =
      &self->sites[((const ls_cpu_host *)at->params)->site];
  for (uint32_t i = site->taken; i < site->count; ++i) {
    ls_cpu_host_record *record = site->records[i];
    if (has_ended(self, record) && !ls_status_is_ok(record->status))
      return take_status(record);
  }
  return ls_ok();
}
