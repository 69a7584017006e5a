// SPDX-License-Identifier: Apache-2.0
//
// Kernels of bits and logic against the reference, which looks at bit after
// bit; and the reductions of bools, and products.
#include <math.h>
#include <stdlib.h>

#include "engine/cpu/kernels/loops.h"
#include "lockstep/shape_rules.h"
#include "support/attrs.h"
#include "support/expect.h"
#include "support/loop_case.h"

enum { INTEGERS = LOOP_NUMBERS - LOOP_FLOATS };

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

// `which` is the operand that is a scalar; 2: none.
static void check(uint16_t op, ls_dtype dtype, int64_t count, int which,
                  int operands, loop_random *random) {
  loop_case c = {.op = op, .out = vector_type(dtype, count)};
  const ls_type full = vector_type(dtype, count), one = {dtype, LS_SCALAR};
  const bool shifts = op >= LS_OP_SHIFT_LEFT;
  add_random(&c, which == 0 ? one : full, false, random);
  if (operands == 2) add_random(&c, which == 1 ? one : full, shifts, random);
  loop_case_agrees(&c, 0);
}

TEST(bits_are_those_of_a_look_at_each) {
  static const uint16_t unary[] = {LS_OP_NOT, LS_OP_POPCOUNT,
                                   LS_OP_COUNT_LEADING_ZEROS};
  static const uint16_t binary[] = {LS_OP_AND,
                                    LS_OP_OR,
                                    LS_OP_XOR,
                                    LS_OP_SHIFT_LEFT,
                                    LS_OP_SHIFT_RIGHT_ARITHMETIC,
                                    LS_OP_SHIFT_RIGHT_LOGICAL};
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < INTEGERS; ++t) {
    for (size_t o = 0; o < LS_COUNT_OF(unary); ++o) {
      check(unary[o], loop_types[LOOP_FLOATS + t], 17000, 2, 1, &random);
      check(unary[o], loop_types[LOOP_FLOATS + t],
            loop_random_between(&random, 0, 99), 2, 1, &random);
    }
    for (size_t o = 0; o < LS_COUNT_OF(binary); ++o)
      for (int which = 0; which < 3; ++which)
        check(binary[o], loop_types[LOOP_FLOATS + t], which == 2 ? 17000 : 99,
              which, 2, &random);
  }
}

TEST(counts_of_bits_are_the_same_in_every_table) {
  static const char *const tables[] = {"base", "v3", "v4"};
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < INTEGERS * LS_COUNT_OF(tables); ++t) {
    if (ls_cpu_kernels_find(tables[t % 3]) == NULL) continue;
    const ls_type type = vector_type(loop_types[LOOP_FLOATS + t / 3], 203);
    for (int k = 0; k < 2; ++k) {
      loop_case c = {.op = k == 0 ? LS_OP_POPCOUNT : LS_OP_COUNT_LEADING_ZEROS,
                     .out = type,
                     .kernels = tables[t % 3]};
      add_random(&c, type, false, &random);
      loop_case_agrees(&c, 0);
    }
  }
}

TEST(any_byte_but_zero_is_true) {
  static const uint8_t x[] = {0, 0, 1, 2, 2, 0}, y[] = {0, 1, 2, 4, 0, 7};
  static const struct {
    uint16_t op;
    uint8_t want[6];
  } rows[] = {{LS_OP_AND, {0, 0, 1, 1, 0, 0}},
              {LS_OP_OR, {0, 1, 1, 1, 1, 1}},
              {LS_OP_XOR, {0, 1, 0, 0, 1, 1}},
              {LS_OP_NOT, {1, 1, 0, 0, 0, 1}}};
  for (size_t r = 0; r < LS_COUNT_OF(rows); ++r) {
    LS_OWN(loop_case, c) = {.op = rows[r].op,
                            .out = vector_type(LS_DTYPE_BOOL, 6)};
    loop_case_add_copy(&c, c.out, x);
    if (rows[r].op != LS_OP_NOT) loop_case_add_copy(&c, c.out, y);
    HEAP(uint8_t, got) = loop_case_run(&c);
    assert_memory_equal(got, rows[r].want, 6);
  }
}

