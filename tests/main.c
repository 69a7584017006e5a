// SPDX-License-Identifier: Apache-2.0
//
// All unit tests as one program: `unit_tests distribute/strategy_test` runs
// that file's tests, `unit_tests` lists the files. A second argument is a
// pattern that names some of the tests, such as `*_is_refused`.

#define _GNU_SOURCE
#include <stdlib.h>

#include "support/test.h"

int main(int argc, char **argv) {
  // Tests make many runtimes without a sink, and much that is warned of.
  setenv("LS_LOG", "off", 0);
  if (argc > 2) cmocka_set_test_filter(argv[2]);
  if (argc > 1) return unit_file_run(argv[1]);
  unit_files_print();
  return 0;
}
