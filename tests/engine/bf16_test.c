// SPDX-License-Identifier: Apache-2.0
// Products of operands that are rounded to bf16.
#include "support/expect.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads/workers.h"
#include "engine/cpu/kernels.h"
#include "support/floats.h"
#include "support/loop_case.h"

static float *random_floats(size_t count, loop_random *random) {
  float *data = malloc((count + 1) * sizeof(*data));
  assert_non_null(data);
  for (size_t i = 0; i < count; ++i)
    data[i] = (float)loop_random_between(random, -999999, 999999) * 1.5e-6F;
  return data;
}

static float rounded(float x) {
  return fabsf(x) < FLT_MIN ? 0 : rounded_to_bf16(x);
}

// Element (row, k) of A, by the definition of a view.
static float a_at(const ls_cpu_product *p, size_t m, size_t k) {
  ptrdiff_t at = (ptrdiff_t)(p->a_transposed ? k * p->lda + m : m * p->lda + k);
  if (p->m_line > 0) at += (ptrdiff_t)(m / p->m_line) * p->m_skip;
  if (p->k_line > 0) at += (ptrdiff_t)(k / p->k_line) * p->k_skip;
  return rounded(((const float *)p->a)[at]);
}

static float b_at(const ls_cpu_product *p, size_t k, size_t n) {
  const float *b = p->b;
  return rounded(p->b_transposed ? b[n * p->ldb + k] : b[k * p->ldb + n]);
}

static float reference(const ls_cpu_product *p, size_t m, size_t n,
                       float before) {
  float sum = 0;
  for (size_t k = 0; k < p->k; k += 2) {
    if (k + 1 < p->k) sum = fmaf(a_at(p, m, k + 1), b_at(p, k + 1, n), sum);
    sum = fmaf(a_at(p, m, k), b_at(p, k, n), sum);
  }
  if (p->bias != NULL) sum += ((const float *)p->bias)[n];
  if (p->activation == LS_CPU_ACTIVATION_RELU && sum < 0) sum = 0;
  return p->accumulate ? before + sum : sum;
}

// All tables, the last one with the instruction if the machine has it.
enum { TABLES = 4 };
static size_t tables(ls_cpu_kernels *out) {
  static const char *const names[] = {"base", "v3", "v4", "v4"};
  size_t count = 0;
  for (size_t i = 0; i < TABLES; ++i) {
    const ls_cpu_kernels *table = ls_cpu_kernels_find(names[i]);
    if (table == NULL) continue;
    out[count] = *table;
    if (i == TABLES - 1) {
      ls_cpu_kernels_use_bf16(&out[count]);
    } else {
      out[count].product = table->product_bf16;
      out[count].product_scratch = table->product_bf16_scratch;
    }
    ++count;
  }
  return count;
}

static void check(const ls_cpu_product *product, loop_random *random) {
  ls_cpu_kernels all[TABLES];
  const size_t count = tables(all), size = product->m * product->n;
  HEAP(float, before) = random_floats(size, random);
  HEAP(float, c) = random_floats(size, random);
  HEAP(float, want) = malloc((size + 1) * sizeof(*want));
  assert_non_null(want);
  for (size_t i = 0; i < size; ++i)
    want[i] = reference(product, i / product->n, i % product->n, before[i]);
  for (size_t t = 0; t < count; ++t) {
    ls_cpu_product p = *product;
    p.c = c;
    p.ldc = p.n;
    memcpy(c, before, size * sizeof(*c));
    HEAP(void, scratch) = malloc(all[t].product_scratch(&p) + 1);
    assert_non_null(scratch);
    // Cuts leave no trace.
    const size_t m = p.m / 3, n = p.n / 2;
    const ls_cpu_block blocks[] = {
        {0, m, 0, n}, {0, m, n, p.n}, {m, p.m, 0, n}, {m, p.m, n, p.n}};
    for (size_t i = 0; i < LS_COUNT_OF(blocks); ++i)
      all[t].product(&p, &blocks[i], scratch);
    assert_memory_equal(c, want, size * sizeof(*c));
  }
}

