// SPDX-License-Identifier: Apache-2.0
//
// A product is one chain of fused multiply-adds over k, then the bias, the
// activation and what C held: whatever the cut into blocks and onto threads,
// wherever the arrays begin, however few rows there are, and of whatever bits.
// (Every tail and every way to store one: engine/kernel_product_test.c.)
#include "support/expect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/own.h"
#include "base/threads/workers.h"
#include "support/kernel_tables.h"
#include "support/sanitizer.h"

// ---- A product and its arrays ----------------------------------------------
typedef struct sizes {
  size_t m, n, k;
  bool a_transposed, b_transposed;
} sizes;

typedef struct product {
  ls_cpu_product args;
  ls_dtype dtype;
  size_t element;
  void *a, *b, *c, *bias, *old;
  size_t offset[4];  // Of these, in bytes; old's is c's.
} product;

static product new_product(ls_dtype dtype, sizes s, number_kind kind,
                           loop_random *random) {
  const size_t element = ls_dtype_size(dtype);
  product p = {.dtype = dtype, .element = element};
  for (size_t i = 0; i < LS_COUNT_OF(p.offset); ++i)
    p.offset[i] = loop_random_bits(random) % (64 / element) * element;
  p.a = numbers_create(s.m * s.k * element, p.offset[0]);
  p.b = numbers_create(s.k * s.n * element, p.offset[1]);
  p.c = numbers_create(s.m * s.n * element, p.offset[2]);
  p.old = numbers_create(s.m * s.n * element, p.offset[2]);
  p.bias = numbers_create(s.n * element, p.offset[3]);
  numbers_fill(dtype, p.a, s.m * s.k, kind, random);
  numbers_fill(dtype, p.b, s.k * s.n, kind, random);
  numbers_fill(dtype, p.old, s.m * s.n, kind, random);
  numbers_fill(dtype, p.bias, s.n, kind, random);
  p.args = (ls_cpu_product){.m = s.m,
                            .n = s.n,
                            .k = s.k,
                            .a = p.a,
                            .b = p.b,
                            .c = p.c,
                            .lda = s.a_transposed ? s.m : s.k,
                            .ldb = s.b_transposed ? s.k : s.n,
                            .ldc = s.n,
                            .a_transposed = s.a_transposed,
                            .b_transposed = s.b_transposed};
  return p;
}

static void free_product(product *p) {
  numbers_free(p->a, p->offset[0]);
  numbers_free(p->b, p->offset[1]);
  numbers_free(p->c, p->offset[2]);
  numbers_free(p->old, p->offset[2]);
  numbers_free(p->bias, p->offset[3]);
}
LS_OWNED_STRUCT(product, free_product)

static size_t outputs_of(const product *p) { return p->args.m * p->args.n; }

static double number_at(const product *p, const void *data, size_t i) {
  return p->element == 4 ? (double)((const float *)data)[i]
                         : ((const double *)data)[i];
}

// The chain of one output, by the definition.
static double chain(const product *p, size_t i, size_t j) {
  const ls_cpu_product *args = &p->args;
  float narrow = 0;
  double wide = 0;
  for (size_t k = 0; k < args->k; ++k) {
    const double a = number_at(
        p, p->a, args->a_transposed ? k * args->lda + i : i * args->lda + k);
    const double b = number_at(
        p, p->b, args->b_transposed ? j * args->ldb + k : k * args->ldb + j);
    if (p->element == 4)
      narrow = fmaf((float)a, (float)b, narrow);
    else
      wide = fma(a, b, wide);
  }
  return p->element == 4 ? (double)narrow : wide;
}

static void put(const product *p, void *data, size_t i, double x) {
  if (p->element == 4)
    ((float *)data)[i] = (float)x;
  else
    ((double *)data)[i] = x;
}

// All outputs, with what the product's arguments ask for.
static void *compute_want(const product *p) {
  void *want = numbers_create(outputs_of(p) * p->element, 0);
  const ls_cpu_product *args = &p->args;
  for (size_t i = 0; i < args->m; ++i) {
    for (size_t j = 0; j < args->n; ++j) {
      const size_t at = i * args->n + j;
      put(p, want, at, chain(p, i, j));
      if (args->bias != NULL)
        put(p, want, at, number_at(p, want, at) + number_at(p, p->bias, j));
      if (args->activation == LS_CPU_ACTIVATION_RELU &&
          0 > number_at(p, want, at))
        put(p, want, at, 0);
      if (args->accumulate)
        put(p, want, at, number_at(p, p->old, at) + number_at(p, want, at));
    }
  }
  return want;
}

