// SPDX-License-Identifier: Apache-2.0
//
// Products, softmax, cross-entropy and random numbers.
#include <math.h>
#include <stdlib.h>

#include "engine/cpu/kernels/loops.h"
#include "support/attrs.h"
#include "support/expect.h"
#include "support/loop_case.h"
#include "support/sanitizer.h"

// ---- Products --------------------------------------------------------------
typedef struct product_case {
  ls_dtype dtype;
  int64_t batch, m, n, k;
  bool ta, tb, shared_b;  // B is one matrix for the whole batch.
} product_case;

static void check_matmul(const product_case *p, loop_random *random) {
  loop_case c = {.op = LS_OP_MATMUL,
                 .out = {p->dtype, LS_SHAPE(p->batch, p->m, p->n)}};
  loop_case_attr(&c, LS_ATTR_B("transpose_a", p->ta));
  loop_case_attr(&c, LS_ATTR_B("transpose_b", p->tb));
  const ls_shape a =
      p->ta ? LS_SHAPE(p->batch, p->k, p->m) : LS_SHAPE(p->batch, p->m, p->k);
  ls_shape b =
      p->tb ? LS_SHAPE(p->batch, p->n, p->k) : LS_SHAPE(p->batch, p->k, p->n);
  if (p->shared_b) b = LS_SHAPE(b.dim[1], b.dim[2]);
  loop_case_add(&c, (ls_type){p->dtype, a}, -5, 5, random);
  loop_case_add(&c, (ls_type){p->dtype, b}, -5, 5, random);
  loop_case_agrees(&c, 1);
  assert_true(c.flops == (double)(2 * p->batch * p->m * p->n * p->k));
}

TEST(matmul_agrees_with_the_reference_in_every_orientation) {
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < LOOP_NUMBERS; ++t) {
    for (int round = 0; round < (LS_SANITIZED ? 8 : 16); ++round) {
      product_case p = {
          .dtype = loop_types[t],
          .batch = loop_random_between(&random, 1, 4),
          .m = loop_random_between(&random, 0, 40),
          .n = loop_random_between(&random, 0, 40),
          .k = loop_random_between(&random, 0, 40),
          .ta = round & 1,
          .tb = round & 2,
          .shared_b = round % 8 >= 4 && !(round & 1),
      };
      check_matmul(&p, &random);
    }
  }
}

TEST(large_products_are_cut_without_a_trace) {
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < LOOP_NUMBERS; ++t) {
    product_case p = {.dtype = loop_types[t],
                      .batch = 1,
                      .m = 530,
                      .n = 270,
                      .k = 21,
                      .ta = t & 1,
                      .tb = t & 2};
    check_matmul(&p, &random);
    // B is brought into another order first.
    p.ta = false;
    p.tb = true;
    p.k = 65;
    check_matmul(&p, &random);
    p = (product_case){
        .dtype = loop_types[t], .batch = 40, .m = 33, .n = 150, .k = 9};
    check_matmul(&p, &random);
    // Ranges begin amid a matrix and end in the next one.
    p = (product_case){
        .dtype = loop_types[t], .batch = 3, .m = 300, .n = 270, .k = 20};
    check_matmul(&p, &random);
    // Narrow numbers are widened in several parts.
    p = (product_case){.dtype = loop_types[t],
                       .batch = 2,
                       .m = 14,
                       .n = 24,
                       .k = 1300,
                       .ta = t & 1,
                       .tb = t & 2};
    check_matmul(&p, &random);
  }
}

// k of a long sum, and of its parts.
enum { LONG_K = 5003, PART_K = 1264 };

TEST(long_sums_are_chains_that_are_added_in_order) {
  enum { M = 3, N = 5 };
  for (int transposed = 0; transposed < 2; ++transposed) {
    loop_random random = {loop_random_seed()};
    LS_OWN(loop_case, c) = {.op = LS_OP_MATMUL,
                            .out = {LS_DTYPE_F32, LS_SHAPE(M, N)}};
    loop_case_attr(&c, LS_ATTR_B("transpose_a", false));
    loop_case_attr(&c, LS_ATTR_B("transpose_b", transposed));
    const float *a = loop_case_add(
        &c, (ls_type){LS_DTYPE_F32, LS_SHAPE(M, LONG_K)}, -1, 1, &random);
    const ls_shape shape =
        transposed ? LS_SHAPE(N, LONG_K) : LS_SHAPE(LONG_K, N);
    const float *b =
        loop_case_add(&c, (ls_type){LS_DTYPE_F32, shape}, -1, 1, &random);
    HEAP(float, got) = loop_case_run(&c);
    for (size_t i = 0; i < M * N; ++i) {
      float sum = 0, chain = 0;
      for (size_t k = 0; k < LONG_K; ++k) {
        if (k % PART_K == 0) chain = 0;
        chain = fmaf(a[i / N * LONG_K + k],
                     b[transposed ? i % N * LONG_K + k : k * N + i % N], chain);
        if (k + 1 == LONG_K || (k + 1) % PART_K == 0)
          sum = k < PART_K ? chain : sum + chain;
      }
      assert_memory_equal(&got[i], &sum, sizeof(sum));
    }
  }
}

