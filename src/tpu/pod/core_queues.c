// SPDX-License-Identifier: Apache-2.0
#include "tpu/pod/core_queues.h"

#include <stdio.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/threads/locked.h"
#include "base/values/array_internal.h"
#include "base/values/nest_builder.h"
#include "base/values/nest_internal.h"
#include "lockstep/device_name.h"
#include "lockstep/infeed.h"

static ls_core_queue **core_queues_place_of(ls_core *core, bool is_outfeed) {
  return is_outfeed ? &core->outfeed : &core->infeed;
}

// ---- Making them -----------------------------------------------------------
static void destroy_queue(ls_core_queue *queue) {
  ls_allocator *allocator = queue->core->pod->allocator;
  for (size_t i = 0; i < queue->num_spares; ++i)
    ls_nest_release(queue->spares[i]);
  ls_release(allocator, queue->spares);
  ls_queue_destroy(queue->tuples);
  ls_mutex_deinit(&queue->lock);
  ls_release(allocator, queue);
}
LS_OWNED_POINTER(ls_core_queue, destroy_queue)

static void destroy_queues(ls_core *core) {
  if (core->infeed != NULL) destroy_queue(core->infeed);
  if (core->outfeed != NULL) destroy_queue(core->outfeed);
}

static void reset_queues(ls_core *core) {
  ls_pod *pod = core->pod;
  for (int i = 0; i < 2; ++i) {
    const ls_core_queue *queue =
        LS_LOCKED(&pod->lock, *core_queues_place_of(core, i == 1));
    if (queue == NULL) continue;
    ls_queue_reset(queue->tuples, ls_pod_generation(pod));
    ls_queue_tell(queue->tuples);
  }
}

static const ls_core_queues queues_of_pods = {.destroy = destroy_queues,
                                              .reset = reset_queues};

static ls_status core_queues_make_queue(ls_core *core, bool is_outfeed,
                                        ls_core_queue **out_queue) {
  ls_allocator *allocator = core->pod->allocator;
  ls_device_name device;
  char name[LS_MAX_DEVICE_NAME + 16];
  ls_core_device(core, &device);
  snprintf(name, sizeof(name), "%s of %s", is_outfeed ? "outfeed" : "infeed",
           device.text);
  const size_t depth = (size_t)core->pod->queue_depth;
  LS_NEW_OR_RETURN(allocator, ls_core_queue, made);
  made->core = core;
  LS_OWN(ls_core_queue, queue) = made;
  queue->is_outfeed = is_outfeed;
  LS_RETURN_IF_ERROR(ls_mutex_init(&queue->lock));
  LS_RETURN_IF_ERROR(ls_queue_create(
      &(ls_queue_options){.capacity = depth,
                          .name = name,
                          .allocator = allocator,
                          .generation = ls_pod_generation(core->pod)},
      &queue->tuples));
  // Two spare tuples beyond the queue's depth: one at the producer and one at
  // the consumer.
  queue->most_spares = depth + 2;
  LS_SET_ARRAY_OR_RETURN(allocator, ls_nest, queue->spares, queue->most_spares);
  return ls_hand_over(&queue, out_queue);
}

ls_status ls_core_queue_of(ls_core *core, bool is_outfeed,
                           ls_core_queue **out_queue) {
  ls_pod *pod = core->pod;
  ls_status status = ls_ok();
  ls_mutex_lock(&pod->lock);
  ls_core_queue **place = core_queues_place_of(core, is_outfeed);
  if (*place == NULL) status = core_queues_make_queue(core, is_outfeed, place);
  pod->queues = &queues_of_pods;
  *out_queue = *place;
  ls_mutex_unlock(&pod->lock);
  return status;
}

const char *ls_core_queue_name(const ls_core_queue *queue) {
  return ls_queue_name(queue->tuples);
}

void ls_core_queue_close(ls_core_queue *queue) {
  ls_pod *pod = queue->core->pod;
  ls_queue_close(queue->tuples);
  __atomic_fetch_add(&pod->closings, 1, __ATOMIC_SEQ_CST);
  for (int32_t i = 0; i < ls_pod_num_cores(pod); ++i) {
    const ls_core_queue *other = LS_LOCKED(
        &pod->lock, *core_queues_place_of(&pod->cores[i], queue->is_outfeed));
    if (other != NULL && other != queue) ls_queue_tell(other->tuples);
  }
  ls_runtime_note_input(pod->runtime);
}

// ---- Tuples ----------------------------------------------------------------
static bool core_queues_is_of(ls_nest tuple, const ls_type *types,
                              size_t count) {
  if (ls_nest_count(tuple) != count) return false;
  for (size_t i = 0; i < count; ++i) {
    const ls_array *array = ls_nest_as_array(ls_nest_item(tuple, i));
    if (ls_array_dtype(array) != types[i].dtype ||
        !ls_shape_equal(ls_array_shape(array), types[i].shape))
      return false;
  }
  return true;
}

