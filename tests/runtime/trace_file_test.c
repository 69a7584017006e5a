// SPDX-License-Identifier: Apache-2.0
//
// A trace and its file: rows that nest, what is refused, and when.
#include "lockstep/trace.h"

#include <string.h>

#include "base/trace.h"
#include "support/counted.h"
#include "support/expect.h"
#include "support/trace_events.h"

static memory_files files;

static counted begin(void) {
  const ls_file_system system = memory_files_system(&files);
  return counted_begin_with(
      (ls_runtime_options){.threads = 1, .file_system = &system});
}

static void end(counted *memory) {
  counted_end(memory);
  memory_files_clear(&files);
}
LS_OWNED_(traced_runtime, counted, end(ls_owned))

static ls_trace *begin_trace(void) {
  ls_trace *trace = NULL;
  expect_ok(ls_trace_begin(ls_runtime_current(),
                           &(ls_trace_options){.path = "t.json"}, &trace));
  return trace;
}

static void finish(ls_trace *trace, trace_events *all) {
  ls_trace_end(trace);
  expect_ok(ls_trace_write(trace, NULL));
  ls_trace_destroy(trace);
  trace_events_read(all, &files, "t.json");
}

// ---- Rows ------------------------------------------------------------------
// Spans of fibers may overlap: each row of the file nests all the same.
TEST(spans_that_overlap_get_rows_of_their_own) {
  LS_OWN(traced_runtime, memory) = begin();
  ls_trace *trace = begin_trace();
  enum { SPANS = 5 };
  int64_t began[SPANS];
  for (int i = 0; i < SPANS; ++i)
    began[i] = ls_span_begin(memory.runtime);
  for (int i = 0; i < SPANS; ++i)
    ls_span_end(memory.runtime, &(ls_span){.kind = "test", .began = began[i]});
  trace_events all;
  finish(trace, &all);
  assert_int_equal(trace_events_count(&all, "test"), SPANS);
  bool apart = false;
  for (const trace_event *at = NULL;
       (at = trace_events_find(&all, "test", NULL, at)) != NULL;)
    apart |= at->thread != all.items[0].thread;
  assert_true(apart);
  expect_contains(memory_files_find(&files, "t.json")->data,
                  "unit_tests, row 2");
  trace_events_drop(&all);
}

// ---- The file --------------------------------------------------------------
TEST(a_place_that_cannot_be_written_is_refused_at_once) {
  LS_OWN(traced_runtime, memory) = begin();
  ls_trace *trace = NULL;
  files.fail_at = 1;
  expect_status(ls_trace_begin(memory.runtime,
                               &(ls_trace_options){.path = "t.json"}, &trace),
                LS_UNAVAILABLE, "while writing the trace 't.json'");
  assert_null(trace);
  assert_true(ls_span_begin(memory.runtime) == LS_NO_SPAN);
  // From the beginning on there is a trace, of nothing.
  trace = begin_trace();
  trace_events all;
  trace_events_read(&all, &files, "t.json");
  assert_int_equal(all.count, 1);
  assert_int_equal(all.lost, 0);
  trace_events_drop(&all);
  // One that cannot be written at last can be written elsewhere.
  ls_trace_end(trace);
  files.fail_at = 1;
  expect_status(ls_trace_write(trace, NULL), LS_UNAVAILABLE, "t.json");
  expect_ok(ls_trace_write(trace, "u.json"));
  ls_trace_destroy(trace);
  trace_events_read(&all, &files, "u.json");
  trace_events_drop(&all);
}

TEST(what_is_wrong_with_a_trace_is_said) {
  LS_OWN(traced_runtime, memory) = begin();
  ls_trace *trace = NULL, *other = NULL;
  expect_status(
      ls_trace_begin(memory.runtime, &(ls_trace_options){.spans = -1}, &trace),
      LS_INVALID_ARGUMENT, "keeps -1 spans of each thread");
  expect_status(ls_trace_begin(memory.runtime,
                               &(ls_trace_options){.spans = INT64_MAX}, &trace),
                LS_INVALID_ARGUMENT, "1 to 16777216");
  expect_ok(ls_trace_begin(memory.runtime, NULL, &trace));
  expect_status(ls_trace_write(trace, "t.json"), LS_FAILED_PRECONDITION,
                "call ls_trace_end first");
  // Nothing is written by one that is refused.
  expect_status(ls_trace_begin(memory.runtime,
                               &(ls_trace_options){.path = "t.json"}, &other),
                LS_FAILED_PRECONDITION, "is being traced already");
  assert_null(other);
  assert_null(memory_files_find(&files, "t.json"));
  expect_status(ls_runtime_destroy(memory.runtime), LS_FAILED_PRECONDITION,
                "end the trace and destroy it");
  ls_trace_end(trace);
  ls_trace_end(trace);
  expect_status(ls_trace_write(trace, NULL), LS_INVALID_ARGUMENT,
                "where shall the trace be written?");
  // The next one may begin while that one is still there.
  expect_ok(ls_trace_begin(memory.runtime, NULL, &other));
  ls_trace_destroy(other);
  ls_trace_destroy(trace);
  ls_trace_destroy(NULL);
  expect_status(ls_trace_begin(NULL, NULL, &trace), LS_INVALID_ARGUMENT,
                "ls_trace_begin: runtime is NULL");
  expect_status(ls_trace_begin(memory.runtime, NULL, NULL), LS_INVALID_ARGUMENT,
                "ls_trace_begin: out_trace is NULL");
  expect_status(ls_trace_write(NULL, "t.json"), LS_INVALID_ARGUMENT,
                "ls_trace_write: trace is NULL");
}

static ls_status trace_and_write(ls_runtime *runtime) {
  ls_trace *trace = NULL;
  LS_RETURN_IF_ERROR(
      ls_trace_begin(runtime, &(ls_trace_options){.path = "t.json"}, &trace));
  const int64_t began = ls_span_begin(runtime);
  ls_span_end(runtime, &(ls_span){.kind = "test", .began = began});
  ls_trace_end(trace);
  const ls_status status = ls_trace_write(trace, NULL);
  ls_trace_destroy(trace);
  return status;
}

TEST(no_memory_is_a_status) {
  LS_OWN(traced_runtime, memory) = begin();
  expect_ok(trace_and_write(memory.runtime));
  const ls_allocator_counts before = counted_now(&memory);
  expect_ok(trace_and_write(memory.runtime));
  const ls_allocator_counts after = counted_now(&memory);
  const uint64_t requests = after.allocations - before.allocations;
  uint64_t refused = 0;
  for (uint64_t nth = 1; nth <= requests; ++nth) {
    ls_counting_allocator_fail_at(memory.memory, nth);
    ls_status status = trace_and_write(memory.runtime);
    assert_true(ls_status_is_ok(status) ||
                ls_status_code(status) == LS_RESOURCE_EXHAUSTED);
    refused += !ls_status_is_ok(status);
    ls_status_free(status);
    assert_int_equal(counted_now(&memory).live_blocks, before.live_blocks);
  }
  // A span that is lost is no failure.
  assert_true(requests > 5 && refused + 1 == requests);
}
