// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/threads/locked.h"
#include "base/values/array_internal.h"
#include "base/values/nest_internal.h"
#include "estimator/device/device.h"
#include "net/waiting.h"
#include "tpu/pod/core_queues.h"

// Announcement in front of a step.
typedef enum news {
  CARRIES,  // It brings the tuples of a step.
  CLOSES,   // The queues are closed: no more tuples will come.
  ENDS,
} news;

typedef struct header {
  uint64_t news, size;
} header;

typedef struct ferry {
  ls_ferries *all;
  ls_worker worker;
  bool is_outfeed, sends;
  int32_t peer;
  size_t count;  // Number of replicas, each with a queue.
  ls_core_queue **queues;
  ls_nest *tuples;
  char *bytes;
  size_t capacity;
  uint64_t trips;
} ferry;

struct ls_ferries {
  ls_allocator *allocator;
  ls_communicator *ranks;
  ls_rendezvous *rendezvous;
  ls_session *session;
  ls_pod *pod;
  uint64_t generation;
  ls_cancel *cancel;
  ferry *ferries;
  size_t count;
  ls_mutex lock;  // Guards the failure.
  ls_status failure;
};

// ---- Messages --------------------------------------------------------------
static ls_status ferry_exchange(ferry *self, uint32_t phase, void *data,
                                size_t size) {
  ls_communicator *ranks = self->all->ranks;
  const int32_t from = self->sends ? ranks->rank : self->peer;
  const int32_t to = self->sends ? self->peer : ranks->rank;
  const ls_exchange_name name = {
      .program = {ls_hash("ferry", 5, 0), self->is_outfeed},
      .step = (uint64_t)from << 32 | (uint64_t)to,
      .iteration = self->trips,
      .merge = UINT32_MAX - 6,
      .phase = phase};
  const ls_exchange_piece piece = {data, size, from, to};
  return ls_communicator_exchange_in_background(ranks, &name, &piece, 1);
}

// Moves bytes of a message: writes them at `*at`, or reads them. A message of
// NULL is measured only.
static void move_bytes(const ferry *self, char *message, size_t *at, void *data,
                       size_t size) {
  if (message != NULL && self->sends) memcpy(message + *at, data, size);
  if (message != NULL && !self->sends) memcpy(data, message + *at, size);
  *at += size;
}

static void move_element(const ferry *self, char *message, size_t *at,
                         ls_array *array) {
  ls_type type = {ls_array_dtype(array), ls_array_shape(array)};
  move_bytes(self, message, at, &type, sizeof(type));
  move_bytes(self, message, at, (void *)(uintptr_t)ls_array_data(array),
             ls_array_size(array));
}

// Writes all tuples: of each the number of elements, then each one's type and
// data. Returns the number of bytes.
static size_t write_tuples(const ferry *self, char *message) {
  size_t at = 0;
  for (size_t i = 0; i < self->count; ++i) {
    uint64_t elements = ls_nest_count(self->tuples[i]);
    move_bytes(self, message, &at, &elements, sizeof(elements));
    for (size_t k = 0; k < elements; ++k)
      move_element(self, message, &at,
                   ls_nest_as_array(ls_nest_item(self->tuples[i], k)));
  }
  return at;
}

static ls_status read_tuple(ferry *self, size_t *at, size_t i) {
  uint64_t elements = 0;
  move_bytes(self, self->bytes, at, &elements, sizeof(elements));
  LS_OWN_ARRAY_OR_RETURN(self->all->allocator, ls_type, types, elements + 1);
  size_t end = *at;
  for (size_t k = 0; k < elements; ++k) {
    move_bytes(self, self->bytes, &end, &types[k], sizeof(*types));
    end += ls_dtype_size(types[k].dtype) *
           (size_t)ls_shape_num_elements(types[k].shape);
  }
  LS_RETURN_IF_ERROR(ls_core_queue_make_tuple(self->queues[i], types, elements,
                                              &self->tuples[i]));
  for (size_t k = 0; k < elements; ++k) {
    ls_array *array = ls_nest_as_array(ls_nest_item(self->tuples[i], k));
    *at += sizeof(*types);
    move_bytes(self, self->bytes, at, ls_array_mutable_data(array),
               ls_array_size(array));
  }
  return ls_ok();
}

static ls_status make_room(ferry *self, size_t size) {
  return ls_grow(self->all->allocator, &self->bytes, &self->capacity, size, 1)
             ? ls_ok()
             : ls_out_of_memory();
}

