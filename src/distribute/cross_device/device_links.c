// SPDX-License-Identifier: Apache-2.0
//
// Chooses cross-device ops for a set of devices, by the links between them.
// Results have the same bits with any choice.
#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "distribute/cross_device/cross_device.h"
#include "lockstep/strategy_extended.h"

// ---- Devices ---------------------------------------------------------------
static ls_status canonical_set(ls_allocator *allocator,
                               const char *const *devices, size_t count,
                               ls_device_set *out_set) {
  *out_set =
      (ls_device_set){.allocator = allocator,
                      .names = ls_new_array(allocator, ls_device_name, count)};
  if (out_set->names == NULL) return ls_out_of_memory();
  for (; out_set->count < count; ++out_set->count)
    LS_RETURN_IF_ERROR(ls_device_canonical(devices[out_set->count], NULL,
                                           &out_set->names[out_set->count]));
  return count > 0 ? ls_ok()
                   : ls_invalid_argument(
                         "there is no device to choose cross-device ops for");
}

static bool device_links_is_of(const char *name, const char *type) {
  return strstr(name, type) != NULL;
}

static size_t device_links_count_of(const ls_device_set *set,
                                    const char *type) {
  size_t count = 0;
  for (size_t i = 0; i < set->count; ++i)
    count += device_links_is_of(set->names[i].text, type);
  return count;
}

// Writes the canonical name of device i of the machine; returns false if there
// is no such device.
static bool visible_name(const ls_machine *machine, size_t i,
                         ls_device_name *out_name) {
  LS_OWN(ls_status, status) =
      ls_device_canonical(machine->devices[i].name, NULL, out_name);
  return ls_status_is_ok(status);
}

// Returns the index of a device in the machine; the number of devices if it is
// missing.
static size_t find_visible(const ls_machine *machine, const char *name) {
  for (size_t i = 0; i < machine->num_devices; ++i) {
    ls_device_name visible;
    if (visible_name(machine, i, &visible) && strcmp(visible.text, name) == 0)
      return i;
  }
  return machine->num_devices;
}

static bool warn_of_device(const char *why, const char *device) {
  ls_runtime_log(ls_runtime_current(), LS_LOG_WARNING, "distribute",
                 "device %s %s: values are reduced to one device", device, why);
  return false;
}

static bool all_are_visible_gpus(const ls_device_set *set,
                                 const ls_machine *machine) {
  for (size_t i = 0; i < set->count; ++i)
    if (find_visible(machine, set->names[i].text) == machine->num_devices)
      return warn_of_device("is not visible", set->names[i].text);
  for (size_t i = 0; i < set->count; ++i)
    if (!device_links_is_of(set->names[i].text, "/device:GPU:"))
      return warn_of_device("is no GPU", set->names[i].text);
  return true;
}

// ---- Links -----------------------------------------------------------------
enum { CUBE_SIZE = 8 };

// Two squares of fully linked GPUs, with a link from each GPU to its
// counterpart: the mesh of a DGX-1. Bit k is a link to device k.
static const unsigned cube_mesh[CUBE_SIZE] = {
    1u << 1 | 1u << 2 | 1u << 3 | 1u << 4,
    1u << 0 | 1u << 2 | 1u << 3 | 1u << 5,
    1u << 0 | 1u << 1 | 1u << 3 | 1u << 6,
    1u << 0 | 1u << 1 | 1u << 2 | 1u << 7,
    1u << 0 | 1u << 5 | 1u << 6 | 1u << 7,
    1u << 1 | 1u << 4 | 1u << 6 | 1u << 7,
    1u << 2 | 1u << 4 | 1u << 5 | 1u << 7,
    1u << 3 | 1u << 4 | 1u << 5 | 1u << 6,
};

static bool is_cube_mesh(const ls_device_set *set, const ls_machine *machine) {
  if (set->count < CUBE_SIZE) return false;
  for (size_t i = 0; i < CUBE_SIZE; ++i) {
    const ls_machine_device *device =
        &machine->devices[find_visible(machine, set->names[i].text)];
    unsigned links = 0;
    for (size_t k = 0; k < device->num_links; ++k) {
      const int other = device->links[k];
      if (other < 0 || other >= CUBE_SIZE) return false;
      links |= 1u << other;
    }
    if ((links & ~(1u << i)) != cube_mesh[i]) return false;
  }
  return true;
}

