// SPDX-License-Identifier: Apache-2.0
//
// How many steps fit into a time.
#include "lockstep/iteration_count.h"

#include <math.h>

#include "support/expect.h"
#include "support/spec.h"

static int64_t count_of(ls_iteration_count *self, double seconds) {
  int64_t steps = 0;
  expect_ok(ls_iteration_count_get(self, seconds, &steps));
  return steps;
}

TEST(samples_are_a_ring) {
  LS_SPEC("E197");
  ls_iteration_count *self = NULL;
  expect_status(ls_iteration_count_create(LS_SOME(0), &self),
                LS_INVALID_ARGUMENT, "capacity must be positive");
  expect_ok(ls_iteration_count_create(LS_SOME(2), &self));
  ls_iteration_count_update(self, 0, 5);  // Nothing is learnt from these.
  ls_iteration_count_update(self, -1, 5);
  ls_iteration_count_update(self, 1, 0);
  assert_int_equal(count_of(self, 10), 1);
  ls_iteration_count_update(self, 4, 1);
  ls_iteration_count_update(self, 2, 1);
  ls_iteration_count_update(self, 1, 0);
  ls_iteration_count_update(self, 1, -1);
  ls_iteration_count_update(self, 0, 1);
  ls_iteration_count_update(self, -1, 1);
  assert_int_equal(count_of(self, 30), 10);  // 3 seconds a step.
  ls_iteration_count_update(self, 4, 1);     // The first is forgotten.
  ls_iteration_count_update(self, 4, 1);
  assert_int_equal(count_of(self, 21), 5);
  ls_iteration_count_destroy(self);
  // By default the last 20.
  expect_ok(ls_iteration_count_create((ls_opt){0}, &self));
  ls_iteration_count_update(self, 100, 1);
  for (int i = 0; i < 20; ++i)
    ls_iteration_count_update(self, 1 + i % 2, 1);
  assert_int_equal(count_of(self, 15), 10);
  ls_iteration_count_destroy(self);
}

TEST(counts_are_rounded_and_at_least_one) {
  LS_SPEC("E198");
  ls_iteration_count *self = NULL;
  int64_t steps = 0;
  expect_ok(ls_iteration_count_create((ls_opt){0}, &self));
  expect_status(ls_iteration_count_get(self, 0, &steps), LS_INVALID_ARGUMENT,
                "more than 0");
  expect_status(ls_iteration_count_get(self, -3, &steps), LS_INVALID_ARGUMENT,
                "-3");
  assert_int_equal(count_of(self, 100), 1);
  ls_iteration_count_update(self, 8, 4);
  assert_int_equal(count_of(self, 5), 3);  // 2.5
  assert_int_equal(count_of(self, 4.8), 2);
  assert_int_equal(count_of(self, 0.1), 1);
  assert_true(count_of(self, 1e300) > INT64_C(1) << 60);
  assert_true(count_of(self, (double)INFINITY) > INT64_C(1) << 60);
  ls_iteration_count_destroy(self);
}

TEST(counts_stay_once_they_are_stable) {
  LS_SPEC("E199");
  ls_iteration_count *self = NULL;
  expect_ok(ls_iteration_count_create(LS_SOME(3), &self));
  for (int i = 0; i < 3; ++i)
    ls_iteration_count_update(self, 10, 1000);
  assert_int_equal(count_of(self, 10.5), 1050);  // As many samples as fit.
  ls_iteration_count_update(self, 10, 1000);
  assert_int_equal(count_of(self, 10.9), 1050);  // Within 10 %.
  assert_int_equal(count_of(self, 11.05), 1050);
  assert_int_equal(count_of(self, 11.2), 1120);  // Not.
  assert_int_equal(count_of(self, 12), 1200);
  // The last run was off, the mean of all is within 5 %.
  ls_iteration_count_update(self, 12, 1200);
  assert_int_equal(count_of(self, 10.4), 1200);
  // Steps that take unequally long.
  ls_iteration_count_update(self, 100, 1000);
  assert_int_equal(count_of(self, 100), 2500);
  ls_iteration_count_destroy(self);
  // A mean that is 5.5 % off, behind a last run that is 20 % off.
  expect_ok(ls_iteration_count_create(LS_SOME(3), &self));
  for (int i = 0; i < 3; ++i)
    ls_iteration_count_update(self, 10, 1000);
  ls_iteration_count_update(self, 12, 1200);
  assert_int_equal(count_of(self, 10.2), 1);     // Within 5 %.
  assert_int_equal(count_of(self, 10.1), 1010);  // Not.
  ls_iteration_count_destroy(self);
  // The deviation is that of all samples: 0.025 of 0.975 and 1.025 s a step.
  expect_ok(ls_iteration_count_create(LS_SOME(2), &self));
  for (int i = 0; i < 3; ++i)
    ls_iteration_count_update(self, i % 2 ? 10.25 : 9.75, 10);
  assert_int_equal(count_of(self, 10), 1);
  ls_iteration_count_destroy(self);
  // 0.0315 are too many.
  expect_ok(ls_iteration_count_create(LS_SOME(2), &self));
  for (int i = 0; i < 3; ++i)
    ls_iteration_count_update(self, i % 2 ? 10.315 : 9.685, 10);
  assert_int_equal(count_of(self, 10), 10);
  ls_iteration_count_destroy(self);
  // Stable before it was asked at all.
  expect_ok(ls_iteration_count_create(LS_SOME(1), &self));
  ls_iteration_count_update(self, 10, 1000);
  ls_iteration_count_update(self, 10, 1000);
  assert_int_equal(count_of(self, 10), 1);
  ls_iteration_count_destroy(self);
}

TEST(numbers_are_within_percents) {
  LS_SPEC("E200");
  bool within = false;
  expect_ok(ls_within_percent(95, 100, 5, &within));
  assert_true(within);
  expect_ok(ls_within_percent(106, 100, 5, &within));
  assert_false(within);
  expect_ok(ls_within_percent(-106, -100, 5, &within));
  assert_false(within);
  expect_ok(ls_within_percent(-95, -100, 5, &within));
  assert_true(within);
  expect_status(ls_within_percent(0, 100, 5, &within), LS_INVALID_ARGUMENT,
                "0");
  expect_status(ls_within_percent(1, 0, 5, &within), LS_INVALID_ARGUMENT, "0");
}
