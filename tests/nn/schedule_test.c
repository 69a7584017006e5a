// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "lockstep/optimizer_state.h"
#include "lockstep/optimizers.h"
#include "support/values.h"

static double factor_at(const ls_schedule *schedule, int64_t step) {
  return item_of(
      ls_schedule_factor(schedule, ls_scalar_i64(LS_DTYPE_I64, step)));
}

static void expect_factors(const ls_schedule *schedule,
                           double (*wanted)(double i)) {
  expect_ok(ls_frame_begin());
  for (int64_t i = 0; i < 15; ++i) {
    const double got = factor_at(schedule, i), want = wanted((double)i);
    if (fabs(got - want) > 1e-14)
      fail_msg("step %d: got %.17g, wanted %.17g", (int)i, got, want);
  }
  expect_ok(ls_frame_end(NULL));
}

static double one(double i) {
  (void)i;
  return 1;
}

static double line(double i) { return 1 - 0.75 * fmin(i / 10, 1); }

static double cosine(double i) {
  return 0.1 + 0.9 * (1 + cos(acos(-1.0) * fmin(i / 10, 1))) / 2;
}

static double exponential(double i) { return fmax(pow(0.5, i / 4), 0.1); }

static double stairs(double i) { return pow(0.1, floor(i / 4)); }

static double warmed(double i) { return i < 5 ? (i + 1) / 5 : line(i - 5); }

TEST(schedules_follow_their_formulas) {
  const struct {
    ls_schedule schedule;
    double (*wanted)(double i);
  } rows[] = {
      {{0}, one},
      {{LS_SCHEDULE_LINEAR, .steps = 10, .end = 0.25}, line},
      {{LS_SCHEDULE_COSINE, .steps = 10, .end = 0.1}, cosine},
      {{LS_SCHEDULE_EXPONENTIAL, .steps = 4, .end = 0.1, .factor = 0.5},
       exponential},
      {{LS_SCHEDULE_STEP, .steps = 4}, stairs},
      {{LS_SCHEDULE_LINEAR, .steps = 10, .end = 0.25, .warmup = 5}, warmed},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i)
    expect_factors(&rows[i].schedule, rows[i].wanted);
}

static ls_tensor reciprocal(ls_tensor step, void *user) {
  const ls_tensor i = ls_convert(step, LS_DTYPE_F64);
  return ls_div(ls_scalar(LS_DTYPE_F64, *(const double *)user),
                ls_add_scalar(i, 1));
}

static double halved_reciprocal(double i) {
  return i < 2 ? (i + 1) / 2 : 0.5 / (i - 1);
}

TEST(a_schedule_of_ones_own_takes_the_steps_after_warm_up) {
  double half = 0.5;
  expect_factors(
      &(ls_schedule){.custom = reciprocal, .user = &half, .warmup = 2},
      halved_reciprocal);
}

typedef struct problem {
  ls_variable *w;
  ls_optimizer *optimizer;
} problem;

static ls_nest descend(ls_nest args, void *user) {
  (void)args;
  problem *p = user;
  const ls_tensor rate = ls_optimizer_rate(p->optimizer);
  ls_optimizer_minimize(p->optimizer, ls_variable_read(p->w));
  return ls_leaf(rate);
}

TEST(the_rate_follows_the_optimizers_steps) {
  const double zero = 0;
  problem p = {variable_of("w", LS_DTYPE_F64, LS_SCALAR, &zero), NULL};
  expect_ok(ls_sgd_create(
      &(ls_sgd_options){.name = "slow",
                        .learning_rate = 2,
                        .schedule = {LS_SCHEDULE_STEP, .steps = 2}},
      &p.optimizer));
  LS_OWN(ls_nest, rate) = call_on(1, descend, &p, ls_none(), 5);
  // Step 4 has used it.
  assert_true(fabs(ls_array_f64(ls_nest_as_array(rate), 0) - 0.02) < 1e-15);
  const double wanted = -2 - 2 - 0.2 - 0.2 - 0.02;
  expect_variable(p.w, &wanted, 1, 1e-14);
  ls_variable *variables[2] = {NULL};
  assert_int_equal(ls_optimizer_variables(p.optimizer, variables, 2), 1);
  assert_string_equal(ls_variable_name(variables[0]), "slow/step");
  const double five = 5;
  expect_variable(variables[0], &five, 1, 0);
  ls_variable_release(p.w);
  ls_optimizer_release(p.optimizer);
}

TEST(schedules_that_cannot_be_are_refused) {
  ls_optimizer *optimizer = NULL;
  const struct {
    ls_schedule schedule;
    const char *part;
  } rows[] = {
      {{.kind = LS_SCHEDULE_LINEAR}, "needs steps above 0"},
      {{.warmup = -1}, "warm-up of 0 or more"},
      {{LS_SCHEDULE_COSINE, .steps = 1, .end = -1}, "schedule's end"},
      {{LS_SCHEDULE_STEP, .steps = 1, .factor = (double)NAN}, "factor"},
      {{.kind = (ls_schedule_kind)9}, "there is no schedule 9"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i)
    expect_status(
        ls_adam_create(&(ls_adam_options){.schedule = rows[i].schedule},
                       &optimizer),
        LS_INVALID_ARGUMENT, rows[i].part);
  assert_null(optimizer);
}
