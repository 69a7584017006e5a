// SPDX-License-Identifier: Apache-2.0
//
// Tables of kernels: which there are, and their conversions, elementwise
// kernels and sums, to the bit where an order is promised. (Others:
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
    HEAP(float, back) = floats_copy(a, n);
    for (size_t i = 0; i < n; ++i) {
      if (i % 7 == 3) b[i] = i % 2 == 0 ? 0.0f : -0.0f;
      const float scaled = 0.3f * b[i];
      sum[i] = a[i] + b[i];
      step[i] = a[i] - scaled;
      back[i] = b[i] > 0.0f ? a[i] : 0.0f;
    }
    for (size_t i = 0; i < kernel_tables_here.count; ++i) {
      const ls_cpu_kernels *table = kernel_tables_here.at[i];
      HEAP(float, got) = floats_copy(a, n);
      table->add(got, got, b, n);
      expect_same_floats("add", table->name, got, sum, n);
      table->sgd(got, a, b, 0.3f, n);
      expect_same_floats("sgd", table->name, got, step, n);
      table->relu_grad(got, a, b, n);
      expect_same_floats("relu_grad", table->name, got, back, n);
    }
  }
}

TEST(column_sums_add_rows_in_order) {
  static const size_t columns_of[] = {1, 10, 16, 31, 32, 64, 129, 300};
  for (size_t s = 0; s < LS_COUNT_OF(columns_of); ++s) {
    for (size_t rows = 0; rows < 20; rows += 1 + rows) {
      const size_t columns = columns_of[s], stride = columns + rows % 3;
      HEAP(float, x) =
          floats_create(rows == 0 ? 0 : (rows - 1) * stride + columns);
      HEAP(float, old) = floats_create(columns);
      HEAP(float, want) = floats_create(columns);
      for (int accumulate = 0; accumulate < 2; ++accumulate) {
        for (size_t j = 0; j < columns; ++j) {
          float sum = 0.0f;
          for (size_t i = 0; i < rows; ++i)
            sum += x[i * stride + j];
          want[j] = accumulate != 0 ? old[j] + sum : sum;
        }
        for (size_t i = 0; i < kernel_tables_here.count; ++i) {
          HEAP(float, got) = floats_copy(old, columns);
          kernel_tables_here.at[i]->column_sums(got, x, rows, columns, stride,
                                                accumulate != 0);
          expect_same_floats("column_sums", kernel_tables_here.at[i]->name, got,
                             want, columns);
        }
      }
    }
  }
}

TEST(sum_runs_in_sixteen_partial_sums) {
  for (size_t n = 0; n < 300; n += 1 + n / 20) {
    float *x = floats_create(n), partial[16] = {0};
    for (size_t i = 0; i < n; ++i)
      partial[i % 16] += x[i];
    for (size_t w = 8; w > 0; w /= 2) {
      for (size_t j = 0; j < w; ++j)
        partial[j] += partial[j + w];
    }
    for (size_t i = 0; i < kernel_tables_here.count; ++i) {
      const float got = kernel_tables_here.at[i]->sum(x, n);
      expect_same_floats("sum", kernel_tables_here.at[i]->name, &got, partial,
                         1);
    }
    free(x);
  }
}

TEST(max_sees_every_element_and_every_nan) {
  for (size_t n = 0; n < 70; ++n) {
    HEAP(float, x) = floats_create(n);
    for (size_t i = 0; i < kernel_tables_here.count; ++i) {
      float want = -INFINITY;
      for (size_t k = 0; k < n; ++k)
        want = x[k] > want ? x[k] : want;
      assert_true(kernel_tables_here.at[i]->max(x, n) == want);
      for (size_t k = 0; k < n; ++k) {
        const float old = x[k];
        x[k] = 3.0f;
        assert_true(kernel_tables_here.at[i]->max(x, n) == 3.0f);
        x[k] = NAN;
        assert_true(isnan(kernel_tables_here.at[i]->max(x, n)));
        x[k] = old;
      }
    }
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
