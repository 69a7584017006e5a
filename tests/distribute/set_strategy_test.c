// SPDX-License-Identifier: Apache-2.0
//
// A strategy that a thread has put in force goes out of force with the thread.
#include "base/memory/allocator.h"
#include "base/threads/worker.h"
#include "distribute/base/strategy.h"
#include "distribute/own.h"
#include "support/replicas.h"

static void set(void *strategy) {
  expect_ok(ls_strategy_set_current(strategy));
  assert_ptr_equal(ls_strategy_current(), strategy);
}

static void set_twice(void *strategy) {
  set(strategy);
  set(strategy);
}

static void set_and_leave(void *strategy) {
  set(strategy);
  expect_ok(ls_strategy_set_current(NULL));
}

static void set_behind_a_value(void *strategy) {
  (void)ls_scalar(LS_DTYPE_F32, 1);
  set(strategy);
  (void)ls_scalar(LS_DTYPE_F32, 2);
}

// Takes the caller's reference over.
static void set_and_release(void *strategy) {
  set(strategy);
  ls_strategy_release(strategy);
}

TEST(a_thread_that_ends_leaves_the_strategy_it_has_set) {
  LS_SPEC("V164");
  static void (*const threads[])(void *) = {set, set_twice, set_and_leave,
                                            set_behind_a_value};
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  for (size_t i = 0; i < LS_COUNT_OF(threads); ++i) {
    ls_worker thread = {0};
    expect_ok(ls_worker_start(&thread, "set", NULL, threads[i], strategy));
    ls_worker_join(&thread);
    assert_false(ls_has_strategy());
    // Ours is the last reference again.
    assert_true(ls_count_is(&strategy->object.references, 1));
  }
}

TEST(a_thread_may_have_the_last_reference) {
  LS_SPEC("V164");
  ls_worker thread = {0};
  expect_ok(
      ls_worker_start(&thread, "set", NULL, set_and_release, mirrored_of(2)));
  ls_worker_join(&thread);
}
