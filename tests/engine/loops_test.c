// SPDX-License-Identifier: Apache-2.0
//
// Elementwise kernels against the reference.
#include <math.h>
#include <stdlib.h>

#include "base/memory/own.h"
#include "engine/cpu/kernels/loops.h"
#include "lockstep/half.h"
#include "lockstep/shape_rules.h"
#include "support/attrs.h"
#include "support/expect.h"
#include "support/loop_case.h"
#include "support/sanitizer.h"

static ls_type scalar(ls_dtype dtype) { return (ls_type){dtype, LS_SCALAR}; }

// ---- The table -------------------------------------------------------------
TEST(ops_of_the_compiler_have_no_prepare_function) {
  assert_null(ls_kernel_prepare_of(LS_OP_CONSTANT));
  assert_null(ls_kernel_prepare_of(LS_OP_WHILE));
  assert_null(ls_kernel_prepare_of(LS_OP_IDENTITY));
  assert_null(ls_kernel_prepare_of(LS_OP_TABLE_COUNT));
  assert_non_null(ls_kernel_prepare_of(LS_OP_IOTA));
  assert_ptr_equal(ls_kernel_prepare_of(LS_OP_MATMUL),
                   ls_kernel_prepare_of(LS_OP_DENSE));
}

// ---- Unary -----------------------------------------------------------------
static void check_unary(uint16_t op, ls_dtype dtype, int64_t count,
                        loop_random *random) {
  loop_case c = {.op = op, .out = vector_type(dtype, count)};
  const bool positive =
      op == LS_OP_LOG || op == LS_OP_SQRT || op == LS_OP_RSQRT;
  loop_case_add(&c, vector_type(dtype, count), positive ? 0.125 : -10, 10,
                random);
  loop_case_agrees(&c, 1);
}

TEST(unary_ops_agree_with_the_reference_on_all_types) {
  static const uint16_t any[] = {LS_OP_NEG, LS_OP_ABS, LS_OP_SIGN, LS_OP_RELU};
  static const uint16_t of_floats[] = {LS_OP_EXP,    LS_OP_LOG,  LS_OP_SQRT,
                                       LS_OP_RSQRT,  LS_OP_TANH, LS_OP_ERF,
                                       LS_OP_SIGMOID};
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < LOOP_NUMBERS; ++t) {
    for (size_t o = 0; o < LS_COUNT_OF(any); ++o) {
      check_unary(any[o], loop_types[t], loop_random_between(&random, 0, 99),
                  &random);
      check_unary(any[o], loop_types[t], 40000, &random);
    }
  }
  for (size_t t = 0; t < LOOP_FLOATS; ++t)
    for (size_t o = 0; o < LS_COUNT_OF(of_floats); ++o)
      check_unary(of_floats[o], loop_types[t], 17000, &random);
}

TEST(unary_ops_keep_nan_and_the_sign_of_zero) {
  static const float x[] = {-0.0F, NAN};
  static const uint16_t ops[] = {LS_OP_SIGN, LS_OP_RELU};
  for (size_t o = 0; o < LS_COUNT_OF(ops); ++o) {
    LS_OWN(loop_case, c) = {.op = ops[o], .out = vector_type(LS_DTYPE_F32, 2)};
    loop_case_add_copy(&c, vector_type(LS_DTYPE_F32, 2), x);
    HEAP(float, got) = loop_case_run(&c);
    assert_true(got[0] == 0 && signbit(got[0]) && isnan(got[1]));
  }
}

TEST(not_turns_every_bool) {
  loop_random random = {loop_random_seed()};
  loop_case c = {.op = LS_OP_NOT, .out = vector_type(LS_DTYPE_BOOL, 100)};
  loop_case_add(&c, vector_type(LS_DTYPE_BOOL, 100), 0, 1, &random);
  loop_case_agrees(&c, 0);
}

