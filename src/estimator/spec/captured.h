// SPDX-License-Identifier: Apache-2.0
//
// What a function that is called while something is built around it has given:
// once, and read only once it is there.
#ifndef LS_ESTIMATOR_SPEC_CAPTURED_H_
#define LS_ESTIMATOR_SPEC_CAPTURED_H_

#include "lockstep/status.h"

// Zeroed: nothing is captured yet.
typedef struct ls_captured {
  void *value;
  bool is_set;
} ls_captured;

//   LS_FAILED_PRECONDITION  something was captured before.
LS_MUST_USE ls_status ls_captured_set(ls_captured *captured, const char *what,
                                      void *value);
//   LS_FAILED_PRECONDITION  nothing was.
LS_MUST_USE ls_status ls_captured_get(const ls_captured *captured,
                                      const char *what, void **out_value);

#endif  // LS_ESTIMATOR_SPEC_CAPTURED_H_
