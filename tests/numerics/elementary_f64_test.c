// SPDX-License-Identifier: Apache-2.0
//
// How far elementary functions of doubles, and those of floats that compute in
// double, are from the exact value; and that every table gives the same bytes.
//
// The reference is GNU MPFR with 160 bits. Each row draws numbers from its
// ranges. Set LS_TEST_TABLE to print the errors, LS_TEST_NUMBERS to draw more,
// LS_TEST_STRIDE=1 to compare functions of floats with those of doubles for
// every float (half a minute a function).
#include "support/expect.h"

#include <float.h>
#include <math.h>
#include <mpfr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cpu/kernels/loops.h"
#include "support/kernel_tables.h"

typedef int exact_unary(mpfr_t, const mpfr_t, mpfr_rnd_t);
typedef int exact_binary(mpfr_t, const mpfr_t, const mpfr_t, mpfr_rnd_t);
typedef struct range {
  double low, high;
} range;

typedef struct function {
  const char *name;
  uint16_t op;
  ls_dtype dtype;
  double most_ulp;  // As engine/cpu/elementary promises.
  exact_unary *unary;
  double (*libm)(double x);
  exact_binary *binary;
  double (*libm_of_two)(double x, double y);
  range x[5], y[5];
} function;

#define ONE(fn, OP, D, most, ...)                                              \
  {                                                                            \
    .name = #fn, .op = LS_OP_##OP, .dtype = LS_DTYPE_##D, .most_ulp = (most),  \
    .unary = mpfr_##fn, .libm = fn, .x = {                                     \
      __VA_ARGS__                                                              \
    }                                                                          \
  }
#define TWO(fn, OP, D, most, xs, ys)                                           \
  {                                                                            \
    .name = #fn, .op = LS_OP_##OP, .dtype = LS_DTYPE_##D, .most_ulp = (most),  \
    .binary = mpfr_##fn, .libm_of_two = fn, .x = xs, .y = ys                   \
  }
#define LIST(...)                                                              \
  { __VA_ARGS__ }

static const function functions[] = {
    ONE(exp, EXP, F64, 0.85, {-746, 710}, {-1, 1}, {-745.2, -708},
        {-1e-5, 1e-5}),
    ONE(expm1, EXPM1, F64, 0.95, {-40, 710}, {-1, 1}, {-2, 2}, {-1e-5, 1e-5}),
    ONE(tanh, TANH, F64, 0.8, {-20, 20}, {-1, 1}, {-.3, .3}, {-1e-5, 1e-5}),
    ONE(log, LOG, F64, 0.65, {0, 10}, {.6, 1.5}, {.9, 1.1}, {0, 1e300},
        {0, 1e-307}),
    ONE(log1p, LOG1P, F64, 0.65, {-1, 10}, {-.5, 1}, {-.01, .01}, {0, 1e300},
        {-1e-10, 1e-10}),
    ONE(sin, SIN, F64, 0.8, {-10, 10}, {-1, 1}, {-1e6, 1e6}, {-1e-5, 1e-5},
        {-1e300, 1e300}),
    ONE(cos, COS, F64, 0.8, {-10, 10}, {-1, 1}, {-1e6, 1e6}, {-1e9, 1e9},
        {-1e300, 1e300}),
    ONE(tan, TAN, F64, 0.9, {-10, 10}, {-1, 1}, {-1e6, 1e6}, {-1e20, 1e20},
        {-1e300, 1e300}),
    ONE(erf, ERF, F64, 0.95, {-6, 6}, {-.5, .5}, {.5, 1.5}, {-1e-5, 1e-5},
        {-1e-308, 1e-308}),
    ONE(erfc, ERFC, F64, 0.99, {-6, 6}, {-.5, .5}, {.5, 3}, {0, 27.3},
        {26, 27.5}),
    ONE(cbrt, CBRT, F64, 0.55, {-10, 10}, {1, 8}, {0, 1e300}, {0, 1e-310}),
    TWO(pow, POW, F64, 0.9,
        LIST({0, 10}, {.5, 2}, {0, 1e300}, {.999999, 1.000001}, {1e-300, 1}),
        LIST({-100, 100}, {-1000, 1000}, {-1, 1}, {-7e8, 7e8}, {-1, 1.02})),
    TWO(atan2, ATAN2, F64, 0.7,
        LIST({-10, 10}, {-1, 1}, {-1e300, 1e300}, {-1e-300, 1e-300},
             {-1e-6, 1e-6}),
        LIST({-100, 100}, {-1, 1}, {-1e308, 1e308}, {-1e-307, 1e-307},
             {-1, 1})),
    ONE(erfc, ERFC, F32, 0.54, {-4, 4}, {-.5, .5}, {.5, 3}, {0, 10.1}),
    ONE(cbrt, CBRT, F32, 0.51, {-10, 10}, {1, 8}, {0, 1e38}, {0, 1e-39}),
    TWO(pow, POW, F32, 0.54, LIST({0, 10}, {.5, 2}, {0, 1e38}, {.999, 1.001}),
        LIST({-40, 40}, {-120, 120}, {-1, 1}, {-8e4, 8e4})),
    TWO(atan2, ATAN2, F32, 0.54,
        LIST({-10, 10}, {-1, 1}, {-1e38, 1e38}, {-1e-38, 1e-38}),
        LIST({-100, 100}, {-1, 1}, {-1e38, 1e38}, {-1e-37, 1e-37})),
};

