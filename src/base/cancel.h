// SPDX-License-Identifier: Apache-2.0
//
// Cancel requests, as runs see them.
#ifndef LS_BASE_CANCEL_H_
#define LS_BASE_CANCEL_H_

#include "lockstep/cancel.h"

struct ls_cancel {
  ls_runtime *runtime;
  bool requested;  // Atomic.
};

// A run looks at two cancel requests: its thread's and its caller's.
enum { LS_CANCELS = 2 };

// Returns true if one of `cancels` is requested; entries may be NULL.
static inline bool ls_cancel_any(ls_cancel *const *cancels) {
  for (int i = 0; i < LS_CANCELS; ++i)
    if (cancels[i] != NULL &&
        __atomic_load_n(&cancels[i]->requested, __ATOMIC_RELAXED))
      return true;
  return false;
}

// Returns the cancel request of this thread, or NULL.
ls_cancel *ls_cancel_current(void);

#endif  // LS_BASE_CANCEL_H_
