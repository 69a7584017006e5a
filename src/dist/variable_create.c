// SPDX-License-Identifier: Apache-2.0
//
// Making distributed variables: a component per device, by the next creator
// out, and a container around them.
#include <stdio.h>

#include "base/runtime_internal.h"
#include "dist/context.h"
#include "dist/update.h"
#include "dist/variable.h"
#include "graph/region.h"

// ---- Checks ----------------------------------------------------------------
static const char *name_of(const ls_variable_options *options) {
  return options->name != NULL ? options->name : "none";
}

static ls_status check_options(const ls_variable_options *options,
                               ls_variable_synchronization *out) {
  *out = options->synchronization;
  switch (options->synchronization) {
  case LS_SYNCHRONIZATION_AUTO:
    *out = LS_SYNCHRONIZATION_ON_WRITE;
    break;
  case LS_SYNCHRONIZATION_ON_WRITE:
  case LS_SYNCHRONIZATION_ON_READ:
    break;
  case LS_SYNCHRONIZATION_NONE:
    return ls_invalid_argument(
        "variable '%s': NONE is no synchronization of a variable in a "
        "strategy; change synchronization to ON_WRITE or ON_READ",
        name_of(options));
  default:
    return ls_invalid_argument("variable '%s': synchronization %d is none of "
                               "AUTO, ON_WRITE, ON_READ",
                               name_of(options), (int)options->synchronization);
  }
  if ((unsigned)options->aggregation > LS_AGGREGATION_ONLY_FIRST_REPLICA)
    return ls_invalid_argument(
        "variable '%s': aggregation %d is none of NONE, SUM, MEAN, "
        "ONLY_FIRST_REPLICA",
        name_of(options), (int)options->aggregation);
  return ls_ok();
}

static ls_status check_dtype(const ls_variable_options *options,
                             ls_dtype dtype) {
  if (options->aggregation != LS_AGGREGATION_MEAN || ls_dtype_is_float(dtype) ||
      dtype == LS_DTYPE_NONE)
    return ls_ok();
  return ls_invalid_argument("variable '%s': MEAN of %s values; only floats "
                             "have one",
                             name_of(options), ls_dtype_name(dtype));
}

// As far as the options tell before anything is made.
static ls_dtype asked_dtype(const ls_variable_options *options) {
  if (options->dtype != LS_DTYPE_NONE) return options->dtype;
  if (options->initial_of != NULL) return options->initial_of->type.dtype;
  if (options->initial_array != NULL)
    return ls_array_dtype(options->initial_array);
  return options->initial_value.ref != 0
             ? ls_tensor_dtype(options->initial_value)
             : LS_DTYPE_NONE;
}

// ---- Components ------------------------------------------------------------
typedef struct making {
  ls_strategy *strategy;
  const ls_creator *next;
  const ls_variable_options *options;
  ls_variable_synchronization synchronization;
  ls_variable **components;
  size_t count, made;
} making;

static ls_status make_component(making *m) {
  static const char *const no_collection[1] = {NULL};
  const size_t i = m->made;
  char name[LS_MAX_FULL_NAME + 32];
  ls_variable_options options = *m->options;
  options.synchronization = m->synchronization;
  options.collections = no_collection;
  options.num_collections = 0;
  ls_variable *component = NULL;
  ls_status status = ls_ok();
  LS_DEVICE_SCOPE(m->strategy->devices[i]) {
    if (i == 0) {
      status = ls_creator_create(m->next, &options, &component);
    } else {
      // An absolute name, and the value of the first.
      snprintf(name, sizeof(name), "%s/replica_%zu", m->components[0]->name, i);
      options.name = name;
      options.initial_array = NULL;
      options.initial_value = ls_failed_tensor();
      options.initializer = NULL;
      options.initial_of = m->components[0];
      LS_NAME_SCOPE(NULL) {
        status = ls_creator_create(m->next, &options, &component);
      }
    }
  }
  LS_RETURN_IF_ERROR(status);
  if (component->num_components > 0) {
    status = ls_failed_precondition(
        "the creator of '%s' returned a distributed variable; strategies do "
        "not nest",
        component->name);
    ls_variable_release(component);
    return status;
  }
  if (i == 0) component->joining = true;
  m->components[m->made++] = component;
  return ls_ok();
}

static ls_status make_components(making *m) {
  while (m->made < m->count) {
    LS_RETURN_IF_ERROR(make_component(m));
    if (m->made == 1)
      LS_RETURN_IF_ERROR(check_dtype(m->options, m->components[0]->type.dtype));
  }
  return ls_ok();
}

// ---- The container ---------------------------------------------------------
static ls_nest leaf_of(ls_variable *variable) {
  return (ls_nest){.kind = LS_KIND_VARIABLE, .as.ref = variable};
}

