// SPDX-License-Identifier: Apache-2.0
// Makings: which iterators a thread makes elements for, and for which others it
// waits meanwhile. A function of a data set that uses its own iterator, or one
// whose elements wait for its own, would wait for ever: it is refused.
#ifndef LS_DATA_MAKING_H_
#define LS_DATA_MAKING_H_

#include "base/threads/thread_state.h"
#include "data/work.h"

// Around whatever calls functions of the work's data set. Leaving returns
// `status`, or FAILED_PRECONDITION where the iterator was released meanwhile.
void ls_making_enter(ls_making *making, const ls_work *work);
LS_MUST_USE ls_status ls_making_leave(ls_making *making, ls_status status);

// Checks that this thread may use the iterator of this work.
//   LS_FAILED_PRECONDITION  it makes an element for it, or for one that it
//                           waits for: names it.
LS_MUST_USE ls_status ls_making_check(const ls_work *work);
// Returns true where the last reference must not go: the thread could not end
// the iterator's work, as ls_making_check would say. What is being made fails.
bool ls_making_keeps(const ls_work *work);

// Around a wait for an element of this work, or for the end of its making. A
// thread that makes nothing may wait for anything.
//   LS_FAILED_PRECONDITION  it would wait for ever; end no such wait.
LS_MUST_USE ls_status ls_making_begin_wait(const ls_work *work);
void ls_making_end_wait(const ls_work *work);

#endif  // LS_DATA_MAKING_H_
