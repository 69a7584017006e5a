// SPDX-License-Identifier: Apache-2.0
//
// Kernels that move, make and reduce elements, against naive references, and
// the orders of their sums.
#include <math.h>
#include <stdlib.h>

#include "engine/cpu/loops.h"
#include "support/expect.h"
#include "support/loop_case.h"

static const ls_dtype all_types[] = {
    LS_DTYPE_F64, LS_DTYPE_F32, LS_DTYPE_F16, LS_DTYPE_BF16, LS_DTYPE_I8,
    LS_DTYPE_I16, LS_DTYPE_I32, LS_DTYPE_I64, LS_DTYPE_U8,   LS_DTYPE_U16,
    LS_DTYPE_U32, LS_DTYPE_U64, LS_DTYPE_BOOL};
enum { NUMBERS = LS_COUNT_OF(all_types) - 1 };  // Without bool.

static ls_dtype any_type(loop_random *random, size_t count) {
  return all_types[loop_random_bits(random) % count];
}

// Sizes of 0 to 9, often 1, now and then a large one.
static ls_shape any_shape(loop_random *random, int32_t rank, bool empty) {
  ls_shape shape = {.rank = rank};
  for (int32_t i = 0; i < rank; ++i) {
    shape.dim[i] = loop_random_between(random, empty ? 0 : 1, 9);
    if (loop_random_bits(random) % 4 == 0) shape.dim[i] = 1;
  }
  if (rank > 0 && loop_random_bits(random) % 4 == 0)
    shape.dim[loop_random_between(random, 0, rank - 1)] =
        loop_random_between(random, 40, 1200);
  return shape;
}

// The index along each dimension of element `at`.
static void indices_of(ls_shape shape, int64_t at, int64_t *out) {
  for (int32_t i = shape.rank; i-- > 0;) {
    out[i] = at % shape.dim[i];
    at /= shape.dim[i];
  }
}

static int64_t element_of(ls_shape shape, const int64_t *indices) {
  int64_t at = 0;
  for (int32_t i = 0; i < shape.rank; ++i)
    at = at * shape.dim[i] + indices[i];
  return at;
}

// ---- Moves -----------------------------------------------------------------
static void reshape_copies_and_may_share_storage(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < LS_COUNT_OF(all_types); ++t) {
    loop_case c = {.op = LS_OP_RESHAPE,
                   .out = {all_types[t], LS_SHAPE(100, 7, 30)}};
    const void *x = loop_case_add(&c, (ls_type){all_types[t], LS_SHAPE(21000)},
                                  0, 50, &random);
    void *got = loop_case_run(&c);
    assert_memory_equal(got, x, 21000 * ls_dtype_size(all_types[t]));
    free(got);
    loop_case_deinit(&c);
  }
}

static void broadcast_repeats_new_and_unit_dimensions(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 150; ++round) {
    const ls_dtype dtype = any_type(&random, LS_COUNT_OF(all_types));
    const int32_t rank = (int32_t)loop_random_between(&random, 0, 4);
    const ls_shape to = any_shape(&random, rank, true);
    ls_shape from = {.rank = (int32_t)loop_random_between(&random, 0, rank)};
    for (int32_t i = 0; i < from.rank; ++i)
      from.dim[i] =
          loop_random_bits(&random) % 2 ? 1 : to.dim[i + rank - from.rank];
    loop_case c = {.op = LS_OP_BROADCAST, .out = {dtype, to}};
    const void *x = loop_case_add(&c, (ls_type){dtype, from}, 0, 99, &random);
    void *got = loop_case_run(&c);
    for (int64_t i = 0; i < ls_shape_num_elements(to); ++i) {
      int64_t at[LS_MAX_RANK];
      indices_of(to, i, at);
      int64_t *source = at + (rank - from.rank);
      for (int32_t d = 0; d < from.rank; ++d)
        if (from.dim[d] == 1) source[d] = 0;
      loop_expect(&c, got, i, loop_read(dtype, x, element_of(from, source)), 0);
    }
    free(got);
    loop_case_deinit(&c);
  }
}

