// SPDX-License-Identifier: Apache-2.0
// Each optimizer against its formula in plain C over several steps. The same
// operations in the same order give the same bits.
#include "lockstep/optimizer_state.h"
#include "lockstep/optimizers.h"
#include "nn/own.h"

#include <math.h>
#include <stdio.h>

#include "base/memory/own.h"
#include "graph/own.h"
#include "support/function.h"
#include "support/values.h"

enum { SIZE = 5, STEPS = 6 };

typedef struct problem {
  ls_variable *w;
  ls_optimizer *optimizer;
} problem;

// sum(w x): the gradient is x.
static ls_nest follow(ls_nest args, void *user) {
  const problem *p = user;
  ls_optimizer_minimize(
      p->optimizer,
      ls_reduce_sum(ls_mul(ls_variable_read(p->w), ls_nest_tensor(args, 0)),
                    LS_ALL_AXES));
  return ls_none();
}

// What a formula sees. Slots are zero at first.
typedef struct rule_state {
  float w[SIZE], slots[3][SIZE], g[SIZE];
  int t;  // From 1.
} rule_state;

static float f(double value) { return (float)value; }

static void fill_gradient(rule_state *s, int t) {
  double numbers[SIZE];
  fill_numbers(numbers, SIZE, (uint32_t)(100 + t));
  for (int i = 0; i < SIZE; ++i)
    s->g[i] = f(numbers[i]);
  s->t = t;
}

// Runs the optimizer, which is released, beside the formula.
static void expect_formula(ls_optimizer *optimizer, void (*move)(rule_state *s),
                           double initial, const char *const *slot_names) {
  rule_state s = {{0}, {{0}}, {0}, 0};
  double numbers[SIZE];
  fill_numbers(numbers, SIZE, 1);
  problem p = {variable_of("w", LS_DTYPE_F32, LS_SHAPE(SIZE), numbers),
               optimizer};
  for (int i = 0; i < SIZE; ++i) {
    s.w[i] = f(numbers[i]);
    for (int k = 0; k < 3; ++k)
      s.slots[k][i] = f(initial);
  }
  LS_OWN(ls_nest, results) = {0};
  ls_function *function = unnamed_function(follow, &p);
  for (int t = 1; t <= STEPS; ++t) {
    fill_gradient(&s, t);
    double values[SIZE];
    for (int i = 0; i < SIZE; ++i)
      values[i] = (double)s.g[i];
    LS_OWN(ls_nest, args) =
        LS_TUPLE(ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(SIZE), values)));
    expect_ok(ls_function_call(function, args, &results));
    move(&s);
    LS_OWN(ls_array, got) = variable_array(p.w);
    for (int i = 0; i < SIZE; ++i)
      if (ls_array_f64(got, i) != (double)s.w[i])
        fail_msg("step %d, element %d: got %.9g, wanted %.9g", t, i,
                 ls_array_f64(got, i), (double)s.w[i]);
  }
  ls_variable *variables[8];
  const size_t count = ls_optimizer_variables(optimizer, variables, 8);
  size_t slot = 0;
  for (size_t i = 0; i < count; ++i) {
    if (ls_variable_dtype(variables[i]) == LS_DTYPE_I64) continue;
    char name[64];
    snprintf(name, sizeof(name), "w/%s", slot_names[slot]);
    assert_string_equal(ls_variable_name(variables[i]), name);
    LS_OWN(ls_array, got) = variable_array(variables[i]);
    assert_memory_equal(ls_array_data(got), s.slots[slot], sizeof(s.w));
    ++slot;
  }
  assert_null(slot_names[slot]);
  ls_function_release(function);
  ls_variable_release(p.w);
  ls_optimizer_release(optimizer);
}

static float mix(double decay, float x, float y) {
  return x * f(decay) + y * f(1 - decay);
}

// ---- Formulas --------------------------------------------------------------
static void move_nesterov(rule_state *s) {
  for (int i = 0; i < SIZE; ++i) {
    const float g = s->g[i] + s->w[i] * 0.25f;
    float *v = &s->slots[0][i];
    *v = *v * 0.9f + g;
    s->w[i] -= (*v * 0.9f + g) * 0.1f;
  }
}

// Both moments; the result is m' a / (sqrt(v' b) + epsilon).
static float adam_direction(rule_state *s, int i, double a, double epsilon) {
  const double b = 1 / (1 - pow(0.95, s->t));
  float *m = &s->slots[0][i], *v = &s->slots[1][i];
  *m = mix(0.8, *m, s->g[i]);
  *v = mix(0.95, *v, s->g[i] * s->g[i]);
  return *m * f(a) / (sqrtf(*v * f(b)) + f(epsilon));
}

static double adam_first(const rule_state *s) {
  return 1 / (1 - pow(0.8, s->t));
}

static void move_adam(rule_state *s) {
  for (int i = 0; i < SIZE; ++i)
    s->w[i] -= adam_direction(s, i, adam_first(s) * 0.01, 1e-3);
}

