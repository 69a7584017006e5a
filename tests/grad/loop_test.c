// SPDX-License-Identifier: Apache-2.0
//
// Gradients of loops agree with finite differences, once and twice.
#include <math.h>

#include "graph/own.h"
#include "lockstep/graph_ops.h"
#include "lockstep/session.h"
#include "runtime/own.h"
#include "support/callbacks.h"
#include "support/count_up.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/gradient_check.h"
#include "support/spec.h"

static ls_tensor number_of(ls_tensor trip) {
  return ls_convert(trip, LS_DTYPE_F64);
}

static ls_tensor growing(ls_tensor y, ls_tensor trip, ls_tensor w) {
  return ls_add(ls_sigmoid(ls_mul(y, w)), number_of(trip));
}

// ---- Loops that count ------------------------------------------------------
static ls_tensor times(ls_tensor y, ls_tensor trip, ls_tensor w) {
  (void)trip;
  return ls_mul(y, w);
}

static ls_tensor squashed(ls_tensor y, ls_tensor trip, ls_tensor w) {
  const ls_tensor shifted = ls_add(ls_matmul(y, w), number_of(trip));
  return ls_tanh(shifted);
}

// Nothing of y is left.
static ls_tensor forgetful(ls_tensor y, ls_tensor trip, ls_tensor w) {
  return ls_add(ls_mul_scalar(y, 0), ls_mul(w, number_of(trip)));
}

TEST(loops_agree_with_differences) {
  LS_SPEC("O194");
  static const counted five = {5, 0, times}, none = {0, 0, times};
  static const counted one = {1, 0, growing}, bounded = {100, 3, growing};
  static const counted matrices = {4, 0, squashed}, lost = {3, 0, forgetful};
  const gradient_case rows[] = {
      {"power", make_counted, &five, .shapes = {LS_SHAPE(3)}, .count = 1},
      {"product", make_counted, &five,
       .shapes = {LS_SHAPE(2, 3), LS_SHAPE(2, 3)}, .count = 2},
      {"one trip", make_counted, &one, .shapes = {LS_SHAPE(3), LS_SHAPE(3)},
       .count = 2},
      {"no trip", make_counted, &none, .shapes = {LS_SHAPE(3), LS_SHAPE(3)},
       .count = 2},
      {"bounded", make_counted, &bounded, .shapes = {LS_SHAPE(3), LS_SHAPE(3)},
       .count = 2},
      {"matrices", make_counted, &matrices,
       .shapes = {LS_SHAPE(2, 3), LS_SHAPE(3, 3)}, .count = 2, .low = -1,
       .high = 1},
      {"forgetful", make_counted, &lost, .shapes = {LS_SHAPE(3), LS_SHAPE(3)},
       .count = 2},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i)
    expect_gradients(&rows[i], 2);
}

TEST(a_third_derivative_is_right_too) {
  static const counted three = {3, 0, growing};
  const gradient_case row = {"third", make_counted, &three,
                             .shapes = {LS_SHAPE(2), LS_SHAPE(2)}, .count = 2};
  expect_gradients(&row, 3);
}

// ---- Trips that depend on data ---------------------------------------------
typedef struct recurrence {
  ls_tensor w, bias;
} recurrence;

static ls_nest is_small(ls_nest values, void *user) {
  (void)user;
  const ls_tensor sum =
      ls_reduce_sum(ls_square(ls_nest_tensor(values, 0)), LS_ALL_AXES);
  return ls_leaf(ls_less(sum, ls_scalar(LS_DTYPE_F64, 40)));
}

// Two values, which change places, and one that stays.
static ls_nest grow(ls_nest values, void *user) {
  const recurrence *r = user;
  const ls_tensor a = ls_nest_tensor(values, 0), b = ls_nest_tensor(values, 1);
  const ls_tensor stays = ls_nest_tensor(values, 2);
  const ls_tensor larger = ls_add(ls_mul_scalar(a, 1.5), ls_mul(r->w, stays));
  const ls_tensor sum = ls_add(larger, r->bias);
  return LS_LIST(ls_leaf(ls_add(sum, ls_mul_scalar(b, 0.1))), ls_leaf(a),
                 ls_leaf(stays));
}

static ls_tensor make_growing(const ls_tensor *xs, size_t count,
                              const void *user) {
  (void)count;
  (void)user;
  recurrence r = {xs[1], xs[2]};
  LS_OWN(ls_nest, made) =
      ls_while(is_small, grow, &r,
               LS_LIST(ls_leaf(xs[0]), ls_leaf(xs[1]), ls_leaf(xs[3])), 0);
  const ls_tensor product =
      ls_mul(ls_nest_tensor(made, 0), ls_nest_tensor(made, 1));
  return ls_add(product, ls_nest_tensor(made, 2));
}

