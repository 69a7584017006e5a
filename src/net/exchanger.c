// SPDX-License-Identifier: Apache-2.0
#include "net/exchanger.h"

#include <stdio.h>
#include <string.h>

#include "base/runtime_internal.h"

// A message that came before its exchange was started.
struct ls_early {
  ls_early *next;
  int32_t from;
  ls_message message;
};

int64_t ls_exchanger_now(const ls_exchanger *self) {
  return self->clock->now(self->clock->user);
}

// ---- Pieces ----------------------------------------------------------------
// Finds the bytes of a piece that `from` sends to `to`; returns false if there
// are none, which differs from zero bytes.
static bool find_bytes(const ls_exchange_piece *piece, int32_t from, int32_t to,
                       char **out_data) {
  if ((piece->from != from && piece->from != LS_EACH_RANK) ||
      (piece->to != to && piece->to != LS_EACH_RANK) || from == to)
    return false;
  const size_t block = piece->from == LS_EACH_RANK ? (size_t)from : 0;
  *out_data =
      piece->size == 0 ? NULL : (char *)piece->data + block * piece->size;
  return true;
}

// Sums up the pieces that `from` sends to `to`. Returns their number.
static size_t measure_pieces(const ls_exchange *exchange, int32_t from,
                             int32_t to, uint64_t *out_size,
                             uint64_t *out_shape) {
  size_t count = 0;
  char *data = NULL;
  *out_size = *out_shape = 0;
  for (size_t i = 0; i < exchange->count; ++i) {
    const ls_exchange_piece *piece = &exchange->pieces[i];
    if (!find_bytes(piece, from, to, &data)) continue;
    *out_size += piece->size;
    *out_shape = (*out_shape + piece->size + 1) * UINT64_C(0x9E3779B97F4A7C15);
    ++count;
  }
  return count;
}

// ---- Flights ---------------------------------------------------------------
static ls_flight *make_flight(ls_exchanger *self) {
  ls_flight *flight = self->spare_flights;
  if (flight != NULL) {
    self->spare_flights = flight->next;
    return flight;
  }
  flight = ls_new(self->allocator, ls_flight);
  if (flight == NULL) return NULL;
  flight->awaits =
      ls_new_array(self->allocator, bool, (size_t)self->base.ranks);
  if (flight->awaits != NULL) return flight;
  ls_release(self->allocator, flight);
  return NULL;
}

// Returns true if nobody touches the memory of a transfer any more, though MPI
// has not ended it: long after a failure, or if the receiver has given up and
// had time to end what it had begun.
static bool is_forgotten(const ls_exchanger *self, const ls_flight *flight,
                         const ls_flying *transfer) {
  const int64_t patience = 2000000000, respite = 100000000;
  const int64_t now = ls_exchanger_now(self);
  const int64_t gave_up = self->peers[transfer->peer].gave_up;
  if (now - flight->failed > patience) return true;
  return transfer->sends && gave_up != 0 && now - gave_up > respite;
}

// Drops the transfers of an exchange that has failed, or as many as can be at
// the moment: their memory is the caller's once none is left.
static void drop_transfers(ls_exchanger *self, ls_flight *flight) {
  size_t left = 0;
  for (size_t i = 0; i < flight->num_transfers; ++i) {
    const ls_flying each = flight->transfers[i];
    if (!self->wire->drop(self->wire, each.transfer,
                          is_forgotten(self, flight, &each)))
      flight->transfers[left++] = each;
  }
  flight->num_transfers = left;
}

static void retire_flight(ls_exchanger *self, ls_flight *flight) {
  ls_flight **at = &self->flights;
  while (*at != flight)
    at = &(*at)->next;
  *at = flight->next;
  flight->failed = INT64_MIN / 2;  // Long ago.
  drop_transfers(self, flight);
  ls_status_free(flight->failure);
  flight->failure = ls_ok();
  flight->next = self->spare_flights;
  self->spare_flights = flight;
  ++self->num_ended;
}

static void fail_flight(ls_exchanger *self, ls_flight *flight,
                        ls_status failure) {
  if (ls_status_is_ok(flight->failure)) flight->failed = ls_exchanger_now(self);
  flight->failure = ls_status_join(flight->failure, failure);
  drop_transfers(self, flight);
}

// Fails an exchange, and with it the communicator.
static void fail_all_for(ls_exchanger *self, ls_flight *flight,
                         ls_status failure) {
  if (ls_status_is_ok(failure)) return;
  fail_flight(self, flight, ls_status_clone(failure));
  ls_exchanger_fail(self, failure);
}

