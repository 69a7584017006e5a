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
// Threads: makers are as those of ops.h; policies are plain values; a queue
// object belongs to the threads that build with it, one at a time.
#ifndef LOCKSTEP_INFEED_H_
#define LOCKSTEP_INFEED_H_

#include "lockstep/ops.h"
#include "lockstep/topology.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Ops -------------------------------------------------------------------
// An op is of one system: in a replicated computation of that one's, else of
// the system of the strategy in force or of the job that its device names, else
// of the local one or the only one. So it stays when others are initialized
// later; while its system is not there a run of it is FAILED_PRECONDITION.
// An op that may mean several is refused, naming them. One that is made while
// there is no system finds it when it runs.
//
// What a core does, in a replicated computation or on the device
// "/job:worker/task:1/device:TPU:3". Elsewhere it is core r of the system for
// replica r. Elements are bool, integers, floats or c64.
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

// ---- Without ops -----------------------------------------------------------
// For a thread that has arrays, as of an iterator: hands a tuple over to the
// infeed of a core, "/job:worker/task:1/device:TPU:3", waiting while that is
// full. `tuple` is lent: a nest of arrays, in the order of flattening, or one.
// The arrays are kept, not copied, until the core has taken them.
//   LS_NOT_FOUND            there is no such core
//   LS_FAILED_PRECONDITION  it is not initialized, or shut down or initialized
//                           anew meanwhile, or its infeed is closed
//   LS_CANCELLED            the thread's cancel was requested
LS_API LS_MUST_USE ls_status ls_infeed_put(const char *device, ls_nest tuple);
// Takes a tuple of arrays from the outfeed of a core, waiting while that is
// empty. It is the caller's.
//   LS_OUT_OF_RANGE  it is closed, and there are no more
//   and those of ls_infeed_put
LS_API LS_MUST_USE ls_status ls_outfeed_take(const char *device,
                                             ls_nest *out_tuple);

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

// ---- Infeed queues ---------------------------------------------------------
// One end that builds a core's dequeue and one that builds the enqueues for all
// cores, with what both must agree upon. Not a queue itself: see above.
typedef struct ls_infeed_queue ls_infeed_queue;

// Zero in a field means its default. A list is given by its pointer and count.
typedef struct ls_infeed_options {
  const char *name;     // Default "InfeedQueue".
  ls_opt num_elements;  // Of a tuple. Default: as many as a list has.
  const ls_dtype *dtypes;
  size_t num_dtypes;
  const ls_shape *shapes;  // Of all shards together.
  size_t num_shapes;
  const int64_t *dimensions;  // Along which shards are cut.
  size_t num_dimensions;
  ls_opt num_partitions;  // Default 1.
} ls_infeed_options;

//   LS_INVALID_ARGUMENT  the number of elements cannot be inferred, or is below
//                        1; a list of another length.
LS_API LS_MUST_USE ls_status ls_infeed_queue_create(
    const ls_infeed_options *options, ls_infeed_queue **out_queue);
LS_API ls_infeed_queue *ls_infeed_queue_retain(ls_infeed_queue *queue);
LS_API void ls_infeed_queue_release(ls_infeed_queue *queue);  // NULL is fine.

// A type not set yet is LS_DTYPE_NONE, a shape unknown, a dimension unset; so
// are those of an element that the queue does not have, whose policy is NULL.
LS_API const char *ls_infeed_queue_name(const ls_infeed_queue *queue);
LS_API size_t ls_infeed_queue_num_elements(const ls_infeed_queue *queue);
LS_API ls_type ls_infeed_queue_type(const ls_infeed_queue *queue,
                                    size_t element);
LS_API ls_opt ls_infeed_queue_dimension(const ls_infeed_queue *queue,
                                        size_t element);
LS_API ls_opt ls_infeed_queue_num_shards(const ls_infeed_queue *queue);
LS_API const ls_sharding_policy *
ls_infeed_queue_policy(const ls_infeed_queue *queue, size_t element);
LS_API bool ls_infeed_queue_is_frozen(const ls_infeed_queue *queue);

// These may be called any number of times until the queue is frozen, and with
// what it has already also then. One that is refused leaves the queue as it
// was.
//   LS_INVALID_ARGUMENT  a list of another length; no data type; frozen, and
//                        different; what cannot be cut into the shards.
LS_API LS_MUST_USE ls_status ls_infeed_queue_set_types(ls_infeed_queue *queue,
                                                       const ls_dtype *dtypes,
                                                       size_t count);
LS_API LS_MUST_USE ls_status ls_infeed_queue_set_shapes(ls_infeed_queue *queue,
                                                        const ls_shape *shapes,
                                                        size_t count);
