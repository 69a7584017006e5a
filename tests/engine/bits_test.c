// SPDX-License-Identifier: Apache-2.0
//
// Kernels of bits and logic against a reference that looks at bit after bit;
// and the reductions of bools, and products.
#include <math.h>
#include <stdlib.h>

#include "engine/cpu/loops.h"
#include "support/expect.h"
#include "support/loop_case.h"

static const ls_dtype integers[] = {LS_DTYPE_I8,  LS_DTYPE_I16, LS_DTYPE_I32,
                                    LS_DTYPE_I64, LS_DTYPE_U8,  LS_DTYPE_U16,
                                    LS_DTYPE_U32, LS_DTYPE_U64};

static ls_type vector(ls_dtype dtype, int64_t count) {
  return (ls_type){dtype, LS_SHAPE(count)};
}

static uint64_t bits_at(ls_dtype dtype, const void *data, int64_t index) {
  const size_t size = ls_dtype_size(dtype);
  uint64_t bits = 0;
  memcpy(&bits, (const char *)data + (size_t)index * size, size);
  return bits;
}

// Values of all sizes, and often extreme ones.
static void *add_random(loop_case *c, ls_type type, bool amounts,
                        loop_random *random) {
  const size_t size = ls_dtype_size(type.dtype);
  char *data = loop_case_add_copy(c, type, NULL);
  for (int64_t i = 0; i < ls_shape_num_elements(type.shape); ++i) {
    uint64_t bits = (uint64_t)loop_random_bits(random) << 32;
    bits |= loop_random_bits(random);
    bits >>= loop_random_bits(random) % 64;
    if (loop_random_bits(random) % 8 == 0) bits = 0;
    if (loop_random_bits(random) % 8 == 0) bits = UINT64_C(1) << (8 * size - 1);
    if (amounts && loop_random_bits(random) % 4 != 0)
      bits = loop_random_bits(random) % (8 * size + 2);
    memcpy(data + (size_t)i * size, &bits, size);
  }
  return data;
}

// ---- References ------------------------------------------------------------
static bool bit(uint64_t x, unsigned i) { return (x >> i & 1U) != 0; }

static uint64_t shifted(uint16_t op, uint64_t x, uint64_t amount,
                        unsigned width) {
  uint64_t result = 0;
  for (unsigned i = 0; i < width; ++i) {
    bool one = false;
    if (op == LS_OP_SHIFT_LEFT)
      one = amount <= i && bit(x, i - (unsigned)amount);
    else if (amount < width - i)
      one = bit(x, i + (unsigned)amount);
    else
      one = op == LS_OP_SHIFT_RIGHT_ARITHMETIC && bit(x, width - 1);
    result |= (uint64_t)one << i;
  }
  return result;
}

static uint64_t reference(uint16_t op, uint64_t x, uint64_t y, unsigned width) {
  uint64_t result = 0;
  unsigned ones = 0, leading = 0;
  for (unsigned i = 0; i < width; ++i) {
    const bool a = bit(x, i), b = bit(y, i);
    ones += a;
    leading = a ? 0 : leading + 1;
    const bool one = op == LS_OP_NOT   ? !a
                     : op == LS_OP_AND ? a && b
                     : op == LS_OP_OR  ? a || b
                                       : a != b;
    result |= (uint64_t)one << i;
  }
  if (op == LS_OP_POPCOUNT) return ones;
  if (op == LS_OP_COUNT_LEADING_ZEROS) return leading;
  const bool shifts = op == LS_OP_SHIFT_LEFT ||
                      op == LS_OP_SHIFT_RIGHT_LOGICAL ||
                      op == LS_OP_SHIFT_RIGHT_ARITHMETIC;
  return shifts ? shifted(op, x, y, width) : result;
}

// `which` is the operand that is a scalar; 2: none.
static void check(uint16_t op, ls_dtype dtype, int64_t count, int which,
                  int operands, loop_random *random) {
  loop_case c = {.op = op, .out = vector(dtype, count)};
  const ls_type full = vector(dtype, count), one = {dtype, LS_SCALAR};
  const unsigned width = 8 * (unsigned)ls_dtype_size(dtype);
  const bool shifts = op >= LS_OP_SHIFT_LEFT;
  const void *x = add_random(&c, which == 0 ? one : full, false, random);
  const void *y = operands == 2
                      ? add_random(&c, which == 1 ? one : full, shifts, random)
                      : x;
  void *got = loop_case_run(&c);
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t a = bits_at(dtype, x, which == 0 ? 0 : i);
    const uint64_t b = bits_at(dtype, y, which == 1 ? 0 : i);
    const uint64_t want = reference(op, a, b, width);
    if (bits_at(dtype, got, i) != want)
      fail_msg(
          "%s of %s: %llx, %llx give %llx, wanted %llx; seed %llu",
          ls_op_table[op].name, ls_dtype_name(dtype), (unsigned long long)a,
          (unsigned long long)b, (unsigned long long)bits_at(dtype, got, i),
          (unsigned long long)want, (unsigned long long)loop_random_seed());
  }
  free(got);
  loop_case_deinit(&c);
}

