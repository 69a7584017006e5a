// SPDX-License-Identifier: Apache-2.0
// Calls of infeed and outfeed ops. A call tries its queues again whenever one
// of them reports a change, until all tuples have passed.
//
// One call serves all replicas. It takes tuples once there is one for each
// replica, so that a cancelled call takes none; it puts tuples one after
// another.
//
// One thread at a time tries: first the caller, then whichever thread reports a
// change. The call's lock orders these threads and the one that cancels.
#include "tpu/feeds/feed.h"

#include <stddef.h>

bool ls_feed_is_used(const ls_feed_call *self, size_t i) {
  return self->feed->num_cores == 1 ||
         ls_feed_uses(self->feed, (int64_t)i % self->feed->num_cores);
}

// ---- The pool --------------------------------------------------------------
void ls_feed_calls_destroy(ls_feed_state *feed) {
  while (feed->idle != NULL) {
    ls_feed_call *next = feed->idle->next;
    ls_mutex_deinit(&feed->idle->lock);
    ls_release(feed->allocator, feed->idle->tuples);
    ls_release(feed->allocator, feed->idle);
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

static void feed_call_leave(ls_feed_call *self) {
  ls_feed_state *feed = self->feed;
  ls_mutex_lock(&feed->lock);
  self->next = feed->idle;
  feed->idle = self;
  ls_mutex_unlock(&feed->lock);
}

static ls_status feed_call_enter(ls_host_call *call, size_t num_tuples,
                                 ls_feed_call **out_call) {
  ls_feed_state *feed = ls_feed_of(call);
  ls_mutex_lock(&feed->lock);
  ls_feed_call *self = feed->idle;
  if (self != NULL) feed->idle = self->next;
  ls_mutex_unlock(&feed->lock);
  if (self == NULL) self = make_call(feed);
  if (self == NULL) return ls_out_of_memory();
  self->feed = feed;
  self->call = call;
  self->at = 0;
  self->is_cancelled = self->is_parked = self->has_tuples = false;
  self->has_yielded = false;
  self->waits_for = NULL;
  self->closings = 0;
  self->status = NULL;
  if (!LS_GROW(feed->allocator, self->tuples, self->most_tuples, num_tuples)) {
    feed_call_leave(self);
    return ls_out_of_memory();
  }
  for (size_t i = 0; i < num_tuples; ++i)
    self->tuples[i] = ls_none();
  *out_call = self;
  return ls_ok();
}

// Finds the queues; on a host the op's operand may name a core.
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

// ---- Continue a call -------------------------------------------------------
// Puts the tuples taken back into their queues, unless there is one from each.
static void put_back_tuples(ls_feed_call *self) {
  if (!ls_feed_takes(self->feed->kind) || self->at == self->count) return;
  for (size_t i = 0; i < self->count; ++i)
    if (self->tuples[i].kind != LS_KIND_NONE &&
        ls_queue_put_back(ls_feed_queue_at(self, i)->tuples,
                          self->targets->generation, self->tuples[i]))
      self->tuples[i] = ls_none();
}

// Fails the call. Always returns true.
static bool set_failure(ls_feed_call *self, ls_status status) {
  put_back_tuples(self);
  ls_status_free(self->status);
  self->status = status;
  return true;
}

const char *ls_feed_word(const ls_feed_state *feed) {
  return ls_feed_is_outfeed(feed->kind) ? "outfeed" : "infeed";
}

static bool fail_cancelled(ls_feed_call *self) {
  return set_failure(
      self,
      LS_STATUS(LS_CANCELLED, "%s was cancelled",
                ls_feed_is_outfeed(self->feed->kind) ? "Outfeed" : "Infeed"));
}

// Returns true if the queue's system was shut down or initialized again since
// the call found the queue.
static bool is_over(const ls_feed_call *self) {
  const ls_feed_targets *targets = self->targets;
  return ls_pod_generation(targets->pod) != targets->generation;
}

static bool fail_over(ls_feed_call *self) {
  const ls_pod *pod = self->targets->pod;
  return set_failure(
      self,
      ls_failed_precondition(
          "the TPU system '%s' was %s while a run waited for its %s", pod->name,
          ls_pod_is_initialized(pod) ? "initialized again" : "shut down",
          ls_feed_word(self->feed)));
}

static bool feed_call_step(ls_feed_call *self);

// Tries until the call ends or waits. Nobody may touch the call once it waits
// or its end has been reported.
static void feed_call_go_on(ls_feed_call *self) {
  if (feed_call_step(self)) ls_host_done(self->call, ls_ok());
}

// Continues the call when the queue reports a change. The thread that
// registered the waiter has let go of the call by then.
static void on_queue_change(void *user) {
  ls_feed_call *self = user;
  ls_mutex_lock(&self->lock);
  ls_mutex_unlock(&self->lock);
  feed_call_go_on(self);
}

// Continues the call once the time for which it was parked has passed.
static void unpark(ls_timer *timer) {
  ls_feed_call *self =
      (ls_feed_call *)((char *)timer - offsetof(ls_feed_call, timer));
  ls_mutex_lock(&self->lock);
  self->is_parked = false;
  ls_mutex_unlock(&self->lock);
  feed_call_go_on(self);
}

// Parks the call for a time. Returns false if it is cancelled.
static bool park(ls_feed_call *self, int64_t nanos) {
  ls_mutex_lock(&self->lock);
  const bool is_parked = !self->is_cancelled;
  self->is_parked = is_parked;
  self->timer.fn = unpark;
  if (is_parked) ls_timer_set(self->call->runtime, &self->timer, nanos);
  ls_mutex_unlock(&self->lock);
  return is_parked;
}

typedef enum outcome { WAITS, TRIES, ENDS } outcome;

// Waits for the current queue, or ends the call if it is cancelled. The call
// continues when the queue reports its next change after `*times` changes
// (ls_queue_told); with NULL when the queue is ready.
static outcome wait_here(ls_feed_call *self, ls_queue_side side,
                         const uint64_t *times) {
  ls_queue *queue = ls_feed_queue_at(self, self->at)->tuples;
  outcome next = ENDS;
  ls_mutex_lock(&self->lock);
  if (!self->is_cancelled) {
    self->waits_for = queue;
    self->waiter = (ls_queue_waiter){.ready = on_queue_change, .user = self};
    const bool waits = times == NULL
                           ? ls_queue_on_ready(queue, side, &self->waiter)
                           : ls_queue_on_told(queue, *times, &self->waiter);
    next = waits ? WAITS : TRIES;
  }
  ls_mutex_unlock(&self->lock);
  return next;
}

static bool is_drained(ls_queue *queue) {
  return ls_queue_is_closed(queue) && ls_queue_count(queue) == 0;
}

// ---- Take ------------------------------------------------------------------
static ls_status end_of(const ls_core_queue *queue) {
  return ls_out_of_range("%s closed: there are no more tuples in the %s",
                         queue->is_outfeed ? "outfeed" : "infeed",
                         ls_core_queue_name(queue));
}

// Finds the first queue that is closed and empty; NULL if there is none.
static ls_core_queue *find_drained(const ls_feed_call *self) {
  for (size_t i = 0; i < self->count; ++i)
    if (ls_feed_is_used(self, i) &&
        is_drained(ls_feed_queue_at(self, i)->tuples))
      return ls_feed_queue_at(self, i);
  return NULL;
}

// Waits for the current queue, unless another queue of the call is drained:
// then no full set of tuples will come, and the call ends. Each close wakes all
// waiters of the pod.
static outcome wait_for_tuple(ls_feed_call *self, ls_core_queue **out_drained) {
  const uint64_t times =
      ls_queue_told(ls_feed_queue_at(self, self->at)->tuples);
  const uint64_t closings =
      __atomic_load_n(&self->targets->pod->closings, __ATOMIC_SEQ_CST);
  if (closings != self->closings) {
    *out_drained = find_drained(self);
    if (*out_drained != NULL) return ENDS;
    self->closings = closings;
  }
  return wait_here(self, LS_QUEUE_POP, &times);
}

// Looks for a tuple in each queue. Returns ENDS if a queue is drained or the
// call is cancelled.
static outcome feed_call_look(ls_feed_call *self, ls_core_queue **out_drained) {
  while (self->at < self->count) {
    ls_queue *queue = ls_feed_queue_at(self, self->at)->tuples;
    if (self->tuples[self->at].kind != LS_KIND_NONE ||
        !ls_feed_is_used(self, self->at) || ls_queue_count(queue) > 0) {
      ++self->at;
      continue;
    }
    if (is_drained(queue)) {
      *out_drained = ls_feed_queue_at(self, self->at);
      return ENDS;
    }
    const outcome next = wait_for_tuple(self, out_drained);
    if (next != TRIES) return next;
  }
  return TRIES;
}

bool ls_feed_piece_at(const ls_feed_call *self, size_t i, size_t k,
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
  const char *name = ls_core_queue_name(ls_feed_queue_at(self, i));
  size_t count = 0;
  ls_piece piece;
  for (size_t k = 0; k < call->num_outputs; ++k)
    count += ls_feed_piece_at(self, i, k, &piece);
  if (ls_nest_count(tuple) != count)
    return ls_invalid_argument(
        "the tuple in the %s has %zu elements, %zu are expected", name,
        ls_nest_count(tuple), count);
  size_t next = 0;
  for (size_t k = 0; k < call->num_outputs; ++k) {
    if (!ls_feed_piece_at(self, i, k, &piece)) continue;
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

// Takes a tuple from each queue; waits again for one that another call took
// meanwhile.
static bool step_take(ls_feed_call *self) {
  for (;;) {
    ls_core_queue *drained = NULL;
    const outcome next = feed_call_look(self, &drained);
    if (next == WAITS) return false;
    if (next == ENDS)
      return drained == NULL ? fail_cancelled(self)
                             : set_failure(self, end_of(drained));
    for (size_t i = 0; i < self->count && self->at == self->count; ++i) {
      bool popped =
          self->tuples[i].kind != LS_KIND_NONE || !ls_feed_is_used(self, i);
      if (!popped)
        ls_status_free(ls_queue_try_pop(ls_feed_queue_at(self, i)->tuples,
                                        self->targets->generation,
                                        &self->tuples[i], &popped));
      if (!popped) self->at = i;
    }
    if (self->at < self->count && is_over(self)) return fail_over(self);
    if (self->at < self->count) continue;
    for (size_t i = 0; i < self->count; ++i) {
      if (!ls_feed_is_used(self, i)) continue;
      const ls_status status = check_tuple(self, i);
      if (!ls_status_is_ok(status)) return set_failure(self, status);
    }
    return true;
  }
}

// Finds out if each core has a tuple. If only some have one, these tuples stay
// for calls that take from those cores alone.
static bool step_ready(ls_feed_call *self) {
  ls_core_queue *drained = NULL;
  const outcome next = feed_call_look(self, &drained);
  if (next == WAITS) return false;
  if (next == ENDS && drained == NULL) return fail_cancelled(self);
  self->has_tuples = next == TRIES;
  return true;
}

// ---- Put -------------------------------------------------------------------
static void feed_call_fill(const ls_host_call *call, size_t replica,
                           ls_nest tuple) {
  for (size_t i = 0; i < ls_feed_num_elements(call); ++i) {
    ls_array *array = ls_nest_as_array(ls_nest_item(tuple, i));
    memcpy(ls_array_mutable_data(array),
           (const char *)call->inputs[i] + replica * call->input_strides[i],
           ls_array_size(array));
  }
}

// Passes the pod's fault point, which may replace the tuple.
static ls_status pass_put(ls_feed_call *self, ls_core_queue *queue) {
  LS_RETURN_IF_ERROR(ls_pod_pass(
      queue->core, queue->is_outfeed ? LS_DOOR_OUTFEED : LS_DOOR_ENQUEUE,
      &self->passing));
  if (!self->passing.changes) return ls_ok();
  static const ls_type byte = {LS_DTYPE_U8, {.rank = 0}};
  ls_core_queue_give_back(queue, self->tuples[0]);
  self->tuples[0] = ls_none();
  return ls_core_queue_make_tuple(queue, &byte, 1, &self->tuples[0]);
}

// Returns true if an enqueue of large tuples is one tuple ahead of its taker.
// It then lets other calls of its thread run, so that the taker finds the tuple
// in the caches.
static bool is_ahead(const ls_feed_call *self) {
  enum { LARGE = 16 << 10 };
  const ls_host_call *call = self->call;
  const ls_type *type = call->input_types;
  if (self->feed->kind != LS_INFEED_ENQUEUE || call->num_inputs == 0 ||
      ls_queue_count(ls_feed_queue_at(self, 0)->tuples) < 2)
    return false;
  int64_t bytes = 0;
  for (size_t i = 0; i < call->num_inputs; ++i, ++type)
    bytes += (int64_t)ls_dtype_size(type->dtype) *
             ls_shape_num_elements(type->shape);
  return bytes >= LARGE;
}

static bool step_put(ls_feed_call *self) {
  const ls_host_call *call = self->call;
  while (self->at < self->count) {
    ls_core_queue *queue = ls_feed_queue_at(self, self->at);
    ls_nest *tuple = &self->tuples[0];
    ls_status status = ls_ok();
    if (queue->is_fed_elsewhere) {
      ++self->at;
      continue;
    }
    if (tuple->kind == LS_KIND_NONE) {
      status = ls_core_queue_make_tuple(queue, call->input_types,
                                        ls_feed_num_elements(call), tuple);
      if (!ls_status_is_ok(status)) return set_failure(self, status);
      feed_call_fill(call, self->at, *tuple);
      status = pass_put(self, queue);
      if (!ls_status_is_ok(status)) return set_failure(self, status);
      if (self->passing.nanos > 0)
        return !park(self, self->passing.nanos) && fail_cancelled(self);
    }
    bool pushed = self->passing.loses;
    if (pushed)
      ls_core_queue_give_back(queue, *tuple);
    else
      status = ls_queue_try_push(queue->tuples, self->targets->generation,
                                 *tuple, &pushed);
    if (!ls_status_is_ok(status)) {
      ls_status_free(status);
      return set_failure(self,
                         ls_failed_precondition("the %s was closed",
                                                ls_core_queue_name(queue)));
    }
    if (pushed) {
      *tuple = ls_none();
      ++self->at;
      if (self->passing.closes) ls_core_queue_close(queue);
      continue;
    }
    if (is_over(self)) return fail_over(self);
    const outcome next = wait_here(self, LS_QUEUE_PUSH, NULL);
    if (next == WAITS) return false;
    if (next == ENDS) return fail_cancelled(self);
  }
  if (!is_ahead(self) || self->has_yielded) return true;
  self->has_yielded = true;
  return !park(self, 0) && fail_cancelled(self);
}

static bool feed_call_step(ls_feed_call *self) {
  if (is_over(self)) return fail_over(self);
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

void ls_feed_call_go_on(ls_feed_call *self, int64_t nanos) {
  if (nanos == 0)
    feed_call_go_on(self);
  else if (!park(self, nanos) && fail_cancelled(self))
    ls_host_done(self->call, ls_ok());
}

// ---- Begin and end ---------------------------------------------------------
ls_status ls_feed_call_begin(ls_host_call *call, size_t num_tuples,
                             ls_feed_call **out_call) {
  LS_RETURN_IF_ERROR(feed_call_enter(call, num_tuples, out_call));
  const ls_status status = find_targets(*out_call);
  if (ls_status_is_ok(status))
    call->room[0] = *out_call;
  else
    feed_call_leave(*out_call);
  return status;
}

ls_status ls_feed_call_end(ls_feed_call *self, size_t num_tuples) {
  const ls_status status = self->status;
  const bool takes = ls_feed_takes(self->feed->kind);
  self->status = NULL;
  for (size_t i = 0; i < num_tuples; ++i)
    if (self->tuples[i].kind != LS_KIND_NONE)
      ls_core_queue_give_back(ls_feed_queue_at(self, takes ? i : self->at),
                              self->tuples[i]);
  feed_call_leave(self);
  return status;
}

void ls_feed_call_cancel(ls_feed_call *self) {
  const bool takes =
      ls_feed_takes(self->feed->kind) || self->feed->kind == LS_INFEED_READY;
  ls_mutex_lock(&self->lock);
  self->is_cancelled = true;
  const bool waits =
      self->is_parked
          ? ls_timer_clear(self->call->runtime, &self->timer)
          : self->waits_for != NULL &&
                ls_queue_withdraw(self->waits_for,
                                  takes ? LS_QUEUE_POP : LS_QUEUE_PUSH,
                                  &self->waiter);
  ls_mutex_unlock(&self->lock);
  if (waits && fail_cancelled(self)) ls_host_done(self->call, ls_ok());
}
