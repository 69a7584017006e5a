// SPDX-License-Identifier: Apache-2.0
//
// How far the elementary functions are from the exact result, measured against
// long doubles, and what of their bits can be told without a reference.
//
// The sample: every STRIDE-th of all bit patterns, and all floats in runs of
// RUN around the places where a function changes its ways. Set LS_TEST_TABLE to
// print the table of errors.
#include "support/expect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads/workers.h"
#include "base/values/numbers.h"
#include "support/floats.h"
#include "support/kernel_tables.h"
#include "support/sanitizer.h"

// ---- The functions ---------------------------------------------------------
static long double sigmoid(long double x) { return 1 / (1 + expl(-x)); }
static long double rsqrt(long double x) { return 1 / sqrtl(x); }
static long double softplus(long double x) {
  return (x > 0 ? x : 0) + log1pl(expl(-fabsl(x)));
}

static long double gelu(long double x) {
  return x * sigmoid(1.5957691216057308L * (x + 0.044715L * x * x * x));
}

typedef enum symmetry { NONE, ODD, EVEN } symmetry;

typedef struct function {
  const char *name;
  uint16_t op;
  long double (*reference)(long double x);
  double most_ulp;  // As engine/cpu/elementary and isa/vec*.h promise.
  symmetry symmetry;
  double special[4];  // Where it changes its ways, beside 0, 1 and the ends.
} function;
#define FUNCTION(name, OP) #name, LS_OP_##OP

static const function functions[] = {
    {FUNCTION(exp, EXP), expl, 0.97, NONE, {88.722839, -87.336548, -103.97208}},
    {FUNCTION(log, LOG), logl, 0.78, NONE, {0.70710678, 1.4142135}},
    {FUNCTION(tanh, TANH), tanhl, 0.54, ODD, {0.625, 9.01}},
    {FUNCTION(erf, ERF), erfl, 0.88, ODD, {0.921875, 3.92}},
    {FUNCTION(sigmoid, SIGMOID),
     sigmoid,
     2.4,
     NONE,
     {88.0, -88.0, 16.6, -103.97208}},
    {FUNCTION(rsqrt, RSQRT), rsqrt, 1.5, NONE, {2, 4}},
    {FUNCTION(expm1, EXPM1),
     expm1l,
     0.54,
     NONE,
     {0.34657359, -0.34657359, 88.722839}},
    {FUNCTION(log1p, LOG1P), log1pl, 0.54, NONE, {-0.29289322, 0.41421356, -1}},
    {FUNCTION(sin, SIN), sinl, 0.54, ODD, {3.14159265, 65536, 0.78539816}},
    {FUNCTION(cos, COS), cosl, 0.54, EVEN, {1.57079633, 65536, 0.78539816}},
    {FUNCTION(tan, TAN), tanl, 0.54, ODD, {1.57079633, 65536, 0.78539816}},
    {FUNCTION(softplus, SOFTPLUS),
     softplus,
     0.54,
     NONE,
     {-103.97208, 16.6, -16.6}},
    // Its errors have a bound of their own.
    {FUNCTION(gelu, GELU), gelu, INFINITY, NONE, {-10, 10}},
};

// ---- The sample ------------------------------------------------------------
enum { STRIDE = LS_SANITIZED ? 262147 : 65521, RUN = LS_SANITIZED ? 50 : 500 };
enum { SPREAD = (int)(UINT32_MAX / STRIDE), RUNS = 10 };
enum { SAMPLE = SPREAD + RUNS * (2 * RUN + 1) };

static void make_sample(const function *f, float *x) {
  const float places[RUNS] = {(float)f->special[0],
                              (float)f->special[1],
                              (float)f->special[2],
                              (float)f->special[3],
                              1,
                              -1,
                              0x1p-126F,  // The smallest normal number,
                              -0x1p-126F,
                              0x1p-12F,  // where results are their arguments,
                              0x1p127F};
  size_t n = 0;
  for (uint32_t i = 0; i < SPREAD; ++i)
    x[n++] = ls_float_of_bits(i * STRIDE);
  for (size_t i = 0; i < RUNS; ++i) {
    // Around +0 bits go down into the NaNs, which is fine.
    const uint32_t middle = ls_float_bits(places[i]);
    for (uint32_t k = 0; k <= 2 * RUN; ++k)
      x[n++] = ls_float_of_bits(middle + k - RUN);
  }
  assert_int_equal(n, SAMPLE);
}