static ls_status make_new(const ls_core_queue *queue, const ls_type *types,
                          size_t count, ls_nest *out_tuple) {
  LS_OWN(ls_nest_builder, tuple) = {.allocator = queue->core->pod->allocator};
  for (size_t i = 0; i < count; ++i) {
    ls_array *array = NULL;
    LS_RETURN_IF_ERROR(
        ls_array_create_unwritten(types[i].dtype, types[i].shape, &array));
    ls_nest_builder_append(&tuple, ls_nest_array(array));
  }
  return ls_take_nest(ls_nest_builder_finish(&tuple, LS_KIND_TUPLE), out_tuple);
}

ls_status ls_core_queue_make_tuple(ls_core_queue *queue, const ls_type *types,
                                   size_t count, ls_nest *out_tuple) {
  *out_tuple = LS_LOCKED(&queue->lock,
                         queue->num_spares == 0
                             ? ls_none()
                             : queue->spares[--queue->num_spares]);
  if (out_tuple->kind == LS_KIND_TUPLE &&
      core_queues_is_of(*out_tuple, types, count))
    return ls_ok();
  // The spare has the types of an earlier element.
  ls_nest_release(*out_tuple);
  *out_tuple = ls_none();
  // Arrays are allocated by the thread's current runtime.
  ls_runtime *before = ls_runtime_make_current(queue->core->pod->runtime);
  const ls_status status = make_new(queue, types, count, out_tuple);
  (void)ls_runtime_make_current(before);
  return status;
}

void ls_core_queue_give_back(ls_core_queue *queue, ls_nest tuple) {
  ls_mutex_lock(&queue->lock);
  const bool is_kept =
      tuple.kind == LS_KIND_TUPLE && queue->num_spares < queue->most_spares;
  if (is_kept) queue->spares[queue->num_spares++] = tuple;
  ls_mutex_unlock(&queue->lock);
  if (!is_kept) ls_nest_release(tuple);
}

// ---- Elements --------------------------------------------------------------
static bool can_be_fed(ls_dtype dtype) {
  return dtype > LS_DTYPE_NONE && dtype < LS_DTYPE_COUNT &&
         dtype != LS_DTYPE_STRING && dtype != LS_DTYPE_RESOURCE &&
         dtype != LS_DTYPE_VARIANT;
}

ls_status ls_core_queue_check_dtype(const char *name, size_t i,
                                    ls_dtype dtype) {
  if (can_be_fed(dtype)) return ls_ok();
  return ls_invalid_argument(
      "element %zu of %s is of type %s; possible are bool, i8, i16, i32, i64, "
      "u8, u16, u32, u64, f16, bf16, f32, f64, c64 and c128",
      i, name, ls_dtype_name(dtype));
}

// ---- Hand over -------------------------------------------------------------
// Puts and takes of tuples by a caller's thread, without an op.

// A core's queue and the initialization of its pod that the call began with.
// The caller releases the core.
typedef struct place {
  ls_core_queue *queue;
  uint64_t generation;
} place;

static ls_status hand_over_find(const char *device, bool is_outfeed,
                                place *out) {
  LS_OWN(ls_core, core) = NULL;
  LS_RETURN_IF_ERROR(ls_pod_lookup_core(ls_runtime_current(), device, &core));
  out->generation = ls_pod_generation(core->pod);
  if (out->generation == 0)
    return ls_failed_precondition(
        "the TPU system '%s' of device '%s' is not initialized",
        core->pod->name, device);
  LS_RETURN_IF_ERROR(ls_core_queue_of(core, is_outfeed, &out->queue));
  (void)ls_give(&core);
  return ls_ok();
}

// Checks that the system was not initialized again since the call began: no
// tuple would ever come.
static ls_status check_system(const place *at) {
  const ls_pod *pod = at->queue->core->pod;
  if (ls_pod_generation(pod) == at->generation) return ls_ok();
  return ls_failed_precondition(
      "the TPU system '%s' was %s while a thread waited for the %s", pod->name,
      ls_pod_is_initialized(pod) ? "initialized again" : "shut down",
      ls_core_queue_name(at->queue));
}

// ---- Waiting ---------------------------------------------------------------
LS_OWNED_STRUCT(ls_event, ls_event_deinit)

// Waits on the caller's event until the queue may be ready. Returns false if
// the thread's cancellation was requested meanwhile.
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
  ls_event_wait(ready);  // The event is being set: wait until that ends.
  return false;
}

static ls_status cancelled(const ls_core_queue *queue) {
  return LS_STATUS(LS_CANCELLED, "%s was cancelled: the %s",
                   queue->is_outfeed ? "Outfeed" : "Infeed",
                   ls_core_queue_name(queue));
}

