// SPDX-License-Identifier: Apache-2.0
//
// The strategy and replica that a thread is in.
//
// Entries form a list, innermost first, each on the C stack of the code that
// entered it. An entry applies in the graph where it was entered and in graphs
// inside that; the first entry that applies is the current one. Without such an
// entry, the thread is in the default replica context.
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
  // In a computation: true if a container is updated as a whole.
  bool is_whole_update;
} ls_distribution;

// Returns the runtime's default strategy; NULL without memory.
ls_strategy *ls_default_strategy(ls_runtime *runtime);

// Returns the current entry; NULL in the default replica context.
const ls_distribution *ls_distribution_current(void);
// Pushes an entry onto the context's list; the caller restores the previous
// one.
void ls_distribution_push(ls_context *context, ls_distribution *entry);

// Makes the error for a call in the wrong context; `noun` names the call.
ls_status ls_mixing_error(const ls_strategy *current,
                          const ls_strategy *required);
ls_status ls_cross_replica_error(const ls_strategy *strategy, const char *noun);

// Checks that this replica's context is the current one.
ls_status ls_replica_check(const ls_replica *replica, const char *noun);
// Returns true if the replica is called on behalf of all, outside of a
// computation: values are then the same for all replicas.
bool ls_replica_has_no_others(const ls_replica *replica);
// Refuses the call `noun` in a replica that is called on behalf of several.
ls_status ls_replica_check_others(const ls_replica *replica, const char *noun);

// A call in cross-replica context, on the C stack of the call.
typedef struct ls_crossing {
  ls_scope scope;
  ls_trial trial;
} ls_crossing;
// Makes the strategy's cross-replica context current. Does nothing if it is
// current, opens the strategy's scope if no strategy is current, and fails
// elsewhere. Ops built until the end are in a trial.
ls_status ls_cross_replica_begin(ls_crossing *crossing, ls_strategy *strategy,
                                 const char *noun);
// Ends a crossing whose beginning succeeded; returns the call's status as
// ls_trial_end does. On failure `*out_value` (if not NULL) becomes none.
ls_status ls_cross_replica_end(ls_crossing *crossing, ls_status status,
                               ls_nest *out_value);
// Returns the status of a call that is made between begin and end.
#define LS_CROSS_REPLICA(strategy, noun, out_value, ...)                       \
  __extension__({                                                              \
    ls_crossing ls_crossed;                                                    \
    ls_status ls_ended =                                                       \
        ls_cross_replica_begin(&ls_crossed, (strategy), (noun));               \
    if (ls_status_is_ok(ls_ended))                                             \
      ls_ended =                                                               \
          ls_cross_replica_end(&ls_crossed, (__VA_ARGS__), (out_value));       \
    ls_ended;                                                                  \
  })
// Enters the context of an update function for component `id` on `device`.
void ls_update_begin(ls_scope *scope, ls_strategy *strategy, int32_t id,
                     const char *device);

#endif  // LS_DISTRIBUTE_CONTEXT_CONTEXT_H_
