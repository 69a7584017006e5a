// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "lockstep/layers.h"
#include "lockstep/optimizers.h"
#include "support/values.h"

enum { ROWS = 8, CHANNELS = 3, ALL = ROWS * CHANNELS };

typedef struct problem {
  ls_batch_norm_layer *layer;
  ls_variable *variables[4];  // Scale, offset, mean, variance.
  ls_optimizer *optimizer;
  bool inference;
} problem;

static void begin(problem *p, bool over_replicas) {
  *p = (problem){0};
  expect_ok(ls_batch_norm_layer_create(
      &(ls_batch_norm_options){.channels = CHANNELS,
                               .momentum = 0.75,
                               .epsilon = 1e-3,
                               .over_replicas = over_replicas,
                               .dtype = LS_DTYPE_F64},
      &p->layer));
  assert_int_equal(ls_batch_norm_layer_variables(p->layer, p->variables, 4), 4);
  static const char *const names[] = {"batch_norm/scale", "batch_norm/offset",
                                      "batch_norm/moving_mean",
                                      "batch_norm/moving_variance"};
  double numbers[CHANNELS];
  for (uint32_t i = 0; i < 4; ++i) {
    assert_string_equal(ls_variable_name(p->variables[i]), names[i]);
    assert_true(ls_variable_is_trainable(p->variables[i]) == (i < 2));
    fill_numbers(numbers, CHANNELS, 40 + i);
    if (i < 2) set_variable(p->variables[i], numbers);
  }
  expect_ok(
      ls_sgd_create(&(ls_sgd_options){.learning_rate = 1}, &p->optimizer));
}

static void end(problem *p) {
  ls_batch_norm_layer_destroy(p->layer);
  ls_optimizer_release(p->optimizer);
}
LS_OWNED_STRUCT(problem, end)

static ls_nest apply(ls_nest args, void *user) {
  const problem *p = user;
  return ls_leaf(ls_batch_norm_layer_apply(p->layer, ls_nest_tensor(args, 0),
                                           !p->inference));
}

static ls_nest train(ls_nest args, void *user) {
  problem *p = user;
  const ls_tensor y = ls_nest_tensor(apply(args, user), 0);
  const ls_tensor cubes = ls_mul(y, ls_square(y));
  ls_optimizer_minimize(p->optimizer, ls_reduce_mean(cubes, LS_ALL_AXES));
  return ls_leaf(y);
}

static ls_array *examples(void) {
  return array_of_numbers(LS_DTYPE_F64, LS_SHAPE(ROWS, CHANNELS), 4);
}

// Mean and biased variance of rows [first, limit) of a channel.
static void moments(const ls_array *x, int first, int limit, int channel,
                    double *mean, double *variance) {
  double sum = 0, squares = 0;
  for (int r = first; r < limit; ++r)
    sum += ls_array_f64(x, r * CHANNELS + channel);
  *mean = sum / (limit - first);
  for (int r = first; r < limit; ++r) {
    const double d = ls_array_f64(x, r * CHANNELS + channel) - *mean;
    squares += d * d;
  }
  *variance = squares / (limit - first);
}

// What the layer makes of row r when its replica holds rows [first, limit).
static double wanted_at(const problem *p, const ls_array *x, int r, int c,
                        int first, int limit) {
  double mean, variance, scale[CHANNELS], offset[CHANNELS];
  moments(x, first, limit, c, &mean, &variance);
  read_variable(p->variables[0], scale, CHANNELS);
  read_variable(p->variables[1], offset, CHANNELS);
  return (ls_array_f64(x, r * CHANNELS + c) - mean) / sqrt(variance + 1e-3) *
             scale[c] +
         offset[c];
}

static double result_at(ls_nest result, int replicas, int r, int c) {
  const int rows = ROWS / replicas;
  const ls_nest part =
      replicas == 1 ? result
                    : ls_distributed_component(result, (size_t)(r / rows));
  return ls_array_f64(ls_nest_as_array(part), r % rows * CHANNELS + c);
}

TEST(training_uses_the_batch_of_the_replica_or_of_all) {
  for (int replicas = 1; replicas <= 4; replicas *= 2)
    for (int together = 0; together < 2; ++together) {
      LS_OWN_BEGUN(problem, p, begin, together == 1);
      LS_OWN(ls_array, x) = examples();
      LS_OWN(ls_nest, args) = LS_TUPLE(split_of(replicas, ls_array_retain(x)));
      LS_OWN(ls_nest, y) = call_on(replicas, apply, &p, args, 1);
      const int rows = together == 1 ? ROWS : ROWS / replicas;
      for (int r = 0; r < ROWS; ++r)
        for (int c = 0; c < CHANNELS; ++c)
          assert_true(fabs(result_at(y, replicas, r, c) -
                           wanted_at(&p, x, r, c, r / rows * rows,
                                     r / rows * rows + rows)) < 1e-12);
    }
}

