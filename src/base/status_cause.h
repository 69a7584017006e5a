// SPDX-License-Identifier: Apache-2.0
// The cause of a failure, where its code does not name it and a caller has to
// recognize it. Clones and annotated statuses keep it.
#ifndef LS_BASE_STATUS_CAUSE_H_
#define LS_BASE_STATUS_CAUSE_H_

#include "lockstep/status.h"

typedef enum ls_cause {
  LS_CAUSE_UNKNOWN,
  LS_CAUSE_NUMBERS,  // A check in a run has found numbers that are not finite.
} ls_cause;

// Marks a status, and returns it; the static one without memory stays.
LS_MUST_USE ls_status ls_status_because(ls_status status, ls_cause cause);
ls_cause ls_status_cause(ls_status status);

#endif  // LS_BASE_STATUS_CAUSE_H_
