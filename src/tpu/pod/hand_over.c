// SPDX-License-Identifier: Apache-2.0
// Tuples that a thread of the caller's hands over, or takes, without an op.
#include "base/cancel.h"
#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "lockstep/infeed.h"
#include "tpu/pod/core_queues.h"
#include "tpu/pod/pod_fault.h"

// A queue, of whose pod the caller releases the core, and which initialization
// of that it is of.
typedef struct place {
  ls_core_queue *queue;
  uint64_t generation;
} place;

static ls_status hand_over_find(const char *device, bool is_outfeed,
                                place *out) {
  ls_core *core = NULL;
  LS_RETURN_IF_ERROR(ls_pod_lookup_core(ls_runtime_current(), device, &core));
  out->generation = ls_pod_generation(core->pod);
  ls_status status =
      out->generation > 0
          ? ls_core_queue_of(core, is_outfeed, &out->queue)
          : ls_failed_precondition("the TPU system '%s' of device '%s' is not "
                                   "initialized",
                                   core->pod->name, device);
  if (!ls_status_is_ok(status)) ls_core_release(core);
  return status;
}

// Whether the system is what it was: what waits for another one waits in vain.
static ls_status check_system(const place *at) {
  const ls_pod *pod = at->queue->core->pod;
  if (ls_pod_generation(pod) == at->generation) return ls_ok();
  return ls_failed_precondition(
      "the TPU system '%s' was %s while a thread waited for the %s", pod->name,
      ls_pod_is_initialized(pod) ? "initialized anew" : "shut down",
      ls_core_queue_name(at->queue));
}

// ---- Waiting ---------------------------------------------------------------
// Waits until a try is worth while, by an event that is the caller's. False:
// the thread's cancel was requested meanwhile.
static bool hand_over_wait_for(ls_event *ready, const ls_core_queue *queue,
                               ls_queue_side side) {
  enum { LOOK_NANOS = 20 * 1000 * 1000 };
  const ls_cancel *cancel = ls_cancel_current();
  ls_queue_waiter waiter = {.ready = ls_event_set, .user = ready};
  ready->is_set = false;
  if (!ls_queue_on_ready(queue->tuples, side, &waiter)) return true;
  bool is_cancelled = false;
  while (!is_cancelled && !ls_event_wait_for(ready, LOOK_NANOS))
    is_cancelled = cancel != NULL && ls_cancel_is_requested(cancel);
  if (!is_cancelled || ls_queue_withdraw(queue->tuples, side, &waiter))
    return !is_cancelled;
  ls_event_wait(ready);  // It is being set: not before that is over.
  return false;
}

static ls_status cancelled(const ls_core_queue *queue) {
  return LS_STATUS(LS_CANCELLED, "%s was cancelled: the %s",
                   queue->is_outfeed ? "Outfeed" : "Infeed",
                   ls_core_queue_name(queue));
}

// ---- Putting ---------------------------------------------------------------
// A list: so that nobody fills what somebody else may hold.
static ls_status as_list(ls_nest tuple, ls_nest *out_list) {
  const bool is_node = ls_nest_is_node(tuple);
  const size_t count = is_node ? ls_nest_num_leaves(tuple) : 1;
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, items, count + 1);
  ls_nest_flatten(tuple, items, count);
  LS_RETURN_IF_ERROR(count > 0 ? ls_ok()
                               : ls_invalid_argument("a tuple has at least one "
                                                     "element"));
  for (size_t i = 0; i < count; ++i) {
    char text[200];
    if (items[i].kind != LS_KIND_ARRAY)
      return ls_invalid_argument("element %zu of a tuple for an infeed is no "
                                 "array: %s",
                                 i,
                                 ls_nest_print(items[i], text, sizeof(text)));
    else
      LS_RETURN_IF_ERROR(ls_core_queue_check_dtype(
          "a tuple for an infeed", i,
          ls_array_dtype(ls_nest_as_array(items[i]))));
  }
  for (size_t i = 0; i < count; ++i)
    items[i] = ls_nest_retain(items[i]);
  return ls_take_nest(ls_nest_sequence(LS_KIND_LIST, items, count), out_list);
}

