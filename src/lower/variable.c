// SPDX-License-Identifier: Apache-2.0
//
// Variables as values: each scope knows a variable's current value.
//
// Components of a distributed variable that is shared in the store have the
// container's value until one of them is written. At the end, if all have the
// same value, the container is written once.
#include "graph/walk.h"
#include "lower/ops.h"

// ---- Values of a replica's own ----------------------------------------------
// Variables with a value for each replica: in a replica's body the container
// stands for the replica's own value. An access to one replica's component
// gathers it from, or sets it on, that replica. A branch or loop in a merge
// runs once for all: there components are separate variables, which are
// gathered before the branch or loop and set after it.

bool ls_lower_lists(ls_variable *const *list, size_t count,
                    const ls_variable *variable) {
  for (size_t i = 0; i < count; ++i)
    if (list[i] == variable) return true;
  return false;
}

ls_status ls_lower_add_own(ls_lower_own *list, ls_allocator *allocator,
                           ls_variable *variable) {
  if (ls_lower_lists(list->items, list->count, variable)) return ls_ok();
  LS_PUSH_OR_RETURN(allocator, list->items, list->count, list->capacity,
                    variable);
  return ls_ok();
}

// ---- Components by core ----------------------------------------------------
const int64_t *ls_lower_core_copies(const ls_node *holder,
                                    const ls_variable *container) {
  const size_t replicas = (size_t)ls_node_int(holder, LS_ATTR_ID_REPLICAS);
  ls_graph_walk walk;
  for (ls_graph_walk_begin(&walk, ls_graph_resolve(holder->regions[0]));
       ls_graph_walk_next(&walk);) {
    if (ls_node_named_variable(walk.node) != container) continue;
    const int64_t *copies = ls_node_core_copies(walk.node, replicas);
    if (copies != NULL) return copies;
  }
  return NULL;
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

static bool is_split(const ls_lower_scope *scope, const ls_variable *container);

ls_status ls_lower_find_own(const ls_lower_scope *scope, const ls_graph *graph,
                            size_t replicas, ls_lower_own *list) {
  ls_graph_walk walk;
  for (ls_graph_walk_begin(&walk, graph); ls_graph_walk_next(&walk);) {
    ls_variable *variable = ls_node_named_variable(walk.node);
    const bool is_placed = ls_node_core_copies(walk.node, replicas) != NULL;
    if (variable != NULL &&
        (is_placed || variable->num_components == replicas) &&
        is_split(scope, variable))
      LS_RETURN_IF_ERROR(
          ls_lower_add_own(list, scope->all->allocator, variable));
  }
  return ls_ok();
}

// Returns the scope of the replica body in which each replica has a value of
// its own.
static const ls_lower_scope *owner(const ls_lower_scope *scope,
                                   const ls_variable *variable) {
  while (scope != NULL && !ls_lower_lists(scope->own, scope->num_own, variable))
    scope = scope->outer;
  return scope;
}

// Returns true if a scope is in a branch or loop of a merge, which runs once
// for all replicas.
static bool runs_once(const ls_lower_scope *scope,
                      const ls_lower_scope *owner) {
  return scope->in_merge && scope != owner;
}

// Returns true if each replica has a value of its own of the variable in this
// scope.
static bool is_own(const ls_lower_scope *scope, const ls_variable *variable) {
  if (variable->num_components == 0) return false;
  const ls_lower_scope *at = owner(scope, variable);
  return at != NULL && !runs_once(scope, at);
}

// Returns true if the variable's components are separate variables in this
// scope, although the enclosing replicas have a value each: in a branch or loop
// of a merge.
static bool is_apart(const ls_lower_scope *scope,
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
// Reads one replica's value of a variable with a value for each replica, for
// all replicas.
static ls_status read_own_component(ls_lower_scope *scope,
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

static ls_status write_own_component(ls_lower_scope *scope,
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

// Returns a variable's entry in this scope: its value's ref, shifted left by 1,
// and the flag that the scope has written it; 0 if there is none.
static uint64_t entry_of(const ls_lower_scope *scope,
                         const ls_variable *variable) {
  return (uint64_t)(uintptr_t)ls_map_find_u64(&scope->variables,
                                              (uintptr_t)variable);
}

uint64_t ls_lower_known(const ls_lower_scope *scope,
                        const ls_variable *variable) {
  return entry_of(scope, variable) >> 1;
}

// Returns true if the variable's value is known in this scope or an outer one.
static bool variable_is_known(const ls_lower_scope *scope,
                              const ls_variable *variable) {
  for (; scope != NULL; scope = scope->outer)
    if (ls_lower_known(scope, variable) != 0) return true;
  return false;
}

static bool is_shared(const ls_lower_scope *scope,
                      const ls_variable *container) {
  const ls_variable_states *states = scope->all->variables;
  return states->is_shared != NULL &&
         states->is_shared(states->store, container);
}

static ls_status set_entry(ls_lower_scope *scope, const ls_variable *variable,
                           uint64_t entry) {
  return ls_memory_status(ls_map_insert_u64(
      &scope->variables, (uintptr_t)variable, (void *)(uintptr_t)entry));
}

// Sets a value that an op has written.
static ls_status variable_set(ls_lower_scope *scope,
                              const ls_variable *variable, uint64_t ref) {
  return set_entry(scope, variable, ref << 1 | 1);
}

static ls_use *find_use(const ls_lower_scope *scope,
                        const ls_variable *variable) {
  ls_program *program = scope->all->program;
  for (size_t i = 0; i < program->num_uses; ++i)
    if (program->uses[i].variable == &variable->object)
      return &program->uses[i];
  return NULL;
}

// Adds a use of a variable to the program: a parameter.
static ls_status variable_add_use(ls_lower_scope *scope, ls_variable *variable,
                                  uint64_t *out_ref) {
  ls_program *program = scope->all->program;
  LS_RETURN_IF_NO_MEMORY(LS_GROW(scope->all->allocator, program->uses,
                                 scope->all->uses_capacity,
                                 program->num_uses + 1));
  ls_tensor parameter;
  LS_RETURN_IF_ERROR(
      ls_graph_add_parameter(scope->to, variable->type, NULL, &parameter));
  // A component has a use of its own only if it has its own buffer.
  program->uses[program->num_uses++] =
      (ls_use){.variable = ls_object_retain(&variable->object),
               .type = variable->type,
               .split_before = variable->container != NULL};
  *out_ref = parameter.ref;
  return ls_ok();
}

// ---- Reading ---------------------------------------------------------------
// Reads each component, and finds out if their values differ.
static ls_status read_components(ls_lower_scope *scope,
                                 const ls_variable *container,
                                 uint64_t **out_refs, bool *out_differs) {
  const size_t count = container->num_components;
  LS_ARENA_ARRAY_OR_RETURN(&scope->to->arena, uint64_t, refs, count);
  for (size_t i = 0; i < count; ++i) {
    LS_RETURN_IF_ERROR(
        ls_lower_read(scope, container->components[i], &refs[i]));
    *out_differs |= refs[i] != refs[0];
  }
  *out_refs = refs;
  return ls_ok();
}

// Reads a container whose components have their own values; in a replica, reads
// the replica's own.
static ls_status read_container(ls_lower_scope *scope, ls_variable *container,
                                uint64_t *out_ref) {
  const size_t count = container->num_components;
  uint64_t *refs = NULL;
  bool differs = false;
  LS_RETURN_IF_ERROR(read_components(scope, container, &refs, &differs));
  *out_ref = refs[0];
  if (!differs) return ls_ok();
  if (count == (size_t)scope->replicas) {
    const ls_lower_scope *at = scope;
    while (at->holder == NULL && at->outer != NULL)
      at = at->outer;
    LS_ARENA_ARRAY_OR_RETURN(&scope->to->arena, uint64_t, own, count);
    for (size_t r = 0; r < count; ++r)
      LS_RETURN_IF_ERROR(ls_lower_read(
          scope,
          at->holder != NULL ? ls_lower_component_of(at->holder, container, r)
                             : ls_variable_own(container, r),
          &own[r]));
    return ls_lower_take_own(scope, own, NULL, out_ref);
  }
  return ls_unimplemented("variable '%s' has a value for each of its %zu "
                          "replicas, but is read with %d",
                          container->name, count, scope->replicas);
}

// Returns true if the components of a distributed variable have values of their
// own in this scope.
static bool is_split(const ls_lower_scope *scope,
                     const ls_variable *container) {
  const ls_lowering *all = scope->all;
  return !is_shared(scope, container) ||
         ls_lower_lists(all->containers, all->num_containers, container);
}

ls_status ls_lower_differs(ls_lower_scope *scope, const ls_variable *variable,
                           bool *out_differs) {
  uint64_t *refs = NULL;
  *out_differs = false;
  if (variable->num_components == 0 || is_own(scope, variable) ||
      !is_split(scope, variable))
    return ls_ok();
  return read_components(scope, variable, &refs, out_differs);
}

// Records a value that a merge has read. It must be the same for all replicas,
// which is checked when the body is complete.
static ls_status note_met(const ls_lower_scope *scope, ls_variable *variable,
                          uint64_t ref) {
  ls_lowering *all = scope->all;
  if (!scope->in_merge) return ls_ok();
  LS_PUSH_OR_RETURN(all->allocator, all->met, all->num_met, all->met_capacity,
                    (ls_met_value){variable, scope->to, ref});
  return ls_ok();
}

static bool is_own_component(const ls_lower_scope *scope,
                             const ls_variable *variable) {
  return variable->container != NULL && is_own(scope, variable->container);
}

// Reads the value of a variable itself, not its container's: from this scope,
// an outer scope, or the start of the program.
static ls_status read_itself(ls_lower_scope *scope, ls_variable *variable,
                             uint64_t *out_ref) {
  *out_ref = ls_lower_known(scope, variable);
  if (*out_ref != 0) return note_met(scope, variable, *out_ref);
  if (scope->outer == NULL) {
    LS_RETURN_IF_ERROR(variable_add_use(scope, variable, out_ref));
  } else {
    uint64_t outer = 0;
    LS_RETURN_IF_ERROR(is_own_component(scope->outer, variable)
                           ? read_own_component(scope->outer, variable, &outer)
                           : read_itself(scope->outer, variable, &outer));
    LS_RETURN_IF_ERROR(ls_graph_add_capture(
        scope->to, (ls_tensor){scope->outer->to, outer}, out_ref));
  }
  return set_entry(scope, variable, *out_ref << 1);
}

ls_status ls_lower_read(ls_lower_scope *scope, ls_variable *variable,
                        uint64_t *out_ref) {
  ls_variable *container = variable->container;
  if (is_own(scope, variable)) return read_itself(scope, variable, out_ref);
  if (is_own_component(scope, variable))
    return read_own_component(scope, variable, out_ref);
  if (variable->num_components > 0 && is_split(scope, variable))
    return read_container(scope, variable, out_ref);
  const bool as_all = container != NULL && is_shared(scope, container) &&
                      !is_apart(scope, container) &&
                      !variable_is_known(scope, variable);
  return read_itself(scope, as_all ? container : variable, out_ref);
}

// ---- Writing ---------------------------------------------------------------
static ls_status note_container(ls_lower_scope *scope, ls_variable *container) {
  ls_lowering *all = scope->all;
  if (ls_lower_lists(all->containers, all->num_containers, container))
    return ls_ok();
  LS_PUSH_OR_RETURN(all->allocator, all->containers, all->num_containers,
                    all->containers_capacity, container);
  return ls_ok();
}

ls_status ls_lower_set(ls_lower_scope *scope, ls_variable *variable,
                       uint64_t ref) {
  if (variable->container != NULL)
    LS_RETURN_IF_ERROR(note_container(scope, variable->container));
  if (variable->num_components == 0 || is_own(scope, variable) ||
      !is_split(scope, variable))
    return set_entry(scope, variable, ref << 1);
  for (size_t i = 0; i < variable->num_components; ++i)
    LS_RETURN_IF_ERROR(set_entry(scope, variable->components[i], ref << 1));
  return ls_ok();
}

// Writes one component.
static ls_status variable_write_component(ls_lower_scope *scope,
                                          ls_variable *component,
                                          uint64_t ref) {
  uint64_t before = 0;
  if (is_apart(scope, component->container))
    return variable_set(scope, component, ref);
  // Reads the shared value first, which the other components keep.
  LS_RETURN_IF_ERROR(read_itself(
      scope,
      is_shared(scope, component->container) ? component->container : component,
      &before));
  LS_RETURN_IF_ERROR(note_container(scope, component->container));
  LS_RETURN_IF_ERROR(variable_set(scope, component, ref));
  ls_use *use = scope->outer == NULL ? find_use(scope, component) : NULL;
  if (use != NULL) use->written = true;
  return ls_ok();
}

ls_status ls_lower_write(ls_lower_scope *scope, ls_variable *variable,
                         uint64_t ref) {
  if (is_own(scope, variable)) return variable_set(scope, variable, ref);
  if (variable->container != NULL)
    return is_own_component(scope, variable)
               ? write_own_component(scope, variable, ref)
               : variable_write_component(scope, variable, ref);
  if (variable->num_components > 0 && is_split(scope, variable)) {
    for (size_t i = 0; i < variable->num_components; ++i)
      LS_RETURN_IF_ERROR(
          variable_write_component(scope, variable->components[i], ref));
    return ls_ok();
  }
  uint64_t before = 0;  // Adds the use of the variable.
  LS_RETURN_IF_ERROR(ls_lower_read(scope, variable, &before));
  LS_RETURN_IF_ERROR(variable_set(scope, variable, ref));
  if (scope->outer == NULL) find_use(scope, variable)->written = true;
  return ls_ok();
}

// ---- At the end ------------------------------------------------------------
// Writes the container once, because all components have one value.
static ls_status write_once(ls_lower_scope *scope, ls_variable *container,
                            bool was_shared, uint64_t ref) {
  uint64_t unused = 0;
  if (find_use(scope, container) == NULL)
    LS_RETURN_IF_ERROR(variable_add_use(scope, container, &unused));
  for (size_t i = 0; i < container->num_components; ++i) {
    ls_use *use = find_use(scope, container->components[i]);
    if (use != NULL) use->written = false;
  }
  ls_use *use = find_use(scope, container);
  use->written = true;
  use->split_before = !was_shared;
  return variable_set(scope, container, ref);
}

// Returns true if the store has a value of a variable. The program expects that
// state of the store; for another state, another program is lowered.
static ls_status find_state(ls_lowering *all, ls_variable *variable,
                            bool *out_has_value) {
  const ls_variable_states *states = all->variables;
  ls_program *program = all->program;
  *out_has_value =
      states->has_value != NULL && states->has_value(states->store, variable);
  LS_PUSH_OR_RETURN(
      all->allocator, program->expects, program->num_expects,
      program->expects_capacity,
      (ls_expectation){ls_object_retain(&variable->object), *out_has_value});
  return ls_ok();
}

// Writes each component, because they no longer share one value. If they had
// none, neither before the program nor by it, those not written have none.
static ls_status write_each(ls_lower_scope *scope, ls_variable *container) {
  bool has_value = false;
  LS_RETURN_IF_ERROR(find_state(scope->all, container, &has_value));
  for (size_t i = 0; i < container->num_components; ++i) {
    ls_variable *component = container->components[i];
    uint64_t ref = ls_lower_known(scope, component), unused = 0;
    if (ref == 0 && !has_value && !(entry_of(scope, container) & 1)) continue;
    if (ref == 0) ref = ls_lower_known(scope, container);
    LS_RETURN_IF_ERROR(variable_add_use(scope, component, &unused));
    ls_use *use = find_use(scope, component);
    use->written = true;
    use->split_before = false;
    LS_RETURN_IF_ERROR(variable_set(scope, component, ref));
  }
  ls_use *use = find_use(scope, container);
  use->written = false;
  use->split_after = true;
  return ls_ok();
}

ls_status ls_lower_containers(ls_lower_scope *scope) {
  const ls_lowering *all = scope->all;
  for (size_t c = 0; c < all->num_containers; ++c) {
    ls_variable *container = all->containers[c];
    const bool was_shared = is_shared(scope, container);
    uint64_t one = 0;
    bool equal = true;
    for (size_t i = 0; i < container->num_components; ++i) {
      const ls_variable *component = container->components[i];
      const ls_use *use = find_use(scope, component);
      uint64_t ref = ls_lower_known(scope, component);
      if (was_shared && ref == 0) ref = ls_lower_known(scope, container);
      // An unwritten component keeps its old value.
      if (!was_shared && (use == NULL || !use->written)) ref = 0;
      if (i == 0) one = ref;
      equal = equal && ref != 0 && ref == one;
    }
    if (equal)
      LS_RETURN_IF_ERROR(write_once(scope, container, was_shared, one));
    else if (was_shared)
      LS_RETURN_IF_ERROR(write_each(scope, container));
  }
  return ls_ok();
}

// ---- States ----------------------------------------------------------------
// Lowers tests if a variable has a value. The result is known when a program is
// lowered: from the program's earlier writes, or from the store.
static bool is_written(const ls_lower_scope *scope,
                       const ls_variable *variable) {
  for (; variable != NULL && scope != NULL; scope = scope->outer)
    if (entry_of(scope, variable) & 1) return true;
  return false;
}

ls_status lower_is_initialized(ls_lower_scope *scope, ls_node *node) {
  ls_variable *variable = ls_node_variable(node);
  bool has_value =
      is_written(scope, variable) || is_written(scope, variable->container);
  if (!has_value)
    LS_RETURN_IF_ERROR(find_state(scope->all, variable, &has_value));
  uint64_t ref = 0;
  LS_RETURN_IF_ERROR(
      ls_lower_scalar(scope, LS_DTYPE_BOOL, has_value, node, &ref));
  return ls_lower_map(scope, ls_ref(node->id, 0), ref);
}
