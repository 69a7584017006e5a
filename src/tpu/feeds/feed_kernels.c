// SPDX-License-Identifier: Apache-2.0
// Kernels of the infeed and outfeed ops.
#include <stdio.h>

#include "lockstep/shape_rules.h"
#include "tpu/feeds/feed.h"

static size_t most_tuples(const ls_host_call *call) {
  return (size_t)(call->num_replicas * ls_feed_of(call)->num_cores);
}

// Passes the fault points of all cores. Cores begin a step together, so the
// longest delay counts.
static ls_status pass_take(const ls_feed_call *self, int64_t *out_nanos) {
  ls_pod_passing passing;
  for (size_t i = 0; i < self->count && self->feed->kind == LS_INFEED_DEQUEUE;
       ++i) {
    LS_RETURN_IF_ERROR(ls_pod_pass(ls_feed_queue_at(self, i)->core,
                                   LS_DOOR_DEQUEUE, &passing));
    if (passing.nanos > *out_nanos) *out_nanos = passing.nanos;
  }
  return ls_ok();
}

static ls_status start_take(ls_host_call *call) {
  ls_feed_call *self = NULL;
  LS_RETURN_IF_ERROR(ls_feed_call_begin(call, most_tuples(call), &self));
  int64_t nanos = 0;
  const ls_status status = pass_take(self, &nanos);
  if (ls_status_is_ok(status))
    ls_feed_call_go_on(self, nanos);
  else
    ls_status_free(ls_feed_call_end(self, 0));  // The call holds no tuples yet.
  return status;
}

// Begins a call that ends at once if the input after `num_elements` others,
// which is its condition, is false.
static ls_status start_if(ls_host_call *call, size_t num_elements,
                          size_t num_tuples) {
  ls_feed_call *self = NULL;
  const bool is_wanted = call->num_inputs == num_elements ||
                         *(const uint8_t *)call->inputs[num_elements] != 0;
  LS_RETURN_IF_ERROR(ls_feed_call_begin(call, num_tuples, &self));
  if (is_wanted)
    ls_feed_call_go_on(self, 0);
  else
    ls_host_done(call, ls_ok());
  return ls_ok();
}

static ls_status start_ready(ls_host_call *call) {
  return start_if(call, 0, most_tuples(call));
}

// Checks an enqueue's inputs against its declared types.
static ls_status feed_kernels_check_inputs(const ls_host_call *call) {
  const ls_feed_state *feed = ls_feed_of(call);
  if (!feed->is_declared) return ls_ok();
  if (call->num_inputs != feed->count)
    return ls_invalid_argument(
        "a tuple of %zu elements is put into the %s, %zu were declared",
        call->num_inputs, ls_feed_word(feed), feed->count);
  for (size_t i = 0; i < feed->count; ++i) {
    const ls_type *type = &call->input_types[i], *wanted = &feed->types[i];
    if ((wanted->dtype == LS_DTYPE_NONE || wanted->dtype == type->dtype) &&
        ls_shape_compatible(wanted->shape, type->shape))
      continue;
    return ls_invalid_argument(
        "element %zu of a tuple that is put into the %s is %s, declared was %s",
        i, ls_feed_word(feed), LS_SHAPE_TEXT(type->dtype, type->shape),
        LS_SHAPE_TEXT(wanted->dtype == LS_DTYPE_NONE ? type->dtype
                                                     : wanted->dtype,
                      wanted->shape));
  }
  return ls_ok();
}

static ls_status start_put(ls_host_call *call) {
  LS_RETURN_IF_ERROR(feed_kernels_check_inputs(call));
  return start_if(call, ls_feed_num_elements(call), 1);
}

static ls_status start_close(ls_host_call *call) {
  ls_feed_state *feed = ls_feed_of(call);
  ls_feed_targets *targets = NULL;
  int64_t ordinal = 0;
  LS_RETURN_IF_ERROR(ls_feed_ordinal(feed, &ordinal));
  LS_RETURN_IF_ERROR(ls_feed_find(feed, call->runtime, ordinal, 1, &targets));
  ls_core_queue_close(targets->queues[ordinal]);
  ls_host_done(call, ls_ok());
  return ls_ok();
}

// Copies a tuple into its replica's results; an element that all cores hold is
// copied once.
static void copy_tuple(const ls_feed_call *self, size_t i) {
  const ls_host_call *call = self->call;
  const size_t num_cores = (size_t)self->feed->num_cores;
  size_t next = 0;
  for (size_t k = 0; k < call->num_outputs; ++k) {
    const ls_type *type = &call->output_types[k];
    ls_piece piece;
    if (!ls_feed_piece_at(self, i, k, &piece)) continue;
    const ls_array *array =
        ls_nest_as_array(ls_nest_item(self->tuples[i], next++));
    const size_t item = ls_dtype_size(type->dtype);
    const size_t size = item * (size_t)ls_shape_num_elements(type->shape);
    const bool is_all = ls_array_size(array) == size;
    if (call->outputs[k] == NULL || (is_all && i % num_cores != 0)) continue;
    char *to = (char *)call->outputs[k] + i / num_cores * size;
    if (is_all)
      memcpy(to, ls_array_data(array), size);
    else
      ls_piece_copy(&piece, type->shape, item, ls_array_data(array), to);
  }
}

static ls_status take_tuples(ls_host_call *call) {
  ls_feed_call *self = call->room[0];
  const bool are_wanted =
      ls_status_is_ok(self->status) && call->outputs != NULL;
  for (size_t i = 0; i < self->count && are_wanted; ++i)
    if (ls_feed_is_used(self, i)) copy_tuple(self, i);
  return ls_feed_call_end(call->room[0], self->count);
}

