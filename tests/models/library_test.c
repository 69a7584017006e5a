// SPDX-License-Identifier: Apache-2.0
//
// Shared libraries of models that a program loads.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lockstep/estimator_table.h"
#include "lockstep/optimizer_table.h"
#include "support/expect.h"

// Writes the path of one of the libraries in tests/cli/libraries, which are
// built with the command; skips the test if there is none.
static const char *library_path(const char *name, char *buffer, size_t size) {
  const char *folder = getenv("LS_BUILD_DIR");
  snprintf(buffer, size, "%s/tests/cli/libraries/%s.so",
           folder != NULL ? folder : ".", name);
  if (access(buffer, F_OK) != 0) skip();
  return buffer;
}

TEST(a_library_of_models_lists_its_models) {
  char path[4096];
  ls_model_library library;
  expect_ok(ls_model_library_open(library_path("another", path, sizeof(path)),
                                  &library));
  assert_int_equal(library.count, 2);
  assert_string_equal(library.types[0]->name, "line");
  assert_string_equal(library.types[1]->name, "curve");
  const ls_estimator_type *const *estimators = NULL;
  size_t count = 7;
  expect_ok(ls_model_library_estimators(&library, &estimators, &count));
  assert_int_equal(count, 0);
  assert_null(estimators);
  ls_model_library_close(&library);
  assert_null(library.types);
  ls_model_library_close(&library);
  ls_model_library_close(NULL);
}

TEST(a_library_of_estimators_has_no_models) {
  char path[4096];
  ls_model_library library;
  expect_ok(ls_model_library_open(
      library_path("estimators", path, sizeof(path)), &library));
  assert_int_equal(library.count, 0);
  const ls_estimator_type *const *estimators = NULL;
  size_t count = 0;
  expect_ok(ls_model_library_estimators(&library, &estimators, &count));
  assert_int_equal(count, 4);
  assert_string_equal(estimators[0]->name, "line");
  ls_model_library_close(&library);
}

TEST(a_library_of_optimizers_lists_its_rules_and_has_the_hash_of_its_file) {
  char path[4096], command[5000], hash[65] = "";
  ls_model_library library;
  expect_ok(ls_model_library_open(
      library_path("optimizers", path, sizeof(path)), &library));
  assert_int_equal(library.count, 0);
  const ls_optimizer_rule *const *rules = NULL;
  size_t count = 0;
  expect_ok(ls_model_library_optimizers(&library, &rules, &count));
  assert_int_equal(count, 2);
  assert_string_equal(rules[0]->name, "heavy");
  assert_string_equal(rules[1]->name, "steady");
  snprintf(command, sizeof(command), "sha256sum '%s'", path);
  FILE *file = popen(command, "r");
  assert_non_null(file);
  assert_non_null(fgets(hash, sizeof(hash), file));
  pclose(file);
  assert_string_equal(library.sha256, hash);
  ls_model_library_close(&library);
  expect_ok(ls_model_library_open(library_path("mine", path, sizeof(path)),
                                  &library));
  expect_ok(ls_model_library_optimizers(&library, &rules, &count));
  assert_int_equal(count, 0);
  ls_model_library_close(&library);
}

TEST(files_that_are_no_libraries_of_models_are_refused) {
  static const struct {
    const char *name, *says;
  } rows[] = {
      {"no_models", "does not export 'ls_exported_models'; see "
                    "LS_EXPORT_MODELS"},
      {"other_version", "has models of version 2, this program needs 1: "
                        "compile it again"},
      {"small", "has models of an older Lockstep"},
  };
  char path[4096];
  ls_model_library library;
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
    memset(&library, 7, sizeof(library));
    expect_status(ls_model_library_open(
                      library_path(rows[i].name, path, sizeof(path)), &library),
                  LS_INVALID_ARGUMENT, rows[i].says);
    assert_null(library.handle);
  }
  expect_status(ls_model_library_open("./none.so", &library), LS_NOT_FOUND,
                "cannot load './none.so': No such file");
  FILE *file = fopen("out.so", "w");
  assert_non_null(file);
  assert_int_equal(fclose(file), 0);
  expect_status(ls_model_library_open("out.so", &library), LS_INVALID_ARGUMENT,
                "cannot load 'out.so' as a shared library");
  unlink("out.so");
}

TEST(calls_of_libraries_refuse_null) {
  ls_model_library library = {0};
  const ls_estimator_type *const *types = NULL;
  size_t count = 1;
  expect_null_argument(out_library, ls_model_library_open, "mine.so", NULL);
  expect_null_argument(path, ls_model_library_open, NULL, &library);
  expect_null_argument(library, ls_model_library_estimators, NULL, &types,
                       &count);
  expect_null_argument(out_types, ls_model_library_estimators, &library, NULL,
                       &count);
  expect_null_argument(out_count, ls_model_library_estimators, &library, &types,
                       NULL);
  expect_status(ls_model_library_estimators(&library, &types, &count),
                LS_INVALID_ARGUMENT, "the library of models is not open");
  assert_int_equal(count, 0);
  const ls_optimizer_rule *const *rules = NULL;
  expect_null_argument(library, ls_model_library_optimizers, NULL, &rules,
                       &count);
  expect_null_argument(out_rules, ls_model_library_optimizers, &library, NULL,
                       &count);
  expect_null_argument(out_count, ls_model_library_optimizers, &library, &rules,
                       NULL);
  expect_status(ls_model_library_optimizers(&library, &rules, &count),
                LS_INVALID_ARGUMENT, "the library of models is not open");
}
