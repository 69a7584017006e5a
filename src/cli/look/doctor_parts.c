// SPDX-License-Identifier: Apache-2.0
// Checks of what training may use: MPI, plug-ins of devices, data, and the
// training of a tiny model.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/look/doctor.h"
#include "cli/look/estimate.h"

// ---- MPI -------------------------------------------------------------------
// Writes the path of a module: beside the library, or as the system finds it.
static void find_module(const char *name, char path[PATH_MAX]) {
  Dl_info library;
  const char *(*own)(void) = ls_version;
  void *address = NULL;
  memcpy(&address, &own, sizeof(address));
  const char *file = dladdr(address, &library) != 0 ? library.dli_fname : NULL;
  const char *end = file != NULL ? strrchr(file, '/') : NULL;
  if (end == NULL ||
      snprintf(path, PATH_MAX, "%.*s/%s", (int)(end - file), file, name) >=
          PATH_MAX ||
      access(path, F_OK) != 0)
    snprintf(path, PATH_MAX, "%s", name);
}

// Loads a module and unloads it. Returns false, with the reason, if that fails.
static bool try_module(const char *path, char *reason, size_t size) {
  void *module = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (module != NULL) {
    dlclose(module);
    return true;
  }
  const char *text = dlerror();
  snprintf(reason, size, "%s", text != NULL ? text : "it cannot be loaded");
  return false;
}

void cli_check_mpi(cli_checkup *checkup) {
  static const struct {
    const char *name, *module;
  } kinds[] = {{"Open MPI", "liblockstep-mpi-openmpi.so"},
               {"MPICH", "liblockstep-mpi-mpich.so"}};
  char found[64] = "", reason[256] = "";
  const char *given = ls_runtime_environment(checkup->runtime, "LS_MPI");
  if (given != NULL && given[0] != '\0') {
    if (try_module(given, reason, sizeof(reason)))
      cli_find(checkup, CLI_LEVEL_OK, "MPI", "LS_MPI: %s", given);
    else
      cli_advise(cli_find(checkup, CLI_LEVEL_NOTE, "MPI",
                          "LS_MPI cannot be loaded: %s", reason),
                 "several processes cannot train together: name an existing "
                 "module, or unset the variable");
    return;
  }
  for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); ++i) {
    const size_t used = strlen(found);
    char path[PATH_MAX];
    find_module(kinds[i].module, path);
    if (try_module(path, reason, sizeof(reason)))
      snprintf(found + used, sizeof(found) - used, "%s%s", used > 0 ? ", " : "",
               kinds[i].name);
  }
  if (found[0] != '\0') {
    cli_find(checkup, CLI_LEVEL_OK, "MPI", "modules for %s", found);
    return;
  }
  cli_advise(cli_find(checkup, CLI_LEVEL_NOTE, "MPI", "no module: %s", reason),
             "for several processes on Debian: apt install openmpi-bin "
             "libopenmpi-dev, or mpich libmpich-dev, and build Lockstep then");
}

// ---- Plug-ins --------------------------------------------------------------
// Checks the file that LS_PJRT_PLUGIN names.
static void check_given_plugin(cli_checkup *checkup, const char *path) {
  void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (library == NULL) {
    const char *reason = dlerror();
    cli_advise(cli_find(checkup, CLI_LEVEL_NOTE, "plug-in",
                        "LS_PJRT_PLUGIN cannot be loaded: %s",
                        reason != NULL ? reason : path),
               "--device pjrt, gpu and tpu fail: name an existing file, or "
               "unset the variable");
    return;
  }
  const bool is_plugin = dlsym(library, "GetPjrtApi") != NULL;
  dlclose(library);
  if (is_plugin) {
    cli_find(checkup, CLI_LEVEL_OK, "plug-in", "LS_PJRT_PLUGIN: %s", path);
    return;
  }
  cli_advise(cli_find(checkup, CLI_LEVEL_NOTE, "plug-in",
                      "'%s' of LS_PJRT_PLUGIN is no plug-in: it has no "
                      "GetPjrtApi",
                      path),
             "name the plug-in's library; see docs/devices.md");
}

