// SPDX-License-Identifier: Apache-2.0
//
// Losses with their gradients, metrics and dropout: the same in every way to
// run.
#include <math.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "lockstep/gradients.h"
#include "lockstep/layers.h"
#include "lockstep/losses.h"
#include "support/values.h"
#include "support/ways.h"

enum { ROWS = 4, CLASSES = 5 };

typedef ls_tensor (*loss_maker)(ls_tensor x, ls_tensor y, ls_reduction how);

typedef struct loss_case {
  const char *name;
  loss_maker make;
  bool labels;  // y are classes, else numbers from 0 to 1 shaped as x.
} loss_case;

// ---- Losses ----------------------------------------------------------------
static ls_tensor smooth(ls_tensor x, ls_tensor y, ls_reduction how) {
  return ls_cross_entropy_loss(x, y, 0.1, how);
}

static ls_tensor sharp(ls_tensor x, ls_tensor y, ls_reduction how) {
  return ls_cross_entropy_loss(x, y, 0, how);
}

static ls_tensor divergence(ls_tensor x, ls_tensor y, ls_reduction how) {
  return ls_kl_divergence_loss(ls_log_softmax(x), ls_softmax(y), how);
}

static ls_tensor huber(ls_tensor x, ls_tensor y, ls_reduction how) {
  return ls_huber_loss(x, y, 0.5, how);
}

static ls_tensor weighted(ls_tensor x, ls_tensor y, ls_reduction how) {
  (void)how;
  return ls_weighted_mean(ls_square(x), y);
}

static const loss_case losses[] = {
    {"cross entropy", sharp, true},
    {"smoothed cross entropy", smooth, true},
    {"soft cross entropy", ls_soft_cross_entropy_loss, false},
    {"divergence", divergence, false},
    {"sigmoid cross entropy", ls_sigmoid_cross_entropy_loss, false},
    {"mean squared error", ls_mean_squared_error, false},
    {"mean absolute error", ls_mean_absolute_error, false},
    {"huber", huber, false},
    {"hinge", ls_hinge_loss, false},
    {"weighted mean", weighted, false},
};

typedef struct reduced_loss {
  const loss_case *loss;
  ls_reduction how;
} reduced_loss;

static ls_nest x_and_y(const ways *self, int step, int r) {
  const reduced_loss *row = self->user;
  const uint32_t seed = (uint32_t)(5 * step + r + 1);
  double y[ROWS * CLASSES];
  fill_numbers(y, ROWS * CLASSES, seed + 100);
  for (int i = 0; i < ROWS * CLASSES; ++i)
    y[i] = row->loss->labels ? (i + r) % CLASSES : (y[i] + 1) / 2;
  const ls_shape shape = LS_SHAPE(ROWS, CLASSES);
  return LS_TUPLE(ls_nest_array(array_of_numbers(LS_DTYPE_F32, shape, seed)),
                  ls_nest_array(row->loss->labels
                                    ? array_of(LS_DTYPE_I32, LS_SHAPE(ROWS), y)
                                    : array_of(LS_DTYPE_F32, shape, y)));
}

static ls_tensor loss_of(ls_nest args, ways *self) {
  const reduced_loss *row = self->user;
  return row->loss->make(ls_nest_tensor(args, 0), ls_nest_tensor(args, 1),
                         row->how);
}

static ls_nest with_gradient(ls_nest args, ways *self) {
  const ls_nest x = ls_nest_item(args, 0);
  ls_tensor loss = ls_failed_tensor();
  ls_nest gradient = ls_none();
  const ls_status status =
      ways_gradients(self, loss_of, args, &x, 1, &loss, &gradient);
  return ls_status_is_ok(status) ? LS_TUPLE(ls_leaf(loss), gradient)
                                 : ls_fail(status);
}

TEST(losses_and_gradients_are_alike_in_every_way) {
  for (size_t i = 0; i < LS_COUNT_OF(losses); ++i)
    for (int how = LS_REDUCTION_MEAN; how <= LS_REDUCTION_NONE; ++how) {
      const reduced_loss row = {&losses[i], (ls_reduction)how};
      ways_hold(&(ways_case){.name = losses[i].name,
                             .user = &row,
                             .args = x_and_y,
                             .step = with_gradient},
                1);
    }
}

static ls_tensor bad_loss(ls_nest args, ways *self) {
  (void)self;
  return ls_huber_loss(ls_nest_tensor(args, 0), ls_nest_tensor(args, 1), -1,
                       LS_REDUCTION_MEAN);
}

static ls_nest refused_loss(ls_nest args, ways *self) {
  return ls_leaf(bad_loss(args, self));
}

TEST(options_that_cannot_be_are_refused_in_every_way) {
  const reduced_loss row = {&losses[4], LS_REDUCTION_MEAN};
  ways_hold(&(ways_case){.name = "delta",
                         .user = &row,
                         .args = x_and_y,
                         .step = refused_loss,
                         .refused = LS_INVALID_ARGUMENT,
                         .says = "delta must be above 0, got -1"},
            1);
}

// ---- Metrics ---------------------------------------------------------------
static ls_nest measure(ls_nest args, ways *self) {
  (void)self;
  const ls_tensor x = ls_nest_tensor(args, 0), y = ls_nest_tensor(args, 1);
  return LS_TUPLE(ls_leaf(ls_accuracy(x, y)), ls_leaf(ls_count_correct(x, y)),
                  ls_leaf(ls_top_k_accuracy(x, y, 2)));
}

TEST(metrics_are_alike_in_every_way) {
  const reduced_loss row = {&losses[0], LS_REDUCTION_MEAN};
  ways_hold(
      &(ways_case){
          .name = "metrics", .user = &row, .args = x_and_y, .step = measure},
      1);
}

