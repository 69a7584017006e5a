// SPDX-License-Identifier: Apache-2.0
//
// Reductions over windows and their gradients against the reference.
#include <math.h>
#include <stdlib.h>

#include "engine/cpu/kernels/loops.h"
#include "support/attrs.h"
#include "support/expect.h"
#include "support/loop_case.h"

// ---- Cases -----------------------------------------------------------------
// The last `rank` of three dimensions are there.
typedef struct side {
  int64_t in, out, taps, stride, dilation, low, high;
} side;
#define NO_SIDE                                                                \
  { 1, 1, 1, 1, 1, 0, 0 }

typedef struct window_case {
  ls_dtype dtype;
  int rank;
  int64_t images, channels;
  side side[3];
  const char *reduce;
  bool count_padding;
} window_case;

static side random_side(loop_random *random) {
  side s = {
      .in = loop_random_between(random, 1, 9),
      .taps = loop_random_between(random, 1, 4),
      .stride = loop_random_between(random, 1, 4),
      .dilation = loop_random_between(random, 1, 2),
      .low = loop_random_between(random, 0, 2),
      .high = loop_random_between(random, 0, 2),
  };
  const int64_t span = (s.taps - 1) * s.dilation + 1;
  while (s.low + s.in + s.high < span)
    ++s.in;
  s.out = (s.low + s.in + s.high - span) / s.stride + 1;
  return s;
}

static window_case random_case(loop_random *random, ls_dtype dtype, int rank) {
  window_case c = {
      .dtype = dtype,
      .rank = rank,
      .images = loop_random_between(random, 0, 3),
      .channels = loop_random_between(random, 0, 5) == 0
                      ? 130
                      : loop_random_between(random, 1, 6),
      .side = {NO_SIDE, NO_SIDE, NO_SIDE},
  };
  for (int i = 3 - rank; i < 3; ++i)
    c.side[i] = random_side(random);
  return c;
}

static ls_type type_of(const window_case *c, bool input) {
  ls_type type = {c->dtype, {.rank = c->rank + 2}};
  type.shape.dim[0] = c->images;
  type.shape.dim[c->rank + 1] = c->channels;
  for (int i = 0; i < c->rank; ++i) {
    const side *s = &c->side[3 - c->rank + i];
    type.shape.dim[i + 1] = input ? s->in : s->out;
  }
  return type;
}

typedef struct numbers {
  int64_t window[3], stride[3], dilation[3], padding[6];
} numbers;

static void add_attrs(const window_case *c, loop_case *to, numbers *n) {
  const size_t rank = (size_t)c->rank;
  for (int i = 0; i < c->rank; ++i) {
    const side *s = &c->side[3 - c->rank + i];
    n->window[i] = s->taps;
    n->stride[i] = s->stride;
    n->dilation[i] = s->dilation;
    n->padding[2 * i] = s->low;
    n->padding[2 * i + 1] = s->high;
  }
  loop_case_attr(to, LS_ATTR_IS("window", n->window, rank));
  loop_case_attr(to, LS_ATTR_IS("strides", n->stride, rank));
  loop_case_attr(to, LS_ATTR_IS("dilations", n->dilation, rank));
  loop_case_attr(to, LS_ATTR_IS("padding", n->padding, 2 * rank));
  if (c->reduce == NULL) return;
  loop_case_attr(to, LS_ATTR_S("reduce", c->reduce));
  if (c->count_padding) loop_case_attr(to, LS_ATTR_B("count_padding", true));
}

// ---- Checks ----------------------------------------------------------------
static void check_reduce(const window_case *c, loop_random *random) {
  numbers n;
  loop_case run = {.op = LS_OP_REDUCE_WINDOW, .out = type_of(c, false)};
  add_attrs(c, &run, &n);
  loop_case_add(&run, type_of(c, true), -3, 4, random);
  loop_case_agrees(&run, 2);
}

TEST(windows_of_every_type_agree_with_the_reference) {
  loop_random random = {loop_random_seed()};
  static const char *const names[] = {"sum", "max", "mean", "mean"};
  for (size_t t = 0; t < LOOP_NUMBERS; ++t)
    for (int round = 0; round < 24; ++round) {
      const int kind = t < LOOP_FLOATS ? round % 4 : round % 2;
      window_case c = random_case(&random, loop_types[t], round % 3 + 1);
      c.reduce = names[kind];
      c.count_padding = kind == 3;
      check_reduce(&c, &random);
    }
}

