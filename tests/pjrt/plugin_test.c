// SPDX-License-Identifier: Apache-2.0
// What is wrong with a plug-in or the options of its runtime: one clear error,
// and the process goes on.
#include <stdio.h>
#include <stdlib.h>

#include "engine/backend.h"
#include "support/expect.h"
#include "support/plugin.h"

static void expect_refused(const char *device, int num_devices, ls_code code,
                           const char *part) {
  LS_OWN(open_place, here) = runtime_begin((ls_runtime_options){
      .device = device, .num_devices = num_devices, .threads = 1});
  ls_backend *backend = NULL;
  expect_status(ls_runtime_backend(here.runtime, &backend), code, part);
  assert_null(backend);
}

TEST(options_of_devices_are_checked) {
  ls_runtime *runtime = NULL;
  const struct {
    ls_runtime_options options;
    const char *part;
  } cases[] = {
      {{.device = "cuda"}, "there is no device 'cuda'"},
      {{.device = ""}, "there is no device ''"},
      {{.device = "pjrt:"}, "there is no device 'pjrt:'"},
      {{.device = "pjrt", .num_devices = -1}, "-1 devices"},
      {{.device = "pjrt", .num_devices = 5000}, "5000 devices"},
      {{.num_devices = 2}, "2 devices 'cpu'"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i) {
    expect_status(ls_runtime_create(&cases[i].options, &runtime),
                  LS_INVALID_ARGUMENT, cases[i].part);
    assert_null(runtime);
  }
}

TEST(a_plugin_that_cannot_be_loaded_is_an_error) {
  FILE *file = fopen("text.so", "w");
  assert_non_null(file);
  fputs("no library\n", file);
  fclose(file);
  expect_refused("pjrt:./text.so", 0, LS_NOT_FOUND, "text.so");
  remove("text.so");
  expect_refused("pjrt:/nowhere/plugin.so", 0, LS_NOT_FOUND, "/nowhere");
  expect_refused("pjrt:libm.so.6", 0, LS_INVALID_ARGUMENT,
                 "has no function GetPjrtApi");
}

TEST(device_pjrt_needs_a_name_of_a_plugin) {
  const char *given = getenv("LS_PJRT_PLUGIN");
  char *kept = given != NULL ? strdup(given) : NULL;
  unsetenv("LS_PJRT_PLUGIN");
  expect_refused("pjrt", 0, LS_NOT_FOUND, "LS_PJRT_PLUGIN");
  expect_refused("gpu", 0, LS_NOT_FOUND, "xla_cuda_plugin.so");
  setenv("LS_PJRT_PLUGIN", "/nowhere/plugin.so", 1);
  expect_refused("tpu", 0, LS_NOT_FOUND, "/nowhere/plugin.so");
  if (kept != NULL) setenv("LS_PJRT_PLUGIN", kept, 1);
  if (kept == NULL) unsetenv("LS_PJRT_PLUGIN");
  free(kept);
}

TEST(a_flag_of_xla_that_the_plugin_does_not_know_is_refused) {
  const char *device = plugin_device();
  setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=false --xla_no_such_flag=1",
         1);
  expect_refused(device, 0, LS_INVALID_ARGUMENT, "--xla_no_such_flag=1");
  setenv("XLA_FLAGS", "/nowhere/flags", 1);
  expect_refused(device, 0, LS_NOT_FOUND, "XLA_FLAGS");
  setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=false", 1);
  LS_OWN(open_place, here) =
      runtime_begin((ls_runtime_options){.device = device});
  ls_backend *backend = NULL;
  expect_ok(ls_runtime_backend(here.runtime, &backend));
  unsetenv("XLA_FLAGS");
}

TEST(devices_of_another_platform_are_refused) {
  const char *device = plugin_device();
  const char *given = getenv("LS_PJRT_PLUGIN");
  char *kept = given != NULL ? strdup(given) : NULL;
  setenv("LS_PJRT_PLUGIN", device + strlen("pjrt:"), 1);
  expect_refused("gpu", 0, LS_FAILED_PRECONDITION, "platform 'cpu'");
  expect_refused("tpu", 3, LS_FAILED_PRECONDITION, "platform 'cpu'");
  if (kept != NULL) setenv("LS_PJRT_PLUGIN", kept, 1);
  if (kept == NULL) unsetenv("LS_PJRT_PLUGIN");
  free(kept);
}

TEST(several_runtimes_share_a_plugin) {
  LS_OWN(open_place, one) = plugin_runtime(1);
  LS_OWN(open_place, two) = plugin_runtime(3);
  ls_backend *backends[2] = {NULL, NULL};
  expect_ok(ls_runtime_backend(one.runtime, &backends[0]));
  expect_ok(ls_runtime_backend(two.runtime, &backends[1]));
  const char *first = backends[0]->vtable->numerics_id(backends[0]);
  const char *second = backends[1]->vtable->numerics_id(backends[1]);
  expect_contains(first, "1 devices");
  expect_contains(second, "3 devices");
}
