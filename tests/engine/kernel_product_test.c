// SPDX-License-Identifier: Apache-2.0
//
// Products of every table against one chain of fused multiply-adds in plain C,
// to the bit, and against doubles. (Cuts, views and places in memory:
// numerics/product_cut_test.c.)
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/expect.h"
#include "support/floats.h"
#include "support/kernel_tables.h"
#include "support/sanitizer.h"

// A product with its arrays, in floats and in doubles.
typedef struct {
  ls_cpu_product f32, f64;
  float *a, *b, *c, *bias, *want;
  double *a64, *b64, *c64, *bias64, *want64;
  size_t a_size, b_size, c_size;
  char text[96];
} product_case;

static double *widened(const float *src, size_t n) {
  double *p = floats_allocate(n * sizeof *p);
  // Low bits that a float does not have, so that doubles are really used.
  for (size_t i = 0; i < n; ++i)
    p[i] = (double)src[i] * (1.0 + 0x1p-40);
  return p;
}

// `extra` widens each stored row; the last row has no such end.
static size_t stored_size(size_t rows, size_t stride, size_t columns) {
  return rows == 0 ? 0 : (rows - 1) * stride + columns;
}

static size_t a_index(const ls_cpu_product *p, size_t i, size_t k) {
  return p->a_transposed ? k * p->lda + i : i * p->lda + k;
}

static size_t b_index(const ls_cpu_product *p, size_t k, size_t j) {
  return p->b_transposed ? j * p->ldb + k : k * p->ldb + j;
}

static void compute_want(product_case *t) {
  const ls_cpu_product *p = &t->f32;
  for (size_t i = 0; i < p->m; ++i) {
    for (size_t j = 0; j < p->n; ++j) {
      float x = 0.0f;
      double y = 0.0;
      for (size_t k = 0; k < p->k; ++k) {
        const size_t at_a = a_index(p, i, k), at_b = b_index(p, k, j);
        x = fmaf(t->a[at_a], t->b[at_b], x);
        y = fma(t->a64[at_a], t->b64[at_b], y);
      }
      if (p->bias != NULL) {
        x += t->bias[j];
        y += t->bias64[j];
      }
      if (p->activation == LS_CPU_ACTIVATION_RELU) {
        x = 0.0f > x ? 0.0f : x;
        y = 0.0 > y ? 0.0 : y;
      }
      const size_t at = i * p->ldc + j;
      t->want[at] = p->accumulate ? t->c[at] + x : x;
      t->want64[at] = p->accumulate ? t->c64[at] + y : y;
    }
  }
}

// `epilogue` and `transposes` are sets of bits.
static product_case new_product(size_t m, size_t n, size_t k,
                                unsigned transposes, unsigned epilogue,
                                size_t extra) {
  product_case t = {0};
  ls_cpu_product *p = &t.f32;
  *p = (ls_cpu_product){
      .m = m,
      .n = n,
      .k = k,
      .activation =
          (epilogue & 2) != 0 ? LS_CPU_ACTIVATION_RELU : LS_CPU_ACTIVATION_NONE,
      .accumulate = (epilogue & 4) != 0,
      .a_transposed = (transposes & 1) != 0,
      .b_transposed = (transposes & 2) != 0,
  };
  p->lda = (p->a_transposed ? m : k) + extra;
  p->ldb = (p->b_transposed ? k : n) + 2 * extra;
  p->ldc = n + 3 * extra;
  t.a_size =
      p->a_transposed ? stored_size(k, p->lda, m) : stored_size(m, p->lda, k);
  t.b_size =
      p->b_transposed ? stored_size(n, p->ldb, k) : stored_size(k, p->ldb, n);
  t.c_size = stored_size(m, p->ldc, n);
  t.a = floats_create(t.a_size);
  t.b = floats_create(t.b_size);
  t.c = floats_create(t.c_size);
  t.bias = floats_create(n);
  t.a64 = widened(t.a, t.a_size);
  t.b64 = widened(t.b, t.b_size);
  t.c64 = widened(t.c, t.c_size);
  t.bias64 = widened(t.bias, n);
  p->a = t.a;
  p->b = t.b;
  p->bias = (epilogue & 1) != 0 ? t.bias : NULL;
  t.f64 = *p;
  t.f64.a = t.a64;
  t.f64.b = t.b64;
  t.f64.bias = p->bias != NULL ? t.bias64 : NULL;
  // What lies between the rows must stay as it is.
  t.want = floats_copy(t.c, t.c_size);
  t.want64 = widened(t.c, t.c_size);
  compute_want(&t);
  snprintf(t.text, sizeof t.text, "%zux%zux%zu transposes %u epilogue %u +%zu",
           m, n, k, transposes, epilogue, extra);
  return t;
}

