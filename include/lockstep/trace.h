// SPDX-License-Identifier: Apache-2.0
// Layer: runtime
//
// Traces: what the threads of a runtime do and when, for a person to look at.
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
//   turn    of the code that all replicas share, and of each replica's own
//           ("dense/matmul/R3") where they do not go side by side, named by the
//           op that it begins with: from where it goes on to where it waits or
//           ends; turns of replicas lie in a sweep, which is named by the
//           strategy's call;
//   host    call of a function on the host, by op and replica ("log/R0"), on
//           the thread that ran it, until it returned; how long it stood in
//           line is said in its arguments and has a row of its own;
//   wait    for the host, for other ranks, for variables that others use;
//   step, input, evaluate, save, restore  of a training run and of savers.
// Times are microseconds of the runtime's clock.
//
// A span costs some 0.1 microseconds and 128 bytes; a step that is traced takes
// no lock and, after its threads' first spans, no memory. While nobody traces
// nothing is kept.
//
// Threads: any thread may begin and end a trace, also while runs are under way;
// a trace is written and destroyed by one at a time.
#ifndef LOCKSTEP_TRACE_H_
#define LOCKSTEP_TRACE_H_

#include "lockstep/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_trace ls_trace;

// How to trace. Zero in a field means its default.
typedef struct ls_trace_options {
  // Where the trace will be written. A trace without spans stands there from
  // the beginning on, so that a place where nothing can be written is refused
  // before there is anything to lose. Copied. Default: nowhere yet.
  const char *path;
  // How many spans are kept of each thread, the newest; the file says how many
  // were lost. Of 256 threads at most. Default 32768, which are 4 MiB a thread.
  int64_t spans;
} ls_trace_options;

// Begins a trace. `options` may be NULL. The caller owns it, and destroys it
// before the runtime, which refuses to go while a trace is on.
//   LS_FAILED_PRECONDITION  a trace of this runtime is on.
//   LS_INVALID_ARGUMENT     fewer than 1 span, or more than 2^24.
//   others                  what writing to `path` gives.
LS_API LS_MUST_USE ls_status ls_trace_begin(ls_runtime *runtime,
                                            const ls_trace_options *options,
                                            ls_trace **out_trace);

// Ends it: what has not ended by now is no part of it. Ending twice is fine.
// Another trace may begin from now on.
LS_API void ls_trace_end(ls_trace *trace);

// Writes a trace that has ended, once or more: replaces the file as a whole.
// `path` may be NULL: that of the options.
//   LS_FAILED_PRECONDITION  it has not ended.
//   LS_INVALID_ARGUMENT     there is no path.
LS_API LS_MUST_USE ls_status ls_trace_write(ls_trace *trace, const char *path);

// Ends it if it is on, and forgets it. NULL is fine.
LS_API void ls_trace_destroy(ls_trace *trace);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_TRACE_H_
