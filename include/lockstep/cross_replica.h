// SPDX-License-Identifier: Apache-2.0
// Layer: tpu
//
// What the replicas of a replicated computation put together.
//
// Groups are those of lockstep/flow.h: a partition of the replicas, each group
// of one size. Without groups there is one of all replicas; outside of a
// replicated computation and of a strategy's replicas that is replica 0, and a
// line in the log says so. Inside of outside_compilation they are refused: the
// host has no part in them.
//
// Threads: a maker adds to the current graph of the thread that calls it.
#ifndef LOCKSTEP_CROSS_REPLICA_H_
#define LOCKSTEP_CROSS_REPLICA_H_

#include "lockstep/flow.h"

#ifdef __cplusplus
extern "C" {
#endif

// The sum over the replica's group, along the canonical tree over its members
// by id. Any integer or float type. Its gradient is the same of the gradients.
LS_PLACED ls_tensor ls_cross_replica_sum(ls_tensor x,
                                         const ls_replica_groups *groups);
// x is cut into split_count parts along split_axis; part j goes to member j of
// the replica's group, and what comes is put together along concat_axis in the
// group's order. As many parts as a group has members.
LS_PLACED ls_tensor ls_cross_replica_all_to_all(
    ls_tensor x, int concat_axis, int split_axis, int64_t split_count,
    const ls_replica_groups *groups);
// Replica pairs[i][1] gets the x of replica pairs[i][0]; who is no target gets
// zeros.
LS_PLACED ls_tensor ls_cross_replica_permute(ls_tensor x,
                                             const int32_t (*pairs)[2],
                                             size_t num_pairs);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_CROSS_REPLICA_H_
