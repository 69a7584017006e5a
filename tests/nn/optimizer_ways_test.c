// SPDX-License-Identifier: Apache-2.0
//
// Steps of every optimizer: the same weights, and the same it remembers, in
// every way to run.
#include <math.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "lockstep/losses.h"
#include "lockstep/optimizer_state.h"
#include "support/values.h"
#include "support/ways.h"

enum { WIDTH = 5, ROWS = 3, STEPS = 4 };

typedef struct optimizer_case {
  const char *kind;
  ls_optimizer_options options;
  ls_variable_aggregation aggregation;
} optimizer_case;

// ---- The problem -----------------------------------------------------------
static void make_weights(ways *self) {
  double w[WIDTH];
  fill_numbers(w, WIDTH, 3);
  ways_vector(self, "w", WIDTH, w);
  ways_vector(self, "b", 0, (double[]){0.5});
}

static void make(ways *self) {
  const optimizer_case *row = self->user;
  make_weights(self);
  expect_ok(ls_optimizer_create(row->kind, &row->options, &self->optimizer));
}

static ls_nest own_rows(const ways *self, int step, int r) {
  (void)self;
  return ls_nest_array(array_of_numbers(LS_DTYPE_F32, LS_SHAPE(ROWS, WIDTH),
                                        (uint32_t)(7 * step + r + 1)));
}

// The rows' products with w, less b, should be 1.
static ls_tensor loss_of(ls_nest x, ways *self) {
  const ls_tensor w = ls_variable_read(self->variables[0]);
  const ls_tensor b = ls_variable_read(self->variables[1]);
  const ls_tensor sums = ls_reduce_sum(ls_mul(x.as.tensor, w), LS_AXES(1));
  const ls_tensor y = ls_tanh(ls_sub(sums, b));
  return ls_mean_squared_error(y, ls_scalar(LS_DTYPE_F32, 1),
                               LS_REDUCTION_MEAN);
}

static ls_nest step(ls_nest x, ways *self) {
  return ways_minimize(self, loss_of, x);
}

// One column, another one in each step, is 0 and gives no gradient.
static ls_nest rows_with_zeros(const ways *self, int step, int r) {
  const ls_nest rows = own_rows(self, step, r);
  for (int i = 0; i < ROWS; ++i)
    ls_array_set_f64(ls_nest_as_array(rows), i * WIDTH + step % WIDTH, 0);
  return rows;
}

static void hold(const optimizer_case *rows, size_t count, bool one_table) {
  for (size_t i = 0; i < count; ++i)
    ways_hold(&(ways_case){.name = rows[i].kind,
                           .user = &rows[i],
                           .make = make,
                           .args = rows[i].options.lazy != NULL
                                       ? rows_with_zeros
                                       : own_rows,
                           .step = step,
                           .steps = STEPS,
                           .one_table = one_table},
              1);
}

// ---- Kinds and options -----------------------------------------------------
TEST(every_kind_moves_alike_in_every_way) {
  LS_SPEC("M166 M168 M182");
  for (size_t i = 0; ls_optimizer_kind(i) != NULL; ++i) {
    const optimizer_case row = {
        .kind = ls_optimizer_kind(i),
        .options = {.learning_rate = 0.1, .weight_decay = 0.01}};
    hold(&row, 1, false);
  }
}

static ls_tensor half_life(ls_tensor at, void *user) {
  (void)user;
  const ls_tensor x = ls_convert(at, LS_DTYPE_F64);
  return ls_exp(ls_mul_scalar(x, -0.5));
}

TEST(schedules_go_alike_in_every_way) {
  static const ls_schedule schedules[] = {
      {.kind = LS_SCHEDULE_LINEAR, .steps = 3, .end = 0.1},
      {.kind = LS_SCHEDULE_COSINE, .steps = 5, .warmup = 2},
      {.kind = LS_SCHEDULE_EXPONENTIAL, .steps = 2},
      {.kind = LS_SCHEDULE_STEP, .steps = 2, .factor = 0.5},
      {.custom = half_life},
  };
  for (size_t i = 0; i < LS_COUNT_OF(schedules); ++i) {
    const optimizer_case row = {.kind = i % 2 == 0 ? "momentum" : "adam",
                                .options = {.schedule = schedules[i]}};
    hold(&row, 1, true);
  }
}

TEST(clipping_is_alike_in_every_way) {
  static const optimizer_case rows[] = {
      {.kind = "sgd", .options = {.clip = {.value = 0.1}}},
      {.kind = "sgd", .options = {.clip = {.norm = 0.1}}},
      {.kind = "sgd", .options = {.clip = {.global_norm = 0.1}}},
      {.kind = "adam", .options = {.clip = {0.5, 0.2, 0.1}}},
  };
  hold(rows, LS_COUNT_OF(rows), true);
}

