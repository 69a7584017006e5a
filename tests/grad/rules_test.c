// SPDX-License-Identifier: Apache-2.0
//
// Gradients through makers of several ops and through products against finite
// differences, and their own gradients too. Every single op's are in
// conformance/gradients_test.c.
#include <math.h>

#include "base/memory/own.h"
#include "lockstep/function.h"
#include "support/expect.h"
#include "support/gradient_check.h"
#include "support/spec.h"

static ls_tensor labels_of(int64_t a, int64_t b) {
  const int64_t data[] = {a, b};
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_array_create_copy(LS_DTYPE_I64, LS_SHAPE(2), data, &array));
  return ls_constant(array);
}

// ---- Elementwise -----------------------------------------------------------
CODE(square, return ls_square(xs[0]);)
CODE(select, const ls_tensor c = ls_greater(xs[0], xs[1]);
     const ls_tensor twice = ls_mul_scalar(xs[0], 2);
     return ls_select(c, twice, xs[1]);)
CODE(all_reduce, const ls_tensor sum = ls_all_reduce(LS_REDUCE_SUM, xs[0]);
     return ls_all_reduce(LS_REDUCE_MEAN, ls_square(sum));)

#define MATRIX {LS_SHAPE(2, 3)}, .count = 1
#define PAIR {LS_SHAPE(2, 3), LS_SHAPE(2, 3)}, .count = 2
#define ROW {LS_SHAPE(2, 3), LS_SHAPE(3)}, .count = 2

TEST(elementwise_makers_agree_with_differences) {
  static const gradient_case rows[] = {
      {"square", make_square, .shapes = MATRIX},
      {"all_reduce", make_all_reduce, .shapes = MATRIX},
      {"select", make_select, .shapes = ROW},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i)
    expect_gradients(&rows[i], 2);
}

// ---- Shapes and reductions -------------------------------------------------
CODE(sum_to, return ls_square(ls_sum_to_like(xs[0], xs[1]));)
CODE(sum_keep, return ls_square(ls_reduce_sum_keep(xs[0], LS_AXES(0, -1)));)
CODE(mean_all, return ls_square(ls_reduce_mean(xs[0], LS_ALL_AXES));)
CODE(max_last, return ls_square(ls_reduce_max_keep(xs[0], LS_AXES(-1)));)
CODE(add_n, const ls_tensor both[] = {xs[0], xs[1], xs[0]};
     return ls_square(ls_add_n(both, 3));)

#define BOX {LS_SHAPE(2, 3, 4)}, .count = 1

TEST(shape_and_reduction_makers_agree_with_differences) {
  static const gradient_case rows[] = {
      {"sum_to", make_sum_to, .shapes = {LS_SHAPE(2, 3, 4), LS_SHAPE(3, 1)},
       .count = 2},
      {"reduce_sum that keeps", make_sum_keep, .shapes = BOX},
      {"reduce_mean of all", make_mean_all, .shapes = BOX},
      {"reduce_max that keeps", make_max_last, .shapes = BOX},
      {"add_n", make_add_n, .shapes = PAIR},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i)
    expect_gradients(&rows[i], 2);
}

// ---- Products --------------------------------------------------------------
typedef struct product {
  bool transpose_a, transpose_b;
} product;

static ls_tensor make_matmul(const ls_tensor *xs, size_t count,
                             const void *user) {
  (void)count;
  const product *p = user;
  return ls_square(
      ls_matmul_transposed(xs[0], p->transpose_a, xs[1], p->transpose_b));
}

TEST(matmul_rules_agree_with_differences) {
  for (int i = 0; i < 8; ++i) {
    const product p = {(i & 1) != 0, (i & 2) != 0};
    const bool batch = (i & 4) != 0;
    gradient_case row = {"matmul", make_matmul, .user = &p, .count = 2};
    row.shapes[0] = p.transpose_a ? LS_SHAPE(3, 2) : LS_SHAPE(2, 3);
    row.shapes[1] = p.transpose_b ? LS_SHAPE(4, 3) : LS_SHAPE(3, 4);
    for (int k = 0; k < 2 && batch; ++k) {
      const ls_shape s = row.shapes[k];
      row.shapes[k] = LS_SHAPE(2, s.dim[0], s.dim[1]);
    }
    expect_gradients(&row, 2);
  }
  for (int i = 0; i < 2; ++i) {
    const product p = {false, i != 0};
    gradient_case row = {"matmul by one matrix", make_matmul, .user = &p,
                         .count = 2};
    row.shapes[0] = LS_SHAPE(2, 5, 3);
    row.shapes[1] = i != 0 ? LS_SHAPE(4, 3) : LS_SHAPE(3, 4);
    expect_gradients(&row, 2);
  }
}

