// SPDX-License-Identifier: Apache-2.0
// Layer: runtime
//
// Traces: timelines of the threads of a runtime.
//
//   ls_trace *trace = NULL;
//   LS_RETURN_IF_ERROR(ls_trace_begin(
//       runtime, &(ls_trace_options){.path = "trace.json"}, &trace));
//   ...                                   // Steps.
//   ls_trace_end(trace);
//   ls_status status = ls_trace_write(trace, NULL);
//   ls_trace_destroy(trace);
//
// The file is JSON in the format of Chrome's trace events, which Perfetto
// (ui.perfetto.dev) and chrome://tracing show: a row for each thread, with a
// span for each
//   call, trace, compile  of a function, by its name; run of a session;
//   turn    of the code that all replicas share, or of one replica's code
//           ("dense/matmul/R3") where replicas do not run side by side, named
//           by its first op: from where it starts or resumes to where it waits
//           or ends; a round of turns, one per replica, is a span "sweep",
//           named by the strategy's call;
//   host    call of a host function, by op and replica ("log/R0"), on the
//           thread that ran it; its time in the queue is in its arguments and
//           has a row of its own;
//   wait    for the host, for other ranks, for variables in use elsewhere;
//   exchange  of sums with other ranks, by the merge that it begins with: from
//           its start until its results have come, in a row of its own; time in
//           which the run does not wait for other ranks is hidden;
//   step, input, evaluate, save, restore  of a training run and of savers.
// Times are microseconds of the runtime's clock.
//
// A span costs some 0.1 microseconds and 128 bytes; a traced step takes no lock
// and, after its threads' first spans, no memory. Nothing is recorded while no
// trace is on.
//
// Threads: any thread may begin and end a trace, also during runs; one thread
// at a time writes and destroys it.
#ifndef LOCKSTEP_TRACE_H_
#define LOCKSTEP_TRACE_H_

#include "lockstep/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_trace ls_trace;

// Options of a trace. Zero in a field means its default.
typedef struct ls_trace_options {
  // Path of the file. An empty trace is written there at the beginning, so that
  // a path that cannot be written is refused before there is anything to lose.
  // Copied. Default: none yet.
  const char *path;
  // Number of newest spans kept per thread; the file says how many were lost.
  // At most 256 threads are traced. Default 32768, which are 4 MiB per thread.
  int64_t spans;
} ls_trace_options;

// Begins a trace. `options` may be NULL. The caller owns it, and destroys it
// before the runtime, which cannot be destroyed while a trace is on.
//   LS_FAILED_PRECONDITION  a trace of this runtime is on.
//   LS_INVALID_ARGUMENT     fewer than 1 span, or more than 2^24.
//   others                  failures of writing to `path`.
LS_API LS_MUST_USE ls_status ls_trace_begin(ls_runtime *runtime,
                                            const ls_trace_options *options,
                                            ls_trace **out_trace);

// Ends the trace: spans that are still open are not part of it. Ending twice is
// fine. Another trace may begin from now on.
LS_API void ls_trace_end(ls_trace *trace);

// Writes a trace that has ended, once or more: replaces the file atomically.
// `path` may be NULL: that of the options.
//   LS_FAILED_PRECONDITION  it has not ended.
//   LS_INVALID_ARGUMENT     there is no path.
LS_API LS_MUST_USE ls_status ls_trace_write(ls_trace *trace, const char *path);

// Ends the trace if it is on, and frees it. NULL is fine.
LS_API void ls_trace_destroy(ls_trace *trace);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_TRACE_H_
