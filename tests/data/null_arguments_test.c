// SPDX-License-Identifier: Apache-2.0
//
// A NULL where something is needed is refused by name.
#include "lockstep/data.h"
#include "support/expect.h"

// Something that is not NULL; nobody looks at it before all are there.
static char place[64];
static void *const some = place;

static void expect_null(ls_status status, const char *text) {
  expect_status(status, LS_INVALID_ARGUMENT, text);
}

static void calls_of_data_refuse_null(void **state) {
  (void)state;
  expect_null(ls_examples_create(NULL, some, some),
              "ls_examples_create: examples is NULL");
  expect_null(ls_examples_create(some, NULL, some),
              "ls_examples_create: labels is NULL");
  expect_null(ls_examples_create(some, some, NULL),
              "ls_examples_create: out_dataset is NULL");
  expect_null(ls_examples_fashion_mnist(some, false, NULL),
              "ls_examples_fashion_mnist: out_dataset is NULL");
  expect_null(ls_examples_text(NULL, some, some),
              "ls_examples_text: path is NULL");
  expect_null(ls_examples_text(some, some, NULL),
              "ls_examples_text: out_dataset is NULL");
  expect_null(ls_examples_synthetic(some, NULL),
              "ls_examples_synthetic: out_dataset is NULL");
  expect_null(ls_batcher_create(NULL, some, some),
              "ls_batcher_create: dataset is NULL");
  expect_null(ls_batcher_create(some, some, NULL),
              "ls_batcher_create: out_batcher is NULL");
  expect_null(ls_batcher_seek(NULL, 0, 0), "ls_batcher_seek: batcher is NULL");
  expect_null(ls_batcher_next(NULL, some), "ls_batcher_next: batcher is NULL");
  expect_null(ls_batcher_next(some, NULL), "ls_batcher_next: batch is NULL");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(calls_of_data_refuse_null),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
