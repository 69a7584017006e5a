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

#include "base/memory/allocator.h"
#include "base/threads/worker.h"
#include "net/wire.h"

struct ls_clock;

// Rank as others see it.
typedef struct ls_peer {
  uint64_t sent, received;  // Numbers of messages.
  bool has_ended;
} ls_peer;

typedef struct ls_flight ls_flight;
typedef struct ls_early ls_early;

typedef struct ls_exchanger {
  ls_communicator base;  // Filled but for `host`.
  ls_wire *wire;
  ls_allocator *allocator;
  const struct ls_clock *clock;
  int64_t *waited_for;
  ls_mutex lock;         // Guards the fields below.
  ls_condition changed;  // Signalled when an exchange ends, or the leader goes.
  bool has_leader;
  ls_peer *peers;
  ls_flight *flights, *spare_flights;  // Exchanges under way.
  ls_early *earlies, *spare_earlies;   // Messages before their exchange.
  ls_message message;                  // To be sent.
  ls_status failure;                   // First failure.
} ls_exchanger;

// Initializes the communicator of rank `rank` of `ranks` over a wire, which is
// lent. After a failure deinit is still needed.
LS_MUST_USE ls_status ls_exchanger_init(ls_exchanger *self, ls_wire *wire,
                                        int32_t rank, int32_t ranks);
// Tells the others that this rank ends. Returns the failure of the
// communicator, if there was one.
ls_status ls_exchanger_end(ls_exchanger *self);
void ls_exchanger_deinit(ls_exchanger *self);

#endif  // LS_NET_EXCHANGER_H_
