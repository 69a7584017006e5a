// SPDX-License-Identifier: Apache-2.0
//
// A NULL where something is needed is refused by name.
#include "lockstep/tasks.h"
#include "support/expect.h"

// Something that is not NULL; nobody looks at it before all are there.
static _Alignas(16) char place[512];
static void *const some = place;

TEST(calls_of_models_refuse_null) {
  expect_null_argument(out_model, ls_model_create, some, some, NULL);
  expect_null_argument(out_batch, ls_model_synthetic_batch, some, 1, NULL);
  expect_null_argument(type, ls_model_type_adapt, NULL, NULL, 0, 0, some);
  expect_null_argument(out_type, ls_model_type_adapt, some, NULL, 0, 0, NULL);
  assert_null(ls_model_find(NULL));
}

TEST(a_type_that_makes_nothing_is_refused) {
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
