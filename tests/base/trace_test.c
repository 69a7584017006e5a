// SPDX-License-Identifier: Apache-2.0
#include "base/trace.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "base/threads/worker.h"
#include "support/counted.h"
#include "support/fault.h"

LS_OWNED_POINTER(ls_trace_log, ls_trace_log_destroy)

enum { MANY = LS_SPAN_THREADS + 4 };

// ---- Time ------------------------------------------------------------------
// Goes on by 1 with each look.
static int64_t tick(void *user) {
  return __atomic_add_fetch((int64_t *)user, 1, __ATOMIC_RELAXED);
}
static void do_not_sleep(void *user, int64_t nanos) { (void)user, (void)nanos; }

static int64_t ticks;

static counted begin(void) {
  ticks = 0;
  return counted_begin_with((ls_runtime_options){
      .threads = 1,
      .clock = &(ls_clock){
          .now = tick, .wall = tick, .sleep = do_not_sleep, .user = &ticks}});
}

static ls_trace_log *begin_log(ls_runtime *runtime, size_t capacity) {
  ls_trace_log *log = NULL;
  expect_ok(ls_trace_log_begin(runtime, capacity, &log));
  assert_non_null(log);
  return log;
}

static void note(ls_runtime *runtime, const char *name, int64_t number) {
  const int64_t began = ls_span_begin(runtime);
  if (began != LS_NO_SPAN)
    ls_span_end(runtime, &(ls_span){.kind = "test",
                                    .name = name,
                                    .began = began,
                                    .of = LS_SPAN_OF_STEP,
                                    .number = number});
}

// The ring of the only thread that wrote.
static const ls_span_ring *only_ring(const ls_trace_log *log) {
  const ls_span_ring *found = NULL;
  for (size_t i = 0; i < LS_SPAN_THREADS; ++i) {
    if (log->rings[i] == NULL) continue;
    assert_null(found);
    found = log->rings[i];
  }
  assert_non_null(found);
  return found;
}

// ---- One thread ------------------------------------------------------------
TEST(spans_hold_what_they_were_given) {
  LS_OWN(counted, memory) = begin();
  LS_OWN(ls_trace_log, log) = begin_log(memory.runtime, 8);
  const int64_t outer = ls_span_begin(memory.runtime);
  note(memory.runtime, "inner", 7);
  ls_span_end(memory.runtime,
              &(ls_span){.kind = "outer", .began = outer, .waited = 5});
  ls_trace_log_end(log);
  const ls_span_ring *ring = only_ring(log);
  assert_int_equal(ring->count, 2);
  const ls_span_record *inner = &ring->records[0], *around = &ring->records[1];
  assert_string_equal(inner->name, "inner");
  assert_string_equal(inner->kind, "test");
  assert_true(inner->of == LS_SPAN_OF_STEP && inner->number == 7);
  assert_string_equal(around->name, "outer");
  assert_true(around->of == LS_SPAN_OF_NOTHING && around->waited == 5);
  assert_true(log->began < around->began && around->began < inner->began);
  assert_true(inner->began < inner->ended && inner->ended < around->ended);
  assert_true(around->ended < log->ended);
}

TEST(a_full_ring_keeps_the_newest_spans) {
  LS_OWN(counted, memory) = begin();
  LS_OWN(ls_trace_log, log) = begin_log(memory.runtime, 4);
  for (int64_t i = 0; i < 11; ++i)
    note(memory.runtime, "s", i);
  ls_trace_log_end(log);
  const ls_span_ring *ring = only_ring(log);
  assert_int_equal(ring->count, 11);
  assert_int_equal(ls_span_ring_first(log, ring), 7);
  for (int64_t i = 7; i < 11; ++i)
    assert_int_equal(ring->records[i % 4].number, i);
}

TEST(of_a_long_name_the_end_is_kept) {
  LS_OWN(counted, memory) = begin();
  LS_OWN(ls_trace_log, log) = begin_log(memory.runtime, 4);
  char fits[LS_SPAN_NAME], longer[LS_SPAN_NAME + 1], cut[2 * LS_SPAN_NAME];
  memset(fits, 'a', sizeof(fits));
  fits[LS_SPAN_NAME - 1] = '\0';
  note(memory.runtime, fits, 0);
  memset(longer, 'b', sizeof(longer));
  longer[LS_SPAN_NAME] = '\0';
  note(memory.runtime, longer, 0);
  // Characters of two bytes each, between two of which the cut is, or amid one.
  for (size_t i = 0; i + 2 < sizeof(cut); i += 2)
    memcpy(cut + i, "\xc3\xa4", 3);
  note(memory.runtime, cut, 0);
  cut[sizeof(cut) - 2] = 'x';
  cut[sizeof(cut) - 1] = '\0';
  note(memory.runtime, cut, 0);
  ls_trace_log_end(log);
  const ls_span_record *records = only_ring(log)->records;
  assert_string_equal(records[0].name, fits);
  assert_memory_equal(records[1].name, "...bbb", 6);
  assert_int_equal(strlen(records[1].name), LS_SPAN_NAME - 1);
  for (int i = 2; i < 4; ++i)
    assert_memory_equal(records[i].name, "...\xc3\xa4", 5);
  assert_int_equal(strlen(records[2].name), LS_SPAN_NAME - 1);
  assert_int_equal(strlen(records[3].name), LS_SPAN_NAME - 2);
}

