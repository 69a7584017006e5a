// SPDX-License-Identifier: Apache-2.0
//
// Handles to variables: caching handles and packed handles. A handle is a
// variable with targets and rules, but without a stored value.
#include "base/values/nest_internal.h"
#include "lockstep/handles.h"

#include <stdio.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "distribute/variables/variable.h"
#include "graph/make/make.h"
#include "lockstep/eager.h"

ls_status ls_handle_make(const char *name, ls_variable *const *targets,
                         size_t count, const ls_variable_rules *rules,
                         ls_variable **out_handle) {
  const ls_variable *first = targets[0];
  ls_variable *handle = NULL;
  LS_RETURN_IF_ERROR(ls_variable_make(first->runtime,
                                      name != NULL ? name : first->name,
                                      first->type, first->trainable, &handle));
  handle->graph = first->graph;
  handle->initializer = first->initializer;
  handle->initial_value = first->initial_value;
  handle->synchronization = first->synchronization;
  handle->aggregation = first->aggregation;
  handle->constraint = first->constraint;
  handle->constraint_user = first->constraint_user;
  if (first->strategy != NULL)
    handle->strategy = ls_object_retain(first->strategy);
  handle->rules = rules;
  handle->targets = ls_new_array(handle->allocator, ls_variable *, count);
  if (handle->targets == NULL) {
    ls_variable_release(handle);
    return ls_out_of_memory();
  }
  for (size_t i = 0; i < count; ++i)
    handle->targets[i] = ls_variable_retain(targets[i]);
  handle->num_targets = count;
  *out_handle = handle;
  return ls_ok();
}

// Writes to the only target, or to the one on the current device.
static ls_tensor write_target(ls_variable *handle, uint16_t op,
                              ls_tensor value) {
  ls_variable *target = ls_variable_here(handle);
  if (op == LS_OP_ASSIGN) return ls_variable_assign(target, value);
  return op == LS_OP_ASSIGN_ADD ? ls_variable_assign_add(target, value)
                                : ls_variable_assign_sub(target, value);
}

static ls_tensor scatter_target(ls_variable *handle, ls_scatter_op op,
                                ls_tensor indices, ls_tensor updates) {
  return ls_variable_scatter(ls_variable_here(handle), op, indices, updates);
}

static ls_status handle_check_target(ls_nest leaf, size_t position) {
  const ls_variable *variable = ls_nest_as_variable(leaf);
  if (variable != NULL && variable->num_components == 0 &&
      variable->num_targets == 0)
    return ls_ok();
  return ls_invalid_argument(
      "a handle needs plain variables; element %zu is %s", position,
      LS_NEST_TEXT(leaf));
}

ls_status ls_handle_check_targets(const char *noun, const ls_nest *leaves,
                                  size_t count) {
  for (size_t i = 0; i < count; ++i) {
    LS_RETURN_IF_ERROR(handle_check_target(leaves[i], i));
    const ls_variable *first = ls_nest_as_variable(leaves[0]);
    const ls_variable *target = ls_nest_as_variable(leaves[i]);
    if (target->type.dtype != first->type.dtype ||
        !ls_shape_equal(target->type.shape, first->type.shape))
      return ls_invalid_argument(
          "%s of variables of one type: '%s' is %s, '%s' (number %zu) is %s",
          noun, first->name,
          LS_SHAPE_TEXT(first->type.dtype, first->type.shape), target->name, i,
          LS_SHAPE_TEXT(target->type.dtype, target->type.shape));
  }
  return ls_ok();
}

// ---- Caching scopes --------------------------------------------------------
// Data of this layer per thread: the caching scopes.
typedef struct caching {
  uint64_t entered, left;  // Numbers of scopes entered and left so far.
  uint64_t scope;          // Unique number of the latest scope.
} caching;

static caching *caching_here(void) {
  return LS_CONTEXT_ROOM(caching, ls_context_current(), distribute);
}

static void left_caching(ls_scope_state *inside) {
  (void)inside;
  ++caching_here()->left;
}

static const ls_scope_type caching_scope = {.name = "a caching scope",
                                            .left = left_caching};

bool ls_in_caching_scope(void) {
  const caching *counts = caching_here();
  return counts->entered > counts->left;
}

ls_caching_counts ls_caching_counts_here(void) {
  const caching *counts = caching_here();
  return (ls_caching_counts){counts->entered, counts->left};
}