static void give_back(ferry *self) {
  for (size_t i = 0; i < self->count; ++i)
    if (self->tuples[i].kind != LS_KIND_NONE) {
      ls_core_queue_give_back(self->queues[i], self->tuples[i]);
      self->tuples[i] = ls_none();
    }
}

// ---- Sending ---------------------------------------------------------------
// Takes the tuples of a step. Without them, finds out if more can come.
static news take_tuples(ferry *self) {
  for (size_t i = 0; i < self->count; ++i) {
    const ls_status status = ls_core_queue_take(
        self->queues[i], self->all->generation, &self->tuples[i]);
    const ls_code code = ls_status_code(status);
    ls_status_free(status);
    if (code != LS_OK) return code == LS_OUT_OF_RANGE ? CLOSES : ENDS;
  }
  return CARRIES;
}

static ls_status send_steps(ferry *self) {
  for (news next = CARRIES; next == CARRIES; ++self->trips) {
    next = take_tuples(self);
    header head = {next, next == CARRIES ? write_tuples(self, NULL) : 0};
    LS_RETURN_IF_ERROR(make_room(self, head.size));
    if (next == CARRIES) (void)write_tuples(self, self->bytes);
    give_back(self);
    LS_RETURN_IF_ERROR(ferry_exchange(self, 0, &head, sizeof(head)));
    if (next == CARRIES)
      LS_RETURN_IF_ERROR(ferry_exchange(self, 1, self->bytes, head.size));
  }
  return ls_ok();
}

// ---- Receiving -------------------------------------------------------------
// Puts the tuples into their queues. Where the program has ended, nobody needs
// them any more.
static void put_tuples(ferry *self) {
  for (size_t i = 0; i < self->count; ++i) {
    const ls_status status = ls_core_queue_put(
        self->queues[i], self->all->generation, self->tuples[i]);
    if (ls_status_is_ok(status)) self->tuples[i] = ls_none();
    ls_status_free(status);
  }
  give_back(self);
}

static ls_status receive_tuples(ferry *self, size_t size) {
  size_t at = 0;
  LS_RETURN_IF_ERROR(make_room(self, size));
  LS_RETURN_IF_ERROR(ferry_exchange(self, 1, self->bytes, size));
  for (size_t i = 0; i < self->count; ++i)
    LS_RETURN_IF_ERROR(read_tuple(self, &at, i));
  put_tuples(self);
  return ls_ok();
}

static ls_status receive_steps(ferry *self) {
  header head = {CARRIES, 0};
  for (; head.news == CARRIES; ++self->trips) {
    LS_RETURN_IF_ERROR(ferry_exchange(self, 0, &head, sizeof(head)));
    if (head.news == CARRIES)
      LS_RETURN_IF_ERROR(receive_tuples(self, head.size));
  }
  for (size_t i = 0; i < self->count && head.news == CLOSES; ++i)
    ls_core_queue_close(self->queues[i]);
  return ls_ok();
}

// ---- A thread --------------------------------------------------------------
// Closes the session, whose program would wait for tuples forever.
static void fail_all(ls_ferries *self, ls_status status) {
  self->ranks->cancel(self->ranks, status);
  ls_mutex_lock(&self->lock);
  const bool is_first = ls_status_is_ok(self->failure);
  if (is_first) self->failure = ls_status_clone(status);
  ls_mutex_unlock(&self->lock);
  if (is_first) ls_session_request_close(self->session);
  ls_status_free(status);
}

static void ferry_run(void *user) {
  ferry *self = user;
  ls_cancel *outer = ls_cancel_make_current(self->all->cancel);
  const ls_status status = self->sends ? send_steps(self) : receive_steps(self);
  give_back(self);
  if (!ls_status_is_ok(status)) fail_all(self->all, status);
  (void)ls_cancel_make_current(outer);
}

// ---- Life ------------------------------------------------------------------
// Adds the queue of a replica to the ferry to or from a rank; makes the ferry
// if there is none.
static ls_status add_queue(ls_ferries *self, const ls_plan *plan,
                           int64_t replica, bool is_outfeed, int32_t from,
                           int32_t to) {
  const ls_replica_core *core = &plan->system->replicas[replica];
  const bool sends = from == self->ranks->rank;
  const int32_t peer = sends ? to : from;
  ferry *at = self->ferries;
  if (from == to || (!sends && to != self->ranks->rank)) return ls_ok();
  while (
      at < self->ferries + self->count &&
      (at->is_outfeed != is_outfeed || at->sends != sends || at->peer != peer))
    ++at;
  if (at == self->ferries + self->count) {
    const size_t most = (size_t)plan->system->num_replicas;
    *at =
        (ferry){.all = self,
                .is_outfeed = is_outfeed,
                .sends = sends,
                .peer = peer,
                .queues = ls_new_array(self->allocator, ls_core_queue *, most),
                .tuples = ls_new_array(self->allocator, ls_nest, most)};
    ++self->count;
    LS_RETURN_IF_NO_MEMORY(at->queues != NULL && at->tuples != NULL);
  }
  return ls_core_queue_of(ls_pod_core(self->pod, core->host, core->ordinal),
                          is_outfeed, &at->queues[at->count++]);
}

