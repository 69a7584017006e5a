// SPDX-License-Identifier: Apache-2.0
// Ops of infeed and outfeed, and their calls.
//
// An op names its queue by system, device and number. The system is the current
// one when the op is made, if there is one. The op looks its queue up when it
// runs and keeps it until the system is initialized again.
//
// Thread-safe, except for making ops.
#ifndef LS_TPU_FEEDS_FEED_H_
#define LS_TPU_FEEDS_FEED_H_

#include "base/device_parts.h"
#include "base/text.h"
#include "base/threads/timers.h"
#include "graph/trial.h"
#include "lockstep/host.h"
#include "lockstep/infeed.h"
#include "lockstep/shape.h"
#include "lockstep/topology.h"
#include "tpu/pod/core_queues.h"
#include "tpu/pod/pod.h"

// ---- Pieces ----------------------------------------------------------------
// `parts` describes a value partitioned over the logical cores of a replica:
// the number of parts along each dimension; rank -1 means that each core has
// the whole value. Each dimension is cut greedily: pieces of ceil(size /
// parts), then the remainder, then empty pieces. Pieces are numbered row by
// row.
static inline bool ls_components_are_whole(ls_shape parts) {
  return parts.rank == LS_UNKNOWN_RANK;
}
// Returns the number of parts, the product over the dimensions; 1 for a whole
// value.
int64_t ls_components_count(ls_shape parts);

// Checks that a value of this shape can be cut into `parts` for the cores of a
// replica.
LS_MUST_USE ls_status ls_components_check(ls_shape shape, ls_shape parts,
                                          int64_t cores);
// Checks the number of parts alone, where no shape is known.
LS_MUST_USE ls_status ls_components_check_count(ls_shape parts, int64_t cores);

typedef struct ls_piece {
  ls_shape start, shape;
} ls_piece;

// Finds the piece of a core; returns false if that core gets none.
bool ls_piece_of(ls_shape shape, ls_shape parts, int64_t core,
                 ls_piece *out_piece);
// Copies a piece to its position in the whole value.
void ls_piece_copy(const ls_piece *piece, ls_shape shape, size_t item,
                   const void *from, void *to);

// Text of `parts`, such as "[2,1]" or "[]".
#define LS_PARTS_TEXT(parts) LS_SHAPE_TEXT(LS_DTYPE_F32, parts) + 3

// ---- Ops of infeed and outfeed ---------------------------------------------
typedef enum ls_feed_kind {
  LS_INFEED_DEQUEUE,  // Runs on a core.
  LS_OUTFEED_ENQUEUE,
  LS_INFEED_READY,
  LS_INFEED_ENQUEUE,  // Runs on a host.
  LS_OUTFEED_DEQUEUE,
  LS_INFEED_CLOSE,
  LS_OUTFEED_CLOSE,
} ls_feed_kind;

static inline bool ls_feed_is_on_host(ls_feed_kind kind) {
  return kind >= LS_INFEED_ENQUEUE;
}
static inline bool ls_feed_is_outfeed(ls_feed_kind kind) {
  return kind == LS_OUTFEED_ENQUEUE || kind == LS_OUTFEED_DEQUEUE ||
         kind == LS_OUTFEED_CLOSE;
}
static inline bool ls_feed_takes(ls_feed_kind kind) {
  return kind == LS_INFEED_DEQUEUE || kind == LS_OUTFEED_DEQUEUE;
}

// The queues of an op. Ops on a host index them by ordinal, ops on cores by
// replica and, for partitioned values, by logical core.
typedef struct ls_feed_targets {
  struct ls_feed_targets *before;  // Targets found for earlier systems.
  ls_pod *pod;
  uint64_t generation;
  size_t count;
  ls_core_queue *queues[];  // NULL: not looked up yet.
} ls_feed_targets;

typedef struct ls_feed_call ls_feed_call;

// The state of an op.
typedef struct ls_feed_state {
  ls_object object;
  ls_allocator *allocator;
  ls_feed_kind kind;
  ls_device_parts device;  // Device of the op.
  // Core of a host op; below 0: the op's device names the core.
  int64_t ordinal;
  // True if enqueued values must have the element types `types`.
  bool is_declared;
  // True if the last input of an enqueue is no element, but a bool scalar, the
  // same on all replicas: false if nothing is to be enqueued.
  bool is_conditional;
  // The op's system; NULL: the op's device names the system.
  ls_system_id *system;
  // Assignment of replicas; NULL: replicas take cores in order.
  ls_device_assignment *assignment;
  int32_t logical_core;
  int32_t num_cores;  // Cores of a replica if values are partitioned, else 1.
  size_t count;       // Number of elements of a tuple, if known.
  ls_type *types;
  ls_shape *parts;  // Parts of each element; NULL: none is partitioned.
  ls_mutex lock;    // Guards the fields below.
  ls_feed_targets *targets;
  ls_feed_call *idle;
} ls_feed_state;

typedef struct ls_feed_options {
  ls_feed_kind kind;
  const char *device;  // Device of the op. "" and NULL: not given.
  int64_t ordinal;
  ls_system_id *system;  // NULL: the current system.
  const ls_device_assignment *assignment;
  const ls_type *types;  // NULL: not known.
  // Parts of each element; NULL: no value is partitioned.
  const ls_shape *parts;
  size_t count;
  bool is_conditional;  // See ls_feed_state.
} ls_feed_options;

