// SPDX-License-Identifier: Apache-2.0
// Cores, by hwloc.
//
// A container or a launcher may leave us few of the machine's cores: only
// those count that the process is bound to now. Nothing here is an error, since
// an unbound thread computes the same.
#define _GNU_SOURCE
#include "base/cores.h"

#include <hwloc.h>
#include <sched.h>
#include <unistd.h>

struct ls_cores {
  ls_allocator *allocator;
  hwloc_topology_t topology;  // NULL when it could not be loaded.
  hwloc_obj_t *usable;        // Cores, in the machine's order from here on.
  int count;
};

// Loads what we look at: cores and threads, no devices. NULL where the system
// does not show them, as in a root without /sys, of which hwloc would complain
// on the standard error.
static hwloc_topology_t load_topology(void) {
  hwloc_topology_t topology = NULL;
#if defined(__linux__)
  if (access("/sys/devices/system/cpu", F_OK) != 0) return NULL;
#endif
  if (hwloc_topology_init(&topology) != 0) return NULL;
  // It asks each thread's CPUID for what the system has just said.
  (void)hwloc_topology_set_components(
      topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
  hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_type_filter(topology, HWLOC_OBJ_CORE,
                                 HWLOC_TYPE_FILTER_KEEP_ALL);
  if (hwloc_topology_load(topology) != 0) {
    hwloc_topology_destroy(topology);
    return NULL;
  }
  return topology;
}

// The core that the caller runs on, so that who is bound to another one does
// not have to wait until the system moves one of the two. 0 if it is unknown.
static int core_of_caller(hwloc_topology_t topology, int total) {
  int here = 0;
  hwloc_bitmap_t place = hwloc_bitmap_alloc();
  if (place == NULL) return 0;
  if (hwloc_get_last_cpu_location(topology, place, HWLOC_CPUBIND_THREAD) == 0) {
    while (here < total &&
           !hwloc_bitmap_intersects(
               hwloc_get_obj_by_type(topology, HWLOC_OBJ_CORE, (unsigned)here)
                   ->cpuset,
               place))
      ++here;
  }
  hwloc_bitmap_free(place);
  return here < total ? here : 0;
}

// Lists the cores of which the process may use a thread. False without memory.
static bool list_usable(ls_cores *cores) {
  const int total = hwloc_get_nbobjs_by_type(cores->topology, HWLOC_OBJ_CORE);
  if (total <= 0) return true;
  cores->usable = ls_new_array(cores->allocator, hwloc_obj_t, (size_t)total);
  if (cores->usable == NULL) return false;
  hwloc_bitmap_t bound = hwloc_bitmap_alloc();
  if (bound == NULL) return false;
  const bool is_known =
      hwloc_get_cpubind(cores->topology, bound, HWLOC_CPUBIND_THREAD) == 0;
  const int here = core_of_caller(cores->topology, total);
  for (int i = 0; i < total; ++i) {
    hwloc_obj_t core = hwloc_get_obj_by_type(cores->topology, HWLOC_OBJ_CORE,
                                             (unsigned)((here + i) % total));
    if (!is_known || hwloc_bitmap_intersects(core->cpuset, bound)) {
      cores->usable[cores->count++] = core;
    }
  }
  hwloc_bitmap_free(bound);
  return true;
}

bool ls_cores_look_again(ls_cores *cores) {
  ls_release(cores->allocator, cores->usable);
  cores->usable = NULL;
  cores->count = 0;
  return cores->topology == NULL || list_usable(cores);
}

ls_status ls_cores_create(ls_allocator *allocator, ls_cores **out_cores) {
  *out_cores = NULL;
  ls_cores *cores = ls_new(allocator, ls_cores);
  if (cores == NULL) return ls_out_of_memory();
  cores->allocator = allocator;
  cores->topology = load_topology();
  if (!ls_cores_look_again(cores)) {
    ls_cores_destroy(cores);
    return ls_out_of_memory();
  }
  *out_cores = cores;
  return ls_ok();
}

void ls_cores_destroy(ls_cores *cores) {
  if (cores == NULL) return;
  if (cores->topology != NULL) hwloc_topology_destroy(cores->topology);
  ls_release(cores->allocator, cores->usable);
  ls_release(cores->allocator, cores);
}

// Processors that the process may use: what is known without a topology.
static int usable_processors(void) {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
#endif
  return 1;
}

int ls_cores_count(const ls_cores *cores) {
  return cores->count > 0 ? cores->count : usable_processors();
}

bool ls_cores_bind(const ls_cores *cores, int index) {
  if (index < 0 || index >= cores->count) return false;
  // Without the thread's old binding the core may be wider than we may use;
  // the kernel cuts it to what the container allows.
  return hwloc_set_cpubind(cores->topology, cores->usable[index]->cpuset,
                           HWLOC_CPUBIND_THREAD) == 0;
}
