// SPDX-License-Identifier: Apache-2.0
// Makings: for which iterators a thread makes elements, and for which it waits
// meanwhile. A function of a data set that uses its own iterator, or one whose
// elements wait for its own, would wait for ever: such uses are refused.
#ifndef LS_DATA_MAKING_H_
#define LS_DATA_MAKING_H_

#include "base/threads/thread_state.h"
#include "data/work.h"

// Brackets calls of functions of the work's data set. Leaving returns `status`,
// or FAILED_PRECONDITION if the iterator was released meanwhile.
void ls_making_enter(ls_making *making, const ls_work *work);
LS_MUST_USE ls_status ls_making_leave(ls_making *making, ls_status status);

// Checks that this thread may use the iterator of this work.
//   LS_FAILED_PRECONDITION  the thread makes an element for the iterator, or
//   for
//                           one that waits for it: names the iterator.
LS_MUST_USE ls_status ls_making_check(const ls_work *work);
// Returns true if this thread must not drop the last reference: it could not
// end the iterator's work, as ls_making_check would report. Then the element
// being made fails.
bool ls_making_keeps(const ls_work *work);

// Brackets a wait for an element of this work, or for the end of its making. A
// thread that makes no element may wait for anything.
//   LS_FAILED_PRECONDITION  the wait would never end; do not call end_wait.
LS_MUST_USE ls_status ls_making_begin_wait(const ls_work *work);
void ls_making_end_wait(const ls_work *work);

#endif  // LS_DATA_MAKING_H_
