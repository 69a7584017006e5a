// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/ranks.h"
#include "lockstep/communicator.h"

void cli_processor_name(char *name, size_t size) {
  snprintf(name, size, "unknown");
  CLI_OWN(FILE, file) = fopen("/proc/cpuinfo", "r");
  if (file == NULL) return;
  char line[256];
  while (fgets(line, sizeof(line), file) != NULL) {
    const char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) != 0 || colon == NULL) continue;
    const char *text = colon + 1 + strspn(colon + 1, " \t");
    snprintf(name, size, "%.*s", (int)strcspn(text, "\n"), text);
    break;
  }
}

static void print_devices(const ls_runtime *runtime, const char *kernels) {
  char name[200];
  cli_processor_name(name, sizeof(name));
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

// Prints the devices of a plug-in, if --device names one.
static ls_status print_plugin(ls_runtime *runtime) {
  ls_device_facts facts = {0};
  LS_RETURN_IF_ERROR(ls_device_describe(runtime, &facts));
  if (facts.plugin == NULL) return ls_ok();
  printf("%c%c%c  %d %s%s, by plug-in %s\n     %s\n     named %s:0",
         tolower(facts.type[0]), tolower(facts.type[1]), tolower(facts.type[2]),
         facts.count, facts.kind, facts.count == 1 ? "" : " devices",
         facts.plugin, facts.platform, facts.type);
  if (facts.count > 1) printf(" to %s:%d", facts.type, facts.count - 1);
  printf("\n");
  return ls_ok();
}

// ---- Replicas --------------------------------------------------------------
// Prints one line per replica. Threads are assigned to replicas while running.
static void print_replicas(const ls_runtime *runtime,
                           const char *const *devices, size_t count) {
  const int threads = ls_runtime_threads(runtime);
  printf("\n%zu replica%s, in this process:\n", count, count == 1 ? "" : "s");
  printf("replica  device\n");
  for (size_t i = 0; i < count; ++i)
    printf("%7zu  %s\n", i, devices[i]);
  if (cli_device.name != NULL && strcmp(cli_device.name, "cpu") != 0) {
    printf("The devices of the plug-in share them evenly.\n");
    return;
  }
  if (threads == 1)
    printf("The thread runs one after another.\n");
  else
    printf("They share the %d threads: any of these runs any replica.\n",
           threads);
}

// ---- Ranks -----------------------------------------------------------------
// Prints one line per rank: its machine, threads and replicas.
static ls_status show_ranks(const ls_runtime *runtime, int64_t replicas) {
  const ls_communicator *ranks = cli_ranks();
  if (ranks == NULL) return ls_ok();
  const int32_t count = ranks->ranks;
  CLI_OWN_ARRAY_OR_RETURN(int32_t, threads, (size_t)count);
  threads[ranks->rank] = ls_runtime_threads(runtime);
  LS_RETURN_IF_ERROR(cli_ranks_gather(threads, sizeof(*threads)));
  if (!cli_leads()) return ls_ok();
  printf("\n%d ranks:\nrank  threads  replicas     machine\n", count);
  for (int32_t k = 0; k < count; ++k) {
    char range[32] = "none";
    const int32_t first = ls_communicator_first(ranks, k, (int32_t)replicas);
    const int32_t end = ls_communicator_first(ranks, k + 1, (int32_t)replicas);
    if (end > first) snprintf(range, sizeof(range), "%d to %d", first, end - 1);
    printf("%4d  %7d  %-11s  %s\n", k, threads[k], range,
           ranks->host != NULL ? ranks->host(ranks, k) : "");
  }
  return ls_ok();
}

// ---- The command -----------------------------------------------------------
typedef struct devices_flags {
  int64_t threads, replicas;
  const char *tpu;
} devices_flags;

// Draws a TPU system's pod; the caller releases the text.
static ls_status draw_pod(const char *name, char **out_text) {
  CLI_OWN(ls_tpu_resolver, resolver) = NULL;
  CLI_OWN(ls_pod, pod) = NULL;
  LS_RETURN_IF_ERROR(ls_tpu_resolver_connect(
      &(ls_tpu_resolver_options){.name = name}, &resolver));
  LS_RETURN_IF_ERROR(ls_tpu_pod(resolver, &pod));
  return ls_pod_print(pod, out_text);
}

// Shows all requested parts, or nothing; the caller frees the text in `*pod`.
static ls_status show_with_pod(ls_runtime *runtime, const devices_flags *flags,
                               char **pod) {
  const char *kernels = NULL;
  size_t count = 0;
  CLI_OWN(ls_strategy, strategy) = NULL;
  CLI_OWN_MEMORY(const char *, devices) = NULL;
  LS_RETURN_IF_ERROR(ls_device_kernels(runtime, &kernels));
  if (flags->replicas > 0) {
    LS_RETURN_IF_ERROR(ls_mirrored_strategy_create(
        &(ls_mirrored_options){.num_replicas = LS_SOME(flags->replicas)},
        &strategy));
    count = (size_t)ls_strategy_num_replicas(strategy);
    CLI_SET_ARRAY_OR_RETURN(devices, count);
    LS_RETURN_IF_ERROR(
        ls_strategy_worker_devices(strategy, devices, count, &count));
  }
  if (flags->tpu != NULL) LS_RETURN_IF_ERROR(draw_pod(flags->tpu, pod));
  if (cli_leads()) {
    print_devices(runtime, kernels);
    LS_RETURN_IF_ERROR(print_plugin(runtime));
  }
  LS_RETURN_IF_ERROR(show_ranks(runtime, (int64_t)count));
  if (cli_ranks() != NULL) return ls_ok();
  if (count > 0) print_replicas(runtime, devices, count);
  if (*pod != NULL) printf("\n%s", *pod);
  return ls_ok();
}

static ls_status show_devices(ls_runtime *runtime, const devices_flags *flags) {
  char *pod = NULL;
  const ls_status status = show_with_pod(runtime, flags, &pod);
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  if (pod != NULL) allocator->release(allocator, pod);
  return status;
}

int cli_devices(int argc, char **argv) {
  devices_flags flags = {0};
  const cli_option options[] = {
      CLI_THREADS_OPTION(&flags.threads),
      CLI_DEVICE_OPTIONS,
      CLI_TOPOLOGY_OPTION("list"),
      {"replicas", CLI_COUNT, &flags.replicas, "N",
       "also show N replicas and their devices"},
      {"tpu", CLI_TEXT, &flags.tpu, "NAME",
       "also draw a TPU system: local, the devices of a plug-in with --device, "
       "or virtual:AxB[xC][,cores=N][,hosts=H]"},
  };
  const cli_syntax syntax = {
      .command = "devices",
      .about = "Lists the devices that compute. Replicas are logical: any "
               "number of them shares the threads of a CPU. Started by mpirun, "
               "also lists the ranks and their replicas.",
      CLI_OPTIONS(options)};
  CLI_PARSE_OR_RETURN(&syntax, argc, argv);
  ls_runtime *runtime = NULL;
  ls_status status = cli_runtime_open(flags.threads, NULL, &runtime);
  if (ls_status_is_ok(status)) status = show_devices(runtime, &flags);
  return cli_runtime_close("devices", runtime, cli_report("devices", status));
}
