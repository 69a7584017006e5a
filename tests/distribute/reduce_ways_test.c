// SPDX-License-Identifier: Apache-2.0
//
// Reduce, gather, broadcast and their kin, called across replicas, give the
// same in every way to run, and refuse the same.
#include "support/ways.h"

#include "base/memory/allocator.h"
#include "lockstep/cross_device.h"
#include "lockstep/strategy_extended.h"
#include "support/merges.h"
#include "support/values.h"

typedef struct across {
  const char *name;
  ls_merge_function function;
  // What element 0 of each result is on n replicas; NULL: compared only.
  void (*check)(const ways *self);
  ls_reduce_op op;
  int axis;
  ls_code refused;
  const char *says;
  bool one_row;  // Each replica has one row, not r + 1.
} across;

// Replica r's rows of two: the k-th of all n (n + 1) / 2 is (k + 1, -k). Beside
// them a scalar r + 1 and integers.
static ls_nest rows_of_replica(const ways *self, int step, int r) {
  const across *a = self->user;
  double rows[6], integer = 3 * r + 1;
  const int count = a->one_row ? 1 : r + 1;
  const int first = a->one_row ? r : r * (r + 1) / 2;
  (void)step;
  for (int k = 0; k < count; ++k) {
    rows[2 * k] = first + k + 1;
    rows[2 * k + 1] = -(first + k);
  }
  return LS_TUPLE(
      ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(count, 2), rows)),
      ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){r + 1})),
      ls_nest_array(array_of(LS_DTYPE_I32, LS_SCALAR, &integer)),
      ls_nest_array(array_of(LS_DTYPE_U8, LS_SCALAR, &integer)));
}

static ls_nest merge(ls_nest args, ways *self) {
  const across *a = self->user;
  return ls_replica_merge_call(ls_replica_context(), a->function, args,
                               (void *)(uintptr_t)a);
}

static void hold(const across *cases, size_t count, bool replicas_only) {
  for (size_t i = 0; i < count; ++i) {
    const ways_case c = {.name = cases[i].name,
                         .user = &cases[i],
                         .args = rows_of_replica,
                         .step = merge,
                         .check = cases[i].check,
                         .replicas_only = replicas_only,
                         .refused = cases[i].refused,
                         .says = cases[i].says};
    ways_hold(&c, 1);
  }
}

// Expects element 0 of a result of each replica.
static void expect_first(const ways *self, size_t leaf, double wanted) {
  for (int r = 0; r < self->replicas; ++r)
    ways_expect(self, ((const across *)self->user)->name,
                ways_result(self, 0, r, leaf, 0), wanted, 1e-5);
}

static double sum_to(int n) { return n * (n + 1) / 2.0; }

// ---- Reducing --------------------------------------------------------------
static ls_nest reduce_nest(ls_strategy *strategy, ls_nest args, void *user) {
  const across *a = user;
  LS_OWN(ls_nest, nest) =
      LS_LIST(ls_nest_retain(ls_nest_item(args, 1)),
              LS_TUPLE(ls_nest_retain(ls_nest_item(args, 2)),
                       ls_nest_retain(ls_nest_item(args, 3))));
  ls_nest made = ls_none();
  const ls_status status = ls_strategy_reduce(strategy, a->op, nest, &made);
  return taken(status, &made);
}

static void nest_is_summed(const ways *self) {
  const int n = self->replicas;
  expect_first(self, 0, sum_to(n));
  expect_first(self, 1, 3 * sum_to(n) - 2 * n);
  expect_first(self, 2, 3 * sum_to(n) - 2 * n);
}

static void nest_is_averaged(const ways *self) {
  const int n = self->replicas;
  expect_first(self, 0, sum_to(n) / n);
  expect_first(self, 1, 3 * sum_to(n) / n - 2);
  expect_first(self, 2, 3 * sum_to(n) / n - 2);
  // True divisions, of 32 bits in f64.
  if (n == 1) return;
  assert_int_equal(ls_array_dtype(self->values[self->values_of[0][0] + 1]),
                   LS_DTYPE_F64);
  assert_int_equal(ls_array_dtype(self->values[self->values_of[0][0] + 2]),
                   LS_DTYPE_F32);
}

