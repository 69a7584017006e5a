// SPDX-License-Identifier: Apache-2.0
//
// Replicated handles: one op outside the computation for each variable it uses,
// which stands for the copies of all replicas. The computation's ops of the
// variable name the handle; each replica uses its own copy because gathering
// maps the container to it.
#include <stdio.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "distribute/variables/variable.h"
#include "graph/make/make.h"
#include "lockstep/tpu_variable.h"
#include "tpu/pod/topology.h"
#include "tpu/replicate/replicate.h"

ls_variable *ls_tpu_handled_variable(const ls_attr *attrs, size_t count) {
  const ls_attr *attr = ls_attr_find(attrs, count, LS_ATTR_ID_VARIABLE);
  ls_variable *variable =
      attr == NULL ? NULL : (ls_variable *)(uintptr_t)attr->as.object;
  return variable != NULL && variable->num_components > 0 &&
                 variable->rules->replicates
             ? variable
             : NULL;
}

// ---- Find the copies -------------------------------------------------------
static bool is_on(const ls_variable *container, size_t index,
                  const char *device) {
  const char *at = container->components[index]->device;
  return at != NULL && strcmp(at, device) == 0;
}

static const ls_topology *topology_of(const ls_strategy_cores *cores) {
  const ls_device_assignment *assignment =
      cores->assignment != NULL ? cores->assignment : cores->all_cores;
  return assignment != NULL ? assignment->topology : NULL;
}

// Finds a replica's core by the computation's assignment. Without one, a single
// replica is on the system's first core, and several take the cores in order.
static ls_status variable_handles_core_of(const ls_tpu_context *self,
                                          const ls_strategy_cores *cores,
                                          int32_t replica, int32_t core,
                                          ls_device_name *out_name) {
  ls_device_name name;
  if (self->around.assignment != NULL) {
    LS_RETURN_IF_ERROR(ls_device_assignment_device(
        self->around.assignment, replica, core, cores->job, &name));
  } else {
    const ls_topology *topology = topology_of(cores);
    LS_RETURN_IF_ERROR(ls_topology_device_at(
        topology, topology->places[replica], cores->job, &name));
  }
  return ls_device_canonical(name.text, NULL, out_name);
}

// Finds the first copy on any core of the replica.
static ls_status find_copy(const ls_tpu_context *self,
                           const ls_variable *container, int32_t replica,
                           size_t *out_index) {
  const ls_strategy_cores *cores = ls_strategy_of(container)->cores;
  const int32_t cores_per_replica =
      self->around.assignment != NULL
          ? ls_device_assignment_num_cores_per_replica(self->around.assignment)
          : 1;
  for (int32_t k = 0; k < cores_per_replica; ++k) {
    ls_device_name name;
    LS_RETURN_IF_ERROR(
        variable_handles_core_of(self, cores, replica, k, &name));
    for (size_t i = 0; i < container->num_components; ++i) {
      *out_index = i;
      if (is_on(container, i, name.text)) return ls_ok();
    }
  }
  return ls_invalid_argument(
      "variable '%s' has no component on any core of replica %d",
      container->name, replica);
}

// Returns true if the replicas' cores are known.
static bool knows_cores(const ls_tpu_context *self,
                        const ls_strategy_cores *cores) {
  if (self->around.assignment != NULL) return true;
  const ls_topology *topology = topology_of(cores);
  return topology != NULL &&
         (self->num_replicas == 1 ||
          self->num_replicas == topology->num_tasks * topology->per_task);
}

// Finds the index of each replica's copy. `*out_differ` is false if the indices
// are just the variable's own order of replicas.
static ls_status find_copies(const ls_tpu_context *self,
                             const ls_variable *container, int64_t *copies,
                             size_t *out_count, bool *out_differ) {
  const ls_strategy_cores *cores = ls_strategy_of(container)->cores;
  const size_t replicas = (size_t)self->num_replicas;
  const bool is_own = self->around.assignment != NULL &&
                      (self->around.assignment == cores->assignment ||
                       self->around.assignment == cores->all_cores);
  *out_count = 0;
  *out_differ = false;
  if (!knows_cores(self, cores)) return ls_ok();
  for (size_t r = 0; r < replicas; ++r) {
    size_t index = 0;
    LS_RETURN_IF_ERROR(
        is_own ? ls_variable_own_index(container, (int32_t)r, &index)
               : find_copy(self, container, (int32_t)r, &index));
    copies[r] = (int64_t)index;
    *out_differ |=
        replicas != container->num_components ||
        index != (container->own == NULL ? r : (size_t)container->own[r]);
  }
  *out_count = replicas;
  return ls_ok();
}

