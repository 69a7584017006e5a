// SPDX-License-Identifier: Apache-2.0
//
// Watching: a rank beats twice a second, which tells others that it lives,
// if it moves, and where it is. A rank that is not heard for long is lost;
// one that is heard may take any time, unless nothing moves on any rank.
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/plain.h"
#include "base/runtime_internal.h"
#include "base/text.h"
#include "base/threads/locked.h"
#include "net/exchanger.h"

#define MILLIS INT64_C(1000000)

enum { BEAT_MS = 500, LOST_MS = 4500, SLOW_MS = 10000 };

// Flags of a beat: the first byte of its data, in front of the place.
enum { GOES_ON = 1, WAITS = 2 };

// ---- Services --------------------------------------------------------------
void ls_exchanger_attach(ls_communicator *communicator,
                         const ls_rank_services *services) {
  ls_exchanger *self = (ls_exchanger *)communicator;
  ls_mutex_lock(&self->services_lock);
  self->services = services != NULL ? *services : (ls_rank_services){0};
  ls_mutex_unlock(&self->services_lock);
}

static void describe(ls_exchanger *self, char place[LS_PLACE_ROOM]) {
  ls_mutex_lock(&self->services_lock);
  place[0] = '\0';
  if (self->services.describe != NULL)
    self->services.describe(self->services.user, place, LS_PLACE_ROOM);
  ls_mutex_unlock(&self->services_lock);
}