TEST(the_number_of_trips_may_depend_on_data) {
  const gradient_case row = {
      "growing",
      make_growing,
      .shapes = {LS_SHAPE(2, 3), LS_SHAPE(2, 3), LS_SHAPE(1), LS_SHAPE(3)},
      .count = 4,
      .low = 0.2,
      .high = 0.9};
  expect_gradients(&row, 2);
}

// ---- Loops in loops --------------------------------------------------------
typedef struct nesting {
  ls_tensor w, limit;
} nesting;

static ls_nest is_below_limit(ls_nest values, void *user) {
  const nesting *n = user;
  return ls_leaf(ls_less(ls_nest_tensor(values, 0), n->limit));
}

static ls_nest inner_trip(ls_nest values, void *user) {
  const nesting *n = user;
  const ls_tensor one = ls_scalar_i64(LS_DTYPE_I32, 1);
  const ls_tensor i = ls_nest_tensor(values, 0);
  const ls_tensor y = ls_mul(ls_tanh(ls_nest_tensor(values, 1)), n->w);
  return LS_LIST(ls_leaf(ls_add(i, one)), ls_leaf(y));
}

// As many trips inside as the trip's number; from 0, so the first makes none.
static ls_tensor with_inner_loop(ls_tensor y, ls_tensor trip, ls_tensor w) {
  // The inner loop uses what the outer one computes.
  const ls_tensor scaled = ls_add(w, number_of(trip));
  nesting n = {scaled, trip};
  const ls_tensor zero = ls_scalar_i64(LS_DTYPE_I32, 0);
  LS_OWN(ls_nest, made) =
      ls_while(is_below_limit, inner_trip, &n,
               LS_LIST(ls_leaf(zero), ls_leaf(ls_square(y))), 0);
  const ls_tensor inner = ls_nest_tensor(made, 1);
  return ls_mul(ls_sigmoid(inner), y);
}

static ls_tensor two_levels(ls_tensor y, ls_tensor trip, ls_tensor w) {
  static const counted twice = {2, 0, with_inner_loop};
  return ls_add(count_up(&twice, y, w), number_of(trip));
}

TEST(loops_in_loops_agree_with_differences) {
  LS_SPEC("O194");
  static const counted three = {4, 0, with_inner_loop};
  static const counted deep = {2, 0, two_levels};
  const gradient_case rows[] = {
      {"nested", make_counted, &three, .shapes = {LS_SHAPE(2), LS_SHAPE(2)},
       .count = 2},
      {"three levels", make_counted, &deep,
       .shapes = {LS_SHAPE(2), LS_SHAPE(2)}, .count = 2},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i)
    expect_gradients(&rows[i], 2);
}

// ---- Branches --------------------------------------------------------------
typedef struct operands {
  ls_tensor y, w, trip;
} operands;

static ls_nest curved(ls_nest none, void *user) {
  (void)none;
  const operands *o = user;
  return ls_leaf(ls_mul(ls_exp(ls_mul_scalar(o->y, 0.3)), o->w));
}

static ls_nest straight(ls_nest none, void *user) {
  (void)none;
  const operands *o = user;
  return ls_leaf(ls_add(ls_tanh(o->y), o->w));
}

static ls_tensor is_odd(ls_tensor trip) {
  const ls_tensor two = ls_scalar_i64(LS_DTYPE_I32, 2);
  return ls_not_equal(ls_mul(ls_div(trip, two), two), trip);
}

static ls_tensor branching(ls_tensor y, ls_tensor trip, ls_tensor w) {
  operands o = {y, w, trip};
  LS_OWN(ls_nest, made) = ls_cond(is_odd(trip), curved, straight, &o);
  return ls_nest_tensor(made, 0);
}

// A loop in the branch: of as many trips as the trip's number, if there is one.
static ls_nest looping(ls_nest none, void *user) {
  (void)none;
  const operands *o = user;
  return ls_leaf(with_inner_loop(o->y, o->trip, o->w));
}

static ls_tensor branching_to_loops(ls_tensor y, ls_tensor trip, ls_tensor w) {
  operands o = {y, w, trip};
  LS_OWN(ls_nest, made) = ls_cond(is_odd(trip), looping, straight, &o);
  const ls_tensor result = ls_nest_tensor(made, 0);
  return ls_mul(result, w);
}

static ls_nest counted_in_branch(ls_nest none, void *user) {
  (void)none;
  static const counted three = {3, 0, growing};
  const operands *o = user;
  return ls_leaf(ls_square(count_up(&three, ls_mul(o->y, o->y), o->w)));
}

