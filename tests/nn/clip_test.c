// SPDX-License-Identifier: Apache-2.0
// Clipping, alone and on replicas.
#include <math.h>

#include "base/memory/allocator.h"
#include "graph/own.h"
#include "lockstep/optimizers.h"
#include "nn/own.h"
#include "support/spec.h"
#include "support/values.h"

enum { COUNT = 2, SIZE = 3, EXAMPLES = 8 };

typedef struct problem {
  ls_variable *w[COUNT];
  ls_optimizer *optimizer;
} problem;

static void begin(problem *p, ls_clip clip) {
  const double zeros[SIZE] = {0};
  p->w[0] = variable_of("a", LS_DTYPE_F64, LS_SHAPE(SIZE), zeros);
  p->w[1] = variable_of("b", LS_DTYPE_F64, LS_SHAPE(SIZE), zeros);
  expect_ok(ls_sgd_create(&(ls_sgd_options){.learning_rate = 1, .clip = clip},
                          &p->optimizer));
}

static void end(problem *p) {
  ls_variable_release(p->w[0]);
  ls_variable_release(p->w[1]);
  ls_optimizer_release(p->optimizer);
}
LS_OWNED_STRUCT(problem, end)

// The mean over examples x of sum(a x) + sum(b x^2): the gradients are the
// means of x and x^2.
static ls_nest follow(ls_nest args, void *user) {
  const problem *p = user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor terms =
      ls_add(ls_mul(ls_variable_read(p->w[0]), x),
             ls_mul(ls_variable_read(p->w[1]), ls_square(x)));
  const ls_tensor rows = ls_reduce_sum(terms, LS_AXES(-1));
  ls_optimizer_minimize(p->optimizer, ls_reduce_mean(rows, LS_ALL_AXES));
  return ls_none();
}

static const double examples[EXAMPLES * SIZE] = {
    1,  2,   -3, 0.5, 1,  1,    -4, 2, 0,  1, 0,    5,
    -1, 0.5, 2,  3,   -1, 0.25, 0,  1, -2, 2, -0.5, 1};

// Even parts of them, uneven ones, and parts without any.
static const int split[] = {1, 2, 5, 8, 11};

static void gradients_of(double *a, double *b) {
  for (int i = 0; i < SIZE; ++i) {
    a[i] = b[i] = 0;
    for (int e = 0; e < EXAMPLES; ++e) {
      a[i] += examples[e * SIZE + i] / EXAMPLES;
      b[i] += examples[e * SIZE + i] * examples[e * SIZE + i] / EXAMPLES;
    }
  }
}

static double squares(const double *x) {
  return x[0] * x[0] + x[1] * x[1] + x[2] * x[2];
}

// Runs one step on so many replicas and expects the weights to have moved by
// the negative of these.
static void expect_moved(ls_clip clip, int replicas, const double *a,
                         const double *b) {
  LS_OWN_BEGUN(problem, p, begin, clip);
  LS_OWN(ls_nest, args) = LS_TUPLE(split_of(
      replicas, array_of(LS_DTYPE_F64, LS_SHAPE(EXAMPLES, SIZE), examples)));
  ls_nest_release(call_on(replicas, follow, &p, args, 1));
  double wanted[COUNT][SIZE];
  for (int i = 0; i < SIZE; ++i) {
    wanted[0][i] = -a[i];
    wanted[1][i] = -b[i];
  }
  expect_variable(p.w[0], wanted[0], SIZE, 1e-13);
  expect_variable(p.w[1], wanted[1], SIZE, 1e-13);
}

TEST(values_are_clipped_one_by_one) {
  double a[SIZE], b[SIZE];
  gradients_of(a, b);
  for (int i = 0; i < SIZE; ++i) {
    a[i] = fmax(fmin(a[i], 0.8), -0.8);
    b[i] = fmax(fmin(b[i], 0.8), -0.8);
  }
  for (size_t i = 0; i < LS_COUNT_OF(split); ++i)
    expect_moved((ls_clip){.value = 0.8}, split[i], a, b);
}