// ---- Numbers ---------------------------------------------------------------
static double draw(loop_random *random, range r, ls_dtype dtype) {
  const uint64_t high = loop_random_bits(random);
  const uint64_t low = loop_random_bits(random);
  const uint64_t bits = (high << 32 ^ low) >> 11;
  const double x = r.low + (r.high - r.low) * ((double)bits * 0x1p-53);
  return dtype == LS_DTYPE_F32 ? (double)(float)x : x;
}

static void store(ls_dtype dtype, void *data, size_t i, double x) {
  if (dtype == LS_DTYPE_F32)
    ((float *)data)[i] = (float)x;
  else
    ((double *)data)[i] = x;
}
static double load(ls_dtype dtype, const void *data, size_t i) {
  return dtype == LS_DTYPE_F32 ? (double)((const float *)data)[i]
                               : ((const double *)data)[i];
}

static void run_span(const function *f, const ls_cpu_kernels *table, void *out,
                     const void *x, const void *y, size_t count) {
  const ls_elementwise self = {.num_in = y != NULL ? 2 : 1};
  const ls_span span = ls_span_of(f->op, f->dtype, table);
  assert_non_null(span);
  span(&self, out, (const void *[]){x, y}, (int64_t)count);
}

// ---- Errors ----------------------------------------------------------------
// Returns how many ulp `got` is from the exact value.
static double find_error(ls_dtype dtype, double got, mpfr_t exact) {
  const int digits = dtype == LS_DTYPE_F32 ? 24 : 53;
  const int least = dtype == LS_DTYPE_F32 ? -149 : -1074;
  const double most = dtype == LS_DTYPE_F32 ? 0x1p128 : INFINITY;
  double want = mpfr_get_d(exact, MPFR_RNDN);
  if (fabs(want) >= most) want = copysign((double)INFINITY, want);
  if (isnan(want) || isinf(want) || isnan(got) || isinf(got)) {
    const bool is_same = isnan(want) ? isnan(got) : want == got;
    // Just below the limit both answers are near.
    const double limit = dtype == LS_DTYPE_F32 ? 0x1.fffffep127 : 0x1p1023;
    return is_same || (isinf(got) && fabs(want) >= limit) ? 0 : 1e9;
  }
  int exponent = least;
  if (want != 0) (void)frexp(want, &exponent);
  const int unit = exponent - digits > least ? exponent - digits : least;
  mpfr_t difference;
  mpfr_init2(difference, 200);
  mpfr_sub_d(difference, exact, got, MPFR_RNDN);
  mpfr_mul_2si(difference, difference, -unit, MPFR_RNDN);
  const double error = fabs(mpfr_get_d(difference, MPFR_RNDN));
  mpfr_clear(difference);
  return error;
}

enum { MOST_NUMBERS = 1 << 20 };
static size_t num_drawn(void) {
  const char *text = getenv("LS_TEST_NUMBERS");
  const long given = text != NULL ? strtol(text, NULL, 10) : 0;
  return given <= 0             ? 1003
         : given < MOST_NUMBERS ? (size_t)given
                                : MOST_NUMBERS;
}

typedef struct sample {
  size_t count;
  void *x, *y, *out, *other;
} sample;

static void compare_tables(const function *f, const sample *s) {
  const void *y = f->binary != NULL ? s->y : NULL;
  const kernel_tables *tables = &kernel_tables_here;
  run_span(f, tables->at[0], s->out, s->x, y, s->count);
  for (size_t t = 1; t < tables->count; ++t) {
    run_span(f, tables->at[t], s->other, s->x, y, s->count);
    expect_same_numbers(f->name, tables->at[t]->name, f->dtype, s->out,
                        s->other, s->count);
  }
}

