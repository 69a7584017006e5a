// SPDX-License-Identifier: Apache-2.0
// The CPU engine: what merges give, along the canonical tree.
#include "support/replica_lanes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/array.h"
#include "lockstep/half.h"

TEST(sums_and_means_follow_the_canonical_tree) {
  lanes_fill_values();
  bool depends_on_order = false;
  for (size_t k = 0; k < LANES_COUNTS; ++k) {
    const int32_t replicas = lanes_counts[k];
    char *text = lanes_text(
        replicas, ":3",
        "%2 = all_reduce(%1) {reduce = \"sum\"} : f32[7]"
        "%3 = neg(%1) varying : f32[7]"
        "%4 = all_reduce(%3) {reduce = \"sum\"} : f32[7]"
        "%5 = all_reduce(%1) {reduce = \"mean\"} : f32[7] return %2, %4, %5",
        "f32[7], f32[7], f32[7]");
    LS_OWN_BEGUN(lowered, program, lanes_create, text);
    free(text);
    float sum[LANES_WIDTH], negated[LANES_WIDTH], mean[LANES_WIDTH];
    for (int run = 0; run < 2; ++run) {
      expect_ok(
          lowered_run(&program, lanes_rows, (void *[]){sum, negated, mean}));
    }
    const size_t n = (size_t)replicas;
    for (size_t i = 0; i < LANES_WIDTH; ++i) {
      const float want = lanes_tree_sum(&lanes_values[0][i], n, LANES_WIDTH);
      const float want_mean =
          replicas == 1 ? want : want * (1.0F / (float)replicas);
      assert_memory_equal(&sum[i], &want, 4);
      assert_memory_equal(&mean[i], &want_mean, 4);
      assert_true(negated[i] == -want);
      float straight = 0;
      for (size_t r = 0; r < n; ++r)
        straight += lanes_values[r][i];
      if (straight != want) depends_on_order = true;
    }
  }
  assert_true(depends_on_order);  // Else the test has shown nothing.
}

TEST(maxima_minima_and_integers_merge) {
  LS_OWN(lowered, program) = {0};
  lanes_create(
      &program,
      "graph lowered \"p\" {"
      "  %1:4 = replicate() {replicas = 5, num_split = 0, num_gathered = 0}"
      "  (graph lowered \"r\" {"
      "    %1 = replica_id() varying : i32[]"
      "    %2 = constant() {value = i32[] [3]} : i32[]"
      "    %3 = sub(%1, %2) varying : i32[]"
      "    %4 = all_reduce(%3) {reduce = \"max\"} : i32[]"
      "    %5 = all_reduce(%3) {reduce = \"min\"} : i32[]"
      "    %6 = all_reduce(%3) {reduce = \"sum\"} : i32[]"
      "    %7 = constant() {value = u8[] [100]} : u8[]"
      "    %8 = convert(%1) {dtype = u8} varying : u8[]"
      "    %9 = add(%8, %7) varying : u8[]"
      "    %10 = all_reduce(%9) {reduce = \"sum\"} : u8[]"
      "    return %4, %5, %6, %10 }) : i32[], i32[], i32[], u8[]"
      "  return %1:0, %1:1, %1:2, %1:3 }");
  int32_t max, min, sum;
  uint8_t wrapped;
  expect_ok(
      lowered_run(&program, NULL, (void *[]){&max, &min, &sum, &wrapped}));
  assert_int_equal(max, 1);
  assert_int_equal(min, -3);
  assert_int_equal(sum, -5);
  assert_int_equal(wrapped, (5 * 100 + 10) & 0xff);
}