// Longer than the values that are widened at a time.
TEST(sums_of_16_bits_are_one_chain_of_floats) {
  enum { K = 1303 };
  loop_random random = {loop_random_seed()};
  for (int way = 0; way < 32; ++way) {
    const bool ta = way & 1, tb = way & 2;
    const int64_t rows = way & 8 ? 14 : 1, columns = way & 16 ? 27 : 1;
    const ls_dtype dtype = way & 4 ? LS_DTYPE_BF16 : LS_DTYPE_F16;
    LS_OWN(loop_case, c) = {.op = LS_OP_MATMUL,
                            .out = {dtype, LS_SHAPE(rows, columns)}};
    loop_case_attr(&c, LS_ATTR_B("transpose_a", ta));
    loop_case_attr(&c, LS_ATTR_B("transpose_b", tb));
    const void *a = loop_case_add(
        &c, (ls_type){dtype, ta ? LS_SHAPE(K, rows) : LS_SHAPE(rows, K)}, -1, 1,
        &random);
    const void *b = loop_case_add(
        &c, (ls_type){dtype, tb ? LS_SHAPE(columns, K) : LS_SHAPE(K, columns)},
        -1, 1, &random);
    HEAP(uint16_t, got) = loop_case_run(&c);
    for (int64_t i = 0; i < rows * columns; ++i) {
      float chain = 0;
      for (int64_t k = 0; k < K; ++k) {
        const int64_t m = i / columns, n = i % columns;
        chain =
            fmaf((float)loop_read(dtype, a, ta ? k * rows + m : m * K + k),
                 (float)loop_read(dtype, b, tb ? n * K + k : k * columns + n),
                 chain);
      }
      uint16_t want;
      loop_write(dtype, &want, 0, chain);
      assert_int_equal(got[i], want);
    }
  }
}

// So many rows that parts are not kept side by side; and a few of them.
TEST(rows_do_not_matter_to_long_sums) {
  enum { M = 1030, N = 256, FEW = 3 };
  loop_random random = {loop_random_seed()};
  LS_OWN(loop_case, all) = {.op = LS_OP_DENSE,
                            .out = {LS_DTYPE_F32, LS_SHAPE(M, N)}};
  loop_case_attr(&all, LS_ATTR_S("activation", "relu"));
  const float *x = loop_case_add(
      &all, (ls_type){LS_DTYPE_F32, LS_SHAPE(M, LONG_K)}, -1, 1, &random);
  const ls_type w_type = {LS_DTYPE_F32, LS_SHAPE(LONG_K, N)};
  const float *w = loop_case_add(&all, w_type, -1, 1, &random);
  const ls_type bias_type = {LS_DTYPE_F32, LS_SHAPE(N)};
  const float *bias = loop_case_add(&all, bias_type, -1, 1, &random);
  HEAP(float, want) = loop_case_run(&all);
  for (size_t row = 0; row < M; row += M - FEW) {
    LS_OWN(loop_case, few) = {.op = LS_OP_DENSE,
                              .out = {LS_DTYPE_F32, LS_SHAPE(FEW, N)}};
    loop_case_attr(&few, LS_ATTR_S("activation", "relu"));
    loop_case_add_copy(&few, (ls_type){LS_DTYPE_F32, LS_SHAPE(FEW, LONG_K)},
                       x + row * LONG_K);
    loop_case_add_copy(&few, w_type, w);
    loop_case_add_copy(&few, bias_type, bias);
    HEAP(float, got) = loop_case_run(&few);
    assert_memory_equal(got, want + row * N, FEW * N * sizeof(*got));
  }
}