LS_API LS_MUST_USE ls_status ls_infeed_queue_set_dimensions(
    ls_infeed_queue *queue, const int64_t *dimensions, size_t count);
LS_API LS_MUST_USE ls_status
ls_infeed_queue_set_num_shards(ls_infeed_queue *queue, int64_t count);
// Types and shapes are those of a list of tensors, of all shards together.
LS_API LS_MUST_USE ls_status
ls_infeed_queue_configure_from(ls_infeed_queue *queue, ls_nest inputs);
// Types, shapes and number of shards are those of a list of lists, one for each
// shard.
LS_API LS_MUST_USE ls_status
ls_infeed_queue_configure_from_shards(ls_infeed_queue *queue, ls_nest shards);
//   LS_FAILED_PRECONDITION  types or shapes are not all set, or ranks unknown.
LS_API LS_MUST_USE ls_status ls_infeed_queue_freeze(ls_infeed_queue *queue);

// Freezes the queue and makes the op `NAME/dequeue`, on logical core `core` of
// the replica; -1: where device scopes say. The tuple of its results.
//   LS_FAILED_PRECONDITION  it has been made already, and no function is
//   traced;
//                           `*out_tuple` stays if it is the tuple of that
LS_PLACED LS_MUST_USE ls_status ls_infeed_queue_dequeue(ls_infeed_queue *queue,
                                                        int32_t core,
                                                        ls_nest *out_tuple);

// Where the enqueue ops of shards go. Zero in a field means its default.
typedef struct ls_infeed_places {
  // The core's number on its host. Default: -1; of
  // ls_infeed_queue_split_and_enqueue: as the assignment has it, else the shard
  // modulo the cores of a host.
  int64_t (*ordinal_of)(void *user, int64_t shard);
  // The device of the op. Default: that of the shard's inputs; of
  // ls_infeed_queue_split_and_enqueue: the CPU of the assignment's host, else
  // that of task shard / cores of a host.
  ls_status (*place_of)(void *user, int64_t shard, ls_device_name *out_name);
  void *user;
  // Of ls_infeed_queue_split_and_enqueue: shard r is that of replica r.
  const ls_device_assignment *assignment;
  // Default: as many as a host of the system has that the queue is dequeued on,
  // else of the one that an op means here.
  ls_opt cores_per_host;
} ls_infeed_places;

// Takes types, shapes and number of shards from a list of lists of tensors, one
// for each shard, freezes the queue, and makes an op `NAME/enqueue/SHARD` for
// each. A run of all of them feeds each replica one tuple. `out_ops`: a list.
// `places` may be NULL.
//   LS_FAILED_PRECONDITION  they have been made already, and no function is
//                           traced; `*out_ops` stays if it is the list of these
//   LS_INVALID_ARGUMENT     inputs of a shard on different devices
LS_PLACED LS_MUST_USE ls_status
ls_infeed_queue_enqueue(ls_infeed_queue *queue, ls_nest shards,
                        const ls_infeed_places *places, ls_nest *out_ops);
// The same from a list of whole tensors, which are cut by ops `NAME/split/i`.
LS_PLACED LS_MUST_USE ls_status ls_infeed_queue_split_and_enqueue(
    ls_infeed_queue *queue, ls_nest inputs, const ls_infeed_places *places,
    ls_nest *out_ops);

// ---- Partitioned infeed queues ---------------------------------------------
// What each replica gets is cut over its logical cores. Of each element a list
// of numbers says into how many parts along each dimension: their product is
// the number of cores, each of which gets a piece, row by row; or 1, for all of
// it on core 0. Sizes that are no multiples are cut greedily: 5 in 4 is 2, 2, 1
// and 0.
typedef struct ls_partitioned_infeed_options {
  ls_infeed_options queue;  // Its name: default "PartitionedInfeedQueue".
  ls_device_assignment *assignment;  // Retained. Needed.
  int32_t host;                      // The task whose replicas it feeds.
  // One an element, of an unknown shape for all of it on each core. Default:
  // all are such.
  const ls_shape *parts;
  size_t num_parts;
} ls_partitioned_infeed_options;

// ls_infeed_queue_enqueue takes a list of lists, one for each replica of the
// host, and makes an op `enqueue/replica_R/input_CORE` for each core that gets
// something; the dequeue gives whole values.
//   LS_INVALID_ARGUMENT  no assignment; parts below 1, or another number of
//                        them than cores.
LS_API LS_MUST_USE ls_status ls_partitioned_infeed_create(
    const ls_partitioned_infeed_options *options, ls_infeed_queue **out_queue);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_INFEED_H_
