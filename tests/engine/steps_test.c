// SPDX-License-Identifier: Apache-2.0
//
// Kernels of two steps in programs: on any number of threads, on replicas, and
// in place.
#include <stdlib.h>

#include "support/expect.h"
#include "support/loop_case.h"
#include "support/lowered.h"
#include "support/place.h"

enum { ROWS = 40000, COLUMNS = 16, SIZE = ROWS * COLUMNS };

#define X "{dtype = f32, shape = shape[40000,16], index = "
#define C "{dtype = f32, shape = shape[16], index = "

static float *numbers(int64_t count, uint64_t seed) {
  float *data = malloc((size_t)count * sizeof(float));
  loop_random random = {seed};
  for (int64_t i = 0; i < count; ++i)
    data[i] = (float)loop_random_bits(&random) * 0x1p-32F;
  return data;
}

// y, mean and variance of `text`, whose inputs are x, scale and offset.
typedef struct outcome {
  float y[SIZE], mean[COLUMNS], variance[COLUMNS];
} outcome;

static outcome *run_on(int threads, const char *text, const void *const *in) {
  outcome *got = calloc(1, sizeof(*got));
  LS_OWN(open_place, home) =
      runtime_begin((ls_runtime_options){.threads = threads});
  LS_OWN(lowered, program) = {0};
  expect_ok(lowered_create(&(lowered_options){.text = text}, &program));
  expect_ok(
      lowered_run(&program, in, (void *[]){got->y, got->mean, got->variance}));
  return got;
}

TEST(threads_do_not_show) {
  static const char text[] = "graph lowered \"p\" {"
                             "  %1 = parameter() " X "0} : f32[40000,16]"
                             "  %2 = parameter() " C "1} : f32[16]"
                             "  %3 = parameter() " C "2} : f32[16]"
                             "  %4:3 = batch_norm(%1, %2, %3) {epsilon = 0.25}"
                             "    : f32[40000,16], f32[16], f32[16]"
                             "  return %4:0, %4:1, %4:2 }";
  HEAP(float, x) = numbers(SIZE, 1);
  HEAP(float, c) = numbers(2 * COLUMNS, 2);
  const void *const in[] = {x, c, c + COLUMNS};
  HEAP(outcome, one) = run_on(1, text, in);
  HEAP(outcome, three) = run_on(3, text, in);
  assert_memory_equal(one, three, sizeof(*one));
  assert_true(one->mean[0] > 0.45F && one->mean[0] < 0.55F);
}

TEST(a_result_may_lie_on_an_operand) {
  static const char apart[] =
      "graph lowered \"p\" {"
      "  %1 = parameter() " X "0} : f32[40000,16]"
      "  %2 = parameter() " C "1} : f32[16]"
      "  %3 = parameter() " C "2} : f32[16]"
      "  %4:3 = layer_norm_grad(%1, %1, %2) {epsilon = 0.25}"
      "    : f32[40000,16], f32[16], f32[16]"
      "  %5:3 = batch_norm(%4:0, %4:1, %4:2) {epsilon = 0.25}"
      "    : f32[40000,16], f32[16], f32[16]"
      "  return %5:0, %5:1, %5:2 }";
  static const char together[] =
      "graph lowered \"p\" {"
      "  %1 = parameter() " X "0} : f32[40000,16]"
      "  %2 = parameter() " C "1} : f32[16]"
      "  %3 = parameter() " C "2} : f32[16]"
      "  %4 = constant() {value = f32[] [1]} : f32[]"
      "  %5 = mul(%1, %4) : f32[40000,16]"
      "  %6:3 = layer_norm_grad(%5, %1, %2) {epsilon = 0.25}"
      "    : f32[40000,16], f32[16], f32[16]"
      "  %7:3 = batch_norm(%6:0, %6:1, %6:2) {epsilon = 0.25}"
      "    : f32[40000,16], f32[16], f32[16]"
      "  return %7:0, %7:1, %7:2 }";
  HEAP(float, x) = numbers(SIZE, 1);
  HEAP(float, c) = numbers(2 * COLUMNS, 2);
  const void *const in[] = {x, c, c + COLUMNS};
  HEAP(outcome, one) = run_on(1, apart, in);
  HEAP(outcome, two) = run_on(2, together, in);
  assert_memory_equal(one, two, sizeof(*one));
  // The last result is in the caller's array, the others share one.
  LS_OWN(lowered, program) = {0};
  expect_ok(lowered_create(&(lowered_options){.text = together}, &program));
  const ls_plan_facts facts =
      program.backend->vtable->facts(program.executable);
  assert_true(facts.shared_bytes < 3 * SIZE * sizeof(float) / 2);
}

TEST(replicas_have_steps_of_their_own) {
  enum { REPLICAS = 5, LITTLE = 300 };
  static const char text[] =
      "graph lowered \"p\" {"
      "  %1 = parameter() {dtype = f32, shape = shape[300,16], index = 0}"
      "    : f32[300,16]"
      "  %2 = parameter() " C "1} : f32[16]"
      "  %3 = replicate(%1, %2) {replicas = 5, num_split = 0, "
      "num_gathered = 0} (graph lowered \"r\" {"
      "    %1 = parameter() {dtype = f32, shape = shape[300,16], index = 0}"
      "      captures (%1) : f32[300,16]"
      "    %2 = parameter() " C "1} captures (%2) : f32[16]"
      "    %3 = replica_id() varying : i32[]"
      "    %4 = convert(%3) {dtype = f32} varying : f32[]"
      "    %5 = add(%1, %4) varying : f32[300,16]"
      "    %6:3 = batch_norm(%5, %2, %2) {epsilon = 0.25}"
      "      varying : f32[300,16], f32[16], f32[16]"
      "    %7 = all_reduce(%6:1) {reduce = \"sum\"} : f32[16]"
      "    return %7 }) : f32[16]"
      "  return %3 }";
  HEAP(float, x) = numbers(LITTLE * COLUMNS, 1);
  HEAP(float, c) = numbers(COLUMNS, 2);
  LS_OWN(lowered, program) = {0};
  expect_ok(lowered_create(&(lowered_options){.text = text}, &program));
  float sums[COLUMNS];
  for (int run = 0; run < 2; ++run)
    expect_ok(lowered_run(&program, (const void *[]){x, c}, (void *[]){sums}));
  for (int j = 0; j < COLUMNS; ++j) {
    double mean = 0;
    for (int i = 0; i < LITTLE; ++i)
      mean += (double)x[i * COLUMNS + j] / LITTLE;
    const double want = REPLICAS * mean + 0 + 1 + 2 + 3 + 4;
    assert_true((double)sums[j] > want - 1e-5 && (double)sums[j] < want + 1e-5);
  }
}
