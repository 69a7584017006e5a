// SPDX-License-Identifier: Apache-2.0
//
// The gate of a store: who may use which variables at the same time.
//
// Whoever uses variables of a store, a run, a read or a write, says which and
// enters. Alone it is in by one compare-and-swap, and out by another; beside
// others it is on a list in the order of coming, and waits while it conflicts
// with somebody who is in, or who came before and has waited long enough.
//
// A short one ends by itself: it excludes all others from what it writes. A
// long one may wait for the host, whose functions may use the store in turn. So
// it excludes others only while it takes its variables in at its start and
// gives new values out at its end; in between it keeps only other writers away
// from what it writes, and nobody waits behind one whom that keeps waiting.
//
// Locks: the gate comes before every other lock but those of `distribute` and
// above. Who is in may take the runtime's, a store's and the engine's; who
// holds one of these does not enter. Nobody enters twice.
#ifndef LS_RUNTIME_GATE_H_
#define LS_RUNTIME_GATE_H_

#include "base/runtime_internal.h"
#include "lockstep/cancel.h"

// A variable that is used. A distributed one and its components are one family:
// where their values are may change with each write.
typedef struct ls_touch {
  uint64_t family;
  bool written;
  const char *name;
} ls_touch;

typedef enum ls_hold {
  LS_HOLD_SHORT,
  LS_HOLD_TAKING,  // Long, at its start.
  LS_HOLD_LONG,
  LS_HOLD_GIVING,  // Long, at its end.
} ls_hold;

// One use of a store, on the stack of who uses it. Touches, in ascending order
// of families, and what it begins as are the user's to set.
typedef struct ls_access {
  const ls_touch *touches;
  size_t count;
  ls_hold hold;                      // SHORT or TAKING.
  struct ls_cancel *const *cancels;  // What ends its waiting; NULL: nothing.
  // The gate's.
  bool is_crowded;  // Others were there: it is on the list.
  bool is_in;
  bool insists;     // It has waited enough: nobody passes it any more.
  bool is_parked;   // A long one keeps it waiting.
  uint64_t run;     // Of a long one, never that of another.
  uint64_t parent;  // The run that it is a part of, by a host call; or 0.
  struct ls_access *next;
} ls_access;

typedef struct ls_gate {
  ls_runtime *runtime;  // In whose traces waits are shown.
  ls_access *who;  // Atomic. NULL: nobody; else the only one, or that they are
                   // on the list.
  ls_mutex lock;   // Guards the list.
  ls_condition moved;
  ls_access *first;
} ls_gate;

LS_MUST_USE ls_status ls_gate_init(ls_gate *gate, ls_runtime *runtime);
void ls_gate_deinit(ls_gate *gate);

// Waits until the access may begin. Its memory stays until it has left.
//   LS_CANCELLED            one of its cancels is requested.
//   LS_FAILED_PRECONDITION  it is part of a run, by a host call, that keeps it
//                           from writing, so it would wait for itself.
LS_MUST_USE ls_status ls_gate_enter(ls_gate *gate, ls_access *access);
// A long access has taken its variables in: others may write what it reads.
void ls_gate_took(ls_gate *gate, ls_access *access);
// It will give new values out: waits until nobody looks at the old ones.
void ls_gate_give(ls_gate *gate, ls_access *access);
void ls_gate_leave(ls_gate *gate, ls_access *access);

#endif  // LS_RUNTIME_GATE_H_
