// SPDX-License-Identifier: Apache-2.0
//
// A NULL where something is needed is refused by name.
#include "lockstep/saved_file.h"
#include "support/expect.h"

// Something that is not NULL; nobody looks at it before all are there.
static _Alignas(16) char place[512];
static void *const some = place;

TEST(calls_of_saver_refuse_null) {
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
  expect_null(ls_saver_restore_part(NULL, some, NULL, NULL),
              "ls_saver_restore_part: saver is NULL");
  expect_null(ls_saver_restore_part(some, NULL, NULL, NULL),
              "ls_saver_restore_part: path is NULL");
  expect_null(ls_saved_file_open_unread(NULL, some),
              "ls_saved_file_open_unread: path is NULL");
  expect_null(ls_saved_file_open_unread(some, NULL),
              "ls_saved_file_open_unread: out_file is NULL");
  expect_null(ls_saved_file_entry(NULL, 0, some),
              "ls_saved_file_entry: file is NULL");
  expect_null(ls_saved_file_entry(some, 0, NULL),
              "ls_saved_file_entry: out_entry is NULL");
  expect_null(ls_saved_file_read(NULL, 0, some),
              "ls_saved_file_read: file is NULL");
  expect_null(ls_saved_file_read(some, 0, NULL),
              "ls_saved_file_read: out_array is NULL");
  expect_null(ls_saved_file_check(NULL, 0),
              "ls_saved_file_check: file is NULL");
  expect_null(ls_saved_file_records(NULL, some, some),
              "ls_saved_file_records: file is NULL");
  expect_null(ls_saved_steps(NULL, some, 1, some),
              "ls_saved_steps: folder is NULL");
  expect_null(ls_saved_steps(some, some, 1, NULL),
              "ls_saved_steps: out_count is NULL");
  expect_null(ls_saved_steps(some, NULL, 1, some),
              "ls_saved_steps: steps is NULL");
  expect_null(ls_saved_file_write(NULL, some, NULL, NULL),
              "ls_saved_file_write: file is NULL");
  expect_null(ls_saved_file_write(some, NULL, NULL, NULL),
              "ls_saved_file_write: path is NULL");
  expect_null(ls_saved_file_restore_part(NULL, some, NULL, NULL),
              "ls_saved_file_restore_part: file is NULL");
  expect_null(ls_saved_file_restore_part(some, NULL, NULL, NULL),
              "ls_saved_file_restore_part: saver is NULL");
  expect_null(ls_saved_file_restore(NULL, some),
              "ls_saved_file_restore: file is NULL");
  expect_null(ls_saved_file_restore(some, NULL),
              "ls_saved_file_restore: saver is NULL");
}
