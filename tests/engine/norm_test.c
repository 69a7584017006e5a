// SPDX-License-Identifier: Apache-2.0
//
// Normalizations and their gradients against the reference.
#include <math.h>
#include <stdlib.h>

#include "support/attrs.h"
#include "support/expect.h"
#include "support/loop_case.h"
#include "support/sanitizer.h"

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

// Adds operands: `arrays` as large as x, x last, then `channels`.
static void add_operands(loop_case *c, const norm *n, int arrays, int channels,
                         loop_random *random) {
  add_attrs(c, n);
  for (int i = 1; i < arrays; ++i)
    loop_case_add(c, array_of(n), -1, 1, random);
  loop_case_add(c, array_of(n), n->low, n->high, random);
  for (int i = 0; i < channels; ++i)  // Scale, offset, mean, variance.
    loop_case_add(c, channels_of(n), i == 0 || i == 3 ? 0.5 : -1,
                  i == 3   ? 2
                  : i == 0 ? 1.5
                           : 1,
                  random);
}

// ---- Batch norm ------------------------------------------------------------
static void check_batch_norm(const norm *n, loop_random *random) {
  loop_case c = {.op = LS_OP_BATCH_NORM, .out = array_of(n)};
  add_operands(&c, n, 1, 2, random);
  loop_case_add_output(&c, channels_of(n));
  loop_case_add_output(&c, channels_of(n));
  loop_case_agrees(&c, 8);
}

static void check_batch_norm_grad(const norm *n, loop_random *random) {
  loop_case c = {.op = LS_OP_BATCH_NORM_GRAD, .out = array_of(n)};
  add_operands(&c, n, 2, 4, random);
  loop_case_add_output(&c, channels_of(n));
  loop_case_add_output(&c, channels_of(n));
  for (int64_t j = 0; j < n->columns; ++j) {
    double m, v;
    moments(n->dtype, c.data[1], j, n->columns, n->rows, &m, &v);
    loop_write(wide_of(n->dtype), c.data[4], j, m);
    loop_write(wide_of(n->dtype), c.data[5], j, v);
  }
  loop_case_agrees(&c, 4);
}

static void check_inference(const norm *n, loop_random *random) {
  loop_case c = {.op = LS_OP_BATCH_NORM_INFERENCE, .out = array_of(n)};
  add_operands(&c, n, 1, 4, random);
  loop_case_agrees(&c, 4);
}

static norm random_norm(ls_dtype dtype, int round, loop_random *random) {
  norm n = {.dtype = dtype, .low = -2, .high = 3, .relu = round & 1};
  n.rows = loop_random_between(random, 1, 90);
  n.columns = loop_random_between(random, 1, 70);
  if (round % 4 == 3) n.columns = loop_random_between(random, 200, 600);
  return n;
}

TEST(batch_norm_agrees_with_the_reference) {
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < LOOP_FLOATS; ++t) {
    for (int round = 0; round < (LS_SANITIZED ? 4 : 12); ++round) {
      const norm n = random_norm(loop_types[t], round, &random);
      check_batch_norm(&n, &random);
      check_batch_norm_grad(&n, &random);
      check_inference(&n, &random);
    }
  }
}

TEST(batch_norm_adds_many_chunks) {
  loop_random random = {loop_random_seed()};
  static const int64_t sizes[][2] = {{70001, 16}, {50007, 3}, {5000, 80}};
  for (size_t i = 0; i < LS_COUNT_OF(sizes); ++i) {
    const ls_dtype dtype = i == 2 ? LS_DTYPE_BF16 : LS_DTYPE_F32;
    norm n = {dtype, sizes[i][0], sizes[i][1], true, -1, 1};
    check_batch_norm(&n, &random);
    n.relu = false;  // Among so many numbers some lie on its edge.
    check_batch_norm_grad(&n, &random);
  }
}

TEST(a_variance_beside_a_large_mean_is_not_lost) {
  loop_random random = {loop_random_seed()};
  const norm n = {LS_DTYPE_F32, 3000, 7, false, 1000, 1001};
  check_batch_norm(&n, &random);
}

TEST(no_rows_have_moments_of_0) {
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
  add_operands(&c, n, 1, centred ? 2 : 1, random);
  loop_case_agrees(&c, 4);
}

static void check_row_norm_grad(const norm *n, bool centred,
                                loop_random *random) {
  loop_case c = {.op = centred ? LS_OP_LAYER_NORM_GRAD : LS_OP_RMS_NORM_GRAD,
                 .out = array_of(n)};
  add_operands(&c, n, 2, 1, random);
  loop_case_add_output(&c, channels_of(n));
  if (centred) loop_case_add_output(&c, channels_of(n));
  loop_case_agrees(&c, 8);
}

TEST(layer_norm_agrees_with_the_reference) {
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < LOOP_FLOATS; ++t) {
    for (int round = 0; round < (LS_SANITIZED ? 4 : 12); ++round) {
      norm n = random_norm(loop_types[t], round, &random);
      n.relu = false;
      if (round == 0) n.rows = 0;
      for (int centred = 0; centred < 2; ++centred) {
        check_row_norm(&n, centred != 0, &random);
        check_row_norm_grad(&n, centred != 0, &random);
      }
    }
    const norm many = {loop_types[t], 5003, 20, false, -1, 2};
    check_row_norm(&many, true, &random);
    check_row_norm_grad(&many, true, &random);
    check_row_norm_grad(&many, false, &random);
    const norm single = {loop_types[t], 701, 1, false, -1, 2};
    for (int centred = 0; centred < 2; ++centred) {
      check_row_norm(&single, centred != 0, &random);
      check_row_norm_grad(&single, centred != 0, &random);
    }
  }
}

TEST(large_rows_of_equal_numbers_have_finite_gradients) {
  for (int64_t columns = 1; columns < 7; ++columns)
    for (int wide = 0; wide < 2; ++wide) {
      loop_random random = {7};
      const ls_dtype dtype = wide != 0 ? LS_DTYPE_F64 : LS_DTYPE_F32;
      const double large = wide != 0 ? 0x1p1020 : 0x1p124;
      const norm n = {dtype, 3, columns, false, large, large};
      LS_OWN(loop_case, c) = {.op = LS_OP_LAYER_NORM_GRAD, .out = array_of(&n)};
      add_operands(&c, &n, 2, 1, &random);
      loop_case_add_output(&c, channels_of(&n));
      loop_case_add_output(&c, channels_of(&n));
      HEAP(void, dx) = loop_case_run(&c);
      for (int64_t i = 0; i < 3 * columns; ++i)
        assert_true(isfinite(loop_read(dtype, dx, i)));
      for (int64_t i = 0; i < columns; ++i)
        assert_true(isfinite(loop_read(dtype, c.results[0], i)));
    }
}

// ---- Instruction sets ------------------------------------------------------
// All outputs of a case, one behind the other.
static unsigned char *bytes_on(loop_case c, const char *kernels, size_t *size) {
  c.kernels = kernels;
  HEAP(void, first) = loop_case_run(&c);
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

TEST(norms_have_the_same_bytes_on_every_instruction_set) {
  for (int i = 0; i < 16; ++i) {
    loop_random random = {7};
    const int64_t columns = i & 8 ? 1 : 37;
    const norm n = {
        i & 1 ? LS_DTYPE_F64 : LS_DTYPE_F32, 400, columns, true, -2, 3};
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
