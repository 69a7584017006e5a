// SPDX-License-Identifier: Apache-2.0
//
// Variables with a value for each replica: in a replica's body the container
// stands for the replica's own value. An access to one replica's component
// gathers it from, or sets it on, that replica. A branch or loop in a merge
// runs once for all: there components are separate variables, which are
// gathered before the branch or loop and set after it.
#include "base/runtime_internal.h"
#include "graph/walk.h"
#include "lower/ops.h"

bool ls_lower_has_own(const ls_lower_own *list, const ls_variable *variable) {
  for (size_t i = 0; i < list->count; ++i)
    if (list->items[i] == variable) return true;
  return false;
}

ls_status ls_lower_add_own(ls_lower_own *list, ls_allocator *allocator,
                           ls_variable *variable) {
  if (ls_lower_has_own(list, variable)) return ls_ok();
  LS_PUSH_OR_RETURN(allocator, list->items, list->count, list->capacity,
                    variable);
  return ls_ok();
}

// ---- Components by core ----------------------------------------------------
static const ls_attr *find_copies(const ls_graph *graph,
                                  const ls_variable *container) {
  ls_graph_walk walk;
  for (ls_graph_walk_begin(&walk, graph); ls_graph_walk_next(&walk);) {
    const ls_attr *attr = ls_node_attr(walk.node, LS_ATTR_ID_VARIABLE);
    if (attr == NULL || (const void *)attr->as.object != container) continue;
    const ls_attr *copies = ls_node_attr_named(walk.node, LS_MARK_CORE_COPIES);
    if (copies != NULL) return copies;
  }
  return NULL;
}

const int64_t *ls_lower_core_copies(const ls_node *holder,
                                    const ls_variable *container) {
  const ls_attr *copies =
      find_copies(ls_graph_resolve(holder->regions[0]), container);
  return copies != NULL ? copies->as.ints.items : NULL;
}

ls_variable *ls_lower_component_of(const ls_node *holder,
                                   const ls_variable *container,
                                   size_t replica) {
  const int64_t *copies = ls_lower_core_copies(holder, container);
  return copies != NULL ? container->components[copies[replica]]
                        : ls_variable_own(container, replica);
}

// Returns the replicate op whose body the scope is in.
static const ls_node *holder_of(const ls_lower_scope *scope) {
  while (scope->holder == NULL)
    scope = scope->outer;
  return scope->holder;
}

static size_t replicas_of(const ls_lower_scope *scope) {
  return (size_t)ls_node_int(holder_of(scope), LS_ATTR_ID_REPLICAS);
}

ls_status ls_lower_find_own(const ls_lower_scope *scope, const ls_graph *graph,
                            size_t replicas, ls_lower_own *list) {
  ls_graph_walk walk;
  for (ls_graph_walk_begin(&walk, graph); ls_graph_walk_next(&walk);) {
    const ls_attr *attr = ls_node_attr(walk.node, LS_ATTR_ID_VARIABLE);
    ls_variable *variable =
        attr == NULL ? NULL : (ls_variable *)attr->as.object;
    const bool is_placed =
        ls_node_attr_named(walk.node, LS_MARK_CORE_COPIES) != NULL;
    if (variable != NULL &&
        (is_placed || variable->num_components == replicas) &&
        ls_lower_is_split(scope, variable))
      LS_RETURN_IF_ERROR(
          ls_lower_add_own(list, scope->all->allocator, variable));
  }
  return ls_ok();
}

// Returns the scope of the replica body in which each replica has a value of
// its own.
static const ls_lower_scope *owner(const ls_lower_scope *scope,
                                   const ls_variable *variable) {
  for (; scope != NULL; scope = scope->outer)
    for (size_t i = 0; i < scope->num_own; ++i)
      if (scope->own[i] == variable) return scope;
  return NULL;
}

// Returns true if a scope is in a branch or loop of a merge, which runs once
// for all replicas.
static bool runs_once(const ls_lower_scope *scope,
                      const ls_lower_scope *owner) {
  return scope->in_merge && scope != owner;
}

