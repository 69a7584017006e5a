// SPDX-License-Identifier: Apache-2.0
// What replicas do in groups, or one with another, in compiled steps, in loops
// and op by op, against plain C.
#include <math.h>

#include "base/memory/allocator.h"
#include "distribute/own.h"
#include "lockstep/gradients.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"

enum { REPLICAS = 6, WIDTH = 6 };

// Three groups of two and two of three, listed in no order.
static const int32_t pairs_of_two[] = {5, 0, 1, 3, 4, 2};
static const int32_t threes[] = {4, 0, 2, 1, 5, 3};
static const ls_replica_groups choices[] = {
    {.members = pairs_of_two, .size = 2, .count = 3},
    {.members = threes, .size = 3, .count = 2},
};

// Element i of replica r's value, [WIDTH, 2]: numbers that add up exactly.
static double x_of(int r, int64_t i) { return (r + 1) * 100 + (double)i; }

static ls_nest values(void) {
  ls_nest items[REPLICAS];
  for (int r = 0; r < REPLICAS; ++r) {
    double numbers[WIDTH * 2];
    for (int64_t i = 0; i < WIDTH * 2; ++i)
      numbers[i] = x_of(r, i);
    items[r] =
        ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(WIDTH, 2), numbers));
  }
  return LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, items, REPLICAS));
}

static ls_tensor argument(ls_nest args) {
  ls_array *array = ls_nest_as_array(ls_nest_item(args, 0));
  return array != NULL ? ls_constant(array) : ls_nest_tensor(args, 0);
}

typedef ls_tensor (*maker)(ls_tensor x, const ls_replica_groups *groups);
typedef double (*wanted)(const ls_replica_groups *groups, int r, int64_t i);

typedef struct trial {
  maker make;
  const ls_replica_groups *groups;
  bool in_loop;
  ls_tensor x;
} trial;

static ls_nest is_second(ls_nest state, void *user) {
  (void)user;
  return ls_leaf(
      ls_less(ls_nest_tensor(state, 0), ls_scalar_i64(LS_DTYPE_I64, 2)));
}

static ls_nest make_in_body(ls_nest state, void *user) {
  const trial *t = user;
  return LS_TUPLE(ls_leaf(ls_add_scalar(ls_nest_tensor(state, 0), 1)),
                  ls_leaf(t->make(t->x, t->groups)));
}

static ls_nest run_maker(ls_nest args, void *user) {
  trial *t = user;
  t->x = argument(args);
  const ls_tensor direct = t->make(t->x, t->groups);
  if (!t->in_loop) return LS_TUPLE(ls_leaf(direct));
  LS_OWN(ls_nest, last) =
      ls_while(is_second, make_in_body, t,
               LS_TUPLE(ls_leaf(ls_scalar_i64(LS_DTYPE_I64, 0)),
                        ls_leaf(ls_mul_scalar(direct, 0))),
               2);
  return LS_TUPLE(ls_leaf(ls_nest_tensor(last, 1)));
}

static void expect_values(ls_nest got, const ls_replica_groups *groups,
                          wanted want, int64_t count) {
  for (int r = 0; r < REPLICAS; ++r) {
    const ls_nest value = ls_nest_item(got, 0);
    const ls_nest own = ls_distributed_count(value) == 0
                            ? value
                            : ls_distributed_component(value, (size_t)r);
    LS_OWN(ls_array, array) = NULL;
    if (own.kind == LS_KIND_TENSOR)
      expect_ok(ls_tensor_value(own.as.tensor, &array));
    else
      array = ls_array_retain(ls_nest_as_array(own));
    assert_int_equal(ls_array_num_elements(array), count);
    for (int64_t i = 0; i < count; ++i) {
      const double a = ls_array_f64(array, i), b = want(groups, r, i);
      if (fabs(a - b) > 1e-3)
        fail_msg("replica %d, element %d: %g, wanted %g", r, (int)i, a, b);
    }
  }
}

