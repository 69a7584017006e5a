// SPDX-License-Identifier: Apache-2.0
// Traces that were written to files in memory, read back: events that can be
// asked for, of which it has been seen that they are whole and nest.
#ifndef LS_TESTS_SUPPORT_TRACE_EVENTS_H_
#define LS_TESTS_SUPPORT_TRACE_EVENTS_H_

#include "base/memory/arena.h"
#include "support/memory_files.h"

enum { TRACE_MOST_EVENTS = 512 };

typedef struct trace_event {
  char phase;
  int64_t thread;
  double time, length;  // Microseconds.
  int64_t replica;      // -1: of none.
  double in_line;       // Microseconds; -1: not said.
  const char *name, *kind;
} trace_event;

typedef struct trace_events {
  ls_arena arena;
  trace_event items[TRACE_MOST_EVENTS];
  size_t count;
  int64_t lost;
} trace_events;

void trace_events_read(trace_events *all, const memory_files *files,
                       const char *path);
void trace_events_drop(trace_events *all);

// The next event of this kind, and name if one is given; behind one, or the
// first. NULL: there is none.
const trace_event *trace_events_find(const trace_events *all, const char *kind,
                                     const char *name,
                                     const trace_event *behind);
// The first, which must be there.
const trace_event *trace_events_expect(const trace_events *all,
                                       const char *kind, const char *name);
size_t trace_events_count(const trace_events *all, const char *kind);
// Whether the thread of an event has this name.
bool trace_events_is_of(const trace_events *all, const trace_event *event,
                        const char *thread);

bool trace_event_is_within(const trace_event *inner, const trace_event *outer);

#endif  // LS_TESTS_SUPPORT_TRACE_EVENTS_H_
