// SPDX-License-Identifier: Apache-2.0
// A list of threads that wait while they make an element. From it follows which
// iterators wait for which: every iterator that the thread makes an element for
// waits for the one that the thread waits for.
#include "base/memory/list.h"
#include "base/threads/locked.h"
#include "data/work.h"

#include "base/runtime_internal.h"

enum { MOST_NESTED = 64 };

static ls_mutex waits_lock = {PTHREAD_MUTEX_INITIALIZER, true};
static ls_making *waits;  // Innermost makings of the waiting threads.

// ---- This thread -----------------------------------------------------------
void ls_making_enter(ls_making *making, const ls_work *work) {
  *making = (ls_making){.outer = ls_this_thread.work.making,
                        .work = work,
                        .runtime = work->runtime};
  ls_this_thread.work.making = making;
}

ls_status ls_making_leave(ls_making *making, ls_status status) {
  const ls_work *released = making->released;
  ls_this_thread.work.making = making->outer;
  if (released == NULL) return status;
  ls_status_free(status);
  return ls_failed_precondition(
      "'%s' is released by a function of its own data set, or of one that its "
      "elements wait for: its last reference stays; release it elsewhere",
      released->name);
}

static ls_making *find_making(ls_making *innermost, const ls_work *work) {
  while (innermost != NULL && innermost->work != work)
    innermost = innermost->outer;
  return innermost;
}

bool ls_making_ends(void) {
  for (const ls_making *at = ls_this_thread.work.making; at != NULL;
       at = at->outer)
    if (__atomic_load_n(&at->work->ends, __ATOMIC_RELAXED)) return true;
  return false;
}

static int count_makings(void) {
  int depth = 0;
  for (const ls_making *at = ls_this_thread.work.making; at != NULL;
       at = at->outer)
    ++depth;
  return depth;
}

// ---- Circles ---------------------------------------------------------------
// Follows waits from `work`; returns true if they lead to an iterator that this
// thread makes an element for (`own` and its outer makings). Follows each wait
// once. The lock is held.
static bool comes_back(ls_making *own, const ls_work *work) {
  if (find_making(own, work) != NULL) return true;
  for (ls_making *at = waits; at != NULL; at = at->next_wait) {
    if (at->is_followed || find_making(at, work) == NULL) continue;
    at->is_followed = true;
    if (comes_back(own, at->awaits)) return true;
  }
  return false;
}

// Returns true if a wait for `work` would be circular; the lock is held.
static bool is_circle(ls_making *own, const ls_work *work) {
  for (ls_making *at = waits; at != NULL; at = at->next_wait)
    at->is_followed = false;
  return comes_back(own, work);
}

static bool waits_for_this_thread(const ls_work *work) {
  if (ls_this_thread.work.making == NULL) return false;
  return LS_LOCKED(&waits_lock, is_circle(ls_this_thread.work.making, work));
}

static ls_status refuse_circle(const ls_work *work) {
  return ls_failed_precondition(
      "'%s' is used by a function of a data set on which its own elements "
      "depend: create another iterator there",
      work->name);
}

ls_status ls_making_check(const ls_work *work) {
  if (find_making(ls_this_thread.work.making, work) != NULL)
    return ls_failed_precondition(
        "'%s' is used by a function of its own data set, which computes an "
        "element for it: create another iterator there",
        work->name);
  if (count_makings() >= MOST_NESTED)
    return ls_failed_precondition(
        "'%s' is used by functions of data sets that are called in each other, "
        "%d deep: does a function go through its own data set?",
        work->name, MOST_NESTED);
  return waits_for_this_thread(work) ? refuse_circle(work) : ls_ok();
}

bool ls_making_keeps(const ls_work *work) {
  ls_making *innermost = ls_this_thread.work.making;
  if (!waits_for_this_thread(work)) return false;
  ls_making *own = find_making(innermost, work);
  (own != NULL ? own : innermost)->released = work;
  return true;
}

// ---- Waiting ---------------------------------------------------------------
// Returns the making that waits for the work: the innermost one that is not of
// the work itself (a stage may wait for its own work on behalf of its user).
// NULL: this thread makes nothing else.
static ls_making *find_waiting(const ls_work *work) {
  ls_making *found = ls_this_thread.work.making;
  for (ls_making *at = found; at != NULL; at = at->outer)
    if (at->work == work) found = at->outer;
  return found;
}

ls_status ls_making_begin_wait(const ls_work *work) {
  ls_making *own = find_waiting(work);
  if (own == NULL) return ls_ok();
  ls_mutex_lock(&waits_lock);
  const bool circle = is_circle(own, work);
  if (!circle) {
    own->awaits = work;
    own->next_wait = waits;
    waits = own;
  }
  ls_mutex_unlock(&waits_lock);
  return circle ? refuse_circle(work) : ls_ok();
}

void ls_making_end_wait(const ls_work *work) {
  ls_making *own = find_waiting(work);
  if (own == NULL) return;
  ls_mutex_lock(&waits_lock);
  LS_UNLINK(&waits, own, next_wait);
  ls_mutex_unlock(&waits_lock);
}
