// SPDX-License-Identifier: Apache-2.0
#include "net/exchanger.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/runtime_internal.h"
#include "base/status_cause.h"

int64_t ls_exchanger_now(const ls_exchanger *self) {
  return self->clock->now(self->clock->user);
}

// ---- Messages --------------------------------------------------------------
ls_status ls_exchanger_send(ls_exchanger *self, int32_t to) {
  ls_message *message = &self->message;
  message->number = self->peers[to].sent + 1;
  const ls_status status = self->wire->send(self->wire, to, message);
  // One that could not be sent is missed by nobody.
  if (ls_status_is_ok(status)) ++self->peers[to].sent;
  return status;
}

// Drops a failure to send: what could be done about it is under way.
void ls_exchanger_send_all(ls_exchanger *self, bool has_ended) {
  for (int32_t k = 0; k < self->base.ranks; ++k)
    if (k != self->base.rank && (has_ended || !self->peers[k].has_ended))
      ls_status_free(ls_exchanger_send(self, k));
}

// Sets the failure, which rank `origin` has found. Exchanges that are complete
// have succeeded all the same.
static void fail_for(ls_exchanger *self, int32_t origin, ls_status failure) {
  ls_message *message = &self->message;
  if (!ls_status_is_ok(self->failure)) {
    ls_status_free(failure);
    return;
  }
  self->failure = failure;
  __atomic_store_n(&self->base.failed_rank, origin, __ATOMIC_RELEASE);
  for (ls_flight *flight = self->flights; flight != NULL; flight = flight->next)
    if (!ls_flight_is_over(flight))
      ls_flight_fail(self, flight, ls_status_clone(failure));
  message->kind = LS_MESSAGE_CANCEL;
  message->size = (uint64_t)ls_status_code(failure);
  message->shape = (uint64_t)origin;
  snprintf(message->data, sizeof(message->data), "%s",
           ls_status_message(failure));
  message->used = (uint32_t)strlen(message->data) + 1;
  ls_exchanger_send_all(self, true);
  ls_condition_broadcast(&self->changed);
}

void ls_exchanger_fail(ls_exchanger *self, ls_status failure) {
  fail_for(self, self->base.rank, failure);
}

static void handle_message(ls_exchanger *self, const ls_message *message,
                           int32_t from) {
  ls_peer *peer = &self->peers[from];
  if (message->number <= peer->received) return;  // It has come before.
  if (message->number != peer->received + 1) {
    ls_exchanger_fail(
        self, LS_STATUS(LS_DATA_LOSS, "rank %d misses message %llu of rank %d",
                        self->base.rank, (unsigned long long)peer->received + 1,
                        from));
    return;
  }
  peer->received = message->number;
  if (self->watches) peer->heard = ls_exchanger_now(self);
  switch ((ls_message_kind)message->kind) {
  case LS_MESSAGE_EXCHANGE: {
    const ls_status status = ls_flights_take(self, message, from);
    if (!ls_status_is_ok(status)) ls_exchanger_fail(self, status);
    break;
  }
  case LS_MESSAGE_CANCEL:
    peer->gave_up = ls_exchanger_now(self);
    fail_for(self, (int32_t)message->shape,
             LS_STATUS((ls_code)message->size, "%.*s", (int)message->used,
                       message->data));
    break;
  case LS_MESSAGE_END:
    peer->has_ended = true;
    peer->gave_up = ls_exchanger_now(self);
    break;
  case LS_MESSAGE_BEAT:
    ls_exchanger_take_beat(self, from, message);
    break;
  }
}

void ls_exchanger_proceed(ls_exchanger *self) {
  int32_t from = 0;
  for (const ls_message *message = self->wire->next(self->wire, &from);
       message != NULL; message = self->wire->next(self->wire, &from))
    handle_message(self, message, from);
  if (ls_flights_proceed(self)) ls_condition_broadcast(&self->changed);
}

// ---- The communicator ------------------------------------------------------
// Notes that this thread makes exchanges.
static void note_thread(ls_exchanger *self) {
  const pid_t thread = (pid_t)syscall(SYS_gettid);
  for (int i = 0; i < self->num_threads; ++i)
    if (self->threads[i] == thread) return;
  if (self->num_threads < LS_MOST_THREADS)
    self->threads[self->num_threads++] = thread;
}

