// SPDX-License-Identifier: Apache-2.0
// Times that users give in seconds, as the clock counts.
#ifndef LS_BASE_NANOS_H_
#define LS_BASE_NANOS_H_

#include <stdint.h>

// At most 146 years, so that whoever gives INT64_MAX for "never" gets it: a
// moment of the clock can be added without overflow.
static inline int64_t ls_nanos_of_seconds(int64_t seconds) {
  const int64_t nanos = 1000000000, most = INT64_MAX / 2 / nanos;
  return (seconds < most ? seconds : most) * nanos;
}

#endif  // LS_BASE_NANOS_H_
