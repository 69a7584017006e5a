// SPDX-License-Identifier: Apache-2.0
// The CPU engine: straight programs, variables, memory.
#include "support/counted.h"
#include "support/fault.h"
#include "support/lowered.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/allocator.h"

#define F "dtype = f32, shape = "

static float *variable(lowered *program, size_t use) {
  return program->buffers[use]->data;
}

// ---- Straight programs -----------------------------------------------------
TEST(a_program_computes_its_outputs) {
  LS_OWN_BEGUN(lowered, program, lowered_make,
               &(lowered_options){
                   .text =
                       "graph lowered \"p\" {"
                       "  %1 = parameter() {" F "shape[3], index = 0} : f32[3]"
                       "  %2 = parameter() {" F "shape[3], index = 1} : f32[3]"
                       "  %3 = constant() {value = f32[] [10]} : f32[]"
                       "  %4 = constant() {value = f32[3] [1, 2, 3]} : f32[3]"
                       "  %5 = add(%1, %2) : f32[3]"
                       "  %6 = mul(%5, %3) : f32[3]"
                       "  %7 = sub(%6, %4) : f32[3]"
                       "  return %7, %5 }"});
  const float a[3] = {1, 2, 3}, b[3] = {4, 5, 6};
  float difference[3], sum[3];
  expect_ok(lowered_run(&program, (const void *[]){a, b},
                        (void *[]){difference, sum}));
  assert_memory_equal(difference, ((float[]){49, 68, 87}), 12);
  assert_memory_equal(sum, ((float[]){5, 7, 9}), 12);
}

TEST(results_are_computed_in_the_callers_array) {
  LS_OWN_BEGUN(lowered, program, lowered_make,
               &(lowered_options){.text = "graph lowered \"p\" {"
                                          "  %1 = parameter() {" F
                                          "shape[1000], index = 0} : f32[1000]"
                                          "  %2 = neg(%1) : f32[1000]"
                                          "  return %2 }"});
  assert_int_equal(lowered_facts(&program).shared_bytes, 0);
  assert_int_equal(lowered_plan_count(&program, "copy"), 0);
}

TEST(an_elementwise_chain_keeps_nothing_but_its_end) {
  LS_OWN(lowered, program) = {0};
  lowered_make(
      &program,
      &(lowered_options){
          .text = "graph lowered \"p\" {"
                  "  %1 = parameter() {" F "shape[1000], index = 0} : f32[1000]"
                  "  %2 = neg(%1) : f32[1000]"
                  "  %3 = abs(%2) : f32[1000]"
                  "  %4 = sqrt(%3) : f32[1000]"
                  "  %5 = add(%4, %4) : f32[1000]"
                  "  %6 = mul(%5, %4) : f32[1000]"
                  "  %7 = reshape(%6) {sizes = sizes[10, 100]} : f32[10,100]"
                  "  %8 = transpose(%7) {permutation = [1, 0]} : f32[100,10]"
                  "  return %8 }"});
  // One buffer of 4,000 bytes for %6, and one instruction that makes it.
  const size_t bytes = lowered_facts(&program).shared_bytes;
  assert_in_range(bytes, 4000, 4500);
  assert_int_equal(lowered_plan_count(&program, "fused"), 1);
  float in[1000], out[1000];
  for (int i = 0; i < 1000; ++i)
    in[i] = (float)i;
  expect_ok(lowered_run(&program, (const void *[]){in}, (void *[]){out}));
  for (int i = 0; i < 100; ++i) {
    assert_float_equal(out[i * 10 + 3], 2 * (300 + (float)i), 0.01);
  }
}

TEST(inputs_constants_and_twins_can_be_outputs) {
  LS_OWN_BEGUN(lowered, program, lowered_make,
               &(lowered_options){
                   .text =
                       "graph lowered \"p\" {"
                       "  %1 = parameter() {" F "shape[2], index = 0} : f32[2]"
                       "  %2 = constant() {value = f32[2] [7, 8]} : f32[2]"
                       "  %3 = neg(%1) : f32[2]"
                       "  return %1, %2, %3, %3, %1 }"});
  const float in[2] = {1, 2};
  float out[5][2] = {0};
  expect_ok(lowered_run(&program, (const void *[]){in},
                        (void *[]){out[0], out[1], out[2], out[3], out[4]}));
  const float wanted[5][2] = {{1, 2}, {7, 8}, {-1, -2}, {-1, -2}, {1, 2}};
  assert_memory_equal(out, wanted, sizeof(out));
}

