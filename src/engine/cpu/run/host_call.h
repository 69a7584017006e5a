// SPDX-License-Identifier: Apache-2.0
//
// Host calls: an instruction starts one call, or one per replica, in order; a
// later instruction waits until they end and takes the results.
//
// Kernels run on the runtime's host threads and work on copies of their
// arguments, including the bytes of strings, so that a call that never ends
// keeps only its own record of the run alive. Strings that a call returns are
// copied when it ends; the copies live until the next run. A call has ended
// when its kernel's start has returned and ls_host_done was called, in either
// order. A failed run abandons a call that it cannot wait for: the record, and
// the executable that the record retains, live until the call ends, and a new
// record replaces it.
//
// Inline kernels are called on the run's thread, with the operands themselves;
// those that end at once need no lock, and one record for all replicas.
//
// Calls of the shared stream have a record each, so several may be running; a
// lane has one call at a time.
#ifndef LS_ENGINE_CPU_RUN_HOST_CALL_H_
#define LS_ENGINE_CPU_RUN_HOST_CALL_H_

#include "base/memory/arena.h"
#include "base/threads/host_threads.h"
#include "engine/cpu/run/instance.h"
#include "graph/callbacks.h"

// Guarded by the host threads' lock, once the call has started.
struct ls_cpu_host_record {
  ls_host_job job;        // First member: an abandoned record is a job.
  ls_host_engine engine;  // Target of `call.engine`.
  ls_host_call call;
  ls_host_threads *threads;
  ls_instance *instance;      // NULL: the call is abandoned.
  ls_executable *executable;  // Retained once the call is abandoned.
  const ls_cpu_host *host;
  void **operands;  // Inputs and outputs, as the kernel sees them.
  char *data;       // Copies of operands.
  // Bytes of the strings that the run's calls take and return.
  ls_arena strings;
  uint64_t float_mode;  // The caller's mode, for the kernel's arithmetic.
  uint64_t run;         // See ls_run_args.
  int64_t queued;       // Time of submission, while a trace is recorded.
  // Number of missing end events: the return of start, and ls_host_done.
  int open;
  bool is_done;     // Atomic.
  bool needs_take;  // The kernel's `take` has not been called.
  // The kernel has lent results, which are read in its memory until `end`.
  bool is_lent;
  // Copies of lent outputs that are not aligned; made when first needed. NULL:
  // none yet.
  char **copies;
  bool *is_out;  // The call's flag, true while it is under way. Atomic.
  ls_status status;
};

// Calls of one site.
struct ls_cpu_site {
  ls_cpu_host_record **records;  // One per call.
  bool *is_out;  // Per call: true while it is under way. Atomic.
  uint32_t count;
  // Number of calls whose results were taken, counted from the first.
  uint32_t taken;
};

// ---- host_call.c -----------------------------------------------------------
// Makes missing records, one per call that may be under way at a time, and
// drops the strings of the previous run.
ls_status ls_cpu_init_host(ls_instance *self);
// Frees all records. Requires that no call is under way.
void ls_cpu_deinit_host(ls_instance *self);
// Returns the slot of the i-th record, over all sites and lanes; NULL after the
// last.
ls_cpu_host_record **ls_cpu_record_at(ls_instance *self, size_t i);
// Calls the kernel's `take`: writes the results to `outputs` and copies their
// strings, or drops the results if `outputs` is NULL.
ls_status ls_cpu_take_results(ls_cpu_host_record *record, void *const *outputs);

// Returns the lent results of one call, or of all calls of a run, to their
// kernels.
void ls_cpu_return_all_lent(ls_instance *self);

// Starts the call, or calls, of an instruction.
void ls_cpu_start_host(ls_instance *self, ls_cpu_stream *stream,
                       const ls_cpu_instruction *instruction,
                       void *const *operands);
// Takes the results. Returns false if some call has not ended. A failed call
// fails the run; with a call per replica, the failure of the lowest replica is
// reported.
bool ls_cpu_finish_host(ls_instance *self, ls_cpu_worker *worker,
                        ls_cpu_stream *stream,
                        const ls_cpu_instruction *instruction,
                        void *const *operands);

// Returns the failure of the lowest replica whose call has failed, while other
// replicas' calls have not ended; OK: none has.
ls_status ls_cpu_failed_call(ls_instance *self);

// ---- host_wait.c -----------------------------------------------------------
// Returns the number of calls that have ended.
uint64_t ls_cpu_host_events(ls_instance *self);
// Returns true if no call is under way.
bool ls_cpu_host_is_idle(ls_instance *self);

// Blocks until one of several runs that wait for the host can continue: one of
// its calls has ended, or it is cancelled. If nothing progresses for as long as
// the runtime allows, all of them fail.
void ls_cpu_wait_for_host(ls_instance *const *instances, size_t count);

// Ends the host calls of a failed run: waits for them as long as the runtime
// allows, or not at all, and abandons those that are left. Returns the status
// of the first cancelled call; OK: none was cancelled.
ls_status ls_cpu_drain_host(ls_instance *self, bool wait);

#endif  // LS_ENGINE_CPU_RUN_HOST_CALL_H_
