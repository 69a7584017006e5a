// SPDX-License-Identifier: Apache-2.0
#include "base/values/random.h"

#include <math.h>

#include "base/memory/allocator.h"
#include "base/memory/map.h"
#include "support/expect.h"

// From the known answers of the Random123 distribution.
TEST(philox_gives_the_published_answers) {
  static const struct {
    uint32_t counter[4];
    uint32_t key[2];
    uint32_t want[4];
  } rows[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    uint32_t out[4];
    ls_philox(rows[i].counter, rows[i].key, out);
    assert_memory_equal(out, rows[i].want, sizeof(out));
  }
}

TEST(every_part_of_a_key_and_the_block_count) {
  const uint64_t high = UINT64_C(1) << 40;
  const ls_random_key keys[] = {
      {0},
      {.seed = 1},
      {.seed = high},
      {.stream = 1},
      {.stream = high},
      {.step = 1},
      {.step = high},
      {.iteration = 1},
      {.iteration = high},
      {.id = 1},
      {.id = high},
      {.stream = 1, .step = 1},
      {.step = 1, .iteration = 1},
      {.stream = 1, .step = 1, .iteration = 1, .id = 1},
  };
  const uint64_t blocks[] = {0, 1, high};
  enum { COUNT = LS_COUNT_OF(keys) * LS_COUNT_OF(blocks) };
  uint32_t drawn[COUNT][4];
  for (size_t i = 0; i < COUNT; ++i) {
    const ls_random_key *key = &keys[i / LS_COUNT_OF(blocks)];
    ls_random_bits(key, blocks[i % LS_COUNT_OF(blocks)], drawn[i]);
    for (size_t k = 0; k < i; ++k) {
      assert_memory_not_equal(drawn[i], drawn[k], sizeof(drawn[i]));
    }
  }
}

TEST(a_source_draws_what_its_key_does_also_for_another_id) {
  ls_random_key key = {.seed = 5, .stream = 3, .step = 9, .id = 70};
  ls_random_source source = ls_random_source_make(&key);
  uint32_t want[4];
  uint32_t got[4];
  ls_random_bits(&key, 12, want);
  ls_random_source_bits(&source, 12, got);
  assert_memory_equal(got, want, sizeof(got));
  key.id = 71;
  source.id = 71;
  ls_random_bits(&key, 12, want);
  ls_random_source_bits(&source, 12, got);
  assert_memory_equal(got, want, sizeof(got));
}

TEST(uniforms_fill_zero_to_below_one) {
  assert_true(ls_random_uniform_f32(0) == 0);
  assert_true(ls_random_uniform_f32(0xFF) == 0);
  assert_true(ls_random_uniform_f32(UINT32_MAX) == 1.0F - 0x1p-24F);
  assert_true(ls_random_uniform_f32(1U << 31) == 0.5F);
  assert_true(ls_random_uniform_f64(0, 0x7FF) == 0);
  assert_true(ls_random_uniform_f64(UINT32_MAX, UINT32_MAX) == 1 - 0x1p-53);
  assert_true(ls_random_uniform_f64(1U << 30, 0) == 0.25);
}

static void expect_near(long double got, long double want, long double limit) {
  if (fabsl(got - want) > limit) {
    fail_msg("got %.20Lg, wanted %.20Lg", got, want);
  }
}

TEST(normals_are_what_the_formula_says) {
  const long double pi = acosl(-1.0L);
  static const uint32_t edges[] = {
      0,          1,          2,          0x1FFFFFFF, 0x20000000, 0x3FFFFFFF,
      0x40000000, 0x60000000, 0x7FFFFFFF, 0x80000000, 0xA0000001, 0xC0000000,
      0xDFFFFFFF, 0xE0000000, 0xB504F333, 0xB504F334, 0xFFFFFFFE, 0xFFFFFFFF};
  enum { EDGES = LS_COUNT_OF(edges), DRAWN = 5000 };
  for (uint64_t i = 0; i < EDGES * EDGES + DRAWN; ++i) {
    uint32_t bits[4];
    ls_random_bits(&(ls_random_key){.seed = 3}, i, bits);
    if (i < EDGES * EDGES) {
      bits[0] = bits[2] = edges[i % EDGES];
      bits[1] = bits[3] = edges[i / EDGES];
    }
    float narrow[4];
    double wide[2];
    ls_random_normals_f32(bits, narrow);
    ls_random_normals_f64(bits, wide);
    for (int pair = 0; pair < 4; pair += 2) {
      const long double radius =
          sqrtl(-2 * logl(((long double)bits[pair] + 1) * 0x1p-32L));
      const long double angle = 2 * pi * (long double)bits[pair + 1] * 0x1p-32L;
      expect_near(narrow[pair], radius * cosl(angle), 1.2e-6L);
      expect_near(narrow[pair + 1], radius * sinl(angle), 1.2e-6L);
    }
    const uint64_t u = (((uint64_t)bits[0] << 32 | bits[1]) >> 11) + 1;
    const uint64_t t = ((uint64_t)bits[2] << 32 | bits[3]) >> 11;
    const long double radius = sqrtl(-2 * logl((long double)u * 0x1p-53L));
    const long double angle = 2 * pi * (long double)t * 0x1p-53L;
    expect_near(wide[0], radius * cosl(angle), 6e-15L);
    expect_near(wide[1], radius * sinl(angle), 6e-15L);
  }
}

TEST(normals_have_the_moments_of_normals) {
  double sums[5] = {0};
  enum { BLOCKS = 50000 };
  for (uint64_t block = 0; block < BLOCKS; ++block) {
    uint32_t bits[4];
    float x[4];
    ls_random_bits(&(ls_random_key){.seed = 11, .stream = 2}, block, bits);
    ls_random_normals_f32(bits, x);
    for (int i = 0; i < 4; ++i) {
      const double v = (double)x[i];
      for (int power = 1; power <= 4; ++power)
        sums[power] += pow(v, power);
    }
  }
  const double n = 4.0 * BLOCKS;  // Limits are four standard deviations.
  expect_near(sums[1] / n, 0, 4 * sqrt(1 / n));
  expect_near(sums[2] / n, 1, 4 * sqrt(2 / n));
  expect_near(sums[3] / n, 0, 4 * sqrt(15 / n));
  expect_near(sums[4] / n, 3, 4 * sqrt(96 / n));
}

// The same on every machine and with every compiler: a seed is a promise.
TEST(bits_of_normals_never_change) {
  uint64_t hash = 0;
  for (uint64_t block = 0; block < 1000; ++block) {
    uint32_t bits[4];
    float narrow[4];
    double wide[2];
    ls_random_bits(&(ls_random_key){1, 2, 3, 4, 5}, block, bits);
    ls_random_normals_f32(bits, narrow);
    ls_random_normals_f64(bits, wide);
    hash = ls_hash(narrow, sizeof(narrow), hash);
    hash = ls_hash(wide, sizeof(wide), hash);
  }
  assert_int_equal(hash, UINT64_C(0xf30fdb52659fac2d));
}
