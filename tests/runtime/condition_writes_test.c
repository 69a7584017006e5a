// SPDX-License-Identifier: Apache-2.0
//
// Loops whose condition writes a variable: it is written each time that the
// condition is computed, whichever way the loop runs.
#include "base/memory/allocator.h"
#include "lockstep/flow.h"
#include "support/ways.h"

enum { ADDED = 3 };

// How often the condition is computed for loops of at most so many trips, with
// a condition that holds three times; 0: any number.
static const struct {
  int64_t max_trips;
  int times, trips;
} rows[] = {{0, 4, 3}, {2, 2, 2}, {3, 3, 3}, {4, 4, 3}};

static ls_nest holds(ls_nest values, void *user) {
  ways *w = user;
  const ls_tensor total =
      ls_variable_assign_add(w->variables[0], ls_scalar(LS_DTYPE_F32, ADDED));
  return ls_leaf(
      ls_and(ls_less(ls_nest_tensor(values, 0), ls_scalar(LS_DTYPE_F32, 3)),
             ls_greater(total, ls_scalar(LS_DTYPE_F32, 0))));
}

static ls_nest trip(ls_nest values, void *user) {
  (void)user;
  return LS_LIST(ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1)));
}

static void make(ways *w) { (void)ways_vector(w, "v", 0, (const double[]){1}); }

static ls_nest step(ls_nest args, ways *w) {
  (void)args;
  const int64_t *max_trips = w->user;
  const ls_tensor zero = ls_scalar(LS_DTYPE_F32, 0);
  return ls_while(holds, trip, w, LS_LIST(ls_leaf(zero)), *max_trips);
}

static void check(const ways *w) {
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    if (w->user != &rows[i].max_trips) continue;
    ways_expect(w, "trips", ways_result(w, 0, 0, 0, 0), rows[i].trips, 0);
    ways_expect(w, "variable", ways_value(w, 0, 0, 0),
                1 + 2 * ADDED * rows[i].times, 0);
  }
}

TEST(a_condition_writes_each_time_it_is_computed) {
  ways_case cases[LS_COUNT_OF(rows)];
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    cases[i] = (ways_case){.name = "condition",
                           .user = &rows[i].max_trips,
                           .make = make,
                           .step = step,
                           .check = check,
                           .steps = 2,
                           .one_replica = true};
  ways_hold(cases, LS_COUNT_OF(cases));
}
