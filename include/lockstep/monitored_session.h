// SPDX-License-Identifier: Apache-2.0
// Layer: train
//
// Monitored sessions: sessions that begin with what a checkpoint holds or their
// variables' initial values, call hooks around their runs, and begin again when
// what they ran on was lost.
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
// signal handler, may ask it to stop by the options' `stop`.
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

// How a graph's variables get their values. What is not set is taken from the
// collection of its name, or else made, by ls_scaffold_finalize. A plain value,
// used for one graph.
typedef struct ls_scaffold {
  ls_op init_op;              // Default: all initializers of "variables".
  const ls_feed *init_feeds;  // Lent.
  size_t num_init_feeds;
  ls_status (*init_fn)(void *user, ls_session *session);  // Behind init_op.
  void *init_user;
  // A list of strings: the names of variables that have no value. Default: of
  // all in "variables" and "local_variables", and of those in "variables".
  ls_tensor ready_op, ready_for_local_init_op;
  ls_op local_init_op;  // Default: initializers of "local_variables".
  ls_op summary_op;     // Default: none, if the collection is empty.
  // What is saved and restored. Default: "variables".
  ls_variable *const *saved;
  size_t num_saved;
  bool finalized;
} ls_scaffold;

// Fills in what is not set, and freezes the graph. Once done it does nothing.
//   LS_FAILED_PRECONDITION  two entries in a collection: names it.
LS_API LS_MUST_USE ls_status ls_scaffold_finalize(ls_scaffold *scaffold,
                                                  ls_graph *graph);
// Takes what is set in `from` and not in `scaffold`.
LS_API void ls_scaffold_copy(ls_scaffold *scaffold, const ls_scaffold *from);

// ---- Sessions --------------------------------------------------------------
typedef struct ls_monitored_session ls_monitored_session;

// Zero in a field means its default.
typedef struct ls_monitored_options {
  ls_graph *graph;        // Required; must outlive the session.
  ls_scaffold *scaffold;  // Lent. Default: one of its own.
  ls_hook *const *hooks;  // Retained.
  size_t num_hooks;
  const char *checkpoints;    // Folder of checkpoints to begin with. Default:
                              // initial values.
  const ls_saveable *states;  // What else they hold. Lent.
  size_t num_states;
  const ls_train_stop *stop;        // Lent.
  const ls_train_stop *other_stop;  // The same, of somebody else.
  // How long a session that is lost, or is while it begins, also the first, is
  // tried to be made again. Default 7200.
  ls_opt creation_timeout_seconds;
  // How often a lost session is made again without a new global step. Default
  // 3.
  ls_opt most_losses;
  const ls_session_config *config;  // Of sessions. Lent.
} ls_monitored_options;

// Calls the hooks' begin, finalizes the scaffold, and makes the session.
//   LS_FAILED_PRECONDITION  a variable has no value then: names them.
LS_API LS_MUST_USE ls_status ls_monitored_session_create(
    const ls_monitored_options *options, ls_monitored_session **out_session);
// Returns true if no run shall follow; true for NULL, whose request to stop
// does nothing.
LS_API bool
ls_monitored_session_should_stop(const ls_monitored_session *session);
LS_API void ls_monitored_session_request_stop(ls_monitored_session *session);
// One run with all hooks, as ls_session_run. `*results` is lent until the next
// run. A run that ends with ABORTED or UNAVAILABLE is made again in a new
// session, which begins with the newest checkpoint; once too often, it is told.
//   LS_FAILED_PRECONDITION  a stop was requested.
//   LS_INVALID_ARGUMENT     something is fed twice.
LS_API LS_MUST_USE ls_status ls_monitored_session_run(
    ls_monitored_session *session, ls_nest fetches, const ls_feed *feeds,
    size_t num_feeds, ls_nest *results);
// The session now, lent; NULL while there is none. Runs of it call no hooks.
LS_API ls_session *ls_monitored_session_now(ls_monitored_session *session);

// Ends it, and frees it in any case; NULL is fine. `how` the loop has ended,
// taken over: after OK, and OUT_OF_RANGE, the end of data, the hooks' end is
// called and OK returned unless that fails; else `how` is returned.
LS_API LS_MUST_USE ls_status
ls_monitored_session_close(ls_monitored_session *session, ls_status how);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_MONITORED_SESSION_H_
