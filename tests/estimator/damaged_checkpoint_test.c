// SPDX-License-Identifier: Apache-2.0
//
// What is told where the newest checkpoint is damaged.
#include <stdio.h>
#include <string.h>

#include "lockstep/estimator_export.h"
#include "lockstep/ops.h"
#include "support/estimator_ways.h"

static ls_status receive(void *user, ls_serving_receiver *out) {
  (void)user;
  out->features = ls_leaf(ls_placeholder(
      LS_DTYPE_F32, LS_SHAPE(LS_UNKNOWN_DIM, ESTIMATOR_WIDTH), "x"));
  return ls_ok();
}

static ls_status evaluate(estimator_case *c, const char *from) {
  ls_nest metrics = ls_none();
  const ls_status status = ls_estimator_evaluate(
      c->estimator,
      &(ls_estimator_evaluation){
          .input = estimator_input(c), .steps = LS_SOME(2), .checkpoint = from},
      &metrics);
  ls_nest_release(metrics);
  return status;
}

static ls_status predict(estimator_case *c, const char *from) {
  ls_predictions *predictions = NULL;
  LS_RETURN_IF_ERROR(
      ls_estimator_predict(c->estimator,
                           &(ls_estimator_prediction){
                               .input = estimator_input(c), .checkpoint = from},
                           &predictions));
  return ls_predictions_close(predictions);
}

static ls_status export_to(estimator_case *c, const char *from) {
  char *path = NULL;
  const ls_status status = ls_estimator_export(
      c->estimator,
      &(ls_estimator_exporting){
          .base = "exports", .receiver = {receive, NULL}, .checkpoint = from},
      &path);
  ls_text_release(path);
  return status;
}

// Values of step 4, whose head stays whole.
static void damage(const char *folder, int step) {
  char path[100];
  snprintf(path, sizeof(path), "%s/model.ckpt-%d.safetensors", folder, step);
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  assert_int_equal(fseek(file, -3, SEEK_END), 0);
  const int byte = fgetc(file);
  assert_int_equal(fseek(file, -3, SEEK_END), 0);
  fputc(byte ^ 4, file);
  fclose(file);
}

static void the_one_that_is_whole_is_told(void **state) {
  (void)state;
  ls_status (*const calls[])(estimator_case * c,
                             const char *from) = {evaluate, predict, export_to};
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    estimator_case c = estimator_case_of(i);
    c.folder = "damaged";
    c.repeats = true;
    c.save_steps = LS_SOME(2);
    estimator_case_begin(&c);
    estimator_case_train(&c, 4);
    damage("damaged", 4);
    for (size_t k = 0; k < 3; ++k) {
      expect_status(calls[k](&c, NULL), LS_DATA_LOSS,
                    "model.ckpt-4.safetensors");
      expect_status(calls[k](&c, NULL), LS_DATA_LOSS,
                    "'damaged/model.ckpt-2' is whole");
      expect_ok(calls[k](&c, "damaged/model.ckpt-2"));
    }
    // As is said, a training goes on from there.
    assert_int_equal(estimator_case_train(&c, 4).step, 4);
    expect_ok(evaluate(&c, NULL));
    estimator_case_end(&c);
  }
}

static void that_none_is_whole_is_told(void **state) {
  (void)state;
  estimator_case c = {.folder = "damaged-all", .repeats = true};
  c.save_steps = LS_SOME(2);
  estimator_case_begin(&c);
  estimator_case_train(&c, 2);
  damage("damaged-all", 0);
  damage("damaged-all", 2);
  expect_status(evaluate(&c, NULL), LS_DATA_LOSS,
                "no checkpoint in 'damaged-all' is whole");
  // Of another folder nothing is said.
  damage("damaged", 2);
  const ls_status status = evaluate(&c, "damaged/model.ckpt-2");
  assert_int_equal(ls_status_code(status), LS_DATA_LOSS);
  assert_null(strstr(ls_status_message(status), "is whole"));
  ls_status_free(status);
  estimator_case_end(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_one_that_is_whole_is_told),
      cmocka_unit_test(that_none_is_whole_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
