// SPDX-License-Identifier: Apache-2.0
//
// Normalizations and their gradients against plain loops in double.
#include <math.h>
#include <stdlib.h>

#include "support/expect.h"
#include "support/loop_case.h"

static const ls_dtype floats[] = {LS_DTYPE_F64, LS_DTYPE_F32, LS_DTYPE_F16,
                                  LS_DTYPE_BF16};
static const double epsilon = 1e-3;

static ls_dtype wide_of(ls_dtype dtype) {
  return dtype == LS_DTYPE_F64 ? LS_DTYPE_F64 : LS_DTYPE_F32;
}

// A norm of `rows` by `columns`; relu only of batch norms.
typedef struct norm {
  ls_dtype dtype;
  int64_t rows, columns;
  bool relu;
  double low, high;  // x
} norm;

static ls_type array_of(const norm *n) {
  // Rows of two dimensions where they can be cut evenly.
  if (n->rows % 2 == 0)
    return (ls_type){n->dtype, LS_SHAPE(2, n->rows / 2, n->columns)};
  return (ls_type){n->dtype, LS_SHAPE(n->rows, n->columns)};
}

static ls_type channels_of(const norm *n) {
  return (ls_type){wide_of(n->dtype), LS_SHAPE(n->columns)};
}

static void add_attrs(loop_case *c, const norm *n) {
  loop_case_attr(c, LS_ATTR_F("epsilon", epsilon));
  if (n->relu) loop_case_attr(c, LS_ATTR_S("activation", "relu"));
}

// Mean and variance of `count` elements from `first` on, `step` apart.
static void moments(ls_dtype dtype, const void *x, int64_t first, int64_t step,
                    int64_t count, double *mean, double *variance) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += loop_read(dtype, x, first + i * step);
  *mean = count == 0 ? 0 : sum / (double)count;
  for (int64_t i = 0; i < count; ++i) {
    const double t = loop_read(dtype, x, first + i * step) - *mean;
    squares += t * t;
  }
  *variance = count == 0 ? 0 : squares / (double)count;
}

// ---- Batch norm ------------------------------------------------------------
static void check_batch_norm(const norm *n, loop_random *random) {
  loop_case c = {.op = LS_OP_BATCH_NORM, .out = array_of(n)};
  add_attrs(&c, n);
  loop_case_add_output(&c, channels_of(n));
  loop_case_add_output(&c, channels_of(n));
  const void *x = loop_case_add(&c, array_of(n), n->low, n->high, random);
  const void *scale = loop_case_add(&c, channels_of(n), 0.5, 1.5, random);
  const void *offset = loop_case_add(&c, channels_of(n), -1, 1, random);
  void *got = loop_case_run(&c);
  const loop_case means = loop_case_of_output(&c, 0);
  const loop_case variances = loop_case_of_output(&c, 1);
  const ls_dtype wide = wide_of(n->dtype);
  const double size = fmax(fabs(n->low), fabs(n->high));
  const double spread = n->high - n->low;
  for (int64_t j = 0; j < n->columns; ++j) {
    double mean, variance;
    moments(n->dtype, x, j, n->columns, n->rows, &mean, &variance);
    loop_expect_near(&means, c.results[0], j, mean, 2, size);
    loop_expect_near(&variances, c.results[1], j, variance, 8, spread * spread);
    const double factor = loop_read(wide, scale, j) / sqrt(variance + epsilon);
    for (int64_t i = 0; i < n->rows; ++i) {
      const int64_t at = i * n->columns + j;
      double y = (loop_read(n->dtype, x, at) - mean) * factor +
                 loop_read(wide, offset, j);
      if (n->relu && y < 0) y = 0;
      loop_expect_near(&c, got, at, y, 4, 2 + (size + 4 * spread) * factor);
    }
  }
  free(got);
  loop_case_deinit(&c);
}

