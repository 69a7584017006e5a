// SPDX-License-Identifier: Apache-2.0
//
// All unit tests as one program: `unit_tests distribute/strategy_test` runs
// that file's tests, `unit_tests` lists the files. The list is written by
// cmake/tests.cmake.

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNIT_TEST(name, function) int function(void);
#include "unit_tests.def"
#undef UNIT_TEST

static const struct {
  const char *name;
  int (*run)(void);
} files[] = {
#define UNIT_TEST(name, function) {name, function},
#include "unit_tests.def"
#undef UNIT_TEST
};

int main(int argc, char **argv) {
  // Tests make many runtimes without a sink, and much that is warned of.
  setenv("LS_LOG", "off", 0);
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
    if (argc < 2)
      puts(files[i].name);
    else if (strcmp(argv[1], files[i].name) == 0)
      return files[i].run();
  if (argc < 2) return 0;
  fprintf(stderr, "unit_tests: no file of tests is called %s\n", argv[1]);
  return 2;
}
