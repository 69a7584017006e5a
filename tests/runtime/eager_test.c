// SPDX-License-Identifier: Apache-2.0
#include "lockstep/eager.h"

#include <math.h>

#include "lockstep/distributed.h"
#include "lockstep/function.h"
#include "lockstep/graph_ops.h"
#include "lockstep/slices.h"
#include "runtime/own.h"
#include "support/counted.h"
#include "support/expect.h"
#include "support/spec.h"
#include "support/values.h"

static double item(ls_tensor tensor) {
  double value = 0;
  expect_ok(ls_tensor_item(tensor, &value));
  return value;
}

static ls_tensor f64(double value) { return ls_scalar(LS_DTYPE_F64, value); }

static ls_variable *variable(double value) {
  ls_variable *made = NULL;
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "v", .initial_value = f64(value)}, &made));
  return made;
}

// ---- Values ----------------------------------------------------------------
TEST(an_op_runs_as_it_is_made) {
  assert_true(item(ls_add(f64(2), f64(3))) == 5);
  const ls_tensor matrix = ls_fill(LS_DTYPE_F32, LS_SHAPE(2, 3), 2);
  assert_true(item(ls_reduce_sum(ls_matmul(matrix, ls_transpose(matrix, NULL)),
                                 LS_ALL_AXES)) == 4 * 12);
}

TEST(a_failed_op_is_a_failed_value_and_nothing_else) {
  const ls_tensor a = ls_fill(LS_DTYPE_F32, LS_SHAPE(2), 1);
  const ls_tensor bad = ls_add(a, ls_fill(LS_DTYPE_F32, LS_SHAPE(3), 1));
  const ls_tensor worse = ls_exp(bad);
  double value = 0;
  assert_true(ls_tensor_is_failed(bad));
  assert_true(ls_tensor_is_failed(worse));
  expect_status(ls_tensor_item(worse, &value), LS_INVALID_ARGUMENT,
                "f32[2] and f32[3]");
  expect_status(ls_tensor_item(worse, &value), LS_INVALID_ARGUMENT,
                "f32[2] and f32[3]");
  assert_true(item(ls_reduce_sum(ls_add(a, a), LS_ALL_AXES)) == 4);
}

TEST(an_op_without_a_value_has_its_status) {
  const ls_op op = ls_assert_true(ls_less(f64(2), f64(1)), "two below one");
  expect_status(ls_tensor_status(ls_op_output(op, 0)), LS_INVALID_ARGUMENT,
                "two below one");
  expect_ok(ls_tensor_status(ls_op_output(
      ls_assert_true(ls_less(f64(1), f64(2)), "one below two"), 0)));
}

static ls_nest is_below_ten(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(ls_less(ls_nest_tensor(values, 0), f64(10)));
}

static ls_nest count_below_three(ls_nest values, void *user) {
  const ls_tensor count = ls_nest_tensor(values, 0);
  ls_assert_true(ls_less(count, f64(3)), "the count is below three");
  ls_variable_assign_add(user, f64(1));
  return LS_TUPLE(ls_leaf(ls_add(count, f64(1))));
}

TEST(a_loop_ends_with_a_failed_assertion) {
  LS_OWN(ls_variable, trips) = variable(0);
  LS_OWN(ls_nest, made) = ls_while(is_below_ten, count_below_three, trips,
                                   LS_TUPLE(ls_leaf(f64(0))), 0);
  expect_status(ls_nest_status(made), LS_INVALID_ARGUMENT,
                "the count is below three");
  LS_OWN(ls_array, value) = NULL;
  expect_ok(ls_variable_value(trips, &value));
  assert_true(ls_array_f64(value, 0) == 3);
}

// ---- Frames ----------------------------------------------------------------
TEST(a_frame_frees_what_is_not_kept) {
  LS_SPEC("V211");
  expect_ok(ls_frame_begin());
  const ls_tensor gone = f64(1), kept = ls_add(f64(2), f64(3));
  const ls_nest keep = ls_leaf(kept);
  expect_ok(ls_frame_end(&keep));
  assert_true(item(kept) == 5);
  double value = 0;
  expect_status(ls_tensor_item(gone, &value), LS_INVALID_ARGUMENT, "stale");
  const ls_tensor after = ls_neg(gone);
  assert_true(ls_tensor_is_failed(after));
  assert_true(item(ls_neg(kept)) == -5);
}

