// SPDX-License-Identifier: Apache-2.0
// The CPU engine: loops and branches.
#include "support/fault.h"
#include "support/lowered.h"

#include <string.h>

#include "base/memory/allocator.h"

#define I "dtype = i32, shape = shape[], index = "
#define F "dtype = f32, shape = shape[2], index = "

// ---- Loops -----------------------------------------------------------------
// i = 0, sum = 0; while i < n: sum += i * factor, i += 1
static const char sum_text[] =
    "graph lowered \"p\" {"
    "  %1 = parameter() {" I "0} : i32[]"
    "  %2 = parameter() {" I "1} : i32[]"
    "  %3 = constant() {value = i32[] [0]} : i32[]"
    "  %4:2 = while(%3, %3, %1, %2) {num_carried = 2, max_trips = 5}"
    "  (graph lowered \"c\" loop {"
    "    %1 = parameter() {" I "0} : i32[]"
    "    %2 = parameter() {" I "1} : i32[]"
    "    %3 = parameter() {" I "2} captures (%1) : i32[]"
    "    %4 = less(%1, %3) : bool[]"
    "    return %4 }, graph lowered \"b\" loop {"
    "    %1 = parameter() {" I "0} : i32[]"
    "    %2 = parameter() {" I "1} : i32[]"
    "    %3 = parameter() {" I "2} captures (%2) : i32[]"
    "    %4 = constant() {value = i32[] [1]} : i32[]"
    "    %5 = mul(%1, %3) : i32[]"
    "    %6 = add(%2, %5) : i32[]"
    "    %7 = add(%1, %4) : i32[]"
    "    return %7, %6 }) : i32[], i32[]"
    "  %5 = add(%4:1, %2) : i32[]"
    "  return %4, %4:1, %5 }";

TEST(a_loop_runs_while_its_condition_holds_and_trips_last) {
  LS_OWN_BEGUN(lowered, program, lowered_make,
               &(lowered_options){.text = sum_text});
  const struct {
    int32_t n, trips, sum;
  } rows[] = {{0, 0, 0}, {1, 1, 0}, {4, 4, 60}, {5, 5, 100}, {9, 5, 100}};
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    const int32_t factor = 10;
    int32_t trips = -1, sum = -1, more = -1;
    expect_ok(lowered_run(&program, (const void *[]){&rows[i].n, &factor},
                          (void *[]){&trips, &sum, &more}));
    assert_int_equal(trips, rows[i].trips);
    assert_int_equal(sum, rows[i].sum);
    assert_int_equal(more, rows[i].sum + 10);
  }
}

// (a, b, c) = (b, c, a + b), n times.
static const char shift_text[] =
    "graph lowered \"p\" {"
    "  %1 = parameter() {" I "0} : i32[]"
    "  %2 = constant() {value = i32[] [0]} : i32[]"
    "  %3 = constant() {value = i32[] [1]} : i32[]"
    "  %4:4 = while(%1, %2, %3, %3, %2, %3) {num_carried = 4}"
    "  (graph lowered \"c\" loop {"
    "    %1 = parameter() {" I "0} : i32[]"
    "    %2 = parameter() {" I "1} : i32[]"
    "    %3 = parameter() {" I "2} : i32[]"
    "    %4 = parameter() {" I "3} : i32[]"
    "    %5 = parameter() {" I "4} captures (%2) : i32[]"
    "    %6 = greater(%1, %5) : bool[]"
    "    return %6 }, graph lowered \"b\" loop {"
    "    %1 = parameter() {" I "0} : i32[]"
    "    %2 = parameter() {" I "1} : i32[]"
    "    %3 = parameter() {" I "2} : i32[]"
    "    %4 = parameter() {" I "3} : i32[]"
    "    %5 = parameter() {" I "4} captures (%3) : i32[]"
    "    %6 = sub(%1, %5) : i32[]"
    "    %7 = add(%2, %3) : i32[]"
    "    return %6, %3, %4, %7 }) : i32[], i32[], i32[], i32[]"
    "  return %4:1, %4:2, %4:3 }";