static ls_nest reduce_axis(ls_strategy *strategy, ls_nest args, void *user) {
  const across *a = user;
  ls_nest made = ls_none();
  return taken(ls_strategy_reduce_with(
                   strategy, a->op, ls_nest_item(args, 0),
                   &(ls_reduce_options){.axes = &a->axis, .num_axes = 1},
                   &made),
               &made);
}

static void rows_are_summed(const ways *self) {
  const int n = self->replicas;
  expect_first(self, 0, sum_to(n * (n + 1) / 2));
}

static void rows_are_averaged(const ways *self) {
  const int n = self->replicas;
  expect_first(self, 0, (n * (n + 1) / 2 + 1) / 2.0);
}

static ls_nest reduce_all(ls_strategy *strategy, ls_nest args, void *user) {
  const across *a = user;
  ls_nest made = ls_none();
  return taken(ls_strategy_reduce_with(
                   strategy, a->op, ls_nest_item(args, 0),
                   &(ls_reduce_options){.axes = (int[]){0, -1}, .num_axes = 2},
                   &made),
               &made);
}

static ls_nest reduce_weighted(ls_strategy *strategy, ls_nest args,
                               void *user) {
  const across *a = user;
  static const double weights[] = {3, 0, 1};
  ls_nest made = ls_none();
  return taken(
      ls_strategy_reduce_with(
          strategy, a->op, ls_nest_item(args, 1),
          &(ls_reduce_options){.weights = weights,
                               .num_weights =
                                   (size_t)ls_strategy_num_replicas(strategy)},
          &made),
      &made);
}

static void mean_is_weighted(const ways *self) {
  expect_first(self, 0, self->replicas < 3 ? 1 : 6 / 4.0);
}

TEST(values_are_reduced_in_every_way) {
  LS_SPEC("V184 V185 V186 V187 V188 M131 M183");
  static const across cases[] = {
      {.name = "a sum", .function = reduce_nest, .check = nest_is_summed},
      {.name = "a mean",
       .function = reduce_nest,
       .check = nest_is_averaged,
       .op = LS_REDUCE_MEAN},
      {.name = "a sum of rows",
       .function = reduce_axis,
       .check = rows_are_summed},
      {.name = "a mean of rows",
       .function = reduce_axis,
       .check = rows_are_averaged,
       .op = LS_REDUCE_MEAN,
       .axis = -2},
      {.name = "a sum of all", .function = reduce_all},
      {.name = "a mean of all", .function = reduce_all, .op = LS_REDUCE_MEAN},
      {.name = "columns",
       .function = reduce_axis,
       .axis = 1,
       .one_row = true,
       .op = LS_REDUCE_MEAN},
      {.name = "weights",
       .function = reduce_weighted,
       .check = mean_is_weighted,
       .op = LS_REDUCE_MEAN}};
  hold(cases, LS_COUNT_OF(cases), false);
}

// ---- To destinations -------------------------------------------------------
static ls_nest reduce_to(ls_strategy *strategy, ls_nest args, void *user) {
  const across *a = user;
  const ls_nest x = ls_nest_item(args, 1);
  ls_nest made[3] = {0};
  ls_status status =
      ls_strategy_reduce_to(strategy, a->op, x, (ls_destinations){0}, &made[0]);
  if (ls_status_is_ok(status))
    status = ls_strategy_reduce_to(
        strategy, a->op, x, (ls_destinations){.device = "/cpu:0"}, &made[1]);
  const ls_nest values[] = {ls_nest_item(args, 2), x};
  const ls_destinations where[2] = {{0}, {.device = "/cpu:0"}};
  if (ls_status_is_ok(status))
    status = ls_strategy_batch_reduce_to(strategy, a->op, values, where, 2,
                                         &made[2]);
  return taken(status, (ls_nest[]){LS_TUPLE(made[0], made[1], made[2])});
}