static void check_transpose(ls_dtype dtype, ls_shape from, const int64_t *order,
                            loop_random *random) {
  ls_shape to = from;
  for (int32_t i = 0; i < from.rank; ++i)
    to.dim[i] = from.dim[order[i]];
  loop_case c = {.op = LS_OP_TRANSPOSE, .out = {dtype, to}};
  loop_case_attr(&c, LS_ATTR_IS("permutation", order, (size_t)from.rank));
  const void *x = loop_case_add(&c, (ls_type){dtype, from}, 0, 99, random);
  void *got = loop_case_run(&c);
  for (int64_t i = 0; i < ls_shape_num_elements(to); ++i) {
    int64_t at[LS_MAX_RANK], source[LS_MAX_RANK];
    indices_of(to, i, at);
    for (int32_t d = 0; d < from.rank; ++d)
      source[order[d]] = at[d];
    loop_expect(&c, got, i, loop_read(dtype, x, element_of(from, source)), 0);
  }
  free(got);
  loop_case_deinit(&c);
}

static void transpose_takes_any_permutation(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 150; ++round) {
    const int32_t rank = (int32_t)loop_random_between(&random, 0, 5);
    int64_t order[LS_MAX_RANK] = {0};
    for (int32_t i = 0; i < rank; ++i) {
      const int64_t k = loop_random_between(&random, 0, i);
      order[i] = order[k];
      order[k] = i;
    }
    check_transpose(any_type(&random, LS_COUNT_OF(all_types)),
                    any_shape(&random, rank, true), order, &random);
  }
  static const int64_t swap[] = {1, 0}, heads[] = {0, 2, 1, 3};
  check_transpose(LS_DTYPE_F32, LS_SHAPE(700, 130), swap, &random);
  check_transpose(LS_DTYPE_BF16, LS_SHAPE(33, 1100), swap, &random);
  check_transpose(LS_DTYPE_F32, LS_SHAPE(3, 40, 5, 16), heads, &random);
}

// ---- Sources ---------------------------------------------------------------
static void iota_counts_along_its_axis(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 80; ++round) {
    const ls_dtype dtype = any_type(&random, NUMBERS);
    const int32_t rank = (int32_t)loop_random_between(&random, 1, 3);
    ls_shape shape = any_shape(&random, rank, false);
    const int32_t axis = (int32_t)loop_random_between(&random, 0, rank - 1);
    if (shape.dim[axis] > 100) shape.dim[axis] = 100;  // Fits i8.
    loop_case c = {.op = LS_OP_IOTA, .out = {dtype, shape}};
    loop_case_attr(&c, LS_ATTR_I("axis", axis));
    void *got = loop_case_run(&c);
    for (int64_t i = 0; i < ls_shape_num_elements(shape); ++i) {
      int64_t at[LS_MAX_RANK];
      indices_of(shape, i, at);
      loop_expect(&c, got, i, (double)at[axis], 0);
    }
    free(got);
    loop_case_deinit(&c);
  }
}

static void one_hot_is_zero_outside_its_depth(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 60; ++round) {
    const ls_dtype index = all_types[4 + round % 8];
    const ls_dtype dtype = any_type(&random, LS_COUNT_OF(all_types));
    const int64_t rows = loop_random_between(&random, 1, 60);
    const int64_t depth = loop_random_between(&random, 1, 500);
    loop_case c = {.op = LS_OP_ONE_HOT, .out = {dtype, LS_SHAPE(rows, depth)}};
    loop_case_attr(&c, LS_ATTR_I("depth", depth));
    const void *x =
        loop_case_add(&c, (ls_type){index, LS_SHAPE(rows)}, -9, 100, &random);
    void *got = loop_case_run(&c);
    for (int64_t i = 0; i < rows * depth; ++i)
      loop_expect(&c, got, i,
                  loop_read(index, x, i / depth) == (double)(i % depth), 0);
    free(got);
    loop_case_deinit(&c);
  }
}

static void replica_id_is_the_replica_of_the_call(void **state) {
  (void)state;
  loop_case c = {
      .op = LS_OP_REPLICA_ID, .out = {LS_DTYPE_I32, LS_SCALAR}, .replica = 6};
  int32_t *got = loop_case_run(&c);
  assert_int_equal(got[0], 6);
  free(got);
}

