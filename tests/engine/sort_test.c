// SPDX-License-Identifier: Apache-2.0
//
// Kernels that order and scan: sort, top_k, argmin and argmax against the
// reference over random shapes; cumsum, cumprod and linear_scan step by step.
#include <math.h>
#include <stdlib.h>

#include "engine/cpu/kernels/loops.h"
#include "support/attrs.h"
#include "support/expect.h"
#include "support/loop_case.h"

// Puts what is special among floats into some elements.
static void add_specials(ls_dtype dtype, void *data, int64_t count,
                         loop_random *random) {
  static const double specials[] = {NAN, -0.0, 0, INFINITY, -INFINITY};
  if (!ls_dtype_is_float(dtype)) return;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t which = loop_random_bits(random) % 20;
    if (which < LS_COUNT_OF(specials))
      loop_write(dtype, data, i, specials[which]);
  }
}

// ---- Sort ------------------------------------------------------------------
static void check_sort(ls_dtype dtype, ls_shape shape, bool descending,
                       loop_random *random) {
  const ls_type carried[] = {{LS_DTYPE_I16, shape}, {LS_DTYPE_BOOL, shape}};
  loop_case c = {.op = LS_OP_SORT, .out = {dtype, shape}};
  loop_case_attr(&c, LS_ATTR_I("axis", 1));
  loop_case_attr(&c, LS_ATTR_B("descending", descending));
  void *x = loop_case_add(&c, c.out, -9, 9, random);
  add_specials(dtype, x, ls_shape_num_elements(shape), random);
  for (size_t i = 0; i < LS_COUNT_OF(carried); ++i) {
    loop_case_add(&c, carried[i], -90, 90, random);
    loop_case_add_output(&c, carried[i]);
  }
  loop_case_add_output(&c, (ls_type){LS_DTYPE_I64, shape});
  loop_case_agrees(&c, 0);
}

TEST(sort_is_stable_both_ways_and_carries_operands) {
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 160; ++round) {
    const int64_t most = round % 5 == 0 ? 400 : 40;
    check_sort(loop_types[(size_t)round / 2 % LOOP_TYPES],
               LS_SHAPE(loop_random_between(&random, 0, 4),
                        loop_random_between(&random, 0, most),
                        loop_random_between(&random, 1, 5)),
               round % 2 == 1, &random);
  }
  check_sort(LS_DTYPE_F32, LS_SHAPE(1, 20000, 1), false, &random);
}

TEST(large_numbers_sort_by_all_their_digits) {
  loop_random random = {loop_random_seed()};
  enum { COUNT = 300 };
  const ls_type type = {LS_DTYPE_I64, LS_SHAPE(COUNT)};
  loop_case c = {.op = LS_OP_SORT, .out = type};
  loop_case_attr(&c, LS_ATTR_I("axis", 0));
  loop_case_add_output(&c, type);
  int64_t *x = loop_case_add_copy(&c, type, NULL);
  for (int i = 0; i < COUNT; ++i)
    x[i] = (int64_t)((uint64_t)loop_random_bits(&random) << 32 |
                     loop_random_bits(&random));
  loop_case_agrees(&c, 0);
}

TEST(top_k_is_the_front_of_a_descending_sort) {
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 120; ++round) {
    const ls_dtype dtype = loop_any_type(&random, LOOP_NUMBERS);
    const int64_t rows = loop_random_between(&random, 0, 9);
    const int64_t size = loop_random_between(&random, 1, 300);
    const int64_t k = loop_random_between(
        &random, 0, round % 2 == 0 ? ls_min_i64(size, 32) : size);
    loop_case c = {.op = LS_OP_TOP_K, .out = {dtype, LS_SHAPE(rows, k)}};
    loop_case_add_output(&c, (ls_type){LS_DTYPE_I32, LS_SHAPE(rows, k)});
    loop_case_attr(&c, LS_ATTR_I("k", k));
    void *x = loop_case_add(&c, (ls_type){dtype, LS_SHAPE(rows, size)}, -20, 99,
                            &random);
    add_specials(dtype, x, rows * size, &random);
    loop_case_agrees(&c, 0);
  }
}