static ls_status take_ready(ls_host_call *call) {
  const ls_feed_call *self = call->room[0];
  for (int32_t r = 0; r < call->num_replicas && call->outputs != NULL; ++r)
    ((int32_t *)call->outputs[0])[r] = self->has_tuples;
  return ls_feed_call_end(call->room[0], 0);
}

static ls_status leave_put(ls_host_call *call) {
  return ls_feed_call_end(call->room[0], 1);
}

static void cancel_call(ls_host_call *call) {
  ls_feed_call_cancel(call->room[0]);
}

static ls_status infer_types(const ls_object *state, const ls_type *in,
                             size_t num_in, ls_type *out, size_t *num_out) {
  (void)in, (void)num_in;
  const ls_feed_state *feed = (const ls_feed_state *)state;
  const size_t room = *num_out;
  *num_out = feed->count;
  if (feed->count <= room) memcpy(out, feed->types, feed->count * sizeof(*out));
  return ls_ok();
}

static ls_status infer_ready(const ls_object *state, const ls_type *in,
                             size_t num_in, ls_type *out, size_t *num_out) {
  (void)state, (void)in, (void)num_in;
  out[0] = (ls_type){LS_DTYPE_I32, LS_SCALAR};
  *num_out = 1;
  return ls_ok();
}

// Prints the name of the first queue that the op may wait for.
static void feed_kernels_tell(const ls_object *state, char *buffer,
                              size_t size) {
  ls_feed_state *feed = (ls_feed_state *)(uintptr_t)state;
  const bool takes = ls_feed_takes(feed->kind) || feed->kind == LS_INFEED_READY;
  buffer[0] = '\0';
  ls_mutex_lock(&feed->lock);
  const ls_feed_targets *targets = feed->targets;
  for (size_t i = 0; targets != NULL && i < targets->count; ++i) {
    const ls_core_queue *queue = targets->queues[i];
    if (queue == NULL) continue;
    const size_t count = ls_queue_count(queue->tuples);
    if (count != (takes ? 0 : (size_t)queue->core->pod->queue_depth)) continue;
    snprintf(buffer, size, "for the %s, %s", ls_core_queue_name(queue),
             takes ? "which is empty: no run feeds it"
                   : "which is full: no run takes from it");
    break;
  }
  ls_mutex_unlock(&feed->lock);
}

// Returns the order key: calls on one side of one queue keep their order.
static uint64_t feed_kernels_order(const ls_object *state) {
  const ls_feed_state *feed = (const ls_feed_state *)state;
  const ls_device_parts *device = &feed->device;
  const char *job = feed->system != NULL                    ? feed->system->job
                    : strcmp(device->job, "localhost") == 0 ? ""
                                                            : device->job;
  uint64_t hash = 0xcbf29ce484222325u;
  for (; *job != '\0'; ++job)
    hash = (hash ^ (uint8_t)*job) * 0x100000001b3u;
  const bool is_on_host = ls_feed_is_on_host(feed->kind);
  const int64_t parts[] = {is_on_host, ls_feed_is_outfeed(feed->kind),
                           device->task == LS_LEFT_OUT ? 0 : device->task,
                           is_on_host && feed->ordinal >= 0 ? feed->ordinal
                           : device->index == LS_LEFT_OUT   ? 0
                                                            : device->index};
  for (size_t i = 0; i < LS_COUNT_OF(parts); ++i)
    hash = (hash ^ (uint64_t)parts[i]) * 0x100000001b3u;
  return hash | 1;
}

enum {
  WAITS_HERE = LS_HOST_INLINE | LS_HOST_WAITS,
  ON_CORES = WAITS_HERE | LS_HOST_ALL | LS_HOST_ON_CORES,
};

// The functions of kernels that may wait for a queue.
#define WAITS(start_call, take_results)                                        \
  .start = (start_call), .take = (take_results), .cancel = cancel_call,        \
  .tell = feed_kernels_tell, .order = feed_kernels_order

static const ls_host_kernel kernels[] = {
    [LS_INFEED_DEQUEUE] = {.name = "infeed_dequeue",
                           .infer = infer_types,
                           .flags = ON_CORES | LS_HOST_ENDS,
                           WAITS(start_take, take_tuples)},
    [LS_OUTFEED_ENQUEUE] = {.name = "outfeed_enqueue",
                            .flags = ON_CORES,
                            WAITS(start_put, leave_put)},
    [LS_INFEED_READY] = {.name = "infeed_ready",
                         .infer = infer_ready,
                         .flags = ON_CORES | LS_HOST_TELLS,
                         WAITS(start_ready, take_ready)},
    [LS_INFEED_ENQUEUE] = {.name = "infeed_enqueue",
                           .flags = WAITS_HERE,
                           WAITS(start_put, leave_put)},
    [LS_OUTFEED_DEQUEUE] = {.name = "outfeed_dequeue",
                            .infer = infer_types,
                            .flags = WAITS_HERE,
                            WAITS(start_take, take_tuples)},
    [LS_INFEED_CLOSE] = {.name = "infeed_close",
                         .start = start_close,
                         .flags = LS_HOST_INLINE,
                         .order = feed_kernels_order},
    [LS_OUTFEED_CLOSE] = {.name = "outfeed_close",
                          .start = start_close,
                          .flags = LS_HOST_INLINE,
                          .order = feed_kernels_order},
};

const ls_host_kernel *ls_feed_kernel(ls_feed_kind kind) {
  return &kernels[kind];
}
