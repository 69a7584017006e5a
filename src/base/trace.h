// SPDX-License-Identifier: Apache-2.0
//
// Spans: what a thread did from when to when, while somebody traces the
// runtime.
//
//   const int64_t began = ls_span_begin(runtime);
//   ...
//   if (began != LS_NO_SPAN)
//     ls_span_end(runtime, &(ls_span){.kind = "save", .name = path,
//                                     .began = began});
//
// While nobody traces, that is one load and a comparison. Else it is two looks
// at the clock and a copy into a ring of the thread's own: no lock, and memory
// only for the first span of a thread in a trace. A full ring drops its oldest
// spans and counts them.
//
// A trace ends by taking back the pointer that all look at, and then waits for
// each thread that is just writing; so a ring that is read has no writer.
//
// Both calls are for any thread, with any lock held; the trace's own lock is
// behind all others, and taken only for the first span of a thread.
#ifndef LS_BASE_TRACE_H_
#define LS_BASE_TRACE_H_

#include "base/runtime_internal.h"

// The things that `number` of a span counts.
typedef enum ls_span_of {
  LS_SPAN_OF_NOTHING,
  LS_SPAN_OF_REPLICA,
  LS_SPAN_OF_STEP,
} ls_span_of;

typedef struct ls_span {
  const char *kind;  // Static text: "turn".
  const char *name;  // Copied; of a long one the end. NULL: the kind.
  int64_t began;     // Given by ls_span_begin.
  int64_t waited;    // Nanoseconds that it stood in line before; 0: none.
  ls_span_of of;
  int64_t number;
} ls_span;

// The beginning of no span: nobody traces.
#define LS_NO_SPAN INT64_MIN

static inline int64_t ls_span_begin(const ls_runtime *runtime) {
  return __atomic_load_n(&runtime->trace, __ATOMIC_ACQUIRE) == NULL
             ? LS_NO_SPAN
             : ls_runtime_now(runtime);
}
// Notes a span that has begun, as ending now. One that began before the trace
// did, or that ends after it, is no part of it.
void ls_span_end(ls_runtime *runtime, const ls_span *span);

// ---- Waits -----------------------------------------------------------------
// A run has waited since `began`, by the runtime's clock: a span "wait", and
// part of what all its runs have waited for so far, which is counted always.
void ls_wait_end(ls_runtime *runtime, ls_wait what, int64_t began);
// Nanoseconds so far.
static inline int64_t ls_runtime_waited(const ls_runtime *runtime,
                                        ls_wait what) {
  return __atomic_load_n(&runtime->waited[what], __ATOMIC_RELAXED);
}

// ---- Traces ----------------------------------------------------------------
// A thread is one that writes spans; the 257th and later ones of a runtime only
// have theirs counted.
enum { LS_SPAN_THREADS = 256, LS_SPAN_NAME = 80 };

typedef struct ls_span_record {
  int64_t began, ended, waited, number;
  const char *kind;
  ls_span_of of;
  char name[LS_SPAN_NAME];
} ls_span_record;

// A thread's spans, the i-th in records[i % capacity], in the order of their
// ends.
typedef struct ls_span_ring {
  char thread[16];  // Its name.
  int64_t id;       // The system's.
  uint64_t count;   // So far.
  ls_span_record records[];
} ls_span_ring;

typedef struct ls_trace_log {
  ls_runtime *runtime;
  ls_allocator *allocator;
  int64_t began, ended;
  bool is_on;
  size_t capacity;                       // Of each ring.
  uint64_t lost;                         // Spans of threads without a ring.
  ls_span_ring *rings[LS_SPAN_THREADS];  // NULL where a thread has no span.
} ls_trace_log;

// FAILED_PRECONDITION: the runtime is being traced.
LS_MUST_USE ls_status ls_trace_log_check(ls_runtime *runtime);
// From now on spans are noted, the newest `capacity` of each thread. The caller
// owns the log.
//   LS_FAILED_PRECONDITION  the runtime is being traced.
LS_MUST_USE ls_status ls_trace_log_begin(ls_runtime *runtime, size_t capacity,
                                         ls_trace_log **out_log);
// No more of them; afterwards the log can be read. Ending twice is fine.
void ls_trace_log_end(ls_trace_log *log);
// Ends it, and frees it. NULL is fine.
void ls_trace_log_destroy(ls_trace_log *log);

// The oldest span that a ring still has, and one after its newest.
static inline uint64_t ls_span_ring_first(const ls_trace_log *log,
                                          const ls_span_ring *ring) {
  return ring->count > log->capacity ? ring->count - log->capacity : 0;
}

// The runtime's, with it.
void ls_span_seats_destroy(ls_runtime *runtime);

#endif  // LS_BASE_TRACE_H_
