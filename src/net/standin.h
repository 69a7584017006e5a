// SPDX-License-Identifier: Apache-2.0
//
// The stand-in: ranks as threads of one process, with a wire in memory.
// simulation.c decides, in a simulation, when a message arrives and which rank
// runs.
#ifndef LS_NET_STANDIN_H_
#define LS_NET_STANDIN_H_

#include "base/threads/worker.h"
#include "lockstep/simulation.h"
#include "net/exchanger.h"

// A message on its way.
typedef struct ls_letter {
  struct ls_letter *next;
  int32_t from;
  int64_t due;  // Simulated time of its arrival.
  ls_message message;
} ls_letter;

typedef struct ls_standin ls_standin;
typedef struct ls_parcel ls_parcel;

// The wire of one rank.
typedef struct ls_rank_end {
  ls_wire wire;
  ls_exchanger exchanger;
  ls_standin *shared;
  int32_t rank;
  ls_worker worker;
  ls_rank_function function;
  void *user;
  // Guarded by the lock of all.
  ls_condition event;
  bool has_news;
  ls_letter *inbox, **inbox_end;
  ls_letter *taken;  // The message that was returned last.
} ls_rank_end;

struct ls_standin {
  ls_allocator *allocator;
  int32_t ranks;
  ls_rank_end *ends;
  ls_simulation *simulation;  // NULL: time is real and messages arrive.
  ls_mutex lock;              // Guards the fields below, and the inboxes.
  ls_parcel *parcels;  // Data of which one side is missing, oldest first.
  ls_status failure;   // First failure of a rank.
};

// Puts a letter, which is then owned, into a rank's inbox. Requires the lock.
void ls_standin_deliver(ls_standin *self, int32_t to, ls_letter *letter);

// Runs ranks, in a simulation if one is given.
LS_MUST_USE ls_status ls_standin_run_in(ls_simulation *simulation,
                                        int32_t ranks,
                                        ls_rank_function function, void *user);

// ---- The simulation --------------------------------------------------------
// Begins and ends a run; after a failure of attach, detach is still needed.
LS_MUST_USE ls_status ls_simulation_attach(ls_simulation *self,
                                           ls_standin *standin);
void ls_simulation_detach(ls_simulation *self);
// Returns a rank's clock; NULL without a simulation.
const struct ls_clock *ls_simulation_clock(const ls_simulation *self,
                                           int32_t rank);
bool ls_simulation_is_dead(const ls_simulation *self, int32_t rank);
// Sends a letter, which is then owned: late, never, twice or cut. Requires the
// lock, as the next two do.
void ls_simulation_send(ls_simulation *self, int32_t to, ls_letter *letter);
// Returns true if a letter has arrived by now.
bool ls_simulation_has_come(const ls_simulation *self, const ls_letter *letter);
// Lets other ranks run; returns when the rank has news or `nanos` have passed,
// and it is its turn.
void ls_simulation_yield(ls_simulation *self, int32_t rank, int64_t nanos);
// Waits until it is the rank's turn, for the first time.
void ls_simulation_begin(ls_simulation *self, int32_t rank);
// Takes a rank out; without a thread it has not begun.
void ls_simulation_end(ls_simulation *self, int32_t rank, bool has_begun);

#endif  // LS_NET_STANDIN_H_
