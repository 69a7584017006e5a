// SPDX-License-Identifier: Apache-2.0
//
// Kernels that move, make and reduce elements, against the reference, and the
// orders of their sums.
#include <math.h>
#include <stdlib.h>

#include "engine/cpu/kernels/loops.h"
#include "lockstep/half.h"
#include "support/attrs.h"
#include "support/expect.h"
#include "support/loop_case.h"

static ls_shape any_shape(loop_random *random, int32_t rank, bool empty) {
  return loop_any_shape(random, rank, empty, 1200);
}

// ---- Moves -----------------------------------------------------------------
TEST(reshape_copies_and_may_share_storage) {
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < LOOP_TYPES; ++t) {
    loop_case c = {.op = LS_OP_RESHAPE,
                   .out = {loop_types[t], LS_SHAPE(100, 7, 30)}};
    loop_case_add(&c, (ls_type){loop_types[t], LS_SHAPE(21000)}, 0, 50,
                  &random);
    loop_case_agrees(&c, 0);
  }
}

TEST(broadcast_repeats_new_and_unit_dimensions) {
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 150; ++round) {
    const ls_dtype dtype = loop_any_type(&random, LOOP_TYPES);
    const int32_t rank = (int32_t)loop_random_between(&random, 0, 4);
    const ls_shape to = any_shape(&random, rank, true);
    ls_shape from = {.rank = (int32_t)loop_random_between(&random, 0, rank)};
    for (int32_t i = 0; i < from.rank; ++i)
      from.dim[i] =
          loop_random_bits(&random) % 2 ? 1 : to.dim[i + rank - from.rank];
    loop_case c = {.op = LS_OP_BROADCAST, .out = {dtype, to}};
    loop_case_add(&c, (ls_type){dtype, from}, 0, 99, &random);
    loop_case_agrees(&c, 0);
  }
}

static void check_transpose(ls_dtype dtype, ls_shape from, const int64_t *order,
                            loop_random *random) {
  ls_shape to = from;
  for (int32_t i = 0; i < from.rank; ++i)
    to.dim[i] = from.dim[order[i]];
  loop_case c = {.op = LS_OP_TRANSPOSE, .out = {dtype, to}};
  loop_case_attr(&c, LS_ATTR_IS("permutation", order, (size_t)from.rank));
  loop_case_add(&c, (ls_type){dtype, from}, 0, 99, random);
  loop_case_agrees(&c, 0);
}

TEST(broadcast_repeats_columns_in_rows_of_any_length) {
  loop_random random = {loop_random_seed()};
  for (int64_t n = 1; n <= 70; ++n) {
    const ls_dtype dtype = loop_any_type(&random, LOOP_TYPES);
    loop_case c = {.op = LS_OP_BROADCAST, .out = {dtype, LS_SHAPE(3, 41, n)}};
    loop_case_add(&c, (ls_type){dtype, LS_SHAPE(3, 41, 1)}, -9, 9, &random);
    loop_case_agrees(&c, 0);
  }
}

TEST(transpose_takes_any_permutation) {
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 150; ++round) {
    const int32_t rank = (int32_t)loop_random_between(&random, 0, 5);
    int64_t order[LS_MAX_RANK] = {0};
    for (int32_t i = 0; i < rank; ++i) {
      const int64_t k = loop_random_between(&random, 0, i);
      order[i] = order[k];
      order[k] = i;
    }
    check_transpose(loop_any_type(&random, LOOP_TYPES),
                    any_shape(&random, rank, true), order, &random);
  }
  static const int64_t swap[] = {1, 0}, heads[] = {0, 2, 1, 3};
  check_transpose(LS_DTYPE_F32, LS_SHAPE(700, 130), swap, &random);
  check_transpose(LS_DTYPE_BF16, LS_SHAPE(33, 1100), swap, &random);
  check_transpose(LS_DTYPE_F32, LS_SHAPE(3, 40, 5, 16), heads, &random);
  // Few long rows, which are interleaved.
  static const int64_t last[] = {0, 2, 1};
  for (int64_t rows = 2; rows < 10; ++rows)
    for (size_t t = 0; t < LOOP_TYPES; ++t)
      check_transpose(loop_types[t], LS_SHAPE(rows % 3 + 1, rows, 9000 + rows),
                      last, &random);
}

