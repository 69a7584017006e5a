// SPDX-License-Identifier: Apache-2.0
//
// A bounded queue of f32 scalars as host ops that wait: put and get, inline,
// the results taken in place.
#ifndef LS_TESTS_SUPPORT_QUEUE_OPS_H_
#define LS_TESTS_SUPPORT_QUEUE_OPS_H_

#include "base/threads/queue.h"
#include "lockstep/host.h"
#include "lockstep/object.h"

// A queue as the state of ops.
typedef struct queue_state {
  ls_object object;
  ls_queue *queue;
  int puts;  // That have gone through. Atomic.
} queue_state;

// Lives on the stack of the test, longer than what uses it.
void queue_state_init(queue_state *self, size_t capacity);
void queue_state_deinit(queue_state *self);

ls_op queue_put(queue_state *queue, ls_tensor value);
ls_tensor queue_get(queue_state *queue);

#endif  // LS_TESTS_SUPPORT_QUEUE_OPS_H_
