// SPDX-License-Identifier: Apache-2.0
// The two queues of a core, made when somebody first uses them.
//
// What goes through is a tuple: a nest of kind LS_KIND_TUPLE with arrays,
// handed over. Tuples that were taken go back to their queue, which has them
// filled again: from the second round on nothing is allocated.
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
  ls_queue *tuples;
  ls_mutex lock;  // Guards what follows.
  ls_nest *spares;
  size_t num_spares, most_spares;
} ls_core_queue;

// One of a core's, as long as its pod.
LS_MUST_USE ls_status ls_core_queue_of(ls_core *core, bool is_outfeed,
                                       ls_core_queue **out_queue);
// "infeed of /job:worker/replica:0/task:1/device:TPU:3".
const char *ls_core_queue_name(const ls_core_queue *queue);
// Nothing more will come. Who waits for tuples of this or, as all cores of a
// program stop together, of other cores of the pod is told.
void ls_core_queue_close(ls_core_queue *queue);

// Puts as ls_infeed_put does, to this core.
LS_MUST_USE ls_status ls_core_put(ls_core *core, ls_nest tuple);

// A tuple of arrays of these types, to be filled; one that was taken, if there
// is one. The caller's.
LS_MUST_USE ls_status ls_core_queue_make_tuple(ls_core_queue *queue,
                                               const ls_type *types,
                                               size_t count,
                                               ls_nest *out_tuple);
// Takes back what was taken.
void ls_core_queue_give_back(ls_core_queue *queue, ls_nest tuple);

// Checks that element `i` of what is named can go through a queue.
//   LS_INVALID_ARGUMENT  strings and others cannot.
LS_MUST_USE ls_status ls_core_queue_check_dtype(const char *name, size_t i,
                                                ls_dtype dtype);

#endif  // LS_TPU_POD_CORE_QUEUES_H_