// ---- Reductions ------------------------------------------------------------
// A case that reduces `shape` over the axes in `mask`.
static loop_case reduce_case(uint16_t op, ls_dtype dtype, ls_shape shape,
                             unsigned mask, int64_t axes[LS_MAX_RANK]) {
  loop_case c = {.op = op, .out = {dtype, LS_SCALAR}};
  size_t count = 0;
  for (int32_t i = 0; i < shape.rank; ++i) {
    if (mask >> i & 1)
      axes[count++] = i;
    else
      c.out.shape.dim[c.out.shape.rank++] = shape.dim[i];
  }
  loop_case_attr(&c, LS_ATTR_IS("axes", axes, count));
  return c;
}

// The output that element `i` belongs to.
static int64_t output_of(ls_shape shape, unsigned mask, int64_t i) {
  int64_t at[LS_MAX_RANK], to = 0;
  indices_of(shape, i, at);
  for (int32_t d = 0; d < shape.rank; ++d)
    if (!(mask >> d & 1)) to = to * shape.dim[d] + at[d];
  return to;
}

static double nothing(uint16_t op, ls_dtype dtype) {
  if (op == LS_OP_REDUCE_SUM) return 0;
  const bool max = op == LS_OP_REDUCE_MAX;
  if (ls_dtype_is_float(dtype))
    return max ? -(double)INFINITY : (double)INFINITY;
  const int bits = 8 * (int)ls_dtype_size(dtype);
  const bool is_unsigned = ls_dtype_is_unsigned(dtype);
  if (max) return is_unsigned ? 0 : -ldexp(1, bits - 1);
  const double top = ldexp(1, is_unsigned ? bits : bits - 1);
  return bits == 64 ? top : top - 1;
}

static double combined(uint16_t op, double a, double b) {
  if (op == LS_OP_REDUCE_SUM) return a + b;
  return op == LS_OP_REDUCE_MAX ? (a > b ? a : b) : (a < b ? a : b);
}

static void check_reduce(uint16_t op, ls_dtype dtype, ls_shape shape,
                         unsigned mask, loop_random *random) {
  int64_t axes[LS_MAX_RANK];
  loop_case c = reduce_case(op, dtype, shape, mask, axes);
  const bool is_float = ls_dtype_is_float(dtype);
  const void *x =
      loop_case_add(&c, (ls_type){dtype, shape}, is_float ? 0.25 : -3,
                    is_float ? 1 : 20, random);
  void *got = loop_case_run(&c);
  const int64_t outputs = ls_shape_num_elements(c.out.shape);
  double *want = calloc((size_t)outputs + 1, sizeof(*want));
  for (int64_t i = 0; i < outputs; ++i)
    want[i] = nothing(op, dtype);
  for (int64_t i = 0; i < ls_shape_num_elements(shape); ++i) {
    double *to = &want[output_of(shape, mask, i)];
    *to = combined(op, *to, loop_read(dtype, x, i));
  }
  for (int64_t i = 0; i < outputs; ++i) {
    const double exact =
        op == LS_OP_REDUCE_SUM ? loop_stored(dtype, want[i]) : want[i];
    loop_expect(&c, got, i, exact, 8);
  }
  free(want);
  free(got);
  loop_case_deinit(&c);
}

static void reductions_agree_with_double_over_any_axes(void **state) {
  (void)state;
  static const uint16_t ops[] = {LS_OP_REDUCE_SUM, LS_OP_REDUCE_MAX,
                                 LS_OP_REDUCE_MIN};
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 400; ++round) {
    const int32_t rank = (int32_t)loop_random_between(&random, 0, 4);
    check_reduce(ops[round % 3], any_type(&random, NUMBERS),
                 any_shape(&random, rank, round % 5 == 0),
                 loop_random_bits(&random) % (1U << rank), &random);
  }
  for (size_t t = 0; t < NUMBERS; ++t) {
    check_reduce(LS_OP_REDUCE_SUM, all_types[t], LS_SHAPE(1100, 150), 1,
                 &random);
    check_reduce(LS_OP_REDUCE_SUM, all_types[t], LS_SHAPE(150, 1100), 2,
                 &random);
    check_reduce(LS_OP_REDUCE_MAX, all_types[t], LS_SHAPE(9, 7, 130), 5,
                 &random);
  }
}

