// SPDX-License-Identifier: Apache-2.0
//
// Gradients of convolutions whose dy is mostly zeros: the bytes of those that
// multiply by every zero, which a table of kernels that finds none does; what
// is not finite beside a zero is a NaN in the reference and here.
#include <math.h>
#include <stdlib.h>

#include "support/attrs.h"
#include "support/expect.h"
#include "support/kernel_tables.h"
#include "support/sanitizer.h"

// ---- Tables ----------------------------------------------------------------
static const ls_cpu_zeros *inner;
static size_t listed;  // Calls.

static size_t count_all(const float *values, size_t count) {
  (void)values;
  return count;
}

static size_t list_row(ls_cpu_nonzero *to, const float *values, size_t count,
                       int32_t step) {
  ++listed;
  return inner->list_row(to, values, count, step);
}

static void list_columns(ls_cpu_nonzero *to, size_t pitch, uint32_t *counts,
                         const float *values, size_t count, int32_t place,
                         bool all) {
  ++listed;
  inner->list_columns(to, pitch, counts, values, count, place, all);
}

// ---- Cases -----------------------------------------------------------------
typedef struct net {
  int64_t images, height, width, in, out, taps;
  int64_t stride, dilation, low, high;
  int density;  // Of dy: one value in so many is not 0.
} net;

typedef enum way { GRAD_INPUT, GRAD_WEIGHTS, WAYS } way;

typedef struct numbers {
  int64_t strides[2], dilations[2], padding[4];
} numbers;

static int64_t out_of(const net *self, int64_t in) {
  const int64_t want = (self->taps - 1) * self->dilation + 1;
  return (self->low + in + self->high - want) / self->stride + 1;
}

static loop_case case_of(const net *c, way how, numbers *n,
                         loop_random *random) {
  const ls_type x = {LS_DTYPE_F32,
                     LS_SHAPE(c->images, c->height, c->width, c->in)};
  const ls_type w = {LS_DTYPE_F32, LS_SHAPE(c->taps, c->taps, c->in, c->out)};
  const ls_type y = {LS_DTYPE_F32, LS_SHAPE(c->images, out_of(c, c->height),
                                            out_of(c, c->width), c->out)};
  loop_case run = {.op = how == GRAD_INPUT ? LS_OP_CONV_GRAD_INPUT
                                           : LS_OP_CONV_GRAD_WEIGHTS,
                   .out = how == GRAD_INPUT ? x : w};
  *n = (numbers){{c->stride, c->stride},
                 {c->dilation, c->dilation},
                 {c->low, c->high, c->low, c->high}};
  loop_case_attr(&run, LS_ATTR_IS("strides", n->strides, 2));
  loop_case_attr(&run, LS_ATTR_IS("dilations", n->dilations, 2));
  loop_case_attr(&run, LS_ATTR_IS("padding", n->padding, 4));
  if (how == GRAD_WEIGHTS) loop_case_add(&run, x, -1, 1, random);
  float *dy = loop_case_add(&run, y, -1, 1, random);
  for (int64_t i = 0; i < ls_shape_num_elements(y.shape); ++i)
    if (loop_random_between(random, 1, c->density) != 1)
      dy[i] = loop_random_between(random, 0, 1) == 0 ? 0.0F : -0.0F;
  if (how == GRAD_INPUT) loop_case_add(&run, w, -1, 1, random);
  return run;
}

// Whether lists were made; that the bytes are those of dense dy.
static bool check(loop_case *run, const ls_cpu_kernels *table) {
  ls_cpu_zeros zeros = *table->zeros;
  ls_cpu_kernels own = *table;
  inner = table->zeros;
  own.zeros = &zeros;
  run->table = &own;
  zeros.list_row = list_row;
  zeros.list_columns = list_columns;
  listed = 0;
  HEAP(float, got) = loop_case_run(run);
  const bool lists = listed != 0;
  zeros.count = count_all;
  listed = 0;
  HEAP(float, want) = loop_case_run(run);
  assert_int_equal(listed, 0);
  expect_same_numbers("gradient", table->name, LS_DTYPE_F32, want, got,
                      (size_t)ls_shape_num_elements(run->out.shape));
  return lists;
}

static bool check_best(const net *c, way how, loop_random *random) {
  numbers n;
  LS_OWN(loop_case, run) = case_of(c, how, &n, random);
  return check(&run, ls_cpu_kernels_best());
}

