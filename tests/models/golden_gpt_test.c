// SPDX-License-Identifier: Apache-2.0
#include "support/expect.h"

#include "support/golden.h"

#define GOLDEN_FILE LS_TESTS_DIR "/golden/gpt.txt"

TEST(gpt_in_f64_is_that_of_jax) {
  expect_golden("gpt", GOLDEN_FILE, &(golden_limits){LS_DTYPE_F64, 1e-9, 1e-9});
}

TEST(gpt_in_f32_is_near_that_of_jax) {
  expect_golden("gpt", GOLDEN_FILE, &(golden_limits){LS_DTYPE_F32, 1e-4, 1e-3});
}
