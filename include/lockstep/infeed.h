// SPDX-License-Identifier: Apache-2.0
// Layer: tpu
//
// Infeed and outfeed: what goes to the cores of a TPU system, and what comes
// from them, while programs run there.
//
// Each core has two queues of tuples, first in, first out, whatever op or queue
// object made what goes through: the host puts tuples into the infeed and the
// core takes them, and the other way round through the outfeed. Who takes waits
// until there is one; who puts waits while the queue is full (64 tuples). A
// closed queue gives what is in it and then OUT_OF_RANGE, the end of the data.
//
// Ops that wait keep no thread: a session run whose parts wait for each other
// drives them side by side.
//
// Threads: makers are as those of ops.h; policies are plain values.
#ifndef LOCKSTEP_INFEED_H_
#define LOCKSTEP_INFEED_H_

#include "lockstep/device_name.h"
#include "lockstep/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Ops -------------------------------------------------------------------
// What a core does, in a replicated computation or on the device
// "/job:worker/task:1/device:TPU:3". Elsewhere it is core r of the local system
// for replica r. Elements are bool, integers, floats or c64.
//
// Takes the next tuple, which must be of these types: output i is element i.
LS_PLACED ls_op ls_infeed_dequeue_tuple(const ls_type *types, size_t count);
// A tuple of one.
LS_PLACED ls_tensor ls_infeed_dequeue(ls_dtype dtype, ls_shape shape);
LS_PLACED ls_op ls_outfeed_enqueue_tuple(const ls_tensor *values, size_t count);
LS_PLACED ls_op ls_outfeed_enqueue(ls_tensor value);

// What a host does: for its core `ordinal`, the host being the task of the
// op's device. -1: the core that the op is placed on.
//
// Puts one tuple. `types` is what the values must be when it is run (of
// LS_DTYPE_NONE: of any type); NULL: what they are.
LS_PLACED ls_op ls_infeed_enqueue_tuple(const ls_tensor *values, size_t count,
                                        const ls_type *types, size_t num_types,
                                        int64_t ordinal);
LS_PLACED ls_op ls_infeed_enqueue(ls_tensor value, ls_shape shape,
                                  int64_t ordinal);
LS_PLACED ls_op ls_outfeed_dequeue_tuple(const ls_type *types, size_t count,
                                         int64_t ordinal);
LS_PLACED ls_tensor ls_outfeed_dequeue(ls_dtype dtype, ls_shape shape,
                                       int64_t ordinal);
// The same for the core that `ordinal` says, an i32 scalar.
LS_PLACED ls_op ls_outfeed_dequeue_tuple_at(ls_tensor ordinal,
                                            const ls_type *types, size_t count);
// Says that nothing more will come: what is in the queue is still taken, then
// who takes is told OUT_OF_RANGE, and who puts FAILED_PRECONDITION. Closing
// again does nothing.
LS_PLACED ls_op ls_infeed_close(int64_t ordinal);
LS_PLACED ls_op ls_outfeed_close(int64_t ordinal);

// ---- Sharding policies -----------------------------------------------------
// How a value is cut over replicas: into how many equal shards along which
// dimension, and of how many partitions each is one. Zeroed: nothing is said.
// Setters refuse with LS_INVALID_ARGUMENT and change nothing then.
typedef struct ls_sharding_policy {
  ls_opt num_shards, dimension;
  ls_opt num_partitions;  // Default 1.
  bool frozen;
} ls_sharding_policy;

// Shards and dimension are both said.
LS_API bool ls_sharding_policy_is_set(const ls_sharding_policy *policy);
// "ShardingPolicy(17 shards dimension 8)" or "ShardingPolicy(unset)"; returns
// `buffer`.
LS_API const char *ls_sharding_policy_print(const ls_sharding_policy *policy,
                                            char *buffer, size_t size);
// Nothing changes any more; what is not said is 1 shard, dimension 0.
LS_API void ls_sharding_policy_freeze(ls_sharding_policy *policy);
LS_API LS_MUST_USE ls_status
ls_sharding_policy_set_num_shards(ls_sharding_policy *policy, int64_t count);
LS_API LS_MUST_USE ls_status
ls_sharding_policy_set_dimension(ls_sharding_policy *policy, int64_t dimension);
LS_API LS_MUST_USE ls_status ls_sharding_policy_set_num_partitions(
    ls_sharding_policy *policy, int64_t count);
LS_API int64_t
ls_sharding_policy_num_partitions(const ls_sharding_policy *policy);
// Sets what `other` says.
LS_API LS_MUST_USE ls_status ls_sharding_policy_merge(
    ls_sharding_policy *policy, const ls_sharding_policy *other);

// The shape of each shard, or of one that is given by number; an unknown one as
// long as the policy is not set.
//   LS_INVALID_ARGUMENT  no such shard, or a size that cannot be cut so.
LS_API LS_MUST_USE ls_status
ls_sharding_policy_shard_shape(const ls_sharding_policy *policy, ls_shape shape,
                               ls_opt shard, ls_shape *out_shape);
// The shape of all shards together. What the policy does not say becomes its
// default.
//   LS_INVALID_ARGUMENT  not a shape for each shard, or they do not agree.
LS_API LS_MUST_USE ls_status ls_sharding_policy_unshard_shape(
    ls_sharding_policy *policy, const ls_shape *shapes, size_t count,
    ls_shape *out_shape);
// The shape of all partitions of a shard together.
LS_API LS_MUST_USE ls_status ls_sharding_policy_unpartition_shape(
    const ls_sharding_policy *policy, ls_shape shape, ls_shape *out_shape);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_INFEED_H_
