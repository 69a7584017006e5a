// SPDX-License-Identifier: Apache-2.0
//
// Ranks over MPI: chooses and loads the module (net/mpi/module.h) of the MPI
// that is there, and is the exchanger over its wire.
#define _GNU_SOURCE
#include "lockstep/mpi.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "lockstep/version.h"
#include "net/exchanger.h"
#include "net/mpi/module.h"

typedef struct mpi_communicator {
  ls_exchanger exchanger;
  ls_mpi_wire *wire;  // Closed by its owner.
} mpi_communicator;

static void release_communicator(mpi_communicator *self) {
  ls_exchanger_deinit(&self->exchanger);
  ls_release(ls_allocator_system(), self);
}
LS_OWNED_POINTER(mpi_communicator, release_communicator)

// An MPI for which there may be a module.
typedef struct mpi_kind {
  const char *name, *module;
  const char *library;   // As programs that are linked with it have it.
  const char *packages;  // Debian's.
} mpi_kind;

enum { OPEN_MPI, MPICH, NUM_KINDS };

static const mpi_kind kinds[NUM_KINDS] = {
    [OPEN_MPI] = {"Open MPI", "liblockstep-mpi-openmpi.so", "libmpi.so.40",
                  "libopenmpi-dev openmpi-bin"},
    [MPICH] = {"MPICH", "liblockstep-mpi-mpich.so", "libmpich.so.12",
               "libmpich-dev mpich"},
};

// ---- Launchers -------------------------------------------------------------
// A launcher, known by a variable, and another one with the number of ranks.
typedef struct launcher_row {
  const char *variable, *size, *name;
  int kind;
} launcher_row;

static const launcher_row launchers[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "mpirun of Open MPI",
     OPEN_MPI},
    {"PMI_SIZE", "PMI_SIZE", "mpirun of MPICH", MPICH},
    {"PMIX_RANK", "SLURM_STEP_NUM_TASKS", "a launcher with PMIx", OPEN_MPI},
    // Without PMI, which MPI needs to find the others.
    {"SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_TASKS", "srun", NUM_KINDS},
};

static const char *read_variable(const ls_mpi_options *options,
                                 const char *name) {
  const char *value =
      options->environment != NULL
          ? options->environment(options->environment_user, name)
          : ls_system_environment(NULL, name);
  return value != NULL && value[0] != '\0' ? value : NULL;
}

static int32_t read_count(const ls_mpi_options *options, const char *name) {
  const char *text = read_variable(options, name);
  const long value = text == NULL ? 0 : strtol(text, NULL, 10);
  return value > 0 && value <= INT32_MAX ? (int32_t)value : 0;
}

static const launcher_row *find_launcher_row(const ls_mpi_options *options) {
  for (size_t i = 0; i < LS_COUNT_OF(launchers); ++i)
    if (read_variable(options, launchers[i].variable) != NULL)
      return &launchers[i];
  return NULL;
}

ls_mpi_launcher ls_mpi_find_launcher(const ls_mpi_options *options) {
  static const ls_mpi_options defaults = {0};
  if (options == NULL) options = &defaults;
  const launcher_row *row = find_launcher_row(options);
  if (row == NULL) return (ls_mpi_launcher){0};
  const int32_t ranks = read_count(options, row->size);
  return (ls_mpi_launcher){row->name, ranks > 0 ? row->size : NULL, ranks};
}

// ---- Modules ---------------------------------------------------------------
// Writes the path of a file beside the object that this code is in; returns
// false if it is not known.
static bool write_path_beside(const char *name, char path[PATH_MAX]) {
  Dl_info found;
  if (dladdr((const void *)&kinds, &found) == 0 || found.dli_fname == NULL)
    return false;
  const char *end = strrchr(found.dli_fname, '/');
  if (end == NULL) return false;
  const int size =
      snprintf(path, PATH_MAX, "%.*s/%s", (int)(end - found.dli_fname),
               found.dli_fname, name);
  return size < PATH_MAX;
}

static const ls_mpi_module *load_file(const char *path) {
  void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  return file == NULL ? NULL : dlsym(file, "ls_mpi_module_table");
}

// Loads the module of an MPI: a file beside the library, or one that the system
// finds.
static const ls_mpi_module *load_kind(const mpi_kind *kind) {
  char path[PATH_MAX];
  const bool is_beside =
      write_path_beside(kind->module, path) && access(path, F_OK) == 0;
  return load_file(is_beside ? path : kind->module);
}

// Chooses the MPI: the program's own, or else the launcher's.
static int choose_kind(const ls_mpi_options *options) {
  for (int i = 0; i < NUM_KINDS; ++i) {
    void *own = dlopen(kinds[i].library, RTLD_LAZY | RTLD_NOLOAD);
    if (own == NULL) continue;
    dlclose(own);
    return i;
  }
  const launcher_row *row = find_launcher_row(options);
  return row == NULL ? NUM_KINDS : row->kind;
}

