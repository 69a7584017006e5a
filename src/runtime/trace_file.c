// SPDX-License-Identifier: Apache-2.0
//
// Writes a trace as Chrome trace events. Perfetto shows "X", complete spans, in
// rows that nest; "M", names; "b" and "e", spans that may overlap; "i", marks.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "base/text.h"
#include "base/trace.h"
#include "io/json.h"
#include "lockstep/communicator.h"
#include "lockstep/trace.h"
#include "lockstep/version.h"

enum { SPANS = 32768, MOST_SPANS = 1 << 24 };

struct ls_trace {
  ls_runtime *runtime;
  ls_allocator *allocator;
  char *path;         // NULL: not written to a file.
  ls_trace_log *log;  // NULL: not started.
};

// ---- Events ----------------------------------------------------------------
typedef struct writer {
  ls_json_writer json;
  const ls_trace_log *log;  // NULL: no spans.
  int64_t process;
  int64_t lost;
  int64_t waits;  // Queued spans so far, which are numbered.
} writer;

// Begins an event up to its arguments. Each event is a line.
static void begin_event(writer *w, const char *phase, const char *name,
                        int64_t thread) {
  ls_json_writer *json = &w->json;
  ls_json_begin(json, '{');
  ls_json_key(json, "ph");
  ls_json_string(json, phase);
  ls_json_key(json, "pid");
  ls_json_i64(json, w->process);
  ls_json_key(json, "tid");
  ls_json_i64(json, thread);
  ls_json_key(json, "name");
  ls_json_any_string(json, name);
}

static void end_event(writer *w) {
  ls_json_end(&w->json, '}');
  w->json.comma = false;
  ls_text_append(w->json.text, ",\n");
}

static void put_time(writer *w, const char *key, int64_t nanos) {
  ls_json_key(&w->json, key);
  ls_json_thousandths(&w->json, nanos);
}

static void put_kind(writer *w, const char *kind) {
  ls_json_key(&w->json, "cat");
  ls_json_string(&w->json, kind);
}

// Writes an event of kind "M".
static void write_name(writer *w, const char *kind, int64_t thread,
                       const char *name) {
  begin_event(w, "M", kind, thread);
  ls_json_key(&w->json, "args");
  ls_json_begin(&w->json, '{');
  ls_json_key(&w->json, "name");
  ls_json_any_string(&w->json, name);
  ls_json_end(&w->json, '}');
  end_event(w);
}

// Writes the time a span was queued, as an overlapping span.
static void write_wait(writer *w, const ls_span_record *span, int64_t thread) {
  ++w->waits;
  for (int end = 0; end < 2; ++end) {
    begin_event(w, end ? "e" : "b", span->name, thread);
    put_kind(w, "in line");
    ls_json_key(&w->json, "id");
    ls_json_i64(&w->json, w->waits);
    put_time(w, "ts", span->began - (end ? 0 : span->waited));
    end_event(w);
  }
}

static void write_span(writer *w, const ls_span_record *span, int64_t thread) {
  char name[LS_SPAN_NAME + 32];
  snprintf(name, sizeof(name), "%s", span->name);
  if (span->of == LS_SPAN_OF_REPLICA)
    snprintf(name, sizeof(name), "%s/R%lld", span->name,
             (long long)span->number);
  if (span->waited > 0) write_wait(w, span, thread);
  begin_event(w, "X", name, thread);
  put_kind(w, span->kind);
  put_time(w, "ts", span->began);
  put_time(w, "dur", span->ended - span->began);
  if (span->of != LS_SPAN_OF_NOTHING || span->waited > 0) {
    ls_json_key(&w->json, "args");
    ls_json_begin(&w->json, '{');
    if (span->of != LS_SPAN_OF_NOTHING) {
      ls_json_key(&w->json,
                  span->of == LS_SPAN_OF_REPLICA ? "replica" : "step");
      ls_json_i64(&w->json, span->number);
    }
    if (span->waited > 0) put_time(w, "us_in_line", span->waited);
    ls_json_end(&w->json, '}');
  }
  end_event(w);
}