static ls_tensor make_loop_in_branch(const ls_tensor *xs, size_t count,
                                     const void *user) {
  (void)count;
  operands o = {xs[0], xs[1], {0}};
  const ls_tensor sum = ls_reduce_sum(xs[0], LS_ALL_AXES);
  const ls_tensor limit = ls_scalar(LS_DTYPE_F64, *(const double *)user);
  LS_OWN(ls_nest, made) =
      ls_cond(ls_greater(sum, limit), counted_in_branch, straight, &o);
  const ls_tensor result = ls_nest_tensor(made, 0);
  return ls_mul(result, xs[0]);
}

TEST(branches_in_loops_and_loops_in_branches_agree) {
  LS_SPEC("O194");
  static const counted four = {4, 0, branching};
  static const counted loops = {4, 0, branching_to_loops};
  static const double low = -1000, high = 1000;
  const gradient_case rows[] = {
      {"branch in loop", make_counted, &four,
       .shapes = {LS_SHAPE(3), LS_SHAPE(3)}, .count = 2},
      {"loop in branch that runs", make_loop_in_branch, &low,
       .shapes = {LS_SHAPE(3), LS_SHAPE(3)}, .count = 2},
      {"loop in branch that does not run", make_loop_in_branch, &high,
       .shapes = {LS_SHAPE(3), LS_SHAPE(3)}, .count = 2},
      {"loop in branch in loop", make_counted, &loops,
       .shapes = {LS_SHAPE(2), LS_SHAPE(2)}, .count = 2},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i)
    expect_gradients(&rows[i], 2);
}

// ---- Random numbers --------------------------------------------------------
// The same numbers at each call, others in each trip.
static ls_tensor mask_like(ls_tensor y) {
  const ls_tensor noise =
      ls_random_uniform(LS_DTYPE_F64, ls_tensor_shape(y), 0, 1,
                        &(ls_random_options){.seed = 5, .fixed = true});
  const ls_tensor limit = ls_scalar(LS_DTYPE_F64, 0.7);
  return ls_convert(ls_less(noise, limit), LS_DTYPE_F64);
}

static ls_tensor dropping(ls_tensor y, ls_tensor trip, ls_tensor w) {
  (void)trip;
  return ls_add(ls_mul(ls_sigmoid(y), mask_like(y)), w);
}

static ls_nest dropped(ls_nest none, void *user) {
  (void)none;
  const operands *o = user;
  return ls_leaf(ls_mul(ls_mul(ls_sigmoid(o->y), mask_like(o->y)), o->w));
}

static ls_tensor dropping_in_branches(ls_tensor y, ls_tensor trip,
                                      ls_tensor w) {
  operands o = {y, w, trip};
  LS_OWN(ls_nest, made) = ls_cond(is_odd(trip), straight, dropped, &o);
  const ls_tensor result = ls_nest_tensor(made, 0);
  return ls_add(result, w);
}

TEST(each_trip_is_differentiated_with_its_own_random_numbers) {
  static const counted plain = {5, 0, dropping};
  static const counted branches = {5, 0, dropping_in_branches};
  const gradient_case rows[] = {
      {"random", make_counted, &plain, .shapes = {LS_SHAPE(6), LS_SHAPE(6)},
       .count = 2},
      {"random in branches", make_counted, &branches,
       .shapes = {LS_SHAPE(6), LS_SHAPE(6)}, .count = 2},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i)
    expect_gradients(&rows[i], 2);
}

// ---- Sizes that are not known while building -------------------------------
// A loop that draws random numbers, in a branch, in a loop.
static ls_tensor masked(ls_tensor y, ls_tensor trip, ls_tensor w) {
  (void)trip;
  const ls_tensor mask = mask_like(w);
  return ls_add(ls_mul(ls_sigmoid(y), mask), ls_mul(y, w));
}

static ls_nest looping_with_masks(ls_nest none, void *user) {
  (void)none;
  static const counted two = {2, 0, masked};
  const operands *o = user;
  const ls_tensor last = count_up(&two, ls_square(o->y), o->w);
  return ls_leaf(ls_mul(ls_tanh(last), last));
}

static ls_tensor everything(ls_tensor y, ls_tensor trip, ls_tensor w) {
  operands o = {y, w, trip};
  LS_OWN(ls_nest, made) =
      ls_cond(is_odd(trip), looping_with_masks, straight, &o);
  const ls_tensor result = ls_nest_tensor(made, 0);
  return ls_mul(ls_mul(result, result), ls_sigmoid(y));
}

// The sum of the squares of the gradients of y, with respect to both xs.
static ls_tensor square_gradients(ls_tensor y, const ls_nest *xs) {
  const ls_nest ys[] = {ls_leaf(y)};
  ls_nest grads[2];
  expect_ok(ls_gradients(ys, 1, xs, 2, NULL, grads));
  const ls_tensor a =
      ls_reduce_sum(ls_square(ls_nest_tensor(grads[0], 0)), LS_ALL_AXES);
  const ls_tensor b =
      ls_reduce_sum(ls_square(ls_nest_tensor(grads[1], 0)), LS_ALL_AXES);
  return ls_add(a, b);
}