static void check(maker make, const ls_replica_groups *groups, wanted want,
                  int64_t count) {
  for (int way = 0; way < 3; ++way) {
    expect_ok(ls_frame_begin());
    trial t = {.make = make, .groups = groups, .in_loop = way == 2};
    const ls_nest args = values();
    ls_strategy *strategy = mirrored_of(REPLICAS);
    const ls_nest got = way == 0 ? run_on(strategy, run_maker, args, &t)
                                 : call_on(REPLICAS, run_maker, &t, args, 2);
    expect_values(got, groups, want, count);
    ls_nest_release(got);
    ls_nest_release(args);
    ls_strategy_release(strategy);
    expect_ok(ls_frame_end(NULL));
  }
}

// ---- By hand ---------------------------------------------------------------
// The members of a replica's group as they are listed, and its place there.
static const int32_t *group_of(const ls_replica_groups *groups, int r,
                               int *place) {
  static const int32_t all[] = {0, 1, 2, 3, 4, 5};
  *place = r;
  if (groups == NULL) return all;
  for (size_t i = 0; i < groups->size * groups->count; ++i) {
    if (groups->members[i] != r) continue;
    *place = (int)(i % groups->size);
    return groups->members + i - i % groups->size;
  }
  return NULL;
}

static int size_of(const ls_replica_groups *groups) {
  return groups == NULL ? REPLICAS : (int)groups->size;
}

// The i-th smallest member, and how many members are smaller than r.
static int by_id(const ls_replica_groups *groups, int r, int i) {
  int place;
  const int32_t *members = group_of(groups, r, &place);
  for (int id = 0; id < REPLICAS; ++id)
    for (int k = 0; k < size_of(groups); ++k)
      if (members[k] == id && i-- == 0) return id;
  return -1;
}

static int rank_of(const ls_replica_groups *groups, int r) {
  int rank = 0;
  while (by_id(groups, r, rank) != r)
    ++rank;
  return rank;
}

static double sum_of(const ls_replica_groups *groups, int r, int64_t i) {
  double sum = 0;
  for (int k = 0; k < size_of(groups); ++k)
    sum += x_of(by_id(groups, r, k), i);
  return sum;
}

// ---- The collectives -------------------------------------------------------
static ls_tensor sum(ls_tensor x, const ls_replica_groups *groups) {
  return ls_all_reduce_in(LS_REDUCE_SUM, x, groups);
}
static ls_tensor mean(ls_tensor x, const ls_replica_groups *groups) {
  return ls_all_reduce_in(LS_REDUCE_MEAN, x, groups);
}
static double want_mean(const ls_replica_groups *groups, int r, int64_t i) {
  return sum_of(groups, r, i) / size_of(groups);
}
static ls_tensor most(ls_tensor x, const ls_replica_groups *groups) {
  return ls_all_reduce_in(LS_REDUCE_MAX, x, groups);
}
static double want_most(const ls_replica_groups *groups, int r, int64_t i) {
  return x_of(by_id(groups, r, size_of(groups) - 1), i);
}
static ls_tensor least(ls_tensor x, const ls_replica_groups *groups) {
  return ls_all_reduce_in(LS_REDUCE_MIN, x, groups);
}
static double want_least(const ls_replica_groups *groups, int r, int64_t i) {
  return x_of(by_id(groups, r, 0), i);
}

static ls_tensor gather(ls_tensor x, const ls_replica_groups *groups) {
  return ls_all_gather_in(x, 1, groups);
}
static double want_gather(const ls_replica_groups *groups, int r, int64_t i) {
  const int64_t columns = 2 * size_of(groups), row = i / columns;
  const int64_t column = i % columns;
  return x_of(by_id(groups, r, (int)(column / 2)), row * 2 + column % 2);
}

static ls_tensor scatter(ls_tensor x, const ls_replica_groups *groups) {
  return ls_reduce_scatter_in(LS_REDUCE_SUM, x, 0, groups);
}
static double want_scatter(const ls_replica_groups *groups, int r, int64_t i) {
  const int64_t rows = WIDTH / size_of(groups);
  return sum_of(groups, r, rank_of(groups, r) * rows * 2 + i);
}

