// SPDX-License-Identifier: Apache-2.0
// What replicas do together, in compiled steps and op by op, against sums and
// copies in plain C.
#include <math.h>
#include <string.h>

#include "distribute/own.h"
#include "lockstep/function_plan.h"
#include "lockstep/gradients.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"

enum { MOST = 9, WIDTH = 3 };

// A run of `callback` on rows of its own for each replica.
typedef struct trial {
  int replicas;
  int64_t rows;  // Of all.
  bool compiled;
  bool in_loop;  // Inside of a while loop.
  ls_array *x;   // [rows, WIDTH]
  ls_nest got;
} trial;

static void run_trial(trial *t, ls_callback callback) {
  t->x = array_of_numbers(LS_DTYPE_F32, LS_SHAPE(t->rows, WIDTH), 5);
  LS_OWN(ls_nest, args) =
      LS_TUPLE(split_of(t->replicas, ls_array_retain(t->x)));
  if (t->compiled) {
    t->got = call_on(t->replicas, callback, t, args, 2);
  } else {
    LS_OWN(ls_strategy, strategy) = mirrored_of(t->replicas);
    t->got = run_on(strategy, callback, args, t);
  }
}

static void end_trial(trial *t) {
  ls_nest_release(t->got);
  ls_array_release(t->x);
}

static double x_at(const trial *t, int64_t row, int64_t column) {
  return ls_array_f64(t->x, row * WIDTH + column);
}

static int64_t rows_of(const trial *t, int replica) {
  return t->rows / t->replicas + (replica < t->rows % t->replicas ? 1 : 0);
}

// Element i of a leaf of the result on a replica, and its shape.
static double got_at(const trial *t, size_t leaf, int replica, int64_t i) {
  const ls_nest value = ls_nest_item(t->got, leaf);
  const ls_nest own = ls_distributed_count(value) != 0
                          ? ls_distributed_component(value, (size_t)replica)
                          : value;
  LS_OWN(ls_array, array) = NULL;
  if (own.kind == LS_KIND_TENSOR) {
    expect_ok(ls_tensor_value(own.as.tensor, &array));
  } else {
    array = ls_array_retain(ls_nest_as_array(own));
  }
  assert_in_range(i, 0, ls_array_num_elements(array) - 1);
  return ls_array_f64(array, i);
}

// Calls `check` for trials of all kinds. `even`: of equal parts only.
static void for_all_trials(ls_callback callback, bool even,
                           void (*check)(const trial *t)) {
  for (int replicas = 1; replicas <= MOST; ++replicas)
    for (int64_t rows = 1; rows <= 18; rows += replicas < 4 ? 1 : 4)
      for (int kind = 0; kind < 3; ++kind) {
        if ((even || kind == 2) && rows % replicas != 0) continue;
        expect_ok(ls_frame_begin());
        trial t = {.replicas = replicas,
                   .rows = rows,
                   .compiled = kind > 0,
                   .in_loop = kind == 2};
        run_trial(&t, callback);
        check(&t);
        end_trial(&t);
        expect_ok(ls_frame_end(NULL));
      }
}

// ---- Loops -----------------------------------------------------------------
typedef struct once {
  ls_tensor (*make)(ls_tensor x);
  ls_tensor x;
} once;

static ls_nest is_first(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(
      ls_less(ls_nest_tensor(values, 0), ls_scalar_i64(LS_DTYPE_I64, 2)));
}

static ls_nest make_again(ls_nest values, void *user) {
  const once *o = user;
  return LS_TUPLE(ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1)),
                  ls_leaf(o->make(o->x)));
}

// make(x), in the loop's second trip where that is asked for.
static ls_tensor made(const trial *t, ls_tensor (*make)(ls_tensor x),
                      ls_tensor x) {
  const ls_tensor direct = make(x);
  if (!t->in_loop) return direct;
  once o = {make, x};
  LS_OWN(ls_nest, last) =
      ls_while(is_first, make_again, &o,
               LS_TUPLE(ls_leaf(ls_scalar_i64(LS_DTYPE_I64, 0)),
                        ls_leaf(ls_mul_scalar(direct, 0))),
               2);
  return ls_nest_tensor(last, 1);
}

// ---- Gathering -------------------------------------------------------------
static ls_tensor gather_rows(ls_tensor x) { return ls_all_gather(x, 0); }

static ls_tensor gather_columns(ls_tensor x) {
  return ls_all_gather(ls_transpose(x, NULL), 1);
}

static ls_nest gather(ls_nest args, void *user) {
  const trial *t = user;
  const ls_tensor x = constant_argument(args);
  return LS_TUPLE(
      ls_leaf(made(t, gather_rows, x)), ls_leaf(made(t, gather_columns, x)),
      ls_leaf(ls_all_gather(ls_fill(LS_DTYPE_I32, LS_SHAPE(2), 7), 0)));
}

