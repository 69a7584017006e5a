// SPDX-License-Identifier: Apache-2.0
//
// Exchanges under way: which bytes of which message belong to which piece.
#include <string.h>

#include "base/memory/list.h"
#include "net/exchanger.h"

// A message that came before its exchange was started.
struct ls_early {
  ls_early *next;
  int32_t from;
  ls_message message;
};

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

void ls_flight_retire(ls_exchanger *self, ls_flight *flight) {
  LS_UNLINK(&self->flights, flight, next);
  flight->failed = INT64_MIN / 2;  // Long ago.
  drop_transfers(self, flight);
  ls_status_free(flight->failure);
  flight->failure = ls_ok();
  flight->next = self->spare_flights;
  self->spare_flights = flight;
  ++self->num_ended;
}

void ls_flight_fail(ls_exchanger *self, ls_flight *flight, ls_status failure) {
  if (ls_status_is_ok(flight->failure)) flight->failed = ls_exchanger_now(self);
  flight->failure = ls_status_join(flight->failure, failure);
  drop_transfers(self, flight);
}

// Fails an exchange, and with it the communicator.
static void fail_all_for(ls_exchanger *self, ls_flight *flight,
                         ls_status failure) {
  if (ls_status_is_ok(failure)) return;
  ls_flight_fail(self, flight, ls_status_clone(failure));
  ls_exchanger_fail(self, failure);
}

bool ls_flight_is_over(const ls_flight *flight) {
  return flight->num_transfers == 0 &&
         (flight->num_awaited == 0 || !ls_status_is_ok(flight->failure));
}

bool ls_flight_waits_for(const ls_flight *flight, int32_t rank) {
  bool moves = false;
  for (size_t i = 0; i < flight->num_transfers; ++i)
    moves |= flight->transfers[i].peer == rank;
  return flight->num_awaited > 0 ? flight->awaits[rank] : moves;
}

// Makes room for a transfer, which counts once it is started.
static ls_status add_transfer(ls_exchanger *self, ls_flight *flight,
                              int32_t peer, bool sends,
                              ls_transfer **out_transfer) {
  LS_RETURN_IF_NO_MEMORY(LS_GROW(self->allocator, flight->transfers,
                                 flight->capacity, flight->num_transfers + 1));
  ls_flying *added = &flight->transfers[flight->num_transfers];
  *added = (ls_flying){.peer = peer, .sends = sends};
  *out_transfer = &added->transfer;
  return ls_ok();
}

// ---- Sending ---------------------------------------------------------------
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
    LS_RETURN_IF_ERROR(ls_exchanger_send(self, to));
    return move_pieces(self, flight, message, NULL, rank, to);
  }
  message->used = (uint32_t)message->size;
  LS_RETURN_IF_ERROR(
      move_pieces(self, flight, message, message->data, rank, to));
  return ls_exchanger_send(self, to);
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

ls_status ls_flights_take(ls_exchanger *self, const ls_message *message,
                          int32_t from) {
  // The list is in the order of the starts.
  for (ls_flight *flight = self->flights; flight != NULL; flight = flight->next)
    if (flight->awaits[from] && has_name(message, &flight->exchange->name)) {
      take_pieces(self, flight, message, from);
      return ls_ok();
    }
  return keep_early(self, message, from);
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

bool ls_flights_proceed(ls_exchanger *self) {
  bool has_ended = false;
  for (ls_flight *flight = self->flights; flight != NULL;
       flight = flight->next) {
    if (flight->num_transfers > 0) test_transfers(self, flight);
    if (flight->num_awaited > 0) check_ended(self, flight);
    has_ended |= ls_flight_is_over(flight);
  }
  return has_ended;
}

// ---- Life ------------------------------------------------------------------
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

ls_status ls_flight_start(ls_exchanger *self, ls_exchange *exchange) {
  ls_flight *flight = make_flight(self);
  ls_status status = ls_ok();
  exchange->state = flight;
  LS_RETURN_IF_NO_MEMORY(flight);
  add_flight(self, flight, exchange);
  for (int32_t k = 0; ls_status_is_ok(status) && k < self->base.ranks; ++k)
    if (k != self->base.rank) status = send_pieces(self, flight, k);
  if (ls_status_is_ok(status))
    take_earlies(self, flight);
  else
    ls_flight_retire(self, flight);
  return status;
}

void ls_flights_deinit(ls_exchanger *self) {
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
}
