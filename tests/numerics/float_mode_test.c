// SPDX-License-Identifier: Apache-2.0
//
// The mode that floating-point work runs in: denormals are zero on every lane
// and every thread, results are rounded to nearest whatever the caller has
// chosen, and host calls and the caller find their own mode again.
#include "support/expect.h"

#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "distribute/own.h"
#include "lockstep/eager.h"
#include "lockstep/host.h"
#include "lockstep/object.h"
#include "lockstep/strategy.h"
#include "support/place.h"

// Enough for a team: each worker has a part of it.
enum { SIZE = 1 << 19, MOST_REPLICAS = 3 };

// ---- A program -------------------------------------------------------------
// A host kernel that notes the mode it was called in: whether the product of
// its input with itself, which is denormal, is there, and how a third is
// rounded.
static volatile float noted_product[MOST_REPLICAS];
static volatile int noted_rounding[MOST_REPLICAS];

static ls_status infer_note(const ls_object *state, const ls_type *in,
                            size_t num_in, ls_type *out, size_t *num_out) {
  (void)state;
  (void)in;
  (void)num_in;
  out[0] = (ls_type){.dtype = LS_DTYPE_F32};
  *num_out = 1;
  return ls_ok();
}

static ls_status start_note(ls_host_call *call) {
  volatile float x = *(const float *)call->inputs[0];
  noted_product[call->replica] = x * x;
  noted_rounding[call->replica] = fegetround();
  memcpy(call->outputs[0], call->inputs[0], sizeof(float));
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel note_kernel = {
    .name = "note", .infer = infer_note, .start = start_note};

// Args: a vector. Its square; the square of its first element as the host
// kernel hands it on; that of a constant; all of it summed up.
static ls_nest square(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor tiny = ls_scalar(LS_DTYPE_F32, 1e-20);
  const ls_tensor first = ls_reduce_max(x, LS_AXES(0));
  const ls_op note = ls_host_call_add(&note_kernel, NULL, &first, 1);
  const ls_tensor after = ls_op_output(note, 0);
  return LS_TUPLE(ls_leaf(ls_mul(x, x)), ls_leaf(ls_mul(after, after)),
                  ls_leaf(ls_mul(tiny, tiny)),
                  ls_leaf(ls_reduce_sum(ls_div(x, tiny), LS_AXES(0))));
}

static ls_array *vector_of(float value, int64_t size) {
  ls_array *array = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(size), &array));
  float *data = ls_array_mutable_data(array);
  for (int64_t i = 0; i < size; ++i)
    data[i] = value;
  return array;
}

// ---- Denormals -------------------------------------------------------------
static void expect_zeros(ls_nest leaf) {
  const ls_array *array = ls_nest_as_array(leaf);
  const float *x = ls_array_data(array);
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
    if (x[i] != 0) fail_msg("element %lld is %a", (long long)i, (double)x[i]);
}

static void run_on(int replicas, int threads) {
  LS_OWN(open_place, home) =
      runtime_begin((ls_runtime_options){.threads = threads});
  LS_OWN(ls_function, function) = NULL;
  LS_OWN(ls_strategy, strategy) = NULL;
  expect_ok(
      ls_function_create(&(ls_function_options){.call = square}, &function));
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(replicas)}, &strategy));
  LS_OWN(ls_array, x) = vector_of(1e-20F, SIZE * replicas);
  ls_nest split;
  LS_OWN(ls_nest, result) = ls_none();
  expect_ok(ls_strategy_split(strategy, x, &split));
  LS_OWN(ls_nest, args) = LS_TUPLE(split);
  for (int r = 0; r < MOST_REPLICAS; ++r)
    noted_product[r] = -1;
  expect_ok(ls_strategy_run(strategy, ls_traced(function), args, &result));
  for (int r = 0; r < replicas; ++r) {
    for (size_t i = 0; i < 3; ++i) {
      const ls_nest item = ls_nest_item(result, i);
      const size_t count = ls_distributed_count(item);
      expect_zeros(count > 0 ? ls_distributed_component(item, (size_t)r)
                             : item);
    }
    // In a host call the caller's mode holds, which has denormals.
    assert_true(noted_product[r] > 0);
  }
}