TEST(an_unwanted_output_does_not_hurt_others) {
  LS_OWN_BEGUN(lowered, program, lowered_make,
               &(lowered_options){.text = "graph lowered \"p\" {"
                                          "  %1 = parameter() {" F
                                          "shape[2], index = 0} : f32[2]"
                                          "  %2 = neg(%1) : f32[2]"
                                          "  %3 = mul(%2, %2) : f32[2]"
                                          "  return %2, %3 }"});
  const float in[2] = {3, 4};
  float out[2] = {0};
  expect_ok(lowered_run(&program, (const void *[]){in}, (void *[]){NULL, out}));
  assert_memory_equal(out, ((float[]){9, 16}), 8);
  expect_ok(lowered_run(&program, (const void *[]){in}, NULL));
}

TEST(empty_values_pass_through) {
  LS_OWN(lowered, program) = {0};
  lowered_make(
      &program,
      &(lowered_options){
          .text =
              "graph lowered \"p\" {"
              "  %1 = parameter() {" F "shape[0,3], index = 0} : f32[0,3]"
              "  %2 = neg(%1) : f32[0,3]"
              "  %3 = reduce_sum(%2) {axes = [0], keep_dims = false} : f32[3]"
              "  return %2, %3 }"});
  float none[1], out[3] = {5, 5, 5};
  expect_ok(
      lowered_run(&program, (const void *[]){none}, (void *[]){none, out}));
  assert_memory_equal(out, ((float[]){0, 0, 0}), 12);
}

TEST(denormals_are_zero_inside_and_not_outside) {
  LS_OWN_BEGUN(lowered, program, lowered_make,
               &(lowered_options){.text = "graph lowered \"p\" {"
                                          "  %1 = parameter() {" F
                                          "shape[2], index = 0} : f32[2]"
                                          "  %2 = mul(%1, %1) : f32[2]"
                                          "  return %2 }"});
  const float in[2] = {1e-20F, 2};
  float out[2];
  expect_ok(lowered_run(&program, (const void *[]){in}, (void *[]){out}));
  assert_memory_equal(out, ((float[]){0, 4}), 8);
  volatile float tiny = 1e-20F;
  assert_true(tiny * tiny > 0);
}

TEST(random_ops_draw_by_step_and_seed) {
  LS_OWN(lowered, program) = {0};
  lowered_make(
      &program,
      &(lowered_options){.text = "graph lowered \"p\" {"
                                 "  %1 = random_uniform() {sizes = sizes[8], "
                                 "dtype = f32, seed = 3, "
                                 "stream = 1, low = 0.0, high = 1.0, "
                                 "same_on_all_replicas = false, "
                                 "fixed = false} : f32[8]"
                                 "  return %1 }"});
  float out[4][8];
  const uint64_t keys[4][2] = {{0, 0}, {1, 0}, {0, 1}, {1, 0}};
  for (int i = 0; i < 4; ++i) {
    expect_ok(ls_backend_run(program.backend, program.instance,
                             &(ls_run_args){.outputs = (void *[]){out[i]},
                                            .step = keys[i][0],
                                            .seed = keys[i][1]}));
  }
  assert_memory_equal(out[1], out[3], sizeof(out[0]));
  assert_memory_not_equal(out[0], out[1], sizeof(out[0]));
  assert_memory_not_equal(out[0], out[2], sizeof(out[0]));
}

// ---- Variables -------------------------------------------------------------
TEST(a_variable_is_updated_in_its_buffer) {
  LS_OWN_BEGUN(lowered, program, lowered_make,
               &(lowered_options){.num_uses = 1,
                                  .written = {true},
                                  .text = "graph lowered \"p\" {"
                                          "  %1 = parameter() {" F
                                          "shape[3], index = 0} : f32[3]"
                                          "  %2 = parameter() {" F
                                          "shape[3], index = 1} : f32[3]"
                                          "  %3 = mul(%1, %2) : f32[3]"
                                          "  %4 = sub(%2, %3) : f32[3]"
                                          "  return %4 }"});
  assert_int_equal(lowered_plan_count(&program, "copy"), 0);
  const float start[3] = {1, 2, 3}, in[3] = {0.5F, 0.25F, 2};
  expect_ok(program.backend->vtable->upload(program.buffers[0], start));
  expect_ok(lowered_run(&program, (const void *[]){in}, NULL));
  expect_ok(lowered_run(&program, (const void *[]){in}, NULL));
  float end[3];
  expect_ok(program.backend->vtable->download(program.buffers[0], end));
  assert_memory_equal(end, ((float[]){0.25F, 1.125F, 3}), 12);
}

