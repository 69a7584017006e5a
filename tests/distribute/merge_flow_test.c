// SPDX-License-Identifier: Apache-2.0
//
// Branches and loops in merge calls, over variables of which each replica has a
// value of its own.
#include "base/memory/own.h"
#include "lockstep/flow.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/variable_parts.h"
#include "support/merges.h"
#include "support/replicas.h"
#include "support/values.h"
#include "support/ways.h"

// What a merge function's callbacks use.
typedef struct merged {
  const ways *self;
  ls_tensor holds;  // Whether the sum of the replicas' numbers is above 3.
} merged;

static void make(ways *self, ls_variable_options options) {
  LS_OWN(ls_array, one) = array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){1});
  options.name = "own";
  options.initial_array = one;
  options.trainable = LS_FLAG_OFF;
  ways_variable(self, &options);
}

static void make_own(ways *self) {
  make(self,
       (ls_variable_options){.synchronization = LS_SYNCHRONIZATION_ON_READ,
                             .aggregation = LS_AGGREGATION_SUM});
}

// One that is shared until the replicas write what differs.
static void make_mirrored(ways *self) { make(self, (ls_variable_options){0}); }

static ls_tensor last_of(const ways *self) {
  return ls_variable_read(
      ls_variable_component(self->variables[0], (size_t)self->replicas - 1));
}

// Each replica adds its number, 2 r + 1, to its own value before they meet.
static ls_nest add_and_meet(ls_nest args, ways *self) {
  const ls_tensor own =
      ls_variable_assign_add(self->variables[0], argument(args, 1));
  LS_OWN(ls_nest, given) = LS_LIST(ls_leaf(argument(args, 1)));
  const ls_nest got = ls_replica_merge_call(
      ls_replica_context(), *(const ls_merge_function *)self->user, given,
      self);
  return ls_nest_is_failed(got) ? got : LS_TUPLE(got, ls_leaf(own));
}

static ls_status meet(ls_strategy *strategy, ls_nest args, merged *m) {
  const ls_nest sum = add_up(strategy, args, NULL);
  if (ls_nest_is_failed(sum)) return ls_nest_status(sum);
  ls_tensor x = ls_failed_tensor();
  const ls_status status = ls_distributed_as_tensor(sum, &x);
  ls_nest_release(sum);
  m->holds = ls_greater(x, ls_scalar(LS_DTYPE_F32, 3));
  return status;
}

// ---- Reads -----------------------------------------------------------------
static ls_nest read_last(ls_nest values, void *user) {
  (void)values;
  return ls_leaf(last_of(((const merged *)user)->self));
}

static ls_nest read_sum(ls_nest values, void *user) {
  (void)values;
  return ls_leaf(ls_variable_read(((const merged *)user)->self->variables[0]));
}

static ls_nest read_in_branch(ls_strategy *strategy, ls_nest args, void *user) {
  merged m = {.self = user};
  const ls_status status = meet(strategy, args, &m);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  return ls_cond(m.holds, read_last, read_sum, &m);
}

// With one replica the sum is 1: its whole value, 2. With several, the last
// one's value: 1 + 2 n - 1.
static void is_of_the_last(const ways *self) {
  const int n = self->replicas;
  for (int r = 0; r < n; ++r)
    ways_expect(self, "what was read", ways_result(self, 0, r, 0, 0), 2 * n, 0);
}

// Adds the last one's value as long as the result is below 30, seen by the sum
// of all; in each trip a branch.
static ls_nest below(ls_nest values, void *user) {
  const merged *m = user;
  const ls_tensor most =
      ls_mul_scalar(ls_variable_read(m->self->variables[0]), 2);
  return ls_leaf(ls_less(ls_nest_tensor(values, 0), most));
}

static ls_nest add_last(ls_nest values, void *user) {
  const ls_nest read =
      ls_cond(((const merged *)user)->holds, read_last, read_sum, user);
  if (ls_nest_is_failed(read)) return read;
  return LS_TUPLE(ls_leaf(ls_add(ls_nest_tensor(values, 0), read.as.tensor)));
}

static ls_nest read_in_loop(ls_strategy *strategy, ls_nest args, void *user) {
  merged m = {.self = user};
  const ls_status status = meet(strategy, args, &m);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const ls_nest got = ls_while(
      below, add_last, &m, LS_TUPLE(ls_leaf(ls_scalar(LS_DTYPE_F32, 0))), 0);
  if (ls_nest_is_failed(got)) return got;
  const ls_nest sum = ls_leaf(ls_nest_tensor(got, 0));
  ls_nest_release(got);
  return sum;
}