TEST(short_floats_are_added_as_f32_and_rounded_once) {
  lanes_fill_values();
  char *text = lanes_text(
      5, ":2",
      "%2 = convert(%1) {dtype = bf16} varying : bf16[7]"
      "%3 = all_reduce(%2) {reduce = \"sum\"} : bf16[7]"
      "%4 = all_reduce(%2) {reduce = \"mean\"} : bf16[7] return %3, %4",
      "bf16[7], bf16[7]");
  LS_OWN_BEGUN(lowered, program, lanes_create, text);
  free(text);
  uint16_t sum[LANES_WIDTH], mean[LANES_WIDTH];
  expect_ok(lowered_run(&program, lanes_rows, (void *[]){sum, mean}));
  for (size_t i = 0; i < LANES_WIDTH; ++i) {
    float wide[5];
    for (size_t r = 0; r < 5; ++r) {
      wide[r] = ls_bf16_to_f32(ls_bf16_from_f32(lanes_values[r][i]));
    }
    const float want = lanes_tree_sum(wide, 5, 1);
    assert_int_equal(sum[i], ls_bf16_from_f32(want));
    assert_int_equal(mean[i], ls_bf16_from_f32(want * (1.0F / 5)));
  }
}

// A value that all replicas share is merged without asking them, to the same
// bits.
TEST(equal_contributions_merge_as_others_do) {
  for (size_t k = 1; k < LANES_COUNTS; ++k) {
    char text[1000];
    snprintf(text, sizeof(text),
             "graph lowered \"p\" {"
             "%%1 = parameter() {dtype = f32, shape = shape[7], index = 0} "
             ": f32[7]"
             "%%2:3 = replicate(%%1) {replicas = %d, num_split = 0, "
             "num_gathered = 0} (graph lowered \"r\" {"
             "%%1 = parameter() {dtype = f32, shape = shape[7], index = 0} "
             "captures (%%1) : f32[7]"
             "%%2 = all_reduce(%%1) {reduce = \"mean\"} : f32[7]"
             "%%3 = neg(%%2) : f32[7]"
             "%%4 = all_reduce(%%3) {reduce = \"sum\"} : f32[7]"
             "%%5 = all_reduce(%%3) {reduce = \"max\"} : f32[7]"
             "return %%2, %%4, %%5 }) : f32[7], f32[7], f32[7]"
             "return %%2, %%2:1, %%2:2 }",
             lanes_counts[k]);
    LS_OWN_BEGUN(lowered, program, lanes_create, text);
    float x[LANES_WIDTH], mean[LANES_WIDTH], sum[LANES_WIDTH], max[LANES_WIDTH];
    for (size_t i = 0; i < LANES_WIDTH; ++i)
      x[i] = lanes_value(i) / 3;
    expect_ok(
        lowered_run(&program, (const void *[]){x}, (void *[]){mean, sum, max}));
    const size_t n = (size_t)lanes_counts[k];
    float copies[LANES_MOST];
    for (size_t i = 0; i < LANES_WIDTH; ++i) {
      for (size_t r = 0; r < n; ++r)
        copies[r] = x[i];
      const float want = lanes_tree_sum(copies, n, 1) * (1.0F / (float)n);
      assert_memory_equal(&mean[i], &want, 4);
      assert_true(max[i] == -want);
      for (size_t r = 0; r < n; ++r)
        copies[r] = -want;
      const float want_sum = lanes_tree_sum(copies, n, 1);
      assert_memory_equal(&sum[i], &want_sum, 4);
    }
  }
}

TEST(a_mean_of_integers_is_refused_by_name) {
  LS_OWN(lowered, program) = {0};
  ls_status status = lowered_create(
      &(lowered_options){
          .text = "graph lowered \"p\" {"
                  "  %1 = replicate() {replicas = 2, num_split = 0, "
                  "num_gathered = 0}"
                  "  (graph lowered \"r\" {"
                  "    %1 = replica_id() varying : i32[]"
                  "    %2 = all_reduce(%1) {reduce = \"mean\"} : i32[]"
                  "    return %2 }) : i32[]"
                  "  return %1 }"},
      &program);
  expect_contains(ls_status_message(status), "in op");
  expect_status(status, LS_UNIMPLEMENTED, "no mean of i32");
}

TEST_FILE(.run = lanes_run_tests)