// ---- Putting ---------------------------------------------------------------
// Makes a list of the elements of a tuple, with copies that no queue fills
// again.
static ls_status as_list(ls_nest tuple, ls_nest *out_list) {
  const bool is_node = ls_nest_is_node(tuple);
  const size_t count = is_node ? ls_nest_num_leaves(tuple) : 1;
  if (count == 0)
    return ls_invalid_argument("a tuple has at least one element");
  LS_OWN_ARRAY_OR_RETURN(ls_current_allocator(), ls_nest, items, count);
  ls_nest_flatten(tuple, items, count);
  LS_OWN(ls_nest_builder, list) = {0};
  for (size_t i = 0; i < count; ++i) {
    if (items[i].kind != LS_KIND_ARRAY)
      return ls_invalid_argument(
          "element %zu of a tuple for an infeed is no array: %s", i,
          LS_NEST_TEXT(items[i]));
    LS_RETURN_IF_ERROR(
        ls_core_queue_check_dtype("a tuple for an infeed", i,
                                  ls_array_dtype(ls_nest_as_array(items[i]))));
    ls_nest_builder_append(&list, ls_nest_retain(items[i]));
  }
  return ls_take_nest(ls_nest_builder_finish(&list, LS_KIND_LIST), out_list);
}

static ls_status hand_over_put(const place *at, ls_event *ready, ls_nest list) {
  ls_core_queue *queue = at->queue;
  for (;;) {
    bool pushed = false;
    LS_RETURN_IF_ERROR(check_system(at));
    const ls_status status =
        ls_queue_try_push(queue->tuples, at->generation, list, &pushed);
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

ls_status ls_core_queue_put(ls_core_queue *queue, uint64_t generation,
                            ls_nest tuple) {
  const place at = {queue, generation};
  LS_OWN(ls_event, ready) = {0};
  LS_RETURN_IF_ERROR(ls_event_init(&ready));
  LS_RETURN_IF_ERROR(hand_over_put(&at, &ready, tuple));
  ls_runtime_note_input(queue->core->pod->runtime);
  return ls_ok();
}

// Passes the pod's fault point for an enqueue. Takes over `*list`, which a
// fault may replace.
static ls_status pass_fault_point(ls_core *core, ls_nest *list,
                                  ls_pod_passing *passing) {
  LS_RETURN_IF_ERROR(ls_pod_pass(core, LS_DOOR_ENQUEUE, passing));
  if (passing->nanos > 0) ls_runtime_sleep(core->pod->runtime, passing->nanos);
  if (!passing->changes) return ls_ok();
  ls_nest_release(*list);
  *list = ls_none();
  return ls_take_nest(LS_LIST(ls_nest_zeros(LS_DTYPE_U8, LS_SCALAR)), list);
}

static ls_status pass_and_put(const place *at, ls_nest tuple) {
  LS_OWN(ls_nest, list) = ls_none();
  ls_pod_passing passing = {0};
  LS_RETURN_IF_ERROR(as_list(tuple, &list));
  LS_RETURN_IF_ERROR(pass_fault_point(at->queue->core, &list, &passing));
  if (!passing.loses) {
    LS_RETURN_IF_ERROR(ls_core_queue_put(at->queue, at->generation, list));
    (void)ls_give(&list);
  }
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

// ---- Take ------------------------------------------------------------------
static ls_status hand_over_take(const place *at, ls_event *ready,
                                ls_nest *out_tuple) {
  ls_core_queue *queue = at->queue;
  for (;;) {
    bool popped = false;
    LS_RETURN_IF_ERROR(check_system(at));
    const ls_status status =
        ls_queue_try_pop(queue->tuples, at->generation, out_tuple, &popped);
    if (!ls_status_is_ok(status)) {
      ls_status_free(status);
      return ls_out_of_range("%s closed: there are no more tuples in the %s",
                             queue->is_outfeed ? "outfeed" : "infeed",
                             ls_core_queue_name(queue));
    }
    if (popped) return ls_ok();
    if (!hand_over_wait_for(ready, queue, LS_QUEUE_POP))
      return cancelled(queue);
  }
}

ls_status ls_core_queue_take(ls_core_queue *queue, uint64_t generation,
                             ls_nest *out_tuple) {
  const place at = {queue, generation};
  LS_OWN(ls_event, ready) = {0};
  LS_RETURN_IF_ERROR(ls_event_init(&ready));
  LS_RETURN_IF_ERROR(hand_over_take(&at, &ready, out_tuple));
  ls_runtime_note_input(queue->core->pod->runtime);
  return ls_ok();
}

ls_status ls_outfeed_take(const char *device, ls_nest *out_tuple) {
  LS_REQUIRE_OUT(out_tuple, device);
  place at = {0};
  LS_RETURN_IF_ERROR(hand_over_find(device, true, &at));
  LS_OWN(ls_core, core) = at.queue->core;
  return ls_core_queue_take(at.queue, at.generation, out_tuple);
}
