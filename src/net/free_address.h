// SPDX-License-Identifier: Apache-2.0
// An address of this machine at which nobody listens now.
#ifndef LS_NET_FREE_ADDRESS_H_
#define LS_NET_FREE_ADDRESS_H_

#include "lockstep/status.h"

enum { LS_FREE_ADDRESS = 64 };

// "10.0.0.7:43210", of an interface that others reach if there is one, else of
// the loopback. The port was free a moment ago; nothing holds it.
//   LS_UNAVAILABLE  the system gives no port: its words.
LS_MUST_USE ls_status ls_net_free_address(char address[LS_FREE_ADDRESS]);

#endif  // LS_NET_FREE_ADDRESS_H_
