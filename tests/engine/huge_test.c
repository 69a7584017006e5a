// SPDX-License-Identifier: Apache-2.0
//
// Shapes as large as are possible: their work is counted, and of nothing
// nothing is done.
#include "support/expect.h"
#include "support/lowered.h"

TEST(work_that_64_bits_do_not_hold_is_counted) {
  LS_OWN(lowered, program) = {0};
  expect_ok(lowered_create(
      &(lowered_options){
          .text =
              "graph lowered \"p\" {"
              "  %1 = parameter() {dtype = f64, shape = "
              "shape[1,1099511627776,64], index = 0} : "
              "f64[1,1099511627776,64]"
              "  %2 = parameter() {dtype = f64, shape = shape[1,262144,64], "
              "index = 1} : f64[1,262144,64]"
              "  %3 = attention(%1, %2, %2) : f64[1,1099511627776,64]"
              "  return %3 }"},
      &program));
  assert_true(
      program.backend->vtable->facts(program.executable).figures.flops ==
      0x1p66);
}

TEST(attention_without_depth_does_nothing) {
  LS_OWN(lowered, program) = {0};
  expect_ok(lowered_create(
      &(lowered_options){
          .text = "graph lowered \"p\" {"
                  "  %1 = parameter() {dtype = f64, shape = "
                  "shape[64,1099511627776,0], index = 0} : "
                  "f64[64,1099511627776,0]"
                  "  %2 = attention(%1) {num_heads = 4611686018427387904} : "
                  "f64[64,1099511627776,0]"
                  "  %3 = attention_grad(%2, %1) {num_heads = "
                  "4611686018427387904} : f64[64,1099511627776,0]"
                  "  return %2, %3 }"},
      &program));
  char nothing[2];
  expect_ok(lowered_run(&program, (const void *[]){nothing},
                        (void *[]){&nothing[0], &nothing[1]}));
  assert_true(
      program.backend->vtable->facts(program.executable).figures.flops == 0);
}
