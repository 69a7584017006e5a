// SPDX-License-Identifier: Apache-2.0
// Runtime, as the layers above see it.
//
// A layer's "per process" state is stored in its slot here and destroyed with
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
#include "lockstep/cancel.h"
#include "lockstep/gauge.h"
#include "lockstep/runtime.h"
#include "lockstep/runtime_settings.h"

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

// Kinds of objects made under a runtime; the runtime cannot be destroyed while
// one of them is alive.
typedef enum ls_made {
  LS_MADE_FUNCTION,
  LS_MADE_SESSION,
  LS_MADE_GRAPH,
  LS_MADE_ESTIMATOR,
  LS_MADE_HOOK,
  LS_MADE_CHECKPOINTS,
  LS_MADE_SAVED_FILE,
  LS_MADE_CANCEL,
  // Kinds that eager ops may refer to, too: counted once these forget them.
  LS_MADE_EVENT_WRITER,
  LS_MADE_ITERATOR,
  LS_MADE_VARIABLE,
  LS_MADE_COUNT
} ls_made;

// The causes of a run's waits.
typedef enum ls_wait {
  LS_WAIT_HOST,       // User functions on the host.
  LS_WAIT_RANKS,      // Waits for other processes.
  LS_WAIT_VARIABLES,  // Runs that use the same variables.
  LS_WAITS,
} ls_wait;

// The row of a replica's batch whose NaN is the first.
typedef struct ls_nan_row {
  int32_t replica;    // 0 without replicas.
  int64_t row, rows;  // `row` -1: it is not known.
} ls_nan_row;

typedef struct ls_runtime_slot_state {
  void *state;  // Read without the lock.
  void (*destroy)(void *state);
} ls_runtime_slot_state;

enum { LS_LOG_SEEN = 512 };

struct ls_runtime {
  ls_allocator *allocator;          // The caller's allocator, or `counting`.
  ls_counting_allocator *counting;  // Set with LS_FAULT, otherwise NULL.
  ls_allocator *own;                // The allocator of this struct.
  void (*log)(void *user, const ls_log_line *line);  // NULL: no log.
  void *log_user;
  uint64_t log_seen[LS_LOG_SEEN];  // Hashes of lines written earlier. Atomic.
  ls_clock clock;
  ls_file_system file_system;
  const char *(*environment)(void *user, const char *name);
  void *environment_user;
  ls_debug debug;
  ls_math math;
  char *device;  // NULL: the CPU engine.
  int num_devices;
  bool exact_bits;
  bool find_nan;
  char *topology;
  int threads, input_threads;
  int64_t input_bytes;     // Bytes that iterators may buffer.
  int64_t input_buffered;  // Bytes that iterators buffer now. Atomic.
  int64_t stall_nanos;
  int cpus, gpus;
  struct ls_communicator *communicator;  // NULL: there are no other processes.
  // Returns true if a name is that of a core of an initialized TPU system in
  // this process, and gives the core's device: see ls_device_find. Set by layer
  // tpu; NULL: there is no system.
  bool (*has_core)(ls_runtime *runtime, const char *name, int32_t *out_device);
  // How to launch programs of TPU systems; see engine/backend.h. NULL: there
  // was no system yet.
  const struct ls_launch_type *launches;
  // Makes eager ops forget what nobody can reach through them. Set by layer
  // runtime; NULL: there was no op yet.
  void (*forget_ops)(ls_runtime *runtime);
  int callbacks;               // User callbacks running, not host calls.
  int made[LS_MADE_COUNT];     // Number of live objects by kind. Atomic.
  uint64_t progress;           // See "Progress" below.
  int waiting_runs;            // Runs that wait for the host. Atomic.
  int64_t waited[LS_WAITS];    // Nanoseconds; see base/trace.h. Atomic.
  struct ls_trace_log *trace;  // NULL: no trace. Atomic. See base/trace.h.
  struct ls_span_seats *span_seats;  // Made by the first trace.

  ls_timers timers;

  ls_mutex lock;    // Recursive. Guards the fields below.
  ls_cores *cores;  // Cores to bind worker threads to.
  ls_workers *workers;
  ls_host_threads *host_threads;
  ls_input_threads *inputs;
  ls_map log_counts;  // Number of times each limited line was written.
  ls_map gauges;      // Values of cells, see lockstep/gauge.h.
  ls_runtime_slot_state slots[LS_SLOT_COUNT];
  // Source of the first NaN since ls_runtime_take_nan: a description, and
  // whether an op made it from numbers. "": there was none.
  char nan[LS_NAN_TEXT];
  bool nan_is_made;
  ls_nan_row nan_row;
  ls_op_watch watch;  // NULL: nobody watches ops.
  void *watch_user;
};

// Keeps the source of a NaN, unless there is an earlier or better one.
void ls_runtime_note_nan(ls_runtime *runtime, bool is_made, const char *text,
                         ls_nan_row row);

// Returns a variable of the process's environment; NULL: it is not set.
const char *ls_system_environment(void *user, const char *name);