static void check_batch_norm_grad(const norm *n, loop_random *random) {
  loop_case c = {.op = LS_OP_BATCH_NORM_GRAD, .out = array_of(n)};
  add_attrs(&c, n);
  loop_case_add_output(&c, channels_of(n));
  loop_case_add_output(&c, channels_of(n));
  const ls_dtype wide = wide_of(n->dtype);
  const void *dy = loop_case_add(&c, array_of(n), -1, 1, random);
  const void *x = loop_case_add(&c, array_of(n), n->low, n->high, random);
  const void *scale = loop_case_add(&c, channels_of(n), 0.5, 1.5, random);
  const void *offset = loop_case_add(&c, channels_of(n), -1, 1, random);
  void *mean = loop_case_add(&c, channels_of(n), 0, 0, random);
  void *variance = loop_case_add(&c, channels_of(n), 0, 0, random);
  for (int64_t j = 0; j < n->columns; ++j) {
    double m, v;
    moments(n->dtype, x, j, n->columns, n->rows, &m, &v);
    loop_write(wide, mean, j, m);
    loop_write(wide, variance, j, v);
  }
  void *got = loop_case_run(&c);
  const loop_case channels = loop_case_of_output(&c, 0);
  const double count = (double)n->rows;
  for (int64_t j = 0; j < n->columns; ++j) {
    const double m = loop_read(wide, mean, j);
    const double inverse = 1 / sqrt(loop_read(wide, variance, j) + epsilon);
    const double gamma = loop_read(wide, scale, j);
    const double beta = loop_read(wide, offset, j);
    double sum = 0, product = 0, magnitude = 0;
    for (int64_t i = 0; i < n->rows; ++i) {
      const int64_t at = i * n->columns + j;
      const double r = (loop_read(n->dtype, x, at) - m) * inverse;
      double d = loop_read(n->dtype, dy, at);
      if (n->relu && !(r * gamma + beta > 0)) d = 0;
      sum += d;
      product += d * r;
      magnitude += fabs(d) * (1 + fabs(r));
    }
    loop_expect_near(&channels, c.results[0], j, product, 4, magnitude);
    loop_expect_near(&channels, c.results[1], j, sum, 4, magnitude);
    for (int64_t i = 0; i < n->rows; ++i) {
      const int64_t at = i * n->columns + j;
      const double r = (loop_read(n->dtype, x, at) - m) * inverse;
      const double z = r * gamma + beta;
      double d = loop_read(n->dtype, dy, at);
      if (n->relu && !(z > 0)) d = 0;
      // On the edge either is right.
      if (n->relu && fabs(z) < 1e-5) continue;
      const double want =
          gamma * inverse * (d - sum / count - r * product / count);
      loop_expect_near(&c, got, at, want, 4, 4 * gamma * inverse);
    }
  }
  free(got);
  loop_case_deinit(&c);
}

static void check_inference(const norm *n, loop_random *random) {
  loop_case c = {.op = LS_OP_BATCH_NORM_INFERENCE, .out = array_of(n)};
  add_attrs(&c, n);
  const ls_dtype wide = wide_of(n->dtype);
  const void *x = loop_case_add(&c, array_of(n), n->low, n->high, random);
  const void *scale = loop_case_add(&c, channels_of(n), 0.5, 1.5, random);
  const void *offset = loop_case_add(&c, channels_of(n), -1, 1, random);
  const void *mean = loop_case_add(&c, channels_of(n), -1, 1, random);
  const void *variance = loop_case_add(&c, channels_of(n), 0.5, 2, random);
  void *got = loop_case_run(&c);
  for (int64_t i = 0; i < n->rows * n->columns; ++i) {
    const int64_t j = i % n->columns;
    const double inverse = 1 / sqrt(loop_read(wide, variance, j) + epsilon);
    double y = (loop_read(n->dtype, x, i) - loop_read(wide, mean, j)) *
                   inverse * loop_read(wide, scale, j) +
               loop_read(wide, offset, j);
    if (n->relu && y < 0) y = 0;
    loop_expect_near(&c, got, i, y, 4, 8);
  }
  free(got);
  loop_case_deinit(&c);
}

static norm random_norm(ls_dtype dtype, int round, loop_random *random) {
  norm n = {.dtype = dtype, .low = -2, .high = 3, .relu = round & 1};
  n.rows = loop_random_between(random, 1, 90);
  n.columns = loop_random_between(random, 1, 70);
  if (round % 4 == 3) n.columns = loop_random_between(random, 200, 600);
  return n;
}

static void batch_norm_agrees_with_double(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < LS_COUNT_OF(floats); ++t) {
    for (int round = 0; round < 12; ++round) {
      const norm n = random_norm(floats[t], round, &random);
      check_batch_norm(&n, &random);
      check_batch_norm_grad(&n, &random);
      check_inference(&n, &random);
    }
  }
}