static ls_cpu_product_fn *function_of(const ls_cpu_kernels *table,
                                      const product *p) {
  return p->element == 4 ? table->product_f32 : table->product_f64;
}

static size_t scratch_of(const ls_cpu_kernels *table, const product *p) {
  return p->element == 4 ? table->product_f32_scratch(&p->args)
                         : table->product_f64_scratch(&p->args);
}

static void reset(product *p) {
  memcpy(p->c, p->old, outputs_of(p) * p->element);
}

static void run_block(const ls_cpu_kernels *table, product *p,
                      ls_cpu_block block) {
  void *scratch = numbers_create(scratch_of(table, p), 0);
  function_of(table, p)(&p->args, &block, scratch);
  numbers_free(scratch, 0);
}

static void expect_product(const char *what, const ls_cpu_kernels *table,
                           const product *p, const void *want) {
  char text[160];
  snprintf(text, sizeof(text), "%s: %s %zux%zux%zu%s%s", what,
           ls_dtype_name(p->dtype), p->args.m, p->args.n, p->args.k,
           p->args.a_transposed ? " A'" : "",
           p->args.b_transposed ? " B'" : "");
  expect_same_numbers(text, table->name, p->dtype, want, p->c, outputs_of(p));
}

// ---- Cuts ------------------------------------------------------------------
enum { MOST_CUTS = 6 };

// Ascending places from 0 to `size`; returns how many pieces they make.
static size_t cut(size_t size, size_t *places, loop_random *random) {
  const size_t pieces = 1 + loop_random_bits(random) % MOST_CUTS;
  places[0] = 0;
  for (size_t i = 1; i < pieces; ++i) {
    const size_t left = size - places[i - 1];
    places[i] = places[i - 1] + loop_random_bits(random) % (left + 1);
  }
  places[pieces] = size;
  return pieces;
}

static void check_any_cut(ls_dtype dtype, sizes s, number_kind kind,
                          const kernel_tables *tables, loop_random *random) {
  LS_OWN(product, p) = new_product(dtype, s, kind, random);
  const uint32_t epilogue = loop_random_bits(random);
  if ((epilogue & 1) != 0) p.args.bias = p.bias;
  if ((epilogue & 2) != 0) p.args.activation = LS_CPU_ACTIVATION_RELU;
  p.args.accumulate = (epilogue & 4) != 0;
  void *want = compute_want(&p);
  for (size_t t = 0; t < tables->count; ++t) {
    size_t rows[MOST_CUTS + 1], columns[MOST_CUTS + 1];
    const size_t bands = cut(s.m, rows, random);
    const size_t panels = cut(s.n, columns, random);
    reset(&p);
    for (size_t b = bands; b-- > 0;)
      for (size_t q = 0; q < panels; ++q)
        run_block(
            tables->at[t], &p,
            (ls_cpu_block){rows[b], rows[b + 1], columns[q], columns[q + 1]});
    expect_product("cut", tables->at[t], &p, want);
  }
  numbers_free(want, 0);
}

// Runs pieces along k one after the other; the last one ends the chains.
static void check_pieces(ls_dtype dtype, sizes s, const kernel_tables *tables,
                         loop_random *random) {
  LS_OWN(product, p) = new_product(dtype, s, NUMBERS_SMALL, random);
  p.args.bias = p.bias;
  p.args.activation = LS_CPU_ACTIVATION_RELU;
  void *want = compute_want(&p);
  for (size_t t = 0; t < tables->count; ++t) {
    size_t cuts[MOST_CUTS + 1];
    const size_t pieces = cut(s.k, cuts, random);
    reset(&p);
    for (size_t i = 0; i < pieces; ++i) {
      product piece = p;
      ls_cpu_product *args = &piece.args;
      args->k = cuts[i + 1] - cuts[i];
      args->continues = i > 0;
      if (i + 1 < pieces) args->bias = NULL;
      if (i + 1 < pieces) args->activation = LS_CPU_ACTIVATION_NONE;
      args->a = (const char *)p.a +
                cuts[i] * (s.a_transposed ? args->lda : 1) * p.element;
      args->b = (const char *)p.b +
                cuts[i] * (s.b_transposed ? 1 : args->ldb) * p.element;
      run_block(tables->at[t], &piece, (ls_cpu_block){0, s.m, 0, s.n});
    }
    expect_product("pieces", tables->at[t], &p, want);
  }
  numbers_free(want, 0);
}