static ls_status refuse_missing(const ls_mpi_options *options, int chosen) {
  const char *reason = dlerror();
  char needs[256], launched[128] = "";
  const ls_mpi_launcher launcher = ls_mpi_find_launcher(options);
  if (launcher.name != NULL)
    snprintf(launched, sizeof(launched), "%s has started this process, and ",
             launcher.name);
  if (chosen < NUM_KINDS)
    snprintf(needs, sizeof(needs), "%s", kinds[chosen].packages);
  else
    snprintf(needs, sizeof(needs), "%s, or %s", kinds[OPEN_MPI].packages,
             kinds[MPICH].packages);
  return ls_not_found("%s%s cannot be loaded: %s; on Debian, install %s, and "
                      "build Lockstep then",
                      launched, chosen < NUM_KINDS ? kinds[chosen].name : "MPI",
                      reason == NULL ? "it has no module" : reason, needs);
}

static ls_status load_module(const ls_mpi_options *options,
                             const ls_mpi_module **out_module) {
  const char *path = read_variable(options, "LS_MPI");
  const int chosen = choose_kind(options);
  if (dlopen(NULL, RTLD_LAZY) == NULL)
    return ls_unimplemented(
        "a program that is linked statically cannot load MPI: %s", dlerror());
  *out_module = NULL;
  if (path != NULL) *out_module = load_file(path);
  for (int i = 0; path == NULL && *out_module == NULL && i < NUM_KINDS; ++i)
    if (i == chosen || chosen == NUM_KINDS) *out_module = load_kind(&kinds[i]);
  if (*out_module == NULL) return refuse_missing(options, chosen);
  if (strcmp((*out_module)->release, LS_VERSION) == 0) return ls_ok();
  return ls_failed_precondition(
      "the module of MPI belongs to Lockstep %s, this is %s",
      (*out_module)->release, LS_VERSION);
}

// ---- The communicator ------------------------------------------------------
static const char *host_of_rank(const ls_communicator *communicator,
                                int32_t rank) {
  const ls_mpi_wire *wire = ((const mpi_communicator *)communicator)->wire;
  return wire->host(wire, rank);
}

// Refuses processes that a launcher has started for another MPI: each would be
// alone.
static ls_status check_size(const ls_mpi_options *options,
                            const ls_mpi_wire *wire) {
  const ls_mpi_launcher launcher = ls_mpi_find_launcher(options);
  if (options->communicator.set || launcher.ranks == 0 ||
      launcher.ranks == wire->ranks)
    return ls_ok();
  return ls_failed_precondition(
      "%s has started %d processes (%s), and MPI knows %d: start the program "
      "by the mpirun of its own MPI, or by srun --mpi=pmix or pmi2",
      launcher.name, launcher.ranks, launcher.variable, wire->ranks);
}

static ls_status open_wire(const ls_mpi_options *options,
                           mpi_communicator *self) {
  const ls_mpi_services services = {.allocator = ls_allocator_system(),
                                    .grow = ls_grow,
                                    .make_status = ls_status_make,
                                    .yield = ls_thread_yield,
                                    .sleep = ls_thread_sleep};
  const ls_mpi_module *module = NULL;
  const int32_t handle = (int32_t)options->communicator.value;
  if (options->communicator.set && handle != options->communicator.value)
    return ls_invalid_argument("communicator %lld: handles of MPI are numbers "
                               "of 32 bits",
                               (long long)options->communicator.value);
  LS_RETURN_IF_ERROR(load_module(options, &module));
  LS_RETURN_IF_ERROR(module->open(
      &services, options->communicator.set ? &handle : NULL, &self->wire));
  const ls_status status = check_size(options, self->wire);
  if (!ls_status_is_ok(status)) self->wire->close(self->wire, true, false);
  return status;
}

static ls_status init_exchanger(mpi_communicator *self) {
  const ls_mpi_wire *wire = self->wire;
  ls_communicator *base = &self->exchanger.base;
  // No thread of ours calls MPI between the calls of one that does so, too.
  LS_RETURN_IF_ERROR(
      ls_exchanger_init(&self->exchanger, &self->wire->wire,
                        &(ls_exchanger_options){.rank = wire->rank,
                                                .ranks = wire->ranks,
                                                .watches = !wire->is_shared}));
  base->local_rank = wire->local_rank;
  base->local_ranks = wire->local_ranks;
  base->host = host_of_rank;
  return ls_exchanger_start_worker(&self->exchanger);
}

ls_status ls_mpi_open(const ls_mpi_options *options,
                      ls_communicator **out_communicator) {
  static const ls_mpi_options defaults = {0};
  LS_REQUIRE_OUT(out_communicator);
  if (options == NULL) options = &defaults;
  LS_OWN_NEW_OR_RETURN(ls_allocator_system(), mpi_communicator, self);
  self->exchanger.allocator = ls_allocator_system();
  LS_RETURN_IF_ERROR(open_wire(options, self));
  const ls_status status = init_exchanger(self);
  if (ls_status_is_ok(status))
    *out_communicator = &ls_give(&self)->exchanger.base;
  else
    self->wire->close(self->wire, false, true);
  return status;
}

ls_status ls_mpi_close(ls_communicator *communicator) {
  mpi_communicator *self = (mpi_communicator *)communicator;
  if (self == NULL) return ls_ok();
  ls_status_free(ls_exchanger_end(&self->exchanger));
  const ls_status status = ls_exchanger_meet(&self->exchanger);
  self->wire->close(self->wire, ls_status_is_ok(status),
                    !ls_status_is_ok(self->exchanger.failure));
  release_communicator(self);
  return status;
}
