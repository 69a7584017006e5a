// SPDX-License-Identifier: Apache-2.0
//
// Reductions over windows and their gradients against naive loops in double.
#include <math.h>
#include <stdlib.h>

#include "engine/cpu/loops.h"
#include "support/expect.h"
#include "support/loop_case.h"

static const ls_dtype all_types[] = {LS_DTYPE_F64,  LS_DTYPE_F32, LS_DTYPE_F16,
                                     LS_DTYPE_BF16, LS_DTYPE_I8,  LS_DTYPE_I16,
                                     LS_DTYPE_I32,  LS_DTYPE_I64, LS_DTYPE_U8,
                                     LS_DTYPE_U16,  LS_DTYPE_U32, LS_DTYPE_U64};
enum { FLOATS = 4, TYPES = 12 };

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
      .channels = loop_random_between(random, 1, 6),
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

// ---- Reference -------------------------------------------------------------
// The index in x of tap `tap` of output `y`, both in row order; -1: padding.
static int64_t seen(const window_case *c, int64_t y, int64_t tap) {
  const side *s = c->side;
  int64_t place[3];
  for (int i = 3; i-- > 0;) {
    place[i] =
        y % s[i].out * s[i].stride + tap % s[i].taps * s[i].dilation - s[i].low;
    y /= s[i].out;
    tap /= s[i].taps;
    if (place[i] < 0 || place[i] >= s[i].in) return -1;
  }
  return ((y * s[0].in + place[0]) * s[1].in + place[1]) * s[2].in + place[2];
}

static int64_t taps_of(const window_case *c) {
  return c->side[0].taps * c->side[1].taps * c->side[2].taps;
}

static int64_t outputs_of(const window_case *c) {
  return c->images * c->side[0].out * c->side[1].out * c->side[2].out;
}

static int64_t count_of(const window_case *c, int64_t y) {
  int64_t count = 0;
  for (int64_t t = 0; t < taps_of(c); ++t)
    count += c->count_padding || seen(c, y, t) >= 0;
  return count;
}

// The element of the first maximum of output y's channel; -1: padding alone.
static int64_t maximum_at(const window_case *c, const void *x, int64_t y,
                          int64_t channel) {
  int64_t best = -1;
  for (int64_t t = 0; t < taps_of(c); ++t) {
    const int64_t place = seen(c, y, t);
    if (place < 0) continue;
    const int64_t at = place * c->channels + channel;
    const double new = loop_read(c->dtype, x, at);
    const double old = best < 0 ? 0 : loop_read(c->dtype, x, best);
    if (best < 0 || new > old || (isnan(new) && !isnan(old))) best = at;
  }
  return best;
}

static double least_of(ls_dtype dtype) {
  if (ls_dtype_is_float(dtype)) return -(double)INFINITY;
  return ls_dtype_is_unsigned(dtype)
             ? 0
             : -ldexp(1, 8 * (int)ls_dtype_size(dtype) - 1);
}

static double reduced(const window_case *c, const void *x, int64_t y,
                      int64_t channel) {
  if (strcmp(c->reduce, "max") == 0) {
    const int64_t at = maximum_at(c, x, y, channel);
    return at < 0 ? least_of(c->dtype) : loop_read(c->dtype, x, at);
  }
  double sum = 0;
  for (int64_t t = 0; t < taps_of(c); ++t) {
    const int64_t place = seen(c, y, t);
    if (place >= 0)
      sum += loop_read(c->dtype, x, place * c->channels + channel);
  }
  if (strcmp(c->reduce, "mean") == 0) return sum / (double)count_of(c, y);
  return loop_stored(c->dtype, sum);
}

// ---- Checks ----------------------------------------------------------------
static void check_reduce(const window_case *c, loop_random *random) {
  numbers n;
  loop_case run = {.op = LS_OP_REDUCE_WINDOW, .out = type_of(c, false)};
  add_attrs(c, &run, &n);
  const void *x = loop_case_add(&run, type_of(c, true), -3, 4, random);
  void *got = loop_case_run(&run);
  for (int64_t i = 0; i < outputs_of(c) * c->channels; ++i)
    loop_expect_near(&run, got, i,
                     reduced(c, x, i / c->channels, i % c->channels), 4, 30);
  free(got);
  loop_case_deinit(&run);
}

static void windows_of_every_type_agree_with_double(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  static const char *const names[] = {"sum", "max", "mean", "mean"};
  for (size_t t = 0; t < TYPES; ++t)
    for (int round = 0; round < 24; ++round) {
      const int kind = t < FLOATS ? round % 4 : round % 2;
      window_case c = random_case(&random, all_types[t], round % 3 + 1);
      c.reduce = names[kind];
      c.count_padding = kind == 3;
      check_reduce(&c, &random);
    }
}

// Results for x, by tap, added up: the way each gradient goes.
static void check_sum_grad(const window_case *c, loop_random *random) {
  numbers n;
  loop_case run = {.op = LS_OP_WINDOW_SUM_GRAD, .out = type_of(c, true)};
  add_attrs(c, &run, &n);
  const void *dy = loop_case_add(&run, type_of(c, false), -1, 1, random);
  void *got = loop_case_run(&run);
  const int64_t count = ls_shape_num_elements(run.out.shape);
  double *want = calloc((size_t)count + 1, sizeof(*want));
  for (int64_t y = 0; y < outputs_of(c); ++y)
    for (int64_t t = 0; t < taps_of(c); ++t)
      for (int64_t k = 0; k < c->channels && seen(c, y, t) >= 0; ++k) {
        const double d = loop_read(c->dtype, dy, y * c->channels + k);
        want[seen(c, y, t) * c->channels + k] +=
            strcmp(c->reduce, "mean") == 0 ? d / (double)count_of(c, y) : d;
      }
  for (int64_t i = 0; i < count; ++i)
    loop_expect_near(&run, got, i, want[i], 4, 20);
  free(want);
  free(got);
  loop_case_deinit(&run);
}