// ---- Begin and end ---------------------------------------------------------
TEST(nothing_is_noted_while_nobody_traces) {
  LS_OWN(counted, memory) = begin();
  assert_true(ls_span_begin(memory.runtime) == LS_NO_SPAN);
  assert_int_equal(ticks, 0);  // Nor is the clock looked at.
  ls_trace_log *first = begin_log(memory.runtime, 4);
  const int64_t began = ls_span_begin(memory.runtime);
  assert_true(began != LS_NO_SPAN);
  ls_trace_log_end(first);
  assert_true(ls_span_begin(memory.runtime) == LS_NO_SPAN);
  // What ends after its trace is no part of it, nor of the next one.
  const ls_span late = {.kind = "late", .began = began};
  ls_span_end(memory.runtime, &late);
  ls_trace_log *second = begin_log(memory.runtime, 4);
  ls_span_end(memory.runtime, &late);
  note(memory.runtime, "in the second", 0);
  ls_trace_log_end(second);
  ls_trace_log_end(second);
  for (size_t i = 0; i < LS_SPAN_THREADS; ++i)
    assert_null(first->rings[i]);
  assert_int_equal(only_ring(second)->count, 1);
  assert_string_equal(only_ring(second)->records[0].name, "in the second");
  ls_trace_log_destroy(first);
  ls_trace_log_destroy(second);
  ls_trace_log_destroy(NULL);
}

TEST(a_runtime_has_one_trace_at_a_time) {
  LS_OWN(counted, memory) = begin();
  LS_OWN(ls_trace_log, log) = begin_log(memory.runtime, 4);
  ls_trace_log *other = log;
  expect_status(ls_trace_log_begin(memory.runtime, 4, &other),
                LS_FAILED_PRECONDITION, "is being traced already");
  assert_null(other);
  // Another runtime has its own.
  ls_runtime *second = NULL;
  expect_ok(ls_runtime_create(NULL, &second));
  other = begin_log(second, 4);
  for (int64_t i = 0; i < 3; ++i) {
    note(memory.runtime, "here", i);
    note(second, "there", i);
  }
  ls_trace_log_end(log);
  ls_trace_log_end(other);
  assert_int_equal(only_ring(log)->count, 3);
  assert_int_equal(only_ring(other)->count, 3);
  assert_string_equal(only_ring(other)->records[2].name, "there");
  ls_trace_log_destroy(other);
  expect_ok(ls_runtime_destroy(second));
}

TEST(a_runtime_that_is_traced_stays) {
  LS_OWN(counted, memory) = begin();
  LS_OWN(ls_trace_log, log) = begin_log(memory.runtime, 4);
  expect_status(ls_runtime_destroy(memory.runtime), LS_FAILED_PRECONDITION,
                "while it is being traced");
  note(memory.runtime, "still there", 0);
}

// ---- Many threads ----------------------------------------------------------
typedef struct writer {
  ls_worker thread;
  ls_runtime *runtime;
  int64_t number, spans;
  pthread_barrier_t *together;  // NULL: alone.
  bool *stop;                   // Until it is set; NULL: for `spans` spans.
} writer;

static void write_spans(void *user) {
  const writer *self = user;
  for (int64_t i = 0;
       self->stop == NULL ? i < self->spans
                          : !__atomic_load_n(self->stop, __ATOMIC_RELAXED);
       ++i)
    note(self->runtime, "s", self->number * 1000 + i);
  if (self->together != NULL) pthread_barrier_wait(self->together);
}

static void start(writer *self) {
  expect_ok(ls_worker_start(&self->thread, "writer", NULL, write_spans, self));
}

