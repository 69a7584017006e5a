// SPDX-License-Identifier: Apache-2.0
// Calls of ops of infeed and outfeed: tries of queues, each time that one says
// that a try is worth while, until all have gone through.
//
// One call is for all replicas. It takes tuples once there is one for each, so
// that one which is cancelled takes none; it puts one after the other.
//
// A call has a lock, held by who tries and by who cancels it. No other call is
// told while two locks are held in another order: who is told is not trying.
#include "tpu/feed.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/runtime_internal.h"

// Of the feed's pool. How it went is told when its results are taken: until
// then it can be cancelled.
struct ls_feed_call {
  ls_feed_call *next;
  ls_feed_state *feed;
  ls_host_call *call;
  ls_feed_targets *targets;
  size_t first, count;  // Of the targets.
  ls_queue_waiter waiter;
  ls_mutex lock;  // Guards what follows.
  size_t at;      // What is tried or waited for.
  bool is_cancelled, is_over;
  uint64_t closings;  // Seen so far; see wait_for_tuple.
  bool has_tuples;    // Of INFEED_READY: its result.
  ls_nest *tuples;    // Taken; of enqueues the first is to be put.
  size_t most_tuples;
  ls_status status;
};

static ls_core_queue *queue_at(const ls_feed_call *self, size_t i) {
  return self->targets->queues[self->first + i];
}

// Whether something comes that way: where values are cut, not all cores of a
// replica need get a piece.
static bool is_used(const ls_feed_call *self, size_t i) {
  return self->feed->num_cores == 1 ||
         ls_feed_uses(self->feed, (int64_t)i % self->feed->num_cores);
}

static ls_feed_state *feed_of(const ls_host_call *call) {
  return (ls_feed_state *)call->state;
}

// ---- The pool --------------------------------------------------------------
static void destroy_call(ls_allocator *allocator, ls_feed_call *self) {
  ls_mutex_deinit(&self->lock);
  ls_release(allocator, self->tuples);
  ls_release(allocator, self);
}

void ls_feed_calls_destroy(ls_feed_state *feed) {
  while (feed->idle != NULL) {
    ls_feed_call *next = feed->idle->next;
    destroy_call(feed->allocator, feed->idle);
    feed->idle = next;
  }
}

static ls_feed_call *make_call(ls_feed_state *feed) {
  ls_feed_call *self = ls_new(feed->allocator, ls_feed_call);
  if (self == NULL) return NULL;
  const ls_status status = ls_mutex_init(&self->lock);
  if (ls_status_is_ok(status)) return self;
  ls_status_free(status);
  ls_release(feed->allocator, self);
  return NULL;
}

static void leave(ls_feed_call *self) {
  ls_feed_state *feed = self->feed;
  ls_mutex_lock(&feed->lock);
  self->next = feed->idle;
  feed->idle = self;
  ls_mutex_unlock(&feed->lock);
}

static ls_status enter(ls_host_call *call, size_t num_tuples,
                       ls_feed_call **out_call) {
  ls_feed_state *feed = feed_of(call);
  ls_mutex_lock(&feed->lock);
  ls_feed_call *self = feed->idle;
  if (self != NULL) feed->idle = self->next;
  ls_mutex_unlock(&feed->lock);
  if (self == NULL) self = make_call(feed);
  if (self == NULL) return ls_out_of_memory();
  self->feed = feed;
  self->call = call;
  self->at = 0;
  self->is_cancelled = self->is_over = self->has_tuples = false;
  self->closings = 0;
  self->status = NULL;
  if (!ls_grow(feed->allocator, &self->tuples, &self->most_tuples, num_tuples,
               sizeof(*self->tuples))) {
    leave(self);
    return ls_out_of_memory();
  }
  for (size_t i = 0; i < num_tuples; ++i)
    self->tuples[i] = ls_none();
  *out_call = self;
  return ls_ok();
}

