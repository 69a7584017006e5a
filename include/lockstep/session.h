// SPDX-License-Identifier: Apache-2.0
// Layer: runtime
//
// Sessions: run parts of a build graph. A session has its own values of the
// graph's variables.
//
// Random ops draw by the value that the graph's global step has when a run
// begins (0 before it has one): that of the one variable in the collection
// LS_COLLECTION_GLOBAL_STEP, an i64 or i32 scalar. In a graph without one they
// draw by the number of the session's runs so far, where a run with a loop of k
// steps (ls_step_while) is k. What is fetched does not count.
//
// Threads: any number of threads may run a session and look at its variables at
// the same time, while nobody adds to its graph. Runs that use the same
// variables are ordered as calls of functions are: see function.h; one that
// draws looks at the global step before. A nest of results is one run's at a
// time. A session is closed by any thread at any time, and destroyed when no
// run is left.
#ifndef LOCKSTEP_SESSION_H_
#define LOCKSTEP_SESSION_H_

#include "lockstep/cluster.h"
#include "lockstep/variable.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_session ls_session;

// How a session runs. Zero in a field means its default. What cannot be had is
// refused when a session is made of it.
typedef struct ls_session_config {
  // Whether variables are the session's own. Default on; off is UNIMPLEMENTED.
  ls_flag isolate_session_state;
  // Whether ops run where they can, whatever device they name. Default on; off
  // is UNIMPLEMENTED.
  ls_flag soft_placement;
  // Whom the session would connect to, its own: a copy (ls_cluster_spec_copy).
  // Default: nobody; other processes are UNIMPLEMENTED.
  ls_cluster_spec *cluster;
} ls_session_config;
// A copy, its cluster too. NULL gives the defaults.
LS_API LS_MUST_USE ls_status ls_session_config_copy(
    const ls_session_config *config, ls_session_config *out_copy);
// Gives back what it has; it is zero afterwards. NULL is fine.
LS_API void ls_session_config_deinit(ls_session_config *config);

// Creates a session on a build graph, which must outlive it.
LS_API LS_MUST_USE ls_status ls_session_create(ls_graph *graph,
                                               ls_session **out_session);
//   LS_INVALID_ARGUMENT  a flag that is none.
//   LS_UNIMPLEMENTED     what cannot be had: names the field.
LS_API LS_MUST_USE ls_status ls_session_create_with(
    ls_graph *graph, const ls_session_config *config, ls_session **out_session);
// While runs are under way it goes with the last of them. NULL is fine.
LS_API void ls_session_destroy(ls_session *session);
// Ends the runs that are under way with LS_CANCELLED and waits for them; later
// ones are refused with LS_FAILED_PRECONDITION. Variables can still be looked
// at. Called in a function on the host, which may be part of such a run, it
// does not wait. Closing again does nothing.
LS_API LS_MUST_USE ls_status ls_session_close(ls_session *session);
// The same without waiting, from anywhere.
LS_API void ls_session_request_close(ls_session *session);

// A value for a placeholder (or any other tensor) in one run.
typedef struct ls_feed {
  ls_tensor tensor;
  const ls_array *value;  // Lent.
} ls_feed;

// Runs what the fetches need. `fetches` is a lent nest of tensors, distributed
// values of tensors, and ops (run for their effect: none in the results);
// `*results` gets the same structure with arrays, in-out as in
// ls_function_call.
// Parts that need nothing of each other go on side by side where they wait, as
// for a queue (LS_HOST_WAITS in host.h): on this thread, in turns.
//   LS_CANCELLED            it was, by the thread's cancel (cancel.h) or by
//                           closing the session.
//   LS_INVALID_ARGUMENT     a placeholder is needed and not fed, or a feed
//                           does not fit.
//   LS_FAILED_PRECONDITION  a variable is read that was not initialized, or
//                           random ops cannot draw by the global step.
LS_API LS_MUST_USE ls_status ls_session_run(ls_session *session,
                                            ls_nest fetches,
                                            const ls_feed *feeds,
                                            size_t num_feeds, ls_nest *results);

// A variable's value in this session.
LS_API LS_MUST_USE ls_status ls_session_variable_value(ls_session *session,
                                                       ls_variable *variable,
                                                       ls_array **out_array);
LS_API LS_MUST_USE ls_status ls_session_set_variable_value(
    ls_session *session, ls_variable *variable, const ls_array *array);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_SESSION_H_