TEST(what_makes_no_sense_is_refused_by_name) {
  LS_OWN(loop_case, c) = {.op = LS_OP_POW,
                          .out = vector_type(LS_DTYPE_BOOL, 2)};
  loop_case_add_copy(&c, vector_type(LS_DTYPE_BOOL, 2), "\0\1");
  loop_case_add_copy(&c, vector_type(LS_DTYPE_BOOL, 2), "\0\1");
  LS_OWN(ls_status, status) = loop_case_prepare(&c);
  assert_int_equal(ls_status_code(status), LS_UNIMPLEMENTED);
  assert_string_equal(ls_status_message(status),
                      "op 'pow' has no CPU kernel for bool");
}

// ---- Binary ----------------------------------------------------------------
// `which` is the operand that is a scalar; 2: none.
static void check_binary(uint16_t op, ls_dtype dtype, ls_dtype result,
                         int64_t count, int which, loop_random *random) {
  loop_case c = {.op = op, .out = vector_type(result, count)};
  const bool is_pow = op == LS_OP_POW, is_div = op == LS_OP_DIV;
  const ls_type full = vector_type(dtype, count), one = scalar(dtype);
  loop_case_add(&c, which == 0 ? one : full, is_pow ? 1 : -6, is_pow ? 4 : 11,
                random);
  loop_case_add(&c, which == 1 ? one : full, is_div || is_pow ? 1 : -5,
                is_pow ? 3 : 6, random);
  loop_case_agrees(&c, 1);
}

TEST(binary_ops_agree_with_the_reference_on_all_types) {
  static const uint16_t ops[] = {LS_OP_ADD, LS_OP_SUB,      LS_OP_MUL,
                                 LS_OP_DIV, LS_OP_MAXIMUM,  LS_OP_MINIMUM,
                                 LS_OP_POW, LS_OP_RELU_GRAD};
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < LOOP_NUMBERS; ++t)
    for (size_t o = 0; o < LS_COUNT_OF(ops); ++o)
      for (int which = 0; which < 3; ++which)
        check_binary(ops[o], loop_types[t], loop_types[t],
                     which == 2 ? 33000 : loop_random_between(&random, 0, 700),
                     which, &random);
}

TEST(comparisons_agree_with_the_reference_on_all_types) {
  static const uint16_t ops[] = {LS_OP_EQUAL,   LS_OP_NOT_EQUAL,
                                 LS_OP_LESS,    LS_OP_LESS_EQUAL,
                                 LS_OP_GREATER, LS_OP_GREATER_EQUAL};
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < LOOP_TYPES; ++t)
    for (size_t o = 0; o < LS_COUNT_OF(ops); ++o)
      for (int which = 0; which < 3; ++which)
        check_binary(ops[o], loop_types[t], LS_DTYPE_BOOL,
                     which == 2 ? 20000 : 300, which, &random);
  check_binary(LS_OP_AND, LS_DTYPE_BOOL, LS_DTYPE_BOOL, 99, 2, &random);
  check_binary(LS_OP_OR, LS_DTYPE_BOOL, LS_DTYPE_BOOL, 99, 2, &random);
}

// The number that a 16-bit float counts as: those below f32's normal numbers
// count as 0.
static double counted(ls_dtype dtype, uint16_t bits) {
  const double value = loop_read(dtype, &bits, 0);
  return fabs(value) < 0x1p-126 ? 0 : value;
}

static bool compared(uint16_t op, double x, double y) {
  switch (op) {
  case LS_OP_EQUAL:
    return x == y;
  case LS_OP_NOT_EQUAL:
    return x != y;
  case LS_OP_LESS:
    return x < y;
  case LS_OP_LESS_EQUAL:
    return x <= y;
  case LS_OP_GREATER:
    return x > y;
  default:
    return x >= y;
  }
}

