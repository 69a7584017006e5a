// SPDX-License-Identifier: Apache-2.0
// Layer: distribute
//
// Nests of several replicas as one, and back: what goes into and comes out of
// replicas.
//
// Nests are lent; a result is the caller's.
//
// Threads: these are functions of their arguments alone.
#ifndef LOCKSTEP_REGROUP_H_
#define LOCKSTEP_REGROUP_H_

#include "lockstep/distributed.h"
#include "lockstep/variable.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_strategy ls_strategy;

// Makes one leaf of a replica's component each, which are lent.
typedef ls_nest (*ls_wrap_function)(const ls_nest *components, size_t count,
                                    void *user);

// How to regroup. Zero in a field means its default.
typedef struct ls_regroup_options {
  ls_distributed_kind kind;  // Default LS_PER_REPLICA.
  ls_wrap_function wrap;     // In its place.
  void *wrap_user;
  bool always_wrap;  // Also a leaf that is the same object on all replicas.
} ls_regroup_options;

// One nest of one per replica, in replica order. A leaf that is the same object
// on all comes back as it is; components of one distributed variable come back
// as that variable; other leaves are wrapped.
//   LS_INVALID_ARGUMENT  no replica; kinds, lengths or keys that differ;
//                        components of different variables.
LS_API LS_MUST_USE ls_status ls_regroup(const ls_nest *values, size_t count,
                                        const ls_regroup_options *options,
                                        ls_nest *out_value);

// Replica `replica`'s part of a nest: of each distributed leaf its component.
//   LS_OUT_OF_RANGE  a leaf without such a component.
LS_API LS_MUST_USE ls_status ls_select_replica(int64_t replica, ls_nest nest,
                                               ls_nest *out_value);
// The same of a nest whose distributed leaves are all mirrored.
LS_API LS_MUST_USE ls_status ls_select_replica_mirrored(int64_t replica,
                                                        ls_nest nest,
                                                        ls_nest *out_value);
//   LS_INVALID_ARGUMENT  a distributed leaf that is not mirrored.
LS_API LS_MUST_USE ls_status ls_assert_mirrored(ls_nest nest);

// The results of an update, one nest per component: regrouped as Mirrored.
// With `group`, to use one result of a leaf runs the updates of all replicas;
// else each leaf becomes the tuple of its results.
LS_API LS_MUST_USE ls_status ls_update_regroup(ls_strategy *strategy,
                                               const ls_nest *updates,
                                               size_t count, bool group,
                                               ls_nest *out_value);

// The distributed variable that a component belongs to, as long as that lives;
// anything else itself. Lent.
LS_API ls_nest ls_value_container(ls_nest leaf);
LS_API bool ls_is_distributed_variable(ls_nest leaf);
// Whether it is a table with a part on each host.
LS_API bool ls_is_distributed_table(ls_nest leaf);
// Whether its components are kept equal: a rule, not a state.
LS_API bool ls_is_mirrored(ls_nest leaf);
LS_API bool ls_is_sync_on_read(ls_nest leaf);  // Exactly: not mirrored.

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_REGROUP_H_