// ---- Threads ---------------------------------------------------------------
// Limits of rows. Spans in a row nest. Spans of fibers that took turns on a
// thread may not, so a thread gets as many rows as it needs.
enum { MOST_ROWS = 64, MOST_DEPTH = 64, ROW_STRIDE = 1 << 22 };

typedef struct row {
  int64_t ends[MOST_DEPTH];  // Ends of the open spans, the innermost last.
  int depth;
} row;

// Orders containing spans before contained ones: earlier start, then later end.
static int by_time(const void *left, const void *right) {
  const ls_span_record *a = *(const ls_span_record *const *)left;
  const ls_span_record *b = *(const ls_span_record *const *)right;
  if (a->began != b->began) return a->began < b->began ? -1 : 1;
  if (a->ended != b->ended) return a->ended > b->ended ? -1 : 1;
  return 0;
}

// Returns true and places the span in the row if it fits.
static bool enter_row(row *r, const ls_span_record *span) {
  while (r->depth > 0 && r->ends[r->depth - 1] <= span->began)
    --r->depth;
  if (r->depth == MOST_DEPTH ||
      (r->depth > 0 && r->ends[r->depth - 1] < span->ended))
    return false;
  r->ends[r->depth++] = span->ended;
  return true;
}

static void name_row(writer *w, const ls_span_ring *ring, int number) {
  char name[sizeof(ring->thread) + 16];
  snprintf(name, sizeof(name), "%s", ring->thread);
  if (number > 0)
    snprintf(name, sizeof(name), "%s, row %d", ring->thread, number + 1);
  write_name(w, "thread_name", ring->id + (int64_t)number * ROW_STRIDE, name);
}

static void write_rows(writer *w, const ls_span_ring *ring, row *rows,
                       const ls_span_record *const *spans, size_t count) {
  int used = 1;
  name_row(w, ring, 0);
  for (size_t i = 0; i < count; ++i) {
    int at = 0;
    while (at < MOST_ROWS - 1 && !enter_row(&rows[at], spans[i]))
      ++at;
    for (; used <= at; ++used)
      name_row(w, ring, used);
    write_span(w, spans[i], ring->id + (int64_t)at * ROW_STRIDE);
  }
}

static void write_lost(writer *w, const ls_span_ring *ring, uint64_t lost,
                       int64_t until) {
  char name[80];
  w->lost += (int64_t)lost;
  snprintf(name, sizeof(name), "%llu earlier spans are lost",
           (unsigned long long)lost);
  begin_event(w, "i", name, ring->id);
  ls_json_key(&w->json, "s");
  ls_json_string(&w->json, "t");
  put_time(w, "ts", until);
  end_event(w);
}

static ls_status write_thread(writer *w, const ls_span_ring *ring) {
  ls_allocator *allocator = w->log->allocator;
  const uint64_t first = ls_span_ring_first(w->log, ring);
  const size_t count = (size_t)(ring->count - first);
  LS_OWN_ARRAY(allocator, const ls_span_record *, spans, count);
  LS_OWN_ARRAY(allocator, row, rows, MOST_ROWS);
  if (spans != NULL && rows != NULL) {
    for (size_t i = 0; i < count; ++i)
      spans[i] = &ring->records[(first + i) % w->log->capacity];
    if (first > 0) write_lost(w, ring, first, spans[0]->ended);
    qsort(spans, count, sizeof(spans[0]), by_time);
    write_rows(w, ring, rows, spans, count);
  }
  const bool done = spans != NULL && rows != NULL;
  return ls_memory_status(done);
}

// ---- The file --------------------------------------------------------------
static void write_process(writer *w, const ls_runtime *runtime) {
  char name[64] = "lockstep";
  const ls_communicator *communicator = ls_runtime_communicator(runtime);
  if (communicator != NULL)
    snprintf(name, sizeof(name), "lockstep, rank %d of %d", communicator->rank,
             communicator->ranks);
  write_name(w, "process_name", 0, name);
}