TEST(each_thread_has_spans_of_its_own) {
  LS_OWN(counted, memory) = begin();
  LS_OWN(ls_trace_log, log) = begin_log(memory.runtime, 64);
  pthread_barrier_t together;
  writer writers[3];
  assert_int_equal(pthread_barrier_init(&together, NULL, 3), 0);
  for (int i = 0; i < 3; ++i) {
    writers[i] = (writer){.runtime = memory.runtime,
                          .number = i,
                          .spans = 50,
                          .together = &together};
    start(&writers[i]);
  }
  for (int i = 0; i < 3; ++i)
    ls_worker_join(&writers[i].thread);
  ls_trace_log_end(log);
  bool seen[3] = {false};
  for (int i = 0; i < 3; ++i) {
    const ls_span_ring *ring = log->rings[i];
    assert_non_null(ring);
    assert_string_equal(ring->thread, "writer");
    assert_int_equal(ring->count, 50);
    const int64_t who = ring->records[0].number / 1000;
    assert_true(who < 3 && !seen[who]);
    seen[who] = true;
    for (int64_t k = 0; k < 50; ++k)
      assert_int_equal(ring->records[k].number, who * 1000 + k);
    for (int k = 0; k < i; ++k)
      assert_true(log->rings[k]->id != ring->id);
  }
  assert_null(log->rings[3]);
  pthread_barrier_destroy(&together);
}

// One after another, where the one before was: they share its ring.
TEST(short_lived_threads_do_not_use_up_places) {
  LS_OWN(counted, memory) = begin();
  LS_OWN(ls_trace_log, log) = begin_log(memory.runtime, 4);
  uint64_t count = log->lost;
  for (int64_t i = 0; i < 300; ++i) {
    writer one = {.runtime = memory.runtime, .number = i, .spans = 3};
    start(&one);
    ls_worker_join(&one.thread);
  }
  ls_trace_log_end(log);
  for (size_t i = 0; i < LS_SPAN_THREADS; ++i)
    count += log->rings[i] != NULL ? log->rings[i]->count : 0;
  assert_int_equal(count, 900);
  assert_int_equal(log->lost, 0);
}

TEST(spans_of_more_threads_than_there_is_room_for_are_counted) {
  LS_OWN(counted, memory) = begin();
  LS_OWN(ls_trace_log, log) = begin_log(memory.runtime, 2);
  static writer writers[MANY];
  pthread_barrier_t together;
  assert_int_equal(pthread_barrier_init(&together, NULL, MANY), 0);
  for (int i = 0; i < MANY; ++i) {
    writers[i] =
        (writer){.runtime = memory.runtime, .spans = 2, .together = &together};
    start(&writers[i]);
  }
  for (int i = 0; i < MANY; ++i)
    ls_worker_join(&writers[i].thread);
  ls_trace_log_end(log);
  assert_int_equal(log->lost, 2 * (MANY - LS_SPAN_THREADS));
  for (int i = 0; i < LS_SPAN_THREADS; ++i)
    assert_int_equal(log->rings[i]->count, 2);
  pthread_barrier_destroy(&together);
}

TEST(a_trace_ends_and_begins_while_threads_write) {
  LS_OWN(counted, memory) = begin();
  bool stop = false;
  writer writers[3];
  for (int i = 0; i < 3; ++i) {
    writers[i] =
        (writer){.runtime = memory.runtime, .number = i, .stop = &stop};
    start(&writers[i]);
  }
  uint64_t spans = 0;
  for (int round = 0; round < 50 || spans == 0; ++round) {
    LS_OWN(ls_trace_log, log) = begin_log(memory.runtime, 16);
    sched_yield();
    ls_trace_log_end(log);
    for (int i = 0; i < 3; ++i) {
      const ls_span_ring *ring = log->rings[i];
      if (ring == NULL) continue;
      spans += ring->count;
      for (uint64_t k = ls_span_ring_first(log, ring); k < ring->count; ++k) {
        const ls_span_record *record = &ring->records[k % 16];
        assert_true(record->began >= log->began && record->ended <= log->ended);
        assert_string_equal(record->name, "s");
      }
    }
  }
  __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
  for (int i = 0; i < 3; ++i)
    ls_worker_join(&writers[i].thread);
}

// ---- Memory ----------------------------------------------------------------
TEST(only_the_first_span_of_a_thread_takes_memory) {
  LS_OWN(counted, memory) = begin();
  LS_OWN(ls_trace_log, log) = begin_log(memory.runtime, 16);
  note(memory.runtime, "first", 0);
  const ls_allocator_counts before = counted_now(&memory);
  for (int64_t i = 0; i < 100; ++i)
    note(memory.runtime, "s", i);
  assert_int_equal(counted_now(&memory).allocations, before.allocations);
}

MEMORY_TEST(record_a_trace) {
  ls_runtime *runtime = ls_runtime_current();
  LS_OWN(ls_trace_log, log) = NULL;
  LS_RETURN_IF_ERROR(ls_trace_log_begin(runtime, 4, &log));
  note(runtime, "s", 0);
  ls_trace_log_end(log);
  const bool lost = log->lost > 0;
  return lost ? ls_out_of_memory() : ls_ok();
}