TEST(a_variable_that_is_read_later_keeps_its_value_till_the_end) {
  LS_OWN_BEGUN(lowered, program, lowered_make,
               &(lowered_options){.num_uses = 1,
                                  .written = {true},
                                  .text = "graph lowered \"p\" {"
                                          "  %1 = parameter() {" F
                                          "shape[2], index = 0} : f32[2]"
                                          "  %2 = parameter() {" F
                                          "shape[2], index = 1} : f32[2]"
                                          "  %3 = add(%1, %2) : f32[2]"
                                          "  %4 = mul(%3, %2) : f32[2]"
                                          "  return %4, %3 }"});
  assert_int_equal(lowered_plan_count(&program, "copy"), 1);
  memcpy(variable(&program, 0), (float[]){2, 3}, 8);
  const float in[2] = {1, 1};
  float out[2];
  expect_ok(lowered_run(&program, (const void *[]){in}, (void *[]){out}));
  assert_memory_equal(out, ((float[]){6, 12}), 8);
  assert_memory_equal(variable(&program, 0), ((float[]){3, 4}), 8);
}

TEST(the_old_value_of_a_written_variable_can_be_an_output) {
  LS_OWN_BEGUN(lowered, program, lowered_make,
               &(lowered_options){
                   .num_uses = 1,
                   .written = {true},
                   .text =
                       "graph lowered \"p\" {"
                       "  %1 = parameter() {" F "shape[2], index = 0} : f32[2]"
                       "  %2 = constant() {value = f32[] [1]} : f32[]"
                       "  %3 = add(%1, %2) : f32[2]"
                       "  %4 = reshape(%1) {sizes = sizes[2, 1]} : f32[2,1]"
                       "  return %1, %4, %3, %3 }"});
  float out[3][2];
  for (int i = 0; i < 2; ++i) {
    expect_ok(lowered_run(&program, NULL, (void *[]){out[0], out[1], out[2]}));
  }
  const float wanted[3][2] = {{1, 1}, {1, 1}, {2, 2}};
  assert_memory_equal(out, wanted, sizeof(out));
  assert_memory_equal(variable(&program, 0), ((float[]){2, 2}), 8);
}

TEST(two_variables_can_change_places) {
  LS_OWN_BEGUN(lowered, program, lowered_make,
               &(lowered_options){
                   .num_uses = 3,
                   .written = {true, true, true},
                   .text =
                       "graph lowered \"p\" {"
                       "  %1 = parameter() {" F "shape[2], index = 0} : f32[2]"
                       "  %2 = parameter() {" F "shape[2], index = 1} : f32[2]"
                       "  %3 = parameter() {" F "shape[2], index = 2} : f32[2]"
                       "  return %2, %3, %1 }"});
  for (size_t i = 0; i < 3; ++i) {
    variable(&program, i)[0] = (float)i;
    variable(&program, i)[1] = (float)i + 10;
  }
  expect_ok(lowered_run(&program, NULL, NULL));
  assert_memory_equal(variable(&program, 0), ((float[]){1, 11}), 8);
  assert_memory_equal(variable(&program, 1), ((float[]){2, 12}), 8);
  assert_memory_equal(variable(&program, 2), ((float[]){0, 10}), 8);
}

TEST(a_variable_may_become_a_constant_or_an_input) {
  LS_OWN_BEGUN(lowered, program, lowered_make,
               &(lowered_options){
                   .num_uses = 2,
                   .written = {true, true},
                   .text =
                       "graph lowered \"p\" {"
                       "  %1 = parameter() {" F "shape[2], index = 0} : f32[2]"
                       "  %2 = parameter() {" F "shape[2], index = 1} : f32[2]"
                       "  %3 = parameter() {" F "shape[2], index = 2} : f32[2]"
                       "  %4 = constant() {value = f32[2] [5, 6]} : f32[2]"
                       "  return %4, %1 }"});
  const float in[2] = {1, 2};
  expect_ok(lowered_run(&program, (const void *[]){in}, NULL));
  assert_memory_equal(variable(&program, 0), ((float[]){5, 6}), 8);
  assert_memory_equal(variable(&program, 1), ((float[]){1, 2}), 8);
}

// ---- Refusals --------------------------------------------------------------
static const char identity_text[] =
    "graph lowered \"p\" {"
    "  %1 = parameter() {" F "shape[2], index = 0} : f32[2]"
    "  return %1 }";

