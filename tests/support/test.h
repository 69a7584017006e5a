// SPDX-License-Identifier: Apache-2.0
// Tests that register themselves where they stand:
//
//   TEST(a_queue_that_is_closed_gives_what_is_left) { ... }
//
// tests/main.c runs those of one file, in the order in which they stand.
// Include this instead of cmocka.h, which needs four headers before it.
#ifndef LS_TESTS_SUPPORT_TEST_H_
#define LS_TESTS_SUPPORT_TEST_H_

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

typedef struct unit_test {
  const char *file;
  int line;
  int group;  // 0, but for files with a `run` of their own.
  struct CMUnitTest test;
  struct unit_test *next;
} unit_test;

// The tests of one file.
typedef struct unit_tests {
  const char *file;
  unit_test *items;
  size_t count;
} unit_tests;

// What a file does around its tests; each field may be NULL.
typedef struct unit_file {
  const char *file;
  CMFixtureFunction set_up, tear_down;  // Before the first, after the last.
  CMFixtureFunction before_each, after_each;  // They may set `*state`.
  int (*run)(const unit_tests *tests);        // Instead of running each once.
  const char *leaves;  // A file that they leave, which is removed.
  struct unit_file *next;
} unit_file;

// Both are static. Called before main.
void unit_test_add(unit_test *test);
void unit_file_add(unit_file *file);

// Runs the tests of one group, under this heading; returns how many failed.
int unit_tests_run(const unit_tests *tests, int group, const char *heading);

// Prints the names of all files with tests.
void unit_files_print(void);
// Runs the tests of a file, and then destroys the default runtime, which must
// have nothing left to do. Returns an exit status, 2 if there is no such file.
int unit_file_run(const char *name);

// LS_TEST_FILE comes from the build: "folder/noun_test".
#define TEST(name) TEST_IN(0, name)
#define TEST_IN(group, name) TEST_NAMED(group, name, #name)
#define TEST_NAMED(group, function, text)                                      \
  static void function(void **state);                                          \
  __attribute__((constructor)) static void add_test_##function(void) {         \
    static unit_test test = {LS_TEST_FILE,                                     \
                             __LINE__,                                         \
                             group,                                            \
                             {.name = (text), .test_func = (function)},        \
                             NULL};                                            \
    unit_test_add(&test);                                                      \
  }                                                                            \
  static void function(__attribute__((unused)) void **state)

// Once in a file that needs it: TEST_FILE(.set_up = make_folder)
#define TEST_FILE(...)                                                         \
  __attribute__((constructor)) static void add_test_file(void) {               \
    static unit_file file = {.file = LS_TEST_FILE, __VA_ARGS__};               \
    unit_file_add(&file);                                                      \
  }

#endif  // LS_TESTS_SUPPORT_TEST_H_