TEST(carried_values_change_places_all_at_once) {
  LS_OWN_BEGUN(lowered, program, lowered_make,
               &(lowered_options){.text = shift_text});
  for (int32_t n = 0; n < 12; ++n) {
    int32_t want[3] = {0, 1, 1}, got[3] = {0};
    for (int32_t i = 0; i < n; ++i) {
      const int32_t next = want[0] + want[1];
      want[0] = want[1];
      want[1] = want[2];
      want[2] = next;
    }
    expect_ok(lowered_run(&program, (const void *[]){&n},
                          (void *[]){&got[0], &got[1], &got[2]}));
    assert_memory_equal(got, want, sizeof(got));
  }
}

// while n > 0: (n, a, b) = (n - 1, b, b)
static const char follow_text[] =
    "graph lowered \"p\" {"
    "  %1 = parameter() {" I "0} : i32[]"
    "  %2 = parameter() {" I "1} : i32[]"
    "  %3 = parameter() {" I "2} : i32[]"
    "  %4:3 = while(%1, %2, %3) {num_carried = 3}"
    "  (graph lowered \"c\" loop {"
    "    %1 = parameter() {" I "0} : i32[]"
    "    %2 = parameter() {" I "1} : i32[]"
    "    %3 = parameter() {" I "2} : i32[]"
    "    %4 = constant() {value = i32[] [0]} : i32[]"
    "    %5 = greater(%1, %4) : bool[]"
    "    return %5 }, graph lowered \"b\" loop {"
    "    %1 = parameter() {" I "0} : i32[]"
    "    %2 = parameter() {" I "1} : i32[]"
    "    %3 = parameter() {" I "2} : i32[]"
    "    %4 = constant() {value = i32[] [1]} : i32[]"
    "    %5 = sub(%1, %4) : i32[]"
    "    return %5, %3, %3 }) : i32[], i32[], i32[]"
    "  return %4:1, %4:2 }";

TEST(a_loop_that_never_runs_keeps_its_initial_values) {
  LS_OWN_BEGUN(lowered, program, lowered_make,
               &(lowered_options){.text = follow_text});
  for (int32_t n = 0; n < 3; ++n) {
    const int32_t a = 5, b = 6;
    int32_t out[2] = {0};
    expect_ok(lowered_run(&program, (const void *[]){&n, &a, &b},
                          (void *[]){&out[0], &out[1]}));
    assert_int_equal(out[0], n == 0 ? 5 : 6);
    assert_int_equal(out[1], 6);
  }
}

// for i < 3: for j < i: x = x * 2 + 1. The inner loop sees the outer's values.
static const char nested_text[] =
    "graph lowered \"p\" {"
    "  %1 = parameter() {" F "0} : f32[2]"
    "  %2 = constant() {value = i32[] [0]} : i32[]"
    "  %3 = constant() {value = i32[] [3]} : i32[]"
    "  %4:2 = while(%2, %1, %3, %2) {num_carried = 2}"
    "  (graph lowered \"c\" loop {"
    "    %1 = parameter() {" I "0} : i32[]"
    "    %2 = parameter() {" F "1} : f32[2]"
    "    %3 = parameter() {" I "2} captures (%3) : i32[]"
    "    %4 = less(%1, %3) : bool[]"
    "    return %4 }, graph lowered \"b\" loop {"
    "    %1 = parameter() {" I "0} : i32[]"
    "    %2 = parameter() {" F "1} : f32[2]"
    "    %3 = parameter() {" I "2} captures (%2) : i32[]"
    "    %4 = constant() {value = i32[] [1]} : i32[]"
    "    %5:2 = while(%3, %2, %1, %4) {num_carried = 2}"
    "    (graph lowered \"c\" loop {"
    "      %1 = parameter() {" I "0} : i32[]"
    "      %2 = parameter() {" F "1} : f32[2]"
    "      %3 = parameter() {" I "2} captures (%1) : i32[]"
    "      %4 = less(%1, %3) : bool[]"
    "      return %4 }, graph lowered \"b\" loop {"
    "      %1 = parameter() {" I "0} : i32[]"
    "      %2 = parameter() {" F "1} : f32[2]"
    "      %3 = parameter() {" I "2} captures (%4) : i32[]"
    "      %4 = add(%1, %3) : i32[]"
    "      %5 = add(%2, %2) : f32[2]"
    "      %6 = constant() {value = f32[] [1]} : f32[]"
    "      %7 = add(%5, %6) : f32[2]"
    "      return %4, %7 }) : i32[], f32[2]"
    "    %6 = add(%1, %4) : i32[]"
    "    return %6, %5:1 }) : i32[], f32[2]"
    "  return %4:1 }";