static void check_halves(const char *kernels, uint16_t op, ls_dtype dtype,
                         loop_random *random) {
  static const uint16_t special[] = {0,      1,      0x7F,   0x80,
                                     0x3C00, 0x7C00, 0x7C01, 0x7E00,
                                     0x7F7F, 0x7F80, 0x7F81, 0x7FFF};
  enum { SPECIAL = LS_COUNT_OF(special), PAIRS = 4 * SPECIAL * SPECIAL };
  LS_OWN(loop_case, c) = {.op = op,
                          .out = vector_type(LS_DTYPE_BOOL, 2 * PAIRS),
                          .kernels = kernels};
  uint16_t *x = loop_case_add_copy(&c, vector_type(dtype, 2 * PAIRS), NULL);
  uint16_t *y = loop_case_add_copy(&c, vector_type(dtype, 2 * PAIRS), NULL);
  for (int i = 0; i < PAIRS; ++i) {  // Each pair of each sign, and any.
    x[i] = (uint16_t)(special[i / 4 % SPECIAL] | (i & 1 ? 0x8000U : 0));
    y[i] = (uint16_t)(special[i / 4 / SPECIAL] | (i & 2 ? 0x8000U : 0));
    x[PAIRS + i] = (uint16_t)loop_random_bits(random);
    y[PAIRS + i] = (uint16_t)loop_random_bits(random);
  }
  HEAP(uint8_t, got) = loop_case_run(&c);
  for (int i = 0; i < 2 * PAIRS; ++i)
    if (got[i] != compared(op, counted(dtype, x[i]), counted(dtype, y[i])))
      fail_msg("%s %s of %s 0x%04x 0x%04x: %d",
               kernels == NULL ? "best" : kernels, ls_op_table[op].name,
               ls_dtype_name(dtype), x[i], y[i], got[i]);
}

TEST(comparisons_of_16_bit_floats_are_those_of_numbers) {
  static const char *const names[] = {"base", "v3", "v4"};
  static const uint16_t ops[] = {LS_OP_EQUAL,   LS_OP_NOT_EQUAL,
                                 LS_OP_LESS,    LS_OP_LESS_EQUAL,
                                 LS_OP_GREATER, LS_OP_GREATER_EQUAL};
  loop_random random = {loop_random_seed()};
  for (size_t n = 0; n < LS_COUNT_OF(names); ++n)
    for (size_t o = 0; o < LS_COUNT_OF(ops); ++o) {
      if (ls_cpu_kernels_find(names[n]) == NULL) continue;
      check_halves(names[n], ops[o], LS_DTYPE_F16, &random);
      check_halves(names[n], ops[o], LS_DTYPE_BF16, &random);
    }
}

TEST(integers_wrap_around_and_divide_as_stated) {
  static const int32_t x[] = {INT32_MAX, INT32_MIN, INT32_MIN, 7, -7, 65537};
  static const int32_t y[] = {1, 1, -1, 0, 2, 65537};
  static const struct {
    uint16_t op;
    int32_t want[6];
  } rows[] = {
      {LS_OP_ADD, {INT32_MIN, INT32_MIN + 1, INT32_MAX, 7, -5, 131074}},
      {LS_OP_SUB, {INT32_MAX - 1, INT32_MAX, INT32_MIN + 1, 7, -9, 0}},
      {LS_OP_MUL, {INT32_MAX, INT32_MIN, INT32_MIN, 0, -14, 131073}},
      {LS_OP_DIV, {INT32_MAX, INT32_MIN, INT32_MIN, -1, -3, 1}},
      {LS_OP_POW, {INT32_MAX, INT32_MIN, 0, 1, 49, 65537}},
  };
  for (size_t r = 0; r < LS_COUNT_OF(rows); ++r) {
    LS_OWN(loop_case, c) = {.op = rows[r].op,
                            .out = vector_type(LS_DTYPE_I32, 6)};
    loop_case_add_copy(&c, c.out, x);
    loop_case_add_copy(&c, c.out, y);
    HEAP(int32_t, got) = loop_case_run(&c);
    for (int i = 0; i < 6; ++i)
      assert_int_equal(got[i], rows[r].want[i]);
  }
}

