// SPDX-License-Identifier: Apache-2.0
// Private state of a monitored session.
#ifndef LS_TRAIN_HOOKS_MONITORED_H_
#define LS_TRAIN_HOOKS_MONITORED_H_

#include "lockstep/monitored_session.h"
#include "train/hooks/hook.h"
#include "train/hooks/saving.h"

struct ls_monitored_session {
  ls_runtime *runtime;  // Current when it was made, and when it is closed.
  ls_monitored_options options;
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

// Returns the number of sessions created so far.
int64_t ls_monitored_sessions(const ls_monitored_session *self);

#endif  // LS_TRAIN_HOOKS_MONITORED_H_