static ls_status start_exchange(ls_communicator *communicator,
                                ls_exchange *exchange) {
  ls_exchanger *self = (ls_exchanger *)communicator;
  ls_mutex_lock(&self->lock);
  exchange->state = NULL;
  if (self->watches && !exchange->in_background) note_thread(self);
  // After a failure, other ranks may have dropped their pieces.
  ls_status status = ls_status_clone(self->failure);
  if (ls_status_is_ok(status)) status = ls_flight_start(self, exchange);
  ls_mutex_unlock(&self->lock);
  return status;
}

static bool is_exchange_done(ls_communicator *communicator,
                             ls_exchange *exchange) {
  ls_exchanger *self = (ls_exchanger *)communicator;
  ls_mutex_lock(&self->lock);
  if (!self->has_leader) ls_exchanger_proceed(self);
  const bool is_done = ls_flight_is_over(exchange->state);
  ls_mutex_unlock(&self->lock);
  return is_done;
}

// Waits a while for something to happen, to a flight or at all (NULL). Requires
// the lock.
static void wait_a_while(ls_exchanger *self, const ls_flight *flight,
                         int64_t nanos) {
  if (self->has_leader) {
    (void)ls_condition_wait_for(&self->changed, &self->lock, nanos);
    return;
  }
  ls_exchanger_proceed(self);
  if (flight != NULL && ls_flight_is_over(flight)) return;
  self->has_leader = true;
  ls_mutex_unlock(&self->lock);
  self->wire->idle(self->wire, nanos);
  ls_mutex_lock(&self->lock);
  self->has_leader = false;
  ls_exchanger_proceed(self);
  ls_condition_broadcast(&self->changed);
}

// Watches. A worker does so, too, but may wait long for the lock, so that waits
// help it now and then. Requires the lock.
static void watch_meanwhile(ls_exchanger *self, unsigned *polls) {
  enum { SELDOM = 16 };
  if (!self->watches) return;
  if (self->worker.is_started && ++*polls % SELDOM != 0) return;
  ls_mutex_unlock(&self->lock);
  ls_exchanger_watch(self);
  ls_mutex_lock(&self->lock);
}

// Fails if an exchange has taken longer than its limit. Requires the lock.
static void check_limit(ls_exchanger *self, const ls_flight *flight) {
  const int64_t limit = flight->exchange->limit;
  if (limit <= 0 || ls_flight_is_over(flight) ||
      ls_exchanger_now(self) - flight->began < limit)
    return;
  int32_t rank = 0;
  while (rank + 1 < self->base.ranks && !ls_flight_waits_for(flight, rank))
    ++rank;
  ls_exchanger_fail(self,
                    LS_STATUS(LS_DEADLINE_EXCEEDED,
                              "rank %d has waited for rank %d for %.3g s, the "
                              "time limit of its collective",
                              self->base.rank, rank, (double)limit * 1e-9));
}

static ls_status wait_for_exchange(ls_communicator *communicator,
                                   ls_exchange *exchange) {
  enum { WHILE = 100000000 };
  ls_exchanger *self = (ls_exchanger *)communicator;
  ls_flight *flight = exchange->state;
  ls_mutex_lock(&self->lock);
  unsigned polls = 0;
  flight->began = ls_exchanger_now(self);
  flight->waits = true;
  const int64_t limit = exchange->limit;
  while (!ls_flight_is_over(flight)) {
    wait_a_while(self, flight, limit > 0 && limit < WHILE ? limit : WHILE);
    check_limit(self, flight);
    watch_meanwhile(self, &polls);
  }
  if (flight->last >= 0)
    __atomic_add_fetch(&self->waited_for[flight->last],
                       ls_exchanger_now(self) - flight->began,
                       __ATOMIC_RELAXED);
  ls_status status = ls_status_clone(flight->failure);
  ls_flight_retire(self, flight);
  ls_mutex_unlock(&self->lock);
  return status;
}

static void cancel_all(ls_communicator *communicator, ls_status why) {
  ls_exchanger *self = (ls_exchanger *)communicator;
  const int32_t origin = ls_status_rank(why);
  ls_status failure = ls_status_clone(why);
  if (origin < 0)
    failure = ls_status_annotate(failure, "on rank %d of %d", self->base.rank,
                                 self->base.ranks);
  ls_mutex_lock(&self->lock);
  fail_for(self, origin < 0 ? self->base.rank : origin, failure);
  ls_mutex_unlock(&self->lock);
}

