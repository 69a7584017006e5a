// SPDX-License-Identifier: Apache-2.0
//
// Exchanger: the communicator of a rank, over any wire (wire.h).
//
// Each pair of ranks that exchanges pieces sends one message, whose name says
// to which exchange it belongs. A message that comes before its exchange was
// started here is kept; so ranks need not start exchanges in the same order.
//
// Whoever waits proceeds: of the threads of a rank that wait, one leads, and
// handles what comes for all. While nobody waits, a worker of the exchanger
// does so, if it has one.
#ifndef LS_NET_EXCHANGER_H_
#define LS_NET_EXCHANGER_H_

#include <sys/types.h>

#include "base/memory/allocator.h"
#include "base/threads/worker.h"
#include "net/wire.h"

struct ls_clock;

// Room for the text that describes where a rank is.
enum { LS_PLACE_ROOM = LS_MESSAGE_ROOM - 8 };

// Rank as this one sees it. Times are the clock's.
typedef struct ls_peer {
  uint64_t sent, received;  // Numbers of messages.
  bool has_ended;
  int64_t gave_up;  // Time since when it exchanges nothing; 0: it does.
  int64_t heard;    // Time of its last message.
  int64_t moved;    // Time of its last beat that told of progress.
  bool waits;       // All its threads that make exchanges wait.
  char *place;      // Text of its last beat; NULL: there was none.
} ls_peer;

// Data under way to another rank, or from it.
typedef struct ls_flying {
  ls_transfer transfer;
  int32_t peer;
  bool sends;
} ls_flying;

// An exchange under way.
typedef struct ls_flight {
  struct ls_flight *next;
  ls_exchange *exchange;
  bool *awaits;  // For each rank: its message has not come.
  int32_t num_awaited;
  int32_t last;  // The rank whose message came last; -1: none.
  ls_flying *transfers;
  size_t num_transfers, capacity;
  ls_status failure;
  int64_t failed;  // Time of its failure.
  bool waits;      // A thread waits for it, since `began`.
  bool is_logged;
  int64_t began;
} ls_flight;

typedef struct ls_early ls_early;

enum { LS_MOST_THREADS = 64 };

typedef struct ls_exchanger_options {
  int32_t rank, ranks;
  const struct ls_clock *clock;  // NULL: the system's.
  // Beats, so that other ranks know that this one lives, and judges others. All
  // ranks do or none.
  bool watches;
} ls_exchanger_options;

typedef struct ls_exchanger {
  ls_communicator base;  // Filled but for `host`.
  ls_wire *wire;
  ls_allocator *allocator;
  const struct ls_clock *clock;
  int64_t *waited_for;
  bool watches;
  ls_worker worker;  // Not started: there is none.
  // Held while services are called; taken after `lock`.
  ls_mutex services_lock;
  ls_rank_services services;  // Zeroed: there are none.
  uint64_t services_seen;
  ls_mutex lock;         // Guards the fields below.
  ls_condition changed;  // Signalled when an exchange ends, or the leader goes.
  bool has_leader;
  ls_peer *peers;
  ls_flight *flights, *spare_flights;  // Exchanges under way.
  ls_early *earlies, *spare_earlies;   // Messages before their exchange.
  ls_message message;                  // To be sent.
  ls_status failure;                   // First failure.
  // Ids of the threads that have started exchanges and live.
  pid_t threads[LS_MOST_THREADS];
  int num_threads;
  uint64_t num_ended, ended_seen;  // Exchanges that have ended.
  int64_t moved, beaten, watched;  // Times of this rank.
  int64_t used;                    // Processor time of the last beat,
  bool is_measured;  //   if a worker beats; else time may be simulated.
  char place[LS_PLACE_ROOM];  // This rank's.
} ls_exchanger;

// Initializes a rank's communicator over a wire, which is lent. After a failure
// deinit is still needed.
LS_MUST_USE ls_status ls_exchanger_init(ls_exchanger *self, ls_wire *wire,
                                        const ls_exchanger_options *options);
// Tells the others that this rank ends. Returns the failure of the
// communicator, if there was one.
ls_status ls_exchanger_end(ls_exchanger *self);
// Waits until all others have ended, too.
//   LS_UNAVAILABLE  after a failure, a rank has not ended for 5 seconds.
LS_MUST_USE ls_status ls_exchanger_meet(ls_exchanger *self);
// Waits for `nanos`, or until something has happened.
void ls_exchanger_rest(ls_exchanger *self, int64_t nanos);
void ls_exchanger_deinit(ls_exchanger *self);

// ---- Watching (watch.c) ----------------------------------------------------
// Beats and judges if it is time to. Called without the lock.
void ls_exchanger_watch(ls_exchanger *self);
// Takes another rank's beat. Requires the lock.
void ls_exchanger_take_beat(ls_exchanger *self, int32_t from,
                            const ls_message *message);
// Starts a thread that proceeds and watches, if this rank watches; without it
// waits do so. The other ranks must be there.
LS_MUST_USE ls_status ls_exchanger_start_worker(ls_exchanger *self);
void ls_exchanger_attach(ls_communicator *communicator,
                         const ls_rank_services *services);

// ---- Exchanges under way (flights.c); all require the lock -----------------
// Starts an exchange; sets its state.
LS_MUST_USE ls_status ls_flight_start(ls_exchanger *self,
                                      ls_exchange *exchange);
// Ends an exchange that is over, or could not be started.
void ls_flight_retire(ls_exchanger *self, ls_flight *flight);
// Fails an exchange; its memory is the caller's once it is over.
void ls_flight_fail(ls_exchanger *self, ls_flight *flight, ls_status failure);
bool ls_flight_is_over(const ls_flight *flight);
// Returns true if an exchange waits for a message of a rank or, once it has all
// of them, for data to or from it.
bool ls_flight_waits_for(const ls_flight *flight, int32_t rank);
// Takes a message of an exchange, or keeps it until that is started.
LS_MUST_USE ls_status ls_flights_take(ls_exchanger *self,
                                      const ls_message *message, int32_t from);
// Finds out what has ended. Returns true if an exchange is over.
bool ls_flights_proceed(ls_exchanger *self);
void ls_flights_deinit(ls_exchanger *self);

// ---- For the other files; all require the lock -----------------------------
int64_t ls_exchanger_now(const ls_exchanger *self);
// Handles all that has come.
void ls_exchanger_proceed(ls_exchanger *self);
// Sends `self->message`, whose kind, name and data are set.
LS_MUST_USE ls_status ls_exchanger_send(ls_exchanger *self, int32_t to);
// Sends it to all ranks that have not ended, or to those that have ended, too:
// they wait for this one's end.
void ls_exchanger_send_all(ls_exchanger *self, bool has_ended);
// Sets the failure of the communicator, which is then owned, and tells all
// ranks that this one gives up. The first failure stays.
void ls_exchanger_fail(ls_exchanger *self, ls_status failure);

#endif  // LS_NET_EXCHANGER_H_
