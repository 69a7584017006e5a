// SPDX-License-Identifier: Apache-2.0
#include "support/queue_ops.h"

#include <string.h>

#include "lockstep/nest.h"
#include "support/expect.h"

static void destroy_nothing(ls_object *object) { (void)object; }

static const ls_object_type queue_type = {.name = "queue",
                                          .destroy = destroy_nothing};

void queue_state_init(queue_state *self, size_t capacity) {
  memset(self, 0, sizeof(*self));
  ls_object_init(&self->object, &queue_type);
  expect_ok(
      ls_queue_create(&(ls_queue_options){.capacity = capacity}, &self->queue));
}

void queue_state_deinit(queue_state *self) {
  ls_queue_destroy(self->queue);
  self->queue = NULL;
}

// ---- What both do ----------------------------------------------------------
// Room 0 has the array that goes in or has come out, room 1 to 3 the waiter.
_Static_assert(sizeof(ls_queue_waiter) <= 3 * sizeof(void *),
               "a waiter fits a call's room");

static ls_queue *queue_of(const ls_host_call *call) {
  return ((queue_state *)call->state)->queue;
}

static ls_queue_waiter *waiter_of(ls_host_call *call) {
  return (ls_queue_waiter *)(void *)&call->room[1];
}

static void end(ls_host_call *call, ls_status status) {
  if (!ls_status_is_ok(status)) {
    ls_array_release(call->room[0]);
    call->room[0] = NULL;
  }
  ls_host_done(call, status);
}

// Tries until it has gone through or waits.
static void go_on(ls_host_call *call, ls_queue_side side,
                  ls_status (*try_once)(ls_host_call *call, bool *out_done),
                  void (*ready)(void *call)) {
  for (;;) {
    bool done = false;
    const ls_status status = try_once(call, &done);
    if (done || !ls_status_is_ok(status)) {
      end(call, status);
      return;
    }
    *waiter_of(call) = (ls_queue_waiter){.ready = ready, .user = call};
    if (ls_queue_on_ready(queue_of(call), side, waiter_of(call))) return;
  }
}

static void withdraw(ls_host_call *call, ls_queue_side side) {
  if (ls_queue_withdraw(queue_of(call), side, waiter_of(call)))
    end(call, LS_STATUS(LS_CANCELLED, "the queue was left"));
}

// ---- Put -------------------------------------------------------------------
static ls_status try_put(ls_host_call *call, bool *out_done) {
  const ls_status status = ls_queue_try_push(
      queue_of(call), 0, ls_nest_array(call->room[0]), out_done);
  if (*out_done) {
    call->room[0] = NULL;
    __atomic_fetch_add(&((queue_state *)call->state)->puts, 1,
                       __ATOMIC_RELAXED);
  }
  return status;
}

static void put_ready(void *call) {
  go_on(call, LS_QUEUE_PUSH, try_put, put_ready);
}

static ls_status start_put(ls_host_call *call) {
  ls_array *array = NULL;
  const ls_status status = ls_array_create(LS_DTYPE_F32, LS_SCALAR, &array);
  if (!ls_status_is_ok(status)) return status;
  memcpy(ls_array_mutable_data(array), call->inputs[0], sizeof(float));
  call->room[0] = array;
  put_ready(call);
  return ls_ok();
}

static ls_status leave_put(ls_host_call *call) {
  ls_array_release(call->room[0]);
  call->room[0] = NULL;
  return ls_ok();
}

static void cancel_put(ls_host_call *call) { withdraw(call, LS_QUEUE_PUSH); }

static const ls_host_kernel put_kernel = {
    .name = "queue_put",
    .start = start_put,
    .flags = LS_HOST_INLINE | LS_HOST_WAITS,
    .take = leave_put,
    .cancel = cancel_put,
};

ls_op queue_put(queue_state *queue, ls_tensor value) {
  return ls_host_call_add(&put_kernel, &queue->object, &value, 1);
}

// ---- Get -------------------------------------------------------------------
static ls_status try_get(ls_host_call *call, bool *out_done) {
  ls_nest item = ls_none();
  const ls_status status = ls_queue_try_pop(queue_of(call), 0, &item, out_done);
  call->room[0] = ls_nest_as_array(item);
  return status;
}

static void get_ready(void *call) {
  go_on(call, LS_QUEUE_POP, try_get, get_ready);
}

static ls_status infer_get(const ls_object *state, const ls_type *in,
                           size_t num_in, ls_type *out, size_t *num_out) {
  (void)state, (void)in, (void)num_in;
  out[0] = (ls_type){LS_DTYPE_F32, LS_SCALAR};
  *num_out = 1;
  return ls_ok();
}

static ls_status start_get(ls_host_call *call) {
  get_ready(call);
  return ls_ok();
}

static ls_status take_got(ls_host_call *call) {
  if (call->outputs != NULL)
    memcpy(call->outputs[0], ls_array_data(call->room[0]), sizeof(float));
  ls_array_release(call->room[0]);
  call->room[0] = NULL;
  return ls_ok();
}

static void cancel_get(ls_host_call *call) { withdraw(call, LS_QUEUE_POP); }

static const ls_host_kernel get_kernel = {
    .name = "queue_get",
    .infer = infer_get,
    .start = start_get,
    .flags = LS_HOST_INLINE | LS_HOST_WAITS,
    .take = take_got,
    .cancel = cancel_get,
};

ls_tensor queue_get(queue_state *queue) {
  const ls_op op = ls_host_call_add(&get_kernel, &queue->object, NULL, 0);
  return ls_op_output(op, 0);
}
