// SPDX-License-Identifier: Apache-2.0
//
// Kernels of mathematical functions against the reference, which has libm's, in
// double.
#include <math.h>
#include <stdlib.h>

#include "engine/cpu/elementary/large_angle.h"
#include "engine/cpu/kernels/loops.h"
#include "support/expect.h"
#include "support/loop_case.h"

static ls_type vector(ls_dtype dtype, int64_t count) {
  return (ls_type){dtype, LS_SHAPE(count)};
}

// ---- One operand -----------------------------------------------------------
typedef struct unary_row {
  uint16_t op;
  double low, high;
  double slack;
} unary_row;

static const unary_row unary_rows[] = {
    {LS_OP_EXPM1, -20, 9, 1},     {LS_OP_EXPM1, -0.01, 0.01, 1},
    {LS_OP_LOG1P, -0.99, 100, 1}, {LS_OP_LOG1P, -0.01, 0.01, 1},
    {LS_OP_CEIL, -100, 100, 0},   {LS_OP_FLOOR, -100, 100, 0},
    {LS_OP_ROUND, -100, 100, 0},  {LS_OP_ROUND_AWAY, -100, 100, 0},
    {LS_OP_SIN, -50, 50, 1},      {LS_OP_COS, -50, 50, 1},
    {LS_OP_TAN, -50, 50, 2},      {LS_OP_CBRT, -1000, 1000, 1},
    {LS_OP_ERFC, -5, 3, 1},       {LS_OP_SOFTPLUS, -20, 20, 1},
    {LS_OP_GELU, -1, 6, 2},       {LS_OP_GELU, -3, 0, 8},
};

static void check_unary(const unary_row *row, ls_dtype dtype, int64_t count,
                        loop_random *random) {
  loop_case c = {.op = row->op, .out = vector(dtype, count)};
  loop_case_add(&c, vector(dtype, count), row->low, row->high, random);
  loop_case_agrees(&c, row->slack);
}

TEST(functions_agree_with_libm_on_all_floats) {
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < LOOP_FLOATS; ++t)
    for (size_t r = 0; r < LS_COUNT_OF(unary_rows); ++r) {
      check_unary(&unary_rows[r], loop_types[t],
                  loop_random_between(&random, 0, 99), &random);
      check_unary(&unary_rows[r], loop_types[t], 17000, &random);
    }
}

// ---- Special values --------------------------------------------------------
typedef struct special_row {
  uint16_t op;
  double x, want;
} special_row;

static const special_row special_rows[] = {
    {LS_OP_ROUND, 0.5, 0},
    {LS_OP_ROUND, 1.5, 2},
    {LS_OP_ROUND, 2.5, 2},
    {LS_OP_ROUND, -0.5, -0.0},
    {LS_OP_ROUND, -2.5, -2},
    {LS_OP_ROUND, -0.0, -0.0},
    {LS_OP_ROUND_AWAY, 0.5, 1},
    {LS_OP_ROUND_AWAY, 2.5, 3},
    {LS_OP_ROUND_AWAY, -0.5, -1},
    {LS_OP_ROUND_AWAY, -2.5, -3},
    {LS_OP_ROUND_AWAY, 0.25, 0},
    {LS_OP_ROUND_AWAY, -0.25, -0.0},
    {LS_OP_FLOOR, -0.0, -0.0},
    {LS_OP_FLOOR, -0.25, -1},
    {LS_OP_FLOOR, 3, 3},
    {LS_OP_CEIL, -0.25, -0.0},
    {LS_OP_CEIL, 0.25, 1},
    {LS_OP_CEIL, -3, -3},
    {LS_OP_EXPM1, -0.0, -0.0},
    {LS_OP_EXPM1, -INFINITY, -1},
    {LS_OP_EXPM1, INFINITY, INFINITY},
    {LS_OP_LOG1P, -0.0, -0.0},
    {LS_OP_LOG1P, -1, -INFINITY},
    {LS_OP_LOG1P, -2, NAN},
    {LS_OP_LOG1P, INFINITY, INFINITY},
    {LS_OP_SIN, -0.0, -0.0},
    {LS_OP_SIN, INFINITY, NAN},
    {LS_OP_COS, -INFINITY, NAN},
    {LS_OP_COS, 0, 1},
    {LS_OP_TAN, -0.0, -0.0},
    {LS_OP_TAN, INFINITY, NAN},
    {LS_OP_CBRT, -0.0, -0.0},
    {LS_OP_CBRT, -8, -2},
    {LS_OP_CBRT, -INFINITY, -INFINITY},
    {LS_OP_ERFC, INFINITY, 0},
    {LS_OP_ERFC, -INFINITY, 2},
    {LS_OP_SOFTPLUS, INFINITY, INFINITY},
    {LS_OP_SOFTPLUS, 1000, 1000},
    {LS_OP_GELU, INFINITY, INFINITY},
    {LS_OP_GELU, 0, 0},
    {LS_OP_GELU, 4096, 4096},
};