TEST(top_k_of_long_rows_is_so_in_any_order) {
  enum { SIZE = 4000 };
  loop_random random = {loop_random_seed()};
  // Ascending, descending, few distinct numbers, all equal, and random ones.
  for (int order = 0; order < 10; ++order) {
    const int64_t k = order < 5 ? 40 : 3;
    loop_case c = {.op = LS_OP_TOP_K, .out = {LS_DTYPE_I32, LS_SHAPE(2, k)}};
    loop_case_add_output(&c, (ls_type){LS_DTYPE_I32, LS_SHAPE(2, k)});
    loop_case_attr(&c, LS_ATTR_I("k", k));
    int32_t *x = loop_case_add(&c, (ls_type){LS_DTYPE_I32, LS_SHAPE(2, SIZE)},
                               -1e6, 1e6, &random);
    for (int32_t i = 0; i < 2 * SIZE && order % 5 < 4; ++i)
      x[i] = order % 5 == 0   ? i
             : order % 5 == 1 ? -i
             : order % 5 == 2 ? x[i] % 3
                              : 7;
    x[SIZE / 2] = order % 5 == 3 ? INT32_MAX : x[SIZE / 2];
    loop_case_agrees(&c, 0);
  }
}

TEST(lines_of_one_element_are_sorted) {
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < LOOP_NUMBERS; ++t) {
    const ls_type type = {loop_types[t], LS_SHAPE(20000, 1)};
    loop_case c = {.op = LS_OP_SORT, .out = type};
    loop_case_attr(&c, LS_ATTR_I("axis", 1));
    loop_case_add_output(&c, (ls_type){LS_DTYPE_I64, type.shape});
    loop_case_add(&c, type, 0, 99, &random);
    loop_case_agrees(&c, 0);
    loop_case top = {.op = LS_OP_TOP_K, .out = type};
    loop_case_attr(&top, LS_ATTR_I("k", 1));
    loop_case_add_output(&top, (ls_type){LS_DTYPE_I32, type.shape});
    loop_case_add(&top, type, 0, 99, &random);
    loop_case_agrees(&top, 0);
  }
}

TEST(the_first_extreme_is_found_and_nan_is_one) {
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 160; ++round) {
    const ls_dtype dtype = loop_any_type(&random, LOOP_NUMBERS);
    const bool is_thin = round % 7 == 0;
    const int64_t a = loop_random_between(&random, 1, is_thin ? 9000 : 20);
    const int64_t n = loop_random_between(&random, 1, is_thin ? 5 : 90);
    // Few columns, one, and many.
    const int64_t b = round % 5 == 0   ? 1
                      : round % 5 == 1 ? loop_random_between(&random, 30, 400)
                      : is_thin        ? loop_random_between(&random, 1, 4)
                                       : loop_random_between(&random, 1, 20);
    loop_case c = {.op = round % 2 == 0 ? LS_OP_ARGMIN : LS_OP_ARGMAX,
                   .out = {LS_DTYPE_I64, LS_SHAPE(a, b)}};
    loop_case_attr(&c, LS_ATTR_I("axis", 1));
    void *x =
        loop_case_add(&c, (ls_type){dtype, LS_SHAPE(a, n, b)}, -5, 6, &random);
    if (round / 2 % 2 == 0) add_specials(dtype, x, a * n * b, &random);
    loop_case_agrees(&c, 0);
  }
}

// ---- Scans -----------------------------------------------------------------
// f32 and 16 bits are computed in f32.
static double rounded(ls_dtype dtype, double value) {
  if (dtype == LS_DTYPE_F64) return value;
  if (ls_dtype_is_float(dtype)) return (double)(float)value;
  return loop_stored(dtype, value);
}

static double next_of(uint16_t op, ls_dtype dtype, double h, double a,
                      double b) {
  if (op == LS_OP_CUMSUM) return rounded(dtype, h + a);
  if (op == LS_OP_CUMPROD) return rounded(dtype, h * a);
  return rounded(dtype, rounded(dtype, a * h) + b);
}

// The value as the type holds it.
static double as_stored(ls_dtype dtype, double value) {
  uint64_t room = 0;
  loop_write(dtype, &room, 0, loop_stored(dtype, value));
  return loop_read(dtype, &room, 0);
}

