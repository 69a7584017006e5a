// SPDX-License-Identifier: Apache-2.0
// Maxima and minima of many numbers, and over replicas, keep a NaN on the
// devices of a plug-in, as on the CPU engine: XLA's own reductions drop it on
// CPUs.
#include <math.h>

#include "distribute/own.h"
#include "lockstep/full.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/plugin.h"
#include "support/replicas.h"
#include "support/values.h"

enum { REPLICAS = 2, MOST_REPLICAS = 4, ROWS = 300, COLUMNS = 70 };

// Returns d sum(max(x)^2) / dx, with a maximum of each row.
static ls_tensor gradient_of_maxima(ls_tensor x) {
  const ls_nest ys[] = {ls_leaf(ls_square(ls_reduce_max(x, LS_AXES(1))))};
  const ls_nest xs[] = {ls_leaf(x)};
  ls_nest gradients[1];
  expect_ok(ls_gradients(ys, 1, xs, 1, NULL, gradients));
  return gradients[0].as.tensor;
}

static ls_nest reduce(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor image = ls_reshape(x, LS_SHAPE(1, ROWS, COLUMNS, 1));
  return LS_LIST(ls_leaf(ls_reduce_max(x, LS_AXES(1))),
                 ls_leaf(ls_reduce_min(x, LS_AXES(0))),
                 ls_leaf(ls_argmax(x, 1)), ls_leaf(ls_argmin(x, 0)),
                 ls_leaf(ls_max_pool(image, LS_SHAPE(2, 2), NULL)),
                 ls_leaf(ls_all_reduce(LS_REDUCE_MAX, ls_leaky_relu(x, 0.5))),
                 ls_leaf(gradient_of_maxima(x)));
}

// Numbers with a NaN in two rows of three.
static ls_array *numbers_with_nan(ls_dtype dtype, uint32_t seed) {
  ls_array *x = array_of_numbers(dtype, LS_SHAPE(ROWS, COLUMNS), seed);
  for (int64_t r = 0; r < ROWS; ++r)
    if ((r + seed) % 3 != 2)
      ls_array_set_f64(x, r * COLUMNS + r * 37 % COLUMNS, (double)NAN);
  return x;
}

static ls_nest results_on(open_place here, ls_callback callback, int replicas,
                          ls_dtype dtype) {
  LS_OWN(open_place, home) = here;
  LS_OWN(ls_strategy, strategy) = mirrored_of(replicas);
  LS_OWN(ls_function, function) = unnamed_function(callback, NULL);
  ls_nest parts[MOST_REPLICAS], results = ls_none();
  for (int r = 0; r < replicas; ++r)
    parts[r] = ls_nest_array(numbers_with_nan(dtype, (uint32_t)(r + 7)));
  LS_OWN(ls_nest, args) =
      LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, parts, (size_t)replicas));
  expect_ok(ls_strategy_run(strategy, ls_traced(function), args, &results));
  return results;
}

static void expect_same(ls_nest got, ls_nest want, const char *what) {
  const ls_array *a = ls_nest_as_array(got), *b = ls_nest_as_array(want);
  assert_int_equal(ls_array_num_elements(a), ls_array_num_elements(b));
  for (int64_t i = 0; i < ls_array_num_elements(a); ++i) {
    const double x = ls_array_f64(a, i), y = ls_array_f64(b, i);
    if (!(x == y || (isnan(x) && isnan(y))))
      fail_msg("%s, element %lld: %g, on the CPU %g", what, (long long)i, x, y);
  }
}

static void check_reductions(ls_dtype dtype) {
  static const char *const names[] = {"reduce_max", "reduce_min", "argmax",
                                      "argmin",     "max_pool",   "all_reduce",
                                      "gradient"};
  LS_OWN(ls_nest, got) = results_on(plugin_runtime(1), reduce, REPLICAS, dtype);
  LS_OWN(ls_nest, want) = results_on(runtime_begin((ls_runtime_options){0}),
                                     reduce, REPLICAS, dtype);
  for (size_t i = 0; i < LS_COUNT_OF(names); ++i)
    for (size_t r = 0; r < REPLICAS; ++r)
      expect_same(ls_distributed_component(ls_nest_item(got, i), r),
                  ls_distributed_component(ls_nest_item(want, i), r), names[i]);
}

TEST(maxima_of_many_numbers_keep_a_nan) {
  check_reductions(LS_DTYPE_F32);
  check_reductions(LS_DTYPE_F16);
}

// ---- Over devices ----------------------------------------------------------
static ls_nest reduce_over_replicas(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  (void)user;
  return LS_LIST(ls_leaf(ls_all_reduce(LS_REDUCE_MAX, x)),
                 ls_leaf(ls_all_reduce(LS_REDUCE_MIN, x)));
}

// One replica of each device, and two; a device computes the maximum of those.
TEST(maxima_over_devices_keep_a_nan) {
  for (int replicas = REPLICAS; replicas <= MOST_REPLICAS; replicas *= 2)
    for (int exact = 0; exact < 2; ++exact) {
      const ls_dtype dtype = exact ? LS_DTYPE_F32 : LS_DTYPE_BF16;
      LS_OWN(ls_nest, got) = results_on(
          runtime_begin((ls_runtime_options){.device = plugin_device(),
                                             .num_devices = 2,
                                             .exact_bits = exact == 1}),
          reduce_over_replicas, replicas, dtype);
      LS_OWN(ls_nest, want) = results_on(runtime_begin((ls_runtime_options){0}),
                                         reduce_over_replicas, replicas, dtype);
      for (size_t i = 0; i < 2; ++i)
        for (size_t r = 0; r < (size_t)replicas; ++r)
          expect_same(ls_distributed_component(ls_nest_item(got, i), r),
                      ls_distributed_component(ls_nest_item(want, i), r),
                      i == 0 ? "maximum" : "minimum");
    }
}
