// SPDX-License-Identifier: Apache-2.0
//
// The time limit of exchanges of the runs that a thread starts.
#ifndef LS_NET_LIMIT_H_
#define LS_NET_LIMIT_H_

#include <stdint.h>

// Returns the limit in nanoseconds; 0: none.
int64_t ls_exchange_limit(void);
// Sets the limit, and returns the one before.
int64_t ls_exchange_limit_set(int64_t nanos);

#endif  // LS_NET_LIMIT_H_
