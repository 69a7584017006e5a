// SPDX-License-Identifier: Apache-2.0
//
// What replicas know of themselves and do with each other is the same in every
// way to run, and so is what is refused.
#include "support/ways.h"

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "support/callbacks.h"
#include "support/merges.h"
#include "support/values.h"

typedef struct behaviour {
  const char *name;
  ls_nest (*step)(ls_nest args, ways *self);
  void (*check)(const ways *self);
  bool uneven;  // Replica r has r + 1 rows, else 6.
  ls_code refused;
  const char *says;
} behaviour;

// Replica r's rows of two: (100 (r + 1), ...); a scalar r + 1; an integer.
static ls_nest uneven_rows(const ways *self, int step, int r) {
  const behaviour *b = self->user;
  const double number = r + 1;
  double rows[12];
  (void)step;
  for (int i = 0; i < 12; ++i)
    rows[i] = 100 * (r + 1) + i;
  return LS_TUPLE(ls_nest_array(array_of(
                      LS_DTYPE_F32, LS_SHAPE(b->uneven ? r + 1 : 6, 2), rows)),
                  ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, &number)),
                  ls_nest_array(array_of(LS_DTYPE_I32, LS_SCALAR, &number)));
}

static void hold(const behaviour *cases, size_t count, bool replicas_only) {
  for (size_t i = 0; i < count; ++i) {
    const ways_case c = {.name = cases[i].name,
                         .user = &cases[i],
                         .args = uneven_rows,
                         .step = cases[i].step,
                         .check = cases[i].check,
                         .replicas_only = replicas_only,
                         .refused = cases[i].refused,
                         .says = cases[i].says};
    ways_hold(&c, 1);
  }
}

static void expect_at(const ways *self, int r, size_t leaf, int64_t element,
                      double wanted) {
  ways_expect(self, ((const behaviour *)self->user)->name,
              ways_result(self, 0, r, leaf, element), wanted, 1e-4);
}

static double sum_to(int n) { return n * (n + 1) / 2.0; }

// ---- Who they are ----------------------------------------------------------
static ls_nest tell_ids(ls_nest args, ways *self) {
  ls_replica *replica = ls_replica_context();
  ls_tensor id = ls_failed_tensor();
  bool single = false;
  (void)args;
  expect_ok(ls_replica_id_in_sync_group(replica, &id));
  expect_ok(ls_replica_is_single(replica, &single));
  assert_int_equal(single, self->replicas == 1);
  assert_ptr_equal(ls_replica_strategy(replica), self->strategy);
  assert_int_equal(ls_replica_num_replicas(replica), self->replicas);
  assert_true(ls_has_strategy());
  assert_false(ls_in_cross_replica_context());
  return LS_TUPLE(ls_leaf(id), ls_leaf(ls_replica_id()),
                  ls_nest_i64(ls_num_replicas()));
}

static void ids_are_told(const ways *self) {
  for (int r = 0; r < self->replicas; ++r) {
    expect_at(self, r, 0, 0, r);
    expect_at(self, r, 1, 0, r);
    expect_at(self, r, 2, 0, self->replicas);
  }
}

// Whether the number is known, then the number.
static ls_nest tell_examples(ls_nest args, ways *self) {
  ls_tensor count = ls_failed_tensor();
  (void)args, (void)self;
  const bool known = ls_replica_examples(&count);
  return LS_TUPLE(ls_nest_i64(known),
                  known ? ls_leaf(ls_convert(count, LS_DTYPE_F32))
                        : ls_leaf(ls_scalar(LS_DTYPE_F32, -1)));
}

static void examples_are_counted(const ways *self) {
  const behaviour *b = self->user;
  const bool known = b->uneven && self->replicas > 1;
  for (int r = 0; r < self->replicas; ++r) {
    expect_at(self, r, 0, 0, known);
    expect_at(self, r, 1, 0, known ? r + 1 : -1);
  }
}

static ls_nest give_examples(ls_nest args, ways *self) {
  const ls_status status =
      ls_replica_set_examples(ls_replica_context(), argument(args, 2));
  return ls_status_is_ok(status) ? tell_examples(args, self) : ls_fail(status);
}

static void given_examples_count(const ways *self) {
  for (int r = 0; r < self->replicas; ++r)
    if (self->replicas > 1) expect_at(self, r, 1, 0, r + 1);
}

