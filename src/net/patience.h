// SPDX-License-Identifier: Apache-2.0
// Exchanges of threads beside a run.
#ifndef LS_NET_PATIENCE_H_
#define LS_NET_PATIENCE_H_

#include "lockstep/communicator.h"

// Makes an exchange, as ls_communicator_exchange does, on a thread that may
// wait for as long as other threads of this rank compile, read or compute. The
// rank does not count as waiting meanwhile.
LS_MUST_USE ls_status ls_communicator_exchange_in_background(
    ls_communicator *self, const ls_exchange_name *name,
    const ls_exchange_piece *pieces, size_t count);

#endif  // LS_NET_PATIENCE_H_