// Which queues; of a host's the operand may say which.
static ls_status find_targets(ls_feed_call *self) {
  const ls_host_call *call = self->call;
  ls_feed_state *feed = self->feed;
  int64_t first = (int64_t)call->replica * feed->num_cores;
  self->count = (size_t)(call->num_replicas * feed->num_cores);
  if (ls_feed_is_on_host(feed->kind)) {
    if (feed->kind == LS_OUTFEED_DEQUEUE && call->num_inputs == 1) {
      int32_t ordinal = 0;
      memcpy(&ordinal, call->inputs[0], sizeof(ordinal));
      first = ordinal;
    } else {
      LS_RETURN_IF_ERROR(ls_feed_ordinal(feed, &first));
    }
    self->count = 1;
  }
  self->first = (size_t)first;
  return ls_feed_find(feed, call->runtime, first, self->count, &self->targets);
}

// ---- Going on --------------------------------------------------------------
// Fails the call; always true.
static bool fail(ls_feed_call *self, ls_status status) {
  ls_status_free(self->status);
  self->status = status;
  return true;
}

static const char *word_of(const ls_feed_state *feed) {
  return ls_feed_is_outfeed(feed->kind) ? "outfeed" : "infeed";
}

static bool is_left(ls_feed_call *self) {
  return self->is_cancelled &&
         fail(self, LS_STATUS(LS_CANCELLED, "%s was cancelled",
                              ls_feed_is_outfeed(self->feed->kind) ? "Outfeed"
                                                                   : "Infeed"));
}

static bool step(ls_feed_call *self);

// Tries, until it is over or waits. Nothing of the call may be touched once it
// waits, or once it has been told to be over.
static void go_on(void *user) {
  ls_feed_call *self = user;
  ls_mutex_lock(&self->lock);
  const bool is_over = !self->is_over && step(self);
  self->is_over |= is_over;
  ls_mutex_unlock(&self->lock);
  if (is_over) ls_host_done(self->call, ls_ok());
}

static bool is_drained(ls_queue *queue) {
  return ls_queue_is_closed(queue) && ls_queue_count(queue) == 0;
}

// ---- Taking ----------------------------------------------------------------
static ls_status end_of(const ls_core_queue *queue) {
  return ls_out_of_range("%s closed: there are no more tuples in the %s",
                         queue->is_outfeed ? "outfeed" : "infeed",
                         ls_core_queue_name(queue));
}

// The first that will give nothing any more; NULL: none.
static ls_core_queue *find_drained(const ls_feed_call *self) {
  for (size_t i = 0; i < self->count; ++i)
    if (is_used(self, i) && is_drained(queue_at(self, i)->tuples))
      return queue_at(self, i);
  return NULL;
}

// Tells of a queue that has ended instead of waiting for another one: that
// would be in vain. Each close tells who waits anywhere in the pod.
typedef enum outcome { WAITS, TRIES, ENDS } outcome;
static outcome wait_for_tuple(ls_feed_call *self, ls_core_queue **out_drained) {
  ls_queue *queue = queue_at(self, self->at)->tuples;
  const uint64_t told = ls_queue_told(queue);
  const uint64_t closings =
      __atomic_load_n(&self->targets->pod->closings, __ATOMIC_SEQ_CST);
  if (closings != self->closings) {
    *out_drained = find_drained(self);
    if (*out_drained != NULL) return ENDS;
    self->closings = closings;
  }
  self->waiter = (ls_queue_waiter){.ready = go_on, .user = self};
  return ls_queue_on_told(queue, told, &self->waiter) ? WAITS : TRIES;
}

// Whether there is a tuple for each; ENDS: there will not be.
static outcome look(ls_feed_call *self, ls_core_queue **out_drained) {
  while (self->at < self->count) {
    ls_queue *queue = queue_at(self, self->at)->tuples;
    if (self->tuples[self->at].kind != LS_KIND_NONE ||
        !is_used(self, self->at) || ls_queue_count(queue) > 0) {
      ++self->at;
      continue;
    }
    if (is_drained(queue)) {
      *out_drained = queue_at(self, self->at);
      return ENDS;
    }
    const outcome next = wait_for_tuple(self, out_drained);
    if (next != TRIES) return next;
  }
  return TRIES;
}

// The piece of element `k` that comes by queue `i`; false: none does.
static bool piece_at(const ls_feed_call *self, size_t i, size_t k,
                     ls_piece *out_piece) {
  const ls_feed_state *feed = self->feed;
  const ls_shape shape = self->call->output_types[k].shape;
  const ls_shape parts =
      feed->parts == NULL ? LS_SHAPE_UNKNOWN : feed->parts[k];
  return ls_piece_of(shape, parts, (int64_t)i % feed->num_cores, out_piece);
}