static ls_status join_collections(const making *m, ls_variable *container) {
  static const char *const usual[] = {LS_COLLECTION_GLOBAL_VARIABLES};
  ls_graph *graph = container->graph;
  const bool given = m->options->collections != NULL;
  const char *const *names = given ? m->options->collections : usual;
  const size_t count = given ? m->options->num_collections : 1;
  for (size_t i = 0; i < count; ++i) {
    if (graph == NULL && strcmp(names[i], LS_COLLECTION_GLOBAL_STEP) != 0)
      continue;
    LS_RETURN_IF_ERROR(
        ls_graph_add_to_collection(graph != NULL ? graph : ls_graph_current(),
                                   names[i], leaf_of(container)));
  }
  if (graph == NULL) return ls_ok();
  for (size_t i = 0; i < m->count; ++i)
    ls_graph_remove_from_collection(graph, LS_COLLECTION_TRAINABLE_VARIABLES,
                                    leaf_of(m->components[i]));
  return container->trainable
             ? ls_graph_add_to_collection(
                   graph, LS_COLLECTION_TRAINABLE_VARIABLES, leaf_of(container))
             : ls_ok();
}

// In a build graph: one op over all initializers; the graph holds it.
static ls_status join_graph(const making *m, ls_variable *container) {
  ls_graph *graph = container->graph;
  ls_op *ops = ls_new_array(graph->allocator, ls_op, m->count);
  if (ops == NULL ||
      !ls_grow(graph->allocator, &graph->variables, &graph->variables_capacity,
               graph->num_variables + 1, sizeof(*graph->variables))) {
    ls_release(graph->allocator, ops);
    return ls_out_of_memory();
  }
  for (size_t i = 0; i < m->count; ++i)
    ops[i] = m->components[i]->initializer;
  LS_NAME_SCOPE(NULL) {
    container->initializer = ls_group_by_device(ops, m->count, NULL);
  }
  ls_release(graph->allocator, ops);
  if (ls_op_is_failed(container->initializer))
    return ls_graph_take_error(graph);
  graph->variables[graph->num_variables++] =
      ls_object_retain(&container->object);
  return ls_ok();
}

// Takes the components over, also on failure.
static ls_status make_container(making *m, ls_variable **out_container) {
  const ls_variable *first = m->components[0];
  ls_variable *container = NULL;
  LS_RETURN_IF_ERROR(ls_variable_make(first->runtime, first->name, first->type,
                                      first->trainable, &container));
  container->synchronization = m->synchronization;
  container->aggregation = m->options->aggregation;
  container->rules = m->synchronization == LS_SYNCHRONIZATION_ON_READ
                         ? &ls_sync_on_read_rules
                         : &ls_mirrored_rules;
  container->graph = first->graph;
  container->strategy = ls_object_retain(&m->strategy->object);
  container->components = m->components;
  container->num_components = m->count;
  for (size_t i = 0; i < m->count; ++i) {
    ls_variable *component = m->components[i];
    component->container = container;
    component->index = i;
    component->joining = false;
    if (component->strategy == NULL)
      component->strategy = ls_object_retain(&m->strategy->object);
  }
  ls_status status = ls_ok();
  LS_INIT_SCOPE {
    status = container->graph == NULL ? ls_eager_join(container)
                                      : join_graph(m, container);
    if (ls_status_is_ok(status)) status = join_collections(m, container);
  }
  m->components = NULL;
  m->made = 0;
  if (ls_status_is_ok(status))
    *out_container = container;
  else
    ls_variable_release(container);
  return status;
}

static ls_status create_distributed(ls_strategy *strategy,
                                    const ls_creator *next,
                                    const ls_variable_options *options,
                                    ls_variable **out_variable) {
  making m = {.strategy = strategy,
              .next = next,
              .options = options,
              .count = (size_t)strategy->num_replicas};
  LS_RETURN_IF_ERROR(check_options(options, &m.synchronization));
  LS_RETURN_IF_ERROR(check_dtype(options, asked_dtype(options)));
  m.components = ls_new_array(strategy->allocator, ls_variable *, m.count);
  if (m.components == NULL) return ls_out_of_memory();
  ls_graph *graph = NULL;
  LS_INIT_SCOPE { graph = ls_graph_current(); }
  const ls_graph_rollback_point mark = ls_graph_mark(graph);
  ls_status status = make_components(&m);
  if (ls_status_is_ok(status)) status = make_container(&m, out_variable);
  if (!ls_status_is_ok(status) && graph->kind == LS_GRAPH_BUILD) {
    for (size_t i = 0; i < m.made; ++i)
      ls_graph_remove_from_collection(graph, LS_COLLECTION_TRAINABLE_VARIABLES,
                                      leaf_of(m.components[i]));
    ls_graph_rollback(graph, mark);
  }
  for (size_t i = 0; i < m.made; ++i)
    ls_variable_release(m.components[i]);
  ls_release(strategy->allocator, m.components);
  return status;
}

ls_status ls_strategy_create_variable(const ls_creator *next,
                                      const ls_variable_options *options,
                                      void *user, ls_variable **out_variable) {
  ls_strategy *strategy = user;
  const ls_strategy *current = ls_strategy_current();
  *out_variable = NULL;
  if (current == NULL) return ls_out_of_memory();
  if (current != strategy) return ls_mixing_error(current, strategy);
  return strategy->kind == LS_STRATEGY_DEFAULT
             ? ls_creator_create(next, options, out_variable)
             : create_distributed(strategy, next, options, out_variable);
}
