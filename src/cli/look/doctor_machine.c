// SPDX-License-Identifier: Apache-2.0
// Checks of processors, memory and limits, as the kernel tells them.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/look/doctor.h"
#include "cli/look/estimate.h"

static const double gib = 1 << 30, mib = 1 << 20;

// Reads the first line of a file, without its newline. Returns false if it
// cannot be read.
static bool read_line(const char *path, char *text, size_t size) {
  CLI_OWN(FILE, file) = fopen(path, "re");
  text[0] = '\0';
  if (file == NULL || fgets(text, (int)size, file) == NULL) return false;
  text[strcspn(text, "\n")] = '\0';
  return true;
}

// ---- Control groups --------------------------------------------------------
// Finds the process's group of a controller, "" for version 2, such as
// "/user.slice". Returns false if there is none.
static bool find_group(const char *controller, char *group, size_t size) {
  char line[PATH_MAX];
  CLI_OWN(FILE, file) = fopen("/proc/self/cgroup", "re");
  while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
    // NUMBER:CONTROLLER,CONTROLLER:PATH.
    char *rest = line;
    line[strcspn(line, "\n")] = '\0';
    (void)strsep(&rest, ":");
    char *names = strsep(&rest, ":");
    for (const char *name; rest != NULL && (name = strsep(&names, ","));)
      if (strcmp(name, controller) == 0)
        return snprintf(group, size, "%s", rest) < (int)size;
  }
  return false;
}

double cli_least_of_groups(const char *controller,
                           double (*read)(const char *folder)) {
  char group[PATH_MAX / 2], folder[PATH_MAX];
  double least = INFINITY;
  for (int version = 1; version <= 2; ++version) {
    if (!find_group(version == 1 ? controller : "", group, sizeof(group)))
      group[0] = '\0';
    for (;;) {
      snprintf(folder, sizeof(folder), "/sys/fs/cgroup%s%s%s",
               version == 1 ? "/" : "", version == 1 ? controller : "", group);
      least = fmin(least, read(folder));
      char *slash = strrchr(group, '/');
      if (slash == NULL) break;
      *slash = '\0';
    }
  }
  return least;
}

double cli_group_number(const char *folder, const char *name) {
  char path[PATH_MAX], text[128], *end = text;
  if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= PATH_MAX ||
      !read_line(path, text, sizeof(text)))
    return INFINITY;
  const double value = strtod(text, &end);
  return end != text && value > 0 ? value : INFINITY;
}

// ---- Processors ------------------------------------------------------------
// Reads a group's quota as a number of processors: "200000 100000", or "max
// 100000", of version 2, two files of version 1.
static double read_quota(const char *folder) {
  char path[PATH_MAX], text[128];
  double quota = 0, period = 0;
  if (snprintf(path, sizeof(path), "%s/cpu.max", folder) < PATH_MAX &&
      read_line(path, text, sizeof(text)))
    return sscanf(text, "%lf %lf", &quota, &period) == 2 ? quota / period
                                                         : INFINITY;
  quota = cli_group_number(folder, "cpu.cfs_quota_us");
  period = cli_group_number(folder, "cpu.cfs_period_us");
  return isfinite(period) ? quota / period : INFINITY;
}

static void check_governor(cli_checkup *checkup) {
  char text[64];
  if (!read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", text,
                 sizeof(text))) {
    cli_find(checkup, CLI_LEVEL_OK, "frequency",
             "governor not readable, as in most virtual machines");
    return;
  }
  const bool slow = strcmp(text, "powersave") == 0;
  cli_finding *finding = cli_find(checkup, slow ? CLI_LEVEL_NOTE : CLI_LEVEL_OK,
                                  "frequency", "governor %s", text);
  if (slow)
    cli_advise(finding, "steps may be slow and uneven: cpupower frequency-set "
                        "-g performance");
}

void cli_check_processors(cli_checkup *checkup) {
  char name[160];
  cpu_set_t set;
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  const int threads = ls_runtime_threads(checkup->runtime);
  const int usable =
      sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
  cli_processor_name(name, sizeof(name));
  cli_find(checkup, CLI_LEVEL_OK, "processor",
           "%s; %ld logical processors, of which this process may use %d; %d "
           "compute thread%s by default",
           name, online, usable, threads, threads == 1 ? "" : "s");
  const double quota = cli_least_of_groups("cpu", read_quota);
  if (!isfinite(quota)) {
    cli_find(checkup, CLI_LEVEL_OK, "cpu quota", "none");
  } else {
    const bool tight = quota < (double)threads - 0.01;
    cli_finding *finding =
        cli_find(checkup, tight ? CLI_LEVEL_NOTE : CLI_LEVEL_OK, "cpu quota",
                 "the control group allows %.3g processors", quota);
    if (tight)
      cli_advise(finding,
                 "more threads than that wait for one another: --threads %.0f, "
                 "or LS_THREADS=%.0f",
                 fmax(1, floor(quota)), fmax(1, floor(quota)));
  }
  check_governor(checkup);
}

