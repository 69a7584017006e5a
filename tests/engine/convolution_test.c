// SPDX-License-Identifier: Apache-2.0
//
// Convolutions and both their gradients against the reference.
#include <math.h>
#include <stdlib.h>

#include "engine/cpu/kernels/loops.h"
#include "support/attrs.h"
#include "support/expect.h"
#include "support/loop_case.h"
#include "support/sanitizer.h"

// ---- Cases -----------------------------------------------------------------
// The last `rank` of three dimensions are there.
typedef struct side {
  int64_t in, out, taps, stride, dilation, spread, low, high;
} side;

typedef struct conv_case {
  ls_dtype dtype;
  int rank;
  int64_t images, groups, in, out;  // Channels of a group.
  side side[3];
  bool same, bias, relu;
  bool fast;  // By Winograd.
} conv_case;

#define NO_SIDE                                                                \
  { 1, 1, 1, 1, 1, 1, 0, 0 }

// The output's size, and the padding of SAME, by the definitions.
static void finish(conv_case *c) {
  for (int i = 0; i < 3; ++i) {
    side *s = &c->side[i];
    const int64_t have = (s->in - 1) * s->spread + 1;
    const int64_t want = (s->taps - 1) * s->dilation + 1;
    if (c->same && i >= 3 - c->rank) {
      s->out = (have + s->stride - 1) / s->stride;
      const int64_t missing = (s->out - 1) * s->stride + want - have;
      s->low = missing > 0 ? missing / 2 : 0;
      s->high = missing > 0 ? missing - missing / 2 : 0;
    }
    s->out = (s->low + have + s->high - want) / s->stride + 1;
  }
}

static side random_side(loop_random *random) {
  side s = {
      .in = loop_random_between(random, 1, 9),
      .taps = loop_random_between(random, 1, 4),
      .stride = loop_random_between(random, 1, 3),
      .dilation = loop_random_between(random, 1, 3),
      .spread = loop_random_between(random, 0, 2) == 0
                    ? loop_random_between(random, 2, 4)
                    : 1,
      .low = loop_random_between(random, 0, 4),
      .high = loop_random_between(random, 0, 4),
  };
  // Large enough for one window.
  while (s.low + (s.in - 1) * s.spread + s.high < (s.taps - 1) * s.dilation)
    ++s.in;
  return s;
}

static conv_case random_case(loop_random *random, ls_dtype dtype, int rank) {
  conv_case c = {
      .dtype = dtype,
      .rank = rank,
      .images = loop_random_between(random, 0, 3),
      .groups = loop_random_between(random, 1, 3),
      .in = loop_random_between(random, 1, 5),
      .out = loop_random_between(random, 1, 5),
      .side = {NO_SIDE, NO_SIDE, NO_SIDE},
      .same = loop_random_between(random, 0, 3) == 0,
      .bias = loop_random_between(random, 0, 1),
      .relu = loop_random_between(random, 0, 1),
  };
  for (int i = 3 - rank; i < 3; ++i)
    c.side[i] = random_side(random);
  finish(&c);
  return c;
}

typedef enum conv_way { FORWARD, GRAD_INPUT, GRAD_WEIGHTS } conv_way;

static ls_shape shape_of(const conv_case *c, char what) {
  ls_shape shape = {.rank = c->rank + 2};
  for (int i = 0; i < c->rank; ++i) {
    const side *s = &c->side[3 - c->rank + i];
    shape.dim[what == 'w' ? i : i + 1] = what == 'x'   ? s->in
                                         : what == 'y' ? s->out
                                                       : s->taps;
  }
  if (what != 'w') shape.dim[0] = c->images;
  if (what == 'w') shape.dim[c->rank] = c->in;
  shape.dim[c->rank + 1] = (what == 'x' ? c->in : c->out) * c->groups;
  return shape;
}

// ---- Checks ----------------------------------------------------------------
typedef struct numbers {
  int64_t stride[3], dilation[3], spread[3], padding[6];
} numbers;