TEST(every_table_adds_pairs_in_order) {
  const uint64_t mode = ls_float_mode_enter();
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 60; ++round) {
    const size_t m = (size_t)loop_random_between(&random, 1, 60);
    const size_t n = (size_t)loop_random_between(&random, 1, 90);
    const size_t k = (size_t)loop_random_between(&random, 0, 80);
    ls_cpu_product p = {.m = m,
                        .n = n,
                        .k = round % 20 == 0 ? 1101 : k,
                        .a_transposed = round % 2 == 1,
                        .b_transposed = round % 4 > 1,
                        .accumulate = round % 3 == 0,
                        .activation = round % 5 == 0 ? LS_CPU_ACTIVATION_RELU
                                                     : LS_CPU_ACTIVATION_NONE};
    p.lda = (p.a_transposed ? p.m : p.k) + 3;
    p.ldb = (p.b_transposed ? p.k : p.n) + 1;
    HEAP(float, a) = random_floats((p.m + 4) * (p.k + 4), &random);
    HEAP(float, b) = random_floats((p.n + 4) * (p.k + 4), &random);
    HEAP(float, bias) = random_floats(p.n, &random);
    p.a = a;
    p.b = b;
    p.bias = round % 7 < 3 ? bias : NULL;
    check(&p, &random);
  }
  ls_float_mode_leave(mode);
}

// Denormals that would be rounded to the least normal number.
TEST(denormals_are_zeros_in_every_table) {
  enum { M = 20, N = 33, K = 77 };
  const uint64_t mode = ls_float_mode_enter();
  loop_random random = {loop_random_seed()};
  const uint32_t largest = 0x007fffff;
  float a[M * K], b[K * N];
  for (size_t i = 0; i < LS_COUNT_OF(a); ++i)
    memcpy(&a[i], &largest, sizeof(a[i]));
  for (size_t i = 0; i < LS_COUNT_OF(b); ++i)
    b[i] = 1e38F;
  for (int i = 0; i < 4; ++i) {
    ls_cpu_product p = {.m = M, .n = N, .k = K, .a = a, .b = b};
    p.a_transposed = i % 2 != 0;
    p.b_transposed = i > 1;
    p.lda = p.a_transposed ? M : K;
    p.ldb = p.b_transposed ? K : N;
    check(&p, &random);
  }
  ls_float_mode_leave(mode);
}

TEST(a_view_is_read_where_it_is) {
  const uint64_t mode = ls_float_mode_enter();
  loop_random random = {loop_random_seed()};
  float *a = random_floats(40 * 40 * 8, &random);
  float *b = random_floats(1000 * 40, &random);
  // Lines of 7 rows and of 14 values of k, as a convolution has them.
  for (int turned = 0; turned < 2; ++turned) {
    ls_cpu_product p = {.m = 28,
                        .n = 33,
                        .k = 42,
                        .a = a,
                        .b = b,
                        .lda = 5,
                        .ldb = 33,
                        .m_line = 7,
                        .m_skip = 9,
                        .k_line = 14,
                        .k_skip = 30};
    if (turned != 0) {
      p.a_transposed = true;
      p.m_line = 14;
      p.m_skip = 31;
      p.k_line = 6;
      p.k_skip = 40;
    }
    check(&p, &random);
  }
  free(a);
  free(b);
  ls_float_mode_leave(mode);
}

// 3 by 3 taps on 6 channels of lines of 10 places.
TEST(taps_share_what_a_view_reads) {
  const uint64_t mode = ls_float_mode_enter();
  loop_random random = {loop_random_seed()};
  float *a = random_floats(6 * 60, &random);
  float *b = random_floats(54 * 40, &random);
  const ls_cpu_product pixels = {.m = 4 * 8,
                                 .n = 40,
                                 .k = 54,
                                 .a = a,
                                 .b = b,
                                 .lda = 6,
                                 .ldb = 40,
                                 .m_line = 8,
                                 .m_skip = 12,
                                 .k_line = 18,
                                 .k_skip = 42};
  check(&pixels, &random);
  const ls_cpu_product taps = {.m = 54,
                               .n = 40,
                               .k = 4 * 8,
                               .a = a,
                               .b = b,
                               .lda = 6,
                               .ldb = 40,
                               .a_transposed = true,
                               .m_line = 18,
                               .m_skip = 42,
                               .k_line = 8,
                               .k_skip = 12};
  check(&taps, &random);
  free(a);
  free(b);
  ls_float_mode_leave(mode);
}
