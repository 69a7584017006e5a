// SPDX-License-Identifier: Apache-2.0
// The CPU engine: steps of replicas, and the memory they take.
#include "support/lowered.h"
#include "support/replica_lanes.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

// ---- Training steps --------------------------------------------------------
// w -= mean over replicas of w x: read by all lanes, then updated in place.
static const char update_text[] =
    "graph lowered \"p\" {"
    "  %1 = parameter() {dtype = f32, shape = shape[], index = 0} : f32[]"
    "  %2 = parameter() {dtype = f32, shape = shape[2], index = 1} : f32[2]"
    "  %3:2 = replicate(%1, %2) {replicas = 4, num_split = 0, num_gathered = 0}"
    "  (graph lowered \"r\" {"
    "    %1 = parameter() {dtype = f32, shape = shape[], index = 0}"
    "    captures (%1) : f32[]"
    "    %2 = parameter() {dtype = f32, shape = shape[2], index = 1}"
    "    captures (%2) : f32[2]"
    "    %3 = replica_id() varying : i32[]"
    "    %4 = convert(%3) {dtype = f32} varying : f32[]"
    "    %5 = mul(%4, %1) varying : f32[]"
    "    %6 = mul(%2, %5) varying : f32[2]"
    "    %7 = all_reduce(%6) {reduce = \"mean\"} : f32[2]"
    "    %8 = sub(%2, %7) : f32[2]"
    "    %9 = reduce_sum(%6) {axes = [0], keep_dims = false} varying : f32[]"
    "    %10 = mul(%9, %5) varying : f32[]"
    "    %11 = all_reduce(%10) {reduce = \"sum\"} : f32[]"
    "    return %11, %8 }) : f32[], f32[2]"
    "  return %3, %3:1 }";

TEST(a_variable_that_lanes_read_is_updated_in_its_buffer) {
  LS_OWN(lowered, program) = {0};
  expect_ok(lowered_create(
      &(lowered_options){.text = update_text, .num_uses = 1, .written = {true}},
      &program));
  assert_int_equal(lowered_plan_count(&program, "copy"), 0);
  assert_int_equal(lowered_facts(&program).frame_bytes, 0);
  memcpy(program.buffers[0]->data, (float[]){8, 16}, 8);
  const float rate = 0.5F;
  float loss = 0;
  expect_ok(lowered_run(&program, (const void *[]){&rate}, (void *[]){&loss}));
  // Factors 0, 0.5, 1, 1.5: mean 0.75; the squares' sum is 3.5.
  assert_memory_equal(program.buffers[0]->data, ((float[]){2, 4}), 8);
  assert_true(loss == 24 * 3.5F);
}

// The same step in a loop of the program: lanes are launched again and again.
TEST(lanes_can_be_launched_in_a_loop) {
  LS_OWN(lowered, program) = {0};
  expect_ok(lowered_create(
      &(lowered_options){
          .num_uses = 1,
          .written = {true},
          .text = "graph lowered \"p\" {"
                  "  %1 = parameter() {dtype = f32, shape = shape[2], index = "
                  "0} : f32[2]"
                  "  %2 = constant() {value = i32[] [0]} : i32[]"
                  "  %3:2 = while(%2, %1) {num_carried = 2, max_trips = 3}"
                  "  (graph lowered \"c\" loop {"
                  "    %1 = parameter() {dtype = i32, shape = shape[], index = "
                  "0} : i32[]"
                  "    %2 = parameter() {dtype = f32, shape = shape[2], index "
                  "= 1} : f32[2]"
                  "    %3 = constant() {value = bool[] [true]} : bool[]"
                  "    return %3 }, graph lowered \"b\" loop {"
                  "    %1 = parameter() {dtype = i32, shape = shape[], index = "
                  "0} : i32[]"
                  "    %2 = parameter() {dtype = f32, shape = shape[2], index "
                  "= 1} : f32[2]"
                  "    %3 = replicate(%2) {replicas = 3, num_split = 0, "
                  "num_gathered = 0}"
                  "    (graph lowered \"r\" {"
                  "      %1 = parameter() {dtype = f32, shape = shape[2], "
                  "index = 0}"
                  "      captures (%2) : f32[2]"
                  "      %2 = replica_id() varying : i32[]"
                  "      %3 = convert(%2) {dtype = f32} varying : f32[]"
                  "      %4 = mul(%1, %3) varying : f32[2]"
                  "      %5 = all_reduce(%4) {reduce = \"sum\"} : f32[2]"
                  "      %6 = add(%1, %5) : f32[2]"
                  "      return %6 }) : f32[2]"
                  "    return %1, %3 }) : i32[], f32[2]"
                  "  return %3:1 }"},
      &program));
  memcpy(program.buffers[0]->data, (float[]){1, 2}, 8);
  expect_ok(lowered_run(&program, NULL, NULL));
  assert_memory_equal(program.buffers[0]->data, ((float[]){64, 128}), 8);
}

