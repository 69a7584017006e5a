// SPDX-License-Identifier: Apache-2.0
#include "support/expect.h"

#include "support/golden.h"

#define GOLDEN_FILE LS_TESTS_DIR "/golden/mlp.txt"

static void mlp_in_f64_is_that_of_jax(void **state) {
  (void)state;
  expect_golden("mlp", GOLDEN_FILE, &(golden_limits){LS_DTYPE_F64, 1e-9, 1e-9});
}

static void mlp_in_f32_is_near_that_of_jax(void **state) {
  (void)state;
  expect_golden("mlp", GOLDEN_FILE, &(golden_limits){LS_DTYPE_F32, 1e-4, 1e-3});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(mlp_in_f64_is_that_of_jax),
      cmocka_unit_test(mlp_in_f32_is_near_that_of_jax),
  };
  const int failures = cmocka_run_group_tests(tests, NULL, NULL);
  ls_status_free(ls_runtime_destroy(NULL));
  return failures;
}