static void bits_are_those_of_a_look_at_each(void **state) {
  (void)state;
  static const uint16_t unary[] = {LS_OP_NOT, LS_OP_POPCOUNT,
                                   LS_OP_COUNT_LEADING_ZEROS};
  static const uint16_t binary[] = {LS_OP_AND,
                                    LS_OP_OR,
                                    LS_OP_XOR,
                                    LS_OP_SHIFT_LEFT,
                                    LS_OP_SHIFT_RIGHT_ARITHMETIC,
                                    LS_OP_SHIFT_RIGHT_LOGICAL};
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < LS_COUNT_OF(integers); ++t) {
    for (size_t o = 0; o < LS_COUNT_OF(unary); ++o) {
      check(unary[o], integers[t], 17000, 2, 1, &random);
      check(unary[o], integers[t], loop_random_between(&random, 0, 99), 2, 1,
            &random);
    }
    for (size_t o = 0; o < LS_COUNT_OF(binary); ++o)
      for (int which = 0; which < 3; ++which)
        check(binary[o], integers[t], which == 2 ? 17000 : 99, which, 2,
              &random);
  }
}

static void any_byte_but_zero_is_true(void **state) {
  (void)state;
  static const uint8_t x[] = {0, 0, 1, 2, 2, 0}, y[] = {0, 1, 2, 4, 0, 7};
  static const struct {
    uint16_t op;
    uint8_t want[6];
  } rows[] = {{LS_OP_AND, {0, 0, 1, 1, 0, 0}},
              {LS_OP_OR, {0, 1, 1, 1, 1, 1}},
              {LS_OP_XOR, {0, 1, 0, 0, 1, 1}},
              {LS_OP_NOT, {1, 1, 0, 0, 0, 1}}};
  for (size_t r = 0; r < LS_COUNT_OF(rows); ++r) {
    loop_case c = {.op = rows[r].op, .out = vector(LS_DTYPE_BOOL, 6)};
    loop_case_add_copy(&c, c.out, x);
    if (rows[r].op != LS_OP_NOT) loop_case_add_copy(&c, c.out, y);
    uint8_t *got = loop_case_run(&c);
    assert_memory_equal(got, rows[r].want, 6);
    free(got);
    loop_case_deinit(&c);
  }
}

static void what_has_no_bits_is_refused_by_name(void **state) {
  (void)state;
  loop_case c = {.op = LS_OP_POPCOUNT, .out = vector(LS_DTYPE_BOOL, 2)};
  loop_case_add_copy(&c, c.out, "\0\1");
  expect_status(loop_case_prepare(&c), LS_UNIMPLEMENTED,
                "op 'popcount' has no CPU kernel for bool");
  loop_case_deinit(&c);
  loop_case f = {.op = LS_OP_XOR, .out = vector(LS_DTYPE_F32, 1)};
  loop_case_add_copy(&f, f.out, "\0\1\0");
  loop_case_add_copy(&f, f.out, "\0\1\0");
  expect_status(loop_case_prepare(&f), LS_UNIMPLEMENTED,
                "op 'xor' has no CPU kernel for f32");
  loop_case_deinit(&f);
}

static void a_bitcast_keeps_every_bit(void **state) {
  (void)state;
  static const float x[] = {1.0F, -0.0F, 3.5F};
  static const uint32_t want[] = {0x3F800000U, 0x80000000U, 0x40600000U};
  loop_case c = {.op = LS_OP_BITCAST, .out = vector(LS_DTYPE_U32, 3)};
  loop_case_attr(&c, LS_ATTR_T("dtype", LS_DTYPE_U32));
  loop_case_add_copy(&c, vector(LS_DTYPE_F32, 3), x);
  uint32_t *got = loop_case_run(&c);
  assert_memory_equal(got, want, sizeof(want));
  free(got);
  loop_case_deinit(&c);
}

// ---- Reductions ------------------------------------------------------------
// Reduces the middle and perhaps the last axis of [a, b, c]. Numbers are
// chosen so that no product is rounded: ones, and a few twos and minus ones.
typedef struct reduction {
  uint16_t op;
  ls_dtype dtype;
  int64_t a, b, c;
  bool last_too;
} reduction;

static void fill(ls_dtype dtype, void *data, int64_t count, uint16_t op,
                 loop_random *random) {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = loop_random_bits(random);
    double x = 1;
    if (op == LS_OP_REDUCE_PRODUCT) {
      if (bits % 64 == 0) x = 2;
      if (bits % 16 == 1 && !ls_dtype_is_unsigned(dtype)) x = -1;
    } else {
      x = op == LS_OP_REDUCE_AND ? bits % 100 != 0 : bits % 100 == 0;
    }
    loop_write(dtype, data, i, x);
  }
}