CODE(dense,
     return ls_square(ls_dense(xs[0], xs[1], xs[2], LS_ACTIVATION_NONE));)
CODE(dense_relu,
     return ls_square(ls_dense(xs[0], xs[1], xs[2], LS_ACTIVATION_RELU));)
CODE(dense_bare, return ls_square(ls_dense(xs[0], xs[1], ls_failed_tensor(),
                                           LS_ACTIVATION_RELU));)
CODE(softmax, return ls_square(ls_softmax(xs[0]));)
CODE(log_softmax, return ls_square(ls_log_softmax(xs[0]));)
CODE(cross_entropy,
     return ls_square(ls_softmax_cross_entropy(xs[0], labels_of(2, 0)));)
CODE(cross_entropy_grad,
     return ls_square(ls_softmax_cross_entropy_grad(xs[0], labels_of(1, 2),
                                                    xs[1]));)

TEST(product_rules_agree_with_differences) {
  static const gradient_case rows[] = {
      {"dense", make_dense,
       .shapes = {LS_SHAPE(2, 3), LS_SHAPE(3, 4), LS_SHAPE(4)}, .count = 3},
      {"dense with relu", make_dense_relu,
       .shapes = {LS_SHAPE(2, 3), LS_SHAPE(3, 4), LS_SHAPE(4)}, .count = 3},
      {"dense of rank 3", make_dense_relu,
       .shapes = {LS_SHAPE(2, 2, 3), LS_SHAPE(3, 4), LS_SHAPE(4)}, .count = 3},
      {"dense of rank 1", make_dense_relu,
       .shapes = {LS_SHAPE(3), LS_SHAPE(3, 4), LS_SHAPE(4)}, .count = 3},
      {"dense without bias", make_dense_bare,
       .shapes = {LS_SHAPE(2, 3), LS_SHAPE(3, 4)}, .count = 2},
      {"softmax", make_softmax, .shapes = MATRIX},
      {"log_softmax", make_log_softmax, .shapes = MATRIX},
      {"softmax_cross_entropy", make_cross_entropy, .shapes = MATRIX},
      {"softmax_cross_entropy_grad", make_cross_entropy_grad,
       .shapes = {LS_SHAPE(2, 3), LS_SHAPE(2)}, .count = 2},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i)
    expect_gradients(&rows[i], 2);
}

// ---- Ties and edges --------------------------------------------------------
static ls_tensor largest(ls_tensor x) { return ls_reduce_max(x, LS_ALL_AXES); }
static ls_tensor powers(ls_tensor x) {
  return ls_pow(x, ls_scalar(LS_DTYPE_F64, 0));
}
static ls_tensor to_powers(ls_tensor x) {
  return ls_pow(ls_scalar(LS_DTYPE_F64, 0), x);
}
static ls_tensor clipped(ls_tensor x) {
  return ls_maximum(x, ls_scalar(LS_DTYPE_F64, 1));
}

TEST(equal_extremes_share_the_gradient) {
  const double x[] = {3, 1, 3, 3, 0}, third = 1.0 / 3;
  const double want[] = {third, 0, third, third, 0};
  expect_gradient_at(largest, LS_DTYPE_F64, x, want, 5, 0);
}

static ls_tensor largest_squared(ls_tensor x) {
  return ls_square(largest(x));
}

TEST(only_the_extreme_has_a_gradient_if_it_is_not_finite) {
  expect_gradient_at(largest, LS_DTYPE_F32, (const double[]){1, NAN, 2},
                     (const double[]){0, 1, 0}, 3, 0);
  expect_gradient_at(largest_squared, LS_DTYPE_F32,
                     (const double[]){1, INFINITY, 2},
                     (const double[]){0, INFINITY, 0}, 3, 0);
}

