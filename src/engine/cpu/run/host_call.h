// SPDX-License-Identifier: Apache-2.0
//
// Host calls: an instruction starts one, or one of each replica, in order; a
// later one waits for their end and takes the results.
//
// Kernels run on the runtime's host threads and work on copies of their
// arguments, the bytes of strings included, so that a call which never ends
// keeps nothing of the run but its own record. What strings a call gives are
// copied when it is done; the copies stay until the next run. A call has ended
// when its kernel's start has returned and ls_host_done was called, in either
// order. One that a failed run cannot wait for is abandoned: its record, and
// the executable that it counts, stay with it until it ends, and its place gets
// another record.
//
// Inline kernels are called here and now, with the operands themselves; those
// that end at once need no lock, and one record for all replicas.
//
// Calls of the shared stream have records of their own, so several may be under
// way; a lane has one call at a time.
#ifndef LS_ENGINE_CPU_RUN_HOST_CALL_H_
#define LS_ENGINE_CPU_RUN_HOST_CALL_H_

#include "base/memory/arena.h"
#include "base/threads/host_threads.h"
#include "engine/cpu/run/instance.h"
#include "graph/host_call.h"

// Guarded by the host threads' lock, once the call has begun.
struct ls_cpu_host_record {
  ls_host_job job;        // First: an abandoned record is a job.
  ls_host_engine engine;  // What `call.engine` points to.
  ls_host_call call;
  ls_host_threads *threads;
  ls_instance *instance;      // NULL: abandoned ...
  ls_executable *executable;  // ... and counted.
  const ls_cpu_host *host;
  void **operands;   // Inputs and outputs, as the kernel sees them.
  char *data;        // Copies.
  ls_arena strings;  // Bytes of those that the calls of this run take and give.
  uint64_t float_mode;  // The caller's: the kernel's arithmetic.
  uint64_t run;         // See ls_run_args.
  int64_t queued;       // When it was handed over, while somebody traces.
  int open;             // Of the return from start and the call of done, what
                        // is still to come.
  bool is_done;         // Atomic.
  bool is_to_take;      // The kernel's `take` has not been called.
  bool is_lent;         // It has given what is read where it is, till `end`.
  char **copies;        // Of outputs that may not stay where they are; of each
                        // site with such, NULL until it is needed.
  bool *is_out;         // Tells who looks on. Atomic.
  ls_status status;
};

// The calls of one site.
struct ls_cpu_site {
  ls_cpu_host_record **records;  // Of each call.
  bool *is_out;                  // Whether it is under way. Atomic.
  uint32_t count;
  uint32_t taken;  // From the first on.
};

// ---- host_record.c ----------------------------------------------------------
// Makes a record for each call that there can be at a time, where none is; the
// strings of the run before are gone.
ls_status ls_cpu_init_host(ls_instance *self);
// No call may be under way.
void ls_cpu_deinit_host(ls_instance *self);
// Where the i-th record is, of all sites and lanes; NULL after the last.
ls_cpu_host_record **ls_cpu_record_at(ls_instance *self, size_t i);
// The last words of an abandoned call.
void ls_cpu_bury_record(ls_cpu_host_record *record);
// Has strings that are another's, operands from `begin` to `end`, point to
// copies in the record.
ls_status ls_cpu_keep_operands(ls_cpu_host_record *record, size_t begin,
                               size_t end);
// Lets the kernel take the results, of which strings are kept, or leave them:
// `outputs` NULL.
ls_status ls_cpu_let_take(ls_cpu_host_record *record, void *const *outputs);

// What a kernel gives: see ls_host_give.
ls_status ls_cpu_give(ls_host_call *call, size_t output, const void *data);
// What the call, or all calls of a run, have given is not needed any more.
void ls_cpu_end_lent(ls_cpu_host_record *record);
void ls_cpu_end_all_lent(ls_instance *self);

// ---- host_call.c ------------------------------------------------------------
// Starts the call, or calls, of an instruction.
void ls_cpu_start_host(ls_instance *self, ls_cpu_stream *stream,
                       const ls_cpu_instruction *instruction,
                       void *const *operands);
// Takes the results. False: not all have ended. A failed call fails the run; of
// those of all replicas, the lowest one that fails.
bool ls_cpu_finish_host(ls_instance *self, ls_cpu_worker *worker,
                        ls_cpu_stream *stream,
                        const ls_cpu_instruction *instruction,
                        void *const *operands);
// One of the two ends of a call, with the lock held. True: the record is
// nobody's any more.
bool ls_cpu_close_record(ls_cpu_host_record *record);

// Where one of all replicas' calls does not end: the failure of the lowest one
// that has failed, if one has.
ls_status ls_cpu_failed_call(ls_instance *self);

// ---- host_wait.c ------------------------------------------------------------
// Calls that have ended so far.
uint64_t ls_cpu_host_events(ls_instance *self);
// Whether none is under way.
bool ls_cpu_host_is_idle(ls_instance *self);

// Waits until one of several runs that wait for the host can go on: one of its
// calls has ended, it is cancelled, or nothing has gone on for as long as the
// runtime allows, which ends all of them.
void ls_cpu_wait_for_host(ls_instance *const *instances, size_t count);

// After a failed run: waits until no call is under way, for as long as the
// runtime allows or not at all, and abandons those that are left. What the
// first one says that was cancelled; OK: none was.
ls_status ls_cpu_drain_host(ls_instance *self, bool wait);

#endif  // LS_ENGINE_CPU_RUN_HOST_CALL_H_