// ---- Errors ----------------------------------------------------------------
// From `want`, in units of a float's last place there; infinite where one is
// no number and the other is, or is infinite too early.
static double ulps(float got, long double want) {
  if (isnan(want)) return isnan(got) ? 0 : INFINITY;
  const float rounded = (float)want;
  if (isinf(rounded) || isinf(got))
    return got == rounded || fabsl(want) > 0x1.fffffep127L ? 0 : INFINITY;
  int exponent;
  (void)frexpl(want, &exponent);
  const int place = exponent - 24 < -149 ? -149 : exponent - 24;
  return (double)(fabsl((long double)got - want) / ldexpl(1, place));
}

TEST(functions_err_by_no_more_ulps_than_they_say) {
  static float x[SAMPLE], y[SAMPLE];
  const bool shows = getenv("LS_TEST_TABLE") != NULL;
  for (size_t i = 0; i < LS_COUNT_OF(functions); ++i) {
    const function *f = &functions[i];
    make_sample(f, x);
    kernel_tables_run(ls_cpu_kernels_best(), f->op, y, x, SAMPLE);
    double worst = 0;
    size_t at = 0, exact = 0, numbers = 0;
    for (size_t k = 0; k < SAMPLE; ++k) {
      const long double want = f->reference((long double)x[k]);
      const double error = ulps(y[k], want);
      if (error > worst) {
        worst = error;
        at = k;
      }
      if (isnan(want)) continue;
      ++numbers;
      exact += error <= 0.5;
    }
    if (shows)
      print_message("%-9s %.2f ulp at %a, %.1f%% as rounded\n", f->name, worst,
                    (double)x[at], 100.0 * (double)exact / (double)numbers);
    if (!(worst <= f->most_ulp))
      fail_msg("%s(%a) is %a: %.2f ulp, at most %.2f", f->name, (double)x[at],
               (double)y[at], worst, f->most_ulp);
  }
}

// ---- Bits ------------------------------------------------------------------
TEST(odd_and_even_functions_are_so_to_the_bit) {
  static float x[SAMPLE], minus[SAMPLE], y[SAMPLE], z[SAMPLE];
  for (size_t i = 0; i < LS_COUNT_OF(functions); ++i) {
    const function *f = &functions[i];
    if (f->symmetry == NONE) continue;
    make_sample(f, x);
    for (size_t k = 0; k < SAMPLE; ++k)
      minus[k] = -x[k];
    kernel_tables_run(ls_cpu_kernels_best(), f->op, y, x, SAMPLE);
    kernel_tables_run(ls_cpu_kernels_best(), f->op, z, minus, SAMPLE);
    for (size_t k = 0; k < SAMPLE && f->symmetry == ODD; ++k)
      z[k] = -z[k];
    expect_same_numbers(f->name, "best", LS_DTYPE_F32, y, z, SAMPLE);
  }
}

// Every table, on the sample's special places too, with denormals and without.
static void compare_tables(void) {
  static float x[SAMPLE], want[SAMPLE], got[SAMPLE];
  const kernel_tables tables = kernel_tables_find();
  for (size_t i = 0; i < LS_COUNT_OF(functions); ++i) {
    make_sample(&functions[i], x);
    for (size_t t = 0; t < tables.count; ++t) {
      kernel_tables_run(tables.at[t], functions[i].op, t == 0 ? want : got, x,
                        SAMPLE);
      if (t > 0)
        expect_same_numbers(functions[i].name, tables.at[t]->name, LS_DTYPE_F32,
                            want, got, SAMPLE);
    }
  }
}

TEST(every_table_gives_the_same_bytes_at_the_edges) {
  compare_tables();
  const uint64_t mode = ls_float_mode_enter();
  compare_tables();
  ls_float_mode_leave(mode);
}

// Where an engine runs them: what is denormal comes out as zero, and nothing
// else changes but by what a denormal argument is.
TEST(without_denormals_results_are_zeros_or_as_before) {
  static float x[SAMPLE], with[SAMPLE], without[SAMPLE];
  for (size_t i = 0; i < LS_COUNT_OF(functions); ++i) {
    const function *f = &functions[i];
    const ls_cpu_kernels *best = ls_cpu_kernels_best();
    make_sample(f, x);
    kernel_tables_run(best, f->op, with, x, SAMPLE);
    const uint64_t mode = ls_float_mode_enter();
    kernel_tables_run(best, f->op, without, x, SAMPLE);
    ls_float_mode_leave(mode);
    for (size_t k = 0; k < SAMPLE; ++k) {
      // An argument may be handed on as it is; whoever reads it finds a zero.
      if (fpclassify(without[k]) == FP_SUBNORMAL &&
          memcmp(&without[k], &x[k], sizeof(*x)) != 0)
        fail_msg("%s(%a) is %a", f->name, (double)x[k], (double)without[k]);
      if (fpclassify(x[k]) == FP_SUBNORMAL) continue;
      const double difference = ulps(without[k], (long double)with[k]);
      if (fabsf(with[k]) >= 0x1p-125F && difference != 0)
        fail_msg("%s(%a) is %a with denormals, %a without", f->name,
                 (double)x[k], (double)with[k], (double)without[k]);
    }
  }
}

