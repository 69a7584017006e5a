// SPDX-License-Identifier: Apache-2.0
//
// A NULL where something is needed is refused by name.
#include "lockstep/saved_file.h"
#include "support/expect.h"

// Something that is not NULL; nobody looks at it before all are there.
static _Alignas(16) char place[512];
static void *const some = place;

TEST(calls_of_saver_refuse_null) {
  expect_null_argument(saver, ls_saver_save, NULL, some);
  expect_null_argument(path, ls_saver_save, some, NULL);
  expect_null_argument(saver, ls_saver_restore, NULL, some);
  expect_null_argument(path, ls_saver_restore, some, NULL);
  expect_null_argument(path, ls_saved_file_open, NULL, some);
  expect_null_argument(out_file, ls_saved_file_open, some, NULL);
  expect_null_argument(file, ls_saved_file_create_variable, NULL, some, some,
                       some);
  expect_null_argument(name, ls_saved_file_create_variable, some, NULL, some,
                       some);
  expect_null_argument(out_variable, ls_saved_file_create_variable, some, some,
                       some, NULL);
  expect_null_argument(saver, ls_saver_restore_part, NULL, some, NULL, NULL);
  expect_null_argument(path, ls_saver_restore_part, some, NULL, NULL, NULL);
  expect_null_argument(path, ls_saved_file_open_unread, NULL, some);
  expect_null_argument(out_file, ls_saved_file_open_unread, some, NULL);
  expect_null_argument(file, ls_saved_file_entry, NULL, 0, some);
  expect_null_argument(out_entry, ls_saved_file_entry, some, 0, NULL);
  expect_null_argument(file, ls_saved_file_read, NULL, 0, some);
  expect_null_argument(out_array, ls_saved_file_read, some, 0, NULL);
  expect_null_argument(file, ls_saved_file_check, NULL, 0);
  expect_null_argument(file, ls_saved_file_records, NULL, some, some);
  expect_null_argument(folder, ls_saved_steps, NULL, some, 1, some);
  expect_null_argument(out_count, ls_saved_steps, some, some, 1, NULL);
  expect_null_argument(steps, ls_saved_steps, some, NULL, 1, some);
  expect_null_argument(file, ls_saved_file_write, NULL, some, NULL, NULL);
  expect_null_argument(path, ls_saved_file_write, some, NULL, NULL, NULL);
  expect_null_argument(file, ls_saved_file_restore_part, NULL, some, NULL,
                       NULL);
  expect_null_argument(saver, ls_saved_file_restore_part, some, NULL, NULL,
                       NULL);
  expect_null_argument(file, ls_saved_file_restore, NULL, some);
  expect_null_argument(saver, ls_saved_file_restore, some, NULL);
}