static void maxima_of_floats_are_nan_if_an_element_is(void **state) {
  (void)state;
  for (int at = 0; at < 40; ++at) {
    for (unsigned mask = 1; mask < 4; ++mask) {
      int64_t axes[LS_MAX_RANK];
      loop_case c = reduce_case(LS_OP_REDUCE_MAX, LS_DTYPE_F32, LS_SHAPE(2, 20),
                                mask, axes);
      float *x = loop_case_add_copy(
          &c, (ls_type){LS_DTYPE_F32, LS_SHAPE(2, 20)}, NULL);
      for (int i = 0; i < 40; ++i)
        x[i] = i == at ? NAN : (float)i;
      float *got = loop_case_run(&c);
      const int64_t to = output_of(LS_SHAPE(2, 20), mask, at);
      for (int64_t i = 0; i < ls_shape_num_elements(c.out.shape); ++i)
        assert_true(isnan(got[i]) == (i == to));
      free(got);
      loop_case_deinit(&c);
    }
  }
}

// The stated order for an innermost dimension that is reduced.
static float lanes_sum(const float *x, int64_t count) {
  float s[16] = {0};
  for (int64_t i = 0; i < count; ++i)
    s[i % 16] += x[i];
  for (int half = 8; half > 0; half /= 2)
    for (int j = 0; j < half; ++j)
      s[j] += s[j + half];
  return s[0];
}

static void sums_along_rows_go_to_sixteen_partial_sums(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 40; ++round) {
    // Axes 0 and 2 of [a, b, c], where b = 1 joins all.
    const int64_t a = loop_random_between(&random, 1, 30);
    const int64_t b = loop_random_between(&random, 1, 3);
    const int64_t n = loop_random_between(&random, 2, 900);
    int64_t axes[LS_MAX_RANK];
    loop_case c =
        reduce_case(LS_OP_REDUCE_SUM, LS_DTYPE_F32, LS_SHAPE(a, b, n), 5, axes);
    const float *x = loop_case_add(
        &c, (ls_type){LS_DTYPE_F32, LS_SHAPE(a, b, n)}, -1, 1, &random);
    float *got = loop_case_run(&c);
    float *row = malloc((size_t)(a * n) * sizeof(float));
    for (int64_t k = 0; k < b; ++k) {
      for (int64_t i = 0; i < a * n; ++i)
        row[i] = x[(i / n * b + k) * n + i % n];
      assert_true(got[k] == lanes_sum(row, a * n));
    }
    free(row);
    free(got);
    loop_case_deinit(&c);
  }
}

static void sums_of_columns_go_row_by_row_in_chains_of_512(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  static const ls_dtype types[] = {LS_DTYPE_F32, LS_DTYPE_BF16};
  for (int round = 0; round < 12; ++round) {
    const ls_dtype dtype = types[round % 2];
    const int64_t rows = loop_random_between(&random, 1, 1600);
    const int64_t n = loop_random_between(&random, 2, 300);
    int64_t axes[LS_MAX_RANK];
    loop_case c =
        reduce_case(LS_OP_REDUCE_SUM, dtype, LS_SHAPE(rows, n), 1, axes);
    const void *x =
        loop_case_add(&c, (ls_type){dtype, LS_SHAPE(rows, n)}, -1, 1, &random);
    void *got = loop_case_run(&c);
    for (int64_t j = 0; j < n; ++j) {
      float total = 0, chain = 0;
      for (int64_t i = 0; i < rows; ++i) {
        if (i % 512 == 0) chain = 0;
        chain += (float)loop_read(dtype, x, i * n + j);
        if (i % 512 == 511 || i == rows - 1)
          total = i < 512 ? chain : total + chain;
      }
      double rounded = (double)total;
      if (dtype == LS_DTYPE_BF16)
        rounded = (double)ls_bf16_to_f32(ls_bf16_from_f32(total));
      loop_expect(&c, got, j, rounded, 0);
    }
    free(got);
    loop_case_deinit(&c);
  }
}

