// SPDX-License-Identifier: Apache-2.0
//
// Traces: spans of all threads.
//
// A thread that writes spans has a seat in the runtime until the runtime's end.
// The seat's number is that of the thread's ring in every trace. A writer first
// marks its seat as writing and then reads the trace pointer; the end of a
// trace first clears the pointer and then waits for seats that are writing
// (both sequentially consistent, so that one sees the other).
#define _GNU_SOURCE
#include "base/trace.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/threads/thread_state.h"

typedef struct ls_span_seats ls_span_seats;

typedef struct ls_span_seat {
  const void *thread;  // Thread's state: unique while it lives.
  size_t number;
  bool writes;  // The thread is writing a span. Atomic.
  char padding[LS_CACHE_LINE - 2 * sizeof(void *) - sizeof(bool)];
} ls_span_seat;

struct ls_span_seats {
  uint64_t id;    // Unique among all seats ever made.
  uint64_t lost;  // Spans of threads without a seat. Atomic.
  ls_mutex lock;  // Guards the fields below, except those written by a seat's
                  // owner.
  size_t count;
  ls_span_seat seats[LS_SPAN_THREADS];
};

// ---- Seats -----------------------------------------------------------------
static ls_status make_seats(ls_runtime *runtime) {
  static uint64_t last_id;
  if (runtime->span_seats != NULL) return ls_ok();
  ls_span_seats *seats = ls_new(runtime->allocator, ls_span_seats);
  if (seats == NULL) return ls_out_of_memory();
  ls_status status = ls_mutex_init(&seats->lock);
  if (!ls_status_is_ok(status)) {
    ls_release(runtime->allocator, seats);
    return status;
  }
  seats->id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
  runtime->span_seats = seats;
  return ls_ok();
}

void ls_span_seats_destroy(ls_runtime *runtime) {
  if (runtime->span_seats == NULL) return;
  ls_mutex_deinit(&runtime->span_seats->lock);
  ls_release(runtime->allocator, runtime->span_seats);
}

// Returns a seat for this thread, also one of a thread that has ended.
static ls_span_seat *take_seat(ls_span_seats *seats) {
  const void *thread = &ls_this_thread;
  ls_span_seat *seat = NULL;
  ls_mutex_lock(&seats->lock);
  for (size_t i = 0; i < seats->count && seat == NULL; ++i)
    if (seats->seats[i].thread == thread) seat = &seats->seats[i];
  if (seat == NULL && seats->count < LS_SPAN_THREADS) {
    seat = &seats->seats[seats->count];
    seat->thread = thread;
    seat->number = seats->count++;
  }
  ls_mutex_unlock(&seats->lock);
  return seat;
}

// Returns the thread's seat. NULL: all are taken.
static ls_span_seat *find_seat(ls_span_seats *seats) {
  if (ls_this_thread.spans.owner != seats->id) {
    ls_this_thread.spans.seat = take_seat(seats);
    ls_this_thread.spans.owner = seats->id;
  }
  return ls_this_thread.spans.seat;
}

// ---- Writing ---------------------------------------------------------------
// Makes a ring. The system adds its pages as they are first written.
static ls_span_ring *make_ring(ls_trace_log *log) {
  const size_t size =
      sizeof(ls_span_ring) + log->capacity * sizeof(ls_span_record);
  ls_span_ring *ring = ls_allocate(log->allocator, size);
  if (ring == NULL) return NULL;
  *ring = (ls_span_ring){.id = (int64_t)syscall(SYS_gettid)};
  if (pthread_getname_np(pthread_self(), ring->thread, sizeof(ring->thread)) !=
      0)
    memcpy(ring->thread, "thread", sizeof("thread"));
  return ring;
}

// Copies a name; of a long name keeps the end, where names differ most.
static void copy_name(const char *name, char to[LS_SPAN_NAME]) {
  static const char cut[] = "...";
  const size_t size = strlen(name);
  if (size < LS_SPAN_NAME) {
    memcpy(to, name, size + 1);
    return;
  }
  const char *from = name + size - (LS_SPAN_NAME - sizeof(cut));
  while ((*from & 0xc0) == 0x80)
    ++from;  // Skips the rest of a UTF-8 character.
  memcpy(to, cut, sizeof(cut) - 1);
  memcpy(to + sizeof(cut) - 1, from, (size_t)(name + size - from) + 1);
}

// Writes into the ring of a seat that is marked as writing.
static void write_span(ls_trace_log *log, const ls_span_seat *seat,
                       const ls_span *span, int64_t now) {
  ls_span_ring *ring = log->rings[seat->number];
  if (ring == NULL) ring = log->rings[seat->number] = make_ring(log);
  if (ring == NULL) {
    __atomic_fetch_add(&log->lost, 1, __ATOMIC_RELAXED);
    return;
  }
  ls_span_record *record = &ring->records[ring->count++ % log->capacity];
  record->began = span->began;
  record->ended = now;
  record->waited = span->waited;
  record->number = span->number;
  record->kind = span->kind;
  record->of = span->of;
  copy_name(span->name != NULL ? span->name : span->kind, record->name);
}