LS_MUST_USE ls_status ls_feed_create(const ls_feed_options *options,
                                     ls_feed_state **out_feed);

// Finds the queues of `count` replicas from `first` on, or of as many cores of
// a host. The queues live as long as the feed; `*out_targets` has at least
// `first + count`.
//   LS_NOT_FOUND            there is no system, or it has no such host
//   LS_FAILED_PRECONDITION  not initialized, or several systems match
//   LS_INVALID_ARGUMENT     the host has no such core
LS_MUST_USE ls_status ls_feed_find(ls_feed_state *feed, ls_runtime *runtime,
                                   int64_t first, size_t count,
                                   ls_feed_targets **out_targets);
LS_OWNED_POINTER(ls_feed_state, ls_object_release)
// Returns true if the core `core` of a replica gets a piece of any element.
bool ls_feed_uses(const ls_feed_state *feed, int64_t core);
// Returns a host op's core, from the attribute or from the device it is placed
// on.
//   LS_INVALID_ARGUMENT  the op is on a CPU and names no core
LS_MUST_USE ls_status ls_feed_ordinal(const ls_feed_state *feed,
                                      int64_t *out_ordinal);

// Returns "infeed_dequeue" and the like.
const char *ls_feed_kind_name(ls_feed_kind kind);
const ls_host_kernel *ls_feed_kernel(ls_feed_kind kind);

// Frees the feed's pool of calls (feed_call.c).
void ls_feed_calls_destroy(ls_feed_state *feed);

// Returns the system of an infeed or outfeed op, borrowed; NULL if not known.
ls_system_id *ls_feed_op_system(ls_op op);

// Makes named ops on queues: a replica's dequeue, the op that reports if a
// tuple is left, a host's enqueue, and a replica's enqueue that is made if the
// last value is true. The context in which an op is made gives all options
// except types and partitions.
ls_op ls_feed_dequeue(ls_feed_kind kind, const char *name,
                      const ls_feed_options *options, const ls_tensor *inputs,
                      size_t num_inputs);
ls_op ls_feed_enqueue(ls_system_id *system, const char *name,
                      const ls_tensor *values, const ls_type *types,
                      size_t count, int64_t ordinal);
ls_op ls_feed_enqueue_if(const ls_tensor *values, size_t count);

// ---- Calls -----------------------------------------------------------------
// A call of an infeed or outfeed op. A call tries its queues again whenever one
// of them reports a change, until all tuples have passed. The call belongs to
// the feed's pool, reports its status when its results are taken, and can be
// cancelled until then.
struct ls_feed_call {
  ls_feed_call *next;
  ls_feed_state *feed;
  ls_host_call *call;
  ls_feed_targets *targets;
  size_t first, count;  // Range of the targets.
  size_t at;            // Index of the queue that is tried or waited for.
  ls_mutex lock;        // Guards the fields below; held while a wait begins.
  ls_queue_waiter waiter;
  ls_queue *waits_for;  // Queue that the waiter is or was registered with.
  bool is_cancelled, is_parked;
  ls_timer timer;  // Set while the call is parked; wakes it.
  // Fields of the thread that currently tries the queues.
  uint64_t closings;  // Queue closings seen so far; see wait_for_tuple.
  // Result of the op INFEED_READY: true if each queue has a tuple.
  bool has_tuples;
  // True once an enqueue has put all its tuples and let other calls run.
  bool has_yielded;
  ls_nest *tuples;  // Tuples taken; for enqueues the first is the next to put.
  ls_pod_passing passing;  // Fault injected into this call.
  size_t most_tuples;
  ls_status status;
};

static inline ls_core_queue *ls_feed_queue_at(const ls_feed_call *self,
                                              size_t i) {
  return self->targets->queues[self->first + i];
}
static inline ls_feed_state *ls_feed_of(const ls_host_call *call) {
  return (ls_feed_state *)call->state;
}
// Counts the elements of the tuple that an enqueue is given.
static inline size_t ls_feed_num_elements(const ls_host_call *call) {
  return call->num_inputs - ls_feed_of(call)->is_conditional;
}
// Returns "infeed" or "outfeed".
const char *ls_feed_word(const ls_feed_state *feed);
// Returns true if queue `i` takes part: with partitioned values some cores of a
// replica may get no piece. ls_feed_piece_at finds the piece of element `k` in
// it, or returns false.
bool ls_feed_is_used(const ls_feed_call *self, size_t i);
bool ls_feed_piece_at(const ls_feed_call *self, size_t i, size_t k,
                      ls_piece *out_piece);

// Begins a call: finds its queues and makes room for `num_tuples`.
LS_MUST_USE ls_status ls_feed_call_begin(ls_host_call *call, size_t num_tuples,
                                         ls_feed_call **out_call);
// Continues a call after `nanos` have passed, until it ends or waits.
void ls_feed_call_go_on(ls_feed_call *self, int64_t nanos);
// Cancels a call that waits.
void ls_feed_call_cancel(ls_feed_call *self);
// Ends a call: returns its status, and gives its tuples and the call itself
// back to their pools.
LS_MUST_USE ls_status ls_feed_call_end(ls_feed_call *self, size_t num_tuples);

// ---- Infeed queues ----------------------------------------------------------
// Infeed queues, private part: used by training loops and partitioned queues.

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
  ls_opt replica;
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

#endif  // LS_TPU_FEEDS_FEED_H_
