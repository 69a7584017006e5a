// SPDX-License-Identifier: Apache-2.0
//
// The newest checkpoints of a folder, where they are damaged and one before
// them is taken: with one warning, which names what is passed over and what is
// taken. Whoever looks for the newest checkpoint that is whole does it by this.
#ifndef LS_STATE_PASSED_OVER_H_
#define LS_STATE_PASSED_OVER_H_

#include "base/runtime_internal.h"

// Zeroed: none is.
typedef struct ls_passed_over {
  int64_t newest;  // The step of the first,
  size_t count;    //   of so many,
  ls_status why;   //   and what is wrong with it.
} ls_passed_over;

// One more, of a step before those; `why` is taken over.
void ls_passed_over_add(ls_passed_over *self, int64_t step, ls_status why);
// That of step `taken` is whole: logs the warning, if one was passed over, and
// begins anew.
void ls_passed_over_log(ls_passed_over *self, ls_runtime *runtime,
                        const char *folder, int64_t taken);
// None is whole: why the newest is not, OK where none was passed over. Begins
// anew.
LS_MUST_USE ls_status ls_passed_over_end(ls_passed_over *self,
                                         const char *folder);
void ls_passed_over_deinit(ls_passed_over *self);

#endif  // LS_STATE_PASSED_OVER_H_
