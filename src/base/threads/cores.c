// SPDX-License-Identifier: Apache-2.0
// Cores that this process may use, as Linux lists them.
//
// A container or a launcher may grant few of the machine's cores: only those
// that the process is bound to now count. A core's processors are read in /sys,
// a short file for each; a library that reads all of /sys would take longer
// than the first step of a small model. Nothing here is an error, since an
// unbound thread computes the same: without /sys each processor counts as a
// core.
#define _GNU_SOURCE
#include "base/threads/workers.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory/map.h"

enum {
  MOST_PROCESSORS = 8192,
  MOST_THREADS = 64
};  // MOST_THREADS: hardware
    // threads of a core.

typedef struct processors {
  cpu_set_t part[MOST_PROCESSORS / CPU_SETSIZE];
} processors;

struct ls_cores {
  ls_allocator *allocator;
  processors usable;  // Processors that the process may run on.
  processors *cores;  // For each core, its usable processors.
  int count;
  int here;  // The core on which ls_cores_create ran.
};

// ---- Sets ------------------------------------------------------------------
static bool cores_has(const processors *set, int processor) {
  return CPU_ISSET_S((size_t)processor, sizeof(*set), set->part) != 0;
}

static void cores_add(processors *set, int processor) {
  CPU_SET_S((size_t)processor, sizeof(*set), set->part);
}

int ls_parse_processors(const char *list, int *out, int most) {
  int count = 0;
  for (const char *at = list;; ++at) {
    char *end = NULL;
    const long first = strtol(at, &end, 10);
    if (end == at) return count;
    at = end;
    const long last = *at == '-' ? strtol(at + 1, &end, 10) : first;
    for (long i = first; i >= 0 && i <= last && i < MOST_PROCESSORS; ++i) {
      if (count == most) return count;
      out[count++] = (int)i;
    }
    if (*end != ',') return count;
    at = end;
  }
}

// ---- Looking ---------------------------------------------------------------
// Reads the processors that share a core with `processor`.
static void read_core(int processor, processors *core) {
  char path[96], list[256];
  snprintf(path, sizeof(path),
           "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
           processor);
  memset(core, 0, sizeof(*core));
  cores_add(core, processor);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  const ssize_t size = read(file, list, sizeof(list) - 1);
  close(file);
  list[size > 0 ? size : 0] = '\0';
  int threads[MOST_THREADS];
  const int count = ls_parse_processors(list, threads, MOST_THREADS);
  for (int i = 0; i < count; ++i)
    cores_add(core, threads[i]);
}

static int cores_core_of(const ls_cores *cores, int processor) {
  int at = 0;
  while (at < cores->count && !cores_has(&cores->cores[at], processor))
    ++at;
  return at;
}

// Groups the usable processors by core. Returns false without memory.
static bool list_cores(ls_cores *cores, const processors *usable) {
  ls_release(cores->allocator, cores->cores);
  cores->usable = (processors){0};
  cores->count = 0;
  const int most = CPU_COUNT_S(sizeof(*usable), usable->part);
  cores->cores = ls_new_array(cores->allocator, processors, (size_t)most);
  if (cores->cores == NULL) return false;
  for (int i = 0; i < MOST_PROCESSORS; ++i) {
    if (!cores_has(usable, i) || cores_core_of(cores, i) < cores->count)
      continue;
    processors *core = &cores->cores[cores->count++];
    read_core(i, core);
    CPU_AND_S(sizeof(*core), core->part, core->part, usable->part);
  }
  cores->usable = *usable;
  return true;
}

bool ls_cores_look_again(ls_cores *cores) {
  processors usable = {0};
  if (sched_getaffinity(0, sizeof(usable), usable.part) != 0)
    cores_add(&usable, 0);
  const bool same = memcmp(&usable, &cores->usable, sizeof(usable)) == 0;
  if (!same && !list_cores(cores, &usable)) return false;
  const int processor = sched_getcpu();
  cores->here =
      processor < 0 ? 0 : cores_core_of(cores, processor) % cores->count;
  return true;
}

ls_status ls_cores_create(ls_allocator *allocator, ls_cores **out_cores) {
  *out_cores = NULL;
  ls_cores *cores = ls_new(allocator, ls_cores);
  if (cores == NULL) return ls_out_of_memory();
  cores->allocator = allocator;
  if (!ls_cores_look_again(cores)) {
    ls_cores_destroy(cores);
    return ls_out_of_memory();
  }
  *out_cores = cores;
  return ls_ok();
}

void ls_cores_destroy(ls_cores *cores) {
  if (cores == NULL) return;
  ls_release(cores->allocator, cores->cores);
  ls_release(cores->allocator, cores);
}

int ls_cores_count(const ls_cores *cores) { return cores->count; }

uint64_t ls_cores_identify(const ls_cores *cores) {
  return ls_hash(&cores->usable, sizeof(cores->usable), 0);
}

bool ls_cores_share(const ls_cores *cores, int part, int parts) {
  processors share = {0};
  const int first = (int)((int64_t)cores->count * part / parts);
  const int end = (int)((int64_t)cores->count * (part + 1) / parts);
  for (int i = first; i == first || i < end; ++i)
    CPU_OR_S(sizeof(share), share.part, share.part, cores->cores[i].part);
  return sched_setaffinity(0, sizeof(share), share.part) == 0;
}

bool ls_cores_bind(const ls_cores *cores, int index) {
  if (index < 0 || index >= cores->count) return false;
  const processors *core = &cores->cores[(cores->here + index) % cores->count];
  return sched_setaffinity(0, sizeof(*core), core->part) == 0;
}