static bool is_over(const ls_flight *flight) {
  return flight->num_transfers == 0 &&
         (flight->num_awaited == 0 || !ls_status_is_ok(flight->failure));
}

// Makes room for a transfer, which counts once it is started.
static ls_status add_transfer(ls_exchanger *self, ls_flight *flight,
                              int32_t peer, bool sends,
                              ls_transfer **out_transfer) {
  if (!ls_grow(self->allocator, &flight->transfers, &flight->capacity,
               flight->num_transfers + 1, sizeof(*flight->transfers)))
    return ls_out_of_memory();
  ls_flying *added = &flight->transfers[flight->num_transfers];
  *added = (ls_flying){.peer = peer, .sends = sends};
  *out_transfer = &added->transfer;
  return ls_ok();
}

// ---- Sending ---------------------------------------------------------------
// Sends a message whose kind, name and data are set.
static ls_status send_message(ls_exchanger *self, int32_t to) {
  ls_message *message = &self->message;
  message->number = ++self->peers[to].sent;
  return self->wire->send(self->wire, to, message);
}

// Drops a failure to send: what could be done about it is under way.
void ls_exchanger_send_all(ls_exchanger *self, bool has_ended) {
  for (int32_t k = 0; k < self->base.ranks; ++k)
    if (k != self->base.rank && (has_ended || !self->peers[k].has_ended))
      ls_status_free(send_message(self, k));
}

// Copies the pieces that `from` sends to `to` into the data of a message or out
// of it, `inside`; NULL: starts transfers behind the message.
static ls_status move_pieces(ls_exchanger *self, ls_flight *flight,
                             const ls_message *message, char *inside,
                             int32_t from, int32_t to) {
  const ls_exchange *exchange = flight->exchange;
  const bool sends = from == self->base.rank;
  const int32_t peer = sends ? to : from;
  for (size_t i = 0; i < exchange->count; ++i) {
    const ls_exchange_piece *piece = &exchange->pieces[i];
    char *data = NULL;
    ls_transfer *transfer = NULL;
    if (!find_bytes(piece, from, to, &data) || piece->size == 0) continue;
    if (inside != NULL) {
      memcpy(sends ? inside : data, sends ? data : inside, piece->size);
      inside += piece->size;
      continue;
    }
    LS_RETURN_IF_ERROR(add_transfer(self, flight, peer, sends, &transfer));
    LS_RETURN_IF_ERROR(self->wire->move(self->wire, peer, sends, message, data,
                                        piece->size, transfer));
    ++flight->num_transfers;
  }
  return ls_ok();
}

static ls_status send_pieces(ls_exchanger *self, ls_flight *flight,
                             int32_t to) {
  const int32_t rank = self->base.rank;
  ls_message *message = &self->message;
  message->kind = LS_MESSAGE_EXCHANGE;
  message->name = flight->exchange->name;
  message->used = 0;
  if (measure_pieces(flight->exchange, rank, to, &message->size,
                     &message->shape) == 0)
    return ls_ok();
  if (message->size > LS_MESSAGE_ROOM) {
    LS_RETURN_IF_ERROR(send_message(self, to));
    return move_pieces(self, flight, message, NULL, rank, to);
  }
  message->used = (uint32_t)message->size;
  LS_RETURN_IF_ERROR(
      move_pieces(self, flight, message, message->data, rank, to));
  return send_message(self, to);
}

// ---- Receiving -------------------------------------------------------------
static ls_status check_shape(const ls_exchanger *self,
                             const ls_exchange *exchange,
                             const ls_message *message, int32_t from) {
  const int32_t rank = self->base.rank;
  uint64_t size = 0, shape = 0;
  measure_pieces(exchange, from, rank, &size, &shape);
  if (size != message->size || shape != message->shape)
    return ls_internal("rank %d expects %llu bytes of rank %d, which sends "
                       "%llu, or the same in other pieces",
                       rank, (unsigned long long)size, from,
                       (unsigned long long)message->size);
  if (message->size <= LS_MESSAGE_ROOM && message->used != message->size)
    return LS_STATUS(LS_DATA_LOSS,
                     "a message of rank %d has %u of %llu bytes left", from,
                     message->used, (unsigned long long)message->size);
  return ls_ok();
}

static void take_pieces(ls_exchanger *self, ls_flight *flight,
                        const ls_message *message, int32_t from) {
  flight->awaits[from] = false;
  --flight->num_awaited;
  flight->last = from;
  if (!ls_status_is_ok(flight->failure)) return;  // It touches no memory.
  ls_status status = check_shape(self, flight->exchange, message, from);
  char *inside = message->size <= LS_MESSAGE_ROOM
                     ? (char *)(uintptr_t)message->data
                     : NULL;
  if (ls_status_is_ok(status))
    status = move_pieces(self, flight, message, inside, from, self->base.rank);
  fail_all_for(self, flight, status);
}