static void batch_norm_adds_many_chunks(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  static const int64_t sizes[][2] = {{70001, 16}, {50007, 3}, {5000, 80}};
  for (size_t i = 0; i < LS_COUNT_OF(sizes); ++i) {
    const ls_dtype dtype = i == 2 ? LS_DTYPE_BF16 : LS_DTYPE_F32;
    const norm n = {dtype, sizes[i][0], sizes[i][1], true, -1, 1};
    check_batch_norm(&n, &random);
    check_batch_norm_grad(&n, &random);
  }
}

static void a_variance_beside_a_large_mean_is_not_lost(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  const norm n = {LS_DTYPE_F32, 3000, 7, false, 1000, 1001};
  check_batch_norm(&n, &random);
}

static void no_rows_have_moments_of_0(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  const norm n = {LS_DTYPE_F32, 0, 5, false, 0, 1};
  check_batch_norm(&n, &random);
  check_batch_norm_grad(&n, &random);
  check_inference(&n, &random);
}

// ---- Layer norm and root-mean-square norm ----------------------------------
static void check_row_norm(const norm *n, bool centred, loop_random *random) {
  loop_case c = {.op = centred ? LS_OP_LAYER_NORM : LS_OP_RMS_NORM,
                 .out = array_of(n)};
  add_attrs(&c, n);
  const ls_dtype wide = wide_of(n->dtype);
  const void *x = loop_case_add(&c, array_of(n), n->low, n->high, random);
  const void *scale = loop_case_add(&c, channels_of(n), 0.5, 1.5, random);
  const void *offset =
      centred ? loop_case_add(&c, channels_of(n), -1, 1, random) : NULL;
  void *got = loop_case_run(&c);
  for (int64_t i = 0; i < n->rows; ++i) {
    double mean, variance;
    moments(n->dtype, x, i * n->columns, 1, n->columns, &mean, &variance);
    if (!centred) {
      variance += mean * mean;
      mean = 0;
    }
    const double inverse = 1 / sqrt(variance + epsilon);
    for (int64_t j = 0; j < n->columns; ++j) {
      const int64_t at = i * n->columns + j;
      double y = (loop_read(n->dtype, x, at) - mean) * inverse *
                 loop_read(wide, scale, j);
      if (offset != NULL) y += loop_read(wide, offset, j);
      loop_expect_near(&c, got, at, y, 4, 8 + 4 * inverse);
    }
  }
  free(got);
  loop_case_deinit(&c);
}

static void check_row_norm_grad(const norm *n, bool centred,
                                loop_random *random) {
  loop_case c = {.op = centred ? LS_OP_LAYER_NORM_GRAD : LS_OP_RMS_NORM_GRAD,
                 .out = array_of(n)};
  add_attrs(&c, n);
  loop_case_add_output(&c, channels_of(n));
  if (centred) loop_case_add_output(&c, channels_of(n));
  const ls_dtype wide = wide_of(n->dtype);
  const void *dy = loop_case_add(&c, array_of(n), -1, 1, random);
  const void *x = loop_case_add(&c, array_of(n), n->low, n->high, random);
  const void *scale = loop_case_add(&c, channels_of(n), 0.5, 1.5, random);
  void *got = loop_case_run(&c);
  double *sums = calloc((size_t)n->columns * 3, sizeof(double));
  const double count = (double)n->columns;
  for (int64_t i = 0; i < n->rows; ++i) {
    double mean, variance, sum = 0, product = 0;
    moments(n->dtype, x, i * n->columns, 1, n->columns, &mean, &variance);
    if (!centred) {
      variance += mean * mean;
      mean = 0;
    }
    const double inverse = 1 / sqrt(variance + epsilon);
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t j = 0; j < n->columns; ++j) {
        const int64_t at = i * n->columns + j;
        const double r = (loop_read(n->dtype, x, at) - mean) * inverse;
        const double d = loop_read(n->dtype, dy, at);
        const double g = d * loop_read(wide, scale, j);
        if (pass == 1) {
          const double taken = centred ? sum / count : 0;
          loop_expect_near(&c, got, at,
                           inverse * (g - taken - r * product / count), 8,
                           4 * inverse * (1 + inverse));
          continue;
        }
        sum += g;
        product += g * r;
        sums[j] += d * r;
        sums[n->columns + j] += d;
        sums[2 * n->columns + j] += 1 + fabs(r) * (1 + inverse);
      }
    }
  }
  const loop_case channels = loop_case_of_output(&c, 0);
  for (int64_t j = 0; j < n->columns; ++j) {
    const double magnitude = sums[2 * n->columns + j];
    loop_expect_near(&channels, c.results[0], j, sums[j], 4, magnitude);
    if (centred)
      loop_expect_near(&channels, c.results[1], j, sums[n->columns + j], 4,
                       magnitude);
  }
  free(sums);
  free(got);
  loop_case_deinit(&c);
}