TEST(loops_nest) {
  LS_OWN_BEGUN(lowered, program, lowered_make,
               &(lowered_options){.text = nested_text});
  const float in[2] = {0, 1};
  float out[2];
  for (int i = 0; i < 2; ++i) {
    expect_ok(lowered_run(&program, (const void *[]){in}, (void *[]){out}));
    assert_memory_equal(out, ((float[]){7, 15}), 8);
  }
}

// for i < 4: w = w - 0.5 w, in a loop in a program.
static const char train_text[] =
    "graph lowered \"p\" {"
    "  %1 = parameter() {" F "0} : f32[2]"
    "  %2 = constant() {value = i32[] [0]} : i32[]"
    "  %3:2 = while(%2, %1) {num_carried = 2}"
    "  (graph lowered \"c\" loop {"
    "    %1 = parameter() {" I "0} : i32[]"
    "    %2 = parameter() {" F "1} : f32[2]"
    "    %3 = constant() {value = i32[] [4]} : i32[]"
    "    %4 = less(%1, %3) : bool[]"
    "    return %4 }, graph lowered \"b\" loop {"
    "    %1 = parameter() {" I "0} : i32[]"
    "    %2 = parameter() {" F "1} : f32[2]"
    "    %3 = constant() {value = i32[] [1]} : i32[]"
    "    %4 = add(%1, %3) : i32[]"
    "    %5 = constant() {value = f32[] [0.5]} : f32[]"
    "    %6 = mul(%2, %5) : f32[2]"
    "    %7 = sub(%2, %6) : f32[2]"
    "    return %4, %7 }) : i32[], f32[2]"
    "  return %3:1 }";

TEST(a_variable_is_carried_in_its_buffer) {
  LS_OWN(lowered, program) = {0};
  lowered_make(
      &program,
      &(lowered_options){.num_uses = 1, .written = {true}, .text = train_text});
  // One copy is left: the counter's initial value.
  assert_int_equal(lowered_plan_count(&program, "copy"), 1);
  memcpy(program.buffers[0]->data, (float[]){16, 32}, 8);
  expect_ok(lowered_run(&program, NULL, NULL));
  assert_memory_equal(program.buffers[0]->data, ((float[]){1, 2}), 8);
}

// Two draws by each trip of a loop, kept by trip.
static const char random_text[] =
    "graph lowered \"p\" {"
    "  %1 = constant() {value = i32[] [0]} : i32[]"
    "  %2 = constant() {value = f32[] [0]} : f32[]"
    "  %3:4 = while(%1, %2, %2, %2) {num_carried = 4, max_trips = 3}"
    "  (graph lowered \"c\" loop {"
    "    %1 = parameter() {" I "0} : i32[]"
    "    %2 = parameter() {dtype = f32, shape = shape[], index = 1} : f32[]"
    "    %3 = parameter() {dtype = f32, shape = shape[], index = 2} : f32[]"
    "    %4 = parameter() {dtype = f32, shape = shape[], index = 3} : f32[]"
    "    %5 = constant() {value = bool[] [true]} : bool[]"
    "    return %5 }, graph lowered \"b\" loop {"
    "    %1 = parameter() {" I "0} : i32[]"
    "    %2 = parameter() {dtype = f32, shape = shape[], index = 1} : f32[]"
    "    %3 = parameter() {dtype = f32, shape = shape[], index = 2} : f32[]"
    "    %4 = parameter() {dtype = f32, shape = shape[], index = 3} : f32[]"
    "    %5 = random_uniform() {sizes = sizes[], dtype = f32, seed = 1, "
    "stream = 0, low = 0.0, high = 1.0, same_on_all_replicas = false, "
    "fixed = false} : f32[]"
    "    return %1, %5, %2, %3 }) : i32[], f32[], f32[], f32[]"
    "  return %3:1, %3:2, %3:3 }";