TEST(edges_give_numbers) {
  const double x[] = {0, 1, 2, -1, -2};
  const double zeros[] = {0, 0, 0, 0, 0};
  const double all[] = {0, 1, INFINITY, -INFINITY, NAN};
  expect_gradient_at(powers, LS_DTYPE_F64, all, (const double[5]){0}, 5,
                     0);  // d x^0 / dx, at 0 too.
  expect_gradient_at(to_powers, LS_DTYPE_F64, x, zeros, 5, 0);  // d 0^x / dx.
  const double ties[] = {0, 1, 1};  // Equal: to the first operand.
  expect_gradient_at(clipped, LS_DTYPE_F64, x, ties, 3, 0);
}

// ---- Second derivatives of powers ------------------------------------------
// Gradient of sum(y) with respect to x, inside a function.
static ls_tensor derivative(ls_tensor y, ls_tensor x) {
  const ls_nest ys[] = {ls_leaf(y)}, xs[] = {ls_leaf(x)};
  ls_nest grads[1];
  const ls_status status = ls_gradients(
      ys, 1, xs, 1, &(ls_gradient_options){.unconnected_zero = true}, grads);
  expect_ok(status);
  return grads[0].as.tensor;
}

static const double bases[] = {2, 0.5, 3, 0, NAN, 0x1p-16};
static ls_tensor constants_like(ls_tensor x, const double *values) {
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_array_create(ls_tensor_dtype(x), ls_tensor_shape(x), &array));
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
    ls_array_set_f64(array, i, values[i]);
  return ls_constant(array);
}

static ls_tensor by_base_at_exponents(ls_tensor y) {
  const ls_tensor x = constants_like(y, bases);
  return derivative(ls_pow(x, y), x);
}
static ls_tensor by_exponent_at_bases(ls_tensor x) {
  const ls_tensor y = constants_like(x, (const double[6]){0});
  return derivative(ls_pow(x, y), y);
}

static const double exponents[] = {0, 1, 2, 3, 0, 2};
static ls_tensor slope(ls_tensor x) {
  return derivative(ls_pow(x, constants_like(x, exponents)), x);
}

// d2 x^y / dx dy at y = 0 is 1 / x, and 0 where that is no number of the type.
TEST(mixed_derivatives_of_powers_are_those_of_calculus) {
  const double none[6] = {0}, inverse[] = {0.5, 2, 1.0 / 3, 0, 0, 0x1p16};
  const double halves[] = {0.5, 2, 1.0 / 3, 0, 0, 0};
  expect_gradient_at(by_base_at_exponents, LS_DTYPE_F64, none, inverse, 6,
                     1e-12);
  expect_gradient_at(by_base_at_exponents, LS_DTYPE_F16, none, halves, 6, 1e-3);
  // In the other order, too, in which NaN stays.
  const double by_exponent[] = {0.5, 2, 1.0 / 3, 0, NAN, 0x1p16};
  expect_gradient_at(by_exponent_at_bases, LS_DTYPE_F64, bases, by_exponent, 6,
                     1e-12);
}

TEST(curvatures_of_powers_at_zero_are_numbers) {
  const double zeros[6] = {0}, want[] = {0, 0, 2, 0, 0, 2};
  expect_gradient_at(slope, LS_DTYPE_F64, zeros, want, 6, 0);
}

// ---- Ties ------------------------------------------------------------------
// More ties than f16 has numbers, and a number of them that bf16 lacks.
TEST(many_equal_maxima_share_the_gradient) {
  enum { MOST = 70000, ODD = 259 };
  static double ones[MOST], shares[MOST];
  for (int i = 0; i < MOST; ++i) {
    ones[i] = 1;
    shares[i] = 1.0 / MOST;
  }
  expect_gradient_at(largest, LS_DTYPE_F16, ones, shares, MOST, 1e-7);
  for (int i = 0; i < ODD; ++i)
    shares[i] = 1.0 / ODD;
  expect_gradient_at(largest, LS_DTYPE_BF16, ones, shares, ODD, 4e-6);
}