// ---- Vector kernels --------------------------------------------------------
#if defined(__x86_64__)
static const char *find_vectors(void) {
  __builtin_cpu_init();
  const bool v3 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") &&
                  __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  return v4 ? "v4" : v3 ? "v3" : "base";
}
#else
static const char *find_vectors(void) { return "base"; }
#endif

void cli_check_kernels(cli_checkup *checkup) {
  const char *chosen = "";
  const ls_status status =
      ls_device_kernels((ls_runtime *)(uintptr_t)checkup->runtime, &chosen);
  if (!ls_status_is_ok(status)) {
    cli_find(checkup, CLI_LEVEL_PROBLEM, "kernels", "%s",
             ls_status_message(status));
    ls_status_free(status);
    return;
  }
  const char *has = find_vectors();
  const char *limit = ls_runtime_environment(checkup->runtime, "LS_ISA");
  const bool less = strcmp(chosen, has) != 0 && strcmp(has, "base") != 0;
  cli_finding *finding = cli_find(
      checkup, less ? CLI_LEVEL_NOTE : CLI_LEVEL_OK, "kernels",
      "%s; the processor has %s (of base, v3 with AVX2, v4 with AVX-512)",
      chosen, has);
  if (less && limit != NULL && limit[0] != '\0')
    cli_advise(finding, "LS_ISA=%s limits them: unset it", limit);
  else if (less)
    cli_advise(finding, "this build has no faster ones: build with all levels");
}

// ---- Memory ----------------------------------------------------------------
static void check_huge_pages(cli_checkup *checkup) {
  char text[128];
  if (!read_line("/sys/kernel/mm/transparent_hugepage/enabled", text,
                 sizeof(text))) {
    cli_find(checkup, CLI_LEVEL_OK, "huge pages", "the kernel has none");
    return;
  }
  const bool never = strstr(text, "[never]") != NULL;
  cli_finding *finding =
      cli_find(checkup, never ? CLI_LEVEL_NOTE : CLI_LEVEL_OK, "huge pages",
               "transparent huge pages: %s", text);
  if (never)
    cli_advise(finding, "large models are slower without: echo madvise > "
                        "/sys/kernel/mm/transparent_hugepage/enabled");
}

void cli_check_memory(cli_checkup *checkup) {
  static const char path[] = "/proc/meminfo";
  const double all = cli_read_memory(path, "MemTotal"),
               free = cli_read_memory(path, "MemAvailable");
  const double limit = cli_group_limit(), room = cli_room();
  char group[96] = "";
  if (limit < all)
    snprintf(group, sizeof(group), "; the control group allows %.1f GiB",
             limit / gib);
  const bool none = room < 64 * mib, little = room < gib;
  cli_finding *finding =
      cli_find(checkup,
               none     ? CLI_LEVEL_PROBLEM
               : little ? CLI_LEVEL_NOTE
                        : CLI_LEVEL_OK,
               "memory", "%.1f GiB, of which %.1f GiB are available%s",
               all / gib, free / gib, group);
  if (none || little)
    cli_advise(finding,
               "%.0f MiB are left for training: end other programs, "
               "or take a smaller --batch-size",
               fmax(0, room / mib));
  check_huge_pages(checkup);
}

// ---- Limits of the shell ---------------------------------------------------
static void check_files_limit(cli_checkup *checkup) {
  struct rlimit limit = {0};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const bool few = limit.rlim_cur < 256;
  cli_finding *finding =
      cli_find(checkup, few ? CLI_LEVEL_NOTE : CLI_LEVEL_OK, "open files",
               "at most %llu", (unsigned long long)limit.rlim_cur);
  if (few)
    cli_advise(finding, "data in many files, and ranks, need more: ulimit -n "
                        "1024");
}

static void print_limit(rlim_t value, char *text, size_t size) {
  if (value == RLIM_INFINITY)
    snprintf(text, size, "unlimited");
  else if (value < (rlim_t)1 << 20)
    snprintf(text, size, "%llu KiB", (unsigned long long)value >> 10);
  else
    snprintf(text, size, "%.5g MiB", (double)value / mib);
}

