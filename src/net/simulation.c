// SPDX-License-Identifier: Apache-2.0
//
// Simulation of ranks by a seed: one rank runs at a time, until it waits; time
// passes when all wait. Messages may be late, lost, repeated or cut, ranks may
// be stopped or die.
#include <string.h>

#include "base/runtime_internal.h"
#include "base/text.h"
#include "net/standin.h"

#define MILLIS INT64_C(1000000)

typedef struct rank_state {
  bool has_ended, is_dead;
  int64_t wake;   // Time until which the rank waits without news.
  int64_t until;  // Time until which it is stopped.
  int64_t *due;   // For each rank: arrival of the last message sent to it.
} rank_state;

struct ls_simulation {
  ls_standin *standin;
  ls_standin_faults faults;
  ls_clock clock;
  // Guarded by the lock of the stand-in.
  uint64_t random;
  int64_t now;
  int32_t turn;         // The rank that runs; -1: none yet.
  int32_t num_missing;  // Ranks that have not begun.
  int32_t num_faults;
  rank_state *ranks;
  int64_t *dues;
  ls_text log;
};

// ---- Chance ----------------------------------------------------------------
static uint64_t draw(ls_simulation *self) {
  uint64_t z = self->random += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

static bool happens(ls_simulation *self, int32_t millionths) {
  if (millionths <= 0) return false;
  const bool is_hit = draw(self) % 1000000 < (uint64_t)millionths;
  if (!is_hit ||
      (self->faults.most > 0 && self->num_faults >= self->faults.most))
    return false;
  ++self->num_faults;
  return true;
}

static int64_t draw_time(ls_simulation *self, int64_t most_ms) {
  return most_ms <= 0 ? 0
                      : (int64_t)(draw(self) % (uint64_t)(most_ms * MILLIS));
}

static double seconds(int64_t nanos) { return (double)nanos * 1e-9; }

// ---- Messages --------------------------------------------------------------
static void log_message(ls_simulation *self, int32_t to,
                        const ls_letter *letter, const char *fate) {
  ls_text_append_format(
      &self->log, "%.6f rank %d to %d: message %llu of kind %u%s\n",
      seconds(self->now), letter->from, to,
      (unsigned long long)letter->message.number, letter->message.kind, fate);
}

static ls_letter *copy_letter(ls_standin *standin, const ls_letter *letter) {
  ls_letter *copy = ls_allocate(standin->allocator, sizeof(*copy));
  if (copy == NULL) return NULL;
  copy->from = letter->from;
  copy->due = letter->due;
  memcpy(&copy->message, &letter->message, ls_message_size(&letter->message));
  return copy;
}

void ls_simulation_send(ls_simulation *self, int32_t to, ls_letter *letter) {
  rank_state *from = &self->ranks[letter->from];
  int64_t *due = &from->due[to];
  if (*due < self->now) *due = self->now;
  const char *fate = "";
  ls_letter *copy = NULL;
  if (from->is_dead) {
    ls_release(self->standin->allocator, letter);
    return;
  }
  if (happens(self, self->faults.lost)) {
    log_message(self, to, letter, ": lost");
    ls_release(self->standin->allocator, letter);
    return;
  }
  if (happens(self, self->faults.late)) {
    fate = ": late";
    *due += draw_time(self, self->faults.late_ms);
  }
  letter->due = *due;
  if (happens(self, self->faults.cut) && letter->message.used > 0) {
    fate = ": cut";
    letter->message.used = (uint32_t)(draw(self) % letter->message.used);
  }
  if (happens(self, self->faults.twice)) {
    fate = ": twice";
    copy = copy_letter(self->standin, letter);
  }
  log_message(self, to, letter, fate);
  ls_standin_deliver(self->standin, to, letter);
  if (copy != NULL) ls_standin_deliver(self->standin, to, copy);
}

bool ls_simulation_has_come(const ls_simulation *self,
                            const ls_letter *letter) {
  return letter->due <= self->now;
}

// ---- Turns -----------------------------------------------------------------
// Returns the time at which a rank can run next.
static int64_t find_next_time(const ls_simulation *self, int32_t rank) {
  const rank_state *state = &self->ranks[rank];
  const ls_rank_end *end = &self->standin->ends[rank];
  int64_t next = state->wake;
  if (end->has_news && end->inbox == NULL) next = self->now;
  for (const ls_letter *at = end->inbox; at != NULL; at = at->next)
    if (at->due < next) next = at->due;
  if (next < self->now) next = self->now;
  return next > state->until ? next : state->until;
}

// Gives the turn to a rank that can run, after as much time as that takes.
static void pass_turn(ls_simulation *self) {
  ls_standin *standin = self->standin;
  int64_t first = INT64_MAX;
  uint64_t count = 0;
  for (int32_t k = 0; k < standin->ranks; ++k) {
    if (self->ranks[k].has_ended) continue;
    const int64_t next = find_next_time(self, k);
    if (next < first) count = 0;
    count += next <= first;
    if (next < first) first = next;
  }
  if (count == 0) return;
  self->now = first;
  uint64_t chosen = draw(self) % count;
  for (int32_t k = 0; k < standin->ranks; ++k) {
    if (self->ranks[k].has_ended || find_next_time(self, k) > first) continue;
    if (chosen-- > 0) continue;
    self->turn = k;
    ls_condition_signal(&standin->ends[k].event);
    return;
  }
}

static void await_turn(ls_simulation *self, int32_t rank) {
  ls_standin *standin = self->standin;
  while (self->turn != rank)
    ls_condition_wait(&standin->ends[rank].event, &standin->lock);
}

// Lets a rank die: what it sends is dropped, and it learns of it.
static void kill_rank(ls_simulation *self, int32_t rank) {
  static const char reason[] = "killed by the simulation";
  ls_letter *letter = ls_new(self->standin->allocator, ls_letter);
  ls_text_append_format(&self->log, "%.6f rank %d: dies\n", seconds(self->now),
                        rank);
  self->ranks[rank].is_dead = true;
  if (letter == NULL) return;  // It goes on unheard.
  letter->from = rank;
  letter->due = self->now;
  letter->message.kind = LS_MESSAGE_CANCEL;
  letter->message.number = 1;
  letter->message.size = LS_CANCELLED;
  letter->message.shape = (uint64_t)rank;
  letter->message.used = sizeof(reason);
  memcpy(letter->message.data, reason, sizeof(reason));
  ls_standin_deliver(self->standin, rank, letter);
}

void ls_simulation_yield(ls_simulation *self, int32_t rank, int64_t nanos) {
  rank_state *state = &self->ranks[rank];
  state->wake = self->now + nanos;
  if (!state->is_dead && happens(self, self->faults.dies))
    kill_rank(self, rank);
  if (happens(self, self->faults.stops)) {
    state->until = self->now + draw_time(self, self->faults.stop_ms);
    ls_text_append_format(&self->log, "%.6f rank %d: stops for %.6f s\n",
                          seconds(self->now), rank,
                          seconds(state->until - self->now));
  }
  pass_turn(self);
  await_turn(self, rank);
}

void ls_simulation_begin(ls_simulation *self, int32_t rank) {
  ls_mutex_lock(&self->standin->lock);
  if (--self->num_missing == 0) pass_turn(self);
  await_turn(self, rank);
  ls_mutex_unlock(&self->standin->lock);
}

void ls_simulation_end(ls_simulation *self, int32_t rank, bool has_begun) {
  ls_mutex_lock(&self->standin->lock);
  self->ranks[rank].has_ended = true;
  if (has_begun || --self->num_missing == 0) pass_turn(self);
  ls_mutex_unlock(&self->standin->lock);
}

// ---- Life ------------------------------------------------------------------
static int64_t now(void *user) { return ((const ls_simulation *)user)->now; }

const ls_clock *ls_simulation_clock(const ls_simulation *self) {
  return self == NULL ? NULL : &self->clock;
}

ls_status ls_simulation_create(ls_standin *standin,
                               const ls_standin_faults *faults,
                               ls_simulation **out_simulation) {
  const size_t ranks = (size_t)standin->ranks;
  ls_simulation *self = ls_new(standin->allocator, ls_simulation);
  if (self == NULL) return ls_out_of_memory();
  *out_simulation = self;
  *self = (ls_simulation){.standin = standin,
                          .faults = *faults,
                          .clock = {.now = now, .user = self},
                          .random = faults->seed,
                          .turn = -1,
                          .num_missing = standin->ranks};
  ls_text_init(&self->log, standin->allocator);
  self->ranks = ls_new_array(standin->allocator, rank_state, ranks);
  self->dues = ls_new_array(standin->allocator, int64_t, ranks * ranks);
  if (self->ranks == NULL || self->dues == NULL) return ls_out_of_memory();
  for (size_t k = 0; k < ranks; ++k)
    self->ranks[k].due = self->dues + k * ranks;
  return ls_ok();
}

void ls_simulation_destroy(ls_simulation *self) {
  if (self == NULL) return;
  ls_allocator *allocator = self->standin->allocator;
  if (self->faults.log != NULL)
    self->faults.log(self->faults.log_user, ls_text_data(&self->log));
  ls_text_deinit(&self->log);
  ls_release(allocator, self->ranks);
  ls_release(allocator, self->dues);
  ls_release(allocator, self);
}
