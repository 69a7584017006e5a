// SPDX-License-Identifier: Apache-2.0
// Infeed queues, private part: used by training loops and partitioned queues.
#ifndef LS_TPU_FEEDS_INFEED_QUEUE_H_
#define LS_TPU_FEEDS_INFEED_QUEUE_H_

#include "base/text.h"
#include "graph/trial.h"
#include "lockstep/infeed.h"
#include "lockstep/shape.h"
#include "tpu/feeds/feed.h"

// The type and shape of one element of the tuples.
typedef struct ls_infeed_element {
  ls_dtype dtype;  // LS_DTYPE_NONE: not set.
  bool has_shape;
  ls_shape shape;  // Shape of all shards together.
  ls_sharding_policy policy;
} ls_infeed_element;

struct ls_infeed_queue {
  ls_object object;
  ls_allocator *allocator;
  char *name;
  size_t count;
  ls_infeed_element *elements;
  bool frozen;
  // Results of the last dequeue and the last enqueue that were built; none if
  // not built yet.
  ls_nest dequeued, enqueued;
  ls_op dequeue;  // The last dequeue.
  // Systems of the dequeue and of the enqueue; NULL if not built or not known.
  ls_system_id *dequeue_system, *enqueue_system;
  // The assignment of a partitioned queue, else NULL.
  ls_device_assignment *assignment;
  int32_t host;
  // In a partitioned queue: parts of each element over a replica's cores.
  ls_shape *parts;
};

// The state of a queue (may be NULL) and of the graph before a call; restored
// if the call is refused.
typedef struct ls_infeed_attempt {
  ls_infeed_queue *queue, before;
  ls_infeed_element *elements;
  ls_trial trial;
} ls_infeed_attempt;
LS_MUST_USE ls_status ls_infeed_attempt_begin(ls_infeed_attempt *self,
                                              ls_infeed_queue *queue);
LS_MUST_USE ls_status ls_infeed_attempt_end(ls_infeed_attempt *self,
                                            ls_status status,
                                            ls_nest *out_value);

LS_MUST_USE ls_status ls_infeed_queue_make(const ls_infeed_options *options,
                                           const char *default_name,
                                           ls_infeed_queue **out_queue);
// Writes one tensor per element of the nest to `out`, which has room for the
// queue's number of elements.
LS_MUST_USE ls_status ls_infeed_queue_tensors(const ls_infeed_queue *queue,
                                              ls_nest inputs, ls_tensor *out);
// Returns the type of element `i` of one shard.
LS_MUST_USE ls_status ls_infeed_queue_shard_type(const ls_infeed_queue *queue,
                                                 size_t i, ls_type *out_type);
// Writes the element types of a dequeue, where each element joins the parts of
// all partitions.
LS_MUST_USE ls_status
ls_infeed_queue_dequeue_types(const ls_infeed_queue *queue, ls_type *types);
// Checks that the elements of a partitioned queue can be cut over the cores.
LS_MUST_USE ls_status ls_partitioned_check(const ls_infeed_queue *queue);
LS_MUST_USE ls_status ls_partitioned_enqueue(ls_infeed_queue *queue,
                                             ls_nest shards, ls_nest *out_ops);

#endif  // LS_TPU_FEEDS_INFEED_QUEUE_H_