TEST(denormals_are_zero_on_every_lane_and_thread) {
  for (int replicas = 1; replicas <= MOST_REPLICAS; ++replicas)
    for (int threads = 1; threads <= 3; ++threads)
      run_on(replicas, threads);
}

// Args: vectors. The sign of each, alone and in a chain of ops.
static ls_nest signs(ls_nest args, void *user) {
  (void)user;
  ls_nest items[4];
  for (size_t i = 0; i < 2; ++i) {
    const ls_tensor sign = ls_sign(ls_nest_tensor(args, i));
    items[2 * i] = ls_leaf(sign);
    items[2 * i + 1] = ls_leaf(ls_neg(ls_mul(sign, sign)));
  }
  return ls_nest_sequence(LS_KIND_TUPLE, items, 4);
}

TEST(the_sign_of_a_denormal_is_zero) {
  static const double values[] = {1e-40, -1e-40};
  for (size_t i = 0; i < LS_COUNT_OF(values); ++i) {
    LS_OWN(ls_function, function) = NULL;
    LS_OWN(ls_nest, result) = ls_none();
    ls_array *x = vector_of((float)values[i], 100), *y = NULL;
    expect_ok(ls_array_create(LS_DTYPE_BF16, LS_SHAPE(100), &y));
    for (int64_t k = 0; k < 100; ++k)
      ls_array_set_f64(y, k, values[i]);
    assert_true(ls_array_f64(x, 0) != 0 && ls_array_f64(y, 0) != 0);
    LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_array(x), ls_nest_array(y));
    expect_ok(
        ls_function_create(&(ls_function_options){.call = signs}, &function));
    expect_ok(ls_function_call(function, args, &result));
    for (size_t k = 0; k < 4; ++k)
      for (int64_t j = 0; j < 100; ++j)
        assert_true(
            ls_array_f64(ls_nest_as_array(ls_nest_item(result, k)), j) == 0);
  }
}

// Args: a matrix. Its extremes: of elements, alone and in a chain, of rows,
// columns, short rows and windows, and scattered; the index of the first.
enum { ROWS = 7, COLUMNS = 40, EXTREMES = 13 };
static ls_nest extremes(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_dtype dtype = ls_tensor_dtype(x);
  const ls_tensor low = ls_scalar(dtype, -1), high = ls_scalar(dtype, 1);
  const ls_tensor ones = ls_fill(dtype, LS_SHAPE(ROWS, COLUMNS), 1);
  const ls_tensor short_rows = ls_reshape(x, LS_SHAPE(ROWS * COLUMNS / 5, 5));
  const ls_tensor index = ls_iota(LS_DTYPE_I32, LS_SHAPE(ROWS), 0);
  const ls_tensor line = ls_reshape(x, LS_SHAPE(1, ROWS, COLUMNS));
  const ls_tensor results[EXTREMES] = {
      ls_maximum(x, low),
      ls_maximum(low, x),
      ls_minimum(x, ones),
      ls_relu(x),
      ls_clamp(low, x, high),
      ls_abs(ls_neg(ls_maximum(x, ls_neg(ones)))),
      ls_neg(ls_abs(ls_relu(ls_minimum(ones, x)))),
      ls_reduce_max(x, LS_AXES(0)),
      ls_reduce_min(x, LS_AXES(1)),
      ls_reduce_max(short_rows, LS_AXES(1)),
      ls_reduce_window(LS_WINDOW_MAX, line, LS_SHAPE(2), NULL),
      ls_scatter(LS_SCATTER_MAX, ls_neg(ones), index, x),
      ls_argmax(x, 1),
  };
  ls_nest items[EXTREMES];
  for (size_t i = 0; i < EXTREMES; ++i)
    items[i] = ls_leaf(results[i]);
  return ls_nest_sequence(LS_KIND_TUPLE, items, EXTREMES);
}