// ---- Life ------------------------------------------------------------------
static ls_status init_peers(ls_exchanger *self) {
  const size_t ranks = (size_t)self->base.ranks;
  self->peers = ls_new_array(self->allocator, ls_peer, ranks);
  self->waited_for = ls_new_array(self->allocator, int64_t, ranks);
  if (self->peers == NULL || self->waited_for == NULL)
    return ls_out_of_memory();
  self->base.waited_for = self->waited_for;
  self->moved = self->watched = ls_exchanger_now(self);
  for (size_t k = 0; k < ranks; ++k)
    self->peers[k].heard = self->peers[k].moved = self->moved;
  return ls_ok();
}

ls_status ls_exchanger_init(ls_exchanger *self, ls_wire *wire,
                            const ls_exchanger_options *options) {
  *self = (ls_exchanger){.wire = wire,
                         .allocator = ls_allocator_system(),
                         .clock = options->clock != NULL ? options->clock
                                                         : ls_clock_system(),
                         .watches = options->watches && options->ranks > 1,
                         .base = {.rank = options->rank,
                                  .ranks = options->ranks,
                                  .local_ranks = 1,
                                  .failed_rank = -1,
                                  .start = start_exchange,
                                  .is_done = is_exchange_done,
                                  .wait = wait_for_exchange,
                                  .cancel = cancel_all,
                                  .attach = ls_exchanger_attach}};
  LS_RETURN_IF_ERROR(ls_mutex_init(&self->lock));
  LS_RETURN_IF_ERROR(ls_mutex_init(&self->services_lock));
  LS_RETURN_IF_ERROR(ls_condition_init(&self->changed));
  return init_peers(self);
}

ls_status ls_exchanger_end(ls_exchanger *self) {
  ls_worker_stop(&self->worker);
  ls_worker_join(&self->worker);
  ls_mutex_lock(&self->lock);
  self->message.kind = LS_MESSAGE_END;
  self->message.used = 0;
  ls_exchanger_send_all(self, true);
  ls_status failure = ls_status_clone(self->failure);
  ls_mutex_unlock(&self->lock);
  return failure;
}

void ls_exchanger_rest(ls_exchanger *self, int64_t nanos) {
  unsigned polls = 0;
  ls_mutex_lock(&self->lock);
  wait_a_while(self, NULL, nanos);
  watch_meanwhile(self, &polls);
  ls_mutex_unlock(&self->lock);
}

// Returns a rank other than this one that has not ended; -1: all have.
static int32_t find_unended(const ls_exchanger *self) {
  for (int32_t k = 0; k < self->base.ranks; ++k)
    if (k != self->base.rank && !self->peers[k].has_ended) return k;
  return -1;
}

static ls_status report_unended(const ls_exchanger *self, int32_t rank) {
  const ls_communicator *base = &self->base;
  const char *host = base->host == NULL ? NULL : base->host(base, rank);
  return LS_STATUS(LS_UNAVAILABLE, "rank %d%s%s does not end as rank %d does",
                   rank, host == NULL ? "" : " on ", host == NULL ? "" : host,
                   base->rank);
}

ls_status ls_exchanger_meet(ls_exchanger *self) {
  const int64_t patience = 5000000000, nap = 10000000;
  unsigned polls = 0;
  ls_mutex_lock(&self->lock);
  int64_t last_good = ls_exchanger_now(self);
  while (find_unended(self) >= 0 &&
         ls_exchanger_now(self) - last_good < patience) {
    wait_a_while(self, NULL, nap);
    watch_meanwhile(self, &polls);
    if (ls_status_is_ok(self->failure)) last_good = ls_exchanger_now(self);
  }
  const int32_t missing = find_unended(self);
  ls_status status = missing < 0 ? ls_ok() : report_unended(self, missing);
  ls_mutex_unlock(&self->lock);
  return status;
}

void ls_exchanger_deinit(ls_exchanger *self) {
  ls_worker_stop(&self->worker);
  ls_worker_join(&self->worker);
  ls_flights_deinit(self);
  for (int32_t k = 0; self->peers != NULL && k < self->base.ranks; ++k)
    ls_release(self->allocator, self->peers[k].place);
  ls_release(self->allocator, self->peers);
  ls_release(self->allocator, self->waited_for);
  ls_status_free(self->failure);
  ls_condition_deinit(&self->changed);
  ls_mutex_deinit(&self->services_lock);
  ls_mutex_deinit(&self->lock);
}