// Adds a finding for a limit in bytes; a note, with the advice, if it is below
// `least`.
static void check_size_limit(cli_checkup *checkup, rlim_t limit,
                             const char *subject, double least,
                             const char *advice) {
  char text[32];
  const bool low = limit != RLIM_INFINITY && (double)limit < least;
  print_limit(limit, text, sizeof(text));
  cli_finding *finding = cli_find(checkup, low ? CLI_LEVEL_NOTE : CLI_LEVEL_OK,
                                  subject, "%s", text);
  if (low) cli_advise(finding, "%s", advice);
}

void cli_check_limits(cli_checkup *checkup) {
  struct rlimit limit = {0};
  check_files_limit(checkup);
  if (getrlimit(RLIMIT_STACK, &limit) == 0)
    check_size_limit(checkup, limit.rlim_cur, "stack", mib,
                     "models that build deep graphs need more: ulimit -s 8192");
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0)
    check_size_limit(checkup, limit.rlim_cur, "locked memory", 64 * 1024.0,
                     "MPI on fast networks, and GPUs, lock memory: ulimit -l "
                     "unlimited");
  if (getrlimit(RLIMIT_AS, &limit) == 0)
    check_size_limit(checkup, limit.rlim_cur, "address space", 16 * gib,
                     "threads and mapped data need more: ulimit -v unlimited");
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0)
    check_size_limit(checkup, limit.rlim_cur, "file size", gib,
                     "a checkpoint may be larger: ulimit -f unlimited");
}

// ---- The disk --------------------------------------------------------------
// Creates a file in the current folder that nobody else sees; -1 on failure.
static int create_file(void) {
  const int file = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0) return file;
  char name[] = ".lockstep-doctor-XXXXXX";
  const int named = mkstemp(name);
  if (named >= 0) unlink(name);
  return named;
}

// Writes up to 64 MB, or an eighth of the `free` bytes, for 0.3 seconds, and
// syncs them. Returns the speed in bytes per second; 0, with errno, on failure.
static double measure_speed(double free, double *out_seconds) {
  enum { PIECE = 1 << 16, MOST = 1024 };
  const double most = fmin(MOST, free / 8 / PIECE);
  CLI_OWN_MEMORY(char, piece) = cli_allocate(PIECE);
  const int file = create_file();
  if (file < 0 || piece == NULL) {
    if (file >= 0) close(file);
    return 0;
  }
  // Not zeros, which a file system may store as nothing.
  for (size_t i = 0; i < PIECE; ++i)
    piece[i] = (char)(i * 2654435761U >> 13);
  const double began = cli_now();
  double done = 0;
  bool failed = false;
  for (int i = 0; (i == 0 || i < most) && !failed && cli_now() - began < 0.3;
       ++i) {
    const ssize_t size = write(file, piece, PIECE);
    failed = size <= 0;
    done += failed ? 0 : (double)size;
  }
  failed |= fsync(file) != 0;
  *out_seconds = cli_now() - began;
  const int error = errno;
  close(file);
  errno = error;
  return failed || *out_seconds <= 0 ? 0 : done / *out_seconds;
}

void cli_check_disk(cli_checkup *checkup) {
  static const double gb = 1e9, mb = 1e6;
  double seconds = 0;
  const double free = cli_free_disk(".");
  errno = 0;
  const double speed = measure_speed(free, &seconds);
  if (speed <= 0) {
    cli_finding *finding = cli_find(checkup, CLI_LEVEL_PROBLEM, "disk",
                                    "the current folder cannot be written: %s",
                                    strerror(errno != 0 ? errno : EIO));
    cli_advise(finding, "change to a folder with room for runs, or name one by "
                        "--run-dir");
    return;
  }
  const bool low = free < gb, slow = speed < 20 * mb;
  cli_finding *finding =
      cli_find(checkup, low || slow ? CLI_LEVEL_NOTE : CLI_LEVEL_OK, "disk",
               "%.3g GB free in the current folder; written and synced at "
               "%.3g MB/s",
               free / gb, speed / mb);
  if (low)
    cli_advise(finding, "checkpoints may fill it: fewer of them with --keep, "
                        "or another --run-dir");
  else if (slow)
    cli_advise(finding, "saves may take longer than the steps between them: "
                        "--save-every, or another --run-dir");
}