static void sums_gradients_agree_with_double(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < FLOATS; ++t)
    for (int round = 0; round < 24; ++round) {
      window_case c = random_case(&random, all_types[t], round % 3 + 1);
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

static void check_max_grad(const window_case *c, loop_random *random) {
  numbers n;
  loop_case run = {.op = LS_OP_WINDOW_MAX_GRAD, .out = type_of(c, true)};
  add_attrs(c, &run, &n);
  const void *x = add_ties(c, &run, random);
  const void *dy = loop_case_add(&run, type_of(c, false), -1, 1, random);
  void *got = loop_case_run(&run);
  const int64_t count = ls_shape_num_elements(run.out.shape);
  double *want = calloc((size_t)count + 1, sizeof(*want));
  for (int64_t i = 0; i < outputs_of(c) * c->channels; ++i) {
    const int64_t at = maximum_at(c, x, i / c->channels, i % c->channels);
    if (at >= 0) want[at] += loop_read(c->dtype, dy, i);
  }
  for (int64_t i = 0; i < count; ++i)
    loop_expect_near(&run, got, i, want[i], 4, 20);
  free(want);
  free(got);
  loop_case_deinit(&run);
}

static void check_max_pick(const window_case *c, loop_random *random) {
  numbers n;
  loop_case run = {.op = LS_OP_WINDOW_MAX_PICK, .out = type_of(c, false)};
  add_attrs(c, &run, &n);
  const void *x = add_ties(c, &run, random);
  const void *z = loop_case_add(&run, type_of(c, true), -1, 1, random);
  void *got = loop_case_run(&run);
  for (int64_t i = 0; i < outputs_of(c) * c->channels; ++i) {
    const int64_t at = maximum_at(c, x, i / c->channels, i % c->channels);
    const double want = at < 0 ? 0 : loop_read(c->dtype, z, at);
    if (loop_read(c->dtype, got, i) != want)
      fail_msg("element %lld; seed %llu", (long long)i,
               (unsigned long long)loop_random_seed());
  }
  free(got);
  loop_case_deinit(&run);
}

static void the_first_maximum_gets_the_gradient(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < FLOATS; ++t)
    for (int round = 0; round < 30; ++round) {
      const window_case c = random_case(&random, all_types[t], round % 3 + 1);
      check_max_grad(&c, &random);
      check_max_pick(&c, &random);
    }
}

// 2 by 2 over images, tiling or not, with sizes that leave a rest, and more
// channels than a unit has.
static void windows_of_four_agree_with_double(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  for (size_t t = 0; t < FLOATS; ++t)
    for (int64_t stride = 1; stride <= 3; ++stride)
      for (int64_t size = 4; size <= 7; ++size) {
        const int64_t out = (size - 2) / stride + 1;
        window_case c = {.dtype = all_types[t],
                         .rank = 2,
                         .images = 3,
                         .channels = size == 6 ? 150 : 5,
                         .side = {NO_SIDE,
                                  {size, out, 2, stride, 1, 0, 0},
                                  {size, out, 2, stride, 1, 0, 0}}};
        check_max_grad(&c, &random);
        check_max_pick(&c, &random);
        c.reduce = "max";
        check_reduce(&c, &random);
        c.reduce = "sum";
        check_reduce(&c, &random);
      }
}

// Of ties and NaNs, in every table of kernels.
static void every_instruction_set_gives_the_same_bytes(void **state) {
  (void)state;
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
    void *first = NULL;
    for (size_t i = 0; i < LS_COUNT_OF(names); ++i) {
      if (ls_cpu_kernels_find(names[i]) == NULL) continue;
      loop_random random = {loop_random_seed() + (uint64_t)round};
      numbers n;
      loop_case run = {
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
      loop_case_deinit(&run);
    }
    free(first);
  }
}

static void a_nan_is_the_maximum(void **state) {
  (void)state;
  static const int64_t window[] = {2};
  const float x[] = {1, NAN, NAN, 2, 3, 4};
  const float dy[] = {5, 6, 7};
  const ls_type in = {LS_DTYPE_F32, LS_SHAPE(1, 6, 1)};
  const ls_type out = {LS_DTYPE_F32, LS_SHAPE(1, 3, 1)};
  loop_case c = {.op = LS_OP_REDUCE_WINDOW, .out = out};
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
  loop_case_deinit(&c);
}

static void gradients_of_integers_have_no_kernel(void **state) {
  (void)state;
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(windows_of_every_type_agree_with_double),
      cmocka_unit_test(sums_gradients_agree_with_double),
      cmocka_unit_test(the_first_maximum_gets_the_gradient),
      cmocka_unit_test(windows_of_four_agree_with_double),
      cmocka_unit_test(every_instruction_set_gives_the_same_bytes),
      cmocka_unit_test(a_nan_is_the_maximum),
      cmocka_unit_test(gradients_of_integers_have_no_kernel),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
