// SPDX-License-Identifier: Apache-2.0
//
// Host calls: an instruction starts one, or one of each replica, in order; the
// next one waits for their end.
//
// Kernels run on the runtime's host threads and work on copies of their
// arguments, the bytes of strings included, so that a call which never ends
// keeps nothing of the run but its own record. What strings a call gives are
// copied when it is done; the copies stay until the next run. A call has ended
// when its kernel's start has returned and ls_host_done was called, in either
// order. One that a failed run cannot wait for is abandoned: its record, and
// the executable that it counts, stay with it until it ends, and the stream
// gets another record.
#ifndef LS_ENGINE_CPU_RUN_HOST_CALL_H_
#define LS_ENGINE_CPU_RUN_HOST_CALL_H_

#include "base/memory/arena.h"
#include "base/threads/host_threads.h"
#include "engine/cpu/run/instance.h"
#include "graph/host_call.h"

// Guarded by the host threads' lock, once the call has begun.
struct ls_cpu_host_record {
  ls_host_job job;             // First: an abandoned record is a job.
  ls_host_done_function done;  // What `call.engine` points to.
  ls_host_call call;
  ls_host_threads *threads;
  ls_instance *instance;      // NULL: abandoned ...
  ls_executable *executable;  // ... and counted.
  const ls_cpu_host *host;
  void **operands;  // The copies, all in `data`.
  char *data;
  ls_arena strings;  // Bytes of those that the calls of this run take and give.
  uint64_t float_mode;  // The caller's: the kernel's arithmetic.
  uint64_t run;         // See ls_run_args.
  int open;             // Of the return from start and the call of done, what
                        // is still to come.
  bool is_done;         // Atomic.
  bool *is_out;  // One of all replicas' calls: tells who looks on. Atomic.
  ls_status status;
};

// Makes a record for each call that there can be at a time, where none is; the
// strings of the run before are gone.
ls_status ls_cpu_init_host(ls_instance *self);
// No call may be under way.
void ls_cpu_deinit_host(ls_instance *self);

// Starts the call, or calls, of an instruction; `operands` are its inputs and
// outputs.
void ls_cpu_start_host(ls_instance *self, ls_cpu_stream *stream,
                       const ls_cpu_instruction *instruction,
                       void *const *operands);
// Takes the results. False: not all have ended. A failed call fails the run; of
// those of all replicas, the lowest one that fails.
bool ls_cpu_finish_host(ls_instance *self, ls_cpu_worker *worker,
                        ls_cpu_stream *stream,
                        const ls_cpu_instruction *instruction,
                        void *const *operands);

// Where one of all replicas' calls does not end: the failure of the lowest one
// that has failed, if one has.
ls_status ls_cpu_failed_call(ls_instance *self);

// Calls that have ended so far.
uint64_t ls_cpu_host_events(ls_instance *self);

typedef enum ls_cpu_wait {
  LS_CPU_WENT_ON,   // More than `seen` have ended.
  LS_CPU_NO_CALL,   // None is under way.
  LS_CPU_TOO_LONG,  // None has ended, and no run of the runtime has gone on,
                    // for as long as the runtime allows.
} ls_cpu_wait;
ls_cpu_wait ls_cpu_wait_for_host(ls_instance *self, uint64_t seen);

// After a failed run: waits until no call is under way, for as long as the
// runtime allows or not at all, and abandons those that are left.
void ls_cpu_drain_host(ls_instance *self, bool wait);

#endif  // LS_ENGINE_CPU_RUN_HOST_CALL_H_
