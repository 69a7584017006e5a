// SPDX-License-Identifier: Apache-2.0
#include "support/contexts.h"

#include "lockstep/replica.h"
#include "support/expect.h"

void expect_one_context(void) {
  assert_int_equal(ls_replica_context() == NULL, ls_in_cross_replica_context());
}

void expect_default(void) {
  ls_strategy *usual = NULL;
  expect_ok(ls_strategy_default(&usual));
  assert_ptr_equal(ls_strategy_current(), usual);
  assert_false(ls_has_strategy());
  assert_false(ls_in_cross_replica_context());
  assert_non_null(ls_replica_context());
  expect_one_context();
}

void expect_cross(ls_strategy *strategy) {
  assert_ptr_equal(ls_strategy_current(), strategy);
  assert_true(ls_has_strategy());
  assert_true(ls_in_cross_replica_context());
  expect_one_context();
}