TEST(an_op_of_many_values_outlives_its_frame) {
  enum { MANY = 40 };
  ls_nest items[MANY];
  expect_ok(ls_frame_begin());
  for (int i = 0; i < MANY; ++i)
    items[i] = ls_leaf(f64(i));
  LS_OWN(ls_nest, all) =
      ls_barrier(ls_nest_sequence(LS_KIND_LIST, items, MANY));
  const ls_nest keep = ls_leaf(ls_nest_tensor(all, MANY - 1));
  expect_ok(ls_frame_end(&keep));
  for (int i = 0; i < MANY; ++i)
    assert_true(item(ls_nest_tensor(all, (size_t)i)) == i);
}

TEST(parts_of_kept_values_outlive_their_frame) {
  expect_ok(ls_frame_begin());
  const ls_nest components[] = {ls_leaf(f64(3)), ls_leaf(f64(4))};
  const ls_tensor rows = ls_fill(LS_DTYPE_F64, LS_SHAPE(1, 2), 5);
  const ls_tensor indices = ls_fill(LS_DTYPE_I32, LS_SHAPE(1), 1);
  LS_OWN(ls_nest, keep) =
      LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, components, 2),
               ls_nest_slices(ls_leaf(rows), indices, (ls_tensor){0}));
  expect_ok(ls_frame_end(&keep));
  for (size_t i = 0; i < 2; ++i)
    assert_true(item(components[i].as.tensor) == 3 + (double)i);
  assert_true(item(ls_reduce_sum(rows, LS_ALL_AXES)) == 10);
  assert_true(item(ls_convert(ls_reshape(indices, LS_SCALAR), LS_DTYPE_F64)) ==
              1);
}

TEST(slices_of_slices_outlive_their_frame) {
  expect_ok(ls_frame_begin());
  const ls_tensor rows = ls_fill(LS_DTYPE_F64, LS_SHAPE(2, 2), 5);
  const ls_tensor inner = ls_fill(LS_DTYPE_I32, LS_SHAPE(2), 1);
  const ls_tensor outer = ls_fill(LS_DTYPE_I32, LS_SHAPE(3), 4);
  const ls_tensor shape = ls_fill(LS_DTYPE_I32, LS_SHAPE(2), 9);
  LS_OWN(ls_nest, keep) = ls_nest_slices(
      ls_nest_slices(ls_leaf(rows), inner, (ls_tensor){0}), outer, shape);
  expect_ok(ls_frame_end(&keep));
  ls_slices_parts parts;
  expect_ok(ls_slices_parts_of(keep, &parts));
  const double indices[] = {4, 4}, sizes[] = {9, 9}, values[] = {5, 5, 5, 5};
  expect_tensor(parts.indices, indices, 2, 0);
  expect_tensor(parts.values, values, 4, 0);
  expect_tensor(parts.dense_shape, sizes, 2, 0);
  expect_status(ls_frame_end(NULL), LS_FAILED_PRECONDITION, "frame");
}

TEST(frames_nest_and_pass_kept_values_outward) {
  expect_ok(ls_frame_begin());
  expect_ok(ls_frame_begin());
  const ls_tensor x = f64(7);
  LS_OWN(ls_nest, keep) = LS_TUPLE(ls_leaf(x), ls_leaf(x), ls_none());
  expect_ok(ls_frame_end(&keep));
  const ls_tensor y = ls_add(x, x);
  const ls_nest both = ls_leaf(y);
  expect_ok(ls_frame_end(&both));
  assert_true(item(y) == 14);
  assert_true(ls_tensor_is_failed(ls_neg(x)));
}

TEST(closing_a_frame_that_is_not_open_is_refused) {
  expect_status(ls_frame_end(NULL), LS_FAILED_PRECONDITION, "frame");
}

TEST(ten_thousand_ops_in_frames_do_not_grow_memory) {
  LS_SPEC("V211");
  LS_OWN(counted, memory) = counted_begin(1);
  uint64_t settled = 0;
  ls_tensor total = f64(0);
  expect_ok(ls_frame_begin());
  for (int i = 0; i < 1000; ++i) {
    expect_ok(ls_frame_begin());
    ls_tensor x = f64(i % 3);
    for (int k = 0; k < 8; ++k)
      x = ls_add(x, f64(k % 2));
    expect_ok(ls_frame_end(NULL));
    const uint64_t live = counted_now(&memory).live_bytes;
    if (i == 10) settled = live;
    if (i > 10) assert_true(live <= settled);
  }
  expect_ok(ls_frame_end(NULL));
  assert_true(item(total) == 0);
}