static bool has_name(const ls_message *message, const ls_exchange_name *name) {
  return memcmp(&message->name, name, sizeof(*name)) == 0;
}

// Takes the messages for a new exchange that came before it.
static void take_earlies(ls_exchanger *self, ls_flight *flight) {
  for (ls_early **at = &self->earlies; *at != NULL;) {
    ls_early *early = *at;
    if (!flight->awaits[early->from] ||
        !has_name(&early->message, &flight->exchange->name)) {
      at = &early->next;
      continue;
    }
    take_pieces(self, flight, &early->message, early->from);
    *at = early->next;
    early->next = self->spare_earlies;
    self->spare_earlies = early;
  }
}

static ls_status keep_early(ls_exchanger *self, const ls_message *message,
                            int32_t from) {
  ls_early *early = self->spare_earlies;
  if (early != NULL)
    self->spare_earlies = early->next;
  else
    early = ls_new(self->allocator, ls_early);
  if (early == NULL) return ls_out_of_memory();
  ls_early **at = &self->earlies;
  while (*at != NULL)
    at = &(*at)->next;
  early->next = NULL;
  early->from = from;
  memcpy(&early->message, message, ls_message_size(message));
  *at = early;
  return ls_ok();
}

static ls_status handle_exchange(ls_exchanger *self, const ls_message *message,
                                 int32_t from) {
  // The list is in the order of the starts.
  for (ls_flight *flight = self->flights; flight != NULL; flight = flight->next)
    if (flight->awaits[from] && has_name(message, &flight->exchange->name)) {
      take_pieces(self, flight, message, from);
      return ls_ok();
    }
  return keep_early(self, message, from);
}

static void fail_for(ls_exchanger *self, int32_t origin, ls_status failure);

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
    const ls_status status = handle_exchange(self, message, from);
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

// ---- Proceeding ------------------------------------------------------------
// Fails an exchange that awaits a rank which has ended.
static void check_ended(ls_exchanger *self, ls_flight *flight) {
  for (int32_t k = 0; flight->num_awaited > 0 && k < self->base.ranks; ++k)
    if (flight->awaits[k] && self->peers[k].has_ended &&
        ls_status_is_ok(flight->failure))
      fail_all_for(self, flight,
                   LS_STATUS(LS_FAILED_PRECONDITION,
                             "rank %d waits for rank %d, which has ended",
                             self->base.rank, k));
}

static void test_transfers(ls_exchanger *self, ls_flight *flight) {
  size_t left = 0;
  ls_status status = ls_ok();
  for (size_t i = 0; i < flight->num_transfers; ++i) {
    const ls_flying each = flight->transfers[i];
    if (!ls_status_is_ok(status) ||
        !self->wire->test(self->wire, each.transfer, &status))
      flight->transfers[left++] = each;
  }
  flight->num_transfers = left;
  if (ls_status_is_ok(flight->failure)) {
    fail_all_for(self, flight, status);
  } else {
    ls_status_free(status);
    drop_transfers(self, flight);
  }
}

void ls_exchanger_proceed(ls_exchanger *self) {
  int32_t from = 0;
  bool has_ended = false;
  for (const ls_message *message = self->wire->next(self->wire, &from);
       message != NULL; message = self->wire->next(self->wire, &from))
    handle_message(self, message, from);
  for (ls_flight *flight = self->flights; flight != NULL;
       flight = flight->next) {
    if (flight->num_transfers > 0) test_transfers(self, flight);
    if (flight->num_awaited > 0) check_ended(self, flight);
    has_ended |= is_over(flight);
  }
  if (has_ended) ls_condition_broadcast(&self->changed);
}

// ---- The communicator ------------------------------------------------------
static void add_flight(ls_exchanger *self, ls_flight *flight,
                       ls_exchange *exchange) {
  uint64_t size = 0, shape = 0;
  flight->exchange = exchange;
  flight->num_awaited = 0;
  flight->last = -1;
  flight->waits = flight->is_logged = false;
  flight->next = NULL;
  for (int32_t k = 0; k < self->base.ranks; ++k) {
    flight->awaits[k] =
        measure_pieces(exchange, k, self->base.rank, &size, &shape) > 0;
    flight->num_awaited += flight->awaits[k];
  }
  ls_flight **at = &self->flights;
  while (*at != NULL)
    at = &(*at)->next;
  *at = flight;
}

