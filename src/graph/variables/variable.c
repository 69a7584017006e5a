// SPDX-License-Identifier: Apache-2.0
#include "graph/variables/variable.h"

#include <stdio.h>

#include "base/require.h"
#include "base/values/array_internal.h"
#include "graph/layers.h"
#include "graph/make/make.h"
#include "graph/own.h"
#include "graph/trial.h"
#include "graph/walk.h"
#include "lockstep/device_name.h"
#include "lockstep/shape_rules.h"

// ---- Create ----------------------------------------------------------------
// Makes the initial value, as ops of the current build or eager graph.
static ls_status initial_tensor(const ls_variable_options *options,
                                ls_tensor *out_value) {
  *out_value = ls_failed_tensor();
  if (options->initial_of != NULL) {
    ls_variable *from = options->initial_of;
    LS_RETURN_IF_ERROR(ls_variable_settle(from));
    *out_value = from->graph != NULL ? ls_identity(from->initial_value)
                                     : ls_variable_op(LS_OP_READ, from, NULL);
  } else if (options->initial_array != NULL) {
    *out_value = ls_make_constant_copy(options->initial_array);
  } else if (options->initial_value.ref != 0) {
    *out_value = options->initial_value;
  } else if (options->initializer != NULL) {
    const ls_nest made =
        options->initializer(ls_none(), options->initializer_user);
    if (ls_nest_is_failed(made)) {
      const ls_status status = ls_nest_status(made);
      ls_nest_release(made);
      return status;
    }
    *out_value = ls_nest_tensor(made, 0);
    const bool is_tensor = made.kind == LS_KIND_TENSOR;
    ls_nest_release(made);
    if (!is_tensor)
      return ls_invalid_argument("an initializer must return one tensor");
  } else if (options->dtype != LS_DTYPE_NONE) {
    *out_value = ls_fill(options->dtype, options->shape, 0);
  } else {
    return ls_invalid_argument(
        "variable '%s' has neither an initial value nor a dtype",
        options->name ? options->name : "Variable");
  }
  return ls_ok();
}

static ls_status check_initial(const ls_variable_options *options,
                               ls_tensor value, ls_type *out_type) {
  ls_graph *graph = ls_graph_current();
  if (value.ref == 0) {
    const ls_status status = ls_graph_take_error(graph);
    return !ls_status_is_ok(status)
               ? status
               : ls_invalid_argument("the initial value is a failed tensor");
  }
  const ls_node *node = ls_graph_node_of(value.graph, value.ref);
  if (node != NULL && node->failure != NULL)
    return ls_status_clone(node->failure);
  *out_type = ls_graph_type(value.graph, value.ref);
  const bool wanted_shape = options->dtype != LS_DTYPE_NONE;
  if ((wanted_shape && out_type->dtype != options->dtype) ||
      (options->initializer != NULL && wanted_shape &&
       !ls_shape_compatible(out_type->shape, options->shape)))
    return ls_invalid_argument(
        "variable '%s' shall be %s, its initial value is %s",
        options->name ? options->name : "Variable",
        LS_SHAPE_TEXT(options->dtype, options->shape),
        LS_SHAPE_TEXT(out_type->dtype, out_type->shape));
  if (!ls_shape_is_known(out_type->shape))
    return ls_invalid_argument(
        "variable '%s': the initial value's shape %s is not known",
        options->name ? options->name : "Variable",
        LS_SHAPE_TEXT(out_type->dtype, out_type->shape));
  return ls_ok();
}

// Adds the op that writes the initial value, in a build graph.
static ls_status add_initializer(ls_variable *variable, ls_tensor value) {
  ls_graph *graph = variable->graph;
  LS_RETURN_IF_NO_MEMORY(LS_GROW(graph->allocator, graph->variables,
                                 graph->variables_capacity,
                                 graph->num_variables + 1));
  char name[LS_MAX_FULL_NAME + 16];
  snprintf(name, sizeof(name), "%s/", variable->name);
  {
    LS_NAME_SCOPE(name);
    const ls_attr attr = LS_OWN_O(VARIABLE, &variable->object);
    variable->initializer =
        ls_make_op(LS_OP_ASSIGN, "initializer", &value, 1, &attr, 1);
  }
  if (ls_op_is_failed(variable->initializer)) return ls_graph_take_error(graph);
  graph->variables[graph->num_variables++] =
      ls_object_retain(&variable->object);
  return ls_ok();
}

