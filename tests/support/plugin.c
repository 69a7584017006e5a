// SPDX-License-Identifier: Apache-2.0
#include "support/plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lockstep/device.h"
#include "support/expect.h"
#include "support/sanitizer.h"

// Writes the path of a wheel's plug-in in build/plugins, beside the folder of
// the build that this program is of. Returns false if none can be loaded.
static bool find_wheel(const char *name, char *path, size_t size) {
  char program[2048];
  const ssize_t length =
      readlink("/proc/self/exe", program, sizeof(program) - 1);
  if (length < 0) return false;
  program[length] = '\0';
  for (int i = 0; i < 3; ++i) {  // build/dev/tests/unit_tests
    char *end = strrchr(program, '/');
    if (end == NULL) return false;
    *end = '\0';
  }
  snprintf(path, size, "pjrt:%s/plugins/%s", program, name);
  // It is another machine's where tests run in qemu or with musl.
  void *library = dlopen(path + strlen("pjrt:"), RTLD_LAZY | RTLD_LOCAL);
  return library != NULL;  // It stays loaded, as the library leaves it.
}

const char *plugin_device(void) {
  static const char *const names[] = {
      "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so",
      "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"};
  static char device[4096];
  const char *given = getenv("LS_PJRT_PLUGIN");
  bool is_found = given != NULL && given[0] != '\0';
  if (is_found) snprintf(device, sizeof(device), "pjrt:%s", given);
  for (size_t i = 0; i < LS_COUNT_OF(names) && !is_found && !LS_SANITIZED; ++i)
    is_found = find_wheel(names[i], device, sizeof(device));
  if (!is_found) {
    print_message("skipped: there is no PJRT plug-in in LS_PJRT_PLUGIN%s\n",
                  LS_SANITIZED ? "" : " or build/plugins");
    skip();
  }
  return device;
}

bool plugin_tests_all(void) {
  const char *text = getenv("LS_TEST_DEVICES");
  return text != NULL && strcmp(text, "all") == 0;
}

// Returns true if device "tpu" finds a plug-in.
static bool has_tpu_plugin(void) {
  const char *given = getenv("LS_PJRT_PLUGIN");
  // Another one is named; or XLA would be slow.
  if ((given != NULL && given[0] != '\0') || LS_SANITIZED) return false;
  ls_device_facts facts;
  LS_OWN(open_place, here) = runtime_begin(
      (ls_runtime_options){.device = "tpu", .topology = "v5e:1x1"});
  const ls_status status = ls_device_describe(here.runtime, &facts);
  const bool is_found = ls_status_code(status) != LS_NOT_FOUND;
  ls_status_free(status);
  return is_found;
}

const char *tpu_device(void) {
  static char device[4096];
  const char *given = getenv("LS_PJRT_TPU");
  if (given != NULL && given[0] != '\0')
    snprintf(device, sizeof(device), "pjrt:%s", given);
  else if (!find_wheel("libtpu/libtpu.so", device, sizeof(device)))
    snprintf(device, sizeof(device), "%s", has_tpu_plugin() ? "tpu" : "");
  if (device[0] == '\0') {
    print_message("skipped: there is no libtpu in LS_PJRT_TPU, build/plugins "
                  "or an installed Python package\n");
    skip();
  }
  return device;
}

open_place plugin_runtime(int num_devices) {
  return runtime_begin((ls_runtime_options){
      .device = plugin_device(), .num_devices = num_devices, .threads = 1});
}
