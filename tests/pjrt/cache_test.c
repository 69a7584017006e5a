// SPDX-License-Identifier: Apache-2.0
// Compiled programs are kept in files, and used again by later processes; a
// file that is not whole is ignored and written again.
#include <stdio.h>
#include <unistd.h>

#include "base/runtime_internal.h"
#include "lockstep/full.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/scratch.h"
#include "support/shim.h"
#include "support/values.h"

TEST_FILE(.set_up = scratch_enter, .tear_down = scratch_leave);

static const char *cache;  // The value of LS_PJRT_CACHE.

static const char *environment(void *user, const char *name) {
  (void)user;
  if (strcmp(name, "LS_PJRT_CACHE") == 0) return cache;
  return strcmp(name, "LS_LOG") == 0 ? "off" : NULL;
}

static ls_nest double_it(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_mul_scalar(ls_nest_tensor(args, 0), 2));
}

// Calls a function in a runtime of its own.
static void call_in_runtime(int num_devices) {
  LS_OWN(open_place, here) =
      runtime_begin((ls_runtime_options){.device = shim_device(),
                                         .num_devices = num_devices,
                                         .environment = environment,
                                         .threads = 1});
  LS_OWN(ls_function, function) = function_of(double_it, NULL);
  LS_OWN(ls_nest, args) = LS_TUPLE(vector_nest(2, (const float[]){10, 20}));
  LS_OWN(ls_nest, results) = call_results(function, args);
  assert_true(nest_element(results, 1) == 40);
}

static void expect_counts(const shim_state *shim, int compiles, int loads) {
  assert_int_equal(shim->compiles, compiles);
  assert_int_equal(shim->loads, loads);
}

TEST(a_program_is_compiled_once_for_all_processes) {
  shim_state *shim = shim_begin();
  cache = "kept";
  call_in_runtime(1);
  expect_counts(shim, 1, 0);
  call_in_runtime(1);
  expect_counts(shim, 1, 1);
  call_in_runtime(2);  // Still on one device.
  expect_counts(shim, 1, 2);
  cache = "off";
  call_in_runtime(1);
  expect_counts(shim, 2, 2);
  cache = NULL;  // The programs of CPUs are not kept by default.
  call_in_runtime(1);
  expect_counts(shim, 3, 2);
  remove_tree("kept");
}

TEST(a_plugin_that_fails_to_keep_or_load_a_program_compiles_it) {
  shim_state *shim = shim_begin();
  cache = "kept";
  shim->fault = SHIM_SERIALIZE;
  call_in_runtime(1);
  expect_counts(shim, 1, 0);
  call_in_runtime(1);
  expect_counts(shim, 2, 0);
  shim->fault = SHIM_LOAD;
  call_in_runtime(1);
  expect_counts(shim, 3, 0);
  shim->fault = SHIM_OTHER_RESULTS;
  call_in_runtime(1);
  expect_counts(shim, 4, 1);
  remove_tree("kept");
}

// Changes the only file of the folder: its byte at `place`, or its size.
static void damage_file(long at, long size) {
  ls_file_entry *entries = NULL;
  size_t count = 0;
  char path[256];
  const ls_file_system *files = ls_file_system_system();
  expect_ok(files->list(files->user, "kept", ls_allocator_system(), &entries,
                        &count));
  assert_int_equal(count, 1);
  snprintf(path, sizeof(path), "kept/%s", entries[0].name);
  ls_release(ls_allocator_system(), entries);
  if (size >= 0) {
    assert_int_equal(truncate(path, size), 0);
    return;
  }
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  assert_int_equal(fseek(file, at, at < 0 ? SEEK_END : SEEK_SET), 0);
  const int byte = fgetc(file);
  assert_int_equal(fseek(file, -1, SEEK_CUR), 0);
  fputc(byte ^ 1, file);
  assert_int_equal(fclose(file), 0);
}

TEST(a_damaged_file_is_ignored_and_written_again) {
  const struct {
    long at, size;
  } cases[] = {{0, -1},  {8, -1}, {24, -1}, {40, -1}, {60, -1},
               {-1, -1}, {0, 0},  {0, 10},  {0, 60},  {0, 300}};
  shim_state *shim = shim_begin();
  cache = "kept";
  call_in_runtime(1);
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i) {
    *shim = (shim_state){0};
    damage_file(cases[i].at, cases[i].size);
    call_in_runtime(1);
    expect_counts(shim, 1, 0);
    call_in_runtime(1);
    expect_counts(shim, 1, 1);
  }
  remove_tree("kept");
}
