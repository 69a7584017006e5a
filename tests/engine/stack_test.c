// SPDX-License-Identifier: Apache-2.0
// The CPU engine: stacks.
#include "support/counted.h"
#include "support/expect.h"
#include "support/lowered.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory/allocator.h"

#define I "dtype = i32, shape = shape[], index = "
#define S "dtype = variant, shape = shape[], index = "
#define A "dtype = i32, shape = shape[1000], index = "
#define I32 "{dtype = i32, shape = shape[]}"

// ---- Last in, first out ----------------------------------------------------
// The regions of a loop (i, s) that pushes i for each i < n, and of one
// (k, s, sum) that takes n times and digests: sum = sum * 10 + top.
#define PUSHES                                                                 \
  "  (graph lowered \"c\" loop {"                                              \
  "    %1 = parameter() {" I "0} : i32[]"                                      \
  "    %2 = parameter() {" S "1} : variant[]"                                  \
  "    %3 = parameter() {" I "2} captures (%1) : i32[]"                        \
  "    %4 = less(%1, %3) : bool[]"                                             \
  "    return %4 }, graph lowered \"b\" loop {"                                \
  "    %1 = parameter() {" I "0} : i32[]"                                      \
  "    %2 = parameter() {" S "1} : variant[]"                                  \
  "    %3 = constant() {value = i32[] [1]} : i32[]"                            \
  "    %4 = stack_push(%2, %1) : variant[]"                                    \
  "    %5 = add(%1, %3) : i32[]"                                               \
  "    return %5, %4 }) : i32[], variant[]"
#define POPS                                                                   \
  "  (graph lowered \"c\" loop {"                                              \
  "    %1 = parameter() {" I "0} : i32[]"                                      \
  "    %2 = parameter() {" S "1} : variant[]"                                  \
  "    %3 = parameter() {" I "2} : i32[]"                                      \
  "    %4 = constant() {value = i32[] [0]} : i32[]"                            \
  "    %5 = greater(%1, %4) : bool[]"                                          \
  "    return %5 }, graph lowered \"b\" loop {"                                \
  "    %1 = parameter() {" I "0} : i32[]"                                      \
  "    %2 = parameter() {" S "1} : variant[]"                                  \
  "    %3 = parameter() {" I "2} : i32[]"                                      \
  "    %4 = constant() {value = i32[] [1]} : i32[]"                            \
  "    %5 = constant() {value = i32[] [10]} : i32[]"                           \
  "    %6 = sub(%1, %4) : i32[]"                                               \
  "    %7:2 = stack_pop(%2) " I32 " : variant[], i32[]"                        \
  "    %8 = mul(%3, %5) : i32[]"                                               \
  "    %9 = add(%8, %7:1) : i32[]"                                             \
  "    return %6, %7, %9 }) : i32[], variant[], i32[]"

static const char reverse_text[] =
    "graph lowered \"p\" {"
    "  %1 = parameter() {" I "0} : i32[]"
    "  %2 = parameter() {" I "1} : i32[]"
    "  %3 = constant() {value = i32[] [0]} : i32[]"
    "  %4 = stack_new() " I32 " : variant[]"
    "  %5:2 = while(%3, %4, %1) {num_carried = 2}" PUSHES
    "  %6:3 = while(%2, %5:1, %3) {num_carried = 3}" POPS "  return %6:2 }";

static void expect_reverse(lowered *program, int32_t pushed, int32_t taken,
                           int32_t want) {
  int32_t got = -1;
  expect_ok(lowered_run(program, (const void *[]){&pushed, &taken},
                        (void *[]){&got}));
  assert_int_equal(got, want);
}

TEST(what_is_pushed_last_is_taken_first) {
  LS_OWN_BEGUN(lowered, program, lowered_make,
               &(lowered_options){.text = reverse_text});
  expect_reverse(&program, 4, 4, 3210);
  expect_reverse(&program, 0, 0, 0);
  expect_reverse(&program, 9, 9, 876543210);
  // What is left on a stack does not reach the next run.
  expect_reverse(&program, 9, 3, 876);
  expect_reverse(&program, 2, 2, 10);
  // The pointer goes round in place: nothing but initial values is copied.
  assert_int_equal(lowered_plan_count(&program, "copy"), 3);
}

TEST(taking_too_much_fails_the_run_and_no_other) {
  LS_OWN_BEGUN(lowered, program, lowered_make,
               &(lowered_options){.text = reverse_text});
  for (int32_t i = 0; i < 3; ++i) {
    const int32_t pushed = i, taken = i + 1;
    int32_t got = -1;
    expect_status(lowered_run(&program, (const void *[]){&pushed, &taken},
                              (void *[]){&got}),
                  LS_FAILED_PRECONDITION, "stack_pop");
    expect_reverse(&program, 4, 4, 3210);
  }
}