static void check_special(uint16_t op, ls_dtype dtype, double x, double want) {
  LS_OWN(loop_case, c) = {.op = op, .out = vector(dtype, 1)};
  loop_write(dtype, loop_case_add_copy(&c, c.out, NULL), 0, x);
  HEAP(void, got) = loop_case_run(&c);
  const double value = loop_read(dtype, got, 0);
  const bool same = (isnan(value) && isnan(want)) ||
                    (value == want && signbit(value) == signbit(want));
  if (!same)
    fail_msg("%s(%g) of %s is %g, wanted %g", ls_op_table[op].name, x,
             ls_dtype_name(dtype), value, want);
}

TEST(special_values_are_those_of_libm) {
  for (size_t t = 0; t < LOOP_FLOATS; ++t) {
    for (size_t r = 0; r < LS_COUNT_OF(special_rows); ++r)
      check_special(special_rows[r].op, loop_types[t], special_rows[r].x,
                    special_rows[r].want);
    for (size_t r = 0; r < LS_COUNT_OF(unary_rows); ++r)
      check_special(unary_rows[r].op, loop_types[t], NAN, NAN);
  }
}

TEST(gelu_of_very_negative_numbers_is_next_to_zero) {
  static const double xs[] = {-10, -50, -1e4, -INFINITY};
  for (size_t t = 0; t < LOOP_FLOATS; ++t) {
    LS_OWN(loop_case, c) = {.op = LS_OP_GELU, .out = vector(loop_types[t], 4)};
    void *x = loop_case_add_copy(&c, c.out, NULL);
    for (int i = 0; i < 4; ++i)
      loop_write(loop_types[t], x, i, xs[i]);
    HEAP(void, got) = loop_case_run(&c);
    for (int i = 0; i < 4; ++i) {
      const double y = loop_read(loop_types[t], got, i);
      assert_true(y <= 0 && y > -1e-30);
    }
  }
}

TEST(functions_of_f32_are_the_same_in_every_table) {
  static const char *const tables[] = {"base", "v3", "v4"};
  enum { COUNT = 1000 };
  for (size_t r = 0; r < LS_COUNT_OF(unary_rows); ++r) {
    loop_random random = {loop_random_seed()};
    HEAP(float, first) = NULL;
    for (size_t t = 0; t < LS_COUNT_OF(tables); ++t) {
      if (ls_cpu_kernels_find(tables[t]) == NULL) continue;
      LS_OWN(loop_case, c) = {.op = unary_rows[r].op,
                              .out = vector(LS_DTYPE_F32, COUNT),
                              .kernels = tables[t]};
      random.state = loop_random_seed();
      loop_case_add(&c, c.out, unary_rows[r].low, unary_rows[r].high, &random);
      float *got = loop_case_run(&c);
      if (first == NULL)
        first = got;
      else
        assert_memory_equal(first, got, COUNT * sizeof(*got));
      if (got != first) free(got);
    }
  }
}

// The reduction alone: that of libm, which is exact to double.
TEST(large_angles_are_reduced_exactly) {
  loop_random random = {loop_random_seed()};
  for (int i = 0; i < 20000; ++i) {
    uint64_t bits = (uint64_t)loop_random_bits(&random) << 32;
    bits = (bits | loop_random_bits(&random)) & UINT64_C(0x800FFFFFFFFFFFFF);
    bits |= (uint64_t)loop_random_between(&random, 1043, 2046) << 52;
    double x, low;
    memcpy(&x, &bits, sizeof(x));
    uint64_t quarter;
    const double r = ls_turn_reduce(x, &low, &quarter);
    assert_true(fabs(r) <= 0.78539820);
    assert_true(fabs(low) <= 0x1p-52 * fabs(r));
    const double s = sin(x), c = cos(x);
    // Turning back by the quarters: the sine and cosine of r itself.
    const int q = (int)(quarter & 3);
    const double sin_r = q == 0 ? s : q == 1 ? -c : q == 2 ? -s : c;
    const double cos_r = q == 0 ? c : q == 1 ? s : q == 2 ? -c : -s;
    assert_true(fabs(sin(r) - sin_r) <= 0x1p-51 * fabs(sin_r));
    assert_true(fabs(cos(r) - cos_r) <= 0x1p-51);
  }
}

