// SPDX-License-Identifier: Apache-2.0
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lockstep/runtime.h"

static unit_test *all_tests;
static unit_file *all_files;

void unit_test_add(unit_test *test) {
  test->next = all_tests;
  all_tests = test;
}

void unit_file_add(unit_file *file) {
  file->next = all_files;
  all_files = file;
}

static int compare_tests(const void *a, const void *b) {
  const unit_test *left = a, *right = b;
  const int by_file = strcmp(left->file, right->file);
  return by_file != 0 ? by_file : left->line - right->line;
}

// The tests of one file (NULL: of all), as they stand. The caller frees them.
static unit_tests tests_of(const char *file) {
  unit_tests found = {.file = file};
  for (const unit_test *test = all_tests; test != NULL; test = test->next)
    if (file == NULL || strcmp(test->file, file) == 0) ++found.count;
  found.items = calloc(found.count + 1, sizeof(*found.items));
  if (found.items == NULL) abort();
  size_t i = 0;
  for (const unit_test *test = all_tests; test != NULL; test = test->next)
    if (file == NULL || strcmp(test->file, file) == 0) found.items[i++] = *test;
  qsort(found.items, found.count, sizeof(*found.items), compare_tests);
  return found;
}

static const unit_file *file_of(const char *name) {
  static const unit_file plain = {0};
  for (const unit_file *file = all_files; file != NULL; file = file->next)
    if (strcmp(file->file, name) == 0) return file;
  return &plain;
}

// Runs those of one group with the fixtures of `file`.
static int run_group(const unit_tests *tests, int group, const char *heading,
                     const unit_file *file) {
  struct CMUnitTest *list = calloc(tests->count + 1, sizeof(*list));
  if (list == NULL) abort();
  size_t count = 0;
  for (size_t i = 0; i < tests->count; ++i) {
    if (tests->items[i].group != group) continue;
    list[count] = tests->items[i].test;
    list[count].setup_func = file->before_each;
    list[count++].teardown_func = file->after_each;
  }
  const int failed =
      count == 0 ? 0
                 : _cmocka_run_group_tests(heading, list, count, file->set_up,
                                           file->tear_down);
  free(list);
  return failed;
}

int unit_tests_run(const unit_tests *tests, int group, const char *heading) {
  return run_group(tests, group, heading, &(unit_file){0});
}

void unit_files_print(void) {
  const unit_tests all = tests_of(NULL);
  for (size_t i = 0; i < all.count; ++i)
    if (i == 0 || strcmp(all.items[i].file, all.items[i - 1].file) != 0)
      puts(all.items[i].file);
  free(all.items);
}

int unit_file_run(const char *name) {
  const unit_tests tests = tests_of(name);
  const unit_file *file = file_of(name);
  int failed = 0;
  if (tests.count == 0 && file->run == NULL) {
    fprintf(stderr, "unit_tests: no file of tests is called %s\n", name);
    failed = 2;
  } else if (file->run != NULL) {
    failed = file->run(&tests);
  } else {
    failed = run_group(&tests, 0, name, file);
    for (size_t i = 0; i < tests.count; ++i)
      if (tests.items[i].group != 0) abort();  // Nothing would run it.
  }
  free(tests.items);
  if (file->leaves != NULL) unlink(file->leaves);
  const ls_status ended = ls_runtime_destroy(NULL);
  if (!ls_status_is_ok(ended)) {
    fprintf(stderr, "%s: the default runtime cannot end: %s\n", name,
            ls_status_message(ended));
    ++failed;
  }
  ls_status_free(ended);
  return failed < 100 ? failed : 100;  // What an exit status can hold.
}