// Returns the largest error of the numbers in one range.
static double check_range(const function *f, const sample *s) {
  double worst = 0;
  mpfr_t x, y, exact;
  mpfr_init2(x, 53);
  mpfr_init2(y, 53);
  mpfr_init2(exact, 160);
  for (size_t i = 0; i < s->count; ++i) {
    mpfr_set_d(x, load(f->dtype, s->x, i), MPFR_RNDN);
    mpfr_set_d(y, load(f->dtype, s->y, i), MPFR_RNDN);
    if (f->binary != NULL)
      f->binary(exact, x, y, MPFR_RNDN);
    else
      f->unary(exact, x, MPFR_RNDN);
    const double got = load(f->dtype, s->out, i);
    const double error = find_error(f->dtype, got, exact);
    if (error > worst) worst = error;
    if (error > f->most_ulp)
      fail_msg("%s of %s: (%a, %a) gives %a, %g ulp from the exact value",
               f->name, ls_dtype_name(f->dtype), load(f->dtype, s->x, i),
               load(f->dtype, s->y, i), got, error);
  }
  mpfr_clears(x, y, exact, (mpfr_ptr)NULL);
  return worst;
}

static double check_function(const function *f, const sample *s,
                             loop_random *random) {
  double worst = 0;
  for (size_t r = 0; r < LS_COUNT_OF(f->x); ++r) {
    if (f->x[r].low == f->x[r].high) continue;
    for (size_t i = 0; i < s->count; ++i) {
      store(f->dtype, s->x, i, draw(random, f->x[r], f->dtype));
      store(f->dtype, s->y, i, draw(random, f->y[r], f->dtype));
    }
    compare_tables(f, s);
    worst = fmax(worst, check_range(f, s));
  }
  return worst;
}

static sample sample_create(size_t count) {
  return (sample){.count = count,
                  .x = calloc(count, sizeof(double)),
                  .y = calloc(count, sizeof(double)),
                  .out = calloc(count, sizeof(double)),
                  .other = calloc(count, sizeof(double))};
}
static void sample_free(sample s) {
  free(s.x);
  free(s.y);
  free(s.out);
  free(s.other);
}

TEST(elementary_functions_of_doubles_err_by_less_than_an_ulp) {
  sample s = sample_create(num_drawn());
  loop_random random = {64};
  for (size_t k = 0; k < LS_COUNT_OF(functions); ++k) {
    const double worst = check_function(&functions[k], &s, &random);
    if (getenv("LS_TEST_TABLE") != NULL)
      printf("%-6s %s %.3f ulp\n", functions[k].name,
             ls_dtype_name(functions[k].dtype), worst);
  }
  sample_free(s);
}

// ---- Special values --------------------------------------------------------
static const double specials[] = {
    0.0,       -0.0,      1,      -1,       2,       -2,
    3,         -3,        .5,     -.5,      -1.5,    INFINITY,
    -INFINITY, NAN,       5e-324, -5e-324,  1e308,   -1e308,
    1e-310,    0x1p-1022, 0x1p52, 0x1.0p53, -0x1p60, 0x1.00000001p52,
    1 + 1e-16, 1e22,      -1e300, 0x1p-149, 0x1p127, -0x1p-126,
};

// Holds a result against the C library's, which is exact for special values
// and near for others.
static void expect_near(const function *f, double x, double y, double got,
                        double want) {
  const bool is_float = f->dtype == LS_DTYPE_F32;
  if (is_float) want = (double)(float)want;
  const double far = fabs(want) * (is_float ? 0x1p-22 : 0x1p-50);
  const double least = is_float ? 0x1p-149 : 0x1p-1074;
  const bool is_same = isnan(want) ? isnan(got)
                       : want == 0 || isinf(want)
                           ? got == want && signbit(got) == signbit(want)
                           : fabs(got - want) <= far + least;
  if (!is_same)
    fail_msg("%s of %s: (%a, %a) is %a, wanted %a", f->name,
             ls_dtype_name(f->dtype), x, y, got, want);
}