void ls_span_end(ls_runtime *runtime, const ls_span *span) {
  const int64_t now = ls_runtime_now(runtime);
  ls_span_seats *seats = runtime->span_seats;  // Made before the span began.
  ls_span_seat *seat = find_seat(seats);
  if (seat == NULL) {
    __atomic_fetch_add(&seats->lost, 1, __ATOMIC_RELAXED);
    return;
  }
  (void)__atomic_exchange_n(&seat->writes, true, __ATOMIC_SEQ_CST);
  ls_trace_log *log = __atomic_load_n(&runtime->trace, __ATOMIC_SEQ_CST);
  if (log != NULL && span->began >= log->began)
    write_span(log, seat, span, now);
  __atomic_store_n(&seat->writes, false, __ATOMIC_RELEASE);
}

// ---- Waits -----------------------------------------------------------------
void ls_wait_end(ls_runtime *runtime, ls_wait kind, int64_t began) {
  static const char *const names[LS_WAITS] = {"host", "ranks", "variables"};
  __atomic_fetch_add(&runtime->waited[kind], ls_runtime_now(runtime) - began,
                     __ATOMIC_RELAXED);
  if (__atomic_load_n(&runtime->trace, __ATOMIC_ACQUIRE) != NULL)
    ls_span_end(
        runtime,
        &(ls_span){.kind = "wait", .name = names[kind], .began = began});
}

// ---- Traces ----------------------------------------------------------------
ls_status ls_trace_log_check(ls_runtime *runtime) {
  double seconds = 0;
  ls_runtime_lock(runtime);
  const ls_trace_log *log = runtime->trace;
  if (log != NULL)
    seconds = (double)(ls_runtime_now(runtime) - log->began) * 1e-9;
  ls_runtime_unlock(runtime);
  return log == NULL ? ls_ok()
                     : ls_failed_precondition(
                           "the runtime is being traced already, for %.3g s "
                           "now: end that trace first (ls_trace_end)",
                           seconds);
}

// Begins a trace; the runtime's lock is held.
static ls_status trace_begin(ls_runtime *runtime, ls_trace_log *log) {
  LS_RETURN_IF_ERROR(ls_trace_log_check(runtime));
  LS_RETURN_IF_ERROR(make_seats(runtime));
  __atomic_store_n(&runtime->span_seats->lost, 0, __ATOMIC_RELAXED);
  log->began = ls_runtime_now(runtime);
  log->is_on = true;
  __atomic_store_n(&runtime->trace, log, __ATOMIC_SEQ_CST);
  return ls_ok();
}

ls_status ls_trace_log_begin(ls_runtime *runtime, size_t capacity,
                             ls_trace_log **out_log) {
  *out_log = NULL;
  ls_allocator *allocator = runtime->allocator;
  ls_trace_log *log = ls_new(allocator, ls_trace_log);
  if (log == NULL) return ls_out_of_memory();
  log->runtime = runtime;
  log->allocator = allocator;
  log->capacity = capacity;
  ls_runtime_lock(runtime);
  ls_status status = trace_begin(runtime, log);
  ls_runtime_unlock(runtime);
  if (ls_status_is_ok(status))
    *out_log = log;
  else
    ls_release(allocator, log);
  return status;
}

static void trace_end(ls_runtime *runtime, ls_trace_log *log) {
  ls_span_seats *seats = runtime->span_seats;
  __atomic_store_n(&runtime->trace, NULL, __ATOMIC_SEQ_CST);
  for (size_t i = 0; i < LS_SPAN_THREADS; ++i)
    while (__atomic_load_n(&seats->seats[i].writes, __ATOMIC_SEQ_CST))
      ls_thread_yield();
  log->is_on = false;
  log->ended = ls_runtime_now(runtime);
  log->lost += __atomic_load_n(&seats->lost, __ATOMIC_RELAXED);
}

void ls_trace_log_end(ls_trace_log *log) {
  ls_runtime *runtime = log->runtime;
  if (!log->is_on) return;
  ls_runtime_lock(runtime);
  if (log->is_on) trace_end(runtime, log);
  ls_runtime_unlock(runtime);
}

void ls_trace_log_destroy(ls_trace_log *log) {
  if (log == NULL) return;
  ls_trace_log_end(log);
  for (size_t i = 0; i < LS_SPAN_THREADS; ++i)
    ls_release(log->allocator, log->rings[i]);
  ls_release(log->allocator, log);
}
