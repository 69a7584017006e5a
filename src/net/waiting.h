// SPDX-License-Identifier: Apache-2.0
// How long threads wait for exchanges.
#ifndef LS_NET_WAITING_H_
#define LS_NET_WAITING_H_

#include "lockstep/communicator.h"

// Returns the time limit in nanoseconds of the exchanges of runs that this
// thread starts; 0: none.
int64_t ls_exchange_limit(void);
// Sets the limit, and returns the one before.
int64_t ls_exchange_limit_set(int64_t nanos);

// Makes an exchange, as ls_communicator_exchange does, on a thread that may
// wait for as long as other threads of this rank compile, read or compute. The
// rank does not count as waiting meanwhile.
LS_MUST_USE ls_status ls_communicator_exchange_in_background(
    ls_communicator *self, const ls_exchange_name *name,
    const ls_exchange_piece *pieces, size_t count);

#endif  // LS_NET_WAITING_H_