TEST(averages_move_by_the_mean_over_replicas) {
  for (int replicas = 1; replicas <= 4; replicas *= 2) {
    LS_OWN_BEGUN(problem, p, begin, false);
    LS_OWN(ls_array, x) = examples();
    LS_OWN(ls_nest, args) = LS_TUPLE(split_of(replicas, ls_array_retain(x)));
    ls_nest_release(call_on(replicas, apply, &p, args, 2));
    double means[CHANNELS], variances[CHANNELS];
    for (int c = 0; c < CHANNELS; ++c) {
      double mean_sum = 0, variance_sum = 0;
      for (int k = 0; k < replicas; ++k) {
        const int rows = ROWS / replicas;
        double mean, variance;
        moments(x, k * rows, k * rows + rows, c, &mean, &variance);
        mean_sum += mean;
        variance_sum += variance;
      }
      // Twice by a quarter of what is left, from 0 and from 1.
      const double part = 1 - 0.75 * 0.75;
      means[c] = part * mean_sum / replicas;
      variances[c] = 1 + part * (variance_sum / replicas - 1);
    }
    expect_variable(p.variables[2], means, CHANNELS, 1e-13);
    expect_variable(p.variables[3], variances, CHANNELS, 1e-13);
  }
}

TEST(inference_uses_the_averages_and_leaves_them) {
  LS_OWN_BEGUN(problem, p, begin, false);
  p.inference = true;
  const double mean[] = {0.5, -1, 2}, variance[] = {4, 1, 0.25};
  set_variable(p.variables[2], mean);
  set_variable(p.variables[3], variance);
  ls_array *x = examples();
  double scale[CHANNELS], offset[CHANNELS], wanted[ALL];
  read_variable(p.variables[0], scale, CHANNELS);
  read_variable(p.variables[1], offset, CHANNELS);
  for (int i = 0; i < ALL; ++i) {
    const int c = i % CHANNELS;
    wanted[i] =
        (ls_array_f64(x, i) - mean[c]) / sqrt(variance[c] + 1e-3) * scale[c] +
        offset[c];
  }
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_array(x));
  LS_OWN(ls_nest, y) = call_on(1, apply, &p, args, 1);
  for (int i = 0; i < ALL; ++i)
    assert_true(fabs(ls_array_f64(ls_nest_as_array(y), i) - wanted[i]) < 1e-12);
  expect_variable(p.variables[2], mean, CHANNELS, 0);
  expect_variable(p.variables[3], variance, CHANNELS, 0);
}

// In f32 the mean of squares of numbers around 10000 has no place for a
// variance of 1.
TEST(a_large_mean_leaves_the_variance_over_replicas) {
  double numbers[ALL];
  fill_numbers(numbers, ALL, 4);
  for (int i = 0; i < ALL; ++i)
    numbers[i] = 10000 + round(numbers[i] * 64) / 32;
  LS_OWN(ls_array, x) =
      array_of(LS_DTYPE_F32, LS_SHAPE(ROWS, CHANNELS), numbers);
  for (int replicas = 2; replicas <= 3; ++replicas) {
    ls_batch_norm_layer *layer = NULL;
    expect_ok(ls_batch_norm_layer_create(
        &(ls_batch_norm_options){
            .channels = CHANNELS, .epsilon = 1e-3, .over_replicas = true},
        &layer));
    const problem p = {.layer = layer};
    const ls_nest args = LS_TUPLE(split_of(replicas, ls_array_retain(x)));
    const ls_nest y = call_on(replicas, apply, (void *)(uintptr_t)&p, args, 1);
    for (int c = 0; c < CHANNELS; ++c) {
      double mean, variance;
      moments(x, 0, ROWS, c, &mean, &variance);
      const double wanted = (ls_array_f64(x, c) - mean) / sqrt(variance + 1e-3);
      assert_true(fabs(result_at(y, replicas, 0, c) - wanted) < 2e-3);
    }
    ls_nest_release(y);
    ls_nest_release(args);
    ls_batch_norm_layer_destroy(layer);
  }
}

// Even parts of the eight rows, uneven ones, and parts without any.
static const int split[] = {1, 2, 3, 4, 5, 8, 10};

