// SPDX-License-Identifier: Apache-2.0
// The infeed and outfeed queue of a core, made on first use.
//
// A queue passes tuples: nests of kind LS_KIND_TUPLE with arrays, whose
// ownership moves to the receiver. Receivers give used tuples back to their
// queue, which hands them out to be filled again: after the first round nothing
// is allocated.
//
// Thread-safe.
#ifndef LS_TPU_POD_CORE_QUEUES_H_
#define LS_TPU_POD_CORE_QUEUES_H_

#include "base/threads/queue.h"
#include "lockstep/graph.h"
#include "tpu/pod/pod.h"

typedef struct ls_core_queue {
  ls_core *core;
  bool is_outfeed;
  bool is_fed_elsewhere;  // By another rank: ops here put nothing into it.
  ls_queue *tuples;
  ls_mutex lock;  // Guards the fields below.
  ls_nest *spares;
  size_t num_spares, most_spares;
} ls_core_queue;

// Returns a queue of a core, which lives as long as the pod.
LS_MUST_USE ls_status ls_core_queue_of(ls_core *core, bool is_outfeed,
                                       ls_core_queue **out_queue);
// Returns "infeed of /job:worker/replica:0/task:1/device:TPU:3".
const char *ls_core_queue_name(const ls_core_queue *queue);
// Closes a queue: no more tuples will come. Wakes the waiters of all queues of
// the pod, because the cores of a program stop together.
void ls_core_queue_close(ls_core_queue *queue);

// Puts a tuple into this core's infeed, as ls_infeed_put does.
LS_MUST_USE ls_status ls_core_put(ls_core *core, ls_nest tuple);

// Puts a tuple into a queue, or takes one out, on behalf of initialization
// `generation` of the pod; waits until it can, or until the thread's
// cancellation is requested (CANCELLED). A put tuple is taken over only if it
// succeeds.
//   LS_OUT_OF_RANGE         take: the queue is closed and empty.
//   LS_FAILED_PRECONDITION  put: the queue is closed; or the system was
//                           initialized again.
LS_MUST_USE ls_status ls_core_queue_put(ls_core_queue *queue,
                                        uint64_t generation, ls_nest tuple);
LS_MUST_USE ls_status ls_core_queue_take(ls_core_queue *queue,
                                         uint64_t generation,
                                         ls_nest *out_tuple);

// Makes a tuple of arrays of these types for the caller to fill; reuses a spare
// one.
LS_MUST_USE ls_status ls_core_queue_make_tuple(ls_core_queue *queue,
                                               const ls_type *types,
                                               size_t count,
                                               ls_nest *out_tuple);
// Takes a used tuple back as a spare.
void ls_core_queue_give_back(ls_core_queue *queue, ls_nest tuple);

// Checks that element `i` has a type that can pass through a queue.
//   LS_INVALID_ARGUMENT  strings and other types that cannot
LS_MUST_USE ls_status ls_core_queue_check_dtype(const char *name, size_t i,
                                                ls_dtype dtype);

#endif  // LS_TPU_POD_CORE_QUEUES_H_