// Cut along rows, put together along columns.
static ls_tensor exchange(ls_tensor x, const ls_replica_groups *groups) {
  return ls_all_to_all(x, 0, 1, groups);
}
static double want_exchange(const ls_replica_groups *groups, int r, int64_t i) {
  int place;
  const int32_t *members = group_of(groups, r, &place);
  const int64_t rows = WIDTH / size_of(groups), columns = 2 * size_of(groups);
  const int64_t row = i / columns, column = i % columns;
  return x_of(members[column / 2], (place * rows + row) * 2 + column % 2);
}

TEST(groups_of_replicas_put_values_together) {
  for (size_t c = 0; c < LS_COUNT_OF(choices); ++c) {
    const ls_replica_groups *groups = &choices[c];
    const int64_t all = WIDTH * 2, size = (int64_t)groups->size;
    check(sum, groups, sum_of, all);
    check(mean, groups, want_mean, all);
    check(most, groups, want_most, all);
    check(least, groups, want_least, all);
    check(gather, groups, want_gather, all * size);
    check(scatter, groups, want_scatter, all / size);
    check(exchange, groups, want_exchange, all);
  }
  check(exchange, NULL, want_exchange, WIDTH * 2);
}

// ---- One with another ------------------------------------------------------
static const int32_t moves[][2] = {{0, 2}, {2, 0}, {5, 1}, {3, 3}};

static ls_tensor permute(ls_tensor x, const ls_replica_groups *groups) {
  (void)groups;
  return ls_collective_permute(x, moves, LS_COUNT_OF(moves));
}
static double want_permute(const ls_replica_groups *groups, int r, int64_t i) {
  (void)groups;
  for (size_t m = 0; m < LS_COUNT_OF(moves); ++m)
    if (moves[m][1] == r) return x_of(moves[m][0], i);
  return 0;
}

static ls_tensor broadcast(ls_tensor x, const ls_replica_groups *groups) {
  (void)groups;
  return ls_collective_broadcast(x, 4);
}
static double want_broadcast(const ls_replica_groups *groups, int r,
                             int64_t i) {
  (void)groups;
  (void)r;
  return x_of(4, i);
}

TEST(values_go_from_one_replica_to_others) {
  check(permute, NULL, want_permute, WIDTH * 2);
  check(broadcast, NULL, want_broadcast, WIDTH * 2);
}

// ---- Gradients -------------------------------------------------------------
// d/dx of the sum over replicas of sum(w * f(x)), w = (id + 1) by element: as f
// is linear, f's transpose on w, which differences of f show.
static ls_nest gradient_of(ls_nest args, void *user) {
  const trial *t = user;
  const ls_tensor x = argument(args);
  const ls_tensor y = t->make(x, t->groups);
  const ls_tensor w =
      ls_add_scalar(ls_convert(ls_replica_id(), LS_DTYPE_F32), 1);
  const ls_nest loss = ls_leaf(
      ls_reduce_sum(ls_mul(ls_mul(y, w), ls_stop_gradient(y)), LS_ALL_AXES));
  const ls_nest leaf = ls_leaf(x);
  ls_nest gradient = {0};
  const ls_status status = ls_gradients(&loss, 1, &leaf, 1, NULL, &gradient);
  // <gradient, x> = sum w y y, if the gradient is the transpose of f.
  return ls_status_is_ok(status)
             ? LS_TUPLE(ls_leaf(ls_all_reduce(
                            LS_REDUCE_SUM,
                            ls_reduce_sum(ls_mul(gradient.as.tensor, x),
                                          LS_ALL_AXES))),
                        ls_leaf(ls_all_reduce(LS_REDUCE_SUM, loss.as.tensor)))
             : ls_fail(status);
}

