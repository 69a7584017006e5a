// SPDX-License-Identifier: Apache-2.0
// Layer: tpu
//
// Infeed and outfeed: tuples of tensors that go to the cores of a TPU system,
// and come from them, while programs run there.
//
// Each core has two queues of tuples, first in, first out, whatever op or queue
// object made what passes through: the host puts tuples into the infeed and the
// core takes them, and the other way round for the outfeed. A take waits until
// there is a tuple; a put waits while the queue is full (64 tuples). A closed
// queue returns its remaining tuples and then OUT_OF_RANGE, the end of the
// data.
//
// Waiting ops occupy no thread: a session run whose parts wait for each other
// runs them concurrently.
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
// An op belongs to one system: that of the replicated computation around it,
// else that of the strategy in force or of the job that its device names, else
// the local one or the only one. It keeps that system when others are
// initialized later; a run while the system is shut down fails with
// FAILED_PRECONDITION. An op for which several systems are possible is refused,
// naming them. An op made while there is no system finds it when it runs.
//
// These ops run on a core, in a replicated computation or on the device
// "/job:worker/task:1/device:TPU:3". Elsewhere they run on core r of the system
// for replica r. Elements are bool, integers, floats or c64.
//
// Takes the next tuple, which must have these types: output i is element i.
LS_PLACED ls_op ls_infeed_dequeue_tuple(const ls_type *types, size_t count);
// Takes a tuple of one element.
LS_PLACED ls_tensor ls_infeed_dequeue(ls_dtype dtype, ls_shape shape);
LS_PLACED ls_op ls_outfeed_enqueue_tuple(const ls_tensor *values, size_t count);
LS_PLACED ls_op ls_outfeed_enqueue(ls_tensor value);

// These ops run on a host, for its core `ordinal`; the host is the task of the
// op's device. -1: the core that the op is placed on.
//
// Puts one tuple. `types` are the types that the values must have at each run
// (LS_DTYPE_NONE: any dtype); NULL: the values' own.
LS_PLACED ls_op ls_infeed_enqueue_tuple(const ls_tensor *values, size_t count,
                                        const ls_type *types, size_t num_types,
                                        int64_t ordinal);
LS_PLACED ls_op ls_infeed_enqueue(ls_tensor value, ls_shape shape,
                                  int64_t ordinal);
LS_PLACED ls_op ls_outfeed_dequeue_tuple(const ls_type *types, size_t count,
                                         int64_t ordinal);
LS_PLACED ls_tensor ls_outfeed_dequeue(ls_dtype dtype, ls_shape shape,
                                       int64_t ordinal);
// Takes a tuple from the core given by `ordinal`, an i32 scalar.
LS_PLACED ls_op ls_outfeed_dequeue_tuple_at(ls_tensor ordinal,
                                            const ls_type *types, size_t count);
// Closes a queue: its remaining tuples can still be taken; then a take fails
// with OUT_OF_RANGE, and a put with FAILED_PRECONDITION. Closing again does
// nothing.
LS_PLACED ls_op ls_infeed_close(int64_t ordinal);
LS_PLACED ls_op ls_outfeed_close(int64_t ordinal);

// ---- Without ops -----------------------------------------------------------
// Puts a tuple of arrays, such as an iterator's element, into the infeed of a
// core, "/job:worker/task:1/device:TPU:3", from the calling thread, waiting
// while it is full. `tuple` is lent: a nest of arrays, in the order of
// flattening, or one array. The arrays are retained, not copied, until the core
// has taken them.
//   LS_NOT_FOUND            there is no such core
//   LS_FAILED_PRECONDITION  its system is not initialized, was shut down or
//                           initialized again meanwhile, or its infeed is
//                           closed
//   LS_CANCELLED            the thread's cancel was requested
LS_API LS_MUST_USE ls_status ls_infeed_put(const char *device, ls_nest tuple);
// Takes a tuple of arrays from the outfeed of a core, waiting while it is
// empty. The caller owns the tuple.
//   LS_OUT_OF_RANGE  it is closed and empty
//   and those of ls_infeed_put
LS_API LS_MUST_USE ls_status ls_outfeed_take(const char *device,
                                             ls_nest *out_tuple);

