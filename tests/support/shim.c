// SPDX-License-Identifier: Apache-2.0
#include "support/shim.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/expect.h"

// The shim lies beside the program of the unit tests.
const char *shim_device(void) {
  static char device[2048];
  char program[1024] = "";
  assert_true(readlink("/proc/self/exe", program, sizeof(program) - 1) > 0);
  *strrchr(program, '/') = '\0';
  snprintf(device, sizeof(device), "pjrt:%s/pjrt_shim.so", program);
  return device;
}

shim_state *shim_begin(void) {
  setenv("LS_SHIM_PLUGIN", plugin_device() + strlen("pjrt:"), 1);
  void *library =
      dlopen(shim_device() + strlen("pjrt:"), RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fail_msg("%s", dlerror());
  shim_state *state = dlsym(library, "shim");
  assert_non_null(state);
  *state = (shim_state){0};
  return state;
}

open_place shim_runtime(int num_devices) {
  return runtime_begin((ls_runtime_options){
      .device = shim_device(), .num_devices = num_devices, .threads = 1});
}
