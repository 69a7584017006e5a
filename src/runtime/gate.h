// SPDX-License-Identifier: Apache-2.0
//
// The gate of a store: decides who may use which variables at the same time.
//
// Each use of a store's variables, by a run, a read or a write, enters with the
// list of them. Without others it enters by one compare-and-swap, and leaves by
// another; beside others it is put on a list in order of arrival, and waits
// while it conflicts with an access that is in, or that came earlier and has
// waited long enough.
//
// A short access ends by itself: it excludes all others from the variables it
// writes. A long one may wait for the host, whose functions may use the store
// in turn. So it excludes others only while it takes values at its start and
// gives new values out at its end; in between it only excludes other writers,
// and accesses that it keeps waiting keep no others waiting.
//
// Locks: the gate comes before all locks but those of `distribute` and above.
// Inside, a thread may take the runtime's, a store's and the engine's locks; a
// thread that holds one of these must not enter. No thread enters twice.
#ifndef LS_RUNTIME_GATE_H_
#define LS_RUNTIME_GATE_H_

#include "base/runtime_internal.h"
#include "lockstep/cancel.h"

// A used variable. A distributed variable and its components are one family:
// each write may move their values.
typedef struct ls_touch {
  uint64_t family;
  bool written;
  const char *name;
} ls_touch;

typedef enum ls_hold {
  LS_HOLD_SHORT,
  LS_HOLD_TAKING,  // A long access, at its start.
  LS_HOLD_LONG,
  LS_HOLD_GIVING,  // A long access, at its end.
} ls_hold;

// One use of a store, on its user's stack. The user sets the touches, in
// ascending order of families, and the fields below.
typedef struct ls_access {
  const ls_touch *touches;
  size_t count;
  ls_hold hold;                      // SHORT or TAKING at first.
  struct ls_cancel *const *cancels;  // Requests that end its wait; NULL: none.
  // The fields below belong to the gate.
  bool is_crowded;  // In the list, because other accesses were in.
  bool is_in;
  bool insists;     // Has waited long: no other access may overtake it.
  bool is_parked;   // Waits for a long access.
  uint64_t run;     // Id of a long access, unique.
  uint64_t parent;  // The run whose host call makes this access, or 0.
  struct ls_access *next;
} ls_access;

typedef struct ls_gate {
  ls_runtime *runtime;  // The runtime whose traces show waits.
  ls_access *who;  // The only access, a mark for the list, or NULL. Atomic.
  ls_mutex lock;   // Guards the list.
  ls_condition moved;
  ls_access *first;
} ls_gate;

// Returns the id of a long run without an access: that of the run whose host
// call starts it, or a new one.
uint64_t ls_gate_inherit_run(void);

LS_MUST_USE ls_status ls_gate_init(ls_gate *gate, ls_runtime *runtime);
void ls_gate_deinit(ls_gate *gate);

// Waits until the access may begin. The access must not move until it has left.
//   LS_CANCELLED            one of its cancels is requested.
//   LS_FAILED_PRECONDITION  a host call of a run writes what the run writes,
//                           so it would wait for itself.
LS_MUST_USE ls_status ls_gate_enter(ls_gate *gate, ls_access *access);
// A long access has taken its values: from now on others may write what it only
// reads.
void ls_gate_took(ls_gate *gate, ls_access *access);
// A long access is about to give new values out: waits until nobody reads the
// old ones.
void ls_gate_give(ls_gate *gate, ls_access *access);
void ls_gate_leave(ls_gate *gate, ls_access *access);

#endif  // LS_RUNTIME_GATE_H_
