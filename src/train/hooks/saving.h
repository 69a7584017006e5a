// SPDX-License-Identifier: Apache-2.0
// Saves of a loop: its checkpoints, when the next is due, and the last one.
// Used by hooks of sessions and of functions.
#ifndef LS_TRAIN_HOOKS_SAVING_H_
#define LS_TRAIN_HOOKS_SAVING_H_

#include "lockstep/checkpoint.h"
#include "lockstep/monitored_session.h"
#include "train/hooks/hook.h"

// Zeroed: saves nothing.
typedef struct ls_saving {
  ls_checkpoints *checkpoints;  // NULL: not open.
  int64_t every_steps;          // 0: not by steps.
  bool yields;                  // Saves by time wait for the last one.
  int64_t saved;                // Step of the last save; -1: none yet.
} ls_saving;

// Opens the checkpoints. Nothing counts as saved yet.
LS_MUST_USE ls_status ls_saving_open(ls_saving *self,
                                     const ls_checkpoints_options *options);
// Waits for a save in progress; returns the status of the last save.
LS_MUST_USE ls_status ls_saving_close(ls_saving *self);

// Returns true if a save is due at `step`, judged by this rank.
bool ls_saving_is_due(const ls_saving *self, int64_t step);
// Returns the number of steps from `step` until a save is due; 0: time decides.
int64_t ls_saving_steps_left(const ls_saving *self, int64_t step);
// Saves the current values. Without open checkpoints only stores the step.
LS_MUST_USE ls_status ls_saving_save(ls_saving *self, int64_t step,
                                     const ls_checkpoint_metric *metrics,
                                     size_t num_metrics);
// Returns true if the last save is known to have failed.
bool ls_saving_has_failed(const ls_saving *self);
// Waits until all checkpoints are on disk.
LS_MUST_USE ls_status ls_saving_wait(const ls_saving *self);
// Returns true if there is a complete checkpoint on disk. A save in progress is
// waited for with `waits`, else it does not count.
bool ls_saving_has_checkpoint(const ls_saving *self, bool waits);

// ---- Saved variables -------------------------------------------------------
typedef struct ls_saved_values {
  ls_saver saver;  // Saves variables in the session, exact.
  ls_variable **variables;
} ls_saved_values;

// Sets `values` to these variables, lent; without any, to all in the graph's
// "variables" or, for functions, to those of the model and its optimizer.
// Replaces former contents; accepts zeroed `values`.
LS_MUST_USE ls_status ls_saved_values_take(ls_saved_values *values,
                                           const ls_run_context *context,
                                           ls_variable *const *variables,
                                           size_t count);
void ls_saved_values_drop(ls_saved_values *values);
LS_OWNED_STRUCT(ls_saved_values, ls_saved_values_drop)

// Lists (lends) the variables in a collection; the caller owns the list.
LS_MUST_USE ls_status ls_collection_variables(const ls_graph *graph,
                                              const char *name,
                                              ls_variable ***out_variables,
                                              size_t *out_count);
// Lists the ops in a collection, including those of its tensors; the caller
// owns the list.
//   LS_INVALID_ARGUMENT  it contains something else.
LS_MUST_USE ls_status ls_collection_ops(const ls_graph *graph, const char *name,
                                        ls_op **out_ops, size_t *out_count);

// ---- Monitored sessions ----------------------------------------------------
// Private state of a monitored session.
struct ls_monitored_session {
  ls_runtime *runtime;  // Current when it was made, and when it is closed.
  ls_monitored_options options;
  bool allows_missing;  // Checkpoints may lack states.
  char *checkpoints;
  ls_scaffold own;
  ls_scaffold *scaffold;
  ls_hook_list hooks;
  ls_saved_values values;
  // Fetches of a run: the caller's, the step if a hook needs it, and each
  // hook's. Kept as long as the requests do not change.
  ls_nest *wanted, *asked;  // Requests of this run, lent; those in `fetches`.
  ls_nest fetches, results;
  ls_feed *feeds;
  size_t num_feeds, feeds_capacity;
  // After a lost session: the number of losses since the furthest step so far,
  // and that step.
  bool has_lost;
  int64_t losses, furthest;
  int64_t sessions;  // Number of sessions created.
};

// Creates a session as ls_monitored_session_create does. With `allows_missing`
// states that a checkpoint lacks are restored from an empty record.
LS_MUST_USE ls_status ls_monitored_session_make(
    const ls_monitored_options *options, bool allows_missing,
    ls_monitored_session **out_session);
// Returns the number of sessions created so far.
int64_t ls_monitored_sessions(const ls_monitored_session *self);

#endif  // LS_TRAIN_HOOKS_SAVING_H_
