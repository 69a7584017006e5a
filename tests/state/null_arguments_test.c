// SPDX-License-Identifier: Apache-2.0
//
// A NULL where something is needed is refused by name.
#include "lockstep/saver.h"
#include "support/expect.h"

// Something that is not NULL; nobody looks at it before all are there.
static char place[64];
static void *const some = place;

static void expect_null(ls_status status, const char *text) {
  expect_status(status, LS_INVALID_ARGUMENT, text);
}

static void calls_of_saver_refuse_null(void **state) {
  (void)state;
  expect_null(ls_saver_save(NULL, some), "ls_saver_save: saver is NULL");
  expect_null(ls_saver_save(some, NULL), "ls_saver_save: path is NULL");
  expect_null(ls_saver_restore(NULL, some), "ls_saver_restore: saver is NULL");
  expect_null(ls_saver_restore(some, NULL), "ls_saver_restore: path is NULL");
  expect_null(ls_saved_file_open(NULL, some),
              "ls_saved_file_open: path is NULL");
  expect_null(ls_saved_file_open(some, NULL),
              "ls_saved_file_open: out_file is NULL");
  expect_null(ls_saved_file_create_variable(NULL, some, some, some),
              "ls_saved_file_create_variable: file is NULL");
  expect_null(ls_saved_file_create_variable(some, NULL, some, some),
              "ls_saved_file_create_variable: name is NULL");
  expect_null(ls_saved_file_create_variable(some, some, some, NULL),
              "ls_saved_file_create_variable: out_variable is NULL");
  expect_null(ls_saved_file_restore(NULL, some),
              "ls_saved_file_restore: file is NULL");
  expect_null(ls_saved_file_restore(some, NULL),
              "ls_saved_file_restore: saver is NULL");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(calls_of_saver_refuse_null),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
