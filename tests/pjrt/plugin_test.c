// SPDX-License-Identifier: Apache-2.0
// What is wrong with a plug-in or the options of its runtime: one clear error,
// and the process goes on.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/runtime_internal.h"
#include "engine/backend.h"
#include "lockstep/lockstep.h"
#include "runtime/own.h"
#include "support/expect.h"
#include "support/plugin.h"

static ls_nest exponential(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_exp(ls_nest_tensor(args, 0)));
}

// Expects the first use of a device to say what is wrong, whatever it is.
static void expect_uses_refused(ls_code code, const char *part) {
  LS_OWN(ls_function, function) = NULL;
  LS_OWN(ls_nest, results) = ls_none();
  LS_OWN(ls_variable, variable) = NULL;
  expect_ok(ls_function_create(&(ls_function_options){.call = exponential},
                               &function));
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_f64(1));
  expect_status(ls_function_call(function, args, &results), code, part);
  const ls_tensor made = ls_exp(ls_scalar(LS_DTYPE_F32, 1));
  expect_status(ls_tensor_status(made), code, part);
  expect_status(ls_graph_take_error(ls_graph_current()), code, part);
  expect_status(ls_variable_create(&(ls_variable_options){.dtype = LS_DTYPE_F32,
                                                          .shape = LS_SCALAR},
                                   &variable),
                code, part);
  expect_status(ls_frame_begin(), code, part);
}

static void expect_refused(const char *device, int num_devices, ls_code code,
                           const char *part) {
  LS_OWN(open_place, here) = runtime_begin((ls_runtime_options){
      .device = device, .num_devices = num_devices, .threads = 1});
  ls_backend *backend = NULL;
  expect_status(ls_runtime_backend(here.runtime, &backend), code, part);
  assert_null(backend);
  expect_uses_refused(code, part);
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
      {{.topology = "v5e:2x2"}, "not for device 'cpu'"},
      {{.device = "tpu", .topology = ""}, "there is no topology ''"},
      {{.device = "tpu", .topology = ":2x2"}, "there is no topology ':2x2'"},
      {{.device = "tpu", .topology = "v5e:-2x2"}, "such as v5e:2x2"},
      {{.device = "tpu", .topology = "v5e:0x2"}, "there is no topology"},
      {{.device = "tpu", .topology = "v5e:2x"}, "there is no topology"},
      {{.device = "tpu", .topology = "v5e:2x2x2x2"}, "there is no topology"},
      {{.device = "tpu", .topology = "v5e:99999"}, "there is no topology"},
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

// Removes a variable of the environment, until it is given back.
static char *take_variable(const char *name) {
  const char *given = getenv(name);
  char *kept = given != NULL ? strdup(given) : NULL;
  unsetenv(name);
  return kept;
}

static void give_variable(const char *name, char *kept) {
  unsetenv(name);
  if (kept != NULL) setenv(name, kept, 1);
  free(kept);
}

TEST(device_pjrt_needs_a_name_of_a_plugin) {
  char *kept = take_variable("LS_PJRT_PLUGIN");
  expect_refused("pjrt", 0, LS_NOT_FOUND, "LS_PJRT_PLUGIN");
  expect_refused("gpu", 0, LS_NOT_FOUND, "xla_cuda_plugin.so");
  setenv("LS_PJRT_PLUGIN", "/nowhere/plugin.so", 1);
  expect_refused("tpu", 0, LS_NOT_FOUND, "/nowhere/plugin.so");
  give_variable("LS_PJRT_PLUGIN", kept);
}

// Makes a file that the loader refuses, where a Python package has its own.
TEST(a_plugin_in_a_python_package_is_found) {
  static const char folder[] = "venv/lib/python3.9/site-packages/libtpu";
  char here[2048], root[2100], path[2200];
  assert_non_null(getcwd(here, sizeof(here)));
  snprintf(root, sizeof(root), "%s/venv", here);
  snprintf(path, sizeof(path), "%s/%s/libtpu.so", here, folder);
  const ls_file_system *files = ls_file_system_system();
  expect_ok(files->make_directories(files->user, folder));
  expect_ok(files->write(files->user, path, "no library\n", 11));
  char *given = take_variable("LS_PJRT_PLUGIN");
  char *environment = take_variable("VIRTUAL_ENV");
  setenv("VIRTUAL_ENV", root, 1);
  expect_refused("tpu", 0, LS_NOT_FOUND, path);
  give_variable("VIRTUAL_ENV", environment);
  give_variable("LS_PJRT_PLUGIN", given);
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
  char *kept = take_variable("LS_PJRT_PLUGIN");
  setenv("LS_PJRT_PLUGIN", device + strlen("pjrt:"), 1);
  expect_refused("gpu", 0, LS_FAILED_PRECONDITION, "platform 'cpu'");
  expect_refused("tpu", 3, LS_FAILED_PRECONDITION, "platform 'cpu'");
  give_variable("LS_PJRT_PLUGIN", kept);
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
