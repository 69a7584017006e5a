// SPDX-License-Identifier: Apache-2.0
//
// Gradients of activations, products and barriers against finite differences,
// and their own gradients too.
#include <math.h>

#include "lockstep/full.h"
#include "runtime/own.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/gradient_check.h"
#include "support/values.h"

#define ONE(name) CODE(name, return ls_##name(xs[0]);)
ONE(cbrt)
ONE(silu)
CODE(elu, return ls_elu(xs[0], 1);)
CODE(steep_elu, return ls_elu(xs[0], 1.5);)
CODE(leaky_relu, return ls_leaky_relu(xs[0], 0.1);)
CODE(floor, return ls_mul(xs[0], ls_floor(xs[0]));)

#define MATRIX {LS_SHAPE(2, 3)}, .count = 1
#define PAIR {LS_SHAPE(2, 3), LS_SHAPE(2, 3)}, .count = 2

TEST(functions_agree_with_differences) {
  static const gradient_case rows[] = {
      {"cbrt below 0", make_cbrt, .shapes = MATRIX, .low = -2, .high = -0.5},
      {"silu", make_silu, .shapes = MATRIX},
      {"elu", make_elu, .shapes = MATRIX},
      {"steep elu", make_steep_elu, .shapes = MATRIX},
      {"leaky relu", make_leaky_relu, .shapes = MATRIX},
      {"x floor(x)", make_floor, .shapes = MATRIX},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i)
    expect_gradients(&rows[i], 2);
}

// ---- Large and small numbers -----------------------------------------------
// Functions of vectors, and what else their gradients are scaled by.
#define SCALED(name, expression)                                               \
  static ls_nest name(ls_nest args, void *user) {                              \
    const ls_tensor x = ls_nest_tensor(args, 0), y = ls_nest_tensor(args, 1);  \
    (void)y;                                                                   \
    const ls_tensor z = ls_mul_scalar(expression, *(const double *)user);      \
    return LS_TUPLE(ls_leaf(ls_gradient(z, x)), ls_leaf(ls_gradient(z, y)));   \
  }
SCALED(scaled_rsqrt, ls_rsqrt(x))
SCALED(scaled_pow, ls_pow(x, y))
SCALED(scaled_atan2, ls_atan2(x, y))

TEST(a_gradient_overflows_only_if_it_is_too_large_itself) {
  const struct {
    ls_dtype dtype;
    ls_nest (*function)(ls_nest args, void *user);
    double x, y, scale, to_x, to_y;
  } rows[] = {
      {LS_DTYPE_F32, scaled_rsqrt, 1e-26, 0, 1e-10, -5e28, 0},
      {LS_DTYPE_F32, scaled_pow, 2, 127, 1e-10, 1.0803965e+30, 1.1793288e+28},
      {LS_DTYPE_F32, scaled_pow, 1e19, 2, 1e-20, 0.2, 4.3749117e+19},
      {LS_DTYPE_F32, scaled_pow, 0.9, 100, 1e37, 2.951267e34, -2.798523e31},
      {LS_DTYPE_F32, scaled_pow, 1e-30, 0, 1e20, 0, -6.907755e21},
      {LS_DTYPE_F32, scaled_pow, 1e30, 1e-10, 1e20, 1e-20, 6.907755e21},
      {LS_DTYPE_F16, scaled_pow, 0.9902, 900, 2e-4, 2.6534e-05, 0},
      {LS_DTYPE_F16, scaled_pow, 0.9902, 900, 1e-3, 1.327e-4, 0},
      {LS_DTYPE_F16, scaled_pow, 0.9951, 2000, 2e-4, 2.2527e-05, 0},
      {LS_DTYPE_F16, scaled_pow, 2, 15, 1e-3, 245.859, 22.7222},
      {LS_DTYPE_F32, scaled_pow, NAN, 2, 1, NAN, NAN},
      {LS_DTYPE_F32, scaled_pow, 0, 2, 1, 0, 0},
      {LS_DTYPE_F32, scaled_atan2, 1e20, 1e20, 1, 5e-21, -5e-21},
      {LS_DTYPE_F32, scaled_atan2, 3e-25, 4e-25, 1, 1.6e24, -1.2e24},
      {LS_DTYPE_F32, scaled_atan2, 3, 4, 1, 0.16, -0.12},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    double scale = rows[i].scale;
    LS_OWN(ls_function, f) = function_of(rows[i].function, &scale);
    const ls_dtype dtype = rows[i].dtype;
    const double tolerance = dtype == LS_DTYPE_F16 ? 1e-2 : 1e-5;
    LS_OWN(ls_nest, args) =
        LS_TUPLE(ls_nest_array(array_of(dtype, LS_SHAPE(1), &rows[i].x)),
                 ls_nest_array(array_of(dtype, LS_SHAPE(1), &rows[i].y)));
    LS_OWN(ls_nest, got) = call_results(f, args);
    for (size_t k = 0; k < 2; ++k) {
      const double want = k == 0 ? rows[i].to_x : rows[i].to_y;
      const double value = nest_element(ls_nest_item(got, k), 0);
      if (isnan(want) ? !isnan(value)
                      : !(fabs(value - want) <= tolerance * fabs(want)))
        fail_msg("gradient %zu of row %zu is %g", k, i, value);
    }
  }
}