TEST(dense_adds_its_bias_and_activates) {
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < LOOP_NUMBERS; ++t) {
    for (int variant = 0; variant < 8; ++variant) {
      const ls_dtype dtype = loop_types[t];
      const bool is_long = t < LOOP_FLOATS && variant & 4;
      const int64_t m = loop_random_between(&random, 1, is_long ? 9 : 300);
      const int64_t n = loop_random_between(&random, 1, is_long ? 9 : 200);
      const int64_t k = is_long ? LONG_K : loop_random_between(&random, 1, 30);
      loop_case c = {.op = LS_OP_DENSE, .out = {dtype, LS_SHAPE(2, m, n)}};
      if (variant & 1) loop_case_attr(&c, LS_ATTR_S("activation", "relu"));
      loop_case_add(&c, (ls_type){dtype, LS_SHAPE(2, m, k)}, -1, 1, &random);
      loop_case_add(&c, (ls_type){dtype, LS_SHAPE(k, n)}, -1, 1, &random);
      if (variant & 2)
        loop_case_add(&c, (ls_type){dtype, LS_SHAPE(n)}, -1, 1, &random);
      loop_case_agrees(&c, 1);
    }
  }
}

static void check_bytes_on_every_instruction_set(ls_dtype dtype, int64_t m,
                                                 int64_t n, int64_t k,
                                                 bool tb) {
  static const char *const names[] = {"base", "v3", "v4"};
  HEAP(void, first) = NULL;
  for (size_t i = 0; i < LS_COUNT_OF(names); ++i) {
    if (ls_cpu_kernels_find(names[i]) == NULL) continue;
    loop_random random = {7};
    LS_OWN(loop_case, c) = {.op = LS_OP_MATMUL,
                            .out = {dtype, LS_SHAPE(m, n)},
                            .kernels = names[i]};
    loop_case_attr(&c, LS_ATTR_B("transpose_b", tb));
    const ls_shape b = tb ? LS_SHAPE(n, k) : LS_SHAPE(k, n);
    loop_case_add(&c, (ls_type){dtype, LS_SHAPE(m, k)}, -9, 9, &random);
    loop_case_add(&c, (ls_type){dtype, b}, -9, 9, &random);
    void *got = loop_case_run(&c);
    if (first == NULL) {
      first = got;
    } else {
      assert_memory_equal(first, got, (size_t)(m * n) * ls_dtype_size(dtype));
      free(got);
    }
  }
}

TEST(products_have_the_same_bytes_on_every_instruction_set) {
  check_bytes_on_every_instruction_set(LS_DTYPE_F32, 70, 140, 300, false);
  check_bytes_on_every_instruction_set(LS_DTYPE_F32, 10, 40, LONG_K, false);
  // Many rows, for which B is brought into another order first.
  check_bytes_on_every_instruction_set(LS_DTYPE_F32, 530, 270, 65, true);
  check_bytes_on_every_instruction_set(LS_DTYPE_F32, 1030, 1024, 17, false);
  // A vector, and few rows by a transposed matrix.
  for (int64_t m = 1; m <= 5; ++m)
    check_bytes_on_every_instruction_set(LS_DTYPE_F32, m, 37, 70, true);
  check_bytes_on_every_instruction_set(LS_DTYPE_F32, 300, 1, 77, false);
  check_bytes_on_every_instruction_set(LS_DTYPE_F32, 35, 1, 1000, true);
  // Integers wrap around.
  for (size_t t = LOOP_FLOATS; t < LOOP_NUMBERS; ++t) {
    check_bytes_on_every_instruction_set(loop_types[t], 37, 70, 300, false);
    check_bytes_on_every_instruction_set(loop_types[t], 131, 17, 9, true);
  }
}

// ---- Softmax ---------------------------------------------------------------
static void check_softmax(uint16_t op, ls_dtype dtype, int64_t rows, int64_t n,
                          loop_random *random) {
  const ls_type type = {dtype, LS_SHAPE(rows, n)};
  loop_case c = {.op = op, .out = type};
  loop_case_add(&c, type, -4, 4, random);
  loop_case_agrees(&c, 4);
}

TEST(softmax_agrees_with_the_reference) {
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < LOOP_FLOATS; ++t) {
    for (int round = 0; round < (LS_SANITIZED ? 4 : 10); ++round) {
      const int64_t rows = loop_random_between(&random, 0, 40);
      const int64_t n = loop_random_between(&random, 1, 70);
      check_softmax(LS_OP_SOFTMAX, loop_types[t], rows, n, &random);
      check_softmax(LS_OP_LOG_SOFTMAX, loop_types[t], rows, n, &random);
    }
    for (int64_t n = 1; n <= 17; n += 4) {
      check_softmax(LS_OP_SOFTMAX, loop_types[t], 1100, n, &random);
      check_softmax(LS_OP_LOG_SOFTMAX, loop_types[t], 1100, n, &random);
    }
    check_softmax(LS_OP_SOFTMAX, loop_types[t], 3000, 10, &random);
    check_softmax(LS_OP_LOG_SOFTMAX, loop_types[t], 50, 1000, &random);
  }
}