static void add_attrs(const conv_case *c, loop_case *to, numbers *n) {
  const size_t rank = (size_t)c->rank;
  for (int i = 0; i < c->rank; ++i) {
    const side *s = &c->side[3 - c->rank + i];
    n->stride[i] = s->stride;
    n->dilation[i] = s->dilation;
    n->spread[i] = s->spread;
    n->padding[2 * i] = s->low;
    n->padding[2 * i + 1] = s->high;
  }
  loop_case_attr(to, LS_ATTR_IS("strides", n->stride, rank));
  loop_case_attr(to, LS_ATTR_IS("dilations", n->dilation, rank));
  loop_case_attr(to, LS_ATTR_IS("input_dilations", n->spread, rank));
  loop_case_attr(to, c->same ? LS_ATTR_B("same", true)
                             : LS_ATTR_IS("padding", n->padding, 2 * rank));
  loop_case_attr(to, LS_ATTR_I("groups", c->groups));
}

static void add_operand(const conv_case *c, char what, loop_case *run,
                        loop_random *random) {
  const ls_type type = {c->dtype, shape_of(c, what)};
  loop_case_add(run, type, -1, 1, random);
}

static loop_case case_of(const conv_case *c, conv_way way, const char *kernels,
                         numbers *n, loop_random *random) {
  static const char *const letters[] = {"xwy", "ywx", "xyw"};
  const bool fused = way == FORWARD && (c->bias || c->relu);
  const char *letter = letters[way];
  loop_case run = {.op = way == GRAD_INPUT     ? LS_OP_CONV_GRAD_INPUT
                         : way == GRAD_WEIGHTS ? LS_OP_CONV_GRAD_WEIGHTS
                         : fused               ? LS_OP_CONV_BIAS_ACT
                                               : LS_OP_CONVOLUTION,
                   .out = {c->dtype, shape_of(c, letter[2])},
                   .kernels = kernels,
                   .fast = c->fast};
  add_attrs(c, &run, n);
  for (int i = 0; i < 2; ++i)
    add_operand(c, letter[i], &run, random);
  if (fused)
    loop_case_add(&run, (ls_type){c->dtype, LS_SHAPE(c->groups * c->out)},
                  c->bias ? -1 : 0, c->bias ? 1 : 0, random);
  if (fused && c->relu) loop_case_attr(&run, LS_ATTR_S("activation", "relu"));
  return run;
}

static void check_all(const conv_case *c, loop_random *random) {
  for (conv_way way = FORWARD; way <= GRAD_WEIGHTS; ++way) {
    numbers n;
    loop_case run = case_of(c, way, NULL, &n, random);
    loop_case_agrees(&run, c->fast ? 16 : 1);
  }
}

TEST(random_geometry_agrees_with_the_reference) {
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < LOOP_FLOATS; ++t)
    for (int round = 0; round < (LS_SANITIZED ? 12 : 36); ++round) {
      const conv_case c = random_case(&random, loop_types[t], round % 3 + 1);
      check_all(&c, &random);
    }
}

TEST(depthwise_geometry_agrees_with_the_reference) {
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < LOOP_FLOATS; ++t)
    for (int round = 0; round < (LS_SANITIZED ? 6 : 18); ++round) {
      conv_case c = random_case(&random, loop_types[t], round % 3 + 1);
      c.in = c.out = 1;
      c.groups = loop_random_between(&random, 2, 40);
      check_all(&c, &random);
    }
}

// ---- Larger ones -----------------------------------------------------------
#define CASE(type, dims, n, g, i, o)                                           \
  .dtype = LS_DTYPE_##type, .rank = dims, .images = n, .groups = g, .in = i,   \
  .out = o
#define SIDE(size, taps, stride, low, high)                                    \
  { size, 0, taps, stride, 1, 1, low, high }
#define SQUARE(size, taps, stride, low, high)                                  \
  {                                                                            \
    NO_SIDE, SIDE(size, taps, stride, low, high),                              \
        SIDE(size + 1, taps, stride, low, high)                                \
  }