static ls_status check_tuple(const ls_feed_call *self, size_t i) {
  const ls_host_call *call = self->call;
  const ls_nest tuple = self->tuples[i];
  const char *name = ls_core_queue_name(queue_at(self, i));
  size_t count = 0;
  ls_piece piece;
  for (size_t k = 0; k < call->num_outputs; ++k)
    count += piece_at(self, i, k, &piece);
  if (ls_nest_count(tuple) != count)
    return ls_invalid_argument("the tuple in the %s has %zu elements, %zu are "
                               "expected",
                               name, ls_nest_count(tuple), count);
  size_t next = 0;
  for (size_t k = 0; k < call->num_outputs; ++k) {
    if (!piece_at(self, i, k, &piece)) continue;
    const ls_array *array = ls_nest_as_array(ls_nest_item(tuple, next++));
    const ls_dtype dtype = call->output_types[k].dtype;
    if (ls_array_dtype(array) == dtype &&
        ls_shape_equal(ls_array_shape(array), piece.shape))
      continue;
    return ls_invalid_argument(
        "element %zu of the tuple in the %s is %s, expected is %s", k, name,
        LS_SHAPE_TEXT(ls_array_dtype(array), ls_array_shape(array)),
        LS_SHAPE_TEXT(dtype, piece.shape));
  }
  return ls_ok();
}

// A tuple that another call took in between is waited for again.
static bool step_take(ls_feed_call *self) {
  for (;;) {
    ls_core_queue *drained = NULL;
    const outcome next = look(self, &drained);
    if (next == WAITS) return false;
    if (next == ENDS) return fail(self, end_of(drained));
    for (size_t i = 0; i < self->count && self->at == self->count; ++i) {
      bool popped = self->tuples[i].kind != LS_KIND_NONE || !is_used(self, i);
      if (!popped)
        ls_status_free(ls_queue_try_pop(queue_at(self, i)->tuples,
                                        &self->tuples[i], &popped));
      if (!popped) self->at = i;
    }
    if (self->at < self->count) continue;
    for (size_t i = 0; i < self->count; ++i) {
      if (!is_used(self, i)) continue;
      const ls_status status = check_tuple(self, i);
      if (!ls_status_is_ok(status)) return fail(self, status);
    }
    return true;
  }
}

// What is left for cores whose others have none comes to nothing.
static void drop_surplus(const ls_feed_call *self) {
  for (size_t i = 0; i < self->count; ++i) {
    ls_core_queue *queue = queue_at(self, i);
    for (bool popped = is_used(self, i); popped;) {
      ls_nest tuple = ls_none();
      ls_status_free(ls_queue_try_pop(queue->tuples, &tuple, &popped));
      if (popped) ls_core_queue_give_back(queue, tuple);
    }
  }
}

static bool step_ready(ls_feed_call *self) {
  ls_core_queue *drained = NULL;
  const outcome next = look(self, &drained);
  if (next == WAITS) return false;
  self->has_tuples = next == TRIES;
  if (!self->has_tuples) drop_surplus(self);
  return true;
}

// ---- Putting ---------------------------------------------------------------
static void fill(const ls_host_call *call, size_t replica, ls_nest tuple) {
  for (size_t i = 0; i < call->num_inputs; ++i) {
    ls_array *array = ls_nest_as_array(ls_nest_item(tuple, i));
    memcpy(ls_array_mutable_data(array),
           (const char *)call->inputs[i] + replica * call->input_strides[i],
           ls_array_size(array));
  }
}

static bool step_put(ls_feed_call *self) {
  const ls_host_call *call = self->call;
  while (self->at < self->count) {
    ls_core_queue *queue = queue_at(self, self->at);
    ls_nest *tuple = &self->tuples[0];
    if (tuple->kind == LS_KIND_NONE) {
      const ls_status status = ls_core_queue_make_tuple(
          queue, call->input_types, call->num_inputs, tuple);
      if (!ls_status_is_ok(status)) return fail(self, status);
      fill(call, self->at, *tuple);
    }
    bool pushed = false;
    const ls_status status = ls_queue_try_push(queue->tuples, *tuple, &pushed);
    if (!ls_status_is_ok(status)) {
      ls_status_free(status);
      return fail(self, ls_failed_precondition("the %s was closed",
                                               ls_core_queue_name(queue)));
    }
    if (pushed) {
      *tuple = ls_none();
      ++self->at;
      continue;
    }
    self->waiter = (ls_queue_waiter){.ready = go_on, .user = self};
    if (ls_queue_on_ready(queue->tuples, LS_QUEUE_PUSH, &self->waiter))
      return false;
  }
  return true;
}