// Labels of any integer type; row 0's is out of range.
static void check_cross_entropy(bool gradient, ls_dtype dtype, ls_dtype label,
                                int64_t rows, int64_t n, loop_random *random) {
  const ls_type logits = {dtype, LS_SHAPE(rows, n)};
  const ls_type row = {dtype, LS_SHAPE(rows)};
  loop_case c = {.op =
                     gradient ? LS_OP_CROSS_ENTROPY_GRAD : LS_OP_CROSS_ENTROPY,
                 .out = gradient ? logits : row};
  loop_case_add(&c, logits, -4, 4, random);
  void *labels = loop_case_add(&c, (ls_type){label, LS_SHAPE(rows)}, 0,
                               (double)n - 1e-9, random);
  loop_write(label, labels, 0, label == LS_DTYPE_I64 ? 0x1p32 : 120);
  if (gradient) loop_case_add(&c, row, -1, 1, random);
  loop_case_agrees(&c, 4);
}

TEST(cross_entropy_agrees_with_the_reference_for_any_labels) {
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < LOOP_FLOATS; ++t) {
    for (size_t l = LOOP_FLOATS; l < LOOP_NUMBERS; ++l) {
      const int64_t rows = loop_random_between(&random, 1, 50);
      const int64_t n = loop_random_between(&random, 1, 100);
      check_cross_entropy(false, loop_types[t], loop_types[l], rows, n,
                          &random);
      check_cross_entropy(true, loop_types[t], loop_types[l], rows, n, &random);
    }
    check_cross_entropy(false, loop_types[t], LS_DTYPE_I32, 4000, 10, &random);
    check_cross_entropy(true, loop_types[t], LS_DTYPE_I32, 4000, 10, &random);
    check_cross_entropy(false, loop_types[t], LS_DTYPE_I64, 1100, 1, &random);
    check_cross_entropy(true, loop_types[t], LS_DTYPE_I64, 1100, 1, &random);
  }
}

// ---- Random ----------------------------------------------------------------
static void *draw(uint16_t op, ls_dtype dtype, int64_t count, loop_case with,
                  const ls_attr *attrs, size_t num_attrs) {
  with.op = op;
  with.out = (ls_type){dtype, LS_SHAPE(count)};
  for (size_t i = 0; i < num_attrs; ++i)
    loop_case_attr(&with, attrs[i]);
  return loop_case_run(&with);
}

TEST(random_numbers_have_their_moments) {
  enum { COUNT = 200000 };
  for (size_t t = 0; t < LOOP_FLOATS; ++t) {
    const ls_attr range[] = {LS_ATTR_F("low", -1.0), LS_ATTR_F("high", 3.0)};
    const ls_attr bell[] = {LS_ATTR_F("mean", 2.0), LS_ATTR_F("deviation", .5)};
    for (int normal = 0; normal < 2; ++normal) {
      HEAP(void, x) =
          draw(normal ? LS_OP_RANDOM_NORMAL : LS_OP_RANDOM_UNIFORM,
               loop_types[t], COUNT, (loop_case){0}, normal ? bell : range, 2);
      double sum = 0, squares = 0, least = 99, greatest = -99;
      for (int64_t i = 0; i < COUNT; ++i) {
        const double v = loop_read(loop_types[t], x, i);
        sum += v;
        squares += v * v;
        least = fmin(least, v);
        greatest = fmax(greatest, v);
      }
      const double mean = sum / COUNT;
      const double variance = squares / COUNT - mean * mean;
      assert_true(fabs(mean - (normal ? 2.0 : 1.0)) < 0.012);
      assert_true(fabs(variance - (normal ? 0.25 : 16.0 / 12)) < 0.015);
      if (!normal) assert_true(least >= -1 && greatest < 3);
    }
  }
}