// Notes that this thread makes exchanges.
static void note_thread(ls_exchanger *self) {
  const pthread_t thread = pthread_self();
  for (int i = 0; i < self->num_threads && i < LS_MOST_THREADS; ++i)
    if (pthread_equal(self->threads[i], thread)) return;
  if (self->num_threads < LS_MOST_THREADS)
    self->threads[self->num_threads] = thread;
  if (self->num_threads <= LS_MOST_THREADS) ++self->num_threads;
}

static ls_status start_exchange(ls_communicator *communicator,
                                ls_exchange *exchange) {
  ls_exchanger *self = (ls_exchanger *)communicator;
  ls_mutex_lock(&self->lock);
  // After a failure, other ranks may have dropped their pieces.
  ls_status status = ls_status_clone(self->failure);
  ls_flight *flight = ls_status_is_ok(status) ? make_flight(self) : NULL;
  if (flight == NULL && ls_status_is_ok(status)) status = ls_out_of_memory();
  exchange->state = flight;
  if (self->watches) note_thread(self);
  if (flight != NULL) {
    add_flight(self, flight, exchange);
    for (int32_t k = 0; ls_status_is_ok(status) && k < self->base.ranks; ++k)
      if (k != self->base.rank) status = send_pieces(self, flight, k);
    if (ls_status_is_ok(status))
      take_earlies(self, flight);
    else
      retire_flight(self, flight);
  }
  ls_mutex_unlock(&self->lock);
  return status;
}

static bool is_exchange_done(ls_communicator *communicator,
                             ls_exchange *exchange) {
  ls_exchanger *self = (ls_exchanger *)communicator;
  ls_mutex_lock(&self->lock);
  if (!self->has_leader) ls_exchanger_proceed(self);
  const bool is_done = is_over(exchange->state);
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
  if (flight != NULL && is_over(flight)) return;
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
    if (!is_over(flight)) fail_flight(self, flight, ls_status_clone(failure));
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

// Fails if an exchange has taken longer than its limit. Requires the lock.
static void check_limit(ls_exchanger *self, const ls_flight *flight) {
  const int64_t limit = flight->exchange->limit;
  if (limit <= 0 || is_over(flight) ||
      ls_exchanger_now(self) - flight->began < limit)
    return;
  int32_t rank = 0;
  while (rank + 1 < self->base.ranks && !flight->awaits[rank])
    ++rank;
  ls_exchanger_fail(
      self, LS_STATUS(LS_DEADLINE_EXCEEDED,
                      "rank %d has waited for rank %d for %.3g s, the time "
                      "limit of its collective",
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
  while (!is_over(flight)) {
    wait_a_while(self, flight, limit > 0 && limit < WHILE ? limit : WHILE);
    check_limit(self, flight);
    watch_meanwhile(self, &polls);
  }
  if (flight->last >= 0)
    __atomic_add_fetch(&self->waited_for[flight->last],
                       ls_exchanger_now(self) - flight->began,
                       __ATOMIC_RELAXED);
  ls_status status = ls_status_clone(flight->failure);
  retire_flight(self, flight);
  ls_mutex_unlock(&self->lock);
  return status;
}

static void cancel_all(ls_communicator *communicator, ls_status why) {
  ls_exchanger *self = (ls_exchanger *)communicator;
  ls_mutex_lock(&self->lock);
  ls_exchanger_fail(self,
                    ls_status_annotate(ls_status_clone(why), "on rank %d of %d",
                                       self->base.rank, self->base.ranks));
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
  for (ls_flight *at = self->spare_flights; at != NULL;) {
    ls_flight *next = at->next;
    ls_release(self->allocator, at->awaits);
    ls_release(self->allocator, at->transfers);
    ls_release(self->allocator, at);
    at = next;
  }
  ls_early *lists[] = {self->earlies, self->spare_earlies};
  for (size_t i = 0; i < LS_COUNT_OF(lists); ++i)
    for (ls_early *at = lists[i]; at != NULL;) {
      ls_early *next = at->next;
      ls_release(self->allocator, at);
      at = next;
    }
  for (int32_t k = 0; self->peers != NULL && k < self->base.ranks; ++k)
    ls_release(self->allocator, self->peers[k].place);
  ls_release(self->allocator, self->peers);
  ls_release(self->allocator, self->waited_for);
  ls_status_free(self->failure);
  ls_condition_deinit(&self->changed);
  ls_mutex_deinit(&self->services_lock);
  ls_mutex_deinit(&self->lock);
}
