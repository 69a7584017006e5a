// SPDX-License-Identifier: Apache-2.0
//
// A NULL where something is needed is refused by name.
#include "lockstep/models.h"
#include "support/expect.h"

// Something that is not NULL; nobody looks at it before all are there.
static _Alignas(16) char place[512];
static void *const some = place;

static void expect_null(ls_status status, const char *text) {
  expect_status(status, LS_INVALID_ARGUMENT, text);
}

static void calls_of_models_refuse_null(void **state) {
  (void)state;
  expect_null(ls_model_create(some, some, NULL),
              "ls_model_create: out_model is NULL");
  expect_null(ls_model_synthetic_batch(some, 1, NULL),
              "ls_model_synthetic_batch: out_batch is NULL");
  assert_null(ls_model_find(NULL));
}

static void a_type_that_makes_nothing_is_refused(void **state) {
  (void)state;
  ls_model_type type = *ls_model_find("tiny");
  type.create = NULL;
  ls_model model = {.self = some};
  expect_null(ls_model_create(&type, NULL, &model),
              "ls_model_create: type->create is NULL");
  assert_null(model.self);
  ls_model_destroy(&model);
  type = *ls_model_find("tiny");
  type.destroy = NULL;
  expect_null(ls_model_create(&type, NULL, &model),
              "ls_model_create: type->destroy is NULL");
  ls_model_destroy(&model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(calls_of_models_refuse_null),
      cmocka_unit_test(a_type_that_makes_nothing_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
