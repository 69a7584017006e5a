// SPDX-License-Identifier: Apache-2.0
// The model mlp against what JAX makes of the same numbers: see
// tools/make-goldens.py, which writes the golden file and says what is in it.
#include "support/expect.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lockstep/eager.h"
#include "support/mlp.h"

enum { STEPS = 20, BATCH = 256, STREAM_CHECKSUM = 102 };

typedef struct golden {
  double loss[STEPS];
  double norm[MLP_MAX_VARIABLES];
  double checksum[MLP_MAX_VARIABLES];
} golden;

// ---- The golden file -------------------------------------------------------
static double *place_in(golden *values, const char *what, int index) {
  const bool is_loss = strcmp(what, "loss") == 0;
  assert_in_range(index, 0, is_loss ? STEPS - 1 : MLP_MAX_VARIABLES - 1);
  if (is_loss) return &values->loss[index];
  if (strcmp(what, "norm") == 0) return &values->norm[index];
  assert_string_equal(what, "checksum");
  return &values->checksum[index];
}

static golden read_golden(const char *dtype) {
  FILE *file = fopen(LS_TESTS_DIR "/golden/mlp.txt", "r");
  assert_non_null(file);
  golden values = {0};
  int count = 0;
  char line[200];
  while (fgets(line, sizeof(line), file) != NULL) {
    char name[8], what[16];
    int index = 0;
    double value = 0;
    if (line[0] == '#') continue;
    assert_int_equal(
        sscanf(line, "%7s %15s %d %lf", name, what, &index, &value), 4);
    if (strcmp(name, dtype) != 0) continue;
    *place_in(&values, what, index) = value;
    ++count;
  }
  fclose(file);
  assert_int_equal(count, STEPS + 2 * MLP_MAX_VARIABLES);
  return values;
}

// ---- What we make of it ----------------------------------------------------
static void measure(const mlp *model, golden *out) {
  for (size_t i = 0; i < model->num_variables; ++i) {
    ls_array *value = NULL;
    expect_ok(ls_variable_value(model->variables[i], &value));
    long double squares = 0, products = 0;
    for (int64_t k = 0; k < ls_array_num_elements(value); ++k) {
      const uint32_t bits = mlp_hash(STREAM_CHECKSUM, (uint32_t)k) >> 20;
      const long double x = ls_array_f64(value, k);
      squares += x * x;
      products += x * (((long double)bits - 2048) / 2048);
    }
    out->norm[i] = (double)sqrtl(squares);
    out->checksum[i] = (double)products;
    ls_array_release(value);
  }
}

static golden train(ls_dtype dtype) {
  golden got = {0};
  mlp model = {0};
  ls_array *examples = NULL, *labels = NULL;
  ls_function *step = NULL;
  expect_ok(mlp_create(&mlp_large, dtype, &model));
  expect_ok(mlp_batch(&mlp_large, dtype, 0, BATCH, &examples, &labels));
  expect_ok(ls_function_create(
      &(ls_function_options){.call = mlp_step, .user = &model}, &step));
  ls_nest args = LS_TUPLE(ls_nest_array(examples), ls_nest_array(labels));
  ls_nest loss = ls_none();
  for (int i = 0; i < STEPS; ++i) {
    expect_ok(ls_function_call(step, args, &loss));
    assert_int_equal(ls_array_dtype(ls_nest_as_array(loss)), dtype);
    got.loss[i] = ls_array_f64(ls_nest_as_array(loss), 0);
  }
  measure(&model, &got);
  ls_nest_release(args);
  ls_nest_release(loss);
  ls_function_release(step);
  mlp_destroy(&model);
  return got;
}

// ---- Comparing -------------------------------------------------------------
static double worst;  // Of the errors seen, relative.

// The error may be `tolerance` times `scale`.
static void expect_near(const char *what, size_t index, double got, double want,
                        double scale, double tolerance) {
  const double error = fabs(got - want) / scale;
  if (error > worst) worst = error;
  if (!(error <= tolerance))
    fail_msg("%s %zu: wanted %.17g, got %.17g, off by %.3g of %.3g", what,
             index, want, got, error, scale);
}

static void expect_golden(const char *name, ls_dtype dtype, double tolerance) {
  const golden want = read_golden(name);
  const golden got = train(dtype);
  worst = 0;
  for (size_t i = 0; i < STEPS; ++i)
    expect_near("loss", i, got.loss[i], want.loss[i], want.loss[i], tolerance);
  for (size_t i = 0; i < MLP_MAX_VARIABLES; ++i) {
    // A checksum is a sum with cancellation: its terms have the norm's size.
    expect_near("norm", i, got.norm[i], want.norm[i], want.norm[i], tolerance);
    expect_near("checksum", i, got.checksum[i], want.checksum[i], want.norm[i],
                tolerance);
  }
  print_message("%s: off by at most %.2g\n", name, worst);
}

static void mlp_in_f64_is_that_of_jax(void **state) {
  (void)state;
  expect_golden("f64", LS_DTYPE_F64, 1e-9);
}

static void mlp_in_f32_is_near_that_of_jax(void **state) {
  (void)state;
  expect_golden("f32", LS_DTYPE_F32, 1e-3);
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