static const char endless_text[] =
    "graph lowered \"p\" {"
    "  %1 = parameter() {" I "0} : i32[]"
    "  %2 = stack_new() {dtype = i32, shape = shape[], endless = true}"
    "  : variant[]"
    "  %3 = stack_push(%2, %1) : variant[]"
    "  %4:2 = stack_pop(%3) " I32 " : variant[], i32[]"
    "  %5:2 = stack_pop(%4) " I32 " : variant[], i32[]"
    "  %6:2 = stack_pop(%5) " I32 " : variant[], i32[]"
    "  %7 = stack_new() {dtype = variant, shape = shape[], endless = true}"
    "  : variant[]"
    "  %8:2 = stack_pop(%7) {dtype = variant, shape = shape[]}"
    "  : variant[], variant[]"
    "  %9:2 = stack_pop(%8:1) " I32 " : variant[], i32[]"
    "  return %4:1, %5:1, %6:1, %9:1 }";

TEST(below_an_endless_stack_lie_zeros) {
  LS_OWN_BEGUN(lowered, program, lowered_make,
               &(lowered_options){.text = endless_text});
  for (int32_t i = 5; i < 7; ++i) {
    int32_t got[4] = {-1, -1, -1, -1};
    expect_ok(lowered_run(&program, (const void *[]){&i},
                          (void *[]){&got[0], &got[1], &got[2], &got[3]}));
    assert_int_equal(got[0], i);
    for (int k = 1; k < 4; ++k)
      assert_int_equal(got[k], 0);
  }
}

// A stack of two stacks, of n and of m numbers; the second one is digested.
static const char nested_text[] =
    "graph lowered \"p\" {"
    "  %1 = parameter() {" I "0} : i32[]"
    "  %2 = parameter() {" I "1} : i32[]"
    "  %3 = constant() {value = i32[] [0]} : i32[]"
    "  %4 = stack_new() " I32 " : variant[]"
    "  %5:2 = while(%3, %4, %1) {num_carried = 2}" PUSHES
    "  %6 = stack_new() " I32 " : variant[]"
    "  %7:2 = while(%1, %6, %2) {num_carried = 2}"
    "  (graph lowered \"c\" loop {"
    "    %1 = parameter() {" I "0} : i32[]"
    "    %2 = parameter() {" S "1} : variant[]"
    "    %3 = parameter() {" I "2} captures (%2) : i32[]"
    "    %4 = less(%1, %3) : bool[]"
    "    return %4 }, graph lowered \"b\" loop {"
    "    %1 = parameter() {" I "0} : i32[]"
    "    %2 = parameter() {" S "1} : variant[]"
    "    %3 = constant() {value = i32[] [1]} : i32[]"
    "    %4 = stack_push(%2, %1) : variant[]"
    "    %5 = add(%1, %3) : i32[]"
    "    return %5, %4 }) : i32[], variant[]"
    "  %8 = stack_new() {dtype = variant, shape = shape[]} : variant[]"
    "  %9 = stack_push(%8, %5:1) : variant[]"
    "  %10 = stack_push(%9, %7:1) : variant[]"
    "  %11:2 = stack_pop(%10) {dtype = variant, shape = shape[]}"
    "  : variant[], variant[]"
    "  %12 = sub(%2, %1) : i32[]"
    "  %13:3 = while(%12, %11:1, %3) {num_carried = 3}" POPS
    "  %14:2 = stack_pop(%11) {dtype = variant, shape = shape[]}"
    "  : variant[], variant[]"
    "  %15:3 = while(%1, %14:1, %3) {num_carried = 3}" POPS
    "  return %13:2, %15:2 }";

TEST(stacks_hold_stacks) {
  LS_OWN_BEGUN(lowered, program, lowered_make,
               &(lowered_options){.text = nested_text});
  const struct {
    int32_t n, m, upper, lower;
  } rows[] = {{3, 6, 543, 210}, {0, 2, 10, 0}, {2, 2, 0, 10}, {3, 6, 543, 210}};
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    int32_t upper = -1, lower = -1;
    expect_ok(lowered_run(&program, (const void *[]){&rows[i].n, &rows[i].m},
                          (void *[]){&upper, &lower}));
    assert_int_equal(upper, rows[i].upper);
    assert_int_equal(lower, rows[i].lower);
  }
}

// ---- Memory ----------------------------------------------------------------
static void run_reverse(lowered *program, int32_t pushed, int32_t taken) {
  int32_t got = -1;
  expect_ok(lowered_run(program, (const void *[]){&pushed, &taken},
                        (void *[]){&got}));
}

