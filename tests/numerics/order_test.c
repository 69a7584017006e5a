// SPDX-License-Identifier: Apache-2.0
//
// Sums run in the order that is documented where they are declared: each is
// made here again, addition by addition, and compared byte by byte. (Sums over
// replicas: models/bits_test.c. Of sum and column_sums: engine/kernels_test.c.)
#include "support/attrs.h"
#include "support/expect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cpu/kernels/loops.h"
#include "support/kernel_tables.h"
#include "support/sanitizer.h"

// ---- Partial sums ----------------------------------------------------------
// 16 of floats, 8 of doubles; then sum j takes in sum j + n / 2, j + n / 4, ...
static float sum_16(const float *terms, size_t count) {
  float s[16] = {0};
  for (size_t i = 0; i < count; ++i)
    s[i % 16] += terms[i];
  for (size_t w = 8; w > 0; w /= 2)
    for (size_t j = 0; j < w; ++j)
      s[j] += s[j + w];
  return s[0];
}

static double sum_n_f64(const double *terms, size_t count, size_t lanes) {
  double s[16] = {0};
  for (size_t i = 0; i < count; ++i)
    s[i % lanes] += terms[i];
  for (size_t w = lanes / 2; w > 0; w /= 2)
    for (size_t j = 0; j < w; ++j)
      s[j] += s[j + w];
  return s[0];
}

// The same of squares of x - mean, each fused into its sum.
static float squares_16(const float *x, size_t count, float mean) {
  float s[16] = {0};
  for (size_t i = 0; i < count; ++i) {
    const float t = x[i] - mean;
    s[i % 16] = fmaf(t, t, s[i % 16]);
  }
  for (size_t w = 8; w > 0; w /= 2)
    for (size_t j = 0; j < w; ++j)
      s[j] += s[j + w];
  return s[0];
}

// ---- Kernels of the tables -------------------------------------------------
enum { ROWS = 21, COLUMNS = 75 };

typedef struct fixture {
  kernel_tables tables;
  loop_random random;
  float x[ROWS * COLUMNS], y[ROWS * COLUMNS];
} fixture;

static void begin(fixture *f) {
  *f =
      (fixture){.tables = kernel_tables_find(), .random = {loop_random_seed()}};
  numbers_fill(LS_DTYPE_F32, f->x, ROWS * COLUMNS, NUMBERS_SMALL, &f->random);
  numbers_fill(LS_DTYPE_F32, f->y, ROWS * COLUMNS, NUMBERS_SMALL, &f->random);
}

// Rows of every length: short ones are worked on side by side, and must not
// show it.
TEST(softmax_adds_a_row_in_sixteen_partial_sums) {
  fixture f;
  begin(&f);
  for (size_t columns = 1; columns <= COLUMNS; ++columns) {
    float want[ROWS * COLUMNS], logs[ROWS * COLUMNS], got[ROWS * COLUMNS];
    const ls_cpu_kernels *base = f.tables.at[0];
    for (size_t r = 0; r < ROWS; ++r) {
      const float *x = f.x + r * columns;
      float *row = want + r * columns, part[COLUMNS], top = -INFINITY;
      for (size_t j = 0; j < columns; ++j)
        top = x[j] > top ? x[j] : top;
      for (size_t j = 0; j < columns; ++j)
        part[j] = x[j] - top;
      kernel_tables_run(base, LS_OP_EXP, row, part, columns);
      const float sum = sum_16(row, columns), inverse = 1 / sum;
      float log_of_sum;
      kernel_tables_run(base, LS_OP_LOG, &log_of_sum, &sum, 1);
      for (size_t j = 0; j < columns; ++j) {
        row[j] *= inverse;
        logs[r * columns + j] = part[j] - log_of_sum;
      }
    }
    for (size_t t = 0; t < f.tables.count; ++t) {
      const ls_cpu_kernels *table = f.tables.at[t];
      table->softmax(got, f.x, ROWS, columns);
      expect_same_numbers("softmax", table->name, LS_DTYPE_F32, want, got,
                          ROWS * columns);
      table->log_softmax(got, f.x, ROWS, columns);
      expect_same_numbers("log_softmax", table->name, LS_DTYPE_F32, logs, got,
                          ROWS * columns);
    }
  }
}

// Of 4 or 8 operands, one behind the other; what is far is fetched ahead and
// stored past the caches where the sum lies on a cache line.
static void check_sums_of_all(const fixture *f, size_t ways, size_t n,
                              size_t offset) {
  const size_t size = sizeof(float);
  const void *in[8];
  for (size_t k = 0; k < ways; ++k)
    in[k] = f->x + k * n;
  float want[COLUMNS];
  for (size_t i = 0; i < n; ++i) {
    const float *x = f->x + i;
    const float low = (x[0] + x[n]) + (x[2 * n] + x[3 * n]);
    want[i] = low;
    if (ways == 8)
      want[i] = low + ((x[4 * n] + x[5 * n]) + (x[6 * n] + x[7 * n]));
  }
  float *got = numbers_create(n * size, offset);
  for (size_t t = 0; t < 2 * f->tables.count; ++t) {
    const ls_cpu_kernels *table = f->tables.at[t / 2];
    (ways == 4 ? table->add4 : table->add8)(got, in, n, t % 2 == 1);
    expect_same_numbers(t % 2 == 1 ? "far sum" : "sum", table->name,
                        LS_DTYPE_F32, want, got, n);
  }
  numbers_free(got, offset);
}

