// SPDX-License-Identifier: Apache-2.0
// A monitored session inside.
#ifndef LS_TRAIN_HOOKS_MONITORED_H_
#define LS_TRAIN_HOOKS_MONITORED_H_

#include "lockstep/monitored_session.h"
#include "train/hooks/list.h"
#include "train/hooks/saved.h"

struct ls_monitored_session {
  ls_monitored_options options;
  char *checkpoints;
  ls_scaffold own;
  ls_scaffold *scaffold;
  ls_hook_list hooks;
  ls_saved_values values;
  // The fetches of a run: the caller's, the step if a hook counts, and each
  // hook's. Kept as long as all request the same.
  ls_nest *wanted, *asked;  // Those of this run, lent; those of `fetches`.
  ls_nest fetches, results;
  ls_feed *feeds;
  size_t num_feeds, feeds_capacity;
  // Once one was lost: how many, since the last step that was the first to come
  // there; and that step.
  bool has_lost;
  int64_t losses, furthest;
  int64_t sessions;  // So many were made.
};

// Returns how many sessions it has made so far.
int64_t ls_monitored_sessions(const ls_monitored_session *self);

#endif  // LS_TRAIN_HOOKS_MONITORED_H_
