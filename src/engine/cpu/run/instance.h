// SPDX-License-Identifier: Apache-2.0
//
// An executable with memory: what a run works on.
//
// Everything that a thread needs of its own is in a worker: bases, operands,
// scratch. What streams share (slots, published values, lanes) is in the
// instance. Worker 0 is the caller, who runs shared code; the others are there
// if some launch of the executable has parts.
#ifndef LS_ENGINE_CPU_RUN_INSTANCE_H_
#define LS_ENGINE_CPU_RUN_INSTANCE_H_

#include "base/cancel.h"
#include "base/threads/host_threads.h"
#include "engine/cpu/run/executable.h"
#include "engine/cpu/run/recorder.h"
#include "engine/cpu/run/stack.h"
#include "engine/cpu/run/team.h"

// A host call: see host_call.h.
typedef struct ls_cpu_host_record ls_cpu_host_record;
typedef struct ls_cpu_site ls_cpu_site;

// A lane, or the shared stream, between two instructions.
typedef struct ls_cpu_stream {
  uint32_t pc;         // Atomic, as is `ended`: others look on.
  int32_t replica;     // Of the shared stream: whose run it is.
  uint64_t iteration;  // Of the loops around; see ls_cpu_iteration.
  uint64_t step;       // The run's, or of a trip of a loop that counts steps.
  int64_t steps;       // The most trips that such a loop has made.
  // The last post: the slot's generation then, and the sweep it was in.
  uint64_t generation, sweep;
  ls_cpu_host_record *host;  // Of a lane; NULL where lanes call none.
  int64_t host_since;        // When its last call began. Atomic.
  bool ended;
} ls_cpu_stream;

// A merge. Its generation grows when it has its value; in a loop it begins
// again.
typedef struct ls_cpu_slot {
  uint64_t generation;
  uint32_t parts;  // That are complete.
} ls_cpu_slot;

// Lanes that one worker at a time sweeps, in order.
typedef struct ls_cpu_part {
  uint32_t *arrived;  // By slot: so many of its lanes have posted. Atomic.
  uint32_t *posts;    // Instructions that completed a slot in this sweep.
  uint32_t num_posts;
  uint32_t num_running;  // Lanes that have not ended.
  bool moved;            // In this sweep.
  ls_status status;      // The first failure in it.
} ls_cpu_part;

// What an instruction took so far.
typedef struct ls_cpu_cost {
  uint64_t nanos, runs;
} ls_cpu_cost;

typedef struct ls_cpu_worker {
  char **bases;
  void **operands;  // Of the instruction at hand.
  char *scratch;    // Of lanes.
  bool *adds;       // By contribution: its kernel adds to what is there.
  // Of the lane at hand: its part, and its place in the part's tree.
  uint32_t part;
  ls_cpu_leaf leaf;
  const ls_cpu_team *team;  // All, or with parts `alone`.
  ls_cpu_team alone;
  ls_cpu_cost *costs;  // One an instruction; NULL: nobody measures.
  ls_status status;    // Its first failure.
  ls_cpu_recorder recorder;
} ls_cpu_worker;

struct ls_instance {
  ls_executable *executable;  // Counted.
  ls_allocator *allocator;
  ls_buffer **buffers;  // Retained; see rebind in engine/backend.h.
  ls_cpu_worker *workers;
  int num_workers;
  ls_cpu_team team;  // Its scratch is the instance's.
  char *shared, *frames, *spares;
  size_t frame_stride;

  ls_cpu_stream main;  // The shared stream.
  // Of the launch under way, one for each of the rank's own replicas.
  ls_cpu_stream *lanes;
  uint32_t num_running;              // Lanes that have not ended.
  const ls_cpu_instruction *launch;  // The one that started them. Atomic.
  ls_cpu_slot *slots;
  ls_cpu_part *parts;
  uint32_t *part_tables;   // Their arrays, one after another.
  ls_trunk_piece *pieces;  // Of an exchange.
  ls_cpu_stacks stacks;    // Streams: the shared one, then the lanes.
  uint32_t published;
  uint64_t sweep;
  uint64_t step, seed;  // Of the run.
  uint64_t run;
  uint64_t float_mode;  // The caller's.
  bool running;         // Atomic.
  bool at_end;          // The run failed by the end of data.
  uint64_t runs;        // That were measured.

  ls_host_threads *host_threads;  // The runtime's. NULL: no host calls.
  bool host_is_ready;             // Every call has its record.
  ls_cpu_site *sites;             // The executable's.
  uint64_t host_done;             // Calls that have ended so far, and ...
  uint32_t host_running;  // ... those that have not. Guarded by its lock.
  uint64_t host_seen;     // Ends that the run knows of when it waits.
  uint64_t *steps;        // See ls_run_args.
  ls_cancel *cancels[LS_CANCELS];

  ls_instance *next;  // Of the back end; see ls_cpu_backend_add.
};

static inline void *ls_cpu_resolve(const ls_cpu_worker *worker,
                                   ls_cpu_place place) {
  return (void *)((uintptr_t)worker->bases[place.base] +
                  (uintptr_t)place.line * 64);
}

// Takes a failure over; the worker's first one is kept.
void ls_cpu_worker_fail(ls_cpu_worker *worker, ls_status status);

// The vtable's functions.
ls_status ls_cpu_bind(ls_executable *executable, ls_buffer *const *buffers,
                      ls_instance **out_instance);
void ls_cpu_rebind(ls_instance *instance, ls_buffer *const *buffers);
void ls_cpu_destroy_instance(ls_instance *instance);
// Memory for outputs that a run does not want, when one does not for the first
// time.
ls_status ls_cpu_make_spares(ls_instance *self);
ls_status ls_cpu_start(ls_instance *instance, const ls_run_args *args);
ls_run_state ls_cpu_advance(ls_instance *instance);
ls_status ls_cpu_finish_run(ls_instance *instance, bool *out_keeps);
void ls_cpu_stop(ls_instance *instance, ls_status status);

ls_status ls_cpu_measure(ls_instance *instance, bool on);
ls_status ls_cpu_print_cost(const ls_instance *instance, ls_text *text);

// ---- execute.c --------------------------------------------------------------
// Runs a stream until it parks, ends or the worker has failed. Whether it got
// on.
bool ls_cpu_run_stream(ls_instance *self, ls_cpu_worker *worker,
                       ls_cpu_stream *stream);

// ---- whereabouts.c ----------------------------------------------------------
// Who is where, line by line. From any thread, also while the instance runs.
void ls_cpu_print_whereabouts(const ls_instance *self, ls_text *text);
void ls_cpu_print_other(const ls_instance *self, ls_text *text);
// FAILED_PRECONDITION: the streams wait for each other.
ls_status ls_cpu_deadlock(const ls_instance *self);
// DEADLINE_EXCEEDED: they wait for a host call that does not end, as others do
// that are driven beside it.
ls_status ls_cpu_stalled(const ls_instance *self, ls_instance *const *parts,
                         size_t count);

// ---- backend.c: all instances, for who looks on
// ------------------------------
void ls_cpu_backend_add(ls_instance *instance);
// Where the runs of its back end are but for itself and these.
void ls_cpu_backend_print_others(const ls_instance *self,
                                 ls_instance *const *parts, size_t count,
                                 ls_text *text);
void ls_cpu_backend_remove(ls_instance *instance);
// Compares what all ranks compute with, once; see ls_cpu_ranks_compare.
ls_status ls_cpu_backend_meet(ls_backend *backend, ls_trunk *trunk);

#endif  // LS_ENGINE_CPU_RUN_INSTANCE_H_
