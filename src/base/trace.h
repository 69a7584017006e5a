// SPDX-License-Identifier: Apache-2.0
//
// Spans: what each thread did and when, recorded while a trace is on.
//
//   const int64_t began = ls_span_begin(runtime);
//   ...
//   if (began != LS_NO_SPAN)
//     ls_span_end(runtime, &(ls_span){.kind = "save", .name = path,
//                                     .began = began});
//
// Without a trace this costs one load and a comparison. With a trace it costs
// two looks at the clock and a copy into the thread's own ring: no lock, and
// memory only for a thread's first span in a trace. A full ring drops its
// oldest spans and counts them.
//
// The end of a trace clears the pointer that all threads read, and then waits
// for each thread that is writing; so a ring that is read has no writer.
//
// Any thread may call both, with any lock held; the trace's own lock is the
// last in the order of locks, and taken only for a thread's first span.
#ifndef LS_BASE_TRACE_H_
#define LS_BASE_TRACE_H_

#include "base/runtime_internal.h"

// Units of a span's `number`.
typedef enum ls_span_of {
  LS_SPAN_OF_NOTHING,
  LS_SPAN_OF_REPLICA,
  LS_SPAN_OF_STEP,
} ls_span_of;

typedef struct ls_span {
  const char *kind;  // Static text, such as "turn".
  const char *name;  // Copied (the end, if long). NULL: the kind.
  int64_t began;     // Returned by ls_span_begin.
  int64_t waited;    // Nanoseconds in a queue before the span began; or 0.
  ls_span_of of;
  int64_t number;
} ls_span;

// Returned by ls_span_begin without a trace.
#define LS_NO_SPAN INT64_MIN

static inline int64_t ls_span_begin(const ls_runtime *runtime) {
  return __atomic_load_n(&runtime->trace, __ATOMIC_ACQUIRE) == NULL
             ? LS_NO_SPAN
             : ls_runtime_now(runtime);
}
// Records a span that ends now. Dropped if it began before the trace, or ends
// after it.
void ls_span_end(ls_runtime *runtime, const ls_span *span);

// ---- Waits -----------------------------------------------------------------
// Records a run's wait since `began` (runtime's clock): as a span "wait", and
// in the runtime's total, which is kept without a trace, too.
void ls_wait_end(ls_runtime *runtime, ls_wait kind, int64_t began);
// Returns the total nanoseconds of waits.
static inline int64_t ls_runtime_waited(const ls_runtime *runtime,
                                        ls_wait kind) {
  return __atomic_load_n(&runtime->waited[kind], __ATOMIC_RELAXED);
}

// ---- Traces ----------------------------------------------------------------
// Limits: the 257th and later threads of a runtime have their spans only
// counted.
enum { LS_SPAN_THREADS = 256, LS_SPAN_NAME = 80 };

typedef struct ls_span_record {
  int64_t began, ended, waited, number;
  const char *kind;
  ls_span_of of;
  char name[LS_SPAN_NAME];
} ls_span_record;

// A thread's spans in the order of their ends: number i is records[i %
// capacity].
typedef struct ls_span_ring {
  char thread[16];  // The thread's name.
  int64_t id;       // The system's thread id.
  uint64_t count;   // Number of spans so far.
  ls_span_record records[];
} ls_span_ring;

typedef struct ls_trace_log {
  ls_runtime *runtime;
  ls_allocator *allocator;
  int64_t began, ended;
  bool is_on;
  size_t capacity;                       // Spans per ring.
  uint64_t lost;                         // Spans of threads without a ring.
  ls_span_ring *rings[LS_SPAN_THREADS];  // NULL for a thread without spans.
} ls_trace_log;

// Returns FAILED_PRECONDITION if the runtime is being traced.
LS_MUST_USE ls_status ls_trace_log_check(ls_runtime *runtime);
// Begins a trace that keeps each thread's newest `capacity` spans. The caller
// owns the log.
//   LS_FAILED_PRECONDITION  the runtime is being traced.
LS_MUST_USE ls_status ls_trace_log_begin(ls_runtime *runtime, size_t capacity,
                                         ls_trace_log **out_log);
// Ends the trace; afterwards the log can be read. May be called twice.
void ls_trace_log_end(ls_trace_log *log);
// Ends the trace and frees its log. Accepts NULL.
void ls_trace_log_destroy(ls_trace_log *log);

// Returns the number of the oldest span that a ring still has.
static inline uint64_t ls_span_ring_first(const ls_trace_log *log,
                                          const ls_span_ring *ring) {
  return ring->count > log->capacity ? ring->count - log->capacity : 0;
}

// Frees a runtime's seats at its end.
void ls_span_seats_destroy(ls_runtime *runtime);

#endif  // LS_BASE_TRACE_H_