TEST(elementary_functions_of_doubles_have_the_special_values_of_libm) {
  enum { COUNT = LS_COUNT_OF(specials) };
  sample s = sample_create(COUNT);
  for (size_t k = 0; k < LS_COUNT_OF(functions); ++k) {
    const function *f = &functions[k];
    for (size_t j = 0; j < (f->binary != NULL ? COUNT : 1); ++j) {
      for (size_t i = 0; i < COUNT; ++i) {
        store(f->dtype, s.x, i, specials[i]);
        store(f->dtype, s.y, i, specials[j]);
      }
      compare_tables(f, &s);
      for (size_t i = 0; i < COUNT; ++i) {
        const double x = load(f->dtype, s.x, i), y = load(f->dtype, s.y, i);
        expect_near(f, x, y, load(f->dtype, s.out, i),
                    f->binary != NULL ? f->libm_of_two(x, y) : f->libm(x));
      }
    }
  }
  sample_free(s);
}

// ---- Every float ------------------------------------------------------------
enum { BLOCK = 4096 };
typedef struct float_bound {
  uint16_t op;
  double most_ulp;
} float_bound;

// Returns how many ulp of a float `got` is from `want`, a function's value for
// doubles, whose own error is below 2^-28 of that.
static double float_error(float got, double want) {
  const float rounded = (float)want;
  if (isnan(rounded)) return isnan(got) ? 0 : 1e9;
  if (isinf(rounded))
    return got == rounded || got == copysignf(FLT_MAX, rounded) ? 0 : 1e9;
  if (isinf(got)) return fabs(want) >= (double)FLT_MAX ? 0 : 1e9;
  uint64_t bits = 0;
  memcpy(&bits, &want, sizeof(bits));
  const int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
  const int unit = exponent < -126 ? -149 : exponent - 23;
  return fabs((double)got - want) * ldexp(1, -unit);
}

// Checks a block of floats; returns the largest error.
static double check_floats(const function *f, double most_ulp, const float *x) {
  static float got[BLOCK];
  static double wide[BLOCK], want[BLOCK];
  const ls_cpu_kernels *table =
      kernel_tables_here.at[kernel_tables_here.count - 1];
  for (int i = 0; i < BLOCK; ++i)
    wide[i] = (double)x[i];
  const function of_floats = {.op = f->op, .dtype = LS_DTYPE_F32};
  run_span(&of_floats, table, got, x, NULL, BLOCK);
  run_span(f, table, want, wide, NULL, BLOCK);
  double worst = 0;
  for (int i = 0; i < BLOCK; ++i) {
    const double error = float_error(got[i], want[i]);
    if (error > worst) worst = error;
    if (error > most_ulp)
      fail_msg("%s of the float %a is %a, %g ulp from %a", f->name,
               (double)x[i], (double)got[i], error, want[i]);
  }
  return worst;
}

static double check_all_floats(const function *f, double most_ulp,
                               uint64_t stride) {
  static float x[BLOCK];
  double worst = 0;
  uint64_t bits = 0;
  while (bits <= UINT32_MAX) {
    for (int i = 0; i < BLOCK; ++i, bits += stride) {
      const uint32_t pattern = (uint32_t)bits;
      memcpy(&x[i], &pattern, sizeof(pattern));
    }
    worst = fmax(worst, check_floats(f, most_ulp, x));
  }
  return worst;
}

TEST(functions_of_floats_agree_with_those_of_doubles) {
  static const float_bound bounds[] = {
      {LS_OP_EXP, 1},     {LS_OP_EXPM1, 0.56}, {LS_OP_TANH, 0.56},
      {LS_OP_LOG, 1},     {LS_OP_LOG1P, 0.56}, {LS_OP_SIN, 0.56},
      {LS_OP_COS, 0.56},  {LS_OP_TAN, 0.56},   {LS_OP_ERF, 1},
      {LS_OP_ERFC, 0.56}, {LS_OP_CBRT, 0.56}};
  const char *text = getenv("LS_TEST_STRIDE");
  const long given = text != NULL ? strtol(text, NULL, 10) : 0;
  const uint64_t stride = given > 0 ? (uint64_t)given : 16381;
  for (size_t k = 0; k < LS_COUNT_OF(functions); ++k) {
    const function *f = &functions[k];
    if (f->dtype != LS_DTYPE_F64 || f->binary != NULL) continue;
    double most_ulp = 0;
    for (size_t b = 0; b < LS_COUNT_OF(bounds); ++b)
      if (bounds[b].op == f->op) most_ulp = bounds[b].most_ulp;
    const double worst = check_all_floats(f, most_ulp, stride);
    if (getenv("LS_TEST_TABLE") != NULL)
      printf("%-6s f32 %.3f ulp, every %llu floats\n", f->name, worst,
             (unsigned long long)stride);
  }
}

