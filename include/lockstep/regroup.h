// SPDX-License-Identifier: Apache-2.0
// Layer: distribute
//
// Conversion between nests of several replicas and one nest: inputs and results
// of replicas.
//
// Nests are lent; the caller owns results.
//
// Threads: these are pure functions of their arguments.
#ifndef LOCKSTEP_REGROUP_H_
#define LOCKSTEP_REGROUP_H_

#include "lockstep/distributed.h"
#include "lockstep/variable.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_strategy ls_strategy;  // lockstep/replica.h

// Makes one leaf of the replicas' components, which are lent.
typedef ls_nest (*ls_wrap_function)(const ls_nest *components, size_t count,
                                    void *user);

// Options of regrouping. Zero in a field means its default.
typedef struct ls_regroup_options {
  ls_distributed_kind kind;  // Default LS_PER_REPLICA.
  ls_wrap_function wrap;     // Makes leaves instead.
  void *wrap_user;
  // Also wraps a leaf that is the same object on all replicas.
  bool always_wrap;
} ls_regroup_options;

// Makes one nest of one per replica, in replica order. A leaf that is the same
// object on all replicas is returned as it is; components of one distributed
// variable become that variable; other leaves are wrapped.
//   LS_INVALID_ARGUMENT  no replica; kinds, lengths or keys that differ;
//                        components of different variables.
LS_API LS_MUST_USE ls_status ls_regroup(const ls_nest *values, size_t count,
                                        const ls_regroup_options *options,
                                        ls_nest *out_value);

// Returns the part of a nest for `replica`: the component of each distributed
// leaf.
//   LS_OUT_OF_RANGE  a leaf without such a component.
LS_API LS_MUST_USE ls_status ls_select_replica(int64_t replica, ls_nest nest,
                                               ls_nest *out_value);
// Returns the same for a nest whose distributed leaves are all mirrored.
LS_API LS_MUST_USE ls_status ls_select_replica_mirrored(int64_t replica,
                                                        ls_nest nest,
                                                        ls_nest *out_value);
// Checks that all distributed leaves are mirrored.
//   LS_INVALID_ARGUMENT  a distributed leaf that is not mirrored.
LS_API LS_MUST_USE ls_status ls_assert_mirrored(ls_nest nest);

// Regroups the results of an update, one nest per component, as Mirrored. With
// `group`, using one result of a leaf runs the updates of all replicas; else
// each leaf becomes the tuple of its results.
LS_API LS_MUST_USE ls_status ls_update_regroup(ls_strategy *strategy,
                                               const ls_nest *updates,
                                               size_t count, bool group,
                                               ls_nest *out_value);

// Returns the distributed variable that a component belongs to, as long as that
// exists; any other leaf itself. Lent.
LS_API ls_nest ls_value_container(ls_nest leaf);
LS_API bool ls_is_distributed_variable(ls_nest leaf);
// Returns true if it is a table with a part on each host.
LS_API bool ls_is_distributed_table(ls_nest leaf);
// Returns true if its components are kept equal: a property of its type, not of
// its current values.
LS_API bool ls_is_mirrored(ls_nest leaf);
// The opposite of ls_is_mirrored.
LS_API bool ls_is_sync_on_read(ls_nest leaf);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_REGROUP_H_