TEST(each_trip_of_a_loop_draws_other_numbers) {
  LS_OWN_BEGUN(lowered, program, lowered_make,
               &(lowered_options){.text = random_text});
  float first[3], again[3];
  expect_ok(
      lowered_run(&program, NULL, (void *[]){&first[0], &first[1], &first[2]}));
  expect_ok(
      lowered_run(&program, NULL, (void *[]){&again[0], &again[1], &again[2]}));
  assert_memory_equal(first, again, sizeof(first));
  assert_true(first[0] != first[1] && first[1] != first[2] &&
              first[0] != first[2] && first[2] != 0);
}

// ---- Branches --------------------------------------------------------------
// p ? (q ? x + y : x) : y, and a number that says which.
static const char branch_text[] =
    "graph lowered \"p\" {"
    "  %1 = parameter() {dtype = bool, shape = shape[], index = 0} : bool[]"
    "  %2 = parameter() {dtype = bool, shape = shape[], index = 1} : bool[]"
    "  %3 = parameter() {" F "2} : f32[2]"
    "  %4 = parameter() {" F "3} : f32[2]"
    "  %5:2 = cond(%1, %2, %3, %4, %4)"
    "  (graph lowered \"then\" {"
    "    %1 = parameter() {dtype = bool, shape = shape[], index = 0}"
    "    captures (%2) : bool[]"
    "    %2 = parameter() {" F "1} captures (%3) : f32[2]"
    "    %3 = parameter() {" F "2} captures (%4) : f32[2]"
    "    %4:2 = cond(%1, %2, %3, %2)"
    "    (graph lowered \"then\" {"
    "      %1 = parameter() {" F "0} captures (%2) : f32[2]"
    "      %2 = parameter() {" F "1} captures (%3) : f32[2]"
    "      %3 = add(%1, %2) : f32[2]"
    "      %4 = constant() {value = i32[] [1]} : i32[]"
    "      return %3, %4 }, graph lowered \"else\" {"
    "      %1 = parameter() {" F "0} captures (%2) : f32[2]"
    "      %2 = constant() {value = i32[] [2]} : i32[]"
    "      return %1, %2 }) : f32[2], i32[]"
    "    return %4, %4:1 }, graph lowered \"else\" {"
    "    %1 = parameter() {" F "0} captures (%4) : f32[2]"
    "    %2 = constant() {value = i32[] [3]} : i32[]"
    "    return %1, %2 }) : f32[2], i32[]"
    "  %6 = add(%5, %3) : f32[2]"
    "  return %5, %5:1, %6 }";

TEST(branches_nest_and_may_pass_values_on) {
  LS_OWN_BEGUN(lowered, program, lowered_make,
               &(lowered_options){.text = branch_text});
  const float x[2] = {1, 2}, y[2] = {10, 20};
  const struct {
    bool p, q;
    int32_t which;
    float result[2], sum[2];
  } rows[] = {
      {true, true, 1, {11, 22}, {12, 24}},
      {true, false, 2, {1, 2}, {2, 4}},
      {false, true, 3, {10, 20}, {11, 22}},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    float result[2], sum[2];
    int32_t which = 0;
    expect_ok(lowered_run(&program,
                          (const void *[]){&rows[i].p, &rows[i].q, x, y},
                          (void *[]){result, &which, sum}));
    assert_int_equal(which, rows[i].which);
    assert_memory_equal(result, rows[i].result, 8);
    assert_memory_equal(sum, rows[i].sum, 8);
  }
}

// ---- Memory ----------------------------------------------------------------
MEMORY_TEST(run_flows) {
  const char *const texts[] = {shift_text, nested_text, branch_text};
  const float zeros[4][2] = {{0}};
  for (size_t i = 0; i < LS_COUNT_OF(texts); ++i)
    LS_RETURN_IF_ERROR(lowered_run_once(
        &(lowered_options){.text = texts[i]},
        (const void *[]){zeros[0], zeros[1], zeros[2], zeros[3]}, NULL));
  return ls_ok();
}