bool ls_lower_is_own(const ls_lower_scope *scope, const ls_variable *variable) {
  if (variable->num_components == 0) return false;
  const ls_lower_scope *at = owner(scope, variable);
  return at != NULL && !runs_once(scope, at);
}

bool ls_lower_is_apart(const ls_lower_scope *scope,
                       const ls_variable *container) {
  const ls_lower_scope *at = owner(scope, container);
  return at != NULL && runs_once(scope, at);
}

static ls_status read_component(ls_lower_scope *scope,
                                const ls_variable *component, int32_t replica,
                                uint64_t *out_ref) {
  const size_t replicas = replicas_of(scope);
  uint64_t ref = 0;
  LS_RETURN_IF_ERROR(ls_lower_read(scope, component->container, &ref));
  const ls_shape shape = ls_lowered_type(scope, ref).shape;
  const int64_t count = ls_shape_num_elements(shape);
  LS_ARENA_ARRAY_OR_RETURN(&scope->to->arena, int64_t, rows, replicas);
  for (size_t r = 0; r < replicas; ++r)
    rows[r] = count;
  LS_RETURN_IF_ERROR(ls_lower_flatten(scope, ref, NULL, &ref));
  LS_RETURN_IF_ERROR(
      ls_lower_gather_all(scope, ref, rows, (int32_t)replicas, NULL, &ref));
  LS_RETURN_IF_ERROR(ls_lower_elements(scope, ref, replica * count,
                                       (replica + 1) * count, NULL, &ref));
  return ls_lower_reshape(scope, ref, shape, NULL, out_ref);
}

static ls_status own_write_component(ls_lower_scope *scope,
                                     const ls_variable *component,
                                     int32_t replica, uint64_t ref) {
  uint64_t inputs[3] = {0, ref, 0}, ids[2] = {0};
  LS_RETURN_IF_ERROR(ls_lower_read(scope, component->container, &inputs[2]));
  LS_RETURN_IF_ERROR(
      ls_lower_make(scope, LS_OP_REPLICA_ID, NULL, 0, NULL, 0, NULL, &ids[0]));
  LS_RETURN_IF_ERROR(
      ls_lower_scalar(scope, LS_DTYPE_I32, replica, NULL, &ids[1]));
  LS_RETURN_IF_ERROR(
      ls_lower_make(scope, LS_OP_EQUAL, ids, 2, NULL, 0, NULL, &inputs[0]));
  LS_RETURN_IF_ERROR(
      ls_lower_make(scope, LS_OP_SELECT, inputs, 3, NULL, 0, NULL, &ref));
  return ls_lower_write(scope, component->container, ref);
}

// Finds the replica that has the component.
static ls_status find_replica(const ls_lower_scope *scope,
                              const ls_variable *component,
                              int32_t *out_replica) {
  const ls_node *holder = holder_of(scope);
  const int32_t replicas = (int32_t)replicas_of(scope);
  for (*out_replica = 0; *out_replica < replicas; ++*out_replica)
    if (ls_lower_component_of(holder, component->container,
                              (size_t)*out_replica) == component)
      return ls_ok();
  return ls_invalid_argument(
      "component '%s' of variable '%s' is on the core of "
      "no replica of the computation that uses it",
      component->name, component->container->name);
}

// Makes ops that run in the replicas, inside a merge, too.
ls_status ls_lower_read_own_component(ls_lower_scope *scope,
                                      const ls_variable *component,
                                      uint64_t *out_ref) {
  const bool in_merge = scope->in_merge;
  int32_t replica = 0;
  LS_RETURN_IF_ERROR(find_replica(scope, component, &replica));
  scope->in_merge = false;
  const ls_status status = read_component(scope, component, replica, out_ref);
  scope->in_merge = in_merge;
  return status;
}

ls_status ls_lower_write_own_component(ls_lower_scope *scope,
                                       const ls_variable *component,
                                       uint64_t ref) {
  const bool in_merge = scope->in_merge;
  int32_t replica = 0;
  LS_RETURN_IF_ERROR(find_replica(scope, component, &replica));
  scope->in_merge = false;
  const ls_status status = own_write_component(scope, component, replica, ref);
  scope->in_merge = in_merge;
  return status;
}