static void layer_norm_agrees_with_double(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < LS_COUNT_OF(floats); ++t) {
    for (int round = 0; round < 12; ++round) {
      norm n = random_norm(floats[t], round, &random);
      n.relu = false;
      if (round == 0) n.rows = 0;
      for (int centred = 0; centred < 2; ++centred) {
        check_row_norm(&n, centred != 0, &random);
        check_row_norm_grad(&n, centred != 0, &random);
      }
    }
    const norm many = {floats[t], 5003, 20, false, -1, 2};
    check_row_norm(&many, true, &random);
    check_row_norm_grad(&many, true, &random);
    check_row_norm_grad(&many, false, &random);
  }
}

// ---- Instruction sets ------------------------------------------------------
// All outputs of a case, one behind the other.
static unsigned char *bytes_on(loop_case c, const char *kernels, size_t *size) {
  c.kernels = kernels;
  void *first = loop_case_run(&c);
  unsigned char *all = malloc(1 << 20);
  *size = 0;
  for (uint32_t i = 0; i <= c.num_more; ++i) {
    const ls_type type = i == 0 ? c.out : c.more[i - 1];
    const size_t bytes =
        (size_t)ls_shape_num_elements(type.shape) * ls_dtype_size(type.dtype);
    memcpy(all + *size, i == 0 ? first : c.results[i - 1], bytes);
    *size += bytes;
  }
  for (uint32_t i = 0; i < c.num_more; ++i)
    free(c.results[i]);
  free(first);
  return all;
}

static void expect_same_bytes(loop_case *c) {
  static const char *const names[] = {"base", "v3", "v4"};
  unsigned char *first = NULL;
  size_t size = 0;
  for (size_t i = 0; i < LS_COUNT_OF(names); ++i) {
    if (ls_cpu_kernels_find(names[i]) == NULL) continue;
    unsigned char *got = bytes_on(*c, names[i], &size);
    if (first != NULL && memcmp(first, got, size) != 0)
      fail_msg("%s: other bytes on %s", ls_op_table[c->op].name, names[i]);
    if (first == NULL)
      first = got;
    else
      free(got);
  }
  free(first);
  loop_case_deinit(c);
}

static void norms_have_the_same_bytes_on_every_instruction_set(void **state) {
  (void)state;
  for (int i = 0; i < 8; ++i) {
    loop_random random = {7};
    const norm n = {i & 1 ? LS_DTYPE_F64 : LS_DTYPE_F32, 400, 37, true, -2, 3};
    const bool gradient = (i & 2) != 0, batch = (i & 4) != 0;
    loop_case c = {.out = array_of(&n)};
    c.op = batch ? (gradient ? LS_OP_BATCH_NORM_GRAD : LS_OP_BATCH_NORM)
                 : (gradient ? LS_OP_LAYER_NORM_GRAD : LS_OP_LAYER_NORM);
    add_attrs(&c, &n);
    for (int k = 0; k < 2 && (batch || gradient); ++k)
      loop_case_add_output(&c, channels_of(&n));
    if (gradient) loop_case_add(&c, array_of(&n), -1, 1, &random);
    loop_case_add(&c, array_of(&n), -2, 3, &random);
    const int channels = batch && gradient ? 4 : gradient ? 1 : 2;
    for (int k = 0; k < channels; ++k)
      loop_case_add(&c, channels_of(&n), 0.5, 1.5, &random);
    expect_same_bytes(&c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(batch_norm_agrees_with_double),
      cmocka_unit_test(batch_norm_adds_many_chunks),
      cmocka_unit_test(a_variance_beside_a_large_mean_is_not_lost),
      cmocka_unit_test(no_rows_have_moments_of_0),
      cmocka_unit_test(layer_norm_agrees_with_double),
      cmocka_unit_test(norms_have_the_same_bytes_on_every_instruction_set),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