// Squared gradients, and squared gradients of these, for x of this shape while
// building and [4,3] when run.
static void run_for_shape(ls_shape shape, double *first, double *second) {
  static const counted four = {4, 0, everything};
  LS_OWN(ls_graph, graph) = graph_named("sizes");
  {
    LS_GRAPH_SCOPE(graph);
    const ls_tensor x = ls_placeholder(LS_DTYPE_F64, shape, "x");
    LS_OWN(ls_array, weights) = NULL;
    LS_OWN(ls_array, batch) = NULL;
    expect_ok(ls_array_create(LS_DTYPE_F64, LS_SHAPE(3), &weights));
    expect_ok(ls_array_create(LS_DTYPE_F64, LS_SHAPE(4, 3), &batch));
    for (int64_t i = 0; i < 3; ++i)
      ls_array_set_f64(weights, i, 0.3 + 0.2 * (double)i);
    for (int64_t i = 0; i < 12; ++i)
      ls_array_set_f64(batch, i, 0.1 * (double)i - 0.5);
    const ls_tensor w = ls_constant(weights);
    const ls_nest xs[] = {ls_leaf(x), ls_leaf(w)};
    const ls_tensor once = square_gradients(count_up(&four, x, w), xs);
    const ls_tensor twice = square_gradients(once, xs);
    LS_OWN(ls_session, session) = session_of(graph);
    LS_OWN(ls_nest, fetches) = LS_LIST(ls_leaf(once), ls_leaf(twice));
    LS_OWN(ls_nest, result) = ls_none();
    expect_ok(
        ls_session_run(session, fetches, &(ls_feed){x, batch}, 1, &result));
    *first = ls_array_f64(ls_nest_as_array(ls_nest_item(result, 0)), 0);
    *second = ls_array_f64(ls_nest_as_array(ls_nest_item(result, 1)), 0);
  }
  expect_ok(ls_graph_verify(graph));
}

TEST(sizes_that_are_known_late_change_nothing) {
  LS_SPEC("O192");
  static const counted four = {4, 0, everything};
  const gradient_case row = {"everything", make_counted, &four,
                             .shapes = {LS_SHAPE(3), LS_SHAPE(3)}, .count = 2};
  expect_gradients(&row, 2);
  double first[2], second[2];
  run_for_shape(LS_SHAPE(4, 3), &first[0], &second[0]);
  run_for_shape(LS_SHAPE(-1, 3), &first[1], &second[1]);
  assert_true(first[0] == first[1] && first[0] > 0);
  // Twice: sums of other parts in another order.
  assert_true(fabs(second[0] - second[1]) <= 1e-13 * second[0]);
}

// ---- Values that loops only pass on, or make anew --------------------------
// (i, a, b, c) -> (i + 1, b, a w, b c): a path of two trips.
static ls_nest shift(ls_nest values, void *user) {
  const ls_tensor *w = user;
  const ls_tensor one = ls_scalar_i64(LS_DTYPE_I32, 1);
  const ls_tensor i = ls_add(ls_nest_tensor(values, 0), one);
  const ls_tensor product = ls_mul(ls_nest_tensor(values, 1), *w);
  const ls_tensor other =
      ls_mul(ls_nest_tensor(values, 2), ls_nest_tensor(values, 3));
  return LS_LIST(ls_leaf(i), ls_leaf(ls_nest_tensor(values, 2)),
                 ls_leaf(product), ls_leaf(other));
}

static ls_tensor make_shifted(const ls_tensor *xs, size_t count,
                              const void *user) {
  (void)count;
  ls_tensor w = xs[3];
  LS_OWN(ls_nest, made) =
      ls_while(below_three, shift, &w,
               LS_LIST(ls_leaf(ls_scalar_i64(LS_DTYPE_I32, 0)), ls_leaf(xs[0]),
                       ls_leaf(xs[1]), ls_leaf(xs[2])),
               0);
  return ls_nest_tensor(made, *(const unsigned *)user);
}

TEST(gradients_follow_values_from_place_to_place) {
  static const unsigned first = 1, second = 2, third = 3;
  const unsigned *const outputs[] = {&first, &second, &third};
  for (size_t i = 0; i < 3; ++i) {
    const gradient_case row = {
        "shift", make_shifted, outputs[i],
        .shapes = {LS_SHAPE(2), LS_SHAPE(2), LS_SHAPE(2), LS_SHAPE(2)},
        .count = 4};
    expect_gradients(&row, 2);
  }
}