void ls_caching_scope_begin(ls_scope *scope) {
  static uint64_t last;
  if (ls_in_caching_scope()) {
    ls_context_refuse(
        scope,
        ls_failed_precondition(
            "a caching scope cannot be nested: this thread is in one already"));
    return;
  }
  ls_context_open(scope, &caching_scope);
  caching *counts = caching_here();
  ++counts->entered;
  counts->scope = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

// ---- Caching variables -----------------------------------------------------
// A value that was read. It is valid in its scope, in its graph and in graphs
// inside.
typedef struct cache {
  ls_object object;
  ls_allocator *allocator;
  uint64_t scope, graph_id;
  ls_tensor value;
  ls_array *array;  // Eager: the value, which is kept longer than frames.
} cache;

static void destroy_cache(ls_object *object) {
  cache *c = (cache *)object;
  ls_array_release(c->array);
  ls_release(c->allocator, c);
}

static const ls_object_type cache_type = {.name = "cache",
                                          .destroy = destroy_cache};

// Returns true if the graph with this id is the current one or encloses it.
static bool is_inside(uint64_t graph_id) {
  const ls_graph *at = ls_graph_resolve(ls_graph_current());
  for (; at != NULL; at = ls_graph_resolve(at->parent))
    if (at->id == graph_id) return true;
  return false;
}

// Returns the cached value; a failed tensor if there is no value that is valid
// here.
static ls_tensor kept_value(cache *c) {
  if (c->scope != caching_here()->scope || !is_inside(c->graph_id))
    return ls_failed_tensor();
  ls_graph *graph = ls_graph_resolve(c->value.graph);
  if (ls_graph_node_of(graph, c->value.ref) != NULL) return c->value;
  // The tensor may have been freed with its frame, or with a refused call in
  // its graph.
  if (graph->kind != LS_GRAPH_EAGER) return ls_failed_tensor();
  {
    LS_DEVICE_SCOPE("/device:CPU:0");
    c->value = ls_tensor_from_array(c->array);
  }
  return c->value;
}

static void keep_value(cache *c, ls_tensor value) {
  ls_graph *graph = ls_graph_resolve(value.graph);
  ls_array_release(c->array);
  c->array = NULL;
  c->scope = 0;
  if (graph->kind == LS_GRAPH_EAGER) {
    const ls_status status = ls_tensor_value(value, &c->array);
    const bool has_value = ls_status_is_ok(status);
    ls_status_free(status);
    if (!has_value) return;
  }
  c->value = value;
  c->graph_id = graph->id;
  c->scope = caching_here()->scope;
}

static ls_tensor read_cached(ls_variable *handle) {
  ls_variable *target = handle->targets[0];
  cache *c = (cache *)handle->kept;
  if (!ls_in_caching_scope()) return ls_variable_read(target);
  ls_tensor value = kept_value(c);
  if (!ls_tensor_is_failed(value)) return value;
  const ls_tensor fresh = ls_variable_read(target);
  {
    LS_DEVICE_SCOPE("/device:CPU:0");
    value = ls_identity(fresh);
  }
  if (!ls_tensor_is_failed(value)) keep_value(c, value);
  return value;
}

static ls_variable *only_target(const ls_variable *handle) {
  return handle->targets[0];
}

static const ls_variable_rules caching_rules = {.class_name = "CachingVariable",
                                                .read = read_cached,
                                                .as_tensor = read_cached,
                                                .write = write_target,
                                                .scatter = scatter_target,
                                                .here = only_target};

ls_status ls_caching_variable_create(ls_variable *variable,
                                     ls_variable **out_variable) {
  LS_REQUIRE_OUT(out_variable, variable);
  LS_RETURN_IF_ERROR(handle_check_target(
      (ls_nest){.kind = LS_KIND_VARIABLE, .as.ref = variable}, 0));
  ls_variable *handle = NULL;
  LS_RETURN_IF_ERROR(
      ls_handle_make(NULL, &variable, 1, &caching_rules, &handle));
  cache *c = ls_new(handle->allocator, cache);
  if (c == NULL) {
    ls_variable_release(handle);
    return ls_out_of_memory();
  }
  ls_object_init(&c->object, &cache_type);
  c->allocator = handle->allocator;
  handle->kept = &c->object;
  *out_variable = handle;
  return ls_ok();
}

// ---- Packed variables ------------------------------------------------------
void ls_host_cpu_of(const char *device, char *host, size_t size) {
  const char *end = strstr(device, "/device:");
  const size_t length = end == NULL ? strlen(device) : (size_t)(end - device);
  snprintf(host, size, "%.*s/device:CPU:0", (int)length, device);
}

ls_status ls_packed_variable_on(const ls_variable *packed, const char *device,
                                ls_variable **out_variable) {
  LS_REQUIRE_OUT(out_variable, packed, device);
  ls_device_name name;
  LS_RETURN_IF_ERROR(ls_device_canonical(device, NULL, &name));
  for (size_t i = 0; i < packed->num_targets && *out_variable == NULL; ++i)
    if (strcmp(ls_variable_device(packed->targets[i]), name.text) == 0)
      *out_variable = packed->targets[i];
  for (size_t i = 0; i < packed->num_targets && *out_variable == NULL; ++i) {
    char host[sizeof(name.text) + 16];
    ls_host_cpu_of(ls_variable_device(packed->targets[i]), host, sizeof(host));
    if (strcmp(host, name.text) == 0) *out_variable = packed->targets[i];
  }
  return *out_variable != NULL
             ? ls_ok()
             : ls_invalid_argument("packed variable '%s' has no part on '%s'",
                                   packed->name, name.text);
}

// Finds the target on the current device; without a device, on the host's CPU.
static ls_status target_here(const ls_variable *packed,
                             ls_variable **out_variable) {
  const char *device = ls_context_current()->scoped.device;
  return ls_packed_variable_on(
      packed, device != NULL ? device : "/device:CPU:0", out_variable);
}

static ls_tensor handle_read_packed(ls_variable *packed) {
  ls_variable *target = NULL;
  const ls_status status = target_here(packed, &target);
  return ls_status_is_ok(status) ? ls_variable_read(target)
                                 : ls_make_failed("read_variable", status);
}

static ls_tensor write_packed(ls_variable *packed, uint16_t op,
                              ls_tensor value) {
  ls_variable *target = NULL;
  const ls_status status = target_here(packed, &target);
  return ls_status_is_ok(status) ? write_target(packed, op, value)
                                 : ls_make_failed(ls_op_table[op].name, status);
}

static ls_tensor scatter_packed(ls_variable *packed, ls_scatter_op op,
                                ls_tensor indices, ls_tensor updates) {
  ls_variable *target = NULL;
  const ls_status status = target_here(packed, &target);
  return ls_status_is_ok(status) ? scatter_target(packed, op, indices, updates)
                                 : ls_make_failed("assign_scatter", status);
}

// Returns the target on the current device, else the first, for calls that
// cannot fail.
static ls_variable *packed_here(const ls_variable *packed) {
  ls_variable *target = NULL;
  const ls_status status = target_here(packed, &target);
  if (!ls_status_is_ok(status)) target = packed->targets[0];
  ls_status_free(status);
  return target;
}

static const ls_variable_rules packed_rules = {.class_name = "PackedVariable",
                                               .read = handle_read_packed,
                                               .as_tensor = handle_read_packed,
                                               .write = write_packed,
                                               .scatter = scatter_packed,
                                               .here = packed_here};

ls_variable *ls_variable_packed(const ls_variable *variable) {
  return variable->packed;
}

ls_status ls_variable_pack(ls_variable *container) {
  char name[LS_MAX_FULL_NAME + 16];
  snprintf(name, sizeof(name), "%s/packed/", container->name);
  return ls_handle_make(name, container->components, container->num_components,
                        &packed_rules, &container->packed);
}

ls_status ls_packed_variable_create(const char *name, const ls_nest *leaves,
                                    size_t count, ls_variable **out_variable) {
  LS_REQUIRE_OUT(out_variable);
  LS_REQUIRE_ITEMS(leaves, count);
  ls_graph *graph = NULL;
  LS_RETURN_IF_ERROR(ls_graph_find_current(&graph));
  if (graph->kind != LS_GRAPH_EAGER)
    return ls_failed_precondition(
        "packed variables are made in eager, not in graph '%s'", graph->name);
  if (count == 0)
    return ls_invalid_argument("a packed variable of no variables");
  LS_RETURN_IF_ERROR(
      ls_handle_check_targets("a packed variable", leaves, count));
  ls_allocator *allocator = graph->allocator;
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_variable *, targets, count);
  for (size_t i = 0; i < count; ++i)
    targets[i] = ls_nest_as_variable(leaves[i]);
  return ls_handle_make(name, targets, count, &packed_rules, out_variable);
}
