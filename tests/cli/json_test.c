// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "support/expect.h"

#include <stdlib.h>
#include <unistd.h>

// The program's own, which is not in the library.
#include "cli/json.c"

static void expect_printed(ls_nest values, const char *wanted) {
  HEAP(char, text) = NULL;
  size_t size = 0;
  FILE *file = tmpfile();
  assert_non_null(file);
  fflush(stdout);
  const int kept = dup(STDOUT_FILENO);
  assert_true(dup2(fileno(file), STDOUT_FILENO) >= 0);
  cli_print_values(values);
  fflush(stdout);
  assert_true(dup2(kept, STDOUT_FILENO) >= 0);
  close(kept);
  rewind(file);
  assert_true(getline(&text, &size, file) > 0);
  fclose(file);
  assert_string_equal(text, wanted);
  ls_nest_release(values);
}

static ls_nest array_of(ls_dtype dtype, int64_t count, const void *items) {
  ls_array *array = NULL;
  expect_ok(ls_array_create_copy(dtype, LS_SHAPE(count), items, &array));
  return ls_nest_array(array);
}

TEST(values_of_every_kind_are_json) {
  const float single[] = {0.5f, -2, INFINITY, 0};
  const double wide[] = {0.1, 3};
  const uint8_t flags[] = {0, 1};
  const uint64_t large[] = {UINT64_MAX};
  expect_printed(array_of(LS_DTYPE_C64, 2, single), "[[0.5,-2],[null,0]]");
  expect_printed(array_of(LS_DTYPE_C128, 1, wide), "[[0.10000000000000001,3]]");
  expect_printed(array_of(LS_DTYPE_BOOL, 2, flags), "[false,true]");
  expect_printed(array_of(LS_DTYPE_U64, 1, large), "[18446744073709551615]");
  expect_printed(ls_nest_bool(true), "true");
  expect_printed(LS_LIST(ls_nest_i64(7), ls_none()), "[7,null]");
}
