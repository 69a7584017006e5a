// SPDX-License-Identifier: Apache-2.0
// Accessors of variables.
#include <stdio.h>

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "base/require.h"
#include "base/values/array_internal.h"
#include "graph/flow.h"
#include "graph/layers.h"
#include "graph/make/make.h"
#include "graph/own.h"
#include "graph/variables/variable.h"

// ---- Current variable -----------------------------------------------------
ls_variable *ls_variable_here(const ls_variable *variable) {
  variable = ls_variable_meant(variable);
  return variable->rules != NULL ? variable->rules->here(variable)
                                 : (ls_variable *)(uintptr_t)variable;
}

// ---- Accessors -------------------------------------------------------------
const char *ls_variable_name(const ls_variable *variable) {
  return variable->name;
}

ls_dtype ls_variable_dtype(const ls_variable *variable) {
  return variable->type.dtype;
}

ls_shape ls_variable_shape(const ls_variable *variable) {
  return variable->type.shape;
}

bool ls_variable_is_trainable(const ls_variable *variable) {
  return variable->trainable;
}

ls_variable_synchronization
ls_variable_synchronization_of(const ls_variable *variable) {
  return variable->synchronization;
}

ls_variable_aggregation
ls_variable_aggregation_of(const ls_variable *variable) {
  return variable->aggregation;
}

const char *ls_variable_device(const ls_variable *variable) {
  // Only a handle of a core has a device of its own.
  const bool is_core = variable->num_targets > 0 && variable->device != NULL;
  const ls_variable *here = is_core ? variable : ls_variable_here(variable);
  return here->device != NULL ? here->device : "";
}

ls_graph *ls_variable_graph(const ls_variable *variable) {
  return variable->graph;
}

// Returns the first component, or a handle's first target.
static ls_variable *primary(const ls_variable *variable) {
  if (variable->num_components > 0) return variable->components[0];
  while (variable->num_targets > 0)
    variable = variable->targets[0];
  return (ls_variable *)(uintptr_t)variable;
}

uint64_t ls_variable_id(const ls_variable *variable) {
  return primary(variable)->id;
}

size_t ls_variable_num_components(const ls_variable *variable) {
  return variable->num_components;
}

ls_variable *ls_variable_component(const ls_variable *variable, size_t index) {
  return index < variable->num_components ? ls_variable_seen(variable, index)
                                          : NULL;
}

ls_op ls_variable_initializer(const ls_variable *variable) {
  LS_MAKE_REQUIRE_FOR_OP(variable);
  return ls_variable_meant(variable)->initializer;
}

ls_status ls_variable_set_initializer(ls_variable *variable, ls_op op) {
  LS_REQUIRE(variable);
  if (variable->graph == NULL || op.graph != variable->graph ||
      ls_op_is_failed(op))
    return ls_invalid_argument(
        "an initializer of variable '%s' is an op of its build graph",
        variable->name);
  variable->initializer = op;
  return ls_ok();
}

ls_tensor ls_variable_initial_value(const ls_variable *variable) {
  LS_MAKE_REQUIRE(variable);
  const ls_variable *here = ls_variable_here(variable);
  if (here->num_components > 0)
    return ls_make_failed(
        "initial_value",
        ls_failed_precondition(
            "initial_value of variable '%s' in a replicated computation: only "
            "its components have one, which are not at hand there",
            variable->name));
  return here->graph != NULL
             ? here->initial_value
             : ls_make_failed(
                   "initial_value",
                   ls_failed_precondition(
                       "variable '%s' is eager: its initial value is not kept",
                       variable->name));
}

static ls_tensor named(uint16_t type, const char *name, const ls_tensor *inputs,
                       ls_variable *variable) {
  const ls_attr attr =
      LS_OWN_O(VARIABLE, variable == NULL ? NULL : &variable->object);
  return ls_op_output(ls_make_op(type, name, inputs, inputs == NULL ? 0 : 2,
                                 &attr, inputs == NULL ? 1 : 0),
                      0);
}

ls_tensor ls_variable_is_initialized(ls_variable *variable, const char *name) {
  if (variable == NULL)
    return ls_make_failed("is_variable_initialized",
                          ls_invalid_argument("the variable is NULL"));
  variable = ls_variable_meant(variable);
  if (variable->num_targets > 0) variable = ls_variable_here(variable);
  const size_t count = variable->num_components;
  if (count == 0) return named(LS_OP_IS_INITIALIZED, name, NULL, variable);
  ls_tensor all = ls_failed_tensor();
  for (size_t i = 0; i < count; ++i) {
    const ls_tensor one = named(LS_OP_IS_INITIALIZED, count == 1 ? name : NULL,
                                NULL, variable->components[i]);
    all = i == 0 ? one
                 : named(LS_OP_AND, i + 1 == count ? name : NULL,
                         (const ls_tensor[]){all, one}, NULL);
  }
  return all;
}

// ---- Constraints and slices ------------------------------------------------
bool ls_variable_has_constraint(const ls_variable *variable) {
  return variable->constraint != NULL;
}