// ---- Sharding policies -----------------------------------------------------
// Sharding of a value over replicas: the number of equal shards, the dimension
// along which it is cut, and the number of partitions of each shard. Zeroed:
// nothing is set. A setter that refuses with LS_INVALID_ARGUMENT changes
// nothing.
typedef struct ls_sharding_policy {
  ls_opt num_shards, dimension;
  ls_opt num_partitions;  // Default 1.
  bool frozen;
} ls_sharding_policy;

// Returns true if number of shards and dimension are both set.
LS_API bool ls_sharding_policy_is_set(const ls_sharding_policy *policy);
// Prints "ShardingPolicy(17 shards dimension 8)" or "ShardingPolicy(unset)";
// returns `buffer`.
LS_API const char *ls_sharding_policy_print(const ls_sharding_policy *policy,
                                            char *buffer, size_t size);
// Freezes the policy; unset fields become 1 shard, dimension 0.
LS_API void ls_sharding_policy_freeze(ls_sharding_policy *policy);
LS_API LS_MUST_USE ls_status
ls_sharding_policy_set_num_shards(ls_sharding_policy *policy, int64_t count);
LS_API LS_MUST_USE ls_status
ls_sharding_policy_set_dimension(ls_sharding_policy *policy, int64_t dimension);
LS_API LS_MUST_USE ls_status ls_sharding_policy_set_num_partitions(
    ls_sharding_policy *policy, int64_t count);
LS_API int64_t
ls_sharding_policy_num_partitions(const ls_sharding_policy *policy);
// Sets the fields that are set in `other`.
LS_API LS_MUST_USE ls_status ls_sharding_policy_merge(
    ls_sharding_policy *policy, const ls_sharding_policy *other);

// Computes the shape of each shard, or of the shard with the given number; an
// unknown shape while the policy is not set.
//   LS_INVALID_ARGUMENT  no such shard, or a size that cannot be cut so.
LS_API LS_MUST_USE ls_status
ls_sharding_policy_shard_shape(const ls_sharding_policy *policy, ls_shape shape,
                               ls_opt shard, ls_shape *out_shape);
// Computes the shape of all shards together. Unset fields of the policy become
// their defaults.
//   LS_INVALID_ARGUMENT  not one shape per shard, or they do not agree.
LS_API LS_MUST_USE ls_status ls_sharding_policy_unshard_shape(
    ls_sharding_policy *policy, const ls_shape *shapes, size_t count,
    ls_shape *out_shape);
// Computes the shape of all partitions of a shard together.
LS_API LS_MUST_USE ls_status ls_sharding_policy_unpartition_shape(
    const ls_sharding_policy *policy, ls_shape shape, ls_shape *out_shape);

// ---- Infeed queues ---------------------------------------------------------
// A builder with one end for a core's dequeue and one for the enqueues of all
// cores, holding what both must agree on. Not a queue itself: see above.
typedef struct ls_infeed_queue ls_infeed_queue;

// Zero in a field means its default. A list is given by its pointer and count.
typedef struct ls_infeed_options {
  const char *name;     // Default "InfeedQueue".
  ls_opt num_elements;  // Elements per tuple. Default: as many as a list has.
  const ls_dtype *dtypes;
  size_t num_dtypes;
  const ls_shape *shapes;  // Shapes of all shards together.
  size_t num_shapes;
  const int64_t *dimensions;  // Dimensions along which shards are cut.
  size_t num_dimensions;
  ls_opt num_partitions;  // Default 1.
} ls_infeed_options;

// Creates an infeed queue; the caller owns a reference.
//   LS_INVALID_ARGUMENT  the number of elements cannot be inferred, or is below
//                        1; a list has another length.
LS_API LS_MUST_USE ls_status ls_infeed_queue_create(
    const ls_infeed_options *options, ls_infeed_queue **out_queue);
LS_API ls_infeed_queue *ls_infeed_queue_retain(ls_infeed_queue *queue);
LS_API void ls_infeed_queue_release(ls_infeed_queue *queue);  // NULL is fine.

// Getters. A type not set yet is LS_DTYPE_NONE, a shape unknown, a dimension
// unset; so are those of an element that the queue does not have, whose policy
// is NULL.
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