static void check_gather(const trial *t) {
  for (int r = 0; r < t->replicas; ++r) {
    for (int64_t i = 0; i < t->rows; ++i)
      for (int64_t k = 0; k < WIDTH; ++k) {
        assert_true(got_at(t, 0, r, i * WIDTH + k) == x_at(t, i, k));
        assert_true(got_at(t, 1, r, k * t->rows + i) == x_at(t, i, k));
      }
    for (int64_t i = 0; i < 2 * t->replicas; ++i)
      assert_true(got_at(t, 2, r, i) == 7);
  }
}

TEST(rows_of_all_replicas_are_gathered) {
  LS_SPEC("V181");
  for_all_trials(gather, false, check_gather);
}

// ---- Scattering ------------------------------------------------------------
static ls_tensor scatter_rows(ls_tensor x) {
  return ls_reduce_scatter(LS_REDUCE_SUM, ls_all_gather(x, 0), 0);
}

static ls_nest scatter(ls_nest args, void *user) {
  const trial *t = user;
  const ls_tensor x = constant_argument(args);
  const ls_tensor mine =
      ls_mul(ls_all_gather(x, 0),
             ls_add_scalar(ls_convert(ls_replica_id(), LS_DTYPE_F32), 1));
  const ls_tensor sum =
      t->in_loop || t->rows % t->replicas == 0
          ? made(t, scatter_rows, x)
          : ls_reduce_scatter_like(LS_REDUCE_SUM, ls_all_gather(x, 0), 0, x);
  return LS_TUPLE(ls_leaf(sum),
                  ls_leaf(ls_reduce_scatter_like(LS_REDUCE_MAX, mine, 0, x)));
}

static void check_scatter(const trial *t) {
  int64_t row = 0;
  for (int r = 0; r < t->replicas; ++r)
    for (int64_t i = 0; i < rows_of(t, r); ++i, ++row)
      for (int64_t k = 0; k < WIDTH; ++k) {
        const double x = x_at(t, row, k);
        assert_true(fabs(got_at(t, 0, r, i * WIDTH + k) - x * t->replicas) <
                    1e-5);
        const double most = x > 0 ? x * t->replicas : x;
        assert_true(fabs(got_at(t, 1, r, i * WIDTH + k) - most) < 1e-5);
      }
}

TEST(each_replica_gets_its_part_of_a_sum) {
  for_all_trials(scatter, false, check_scatter);
}

// ---- Gradients -------------------------------------------------------------
// d/dx of sum(w * gather(x)) over all replicas, w by replica and place.
static ls_nest gradients(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = constant_argument(args);
  const ls_tensor id =
      ls_add_scalar(ls_convert(ls_replica_id(), LS_DTYPE_F32), 1);
  const ls_tensor all = ls_all_gather(x, 0);
  const ls_tensor weighted = ls_mul(ls_mul(all, all), id);
  const ls_tensor back =
      ls_reduce_scatter_like(LS_REDUCE_SUM, ls_mul(all, id), 0, x);
  const ls_nest ys[] = {ls_leaf(ls_reduce_sum(weighted, LS_ALL_AXES)),
                        ls_leaf(ls_reduce_sum(ls_mul(back, id), LS_ALL_AXES))};
  const ls_nest leaf = ls_leaf(x);
  ls_nest first = {0}, second = {0};
  expect_ok(ls_gradients(&ys[0], 1, &leaf, 1, NULL, &first));
  expect_ok(ls_gradients(&ys[1], 1, &leaf, 1, NULL, &second));
  return LS_TUPLE(first, second);
}

static void check_gradients(const trial *t) {
  // Of each replica's loss, the sum over replicas.
  const double ids = t->replicas * (t->replicas + 1) / 2.0;
  double parts = 0;  // Of replica r's rows, r's id: what back is weighed by.
  int64_t row = 0;
  for (int r = 0; r < t->replicas; ++r)
    for (int64_t i = 0; i < rows_of(t, r); ++i, ++row)
      for (int64_t k = 0; k < WIDTH; ++k) {
        assert_true(fabs(got_at(t, 0, r, i * WIDTH + k) -
                         2 * x_at(t, row, k) * ids) < 1e-4);
        parts = (r + 1) * ids;
        assert_true(fabs(got_at(t, 1, r, i * WIDTH + k) - parts) < 1e-4);
      }
}

TEST(gradients_come_back_to_each_replica) {
  LS_SPEC("V180 V181 M133");
  for (int replicas = 1; replicas <= 7; ++replicas)
    for (int64_t rows = 1; rows <= 9; ++rows) {
      trial t = {.replicas = replicas, .rows = rows, .compiled = true};
      run_trial(&t, gradients);
      check_gradients(&t);
      end_trial(&t);
    }
}