// A zero comes first, which is as large as what follows.
TEST(extremes_of_denormals_are_zeros_at_every_place) {
  static const ls_dtype dtypes[] = {LS_DTYPE_F32, LS_DTYPE_F64, LS_DTYPE_BF16};
  for (int t = 0; t < 2 * (int)LS_COUNT_OF(dtypes); ++t) {
    const ls_dtype dtype = dtypes[t / 2];
    const double size = dtype == LS_DTYPE_F64 ? 1e-310 : 1e-39;
    LS_OWN(ls_function, function) = NULL;
    LS_OWN(ls_nest, result) = ls_none();
    ls_array *x = NULL;
    expect_ok(ls_array_create(dtype, LS_SHAPE(ROWS, COLUMNS), &x));
    for (int64_t i = 0; i < (int64_t)ROWS * COLUMNS; ++i)
      ls_array_set_f64(x, i, i % COLUMNS == 0 ? 0 : t % 2 == 0 ? size : -size);
    LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_array(x));
    expect_ok(ls_function_create(&(ls_function_options){.call = extremes},
                                 &function));
    expect_ok(ls_function_call(function, args, &result));
    for (size_t k = 0; k < EXTREMES; ++k) {
      const ls_array *y = ls_nest_as_array(ls_nest_item(result, k));
      for (int64_t i = 0; i < ls_array_num_elements(y); ++i)
        if (ls_array_f64(y, i) != 0)
          fail_msg("%s: [%lld] of result %zu is %a", ls_dtype_name(dtype),
                   (long long)i, k, ls_array_f64(y, i));
    }
  }
}

TEST(denormals_are_zero_in_eager) {
  expect_ok(ls_frame_begin());
  ls_array *x = vector_of(1e-20F, 1000), *y = NULL;
  const ls_tensor value = ls_tensor_from_array(x);
  expect_ok(ls_tensor_value(ls_mul(value, value), &y));
  const ls_nest leaf = ls_nest_array(y);
  expect_zeros(leaf);
  ls_nest_release(leaf);
  ls_array_release(x);
  expect_ok(ls_frame_end(NULL));
}

// ---- The caller's mode -----------------------------------------------------
// One call of a function of a new runtime; gives the last of its results, whose
// bits tell how its divisions and additions were rounded.
static float call_once(int threads) {
  LS_OWN(open_place, home) =
      runtime_begin((ls_runtime_options){.threads = threads});
  LS_OWN(ls_function, function) = NULL;
  expect_ok(
      ls_function_create(&(ls_function_options){.call = square}, &function));
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_array(vector_of(0.3F, SIZE)));
  LS_OWN(ls_nest, result) = ls_none();
  expect_ok(ls_function_call(function, args, &result));
  float sum;
  memcpy(&sum, ls_array_data(ls_nest_as_array(ls_nest_item(result, 3))),
         sizeof(sum));
  return sum;
}

TEST(the_callers_rounding_does_not_show_and_stays) {
  static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
  const float want = call_once(1);
  for (int threads = 1; threads <= 3; ++threads)
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); ++i) {
      assert_int_equal(fesetround(modes[i]), 0);
      const float got = call_once(threads);
      const int after = fegetround();
      fesetround(FE_TONEAREST);
      assert_int_equal(after, modes[i]);
      assert_int_equal(noted_rounding[0], modes[i]);
      if (memcmp(&got, &want, sizeof(got)) != 0)
        fail_msg("%d threads: %a, want %a", threads, (double)got, (double)want);
    }
}

TEST(denormals_are_there_again_after_a_call) {
  volatile float tiny = 1e-20F;
  assert_true(tiny * tiny > 0);
  (void)call_once(2);
  assert_true(tiny * tiny > 0);
  assert_true(noted_product[0] > 0);
}