static bool is_trainable(const ls_variable_options *options) {
  return options->trainable == LS_FLAG_DEFAULT
             ? options->synchronization != LS_SYNCHRONIZATION_ON_READ
             : options->trainable == LS_FLAG_ON;
}

static ls_status add_to_collections(ls_variable *variable,
                                    const ls_variable_options *options) {
  static const char *const usual[] = {LS_COLLECTION_GLOBAL_VARIABLES};
  const bool given = options->collections != NULL;
  const char *const *names = given ? options->collections : usual;
  const size_t count = given ? options->num_collections : 1;
  const ls_nest leaf = {.kind = LS_KIND_VARIABLE, .as.ref = variable};
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(
        ls_graph_add_to_collection(variable->graph, names[i], leaf));
  return variable->trainable
             ? ls_graph_add_to_collection(
                   variable->graph, LS_COLLECTION_TRAINABLE_VARIABLES, leaf)
             : ls_ok();
}

// How a variable gets its first value.
typedef enum start {
  START_VALUE,  // From a tensor.
  START_ZERO,   // Eager: zeros, as fresh memory has them.
  START_JOINS,  // Eager: the value of the other components, stored once.
  START_NONE,   // Eager: without a value.
} start;

static bool variable_is_given(const ls_variable_options *options) {
  return options->initial_array != NULL || options->initial_value.ref != 0 ||
         options->initializer != NULL;
}

static ls_status check_no_value(const ls_variable_options *options,
                                const ls_graph *graph) {
  const char *name = options->name != NULL ? options->name : "Variable";
  if (!options->no_value) return ls_ok();
  if (graph->kind != LS_GRAPH_EAGER)
    return ls_invalid_argument(
        "variable '%s' of graph '%s' with no_value: in a build graph it has "
        "none until its initializer runs",
        name, graph->name);
  if (variable_is_given(options))
    return ls_invalid_argument(
        "variable '%s' with both no_value and an initial value", name);
  return options->dtype != LS_DTYPE_NONE && ls_shape_is_known(options->shape)
             ? ls_ok()
             : ls_invalid_argument(
                   "variable '%s' with no_value needs a dtype and a known "
                   "shape, got %s",
                   name, LS_SHAPE_TEXT(options->dtype, options->shape));
}

static start start_of(const ls_variable_options *options,
                      const ls_graph *graph) {
  if (graph->kind != LS_GRAPH_EAGER) return START_VALUE;
  if (options->initial_of != NULL)
    return options->initial_of->joining ? START_JOINS : START_VALUE;
  if (options->no_value) return START_NONE;
  const bool has_zero =
      ls_dtype_is_float(options->dtype) || ls_dtype_is_integer(options->dtype);
  return !variable_is_given(options) && has_zero &&
                 ls_shape_is_known(options->shape)
             ? START_ZERO
             : START_VALUE;
}

// Sets the device from the enclosing scopes.
static ls_status place_variable(ls_variable *variable) {
  const char *device = ls_context_current()->scoped.device;
  if (device == NULL) return ls_ok();
  ls_device_name canonical;
  LS_RETURN_IF_ERROR(ls_device_canonical(device, NULL, &canonical));
  return ls_keep_text(variable->allocator, canonical.text, &variable->device);
}

static ls_status give_first_value(ls_variable *variable,
                                  const ls_variable_options *options,
                                  ls_graph *graph, start from,
                                  ls_tensor value) {
  const ls_eager_vtable *eager = ls_library_layers.eager;
  if (graph->kind == LS_GRAPH_BUILD) {
    variable->graph = graph;
    variable->initial_value = value;
    LS_RETURN_IF_ERROR(add_initializer(variable, value));
    return add_to_collections(variable, options);
  }
  switch (from) {
  case START_VALUE:
    return eager->initialize(variable, value);
  case START_ZERO:
    return eager->initialize_zero(variable);
  case START_NONE:
    return eager->reserve(variable);
  default:
    return ls_ok();
  }
}

