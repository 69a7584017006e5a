// SPDX-License-Identifier: Apache-2.0
//
// An instance: an executable with memory, on which runs work.
//
// A worker holds all that one thread needs: bases, operands, scratch. The
// instance holds what streams share: slots, published values, lanes. Worker 0
// is the caller, which runs shared code; the others exist if some launch of the
// executable has parts.
#ifndef LS_ENGINE_CPU_RUN_INSTANCE_H_
#define LS_ENGINE_CPU_RUN_INSTANCE_H_

#include "base/cancel.h"
#include "base/threads/host_threads.h"
#include "engine/cpu/run/executable.h"
#include "engine/cpu/run/recorder.h"
#include "engine/cpu/run/stack.h"
#include "engine/cpu/run/team.h"

// Record of a host call: see host_call.c.
typedef struct ls_cpu_host_record ls_cpu_host_record;
typedef struct ls_cpu_site ls_cpu_site;

// State of a lane, or of the shared stream, between two instructions.
typedef struct ls_cpu_stream {
  uint32_t pc;      // Atomic, like `has_ended`: other threads read it.
  int32_t replica;  // Shared stream: the replica that runs the program.
  // Mixed trips of the enclosing loops; see ls_cpu_iteration.
  uint64_t iteration;
  // The run's step, or that of a trip of a loop that counts steps.
  uint64_t step;
  int64_t steps;  // Most trips made by a loop that counts steps.
  // The slot's generation and the round at the lane's last POST.
  uint64_t generation, round;
  // Record of a lane; NULL where lanes make no host calls.
  ls_cpu_host_record *host;
  int64_t host_since;  // Start time of its last host call. Atomic.
  bool has_ended;
} ls_cpu_stream;

// A merge slot. Its generation grows each time the merge gets its value, so a
// loop can use the slot again.
typedef struct ls_cpu_slot {
  uint64_t generation;
  uint32_t parts;  // Number of parts that are complete.
} ls_cpu_slot;

// A part: lanes that one worker at a time runs, in order.
typedef struct ls_cpu_part {
  // Per slot: how many of the part's lanes have posted. Atomic.
  uint32_t *arrived;
  uint32_t *posts;  // POST instructions that completed a slot in this round.
  uint32_t num_posts;
  uint32_t num_running;  // Lanes that have not ended.
  bool has_moved;        // A lane progressed in this round.
  ls_status status;      // First failure in this round.
} ls_cpu_part;

// Measured time of an instruction.
typedef struct ls_cpu_cost {
  uint64_t nanos, runs;
} ls_cpu_cost;

typedef struct ls_cpu_worker {
  char **bases;
  void **operands;  // Operands of the current instruction.
  char *scratch;    // Scratch of the lanes that this worker runs.
  bool *adds;  // Per contribution: true if the kernel adds to the partial sum.
  // The current lane: its part, and its position in the part's tree.
  uint32_t part;
  ls_cpu_leaf leaf;
  // The instance's team, or `alone` while it runs a part.
  const ls_cpu_team *team;
  ls_cpu_team alone;
  ls_cpu_cost *costs;  // One per instruction; NULL: not measured.
  ls_status status;    // First failure.
  ls_cpu_recorder recorder;
} ls_cpu_worker;

struct ls_instance {
  ls_executable *executable;  // Counted.
  ls_allocator *allocator;
  ls_buffer **buffers;  // Retained; see rebind in engine/backend.h.
  ls_cpu_worker *workers;
  int num_workers;
  ls_cpu_team team;  // With scratch that the instance owns.
  char *shared, *frames, *spares;
  size_t frame_stride;

