// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/host_call.h"

#include "base/workers.h"

void ls_host_done(ls_host_call *call, ls_status status) {
  ls_host_done_function done = NULL;
  memcpy(&done, call->engine, sizeof(done));
  done(call, status);
}

// May be called on any thread, also before the kernel's start returns. Once the
// lock is open the call, and with it the run, may be gone.
static void record_done(ls_host_call *call, ls_status status) {
  ls_cpu_host_record *record = call->engine;
  ls_instance *self = record->instance;
  ls_mutex_lock(&self->lock);
  const bool is_late = !record->is_running;
  if (!is_late) {
    record->status = status;
    record->is_running = false;
    --self->host_running;
    ++self->host_done;
    ls_condition_broadcast(&self->host_event);
  }
  ls_mutex_unlock(&self->lock);
  if (is_late) ls_status_free(status);  // Done twice: the first one counts.
}

ls_status ls_cpu_init_host(ls_instance *self) {
  const ls_executable *executable = self->executable;
  if (!executable->calls_host) return ls_ok();
  LS_TRY(ls_mutex_init(&self->lock));
  LS_TRY(ls_condition_init(&self->host_event));
  const size_t lanes =
      executable->lanes_call_host ? (size_t)executable->replicas : 0;
  const size_t width = executable->max_host_operands;
  self->records = ls_new_array(self->allocator, ls_cpu_host_record, lanes + 1);
  if (self->records == NULL) return ls_out_of_memory();
  void **operands = ls_new_array(self->allocator, void *, (lanes + 1) * width);
  if (operands == NULL) return ls_out_of_memory();
  for (size_t i = 0; i <= lanes; ++i) {
    self->records[i].done = record_done;
    self->records[i].instance = self;
    self->records[i].operands = operands + i * width;
    ls_cpu_stream *stream = i == lanes ? &self->main : &self->lanes[i];
    stream->host = &self->records[i];
  }
  return ls_ok();
}

void ls_cpu_deinit_host(ls_instance *self) {
  if (self->records != NULL) {
    ls_release(self->allocator, self->records[0].operands);
  }
  ls_release(self->allocator, self->records);
  ls_condition_deinit(&self->host_event);
  ls_mutex_deinit(&self->lock);
}

void ls_cpu_start_host(ls_instance *self, ls_cpu_worker *worker,
                       ls_cpu_stream *stream,
                       const ls_cpu_instruction *instruction,
                       void *const *operands) {
  const ls_cpu_host *host = instruction->params;
  ls_cpu_host_record *record = stream->host;
  const uint32_t num_in = instruction->num_in;
  memcpy(record->operands, operands,
         (num_in + instruction->num_out) * sizeof(*operands));
  record->host = host;
  record->status = NULL;
  record->call = (ls_host_call){
      .runtime = self->executable->backend->runtime,
      .state = host->state,
      .op_name = host->name,
      .replica = stream->replica,
      .num_inputs = num_in,
      .input_types = host->types,
      .inputs = (const void *const *)record->operands,
      .num_outputs = instruction->num_out,
      .output_types = host->types + num_in,
      .outputs = record->operands + num_in,
      .engine = record,
  };
  ls_mutex_lock(&self->lock);
  record->is_running = true;
  ++self->host_running;
  ls_mutex_unlock(&self->lock);
  // The kernel's arithmetic is its own affair.
  ls_float_mode_leave(worker->float_mode);
  ls_status status = host->kernel->start(&record->call);
  worker->float_mode = ls_float_mode_enter();
  if (status != NULL) record_done(&record->call, status);
}

bool ls_cpu_finish_host(ls_instance *self, ls_cpu_stream *stream) {
  ls_cpu_host_record *record = stream->host;
  ls_mutex_lock(&self->lock);
  const bool is_running = record->is_running;
  ls_status status = is_running ? NULL : record->status;
  if (!is_running) record->status = NULL;
  ls_mutex_unlock(&self->lock);
  if (status != NULL) {
    ls_cpu_instance_fail(self, ls_status_annotate(status, "in %s, replica %d",
                                                  record->host->label,
                                                  stream->replica));
  }
  return !is_running;
}

uint64_t ls_cpu_host_events(ls_instance *self) {
  if (self->records == NULL) return 0;
  ls_mutex_lock(&self->lock);
  const uint64_t done = self->host_done;
  ls_mutex_unlock(&self->lock);
  return done;
}

bool ls_cpu_wait_for_host(ls_instance *self, uint64_t seen) {
  if (self->records == NULL) return false;
  ls_mutex_lock(&self->lock);
  while (self->host_done == seen && self->host_running > 0) {
    ls_condition_wait(&self->host_event, &self->lock);
  }
  const bool went_on = self->host_done != seen;
  ls_mutex_unlock(&self->lock);
  return went_on;
}

void ls_cpu_drain_host(ls_instance *self) {
  if (self->records == NULL) return;
  ls_mutex_lock(&self->lock);
  while (self->host_running > 0) {
    ls_condition_wait(&self->host_event, &self->lock);
  }
  ls_mutex_unlock(&self->lock);
  // Results of calls that a failed run did not wait for.
  const ls_executable *executable = self->executable;
  const size_t lanes =
      executable->lanes_call_host ? (size_t)executable->replicas : 0;
  for (size_t i = 0; i <= lanes; ++i) {
    ls_status_free(self->records[i].status);
    self->records[i].status = NULL;
  }
}
