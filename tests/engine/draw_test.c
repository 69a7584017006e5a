// SPDX-License-Identifier: Apache-2.0
//
// Truncated normals, random bits and permutations against what they are
// defined by, from base/values/random.h.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/values/random.h"
#include "engine/cpu/kernels/loops.h"
#include "support/attrs.h"
#include "support/expect.h"
#include "support/kernel_tables.h"
#include "support/loop_case.h"

static loop_case new_case(uint16_t op, ls_dtype dtype, int64_t count) {
  loop_case c = {.op = op,
                 .out = {dtype, LS_SHAPE(count)},
                 .step = 7,
                 .seed = 11,
                 .iteration = 3,
                 .replica = 2};
  loop_case_attr(&c, LS_ATTR_I("seed", 5));
  loop_case_attr(&c, LS_ATTR_I("stream", 4));
  return c;
}

static ls_random_source source_of(const loop_case *c) {
  const ls_random_key key = {.seed = 5 + c->seed * UINT64_C(0x9E3779B97F4A7C15),
                             .stream = 4,
                             .step = c->step,
                             .iteration = c->iteration,
                             .id = (uint64_t)c->replica};
  return ls_random_source_make(&key);
}

// ---- Bits and normals ------------------------------------------------------
TEST(every_instruction_set_draws_the_same_bits) {
  enum { BLOCKS = 37 };
  const ls_random_source source =
      ls_random_source_make(&(ls_random_key){.seed = loop_random_seed()});
  // Across a carry into the upper half of the block's number.
  const uint64_t first = (UINT64_C(3) << 32) - 5;
  uint32_t want[4 * BLOCKS], got[4 * BLOCKS];
  for (size_t i = 0; i < BLOCKS; ++i)
    ls_random_source_bits(&source, first + i, want + 4 * i);
  const kernel_tables tables = kernel_tables_find();
  for (size_t t = 0; t < tables.count; ++t) {
    tables.at[t]->random_bits(got, &source, first, BLOCKS);
    assert_memory_equal(got, want, sizeof(want));
  }
}

// The first words are the ends of both ranges, the others are any.
TEST(every_instruction_set_makes_the_same_normals) {
  enum { WORDS = 4096 };
  static const uint32_t ends[] = {0,          0,          0, UINT32_MAX,
                                  UINT32_MAX, UINT32_MAX, 1, 1U << 29};
  const ls_random_source source =
      ls_random_source_make(&(ls_random_key){.seed = loop_random_seed()});
  uint32_t bits[WORDS];
  float want[WORDS], got[WORDS];
  memcpy(bits, ends, sizeof(ends));
  for (size_t i = LS_COUNT_OF(ends); i < WORDS; i += 4)
    ls_random_source_bits(&source, i, bits + i);
  for (size_t i = 0; i < WORDS; i += 4)
    ls_random_normals_f32(bits + i, want + i);
  const kernel_tables tables = kernel_tables_find();
  for (size_t t = 0; t < tables.count; ++t) {
    tables.at[t]->normals(got, bits, WORDS / 2);
    assert_memory_equal(got, want, sizeof(want));
  }
}

// ---- Truncated normals -----------------------------------------------------
static double first_within_f32(const ls_random_source *source, int64_t i) {
  for (uint64_t attempt = 0;; ++attempt) {
    uint32_t bits[4];
    float x[4];
    ls_random_source_bits(source, (uint64_t)i / 4 + (attempt << 48), bits);
    ls_random_normals_f32(bits, x);
    if (fabsf(x[i % 4]) <= 2.0F) return (double)x[i % 4];
  }
}

static double first_within_f64(const ls_random_source *source, int64_t i) {
  for (uint64_t attempt = 0;; ++attempt) {
    uint32_t bits[4];
    double x[2];
    ls_random_source_bits(source, (uint64_t)i / 2 + (attempt << 48), bits);
    ls_random_normals_f64(bits, x);
    if (fabs(x[i % 2]) <= 2.0) return x[i % 2];
  }
}

TEST(a_truncated_normal_is_the_first_draw_within_range) {
  static const ls_dtype types[] = {LS_DTYPE_F64, LS_DTYPE_F32, LS_DTYPE_F16,
                                   LS_DTYPE_BF16};
  for (size_t t = 0; t < LS_COUNT_OF(types); ++t) {
    const int64_t count = t == 0 ? 17000 : 16500;
    LS_OWN(loop_case, c) =
        new_case(LS_OP_RANDOM_TRUNCATED_NORMAL, types[t], count);
    loop_case_attr(&c, LS_ATTR_F("mean", 0.0));
    loop_case_attr(&c, LS_ATTR_F("deviation", 0.5));
    HEAP(void, got) = loop_case_run(&c);
    const ls_random_source source = source_of(&c);
    for (int64_t i = 0; i < count; ++i) {
      const double x = types[t] == LS_DTYPE_F64 ? first_within_f64(&source, i)
                                                : first_within_f32(&source, i);
      loop_expect_near(&c, got, i, 0.5 * x, 0.5, 0);
    }
  }
}