// ---- Sources ---------------------------------------------------------------
TEST(iota_counts_along_its_axis) {
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 80; ++round) {
    const int32_t rank = (int32_t)loop_random_between(&random, 1, 3);
    const ls_shape shape = any_shape(&random, rank, false);
    loop_case c = {.op = LS_OP_IOTA,
                   .out = {loop_any_type(&random, LOOP_NUMBERS), shape}};
    loop_case_attr(&c, LS_ATTR_I("axis", loop_any_axis(&random, shape)));
    loop_case_agrees(&c, 0);
  }
  // Short and long periods and runs.
  static const int64_t sizes[] = {1, 2, 7, 31, 32, 33, 1025, 5000};
  for (size_t k = 0; k < 64; ++k) {
    const int64_t size = sizes[k / 8], inner = sizes[k % 8];
    const ls_shape shape = LS_SHAPE(1 + 40000 / size / inner, size, inner);
    if (size * inner > 200000) continue;
    loop_case c = {.op = LS_OP_IOTA,
                   .out = {loop_any_type(&random, LOOP_NUMBERS), shape}};
    loop_case_attr(&c, LS_ATTR_I("axis", 1));
    loop_case_agrees(&c, 0);
  }
}

TEST(one_hot_is_zero_outside_its_depth) {
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 60; ++round) {
    const ls_dtype index = loop_types[LOOP_FLOATS + round % 8];
    const ls_dtype dtype = loop_any_type(&random, LOOP_TYPES);
    const int64_t rows = loop_random_between(&random, 1, 60);
    const int64_t depth = loop_random_between(&random, 1, 500);
    loop_case c = {.op = LS_OP_ONE_HOT, .out = {dtype, LS_SHAPE(rows, depth)}};
    loop_case_attr(&c, LS_ATTR_I("depth", depth));
    loop_case_add(&c, (ls_type){index, LS_SHAPE(rows)}, -9, 100, &random);
    loop_case_agrees(&c, 0);
  }
}

TEST(replica_id_is_the_replica_of_the_call) {
  loop_case c = {
      .op = LS_OP_REPLICA_ID, .out = {LS_DTYPE_I32, LS_SCALAR}, .replica = 6};
  HEAP(int32_t, got) = loop_case_run(&c);
  assert_int_equal(got[0], 6);
}

// ---- Reductions ------------------------------------------------------------
// A case that reduces `shape` over the axes in `mask`.
static loop_case reduce_case(uint16_t op, ls_dtype dtype, ls_shape shape,
                             unsigned mask, int64_t axes[LS_MAX_RANK]) {
  loop_case c = {.op = op, .out = {dtype, LS_SCALAR}};
  size_t count = 0;
  for (int32_t i = 0; i < shape.rank; ++i) {
    if (mask >> i & 1)
      axes[count++] = i;
    else
      c.out.shape.dim[c.out.shape.rank++] = shape.dim[i];
  }
  loop_case_attr(&c, LS_ATTR_IS("axes", axes, count));
  return c;
}

static void check_reduce(uint16_t op, ls_dtype dtype, ls_shape shape,
                         unsigned mask, loop_random *random) {
  int64_t axes[LS_MAX_RANK];
  loop_case c = reduce_case(op, dtype, shape, mask, axes);
  const bool is_float = ls_dtype_is_float(dtype);
  loop_case_add(&c, (ls_type){dtype, shape}, is_float ? 0.25 : -3,
                is_float ? 1 : 20, random);
  loop_case_agrees(&c, op == LS_OP_REDUCE_SUM ? 4 : 0);
}