// ---- One by one -------------------------------------------------------------
TEST(elementary_functions_keep_to_their_tails) {
  const kernel_tables tables = kernel_tables_find();
  for (size_t i = 0; i < tables.count; ++i) {
    for (size_t f = 0; f < LS_COUNT_OF(functions); ++f) {
      for (size_t n = 0; n < 40; ++n) {
        const uint16_t op = functions[f].op;
        HEAP(float, x) = floats_create(n);
        HEAP(float, y) = floats_copy(x, n);
        kernel_tables_run(tables.at[i], op, y, y, n);  // In place.
        for (size_t j = 0; j < n; ++j) {
          float alone;
          kernel_tables_run(tables.at[i], op, &alone, &x[j], 1);
          expect_same_floats(functions[f].name, tables.at[i]->name, &y[j],
                             &alone, 1);
        }
      }
    }
  }
}

TEST(elementary_functions_have_the_special_values_of_libm) {
  static const struct {
    size_t function;  // In `functions`.
    float x, want;
  } rows[] = {
      {0, 0.0f, 1.0f},           {0, -INFINITY, 0.0f},
      {0, INFINITY, INFINITY},   {0, NAN, NAN},
      {0, 88.8f, INFINITY},      {0, -104.5f, 0.0f},
      {0, -103.0f, 0x1p-149f},   {1, 1.0f, 0.0f},
      {1, 0.0f, -INFINITY},      {1, -0.0f, -INFINITY},
      {1, -1.0f, NAN},           {1, -INFINITY, NAN},
      {1, INFINITY, INFINITY},   {1, NAN, NAN},
      {2, 0.0f, 0.0f},           {2, -0.0f, -0.0f},
      {2, INFINITY, 1.0f},       {2, -INFINITY, -1.0f},
      {2, 0x1p-140f, 0x1p-140f}, {2, NAN, NAN},
      {3, 0.0f, 0.0f},           {3, -0.0f, -0.0f},
      {3, INFINITY, 1.0f},       {3, -INFINITY, -1.0f},
      {3, 5.0f, 1.0f},           {3, NAN, NAN},
      {4, 0.0f, 0.5f},           {4, INFINITY, 1.0f},
      {4, -INFINITY, 0.0f},      {4, NAN, NAN},
      {5, 0.0f, INFINITY},       {5, 0.25f, 2.0f},
      {5, INFINITY, 0.0f},       {5, -1.0f, NAN},
      {6, -0.0f, -0.0f},         {6, -INFINITY, -1.0f},
      {6, INFINITY, INFINITY},   {6, 89.0f, INFINITY},
      {6, 0x1p-140f, 0x1p-140f}, {6, NAN, NAN},
      {7, -0.0f, -0.0f},         {7, -1.0f, -INFINITY},
      {7, -1.5f, NAN},           {7, INFINITY, INFINITY},
      {7, 0x1p-140f, 0x1p-140f}, {7, NAN, NAN},
      {8, -0.0f, -0.0f},         {8, INFINITY, NAN},
      {8, 0x1p-140f, 0x1p-140f}, {8, NAN, NAN},
      {9, 0.0f, 1.0f},           {9, -INFINITY, NAN},
      {10, -0.0f, -0.0f},        {10, NAN, NAN},
      {11, INFINITY, INFINITY},  {11, NAN, NAN},
      {12, INFINITY, INFINITY},  {12, NAN, NAN},
      {12, 0.0f, 0.0f},
  };
  const kernel_tables tables = kernel_tables_find();
  for (size_t i = 0; i < tables.count; ++i) {
    for (size_t r = 0; r < LS_COUNT_OF(rows); ++r) {
      const function *f = &functions[rows[r].function];
      float got;
      kernel_tables_run(tables.at[i], f->op, &got, &rows[r].x, 1);
      char what[64];
      snprintf(what, sizeof what, "%s(%g)", f->name, (double)rows[r].x);
      expect_same_floats(what, tables.at[i]->name, &got, &rows[r].want, 1);
    }
  }
}