static void free_product(product_case *t) {
  free(t->a);
  free(t->b);
  free(t->c);
  free(t->bias);
  free(t->want);
  free(t->a64);
  free(t->b64);
  free(t->c64);
  free(t->bias64);
  free(t->want64);
}
LS_OWNED_STRUCT(product_case, free_product)

// Runs the blocks of a cut at the given row and column.
static void run_cut(ls_cpu_product_fn *run, const ls_cpu_product *p,
                    void *scratch, size_t row, size_t column) {
  run(p, &(ls_cpu_block){row, p->m, column, p->n}, scratch);
  run(p, &(ls_cpu_block){0, row, column, p->n}, scratch);
  run(p, &(ls_cpu_block){row, p->m, 0, column}, scratch);
  run(p, &(ls_cpu_block){0, row, 0, column}, scratch);
}

static void check_f32(const ls_cpu_kernels *table, const product_case *t,
                      size_t row, size_t column) {
  ls_cpu_product p = t->f32;
  HEAP(float, c) = floats_copy(t->c, t->c_size);
  p.c = c;
  HEAP(void, scratch) = floats_allocate(table->product_f32_scratch(&p));
  run_cut(table->product_f32, &p, scratch, row, column);
  expect_same_floats(t->text, table->name, c, t->want, t->c_size);
}

static void check_f64(const ls_cpu_kernels *table, const product_case *t,
                      size_t row, size_t column) {
  ls_cpu_product p = t->f64;
  HEAP(double, c) = widened(t->c, t->c_size);
  p.c = c;
  HEAP(void, scratch) = floats_allocate(table->product_f64_scratch(&p));
  run_cut(table->product_f64, &p, scratch, row, column);
  for (size_t i = 0; i < t->c_size; ++i) {
    if (memcmp(&c[i], &t->want64[i], sizeof *c) != 0) {
      fail_msg("f64 %s, table %s: [%zu] is %a, want %a", t->text, table->name,
               i, c[i], t->want64[i]);
    }
  }
}

static void check_product(size_t m, size_t n, size_t k, unsigned transposes,
                          unsigned epilogue, size_t extra) {
  LS_OWN(product_case, t) = new_product(m, n, k, transposes, epilogue, extra);
  for (size_t i = 0; i < kernel_tables_here.count; ++i) {
    check_f32(kernel_tables_here.at[i], &t, 0, 0);
    check_f64(kernel_tables_here.at[i], &t, 0, 0);
    // The same again in four blocks.
    const size_t row = floats_random_below(m + 1),
                 column = floats_random_below(n + 1);
    check_f32(kernel_tables_here.at[i], &t, row, column);
    check_f64(kernel_tables_here.at[i], &t, row, column);
  }
}

TEST(product_is_one_fma_chain_for_every_tail) {
  unsigned turn = 0;
  for (size_t m = 1; m <= 14; m += LS_SANITIZED ? 3 : 1) {
    for (size_t n = 1; n <= 67; n += n < 34 ? (LS_SANITIZED ? 5 : 3) : 11) {
      check_product(m, n, 1 + floats_random_below(40), turn % 4, turn / 4 % 8,
                    turn % 3);
      ++turn;
    }
  }
}

TEST(product_is_one_fma_chain_for_every_way_to_store_it) {
  for (unsigned turn = 0; turn < 4 * 8 * 2; turn += LS_SANITIZED ? 5 : 1) {
    check_product(1 + floats_random_below(60), 1 + floats_random_below(80),
                  1 + floats_random_below(60), turn % 4, turn / 4 % 8,
                  turn / 32 * (1 + floats_random_below(20)));
  }
}