// Permutes so many numbers in an op of its own; returns the bytes held then.
static uint64_t bytes_after_permutation(const counted *memory, int64_t count) {
  expect_ok(ls_frame_begin());
  expect_ok(ls_tensor_status(
      ls_neg(ls_random_permutation(LS_DTYPE_I32, count, NULL))));
  expect_ok(ls_frame_end(NULL));
  return counted_now(memory).live_bytes;
}

TEST(ops_of_many_lengths_keep_no_large_scratch) {
  LS_OWN(counted, memory) = counted_begin(1);
  const uint64_t before = bytes_after_permutation(&memory, 100000);
  for (int i = 1; i < 20; ++i)  // Of 1.6 MB each.
    assert_true(bytes_after_permutation(&memory, 100000 + i) <
                before + (4 << 20));
}

TEST(ops_of_many_lengths_keep_some_small_scratch_in_all) {
  LS_OWN(counted, memory) = counted_begin(1);
  // Each keeps 0.8 MB, and again nothing is allocated when it runs.
  for (int i = 0; i < 200; ++i)
    assert_true(bytes_after_permutation(&memory, 50000 + i) < 140 << 20);
}

TEST(a_team_has_scratch_for_the_blocks_that_it_can_share) {
  LS_OWN(counted, memory) = counted_begin(16);
  expect_ok(ls_frame_begin());
  const ls_tensor x = ls_fill(LS_DTYPE_U8, LS_SHAPE(100000), 1);
  // A line of 100000 keys is sorted by one thread: 2 x 16 bytes each.
  expect_ok(ls_tensor_status(ls_sort(x, 0, false)));
  assert_true(counted_now(&memory).peak_bytes < 6 << 20);
  expect_ok(ls_frame_end(NULL));
}

TEST(a_gradient_over_many_rows_of_16_bits_copies_few_of_them) {
  LS_OWN(counted, memory) = counted_begin(4);
  expect_ok(ls_frame_begin());
  const ls_tensor x = ls_fill(LS_DTYPE_BF16, LS_SHAPE(1 << 18, 8), 1);
  const uint64_t before = counted_now(&memory).peak_bytes;
  expect_ok(ls_tensor_status(ls_matmul_transposed(x, true, x, false)));
  assert_true(counted_now(&memory).peak_bytes < before + (2 << 20));
  expect_ok(ls_frame_end(NULL));
}

TEST(large_axes_without_elements_have_no_extremes_and_no_order) {
  const int64_t large = INT64_C(1) << 33;
  expect_ok(ls_frame_begin());
  const ls_tensor x = ls_fill(LS_DTYPE_F32, LS_SHAPE(0, large), 1);
  expect_ok(ls_tensor_status(ls_argmax(x, 1)));
  expect_ok(ls_tensor_status(ls_op_output(ls_top_k(x, 2), 0)));
  expect_ok(ls_tensor_status(ls_sort(x, 1, false)));
  expect_ok(ls_frame_end(NULL));
}

TEST(the_few_largest_are_found_without_a_copy_of_all) {
  LS_OWN(counted, memory) = counted_begin(1);
  expect_ok(ls_frame_begin());
  const ls_tensor x = ls_fill(LS_DTYPE_U8, LS_SHAPE(200000), 1);
  expect_ok(ls_tensor_status(ls_op_output(ls_top_k(x, 5), 1)));
  assert_true(counted_now(&memory).peak_bytes < 2 << 20);
  expect_ok(ls_frame_end(NULL));
}

TEST(ten_thousand_scopes_do_not_grow_memory) {
  LS_OWN(counted, memory) = counted_begin(1);
  uint64_t settled = 0;
  for (int i = 0; i < 10000; ++i) {
    expect_ok(ls_frame_begin());
    {
      LS_NAME_SCOPE("outer");
      {
        LS_NAME_SCOPE("inner");
        assert_string_equal(ls_name_scope_current(), "outer/inner/");
        {
          LS_DEVICE_SCOPE(i % 2 == 0 ? "/device:CPU:0" : "/device:CPU:1");
          ls_neg(f64(1));
        }
      }
    }
    expect_ok(ls_frame_end(NULL));
    const uint64_t live = counted_now(&memory).live_bytes;
    if (i == 10) settled = live;
    if (i > 10) assert_true(live <= settled);
  }
}

