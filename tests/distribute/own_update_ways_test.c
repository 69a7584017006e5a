// SPDX-License-Identifier: Apache-2.0
//
// A variable is updated, component by component, in a merge call: behind writes
// of each replica by itself, with replicas that have as many rows and with some
// that have fewer; and before a loop.
#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "lockstep/strategy_extended.h"
#include "support/values.h"
#include "support/ways.h"

static void make_variables(ways *self) {
  LS_OWN(ls_array, initial) = array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){10});
  ways_variable(self,
                &(ls_variable_options){.name = "v", .initial_array = initial});
}

// Replica r has rows of r + 1; how many, `user` says.
static int rows_of(const ways *self, int r) {
  const int *rows = self->user;
  return rows[r];
}

static ls_nest own_rows(const ways *self, int step, int r) {
  double values[4] = {0};
  (void)step;
  const int rows = rows_of(self, r);
  for (int i = 0; i < rows; ++i)
    values[i] = r + 1;
  return LS_TUPLE(
      ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(rows), values)));
}

static ls_nest add_hundred(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_variable_assign_add(ls_nest_item(args, 0).as.ref,
                                        ls_scalar(LS_DTYPE_F32, 100)));
}

static ls_nest update_all(ls_strategy *strategy, ls_nest args, void *user) {
  ways *self = user;
  ls_nest made = ls_none();
  (void)args;
  const ls_status status = ls_strategy_update(
      strategy, self->variables[0], add_hundred, ls_none(), NULL, true, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

static ls_nest write_and_meet(ls_nest args, ways *self) {
  ls_tensor x = ls_failed_tensor();
  expect_ok(ls_distributed_as_tensor(ls_nest_item(args, 0), &x));
  const ls_tensor written =
      ls_variable_assign_add(self->variables[0], ls_reduce_sum(x, LS_ALL_AXES));
  const ls_nest met =
      ls_replica_merge_call(ls_replica_context(), update_all, ls_none(), self);
  if (!ls_status_is_ok(ls_nest_status(met))) return met;
  return LS_TUPLE(met, ls_leaf(written));
}

static void each_has_added(const ways *self) {
  for (int r = 0; r < self->replicas; ++r) {
    const double wanted = 110 + (r + 1) * rows_of(self, r);
    ways_expect(self, "v", ways_value(self, 0, r, 0), wanted, 0);
    ways_expect(self, "updated", ways_result(self, 0, r, 0, 0), wanted, 0);
    ways_expect(self, "written", ways_result(self, 0, r, 1, 0), wanted - 100,
                0);
  }
}

TEST(replicas_write_their_own_and_update_it) {
  LS_SPEC("V182 V100");
  static const int all_rows[][WAYS_MOST_REPLICAS] = {
      {2, 2, 2}, {2, 2, 1}, {1, 2, 2}, {3, 2, 1}};
  for (size_t i = 0; i < LS_COUNT_OF(all_rows); ++i)
    ways_hold(&(ways_case){.name = "own",
                           .user = all_rows[i],
                           .make = make_variables,
                           .args = own_rows,
                           .step = write_and_meet,
                           .replicas_only = true,
                           .check = each_has_added},
              1);
}

// ---- What merges do with the variable as a whole ---------------------------
static ls_nest read_it(ls_strategy *strategy, ls_nest args, void *user) {
  ways *self = user;
  (void)strategy, (void)args;
  return ls_leaf(ls_variable_read(self->variables[0]));
}

static ls_nest write_it(ls_strategy *strategy, ls_nest args, void *user) {
  ways *self = user;
  (void)strategy, (void)args;
  return ls_leaf(ls_variable_assign_add(self->variables[0],
                                        ls_scalar(LS_DTYPE_F32, 1000)));
}

static ls_nest write_and_merge(ls_nest args, ways *self) {
  ls_tensor x = ls_failed_tensor();
  expect_ok(ls_distributed_as_tensor(ls_nest_item(args, 0), &x));
  const ls_tensor written =
      ls_variable_assign_add(self->variables[0], ls_reduce_sum(x, LS_ALL_AXES));
  ls_replica *replica = ls_replica_context();
  const ls_nest read = ls_replica_merge_call(replica, read_it, ls_none(), self);
  if (!ls_status_is_ok(ls_nest_status(read))) return read;
  const ls_nest after =
      ls_replica_merge_call(replica, write_it, ls_none(), self);
  return LS_TUPLE(read, ls_leaf(written), after);
}

TEST(merges_read_and_write_it) {
  static const int all_rows[][WAYS_MOST_REPLICAS] = {{2, 2, 2}, {2, 2, 1}};
  for (size_t i = 0; i < LS_COUNT_OF(all_rows); ++i)
    ways_hold(&(ways_case){.name = "merges",
                           .user = all_rows[i],
                           .make = make_variables,
                           .args = own_rows,
                           .step = write_and_merge,
                           .replicas_only = true},
              1);
}

// ---- A loop behind an update -----------------------------------------------
static ls_nest below_three(ls_nest trip, void *user) {
  (void)user;
  return ls_leaf(ls_less(trip.as.tensor, ls_scalar_i64(LS_DTYPE_I32, 3)));
}

static ls_nest double_it(ls_nest trip, void *user) {
  ways *self = user;
  ls_variable *v = self->variables[0];
  ls_variable_assign_add(v, ls_variable_read(v));
  return ls_leaf(ls_add(trip.as.tensor, ls_scalar_i64(LS_DTYPE_I32, 1)));
}

static ls_nest update_and_double(ls_nest args, ways *self) {
  (void)args;
  const ls_nest met =
      ls_replica_merge_call(ls_replica_context(), update_all, ls_none(), self);
  if (!ls_status_is_ok(ls_nest_status(met))) return met;
  return LS_TUPLE(met, ls_while(below_three, double_it, self,
                                ls_leaf(ls_scalar_i64(LS_DTYPE_I32, 0)), 0));
}

static void is_doubled_thrice(const ways *self) {
  for (int r = 0; r < self->replicas; ++r)
    ways_expect(self, "v", ways_value(self, 0, r, 0), 8 * 110, 0);
}

TEST(a_loop_goes_on_from_an_update) {
  ways_hold(&(ways_case){.name = "loop",
                         .make = make_variables,
                         .step = update_and_double,
                         .check = is_doubled_thrice},
            1);
}
