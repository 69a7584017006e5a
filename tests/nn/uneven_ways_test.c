// SPDX-License-Identifier: Apache-2.0
//
// Replicas with other numbers of rows, one without any: makers that take a
// shape from a tensor, and means over the examples of all.
#include <math.h>

#include "lockstep/losses.h"
#include "lockstep/replica.h"
#include "support/values.h"
#include "support/ways.h"

enum { WIDTH = 2, STEPS = 2 };

static const int64_t rows[WAYS_REPLICAS] = {3, 0, 2};

static ls_nest own_rows(const ways *self, int step, int r) {
  (void)self;
  return ls_nest_array(array_of_numbers(LS_DTYPE_F32, LS_SHAPE(rows[r], WIDTH),
                                        (uint32_t)(7 * step + r + 1)));
}

// ---- Shapes of tensors -----------------------------------------------------
static ls_nest draw_like(ls_nest args, ways *self) {
  (void)self;
  const ls_tensor x = args.as.tensor;
  // Numbers that steps do not change, since eager counts its ops.
  const ls_random_options options = {.fixed = true, .stream = LS_SOME(4)};
  const ls_tensor normal =
      ls_random_normal_like(LS_DTYPE_F32, x, 9, 1, &options);
  const ls_tensor uniform =
      ls_random_uniform_like(LS_DTYPE_F64, x, 2, 3, &options);
  return LS_TUPLE(ls_leaf(normal), ls_leaf(uniform),
                  ls_leaf(ls_iota_like(LS_DTYPE_I32, x, 0)),
                  ls_leaf(ls_iota_like(LS_DTYPE_F32, x, -1)));
}

static void check_drawn(const ways *self) {
  for (int r = 0; r < self->replicas; ++r) {
    const size_t first = self->values_of[0][r];
    for (size_t leaf = 0; leaf < 4; ++leaf)
      assert_true(ls_shape_equal(ls_array_shape(self->values[first + leaf]),
                                 LS_SHAPE(rows[r], WIDTH)));
    for (int64_t i = 0; i < rows[r] * WIDTH; ++i) {
      const double uniform = ways_result(self, 0, r, 1, i);
      assert_true(fabs(ways_result(self, 0, r, 0, i) - 9) < 6);
      assert_true(uniform >= 2 && uniform < 3);
      ways_expect(self, "row", ways_result(self, 0, r, 2, i),
                  (double)(i / WIDTH), 0);
      ways_expect(self, "column", ways_result(self, 0, r, 3, i),
                  (double)(i % WIDTH), 0);
    }
  }
}

TEST(numbers_take_the_shape_of_a_tensor_in_every_way) {
  ways_hold(&(ways_case){.name = "like",
                         .args = own_rows,
                         .step = draw_like,
                         .check = check_drawn},
            1);
}

static ls_nest draw_unknown(ls_nest args, ways *self) {
  (void)self;
  return ls_leaf(ls_random_normal(LS_DTYPE_F32, ls_tensor_shape(args.as.tensor),
                                  0, 1, NULL));
}

TEST(an_unknown_shape_names_the_makers_that_know_it) {
  ways_hold(&(ways_case){.name = "unknown",
                         .args = own_rows,
                         .step = draw_unknown,
                         .without = 1 << WAY_EAGER | 1 << WAY_GRAPH,
                         .replicas_only = true,
                         .refused = LS_INVALID_ARGUMENT,
                         .says = "by ls_random_normal_like"},
            1);
}

// ---- Means over all examples -----------------------------------------------
static void make_number(ways *self) {
  ways_vector(self, "w", 0, (double[]){2});
  expect_ok(
      ls_sgd_create(&(ls_sgd_options){.learning_rate = 0.5}, &self->optimizer));
}

// The mean of w x over the replica's rows: NaN without any.
static ls_tensor own_mean(ls_nest args, ways *self) {
  return ls_reduce_mean(
      ls_mul(args.as.tensor, ls_variable_read(self->variables[0])),
      LS_ALL_AXES);
}

static ls_tensor whole_mean(ls_nest args, ways *self) {
  return ls_examples_mean(own_mean(args, self));
}

static ls_nest step_with_mean(ls_nest args, ways *self) {
  const ls_tensor mean = whole_mean(args, self);

  return LS_TUPLE(ls_leaf(mean), ways_minimize(self, own_mean, args));
}

// A loss that is the mean over all examples has the same gradient.
static ls_nest step_down_mean(ls_nest args, ways *self) {
  const ls_tensor mean = whole_mean(args, self);
  return LS_TUPLE(ls_leaf(mean), ways_minimize(self, whole_mean, args));
}

static void check_means(const ways *self) {
  double w = 2;
  for (int step = 0; step < STEPS; ++step) {
    double sum = 0;
    int64_t count = 0;
    for (int r = 0; r < self->replicas; ++r) {
      LS_OWN(ls_nest, args) = own_rows(self, step, r);
      const ls_array *x = ls_nest_as_array(args);
      for (int64_t i = 0; i < rows[r] * WIDTH; ++i, ++count)
        sum += ls_array_f64(x, i);
    }
    for (int r = 0; r < self->replicas; ++r)
      ways_expect(self, "mean", ways_result(self, step, r, 0, 0),
                  w * sum / (double)count, 1e-5);
    w -= 0.5 * sum / (double)count;
  }
  for (int c = 0; c < self->replicas; ++c)
    ways_expect(self, "w", ways_value(self, 0, c, 0), w, 1e-5);
}

TEST(means_count_each_example_once_in_every_way) {
  static const ways_case mean = {.name = "mean",
                                 .make = make_number,
                                 .args = own_rows,
                                 .step = step_with_mean,
                                 .check = check_means,
                                 .steps = STEPS};
  ways_case loss = mean;
  loss.name = "loss";
  loss.step = step_down_mean;
  ways_hold(&mean, 1);
  ways_hold(&loss, 1);
}

static ls_nest mean_of_integers(ls_nest args, ways *self) {
  (void)self;
  return ls_leaf(ls_examples_mean(
      ls_reduce_max(ls_convert(args.as.tensor, LS_DTYPE_I32), LS_ALL_AXES)));
}

TEST(a_mean_of_integers_is_refused_in_every_way) {
  ways_hold(&(ways_case){.name = "integers",
                         .args = own_rows,
                         .step = mean_of_integers,
                         .refused = LS_INVALID_ARGUMENT,
                         .says = "examples_mean takes floats, got i32[]"},
            1);
}