// Setters may be called any number of times until the queue is frozen, and with
// the same values also afterwards. A refused call leaves the queue unchanged.
//   LS_INVALID_ARGUMENT  a list of another length; no data type; frozen, and
//                        different; a size that cannot be cut into the shards.
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
// Takes types and shapes from a list of tensors, of all shards together.
LS_API LS_MUST_USE ls_status
ls_infeed_queue_configure_from(ls_infeed_queue *queue, ls_nest inputs);
// Takes types, shapes and number of shards from a list of lists, one for each
// shard.
LS_API LS_MUST_USE ls_status
ls_infeed_queue_configure_from_shards(ls_infeed_queue *queue, ls_nest shards);
// Freezes the queue.
//   LS_FAILED_PRECONDITION  types or shapes are not all set, or ranks unknown.
LS_API LS_MUST_USE ls_status ls_infeed_queue_freeze(ls_infeed_queue *queue);

// Freezes the queue and makes the op `NAME/dequeue`, on logical core `core` of
// the replica; -1: on the device of the scopes. Returns the tuple of its
// results, which the caller owns.
//   LS_FAILED_PRECONDITION  it has been made already, and no function is being
//                           traced; `*out_tuple` stays if it is that op's tuple
LS_PLACED LS_MUST_USE ls_status ls_infeed_queue_dequeue(ls_infeed_queue *queue,
                                                        int32_t core,
                                                        ls_nest *out_tuple);

// Placement of the enqueue ops of shards. Zero in a field means its default.
typedef struct ls_infeed_places {
  // Returns the core's number on its host. Default: -1; for
  // ls_infeed_queue_split_and_enqueue: by the assignment, else the shard modulo
  // the cores of a host.
  int64_t (*ordinal_of)(void *user, int64_t shard);
  // Gets the device of the op. Default: that of the shard's inputs; for
  // ls_infeed_queue_split_and_enqueue: the CPU of the assignment's host, else
  // of task shard / cores of a host.
  ls_status (*place_of)(void *user, int64_t shard, ls_device_name *out_name);
  void *user;
  // For ls_infeed_queue_split_and_enqueue: shard r belongs to replica r.
  const ls_device_assignment *assignment;
  // Default: the number of a host of the system that the queue is dequeued on,
  // else of the system that an op made here belongs to.
  ls_opt cores_per_host;
} ls_infeed_places;

// Takes types, shapes and number of shards from a list of lists of tensors, one
// for each shard, freezes the queue, and makes an op `NAME/enqueue/SHARD` for
// each. A run of all of them feeds each replica one tuple. The caller owns
// `*out_ops`, a list. `places` may be NULL.
//   LS_FAILED_PRECONDITION  they have been made already, and no function is
//                           being traced; `*out_ops` stays if it is their list
//   LS_INVALID_ARGUMENT     inputs of a shard on different devices
LS_PLACED LS_MUST_USE ls_status
ls_infeed_queue_enqueue(ls_infeed_queue *queue, ls_nest shards,
                        const ls_infeed_places *places, ls_nest *out_ops);
// Does the same with a list of whole tensors, which ops `NAME/split/i` split.
LS_PLACED LS_MUST_USE ls_status ls_infeed_queue_split_and_enqueue(
    ls_infeed_queue *queue, ls_nest inputs, const ls_infeed_places *places,
    ls_nest *out_ops);

// ---- Partitioned infeed queues ---------------------------------------------
// Options of a queue that splits each replica's input over its logical cores.
// For each element a list of numbers gives the number of parts along each
// dimension: their product is the number of cores, each of which gets a part,
// row by row; or 1, to send all of it to core 0. Sizes that do not divide
// evenly are cut greedily: 5 in 4 is 2, 2, 1 and 0.
typedef struct ls_partitioned_infeed_options {
  ls_infeed_options queue;           // Default name: "PartitionedInfeedQueue".
  ls_device_assignment *assignment;  // Retained. Required.
  int32_t host;                      // Task whose replicas it feeds.
  // One per element; an unknown shape sends all of it to each core. Default:
  // all are such.
  const ls_shape *parts;
  size_t num_parts;
  ls_opt replica;  // Feeds this one alone. Default: all of the host.
} ls_partitioned_infeed_options;

// Creates a partitioned queue; the caller owns a reference.
// ls_infeed_queue_enqueue takes a list of lists, one for each replica of the
// host, and makes an op `enqueue/replica_R/input_CORE` for each core that gets
// something (R counts the list's items: 0 if it feeds one replica alone); the
// dequeue returns whole values.
//   LS_INVALID_ARGUMENT  no assignment, or no such replica in it; parts below
//                        1, or another number of them than cores.
LS_API LS_MUST_USE ls_status ls_partitioned_infeed_create(
    const ls_partitioned_infeed_options *options, ls_infeed_queue **out_queue);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_INFEED_H_
