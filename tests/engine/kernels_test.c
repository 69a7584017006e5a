// SPDX-License-Identifier: Apache-2.0
//
// Tables of kernels: which there are, and their conversions, elementwise
// kernels, sums and moves, to the bit where an order is promised. (Others:
// kernel_product_test.c and kernel_rows_test.c; elementary functions:
// numerics/elementary_test.c.)
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/expect.h"
#include "support/floats.h"
#include "support/kernel_tables.h"

// ---- Tables -----------------------------------------------------------------

TEST(best_table_is_one_that_can_be_found) {
  const ls_cpu_kernels *best = ls_cpu_kernels_best();
  assert_non_null(best);
  assert_ptr_equal(ls_cpu_kernels_find(best->name), best);
  assert_ptr_equal(kernel_tables_here.at[kernel_tables_here.count - 1], best);
}

TEST(base_table_is_always_there_and_unknown_ones_are_not) {
  assert_non_null(ls_cpu_kernels_find("base"));
  assert_string_equal(ls_cpu_kernels_find("base")->name, "base");
  assert_null(ls_cpu_kernels_find("v5"));
  assert_null(ls_cpu_kernels_find(""));
}

// ---- 16-bit floats ----------------------------------------------------------

// Floats at equal distances over all bit patterns: all signs, sizes, NaNs.
#define SAMPLE_STRIDE 16411u
#define SAMPLE_COUNT ((size_t)(UINT32_MAX / SAMPLE_STRIDE))

static float *new_samples(void) {
  float *x = floats_allocate(SAMPLE_COUNT * sizeof *x);
  for (size_t i = 0; i < SAMPLE_COUNT; ++i) {
    const uint32_t bits = (uint32_t)i * SAMPLE_STRIDE;
    memcpy(&x[i], &bits, sizeof bits);
  }
  return x;
}

static void check_half(size_t n, const float *x, const uint16_t *halves) {
  for (size_t i = 0; i < kernel_tables_here.count; ++i) {
    const ls_cpu_kernels *t = kernel_tables_here.at[i],
                         *base = kernel_tables_here.at[0];
    HEAP(float, wide) = floats_allocate(n * sizeof *wide);
    HEAP(float, want) = floats_allocate(n * sizeof *x);
    t->widen_f16(wide, halves, n);
    base->widen_f16(want, halves, n);
    expect_same_floats("widen_f16", t->name, wide, want, n);
    t->widen_bf16(wide, halves, n);
    base->widen_bf16(want, halves, n);
    expect_same_floats("widen_bf16", t->name, wide, want, n);
    HEAP(uint16_t, got) = floats_allocate(n * sizeof *got);
    HEAP(uint16_t, as) = floats_allocate(n * sizeof *as);
    t->narrow_f16(got, x, n);
    base->narrow_f16(as, x, n);
    assert_memory_equal(got, as, n * sizeof *got);
    t->narrow_bf16(got, x, n);
    base->narrow_bf16(as, x, n);
    assert_memory_equal(got, as, n * sizeof *got);
  }
}

TEST(halves_convert_alike_in_every_table) {
  HEAP(float, x) = new_samples();
  HEAP(uint16_t, halves) = floats_allocate(65536 * sizeof *halves);
  for (size_t i = 0; i < 65536; ++i)
    halves[i] = (uint16_t)i;
  check_half(65536, x, halves);
  check_half(65536, x + SAMPLE_COUNT - 65536, halves);
  for (size_t n = 0; n < 40; ++n) {
    HEAP(float, few) = floats_copy(x + 70000, n);
    HEAP(uint16_t, few_halves) = floats_allocate(n * sizeof *few_halves);
    memcpy(few_halves, halves + 20000, n * sizeof *few_halves);
    check_half(n, few, few_halves);
  }
}

// ---- Elementwise and sums ---------------------------------------------------

TEST(elementwise_kernels_are_their_formulas) {
  for (size_t n = 0; n < 70; ++n) {
    HEAP(float, a) = floats_create(n);
    HEAP(float, b) = floats_create(n);
    HEAP(float, sum) = floats_copy(a, n);
    HEAP(float, step) = floats_copy(a, n);
    for (size_t i = 0; i < n; ++i) {
      if (i % 7 == 3) b[i] = i % 2 == 0 ? 0.0f : -0.0f;
      const float scaled = 0.3f * b[i];
      sum[i] = a[i] + b[i];
      step[i] = a[i] - scaled;
    }
    for (size_t i = 0; i < kernel_tables_here.count; ++i) {
      const ls_cpu_kernels *table = kernel_tables_here.at[i];
      HEAP(float, got) = floats_copy(a, n);
      table->add(got, got, b, n);
      expect_same_floats("add", table->name, got, sum, n);
      table->sgd(got, a, b, 0.3f, n);
      expect_same_floats("sgd", table->name, got, step, n);
    }
  }
}

// ---- Moves ------------------------------------------------------------------

// Long rows are copied by vectors, from any address to any other.
TEST(rows_of_any_length_and_address_are_copied_in_every_table) {
  enum { MOST = 5000, ROOM = MOST + 256 };
  static const size_t lengths[] = {0,    1,    17,   63,   2047, 2048,
                                   2049, 2111, 2112, 2113, 4097, MOST};
  static const size_t offsets[] = {0, 1, 8, 16, 63, 64, 65, 127};
  HEAP(uint8_t, in) = floats_allocate(ROOM);
  HEAP(uint8_t, got) = floats_allocate(ROOM);
  HEAP(uint8_t, want) = floats_allocate(ROOM);
  for (size_t i = 0; i < ROOM; ++i)
    in[i] = (uint8_t)(i * 2654435761U >> 16);
  for (size_t t = 0; t < kernel_tables_here.count; ++t)
    for (size_t n = 0; n < LS_COUNT_OF(lengths); ++n)
      for (size_t k = 0; k < 64; ++k) {
        const size_t to = offsets[k / 8], from = offsets[k % 8];
        const ls_cpu_move row = {.rows = 1,
                                 .columns = (int64_t)lengths[n],
                                 .out_column = 1,
                                 .in_column = 1};
        memset(got, 0xA5, ROOM);
        memset(want, 0xA5, ROOM);
        memcpy(want + to, in + from, lengths[n]);
        kernel_tables_here.at[t]->moves->of_size[1](got + to, in + from, &row);
        assert_memory_equal(got, want, ROOM);
      }
}

// On x86-64 plain C does what vectors do to the sign of a NaN, which nobody
// promises; but bytes that are alike are easier to compare.
TEST(a_nan_keeps_its_sign_in_functions) {
#if defined(__x86_64__)
  for (size_t i = 0; i < kernel_tables_here.count; ++i) {
    const ls_cpu_kernels *t = kernel_tables_here.at[i];
    static const uint16_t ops[] = {LS_OP_EXP,  LS_OP_EXPM1, LS_OP_LOG1P,
                                   LS_OP_TANH, LS_OP_SIN,   LS_OP_COS,
                                   LS_OP_TAN,  LS_OP_ERFC,  LS_OP_CBRT};
    for (size_t f = 0; f < LS_COUNT_OF(ops); ++f) {
      const float x[2] = {NAN, -NAN};
      float y[2];
      kernel_tables_run(t, ops[f], y, x, 2);
      for (size_t k = 0; k < 2; ++k)
        if (!isnan(y[k]) || !signbit(y[k]) != !signbit(x[k]))
          fail_msg("%s of %s", ls_op_table[ops[f]].name, t->name);
    }
  }
#endif
}

TEST_FILE(.set_up = kernel_tables_set_up)