TEST(a_stack_keeps_its_memory_between_runs) {
  LS_OWN(counted, memory) = counted_begin(1);
  LS_OWN_BEGUN(lowered, program, lowered_make,
               &(lowered_options){.text = reverse_text});
  run_reverse(&program, 10000, 10000);
  const uint64_t before = counted_now(&memory).allocations;
  run_reverse(&program, 10000, 10000);
  run_reverse(&program, 10, 10);
  run_reverse(&program, 0, 0);
  run_reverse(&program, 9000, 2);  // The rest stays there.
  run_reverse(&program, 10000, 10000);
  assert_int_equal(counted_now(&memory).allocations, before);
  // Twice the room each time: a hundredfold takes seven requests.
  run_reverse(&program, 1000000, 1000000);
  assert_in_range(counted_now(&memory).allocations - before, 1, 7);
}

TEST(a_stack_that_cannot_grow_fails_the_run_and_no_other) {
  LS_OWN(counted, memory) = counted_begin(1);
  LS_OWN_BEGUN(lowered, program, lowered_make,
               &(lowered_options){.text = reverse_text});
  const int32_t count = 100000;
  int32_t got = -1;
  int failures = 0;
  for (uint64_t nth = 1;; ++nth) {
    ls_counting_allocator_fail_at(memory.memory, nth);
    ls_status status = lowered_run(&program, (const void *[]){&count, &count},
                                   (void *[]){&got});
    ls_counting_allocator_fail_at(memory.memory, 0);
    if (ls_status_is_ok(status)) break;
    ++failures;  // What the run got before it failed is kept for the next.
    expect_status(status, LS_RESOURCE_EXHAUSTED, "");
    expect_reverse(&program, 4, 4, 3210);
  }
  assert_in_range(failures, 3, 20);
}

// steps times: push the numbers below n and take them all.
static const char steps_text[] =
    "graph lowered \"p\" {"
    "  %1 = parameter() {" I "0} : i32[]"
    "  %2 = parameter() {" I "1} : i32[]"
    "  %3 = constant() {value = i32[] [0]} : i32[]"
    "  %4:2 = while(%1, %3, %2) {num_carried = 2}"
    "  (graph lowered \"c\" loop {"
    "    %1 = parameter() {" I "0} : i32[]"
    "    %2 = parameter() {" I "1} : i32[]"
    "    %3 = constant() {value = i32[] [0]} : i32[]"
    "    %4 = greater(%1, %3) : bool[]"
    "    return %4 }, graph lowered \"b\" loop {"
    "    %1 = parameter() {" I "0} : i32[]"
    "    %2 = parameter() {" I "1} : i32[]"
    "    %3 = parameter() {" I "2} captures (%2) : i32[]"
    "    %4 = constant() {value = i32[] [1]} : i32[]"
    "    %5 = sub(%1, %4) : i32[]"
    "    %6 = constant() {value = i32[] [0]} : i32[]"
    "    %7 = stack_new() " I32 " : variant[]"
    "    %8:2 = while(%6, %7, %3) {num_carried = 2}"
    "  (graph lowered \"c\" loop {"
    "    %1 = parameter() {" I "0} : i32[]"
    "    %2 = parameter() {" S "1} : variant[]"
    "    %3 = parameter() {" I "2} captures (%3) : i32[]"
    "    %4 = less(%1, %3) : bool[]"
    "    return %4 }, graph lowered \"b\" loop {"
    "    %1 = parameter() {" I "0} : i32[]"
    "    %2 = parameter() {" S "1} : variant[]"
    "    %3 = constant() {value = i32[] [1]} : i32[]"
    "    %4 = stack_push(%2, %1) : variant[]"
    "    %5 = add(%1, %3) : i32[]"
    "    return %5, %4 }) : i32[], variant[]"
    "    %9:3 = while(%3, %8:1, %6) {num_carried = 3}" POPS
    "    %10 = add(%2, %9:2) : i32[]"
    "    return %5, %10 }) : i32[], i32[]"
    "  return %4:1 }";

TEST(a_stack_that_was_emptied_serves_again_in_the_same_run) {
  LS_OWN(counted, memory) = counted_begin(1);
  LS_OWN_BEGUN(lowered, program, lowered_make,
               &(lowered_options){.text = steps_text});
  const uint64_t before = counted_now(&memory).allocations;
  for (int32_t steps = 1; steps <= 1000; steps *= 10) {
    const int32_t count = 4;
    int32_t got = -1;
    expect_ok(lowered_run(&program, (const void *[]){&steps, &count},
                          (void *[]){&got}));
    assert_int_equal(got, steps * 3210);
  }
  // A stack and its memory.
  assert_int_equal(counted_now(&memory).allocations - before, 2);
}