TEST(truncated_normals_spread_as_they_should) {
  enum { COUNT = 200000 };
  LS_OWN(loop_case, c) =
      new_case(LS_OP_RANDOM_TRUNCATED_NORMAL, LS_DTYPE_F32, COUNT);
  loop_case_attr(&c, LS_ATTR_F("mean", 3.0));
  loop_case_attr(&c, LS_ATTR_F("deviation", 2.0));
  HEAP(float, got) = loop_case_run(&c);
  double sum = 0, squares = 0;
  for (int i = 0; i < COUNT; ++i) {
    const double x = ((double)got[i] - 3.0) / 2.0;
    assert_true(fabs(x) <= 2.0);
    sum += x;
    squares += x * x;
  }
  // 1 - 4 phi(2) / (Phi(2) - Phi(-2)); bounds are five deviations.
  assert_true(fabs(sum / COUNT) < 0.01);
  assert_true(fabs(squares / COUNT - 0.7737) < 0.01);
}

// ---- Bits ------------------------------------------------------------------
TEST(random_bits_are_the_words_of_the_blocks) {
  enum { COUNT = 16500 };
  for (int wide = 0; wide < 2; ++wide) {
    LS_OWN(loop_case, c) =
        new_case(LS_OP_RANDOM_BITS, wide ? LS_DTYPE_U64 : LS_DTYPE_U32, COUNT);
    HEAP(void, got) = loop_case_run(&c);
    const ls_random_source source = source_of(&c);
    for (uint64_t i = 0; i < COUNT; ++i) {
      uint32_t bits[4];
      ls_random_source_bits(&source, i / (wide ? 2 : 4), bits);
      if (wide) {
        const uint32_t *two = bits + i % 2 * 2;
        assert_true(((uint64_t *)got)[i] == ((uint64_t)two[0] << 32 | two[1]));
      } else {
        assert_true(((uint32_t *)got)[i] == bits[i % 4]);
      }
    }
  }
}

TEST(random_bits_of_floats_are_refused) {
  LS_OWN(loop_case, c) = new_case(LS_OP_RANDOM_BITS, LS_DTYPE_F32, 4);
  expect_status(loop_case_prepare(&c), LS_UNIMPLEMENTED,
                "op 'random_bits' has no CPU kernel for f32");
  loop_case_deinit(&c);
  c = new_case(LS_OP_RANDOM_PERMUTATION, LS_DTYPE_U8, 4);
  expect_status(loop_case_prepare(&c), LS_UNIMPLEMENTED,
                "op 'random_permutation' has no CPU kernel for u8");
}

// ---- Permutations ----------------------------------------------------------
static const uint64_t *keys_to_sort_by;

static int by_key(const void *a, const void *b) {
  const int64_t i = *(const int64_t *)a, k = *(const int64_t *)b;
  const uint64_t x = keys_to_sort_by[i], y = keys_to_sort_by[k];
  if (x != y) return x < y ? -1 : 1;
  return i < k ? -1 : i > k;
}

static void check_permutation(ls_dtype dtype, int64_t count) {
  LS_OWN(loop_case, c) = new_case(LS_OP_RANDOM_PERMUTATION, dtype, count);
  HEAP(void, got) = loop_case_run(&c);
  const ls_random_source source = source_of(&c);
  HEAP(uint64_t, keys) = malloc((size_t)count * sizeof(*keys) + 1);
  HEAP(int64_t, want) = malloc((size_t)count * sizeof(*want) + 1);
  assert_true(keys != NULL && want != NULL);
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits[4];
    ls_random_source_bits(&source, (uint64_t)i / 2, bits);
    keys[i] = (uint64_t)bits[i % 2 * 2] << 32 | bits[i % 2 * 2 + 1];
    want[i] = i;
  }
  keys_to_sort_by = keys;
  qsort(want, (size_t)count, sizeof(*want), by_key);
  for (int64_t i = 0; i < count; ++i)
    assert_true(loop_read(dtype, got, i) == (double)want[i]);
}

TEST(a_permutation_is_the_order_of_random_keys) {
  static const int64_t counts[] = {0, 1, 2, 3, 10, 257, 5000, 70000};
  for (size_t i = 0; i < LS_COUNT_OF(counts); ++i) {
    check_permutation(LS_DTYPE_I32, counts[i]);
    check_permutation(LS_DTYPE_I64, counts[i]);
  }
  check_permutation(LS_DTYPE_I32, (1 << 21) + 5);
}

TEST(every_order_of_three_comes_as_often) {
  enum { DRAWS = 3000 };
  int seen[27] = {0};
  for (int i = 0; i < DRAWS; ++i) {
    LS_OWN(loop_case, c) = new_case(LS_OP_RANDOM_PERMUTATION, LS_DTYPE_I32, 3);
    c.step = (uint64_t)i;
    HEAP(int32_t, got) = loop_case_run(&c);
    ++seen[9 * got[0] + 3 * got[1] + got[2]];
  }
  int orders = 0;
  for (int i = 0; i < 27; ++i)
    if (seen[i] != 0) {
      ++orders;
      assert_in_range(seen[i], DRAWS / 6 - 110, DRAWS / 6 + 110);
    }
  assert_int_equal(orders, 6);
}