TEST(replicas_know_themselves_in_every_way) {
  LS_SPEC("V172 M32");
  static const behaviour cases[] = {
      {.name = "ids", .step = tell_ids, .check = ids_are_told},
      {.name = "even examples",
       .step = tell_examples,
       .check = examples_are_counted},
      {.name = "uneven examples",
       .step = tell_examples,
       .check = examples_are_counted,
       .uneven = true},
      {.name = "given examples",
       .step = give_examples,
       .check = given_examples_count}};
  hold(cases, LS_COUNT_OF(cases), false);
}

// ---- Nests -----------------------------------------------------------------
static ls_nest nest_of(ls_nest args) {
  return LS_LIST(ls_leaf(argument(args, 1)),
                 LS_TUPLE(ls_leaf(argument(args, 2)),
                          ls_leaf(ls_mul_scalar(argument(args, 1), 2))));
}

static ls_nest sum_nest(ls_nest args, ways *self) {
  LS_OWN(ls_nest, nest) = nest_of(args);
  (void)self;
  return ls_replica_all_reduce(ls_replica_context(), LS_REDUCE_SUM, nest);
}

static ls_nest mean_nest(ls_nest args, ways *self) {
  LS_OWN(ls_nest, nest) = nest_of(args);
  (void)self;
  return ls_replica_all_reduce(ls_replica_context(), LS_REDUCE_MEAN, nest);
}

static ls_nest weigh_nest(ls_nest args, ways *self) {
  static const double weights[] = {3, 0, 1};
  LS_OWN(ls_nest, nest) = nest_of(args);
  return ls_replica_weighted_mean(ls_replica_context(), nest, weights,
                                  (size_t)self->replicas);
}

static void expect_nest(const ways *self, double wanted) {
  for (int r = 0; r < self->replicas; ++r)
    for (size_t leaf = 0; leaf < 3; ++leaf)
      expect_at(self, r, leaf, 0, leaf == 2 ? 2 * wanted : wanted);
}

static void nest_is_summed(const ways *self) {
  expect_nest(self, sum_to(self->replicas));
}

static void nest_is_averaged(const ways *self) {
  expect_nest(self, sum_to(self->replicas) / self->replicas);
}

static void nest_is_weighted(const ways *self) {
  expect_nest(self, self->replicas < 3 ? 1 : 1.5);
}

static ls_nest gather_nest(ls_nest args, ways *self) {
  const ls_tensor x = argument(args, 0);
  (void)self;
  LS_OWN(ls_nest, nest) =
      LS_LIST(ls_leaf(x), LS_TUPLE(ls_leaf(ls_convert(x, LS_DTYPE_I32))));
  return ls_replica_all_gather(ls_replica_context(), nest, 0);
}

static void nest_is_gathered(const ways *self) {
  const behaviour *b = self->user;
  for (int r = 0; r < self->replicas; ++r)
    for (size_t leaf = 0; leaf < 2; ++leaf)
      for (int k = 0, row = 0; k < self->replicas; ++k)
        for (int i = 0; i < (b->uneven ? k + 1 : 6); ++i, ++row)
          expect_at(self, r, leaf, 2 * row, 100 * (k + 1) + 2 * i);
}

TEST(nests_meet_in_every_way) {
  LS_SPEC("V180 V181 M133 M183");
  static const behaviour cases[] = {
      {.name = "a sum", .step = sum_nest, .check = nest_is_summed},
      {.name = "a mean", .step = mean_nest, .check = nest_is_averaged},
      {.name = "weights", .step = weigh_nest, .check = nest_is_weighted},
      {.name = "even rows", .step = gather_nest, .check = nest_is_gathered},
      {.name = "uneven rows",
       .step = gather_nest,
       .check = nest_is_gathered,
       .uneven = true}};
  hold(cases, LS_COUNT_OF(cases), false);
}