// Brackets users' callbacks, during which the runtime cannot be destroyed.
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
  __atomic_fetch_sub(&runtime->made[kind], 1, __ATOMIC_RELEASE);
}
// Frees an object and only then counts it as gone: another thread may destroy
// the runtime from then on.
static inline void ls_runtime_release(ls_runtime *runtime, ls_made kind,
                                      void *memory) {
  ls_release(runtime->allocator, memory);
  ls_runtime_note_gone(runtime, kind);
}

// ---- Progress --------------------------------------------------------------
// Lets a run that waits find out if other runs make progress. Counts over all
// runs of a runtime those at work (waiting for the host is not work), and their
// moves: rounds, ends of host calls, and elements made by stages of data sets.
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
// Counts an input move only while a run waits, for callers with many small
// moves.
static inline void ls_runtime_note_input(ls_runtime *runtime) {
  if (__atomic_load_n(&runtime->waiting_runs, __ATOMIC_RELAXED) > 0)
    ls_runtime_note_move(runtime);
}
// Returns true if a run is at work, or has moved since `*seen` was last set
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
// Returns the worker threads, made at the first call; owned by the runtime.
LS_MUST_USE ls_status ls_runtime_workers(ls_runtime *runtime,
                                         ls_workers **out_workers);
// Returns the threads that run user functions, made at the first call; owned by
// the runtime.
LS_MUST_USE ls_status ls_runtime_host_threads(ls_runtime *runtime,
                                              ls_host_threads **out_threads);
// Returns the threads that compute elements of data sets, made at the first
// call; owned by the runtime. NULL: the runtime is to have none.
LS_MUST_USE ls_status ls_runtime_inputs(ls_runtime *runtime,
                                        ls_input_threads **out_threads);
// Returns how long a run may make no progress before it counts as stalled.
int64_t ls_runtime_stall_nanos(const ls_runtime *runtime);
// Returns the communicator with other processes, or NULL.
struct ls_communicator *ls_runtime_communicator(const ls_runtime *runtime);
// Converts seconds to nanoseconds, at most 146 years, so that adding a time of
// the clock does not overflow.
static inline int64_t ls_nanos_of_seconds(int64_t seconds) {
  const int64_t nanos = 1000000000, most = INT64_MAX / 2 / nanos;
  return (seconds < most ? seconds : most) * nanos;
}
// Return nanoseconds: monotonic, and since 1970.
int64_t ls_runtime_now(const ls_runtime *runtime);
int64_t ls_runtime_wall(const ls_runtime *runtime);
void ls_runtime_sleep(const ls_runtime *runtime, int64_t nanos);
// Returns the runtime's file system: files->read(files->user, ...).
LS_PRIVATE_API const ls_file_system *
ls_runtime_files(const ls_runtime *runtime);
// Returns the allocator of this thread's current runtime, or the system's if
// there is none.
LS_PRIVATE_API ls_allocator *ls_current_allocator(void);

// The system's clock and files, the defaults of a runtime.
const ls_clock *ls_clock_system(void);
const ls_file_system *ls_file_system_system(void);

// ---- Log -------------------------------------------------------------------
// The default log sink, for runtime `user`. Thread-safe.
void ls_log_to_standard_error(void *user, const ls_log_line *line);
void ls_log_v(ls_runtime *runtime, ls_log_level level, const char *source,
              const char *format, va_list arguments);
// Logs a line at most `limit` times per runtime; `key` identifies it.
void ls_log_limited(ls_runtime *runtime, const char *key, int limit,
                    ls_log_level level, const char *source, const char *format,
                    ...) LS_PRINTF(6, 7);

// ---- Gauges ----------------------------------------------------------------
LS_MUST_USE ls_status ls_gauge_set(ls_runtime *runtime, const char *gauge,
                                   const char *cell,
                                   const ls_gauge_value *value);
// Frees the gauges of a runtime that is being destroyed.
void ls_gauges_deinit(ls_runtime *runtime);

// ---- Slots -----------------------------------------------------------------
// Returns a layer's state, NULL before it is set. Cheap; needs no lock.
void *ls_runtime_slot(const ls_runtime *runtime, ls_slot slot);
// Sets a layer's state. `destroy` is called at the runtime's end, with this
// runtime current. Hold the lock and look again before making a state, so that
// two threads do not both make one.
void ls_runtime_set_slot(ls_runtime *runtime, ls_slot slot, void *state,
                         void (*destroy)(void *state));
// Locks the runtime, to make a slot's state. Recursive.
void ls_runtime_lock(ls_runtime *runtime);
void ls_runtime_unlock(ls_runtime *runtime);

// ---- Cancel requests, as runs see them --------------------------------------
struct ls_cancel {
  ls_runtime *runtime;
  bool requested;  // Atomic.
};

// A run looks at two cancel requests: its thread's and its caller's.
enum { LS_CANCELS = 2 };

// Returns true if one of `cancels` is requested; entries may be NULL.
static inline bool ls_cancel_any(ls_cancel *const *cancels) {
  for (int i = 0; i < LS_CANCELS; ++i)
    if (cancels[i] != NULL &&
        __atomic_load_n(&cancels[i]->requested, __ATOMIC_RELAXED))
      return true;
  return false;
}

// Returns the cancel request of this thread, or NULL.
ls_cancel *ls_cancel_current(void);

#endif  // LS_BASE_RUNTIME_INTERNAL_H_
