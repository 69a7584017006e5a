// SPDX-License-Identifier: Apache-2.0
//
// The search for a device's plug-in: a path that the user gives, the system's
// loader, installed Python wheels.
#include <dlfcn.h>
#include <glob.h>
#include <stdlib.h>

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "engine/pjrt/plugin.h"
#include "lockstep/runtime_settings.h"

// A device with a plug-in in a wheel.
typedef struct plugin_wheel {
  const char *device, *library;
  const char *path;     // Pattern within a folder of packages.
  const char *package;  // As pip takes it.
} plugin_wheel;

static const plugin_wheel wheels[] = {
    {"gpu", "xla_cuda_plugin.so", "jax_plugins/xla_cuda*/xla_cuda_plugin.so",
     "'jax-cuda13-plugin[with-cuda]'"},
    {"tpu", "libtpu.so", "libtpu/libtpu.so", "libtpu"},
};

// Folders of packages, in the order of their search.
static const struct {
  const char *variable;  // Environment variable of the root; NULL: none.
  const char *path;
} folders[] = {
    {"VIRTUAL_ENV", "/lib/python3*/site-packages"},
    {"HOME", "/.local/lib/python3*/site-packages"},
    {NULL, "/usr/local/lib/python3*/site-packages"},
    {NULL, "/usr/local/lib/python3*/dist-packages"},
    {NULL, "/usr/lib/python3/dist-packages"},
};

// Finds the library of an installed wheel, the last of several; `path` stays
// empty if there is none.
static ls_status find_installed(const ls_runtime *runtime,
                                const plugin_wheel *wheel, ls_text *path) {
  for (size_t i = 0; i < LS_COUNT_OF(folders) && path->size == 0; ++i) {
    const char *variable = folders[i].variable;
    const char *root =
        variable != NULL ? ls_runtime_environment(runtime, variable) : "";
    glob_t found = {0};
    if (root == NULL || (variable != NULL && root[0] != '/')) continue;
    LS_OWN(ls_text, pattern) = {.allocator = path->allocator};
    ls_text_append_format(&pattern, "%s%s/%s", root, folders[i].path,
                          wheel->path);
    LS_RETURN_IF_ERROR(ls_text_status(&pattern));
    if (glob(ls_text_data(&pattern), 0, NULL, &found) == 0)
      ls_text_append(path, found.gl_pathv[found.gl_pathc - 1]);
    globfree(&found);
  }
  return ls_text_status(path);
}

static ls_status open_library(const char *device, const char *path,
                              void **out_library) {
  *out_library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (*out_library != NULL) return ls_ok();
  const char *reason = dlerror();
  return ls_not_found("the plug-in of device '%s' cannot be loaded: %s", device,
                      reason != NULL ? reason : path);
}

// Opens the library of a device: the loader's, else that of a wheel.
static ls_status open_wheel(const ls_runtime *runtime,
                            const plugin_wheel *wheel, ls_text *path,
                            void **out_library) {
  ls_text_append(path, wheel->library);
  const ls_status status =
      open_library(wheel->device, wheel->library, out_library);
  if (ls_status_is_ok(status)) return status;
  ls_text_clear(path);
  const ls_status searched = find_installed(runtime, wheel, path);
  if (!ls_status_is_ok(searched) || path->size > 0) {
    ls_status_free(status);
    LS_RETURN_IF_ERROR(searched);
    return open_library(wheel->device, ls_text_data(path), out_library);
  }
  return ls_status_annotate(
      status,
      "no installed Python package has it either: pip install %s; or set "
      "LS_PJRT_PLUGIN to the plug-in's path",
      wheel->package);
}

ls_status ls_pjrt_plugin_open(const ls_runtime *runtime, ls_text *path,
                              void **out_library) {
  const char *device = ls_runtime_device(runtime);
  const char *given = ls_runtime_environment(runtime, "LS_PJRT_PLUGIN");
  // Keeps information of XLA from standard error, unless it is asked for.
  setenv("TF_CPP_MIN_LOG_LEVEL", "1", 0);
  if (strncmp(device, "pjrt:", 5) == 0) given = device + 5;
  if (given != NULL && given[0] != '\0') {
    ls_text_append(path, given);
    return open_library(device, given, out_library);
  }
  for (size_t i = 0; i < LS_COUNT_OF(wheels); ++i)
    if (strcmp(device, wheels[i].device) == 0)
      return open_wheel(runtime, &wheels[i], path, out_library);
  return ls_not_found("device 'pjrt' is the plug-in that the environment's "
                      "LS_PJRT_PLUGIN names, which is not set; 'pjrt:PATH' "
                      "names one too");
}