// ---- Make the op -----------------------------------------------------------
static ls_status variable_handles_add_op(const ls_tpu_context *self,
                                         ls_variable *variable,
                                         const int64_t *copies, size_t count,
                                         ls_op *out_op) {
  const bool is_packed = variable->packed != NULL;
  const ls_attr attrs[] = {
      LS_OWN_O(VARIABLE, &variable->object),
      {.name = "is_mirrored",
       .kind = LS_ATTR_BOOL,
       .as.i = variable->synchronization != LS_SYNCHRONIZATION_ON_READ},
      {.name = "is_packed", .kind = LS_ATTR_BOOL, .as.i = is_packed},
      {.name = "copies",
       .kind = LS_ATTR_INTS,
       .as.ints = {.items = copies, .count = count}}};
  char name[LS_MAX_FULL_NAME + 2];
  snprintf(name, sizeof(name), "%s/", variable->name);
  ls_graph *graph =
      self->pivot.id != 0 ? self->pivot.graph : ls_graph_current();
  ls_scope scope = {0};
  ls_context_enter_graph(&scope, graph);
  {
    LS_CONTROL_SCOPE(NULL, 0);
    LS_NAME_SCOPE(name);
    *out_op =
        ls_make_op(LS_OP_TPU_REPLICATED_INPUT, "handle", NULL, 0, attrs,
                   LS_COUNT_OF(attrs) - (count == 0 || is_packed ? 1 : 0));
  }
  ls_scope_end(&scope);
  return ls_op_is_failed(*out_op) ? ls_graph_error(graph) : ls_ok();
}

// Returns true if the handle's op still exists: a refused call removes its ops.
static bool variable_handles_is_there(const ls_tpu_handle *handle) {
  const ls_node *node = ls_graph_node(handle->op.graph, handle->op.id);
  return node != NULL && node->type == LS_OP_TPU_REPLICATED_INPUT &&
         ls_tpu_handled_variable(node->attrs, node->num_attrs) ==
             handle->variable;
}

ls_status ls_tpu_context_handle(ls_tpu_context *self, ls_variable *variable,
                                const ls_tpu_handle **out_handle) {
  size_t at = 0;
  while (at < self->num_handles && self->handles[at].variable != variable)
    ++at;
  *out_handle = NULL;
  if (at < self->num_handles && variable_handles_is_there(&self->handles[at])) {
    *out_handle = &self->handles[at];
    return ls_ok();
  }
  LS_RETURN_IF_NO_MEMORY(LS_GROW(self->allocator, self->handles,
                                 self->handles_capacity,
                                 self->num_handles + 1));
  LS_OWN_ARRAY_OR_RETURN(self->allocator, int64_t, copies,
                         (size_t)self->num_replicas);
  size_t count = 0;
  ls_op op = {0};
  bool differ = false;
  LS_RETURN_IF_ERROR(find_copies(self, variable, copies, &count, &differ));
  LS_RETURN_IF_ERROR(
      variable_handles_add_op(self, variable, copies, count, &op));
  if (at == self->num_handles)
    ++self->num_handles;
  else
    ls_release(self->allocator, self->handles[at].copies);
  self->handles[at] =
      (ls_tpu_handle){variable, op, differ ? ls_give(&copies) : NULL};
  *out_handle = &self->handles[at];
  return ls_ok();
}

ls_status ls_tpu_context_check_write(const ls_tpu_context *self,
                                     const ls_tpu_handle *handle) {
  const ls_variable *variable = handle->variable;
  if (variable->synchronization == LS_SYNCHRONIZATION_ON_READ ||
      handle->copies == NULL ||
      variable->num_components <= (size_t)self->num_replicas)
    return ls_ok();
  return ls_invalid_argument(
      "a write of variable '%s' in computation '%s', whose %d replicas are on "
      "the cores of %d of its %zu copies: the others would keep the old value; "
      "write it with a replica on each of their cores, or make it ON_READ",
      variable->name, self->name, self->num_replicas, self->num_replicas,
      variable->num_components);
}

ls_status ls_tpu_variable_handle(ls_variable *variable, ls_op *out_op) {
  LS_REQUIRE_OUT(out_op, variable);
  ls_tpu_context *context = ls_tpu_context_current();
  if (variable->num_components == 0 || !variable->rules->replicates)
    return ls_invalid_argument(
        "variable '%s' is of no TPU strategy: it has no replicated handle",
        variable->name);
  if (context == NULL)
    return ls_failed_precondition(
        "the replicated handle of variable '%s' outside of a computation: use "
        "that of a component (ls_variable_handle)",
        variable->name);
  const ls_tpu_handle *handle = NULL;
  LS_RETURN_IF_ERROR(ls_tpu_context_handle(context, variable, &handle));
  *out_op = handle->op;
  return ls_ok();
}
