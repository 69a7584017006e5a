// SPDX-License-Identifier: Apache-2.0
#include "runtime/gate.h"

#include "base/memory/list.h"
#include "base/runtime_internal.h"
#include "base/threads/locked.h"
#include "base/threads/thread_state.h"
#include "base/trace.h"

// The value of `who` while accesses are on the list.
static ls_access on_the_list;

ls_status ls_gate_init(ls_gate *gate, ls_runtime *runtime) {
  gate->runtime = runtime;
  LS_RETURN_IF_ERROR(ls_mutex_init(&gate->lock));
  return ls_condition_init(&gate->moved);
}

void ls_gate_deinit(ls_gate *gate) {
  ls_condition_deinit(&gate->moved);
  ls_mutex_deinit(&gate->lock);
}

// ---- Conflicts -------------------------------------------------------------
// Returns true if the access excludes readers, too, from variables that it
// writes.
static bool excludes(const ls_access *a) {
  return a->hold == LS_HOLD_SHORT || a->hold == LS_HOLD_GIVING;
}

// Returns true if the access reads published values.
static bool looks(const ls_access *a) {
  return a->hold == LS_HOLD_SHORT || a->hold == LS_HOLD_TAKING;
}

static bool conflict_at(const ls_access *a, const ls_touch *x,
                        const ls_access *b, const ls_touch *y) {
  if (x->written && y->written) return true;
  return (x->written && excludes(a) && looks(b)) ||
         (y->written && excludes(b) && looks(a));
}

// Returns a touch of `a` that conflicts with `b`, or NULL if both may be in.
static const ls_touch *conflict(const ls_access *a, const ls_access *b) {
  const ls_touch *x = a->touches, *y = b->touches;
  const ls_touch *end_x = x + a->count, *end_y = y + b->count;
  while (x < end_x && y < end_y) {
    if (x->family == y->family && conflict_at(a, x, b, y)) return x;
    if (x->family < y->family)
      ++x;
    else
      ++y;
  }
  return NULL;
}

// ---- The list, with its lock held ------------------------------------------
// Returns true if `other` may keep `access` waiting: if it is in, gives values
// out, or came earlier and insists. It does not count while it waits for the
// end of a long access, which in turn may need `access`; and a long access that
// gives values out goes before all that wait.
static bool counts(const ls_access *other, const ls_access *access,
                   bool is_before) {
  if (other->is_in || other->hold == LS_HOLD_GIVING) return true;
  return is_before && other->insists && !other->is_parked &&
         access->hold != LS_HOLD_GIVING;
}

// Returns true if no other access keeps this one waiting.
static bool may_enter(const ls_gate *gate, ls_access *access) {
  bool may = true, is_before = true;
  access->is_parked = false;
  for (const ls_access *other = gate->first; other != NULL;
       other = other->next) {
    if (other == access) is_before = false;
    if (other == access || !counts(other, access, is_before) ||
        conflict(access, other) == NULL)
      continue;
    may = false;
    access->is_parked |= other->hold == LS_HOLD_LONG;
  }
  return may;
}

// Lets in insisting accesses that may enter now, and wakes the others to try.
static void gate_settle(ls_gate *gate) {
  bool any = false;
  for (ls_access *at = gate->first; at != NULL; at = at->next) {
    if (at->is_in) continue;
    any = true;
    if (at->insists) at->is_in = may_enter(gate, at);
  }
  if (any) ls_condition_broadcast(&gate->moved);
}

// Waits. The first wake-up does not reserve entry: accesses that are running go
// first, since handing over to a sleeping thread would keep all idle. After
// waking up in vain an access insists.
static void wait_until_in(ls_gate *gate, ls_access *access,
                          struct ls_cancel *const *cancels) {
  enum { LOOK_NANOS = 20 * 1000 * 1000 };
  int64_t began = LS_NO_SPAN;
  for (;;) {
    if (!access->is_in) access->is_in = may_enter(gate, access);
    if (access->is_in || (cancels != NULL && ls_cancel_any(cancels))) break;
    if (began == LS_NO_SPAN) began = ls_runtime_now(gate->runtime);
    if (cancels == NULL)
      ls_condition_wait(&gate->moved, &gate->lock);
    else
      (void)ls_condition_wait_for(&gate->moved, &gate->lock, LOOK_NANOS);
    access->insists = true;
  }
  if (began != LS_NO_SPAN) ls_wait_end(gate->runtime, LS_WAIT_VARIABLES, began);
}