TEST(sums_of_four_and_eight_follow_the_tree_near_and_far) {
  fixture f;
  begin(&f);
  for (size_t n = 1; n <= COLUMNS; ++n)
    for (size_t offset = 0; offset <= 4; offset += 4) {
      check_sums_of_all(&f, 4, n, offset);
      check_sums_of_all(&f, 8, n, offset);
    }
}

TEST(moments_are_one_chain_down_each_column) {
  fixture f;
  begin(&f);
  for (size_t columns = 1; columns <= COLUMNS; columns += 1 + columns / 4) {
    double want[2 * COLUMNS], got[2 * COLUMNS];
    for (size_t j = 0; j < columns; ++j) {
      float sum = 0, square = 0;
      for (size_t i = 0; i < ROWS; ++i) {
        const float t = f.x[i * columns + j] - f.y[j];
        sum += t;
        square = fmaf(t, t, square);
      }
      want[j] = 3 + (double)sum;  // Widened, then added to what was there.
      want[columns + j] = 4 + (double)square;
    }
    for (size_t t = 0; t < f.tables.count; ++t) {
      for (size_t j = 0; j < 2 * columns; ++j)
        got[j] = j < columns ? 3 : 4;
      f.tables.at[t]->norms_f32->moments(
          got, got + columns, f.x, f.y,
          (ls_cpu_columns){ROWS, columns, columns});
      expect_same_numbers("moments", f.tables.at[t]->name, LS_DTYPE_F64, want,
                          got, 2 * columns);
    }
  }
}

TEST(a_rows_moments_are_sixteen_partial_sums) {
  fixture f;
  begin(&f);
  for (size_t columns = 1; columns <= COLUMNS; ++columns) {
    const double n = (double)columns, epsilon = 1e-5;
    float want[COLUMNS], got[COLUMNS];
    const float mean = sum_16(f.x, columns) / (float)columns;
    const double variance = (double)squares_16(f.x, columns, mean) / n;
    const float inverse = (float)(1 / sqrt(variance + epsilon));
    for (size_t j = 0; j < columns; ++j)
      want[j] = (f.x[j] - mean) * inverse * f.y[j];
    const ls_cpu_row_norm norm = {
        .scale = f.y, .epsilon = epsilon, .centred = true};
    for (size_t t = 0; t < f.tables.count; ++t) {
      f.tables.at[t]->norms_f32->normalize_rows(got, f.x, &norm, 1, columns);
      expect_same_numbers("normalize_rows", f.tables.at[t]->name, LS_DTYPE_F32,
                          want, got, columns);
    }
  }
}

// ---- Reductions ------------------------------------------------------------
// [a, b, c], its middle axis reduced, or the last two.
typedef struct reduction {
  int64_t a, b, c;
  bool last_too;
} reduction;

// As kernels/reduce/reduce.c says: rows of columns in chains of 512, and these
// in order; else 16 partial sums over each 4096 elements that are reduced, in
// row order, and these sums in order.
static double reduced(const reduction *r, ls_dtype dtype, const double *x,
                      int64_t a, int64_t c) {
  enum { CHAIN = 512, PIECE = 4096 };
  const bool wide = dtype == LS_DTYPE_F64;
  if (r->last_too) {
    const size_t count = (size_t)(r->b * r->c);
    const double *from = x + (size_t)a * count;
    double total = 0;
    for (size_t at = 0; at < count; at += PIECE) {
      const size_t n = count - at < PIECE ? count - at : PIECE;
      float terms[PIECE];
      for (size_t i = 0; i < n; ++i)
        terms[i] = (float)from[at + i];
      const double sum =
          wide ? sum_n_f64(from + at, n, 16) : (double)sum_16(terms, n);
      total = at == 0 ? sum
              : wide  ? total + sum
                      : (double)((float)total + (float)sum);
    }
    return total;
  }
  double sum = 0;
  for (int64_t first = 0; first < r->b; first += CHAIN) {
    double chain = 0;
    for (int64_t b = first; b < r->b && b < first + CHAIN; ++b) {
      const double term = x[(a * r->b + b) * r->c + c];
      chain = wide ? chain + term : (double)((float)chain + (float)term);
    }
    if (first == 0)
      sum = chain;
    else
      sum = wide ? sum + chain : (double)((float)sum + (float)chain);
  }
  return sum;
}