// ---- Neighbours -------------------------------------------------------------
// Checks that results are those of numbers computed alone, whatever stands in
// the same group.
static void check_neighbours(const function *f, const sample *s,
                             double outlier) {
  const size_t size = f->dtype == LS_DTYPE_F32 ? sizeof(float) : sizeof(double);
  const kernel_tables *tables = &kernel_tables_here;
  const size_t at = s->count / 3;
  const double kept = load(f->dtype, s->x, at);
  store(f->dtype, s->x, at, outlier);
  for (size_t t = 0; t < tables->count; ++t) {
    const void *y = f->binary != NULL ? s->y : NULL;
    run_span(f, tables->at[t], s->out, s->x, y, s->count);
    for (size_t i = 0; i < s->count; ++i)
      run_span(f, tables->at[t], (char *)s->other + i * size,
               (char *)s->x + i * size, y != NULL ? (char *)s->y + i * size : y,
               1);
    expect_same_numbers(f->name, tables->at[t]->name, f->dtype, s->out,
                        s->other, s->count);
  }
  store(f->dtype, s->x, at, kept);
}

TEST(a_number_does_not_depend_on_its_neighbours) {
  static const double outliers[] = {0.5,  NAN, INFINITY, -INFINITY, -0.0,
                                    -7.5, 0,   1e30,     5e-324,    -709};
  sample s = sample_create(300);
  loop_random random = {66};
  for (size_t k = 0; k < 2 * LS_COUNT_OF(functions); ++k) {
    function f = functions[k / 2];
    f.dtype = k % 2 == 0 ? LS_DTYPE_F64 : LS_DTYPE_F32;
    for (size_t i = 0; i < s.count; ++i) {
      const double x = draw(&random, f.x[1], f.dtype);
      store(f.dtype, s.x, i, f.binary != NULL ? fabs(x) : x);
      store(f.dtype, s.y, i, draw(&random, (range){-9, 9}, f.dtype));
    }
    for (size_t o = 0; o < LS_COUNT_OF(outliers); ++o)
      check_neighbours(&f, &s, outliers[o]);
  }
  sample_free(s);
}

// ---- Remainders ------------------------------------------------------------
static void expect_remainders(const function *f, const sample *s) {
  compare_tables(f, s);
  for (size_t i = 0; i < s->count; ++i) {
    const double x = load(f->dtype, s->x, i), y = load(f->dtype, s->y, i);
    const double got = load(f->dtype, s->out, i), want = fmod(x, y);
    if (isnan(want) ? isnan(got) : got == want && signbit(got) == signbit(want))
      continue;
    fail_msg("the remainder of %a by %a as %s is %a, wanted %a", x, y,
             ls_dtype_name(f->dtype), got, want);
  }
}

TEST(remainders_are_exact_for_quotients_of_any_size) {
  static const function of_type[] = {
      {"remainder", LS_OP_REMAINDER, LS_DTYPE_F64, .binary = mpfr_fmod},
      {"remainder", LS_OP_REMAINDER, LS_DTYPE_F32, .binary = mpfr_fmod}};
  sample s = sample_create(3001);
  loop_random random = {65};
  for (size_t k = 0; k < 2; ++k) {
    const ls_dtype dtype = of_type[k].dtype;
    // Large quotients come one by one, so that most groups have none.
    for (size_t i = 0; i < s.count; ++i) {
      const double size = draw(&random, (range){-9, 9}, LS_DTYPE_F64);
      const double x = draw(&random, (range){-1000, 1000}, dtype) * exp(size);
      const double y = draw(&random, (range){-10, 10}, dtype);
      store(dtype, s.x, i, i % 3 == 0 ? rint(x) : x);
      store(dtype, s.y, i, i % 3 == 0 ? rint(y) : i % 977 == 5 ? y * 1e-30 : y);
    }
    expect_remainders(&of_type[k], &s);
    for (size_t i = 0; i < s.count; ++i) {
      store(dtype, s.x, i, specials[i % LS_COUNT_OF(specials)]);
      store(dtype, s.y, i, specials[i / 7 % LS_COUNT_OF(specials)]);
    }
    expect_remainders(&of_type[k], &s);
  }
  sample_free(s);
}

TEST_FILE(.set_up = kernel_tables_set_up)