// ---- Large values ----------------------------------------------------------
static ls_nest cut_many(ls_nest args, void *user) {
  (void)args;
  (void)user;
  const ls_tensor x = ls_fill(LS_DTYPE_F32, LS_SHAPE(INT64_C(6) << 30), 1);
  const ls_tensor part = ls_reduce_scatter(LS_REDUCE_SUM, x, 0);
  return ls_leaf(ls_reduce_sum(part, LS_ALL_AXES));
}

// The program is only made: half of 6 Gi elements is more than an i32 holds.
TEST(parts_begin_behind_two_billion_elements_too) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_function, function) = unnamed_function(cut_many, NULL);
  LS_OWN(ls_nest, result) = ls_none();
  LS_OWN(printed, text) = NULL;
  ls_function_set_compiles_only(function, true);
  expect_ok(
      ls_strategy_run(strategy, ls_traced(function), ls_none(), &result));
  expect_ok(ls_function_print_lowered(function, &text));
  expect_contains(text, "i64[2] [0, 3221225472]");
}

// ---- Refusals --------------------------------------------------------------
static ls_nest gather_scalar(ls_nest args, void *user) {
  (void)user;
  return ls_replica_all_gather(
      ls_replica_context(),
      ls_leaf(ls_reduce_sum(constant_argument(args), LS_ALL_AXES)), 0);
}

static ls_nest gather_last(ls_nest args, void *user) {
  (void)user;
  return ls_replica_all_gather(ls_replica_context(), ls_nest_item(args, 0), 1);
}

static ls_nest cut_three(ls_nest args, void *user) {
  (void)args;
  (void)user;
  return ls_leaf(ls_reduce_scatter(LS_REDUCE_SUM,
                                   ls_fill(LS_DTYPE_F32, LS_SHAPE(3), 1), 0));
}

static void expect_refused(ls_callback callback, const char *part) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_function, function) = unnamed_function(callback, NULL);
  LS_OWN(ls_nest, args) =
      LS_TUPLE(split_of(2, array_of_numbers(LS_DTYPE_F32, LS_SHAPE(5), 1)));
  ls_nest result = {0};
  expect_status(ls_strategy_run(strategy, ls_traced(function), args, &result),
                LS_INVALID_ARGUMENT, part);
  expect_status(
      ls_strategy_run(strategy, ls_plain(callback, NULL), args, &result),
      LS_INVALID_ARGUMENT, part);
}

// The sum of six rows, in a part like one of `shape`.
static ls_nest cut_like(ls_shape shape) {
  const ls_tensor rows = ls_fill(LS_DTYPE_F32, LS_SHAPE(6), 1);
  return ls_leaf(ls_reduce_scatter_like(LS_REDUCE_SUM, rows, 0,
                                        ls_fill(LS_DTYPE_F32, shape, 0)));
}

static ls_nest cut_like_two(ls_nest args, void *user) {
  (void)args;
  (void)user;
  return cut_like(LS_SHAPE(2));
}

static ls_nest cut_like_four(ls_nest args, void *user) {
  (void)args;
  (void)user;
  return cut_like(LS_SHAPE(4));
}

static ls_nest cut_like_scalar(ls_nest args, void *user) {
  (void)args;
  (void)user;
  return cut_like(LS_SCALAR);
}

TEST(axes_that_are_not_there_are_refused) {
  LS_SPEC("V181");
  expect_refused(gather_scalar, "axis 0 of rank 0");
  expect_refused(gather_last, "axis 1 of rank 1");
  expect_refused(cut_three, "cannot be cut into 2 equal parts");
}

static ls_nest gather_all(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_all_gather(constant_argument(args), 0));
}

TEST(a_collective_traced_outside_replicas_is_refused_in_them) {
  LS_SPEC("V181");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_function, function) = unnamed_function(gather_all, NULL);
  LS_OWN(ls_function, concrete) = NULL;
  LS_OWN(ls_nest, args) =
      LS_TUPLE(ls_nest_array(array_of_numbers(LS_DTYPE_F32, LS_SHAPE(3), 1)));
  LS_OWN(ls_nest, result) = ls_none();
  expect_ok(ls_function_make_concrete(function, args, &concrete));
  expect_ok(ls_function_call(concrete, args, &result));
  expect_status(ls_strategy_run(strategy, ls_traced(concrete), args, &result),
                LS_INVALID_ARGUMENT,
                "all_gather was made for 1 replicas; there are 2");
  expect_ok(ls_strategy_run(strategy, ls_traced(function), args, &result));
}

TEST(parts_that_are_not_the_whole_are_refused) {
  LS_SPEC("V181");
  expect_refused(cut_like_two, "the replicas' parts of axis 0");
  expect_refused(cut_like_four, "the replicas' parts of axis 0");
  expect_refused(cut_like_scalar, "axis 0 of");
}
