// SPDX-License-Identifier: Apache-2.0
//
// Each table of kernels against plain C: bytes where an order is promised,
// errors in ulp or against doubles elsewhere, and the tables against each
// other. Arrays are allocated to the byte, so that a sanitizer sees a kernel
// that reaches past a tail.

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "engine/cpu/kernels.h"

#define COUNT_OF(a) (sizeof(a) / sizeof *(a))
#define MAX_TABLES 3

static const ls_cpu_kernels *tables[MAX_TABLES];
static size_t table_count;

static int find_tables(void **state) {
  (void)state;
  static const char *const names[MAX_TABLES] = {"base", "v3", "v4"};
  for (size_t i = 0; i < MAX_TABLES; ++i) {
    const ls_cpu_kernels *table = ls_cpu_kernels_find(names[i]);
    if (table != NULL) tables[table_count++] = table;
  }
  return 0;
}

static uint64_t random_state = 0x9e3779b97f4a7c15u;

static uint32_t random_bits(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (uint32_t)(random_state >> 32);
}

static size_t random_below(size_t n) { return random_bits() % n; }

static float random_unit(void) {
  return (float)(random_bits() >> 8) / 8388608.0f - 1.0f;
}

static void *allocate(size_t bytes) {
  void *p = malloc(bytes > 0 ? bytes : 1);
  if (p == NULL) fail_msg("no memory for %zu bytes", bytes);
  return p;
}

static float *new_floats(size_t n) {
  float *p = allocate(n * sizeof *p);
  for (size_t i = 0; i < n; ++i)
    p[i] = random_unit();
  return p;
}

static float *copy_of(const float *src, size_t n) {
  float *p = allocate(n * sizeof *p);
  if (n > 0) memcpy(p, src, n * sizeof *p);
  return p;
}

// Fails at the first float that differs in bits; NaNs are all alike.
static void expect_same(const char *what, const char *table, const float *got,
                        const float *want, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if (isnan(got[i]) && isnan(want[i])) continue;
    if (memcmp(&got[i], &want[i], sizeof *got) != 0) {
      fail_msg("%s, table %s: [%zu] is %a, want %a", what, table, i,
               (double)got[i], (double)want[i]);
    }
  }
}

static void expect_near(const char *what, const char *table, const float *got,
                        const double *want, double tolerance, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if (!(fabs((double)got[i] - want[i]) <= tolerance)) {
      fail_msg("%s, table %s: [%zu] is %.9g, want %.9g", what, table, i,
               (double)got[i], want[i]);
    }
  }
}

// --- Tables ---

static void best_table_is_one_that_can_be_found(void **state) {
  (void)state;
  const ls_cpu_kernels *best = ls_cpu_kernels_best();
  assert_non_null(best);
  assert_ptr_equal(ls_cpu_kernels_find(best->name), best);
  assert_ptr_equal(tables[table_count - 1], best);
}

static void base_table_is_always_there_and_unknown_ones_are_not(void **state) {
  (void)state;
  assert_non_null(ls_cpu_kernels_find("base"));
  assert_string_equal(ls_cpu_kernels_find("base")->name, "base");
  assert_null(ls_cpu_kernels_find("v5"));
  assert_null(ls_cpu_kernels_find(""));
}

// --- Products ---

// A product with its arrays, in floats and in doubles.
typedef struct {
  ls_cpu_product f32, f64;
  float *a, *b, *c, *bias, *want;
  double *a64, *b64, *c64, *bias64, *want64;
  size_t a_size, b_size, c_size;
  char text[96];
} product_case;

static double *widened(const float *src, size_t n) {
  double *p = allocate(n * sizeof *p);
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
  t.a = new_floats(t.a_size);
  t.b = new_floats(t.b_size);
  t.c = new_floats(t.c_size);
  t.bias = new_floats(n);
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
  t.want = copy_of(t.c, t.c_size);
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
  float *c = copy_of(t->c, t->c_size);
  p.c = c;
  void *scratch = allocate(table->product_f32_scratch(&p));
  run_cut(table->product_f32, &p, scratch, row, column);
  expect_same(t->text, table->name, c, t->want, t->c_size);
  free(c);
  free(scratch);
}

