// SPDX-License-Identifier: Apache-2.0
//
// Simulation of ranks: one rank runs at a time, until it waits or uses the
// disk; time passes when all wait. Faults strike at events.
#include <string.h>

#include "base/disk.h"
#include "base/plain.h"
#include "base/require.h"
#include "base/text.h"
#include "net/standin.h"

#define MILLIS INT64_C(1000000)

typedef struct rank_state {
  ls_simulation *simulation;
  int32_t rank;
  bool has_ended, is_dead;
  pthread_t thread;
  int64_t wake;   // Time until which the rank waits without news.
  int64_t until;  // Time until which it is stopped.
  int64_t jump;   // Error of its wall clock.
  int64_t *due;   // For each rank: arrival of the last message sent to it.
  ls_clock clock;
  ls_disk_user disk;
  ls_file_system files;
} rank_state;

struct ls_simulation {
  ls_allocator *allocator;
  ls_simulation_options options;
  ls_disk disk;
  ls_text log;
  int64_t full_until;  // Time until which the disk is full.
  // Guarded by the lock of the stand-in.
  uint64_t random;
  int64_t now, num_events;
  // State of a run.
  ls_standin *standin;
  int64_t began;
  bool is_cut, is_stuck;  // The power was cut; the ranks did not end.
  int32_t turn;           // The rank that runs; -1: none yet.
  int32_t num_missing;    // Ranks that have not begun.
  rank_state *ranks;
  int64_t *dues;
};

static double seconds(int64_t nanos) { return (double)nanos * 1e-9; }