static void gate_append(ls_gate *gate, ls_access *access) {
  ls_access **at = &gate->first;
  while (*at != NULL)
    at = &(*at)->next;
  *at = access;
  access->next = NULL;
}

// Switches from the single `who` to the list.
static void open_list(ls_gate *gate) {
  ls_access *seen = __atomic_load_n(&gate->who, __ATOMIC_ACQUIRE);
  while (seen != &on_the_list &&
         !__atomic_compare_exchange_n(&gate->who, &seen, &on_the_list, false,
                                      __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
  }
  if (seen == NULL || seen == &on_the_list) return;
  seen->is_in = true;
  gate_append(gate, seen);
}

static const ls_access *find_run(const ls_gate *gate, uint64_t run) {
  const ls_access *at = gate->first;
  while (at != NULL && at->run != run)
    at = at->next;
  return at;
}

// Refuses an access of a host call that would wait for the end of the run that
// waits for the call.
static ls_status check_parents(const ls_gate *gate, const ls_access *access) {
  uint64_t run = access->parent;
  while (run != 0) {
    const ls_access *parent = find_run(gate, run);
    if (parent == NULL) break;
    const ls_touch *over = conflict(access, parent);
    if (over != NULL)
      return ls_failed_precondition(
          "variable '%s' is written by the run that this host call is part of; "
          "write it when the run has ended, or in the run itself",
          over->name);
    run = parent->parent;
  }
  return ls_ok();
}

static void take_off(ls_gate *gate, ls_access *access) {
  LS_UNLINK(&gate->first, access, next);
  if (gate->first == NULL)
    __atomic_store_n(&gate->who, NULL, __ATOMIC_RELEASE);
  else
    gate_settle(gate);
}

// ---- In and out ------------------------------------------------------------
static ls_status join_crowd(ls_gate *gate, ls_access *access) {
  LS_RETURN_IF_ERROR(check_parents(gate, access));
  open_list(gate);
  access->is_crowded = true;
  gate_append(gate, access);
  wait_until_in(gate, access, access->cancels);
  if (access->is_in) return ls_ok();
  take_off(gate, access);
  return LS_STATUS(LS_CANCELLED, "the run was cancelled before it began");
}

static uint64_t new_run(void) {
  static uint64_t last;
  return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

uint64_t ls_gate_inherit_run(void) {
  const uint64_t parent = ls_this_thread.work.run;
  return parent != 0 ? parent : new_run();
}

static ls_status enter_crowd(ls_gate *gate, ls_access *access) {
  access->is_in = access->insists = false;
  access->parent = ls_this_thread.work.run;
  if (access->hold == LS_HOLD_TAKING) access->run = new_run();
  return LS_LOCKED(&gate->lock, join_crowd(gate, access));
}

// Enters if the gate is empty. Retries once if another access is in, which may
// be about to leave.
static bool enter_alone(ls_gate *gate, ls_access *access) {
  enum { SPINS = 500 };
  for (int i = 0; i < SPINS; ++i) {
    ls_access *seen = NULL;
    if (__atomic_compare_exchange_n(&gate->who, &seen, access, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
      return true;
    if (seen == &on_the_list) return false;
    ls_spin_pause();
  }
  return false;
}

ls_status ls_gate_enter(ls_gate *gate, ls_access *access) {
  access->is_crowded = false;
  access->run = 0;
  if (access->hold == LS_HOLD_SHORT && enter_alone(gate, access))
    return ls_ok();
  return enter_crowd(gate, access);
}

void ls_gate_took(ls_gate *gate, ls_access *access) {
  ls_mutex_lock(&gate->lock);
  access->hold = LS_HOLD_LONG;
  gate_settle(gate);
  ls_mutex_unlock(&gate->lock);
}

void ls_gate_give(ls_gate *gate, ls_access *access) {
  ls_mutex_lock(&gate->lock);
  access->hold = LS_HOLD_GIVING;
  access->is_in = false;
  access->insists = true;
  wait_until_in(gate, access, NULL);
  ls_mutex_unlock(&gate->lock);
}

void ls_gate_leave(ls_gate *gate, ls_access *access) {
  ls_access *me = access;
  if (access->hold == LS_HOLD_SHORT &&
      __atomic_compare_exchange_n(&gate->who, &me, NULL, false,
                                  __ATOMIC_RELEASE, __ATOMIC_RELAXED))
    return;
  ls_mutex_lock(&gate->lock);
  take_off(gate, access);
  ls_mutex_unlock(&gate->lock);
}