TEST(reductions_agree_with_the_reference_over_any_axes) {
  static const uint16_t ops[] = {LS_OP_REDUCE_SUM, LS_OP_REDUCE_MAX,
                                 LS_OP_REDUCE_MIN};
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 400; ++round) {
    const int32_t rank = (int32_t)loop_random_between(&random, 0, 4);
    check_reduce(ops[round % 3], loop_any_type(&random, LOOP_NUMBERS),
                 any_shape(&random, rank, round % 5 == 0),
                 loop_random_bits(&random) % (1U << rank), &random);
  }
  for (size_t t = 0; t < LOOP_NUMBERS; ++t) {
    check_reduce(LS_OP_REDUCE_SUM, loop_types[t], LS_SHAPE(1100, 150), 1,
                 &random);
    check_reduce(LS_OP_REDUCE_SUM, loop_types[t], LS_SHAPE(150, 1100), 2,
                 &random);
    check_reduce(LS_OP_REDUCE_MAX, loop_types[t], LS_SHAPE(9, 7, 130), 5,
                 &random);
    // Rows of several pieces, and thin ones that are packed.
    check_reduce(LS_OP_REDUCE_SUM, loop_types[t], LS_SHAPE(3, 9000), 2,
                 &random);
    check_reduce(LS_OP_REDUCE_MIN, loop_types[t], LS_SHAPE(20481), 1, &random);
    check_reduce(LS_OP_REDUCE_SUM, loop_types[t], LS_SHAPE(2, 29, 31, 3, 5), 22,
                 &random);
    check_reduce(LS_OP_REDUCE_MAX, loop_types[t], LS_SHAPE(3, 70, 2, 40), 10,
                 &random);
    check_reduce(LS_OP_REDUCE_MAX, loop_types[t], LS_SHAPE(7, 0), 2, &random);
    // Axes of one element.
    check_reduce(LS_OP_REDUCE_SUM, loop_types[t], LS_SHAPE(9000, 1), 2,
                 &random);
    check_reduce(LS_OP_REDUCE_MIN, loop_types[t], LS_SHAPE(70, 1, 3), 2,
                 &random);
    // Few columns, the last rows of which end where the array does.
    for (int64_t n = 2; n < 40; n += 5)
      check_reduce(LS_OP_REDUCE_MAX, loop_types[t], LS_SHAPE(70, n), 1,
                   &random);
    // Few outputs over many rows: in two steps.
    check_reduce(LS_OP_REDUCE_SUM, loop_types[t], LS_SHAPE(5000, 9), 1,
                 &random);
    check_reduce(LS_OP_REDUCE_MAX, loop_types[t], LS_SHAPE(3, 2, 2000, 5), 5,
                 &random);
  }
}

TEST(maxima_of_floats_are_nan_if_an_element_is) {
  for (int at = 0; at < 40; ++at) {
    for (unsigned mask = 1; mask < 4; ++mask) {
      int64_t axes[LS_MAX_RANK];
      LS_OWN(loop_case, c) = reduce_case(LS_OP_REDUCE_MAX, LS_DTYPE_F32,
                                         LS_SHAPE(2, 20), mask, axes);
      float *x = loop_case_add_copy(
          &c, (ls_type){LS_DTYPE_F32, LS_SHAPE(2, 20)}, NULL);
      for (int i = 0; i < 40; ++i)
        x[i] = i == at ? NAN : (float)i;
      HEAP(float, got) = loop_case_run(&c);
      const int64_t to = mask == 1 ? at % 20 : mask == 2 ? at / 20 : 0;
      for (int64_t i = 0; i < ls_shape_num_elements(c.out.shape); ++i)
        assert_true(isnan(got[i]) == (i == to));
    }
  }
}

// The stated order for an innermost dimension that is reduced.
static float lanes_sum(const float *x, int64_t count) {
  float total = 0;
  for (int64_t at = 0; at < count; at += 4096) {
    float s[16] = {0};
    for (int64_t i = at; i < count && i < at + 4096; ++i)
      s[i % 16] += x[i];
    for (int half = 8; half > 0; half /= 2)
      for (int j = 0; j < half; ++j)
        s[j] += s[j + half];
    total = at == 0 ? s[0] : total + s[0];
  }
  return total;
}

