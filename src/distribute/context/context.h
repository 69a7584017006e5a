// SPDX-License-Identifier: Apache-2.0
//
// Where a thread is among strategies and replicas.
//
// What was entered is a list of entries, each on the C stack of whoever entered
// it, innermost first. An entry holds in the graph where it was entered and in
// what is inside of that graph; the first that holds is the current one. None:
// the default replica context.
#ifndef LS_DISTRIBUTE_CONTEXT_CONTEXT_H_
#define LS_DISTRIBUTE_CONTEXT_CONTEXT_H_

#include "distribute/base/strategy.h"
#include "graph/trial.h"

typedef struct ls_distribution {
  const struct ls_distribution *outer;
  const ls_graph *graph;  // NULL: eager.
  ls_strategy *strategy;
  ls_replica *replica;        // NULL: cross-replica.
  const char *update_device;  // NULL: not in an update function.
  int32_t update_id;
  bool is_update, by_set;
  bool is_whole_update;  // In a computation: of a variable as a whole.
} ls_distribution;

// The runtime's default strategy. NULL: no memory.
ls_strategy *ls_default_strategy(ls_runtime *runtime);

// The current entry; NULL in the default state.
const ls_distribution *ls_distribution_current(void);
// Pushes an entry onto the context; the caller puts back what was there.
void ls_distribution_push(ls_context *context, ls_distribution *entry);

// Refusals. `noun` is what was asked for.
ls_status ls_mixing_error(const ls_strategy *current,
                          const ls_strategy *required);
ls_status ls_cross_replica_error(const ls_strategy *strategy, const char *noun);

// OK when this replica context is the current one.
ls_status ls_replica_check(const ls_replica *replica, const char *noun);
// Returns true if it is called for all outside of a computation: there is one
// value.
bool ls_replica_has_no_others(const ls_replica *replica);
// Refuses `noun` there, unless it is the only replica.
ls_status ls_replica_check_others(const ls_replica *replica, const char *noun);

// A call of a cross-replica context, on its C stack.
typedef struct ls_crossing {
  ls_scope scope;
  ls_trial trial;
} ls_crossing;
// Makes the strategy's cross-replica context current: does nothing in it, opens
// a scope where no strategy is in force, and refuses elsewhere. What is built
// inside is on trial.
ls_status ls_cross_replica_begin(ls_crossing *crossing, ls_strategy *strategy,
                                 const char *noun);
// Its pair, if that went well: gives the call's status as ls_trial_end does. Of
// a refused one `*out_value` (NULL: there is none) becomes none.
ls_status ls_cross_replica_end(ls_crossing *crossing, ls_status status,
                               ls_nest *out_value);
// Opens the context of an update function for component `id` on `device`.
void ls_update_begin(ls_scope *scope, ls_strategy *strategy, int32_t id,
                     const char *device);

#endif  // LS_DISTRIBUTE_CONTEXT_CONTEXT_H_
