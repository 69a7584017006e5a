// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

// The processor's name as the system has it; "unknown" on systems that do not
// tell.
static void read_name(char *name, size_t size) {
  snprintf(name, size, "unknown");
  FILE *file = fopen("/proc/cpuinfo", "r");
  if (file == NULL) return;
  char line[256];
  while (fgets(line, sizeof(line), file) != NULL) {
    const char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) != 0 || colon == NULL) continue;
    const char *text = colon + 1 + strspn(colon + 1, " \t");
    snprintf(name, size, "%.*s", (int)strcspn(text, "\n"), text);
    break;
  }
  fclose(file);
}

static void print(const ls_runtime *runtime, const char *kernels) {
  char name[200];
  read_name(name, sizeof(name));
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_size = sysconf(_SC_PAGESIZE);
  printf("cpu  %s\n", name);
  printf("     %d compute thread%s, %ld logical processors, %.1f GiB memory\n",
         ls_runtime_threads(runtime),
         ls_runtime_threads(runtime) == 1 ? "" : "s",
         sysconf(_SC_NPROCESSORS_ONLN),
         (double)pages * (double)page_size / (1 << 30));
  printf("     kernels %s (of base, v3 with AVX2, v4 with AVX-512; see "
         "LS_ISA)\n",
         kernels);
}

int cli_devices(int argc, char **argv) {
  int64_t threads = 0;
  const cli_option options[] = {
      {"threads", CLI_COUNT, &threads, "N",
       "compute threads (default: one per core)", 1},
  };
  const cli_syntax syntax = {
      .command = "devices",
      .about = "Lists what computes. Replicas are logical: any number of them "
               "shares the\nthreads of a CPU.",
      .options = options,
      .num_options = sizeof(options) / sizeof(options[0])};
  int code = CLI_OK;
  if (!cli_parse(&syntax, argc, argv, &code)) return code;
  ls_runtime *runtime = NULL;
  ls_status status = cli_runtime_open(threads, NULL, &runtime);
  const char *kernels = NULL;
  if (ls_status_is_ok(status)) status = ls_device_kernels(runtime, &kernels);
  if (ls_status_is_ok(status))
    print(runtime, kernels);
  else
    code = cli_report("devices", status);
  return cli_runtime_close("devices", runtime, code);
}