// ---- Variables -------------------------------------------------------------
TEST(a_variable_is_initialized_when_it_is_made) {
  LS_OWN(ls_variable, v) = variable(4);
  assert_true(item(ls_variable_read(v)) == 4);
  const ls_tensor before = ls_variable_read(v);
  assert_true(item(ls_variable_assign_add(v, f64(2))) == 6);
  assert_true(item(ls_variable_assign_sub(v, f64(1))) == 5);
  assert_true(item(before) == 4);
  assert_true(item(ls_variable_assign(v, f64(9))) == 9);
  LS_OWN(ls_array, array) = variable_array(v);
  assert_true(ls_array_f64(array, 0) == 9);
  ls_array_set_f64(array, 0, 3);
  expect_ok(ls_variable_set_value(v, array));
  assert_true(item(ls_variable_read(v)) == 3);
}

TEST(a_write_of_another_shape_is_refused) {
  LS_OWN(ls_variable, v) = variable(4);
  const ls_tensor t =
      ls_variable_assign(v, ls_fill(LS_DTYPE_F64, LS_SHAPE(2), 1));
  double value = 0;
  expect_status(ls_tensor_item(t, &value), LS_INVALID_ARGUMENT, "'v'");
  assert_true(item(ls_variable_read(v)) == 4);
}

// ---- Control flow ----------------------------------------------------------
static ls_nest below_100(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(ls_less(ls_nest_tensor(values, 0), f64(100)));
}

static ls_nest square_it(ls_nest values, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(values, 0);
  return LS_TUPLE(ls_leaf(ls_mul(x, x)));
}

TEST(a_loop_runs_over_known_values) {
  LS_OWN(ls_nest, result) =
      ls_while(below_100, square_it, NULL, LS_TUPLE(ls_leaf(f64(3))), 0);
  assert_true(item(ls_nest_tensor(result, 0)) == 6561);
  LS_OWN(ls_nest, once) =
      ls_while(below_100, square_it, NULL, LS_TUPLE(ls_leaf(f64(3))), 1);
  assert_true(item(ls_nest_tensor(once, 0)) == 9);
}

// ---- Tape ------------------------------------------------------------------
TEST(a_tape_gives_the_gradients_of_what_it_recorded) {
  LS_SPEC("V211");
  LS_OWN(ls_variable, v) = variable(3);
  LS_OWN(ls_tape, tape) = NULL;
  const ls_tensor w = f64(5), unwatched = f64(2);
  expect_ok(ls_tape_begin(&tape));
  expect_ok(ls_tape_watch(tape, w));
  const ls_tensor x = ls_variable_read(v);
  const ls_tensor y = ls_add(ls_mul(ls_mul(x, x), w), ls_mul(x, unwatched));
  expect_ok(ls_tape_end(tape));
  const ls_nest xs[] = {ls_nest_variable(v), ls_leaf(w), ls_leaf(unwatched)};
  ls_nest grads[3];
  for (int i = 0; i < 2; ++i) {  // Any number of times.
    expect_ok(ls_tape_gradients(tape, ls_leaf(y), xs, 3, grads));
    assert_true(item(ls_nest_tensor(grads[0], 0)) == 2 * 3 * 5 + 2);
    assert_true(item(ls_nest_tensor(grads[1], 0)) == 9);
    assert_int_equal(grads[2].kind, LS_KIND_NONE);
  }
  ls_variable *found[2] = {NULL};
  assert_int_equal(ls_tape_variables(tape, found, 2), 1);
  assert_ptr_equal(found[0], v);
  ls_nest_release(xs[0]);
}

TEST(an_op_without_a_name_is_called_by_its_type) {
  LS_OWN(ls_variable, v) = variable(3);
  LS_OWN(ls_tape, tape) = NULL;
  const ls_nest x = ls_leaf(f64(5));
  ls_nest gradient = ls_none();
  expect_ok(ls_tape_begin(&tape));
  expect_ok(ls_tape_watch(tape, x.as.tensor));
  const ls_tensor y = ls_variable_assign_add(v, x.as.tensor);
  expect_ok(ls_tape_end(tape));
  const ls_status status =
      ls_tape_gradients(tape, ls_leaf(y), &x, 1, &gradient);
  expect_contains(ls_status_message(status), "op assign_add has no gradient");
  expect_status(status, LS_NOT_FOUND, "in the gradient of assign_add");
}