TEST(narrow_integers_wrap_around) {
  static const int8_t x[] = {-128, 127, -128, 5};
  static const int8_t y[] = {-1, 127, 0, -2};
  static const int8_t quotient[] = {-128, 1, -1, -2};
  static const int8_t product[] = {-128, 1, 0, -10};
  static const uint16_t ops[] = {LS_OP_DIV, LS_OP_MUL};
  for (size_t o = 0; o < 2; ++o) {
    LS_OWN(loop_case, c) = {.op = ops[o], .out = vector_type(LS_DTYPE_I8, 4)};
    loop_case_add_copy(&c, c.out, x);
    loop_case_add_copy(&c, c.out, y);
    HEAP(int8_t, got) = loop_case_run(&c);
    assert_memory_equal(got, o == 0 ? quotient : product, 4);
  }
  static const uint16_t large[] = {65535, 65535, 9};
  static const uint16_t small[] = {65535, 0, 10};
  static const uint16_t wants[2][3] = {{1, 65535, 0}, {1, 0, 90}};
  for (size_t o = 0; o < 2; ++o) {
    LS_OWN(loop_case, c) = {.op = ops[o], .out = vector_type(LS_DTYPE_U16, 3)};
    loop_case_add_copy(&c, c.out, large);
    loop_case_add_copy(&c, c.out, small);
    HEAP(uint16_t, got) = loop_case_run(&c);
    assert_memory_equal(got, wants[o], 6);
  }
}

TEST(powers_and_shifts_by_any_amount_agree_with_the_reference) {
  static const uint16_t ops[] = {LS_OP_POW, LS_OP_SHIFT_LEFT,
                                 LS_OP_SHIFT_RIGHT_LOGICAL,
                                 LS_OP_SHIFT_RIGHT_ARITHMETIC};
  enum { COUNT = 5001 };
  loop_random random = {loop_random_seed()};
  for (size_t t = LOOP_FLOATS; t < LOOP_NUMBERS; ++t)
    for (size_t o = 0; o < LS_COUNT_OF(ops); ++o) {
      const ls_type type = vector_type(loop_types[t], COUNT);
      LS_OWN(loop_case, c) = {.op = ops[o], .out = type};
      uint8_t *x = loop_case_add_copy(&c, type, NULL);
      uint8_t *y = loop_case_add_copy(&c, type, NULL);
      for (size_t i = 0; i < COUNT * ls_dtype_size(type.dtype); ++i) {
        x[i] = (uint8_t)loop_random_between(&random, 0, 256);
        y[i] = (uint8_t)loop_random_between(&random, 0, 256);
      }
      for (int i = 0; i < COUNT; i += 2)
        loop_write(type.dtype, y, i,
                   (double)loop_random_between(&random, 0, 70));
      for (int i = 0; i < COUNT; i += 3)
        loop_write(type.dtype, x, i,
                   (double)loop_random_between(&random, 0, 3));
      loop_case_agrees(&c, 1);
    }
}

TEST(neg_and_abs_of_the_least_number_are_itself) {
  static const int64_t least[] = {INT64_MIN};
  static const uint16_t ops[] = {LS_OP_NEG, LS_OP_ABS};
  for (size_t o = 0; o < 2; ++o) {
    LS_OWN(loop_case, c) = {.op = ops[o], .out = vector_type(LS_DTYPE_I64, 1)};
    loop_case_add_copy(&c, c.out, least);
    HEAP(int64_t, got) = loop_case_run(&c);
    assert_true(got[0] == INT64_MIN);
  }
}

TEST(maximum_and_minimum_pass_nan_on) {
  static const double x[] = {NAN, 1, NAN}, y[] = {1, NAN, NAN};
  static const uint16_t ops[] = {LS_OP_MAXIMUM, LS_OP_MINIMUM};
  for (size_t t = 0; t < LOOP_FLOATS; ++t) {
    for (size_t o = 0; o < 2; ++o) {
      LS_OWN(loop_case, c) = {.op = ops[o],
                              .out = vector_type(loop_types[t], 3)};
      void *a = loop_case_add_copy(&c, c.out, NULL);
      void *b = loop_case_add_copy(&c, c.out, NULL);
      for (int i = 0; i < 3; ++i) {
        loop_write(loop_types[t], a, i, x[i]);
        loop_write(loop_types[t], b, i, y[i]);
      }
      HEAP(void, got) = loop_case_run(&c);
      for (int i = 0; i < 3; ++i)
        assert_true(isnan(loop_read(loop_types[t], got, i)));
    }
  }
}