static void check_scan(uint16_t op, ls_dtype dtype, ls_shape shape,
                       int32_t axis, loop_random *random) {
  const bool exclusive = loop_random_bits(random) % 2 == 0;
  const bool reverse = loop_random_bits(random) % 2 == 0;
  const bool is_linear = op == LS_OP_LINEAR_SCAN;
  // Products that neither vanish nor leave 64 bits.
  const bool is_float = ls_dtype_is_float(dtype);
  const double low = op == LS_OP_CUMSUM || !is_float ? 0 : 0.75;
  const double high = op == LS_OP_CUMSUM ? 9 : is_float ? 1.25 : 2;
  LS_OWN(loop_case, c) = {.op = op, .out = {dtype, shape}};
  loop_case_attr(&c, LS_ATTR_I("axis", axis));
  loop_case_attr(&c, LS_ATTR_B("reverse", reverse));
  if (!is_linear) loop_case_attr(&c, LS_ATTR_B("exclusive", exclusive));
  const void *a = loop_case_add(&c, c.out, low, high, random);
  const void *b = is_linear ? loop_case_add(&c, c.out, -1, 1, random) : a;
  HEAP(void, got) = loop_case_run(&c);
  const int64_t size = shape.dim[axis];
  int64_t inner = 1;
  for (int32_t i = axis + 1; i < shape.rank; ++i)
    inner *= shape.dim[i];
  const int64_t count = ls_shape_num_elements(shape);
  for (int64_t line = 0; size > 0 && line < count / size; ++line) {
    const int64_t from = line / inner * size * inner + line % inner;
    double h = op == LS_OP_CUMPROD ? 1 : 0;
    for (int64_t k = 0; k < size; ++k) {
      const int64_t at = from + (reverse ? size - 1 - k : k) * inner;
      const double next = next_of(op, dtype, h, loop_read(dtype, a, at),
                                  loop_read(dtype, b, at));
      loop_expect(&c, got, at,
                  as_stored(dtype, exclusive && !is_linear ? h : next), 0);
      h = next;
    }
  }
}

TEST(scans_go_one_after_another) {
  static const uint16_t ops[] = {LS_OP_CUMSUM, LS_OP_CUMPROD,
                                 LS_OP_LINEAR_SCAN};
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 240; ++round) {
    const ls_dtype dtype = loop_any_type(&random, LOOP_NUMBERS);
    ls_shape shape = {.rank = (int32_t)loop_random_between(&random, 1, 3)};
    for (int32_t i = 0; i < shape.rank; ++i)
      shape.dim[i] = loop_random_between(&random, round % 9 == 0 ? 0 : 1, 12);
    const int32_t axis =
        (int32_t)loop_random_between(&random, 0, shape.rank - 1);
    // Beyond 64-bit integers of that many factors doubles are not exact.
    const int64_t most =
        dtype == LS_DTYPE_I64 || dtype == LS_DTYPE_U64 ? 40 : 200;
    if (round % 4 == 0) shape.dim[axis] = loop_random_between(&random, 1, most);
    check_scan(ops[round % 3], dtype, shape, axis, &random);
  }
  // Many short lines, alone and beside others.
  for (int64_t n = 1; n <= 9; ++n)
    for (int k = 0; k < 3; ++k)
      check_scan(ops[k], loop_types[n % LOOP_FLOATS], LS_SHAPE(3000, n, 1 + k),
                 1, &random);
  check_scan(LS_OP_CUMSUM, LS_DTYPE_F32, LS_SHAPE(3, 90, 700), 1, &random);
  check_scan(LS_OP_LINEAR_SCAN, LS_DTYPE_F32, LS_SHAPE(90, 300), 0, &random);
  // Units of columns that are joined, and more than are.
  check_scan(LS_OP_LINEAR_SCAN, LS_DTYPE_F64, LS_SHAPE(2, 130, 1300), 1,
             &random);
  // 16-bit floats whose columns would be several units.
  check_scan(LS_OP_LINEAR_SCAN, LS_DTYPE_BF16, LS_SHAPE(4, 130, 250), 1,
             &random);
  check_scan(LS_OP_CUMSUM, LS_DTYPE_F16, LS_SHAPE(5, 40, 1000), 1, &random);
  // 16-bit floats that are scanned some rows at a time, or part of a row.
  for (int k = 0; k < 6; ++k) {
    const ls_dtype dtype = k % 2 == 0 ? LS_DTYPE_F16 : LS_DTYPE_BF16;
    const uint16_t op = k < 3 ? LS_OP_CUMSUM : LS_OP_LINEAR_SCAN;
    check_scan(op, dtype, LS_SHAPE(9001), 0, &random);
    check_scan(op, dtype, LS_SHAPE(2, 2001, 3), 1, &random);
    check_scan(op, dtype, LS_SHAPE(2, 9, 2500), 1, &random);
  }
}