// By the ops themselves.
static ls_nest mean_integers(ls_nest args, ways *self) {
  static const int32_t members[] = {0, 1, 2};
  const ls_replica_groups all = {members, (size_t)self->replicas, 1};
  const ls_tensor x = argument(args, 2);
  const ls_tensor rows = ls_convert(argument(args, 0), LS_DTYPE_U16);
  // Their sum is no u8.
  const ls_tensor large = ls_convert(ls_add_scalar(x, 200), LS_DTYPE_U8);
  return LS_TUPLE(ls_leaf(ls_all_reduce(LS_REDUCE_MEAN, x)),
                  ls_leaf(ls_all_reduce_in(LS_REDUCE_MEAN, x, &all)),
                  ls_leaf(ls_reduce_scatter(LS_REDUCE_MEAN, rows, 0)),
                  ls_leaf(ls_reduce_scatter_in(LS_REDUCE_MEAN, rows, 0, &all)),
                  ls_leaf(ls_all_reduce(LS_REDUCE_MEAN, large)),
                  ls_leaf(ls_all_reduce_in(LS_REDUCE_MEAN, large, &all)));
}

static void integers_are_divided(const ways *self) {
  const double mean = (self->replicas + 1) / 2.0;
  const int rows = 6 / self->replicas;
  for (int r = 0; r < self->replicas; ++r)
    for (size_t leaf = 0; leaf < 6; ++leaf) {
      const ls_array *got = self->values[self->values_of[0][r] + leaf];
      assert_int_equal(ls_array_dtype(got),
                       leaf < 2 ? LS_DTYPE_F64 : LS_DTYPE_F32);
      expect_at(self, r, leaf, 0,
                leaf < 2   ? mean
                : leaf < 4 ? 100 * mean + 2 * rows * r
                           : 200 + mean);
    }
}

TEST(means_of_integers_are_true_divisions) {
  LS_SPEC("M76 V188");
  static const behaviour c = {
      .name = "integers", .step = mean_integers, .check = integers_are_divided};
  hold(&c, 1, false);
}

// ---- Groups ----------------------------------------------------------------
static ls_nest exchange(ls_nest args, ways *self) {
  const int32_t n = self->replicas;
  const ls_tensor x = argument(args, 0);
  int32_t members[WAYS_MOST_REPLICAS], ring[WAYS_MOST_REPLICAS][2];
  for (int32_t r = 0; r < n; ++r) {
    members[r] = n - 1 - r;
    ring[r][0] = r;
    ring[r][1] = (r + 1) % n;
  }
  const ls_replica_groups alone = {members, 1, (size_t)n};
  const ls_replica_groups all = {members, (size_t)n, 1};
  return LS_TUPLE(
      ls_leaf(ls_all_reduce_in(LS_REDUCE_SUM, x, &alone)),
      ls_leaf(ls_all_reduce_in(LS_REDUCE_MAX, x, &all)),
      ls_leaf(ls_all_gather_in(x, 1, &all)),
      ls_leaf(ls_reduce_scatter_in(LS_REDUCE_SUM, x, 0, &all)),
      ls_leaf(ls_collective_permute(x, (const int32_t(*)[2])ring, (size_t)n)),
      ls_leaf(ls_collective_broadcast(x, n - 1)),
      ls_leaf(ls_all_to_all(x, 0, 1, &all)));
}

static void all_is_exchanged(const ways *self) {
  const int n = self->replicas;
  for (int r = 0; r < n; ++r) {
    expect_at(self, r, 0, 3, 100 * (r + 1) + 3);
    expect_at(self, r, 1, 3, 100 * n + 3);
    for (int k = 0; k < n; ++k)
      expect_at(self, r, 2, 2 * k + 1, 100 * (k + 1) + 1);
    expect_at(self, r, 3, 1, 100 * sum_to(n) + n * (1 + 12.0 / n * r));
    expect_at(self, r, 4, 5, 100 * ((r + n - 1) % n + 1) + 5);
    expect_at(self, r, 5, 7, 100 * n + 7);
  }
}

TEST(groups_exchange_in_every_way) {
  static const behaviour c = {
      .name = "groups", .step = exchange, .check = all_is_exchanged};
  hold(&c, 1, false);
}

// ---- Refused ---------------------------------------------------------------
static ls_nest reduce_by_max(ls_nest args, ways *self) {
  (void)self;
  return ls_replica_all_reduce(ls_replica_context(), LS_REDUCE_MAX,
                               ls_leaf(argument(args, 1)));
}

static ls_nest sum_rows(ls_nest args, ways *self) {
  (void)self;
  return ls_replica_all_reduce(ls_replica_context(), LS_REDUCE_SUM,
                               ls_leaf(argument(args, 0)));
}

static ls_nest gather_scalar(ls_nest args, ways *self) {
  (void)self;
  return ls_replica_all_gather(ls_replica_context(), ls_leaf(argument(args, 1)),
                               0);
}