// Shapes on both sides of each size that the implementation blocks by; at last
// strips of A, and B where it is and in few sets of a cache.
TEST(product_is_one_fma_chain_across_its_blocks) {
  static const size_t shapes[][3] = {
      {13, 33, 255},  {13, 33, 256}, {13, 33, 257},  {5, 40, 513},
      {50, 34, 300},  {14, 270, 30}, {60, 300, 260}, {3, 1030, 259},
      {520, 35, 258}, {520, 9, 4},   {1, 1030, 5},   {98, 129, 257},
      {50, 288, 9},   {50, 1024, 9},
  };
  unsigned turn = 0;
  for (size_t i = 0; i < LS_COUNT_OF(shapes); ++i) {
    unsigned transposes = LS_SANITIZED ? (unsigned)i % 4 : 0;
    const unsigned end = LS_SANITIZED ? transposes + 1 : 4;
    for (; transposes < end; ++transposes, turn += 3) {
      // Accumulating takes another path where k is in several blocks.
      const unsigned epilogue = (turn % 8) ^ (transposes % 2 == 0 ? 4u : 0u);
      check_product(shapes[i][0], shapes[i][1], shapes[i][2], transposes,
                    epilogue, transposes == 3 ? 1 : 0);
    }
  }
}

// Rows of A that share few sets of a cache, each a value of k: strips are
// copied that tiles read where they are elsewhere.
TEST(product_does_not_show_where_a_is) {
  for (unsigned epilogue = 0; epilogue < 8; epilogue += 4) {
    check_product(98, 129, 257, 1, epilogue, 1024 - 98);
    check_product(98, 129, 257, 1, epilogue, 0);
  }
}

// One column, which is multiplied as a row.
TEST(product_with_one_column_is_one_fma_chain) {
  for (unsigned turn = 0; turn < 8; ++turn)
    check_product(1 + floats_random_below(600), 1, 1 + floats_random_below(600),
                  turn % 2 * 2 + 1, turn & 6, 0);
}

TEST(product_without_terms_is_the_epilogue_of_zeros) {
  for (unsigned epilogue = 0; epilogue < 8; ++epilogue) {
    for (unsigned transposes = 0; transposes < 4; ++transposes) {
      check_product(7, 19, 0, transposes, epilogue, 1);
    }
  }
}

TEST(product_without_terms_needs_no_operands) {
  for (size_t i = 0; i < kernel_tables_here.count; ++i) {
    float c[7 * 19];
    memset(c, 0xff, sizeof(c));
    const ls_cpu_product p = {
        .m = 7, .n = 19, .c = c, .lda = 1, .ldb = 19, .ldc = 19};
    void *scratch =
        floats_allocate(kernel_tables_here.at[i]->product_f32_scratch(&p));
    run_cut(kernel_tables_here.at[i]->product_f32, &p, scratch, 0, 0);
    free(scratch);
    for (size_t k = 0; k < LS_COUNT_OF(c); ++k)
      assert_true(c[k] == 0);
  }
}

TEST(product_without_outputs_touches_nothing) {
  check_product(0, 5, 3, 0, 7, 0);
  check_product(5, 0, 3, 2, 7, 0);
}

TEST(product_is_close_to_one_in_doubles) {
  LS_OWN(product_case, t) = new_product(33, 65, 300, 2, 7, 0);
  HEAP(double, want) = floats_allocate(t.c_size * sizeof *want);
  memcpy(want, t.want64, t.c_size * sizeof *want);
  for (size_t i = 0; i < kernel_tables_here.count; ++i) {
    ls_cpu_product p = t.f32;
    HEAP(float, c) = floats_copy(t.c, t.c_size);
    p.c = c;
    HEAP(void, scratch) =
        floats_allocate(kernel_tables_here.at[i]->product_f32_scratch(&p));
    run_cut(kernel_tables_here.at[i]->product_f32, &p, scratch, 0, 0);
    expect_near_floats(t.text, kernel_tables_here.at[i]->name, c, want,
                       300 * 0x1p-24, t.c_size);
  }
}

TEST(product_relu_lets_a_nan_through) {
  for (size_t i = 0; i < kernel_tables_here.count; ++i) {
    const float a[2] = {NAN, -1.0f}, b[1] = {1.0f};
    float c[2] = {0};
    const ls_cpu_product p = {
        .m = 2,
        .n = 1,
        .k = 1,
        .a = a,
        .b = b,
        .c = c,
        .lda = 1,
        .ldb = 1,
        .ldc = 1,
        .activation = LS_CPU_ACTIVATION_RELU,
    };
    void *scratch =
        floats_allocate(kernel_tables_here.at[i]->product_f32_scratch(&p));
    run_cut(kernel_tables_here.at[i]->product_f32, &p, scratch, 0, 0);
    free(scratch);
    assert_true(isnan(c[0]));
    assert_true(c[1] == 0.0f);
  }
}

TEST_FILE(.set_up = kernel_tables_set_up)