static bool step(ls_feed_call *self) {
  if (is_left(self)) return true;
  switch (self->feed->kind) {
  case LS_INFEED_DEQUEUE:
  case LS_OUTFEED_DEQUEUE:
    return step_take(self);
  case LS_INFEED_READY:
    return step_ready(self);
  default:
    return step_put(self);
  }
}

// ---- Kernels ---------------------------------------------------------------
static ls_status begin(ls_host_call *call, size_t num_tuples,
                       ls_feed_call **out_call) {
  LS_RETURN_IF_ERROR(enter(call, num_tuples, out_call));
  const ls_status status = find_targets(*out_call);
  if (ls_status_is_ok(status))
    call->room[0] = *out_call;
  else
    leave(*out_call);
  return status;
}

static size_t most_tuples(const ls_host_call *call) {
  return (size_t)(call->num_replicas * feed_of(call)->num_cores);
}

static ls_status start_take(ls_host_call *call) {
  ls_feed_call *self = NULL;
  LS_RETURN_IF_ERROR(begin(call, most_tuples(call), &self));
  go_on(self);
  return ls_ok();
}

// With a condition that does not hold there is nothing to wait for.
static ls_status start_ready(ls_host_call *call) {
  ls_feed_call *self = NULL;
  const bool is_wanted =
      call->num_inputs == 0 || *(const uint8_t *)call->inputs[0] != 0;
  LS_RETURN_IF_ERROR(begin(call, most_tuples(call), &self));
  self->is_over = !is_wanted;
  if (is_wanted)
    go_on(self);
  else
    ls_host_done(call, ls_ok());
  return ls_ok();
}

// What an enqueue was told to expect.
static ls_status check_inputs(const ls_host_call *call) {
  const ls_feed_state *feed = feed_of(call);
  if (!feed->is_declared) return ls_ok();
  if (call->num_inputs != feed->count)
    return ls_invalid_argument("a tuple of %zu elements is put into the %s, "
                               "%zu were declared",
                               call->num_inputs, word_of(feed), feed->count);
  for (size_t i = 0; i < feed->count; ++i) {
    const ls_type *type = &call->input_types[i], *wanted = &feed->types[i];
    if ((wanted->dtype == LS_DTYPE_NONE || wanted->dtype == type->dtype) &&
        ls_shape_compatible(wanted->shape, type->shape))
      continue;
    return ls_invalid_argument(
        "element %zu of a tuple that is put into the %s is %s, declared was %s",
        i, word_of(feed), LS_SHAPE_TEXT(type->dtype, type->shape),
        LS_SHAPE_TEXT(wanted->dtype == LS_DTYPE_NONE ? type->dtype
                                                     : wanted->dtype,
                      wanted->shape));
  }
  return ls_ok();
}

static ls_status start_put(ls_host_call *call) {
  ls_feed_call *self = NULL;
  LS_RETURN_IF_ERROR(check_inputs(call));
  LS_RETURN_IF_ERROR(begin(call, 1, &self));
  go_on(self);
  return ls_ok();
}

static ls_status start_close(ls_host_call *call) {
  ls_feed_state *feed = feed_of(call);
  ls_feed_targets *targets = NULL;
  int64_t ordinal = 0;
  LS_RETURN_IF_ERROR(ls_feed_ordinal(feed, &ordinal));
  LS_RETURN_IF_ERROR(ls_feed_find(feed, call->runtime, ordinal, 1, &targets));
  ls_core_queue_close(targets->queues[ordinal]);
  ls_host_done(call, ls_ok());
  return ls_ok();
}

// Gives back all tuples that there are, and the call.
static ls_status end(ls_host_call *call, size_t num_tuples) {
  ls_feed_call *self = call->room[0];
  const ls_status status = self->status;
  const bool takes = ls_feed_takes(self->feed->kind);
  self->status = NULL;
  for (size_t i = 0; i < num_tuples; ++i)
    if (self->tuples[i].kind != LS_KIND_NONE)
      ls_core_queue_give_back(queue_at(self, takes ? i : self->at),
                              self->tuples[i]);
  leave(self);
  return status;
}