static ls_status write_events(writer *w, const ls_runtime *runtime) {
  ls_text *text = w->json.text;
  ls_text_append(text, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  if (w->log != NULL) w->lost = (int64_t)w->log->lost;
  for (size_t i = 0; w->log != NULL && i < LS_SPAN_THREADS; ++i)
    if (w->log->rings[i] != NULL)
      LS_RETURN_IF_ERROR(write_thread(w, w->log->rings[i]));
  // The process comes last, as no comma follows it.
  write_process(w, runtime);
  if (text->failed) return ls_out_of_memory();
  text->size -= sizeof(",\n") - 1;
  ls_text_append(text, "\n],\"otherData\":");
  w->json.comma = false;
  ls_json_begin(&w->json, '{');
  ls_json_key(&w->json, "version");
  ls_json_string(&w->json, "lockstep " LS_VERSION);
  ls_json_key(&w->json, "lost_spans");
  ls_json_i64(&w->json, w->lost);
  ls_json_end(&w->json, '}');
  ls_text_append(text, "}\n");
  return ls_text_status(text);
}

static ls_status write_file(const ls_trace *self, const char *path) {
  LS_OWN(ls_text, text) = {.allocator = self->allocator};
  writer w = {
      .json = {.text = &text}, .log = self->log, .process = (int64_t)getpid()};
  const ls_status refusal = write_events(&w, self->runtime);
  const ls_file_system *files = ls_runtime_files(self->runtime);
  return ls_status_annotate(
      ls_status_is_ok(refusal)
          ? files->write(files->user, path, text.data, text.size)
          : refusal,
      "while writing the trace '%s'", path);
}

// ---- Traces ----------------------------------------------------------------
LS_OWNED_POINTER(ls_trace, ls_trace_destroy)

static ls_status trace_file_begin(ls_trace *self,
                                  const ls_trace_options *options) {
  if (options->path != NULL) {
    LS_RETURN_IF_ERROR(
        ls_keep_text(self->allocator, options->path, &self->path));
    LS_RETURN_IF_ERROR(write_file(self, self->path));
  }
  const int64_t spans = options->spans != 0 ? options->spans : SPANS;
  return ls_trace_log_begin(self->runtime, (size_t)spans, &self->log);
}

ls_status ls_trace_begin(ls_runtime *runtime, const ls_trace_options *options,
                         ls_trace **out_trace) {
  LS_REQUIRE_OUT(out_trace, runtime);
  const ls_trace_options none = {0};
  if (options == NULL) options = &none;
  if (options->spans < 0 || options->spans > MOST_SPANS)
    return ls_invalid_argument("a trace that keeps %lld spans of each thread; "
                               "1 to %d are possible, 0 for %d",
                               (long long)options->spans, MOST_SPANS, SPANS);
  LS_RETURN_IF_ERROR(ls_trace_log_check(runtime));
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  LS_OWN_NEW_OR_RETURN(allocator, ls_trace, self);
  self->runtime = runtime;
  self->allocator = allocator;
  LS_RETURN_IF_ERROR(trace_file_begin(self, options));
  return ls_hand_over(&self, out_trace);
}

void ls_trace_end(ls_trace *trace) { ls_trace_log_end(trace->log); }

ls_status ls_trace_write(ls_trace *trace, const char *path) {
  LS_REQUIRE(trace);
  if (trace->log->is_on)
    return ls_failed_precondition(
        "a trace is written when it has ended: call ls_trace_end first");
  if (path == NULL) path = trace->path;
  if (path == NULL)
    return ls_invalid_argument(
        "where shall the trace be written? Neither ls_trace_write nor the "
        "trace's options name a path");
  return write_file(trace, path);
}

void ls_trace_destroy(ls_trace *trace) {
  if (trace == NULL) return;
  ls_trace_log_destroy(trace->log);
  ls_release(trace->allocator, trace->path);
  ls_release(trace->allocator, trace);
}
