// SPDX-License-Identifier: Apache-2.0
//
// The strategy and replica that a thread is in.
//
// Entries form a list, innermost first, each on the C stack of the code that
// entered it. An entry holds in the graph where it was entered and in graphs
// inside that; the first entry that holds is the current one. Without any, the
// thread is in the default replica context.
#ifndef LS_DISTRIBUTE_CONTEXT_CONTEXT_H_
#define LS_DISTRIBUTE_CONTEXT_CONTEXT_H_

#include "distribute/base/strategy.h"
#include "graph/trial.h"

typedef struct ls_distribution {
  const struct ls_distribution *outer;
  const ls_graph *graph;  // NULL: eager.
  ls_strategy *strategy;
  ls_replica *replica;        // NULL: cross-replica.
  const char *update_device;  // NULL: not an update function.
  int32_t update_id;
  bool is_update, by_set;
  bool is_whole_update;  // In a computation: updates a variable as a whole.
} ls_distribution;

// Returns the runtime's default strategy; NULL without memory.
ls_strategy *ls_default_strategy(ls_runtime *runtime);

// Returns the current entry; NULL in the default state.
const ls_distribution *ls_distribution_current(void);
// Pushes an entry onto the context; the caller restores the previous one.
void ls_distribution_push(ls_context *context, ls_distribution *entry);

// Make errors for calls in the wrong context; `noun` is the call.
ls_status ls_mixing_error(const ls_strategy *current,
                          const ls_strategy *required);
ls_status ls_cross_replica_error(const ls_strategy *strategy, const char *noun);

// Checks that this replica context is the current one.
ls_status ls_replica_check(const ls_replica *replica, const char *noun);
// Returns true if the replica is called for all, outside of a computation:
// values are the same for all.
bool ls_replica_has_no_others(const ls_replica *replica);
// Refuses `noun` in such a replica, unless it is the only one.
ls_status ls_replica_check_others(const ls_replica *replica, const char *noun);

// A call in cross-replica context, on the C stack.
typedef struct ls_crossing {
  ls_scope scope;
  ls_trial trial;
} ls_crossing;
// Makes the strategy's cross-replica context current: does nothing if it is,
// opens a scope if no strategy is in force, and fails elsewhere. Ops built
// inside are in a trial.
ls_status ls_cross_replica_begin(ls_crossing *crossing, ls_strategy *strategy,
                                 const char *noun);
// Ends a crossing that began well; returns the call's status as ls_trial_end
// does. On failure `*out_value` (if not NULL) becomes none.
ls_status ls_cross_replica_end(ls_crossing *crossing, ls_status status,
                               ls_nest *out_value);
// Enters the context of an update function for component `id` on `device`.
void ls_update_begin(ls_scope *scope, ls_strategy *strategy, int32_t id,
                     const char *device);

#endif  // LS_DISTRIBUTE_CONTEXT_CONTEXT_H_