TEST(what_has_no_bits_is_refused_by_name) {
  loop_case c = {.op = LS_OP_POPCOUNT, .out = vector_type(LS_DTYPE_BOOL, 2)};
  loop_case_add_copy(&c, c.out, "\0\1");
  expect_status(loop_case_prepare(&c), LS_UNIMPLEMENTED,
                "op 'popcount' has no CPU kernel for bool");
  loop_case_deinit(&c);
  LS_OWN(loop_case, f) = {.op = LS_OP_XOR, .out = vector_type(LS_DTYPE_F32, 1)};
  loop_case_add_copy(&f, f.out, "\0\1\0");
  loop_case_add_copy(&f, f.out, "\0\1\0");
  expect_status(loop_case_prepare(&f), LS_UNIMPLEMENTED,
                "op 'xor' has no CPU kernel for f32");
}

TEST(a_bitcast_keeps_every_bit) {
  static const float x[] = {1.0F, -0.0F, 3.5F};
  static const uint32_t want[] = {0x3F800000U, 0x80000000U, 0x40600000U};
  LS_OWN(loop_case, c) = {.op = LS_OP_BITCAST,
                          .out = vector_type(LS_DTYPE_U32, 3)};
  loop_case_attr(&c, LS_ATTR_T("dtype", LS_DTYPE_U32));
  loop_case_add_copy(&c, vector_type(LS_DTYPE_F32, 3), x);
  HEAP(uint32_t, got) = loop_case_run(&c);
  assert_memory_equal(got, want, sizeof(want));
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

static void check_reduction(const reduction *r, loop_random *random) {
  static const int64_t axes[] = {1, 2};
  loop_case c = {.op = r->op};
  c.out =
      (ls_type){r->dtype, r->last_too ? LS_SHAPE(r->a) : LS_SHAPE(r->a, r->c)};
  loop_case_attr(&c, LS_ATTR_IS("axes", axes, r->last_too ? 2u : 1u));
  void *x = loop_case_add_copy(
      &c, (ls_type){r->dtype, LS_SHAPE(r->a, r->b, r->c)}, NULL);
  fill(r->dtype, x, r->a * r->b * r->c, r->op, random);
  loop_case_agrees(&c, 0);
}

TEST(products_and_logic_reduce_any_axes) {
  static const int64_t shapes[][3] = {
      {3, 5, 7}, {2, 70, 33}, {1, 300, 1}, {2, 0, 3}, {40, 9, 150}};
  loop_random random = {loop_random_seed()};
  for (size_t s = 0; s < LS_COUNT_OF(shapes); ++s)
    for (int last = 0; last < 2; ++last) {
      reduction r = {LS_OP_REDUCE_PRODUCT, LS_DTYPE_F32, shapes[s][0],
                     shapes[s][1],         shapes[s][2], last != 0};
      // Of at most 150 numbers, so that what is a power of two stays finite.
      for (size_t t = 0; t < LOOP_NUMBERS && r.b * r.c < 1000; ++t) {
        r.dtype = loop_types[t];
        check_reduction(&r, &random);
      }
      r.dtype = LS_DTYPE_BOOL;
      r.op = LS_OP_REDUCE_AND;
      check_reduction(&r, &random);
      r.op = LS_OP_REDUCE_OR;
      check_reduction(&r, &random);
    }
}

TEST(a_maximum_over_rows_sees_every_nan) {
  enum { ROWS = 40, COLUMNS = 37 };
  static const int64_t axes[] = {1};
  loop_random random = {loop_random_seed()};
  LS_OWN(loop_case, c) = {.op = LS_OP_REDUCE_MAX,
                          .out = vector_type(LS_DTYPE_F32, ROWS)};
  loop_case_attr(&c, LS_ATTR_IS("axes", axes, 1u));
  float *x = loop_case_add(&c, (ls_type){LS_DTYPE_F32, LS_SHAPE(ROWS, COLUMNS)},
                           -9, -1, &random);
  for (int r = 1; r < ROWS; ++r)
    x[r * COLUMNS + (r - 1) % COLUMNS] = r % 2 == 0 ? NAN : 5.0F;
  HEAP(float, got) = loop_case_run(&c);
  assert_true(got[0] < 0);
  for (int r = 1; r < ROWS; ++r)
    assert_true(r % 2 == 0 ? isnan(got[r]) : got[r] == 5.0F);
}
