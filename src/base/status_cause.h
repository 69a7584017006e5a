// SPDX-License-Identifier: Apache-2.0
// The cause of a failure, for a caller that has to recognize more than its
// code. Clones and annotated statuses keep the cause.
#ifndef LS_BASE_STATUS_CAUSE_H_
#define LS_BASE_STATUS_CAUSE_H_

#include "lockstep/status.h"

typedef enum ls_cause {
  LS_CAUSE_UNKNOWN,
  LS_CAUSE_NUMBERS,  // A check in a run found numbers that are not finite.
} ls_cause;

// Sets the cause of a status and returns it; the static out-of-memory status
// stays as it is.
LS_MUST_USE ls_status ls_status_because(ls_status status, ls_cause cause);
ls_cause ls_status_cause(ls_status status);

#endif  // LS_BASE_STATUS_CAUSE_H_