static void sums_are_there(const ways *self) {
  const int n = self->replicas;
  expect_first(self, 0, sum_to(n));
  expect_first(self, 1, sum_to(n));
  expect_first(self, 2, 3 * sum_to(n) - 2 * n);
  expect_first(self, 3, sum_to(n));
}

static ls_nest broadcast(ls_strategy *strategy, ls_nest args, void *user) {
  const ls_destinations one = {.device = "/cpu:0"};
  const ls_nest x = ls_leaf(ls_scalar(LS_DTYPE_F32, 2.5));
  ls_nest made[3] = {0};
  (void)args, (void)user;
  ls_status status =
      ls_strategy_broadcast_to(strategy, x, (ls_destinations){0}, &made[0]);
  if (ls_status_is_ok(status))
    status = ls_strategy_broadcast_to(strategy, x, one, &made[1]);
  if (ls_status_is_ok(status))
    status = ls_strategy_broadcast_to(strategy, ls_nest_f64(4), one, &made[2]);
  return taken(status, (ls_nest[]){LS_TUPLE(made[0], made[1], made[2])});
}

static void numbers_are_there(const ways *self) {
  expect_first(self, 0, 2.5);
  expect_first(self, 1, 2.5);
  expect_first(self, 2, 4);
}

static ls_nest gather(ls_strategy *strategy, ls_nest args, void *user) {
  const across *a = user;
  ls_nest made = ls_none();
  return taken(
      ls_strategy_gather(strategy, ls_nest_item(args, 0), a->axis, &made),
      &made);
}

static void rows_are_behind_each_other(const ways *self) {
  const int n = self->replicas;
  for (int r = 0; r < n; ++r)
    for (int k = 0; k < n * (n + 1) / 2; ++k)
      ways_expect(self, "a row", ways_result(self, 0, r, 0, 2 * k), k + 1, 0);
}

static void columns_are_beside_each_other(const ways *self) {
  for (int r = 0; r < self->replicas; ++r)
    for (int k = 0; k < self->replicas; ++k)
      ways_expect(self, "a row", ways_result(self, 0, r, 0, 2 * k), k + 1, 0);
}

static ls_nest local_results(ls_strategy *strategy, ls_nest args, void *user) {
  ls_nest tuple = ls_none(), list = ls_none();
  (void)user;
  const ls_status status =
      ls_strategy_local_results(strategy, ls_nest_item(args, 1), &tuple);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  expect_ok(ls_strategy_unwrap(strategy, ls_nest_item(args, 1), &list));
  return LS_TUPLE(tuple, list);
}

static void each_is_there(const ways *self) {
  const int n = self->replicas;
  for (int k = 0; k < 2 * n; ++k)
    expect_first(self, (size_t)k, k % n + 1);
}

TEST(values_go_to_destinations_in_every_way) {
  LS_SPEC("V192 V193 V194 V195 V196 M127 M132");
  static const across cases[] = {
      {.name = "reduce to", .function = reduce_to, .check = sums_are_there},
      {.name = "broadcast", .function = broadcast, .check = numbers_are_there},
      {.name = "gather",
       .function = gather,
       .check = rows_are_behind_each_other},
      {.name = "gather columns",
       .function = gather,
       .check = columns_are_beside_each_other,
       .axis = 1,
       .one_row = true},
      {.name = "local results",
       .function = local_results,
       .check = each_is_there}};
  hold(cases, LS_COUNT_OF(cases), false);
}

// ---- What is no PerReplica -------------------------------------------------
static ls_nest reduce_mirrored(ls_strategy *strategy, ls_nest args,
                               void *user) {
  const across *a = user;
  LS_OWN(ls_nest, everywhere) = ls_none();
  ls_nest made = ls_none();
  (void)args;
  ls_status status =
      ls_strategy_broadcast_to(strategy, ls_leaf(ls_scalar(LS_DTYPE_F32, 2.5)),
                               (ls_destinations){0}, &everywhere);
  if (ls_status_is_ok(status))
    status = ls_strategy_reduce(strategy, a->op, everywhere, &made);
  return taken(status, &made);
}

