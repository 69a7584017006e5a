// SPDX-License-Identifier: Apache-2.0
// Runtime, as the layers above see it.
//
// State that a layer keeps "per process" hangs in its slot here, and goes with
// the runtime, the highest layer first.
#ifndef LS_BASE_RUNTIME_INTERNAL_H_
#define LS_BASE_RUNTIME_INTERNAL_H_

#include "base/debug.h"
#include "base/export.h"
#include "base/memory/allocator.h"
#include "base/memory/map.h"
#include "base/threads/host_threads.h"
#include "base/threads/input_threads.h"
#include "base/threads/threads.h"
#include "base/threads/timers.h"
#include "base/threads/workers.h"
#include "lockstep/gauge.h"
#include "lockstep/runtime.h"

// Slots: one per layer that keeps state, from low to high.
typedef enum ls_slot {
  LS_SLOT_GRAPH,
  LS_SLOT_ENGINE,
  LS_SLOT_RUNTIME,
  LS_SLOT_DATA,
  LS_SLOT_DISTRIBUTE,
  LS_SLOT_TPU,
  LS_SLOT_ESTIMATOR,
  LS_SLOT_COUNT,
} ls_slot;

// Kinds of things made under a runtime, which stays while one of them lives.
typedef enum ls_made {
  LS_MADE_FUNCTION,
  LS_MADE_SESSION,
  LS_MADE_GRAPH,
  LS_MADE_COUNT
} ls_made;

// The causes of a run's waits.
typedef enum ls_wait {
  LS_WAIT_HOST,       // Functions on the host.
  LS_WAIT_RANKS,      // Other processes.
  LS_WAIT_VARIABLES,  // Others that use them.
  LS_WAITS,
} ls_wait;

typedef struct ls_runtime_slot_state {
  void *state;                        // Read without the lock.
  ls_status (*destroy)(void *state);  // May refuse.
} ls_runtime_slot_state;

enum { LS_LOG_SEEN = 512 };

struct ls_runtime {
  ls_allocator *allocator;          // The caller's, or around it:
  ls_counting_allocator *counting;  // with LS_FAULT.
  ls_allocator *own;                // Where the runtime itself lives.
  void (*log)(void *user, const ls_log_line *line);  // NULL: nowhere.
  void *log_user;
  uint64_t log_seen[LS_LOG_SEEN];  // Atomic: hashes of lines written before.
  ls_clock clock;
  ls_file_system file_system;
  const char *(*environment)(void *user, const char *name);
  void *environment_user;
  ls_debug debug;
  ls_math math;
  int threads, input_threads;
  int64_t input_bytes;     // May be buffered by iterators.
  int64_t input_buffered;  // Atomic: are.
  int64_t stall_nanos;
  int cpus, gpus;
  struct ls_trunk *trunk;  // NULL: no other process.
  // Returns true if a device is a core of a TPU system that is initialized and
  // stands in this process. Set by the layer of such systems; NULL: there is
  // none.
  bool (*has_core)(ls_runtime *runtime, const char *device);
  // How programs for such systems are launched: engine/backend.h. NULL: no
  // system was there yet.
  const struct ls_launch_type *launches;
  int callbacks;             // Of users, running now; host calls do not count.
  int made[LS_MADE_COUNT];   // Atomic: so many live.
  uint64_t progress;         // See below.
  int waiting_runs;          // For the host. Atomic.
  int64_t waited[LS_WAITS];  // Atomic: nanoseconds. See base/trace.h.
  struct ls_trace_log *trace;  // Atomic. NULL: nobody traces. See base/trace.h.
  struct ls_span_seats *span_seats;  // From the first trace on.

  ls_timers timers;

  ls_mutex lock;    // Recursive. Guards what follows.
  ls_cores *cores;  // Looked at for the number of threads; the workers' then.
  ls_workers *workers;
  ls_host_threads *host_threads;
  ls_input_threads *inputs;
  ls_map log_counts;  // Times a limited line was written, by its key.
  ls_map gauges;      // Values of cells; see lockstep/gauge.h.
  ls_runtime_slot_state slots[LS_SLOT_COUNT];
};

// Around users' callbacks, inside of which the runtime cannot go.
static inline void ls_runtime_begin_callback(ls_runtime *runtime) {
  __atomic_fetch_add(&runtime->callbacks, 1, __ATOMIC_RELAXED);
}
static inline void ls_runtime_end_callback(ls_runtime *runtime) {
  __atomic_fetch_sub(&runtime->callbacks, 1, __ATOMIC_RELAXED);
}

static inline void ls_runtime_note_made(ls_runtime *runtime, ls_made kind) {
  __atomic_fetch_add(&runtime->made[kind], 1, __ATOMIC_RELAXED);
}
static inline void ls_runtime_note_gone(ls_runtime *runtime, ls_made kind) {
  __atomic_fetch_sub(&runtime->made[kind], 1, __ATOMIC_RELAXED);
}