// More than one band, chain and joined unit; every path of the loops.
static const conv_case large_cases[] = {
    // An input layer: short copies.
    {CASE(F32, 2, 3, 1, 3, 16), .side = SQUARE(20, 3, 1, 1, 1)},
    // Strided, padded on one side only.
    {CASE(F32, 2, 2, 1, 16, 24), .side = SQUARE(24, 3, 2, 0, 1), .bias = true,
     .relu = true},
    // The panel is the input.
    {CASE(F32, 2, 3, 1, 24, 20), .side = SQUARE(17, 1, 1, 0, 0), .bias = true},
    {CASE(F64, 2, 2, 2, 8, 12), .side = SQUARE(13, 1, 1, 0, 0)},
    // A projection: one tap, a stride, so three of four phases are empty.
    {CASE(F32, 2, 2, 1, 16, 32), .side = SQUARE(32, 1, 2, 0, 0)},
    // More rows of weights than are joined.
    {CASE(F32, 2, 1, 1, 64, 8), .side = SQUARE(9, 3, 1, 1, 1)},
    // Long lines.
    {CASE(F32, 1, 2, 1, 4, 8),
     .side = {NO_SIDE, NO_SIDE, {1500, 0, 5, 1, 3, 1, 12, 0}}},
    // Groups, in 16 bits.
    {CASE(BF16, 2, 3, 4, 5, 6), .side = SQUARE(16, 3, 1, 1, 1), .bias = true,
     .relu = true},
    // More channels than a unit of depthwise weights has.
    {CASE(F32, 2, 2, 300, 1, 1), .side = SQUARE(12, 3, 1, 1, 1), .relu = true},
    // Groups of few channels: more of them than are copied at a time, and one
    // input channel for three outputs; long lines.
    {CASE(F32, 2, 2, 6, 8, 8), .side = SQUARE(11, 3, 1, 1, 1), .bias = true},
    {CASE(F32, 2, 2, 20, 1, 3), .side = SQUARE(15, 3, 2, 0, 1), .relu = true},
    {CASE(F16, 1, 1, 4, 4, 2),
     .side = {NO_SIDE, NO_SIDE, {1200, 0, 3, 1, 2, 1, 5, 0}}},
    // A volume.
    {CASE(F32, 3, 1, 1, 6, 9),
     .side = {SIDE(7, 3, 1, 1, 1), SIDE(8, 2, 2, 0, 0), SIDE(9, 3, 1, 1, 1)}},
};

TEST(large_ones_are_cut_without_a_trace) {
  loop_random random = {loop_random_seed()};
  for (size_t i = 0; i < LS_COUNT_OF(large_cases); ++i) {
    conv_case c = large_cases[i];
    finish(&c);
    check_all(&c, &random);
  }
}

// Lines longer than the chains of a product, and more rows and columns than its
// blocks have: sums go on in scratch. The guard behind it says how much.
TEST(long_lines_by_many_channels_fit_their_scratch) {
  LS_OWN(loop_case, c) = {.op = LS_OP_CONV_GRAD_WEIGHTS,
                          .out = {LS_DTYPE_F32, LS_SHAPE(1, 16, 60, 2304)}};
  loop_random random = {loop_random_seed()};
  loop_case_add(&c, (ls_type){LS_DTYPE_F32, LS_SHAPE(1, 2, 272, 60)}, -1, 1,
                &random);
  loop_case_add(&c, (ls_type){LS_DTYPE_F32, LS_SHAPE(1, 2, 257, 2304)}, -1, 1,
                &random);
  free(loop_case_run(&c));
}

// By Winograd: tiles that are cut off on every side, more units than one, and
// enough tiles for the weights' gradient.
static const conv_case fast_cases[] = {
    {CASE(F32, 2, 4, 1, 16, 32), .side = SQUARE(22, 3, 1, 1, 1), .bias = true,
     .relu = true, .fast = true},
    {CASE(F32, 2, 1, 1, 32, 16), .side = SQUARE(47, 3, 1, 0, 0), .fast = true},
    {CASE(F32, 2, 2, 1, 24, 40), .side = SQUARE(33, 3, 1, 2, 0), .bias = true,
     .fast = true},
    {CASE(F32, 2, 3, 1, 16, 16), .side = SQUARE(4, 3, 1, 3, 4), .fast = true},
    // Blocks of channels, whose weights are computed where they are used.
    {CASE(F32, 2, 2, 1, 96, 80), .side = SQUARE(18, 3, 1, 1, 1), .bias = true,
     .relu = true, .fast = true},
    // No channels.
    {CASE(F32, 2, 2, 1, 0, 16), .side = SQUARE(8, 3, 1, 1, 1), .bias = true,
     .fast = true},
    {CASE(F32, 2, 2, 1, 16, 0), .side = SQUARE(8, 3, 1, 1, 1), .fast = true},
};

TEST(winograd_is_near_the_sum_over_taps) {
  loop_random random = {loop_random_seed()};
  for (size_t i = 0; i < LS_COUNT_OF(fast_cases); ++i) {
    conv_case c = fast_cases[i];
    finish(&c);
    check_all(&c, &random);
    c.images = 0;
    check_all(&c, &random);
  }
}

