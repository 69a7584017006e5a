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

#include <stdint.h>

#include "base/runtime_internal.h"
#include "base/threads/host_threads.h"
#include "base/trace.h"
#include "engine/cpu/run/executable.h"
#include "engine/cpu/run/stack.h"
#include "engine/cpu/run/team.h"

// ---- Flight recorder -------------------------------------------------------
// Records the last events of each worker.
//
// It is always on, so it must cost next to nothing: no lock, no clock, two
// stores per event, and few events: a range of instructions that a stream ran,
// a host call, the start of a step. The pc of a stream is its current position.
// Another thread that reads the events sees each half of an event whole, but
// the halves may belong to an old and a new event.
//
// Store and load variables that other threads read, without any order.
#define LS_CPU_SET(place, value)                                               \
  __atomic_store_n(&(place), (value), __ATOMIC_RELAXED)
#define LS_CPU_SEEN(place) __atomic_load_n(&(place), __ATOMIC_RELAXED)

typedef enum ls_cpu_event_kind {
  LS_CPU_EVENT_NONE,
  LS_CPU_EVENT_STEP,  // A run began; from: low bits of its step.
  LS_CPU_EVENT_RUN,   // A stream ran and parked, or ended.
  LS_CPU_EVENT_HOST,  // A stream started a host call at `from`.
} ls_cpu_event_kind;

enum { LS_CPU_EVENTS = 32, LS_CPU_MAIN = -1 };

typedef struct ls_cpu_event {
  uint64_t path;  // Positions of instructions: from << 32 | to.
  uint64_t who;   // kind << 32 | replica; LS_CPU_MAIN: shared code.
} ls_cpu_event;

// The newest LS_CPU_EVENTS of a worker.
typedef struct ls_cpu_recorder {
  ls_cpu_event events[LS_CPU_EVENTS];
  uint32_t count;  // Events recorded in total.
} ls_cpu_recorder;

static inline void ls_cpu_record(ls_cpu_recorder *self, ls_cpu_event_kind kind,
                                 int32_t replica, uint32_t from,
                                 uint32_t target) {
  ls_cpu_event *event = &self->events[self->count % LS_CPU_EVENTS];
  LS_CPU_SET(event->path, (uint64_t)from << 32 | target);
  LS_CPU_SET(event->who, (uint64_t)kind << 32 | (uint32_t)replica);
  LS_CPU_SET(self->count, self->count + 1);
}

// State of an exchange of sums: see sums.h.
typedef struct ls_cpu_flight ls_cpu_flight;
// Record of a host call: see host_call.h.
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
  bool is_early;  // Came to a POST before lower lanes.
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

typedef struct ls_cpu_numbers ls_cpu_numbers;  // See numbers.h.

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
  ls_cpu_cost *costs;       // One per instruction; NULL: not measured.
  ls_cpu_numbers *numbers;  // NULL: nothing is looked for.
  ls_status status;         // First failure.
  ls_cpu_recorder recorder;
} ls_cpu_worker;

struct ls_instance {
  ls_executable *executable;  // Counted.
  ls_allocator *allocator;
  ls_buffer **buffers;  // Retained; see rebind in engine/backend.h.
  ls_cpu_worker *workers;
  int num_workers;
  ls_cpu_team team;  // The thread team; the instance owns its scratch.
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
  uint32_t *part_tables;      // Memory of the parts' arrays.
  ls_exchange_piece *pieces;  // Pieces of an exchange that is no sum.
  ls_cpu_flight *flights;     // One per exchange of sums.
  ls_cpu_flight *under_way;   // Started and not finished.
  uint32_t num_incomplete;    // Exchanges whose results have not come.
  ls_cpu_stacks stacks;       // Stacks of the shared stream, then of each lane.
  uint32_t published;
  uint64_t round;
  uint64_t step, seed;  // Step and seed of the current run.
  uint64_t number;      // See ls_run_args.
  int64_t limit;        // Time limit of the run's exchanges; 0: none.
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
// Returns the bytes of an instance's scratch for kernels.
size_t ls_cpu_kernels_scratch(const ls_executable *executable);
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

// ---- Spans -----------------------------------------------------------------
// Spans of a traced run (base/trace.h): execution of streams, rounds over the
// lanes, host calls, and waits for them. Each function takes the result of
// ls_span_begin at the start of the work, and does nothing if that is
// LS_NO_SPAN.
static inline int64_t ls_cpu_span_begin(const ls_instance *self) {
  return ls_span_begin(self->executable->backend->runtime);
}

// Ends the span of a stream that ran from an instruction to its current
// position.
void ls_cpu_span_stream(const ls_instance *self, const ls_cpu_stream *stream,
                        uint32_t pc, int64_t began);
// Ends the span of an exchange with other ranks, named by an instruction.
void ls_cpu_span_exchange(const ls_instance *self,
                          const ls_cpu_instruction *instruction, int64_t began);
// Ends the span of a round over all lanes of a launch.
void ls_cpu_span_round(const ls_instance *self, int64_t began);
// Ends the span of a host kernel's call; `queued` is the time of submission, or
// LS_NO_SPAN for inline calls.
void ls_cpu_span_call(const ls_cpu_host_record *record, int64_t queued,
                      int64_t began);

#endif  // LS_ENGINE_CPU_RUN_INSTANCE_H_
