// SPDX-License-Identifier: Apache-2.0
//
// Records of host calls: their memory, and the strings in it.
#include "base/runtime_internal.h"
#include "base/values/array_internal.h"
#include "engine/cpu/run/host_call.h"

static void destroy_record(ls_allocator *allocator,
                           ls_cpu_host_record *record) {
  if (record == NULL) return;
  ls_status_free(record->status);
  ls_arena_deinit(&record->strings);
  ls_release(allocator, record->operands);
  ls_release(allocator, record->data);
  const uint32_t copies = record->copies == NULL ? 0 : record->host->num_out;
  for (uint32_t i = 0; i < copies; ++i)
    ls_release(allocator, record->copies[i]);
  ls_release(allocator, record->copies);
  ls_release(allocator, record);
}

// Releases the executable, which owns the label, before the job is forgotten.
void ls_cpu_free_abandoned(ls_cpu_host_record *record) {
  ls_host_threads *threads = record->threads;
  ls_allocator *allocator = threads->allocator;
  ls_status_free(ls_cpu_take_results(record, NULL));
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

ls_status ls_cpu_take_results(ls_cpu_host_record *record,
                              void *const *outputs) {
  if (!record->needs_take) return ls_ok();
  record->needs_take = false;
  if (!ls_status_is_ok(record->status)) return ls_ok();
  record->call.outputs = outputs;
  const ls_cpu_host *host = record->host;
  ls_status status = host->kernel->take(&record->call);
  if (ls_status_is_ok(status) && outputs != NULL)
    status =
        ls_cpu_copy_strings(record, host->num_in, host->num_in + host->num_out);
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

ls_status ls_cpu_give(ls_host_call *call, size_t output, const void *data) {
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

void ls_cpu_return_lent(ls_cpu_host_record *record) {
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
        ls_cpu_return_lent(self->sites[k].records[i]);
}

// ---- Strings ---------------------------------------------------------------
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

ls_status ls_cpu_copy_strings(ls_cpu_host_record *record, size_t begin,
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

static uint32_t count_records(const ls_cpu_host *host) {
  return host->by_one_call || host->ends_at_once
             ? 1
             : ls_cpu_num_local(&host->share);
}

static ls_status make_site(ls_instance *self, const ls_cpu_host *host,
                           ls_cpu_site *site) {
  ls_allocator *allocator = self->allocator;
  const uint32_t count = count_records(host);
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
    self->sites =
        ls_new_array(self->allocator, ls_cpu_site, executable->num_sites);
  if (self->sites == NULL) return ls_out_of_memory();
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