TEST(every_instruction_set_gives_the_same_bytes) {
  static const char *const names[] = {"base", "v3", "v4"};
  // An input layer, a projection, a depthwise one, groups; one by Winograd.
  const conv_case *const cases[] = {&large_cases[0],  &large_cases[4],
                                    &large_cases[8],  &large_cases[9],
                                    &large_cases[10], &fast_cases[1]};
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i)
    for (conv_way way = FORWARD; way <= GRAD_WEIGHTS; ++way) {
      conv_case c = *cases[i];
      c.images = 1;  // The base table is slow where FMA is a call.
      finish(&c);
      HEAP(void, first) = NULL;
      size_t size = 0;
      for (size_t k = 0; k < LS_COUNT_OF(names); ++k) {
        if (ls_cpu_kernels_find(names[k]) == NULL) continue;
        loop_random random = {loop_random_seed()};
        numbers n;
        loop_case run = case_of(&c, way, names[k], &n, &random);
        void *got = loop_case_run(&run);
        size = (size_t)ls_shape_num_elements(run.out.shape) *
               ls_dtype_size(c.dtype);
        loop_case_deinit(&run);
        if (first == NULL) {
          first = got;
          continue;
        }
        assert_memory_equal(first, got, size);
        free(got);
      }
    }
}

// ---- What is promised ------------------------------------------------------
// An output of `c` does not depend on the other images of its batch.
TEST(an_image_does_not_depend_on_its_batch) {
  enum { SIZE = 9 * 9 * 6, OUT = 9 * 9 * 20 };
  static float x[7 * SIZE], w[3 * 3 * 6 * 20];
  loop_random random = {loop_random_seed()};
  for (size_t i = 0; i < LS_COUNT_OF(x); ++i)
    x[i] = (float)loop_random_between(&random, -1000, 1000) * 0.001F;
  for (size_t i = 0; i < LS_COUNT_OF(w); ++i)
    w[i] = (float)loop_random_between(&random, -1000, 1000) * 0.001F;
  HEAP(float, whole) = NULL;
  for (int64_t images = 7; images > 0; images -= 6) {
    LS_OWN(loop_case, c) = {.op = LS_OP_CONVOLUTION,
                            .out = {LS_DTYPE_F32, LS_SHAPE(images, 9, 9, 20)}};
    loop_case_attr(&c, LS_ATTR_B("same", true));
    loop_case_add_copy(&c, (ls_type){LS_DTYPE_F32, LS_SHAPE(images, 9, 9, 6)},
                       x);
    loop_case_add_copy(&c, (ls_type){LS_DTYPE_F32, LS_SHAPE(3, 3, 6, 20)}, w);
    float *got = loop_case_run(&c);
    if (whole == NULL) {
      whole = got;
    } else {
      assert_memory_equal(whole, got, OUT * sizeof(float));
      free(got);
    }
  }
}

TEST(work_is_counted_and_cut) {
  static const uint16_t ops[] = {LS_OP_CONVOLUTION, LS_OP_CONV_GRAD_INPUT,
                                 LS_OP_CONV_GRAD_WEIGHTS};
  const ls_type x = {LS_DTYPE_F32, LS_SHAPE(8, 16, 16, 32)};
  const ls_type w = {LS_DTYPE_F32, LS_SHAPE(3, 3, 32, 32)};
  const ls_type in[][2] = {{x, w}, {x, w}, {x, x}};
  loop_random random = {loop_random_seed()};
  for (size_t i = 0; i < 3; ++i) {
    LS_OWN(loop_case, c) = {.op = ops[i], .out = i == 2 ? w : x};
    loop_case_attr(&c, LS_ATTR_B("same", true));
    loop_case_add(&c, in[i][0], -1, 1, &random);
    loop_case_add(&c, in[i][1], -1, 1, &random);
    free(loop_case_run(&c));
    assert_true(c.flops == 2 * 8 * 16 * 16 * 32 * 32 * 9);
    assert_true(c.blocks >= 8);
  }
}

TEST(integers_have_no_kernel) {
  static const uint16_t ops[] = {LS_OP_CONVOLUTION, LS_OP_CONV_GRAD_INPUT,
                                 LS_OP_CONV_GRAD_WEIGHTS};
  const ls_type x = {LS_DTYPE_I32, LS_SHAPE(1, 4, 1)};
  for (size_t i = 0; i < 3; ++i) {
    loop_case c = {.op = ops[i], .out = x, .in = {x, x}, .num_in = 2};
    expect_status(loop_case_prepare(&c), LS_UNIMPLEMENTED, "i32");
  }
}