// Finds an installed Python wheel with a plug-in.
static bool find_wheel(const cli_checkup *checkup, const char *file, char *path,
                       size_t size) {
  static const struct {
    const char *variable, *folder;
  } roots[] = {{"VIRTUAL_ENV", "/lib/python3*/site-packages"},
               {"HOME", "/.local/lib/python3*/site-packages"},
               {NULL, "/usr/local/lib/python3*/*-packages"},
               {NULL, "/usr/lib/python3/dist-packages"}};
  for (size_t i = 0; i < sizeof(roots) / sizeof(*roots); ++i) {
    char pattern[PATH_MAX];
    glob_t found = {0};
    const char *root =
        roots[i].variable != NULL
            ? ls_runtime_environment(checkup->runtime, roots[i].variable)
            : "";
    if (root == NULL) continue;
    snprintf(pattern, sizeof(pattern), "%s%s/%s", root, roots[i].folder, file);
    const bool is_there = glob(pattern, 0, NULL, &found) == 0;
    if (is_there) snprintf(path, size, "%s", found.gl_pathv[0]);
    globfree(&found);
    if (is_there) return true;
  }
  return false;
}

static void check_wheel(cli_checkup *checkup, const char *subject,
                        const char *file, bool has_device,
                        const char *package) {
  char path[PATH_MAX];
  if (find_wheel(checkup, file, path, sizeof(path))) {
    cli_find(checkup, CLI_LEVEL_OK, subject, "plug-in %s", path);
    return;
  }
  if (!has_device) {
    cli_find(checkup, CLI_LEVEL_OK, subject, "no device and no plug-in");
    return;
  }
  cli_advise(cli_find(checkup, CLI_LEVEL_NOTE, subject,
                      "there is a device, but no plug-in for it"),
             "pip install %s, or set LS_PJRT_PLUGIN; see docs/devices.md",
             package);
}

void cli_check_plugins(cli_checkup *checkup) {
  const char *given =
      ls_runtime_environment(checkup->runtime, "LS_PJRT_PLUGIN");
  if (given != NULL && given[0] != '\0') {
    check_given_plugin(checkup, given);
    return;
  }
  check_wheel(checkup, "gpu", "jax_plugins/xla_cuda*/xla_cuda_plugin.so",
              access("/dev/nvidiactl", F_OK) == 0,
              "'jax-cuda13-plugin[with-cuda]'");
  check_wheel(checkup, "tpu", "libtpu/libtpu.so",
              access("/dev/accel0", F_OK) == 0, "libtpu");
}

// ---- Data ------------------------------------------------------------------
void cli_check_examples(cli_checkup *checkup) {
  CLI_OWN(ls_dataset, test) = ls_dataset_fashion_mnist(NULL, false);
  CLI_OWN(ls_status, status) = ls_dataset_status(test);
  if (ls_status_is_ok(status)) {
    cli_find(checkup, CLI_LEVEL_OK, "data",
             "fashion-mnist, the default of "
             "train, can be read");
    return;
  }
  cli_advise(cli_find(checkup, CLI_LEVEL_NOTE, "data", "no fashion-mnist: %s",
                      ls_status_message(status)),
             "the default of train needs it: apt install "
             "dataset-fashion-mnist; or give your own by --data");
}

// ---- Training --------------------------------------------------------------
void cli_check_training(cli_checkup *checkup) {
  ls_train_result result = {0};
  CLI_OWN(ls_status, status) = cli_train_tiny(&result);
  if (ls_status_is_ok(status)) {
    cli_find(checkup, CLI_LEVEL_OK, "training",
             "model tiny made %lld steps on 2 replicas",
             (long long)result.steps);
    return;
  }
  cli_advise(cli_find(checkup, CLI_LEVEL_PROBLEM, "training",
                      "model tiny cannot be trained: %s",
                      ls_status_message(status)),
             "see the lines above, and docs/troubles.md");
}