TEST(a_buffer_of_another_type_is_refused) {
  LS_OWN_BEGUN(lowered, program, lowered_make,
               &(lowered_options){.num_uses = 1, .text = identity_text});
  ls_buffer *other = NULL;
  const struct ls_backend_vtable *vtable = program.backend->vtable;
  expect_ok(vtable->create_buffer(
      program.backend, (ls_type){LS_DTYPE_F32, LS_SHAPE(3)}, &other));
  ls_instance *instance = NULL;
  expect_status(vtable->bind(program.executable, &other, &instance),
                LS_INVALID_ARGUMENT, "use 0 is f32[2], its buffer f32[3]");
  assert_null(instance);
  ls_object_release(other);
}

TEST(an_op_without_a_kernel_is_named) {
  LS_OWN(lowered, program) = {0};
  expect_status(
      lowered_create(
          &(lowered_options){
              .text =
                  "graph lowered \"p\" {"
                  "  %1 = constant() {value = string[1] [\"a\"]} : string[1]"
                  "  %2 = transpose(%1) {permutation = [0]} : string[1]"
                  "  return %2 }"},
          &program),
      LS_UNIMPLEMENTED, "string");
}

// ---- Memory ----------------------------------------------------------------
static const char step_text[] =
    "graph lowered \"p\" {"
    "  %1 = parameter() {" F "shape[8,16], index = 0} : f32[8,16]"
    "  %2 = parameter() {" F "shape[16,16], index = 1} : f32[16,16]"
    "  %3 = matmul(%1, %2) {transpose_a = false, transpose_b = false} "
    ": f32[8,16]"
    "  %4 = relu(%3) : f32[8,16]"
    "  %5 = relu_grad(%4, %3) : f32[8,16]"
    "  %6 = matmul(%1, %5) {transpose_a = true, transpose_b = false} "
    ": f32[16,16]"
    "  %7 = constant() {value = f32[] [0.01]} : f32[]"
    "  %8 = mul(%6, %7) : f32[16,16]"
    "  %9 = sub(%2, %8) : f32[16,16]"
    "  %10 = reduce_sum(%4) {axes = [0, 1], keep_dims = false} : f32[]"
    "  return %10, %9 }";

MEMORY_TEST(run_a_step) {
  const float x[128] = {1, 2, 3};
  float sum = 0;
  return lowered_run_once(
      &(lowered_options){.num_uses = 1, .written = {true}, .text = step_text},
      (const void *[]){x}, (void *[]){&sum});
}

TEST(a_run_allocates_nothing) {
  LS_OWN(counted, memory) = counted_begin(1);
  LS_OWN(lowered, program) = {0};
  lowered_make(
      &program,
      &(lowered_options){.num_uses = 1, .written = {true}, .text = step_text});
  const float x[128] = {1, 2, 3};
  float sum = 0;
  const uint64_t count = counted_now(&memory).allocations;
  for (int i = 0; i < 3; ++i) {
    expect_ok(lowered_run(&program, (const void *[]){x}, (void *[]){&sum}));
  }
  assert_int_equal(counted_now(&memory).allocations, count);
}

TEST(an_executable_outlives_what_it_was_made_of) {
  LS_OWN(lowered, program) = {0};
  lowered_make(
      &program,
      &(lowered_options){.num_uses = 1, .written = {true}, .text = step_text});
  const struct ls_backend_vtable *vtable = program.backend->vtable;
  ls_object_release(program.program);
  vtable->release_executable(program.executable);
  ls_object_release(program.buffers[0]);
  program.program = NULL;
  program.executable = NULL;
  program.buffers[0] = NULL;
  const float x[128] = {1};
  float sum = -1;
  expect_ok(lowered_run(&program, (const void *[]){x}, (void *[]){&sum}));
  assert_true(sum == 0);
}

TEST(the_plan_names_instructions_places_and_sizes) {
  LS_OWN(lowered, program) = {0};
  lowered_make(
      &program,
      &(lowered_options){.num_uses = 1, .written = {true}, .text = step_text});
  char *plan = lowered_plan(&program);
  expect_contains(plan, "inputs 1, outputs 1, variables 1, replicas 1\n");
  expect_contains(plan, "kernel matmul input 0:512, variable 0:1024 -> ");
  expect_contains(plan, "-> variable 0:1024\n");
  expect_contains(plan, "-> output 0:4\n");
  free(plan);
  assert_true(lowered_facts(&program).figures.flops == 2 * 2 * 8 * 16 * 16);
  assert_true(strlen(program.backend->vtable->numerics_id(program.backend)) >
              0);
}
