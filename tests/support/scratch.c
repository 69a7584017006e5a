// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "support/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/memory/allocator.h"
#include "base/runtime_internal.h"
#include "support/expect.h"

static char folder[] = "scratch-XXXXXX";

int scratch_enter(void **state) {
  (void)state;
  return mkdtemp(folder) == NULL || chdir(folder) != 0 ? 1 : 0;
}

int scratch_leave(void **state) {
  (void)state;
  return chdir("..") != 0 || rmdir(folder) != 0 ? 1 : 0;
}

int scratch_clear(void **state) {
  (void)state;
  ls_file_entry *entries = NULL;
  size_t count = 0;
  const ls_file_system *files = ls_file_system_system();
  expect_ok(files->list(NULL, ".", ls_allocator_system(), &entries, &count));
  for (size_t i = 0; i < count; ++i)
    unlink(entries[i].name);
  ls_release(ls_allocator_system(), entries);
  return 0;
}

void remove_tree(const char *path) {
  char command[300];
  snprintf(command, sizeof(command), "rm -rf '%s'", path);
  assert_int_equal(system(command), 0);
}