static sizes random_sizes(size_t most, loop_random *random) {
  return (sizes){.m = 1 + loop_random_bits(random) % most,
                 .n = 1 + loop_random_bits(random) % most,
                 .k = loop_random_bits(random) % (2 * most),
                 .a_transposed = loop_random_bits(random) % 2 == 0,
                 .b_transposed = loop_random_bits(random) % 2 == 0};
}

TEST(no_cut_and_no_place_in_memory_shows) {
  const kernel_tables tables = kernel_tables_find();
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < (LS_SANITIZED ? 20 : 100); ++round)
    for (int wide = 0; wide < 2; ++wide)
      check_any_cut(wide != 0 ? LS_DTYPE_F64 : LS_DTYPE_F32,
                    random_sizes(round % 10 == 0 ? 150 : 50, &random),
                    NUMBERS_SMALL, &tables, &random);
}

TEST(a_chain_goes_on_from_a_piece_to_the_next) {
  const kernel_tables tables = kernel_tables_find();
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < (LS_SANITIZED ? 40 : 200); ++round)
    check_pieces(round % 2 != 0 ? LS_DTYPE_F64 : LS_DTYPE_F32,
                 random_sizes(round % 4 < 2 ? 6 : 80, &random), &tables,
                 &random);
}

// Infinities, NaNs and denormals travel down the chain like all else.
TEST(any_bits_go_through_the_same_chain) {
  const kernel_tables tables = kernel_tables_find();
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < (LS_SANITIZED ? 20 : 100); ++round)
    for (int wide = 0; wide < 2; ++wide) {
      sizes s = random_sizes(40, &random);
      s.k %= 6;  // Else all is NaN.
      check_any_cut(wide != 0 ? LS_DTYPE_F64 : LS_DTYPE_F32, s, NUMBERS_ANY,
                    &tables, &random);
    }
}

// ---- Few rows --------------------------------------------------------------
// As a small lane or the short last block of a cut has them: the rows of A
// times B' alone, for each number below 16.
TEST(few_rows_have_the_bits_they_have_among_many) {
  enum { ROWS = 33 };
  const kernel_tables tables = kernel_tables_find();
  loop_random random = {loop_random_seed()};
  for (int wide = 0; wide < 2; ++wide) {
    for (int turned = 0; turned < 2; ++turned) {
      const sizes s = {ROWS, 70, 390, false, turned != 0};
      LS_OWN(product, p) = new_product(wide != 0 ? LS_DTYPE_F64 : LS_DTYPE_F32,
                                       s, NUMBERS_SMALL, &random);
      for (size_t t = 0; t < tables.count; ++t) {
        reset(&p);
        run_block(tables.at[t], &p, (ls_cpu_block){0, ROWS, 0, s.n});
        for (size_t few = 1; few < 16; few += LS_SANITIZED ? 3 : 1) {
          // Not a block of the same product: another one.
          product alone = p;
          const size_t first = loop_random_bits(&random) % (ROWS - few);
          alone.args.m = few;
          alone.args.a = (const char *)p.a + first * s.k * p.element;
          alone.args.c = alone.c = numbers_create(few * s.n * p.element, 0);
          run_block(tables.at[t], &alone, (ls_cpu_block){0, few, 0, s.n});
          expect_product("few rows", tables.at[t], &alone,
                         (const char *)p.c + first * s.n * p.element);
          numbers_free(alone.c, 0);
        }
      }
    }
  }
}

// ---- Long chains -----------------------------------------------------------
// Where libraries begin a new chain: 256, 384, 512, 1024.
static const size_t depths[] = {255, 256, 257, 384, 385, 512, 513, 1025, 2050};

TEST(a_long_chain_is_still_one) {
  const kernel_tables tables = kernel_tables_find();
  loop_random random = {loop_random_seed()};
  for (size_t d = 0; d < LS_COUNT_OF(depths); ++d)
    for (int wide = 0; wide < 2; ++wide) {
      const sizes s = {14, 35, depths[d], d % 2 == 0, d / 2 % 2 == 0};
      check_any_cut(wide != 0 ? LS_DTYPE_F64 : LS_DTYPE_F32, s, NUMBERS_SMALL,
                    &tables, &random);
    }
}