// ---- Progress --------------------------------------------------------------
// Tells a run that waits if anything goes on that it may be waiting for.
// Counts, of all runs of a runtime, those at work (not those that wait for the
// host) and their moves: rounds, ends of host calls, and elements that a stage
// of a data set has made.
enum { LS_PROGRESS_MOVE = 1 << 16 };
static inline void ls_runtime_begin_work(ls_runtime *runtime) {
  __atomic_fetch_add(&runtime->progress, 1, __ATOMIC_RELAXED);
}
static inline void ls_runtime_end_work(ls_runtime *runtime) {
  __atomic_fetch_sub(&runtime->progress, 1, __ATOMIC_RELAXED);
}
static inline void ls_runtime_note_move(ls_runtime *runtime) {
  __atomic_fetch_add(&runtime->progress, LS_PROGRESS_MOVE, __ATOMIC_RELAXED);
}
// The same for those that make many small moves: counts while a run waits.
static inline void ls_runtime_note_input(ls_runtime *runtime) {
  if (__atomic_load_n(&runtime->waiting_runs, __ATOMIC_RELAXED) > 0)
    ls_runtime_note_move(runtime);
}
// Returns true if a run is at work, or one has moved since `*seen` was set
// here.
static inline bool ls_runtime_goes_on(const ls_runtime *runtime,
                                      uint64_t *seen) {
  const uint64_t now = __atomic_load_n(&runtime->progress, __ATOMIC_RELAXED);
  const uint64_t before = *seen;
  *seen = now;
  return now % LS_PROGRESS_MOVE != 0 ||
         now / LS_PROGRESS_MOVE != before / LS_PROGRESS_MOVE;
}

// ---- Services --------------------------------------------------------------
// The worker threads, made at the first call; the runtime's.
LS_MUST_USE ls_status ls_runtime_workers(ls_runtime *runtime,
                                         ls_workers **out_workers);
// The threads that run users' functions, made at the first call; the
// runtime's.
LS_MUST_USE ls_status ls_runtime_host_threads(ls_runtime *runtime,
                                              ls_host_threads **out_threads);
// The threads that compute elements of data sets, made at the first call; the
// runtime's. NULL: it shall have none.
LS_MUST_USE ls_status ls_runtime_inputs(ls_runtime *runtime,
                                        ls_input_threads **out_threads);
// How long a run may stand still.
int64_t ls_runtime_stall_nanos(const ls_runtime *runtime);
// The way to the other processes; NULL: there are none.
struct ls_trunk *ls_runtime_trunk(const ls_runtime *runtime);
// Seconds that users give, as the clock counts: at most 146 years, so that a
// time of the clock can be added without overflow.
static inline int64_t ls_nanos_of_seconds(int64_t seconds) {
  const int64_t nanos = 1000000000, most = INT64_MAX / 2 / nanos;
  return (seconds < most ? seconds : most) * nanos;
}
// Nanoseconds: monotonic, and since 1970.
int64_t ls_runtime_now(const ls_runtime *runtime);
int64_t ls_runtime_wall(const ls_runtime *runtime);
void ls_runtime_sleep(const ls_runtime *runtime, int64_t nanos);
// The files it works on: files->read(files->user, ...).
LS_PRIVATE_API const ls_file_system *
ls_runtime_files(const ls_runtime *runtime);
// The allocator of the runtime this thread works under; the system's when
// there is none.
LS_PRIVATE_API ls_allocator *ls_current_allocator(void);

// The system's clock and files: what a runtime has by default.
const ls_clock *ls_clock_system(void);
const ls_file_system *ls_file_system_system(void);

// ---- Log -------------------------------------------------------------------
// The sink of a runtime (`user`) whose maker gives none. Thread-safe.
void ls_log_to_standard_error(void *user, const ls_log_line *line);
void ls_log_v(ls_runtime *runtime, ls_log_level level, const char *source,
              const char *format, va_list arguments);
// Writes the line at most `limit` times per runtime; `key` names it.
void ls_log_limited(ls_runtime *runtime, const char *key, int limit,
                    ls_log_level level, const char *source, const char *format,
                    ...) LS_PRINTF(6, 7);

// ---- Gauges ----------------------------------------------------------------
LS_MUST_USE ls_status ls_gauge_set(ls_runtime *runtime, const char *gauge,
                                   const char *cell,
                                   const ls_gauge_value *value);
// Frees them, with the runtime.
void ls_gauges_deinit(ls_runtime *runtime);

// ---- Slots -----------------------------------------------------------------
// A layer's state, NULL before it was set. Cheap; needs no lock.
void *ls_runtime_slot(const ls_runtime *runtime, ls_slot slot);
// Sets it. `destroy` is called when the runtime goes, with this runtime
// current; a status refuses and keeps the runtime alive. Hold the lock and look
// again before making a state, so that two threads do not both make one.
void ls_runtime_set_slot(ls_runtime *runtime, ls_slot slot, void *state,
                         ls_status (*destroy)(void *state));
// The runtime's lock, for making slots. A thread may take it more than once.
void ls_runtime_lock(ls_runtime *runtime);
void ls_runtime_unlock(ls_runtime *runtime);

#endif  // LS_BASE_RUNTIME_INTERNAL_H_