static ls_status variable_create(const ls_variable_options *options,
                                 const char *name, ls_variable **out_variable) {
  ls_graph *graph = ls_graph_current();
  ls_tensor value = ls_failed_tensor();
  ls_type type = {options->dtype, options->shape};
  LS_RETURN_IF_ERROR(check_no_value(options, graph));
  const start from = start_of(options, graph);
  if (from == START_JOINS) {
    type = options->initial_of->type;
  } else if (from == START_VALUE) {
    LS_RETURN_IF_ERROR(initial_tensor(options, &value));
    LS_RETURN_IF_ERROR(check_initial(options, value, &type));
  }
  LS_OWN(ls_variable, variable) = NULL;
  LS_RETURN_IF_ERROR(ls_variable_make(graph->runtime, name, type,
                                      is_trainable(options), &variable));
  variable->synchronization = options->synchronization;
  variable->aggregation = options->aggregation;
  variable->restored_from = options->restored_from;
  variable->constraint = options->constraint;
  variable->constraint_user = options->constraint_user;
  variable->joining = from == START_JOINS;
  LS_RETURN_IF_ERROR(place_variable(variable));
  LS_RETURN_IF_ERROR(give_first_value(variable, options, graph, from, value));
  return ls_hand_over(&variable, out_variable);
}

static ls_status check_possible(const ls_variable_options *options,
                                const char *name) {
  if (options->caching_device != NULL)
    return ls_unimplemented("variable '%s': a caching device ('%s'); read it "
                            "in a caching scope instead",
                            name, options->caching_device);
  return options->partitioner == NULL
             ? ls_ok()
             : ls_unimplemented("variable '%s': partitioned variables", name);
}

// Creates a variable in the current graph; its name scopes may be those of
// another graph.
static ls_status create_named(const ls_variable_options *options,
                              const ls_name_scope *names, const char *base,
                              ls_variable **out_variable) {
  ls_graph *graph = ls_graph_current();
  char name[LS_MAX_FULL_NAME], inner[LS_MAX_FULL_NAME + 16];
  ls_name_scope_print(names, name, sizeof(name));
  const size_t at = strlen(name);
  if (at + strlen(base) >= sizeof(name))
    return ls_invalid_argument("a variable's name, with its scopes, has %zu "
                               "characters; %zu are possible",
                               at + strlen(base), sizeof(name) - 1);
  if (graph->kind == LS_GRAPH_EAGER) {
    const size_t num_nodes = graph->num_nodes;
    const ls_arena_mark_point memory = ls_arena_mark(&graph->arena);
    snprintf(name + at, sizeof(name) - at, "%s", base);
    const ls_status status = variable_create(options, name, out_variable);
    // Frees the tensors from which the initial value was computed; the store
    // holds the value now.
    ls_library_layers.eager->drop_since(graph, num_nodes, memory);
    return status;
  }
  // Uses the variable's name as the name scope of its ops.
  const ls_name_scope *scope = NULL, *parent = NULL;
  if (at > 0)
    LS_RETURN_IF_ERROR(ls_graph_name_scope_path(graph, name, &parent));
  LS_RETURN_IF_ERROR(ls_graph_name_scope(graph, parent, base, true, &scope));
  snprintf(name + at, sizeof(name) - at, "%s", scope->name);
  snprintf(inner, sizeof(inner), "%s/", name);
  LS_NAME_SCOPE(inner);
  return variable_create(options, name, out_variable);
}

static ls_status create_plain(const ls_variable_options *options,
                              ls_variable **out_variable) {
  const char *base = options->name != NULL ? options->name : "Variable";
  LS_RETURN_IF_ERROR(ls_scope_status());
  LS_RETURN_IF_ERROR(check_possible(options, base));
  const ls_variable *beside = options->colocate_with;
  if (beside != NULL) {
    ls_variable_options alone = *options;
    alone.colocate_with = NULL;
    const char *device = ls_variable_device(beside);
    {
      LS_DEVICE_SCOPE(device[0] != '\0' ? device : NULL);
      return create_plain(&alone, out_variable);
    }
  }
  const ls_name_scope *names = ls_context_current()->scoped.names;
  ls_status status = ls_ok();
  {
    LS_INIT_SCOPE;
    ls_graph *graph = NULL;
    LS_RETURN_IF_ERROR(ls_graph_find_current(&graph));
    status = LS_TRIAL(create_named(options, names, base, out_variable));
  }
  return ls_status_annotate(status, "while creating variable '%s'", base);
}

// ---- Creators --------------------------------------------------------------
// The creators of variables that are still to be called, from the innermost on.
struct ls_creator {
  const ls_creator_entry *entry;
};

