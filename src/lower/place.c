// SPDX-License-Identifier: Apache-2.0
//
// Finds the devices that a program runs on: the cores of a system, for launches
// of replicated computations, which the back end starts (engine/backend.h), and
// the devices that users named.
#include "base/runtime_internal.h"
#include "engine/backend.h"
#include "graph/gather/gather.h"
#include "lockstep/runtime_settings.h"
#include "lower/ops.h"

// ---- Devices ---------------------------------------------------------------
// Puts a replica on a device. The computations of a program agree about them.
static ls_status place_replica(ls_lowering *all, int32_t replica,
                               int32_t device) {
  ls_program *program = all->program;
  const size_t count = program->num_devices, r = (size_t)replica;
  bool fits = r < count ? program->devices[r] == device : r == count;
  for (size_t k = 0; r == count && k < count; ++k)
    fits &= program->devices[k] != device;
  if (!fits)
    return ls_unimplemented("replica %d of a computation on device %d: another "
                            "replica, or the same one of another computation "
                            "in the program, is elsewhere",
                            replica, device);
  if (r < count) return ls_ok();
  LS_RETURN_IF_NO_MEMORY(LS_GROW(all->allocator, program->devices,
                                 program->devices_capacity, count + 1));
  program->devices[program->num_devices++] = device;
  return ls_ok();
}

// Puts the replicas of an op on the devices that the user chose for them.
static ls_status place_replicas(ls_lowering *all, const ls_node *node) {
  const ls_attr *names = ls_node_attr(node, LS_ATTR_ID_REPLICA_DEVICES);
  const size_t count = names != NULL ? names->as.strings.count : 0;
  size_t num_hosts = 0;
  for (size_t r = 0; r < count; ++r) {
    int32_t device = 0;
    bool is_core = false;
    LS_RETURN_IF_ERROR(ls_device_find(all->runtime, names->as.strings.items[r],
                                      &device, &is_core));
    num_hosts += device == LS_DEVICE_HOST;
    if (device >= 0) LS_RETURN_IF_ERROR(place_replica(all, (int32_t)r, device));
  }
  if (num_hosts > 0 && (num_hosts < count || all->program->num_devices > 0))
    return ls_unimplemented("replicas of one program on the CPU and on other "
                            "devices");
  all->names_host |= num_hosts > 0;
  all->names_other |= num_hosts == 0;
  return ls_ok();
}

// Returns the device of an op's scope, else of its variable; NULL: none.
static const char *name_device(const ls_node *node) {
  const ls_variable *variable = ls_node_named_variable(node);
  if (node->device != NULL || variable == NULL) return node->device;
  return variable->num_components > 0 ? variable->components[0]->device
                                      : variable->device;
}

// Notes the device that an op names. A name of no device says nothing.
static ls_status note_device(ls_lowering *all, const ls_node *node) {
  int32_t device = LS_DEVICE_ANY;
  bool is_core = false;
  const char *name = name_device(node);
  if (node->type == LS_OP_CONSTANT || node->type == LS_OP_PARAMETER)
    return ls_ok();
  if (name != NULL && strstr(name, "/device:") != NULL)
    ls_status_free(ls_device_find(all->runtime, name, &device, &is_core));
  all->names_host |= device == LS_DEVICE_HOST;
  all->names_other |= device != LS_DEVICE_HOST;
  if (all->device < 0 && device >= 0) all->device = device;
  all->names_several |= device >= 0 && device != all->device;
  return ls_ok();
}

ls_status ls_lower_choose_device(ls_lowering *all) {
  ls_program *program = all->program;
  program->on_host |= all->names_host && !all->names_other;
  if (program->replicas == 0 && all->names_several)
    ls_runtime_log(all->runtime, LS_LOG_WARNING, "lower",
                   "ops name several devices, and device %d computes all: "
                   "devices share the replicas of traced steps only "
                   "(ls_traced)",
                   all->device);
  return program->replicas == 0 && all->device >= 0
             ? place_replica(all, 0, all->device)
             : ls_ok();
}

// ---- Launches --------------------------------------------------------------
static ls_node *find_in(ls_graph *graph, const char *name) {
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    ls_node *node = graph->nodes[i];
    if (node->type != LS_OP_TPU_REPLICATE_METADATA) continue;
    const char *mark = ls_node_mark(node, LS_MARK_REPLICATE);
    if (mark != NULL && strcmp(mark, name) == 0) return node;
  }
  return NULL;
}

// Finds the op that has the computation's metadata: the replicate op or, with
// one replica, the metadata op in the user's graph; NULL if there is none.
static ls_node *find_metadata(const ls_lower_scope *scope, ls_node *node,
                              const char *name) {
  if (node->type == LS_OP_REPLICATE) return node;
  ls_graph *graph = ls_graph_resolve(ls_node_source(scope->from, node).graph);
  for (; graph != NULL; graph = graph->parent) {
    ls_node *found = find_in(graph, name);
    if (found != NULL) return found;
  }
  return NULL;
}

// Finds a name in a text of zero-terminated names.
static bool launch_is_known(const ls_text *names, const char *name) {
  for (size_t at = 0; at < names->size; at += strlen(names->data + at) + 1)
    if (strcmp(names->data + at, name) == 0) return true;
  return false;
}

static ls_status launch_add(ls_lowering *all, const ls_node *metadata) {
  ls_program *program = all->program;
  ls_object *launch = NULL;
  LS_RETURN_IF_ERROR(
      all->runtime->launches->make(all->runtime, metadata, &launch));
  if (launch == NULL) return ls_ok();
  if (!LS_GROW(all->allocator, program->launches, program->launches_capacity,
               program->num_launches + 1)) {
    ls_object_release(launch);
    return ls_out_of_memory();
  }
  program->launches[program->num_launches++] = launch;
  int32_t device = LS_DEVICE_ANY;
  for (int32_t r = 0; (device = all->runtime->launches->device(launch, r)) >= 0;
       ++r)
    LS_RETURN_IF_ERROR(place_replica(all, r, device));
  return ls_ok();
}

static ls_status launch_list(ls_lower_scope *scope, ls_node *node) {
  ls_lowering *all = scope->all;
  if (all->runtime->launches == NULL || scope->replicas > 0) return ls_ok();
  const char *name = ls_node_mark(node, LS_MARK_REPLICATE);
  if (name == NULL || launch_is_known(&all->launched, name)) return ls_ok();
  ls_text_append_bytes(&all->launched, name, strlen(name) + 1);
  LS_RETURN_IF_ERROR(ls_text_status(&all->launched));
  const ls_node *metadata = find_metadata(scope, node, name);
  return metadata == NULL ? ls_ok() : launch_add(all, metadata);
}

ls_status ls_lower_place(ls_lower_scope *scope, ls_node *node) {
  ls_lowering *all = scope->all;
  if (scope->replicas == 0 &&
      strcmp(ls_runtime_device(all->runtime), "cpu") != 0)
    LS_RETURN_IF_ERROR(node->type == LS_OP_REPLICATE ? place_replicas(all, node)
                                                     : note_device(all, node));
  return launch_list(scope, node);
}
