// SPDX-License-Identifier: Apache-2.0
// The one check of what must be a positive number.
#ifndef LS_ESTIMATOR_CONFIG_POSITIVE_H_
#define LS_ESTIMATOR_CONFIG_POSITIVE_H_

#include <stdint.h>

#include "lockstep/status.h"

// INVALID_ARGUMENT "NAME must be positive, got VALUE" unless it is.
LS_MUST_USE static inline ls_status ls_check_positive(const char *name,
                                                      int64_t value) {
  return value > 0 ? ls_ok()
                   : ls_invalid_argument("%s must be positive, got %lld", name,
                                         (long long)value);
}

#endif  // LS_ESTIMATOR_CONFIG_POSITIVE_H_
