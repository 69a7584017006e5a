// SPDX-License-Identifier: Apache-2.0
//
// Frames that replicas open in eager: each closes its own.
#include "distribute/own.h"
#include "support/counted.h"
#include "support/replicas.h"

#define OR_FAIL(expr)                                                          \
  do {                                                                         \
    const ls_status failed_ = (expr);                                          \
    if (!ls_status_is_ok(failed_)) return ls_fail(failed_);                    \
  } while (0)

static ls_nest sum_over_replicas(ls_tensor x) {
  return ls_replica_all_reduce(ls_replica_context(), LS_REDUCE_SUM, ls_leaf(x));
}

typedef struct frame_work {
  ls_tensor inner[3];  // What each replica does not keep.
  bool without_end;    // The replica forgets to close its frame.
  bool fails;
} frame_work;

// A frame around a meeting of all replicas.
static ls_nest work_in_frame(ls_nest args, void *user) {
  frame_work *work = user;
  (void)args;
  const int32_t id = ls_replica_number();
  OR_FAIL(ls_frame_begin());
  const ls_tensor own = scalar_of(id + 1);
  work->inner[id] = own;
  if (work->fails && id == 1)
    return LS_FAIL(LS_OUT_OF_RANGE, "replica 1 has had enough");
  const ls_nest sum = sum_over_replicas(own);
  if (ls_nest_is_failed(sum)) return sum;
  ls_nest kept = ls_leaf(ls_add(ls_mul(own, scalar_of(100)), sum.as.tensor));
  if (!work->without_end) OR_FAIL(ls_frame_end(&kept));
  // What is made behind the frame stays, whoever closes one later.
  const ls_nest again = sum_over_replicas(kept.as.tensor);
  if (ls_nest_is_failed(again)) return again;
  return ls_leaf(ls_add(kept.as.tensor, again.as.tensor));
}

TEST(replicas_close_their_own_frames) {
  LS_SPEC("V211");
  for (int replicas = 1; replicas <= 3; ++replicas) {
    LS_OWN(ls_strategy, strategy) = mirrored_of(replicas);
    frame_work work = {0};
    expect_ok(ls_frame_begin());
    const ls_nest made = run_on(strategy, work_in_frame, ls_none(), &work);
    const double sum = replicas * (replicas + 1) / 2.0;
    const double all = 100 * sum + replicas * sum;
    for (int r = 0; r < replicas; ++r) {
      const ls_nest own =
          replicas == 1 ? made : ls_distributed_component(made, (size_t)r);
      assert_true(number_of(own) == 100 * (r + 1) + sum + all);
      expect_status(ls_tensor_status(work.inner[r]), LS_INVALID_ARGUMENT,
                    "stale");
    }
    expect_ok(ls_frame_end(NULL));
    if (made.kind == LS_KIND_TENSOR)
      assert_true(ls_tensor_is_failed(made.as.tensor));
    ls_nest_release(made);
    expect_status(ls_frame_end(NULL), LS_FAILED_PRECONDITION, "frame");
  }
}

static ls_nest end_a_frame(ls_nest args, void *user) {
  (void)args;
  (void)user;
  OR_FAIL(ls_frame_end(NULL));
  return ls_none();
}

TEST(a_replica_does_not_close_the_frame_around_its_run) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  expect_ok(ls_frame_begin());
  const ls_tensor mine = scalar_of(5);
  ls_nest made = ls_none();
  expect_status(
      ls_strategy_run(strategy, ls_plain(end_a_frame, NULL), ls_none(), &made),
      LS_FAILED_PRECONDITION, "without an open frame");
  assert_true(number_of(ls_leaf(mine)) == 5);
  expect_ok(ls_frame_end(NULL));
}

TEST(a_frame_that_a_replica_leaves_open_ends_with_the_run) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  for (int fails = 0; fails < 2; ++fails) {
    frame_work work = {.without_end = true, .fails = fails != 0};
    expect_ok(ls_frame_begin());
    ls_nest made = ls_none();
    const ls_status status = ls_strategy_run(
        strategy, ls_plain(work_in_frame, &work), ls_none(), &made);
    if (fails)
      expect_status(status, LS_OUT_OF_RANGE, "had enough");
    else
      expect_ok(status);
    // Its values are the outer frame's now.
    assert_true(number_of(ls_leaf(work.inner[0])) == 1);
    ls_nest_release(made);
    expect_ok(ls_frame_end(NULL));
    assert_true(ls_tensor_is_failed(work.inner[0]));
    expect_status(ls_frame_end(NULL), LS_FAILED_PRECONDITION, "frame");
  }
}

TEST(frames_of_replicas_do_not_grow_memory) {
  LS_OWN(counted, memory) = counted_begin(1);
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  uint64_t settled = 0;
  for (int i = 0; i < 30; ++i) {
    frame_work work = {.without_end = i % 3 == 2};
    expect_ok(ls_frame_begin());
    ls_nest_release(run_on(strategy, work_in_frame, ls_none(), &work));
    expect_ok(ls_frame_end(NULL));
    const uint64_t live = counted_now(&memory).live_bytes;
    if (i == 10) settled = live;
    if (i > 10) assert_true(live <= settled);
  }
}

// ---- Tapes -----------------------------------------------------------------
static ls_nest leave_a_tape(ls_nest args, void *user) {
  (void)args;
  ls_tape **tapes = user;
  const int32_t id = ls_replica_number();
  OR_FAIL(ls_tape_begin(&tapes[id]));
  const ls_nest sum = sum_over_replicas(scalar_of(id));
  if (ls_nest_is_failed(sum)) return sum;
  OR_FAIL(ls_tape_end(tapes[id]));
  return ls_none();
}

TEST(a_frame_waits_for_the_tapes_that_replicas_began_in_it) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  ls_tape *tapes[2] = {0};
  expect_ok(ls_frame_begin());
  ls_nest_release(run_on(strategy, leave_a_tape, ls_none(), tapes));
  expect_status(ls_frame_end(NULL), LS_FAILED_PRECONDITION, "tape");
  ls_tape_release(tapes[1]);
  expect_status(ls_frame_end(NULL), LS_FAILED_PRECONDITION, "tape");
  ls_tape_release(tapes[0]);
  expect_ok(ls_frame_end(NULL));
}