// The step's new scale and offset say that the gradients are the same.
TEST(over_replicas_a_step_is_that_of_the_whole_batch) {
  double scale[CHANNELS], offset[CHANNELS];
  for (size_t i = 0; i < LS_COUNT_OF(split); ++i) {
    const int replicas = split[i];
    LS_OWN_BEGUN(problem, p, begin, true);
    LS_OWN(ls_nest, args) = LS_TUPLE(split_of(replicas, examples()));
    ls_nest_release(call_on(replicas, train, &p, args, 3));
    if (replicas == 1) {
      read_variable(p.variables[0], scale, CHANNELS);
      read_variable(p.variables[1], offset, CHANNELS);
    }
    expect_variable(p.variables[0], scale, CHANNELS, 1e-9);
    expect_variable(p.variables[1], offset, CHANNELS, 1e-9);
  }
}

// The gradient of what goes into the layer also passes through the statistics.
typedef struct sandwich {
  problem norm;
  ls_dense_layer *below;
} sandwich;

static ls_nest loss_above(ls_nest args, void *user) {
  sandwich *s = user;
  const ls_tensor x = ls_dense_layer_apply(s->below, ls_nest_tensor(args, 0));
  const ls_tensor y =
      ls_batch_norm_layer_apply(s->norm.layer, x, !s->norm.inference);
  return ls_leaf(ls_reduce_mean(ls_mul(y, ls_square(y)), LS_ALL_AXES));
}

TEST(gradients_flow_through_the_statistics) {
  sandwich s = {0};
  begin(&s.norm, false);
  expect_ok(ls_dense_layer_create(&(ls_dense_options){.inputs = CHANNELS,
                                                      .units = CHANNELS,
                                                      .dtype = LS_DTYPE_F64},
                                  &s.below));
  ls_variable *variables[] = {s.norm.variables[0], s.norm.variables[1],
                              ls_dense_layer_kernel(s.below)};
  const ls_nest args = LS_TUPLE(ls_nest_array(examples()));
  for (int inference = 0; inference < 2; ++inference) {
    s.norm.inference = inference == 1;
    expect_variable_gradients(loss_above, &s, args, variables, 3, 1e-6);
  }
  ls_nest_release(args);
  ls_dense_layer_destroy(s.below);
  end(&s.norm);
}

static ls_nest step(ls_nest args, void *user) {
  const sandwich *s = user;
  const ls_nest loss = loss_above(args, user);
  ls_optimizer_minimize(s->norm.optimizer, ls_nest_tensor(loss, 0));
  return loss;
}

TEST(gradients_flow_through_statistics_of_all) {
  double kernel[CHANNELS * CHANNELS], numbers[CHANNELS * CHANNELS];
  double mean[CHANNELS], variance[CHANNELS];
  fill_numbers(numbers, CHANNELS * CHANNELS, 77);
  for (size_t i = 0; i < LS_COUNT_OF(split); ++i) {
    const int replicas = split[i];
    sandwich s = {0};
    begin(&s.norm, true);
    expect_ok(ls_dense_layer_create(&(ls_dense_options){.inputs = CHANNELS,
                                                        .units = CHANNELS,
                                                        .dtype = LS_DTYPE_F64},
                                    &s.below));
    set_variable(ls_dense_layer_kernel(s.below), numbers);
    const ls_nest args = LS_TUPLE(split_of(replicas, examples()));
    ls_nest_release(call_on(replicas, step, &s, args, 3));
    if (replicas == 1)
      read_variable(ls_dense_layer_kernel(s.below), kernel,
                    CHANNELS * CHANNELS);
    expect_variable(ls_dense_layer_kernel(s.below), kernel, CHANNELS * CHANNELS,
                    1e-9);
    if (replicas == 1) {
      read_variable(s.norm.variables[2], mean, CHANNELS);
      read_variable(s.norm.variables[3], variance, CHANNELS);
    }
    expect_variable(s.norm.variables[2], mean, CHANNELS, 1e-9);
    expect_variable(s.norm.variables[3], variance, CHANNELS, 1e-9);
    ls_nest_release(args);
    ls_dense_layer_destroy(s.below);
    end(&s.norm);
  }
}

TEST(layers_that_cannot_be_are_refused) {
  const ls_batch_norm_options bad[] = {
      {.name = "b"},
      {.name = "b", .channels = 1, .momentum = 1},
      {.name = "b", .channels = 1, .epsilon = (double)NAN}};
  for (size_t i = 0; i < 3; ++i) {
    ls_batch_norm_layer *layer = NULL;
    expect_status(ls_batch_norm_layer_create(&bad[i], &layer),
                  LS_INVALID_ARGUMENT, "batch norm 'b' needs");
    assert_null(layer);
  }
  ls_batch_norm_layer *layer = NULL;
  expect_status(ls_batch_norm_layer_create(
                    &(ls_batch_norm_options){.channels = 1,
                                             .dtype = LS_DTYPE_BF16},
                    &layer),
                LS_INVALID_ARGUMENT, "variables of f32, also for 16-bit x");
  assert_null(layer);
}