TEST(one_replica_costs_nothing) {
  char *text = lanes_text(1, "",
                          "%2 = neg(%1) varying : f32[7]"
                          "%3 = all_reduce(%2) {reduce = \"mean\"} : f32[7]"
                          "return %3",
                          "f32[7]");
  LS_OWN_BEGUN(lowered, program, lanes_create, text);
  free(text);
  assert_int_equal(lowered_facts(&program).num_instructions, 2);  // neg, end
  assert_int_equal(lowered_facts(&program).shared_bytes, 0);
}

LANE_TEST(many_replicas_take_the_memory_of_few) {
  size_t bytes[2];
  const int32_t replicas[2] = {2, 1024};
  for (int i = 0; i < 2; ++i) {
    char *text = lanes_text(
        replicas[i], "",
        "%2 = exp(%1) varying : f32[7] %3 = mul(%2, %1) varying : f32[7]"
        "%4 = all_reduce(%3) {reduce = \"mean\"} : f32[7] return %4",
        "f32[7]");
    LS_OWN_BEGUN(lowered, program, lanes_create, text);
    free(text);
    const ls_plan_facts facts = lowered_facts(&program);
    assert_int_equal(facts.frame_bytes, 0);
    bytes[i] = facts.shared_bytes + facts.scratch_bytes;
  }
  // Nine more partial sums wait for their sibling.
  assert_int_equal(bytes[1] - bytes[0], 9 * 64);
}

// Products of one value after another, which the merges at the end add up: no
// operand is kept until then.
ONCE_TEST(operands_of_merged_products_are_not_kept) {
  enum { STEPS = 12, REPLICAS = 8 };
  ls_text text;
  ls_text_init(&text, ls_allocator_system());
  ls_text_append_format(
      &text,
      "graph lowered \"p\" {"
      " %%1 = parameter() {dtype = f32, shape = shape[64,64], index = 0}"
      " : f32[64,64]"
      " %%2:%d = replicate(%%1) {replicas = %d, num_split = 0, num_gathered = "
      "0} (graph lowered \"r\" {"
      " %%1 = parameter() {dtype = f32, shape = shape[64,64], index = 0}"
      " captures (%%1) : f32[64,64]"
      " %%2 = replica_id() varying : i32[]"
      " %%3 = convert(%%2) {dtype = f32} varying : f32[]"
      " %%4 = mul(%%1, %%3) varying : f32[64,64]",
      STEPS, REPLICAS);
  int last = 4;
  for (int i = 0; i < STEPS; ++i, last += 2)
    ls_text_append_format(&text,
                          " %%%d = softmax(%%%d) varying : f32[64,64]"
                          " %%%d = matmul(%%%d, %%%d) {transpose_a = true,"
                          " transpose_b = false} varying : f32[64,64]",
                          last + 1, i == 0 ? last : last - 1, last + 2,
                          i == 0 ? last : last - 1, last + 1);
  for (int i = 0; i < STEPS; ++i)
    ls_text_append_format(&text,
                          " %%%d = all_reduce(%%%d) {reduce = \"sum\"}"
                          " : f32[64,64]",
                          last + 1 + i, 6 + 2 * i);
  ls_text_append(&text, " return");
  for (int i = 0; i < STEPS; ++i)
    ls_text_append_format(&text, "%s %%%d", i == 0 ? "" : ",", last + 1 + i);
  ls_text_append(&text, " })");
  for (int i = 0; i < STEPS; ++i)
    ls_text_append_format(&text, "%s f32[64,64]", i == 0 ? " :" : ",");
  ls_text_append(&text, " return");
  for (int i = 0; i < STEPS; ++i)
    ls_text_append_format(&text, "%s %%2:%d", i == 0 ? "" : ",", i);
  ls_text_append(&text, " }");
  char *program_text = ls_text_finish(&text);
  LS_OWN_BEGUN(lowered, program, lanes_create, program_text);
  free(program_text);
  const size_t value = 64 * 64 * sizeof(float) * REPLICAS;
  const ls_plan_facts facts = lowered_facts(&program);
  assert_in_range(facts.shared_bytes + facts.scratch_bytes, 1, 4 * value);
}

TEST_FILE(.run = lanes_run_tests)
