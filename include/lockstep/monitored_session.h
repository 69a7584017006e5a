// SPDX-License-Identifier: Apache-2.0
// Layer: train
//
// Monitored sessions: sessions that start with the values of a checkpoint or
// their variables' initial values, call hooks around their runs, and are
// created again when their system was lost.
//
//   ls_monitored_session *session = NULL;
//   LS_RETURN_IF_ERROR(ls_monitored_session_create(&options, &session));
//   ls_status status = ls_ok();
//   while (ls_status_is_ok(status) &&
//          !ls_monitored_session_should_stop(session))
//     status = ls_monitored_session_run(session, train, NULL, 0, &results);
//   return ls_monitored_session_close(session, status);
//
// Threads: a session belongs to one thread at a time; any thread, and any
// signal handler, may request it to stop through the options' `stop`.
#ifndef LOCKSTEP_MONITORED_SESSION_H_
#define LOCKSTEP_MONITORED_SESSION_H_

#include "lockstep/hook.h"
#include "lockstep/train.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Scaffolds -------------------------------------------------------------
#define LS_COLLECTION_INIT_OP "init_op"
#define LS_COLLECTION_READY_OP "ready_op"
#define LS_COLLECTION_READY_FOR_LOCAL_INIT_OP "ready_for_local_init_op"
#define LS_COLLECTION_LOCAL_INIT_OP "local_init_op"
#define LS_COLLECTION_SUMMARY_OP "summary_op"

// Initialization of a graph's variables. ls_scaffold_finalize takes a field
// that is not set from the collection of its name, or else makes its default. A
// plain value, used for one graph.
typedef struct ls_scaffold {
  ls_op init_op;              // Default: all initializers of "variables".
  const ls_feed *init_feeds;  // Lent.
  size_t num_init_feeds;
  // Called after init_op.
  ls_status (*init_fn)(void *user, ls_session *session);
  void *init_user;
  // Lists of strings: the names of variables that have no value. Default: all
  // of those in "variables" and "local_variables", and of those in "variables".
  ls_tensor ready_op, ready_for_local_init_op;
  ls_op local_init_op;  // Default: initializers of "local_variables".
  ls_op summary_op;     // Default: none, if the collection is empty.
  // Variables to save and restore. Default: "variables".
  ls_variable *const *saved;
  size_t num_saved;
  bool finalized;
} ls_scaffold;

// Fills in the fields that are not set, and freezes the graph. A second call
// does nothing.
//   LS_FAILED_PRECONDITION  two entries in a collection: names it.
LS_API LS_MUST_USE ls_status ls_scaffold_finalize(ls_scaffold *scaffold,
                                                  ls_graph *graph);
// Copies the fields that are set in `defaults` and not in `scaffold`.
LS_API void ls_scaffold_copy(ls_scaffold *scaffold,
                             const ls_scaffold *defaults);

// ---- Sessions --------------------------------------------------------------
typedef struct ls_monitored_session ls_monitored_session;

// Zero in a field means its default.
typedef struct ls_monitored_options {
  ls_graph *graph;        // Required; must outlive the session.
  ls_scaffold *scaffold;  // Lent. Default: one of the session's own.
  ls_hook *const *hooks;  // Retained.
  size_t num_hooks;
  // Folder of checkpoints to start with. Default: initial values.
  const char *checkpoints;
  // States in the checkpoints besides variables. Lent.
  const ls_saveable *states;
  size_t num_states;
  const ls_train_stop *stop;        // Lent.
  const ls_train_stop *other_stop;  // A second source of stop requests, lent.
  // Seconds during which the session, also the first, is created again when it
  // is lost, or fails while it starts. Default 7200.
  ls_opt creation_timeout_seconds;
  // Number of times a lost session is created again without a new global step.
  // Default 3.
  ls_opt most_losses;
  const ls_session_config *config;  // Configuration of sessions. Lent.
  // On if ranks make the same runs: they save and restore checkpoints together,
  // in the folders of rank 0. Default: off.
  ls_flag ranks;
} ls_monitored_options;

// Calls the hooks' begin, finalizes the scaffold, and creates the session. The
// caller closes it.
//   LS_FAILED_PRECONDITION  a variable then has no value: names them.
LS_API LS_MUST_USE ls_status ls_monitored_session_create(
    const ls_monitored_options *options, ls_monitored_session **out_session);
// Return true if no run should follow, and request that. For NULL the first
// returns true and the second does nothing.
LS_API bool
ls_monitored_session_should_stop(const ls_monitored_session *session);
LS_API void ls_monitored_session_request_stop(ls_monitored_session *session);
// Makes one run with all hooks, as ls_session_run. `*results` is lent until the
// next run. A run that ends with ABORTED or UNAVAILABLE is repeated in a new
// session, which starts with the newest checkpoint; after `most_losses` times
// its status is returned.
//   LS_FAILED_PRECONDITION  a stop was requested.
//   LS_INVALID_ARGUMENT     a tensor is fed twice.
LS_API LS_MUST_USE ls_status ls_monitored_session_run(
    ls_monitored_session *session, ls_nest fetches, const ls_feed *feeds,
    size_t num_feeds, ls_nest *results);
// Returns the current session, lent; NULL while there is none. Its own runs
// call no hooks.
LS_API ls_session *ls_monitored_session_now(ls_monitored_session *session);

// Ends the session, and frees it in any case; NULL is fine. `loop_status` is
// the status with which the loop ended, taken over: after OK, and OUT_OF_RANGE,
// the end of data, the hooks' end is called and OK returned unless that fails;
// otherwise `loop_status` is returned.
LS_API LS_MUST_USE ls_status ls_monitored_session_close(
    ls_monitored_session *session, ls_status loop_status);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_MONITORED_SESSION_H_
