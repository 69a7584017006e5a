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

static void devices_print(const ls_runtime *runtime, const char *kernels) {
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

// ---- Replicas --------------------------------------------------------------
// One line a replica. Which thread runs one is settled as it runs: threads
// begin with a part of the replicas, or share the work of each, and help.
static void print_replicas(const ls_runtime *runtime,
                           const char *const *devices, size_t count) {
  const int threads = ls_runtime_threads(runtime);
  printf("\n%zu replica%s, in this process:\n", count, count == 1 ? "" : "s");
  printf("replica  runs on  device\n");
  for (size_t i = 0; i < count; ++i)
    printf("%7zu  cpu      %s\n", i, devices[i]);
  if (threads == 1)
    printf("The thread runs one after another.\n");
  else
    printf("They share the %d threads: any of these runs any replica.\n",
           threads);
}

// ---- The command -----------------------------------------------------------
// The devices' names, which the strategy lends; `*devices` is the caller's.
static ls_status list_devices(ls_allocator *allocator,
                              const ls_strategy *strategy,
                              const char ***devices, size_t *count) {
  *count = (size_t)ls_strategy_num_replicas(strategy);
  *devices = allocator->allocate(allocator, *count * sizeof(**devices), 16);
  return *devices != NULL
             ? ls_strategy_worker_devices(strategy, *devices, *count, count)
             : ls_out_of_memory();
}

// The picture of a TPU system's pod; the caller gives it back.
static ls_status draw_pod(const char *name, char **out_text) {
  ls_tpu_resolver *resolver = NULL;
  ls_pod *pod = NULL;
  ls_status status = ls_tpu_resolver_connect(
      &(ls_tpu_resolver_options){.name = name}, &resolver);
  if (ls_status_is_ok(status)) status = ls_tpu_pod(resolver, &pod);
  if (ls_status_is_ok(status)) status = ls_pod_print(pod, out_text);
  ls_pod_release(pod);
  ls_tpu_resolver_release(resolver);
  return status;
}

// Nothing is printed of what cannot be.
static ls_status devices_show(ls_runtime *runtime, int64_t replicas,
                              const char *tpu) {
  const char *kernels = NULL, **devices = NULL;
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  size_t count = 0;
  ls_strategy *strategy = NULL;
  char *pod = NULL;
  ls_status status = ls_device_kernels(runtime, &kernels);
  if (ls_status_is_ok(status) && replicas > 0)
    status = ls_mirrored_strategy_create(
        &(ls_mirrored_options){.num_replicas = LS_SOME(replicas)}, &strategy);
  if (strategy != NULL)
    status = list_devices(allocator, strategy, &devices, &count);
  if (tpu != NULL && ls_status_is_ok(status)) status = draw_pod(tpu, &pod);
  if (ls_status_is_ok(status)) {
    devices_print(runtime, kernels);
    if (count > 0) print_replicas(runtime, devices, count);
    if (pod != NULL) printf("\n%s", pod);
  }
  if (pod != NULL) allocator->release(allocator, pod);
  if (devices != NULL) allocator->release(allocator, devices);
  if (strategy != NULL) ls_strategy_release(strategy);
  return status;
}

int cli_devices(int argc, char **argv) {
  int64_t threads = 0, replicas = 0;
  const char *tpu = NULL;
  const cli_option options[] = {
      CLI_THREADS_OPTION(&threads),
      {"replicas", CLI_COUNT, &replicas, "N",
       "also show N replicas and where they run", 1},
      {"tpu", CLI_TEXT, &tpu, "NAME",
       "also draw a TPU system: local, or\n"
       "virtual:AxB[xC][,cores=N][,hosts=H]",
       0},
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
  if (ls_status_is_ok(status)) status = devices_show(runtime, replicas, tpu);
  if (!ls_status_is_ok(status)) code = cli_report("devices", status);
  return cli_runtime_close("devices", runtime, code);
}