// ---- Select ----------------------------------------------------------------
TEST(select_takes_scalars_in_every_place) {
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < LOOP_TYPES; ++t) {
    const ls_dtype dtype = loop_types[t];
    for (unsigned scalars = 0; scalars < 7; ++scalars) {
      const int64_t n = loop_random_between(&random, 1, 20000);
      loop_case c = {.op = LS_OP_SELECT, .out = vector_type(dtype, n)};
      for (unsigned i = 0; i < 3; ++i) {
        const ls_dtype type = i == 0 ? LS_DTYPE_BOOL : dtype;
        loop_case_add(&c,
                      (scalars >> i & 1) ? scalar(type) : vector_type(type, n),
                      -9, 9, &random);
      }
      loop_case_agrees(&c, 0);
    }
  }
}

// ---- 16-bit floats ---------------------------------------------------------
TEST(widening_and_narrowing_are_those_of_the_base) {
  loop_random random = {loop_random_seed()};
  for (uint32_t i = 0; i < 65536; ++i) {
    const uint16_t half = (uint16_t)i;
    float wide[2];
    ls_widen(LS_DTYPE_F16, &wide[0], &half, 1);
    ls_widen(LS_DTYPE_BF16, &wide[1], &half, 1);
    const float want[2] = {ls_f16_to_f32(half), ls_bf16_to_f32(half)};
    assert_true(wide[0] == want[0] || (isnan(wide[0]) && isnan(want[0])));
    assert_true(wide[1] == want[1] || (isnan(wide[1]) && isnan(want[1])));
  }
  for (int i = 0; i < (LS_SANITIZED ? 40000 : 400000); ++i) {
    // All bit patterns, and often those near the range of f16.
    uint32_t bits = loop_random_bits(&random);
    if (i % 2 != 0) bits = (bits & 0x80FFFFFFU) | (0x32U + bits % 23) << 24;
    if (i % 3 == 0) bits &= 0xFFFFF000U;  // Ties.
    float x;
    memcpy(&x, &bits, sizeof(x));
    uint16_t half[2];
    ls_narrow(LS_DTYPE_F16, &half[0], &x, 1);
    ls_narrow(LS_DTYPE_BF16, &half[1], &x, 1);
    if (isnan(x)) {
      assert_true(isnan(ls_f16_to_f32(half[0])));
      assert_true(isnan(ls_bf16_to_f32(half[1])));
    } else {
      assert_int_equal(half[0], ls_f16_from_f32(x));
      assert_int_equal(half[1], ls_bf16_from_f32(x));
    }
  }
}

// ---- Convert ---------------------------------------------------------------
static loop_case convert_case(ls_dtype from, ls_dtype to, int64_t count) {
  (void)from;
  loop_case c = {.op = LS_OP_CONVERT, .out = vector_type(to, count)};
  loop_case_attr(&c, LS_ATTR_T("dtype", to));
  return c;
}

TEST(convert_agrees_with_the_reference_between_all_types) {
  loop_random random = {loop_random_seed()};
  for (size_t f = 0; f < LOOP_TYPES; ++f) {
    for (size_t t = 0; t < LOOP_TYPES; ++t) {
      const ls_dtype from = loop_types[f], to = loop_types[t];
      const int64_t n = (f + t) % 3 == 0 ? 17000 : 700;
      loop_case c = convert_case(from, to, n);
      loop_case_add(&c, vector_type(from, n), -100, 100, &random);
      loop_case_agrees(&c, 1);
    }
  }
}