TEST(gradients_go_back_the_way_values_came) {
  static const maker makers[] = {sum,      mean,    gather,   scatter,
                                 exchange, permute, broadcast};
  for (size_t m = 0; m < LS_COUNT_OF(makers); ++m)
    for (size_t c = 0; c < LS_COUNT_OF(choices); ++c) {
      trial t = {.make = makers[m], .groups = &choices[c]};
      LS_OWN(ls_nest, args) = values();
      LS_OWN(ls_nest, got) = call_on(REPLICAS, gradient_of, &t, args, 1);
      double numbers[2];
      for (size_t i = 0; i < 2; ++i) {
        const ls_nest value = ls_nest_item(got, i);
        numbers[i] = number_of(ls_distributed_count(value) == 0
                                   ? value
                                   : ls_distributed_component(value, 0));
      }
      if (fabs(numbers[0] - numbers[1]) > 1e-5 * fabs(numbers[1]))
        fail_msg("maker %zu, groups %zu: %g and %g", m, c, numbers[0],
                 numbers[1]);
      assert_true(numbers[1] > 0);
    }
}

// ---- Refusals --------------------------------------------------------------
typedef struct refusal {
  maker make;
  ls_replica_groups groups;
  const char *part;
} refusal;

static ls_tensor cut_columns(ls_tensor x, const ls_replica_groups *groups) {
  return ls_all_to_all(x, 1, 0, groups);
}
static ls_tensor cut_nothing(ls_tensor x, const ls_replica_groups *groups) {
  return ls_all_to_all(x, 2, 0, groups);
}
static ls_tensor permute_twice(ls_tensor x, const ls_replica_groups *groups) {
  static const int32_t twice[][2] = {{0, 1}, {2, 1}};
  (void)groups;
  return ls_collective_permute(x, twice, 2);
}
static ls_tensor broadcast_none(ls_tensor x, const ls_replica_groups *groups) {
  (void)groups;
  return ls_collective_broadcast(x, REPLICAS);
}

// Of integers, whose exchanges no gradient records.
static ls_tensor integers(ls_tensor x) { return ls_convert(x, LS_DTYPE_I32); }
static ls_tensor cut_last(ls_tensor x, const ls_replica_groups *groups) {
  return ls_all_to_all(integers(x), -1, 0, groups);
}
static ls_tensor put_last(ls_tensor x, const ls_replica_groups *groups) {
  return ls_all_to_all(integers(x), 0, -1, groups);
}
static ls_tensor scatter_last(ls_tensor x, const ls_replica_groups *groups) {
  return ls_reduce_scatter_in(LS_REDUCE_SUM, integers(x), -1, groups);
}
static ls_tensor gather_last(ls_tensor x, const ls_replica_groups *groups) {
  return ls_all_gather_in(integers(x), -1, groups);
}
static ls_tensor reduce_by_none(ls_tensor x, const ls_replica_groups *groups) {
  return ls_all_reduce_in((ls_reduce_op)9, integers(x), groups);
}

// Of a value with the most dimensions, so that a stack of them has too many.
static ls_tensor deep(ls_tensor x) {
  return ls_reshape(x, LS_SHAPE(WIDTH, 1, 1, 1, 1, 1, 1, 2));
}
static ls_tensor sum_deep(ls_tensor x, const ls_replica_groups *groups) {
  return sum(deep(x), groups);
}
static ls_tensor gather_deep(ls_tensor x, const ls_replica_groups *groups) {
  return ls_all_gather_in(deep(x), 0, groups);
}
static ls_tensor scatter_deep(ls_tensor x, const ls_replica_groups *groups) {
  return ls_reduce_scatter_in(LS_REDUCE_SUM, deep(x), 0, groups);
}
static ls_tensor exchange_deep(ls_tensor x, const ls_replica_groups *groups) {
  return ls_all_to_all(deep(x), 0, 1, groups);
}
static ls_tensor permute_deep(ls_tensor x, const ls_replica_groups *groups) {
  return permute(deep(x), groups);
}
static ls_tensor broadcast_deep(ls_tensor x, const ls_replica_groups *groups) {
  return broadcast(deep(x), groups);
}

