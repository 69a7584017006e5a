// SPDX-License-Identifier: Apache-2.0
// Memory and disk that this machine has for a run.
#define _GNU_SOURCE
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include "cli/look/doctor.h"
#include "cli/look/estimate.h"
#include "cli/look/table.h"

double cli_read_memory(const char *path, const char *name) {
  char line[160];
  CLI_OWN(FILE, file) = fopen(path, "re");
  while (file != NULL && fgets(line, sizeof(line), file) != NULL)
    if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':')
      return 1024 * strtod(line + strlen(name) + 1, NULL);
  return 0;
}

static double read_group_limit(const char *folder) {
  return fmin(cli_group_number(folder, "memory.max"),
              cli_group_number(folder, "memory.limit_in_bytes"));
}

double cli_group_limit(void) {
  return cli_least_of_groups("memory", read_group_limit);
}

// Returns the file cache of a control group, which the kernel can take back.
static double group_cache(const char *folder) {
  char path[PATH_MAX], line[160];
  double bytes = 0;
  if (snprintf(path, sizeof(path), "%s/memory.stat", folder) >= PATH_MAX)
    return 0;
  // Version 1 has the sum with the groups inside under another name.
  CLI_OWN(FILE, file) = fopen(path, "re");
  while (file != NULL && fgets(line, sizeof(line), file) != NULL)
    if (sscanf(line, "total_inactive_file %lf", &bytes) != 1)
      (void)sscanf(line, "inactive_file %lf", &bytes);
  return bytes;
}

// Returns the memory that a control group has for this process, without what it
// has already.
static double read_group_room(const char *folder) {
  const double limit = read_group_limit(folder);
  const double used = fmin(cli_group_number(folder, "memory.current"),
                           cli_group_number(folder, "memory.usage_in_bytes"));
  if (!isfinite(limit) || !isfinite(used)) return limit;
  return limit - used + group_cache(folder);
}

double cli_resident_bytes(void) {
  return cli_read_memory("/proc/self/status", "VmRSS");
}

// Returns the memory that a limit of the shell leaves, in which the kernel
// counts `entry` of this process.
static double limit_room(const struct rlimit *limit, const char *entry) {
  if (limit->rlim_cur == RLIM_INFINITY) return INFINITY;
  return (double)limit->rlim_cur - cli_read_memory("/proc/self/status", entry) +
         cli_resident_bytes();
}

double cli_room(void) {
  const double available = cli_read_memory("/proc/meminfo", "MemAvailable") +
                           cli_read_memory("/proc/meminfo", "SwapFree");
  const double own = cli_resident_bytes(), limit = cli_group_limit();
  double room = available > 0 ? available + own : INFINITY;
  struct rlimit space = {RLIM_INFINITY, RLIM_INFINITY}, data = space;
  (void)getrlimit(RLIMIT_AS, &space);
  (void)getrlimit(RLIMIT_DATA, &data);
  room = fmin(room, limit_room(&space, "VmSize"));
  room = fmin(room, limit_room(&data, "VmData"));
  const double left = cli_least_of_groups("memory", read_group_room) + own;
  return fmin(room, fmin(left, limit));
}

double cli_free_disk(const char *path) {
  struct statvfs info = {0};
  char folder[PATH_MAX];
  if (snprintf(folder, sizeof(folder), "%s", path) >= (int)sizeof(folder))
    return INFINITY;
  // A folder that does not exist yet will be on its parent's file system.
  while (statvfs(folder, &info) != 0) {
    if (strcmp(folder, ".") == 0 || strcmp(folder, "/") == 0) return INFINITY;
    char *slash = strrchr(folder, '/');
    if (slash == folder)
      slash[1] = '\0';
    else if (slash != NULL)
      *slash = '\0';
    else
      memcpy(folder, ".", 2);
  }
  return (double)info.f_bavail * (double)info.f_frsize;
}

// ---- Before a first step ---------------------------------------------------
double cli_variable_bytes(ls_variable *const *variables, size_t count) {
  double bytes = 0;
  for (size_t i = 0; i < count; ++i)
    bytes += (double)ls_dtype_size(ls_variable_dtype(variables[i])) *
             (double)ls_shape_num_elements(ls_variable_shape(variables[i]));
  return bytes;
}

static ls_status count_bytes(const ls_model *model, double *out_bytes) {
  const size_t count = model->type->variables(model->self, NULL, 0);
  CLI_OWN_ARRAY_OR_RETURN(ls_variable *, variables, count + 1);
  (void)model->type->variables(model->self, variables, count);
  *out_bytes = cli_variable_bytes(variables, count);
  return ls_ok();
}

ls_status cli_check_room(const ls_model *model, int64_t batch_size,
                         int64_t examples) {
  const ls_model_type *type = model->type;
  char needed[CLI_CELL], has[CLI_CELL];
  double bytes = 0;
  if (batch_size == 0) batch_size = type->batch_size;
  if (batch_size > examples) batch_size = examples;
  LS_RETURN_IF_ERROR(count_bytes(model, &bytes));
  const double all = cli_read_memory("/proc/meminfo", "MemTotal") +
                     cli_read_memory("/proc/meminfo", "SwapTotal");
  const double most = fmin(all > 0 ? all : INFINITY, cli_group_limit());
  const size_t size =
      ls_dtype_size(type->example_dtype != LS_DTYPE_NONE ? type->example_dtype
                                                         : LS_DTYPE_F32);
  bytes += (double)batch_size * (double)size *
           (double)ls_shape_num_elements(type->example_shape);
  if (bytes <= most) return ls_ok();
  return LS_STATUS(
      LS_RESOURCE_EXHAUSTED,
      "the variables of model '%s' and a batch of %lld take %s, but "
      "there are %s of memory: see 'lockstep plan %s'",
      type->name, (long long)batch_size, cli_format_bytes(bytes, needed),
      cli_format_bytes(most, has), type->name);
}