static ls_status note_feeder(ls_ferries *self, const ls_plan *plan,
                             int64_t replica) {
  const ls_replica_core *core = &plan->system->replicas[replica];
  ls_core_queue *queue = NULL;
  LS_RETURN_IF_ERROR(ls_core_queue_of(
      ls_pod_core(self->pod, core->host, core->ordinal), false, &queue));
  queue->is_fed_elsewhere =
      ls_plan_fed_from(plan, replica) != self->ranks->rank;
  return ls_ok();
}

static ls_status find_ferries(ls_ferries *self, const ls_plan *plan) {
  // Each other rank has at most a ferry of each kind.
  LS_SET_ARRAY_OR_RETURN(self->allocator, ferry, self->ferries,
                         4 * (size_t)self->ranks->ranks);
  for (int64_t r = 0; r < plan->system->num_replicas; ++r) {
    const int32_t on = ls_plan_replica_rank(plan, r);
    LS_RETURN_IF_ERROR(note_feeder(self, plan, r));
    LS_RETURN_IF_ERROR(
        add_queue(self, plan, r, false, ls_plan_fed_from(plan, r), on));
    LS_RETURN_IF_ERROR(add_queue(self, plan, r, true, on, 0));
  }
  return ls_ok();
}

static void ferries_destroy(ls_ferries *self) {
  ls_cancel_request(self->cancel);
  for (size_t i = 0; i < self->count; ++i) {
    ferry *at = &self->ferries[i];
    ls_worker_join(&at->worker);
    ls_release(self->allocator, at->queues);
    ls_release(self->allocator, at->tuples);
    ls_release(self->allocator, at->bytes);
  }
  ls_release(self->allocator, self->ferries);
  ls_status_free(self->failure);
  ls_cancel_destroy(self->cancel);
  ls_object_release(self->pod);
  ls_mutex_deinit(&self->lock);
  ls_release(self->allocator, self);
}

static ls_status start_all(ls_ferries *self, const ls_plan *plan) {
  LS_RETURN_IF_ERROR(ls_mutex_init(&self->lock));
  LS_RETURN_IF_ERROR(ls_cancel_create(plan->runtime, &self->cancel));
  self->pod = ls_plan_pod(plan);
  if (self->pod == NULL)
    return ls_unimplemented("a TPU system outside of this process on %d ranks",
                            self->ranks->ranks);
  self->generation = ls_pod_generation(self->pod);
  LS_RETURN_IF_ERROR(find_ferries(self, plan));
  for (size_t i = 0; i < self->count; ++i)
    LS_RETURN_IF_ERROR(ls_worker_start(&self->ferries[i].worker, "ferry",
                                       plan->runtime, ferry_run,
                                       &self->ferries[i]));
  return ls_ok();
}

ls_status ls_ferries_start(const ls_plan *plan, ls_session *session,
                           ls_ferries **out) {
  *out = NULL;
  if (ls_plan_ranks(plan) == NULL) return ls_ok();
  ls_allocator *allocator = ls_current_allocator();
  LS_NEW_OR_RETURN(allocator, ls_ferries, self);
  self->allocator = allocator;
  self->ranks = ls_plan_ranks(plan);
  self->session = session;
  const ls_status status = start_all(self, plan);
  if (ls_status_is_ok(status))
    *out = self;
  else
    ls_ferries_give_up(self, status);
  return status;
}

void ls_ferries_end(ls_ferries *ferries) {
  if (ferries != NULL) ferries_destroy(ferries);
}

void ls_ferries_give_up(ls_ferries *ferries, ls_status failure) {
  if (ferries == NULL) return;
  // Other ranks would wait for this one, which then waits for them.
  ferries->ranks->cancel(ferries->ranks, failure);
  ferries_destroy(ferries);
}

ls_status ls_ferries_failure(ls_ferries *ferries) {
  if (ferries == NULL) return ls_ok();
  return LS_LOCKED(&ferries->lock, ls_status_clone(ferries->failure));
}