TEST(uniform_numbers_stay_below_the_upper_end) {
  // Ranges whose upper end rounding would reach often.
  static const double ends[][2] = {
      {1, 1.001}, {-0.001, 0}, {100, 100.5}, {-2, -1.999}};
  for (size_t t = 0; t < LOOP_FLOATS; ++t) {
    for (size_t r = 0; r < LS_COUNT_OF(ends); ++r) {
      const ls_attr range[] = {LS_ATTR_F("low", ends[r][0]),
                               LS_ATTR_F("high", ends[r][1])};
      HEAP(void, x) = draw(LS_OP_RANDOM_UNIFORM, loop_types[t], 20000,
                           (loop_case){0}, range, 2);
      double rounded;  // The lower end in this type.
      loop_write(loop_types[t], &rounded, 0, ends[r][0]);
      const double low = loop_read(loop_types[t], &rounded, 0);
      for (int64_t i = 0; i < 20000; ++i) {
        const double v = loop_read(loop_types[t], x, i);
        assert_true(v >= fmin(low, ends[r][0]) && v < ends[r][1]);
      }
    }
  }
}

// Whether two draws of the same number have the same bytes.
static bool same(const loop_case *a, const loop_case *b, const ls_attr *attrs,
                 size_t num_attrs) {
  HEAP(void, x) =
      draw(LS_OP_RANDOM_NORMAL, LS_DTYPE_F32, 64, *a, attrs, num_attrs);
  HEAP(void, y) =
      draw(LS_OP_RANDOM_NORMAL, LS_DTYPE_F32, 64, *b, attrs, num_attrs);
  return memcmp(x, y, 64 * sizeof(float)) == 0;
}

TEST(every_part_of_the_key_changes_the_numbers) {
  const loop_case plain = {0};
  const loop_case changed[] = {
      {.step = 1}, {.seed = 1}, {.iteration = 1}, {.replica = 1}};
  assert_true(same(&plain, &plain, NULL, 0));
  for (size_t i = 0; i < LS_COUNT_OF(changed); ++i)
    assert_false(same(&plain, &changed[i], NULL, 0));
  const ls_attr fixed = LS_ATTR_B("fixed", true);
  assert_true(same(&plain, &changed[0], &fixed, 1));
  assert_false(same(&plain, &changed[3], &fixed, 1));
  const ls_attr shared = LS_ATTR_B("same_on_all_replicas", true);
  assert_true(same(&plain, &changed[3], &shared, 1));
  assert_false(same(&plain, &changed[0], &shared, 1));
  const ls_attr streams[] = {LS_ATTR_I("stream", 1), LS_ATTR_I("seed", 1)};
  for (size_t i = 0; i < 2; ++i) {
    HEAP(float, x) =
        draw(LS_OP_RANDOM_NORMAL, LS_DTYPE_F32, 64, plain, NULL, 0);
    HEAP(float, y) =
        draw(LS_OP_RANDOM_NORMAL, LS_DTYPE_F32, 64, plain, &streams[i], 1);
    assert_memory_not_equal(x, y, 64 * sizeof(float));
  }
}

TEST(an_element_depends_on_its_index_alone) {
  for (size_t t = 0; t < LOOP_FLOATS; ++t) {
    for (int normal = 0; normal < 2; ++normal) {
      const uint16_t op = normal ? LS_OP_RANDOM_NORMAL : LS_OP_RANDOM_UNIFORM;
      HEAP(void, few) = draw(op, loop_types[t], 37, (loop_case){0}, NULL, 0);
      HEAP(void, many) =
          draw(op, loop_types[t], 40000, (loop_case){0}, NULL, 0);
      assert_memory_equal(few, many, 37 * ls_dtype_size(loop_types[t]));
    }
  }
}

TEST(the_first_numbers_are_pinned) {
  const loop_case at = {.seed = 1, .step = 2, .iteration = 3, .replica = 4};
  const ls_attr attrs[] = {LS_ATTR_I("seed", 5), LS_ATTR_I("stream", 6)};
  HEAP(float, f) = draw(LS_OP_RANDOM_UNIFORM, LS_DTYPE_F32, 4, at, attrs, 2);
  HEAP(double, d) = draw(LS_OP_RANDOM_UNIFORM, LS_DTYPE_F64, 2, at, attrs, 2);
  HEAP(float, n) = draw(LS_OP_RANDOM_NORMAL, LS_DTYPE_F32, 4, at, attrs, 2);
  static const float uniform[] = {0x1.cda8ap-5F, 0x1.d9e18p-5F, 0x1.31c48ap-1F,
                                  0x1.86d5a8p-1F};
  static const double wide[] = {0x1.cda8a941d9e1p-5, 0x1.31c48aa586d5ap-1};
  static const float bell[] = {0x1.1eef9cp+1F, 0x1.b48e82p-1F, 0x1.5c6b7ap-4F,
                               -0x1.03060ep+0F};
  assert_memory_equal(f, uniform, sizeof(uniform));
  assert_memory_equal(d, wide, sizeof(wide));
  assert_memory_equal(n, bell, sizeof(bell));
}