// To where the replica's values are; what all of its cores have comes once.
static void copy_tuple(const ls_feed_call *self, size_t i) {
  const ls_host_call *call = self->call;
  const size_t num_cores = (size_t)self->feed->num_cores;
  size_t next = 0;
  for (size_t k = 0; k < call->num_outputs; ++k) {
    const ls_type *type = &call->output_types[k];
    ls_piece piece;
    if (!piece_at(self, i, k, &piece)) continue;
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
    if (is_used(self, i)) copy_tuple(self, i);
  return end(call, self->count);
}

static ls_status take_ready(ls_host_call *call) {
  const ls_feed_call *self = call->room[0];
  for (int32_t r = 0; r < call->num_replicas && call->outputs != NULL; ++r)
    ((int32_t *)call->outputs[0])[r] = self->has_tuples;
  return end(call, 0);
}

static ls_status leave_put(ls_host_call *call) { return end(call, 1); }

static void cancel_call(ls_host_call *call) {
  ls_feed_call *self = call->room[0];
  ls_mutex_lock(&self->lock);
  self->is_cancelled = true;
  const bool waits =
      !self->is_over && self->at < self->count &&
      ls_queue_withdraw(queue_at(self, self->at)->tuples,
                        ls_feed_takes(self->feed->kind) ||
                                self->feed->kind == LS_INFEED_READY
                            ? LS_QUEUE_POP
                            : LS_QUEUE_PUSH,
                        &self->waiter);
  if (waits) self->is_over = is_left(self);
  ls_mutex_unlock(&self->lock);
  if (waits) ls_host_done(call, ls_ok());
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

// The first queue for which somebody may wait.
static void tell(const ls_object *state, char *buffer, size_t size) {
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

// Calls on one side of one queue keep their order.
static uint64_t order(const ls_object *state) {
  const ls_feed_state *feed = (const ls_feed_state *)state;
  const ls_device_parts *device = &feed->device;
  const char *job = strcmp(device->job, "localhost") == 0 ? "" : device->job;
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

enum { WAITS_HERE = LS_HOST_INLINE | LS_HOST_WAITS };

static const ls_host_kernel kernels[] = {
    [LS_INFEED_DEQUEUE] = {.name = "infeed_dequeue",
                           .infer = infer_types,
                           .start = start_take,
                           .flags = WAITS_HERE | LS_HOST_ALL | LS_HOST_ENDS,
                           .take = take_tuples,
                           .cancel = cancel_call,
                           .tell = tell,
                           .order = order},
    [LS_OUTFEED_ENQUEUE] = {.name = "outfeed_enqueue",
                            .start = start_put,
                            .flags = WAITS_HERE | LS_HOST_ALL,
                            .take = leave_put,
                            .cancel = cancel_call,
                            .tell = tell,
                            .order = order},
    [LS_INFEED_READY] = {.name = "infeed_ready",
                         .infer = infer_ready,
                         .start = start_ready,
                         .flags = WAITS_HERE | LS_HOST_ALL,
                         .take = take_ready,
                         .cancel = cancel_call,
                         .tell = tell,
                         .order = order},
    [LS_INFEED_ENQUEUE] = {.name = "infeed_enqueue",
                           .start = start_put,
                           .flags = WAITS_HERE,
                           .take = leave_put,
                           .cancel = cancel_call,
                           .tell = tell,
                           .order = order},
    [LS_OUTFEED_DEQUEUE] = {.name = "outfeed_dequeue",
                            .infer = infer_types,
                            .start = start_take,
                            .flags = WAITS_HERE,
                            .take = take_tuples,
                            .cancel = cancel_call,
                            .tell = tell,
                            .order = order},
    [LS_INFEED_CLOSE] = {.name = "infeed_close",
                         .start = start_close,
                         .flags = LS_HOST_INLINE,
                         .order = order},
    [LS_OUTFEED_CLOSE] = {.name = "outfeed_close",
                          .start = start_close,
                          .flags = LS_HOST_INLINE,
                          .order = order},
};

const ls_host_kernel *ls_feed_kernel(ls_feed_kind kind) {
  return &kernels[kind];
}