static ls_nest reduce_plain(ls_strategy *strategy, ls_nest args, void *user) {
  const across *a = user;
  ls_nest made = ls_none();
  (void)args;
  return taken(ls_strategy_reduce(strategy, a->op,
                                  ls_leaf(ls_scalar(LS_DTYPE_F32, 2.5)), &made),
               &made);
}

static ls_nest reduce_zero(ls_strategy *strategy, ls_nest args, void *user) {
  const across *a = user;
  ls_nest made = ls_none();
  (void)args;
  return taken(ls_strategy_reduce(strategy, a->op, ls_nest_i64(0), &made),
               &made);
}

static void it_is_the_number(const ways *self) { expect_first(self, 0, 2.5); }
static void it_is_zero(const ways *self) { expect_first(self, 0, 0); }

TEST(what_is_no_per_replica_is_reduced_the_same) {
  LS_SPEC("V189 V190 M129");
  static const across fine[] = {
      {.name = "the mean of a Mirrored",
       .function = reduce_mirrored,
       .check = it_is_the_number,
       .op = LS_REDUCE_MEAN},
      {.name = "the mean of a tensor",
       .function = reduce_plain,
       .check = it_is_the_number,
       .op = LS_REDUCE_MEAN},
      {.name = "zero", .function = reduce_zero, .check = it_is_zero}};
  hold(fine, LS_COUNT_OF(fine), false);
  static const across not [] = {{.name = "the sum of a Mirrored",
                                 .function = reduce_mirrored,
                                 .refused = LS_INVALID_ARGUMENT,
                                 .says = "irrored"},
                                {.name = "the sum of a tensor",
                                 .function = reduce_plain,
                                 .refused = LS_INVALID_ARGUMENT,
                                 .says = "SUM"}};
  hold(not, LS_COUNT_OF(not ), true);
}

// ---- Refused ---------------------------------------------------------------
static ls_nest gather_scalar(ls_strategy *strategy, ls_nest args, void *user) {
  ls_nest made = ls_none();
  (void)user;
  return taken(ls_strategy_gather(strategy, ls_nest_item(args, 1), 0, &made),
               &made);
}

static ls_nest reduce_rows(ls_strategy *strategy, ls_nest args, void *user) {
  const across *a = user;
  ls_nest made = ls_none();
  return taken(
      ls_strategy_reduce(strategy, a->op, ls_nest_item(args, 0), &made), &made);
}

static ls_nest reduce_in_replica(ls_nest args, ways *self) {
  ls_nest made = ls_none();
  return taken(ls_strategy_reduce(self->strategy, LS_REDUCE_SUM,
                                  ls_nest_item(args, 1), &made),
               &made);
}

TEST(reductions_are_refused_the_same_in_every_way) {
  LS_SPEC("V183 V184 V185 V187 V194 M77");
  static const across cases[] = {{.name = "rows of other numbers",
                                  .function = reduce_rows,
                                  .refused = LS_INVALID_ARGUMENT,
                                  .says = "[1,2]"},
                                 {.name = "another op",
                                  .function = reduce_rows,
                                  .op = LS_REDUCE_MAX,
                                  .refused = LS_INVALID_ARGUMENT},
                                 {.name = "an axis that is not",
                                  .function = reduce_axis,
                                  .axis = 2,
                                  .refused = LS_INVALID_ARGUMENT,
                                  .says = "2"},
                                 {.name = "columns of other lengths",
                                  .function = gather,
                                  .axis = 1,
                                  .refused = LS_INVALID_ARGUMENT},
                                 {.name = "an axis from the end",
                                  .function = gather,
                                  .axis = -1,
                                  .refused = LS_INVALID_ARGUMENT,
                                  .says = "-1"},
                                 {.name = "scalars",
                                  .function = gather_scalar,
                                  .refused = LS_INVALID_ARGUMENT}};
  hold(cases, LS_COUNT_OF(cases), true);
  const ways_case c = {.name = "in a replica",
                       .user = &cases[0],
                       .args = rows_of_replica,
                       .step = reduce_in_replica,
                       .refused = LS_FAILED_PRECONDITION,
                       .says = "merge_call"};
  ways_hold(&c, 1);
}