TEST(norms_are_clipped_one_by_one) {
  double a[SIZE], b[SIZE];
  gradients_of(a, b);
  assert_true(squares(a) < 4 && squares(b) > 4);
  const double factor = 2 / sqrt(squares(b));
  for (int i = 0; i < SIZE; ++i)
    b[i] *= factor;
  for (size_t i = 0; i < LS_COUNT_OF(split); ++i)
    expect_moved((ls_clip){.norm = 2}, split[i], a, b);
}

TEST(the_global_norm_is_that_of_the_whole_batch) {
  LS_SPEC("M182");
  double a[SIZE], b[SIZE];
  gradients_of(a, b);
  const double factor = 0.5 / sqrt(squares(a) + squares(b));
  for (int i = 0; i < SIZE; ++i) {
    a[i] *= factor;
    b[i] *= factor;
  }
  for (size_t i = 0; i < LS_COUNT_OF(split); ++i)
    expect_moved((ls_clip){.global_norm = 0.5}, split[i], a, b);
}

TEST(gradients_within_the_limits_keep_their_bits) {
  double a[SIZE], b[SIZE], got[SIZE];
  gradients_of(a, b);
  LS_OWN_BEGUN(problem, p, begin,
               (ls_clip){.value = 100, .norm = 100, .global_norm = 100});
  const ls_nest args = LS_TUPLE(ls_nest_array(
      array_of(LS_DTYPE_F64, LS_SHAPE(EXAMPLES, SIZE), examples)));
  ls_nest_release(call_on(1, follow, &p, args, 1));
  ls_nest_release(args);
  read_variable(p.w[0], got, SIZE);
  for (int i = 0; i < SIZE; ++i)
    assert_true(got[i] == -a[i]);
}

// The factor, below 2^-19, has few bits in f16.
TEST(norms_of_16_bit_gradients_are_clipped_in_f32) {
  enum { MANY = 1000 };
  double zeros[MANY] = {0}, large[MANY], got[MANY];
  for (int i = 0; i < MANY; ++i)
    large[i] = 60000;
  for (int global = 0; global < 2; ++global) {
    const ls_clip clip = {.norm = global ? 0 : 1, .global_norm = global};
    LS_OWN(ls_optimizer, optimizer) = NULL;
    LS_OWN(ls_variable, w) =
        variable_of("w", LS_DTYPE_F16, LS_SHAPE(MANY), zeros);
    expect_ok(ls_sgd_create(&(ls_sgd_options){.learning_rate = 1, .clip = clip},
                            &optimizer));
    expect_ok(ls_frame_begin());
    const ls_nest gradient =
        ls_leaf(eager_of(LS_DTYPE_F16, LS_SHAPE(MANY), large));
    ls_optimizer_apply(optimizer, &w, &gradient, 1);
    expect_ok(ls_frame_end(NULL));
    read_variable(w, got, MANY);
    for (int i = 0; i < MANY; ++i)
      assert_true(fabs(got[i] * sqrt(MANY) + 1) <= 0x1p-11);
  }
}

// The squares are beyond f32, or vanish in it; the norms are not.
TEST(norms_of_very_large_and_small_gradients_are_clipped) {
  static const double sizes[] = {3e30, 3e-30};
  for (size_t i = 0; i < LS_COUNT_OF(sizes); ++i)
    for (int global = 0; global < 2; ++global) {
      const double zeros[2] = {0}, limit = sizes[i];
      const double g[] = {3 * limit, 4 * limit};
      double got[2];
      const ls_clip clip = {.norm = global ? 0 : limit,
                            .global_norm = global ? limit : 0};
      LS_OWN(ls_optimizer, optimizer) = NULL;
      LS_OWN(ls_variable, w) =
          variable_of("w", LS_DTYPE_F32, LS_SHAPE(2), zeros);
      expect_ok(ls_sgd_create(
          &(ls_sgd_options){.learning_rate = 1, .clip = clip}, &optimizer));
      expect_ok(ls_frame_begin());
      const ls_nest gradient = ls_leaf(eager_of(LS_DTYPE_F32, LS_SHAPE(2), g));
      ls_optimizer_apply(optimizer, &w, &gradient, 1);
      expect_ok(ls_frame_end(NULL));
      read_variable(w, got, 2);
      assert_true(fabs(got[0] / limit + 0.6) < 1e-6);
      assert_true(fabs(got[1] / limit + 0.8) < 1e-6);
    }
}