static const ls_creator_entry *in_force(const ls_creator_entry *entry) {
  while (entry != NULL && !ls_context_is_inside(entry->graph))
    entry = entry->outer;
  return entry;
}

bool ls_in_strategy_scope(void) {
  const ls_creator_entry *entry =
      in_force(ls_context_current()->scoped.creators);
  while (entry != NULL && !entry->is_strategy)
    entry = in_force(entry->outer);
  return entry != NULL;
}

bool ls_creator_is_last(const ls_creator *creator) {
  return creator->entry == NULL;
}

ls_status ls_creator_create(const ls_creator *creator,
                            const ls_variable_options *options,
                            ls_variable **out_variable) {
  LS_REQUIRE_OUT(out_variable, creator);
  LS_RETURN_IF_ERROR(ls_scope_status());
  const ls_creator_entry *entry = creator->entry;
  if (entry == NULL) return create_plain(options, out_variable);
  const ls_creator next = {in_force(entry->outer)};
  return entry->create(&next, options, entry->user, out_variable);
}

ls_status ls_variable_create(const ls_variable_options *options,
                             ls_variable **out_variable) {
  LS_REQUIRE_OUT(out_variable);
  static const ls_variable_options defaults;
  if (options == NULL) options = &defaults;
  LS_REQUIRE_EACH(options->collections, options->num_collections);
  LS_REQUIRE_EACH(options->devices, options->num_devices);
  const ls_context *context = ls_context_current();
  const ls_creator creator = {in_force(context->scoped.creators)};
  return ls_creator_create(&creator, options, out_variable);
}

void ls_creator_entry_push(ls_creator_entry *entry, ls_creator_entry made) {
  ls_context *context = ls_context_current();
  made.outer = context->scoped.creators;
  made.graph = ls_context_graph();
  *entry = made;
  context->scoped.creators = entry;
}

void ls_creator_scope_begin(ls_scope *scope, ls_variable_creator creator,
                            void *user) {
  if (creator == NULL) {
    ls_context_refuse(scope, ls_invalid_argument("the creator is NULL"));
    return;
  }
  ls_context_open(scope, &ls_graph_scopes.creator);
  ls_creator_entry_push(LS_SCOPE_ENTRY(ls_creator_entry, scope),
                        (ls_creator_entry){.create = creator, .user = user});
}

void ls_beside_begin(ls_scope *scope, const ls_variable *variable) {
  ls_context *context = ls_context_open(scope, &ls_graph_scopes.creator);
  if (variable != NULL && variable->strategy != NULL) return;
  const ls_creator_entry *shares = in_force(context->scoped.creators);
  while (shares != NULL && !shares->shares)
    shares = in_force(shares->outer);
  context->scoped.creators = NULL;
  if (shares != NULL)
    ls_creator_entry_push(LS_SCOPE_ENTRY(ls_creator_entry, scope), *shares);
}

// ---- Variables of ops ------------------------------------------------------
ls_variable *ls_node_named_variable(const ls_node *node) {
  const ls_attr *attr = ls_node_attr(node, LS_ATTR_ID_VARIABLE);
  return attr != NULL ? (ls_variable *)attr->as.object : NULL;
}

bool ls_node_writes(const ls_node *node, const ls_variable *variable) {
  ls_graph_walk walk;
  for (ls_graph_walk_begin_at(&walk, node); ls_graph_walk_next(&walk);)
    if (ls_node_assigns(walk.node) &&
        ls_node_named_variable(walk.node)->family == variable->family)
      return true;
  return false;
}

ls_variable *ls_node_variable(const ls_node *node) {
  ls_variable *variable = ls_node_named_variable(node);
  const int64_t *copies = ls_node_core_copies(node, 1);
  return copies != NULL ? variable->components[copies[0]] : variable;
}

const int64_t *ls_node_core_copies(const ls_node *node, size_t replicas) {
  const ls_variable *variable = ls_node_named_variable(node);
  const ls_attr *mark = ls_node_attr_named(node, LS_MARK_CORE_COPIES);
  if (variable == NULL || mark == NULL || mark->kind != LS_ATTR_INTS ||
      mark->as.ints.count != replicas)
    return NULL;
  for (size_t r = 0; r < replicas; ++r)
    if (mark->as.ints.items[r] < 0 ||
        (uint64_t)mark->as.ints.items[r] >= variable->num_components)
      return NULL;
  return mark->as.ints.items;
}