static void argmax_is_the_first_maximum_and_nan_is_one(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 80; ++round) {
    const ls_dtype dtype = any_type(&random, NUMBERS);
    const int64_t a = loop_random_between(&random, 1, 20);
    const int64_t n = loop_random_between(&random, 1, 90);
    const int64_t b = loop_random_between(&random, 1, 20);
    loop_case c = {.op = LS_OP_ARGMAX, .out = {LS_DTYPE_I64, LS_SHAPE(a, b)}};
    loop_case_attr(&c, LS_ATTR_I("axis", 1));
    void *x =
        loop_case_add(&c, (ls_type){dtype, LS_SHAPE(a, n, b)}, -5, 6, &random);
    const bool with_nan = ls_dtype_is_float(dtype) && round % 2 == 0;
    if (with_nan) loop_write(dtype, x, (n / 2) * b, NAN);
    int64_t *got = loop_case_run(&c);
    for (int64_t i = 0; i < a * b; ++i) {
      int64_t want = 0;
      const int64_t from = i / b * n * b + i % b;
      for (int64_t k = 1; k < n; ++k)
        if (loop_read(dtype, x, from + k * b) >
            loop_read(dtype, x, from + want * b))
          want = k;
      if (with_nan && i == 0) want = n / 2;
      assert_int_equal(got[i], want);
    }
    free(got);
    loop_case_deinit(&c);
  }
}

// ---- Add_n -----------------------------------------------------------------
static float tree_sum(float *const *x, int64_t at, size_t begin, size_t end) {
  if (end - begin == 1) return x[begin][at];
  size_t split = 1;
  while (split * 2 < end - begin)
    split *= 2;
  return tree_sum(x, at, begin, begin + split) +
         tree_sum(x, at, begin + split, end);
}

static void add_n_follows_the_canonical_tree(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  for (size_t n = 1; n <= 33; ++n) {
    const int64_t count = n % 4 == 0 ? 17000 : 100;
    loop_case c = {.op = LS_OP_ADD_N, .out = {LS_DTYPE_F32, LS_SHAPE(count)}};
    for (size_t i = 0; i < n; ++i)
      loop_case_add(&c, c.out, -1, 1, &random);
    float *got = loop_case_run(&c);
    for (int64_t i = 0; i < count; ++i)
      assert_true(got[i] == tree_sum((float *const *)c.data, i, 0, n));
    free(got);
    loop_case_deinit(&c);
  }
}

static void add_n_agrees_with_double_on_all_types(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < NUMBERS; ++t) {
    for (uint32_t n = 1; n <= 12; ++n) {
      loop_case c = {.op = LS_OP_ADD_N, .out = {all_types[t], LS_SHAPE(700)}};
      for (uint32_t i = 0; i < n; ++i)
        loop_case_add(&c, c.out, 0, 9, &random);
      void *got = loop_case_run(&c);
      for (int64_t i = 0; i < 700; ++i) {
        double want = 0;
        for (uint32_t k = 0; k < n; ++k)
          want += loop_read(all_types[t], c.data[k], i);
        loop_expect(&c, got, i, want, 1);
      }
      free(got);
      loop_case_deinit(&c);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reshape_copies_and_may_share_storage),
      cmocka_unit_test(broadcast_repeats_new_and_unit_dimensions),
      cmocka_unit_test(transpose_takes_any_permutation),
      cmocka_unit_test(iota_counts_along_its_axis),
      cmocka_unit_test(one_hot_is_zero_outside_its_depth),
      cmocka_unit_test(replica_id_is_the_replica_of_the_call),
      cmocka_unit_test(reductions_agree_with_double_over_any_axes),
      cmocka_unit_test(maxima_of_floats_are_nan_if_an_element_is),
      cmocka_unit_test(sums_along_rows_go_to_sixteen_partial_sums),
      cmocka_unit_test(sums_of_columns_go_row_by_row_in_chains_of_512),
      cmocka_unit_test(argmax_is_the_first_maximum_and_nan_is_one),
      cmocka_unit_test(add_n_follows_the_canonical_tree),
      cmocka_unit_test(add_n_agrees_with_double_on_all_types),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
