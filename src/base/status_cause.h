// SPDX-License-Identifier: Apache-2.0
// Failures that a caller recognizes: by their code, their cause, or the rank
// that had them. Clones and annotated statuses keep cause and rank.
#ifndef LS_BASE_STATUS_CAUSE_H_
#define LS_BASE_STATUS_CAUSE_H_

#include <stdint.h>

#include "base/export.h"
#include "lockstep/status.h"

typedef enum ls_cause {
  LS_CAUSE_UNKNOWN,
  LS_CAUSE_NUMBERS,  // A check in a run found numbers that are not finite.
  LS_CAUSE_FILES,    // A checkpoint cannot be read or written.
  LS_CAUSE_MEMORY,   // The library got no memory: a later call may get it.
  LS_CAUSE_CANCEL,   // The call, not what it was for, was cancelled.
} ls_cause;

// Sets the cause of a status and returns it; the static out-of-memory status
// stays as it is.
LS_PRIVATE_API LS_MUST_USE ls_status ls_status_because(ls_status status,
                                                       ls_cause cause);
ls_cause ls_status_cause(ls_status status);

// Sets the rank that had the failure, of which this one has only heard, and
// returns it. ls_status_rank returns -1 for a failure of this process.
LS_MUST_USE ls_status ls_status_of_rank(ls_status status, int32_t rank);
int32_t ls_status_rank(ls_status status);

// A status that says for what there is no memory.
#define LS_NO_MEMORY(...)                                                      \
  ls_status_because(LS_STATUS(LS_RESOURCE_EXHAUSTED, __VA_ARGS__),             \
                    LS_CAUSE_MEMORY)

// Returns `status`; OK, and frees it, if it has this code.
LS_MUST_USE static inline ls_status ls_status_unless(ls_status status,
                                                     ls_code code) {
  if (ls_status_code(status) != code) return status;
  ls_status_free(status);
  return ls_ok();
}
// Returns if `expr` fails: OK if with this code, else its status.
#define LS_RETURN_OK_IF(code, expr)                                            \
  do {                                                                         \
    const ls_status ls_failed_ = (expr);                                       \
    if (!ls_status_is_ok(ls_failed_))                                          \
      return ls_status_unless(ls_failed_, (code));                             \
  } while (0)

#endif  // LS_BASE_STATUS_CAUSE_H_