// ---- Lanes -----------------------------------------------------------------
// Lane r pushes as many as its argument says, then all lanes meet, then take.
static const char lanes_text[] =
    "graph lowered \"p\" {"
    "  %1 = parameter() {" I "0} : i32[]"
    "  %2 = parameter() {" I "1} : i32[]"
    "  %3 = parameter() {" I "2} : i32[]"
    "  %4:4 = replicate(%1, %2, %3) {replicas = 3, num_split = 1, "
    "num_gathered = 1} (graph lowered \"r\" {"
    "  %1 = parameter() {" I "0} varying : i32[]"
    "  %2 = constant() {value = i32[] [0]} : i32[]"
    "  %3 = stack_new() " I32 " : variant[]"
    "  %4:2 = while(%2, %3, %1) {num_carried = 2} varying" PUSHES
    "  %5 = all_reduce(%4) {reduce = \"sum\"} : i32[]"
    "  %6 = mul(%1, %5) varying : i32[]"
    "  %7:3 = while(%1, %4:1, %6) {num_carried = 3} varying" POPS
    "  return %7:2, %5 }) : i32[], i32[], i32[], i32[]"
    "  return %4, %4:1, %4:2, %4:3 }";

TEST(each_lane_has_stacks_of_its_own) {
  LS_OWN_BEGUN(lowered, program, lowered_make,
               &(lowered_options){.text = lanes_text});
  for (int i = 0; i < 2; ++i) {
    const int32_t in[3] = {2, 0, 3};
    int32_t got[4] = {0};
    expect_ok(lowered_run(&program, (const void *[]){&in[0], &in[1], &in[2]},
                          (void *[]){&got[0], &got[1], &got[2], &got[3]}));
    assert_int_equal(got[3], 5);
    assert_int_equal(got[0], 2 * 5 * 100 + 10);
    assert_int_equal(got[1], 0);
    assert_int_equal(got[2], 3 * 5 * 1000 + 210);
  }
}

// ---- Elements --------------------------------------------------------------
static const char large_text[] =
    "graph lowered \"p\" {"
    "  %1 = parameter() {" A "0} : i32[1000]"
    "  %2 = parameter() {" A "1} : i32[1000]"
    "  %3 = constant() {value = f32[0] []} : f32[0]"
    "  %4 = stack_new() {dtype = i32, shape = shape[1000]} : variant[]"
    "  %5 = stack_push(%4, %1) : variant[]"
    "  %6 = stack_push(%5, %2) : variant[]"
    "  %7:2 = stack_pop(%6) {dtype = i32, shape = shape[1000]}"
    "  : variant[], i32[1000]"
    "  %8:2 = stack_pop(%7) {dtype = i32, shape = shape[1000]}"
    "  : variant[], i32[1000]"
    "  %9 = stack_new() {dtype = f32, shape = shape[0]} : variant[]"
    "  %10 = stack_push(%9, %3) : variant[]"
    "  %11:2 = stack_pop(%10) {dtype = f32, shape = shape[0]}"
    "  : variant[], f32[0]"
    "  return %8:1, %7:1, %11:1 }";

TEST(elements_of_any_size_come_back_as_they_were) {
  LS_OWN_BEGUN(lowered, program, lowered_make,
               &(lowered_options){.text = large_text});
  int32_t a[1000], b[1000], first[1000], second[1000];
  for (int32_t i = 0; i < 1000; ++i) {
    a[i] = i;
    b[i] = -i;
  }
  float none[1];
  for (int i = 0; i < 2; ++i) {
    memset(first, 0, sizeof(first));
    memset(second, 0, sizeof(second));
    expect_ok(lowered_run(&program, (const void *[]){a, b},
                          (void *[]){first, second, none}));
    assert_memory_equal(first, a, sizeof(a));
    assert_memory_equal(second, b, sizeof(b));
  }
}

TEST(a_stack_does_not_leave_its_program) {
  lowered program;
  expect_status(
      lowered_create(&(lowered_options){.text = "graph lowered \"p\" {"
                                                "  %1 = stack_new() " I32
                                                " : variant[]"
                                                "  return %1 }"},
                     &program),
      LS_UNIMPLEMENTED, "stack");
  lowered_destroy(&program);
  expect_status(
      lowered_create(&(lowered_options){.text = "graph lowered \"p\" {"
                                                "  %1 = parameter() {" S
                                                "0} : variant[] }"},
                     &program),
      LS_UNIMPLEMENTED, "stack");
  lowered_destroy(&program);
}