static ls_status hand_over_put(const place *at, ls_event *ready, ls_nest list) {
  ls_core_queue *queue = at->queue;
  for (;;) {
    bool pushed = false;
    LS_RETURN_IF_ERROR(check_system(at));
    const ls_status status = ls_queue_try_push(queue->tuples, list, &pushed);
    if (!ls_status_is_ok(status)) {
      ls_status_free(status);
      return ls_failed_precondition("the %s was closed",
                                    ls_core_queue_name(queue));
    }
    if (pushed) return ls_ok();
    if (!hand_over_wait_for(ready, queue, LS_QUEUE_PUSH))
      return cancelled(queue);
  }
}

// Through the door of the pod, where another tuple may come in place of this,
// which is taken over.
static ls_status pass(ls_core *core, ls_nest *list, ls_pod_passing *passing) {
  LS_RETURN_IF_ERROR(ls_pod_pass(core, LS_DOOR_ENQUEUE, passing));
  if (passing->nanos > 0) ls_runtime_sleep(core->pod->runtime, passing->nanos);
  if (!passing->changes) return ls_ok();
  ls_nest_release(*list);
  *list = ls_none();
  return ls_take_nest(LS_LIST(ls_nest_zeros(LS_DTYPE_U8, LS_SCALAR)), list);
}

static ls_status pass_and_put(const place *at, ls_nest tuple) {
  ls_nest list = ls_none();
  ls_pod_passing passing = {0};
  ls_event ready;
  LS_RETURN_IF_ERROR(as_list(tuple, &list));
  ls_status status = pass(at->queue->core, &list, &passing);
  const bool is_lost = passing.loses || !ls_status_is_ok(status);
  if (!is_lost) status = ls_event_init(&ready);
  if (!is_lost && ls_status_is_ok(status)) {
    status = hand_over_put(at, &ready, list);
    ls_event_deinit(&ready);
  }
  if (is_lost || !ls_status_is_ok(status)) ls_nest_release(list);
  LS_RETURN_IF_ERROR(status);
  if (passing.closes) ls_core_queue_close(at->queue);
  ls_runtime_note_input(ls_runtime_current());
  return ls_ok();
}

ls_status ls_core_put(ls_core *core, ls_nest tuple) {
  place at = {.generation = ls_pod_generation(core->pod)};
  if (at.generation == 0)
    return ls_failed_precondition("the TPU system '%s' is not initialized",
                                  core->pod->name);
  LS_RETURN_IF_ERROR(ls_core_queue_of(core, false, &at.queue));
  return pass_and_put(&at, tuple);
}

ls_status ls_infeed_put(const char *device, ls_nest tuple) {
  LS_REQUIRE(device);
  place at;
  LS_RETURN_IF_ERROR(hand_over_find(device, false, &at));
  const ls_status status = pass_and_put(&at, tuple);
  ls_core_release(at.queue->core);
  return status;
}

// ---- Taking ----------------------------------------------------------------
static ls_status hand_over_take(const place *at, ls_event *ready,
                                ls_nest *out_tuple) {
  ls_core_queue *queue = at->queue;
  for (;;) {
    bool popped = false;
    LS_RETURN_IF_ERROR(check_system(at));
    const ls_status status =
        ls_queue_try_pop(queue->tuples, out_tuple, &popped);
    if (!ls_status_is_ok(status)) {
      ls_status_free(status);
      return ls_out_of_range("outfeed closed: there are no more tuples in the "
                             "%s",
                             ls_core_queue_name(queue));
    }
    if (popped) return ls_ok();
    if (!hand_over_wait_for(ready, queue, LS_QUEUE_POP))
      return cancelled(queue);
  }
}

ls_status ls_outfeed_take(const char *device, ls_nest *out_tuple) {
  LS_REQUIRE_OUT(out_tuple);
  LS_REQUIRE(device);
  place at;
  ls_event ready;
  LS_RETURN_IF_ERROR(hand_over_find(device, true, &at));
  ls_status status = ls_event_init(&ready);
  if (ls_status_is_ok(status)) {
    status = hand_over_take(&at, &ready, out_tuple);
    ls_event_deinit(&ready);
  }
  ls_core_release(at.queue->core);
  if (ls_status_is_ok(status)) ls_runtime_note_input(ls_runtime_current());
  return status;
}