TEST(what_does_not_fit_is_refused) {
  static const int32_t same[] = {0, 1, 2, 3, 4, 4};
  const char *too_deep = "of f32[6,1,1,1,1,1,1,2]: its rank must be below 8";
  const refusal rows[] = {
      {sum, {same, 2, 3}, "replica 4 is in a group twice"},
      {sum, {threes, 4, 1}, "1 groups of 4 members for 6 replicas"},
      {cut_columns, choices[1], "cannot be cut into 3 equal parts"},
      {cut_nothing, choices[1], "split axis 2"},
      {permute_twice, choices[1], "source or target twice"},
      {broadcast_none, choices[1], "replica 6 is not one of 6"},
      {sum, {NULL, 6, 1}, "the members of 1 groups are at NULL"},
      {sum, {threes, SIZE_MAX / 2 + 4, 2}, "members for 6 replicas"},
      {cut_last, choices[1], "'split_axis' is -1, must be 0 to 7"},
      {put_last, choices[1], "'concat_axis' is -1, must be 0 to 7"},
      {scatter_last, choices[1], "'axis' is -1, must be 0 to 7"},
      {gather_last, choices[1], "'axis' is -1, must be 0 to 7"},
      {reduce_by_none, choices[1], "'reduce' is '?'"},
      {sum_deep, choices[1], too_deep},
      {gather_deep, choices[1], too_deep},
      {scatter_deep, choices[1], too_deep},
      {exchange_deep, choices[1], too_deep},
      {permute_deep, choices[1], too_deep},
      {broadcast_deep, choices[1], too_deep},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    for (int compiled = 0; compiled < 2; ++compiled) {
      expect_ok(ls_frame_begin());
      trial t = {.make = rows[i].make, .groups = &rows[i].groups};
      ls_strategy *strategy = mirrored_of(REPLICAS);
      ls_function *f = unnamed_function(run_maker, &t);
      const ls_nest args = values();
      ls_nest result = ls_none();
      ls_status status = ls_strategy_run(
          strategy, compiled ? ls_traced(f) : ls_plain(run_maker, &t), args,
          &result);
      // Op by op what failed is a value.
      if (ls_status_is_ok(status)) {
        const ls_nest value = ls_nest_item(result, 0);
        status = ls_tensor_status((ls_distributed_count(value) == 0
                                       ? value
                                       : ls_distributed_component(value, 0))
                                      .as.tensor);
      }
      expect_status(status,
                    rows[i].part == too_deep ? LS_UNIMPLEMENTED
                                             : LS_INVALID_ARGUMENT,
                    rows[i].part);
      ls_nest_release(result);
      ls_nest_release(args);
      ls_function_release(f);
      ls_strategy_release(strategy);
      expect_ok(ls_frame_end(NULL));
    }
}

static ls_nest sum_in_body(ls_nest state, void *user) {
  const trial *t = user;
  return LS_TUPLE(
      ls_leaf(ls_add_scalar(ls_nest_tensor(state, 0), 1)),
      ls_leaf(ls_reduce_sum(t->make(t->x, t->groups), LS_ALL_AXES)));
}

static ls_nest run_in_loop_alone(ls_nest args, void *user) {
  trial *t = user;
  t->x = argument(args);
  LS_OWN(ls_nest, last) =
      ls_while(is_second, sum_in_body, t,
               LS_TUPLE(ls_leaf(ls_scalar_i64(LS_DTYPE_I64, 0)),
                        ls_leaf(ls_scalar(LS_DTYPE_F32, 0))),
               2);
  return LS_TUPLE(ls_leaf(ls_nest_tensor(last, 1)));
}

TEST(other_shapes_in_a_loop_are_named_as_they_are) {
  static const maker makers[] = {sum, permute, broadcast};
  ls_nest items[REPLICAS];
  for (int r = 0; r < REPLICAS; ++r)
    items[r] = ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(r < 3 ? 4 : 6, 3));
  LS_OWN(ls_nest, args) =
      LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, items, REPLICAS));
  LS_OWN(ls_strategy, strategy) = mirrored_of(REPLICAS);
  for (size_t i = 0; i < LS_COUNT_OF(makers); ++i) {
    trial t = {.make = makers[i], .groups = &choices[0]};
    LS_OWN(ls_function, f) = unnamed_function(run_in_loop_alone, &t);
    ls_nest result = ls_none();
    expect_status(ls_strategy_run(strategy, ls_traced(f), args, &result),
                  LS_INVALID_ARGUMENT, "a collective of f32[4,3] and f32[6,3]");
  }
}
