// SPDX-License-Identifier: Apache-2.0
// Results that no cache keeps: the same bytes as those that one does.
#include "support/expect.h"
#include "support/lowered.h"

#include <stdlib.h>
#include <string.h>

#include "engine/cpu/kernels/loops.h"

// With an operand more than the last cache; blocks and tiles end unevenly.
enum { COUNT = 4194311 };
#define V "f32[4194311]"
#define P(i) "parameter() {dtype = f32, shape = shape[4194311], index = " #i "}"

// Floats that begin `offset` floats behind a line of the cache.
typedef struct floats {
  float *memory, *data;
} floats;

static floats new_floats(size_t offset) {
  const size_t bytes = (COUNT + 64) / 16 * 16 * sizeof(float);
  float *memory = aligned_alloc(64, bytes);
  assert_non_null(memory);
  memset(memory, 0xff, bytes);
  return (floats){memory, memory + offset};
}

static void fill(float *data, float scale) {
  uint32_t state = 7;
  for (size_t i = 0; i < COUNT; ++i) {
    state = state * 1664525U + 1013904223U;
    data[i] = scale * ((float)(state >> 8) * 0x1p-24F - 0.3F);
  }
}

// x + y: streamed on the border of a line, stored off it and in place; nothing
// behind the end is touched.
TEST(a_far_sum_is_the_same_wherever_it_lies) {
  LS_OWN(lowered, p) = {0};
  const char *text =
      "graph lowered \"p\" {"
      "  %1 = " P(0) " : " V "  %2 = " P(1) " : " V "  %3 = add(%1, %2) : " V
                                            "  return %3 }";
  expect_ok(lowered_create(&(lowered_options){.text = text}, &p));
  assert_true(ls_cpu_is_streamed(3 * (size_t)COUNT * sizeof(float)));
  floats x = new_floats(0), y = new_floats(0);
  fill(x.data, 1);
  fill(y.data, -2);
  for (size_t offset = 0; offset < 2; ++offset) {
    floats sum = new_floats(offset);
    const void *const in[] = {x.data, y.data};
    expect_ok(lowered_run(&p, in, (void *[]){sum.data}));
    for (size_t i = 0; i < COUNT; ++i)
      assert_true(sum.data[i] == x.data[i] + y.data[i]);
    uint32_t behind = 0;
    memcpy(&behind, sum.data + COUNT, sizeof(behind));
    assert_int_equal(behind, UINT32_MAX);
    free(sum.memory);
  }
  free(x.memory);
  free(y.memory);
}

// One result is read again by a later step, one lies on a variable.
TEST(far_results_of_fused_steps_are_the_same) {
  LS_OWN(lowered, p) = {0};
  const char *text =
      "graph lowered \"p\" {"
      "  %1 = " P(0) " : " V "  %2 = " P(1) " : " V "  %3 = mul(%1, %1) : " V
                                            "  %4 = add(%2, %3) : " V
                                            "  %5 = sub(%4, %3) : " V
                                            "  %6 = mul(%5, %4) : " V
                                            "  return %6, %4 }";
  expect_ok(lowered_create(
      &(lowered_options){.text = text, .num_uses = 1, .written = {true}}, &p));
  assert_int_equal(lowered_plan_count(&p, "fused"), 1);
  floats x = new_floats(0), result = new_floats(0);
  float *variable = p.buffers[0]->data;
  fill(x.data, 1);
  fill(variable, -2);
  expect_ok(lowered_run(&p, (const void *[]){x.data}, (void *[]){result.data}));
  floats before = new_floats(0);
  fill(before.data, -2);
  for (size_t i = 0; i < COUNT; ++i) {
    const float square = x.data[i] * x.data[i];
    const float sum = before.data[i] + square;
    assert_true(variable[i] == sum);
    assert_true(result.data[i] == (sum - square) * sum);
  }
  free(x.memory);
  free(result.memory);
  free(before.memory);
}