TEST(sums_along_rows_go_to_sixteen_partial_sums_of_each_piece) {
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 40; ++round) {
    // Axes 0 and 2 of [a, b, c], where b = 1 joins all.
    const int64_t a = loop_random_between(&random, 1, 30);
    const int64_t b = loop_random_between(&random, 1, 3);
    const int64_t n = loop_random_between(&random, 2, 900);
    int64_t axes[LS_MAX_RANK];
    LS_OWN(loop_case, c) =
        reduce_case(LS_OP_REDUCE_SUM, LS_DTYPE_F32, LS_SHAPE(a, b, n), 5, axes);
    const float *x = loop_case_add(
        &c, (ls_type){LS_DTYPE_F32, LS_SHAPE(a, b, n)}, -1, 1, &random);
    HEAP(float, got) = loop_case_run(&c);
    HEAP(float, row) = malloc((size_t)(a * n) * sizeof(float));
    for (int64_t k = 0; k < b; ++k) {
      for (int64_t i = 0; i < a * n; ++i)
        row[i] = x[(i / n * b + k) * n + i % n];
      assert_true(got[k] == lanes_sum(row, a * n));
    }
  }
}

// What a row is reduced to in that order.
static double lanes_reduce(uint16_t op, ls_dtype dtype, const void *x,
                           int64_t from, int64_t count) {
  float s[16];
  const float first = op == LS_OP_REDUCE_SUM   ? 0.0F
                      : op == LS_OP_REDUCE_MAX ? -INFINITY
                                               : INFINITY;
  for (int j = 0; j < 16; ++j)
    s[j] = first;
  for (int64_t i = 0; i < count + 15; ++i) {
    // The elements, then lanes 8 to 15 into 0 to 7, 4 to 7 into 0 to 3, ...
    static const int to[] = {0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 0, 1, 0};
    static const int of[] = {8, 9, 10, 11, 12, 13, 14, 15, 4, 5, 6, 7, 2, 3, 1};
    float *at = &s[i < count ? i % 16 : to[i - count]];
    const float value =
        i < count ? (float)loop_read(dtype, x, from + i) : s[of[i - count]];
    if (op == LS_OP_REDUCE_SUM)
      *at += value;
    else if (isnan(value) ||
             (op == LS_OP_REDUCE_MAX ? value > *at : value < *at))
      *at = value;
  }
  return (double)s[0];
}

TEST(short_rows_are_reduced_in_the_order_of_long_ones) {
  static const uint16_t ops[] = {LS_OP_REDUCE_SUM, LS_OP_REDUCE_MAX,
                                 LS_OP_REDUCE_MIN};
  static const char *const tables[] = {"base", "v3", "v4"};
  enum { ROWS = 333 };
  loop_random random = {loop_random_seed()};
  for (int64_t n = 1; n <= 20; ++n) {
    for (size_t k = 0; k < 3 * LS_COUNT_OF(tables); ++k) {
      if (ls_cpu_kernels_find(tables[k / 3]) == NULL) continue;
      int64_t axes[LS_MAX_RANK];
      LS_OWN(loop_case, c) =
          reduce_case(ops[k % 3], LS_DTYPE_F32, LS_SHAPE(ROWS, n), 2, axes);
      c.kernels = tables[k / 3];
      float *x = loop_case_add(&c, (ls_type){LS_DTYPE_F32, LS_SHAPE(ROWS, n)},
                               -1, 1, &random);
      // Zeros of both signs, of which it shows who came first; and nan.
      for (int64_t i = 0; i < ROWS * n / 3; ++i)
        x[i] = loop_random_bits(&random) % 2 == 0 ? 0.0F : -0.0F;
      for (int64_t i = 0; i < 20; ++i)
        x[(ROWS - 1 - i) * n + i % n] = NAN;
      HEAP(float, got) = loop_case_run(&c);
      for (int64_t i = 0; i < ROWS; ++i) {
        const float want =
            (float)lanes_reduce(ops[k % 3], LS_DTYPE_F32, x, i * n, n);
        assert_true(isnan(got[i]) == isnan(want));
        assert_true(isnan(want) || memcmp(&got[i], &want, sizeof(want)) == 0);
      }
    }
  }
}