TEST(accumulating_is_the_product_and_then_an_addition) {
  const kernel_tables tables = kernel_tables_find();
  loop_random random = {loop_random_seed()};
  for (size_t d = 0; d < LS_COUNT_OF(depths); ++d) {
    const sizes s = {40, 50, depths[d], true, false};
    LS_OWN(product, p) = new_product(LS_DTYPE_F32, s, NUMBERS_SMALL, &random);
    const ls_cpu_block whole = {0, s.m, 0, s.n};
    for (size_t t = 0; t < tables.count; ++t) {
      reset(&p);
      p.args.accumulate = false;
      run_block(tables.at[t], &p, whole);
      float *want = numbers_create(outputs_of(&p) * sizeof(float), 0);
      for (size_t i = 0; i < outputs_of(&p); ++i)
        want[i] = ((float *)p.old)[i] + ((float *)p.c)[i];
      reset(&p);
      p.args.accumulate = true;
      run_block(tables.at[t], &p, whole);
      expect_product("accumulate", tables.at[t], &p, want);
      numbers_free(want, 0);
    }
  }
}

// ---- Views -----------------------------------------------------------------
// A with gaps behind every so many rows, and along k, against A without: in
// some strips that are copied, as there are many columns.
TEST(a_view_is_what_it_shows) {
  enum { M = 110, N = 260, K = 45, M_LINE = 7, K_LINE = 9, GAP = 5, STEP = 3 };
  const kernel_tables tables = kernel_tables_find();
  loop_random random = {loop_random_seed()};
  for (int turned = 0; turned < 2; ++turned) {
    const sizes s = {M, N, K, turned != 0, false};
    LS_OWN(product, p) = new_product(LS_DTYPE_F32, s, NUMBERS_SMALL, &random);
    // Element (i, k) of a view stands where its strides and gaps say.
    const size_t row = s.a_transposed ? 1 : 2 * K, step = turned ? 2 * M : 1;
    const size_t room = 3 * M * K;
    float *gaps = numbers_create(room * sizeof(*gaps), 0);
    memset(gaps, 0xff, room * sizeof(*gaps));  // NaN.
    for (size_t i = 0; i < M; ++i)
      for (size_t k = 0; k < K; ++k) {
        const size_t at =
            i * row + i / M_LINE * GAP + k * step + k / K_LINE * STEP;
        assert_in_range(at, 0, room - 1);
        gaps[at] = ((const float *)p.a)[turned ? k * M + i : i * K + k];
      }
    void *want = compute_want(&p);
    p.args.a = gaps;
    p.args.lda = turned ? 2 * M : 2 * K;
    p.args.m_line = M_LINE;
    p.args.m_skip = GAP;
    p.args.k_line = K_LINE;
    p.args.k_skip = STEP;
    for (size_t t = 0; t < tables.count; ++t)
      for (size_t m = 0; m <= M; m += 22) {
        reset(&p);
        run_block(tables.at[t], &p, (ls_cpu_block){m, M, 0, N});
        run_block(tables.at[t], &p, (ls_cpu_block){0, m, 0, N});
        expect_product("view", tables.at[t], &p, want);
      }
    numbers_free(want, 0);
    numbers_free(gaps, 0);
  }
}

// ---- Threads ---------------------------------------------------------------
enum { BAND = 9, PANEL = 17 };
typedef struct shared {
  product *p;
  size_t panels;
} shared;

static void run_share(void *user, int worker, int64_t begin, int64_t end) {
  const shared *it = user;
  (void)worker;
  for (int64_t i = begin; i < end; ++i) {
    const size_t m = (size_t)i / it->panels * BAND;
    const size_t n = (size_t)i % it->panels * PANEL;
    const ls_cpu_product *args = &it->p->args;
    run_block(ls_cpu_kernels_best(), it->p,
              (ls_cpu_block){m, m + BAND < args->m ? m + BAND : args->m, n,
                             n + PANEL < args->n ? n + PANEL : args->n});
  }
}

TEST(threads_that_share_the_blocks_do_not_show) {
  loop_random random = {loop_random_seed()};
  const sizes s = {60, 130, 300, false, true};
  LS_OWN(product, p) = new_product(LS_DTYPE_F32, s, NUMBERS_SMALL, &random);
  p.args.accumulate = true;  // A block that ran twice would show.
  void *want = compute_want(&p);
  shared job = {&p, (s.n + PANEL - 1) / PANEL};
  for (int threads = 1; threads <= 8; threads += threads == 3 ? 5 : 1) {
    ls_workers *workers = NULL;
    expect_ok(ls_workers_create(ls_allocator_system(), threads, &workers));
    for (int round = 0; round < (LS_SANITIZED ? 3 : 20); ++round) {
      reset(&p);
      expect_ok(
          ls_workers_share(workers, run_share, &job,
                           (int64_t)((s.m + BAND - 1) / BAND * job.panels)));
      expect_product("threads", ls_cpu_kernels_best(), &p, want);
    }
    ls_workers_destroy(workers);
  }
  numbers_free(want, 0);
}
