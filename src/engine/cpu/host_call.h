// SPDX-License-Identifier: Apache-2.0
//
// Host calls: an instruction starts one, the next one waits for its end.
//
// `ls_host_call.engine` points to a struct whose first member is the function
// that ls_host_done calls, so that every engine can have its own.
#ifndef LS_ENGINE_CPU_HOST_CALL_H_
#define LS_ENGINE_CPU_HOST_CALL_H_

#include "engine/cpu/instance.h"

typedef void (*ls_host_done_function)(ls_host_call *call, ls_status status);

struct ls_cpu_host_record {
  ls_host_done_function done;  // First.
  ls_host_call call;
  ls_instance *instance;
  const ls_cpu_host *host;
  void **operands;  // Room for max_host_operands.
  bool is_running;
  ls_status status;
};

// Makes one record for each stream that calls the host, with its lock.
ls_status ls_cpu_init_host(ls_instance *self);
void ls_cpu_deinit_host(ls_instance *self);

// Starts the call of an instruction; `operands` are its inputs and outputs.
void ls_cpu_start_host(ls_instance *self, ls_cpu_worker *worker,
                       ls_cpu_stream *stream,
                       const ls_cpu_instruction *instruction,
                       void *const *operands);
// False: not done yet. A failed call fails the run.
bool ls_cpu_finish_host(ls_instance *self, ls_cpu_stream *stream);

// Calls done so far.
uint64_t ls_cpu_host_events(ls_instance *self);
// Waits until more than `seen` are done. False: none is under way.
bool ls_cpu_wait_for_host(ls_instance *self, uint64_t seen);
// Waits until none is under way: they work on the instance's memory.
void ls_cpu_drain_host(ls_instance *self);

#endif  // LS_ENGINE_CPU_HOST_CALL_H_