// Lanes of large angles are reduced apart from their neighbours.
TEST(large_angles_do_not_touch_other_lanes) {
  float x[64], alone, y[64];
  for (size_t i = 0; i < LS_COUNT_OF(x); ++i) {
    x[i] = floats_random_unit() * (i % 5 == 0 ? 0x1p100f : 10.0f);
    if (i % 7 == 0) x[i] = NAN;
    if (i % 11 == 0) x[i] = INFINITY;
  }
  const kernel_tables tables = kernel_tables_find();
  for (size_t i = 0; i < tables.count; ++i) {
    kernel_tables_run(tables.at[i], LS_OP_SIN, y, x, LS_COUNT_OF(x));
    for (size_t k = 0; k < LS_COUNT_OF(x); ++k) {
      kernel_tables_run(tables.at[i], LS_OP_SIN, &alone, &x[k], 1);
      expect_same_floats("sin", tables.at[i]->name, &y[k], &alone, 1);
    }
  }
}

// ---- Gelu -------------------------------------------------------------------
// The bounds of isa/vecactivation.h.
TEST(gelu_and_its_slope_err_little) {
  const ls_cpu_kernels *best = ls_cpu_kernels_best();
  enum { COUNT = 100000 };
  HEAP(float, x) = floats_allocate(COUNT * sizeof *x);
  HEAP(float, y) = floats_allocate(COUNT * sizeof *y);
  HEAP(float, ones) = floats_allocate(COUNT * sizeof *ones);
  for (size_t i = 0; i < COUNT; ++i) {
    x[i] = floats_random_unit() * 9.9f;
    ones[i] = 1.0f;
  }
  kernel_tables_run(best, LS_OP_GELU, y, x, COUNT);
  for (size_t i = 0; i < COUNT; ++i) {
    const double a = (double)x[i], want = (double)gelu(a);
    const double bound = fabs(want) * 0x1p-22 * (1.0 + a * a);
    if (a >= -1.0 ? ulps(y[i], (long double)want) > 3.1
                  : fabs((double)y[i] - want) > bound)
      fail_msg("gelu(%a) is %a, want %a", a, (double)y[i], want);
  }
  best->gelu_grad(y, ones, x, COUNT);
  for (size_t i = 0; i < COUNT; ++i) {
    const double a = (double)x[i], c = 1.5957691216057308;
    const double s = 1.0 / (1.0 + exp(-c * (a + 0.044715 * a * a * a)));
    const double rest = 1.0 / (1.0 + exp(c * (a + 0.044715 * a * a * a)));
    const double want = s + a * s * rest * c * (1.0 + 0.134145 * a * a);
    if (fabs((double)y[i] - want) > 0x1p-22)
      fail_msg("gelu'(%a) is %a, want %a", a, (double)y[i], want);
  }
}

TEST(gelu_grad_is_the_same_in_every_table_and_tail) {
  const kernel_tables tables = kernel_tables_find();
  for (size_t n = 0; n < 40; ++n) {
    HEAP(float, dy) = floats_create(n);
    HEAP(float, x) = floats_create(n);
    HEAP(float, want) = floats_create(n);
    for (size_t i = 0; i < n; ++i)
      x[i] *= 20.0f;
    tables.at[0]->gelu_grad(want, dy, x, n);
    for (size_t i = 1; i < tables.count; ++i) {
      HEAP(float, in_place) = floats_copy(x, n);
      tables.at[i]->gelu_grad(in_place, dy, in_place, n);
      expect_same_floats("gelu_grad", tables.at[i]->name, in_place, want, n);
    }
  }
}

TEST(gelu_again_is_gelu_and_its_gradient) {
  const ls_cpu_kernels *best = ls_cpu_kernels_best();
  for (size_t n = 0; n < 40; ++n) {
    HEAP(float, dy) = floats_create(n);
    HEAP(float, x) = floats_create(n);
    HEAP(float, y) = floats_create(n);
    HEAP(float, dx) = floats_create(n);
    for (size_t i = 0; i < n; ++i)
      x[i] *= 20.0f;
    kernel_tables_run(best, LS_OP_GELU, y, x, n);
    best->gelu_grad(dx, dy, x, n);
    best->gelu_again(dy, x, dy, x, n);
    expect_same_floats("gelu", "gelu_again", x, y, n);
    expect_same_floats("gelu_grad", "gelu_again", dy, dx, n);
  }
}