// ---- Products --------------------------------------------------------------
CODE(product_of_two,
     return ls_square(ls_reduce_product(xs[0], LS_AXES(0, -1)));)
CODE(product_kept,
     return ls_square(ls_reduce_product_keep(xs[0], LS_AXES(-1)));)
// Of numbers among which are zeros: one along the last axis.
CODE(product_with_zeros, const ls_tensor zero = ls_scalar(LS_DTYPE_F64, 0);
     const ls_tensor place = ls_iota(LS_DTYPE_F64, LS_SHAPE(2, 3, 4), 2);
     const ls_tensor kept = ls_greater(place, zero);
     const ls_tensor shifted = ls_add_scalar(xs[0], -0.5);
     const ls_tensor x = ls_select(kept, xs[0], ls_sub(shifted, shifted));
     return ls_reduce_product(ls_add(x, ls_mul(x, xs[0])), LS_AXES(2));)

#define BOX {LS_SHAPE(2, 3, 4)}, .count = 1, .low = 0.5, .high = 1.5

TEST(products_agree_with_differences) {
  static const gradient_case rows[] = {
      {"product of two axes", make_product_of_two, .shapes = BOX},
      {"product that keeps", make_product_kept, .shapes = BOX},
      {"product with zeros", make_product_with_zeros, .shapes = BOX},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i)
    expect_gradients(&rows[i], 2);
}

// ---- Barriers --------------------------------------------------------------
CODE(barrier, const ls_nest both = ls_barrier(LS_TUPLE(ls_leaf(xs[0]),
                                                       ls_leaf(ls_exp(xs[1]))));
     const ls_tensor a = ls_nest_tensor(both, 0), b = ls_nest_tensor(both, 1);
     ls_nest_release(both); return ls_mul(a, b);)

TEST(gradients_pass_a_barrier) {
  static const gradient_case row = {"barrier", make_barrier, .shapes = PAIR};
  expect_gradients(&row, 2);
}

// ---- Edges -----------------------------------------------------------------
static ls_tensor elu(ls_tensor x) { return ls_elu(x, 1); }
static ls_tensor leaky(ls_tensor x) { return ls_leaky_relu(x, 0.25); }
static ls_tensor product(ls_tensor x) {
  return ls_reduce_product(x, LS_ALL_AXES);
}
static ls_tensor rounded(ls_tensor x) { return ls_round(x); }
static ls_tensor twice_gelu(ls_tensor x) {
  const ls_nest ys[] = {ls_leaf(ls_gelu(x))}, xs[] = {ls_leaf(x)};
  ls_nest grads[1];
  expect_ok(ls_gradients(ys, 1, xs, 1, NULL, grads));
  return grads[0].as.tensor;
}

TEST(edges_give_numbers) {
  static const double xs[] = {-1e4, 0, 1e4};
  expect_gradient_at(elu, LS_DTYPE_F32, xs, (double[]){0, 1, 1}, 3, 1e-6);
  expect_gradient_at(leaky, LS_DTYPE_F32, xs, (double[]){0.25, 0.25, 1}, 3,
                     1e-6);
  expect_gradient_at((plain_function)(ls_softplus), LS_DTYPE_F32, xs,
                     (double[]){0, 0.5, 1}, 3, 1e-6);
  expect_gradient_at((plain_function)(ls_gelu), LS_DTYPE_F32, xs,
                     (double[]){0, 0.5, 1}, 3, 1e-6);
  expect_gradient_at(twice_gelu, LS_DTYPE_F32, (double[]){-1e18, 0, 1e18},
                     (double[]){0, 0.7978845608028654, 0}, 3, 1e-6);
  expect_gradient_at(rounded, LS_DTYPE_F32, xs, (double[]){0, 0, 0}, 3, 1e-6);
  // exp(x), of which expm1(x) + 1 has lost most.
  static const double below[] = {-9, -14, -17};
  const double slopes[] = {exp(-9), exp(-14), exp(-17)};
  expect_gradient_at((plain_function)(ls_expm1), LS_DTYPE_F32, below, slopes, 3,
                     1e-11);
  expect_gradient_at(elu, LS_DTYPE_F32, below, slopes, 3, 1e-11);
  // One zero: it alone has a gradient. Two: none has.
  expect_gradient_at(product, LS_DTYPE_F64, (double[]){2, 0, 3},
                     (double[]){0, 6, 0}, 3, 1e-6);
  expect_gradient_at(product, LS_DTYPE_F64, (double[]){0, 0, 3},
                     (double[]){0, 0, 0}, 3, 1e-6);
}