static void check_reduction(const reduction *r, ls_dtype dtype,
                            const char *table, loop_random *random) {
  static const int64_t axes[] = {1, 2};
  LS_OWN(loop_case, c) = {.op = LS_OP_REDUCE_SUM, .kernels = table};
  c.out = (ls_type){dtype, r->last_too ? LS_SHAPE(r->a) : LS_SHAPE(r->a, r->c)};
  loop_case_attr(&c, LS_ATTR_IS("axes", axes, r->last_too ? 2U : 1U));
  const size_t count = (size_t)(r->a * r->b * r->c);
  const void *data = loop_case_add(
      &c, (ls_type){dtype, LS_SHAPE(r->a, r->b, r->c)}, -1, 1, random);
  HEAP(double, x) = malloc(count * sizeof(*x));
  for (size_t i = 0; i < count; ++i)
    x[i] = loop_read(dtype, data, (int64_t)i);
  HEAP(void, got) = loop_case_run(&c);
  const int64_t columns = r->last_too ? 1 : r->c;
  for (int64_t i = 0; i < r->a * columns; ++i) {
    uint64_t want = 0;  // Room for one number.
    loop_write(dtype, &want, 0, reduced(r, dtype, x, i / columns, i % columns));
    const double wanted = loop_read(dtype, &want, 0);
    if (loop_read(dtype, got, i) != wanted)
      fail_msg("sum of %s [%lld, %lld, %lld]: [%lld] is %a, want %a",
               ls_dtype_name(dtype), (long long)r->a, (long long)r->b,
               (long long)r->c, (long long)i, loop_read(dtype, got, i), wanted);
  }
}

TEST(reductions_add_in_the_order_of_their_axes) {
  static const reduction rows[] = {
      {3, 40, 50, false},  {1, 1500, 9, false}, {2, 512, 130, false},
      {2, 513, 16, false}, {4, 7, 33, true},    {1, 64, 300, true},
      {30, 1, 17, true},   {5, 1025, 3, false}, {2, 64, 128, true},
      {3, 4097, 1, true},
  };
  loop_random random = {loop_random_seed()};
  const kernel_tables tables = kernel_tables_find();
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    for (size_t type = 0; type < LOOP_FLOATS; ++type)
      check_reduction(&rows[i], loop_types[type],
                      tables.at[i % tables.count]->name, &random);
}

// Sums of arrays: the canonical tree, which splits at the largest power of two.
static float tree(const float *const *x, size_t first, size_t count, size_t i) {
  if (count == 1) return x[first][i];
  size_t left = 1;
  while (left * 2 < count)
    left *= 2;
  return tree(x, first, left, i) + tree(x, first + left, count - left, i);
}

TEST(sums_of_arrays_follow_the_canonical_tree) {
  enum { SIZE = 700 };
  loop_random random = {loop_random_seed()};
  for (size_t count = 1; count <= 33; count += 1 + count / 8) {
    const ls_type type = {LS_DTYPE_F32, LS_SHAPE(SIZE)};
    LS_OWN(loop_case, c) = {.op = LS_OP_ADD_N, .out = type};
    const float *x[LOOP_CASE_OPERANDS];
    for (size_t i = 0; i < count; ++i)
      x[i] = loop_case_add(&c, type, -1, 1, &random);
    float *got = loop_case_run(&c), want[SIZE];
    for (size_t i = 0; i < SIZE; ++i)
      want[i] = tree(x, 0, count, i);
    expect_same_numbers("add_n", "best", LS_DTYPE_F32, want, got, SIZE);
    free(got);
  }
}

// ---- Weights' gradients ----------------------------------------------------
// Of a 1x1 convolution: chains of 256 outputs in row order, each from +0, added
// in order.
TEST(a_weights_gradient_is_chains_in_row_order) {
  enum { IMAGES = 5, SIDE = 13, IN = 7, OUT = 9, CHAIN = 256 };
  enum { PIXELS = IMAGES * SIDE * SIDE };
  loop_random random = {loop_random_seed()};
  const kernel_tables tables = kernel_tables_find();
  for (size_t t = 0; t < tables.count; ++t) {
    LS_OWN(loop_case, c) = {.op = LS_OP_CONV_GRAD_WEIGHTS,
                            .out = {LS_DTYPE_F32, LS_SHAPE(1, 1, IN, OUT)},
                            .kernels = tables.at[t]->name};
    loop_case_attr(&c, LS_ATTR_B("same", true));
    const float *x = loop_case_add(
        &c, (ls_type){LS_DTYPE_F32, LS_SHAPE(IMAGES, SIDE, SIDE, IN)}, -1, 1,
        &random);
    const float *dy = loop_case_add(
        &c, (ls_type){LS_DTYPE_F32, LS_SHAPE(IMAGES, SIDE, SIDE, OUT)}, -1, 1,
        &random);
    float *got = loop_case_run(&c), want[IN * OUT];
    for (size_t i = 0; i < IN; ++i)
      for (size_t o = 0; o < OUT; ++o) {
        float sum = 0;
        for (size_t first = 0; first < PIXELS; first += CHAIN) {
          float chain = 0;
          for (size_t p = first; p < PIXELS && p < first + CHAIN; ++p)
            chain = fmaf(x[p * IN + i], dy[p * OUT + o], chain);
          sum = first == 0 ? chain : sum + chain;
        }
        want[i * OUT + o] = sum;
      }
    expect_same_numbers("weights", tables.at[t]->name, LS_DTYPE_F32, want, got,
                        IN * OUT);
    free(got);
  }
}