static uint64_t draw(ls_simulation *self) {
  uint64_t z = self->random += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

// ---- Faults ----------------------------------------------------------------
enum {
  FOR_ANY = 1 << LS_FAULT_KILL | 1 << LS_FAULT_POWER | 1 << LS_FAULT_STOP |
            1 << LS_FAULT_JUMP,
  FOR_MESSAGES = 1 << LS_FAULT_LATE | 1 << LS_FAULT_LOST | 1 << LS_FAULT_TWICE |
                 1 << LS_FAULT_CUT,
  FOR_READS = 1 << LS_FAULT_DISK,
  FOR_WRITES = FOR_READS | 1 << LS_FAULT_FULL,
};

const char *ls_fault_name(ls_fault_kind kind) {
  static const char *const names[LS_FAULT_KINDS] = {
      "late", "lost", "twice", "cut",  "disk",
      "full", "kill", "power", "stop", "jump"};
  return (unsigned)kind < LS_FAULT_KINDS ? names[kind] : "?";
}

// Lets a rank die: what it sends is dropped, the disk refuses its calls, and
// its exchanges fail.
static void kill_rank(ls_simulation *self, int32_t rank) {
  static const char reason[] = "killed by the simulation";
  rank_state *state = &self->ranks[rank];
  if (state->has_ended || state->is_dead) return;
  state->is_dead = state->disk.is_off = true;
  ls_letter *letter = ls_new(self->allocator, ls_letter);
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

static void kill_all(ls_simulation *self) {
  for (int32_t k = 0; k < self->standin->ranks; ++k)
    kill_rank(self, k);
}

static void strike(ls_simulation *self, ls_fault *fault, rank_state *state) {
  fault->event = self->num_events;
  fault->time = self->now;
  fault->rank = state->rank;
  ls_text_append_format(&self->log, "%.6f event %lld: fault %s of rank %d",
                        seconds(self->now), (long long)self->num_events,
                        ls_fault_name(fault->kind), state->rank);
  if (fault->nanos != 0)
    ls_text_append_format(&self->log, ", %.6f s", seconds(fault->nanos));
  ls_text_append_char(&self->log, '\n');
  if (fault->kind == LS_FAULT_KILL) kill_rank(self, state->rank);
  if (fault->kind == LS_FAULT_STOP) state->until = self->now + fault->nanos;
  if (fault->kind == LS_FAULT_JUMP) state->jump += fault->nanos;
  if (fault->kind == LS_FAULT_FULL) self->full_until = self->now + fault->nanos;
  if (fault->kind != LS_FAULT_POWER) return;
  self->is_cut = true;
  kill_all(self);
}

// Counts an event of a rank, and lets faults strike. Returns one of `kinds`;
// NULL if there is none. Faults for any event have happened then.
static ls_fault *take_event(ls_simulation *self, int32_t rank, unsigned kinds) {
  rank_state *state = &self->ranks[rank];
  if (state->is_dead) return NULL;
  ++self->num_events;
  self->now += 1000 + (int64_t)(draw(self) % 20000);
  for (size_t i = 0; i < self->options.num_faults && !state->is_dead; ++i) {
    ls_fault *fault = &self->options.faults[i];
    const unsigned kind = 1u << fault->kind;
    if (fault->event > 0 || fault->at > self->num_events ||
        !(kind & (kinds | FOR_ANY)))
      continue;
    strike(self, fault, state);
    if (kind & kinds) return fault;
  }
  return NULL;
}

// ---- Messages --------------------------------------------------------------
static void log_message(ls_simulation *self, int32_t to,
                        const ls_letter *letter) {
  ls_text_append_format(
      &self->log, "%.6f rank %d to %d: message %llu of kind %u\n",
      seconds(self->now), letter->from, to,
      (unsigned long long)letter->message.number, letter->message.kind);
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
  ls_fault *fault = take_event(self, letter->from, FOR_MESSAGES);
  const int kind = fault != NULL ? (int)fault->kind : LS_FAULT_KINDS;
  int64_t *due = &from->due[to];
  if (fault != NULL) fault->to = to;
  if (!from->is_dead) log_message(self, to, letter);
  if (from->is_dead || kind == LS_FAULT_LOST) {
    ls_release(self->standin->allocator, letter);
    return;
  }
  if (*due < self->now) *due = self->now;
  if (kind == LS_FAULT_LATE) *due += fault->nanos;
  letter->due = *due;
  if (kind == LS_FAULT_CUT && letter->message.used > 0)
    letter->message.used = (uint32_t)(draw(self) % letter->message.used);
  ls_letter *copy =
      kind == LS_FAULT_TWICE ? copy_letter(self->standin, letter) : NULL;
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

// Lets other ranks run; requires the lock.
static void switch_rank(ls_simulation *self, int32_t rank, int64_t nanos) {
  enum { LIMIT_S = 600 };
  self->ranks[rank].wake = self->now + nanos;
  if (!self->is_stuck && self->now - self->began > LIMIT_S * 1000 * MILLIS) {
    self->is_stuck = true;
    kill_all(self);
  }
  pass_turn(self);
  await_turn(self, rank);
}

void ls_simulation_yield(ls_simulation *self, int32_t rank, int64_t nanos) {
  (void)take_event(self, rank, 0);
  switch_rank(self, rank, nanos);
}

void ls_simulation_begin(ls_simulation *self, int32_t rank) {
  ls_mutex_lock(&self->standin->lock);
  self->ranks[rank].thread = pthread_self();
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

// ---- What a rank has -------------------------------------------------------
static int64_t get_now(void *user) {
  return ((const rank_state *)user)->simulation->now;
}

static int64_t get_wall(void *user) {
  enum { YEAR_2026 = 1767225600 };
  return YEAR_2026 * (1000 * MILLIS) + get_now(user) +
         ((const rank_state *)user)->jump;
}

static bool is_rank_thread(const rank_state *state) {
  return pthread_equal(pthread_self(), state->thread) != 0;
}

static void sleep_rank(void *user, int64_t nanos) {
  const rank_state *self = user;
  ls_exchanger *exchanger =
      &self->simulation->standin->ends[self->rank].exchanger;
  const int64_t until = get_now(user) + nanos;
  if (!is_rank_thread(self)) {
    ls_thread_sleep(MILLIS);
    return;
  }
  do
    ls_exchanger_rest(exchanger, until - get_now(user));
  while (get_now(user) < until);
}

static ls_disk_fate step_disk(void *user, bool writes, const char *verb,
                              const char *path) {
  rank_state *state = user;
  ls_simulation *self = state->simulation;
  ls_mutex_lock(&self->standin->lock);
  if (is_rank_thread(state)) switch_rank(self, state->rank, 0);
  if (writes && !state->is_dead)
    ls_text_append_format(&self->log, "%.6f rank %d: %s '%s'\n",
                          seconds(self->now), state->rank, verb, path);
  ls_fault *fault =
      take_event(self, state->rank, writes ? FOR_WRITES : FOR_READS);
  if (fault != NULL) ls_format(fault->path, sizeof(fault->path), "%s", path);
  const bool fails = fault != NULL && fault->kind == LS_FAULT_DISK;
  const bool is_full = writes && self->now < self->full_until;
  ls_mutex_unlock(&self->standin->lock);
  return fails ? LS_DISK_FAILS : is_full ? LS_DISK_IS_FULL : LS_DISK_DONE;
}

static rank_state *find_rank(const ls_communicator *rank) {
  const ls_rank_end *end = (ls_rank_end *)((const ls_exchanger *)rank)->wire;
  return &end->shared->simulation->ranks[end->rank];
}

void ls_simulation_set_rank(ls_communicator *rank,
                            ls_runtime_options *options) {
  const rank_state *state = find_rank(rank);
  options->communicator = rank;
  options->clock = &state->clock;
  options->file_system = &state->files;
  options->threads = 1;
  options->input_threads = LS_SOME(0);
}

bool ls_simulation_say(ls_communicator *rank, const char *text) {
  const rank_state *state = find_rank(rank);
  ls_simulation *self = state->simulation;
  ls_mutex_lock(&self->standin->lock);
  const bool lives = !state->is_dead;
  if (lives)
    ls_text_append_format(&self->log, "%.6f rank %d says: %s\n",
                          seconds(self->now), state->rank, text);
  ls_mutex_unlock(&self->standin->lock);
  return lives;
}

// ---- Life of a run ---------------------------------------------------------
const ls_clock *ls_simulation_clock(const ls_simulation *self, int32_t rank) {
  return self == NULL ? NULL : &self->ranks[rank].clock;
}

bool ls_simulation_is_dead(const ls_simulation *self, int32_t rank) {
  return self->ranks[rank].is_dead;
}

ls_status ls_simulation_attach(ls_simulation *self, ls_standin *standin) {
  const size_t ranks = (size_t)standin->ranks;
  self->standin = standin;
  self->began = self->now;
  self->is_cut = self->is_stuck = false;
  self->turn = -1;
  self->num_missing = standin->ranks;
  self->ranks = ls_new_array(self->allocator, rank_state, ranks);
  self->dues = ls_new_array(self->allocator, int64_t, ranks * ranks);
  if (self->ranks == NULL || self->dues == NULL) return ls_out_of_memory();
  for (size_t k = 0; k < ranks; ++k) {
    rank_state *state = &self->ranks[k];
    *state = (rank_state){
        .simulation = self,
        .rank = (int32_t)k,
        .due = self->dues + k * ranks,
        .clock = {get_now, get_wall, sleep_rank, state},
        .disk = {.disk = &self->disk, .step = step_disk, .user = state}};
    state->files = ls_disk_files(&state->disk);
  }
  return ls_ok();
}

void ls_simulation_detach(ls_simulation *self) {
  ls_release(self->allocator, self->ranks);
  ls_release(self->allocator, self->dues);
  self->ranks = NULL;
  self->dues = NULL;
  self->standin = NULL;
}

ls_status ls_simulation_run(ls_simulation *self, int32_t ranks,
                            ls_rank_function function, void *user) {
  LS_REQUIRE(self);
  ls_status status = ls_standin_run_in(self, ranks, function, user);
  if (self->is_stuck)
    status = ls_status_join(
        LS_STATUS(LS_DEADLINE_EXCEEDED,
                  "the ranks did not end within ten simulated minutes"),
        status);
  if (self->is_cut)
    status = ls_status_join(status,
                            ls_disk_cut(&self->disk, LS_DISK_SOME, draw(self)));
  return ls_status_join(status, ls_text_status(&self->log));
}

// ---- Life ------------------------------------------------------------------
ls_status ls_simulation_create(const ls_simulation_options *options,
                               ls_simulation **out_simulation) {
  LS_REQUIRE(out_simulation);
  *out_simulation = NULL;
  LS_REQUIRE(options);
  ls_allocator *allocator = ls_allocator_system();
  ls_simulation *self = *out_simulation = ls_new(allocator, ls_simulation);
  if (self == NULL) return ls_out_of_memory();
  *self = (ls_simulation){
      .allocator = allocator, .options = *options, .random = options->seed};
  ls_text_init(&self->log, allocator);
  ls_disk_init(&self->disk, allocator);
  for (size_t i = 0; i < options->num_faults; ++i) {
    options->faults[i].event = 0;
    options->faults[i].to = -1;
    options->faults[i].path[0] = '\0';
  }
  return ls_ok();
}

void ls_simulation_destroy(ls_simulation *self) {
  if (self == NULL) return;
  ls_text_deinit(&self->log);
  ls_disk_deinit(&self->disk);
  ls_release(self->allocator, self);
}

void ls_simulation_wait(ls_simulation *self, int64_t nanos) {
  self->now += nanos;
}

void ls_simulation_note(ls_simulation *self, const char *text) {
  ls_text_append_format(&self->log, "%.6f %s\n", seconds(self->now), text);
}

const char *ls_simulation_log(const ls_simulation *self) {
  return ls_text_data(&self->log);
}

int64_t ls_simulation_events(const ls_simulation *self) {
  return self->num_events;
}

int64_t ls_simulation_now(const ls_simulation *self) { return self->now; }

const char *ls_simulation_file(const ls_simulation *self, const char *path,
                               size_t *out_size) {
  const ls_text *found = ls_disk_find(&self->disk, path);
  *out_size = found == NULL ? 0 : found->size;
  return found == NULL ? NULL : ls_text_data(found);
}