static double fold(uint16_t op, double sum, double x) {
  if (op == LS_OP_REDUCE_PRODUCT) return sum * x;
  return op == LS_OP_REDUCE_AND ? sum != 0 && x != 0 : sum != 0 || x != 0;
}

static void check_reduction(const reduction *r, loop_random *random) {
  static const int64_t axes[] = {1, 2};
  loop_case c = {.op = r->op};
  c.out =
      (ls_type){r->dtype, r->last_too ? LS_SHAPE(r->a) : LS_SHAPE(r->a, r->c)};
  loop_case_attr(&c, LS_ATTR_IS("axes", axes, r->last_too ? 2u : 1u));
  void *x = loop_case_add_copy(
      &c, (ls_type){r->dtype, LS_SHAPE(r->a, r->b, r->c)}, NULL);
  fill(r->dtype, x, r->a * r->b * r->c, r->op, random);
  void *got = loop_case_run(&c);
  const int64_t columns = r->last_too ? 1 : r->c;
  const int64_t depth = r->last_too ? r->b * r->c : r->b;
  for (int64_t i = 0; i < r->a; ++i)
    for (int64_t k = 0; k < columns; ++k) {
      double want = r->op == LS_OP_REDUCE_OR ? 0 : 1;
      for (int64_t j = 0; j < depth; ++j)
        want = fold(r->op, want,
                    loop_read(r->dtype, x, (i * depth + j) * columns + k));
      want = loop_stored(r->dtype, want);
      loop_expect_near(&c, got, i * columns + k, want, 0, 0);
    }
  free(got);
  loop_case_deinit(&c);
}

static void products_and_logic_reduce_any_axes(void **state) {
  (void)state;
  static const ls_dtype types[] = {LS_DTYPE_F64,  LS_DTYPE_F32, LS_DTYPE_F16,
                                   LS_DTYPE_BF16, LS_DTYPE_I8,  LS_DTYPE_I16,
                                   LS_DTYPE_I32,  LS_DTYPE_I64, LS_DTYPE_U8,
                                   LS_DTYPE_U16,  LS_DTYPE_U32, LS_DTYPE_U64};
  static const int64_t shapes[][3] = {
      {3, 5, 7}, {2, 70, 33}, {1, 300, 1}, {2, 0, 3}, {40, 9, 150}};
  loop_random random = {loop_random_seed()};
  for (size_t s = 0; s < LS_COUNT_OF(shapes); ++s)
    for (int last = 0; last < 2; ++last) {
      reduction r = {LS_OP_REDUCE_PRODUCT, LS_DTYPE_F32, shapes[s][0],
                     shapes[s][1],         shapes[s][2], last != 0};
      // Of at most 150 numbers, so that what is a power of two stays finite.
      for (size_t t = 0; t < LS_COUNT_OF(types) && r.b * r.c < 1000; ++t) {
        r.dtype = types[t];
        check_reduction(&r, &random);
      }
      r.dtype = LS_DTYPE_BOOL;
      r.op = LS_OP_REDUCE_AND;
      check_reduction(&r, &random);
      r.op = LS_OP_REDUCE_OR;
      check_reduction(&r, &random);
    }
}

static void a_maximum_over_rows_sees_every_nan(void **state) {
  (void)state;
  enum { ROWS = 40, COLUMNS = 37 };
  static const int64_t axes[] = {1};
  loop_random random = {loop_random_seed()};
  loop_case c = {.op = LS_OP_REDUCE_MAX, .out = vector(LS_DTYPE_F32, ROWS)};
  loop_case_attr(&c, LS_ATTR_IS("axes", axes, 1u));
  float *x = loop_case_add(&c, (ls_type){LS_DTYPE_F32, LS_SHAPE(ROWS, COLUMNS)},
                           -9, -1, &random);
  for (int r = 1; r < ROWS; ++r)
    x[r * COLUMNS + (r - 1) % COLUMNS] = r % 2 == 0 ? NAN : 5.0F;
  float *got = loop_case_run(&c);
  assert_true(got[0] < 0);
  for (int r = 1; r < ROWS; ++r)
    assert_true(r % 2 == 0 ? isnan(got[r]) : got[r] == 5.0F);
  free(got);
  loop_case_deinit(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bits_are_those_of_a_look_at_each),
      cmocka_unit_test(any_byte_but_zero_is_true),
      cmocka_unit_test(what_has_no_bits_is_refused_by_name),
      cmocka_unit_test(a_bitcast_keeps_every_bit),
      cmocka_unit_test(products_and_logic_reduce_any_axes),
      cmocka_unit_test(a_maximum_over_rows_sees_every_nan),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