  ls_cpu_stream main;  // The shared stream.
  // Lanes of the current launch, one per replica of this rank.
  ls_cpu_stream *lanes;
  uint32_t num_running;  // Lanes that have not ended.
  // The LAUNCH that started the lanes. Atomic.
  const ls_cpu_instruction *launch;
  ls_cpu_slot *slots;
  ls_cpu_part *parts;
  uint32_t *part_tables;   // Memory of the parts' arrays.
  ls_trunk_piece *pieces;  // Pieces of an exchange.
  ls_cpu_stacks stacks;    // The shared stream's, then one per lane.
  uint32_t published;
  uint64_t round;
  uint64_t step, seed;  // Step and seed of the current run.
  uint64_t run;
  uint64_t float_mode;  // The caller's mode.
  bool is_running;      // Atomic.
  bool is_at_end;       // The run failed with the end of data.
  uint64_t runs;        // Number of measured runs.

  ls_host_threads *host_threads;  // Owned by the runtime. NULL: no host calls.
  bool host_is_ready;             // All calls have their records.
  ls_cpu_site *sites;             // One per site of the executable.
  // Host calls that have ended; guarded by the host threads' lock.
  uint64_t host_done;
  // Host calls that have not ended; guarded by the host threads' lock.
  uint32_t host_running;
  // The value of `host_done` that the run has seen before waiting.
  uint64_t host_seen;
  uint64_t *steps;  // See ls_run_args.
  ls_cancel *cancels[LS_CANCELS];

  ls_instance *next;  // Next in the back end's list; see ls_cpu_backend_add.
};

static inline void *ls_cpu_resolve(const ls_cpu_worker *worker,
                                   ls_cpu_place place) {
  return (void *)((uintptr_t)worker->bases[place.base] +
                  (uintptr_t)place.line * 64);
}

// Takes over a failure; the worker keeps its first one.
void ls_cpu_worker_fail(ls_cpu_worker *worker, ls_status status);

// Functions of the back end's table.
ls_status ls_cpu_bind(ls_executable *executable, ls_buffer *const *buffers,
                      ls_instance **out_instance);
void ls_cpu_rebind(ls_instance *instance, ls_buffer *const *buffers);
void ls_cpu_destroy_instance(ls_instance *instance);
LS_OWNED_POINTER(ls_instance, ls_cpu_destroy_instance)
// Allocates memory for outputs that a run does not want, at the first such run.
ls_status ls_cpu_make_spares(ls_instance *self);
ls_status ls_cpu_start(ls_instance *instance, const ls_run_args *args);
ls_run_state ls_cpu_advance(ls_instance *instance);
ls_status ls_cpu_finish_run(ls_instance *instance, bool *out_keeps);
void ls_cpu_stop(ls_instance *instance, ls_status status);

ls_status ls_cpu_measure(ls_instance *instance, bool on);
ls_status ls_cpu_print_cost(const ls_instance *instance, ls_text *text);

// ---- execute.c -------------------------------------------------------------
// Runs a stream until it parks, ends or the worker has failed. Returns true if
// it progressed.
bool ls_cpu_run_stream(ls_instance *self, ls_cpu_worker *worker,
                       ls_cpu_stream *stream);

// ---- whereabouts.c ---------------------------------------------------------
// Prints the position of every stream, one per line. Callable from any thread,
// also while the instance runs.
void ls_cpu_print_whereabouts(const ls_instance *self, ls_text *text);
void ls_cpu_print_other(const ls_instance *self, ls_text *text);
// Returns FAILED_PRECONDITION: the streams wait for each other.
ls_status ls_cpu_deadlock(const ls_instance *self);
// Returns DEADLINE_EXCEEDED: the run waits for a host call that does not end.
// Lists `parts` too, the runs that the same thread drives.
ls_status ls_cpu_stalled(const ls_instance *self, ls_instance *const *parts,
                         size_t count);

// ---- backend.c: the list of instances --------------------------------------
void ls_cpu_backend_add(ls_instance *instance);
// Prints the positions of all other running instances except `parts`.
void ls_cpu_backend_print_others(const ls_instance *self,
                                 ls_instance *const *parts, size_t count,
                                 ls_text *text);
void ls_cpu_backend_remove(ls_instance *instance);
// Compares the numerics ids of all ranks, once; see ls_cpu_ranks_compare.
ls_status ls_cpu_backend_check_ranks(ls_backend *backend, ls_trunk *trunk);

#endif  // LS_ENGINE_CPU_RUN_INSTANCE_H_