TEST(short_rows_of_all_types_agree_with_the_reference) {
  static const uint16_t ops[] = {LS_OP_REDUCE_SUM, LS_OP_REDUCE_MAX,
                                 LS_OP_REDUCE_MIN};
  loop_random random = {loop_random_seed()};
  for (int64_t n = 1; n <= 17; ++n)
    for (size_t t = 0; t < 3 * LOOP_NUMBERS; ++t)
      check_reduce(ops[t % 3], loop_types[t / 3], LS_SHAPE(150 + n, n), 2,
                   &random);
  // More rows than a block.
  check_reduce(LS_OP_REDUCE_MAX, LS_DTYPE_F32, LS_SHAPE(7000, 5), 2, &random);
  check_reduce(LS_OP_REDUCE_MAX, LS_DTYPE_I16, LS_SHAPE(7000, 5), 2, &random);
}

TEST(sums_of_columns_go_row_by_row_in_chains_of_512) {
  loop_random random = {loop_random_seed()};
  static const ls_dtype types[] = {LS_DTYPE_F32, LS_DTYPE_BF16};
  for (int round = 0; round < 12; ++round) {
    const ls_dtype dtype = types[round % 2];
    const int64_t rows = loop_random_between(&random, 1, 1600);
    const int64_t n = loop_random_between(&random, 2, 300);
    int64_t axes[LS_MAX_RANK];
    LS_OWN(loop_case, c) =
        reduce_case(LS_OP_REDUCE_SUM, dtype, LS_SHAPE(rows, n), 1, axes);
    const void *x =
        loop_case_add(&c, (ls_type){dtype, LS_SHAPE(rows, n)}, -1, 1, &random);
    HEAP(void, got) = loop_case_run(&c);
    for (int64_t j = 0; j < n; ++j) {
      float total = 0, chain = 0;
      for (int64_t i = 0; i < rows; ++i) {
        if (i % 512 == 0) chain = 0;
        chain += (float)loop_read(dtype, x, i * n + j);
        if (i % 512 == 511 || i == rows - 1)
          total = i < 512 ? chain : total + chain;
      }
      double rounded = (double)total;
      if (dtype == LS_DTYPE_BF16)
        rounded = (double)ls_bf16_to_f32(ls_bf16_from_f32(total));
      loop_expect(&c, got, j, rounded, 0);
    }
  }
}

// ---- Add_n -----------------------------------------------------------------
static float tree_sum(float *const *x, int64_t at, size_t begin, size_t end) {
  if (end - begin == 1) return x[begin][at];
  size_t split = 1;
  while (split * 2 < end - begin)
    split *= 2;
  return tree_sum(x, at, begin, begin + split) +
         tree_sum(x, at, begin + split, end);
}

TEST(add_n_follows_the_canonical_tree) {
  loop_random random = {loop_random_seed()};
  for (size_t n = 1; n <= 33; ++n) {
    const int64_t count = n % 4 == 0 ? 17000 : 100;
    LS_OWN(loop_case, c) = {.op = LS_OP_ADD_N,
                            .out = {LS_DTYPE_F32, LS_SHAPE(count)}};
    for (size_t i = 0; i < n; ++i)
      loop_case_add(&c, c.out, -1, 1, &random);
    HEAP(float, got) = loop_case_run(&c);
    for (int64_t i = 0; i < count; ++i)
      assert_true(got[i] == tree_sum((float *const *)c.data, i, 0, n));
  }
}

TEST(add_n_agrees_with_the_reference_on_all_types) {
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < LOOP_NUMBERS; ++t) {
    for (uint32_t n = 1; n <= 12; ++n) {
      loop_case c = {.op = LS_OP_ADD_N, .out = {loop_types[t], LS_SHAPE(700)}};
      for (uint32_t i = 0; i < n; ++i)
        loop_case_add(&c, c.out, 0, 9, &random);
      loop_case_agrees(&c, 1);
    }
  }
}