// ---- Bytes -----------------------------------------------------------------
// Channels of vectors and not, as in VGG and LeNet; lines that bands cut;
// images without a border and with a wide one.
static const net nets[] = {
    {3, 16, 16, 24, 40, 3, 1, 1, 1, 1, 4},
    {8, 8, 8, 40, 56, 3, 1, 1, 1, 1, 4},
    {9, 14, 14, 6, 16, 5, 1, 1, 0, 0, 4},
    {8, 12, 12, 20, 50, 5, 1, 1, 0, 0, 8},
    {2, 28, 28, 1, 6, 5, 1, 1, 2, 2, 4},
    {1, 40, 33, 3, 70, 3, 1, 1, 0, 2, 5},
    {2, 17, 300, 7, 5, 2, 1, 1, 1, 0, 6},
    {4, 9, 11, 16, 17, 4, 1, 1, 3, 3, 1000000},
};

TEST(zeros_that_are_left_out_change_no_byte) {
  loop_random random = {loop_random_seed()};
  for (size_t i = 0; i < LS_COUNT_OF(nets); ++i)
    for (way how = GRAD_INPUT; how < WAYS; ++how)
      if (!check_best(&nets[i], how, &random))
        fail_msg("net %zu: no zeros are left out", i);
}

TEST(every_table_has_the_bytes) {
  static const net small = {6, 14, 14, 6, 16, 5, 1, 1, 0, 0, 4};
  for (way how = GRAD_INPUT; how < WAYS; ++how)
    for (size_t k = 0; k < kernel_tables_here.count; ++k) {
      loop_random random = {loop_random_seed()};
      numbers n;
      LS_OWN(loop_case, run) = case_of(&small, how, &n, &random);
      assert_true(check(&run, kernel_tables_here.at[k]));
    }
}

TEST(random_ones_have_the_bytes_too) {
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < (LS_SANITIZED ? 8 : 60); ++round) {
    net c = {.images = loop_random_between(&random, 1, 6),
             .height = loop_random_between(&random, 5, 24),
             .width = loop_random_between(&random, 5, 24),
             .in = loop_random_between(&random, 1, 34),
             .out = loop_random_between(&random, 1, 34),
             .taps = loop_random_between(&random, 1, 6),
             .stride = loop_random_between(&random, 1, 4) / 4 + 1,
             .dilation = loop_random_between(&random, 1, 4) / 4 + 1,
             .low = loop_random_between(&random, 0, 3),
             .high = loop_random_between(&random, 0, 3),
             .density = (int)loop_random_between(&random, 1, 9)};
    c.height += c.taps * c.dilation;
    c.width += c.taps * c.dilation;
    for (way how = GRAD_INPUT; how < WAYS; ++how)
      check_best(&c, how, &random);
  }
}

TEST(what_is_mostly_there_is_multiplied_as_it_is) {
  loop_random random = {loop_random_seed()};
  net c = nets[0];
  c.density = 2;
  for (way how = GRAD_INPUT; how < WAYS; ++how)
    assert_false(check_best(&c, how, &random));
}

// ---- What is not finite ----------------------------------------------------
static size_t count_nans(const float *values, size_t count) {
  size_t found = 0;
  for (size_t i = 0; i < count; ++i)
    found += isnan(values[i]) != 0;
  return found;
}

// One number of an operand becomes `number`: NaNs come out where the reference
// has them. No window reaches over a border of what it goes over, since there
// the kernels multiply by zeros that the reference does not have.
static void check_beside_zeros(way how, uint32_t operand, int64_t at,
                               float number, bool makes_nan) {
  const int64_t border = how == GRAD_INPUT ? 4 : 0;
  const net c = {6, 14, 14, 6, 16, 5, 1, 1, border, border, 4};
  loop_random random = {loop_random_seed()};
  numbers n;
  loop_case run = case_of(&c, how, &n, &random);
  ((float *)run.data[operand])[at] = number;
  check(&run, ls_cpu_kernels_best());
  run.table = NULL;
  float *got = loop_case_run(&run);
  const size_t nans =
      count_nans(got, (size_t)ls_shape_num_elements(run.out.shape));
  assert_true((nans > 0) == makes_nan);
  free(got);
  loop_case_agrees(&run, 1);
}

TEST(what_is_not_finite_beside_a_zero_is_no_number) {
  static const float numbers_of[] = {INFINITY, -INFINITY, NAN};
  for (size_t i = 0; i < LS_COUNT_OF(numbers_of); ++i) {
    const float number = numbers_of[i];
    check_beside_zeros(GRAD_INPUT, 1, 5 * 6 * 16 + 3, number, true);
    // In a band in the middle of a part.
    check_beside_zeros(GRAD_WEIGHTS, 0, (14 * 14 + 100) * 6 + 2, number, true);
    // Of dy itself, which meets no zeros.
    check_beside_zeros(GRAD_INPUT, 0, (3 * 18 * 18 + 90) * 16 + 7, number,
                       isnan(number));
    check_beside_zeros(GRAD_WEIGHTS, 1, 3 * 10 * 10 * 16 + 7, number,
                       isnan(number));
  }
}

TEST_FILE(.set_up = kernel_tables_set_up)
