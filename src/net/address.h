// SPDX-License-Identifier: Apache-2.0
// Finds an address for a new connection to listen on.
#ifndef LS_NET_ADDRESS_H_
#define LS_NET_ADDRESS_H_

#include "lockstep/status.h"

enum { LS_FREE_ADDRESS = 64 };

// Writes "10.0.0.7:43210": an interface that other machines reach if there is
// one, else the loopback. The port is free at the moment, but not reserved.
//   LS_UNAVAILABLE  the system has no free port; with its message.
LS_MUST_USE ls_status ls_net_free_address(char address[LS_FREE_ADDRESS]);

#endif  // LS_NET_ADDRESS_H_