TEST(several_calls_make_a_step_in_every_way) {
  static const optimizer_case rows[] = {
      {.kind = "sgd", .options = {.accumulate = 2}},
      {.kind = "adam", .options = {.accumulate = 3}},  // One call is left.
      {.kind = "adamw",
       .options = {.accumulate = 2,
                   .clip = {.global_norm = 0.1},
                   .schedule = {.kind = LS_SCHEDULE_LINEAR, .steps = 3}}},
      {.kind = "momentum",
       .options = {.accumulate = 2, .over_replicas = LS_GRADIENTS_SUM}},
  };
  hold(rows, LS_COUNT_OF(rows), false);
}

static bool is_w(const ls_variable *variable) {
  return strcmp(ls_variable_name(variable), "w") == 0;
}

TEST(lazy_steps_are_alike_in_every_way) {
  static const optimizer_case rows[] = {
      {.kind = "adam", .options = {.lazy = is_w}},
      {.kind = "adamw", .options = {.lazy = is_w, .clip = {.norm = 0.1}}},
      {.kind = "momentum", .options = {.lazy = is_w, .weight_decay = 0.1}},
      {.kind = "adam", .options = {.lazy = is_w, .accumulate = 2}},
  };
  hold(rows, LS_COUNT_OF(rows), false);
}

TEST(sums_and_means_are_alike_in_every_way) {
  LS_SPEC("M182");
  static const optimizer_case rows[] = {
      {.kind = "sgd", .options = {.over_replicas = LS_GRADIENTS_SUM}},
      {.kind = "sgd", .options = {.over_replicas = LS_GRADIENTS_LIKE_LOSS}},
      {.kind = "adam", .options = {.over_replicas = LS_GRADIENTS_SUM}},
  };
  hold(rows, LS_COUNT_OF(rows), false);
}

// ---- What is right ---------------------------------------------------------
// w' = w - rate mean(x) for a loss that is w x, each replica with its own x.
static ls_nest number_of(const ways *self, int at, int r) {
  (void)self;
  const double x = at + 2 * r + 1;
  return ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(1), &x));
}

static void make_number(ways *self) {
  const optimizer_case *row = self->user;
  LS_OWN(ls_array, zero) = array_of(LS_DTYPE_F32, LS_SHAPE(1), (double[]){0});
  ways_variable(self, &(ls_variable_options){.name = "w",
                                             .initial_array = zero,
                                             .aggregation = row->aggregation});
  expect_ok(ls_optimizer_create(row->kind, &row->options, &self->optimizer));
}

static ls_tensor product(ls_nest x, ways *self) {
  return ls_reduce_loss(
      ls_mul(ls_variable_read(self->variables[0]), x.as.tensor),
      LS_REDUCTION_MEAN);
}

static ls_nest product_step(ls_nest x, ways *self) {
  return ways_minimize(self, product, x);
}

static void check_number(const ways *self) {
  const optimizer_case *row = self->user;
  const int n = self->replicas;
  double w = 0;
  for (int at = 0; at < STEPS; ++at)
    for (int r = 0; r < n; ++r)
      w -= (at + 2 * r + 1) /
           (row->options.over_replicas == LS_GRADIENTS_MEAN ? (double)n : 1);
  for (int c = 0; c < n; ++c)
    ways_expect(self, "w", ways_value(self, 0, c, 0), w, 1e-5);
}

