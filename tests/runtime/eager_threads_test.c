// SPDX-License-Identifier: Apache-2.0
//
// Eager values and frames belong to the thread that made them, and end with it.
#include <pthread.h>

#include "support/counted.h"
#include "support/spec.h"
#include "support/values.h"

static void run_in_thread(void *(*work)(void *), void *user) {
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, work, user), 0);
  pthread_join(thread, NULL);
}

typedef struct leavings {
  ls_runtime *runtime;
  ls_tensor value;
  ls_tape *tape;
} leavings;

// Ends with an open frame and an open tape.
static void *leave_frame_and_tape(void *user) {
  leavings *left = user;
  ls_runtime_make_current(left->runtime);
  expect_ok(ls_frame_begin());
  expect_ok(ls_tape_begin(&left->tape));
  left->value = ls_add(ls_scalar(LS_DTYPE_F32, 2), ls_scalar(LS_DTYPE_F32, 3));
  assert_true(item_of(left->value) == 5);
  return NULL;
}

// What begins next has neither of them.
static void *find_nothing(void *user) {
  leavings *left = user;
  ls_runtime_make_current(left->runtime);
  expect_status(ls_frame_end(NULL), LS_FAILED_PRECONDITION, "frame");
  ls_tensor mine = ls_scalar(LS_DTYPE_F32, 7);
  double value = 0;
  expect_status(ls_tensor_item(left->value, &value), LS_INVALID_ARGUMENT,
                "stale");
  expect_status(ls_tensor_status(ls_add(mine, left->value)),
                LS_INVALID_ARGUMENT, "");
  expect_ok(ls_frame_begin());
  mine = ls_neg(mine);
  expect_ok(ls_frame_end(NULL));
  expect_status(ls_tensor_item(mine, &value), LS_INVALID_ARGUMENT, "stale");
  return NULL;
}

TEST(a_thread_has_no_frame_or_tape_of_one_that_ended) {
  LS_OWN(counted, memory) = counted_begin(1);
  leavings left = {.runtime = memory.runtime};
  run_in_thread(leave_frame_and_tape, &left);
  run_in_thread(find_nothing, &left);
  expect_status(ls_tensor_status(left.value), LS_INVALID_ARGUMENT, "stale");
  ls_tape_release(left.tape);
}

static void *make_values(void *user) {
  ls_runtime_make_current(user);
  ls_tensor x = ls_fill(LS_DTYPE_F32, LS_SHAPE(1000), 1);
  for (int i = 0; i < 10; ++i)
    x = ls_add(x, x);
  expect_ok(ls_tensor_status(x));
  return NULL;
}

TEST(values_of_ended_threads_keep_no_memory) {
  LS_OWN(counted, memory) = counted_begin(1);
  uint64_t settled = 0;
  for (int i = 0; i < 50; ++i) {
    run_in_thread(make_values, memory.runtime);
    const uint64_t live = counted_now(&memory).live_bytes;
    if (i == 3) settled = live;
    if (i > 3) assert_true(live <= settled);
  }
}

static void *outlive(void *user) {
  pthread_barrier_t *barrier = user;
  make_values(ls_runtime_current());
  pthread_barrier_wait(barrier);
  pthread_barrier_wait(barrier);
  return NULL;
}

TEST(a_thread_may_outlive_its_runtime) {
  pthread_t thread;
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, NULL, 2);
  assert_int_equal(pthread_create(&thread, NULL, outlive, &barrier), 0);
  pthread_barrier_wait(&barrier);
  expect_ok(ls_runtime_destroy(NULL));
  pthread_barrier_wait(&barrier);
  pthread_join(thread, NULL);
  pthread_barrier_destroy(&barrier);
}