ls_tensor ls_variable_constrain(const ls_variable *variable, ls_tensor value) {
  LS_MAKE_REQUIRE(variable);
  if (variable->constraint == NULL || ls_tensor_is_failed(value)) return value;
  LS_OWN(ls_nest, made) =
      variable->constraint(ls_leaf(value), variable->constraint_user);
  if (made.kind == LS_KIND_TENSOR) return made.as.tensor;
  const ls_status status =
      ls_nest_is_failed(made)
          ? ls_nest_status(made)
          : ls_invalid_argument(
                "the constraint of variable '%s' must return one tensor",
                variable->name);
  return ls_make_failed("constraint", status);
}

ls_status ls_variable_set_slice(ls_variable *variable,
                                const ls_slice_info *slice) {
  LS_REQUIRE(variable, slice);
  for (size_t i = 0; i < variable->num_components; ++i)
    LS_RETURN_IF_ERROR(ls_variable_set_slice(variable->components[i], slice));
  if (variable->num_components > 0) return ls_ok();
  if (variable->slice == NULL)
    LS_SET_ARRAY_OR_RETURN(variable->allocator, ls_slice_info, variable->slice,
                           1);
  *variable->slice = *slice;
  return ls_ok();
}

const ls_slice_info *ls_variable_slice(const ls_variable *variable) {
  return primary(variable)->slice;
}

ls_nest ls_nest_variable(ls_variable *variable) {
  return ls_nest_object(LS_KIND_VARIABLE, ls_object_retain(variable));
}

ls_variable *ls_nest_as_variable(ls_nest nest) {
  return nest.kind == LS_KIND_VARIABLE ? nest.as.ref : NULL;
}

ls_op ls_global_initializer(void) {
  ls_graph *graph = ls_graph_current();
  if (graph == NULL || graph->kind != LS_GRAPH_BUILD)
    return ls_group(NULL, 0, "init");
  LS_OWN_ARRAY(graph->allocator, ls_op, ops, graph->num_variables + 1);
  if (ops == NULL) {
    ls_graph_fail(graph, ls_out_of_memory());
    return (ls_op){0};
  }
  size_t count = 0;
  for (size_t i = 0; i < graph->num_variables; ++i) {
    const ls_variable *variable = (ls_variable *)graph->variables[i];
    // A container is initialized by its components' initializers.
    if (variable->num_components == 0) ops[count++] = variable->initializer;
  }
  return ls_group(ops, count, "init");
}

// ---- Reads and writes ------------------------------------------------------
// Reads and writes of variables: plain ops, or calls of a variable's rules.

static ls_tensor no_variable(const char *what) {
  return ls_make_failed(what, ls_invalid_argument("the variable is NULL"));
}

ls_tensor ls_variable_op(uint16_t type, ls_variable *variable,
                         const ls_tensor *value) {
  const ls_attr attr = LS_OWN_O(VARIABLE, &variable->object);
  return ls_make(type, value, value == NULL ? 0 : 1, &attr, 1);
}

ls_tensor ls_variable_scatter_op(ls_variable *variable, ls_scatter_op op,
                                 ls_tensor indices, ls_tensor updates) {
  const ls_attr attrs[] = {LS_OWN_O(VARIABLE, &variable->object),
                           LS_OWN_S(COMBINE, ls_scatter_name(op))};
  return ls_make(LS_OP_ASSIGN_SCATTER, (const ls_tensor[]){indices, updates}, 2,
                 attrs, LS_COUNT_OF(attrs));
}

ls_tensor ls_variable_read(ls_variable *variable) {
  if (variable == NULL) return no_variable("read_variable");
  variable = ls_variable_meant(variable);
  const ls_tensor given = ls_flow_read(variable);
  if (!ls_tensor_is_failed(given)) return given;
  const ls_status status = ls_variable_settle(variable);
  if (!ls_status_is_ok(status)) return ls_make_failed("read_variable", status);
  return variable->rules != NULL ? variable->rules->read(variable)
                                 : ls_variable_op(LS_OP_READ, variable, NULL);
}

ls_tensor ls_variable_as_tensor(ls_variable *variable) {
  if (variable == NULL) return no_variable("read_variable");
  variable = ls_variable_meant(variable);
  const ls_tensor given = ls_flow_read(variable);
  if (!ls_tensor_is_failed(given)) return given;
  return variable->rules != NULL ? variable->rules->as_tensor(variable)
                                 : ls_variable_op(LS_OP_READ, variable, NULL);
}

ls_tensor ls_variable_sparse_read(ls_variable *variable, ls_tensor indices) {
  if (variable == NULL) return no_variable("gather");
  variable = ls_variable_meant(variable);
  if (variable->num_targets > 0) variable = ls_variable_here(variable);
  return ls_gather(ls_variable_read(variable), indices, 0);
}

static ls_tensor write_any(uint16_t type, ls_variable *variable,
                           ls_tensor value, const char *what) {
  if (variable == NULL) return no_variable(what);
  variable = ls_variable_meant(variable);
  const ls_status status = ls_variable_settle(variable);
  if (!ls_status_is_ok(status)) return ls_make_failed(what, status);
  return variable->rules != NULL ? variable->rules->write(variable, type, value)
                                 : ls_variable_op(type, variable, &value);
}