TEST(finite_numbers_are_told_from_others) {
  static const double xs[] = {0, -1, 60000, INFINITY, -INFINITY, NAN};
  for (size_t t = 0; t < LOOP_FLOATS; ++t) {
    LS_OWN(loop_case, c) = {.op = LS_OP_IS_FINITE,
                            .out = vector(LS_DTYPE_BOOL, 6)};
    void *x = loop_case_add_copy(&c, vector(loop_types[t], 6), NULL);
    for (int i = 0; i < 6; ++i)
      loop_write(loop_types[t], x, i, xs[i]);
    HEAP(uint8_t, got) = loop_case_run(&c);
    for (int i = 0; i < 6; ++i)
      assert_int_equal(got[i], i < 3);
  }
}

// ---- Two operands ----------------------------------------------------------
// `which` is the operand that is a scalar; 2: none.
static void check_pair(uint16_t op, ls_dtype dtype, int64_t count, int which,
                       double slack, loop_random *random) {
  loop_case c = {.op = op, .out = vector(dtype, count)};
  const ls_type full = vector(dtype, count), one = {dtype, LS_SCALAR};
  const bool gelu_grad = op == LS_OP_GELU_GRAD;
  loop_case_add(&c, which == 0 ? one : full, -90, 90, random);
  loop_case_add(&c, which == 1 ? one : full, gelu_grad ? -6 : 1,
                gelu_grad ? 6 : 9, random);
  loop_case_agrees(&c, slack);
}

TEST(pairs_agree_with_libm_on_all_types) {
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < LOOP_NUMBERS; ++t)
    for (int which = 0; which < 3; ++which) {
      const int64_t count =
          which == 2 ? 33000 : loop_random_between(&random, 0, 1500);
      check_pair(LS_OP_REMAINDER, loop_types[t], count, which, 0, &random);
      if (!ls_dtype_is_float(loop_types[t])) continue;
      check_pair(LS_OP_ATAN2, loop_types[t], count, which, 1, &random);
      check_pair(LS_OP_GELU_GRAD, loop_types[t], count, which, 4, &random);
    }
}

TEST(remainders_have_the_sign_of_the_dividend) {
  static const int32_t x[] = {7, -7, 7, -7, 5, INT32_MIN, INT32_MIN};
  static const int32_t y[] = {3, 3, -3, -3, 0, -1, 7};
  static const int32_t want[] = {1, -1, 1, -1, 5, 0, -2};
  loop_case c = {.op = LS_OP_REMAINDER, .out = vector(LS_DTYPE_I32, 7)};
  loop_case_add_copy(&c, c.out, x);
  loop_case_add_copy(&c, c.out, y);
  int32_t *got = loop_case_run(&c);
  assert_memory_equal(got, want, sizeof(want));
  free(got);
  loop_case_deinit(&c);
  static const float fx[] = {7.5F, -7.5F, 7.5F, -6.0F, 1.0F, INFINITY};
  static const float fy[] = {2.0F, 2.0F, -2.0F, 2.0F, INFINITY, 2.0F};
  static const float fwant[] = {1.5F, -1.5F, 1.5F, -0.0F, 1.0F, NAN};
  LS_OWN(loop_case, f) = {.op = LS_OP_REMAINDER,
                          .out = vector(LS_DTYPE_F32, 6)};
  loop_case_add_copy(&f, f.out, fx);
  loop_case_add_copy(&f, f.out, fy);
  HEAP(float, values) = loop_case_run(&f);
  for (int i = 0; i < 5; ++i)
    assert_true(values[i] == fwant[i] &&
                !signbit(values[i]) == !signbit(fwant[i]));
  assert_true(isnan(values[5]));
}

TEST(angles_know_their_quadrant) {
  static const double y[] = {0, 1, 0, -1, -0.0, 1};
  static const double x[] = {1, 0, -1, 0, -1, -1};
  static const double want[] = {0, 0.5, 1, -0.5, -1, 0.75};  // Times pi.
  for (size_t t = 0; t < LOOP_FLOATS; ++t) {
    LS_OWN(loop_case, c) = {.op = LS_OP_ATAN2, .out = vector(loop_types[t], 6)};
    void *a = loop_case_add_copy(&c, c.out, NULL);
    void *b = loop_case_add_copy(&c, c.out, NULL);
    for (int i = 0; i < 6; ++i) {
      loop_write(loop_types[t], a, i, y[i]);
      loop_write(loop_types[t], b, i, x[i]);
    }
    HEAP(void, got) = loop_case_run(&c);
    for (int i = 0; i < 6; ++i)
      loop_expect(&c, got, i, want[i] * 3.14159265358979323846, 1);
  }
}

TEST(functions_of_integers_are_refused_by_name) {
  LS_OWN(loop_case, c) = {.op = LS_OP_SIN, .out = vector(LS_DTYPE_I32, 2)};
  loop_case_add_copy(&c, c.out, "\0\0\0\1\0\0\0\1");
  expect_status(loop_case_prepare(&c), LS_UNIMPLEMENTED,
                "op 'sin' has no CPU kernel for i32");
}