static ls_status check_machine(const char *function,
                               const ls_machine *machine) {
  if (machine == NULL) return ls_null_argument(function, "machine");
  if (machine->devices == NULL && machine->num_devices > 0)
    return ls_null_argument(function, "machine->devices");
  for (size_t i = 0; i < machine->num_devices; ++i) {
    const ls_machine_device *device = &machine->devices[i];
    if (device->name == NULL)
      return ls_null_item(function, "machine->devices", i, ".name");
    if (device->links == NULL && device->num_links > 0)
      return ls_null_item(function, "machine->devices", i, ".links");
  }
  return ls_ok();
}

// ---- Choose ----------------------------------------------------------------
ls_status ls_cross_device_by_links(const char *const *devices,
                                   size_t num_devices,
                                   const ls_machine *machine,
                                   ls_cross_device **out_ops) {
  LS_REQUIRE_OUT(out_ops);
  LS_RETURN_IF_ERROR(check_machine(__func__, machine));
  LS_REQUIRE_EACH(devices, num_devices);
  LS_OWN(ls_device_set, set) = {0};
  LS_RETURN_IF_ERROR(
      canonical_set(ls_current_allocator(), devices, num_devices, &set));
  for (size_t i = 0; i < machine->num_devices; ++i) {
    ls_device_name visible;
    if (visible_name(machine, i, &visible) &&
        ls_device_set_find(&set, visible.text) == set.count)
      ls_runtime_log(ls_runtime_current(), LS_LOG_INFO, "distribute",
                     "device %s is visible and not used", visible.text);
  }
  if (!all_are_visible_gpus(&set, machine))
    return ls_reduce_to_one_create(NULL, out_ops);
  return is_cube_mesh(&set, machine)
             ? ls_hierarchical_copy_create(LS_SOME((long long)set.count),
                                           out_ops)
             : ls_nccl_all_reduce_create(LS_SOME(1), out_ops);
}

static const char *choose_implementation(const ls_device_set *set,
                                         const ls_machine *machine) {
  const size_t gpus = device_links_count_of(set, "/device:GPU:");
  const size_t cpus = device_links_count_of(set, "/device:CPU:");
  const ls_graph *graph = ls_graph_resolve(ls_graph_current());
  if (cpus == set->count)
    return graph != NULL && graph->kind == LS_GRAPH_BUILD ? NULL : "RING";
  if (gpus != set->count) return NULL;
  size_t visible = 0;
  for (size_t i = 0; i < machine->num_devices; ++i) {
    ls_device_name name;
    visible += visible_name(machine, i, &name) &&
               device_links_is_of(name.text, "/device:GPU:");
  }
  // True if two logical devices share a GPU, which NCCL does not allow.
  const bool shared =
      machine->num_physical_gpus != 0 && machine->num_physical_gpus < visible;
  return machine->has_nccl && !shared ? "NCCL" : "RING";
}

ls_status ls_cross_device_auto(const char *const *devices, size_t num_devices,
                               const ls_machine *machine,
                               ls_cross_device **out_ops) {
  LS_REQUIRE_OUT(out_ops);
  LS_RETURN_IF_ERROR(check_machine(__func__, machine));
  LS_REQUIRE_EACH(devices, num_devices);
  LS_OWN(ls_device_set, set) = {0};
  LS_RETURN_IF_ERROR(
      canonical_set(ls_current_allocator(), devices, num_devices, &set));
  const char *implementation = choose_implementation(&set, machine);
  return implementation == NULL ? ls_reduce_to_one_create(NULL, out_ops)
                                : ls_collective_create(implementation, out_ops);
}

// ---- The set of a strategy -------------------------------------------------
ls_cross_device *ls_strategy_cross_device(const ls_strategy *strategy) {
  return strategy->cross_device;
}

ls_status ls_strategy_set_cross_device(ls_strategy *strategy,
                                       ls_cross_device *cross_device) {
  LS_REQUIRE(strategy);
  if (!strategy->kind->distributes)
    return ls_failed_precondition("%s has no cross-device ops",
                                  strategy->label);
  if (cross_device == NULL)
    LS_RETURN_IF_ERROR(ls_reduce_to_one_create(NULL, &cross_device));
  else
    ls_cross_device_retain(cross_device);
  const ls_cross_device *before = strategy->cross_device;
  if (before != NULL && (!before->built_in || !cross_device->built_in))
    ls_strategy_renew_id(strategy);
  ls_cross_device_release(strategy->cross_device);
  strategy->cross_device = cross_device;
  return ls_ok();
}