TEST(what_comes_from_no_watched_value_has_no_gradient) {
  LS_SPEC("V211");
  LS_OWN(ls_variable, v) = variable(3);
  LS_OWN(ls_tape, tape) = NULL;
  expect_ok(ls_tape_begin(&tape));
  const ls_tensor constant = f64(2), doubled = ls_add(constant, constant);
  const ls_tensor told = ls_neg(constant);
  expect_ok(ls_tape_watch(tape, told));
  const ls_tensor square = ls_square(ls_variable_read(v));
  const ls_tensor y = ls_mul(ls_mul(square, doubled), ls_exp(told));
  const ls_nest xs[] = {ls_leaf(constant), ls_leaf(doubled), ls_leaf(told),
                        ls_leaf(square)};
  ls_nest grads[4];
  expect_ok(ls_tape_gradients(tape, ls_leaf(y), xs, 4, grads));
  assert_int_equal(grads[0].kind, LS_KIND_NONE);
  assert_int_equal(grads[1].kind, LS_KIND_NONE);
  assert_true(item(ls_nest_tensor(grads[2], 0)) == item(y));
  assert_true(item(ls_nest_tensor(grads[3], 0)) == 4 * exp(-2));
}

TEST(a_tape_follows_the_loop_that_ran) {
  LS_OWN(ls_tape, tape) = NULL;
  const ls_tensor x = f64(2);
  expect_ok(ls_tape_begin(&tape));
  expect_ok(ls_tape_watch(tape, x));
  LS_OWN(ls_nest, result) =
      ls_while(below_100, square_it, NULL, LS_TUPLE(ls_leaf(x)), 0);
  expect_ok(ls_tape_end(tape));  // x -> x^8 = 256.
  const ls_nest xs[] = {ls_leaf(x)};
  ls_nest grads[1];
  expect_ok(ls_tape_gradients(tape, ls_nest_item(result, 0), xs, 1, grads));
  assert_true(item(ls_nest_tensor(grads[0], 0)) == 8 * 128);
}

TEST(what_is_computed_after_the_tape_is_not_on_it) {
  LS_OWN(ls_tape, tape) = NULL;
  const ls_tensor x = f64(2);
  expect_ok(ls_tape_begin(&tape));
  expect_ok(ls_tape_watch(tape, x));
  expect_ok(ls_tape_end(tape));
  const ls_tensor y = ls_mul(x, x);
  const ls_nest xs[] = {ls_leaf(x)};
  ls_nest grads[1];
  expect_ok(ls_tape_gradients(tape, ls_leaf(y), xs, 1, grads));
  assert_int_equal(grads[0].kind, LS_KIND_NONE);
}

// The first thing of all in its runtime.
TEST(a_tape_may_end_before_anything_has_run) {
  LS_OWN(counted, memory) = counted_begin(1);
  ls_tape *empty = NULL, *tape = NULL;
  expect_ok(ls_tape_begin(&empty));
  expect_ok(ls_tape_end(empty));
  expect_status(ls_tape_end(empty), LS_FAILED_PRECONDITION, "ended before");
  expect_ok(ls_tape_begin(&tape));
  const ls_nest x = ls_leaf(ls_scalar(LS_DTYPE_F32, 3));
  expect_ok(ls_tape_watch(empty, x.as.tensor));
  const ls_tensor square = ls_square(x.as.tensor);
  ls_nest gradient = ls_none();
  expect_ok(ls_tape_gradients(empty, ls_leaf(square), &x, 1, &gradient));
  assert_int_equal(gradient.kind, LS_KIND_NONE);
  ls_tape_release(empty);
  ls_tape_release(tape);
  expect_ok(ls_tape_begin(&tape));
  expect_ok(ls_tape_watch(tape, x.as.tensor));
  const ls_tensor y = ls_square(x.as.tensor);
  expect_ok(ls_tape_gradients(tape, ls_leaf(y), &x, 1, &gradient));
  assert_true(item(ls_nest_tensor(gradient, 0)) == 6);
  ls_tape_release(tape);
}

TEST(a_tape_says_why_it_cannot_watch) {
  ls_tape *tape = NULL;
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(2)));
  expect_ok(ls_tape_begin(&tape));
  expect_status(ls_tape_watch(tape, ls_nest_tensor(args, 0)),
                LS_INVALID_ARGUMENT, "ls_tensor_from_array");
  ls_tape_release(tape);
}

TEST(a_frame_with_an_unreleased_tape_cannot_end) {
  ls_tape *tape = NULL;
  expect_ok(ls_frame_begin());
  expect_ok(ls_tape_begin(&tape));
  expect_status(ls_frame_end(NULL), LS_FAILED_PRECONDITION, "tape");
  ls_tape_release(tape);
  expect_ok(ls_frame_end(NULL));
}

TEST(gradients_refuses_the_eager_graph) {
  LS_SPEC("O177");
  const ls_nest x[] = {ls_leaf(f64(2))};
  ls_nest grads[1];
  expect_status(ls_gradients(x, 1, x, 1, NULL, grads), LS_FAILED_PRECONDITION,
                "tape");
}