static void check_f64(const ls_cpu_kernels *table, const product_case *t,
                      size_t row, size_t column) {
  ls_cpu_product p = t->f64;
  double *c = widened(t->c, t->c_size);
  p.c = c;
  void *scratch = allocate(table->product_f64_scratch(&p));
  run_cut(table->product_f64, &p, scratch, row, column);
  for (size_t i = 0; i < t->c_size; ++i) {
    if (memcmp(&c[i], &t->want64[i], sizeof *c) != 0) {
      fail_msg("f64 %s, table %s: [%zu] is %a, want %a", t->text, table->name,
               i, c[i], t->want64[i]);
    }
  }
  free(c);
  free(scratch);
}

static void check_product(size_t m, size_t n, size_t k, unsigned transposes,
                          unsigned epilogue, size_t extra) {
  product_case t = new_product(m, n, k, transposes, epilogue, extra);
  for (size_t i = 0; i < table_count; ++i) {
    check_f32(tables[i], &t, 0, 0);
    check_f64(tables[i], &t, 0, 0);
    // The same again in four blocks.
    const size_t row = random_below(m + 1), column = random_below(n + 1);
    check_f32(tables[i], &t, row, column);
    check_f64(tables[i], &t, row, column);
  }
  free_product(&t);
}

static void product_is_one_fma_chain_for_every_tail(void **state) {
  (void)state;
  unsigned turn = 0;
  for (size_t m = 1; m <= 14; ++m) {
    for (size_t n = 1; n <= 67; n += n < 34 ? 3 : 11) {
      check_product(m, n, 1 + random_below(40), turn % 4, turn / 4 % 8,
                    turn % 3);
      ++turn;
    }
  }
}

static void product_is_one_fma_chain_for_every_way_to_store_it(void **state) {
  (void)state;
  for (unsigned turn = 0; turn < 4 * 8 * 2; ++turn) {
    check_product(1 + random_below(60), 1 + random_below(80),
                  1 + random_below(60), turn % 4, turn / 4 % 8,
                  turn / 32 * (1 + random_below(20)));
  }
}

// Shapes on both sides of each size that the implementation blocks by.
static void product_is_one_fma_chain_across_its_blocks(void **state) {
  (void)state;
  static const size_t shapes[][3] = {
      {13, 33, 255},  {13, 33, 256}, {13, 33, 257},  {5, 40, 513},
      {50, 34, 300},  {14, 270, 30}, {60, 300, 260}, {3, 1030, 259},
      {390, 35, 258}, {390, 9, 4},   {1, 1030, 5},
  };
  unsigned turn = 0;
  for (size_t i = 0; i < COUNT_OF(shapes); ++i) {
    for (unsigned transposes = 0; transposes < 4; ++transposes, turn += 3) {
      // Accumulating takes another path where k is in several blocks.
      const unsigned epilogue = (turn % 8) ^ (transposes % 2 == 0 ? 4u : 0u);
      check_product(shapes[i][0], shapes[i][1], shapes[i][2], transposes,
                    epilogue, transposes == 3 ? 1 : 0);
    }
  }
}

static void product_without_terms_is_the_epilogue_of_zeros(void **state) {
  (void)state;
  for (unsigned epilogue = 0; epilogue < 8; ++epilogue) {
    for (unsigned transposes = 0; transposes < 4; ++transposes) {
      check_product(7, 19, 0, transposes, epilogue, 1);
    }
  }
}

static void product_without_outputs_touches_nothing(void **state) {
  (void)state;
  check_product(0, 5, 3, 0, 7, 0);
  check_product(5, 0, 3, 2, 7, 0);
}

static void product_is_close_to_one_in_doubles(void **state) {
  (void)state;
  product_case t = new_product(33, 65, 300, 2, 7, 0);
  double *want = allocate(t.c_size * sizeof *want);
  memcpy(want, t.want64, t.c_size * sizeof *want);
  for (size_t i = 0; i < table_count; ++i) {
    ls_cpu_product p = t.f32;
    float *c = copy_of(t.c, t.c_size);
    p.c = c;
    void *scratch = allocate(tables[i]->product_f32_scratch(&p));
    run_cut(tables[i]->product_f32, &p, scratch, 0, 0);
    expect_near(t.text, tables[i]->name, c, want, 300 * 0x1p-24, t.c_size);
    free(c);
    free(scratch);
  }
  free(want);
  free_product(&t);
}