static void check_sum_grad(const window_case *c, loop_random *random) {
  numbers n;
  loop_case run = {.op = LS_OP_WINDOW_SUM_GRAD, .out = type_of(c, true)};
  add_attrs(c, &run, &n);
  loop_case_add(&run, type_of(c, false), -1, 1, random);
  loop_case_agrees(&run, 2);
}

TEST(sums_gradients_agree_with_the_reference) {
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < LOOP_FLOATS; ++t)
    for (int round = 0; round < 24; ++round) {
      window_case c = random_case(&random, loop_types[t], round % 3 + 1);
      c.reduce = round % 4 == 0 ? "sum" : "mean";
      c.count_padding = round % 4 == 1;
      check_sum_grad(&c, &random);
    }
}

// x of few values, so that many are equal, with a NaN now and then.
static void *add_ties(const window_case *c, loop_case *run,
                      loop_random *random) {
  void *x = loop_case_add_copy(run, type_of(c, true), NULL);
  const int64_t count = ls_shape_num_elements(type_of(c, true).shape);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t drawn = loop_random_between(random, -3, 3);
    const bool odd = loop_random_between(random, 0, 30) == 0;
    loop_write(c->dtype, x, i, odd ? (double)NAN : (double)drawn);
  }
  return x;
}

static void check_max(const window_case *c, loop_random *random) {
  for (int picks = 0; picks < 2; ++picks) {
    numbers n;
    loop_case run = {.op =
                         picks ? LS_OP_WINDOW_MAX_PICK : LS_OP_WINDOW_MAX_GRAD,
                     .out = type_of(c, !picks)};
    add_attrs(c, &run, &n);
    add_ties(c, &run, random);
    loop_case_add(&run, type_of(c, picks), -1, 1, random);
    loop_case_agrees(&run, picks ? 0 : 2);
  }
}

TEST(the_first_maximum_gets_the_gradient) {
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < LOOP_FLOATS; ++t)
    for (int round = 0; round < 30; ++round) {
      const window_case c = random_case(&random, loop_types[t], round % 3 + 1);
      check_max(&c, &random);
    }
}

// 2 by 2 over images, tiling or not, with sizes that leave a rest, and more
// channels than a unit has.
TEST(windows_of_four_agree_with_the_reference) {
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < LOOP_FLOATS; ++t)
    for (int64_t stride = 1; stride <= 3; ++stride)
      for (int64_t size = 4; size <= 7; ++size) {
        const int64_t out = (size - 2) / stride + 1;
        window_case c = {.dtype = loop_types[t],
                         .rank = 2,
                         .images = 3,
                         .channels = size == 6 ? 150 : 5,
                         .side = {NO_SIDE,
                                  {size, out, 2, stride, 1, 0, 0},
                                  {size, out, 2, stride, 1, 0, 0}}};
        check_max(&c, &random);
        c.reduce = "max";
        check_reduce(&c, &random);
        c.reduce = "sum";
        check_reduce(&c, &random);
      }
}

TEST(large_images_are_cut_by_channels) {
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < LOOP_FLOATS; ++t)
    for (int64_t taps = 2; taps <= 3; ++taps) {
      const int64_t out = (68 - taps) / 2 + 1;
      const window_case c = {.dtype = loop_types[t],
                             .rank = 2,
                             .images = 1,
                             .channels = 37,
                             .side = {NO_SIDE,
                                      {68, out, taps, 2, 1, 0, 0},
                                      {68, out, taps, 2, 1, 0, 0}}};
      check_max(&c, &random);
    }
}