ls_tensor ls_variable_assign(ls_variable *variable, ls_tensor value) {
  return write_any(LS_OP_ASSIGN, variable, value, "assign");
}

ls_tensor ls_variable_assign_add(ls_variable *variable, ls_tensor delta) {
  return write_any(LS_OP_ASSIGN_ADD, variable, delta, "assign_add");
}

ls_tensor ls_variable_assign_sub(ls_variable *variable, ls_tensor delta) {
  return write_any(LS_OP_ASSIGN_SUB, variable, delta, "assign_sub");
}

ls_tensor ls_variable_scatter(ls_variable *variable, ls_scatter_op op,
                              ls_tensor indices, ls_tensor updates) {
  if (variable == NULL) return no_variable("assign_scatter");
  if (ls_scatter_name(op) == NULL)
    return ls_make_failed("assign_scatter", ls_no_scatter(op));
  variable = ls_variable_meant(variable);
  return variable->rules != NULL
             ? variable->rules->scatter(variable, op, indices, updates)
             : ls_variable_scatter_op(variable, op, indices, updates);
}

ls_tensor ls_variable_scatter_update(ls_variable *variable, ls_tensor indices,
                                     ls_tensor updates) {
  return ls_variable_scatter(variable, LS_SCATTER_UPDATE, indices, updates);
}

ls_tensor ls_variable_scatter_add(ls_variable *variable, ls_tensor indices,
                                  ls_tensor updates) {
  return ls_variable_scatter(variable, LS_SCATTER_ADD, indices, updates);
}

// ---- Object ----------------------------------------------------------------
// Variables as objects: creation, sharing, printing and destruction.

LS_COUNTED(ls_variable)

static void destroy_variable(ls_object *object) {
  ls_variable *variable = (ls_variable *)object;
  if (variable->graph == NULL) ls_library_layers.eager->forget(variable);
  for (size_t i = 0; i < variable->num_components; ++i) {
    variable->components[i]->container = NULL;
    ls_variable_release(variable->components[i]);
  }
  for (size_t i = 0; i < variable->num_components; ++i) {
    ls_variable *seen =
        variable->replicated != NULL ? variable->replicated[i] : NULL;
    if (seen != NULL) seen->container = NULL;
    ls_variable_release(seen);
  }
  ls_release(variable->allocator, variable->replicated);
  ls_release(variable->allocator, variable->components);
  ls_release(variable->allocator, variable->own);
  ls_release(variable->allocator, variable->policy);
  for (size_t i = 0; i < variable->num_targets; ++i)
    ls_variable_release(variable->targets[i]);
  ls_release(variable->allocator, variable->targets);
  ls_object_release(variable->kept);
  ls_variable_release(variable->packed);
  ls_release(variable->allocator, variable->slice);
  ls_object_release(variable->strategy);
  ls_release(variable->allocator, variable->device);
  ls_release(variable->allocator, variable->name);
  ls_runtime_release(variable->runtime, LS_MADE_VARIABLE, variable);
}

static void print_variable(const ls_object *object, char *buffer, size_t size) {
  const ls_variable *variable = (const ls_variable *)object;
  if (variable->num_components == 0) {
    snprintf(buffer, size, "variable '%s' %s", variable->name,
             LS_SHAPE_TEXT(variable->type.dtype, variable->type.shape));
    return;
  }
  int at = snprintf(buffer, size, "%s:{", variable->class_name);
  for (size_t i = 0;
       i < variable->num_components && at > 0 && (size_t)at < size; ++i) {
    char text[LS_MAX_NAME];
    print_variable(&ls_variable_seen(variable, i)->object, text, sizeof(text));
    at += snprintf(buffer + at, size - (size_t)at, "%s\n  %zu: %s",
                   i == 0 ? "" : ",", i, text);
  }
  if (at > 0 && (size_t)at < size)
    snprintf(buffer + at, size - (size_t)at, "\n}");
}

const ls_object_type ls_variable_object_type = {
    .name = "variable", .destroy = destroy_variable, .print = print_variable};

ls_status ls_variable_make(ls_runtime *runtime, const char *name, ls_type type,
                           bool trainable, ls_variable **out_variable) {
  static uint64_t last_id;
  *out_variable = NULL;
  if (ls_dtype_owns_elements(type.dtype))
    return ls_unimplemented(
        "variable '%s' of dtype %s: variables must be numbers", name,
        ls_dtype_name(type.dtype));
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  LS_NEW_OR_RETURN(allocator, ls_variable, variable);
  variable->name = ls_copy_text(allocator, name, strlen(name));
  if (variable->name == NULL) {
    ls_release(allocator, variable);
    return ls_out_of_memory();
  }
  ls_object_init(&variable->object, &ls_variable_object_type);
  variable->allocator = allocator;
  variable->runtime = runtime;
  ls_runtime_note_made(runtime, LS_MADE_VARIABLE);
  variable->type = type;
  variable->trainable = trainable;
  variable->id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
  variable->family = variable->id;
  *out_variable = variable;
  return ls_ok();
}
