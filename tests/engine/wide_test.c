// SPDX-License-Identifier: Apache-2.0
// The CPU engine: values of all replicas that pass as one from a replicate op
// to the next. A program whose replicas go through several such ops gives the
// bytes of the one whose replicas go through one.
#include "support/wide.h"

#include <stdlib.h>
#include <string.h>

#include "support/lowered.h"
#include "support/replica_lanes.h"
#include "support/sanitizer.h"

#define WIDE_FILE LS_TESTS_DIR "/engine/wide.ls"

static void create(lowered *program, const char *template, int32_t replicas) {
  expect_ok(wide_create(template, replicas, program));
}

// ---- Bytes -----------------------------------------------------------------
static void run_both(const wide_pair *p, int32_t replicas) {
  static float want[LANES_MOST][LANES_WIDTH], got[LANES_MOST][LANES_WIDTH];
  void *wanted[LANES_MOST], *outputs[LANES_MOST];
  for (int32_t r = 0; r < replicas; ++r) {
    wanted[r] = want[r];
    outputs[r] = got[r];
  }
  LS_OWN_BEGUN(lowered, program, create, p->whole, replicas);
  expect_ok(lowered_run(&program, wide_rows(), wanted));
  lowered_destroy(&program);
  create(&program, p->cut, replicas);
  for (int run = 0; run < 2; ++run) {
    memset(got, 0x55, sizeof(got));
    expect_ok(lowered_run(&program, wide_rows(), outputs));
    if (memcmp(want, got, (size_t)replicas * sizeof(*got)) == 0) continue;
    print_error("%s, %d replicas, run %d\n", p->what, replicas, run);
    char *plan = lowered_plan(&program);
    print_error("%s\n", plan);
    free(plan);
    fail();
  }
}

TEST(several_ops_give_the_bytes_of_one) {
  static const int32_t counts[] = {1, 2, 3, 7, 64};
  size_t num_pairs = 0;
  const wide_pair *pairs = wide_pairs(WIDE_FILE, &num_pairs);
  assert_in_range(num_pairs, 7, 100);
  for (size_t i = 0; i < num_pairs; ++i)
    for (size_t k = 0; k < (LS_SANITIZED ? 3 : LS_COUNT_OF(counts)); ++k)
      run_both(&pairs[i], counts[k]);
}

// ---- What it costs ---------------------------------------------------------
// From the program's input to its output by way of two ops: the same storage.
static const char through_text[] =
    "graph lowered \"p\" {"
    "  %1 = parameter() {dtype = f32, shape = shape[$R,7], index = 0}"
    "  : f32[$R,7]"
    "  %2 = replicate(%1) {replicas = $R, num_wide_split = 1,"
    "  num_wide_gathered = 1} (graph lowered \"a\" {"
    "    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying"
    "    : f32[7]"
    "    %2 = exp(%1) varying : f32[7]"
    "    return %2 }) : f32[$R,7]"
    "  %3 = replicate(%2) {replicas = $R, num_wide_split = 1,"
    "  num_wide_gathered = 1} (graph lowered \"b\" {"
    "    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying"
    "    : f32[7]"
    "    %2 = softmax(%1) varying : f32[7]"
    "    return %2 }) : f32[$R,7]"
    "  return %3 }";

TEST(a_wide_value_takes_its_bytes_once_and_no_copy) {
  for (int32_t replicas = 1; replicas <= 64; replicas *= 4) {
    LS_OWN_BEGUN(lowered, program, create, through_text, replicas);
    assert_int_equal(lowered_plan_count(&program, "copy"), 0);
    assert_int_equal(lowered_plan_count(&program, "line up"), 0);
    assert_int_equal(lowered_plan_count(&program, "deal"), 0);
    // All is computed in the caller's array, or each lane's part beside it.
    assert_in_range(lowered_facts(&program).shared_bytes, 0,
                    ((size_t)replicas * 28 + 63) / 64 * 64);
    static float out[64][LANES_WIDTH];
    (void)wide_rows();
    expect_ok(
        lowered_run(&program, (const void *[]){lanes_values}, (void *[]){out}));
    for (int32_t r = 0; r < replicas; ++r) {
      float sum = 0;
      for (size_t i = 0; i < LANES_WIDTH; ++i)
        sum += out[r][i];
      assert_float_equal(sum, 1, 1e-5);
    }
  }
}

ONCE_TEST(side_by_side_it_is_bound_and_goes_round_in_place) {
  static const struct {
    const char *what;
    int copies, line_ups, deals;
  } rows[] = {
      {"from one to the next, beside a uniform value", 0, 1, 1},
      {"an argument, wide and narrow, as it is", 0, 1, 1},
      {"around a loop", 1, 1, 1},  // The number of trips, at first.
  };
  size_t num_pairs = 0;
  (void)wide_pairs(WIDE_FILE, &num_pairs);
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN_BEGUN(lowered, program, create, wide_pair_of(rows[i].what)->cut, 3);
    assert_int_equal(lowered_plan_count(&program, "copy"), rows[i].copies);
    assert_int_equal(lowered_plan_count(&program, "line up"), rows[i].line_ups);
    assert_int_equal(lowered_plan_count(&program, "deal"), rows[i].deals);
  }
}

TEST_FILE(.run = lanes_run_tests)
