// SPDX-License-Identifier: Apache-2.0
//
// A step that adds one to all of a variable and to a count of steps, in a
// function, a session or eager, and threads that take such steps.
#ifndef LS_TESTS_SUPPORT_WRITERS_H_
#define LS_TESTS_SUPPORT_WRITERS_H_

#include <pthread.h>

#include "lockstep/host.h"
#include "lockstep/session.h"
#include "support/values.h"

typedef enum way_to_write {
  IN_FUNCTION,
  IN_SESSION,
  IN_EAGER,
  WAYS_TO_WRITE
} way_to_write;

typedef struct writer {
  way_to_write way;
  ls_variable *value, *steps;
  const ls_host_kernel *kernel;  // Called between the two writes; or NULL.
  ls_variable *looks_at;         // Read by the step, beside; or NULL.
  ls_function *function;
  ls_graph *graph;
  ls_session *session;  // Given, or the writer's own with its graph.
  ls_nest fetches;
} writer;

// `value` has `size` elements. `with`: another writer, in whose store this one
// works; or NULL.
void writer_init(writer *w, way_to_write way, int64_t size, const writer *with);
void writer_deinit(writer *w);
LS_OWNED_STRUCT(writer, writer_deinit)
ls_status writer_step(writer *w);
ls_status writer_read(const writer *w, ls_variable *variable,
                      ls_array **out_array);
// Of a value whose elements are equal; -1: they are not.
double whole_value(const ls_array *array);
double writer_value(const writer *w, ls_variable *variable);

// Takes steps in a thread of its own, to the last or until it is told to stop.
typedef struct writing {
  writer *writer;
  int steps;  // 0: without an end.
  pthread_t thread;
  bool stop, failed;  // Atomic.
  int done;           // Atomic.
} writing;
void writing_begin(writing *w, writer *of, int steps);
void writing_end(writing *w);  // Waits.

#endif  // LS_TESTS_SUPPORT_WRITERS_H_