static ls_nest gather_from_end(ls_nest args, ways *self) {
  (void)self;
  return ls_replica_all_gather(ls_replica_context(), ls_leaf(argument(args, 0)),
                               -1);
}

static ls_nest gather_columns(ls_nest args, ways *self) {
  (void)self;
  return ls_replica_all_gather(ls_replica_context(), ls_leaf(argument(args, 0)),
                               1);
}

static ls_nest weigh_below_zero(ls_nest args, ways *self) {
  static const double weights[] = {1, -1, 1};
  return ls_replica_weighted_mean(ls_replica_context(),
                                  ls_leaf(argument(args, 1)), weights,
                                  (size_t)self->replicas);
}

static ls_nest weigh_too_few(ls_nest args, ways *self) {
  static const double weights[] = {1, 1, 1};
  return ls_replica_weighted_mean(ls_replica_context(),
                                  ls_leaf(argument(args, 1)), weights,
                                  (size_t)self->replicas - 1);
}

static ls_nest pass_on(ls_strategy *strategy, ls_nest args, void *user) {
  (void)strategy, (void)user;
  return ls_nest_retain(args);
}

static ls_nest merge_alone(ls_nest args, ways *self) {
  const ls_nest x = ls_leaf(argument(args, 1));
  return ls_replica_number() != 0
             ? x
             : ls_replica_merge_call(ls_replica_context(), pass_on, x, self);
}

static ls_nest merge_other_counts(ls_nest args, ways *self) {
  const ls_nest x = ls_leaf(argument(args, 1));
  LS_OWN(ls_nest, list) = ls_replica_number() == 0 ? LS_LIST(x) : LS_LIST(x, x);
  return ls_replica_merge_call(ls_replica_context(), pass_on, list, self);
}

static ls_nest run_inside(ls_nest args, ways *self) {
  ls_nest made = ls_none();
  (void)args;
  const ls_status status = ls_strategy_run(
      self->strategy, ls_plain(give_none, NULL), ls_none(), &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

static ls_nest fail_last(ls_nest args, ways *self) {
  ls_mul_scalar(argument(args, 0), 3);
  return ls_replica_number() == self->replicas - 1
             ? LS_FAIL(LS_DATA_LOSS, "the last one is broken")
             : ls_leaf(argument(args, 1));
}

TEST(meetings_are_refused_the_same_in_every_way) {
  LS_SPEC("V167 V169 V176 V180 V181 V213 M132 M133 M183");
  static const behaviour cases[] = {{.name = "the largest",
                                     .step = reduce_by_max,
                                     .refused = LS_INVALID_ARGUMENT,
                                     .says = "MAX"},
                                    {.name = "rows of other numbers",
                                     .step = sum_rows,
                                     .uneven = true,
                                     .refused = LS_INVALID_ARGUMENT},
                                    {.name = "scalars",
                                     .step = gather_scalar,
                                     .refused = LS_INVALID_ARGUMENT},
                                    {.name = "an axis from the end",
                                     .step = gather_from_end,
                                     .refused = LS_INVALID_ARGUMENT,
                                     .says = "-1"},
                                    {.name = "columns of other lengths",
                                     .step = gather_columns,
                                     .uneven = true,
                                     .refused = LS_INVALID_ARGUMENT},
                                    {.name = "a weight below zero",
                                     .step = weigh_below_zero,
                                     .refused = LS_INVALID_ARGUMENT,
                                     .says = "-1"},
                                    {.name = "too few weights",
                                     .step = weigh_too_few,
                                     .refused = LS_INVALID_ARGUMENT,
                                     .says = "weights"},
                                    {.name = "one that merges alone",
                                     .step = merge_alone,
                                     .refused = LS_FAILED_PRECONDITION,
                                     .says = "merge_call"},
                                    {.name = "other arguments",
                                     .step = merge_other_counts,
                                     .refused = LS_INVALID_ARGUMENT},
                                    {.name = "a run inside",
                                     .step = run_inside,
                                     .refused = LS_FAILED_PRECONDITION,
                                     .says = "merge_call"},
                                    {.name = "a failure",
                                     .step = fail_last,
                                     .refused = LS_DATA_LOSS,
                                     .says = "the last one is broken"}};
  hold(cases, LS_COUNT_OF(cases), true);
}