static void product_relu_lets_a_nan_through(void **state) {
  (void)state;
  for (size_t i = 0; i < table_count; ++i) {
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
    void *scratch = allocate(tables[i]->product_f32_scratch(&p));
    run_cut(tables[i]->product_f32, &p, scratch, 0, 0);
    free(scratch);
    assert_true(isnan(c[0]));
    assert_true(c[1] == 0.0f);
  }
}

// --- Elementary functions ---

static double sigmoid64(double x) { return 1.0 / (1.0 + exp(-x)); }
static double rsqrt64(double x) { return 1.0 / sqrt(x); }
static double softplus64(double x) {
  return fmax(x, 0.0) + log1p(exp(-fabs(x)));
}
static double gelu64(double x) {
  return x / (1.0 + exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)));
}

typedef struct {
  const char *name;
  size_t offset;  // Of the function in its table.
  double (*reference)(double x);
  double max_ulp;
} unary_case;

#define UNARY(name, reference, max_ulp)                                        \
  { #name, offsetof(ls_cpu_kernels, name), reference, max_ulp }

static const unary_case unaries[] = {
    UNARY(exp, exp, 1.0),           UNARY(log, log, 0.9),
    UNARY(tanh, tanh, 2.5),         UNARY(erf, erf, 1.2),
    UNARY(sigmoid, sigmoid64, 2.4), UNARY(rsqrt, rsqrt64, 1.5),
    UNARY(expm1, expm1, 1.5),       UNARY(log1p, log1p, 1.5),
    UNARY(sin, sin, 1.5),           UNARY(cos, cos, 1.5),
    UNARY(tan, tan, 3.4),           UNARY(softplus, softplus64, 1.7),
    UNARY(gelu, gelu64, INFINITY),  // Its errors are bounded below.
};

static ls_cpu_unary_fn *unary_of(const ls_cpu_kernels *table,
                                 const unary_case *row) {
  ls_cpu_unary_fn *function;
  memcpy(&function, (const char *)table + row->offset, sizeof function);
  return function;
}

// Distance from `want` in units of the last place of a float there.
static double ulps(float got, double want) {
  if (isnan(want)) return isnan(got) ? 0.0 : INFINITY;
  const float rounded = (float)want;
  if (isinf(rounded) || isinf(got)) {
    // Where the rounded result is infinite, so must be ours, or the next.
    return got == rounded || fabs(want) > 0x1.fffffep127 ? 0.0 : INFINITY;
  }
  int exponent;
  (void)frexp(want, &exponent);
  const int place = exponent - 24 < -149 ? -149 : exponent - 24;
  return fabs((double)got - want) / ldexp(1.0, place);
}

// Floats at equal distances over all bit patterns: all signs, sizes, NaNs.
#define SAMPLE_STRIDE 16411u
#define SAMPLE_COUNT ((size_t)(UINT32_MAX / SAMPLE_STRIDE))

static float *new_samples(void) {
  float *x = allocate(SAMPLE_COUNT * sizeof *x);
  for (size_t i = 0; i < SAMPLE_COUNT; ++i) {
    const uint32_t bits = (uint32_t)i * SAMPLE_STRIDE;
    memcpy(&x[i], &bits, sizeof bits);
  }
  return x;
}

static void elementary_functions_err_by_few_ulps(void **state) {
  (void)state;
  float *x = new_samples(), *y = allocate(SAMPLE_COUNT * sizeof *y);
  for (size_t f = 0; f < COUNT_OF(unaries); ++f) {
    const unary_case *row = &unaries[f];
    unary_of(ls_cpu_kernels_best(), row)(y, x, SAMPLE_COUNT);
    for (size_t i = 0; i < SAMPLE_COUNT; ++i) {
      const double want = row->reference((double)x[i]);
      if (!(ulps(y[i], want) <= row->max_ulp)) {
        fail_msg("%s(%a) is %a, want %a: %.2f ulp", row->name, (double)x[i],
                 (double)y[i], want, ulps(y[i], want));
      }
    }
  }
  free(x);
  free(y);
}

static void compare_unaries(void) {
  float *x = new_samples(), *y = allocate(SAMPLE_COUNT * sizeof *y);
  float *other = allocate(SAMPLE_COUNT * sizeof *other);
  for (size_t f = 0; f < COUNT_OF(unaries); ++f) {
    unary_of(tables[0], &unaries[f])(y, x, SAMPLE_COUNT);
    for (size_t i = 1; i < table_count; ++i) {
      unary_of(tables[i], &unaries[f])(other, x, SAMPLE_COUNT);
      expect_same(unaries[f].name, tables[i]->name, other, y, SAMPLE_COUNT);
    }
  }
  free(x);
  free(y);
  free(other);
}

static void elementary_functions_are_the_same_in_every_table(void **state) {
  (void)state;
  compare_unaries();
}

#if defined(__x86_64__)
// The engine's threads run so.
static void elementary_functions_are_the_same_without_denormals(void **state) {
  (void)state;
  const unsigned control = _mm_getcsr();
  _mm_setcsr(control | 0x8040);  // Flush to zero, denormals are zeros.
  compare_unaries();
  _mm_setcsr(control);
}
#endif

static void elementary_functions_keep_to_their_tails(void **state) {
  (void)state;
  for (size_t i = 0; i < table_count; ++i) {
    for (size_t f = 0; f < COUNT_OF(unaries); ++f) {
      for (size_t n = 0; n < 40; ++n) {
        ls_cpu_unary_fn *function = unary_of(tables[i], &unaries[f]);
        float *x = new_floats(n), *y = copy_of(x, n);
        function(y, y, n);  // In place.
        for (size_t j = 0; j < n; ++j) {
          float alone;
          function(&alone, &x[j], 1);
          expect_same(unaries[f].name, tables[i]->name, &y[j], &alone, 1);
        }
        free(x);
        free(y);
      }
    }
  }
}

static void elementary_functions_have_the_special_values_of_libm(void **state) {
  (void)state;
  static const struct {
    size_t function;  // In `unaries`.
    float x, want;
  } rows[] = {
      {0, 0.0f, 1.0f},           {0, -INFINITY, 0.0f},
      {0, INFINITY, INFINITY},   {0, NAN, NAN},
      {0, 88.8f, INFINITY},      {0, -104.5f, 0.0f},
      {0, -103.0f, 0x1p-149f},   {1, 1.0f, 0.0f},
      {1, 0.0f, -INFINITY},      {1, -0.0f, -INFINITY},
      {1, -1.0f, NAN},           {1, -INFINITY, NAN},
      {1, INFINITY, INFINITY},   {1, NAN, NAN},
      {2, 0.0f, 0.0f},           {2, -0.0f, -0.0f},
      {2, INFINITY, 1.0f},       {2, -INFINITY, -1.0f},
      {2, 0x1p-140f, 0x1p-140f}, {2, NAN, NAN},
      {3, 0.0f, 0.0f},           {3, -0.0f, -0.0f},
      {3, INFINITY, 1.0f},       {3, -INFINITY, -1.0f},
      {3, 5.0f, 1.0f},           {3, NAN, NAN},
      {4, 0.0f, 0.5f},           {4, INFINITY, 1.0f},
      {4, -INFINITY, 0.0f},      {4, NAN, NAN},
      {5, 0.0f, INFINITY},       {5, 0.25f, 2.0f},
      {5, INFINITY, 0.0f},       {5, -1.0f, NAN},
      {6, -0.0f, -0.0f},         {6, -INFINITY, -1.0f},
      {6, INFINITY, INFINITY},   {6, 89.0f, INFINITY},
      {6, 0x1p-140f, 0x1p-140f}, {6, NAN, NAN},
      {7, -0.0f, -0.0f},         {7, -1.0f, -INFINITY},
      {7, -1.5f, NAN},           {7, INFINITY, INFINITY},
      {7, 0x1p-140f, 0x1p-140f}, {7, NAN, NAN},
      {8, -0.0f, -0.0f},         {8, INFINITY, NAN},
      {8, 0x1p-140f, 0x1p-140f}, {8, NAN, NAN},
      {9, 0.0f, 1.0f},           {9, -INFINITY, NAN},
      {10, -0.0f, -0.0f},        {10, NAN, NAN},
      {11, INFINITY, INFINITY},  {11, NAN, NAN},
      {12, INFINITY, INFINITY},  {12, NAN, NAN},
      {12, 0.0f, 0.0f},
  };
  for (size_t i = 0; i < table_count; ++i) {
    for (size_t r = 0; r < COUNT_OF(rows); ++r) {
      const unary_case *row = &unaries[rows[r].function];
      float got;
      unary_of(tables[i], row)(&got, &rows[r].x, 1);
      char what[64];
      snprintf(what, sizeof what, "%s(%g)", row->name, (double)rows[r].x);
      expect_same(what, tables[i]->name, &got, &rows[r].want, 1);
    }
  }
}

// Lanes of large angles are reduced apart from their neighbours.
static void large_angles_do_not_touch_other_lanes(void **state) {
  (void)state;
  float x[64], alone, y[64];
  for (size_t i = 0; i < COUNT_OF(x); ++i) {
    x[i] = random_unit() * (i % 5 == 0 ? 0x1p100f : 10.0f);
    if (i % 7 == 0) x[i] = NAN;
    if (i % 11 == 0) x[i] = INFINITY;
  }
  for (size_t i = 0; i < table_count; ++i) {
    tables[i]->sin(y, x, COUNT_OF(x));
    for (size_t k = 0; k < COUNT_OF(x); ++k) {
      tables[i]->sin(&alone, &x[k], 1);
      expect_same("sin", tables[i]->name, &y[k], &alone, 1);
    }
  }
}

// The bounds of isa/vecactivation.h.
static void gelu_and_its_slope_err_little(void **state) {
  (void)state;
  const ls_cpu_kernels *best = ls_cpu_kernels_best();
  enum { COUNT = 100000 };
  float *x = allocate(COUNT * sizeof *x), *y = allocate(COUNT * sizeof *y);
  float *ones = allocate(COUNT * sizeof *ones);
  for (size_t i = 0; i < COUNT; ++i) {
    x[i] = random_unit() * 9.9f;
    ones[i] = 1.0f;
  }
  best->gelu(y, x, COUNT);
  for (size_t i = 0; i < COUNT; ++i) {
    const double a = (double)x[i], want = gelu64(a);
    const double bound = fabs(want) * 0x1p-22 * (1.0 + a * a);
    if (a >= -1.0 ? ulps(y[i], want) > 3.1 : fabs((double)y[i] - want) > bound)
      fail_msg("gelu(%a) is %a, want %a", a, (double)y[i], want);
  }
  best->gelu_grad(y, ones, x, COUNT);
  for (size_t i = 0; i < COUNT; ++i) {
    const double a = (double)x[i], c = 1.5957691216057308;
    const double s = 1.0 / (1.0 + exp(-c * (a + 0.044715 * a * a * a)));
    const double rest = 1.0 / (1.0 + exp(c * (a + 0.044715 * a * a * a)));
    const double want = s + a * s * rest * c * (1.0 + 0.134145 * a * a);
    if (fabs((double)y[i] - want) > 0x1p-22)
      fail_msg("gelu'(%a) is %a, want %a", a, (double)y[i], want);
  }
  free(x);
  free(y);
  free(ones);
}

static void gelu_grad_is_the_same_in_every_table_and_tail(void **state) {
  (void)state;
  for (size_t n = 0; n < 40; ++n) {
    float *dy = new_floats(n), *x = new_floats(n), *want = new_floats(n);
    for (size_t i = 0; i < n; ++i)
      x[i] *= 20.0f;
    tables[0]->gelu_grad(want, dy, x, n);
    for (size_t i = 1; i < table_count; ++i) {
      float *in_place = copy_of(x, n);
      tables[i]->gelu_grad(in_place, dy, in_place, n);
      expect_same("gelu_grad", tables[i]->name, in_place, want, n);
      free(in_place);
    }
    free(dy);
    free(x);
    free(want);
  }
}

// --- 16-bit floats ---

static void check_half(size_t n, const float *x, const uint16_t *halves) {
  for (size_t i = 0; i < table_count; ++i) {
    const ls_cpu_kernels *t = tables[i], *base = tables[0];
    float *wide = allocate(n * sizeof *wide), *want = allocate(n * sizeof *x);
    t->widen_f16(wide, halves, n);
    base->widen_f16(want, halves, n);
    expect_same("widen_f16", t->name, wide, want, n);
    t->widen_bf16(wide, halves, n);
    base->widen_bf16(want, halves, n);
    expect_same("widen_bf16", t->name, wide, want, n);
    uint16_t *got = allocate(n * sizeof *got), *as = allocate(n * sizeof *as);
    t->narrow_f16(got, x, n);
    base->narrow_f16(as, x, n);
    assert_memory_equal(got, as, n * sizeof *got);
    t->narrow_bf16(got, x, n);
    base->narrow_bf16(as, x, n);
    assert_memory_equal(got, as, n * sizeof *got);
    free(wide);
    free(want);
    free(got);
    free(as);
  }
}

static void halves_convert_alike_in_every_table(void **state) {
  (void)state;
  float *x = new_samples();
  uint16_t *halves = allocate(65536 * sizeof *halves);
  for (size_t i = 0; i < 65536; ++i)
    halves[i] = (uint16_t)i;
  check_half(65536, x, halves);
  check_half(65536, x + SAMPLE_COUNT - 65536, halves);
  for (size_t n = 0; n < 40; ++n) {
    float *few = copy_of(x + 70000, n);
    uint16_t *few_halves = allocate(n * sizeof *few_halves);
    memcpy(few_halves, halves + 20000, n * sizeof *few_halves);
    check_half(n, few, few_halves);
    free(few);
    free(few_halves);
  }
  free(x);
  free(halves);
}

// --- Rows ---

#define MAX_COLUMNS 100

static const size_t row_shapes[][2] = {
    {0, 3}, {1, 1}, {5, 10}, {17, 10}, {33, 16}, {3, 37}, {2, MAX_COLUMNS},
};

static double log_sum(const float *x, size_t n, double *out_max) {
  double max = -INFINITY, sum = 0.0;
  for (size_t j = 0; j < n; ++j)
    max = fmax(max, (double)x[j]);
  for (size_t j = 0; j < n; ++j)
    sum += exp((double)x[j] - max);
  *out_max = max;
  return log(sum);
}

static float *new_logits(size_t n) {
  float *x = new_floats(n);
  for (size_t i = 0; i < n; ++i)
    x[i] = 8.0f * x[i] + 20.0f;
  return x;
}

static void softmax_and_its_log_are_close_to_doubles(void **state) {
  (void)state;
  for (size_t s = 0; s < COUNT_OF(row_shapes); ++s) {
    const size_t rows = row_shapes[s][0], columns = row_shapes[s][1];
    const size_t n = rows * columns;
    float *x = new_logits(n), *base = allocate(n * sizeof *base);
    for (size_t i = 0; i < table_count; ++i) {
      float *y = copy_of(x, n), *z = allocate(n * sizeof *z);
      tables[i]->softmax(y, y, rows, columns);  // In place.
      tables[i]->log_softmax(z, x, rows, columns);
      for (size_t r = 0; r < rows; ++r) {
        double want[MAX_COLUMNS], want_log[MAX_COLUMNS], max;
        const double log_of_sum = log_sum(x + r * columns, columns, &max);
        for (size_t j = 0; j < columns; ++j) {
          want_log[j] = (double)x[r * columns + j] - max - log_of_sum;
          want[j] = exp(want_log[j]);
        }
        expect_near("softmax", tables[i]->name, y + r * columns, want, 1e-6,
                    columns);
        expect_near("log_softmax", tables[i]->name, z + r * columns, want_log,
                    4e-6, columns);
      }
      if (i == 0) memcpy(base, y, n * sizeof *base);
      expect_same("softmax", tables[i]->name, y, base, n);
      // In place gives what apart gives.
      tables[i]->log_softmax(y, x, rows, columns);
      expect_same("log_softmax", tables[i]->name, y, z, n);
      free(y);
      free(z);
    }
    free(x);
    free(base);
  }
}

static int32_t *new_labels(size_t rows, size_t columns) {
  int32_t *labels = allocate(rows * sizeof *labels);
  for (size_t i = 0; i < rows; ++i)
    labels[i] = (int32_t)random_below(columns);
  return labels;
}

static void label_loss_is_close_to_doubles_and_equal_in_tables(void **state) {
  (void)state;
  for (size_t s = 0; s < COUNT_OF(row_shapes); ++s) {
    const size_t rows = row_shapes[s][0], columns = row_shapes[s][1];
    float *x = new_logits(rows * columns), *first = new_floats(rows);
    int32_t *labels = new_labels(rows, columns);
    for (size_t i = 0; i < table_count; ++i) {
      float *loss = new_floats(rows);
      tables[i]->label_loss(loss, x, labels, rows, columns);
      for (size_t r = 0; r < rows; ++r) {
        double max;
        const double log_of_sum = log_sum(x + r * columns, columns, &max);
        const double own = (double)x[r * columns + (size_t)labels[r]];
        const double want = log_of_sum - (own - max);
        expect_near("loss", tables[i]->name, &loss[r], &want, 4e-6, 1);
      }
      if (i == 0) memcpy(first, loss, rows * sizeof *first);
      expect_same("loss", tables[i]->name, loss, first, rows);
      free(loss);
    }
    free(x);
    free(first);
    free(labels);
  }
}

static void label_loss_grad_is_scaled_softmax_minus_onehot(void **state) {
  (void)state;
  for (size_t s = 0; s < COUNT_OF(row_shapes); ++s) {
    const size_t rows = row_shapes[s][0], columns = row_shapes[s][1];
    const size_t n = rows * columns;
    float *x = new_logits(n), *scale = new_floats(rows + 1);
    float *softmax = allocate(n * sizeof *softmax);
    int32_t *labels = new_labels(rows, columns);
    for (size_t i = 0; i < table_count; ++i) {
      for (size_t stride = 0; stride < 2; ++stride) {
        tables[i]->softmax(softmax, x, rows, columns);
        for (size_t r = 0; r < rows; ++r) {
          for (size_t j = 0; j < columns; ++j) {
            float *y = &softmax[r * columns + j];
            if (j == (size_t)labels[r]) *y -= 1.0f;
            *y *= scale[r * stride];
          }
        }
        float *grad = copy_of(x, n);
        tables[i]->label_loss_grad(grad, grad, labels, scale, stride, rows,
                                   columns);  // In place.
        expect_same("grad", tables[i]->name, grad, softmax, n);
        free(grad);
      }
    }
    free(x);
    free(scale);
    free(softmax);
    free(labels);
  }
}

static void label_outside_the_classes_gives_nan_in_its_row_alone(void **state) {
  (void)state;
  const float x[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, scale = 1.0f;
  const int32_t labels[3] = {-1, 1, 3};
  for (size_t i = 0; i < table_count; ++i) {
    float loss[3], grad[9];
    tables[i]->label_loss(loss, x, labels, 3, 3);
    tables[i]->label_loss_grad(grad, x, labels, &scale, 0, 3, 3);
    for (size_t r = 0; r < 3; ++r) {
      assert_int_equal(isnan(loss[r]) != 0, r != 1);
      for (size_t j = 0; j < 3; ++j) {
        assert_int_equal(isnan(grad[3 * r + j]) != 0, r != 1);
      }
    }
  }
}

// --- Elementwise and sums ---

static void elementwise_kernels_are_their_formulas(void **state) {
  (void)state;
  for (size_t n = 0; n < 70; ++n) {
    float *a = new_floats(n), *b = new_floats(n);
    float *sum = copy_of(a, n), *step = copy_of(a, n), *back = copy_of(a, n);
    for (size_t i = 0; i < n; ++i) {
      if (i % 7 == 3) b[i] = i % 2 == 0 ? 0.0f : -0.0f;
      const float scaled = 0.3f * b[i];
      sum[i] = a[i] + b[i];
      step[i] = a[i] - scaled;
      back[i] = b[i] > 0.0f ? a[i] : 0.0f;
    }
    for (size_t i = 0; i < table_count; ++i) {
      const ls_cpu_kernels *table = tables[i];
      float *got = copy_of(a, n);
      table->add(got, got, b, n);
      expect_same("add", table->name, got, sum, n);
      table->sgd(got, a, b, 0.3f, n);
      expect_same("sgd", table->name, got, step, n);
      table->relu_grad(got, a, b, n);
      expect_same("relu_grad", table->name, got, back, n);
      free(got);
    }
    free(a);
    free(b);
    free(sum);
    free(step);
    free(back);
  }
}

static void column_sums_add_rows_in_order(void **state) {
  (void)state;
  static const size_t columns_of[] = {1, 10, 16, 31, 32, 64, 129, 300};
  for (size_t s = 0; s < COUNT_OF(columns_of); ++s) {
    for (size_t rows = 0; rows < 20; rows += 1 + rows) {
      const size_t columns = columns_of[s], stride = columns + rows % 3;
      float *x = new_floats(stored_size(rows, stride, columns));
      float *old = new_floats(columns), *want = new_floats(columns);
      for (int accumulate = 0; accumulate < 2; ++accumulate) {
        for (size_t j = 0; j < columns; ++j) {
          float sum = 0.0f;
          for (size_t i = 0; i < rows; ++i)
            sum += x[i * stride + j];
          want[j] = accumulate != 0 ? old[j] + sum : sum;
        }
        for (size_t i = 0; i < table_count; ++i) {
          float *got = copy_of(old, columns);
          tables[i]->column_sums(got, x, rows, columns, stride,
                                 accumulate != 0);
          expect_same("column_sums", tables[i]->name, got, want, columns);
          free(got);
        }
      }
      free(x);
      free(old);
      free(want);
    }
  }
}

static void sum_runs_in_sixteen_partial_sums(void **state) {
  (void)state;
  for (size_t n = 0; n < 300; n += 1 + n / 20) {
    float *x = new_floats(n), partial[16] = {0};
    for (size_t i = 0; i < n; ++i)
      partial[i % 16] += x[i];
    for (size_t w = 8; w > 0; w /= 2) {
      for (size_t j = 0; j < w; ++j)
        partial[j] += partial[j + w];
    }
    for (size_t i = 0; i < table_count; ++i) {
      const float got = tables[i]->sum(x, n);
      expect_same("sum", tables[i]->name, &got, partial, 1);
    }
    free(x);
  }
}

static void max_sees_every_element_and_every_nan(void **state) {
  (void)state;
  for (size_t n = 0; n < 70; ++n) {
    float *x = new_floats(n);
    for (size_t i = 0; i < table_count; ++i) {
      float want = -INFINITY;
      for (size_t k = 0; k < n; ++k)
        want = x[k] > want ? x[k] : want;
      assert_true(tables[i]->max(x, n) == want);
      for (size_t k = 0; k < n; ++k) {
        const float old = x[k];
        x[k] = 3.0f;
        assert_true(tables[i]->max(x, n) == 3.0f);
        x[k] = NAN;
        assert_true(isnan(tables[i]->max(x, n)));
        x[k] = old;
      }
    }
    free(x);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(best_table_is_one_that_can_be_found),
    cmocka_unit_test(base_table_is_always_there_and_unknown_ones_are_not),
    cmocka_unit_test(product_is_one_fma_chain_for_every_tail),
    cmocka_unit_test(product_is_one_fma_chain_for_every_way_to_store_it),
    cmocka_unit_test(product_is_one_fma_chain_across_its_blocks),
    cmocka_unit_test(product_without_terms_is_the_epilogue_of_zeros),
    cmocka_unit_test(product_without_outputs_touches_nothing),
    cmocka_unit_test(product_is_close_to_one_in_doubles),
    cmocka_unit_test(product_relu_lets_a_nan_through),
    cmocka_unit_test(elementary_functions_err_by_few_ulps),
    cmocka_unit_test(elementary_functions_are_the_same_in_every_table),
#if defined(__x86_64__)
    cmocka_unit_test(elementary_functions_are_the_same_without_denormals),
#endif
    cmocka_unit_test(elementary_functions_keep_to_their_tails),
    cmocka_unit_test(elementary_functions_have_the_special_values_of_libm),
    cmocka_unit_test(large_angles_do_not_touch_other_lanes),
    cmocka_unit_test(gelu_and_its_slope_err_little),
    cmocka_unit_test(gelu_grad_is_the_same_in_every_table_and_tail),
    cmocka_unit_test(halves_convert_alike_in_every_table),
    cmocka_unit_test(softmax_and_its_log_are_close_to_doubles),
    cmocka_unit_test(label_loss_is_close_to_doubles_and_equal_in_tables),
    cmocka_unit_test(label_loss_grad_is_scaled_softmax_minus_onehot),
    cmocka_unit_test(label_outside_the_classes_gives_nan_in_its_row_alone),
    cmocka_unit_test(elementwise_kernels_are_their_formulas),
    cmocka_unit_test(column_sums_add_rows_in_order),
    cmocka_unit_test(sum_runs_in_sixteen_partial_sums),
    cmocka_unit_test(max_sees_every_element_and_every_nan),
  };
  return cmocka_run_group_tests(tests, find_tables, NULL);
}