static void move_adam_without_momentum(rule_state *s) {
  for (int i = 0; i < SIZE; ++i) {
    float *v = &s->slots[0][i];
    *v = mix(0.95, *v, s->g[i] * s->g[i]);
    const float root = sqrtf(*v * f(1 / (1 - pow(0.95, s->t))));
    s->w[i] -= s->g[i] * 0.01f / (root + f(1e-8));
  }
}

static void move_adamw(rule_state *s) {
  for (int i = 0; i < SIZE; ++i) {
    const float decay = s->w[i] * 0.125f * 0.01f;
    s->w[i] -= adam_direction(s, i, adam_first(s) * 0.01, 1e-8) + decay;
  }
}

static void move_adagrad(rule_state *s) {
  for (int i = 0; i < SIZE; ++i) {
    float *sum = &s->slots[0][i];
    *sum += s->g[i] * s->g[i];
    s->w[i] -= s->g[i] / sqrtf(*sum + f(1e-7)) * f(0.05);
  }
}

static void move_rmsprop(rule_state *s) {
  for (int i = 0; i < SIZE; ++i) {
    float *square = &s->slots[0][i];
    *square = mix(0.9, *square, s->g[i] * s->g[i]);
    s->w[i] -= s->g[i] / sqrtf(*square + f(1e-8)) * f(0.01);
  }
}

static void move_centered(rule_state *s) {
  for (int i = 0; i < SIZE; ++i) {
    float *square = &s->slots[0][i], *mean = &s->slots[1][i];
    float *v = &s->slots[2][i];
    *square = mix(0.8, *square, s->g[i] * s->g[i]);
    *mean = mix(0.8, *mean, s->g[i]);
    const float root = sqrtf(*square - *mean * *mean + f(1e-4));
    *v = *v * 0.5f + s->g[i] / root * f(0.01);
    s->w[i] -= *v;
  }
}

static void move_lion(rule_state *s) {
  for (int i = 0; i < SIZE; ++i) {
    float *m = &s->slots[0][i];
    const float c = mix(0.9, *m, s->g[i]);
    *m = mix(0.99, *m, s->g[i]);
    const float sign = c > 0 ? 1.0f : c < 0 ? -1.0f : 0.0f;
    s->w[i] -= (sign + s->w[i] * 0.5f) * f(0.001);
  }
}

// ---- Tests -----------------------------------------------------------------
static const char *const no_slots[] = {NULL};

TEST(sgd_with_nesterov_and_decay_follows_its_formula) {
  ls_optimizer *optimizer = NULL;
  expect_ok(ls_sgd_create(&(ls_sgd_options){.learning_rate = 0.1,
                                            .momentum = 0.9,
                                            .nesterov = true,
                                            .weight_decay = 0.25},
                          &optimizer));
  static const char *const names[] = {"momentum", NULL};
  expect_formula(optimizer, move_nesterov, 0, names);
}

TEST(adam_follows_its_formula) {
  ls_optimizer *optimizer = NULL;
  expect_ok(ls_adam_create(
      &(ls_adam_options){
          .learning_rate = 0.01, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3},
      &optimizer));
  static const char *const names[] = {"m", "v", NULL};
  expect_formula(optimizer, move_adam, 0, names);
}

TEST(adam_can_do_without_momentum) {
  ls_optimizer *optimizer = NULL;
  expect_ok(ls_adam_create(&(ls_adam_options){.learning_rate = 0.01,
                                              .beta2 = 0.95,
                                              .no_momentum = true},
                           &optimizer));
  static const char *const names[] = {"v", NULL};
  expect_formula(optimizer, move_adam_without_momentum, 0, names);
}

TEST(adamw_decays_apart_from_the_gradient) {
  ls_optimizer *optimizer = NULL;
  expect_ok(ls_adamw_create(&(ls_adam_options){.learning_rate = 0.01,
                                               .beta1 = 0.8,
                                               .beta2 = 0.95,
                                               .weight_decay = 0.125},
                            &optimizer));
  static const char *const names[] = {"m", "v", NULL};
  expect_formula(optimizer, move_adamw, 0, names);
}

TEST(adagrad_follows_its_formula) {
  ls_optimizer *optimizer = NULL;
  expect_ok(ls_adagrad_create(&(ls_adagrad_options){.learning_rate = 0.05},
                              &optimizer));
  static const char *const names[] = {"sum", NULL};
  expect_formula(optimizer, move_adagrad, 0.1, names);
}

TEST(rmsprop_follows_its_formula) {
  ls_optimizer *optimizer = NULL;
  expect_ok(ls_rmsprop_create(&(ls_rmsprop_options){.learning_rate = 0.01},
                              &optimizer));
  static const char *const names[] = {"square", NULL};
  expect_formula(optimizer, move_rmsprop, 0, names);
}