TEST(a_step_goes_down_the_gradient_of_the_whole_batch) {
  LS_SPEC("M182");
  static const optimizer_case rows[] = {
      {.kind = "sgd", .options = {.learning_rate = 1}},
      {.kind = "sgd",
       .options = {.learning_rate = 1, .over_replicas = LS_GRADIENTS_SUM}},
      {.kind = "sgd",
       .options = {.learning_rate = 1},
       .aggregation = LS_AGGREGATION_SUM},
      {.kind = "sgd",
       .options = {.learning_rate = 1},
       .aggregation = LS_AGGREGATION_MEAN},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    ways_hold(&(ways_case){.name = "whole batch",
                           .user = &rows[i],
                           .make = make_number,
                           .args = number_of,
                           .step = product_step,
                           .check = check_number,
                           .steps = STEPS},
              1);
}

// ---- Refused ---------------------------------------------------------------
static ls_tensor constant_loss(ls_nest x, ways *self) {
  (void)self;
  return ls_reduce_mean(x.as.tensor, LS_ALL_AXES);
}

static ls_nest step_nowhere(ls_nest x, ways *self) {
  return ways_minimize(self, constant_loss, x);
}

static ls_tensor rows_of_losses(ls_nest x, ways *self) {
  return ls_mul(ls_variable_read(self->variables[0]), x.as.tensor);
}

static ls_nest step_down_rows(ls_nest x, ways *self) {
  return ways_minimize(self, rows_of_losses, x);
}

TEST(what_cannot_be_minimized_is_refused_in_every_way) {
  static const optimizer_case row = {.kind = "adam"};
  const ways_case cases[] = {
      {.name = "nothing to train",
       .user = &row,
       .make = make,
       .args = own_rows,
       .step = step_nowhere,
       .refused = LS_INVALID_ARGUMENT,
       .says = "nothing to train"},
      {.name = "no scalar",
       .user = &row,
       .make = make,
       .args = own_rows,
       .step = step_down_rows,
       .refused = LS_INVALID_ARGUMENT,
       .says = "a loss must be a float scalar, got f32[3,5]"},
  };
  ways_hold(cases, LS_COUNT_OF(cases));
}

// ---- Some variables --------------------------------------------------------
static ls_nest step_of_w(ls_nest x, ways *self) {
  const ls_tensor loss = loss_of(x, self);
  const ls_op moved =
      ls_optimizer_minimize_only(self->optimizer, loss, self->variables, 1);
  return LS_TUPLE(ls_leaf(loss),
                  self->way == WAY_GRAPH ? ls_nest_op(moved) : ls_none());
}

static void check_w_moved(const ways *self) {
  double w[WIDTH];
  fill_numbers(w, WIDTH, 3);
  for (int c = 0; c < self->replicas; ++c) {
    assert_true(ways_value(self, 0, c, 0) != (double)(float)w[0]);
    ways_expect(self, "b", ways_value(self, 1, c, 0), 0.5, 0);
  }
}

static void make_unread(ways *self) {
  make(self);
  ways_vector(self, "unread", 0, (double[]){1});
}

static ls_nest step_of_unread(ls_nest x, ways *self) {
  const ls_op moved = ls_optimizer_minimize_only(
      self->optimizer, loss_of(x, self), self->variables + 2, 1);
  return self->way == WAY_GRAPH ? ls_nest_op(moved) : ls_none();
}

static ls_nest step_of_twice(ls_nest x, ways *self) {
  ls_variable *const w = self->variables[0], *const list[] = {w, w};
  const ls_op moved =
      ls_optimizer_minimize_only(self->optimizer, loss_of(x, self), list, 2);
  return self->way == WAY_GRAPH ? ls_nest_op(moved) : ls_none();
}

static ls_nest step_of_none(ls_nest x, ways *self) {
  const ls_op moved = ls_optimizer_minimize_only(
      self->optimizer, loss_of(x, self), self->variables, 0);
  return self->way == WAY_GRAPH ? ls_nest_op(moved) : ls_none();
}

TEST(a_step_of_some_variables_leaves_the_others) {
  static const optimizer_case row = {.kind = "adam",
                                     .options = {.learning_rate = 0.1}};
  const ways_case cases[] = {{.name = "w",
                              .user = &row,
                              .make = make,
                              .args = own_rows,
                              .step = step_of_w,
                              .check = check_w_moved,
                              .steps = STEPS,
                              .without = 1 << WAY_EAGER},
                             {.name = "not read",
                              .user = &row,
                              .make = make_unread,
                              .args = own_rows,
                              .step = step_of_unread,
                              .without = 1 << WAY_EAGER,
                              .refused = LS_INVALID_ARGUMENT,
                              .says = "'unread'"},
                             {.name = "listed twice",
                              .user = &row,
                              .make = make,
                              .args = own_rows,
                              .step = step_of_twice,
                              .without = 1 << WAY_EAGER,
                              .refused = LS_INVALID_ARGUMENT,
                              .says = "listed twice, as number 0 and 1"},
                             {.name = "none",
                              .user = &row,
                              .make = make,
                              .args = own_rows,
                              .step = step_of_none,
                              .without = 1 << WAY_EAGER,
                              .refused = LS_INVALID_ARGUMENT,
                              .says = "no variables are given"}};
  ways_hold(cases, LS_COUNT_OF(cases));
}

// ---- Numbers of steps ------------------------------------------------------
static ls_nest step_with_number(ls_nest x, ways *self) {
  const ls_tensor number = ls_optimizer_step(self->optimizer);
  return LS_TUPLE(ls_leaf(number), step(x, self));
}

static void check_number_of_step(const ways *self) {
  const optimizer_case *row = self->user;
  const int64_t calls = row->options.accumulate > 1 ? 2 : 1;
  for (int i = 0; i < STEPS; ++i)
    for (int r = 0; r < self->replicas; ++r)
      ways_expect(self, "step", ways_result(self, i, r, 0, 0),
                  (double)(i / calls), 0);
}

static ls_nest give_number(ls_nest x, ways *self) {
  (void)x;
  return ls_leaf(ls_optimizer_step(self->optimizer));
}

TEST(an_optimizer_gives_the_number_of_its_steps_in_every_way) {
  static const optimizer_case rows[] = {
      {.kind = "adam"},
      {.kind = "sgd", .options = {.counts = true}},
      {.kind = "momentum", .options = {.counts = true, .accumulate = 2}},
  };
  static const optimizer_case without = {.kind = "sgd"};
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    ways_hold(&(ways_case){.name = rows[i].kind,
                           .user = &rows[i],
                           .make = make,
                           .args = own_rows,
                           .step = step_with_number,
                           .check = check_number_of_step,
                           .steps = STEPS},
              1);
  ways_hold(
      &(ways_case){.name = "not counted",
                   .user = &without,
                   .make = make,
                   .args = own_rows,
                   .step = give_number,
                   .refused = LS_FAILED_PRECONDITION,
                   .says = "'sgd' does not count its steps: set `counts`"},
      1);
}

// ---- Averages of weights ---------------------------------------------------
static void make_average(ways *self) {
  make(self);
  ls_average *average = NULL;
  expect_ok(ls_average_create(
      &(ls_average_options){
          .variables = self->variables, .count = 2, .decay = 0.5},
      &average));
  self->more = average;
  ls_variable *made[3];
  const size_t count = ls_average_variables(average, made, 3);
  for (size_t i = 0; i < count; ++i)
    self->variables[self->num_variables++] = ls_variable_retain(made[i]);
}

static void drop_average(ways *self) { ls_average_destroy(self->more); }

static ls_nest step_with_average(ls_nest x, ways *self) {
  const ls_nest made = step(x, self);
  const ls_op averaged = ls_average_update(self->more);
  return LS_TUPLE(made,
                  self->way == WAY_GRAPH ? ls_nest_op(averaged) : ls_none());
}

TEST(averages_of_weights_follow_in_every_way) {
  static const optimizer_case row = {.kind = "sgd",
                                     .options = {.learning_rate = 0.1}};
  ways_hold(&(ways_case){.name = "average",
                         .user = &row,
                         .make = make_average,
                         .args = own_rows,
                         .step = step_with_average,
                         .drop = drop_average,
                         .steps = STEPS},
            1);
}

// ---- Gradients that are kept -----------------------------------------------
static void make_kept(ways *self) {
  make(self);
  expect_ok(ls_optimizer_keep_gradients(self->optimizer, self->variables, 2));
  for (size_t i = 0; i < 2; ++i) {
    ls_variable *kept = NULL;
    expect_ok(
        ls_optimizer_kept_gradient(self->optimizer, self->variables[i], &kept));
    self->variables[self->num_variables++] = ls_variable_retain(kept);
  }
}

static void check_kept(const ways *self) {
  double w[WIDTH];
  fill_numbers(w, WIDTH, 3);
  for (int c = 0; c < self->replicas; ++c)
    for (int i = 0; i < WIDTH; ++i)
      ways_expect(self, "w", ways_value(self, 0, c, i),
                  (float)w[i] - 0.5F * (float)ways_value(self, 2, c, i), 0);
}

TEST(kept_gradients_are_those_that_move_the_variables) {
  const optimizer_case sgd = {
      .kind = "sgd",
      .options = {.learning_rate = 0.5, .clip = {.global_norm = 0.1}}};
  const optimizer_case adam = {.kind = "adam", .options = {.accumulate = 2}};
  const ways_case cases[] = {{.name = "sgd",
                              .user = &sgd,
                              .make = make_kept,
                              .args = own_rows,
                              .step = step,
                              .check = check_kept},
                             {.name = "adam",
                              .user = &adam,
                              .make = make_kept,
                              .args = own_rows,
                              .step = step,
                              .steps = STEPS}};
  ways_hold(cases, LS_COUNT_OF(cases));
}

TEST(gradients_that_are_not_kept_are_not_found) {
  ls_optimizer *optimizer = NULL;
  ls_variable *kept = NULL, *w = NULL;
  expect_ok(ls_optimizer_create("sgd", NULL, &optimizer));
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "w", .dtype = LS_DTYPE_F32}, &w));
  expect_status(ls_optimizer_kept_gradient(optimizer, w, &kept), LS_NOT_FOUND,
                "keeps no gradient of variable 'w'");
  ls_variable_release(w);
  ls_optimizer_release(optimizer);
}