TEST(floats_saturate_at_integers) {
  static const double x[] = {1e30, -1e30, INFINITY, -INFINITY,
                             NAN,  -0.75, 127.9,    -128.9};
  static const int least_bits[] = {7, 15, 31, 63, 0, 0, 0, 0};
  static const ls_dtype from[] = {LS_DTYPE_F64, LS_DTYPE_F32};
  for (size_t f = 0; f < 2; ++f) {
    for (size_t t = 0; t < LOOP_NUMBERS - LOOP_FLOATS; ++t) {
      const ls_dtype to = loop_types[LOOP_FLOATS + t];
      LS_OWN(loop_case, c) = convert_case(from[f], to, 8);
      void *data = loop_case_add_copy(&c, vector_type(from[f], 8), NULL);
      for (int i = 0; i < 8; ++i)
        loop_write(from[f], data, i, x[i]);
      HEAP(void, got) = loop_case_run(&c);
      const bool is_unsigned = ls_dtype_is_unsigned(to);
      const int bits = 8 * (int)ls_dtype_size(to);
      const double greatest = ldexp(1, is_unsigned ? bits : bits - 1);
      const double least = is_unsigned ? 0 : -ldexp(1, least_bits[t]);
      // Read as double, the greatest i64 and u64 round up.
      const double top = bits == 64 ? greatest : greatest - 1;
      const double want[] = {top, least, top, least,
                             0,   0,     127, least > -128 ? 0 : -128};
      for (int i = 0; i < 8; ++i)
        loop_expect(&c, got, i, want[i], 0);
    }
  }
}

// The 16-bit float nearest to `x`, of a tie the even one.
static uint16_t nearest(ls_dtype dtype, double x) {
  uint16_t best = 0;
  loop_write(dtype, &best, 0, x);
  const uint16_t first = best;
  for (int d = -1; d <= 1; d += 2) {
    const uint16_t other = (uint16_t)(first + d);
    const double now = fabs(loop_read(dtype, &best, 0) - x);
    const double then = fabs(loop_read(dtype, &other, 0) - x);
    if (then < now || (then == now && other % 2 == 0)) best = other;
  }
  return best;
}

TEST(wide_numbers_become_16_bit_floats_in_one_rounding) {
  loop_random random = {loop_random_seed()};
  static const ls_dtype to[] = {LS_DTYPE_F16, LS_DTYPE_BF16};
  for (size_t t = 0; t < 2; ++t) {
    LS_OWN(loop_case, c) = convert_case(LS_DTYPE_F64, to[t], 20000);
    double *x = loop_case_add_copy(&c, vector_type(LS_DTYPE_F64, 20000), NULL);
    for (int i = 0; i < 20000; ++i) {
      // A little off the middle between two neighbours.
      const int places = to[t] == LS_DTYPE_F16 ? 11 : 8;
      const double whole =
          (double)(loop_random_bits(&random) % 1024) + 1024 + 0.5;
      x[i] = ldexp(whole, places - 11 - 1) *
             (1 + ldexp((double)loop_random_between(&random, -1, 1), -40));
    }
    HEAP(uint16_t, got) = loop_case_run(&c);
    for (int i = 0; i < 20000; ++i)
      assert_int_equal(got[i], nearest(to[t], x[i]));
  }
  static const int64_t whole[] = {(INT64_C(0x101) << 40) + 1,
                                  INT64_C(0x101) << 40,
                                  -(INT64_C(0x101) << 40) - 1, INT64_MIN};
  LS_OWN(loop_case, c) = convert_case(LS_DTYPE_I64, LS_DTYPE_BF16, 4);
  loop_case_add_copy(&c, vector_type(LS_DTYPE_I64, 4), whole);
  HEAP(uint16_t, got) = loop_case_run(&c);
  assert_true(ls_bf16_to_f32(got[0]) == ldexpf(0x102, 40));
  assert_true(ls_bf16_to_f32(got[1]) == ldexpf(0x100, 40));
  assert_true(ls_bf16_to_f32(got[2]) == -ldexpf(0x102, 40));
  assert_true(ls_bf16_to_f32(got[3]) == -0x1p63F);
}
