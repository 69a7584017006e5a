// SPDX-License-Identifier: Apache-2.0
// Layer: runtime
//
// Sessions: run parts of a build graph. A session has its own values of the
// graph's variables.
//
// Random ops draw by the value of the graph's global step when a run begins (0
// before it has one): the one variable in the collection
// LS_COLLECTION_GLOBAL_STEP, an i64 or i32 scalar. In a graph without one they
// draw by the number of the session's runs so far that draw, where a run with a
// loop of k steps (ls_step_while) counts as k, but as one until it ends: runs
// that begin meanwhile draw what its later steps draw. Other fetches do not
// matter.
//
// Threads: any number of threads may run a session and read its variables at
// the same time, while no thread adds to its graph. Runs that use the same
// variables are ordered as calls of functions are: see function.h; one that
// draws reads the global step before that. A nest of results is used by one run
// at a time. Any thread may close a session at any time; it is destroyed when
// no run is left.
#ifndef LOCKSTEP_SESSION_H_
#define LOCKSTEP_SESSION_H_

#include "lockstep/cluster.h"
#include "lockstep/variable.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_session ls_session;

// Options of a session. Zero in a field means its default. Unsupported values
// are refused when a session is created.
typedef struct ls_session_config {
  // On: variables belong to the session. Default on; off is UNIMPLEMENTED.
  ls_flag isolate_session_state;
  // On: ops run wherever they can, whatever device they name. Default on; off
  // is UNIMPLEMENTED.
  ls_flag soft_placement;
  // Cluster to connect to, owned by the config: a copy (ls_cluster_spec_copy).
  // Default: none; other processes are UNIMPLEMENTED.
  ls_cluster_spec *cluster;
} ls_session_config;
// Copies a config, with its cluster. NULL gives the defaults.
LS_API LS_MUST_USE ls_status ls_session_config_copy(
    const ls_session_config *config, ls_session_config *out_copy);
// Frees the contents and zeroes the config. NULL is fine.
LS_API void ls_session_config_deinit(ls_session_config *config);

// Creates a session on a build graph, which must outlive it.
LS_API LS_MUST_USE ls_status ls_session_create(ls_graph *graph,
                                               ls_session **out_session);
// Creates a session with a config.
//   LS_INVALID_ARGUMENT  a flag with an invalid value.
//   LS_UNIMPLEMENTED     an unsupported value: names the field.
LS_API LS_MUST_USE ls_status ls_session_create_with(
    ls_graph *graph, const ls_session_config *config, ls_session **out_session);
// Destroys a session, at the end of its last run if some are in progress. NULL
// is fine.
LS_API void ls_session_destroy(ls_session *session);
// Ends the runs in progress with LS_CANCELLED and waits for them; later ones
// are refused with LS_FAILED_PRECONDITION. Variables can still be read. Called
// in a host function, which may be part of such a run, it does not wait.
// Closing again does nothing.
LS_API LS_MUST_USE ls_status ls_session_close(ls_session *session);
// Closes without waiting, from anywhere.
LS_API void ls_session_request_close(ls_session *session);

// A value for a placeholder (or any other tensor) in one run.
typedef struct ls_feed {
  ls_tensor tensor;
  const ls_array *value;  // Lent.
} ls_feed;

// Runs the ops that the fetches need. `fetches` is a lent nest of tensors,
// distributed values of tensors, and ops (run for their effect: none in the
// results); `*results` gets the same structure with arrays, in-out as in
// ls_function_call. Independent parts that wait, for instance for a queue
// (LS_HOST_WAITS in host.h), run concurrently, interleaved on this thread.
//   LS_CANCELLED            the thread's cancel (cancel.h) was requested, or
//                           the session closed.
//   LS_INVALID_ARGUMENT     a placeholder is needed and not fed, or a feed does
//                           not fit.
//   LS_FAILED_PRECONDITION  a variable is read that was not initialized, or
//                           random ops cannot draw by the global step.
LS_API LS_MUST_USE ls_status ls_session_run(ls_session *session,
                                            ls_nest fetches,
                                            const ls_feed *feeds,
                                            size_t num_feeds, ls_nest *results);

// Get and set a variable's value in this session; of one that is synchronized
// on read the value that ls_variable_read gives across replicas. The caller owns
// `*out_array`.
//   LS_INVALID_ARGUMENT  the variable is not of the session's graph.
LS_API LS_MUST_USE ls_status ls_session_variable_value(ls_session *session,
                                                       ls_variable *variable,
                                                       ls_array **out_array);
LS_API LS_MUST_USE ls_status ls_session_set_variable_value(
    ls_session *session, ls_variable *variable, const ls_array *array);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_SESSION_H_