// The values are 2, 4, 6: their sum n (n + 1) is gone beyond twice over by
// steps of the last one.
static void is_beyond_twice_the_sum(const ways *self) {
  const int n = self->replicas, sum = n * (n + 1);
  int wanted = 0;
  while (wanted < 2 * sum)
    wanted += 2 * n;
  for (int r = 0; r < n; ++r)
    ways_expect(self, "what was added", ways_result(self, 0, r, 0, 0), wanted,
                0);
}

TEST(branches_and_loops_of_a_merge_read_each_replicas_value) {
  static const ls_merge_function branch = read_in_branch, loop = read_in_loop;
  const ways_case cases[] = {{.name = "a branch",
                              .user = &branch,
                              .make = make_own,
                              .args = rows_of,
                              .step = add_and_meet,
                              .check = is_of_the_last},
                             {.name = "a loop",
                              .user = &loop,
                              .make = make_own,
                              .args = rows_of,
                              .step = add_and_meet,
                              .check = is_beyond_twice_the_sum}};
  ways_hold(cases, sizeof(cases) / sizeof(cases[0]));
}

// ---- Writes ----------------------------------------------------------------
static ls_nest write_last(ls_nest values, void *user) {
  const merged *m = user;
  (void)values;
  return ls_leaf(ls_variable_assign_add(
      ls_variable_component(m->self->variables[0],
                            (size_t)m->self->replicas - 1),
      ls_scalar(LS_DTYPE_F32, 8)));
}

static ls_nest write_in_branch(ls_strategy *strategy, ls_nest args,
                               void *user) {
  merged m = {.self = user};
  const ls_status status = meet(strategy, args, &m);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  return ls_cond(m.holds, write_last, read_sum, &m);
}

static void the_last_is_written(const ways *self) {
  const int n = self->replicas;
  for (int r = 0; r < n; ++r)
    ways_expect(self, "what was given", ways_result(self, 0, r, 0, 0),
                n == 1 ? 2 : 2 * n + 8, 0);
  for (int c = 0; c < n; ++c)
    ways_expect(self, "a component", ways_value(self, 0, c, 0),
                2 * c + 2 + (n > 1 && c == n - 1 ? 8 : 0), 0);
}

// Adds 8 to the last one's value until it is above 20.
static ls_nest last_is_below(ls_nest values, void *user) {
  (void)values;
  return ls_leaf(ls_less(last_of(((const merged *)user)->self),
                         ls_scalar(LS_DTYPE_F32, 20)));
}

static ls_nest add_to_last(ls_nest values, void *user) {
  ls_nest_release(write_last(values, user));
  return LS_TUPLE(ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1)));
}

static ls_nest write_in_loop(ls_strategy *strategy, ls_nest args, void *user) {
  merged m = {.self = user};
  const ls_status status = meet(strategy, args, &m);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const ls_nest got =
      ls_while(last_is_below, add_to_last, &m,
               LS_TUPLE(ls_leaf(ls_scalar(LS_DTYPE_F32, 0))), 0);
  if (ls_nest_is_failed(got)) return got;
  const ls_nest trips = ls_leaf(ls_nest_tensor(got, 0));
  ls_nest_release(got);
  return trips;
}

// From 2, 4 and 6 to 26, 20 and 22.
static void it_is_added_until_it_is_enough(const ways *self) {
  const int n = self->replicas, trips = n == 1 ? 3 : 2;
  for (int r = 0; r < n; ++r)
    ways_expect(self, "trips", ways_result(self, 0, r, 0, 0), trips, 0);
  for (int c = 0; c < n; ++c)
    ways_expect(self, "a component", ways_value(self, 0, c, 0),
                2 * c + 2 + (c == n - 1 ? 8 * trips : 0), 0);
}

TEST(branches_and_loops_of_a_merge_write_one_replicas_value) {
  static const ls_merge_function branch = write_in_branch, loop = write_in_loop;
  const ways_case cases[] = {{.name = "a write in a branch",
                              .user = &branch,
                              .make = make_own,
                              .args = rows_of,
                              .step = add_and_meet,
                              .check = the_last_is_written},
                             {.name = "writes in a loop",
                              .user = &loop,
                              .make = make_own,
                              .args = rows_of,
                              .step = add_and_meet,
                              .check = it_is_added_until_it_is_enough},
                             {.name = "writes in a loop, mirrored",
                              .user = &loop,
                              .make = make_mirrored,
                              .args = rows_of,
                              .step = add_and_meet,
                              .check = it_is_added_until_it_is_enough}};
  ways_hold(cases, sizeof(cases) / sizeof(cases[0]));
}