// Returns true if the process computes while no thread waits for other ranks:
// it compiles, reads data, or is in code of its own.
static bool computes(ls_exchanger *self) {
  struct timespec time = {0};
  bool waits = false;
  if (!self->is_measured) return false;
  (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  const int64_t used = time.tv_sec * 1000 * MILLIS + time.tv_nsec;
  const bool is_busy = used - self->used > BEAT_MS * MILLIS / 10;
  self->used = used;
  for (const ls_flight *at = self->flights; at != NULL; at = at->next)
    waits |= at->waits;
  return is_busy && !waits;
}

static bool goes_on(ls_exchanger *self) {
  const uint64_t ended = self->num_ended;
  bool found = ended != self->ended_seen;
  self->ended_seen = ended;
  if (computes(self)) found = true;
  ls_mutex_lock(&self->services_lock);
  const ls_rank_services *services = &self->services;
  if (services->goes_on != NULL &&
      services->goes_on(services->user, &self->services_seen))
    found = true;
  ls_mutex_unlock(&self->services_lock);
  return found;
}

static int64_t get_stall(ls_exchanger *self) {
  return LS_LOCKED(&self->services_lock, self->services.stall);
}

// ---- Beats -----------------------------------------------------------------
static void forget_ended_threads(ls_exchanger *self) {
  for (int i = self->num_threads; i-- > 0;)
    if (syscall(SYS_tgkill, getpid(), self->threads[i], 0) != 0)
      self->threads[i] = self->threads[--self->num_threads];
}

// Returns true if every thread that makes exchanges waits for one.
static bool all_wait(const ls_exchanger *self) {
  int waiting = 0;
  for (const ls_flight *at = self->flights; at != NULL; at = at->next) {
    if (at->exchange->in_background) return false;
    waiting += at->waits;
  }
  return self->num_threads > 0 && self->num_threads < LS_MOST_THREADS &&
         waiting >= self->num_threads;
}

static void send_beats(ls_exchanger *self, bool moves) {
  ls_message *message = &self->message;
  const size_t size = strlen(self->place) + 1;
  message->kind = LS_MESSAGE_BEAT;
  message->data[0] =
      (char)((moves ? GOES_ON : 0) | (all_wait(self) ? WAITS : 0));
  memcpy(message->data + 1, self->place, size);
  message->used = (uint32_t)size + 1;
  ls_exchanger_send_all(self, false);
}

void ls_exchanger_take_beat(ls_exchanger *self, int32_t from,
                            const ls_message *message) {
  ls_peer *peer = &self->peers[from];
  if (message->used < 2 || message->used > LS_PLACE_ROOM + 1) return;
  if (message->data[0] & GOES_ON) peer->moved = peer->heard;
  peer->waits = (message->data[0] & WAITS) != 0;
  if (peer->place == NULL)
    peer->place = ls_allocate(self->allocator, LS_PLACE_ROOM);
  if (peer->place == NULL) return;  // It is missing from the table then.
  memcpy(peer->place, message->data + 1, message->used - 1);
  peer->place[message->used - 2] = '\0';
}

// ---- Judging ---------------------------------------------------------------
// Appends "rank 2 (host b)".
static void name_rank(const ls_exchanger *self, int32_t rank, ls_text *text) {
  const ls_communicator *base = &self->base;
  ls_text_append_format(text, "rank %d", rank);
  if (base->host != NULL)
    ls_text_append_format(text, " (host %s)", base->host(base, rank));
}

// Appends where a rank is, or was last.
static void append_place(const ls_exchanger *self, int32_t rank,
                         ls_text *text) {
  const char *place =
      rank == self->base.rank ? self->place : self->peers[rank].place;
  const bool is_known = place != NULL && place[0] != '\0';
  name_rank(self, rank, text);
  ls_text_append_format(text, is_known ? ":\n%s" : ": no run\n", place);
}

// Fails the communicator for one of its ranks, or for all: -1.
static void fail_for(ls_exchanger *self, ls_code code, const char *reason,
                     int32_t rank) {
  ls_text text = {.allocator = self->allocator};
  for (int32_t k = 0; k < self->base.ranks; ++k)
    if (rank < 0 || k == rank) append_place(self, k, &text);
  ls_exchanger_fail(self, LS_STATUS(code, "%s; the last place%s:\n%s", reason,
                                    rank < 0 ? "s" : "", ls_text_data(&text)));
  ls_text_deinit(&text);
}

static void find_lost(ls_exchanger *self, int64_t now) {
  for (int32_t k = 0; k < self->base.ranks; ++k) {
    const ls_peer *peer = &self->peers[k];
    if (k == self->base.rank || peer->has_ended ||
        now - peer->heard < LOST_MS * MILLIS)
      continue;
    ls_text text = {.allocator = self->allocator};
    name_rank(self, k, &text);
    ls_text_append_format(&text, " is lost: nothing was heard of it for %.1f s",
                          (double)(now - peer->heard) * 1e-9);
    self->peers[k].gave_up = now;
    fail_for(self, LS_UNAVAILABLE, ls_text_data(&text), k);
    ls_text_deinit(&text);
    return;
  }
}

// Finds out if nothing moves on any rank. Ranks that all wait for each other
// will not move again, so less patience does.
static void find_stall(ls_exchanger *self, int64_t now) {
  const int64_t stall = get_stall(self);
  int64_t moved = self->moved, began = INT64_MAX;
  bool is_closed = all_wait(self);
  for (int32_t k = 0; k < self->base.ranks; ++k) {
    const ls_peer *peer = &self->peers[k];
    if (k == self->base.rank || peer->has_ended) continue;
    if (peer->moved > moved) moved = peer->moved;
    is_closed &= peer->waits;
  }
  for (const ls_flight *at = self->flights; at != NULL; at = at->next)
    if (at->waits && at->began < began) began = at->began;
  if (began == INT64_MAX) return;
  if (began > moved) moved = began;
  const int64_t limit = is_closed ? stall / 3 : stall;
  if (stall <= 0 || now - moved < limit) return;
  char reason[120];
  ls_format(reason, sizeof(reason),
            "%s for %.3g s: this ends the wait of rank %d",
            is_closed ? "all ranks wait for each other"
                      : "nothing has moved on any rank",
            (double)(now - moved) * 1e-9, self->base.rank);
  fail_for(self, LS_DEADLINE_EXCEEDED, reason, -1);
}

// Describes an exchange that takes long, each once.
static void describe_slow(ls_exchanger *self, int64_t now, ls_text *text) {
  ls_flight *flight = self->flights;
  while (flight != NULL && (!flight->waits || flight->is_logged ||
                            now - flight->began < SLOW_MS * MILLIS))
    flight = flight->next;
  if (flight == NULL) return;
  ls_text_append_format(text, "rank %d has waited %d s for ", self->base.rank,
                        SLOW_MS / 1000);
  for (int32_t k = 0; k < self->base.ranks; ++k)
    if (ls_flight_waits_for(flight, k)) append_place(self, k, text);
  flight->is_logged = true;
}

// Logs a text, if there is one. Called without the lock, which what the user
// does with a line may need.
static void log_text(ls_exchanger *self, const ls_text *text) {
  ls_mutex_lock(&self->services_lock);
  if (self->services.log != NULL && text->size > 0)
    self->services.log(self->services.user, ls_text_data(text));
  ls_mutex_unlock(&self->services_lock);
}

// ---- Time ------------------------------------------------------------------
// Returns true if it is time to beat.
static bool is_due(ls_exchanger *self) {
  ls_mutex_lock(&self->lock);
  const int64_t now = ls_exchanger_now(self);
  const bool is_due = now - self->beaten >= BEAT_MS * MILLIS;
  // Whoever was stopped for a while has heard nobody meanwhile.
  if (now - self->watched > 2 * BEAT_MS * MILLIS)
    for (int32_t k = 0; k < self->base.ranks; ++k)
      self->peers[k].heard = now;
  self->watched = now;
  if (is_due) self->beaten = now;
  ls_mutex_unlock(&self->lock);
  return is_due;
}

void ls_exchanger_watch(ls_exchanger *self) {
  char place[LS_PLACE_ROOM];
  ls_text slow = {.allocator = self->allocator};
  if (!is_due(self)) return;
  describe(self, place);
  ls_mutex_lock(&self->lock);
  memcpy(self->place, place, strlen(place) + 1);
  const int64_t now = ls_exchanger_now(self);
  const bool moves = goes_on(self);
  forget_ended_threads(self);
  if (moves) self->moved = now;
  send_beats(self, moves);
  if (ls_status_is_ok(self->failure)) {
    find_lost(self, now);
    find_stall(self, now);
    describe_slow(self, now, &slow);
  }
  ls_mutex_unlock(&self->lock);
  log_text(self, &slow);
  ls_text_deinit(&slow);
}

static bool has_transfers(const ls_exchanger *self) {
  for (const ls_flight *at = self->flights; at != NULL; at = at->next)
    if (at->num_transfers > 0 || at->num_awaited > 0) return true;
  return false;
}

static void watch_all(void *user) {
  ls_exchanger *self = user;
  while (!ls_worker_is_stopped(&self->worker)) {
    ls_mutex_lock(&self->lock);
    if (!self->has_leader) ls_exchanger_proceed(self);
    const bool is_busy = has_transfers(self) && !self->has_leader;
    ls_mutex_unlock(&self->lock);
    ls_exchanger_watch(self);
    ls_worker_rest(&self->worker, is_busy ? MILLIS / 5 : 50 * MILLIS);
  }
}

ls_status ls_exchanger_start_worker(ls_exchanger *self) {
  if (!self->watches) return ls_ok();
  self->is_measured = true;
  return ls_worker_start(&self->worker, "ranks", NULL, watch_all, self);
}