// Of ties and NaNs, in every table of kernels.
TEST(every_instruction_set_gives_the_same_bytes) {
  static const char *const names[] = {"base", "v3", "v4"};
  static const uint16_t ops[] = {LS_OP_REDUCE_WINDOW, LS_OP_WINDOW_MAX_GRAD,
                                 LS_OP_WINDOW_MAX_PICK};
  for (int round = 0; round < 12; ++round) {
    const int64_t taps = round % 2 + 2, out = (9 - taps) / 2 + 1;
    const window_case c = {.dtype = LS_DTYPE_F32,
                           .rank = 2,
                           .images = 2,
                           .channels = 70,
                           .side = {NO_SIDE,
                                    {9, out, taps, 2, 1, 0, 0},
                                    {9, out, taps, 2, 1, 0, 0}},
                           .reduce = "max"};
    const uint16_t op = ops[round / 2 % 3];
    const bool gradient = op == LS_OP_WINDOW_MAX_GRAD;
    HEAP(void, first) = NULL;
    for (size_t i = 0; i < LS_COUNT_OF(names); ++i) {
      if (ls_cpu_kernels_find(names[i]) == NULL) continue;
      loop_random random = {loop_random_seed() + (uint64_t)round};
      numbers n;
      LS_OWN(loop_case, run) = {
          .op = op, .out = type_of(&c, gradient), .kernels = names[i]};
      add_attrs(&c, &run, &n);
      float *x = add_ties(&c, &run, &random);
      for (int64_t k = 0; op == LS_OP_REDUCE_WINDOW && k < 9 * 9 * 70 * 2; ++k)
        if (isnan(x[k])) x[k] = -0.0F;  // A NaN's bits are not promised.
      if (run.op != LS_OP_REDUCE_WINDOW)
        loop_case_add(&run, type_of(&c, !gradient), -1, 1, &random);
      void *got = loop_case_run(&run);
      if (first == NULL)
        first = got;
      else
        assert_memory_equal(first, got,
                            (size_t)ls_shape_num_elements(run.out.shape) *
                                sizeof(float));
      if (got != first) free(got);
    }
  }
}

TEST(a_nan_is_the_maximum) {
  static const int64_t window[] = {2};
  const float x[] = {1, NAN, NAN, 2, 3, 4};
  const float dy[] = {5, 6, 7};
  const ls_type in = {LS_DTYPE_F32, LS_SHAPE(1, 6, 1)};
  const ls_type out = {LS_DTYPE_F32, LS_SHAPE(1, 3, 1)};
  LS_OWN(loop_case, c) = {.op = LS_OP_REDUCE_WINDOW, .out = out};
  loop_case_attr(&c, LS_ATTR_IS("window", window, 1));
  loop_case_attr(&c, LS_ATTR_IS("strides", window, 1));
  loop_case_attr(&c, LS_ATTR_S("reduce", "max"));
  loop_case_add_copy(&c, in, x);
  float *got = loop_case_run(&c);
  assert_true(isnan(got[0]) && isnan(got[1]) && got[2] == 4);
  free(got);
  c.op = LS_OP_WINDOW_MAX_GRAD;
  c.out = in;
  loop_case_add_copy(&c, out, dy);
  got = loop_case_run(&c);
  const float want[] = {0, 5, 6, 0, 0, 7};
  assert_memory_equal(got, want, sizeof(want));
  free(got);
}

TEST(gradients_of_integers_have_no_kernel) {
  static const int64_t window[] = {2};
  static const uint16_t ops[] = {LS_OP_WINDOW_SUM_GRAD, LS_OP_WINDOW_MAX_GRAD,
                                 LS_OP_WINDOW_MAX_PICK};
  const ls_type x = {LS_DTYPE_I32, LS_SHAPE(1, 4, 1)};
  for (size_t i = 0; i < LS_COUNT_OF(ops); ++i) {
    loop_case c = {.op = ops[i], .out = x, .in = {x, x}, .num_in = 2};
    loop_case_attr(&c, LS_ATTR_IS("window", window, 1));
    loop_case_attr(&c, LS_ATTR_S("reduce", "sum"));
    expect_status(loop_case_prepare(&c), LS_UNIMPLEMENTED, "i32");
  }
}

TEST(sums_of_too_large_windows_are_refused) {
  static const int64_t window[] = {(1 << 24) + 1};
  loop_case c = {.op = LS_OP_REDUCE_WINDOW,
                 .out = {LS_DTYPE_F32, LS_SHAPE(1, 1, 1)},
                 .in = {{LS_DTYPE_F32, LS_SHAPE(1, 1 << 25, 1)}},
                 .num_in = 1};
  loop_case_attr(&c, LS_ATTR_IS("window", window, 1));
  loop_case_attr(&c, LS_ATTR_S("reduce", "sum"));
  expect_status(loop_case_prepare(&c), LS_UNIMPLEMENTED, "windows of 16777217");
}