// A running mean counts the elements of all replicas once.
static void make_mean(ways *self) {
  ls_running_mean *mean = NULL;
  expect_ok(ls_running_mean_create(NULL, &mean));
  self->more = mean;
  ls_running_mean_variables(mean, self->variables, 2);
  self->num_variables = 2;
  for (int i = 0; i < 2; ++i)
    ls_variable_retain(self->variables[i]);
}

static void drop_mean(ways *self) { ls_running_mean_destroy(self->more); }

static ls_nest take_in(ls_nest args, ways *self) {
  const ls_op op = ls_running_mean_update(self->more, ls_nest_tensor(args, 0));
  const ls_tensor value = ls_running_mean_value(self->more);
  return LS_TUPLE(ls_leaf(value),
                  self->way == WAY_GRAPH ? ls_nest_op(op) : ls_none());
}

static void check_mean(const ways *self) {
  double sum = 0;
  const int n = self->replicas;
  for (int step = 0; step < 3; ++step)
    for (int r = 0; r < n; ++r) {
      LS_OWN(ls_nest, args) = x_and_y(self, step, r);
      const ls_array *x = ls_nest_as_array(ls_nest_item(args, 0));
      for (int64_t i = 0; i < ROWS * CLASSES; ++i)
        sum += ls_array_f64(x, i);
    }
  for (int c = 0; c < n; ++c) {
    ways_expect(self, "total", ways_value(self, 0, c, 0), sum, 1e-5);
    ways_expect(self, "count", ways_value(self, 1, c, 0),
                3.0 * n * ROWS * CLASSES, 0);
    ways_expect(self, "mean", ways_result(self, 2, c, 0, 0),
                sum / (3 * n * ROWS * CLASSES), 1e-6);
  }
}

TEST(a_running_mean_counts_all_in_every_way) {
  const reduced_loss row = {&losses[0], LS_REDUCTION_MEAN};
  ways_hold(&(ways_case){.name = "running mean",
                         .user = &row,
                         .make = make_mean,
                         .args = x_and_y,
                         .step = take_in,
                         .check = check_mean,
                         .drop = drop_mean,
                         .steps = 3},
            1);
}

// ---- Dropout ---------------------------------------------------------------
// By numbers that are fixed, as eager counts no calls: those of the replica,
// and those of the examples, which all replicas have.
static ls_nest drop_out(ls_nest args, ways *self) {
  (void)self;
  ls_random_options random = {.seed = 5, .stream = LS_SOME(3), .fixed = true};
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor own = ls_dropout(x, 0.5, true, &random);
  random.example_ids = ls_iota(LS_DTYPE_I32, LS_SHAPE(ROWS), 0);
  return LS_TUPLE(ls_leaf(own), ls_leaf(ls_dropout(x, 0.5, true, &random)));
}

static void check_dropped(const ways *self) {
  for (int r = 0; r < self->replicas; ++r) {
    LS_OWN(ls_nest, args) = x_and_y(self, 0, r);
    const ls_array *x = ls_nest_as_array(ls_nest_item(args, 0));
    int64_t differ = 0;
    for (int64_t i = 0; i < ROWS * CLASSES; ++i) {
      const double y = ways_result(self, 0, r, 0, i);
      const double by_example = ways_result(self, 0, r, 1, i);
      if (y != 0) ways_expect(self, "kept", y, 2 * ls_array_f64(x, i), 1e-6);
      ways_expect(self, "kept", by_example != 0,
                  ways_result(self, 0, 0, 1, i) != 0, 0);
      differ += (y == 0) != (ways_result(self, 0, 0, 0, i) == 0);
    }
    assert_true(r == 0 || differ > 0);  // Each replica drops its own.
  }
}

TEST(dropout_keeps_the_same_in_every_way) {
  const reduced_loss row = {&losses[0], LS_REDUCTION_MEAN};
  ways_hold(&(ways_case){.name = "dropout",
                         .user = &row,
                         .args = x_and_y,
                         .step = drop_out,
                         .check = check_dropped},
            1);
}

// Calls of a function and runs of a session count alike, and so do the random
// ops of each replica.
static ls_nest drop_out_twice(ls_nest args, ways *self) {
  (void)self;
  const ls_tensor x = ls_nest_tensor(args, 0);
  return LS_TUPLE(ls_leaf(ls_dropout(x, 0.5, true, NULL)),
                  ls_leaf(ls_dropout(x, 0.5, true, NULL)));
}

static void check_twice(const ways *self) {
  for (int r = 0; r < self->replicas; ++r) {
    int64_t ops = 0, steps = 0, replicas = 0;
    for (int64_t i = 0; i < ROWS * CLASSES; ++i) {
      const bool kept = ways_result(self, 0, r, 0, i) != 0;
      ops += kept != (ways_result(self, 0, r, 1, i) != 0);
      steps += kept != (ways_result(self, 1, r, 0, i) != 0);
      replicas += kept != (ways_result(self, 0, 0, 0, i) != 0);
    }
    assert_true(ops > 0 && steps > 0 && (r == 0 || replicas > 0));
  }
}

TEST(dropout_by_default_is_alike_compiled) {
  const reduced_loss row = {&losses[0], LS_REDUCTION_MEAN};
  ways_hold(&(ways_case){.name = "dropout by default",
                         .user = &row,
                         .args = x_and_y,
                         .step = drop_out_twice,
                         .check = check_twice,
                         .steps = 2,
                         .without = 1 << WAY_EAGER},
            1);
}
