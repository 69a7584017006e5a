// SPDX-License-Identifier: Apache-2.0
// Layer: tpu
//
// Collectives among the replicas of a replicated computation.
//
// Groups are those of lockstep/flow.h: a partition of the replicas into groups
// of one size. Without groups all replicas form one; outside of a replicated
// computation and of a strategy's replicas that is replica 0 alone, and a line
// in the log says so. Inside outside_compilation these ops are refused: the
// host takes no part in them.
//
// Threads: a maker adds to the current graph of the thread that calls it.
#ifndef LOCKSTEP_CROSS_REPLICA_H_
#define LOCKSTEP_CROSS_REPLICA_H_

#include "lockstep/flow.h"

#ifdef __cplusplus
extern "C" {
#endif

// Returns the sum over the replica's group, along the canonical tree over its
// members by id. Any integer or float type. Its gradient is the same sum of the
// gradients.
LS_PLACED ls_tensor ls_cross_replica_sum(ls_tensor x,
                                         const ls_replica_groups *groups);
// Cuts x into split_count parts along split_axis, sends part j to member j of
// the replica's group, and concatenates the received parts along concat_axis in
// the group's order. split_count equals the size of a group.
LS_PLACED ls_tensor ls_cross_replica_all_to_all(
    ls_tensor x, int concat_axis, int split_axis, int64_t split_count,
    const ls_replica_groups *groups);
// Sends the x of replica pairs[i][0] to replica pairs[i][1]; a replica that is
// no target gets zeros.
LS_PLACED ls_tensor ls_cross_replica_permute(ls_tensor x,
                                             const int32_t (*pairs)[2],
                                             size_t num_pairs);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_CROSS_REPLICA_H_