TEST(centered_rmsprop_with_momentum_follows_its_formula) {
  ls_optimizer *optimizer = NULL;
  expect_ok(ls_rmsprop_create(&(ls_rmsprop_options){.learning_rate = 0.01,
                                                    .decay = 0.8,
                                                    .momentum = 0.5,
                                                    .epsilon = 1e-4,
                                                    .centered = true},
                              &optimizer));
  static const char *const names[] = {"square", "mean", "momentum", NULL};
  expect_formula(optimizer, move_centered, 0, names);
}

// The mean of squares less the square of the mean may be rounded to below 0.
TEST(centered_rmsprop_bears_gradients_that_do_not_vary) {
  enum { MANY = 64 };
  double values[MANY] = {0}, gradients[MANY];
  fill_numbers(gradients, MANY, 3);
  for (int i = 0; i < MANY; ++i)
    gradients[i] *= 1000;
  LS_OWN(ls_optimizer, optimizer) = NULL;
  LS_OWN(ls_variable, w) =
      variable_of("w", LS_DTYPE_F32, LS_SHAPE(MANY), values);
  expect_ok(ls_rmsprop_create(
      &(ls_rmsprop_options){.learning_rate = 0.01, .centered = true},
      &optimizer));
  for (int step = 0; step < 200; ++step) {
    expect_ok(ls_frame_begin());
    const ls_nest g =
        ls_leaf(eager_of(LS_DTYPE_F32, LS_SHAPE(MANY), gradients));
    ls_optimizer_apply(optimizer, &w, &g, 1);
    expect_ok(ls_frame_end(NULL));
  }
  read_variable(w, values, MANY);
  for (int i = 0; i < MANY; ++i)
    assert_true(isfinite(values[i]));
}

TEST(lion_follows_its_formula) {
  ls_optimizer *optimizer = NULL;
  expect_ok(ls_lion_create(
      &(ls_lion_options){.learning_rate = 0.001, .weight_decay = 0.5},
      &optimizer));
  static const char *const names[] = {"m", NULL};
  expect_formula(optimizer, move_lion, 0, names);
}

static void move_sgd(rule_state *s) {
  for (int i = 0; i < SIZE; ++i)
    s->w[i] -= s->g[i] * f(0.01);
}

TEST(sgd_follows_its_formula) {
  ls_optimizer *optimizer = NULL;
  expect_ok(ls_sgd_create(NULL, &optimizer));
  expect_formula(optimizer, move_sgd, 0, no_slots);
}

// Norms add elements up in an order that is the engine's, so not to the bit.
TEST(lamb_moves_by_the_length_of_the_weight) {
  rule_state s = {{0}, {{0}}, {0}, 0};
  double numbers[SIZE];
  fill_numbers(numbers, SIZE, 1);
  problem p = {variable_of("w", LS_DTYPE_F32, LS_SHAPE(SIZE), numbers), NULL};
  expect_ok(ls_lamb_create(&(ls_adam_options){.learning_rate = 0.05,
                                              .beta1 = 0.8,
                                              .beta2 = 0.95,
                                              .weight_decay = 0.1},
                           &p.optimizer));
  for (int i = 0; i < SIZE; ++i)
    s.w[i] = f(numbers[i]);
  for (int t = 1; t <= STEPS; ++t) {
    fill_gradient(&s, t);
    double values[SIZE], d[SIZE], squares_w = 0, squares_d = 0;
    for (int i = 0; i < SIZE; ++i) {
      values[i] = (double)s.g[i];
      d[i] = (double)adam_direction(&s, i, adam_first(&s), 1e-6) +
             0.1 * (double)s.w[i];
      squares_w += (double)s.w[i] * (double)s.w[i];
      squares_d += d[i] * d[i];
    }
    for (int i = 0; i < SIZE; ++i)
      s.w[i] -= f(0.05 * sqrt(squares_w / squares_d) * d[i]);
    const ls_nest args =
        LS_TUPLE(ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(SIZE), values)));
    ls_nest_release(call_on(1, follow, &p, args, 1));
    ls_nest_release(args);
    for (int i = 0; i < SIZE; ++i)
      values[i] = (double)s.w[i];
    expect_variable(p.w, values, SIZE, 1e-6);
  }
  ls_variable_release(p.w);
  ls_optimizer_release(p.optimizer);
}

// A weight of 0 has no length: the quotient is 1.
TEST(lamb_moves_a_weight_of_zero) {
  const double zeros[SIZE] = {0};
  problem p = {variable_of("w", LS_DTYPE_F64, LS_SHAPE(SIZE), zeros), NULL};
  expect_ok(ls_lamb_create(NULL, &p.optimizer));
  const double ones[SIZE] = {1, 1, 1, 1, 1};
  const ls_nest args =
      LS_TUPLE(ls_nest_array(array_of(LS_DTYPE_F64, LS_SHAPE(SIZE), ones)));
  ls_nest_release(call_on(1, follow, &p, args, 1));
  ls_nest_release(args);
  const double step = -0.001 / (1 + 1e-6);
  const double wanted[SIZE] = {step, step, step, step, step};
  expect_variable(p.w, wanted, SIZE, 1e-9);
  ls_variable_release(p.w);
  ls_optimizer_release(p.optimizer);
}
