// SPDX-License-Identifier: Apache-2.0
//
// Creates distributed variables: a component on each device, made by the next
// outer creator, and a container.
#include <stdio.h>

#include "base/memory/map.h"
#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/array_internal.h"
#include "distribute/context/context.h"
#include "distribute/values/values.h"
#include "distribute/variables/variable.h"
#include "graph/own.h"
#include "lockstep/communicator.h"
#include "lockstep/strategy_extended.h"
#include "runtime/eager/eager.h"
#include "runtime/program.h"
#include "runtime/store.h"

// ---- Initial values on several ranks ----------------------------------------
// All ranks take the chief's, because a rank's own may come from what only this
// rank has: a file, or an op that it has run alone and that has drawn numbers.

// Returns the chief's bytes, of the type of `own`; NULL if all ranks have them,
// and for strings.
static ls_status take_bytes(ls_strategy *strategy, const char *name,
                            const ls_array *own, ls_array **out_array) {
  ls_communicator *communicator = ls_strategy_communicator(strategy);
  const size_t ranks = (size_t)communicator->ranks;
  if (ls_dtype_owns_elements(ls_array_dtype(own))) return ls_ok();
  if (name == NULL) name = "";
  // A name that no program uses.
  ls_exchange_name exchange = {
      .program = {ls_hash(name, strlen(name), 0), strategy->number},
      .merge = UINT32_MAX - 5,
  };
  LS_OWN_MEMORY(strategy->allocator, uint64_t, hashes) =
      ls_new_array(strategy->allocator, uint64_t, ranks);
  LS_RETURN_IF_NO_MEMORY(hashes != NULL);
  hashes[communicator->rank] =
      ls_hash_large(ls_array_data(own), ls_array_size(own));
  LS_RETURN_IF_ERROR(
      ls_communicator_gather(communicator, &exchange, hashes, sizeof(*hashes)));
  size_t equal = 1;
  while (equal < ranks && hashes[equal] == hashes[0])
    ++equal;
  if (equal == ranks) return ls_ok();
  LS_OWN(ls_array, array) = NULL;
  LS_RETURN_IF_ERROR(ls_array_create_copy(
      ls_array_dtype(own), ls_array_shape(own), ls_array_data(own), &array));
  exchange.phase = 1;
  LS_RETURN_IF_ERROR(ls_communicator_broadcast(communicator, &exchange, 0,
                                               ls_array_mutable_data(array),
                                               ls_array_size(array)));
  return ls_hand_over(&array, out_array);
}

// Returns a copy of a user's initial value with the chief's bytes; NULL if it
// has them, if the strategy follows no chief, and for NULL.
static ls_status chief_array(ls_strategy *strategy, const char *name,
                             const ls_array *own, ls_array **out_array) {
  *out_array = NULL;
  if (!strategy->follows_chief || ls_strategy_communicator(strategy) == NULL ||
      own == NULL)
    return ls_ok();
  return take_bytes(strategy, name, own, out_array);
}

// Returns true if ops or a user's creator make a variable's initial value: each
// rank's own may differ. Zeros of a dtype and a shape do not.
static bool is_made(const ls_variable_options *options,
                    const ls_creator *next) {
  return options->initial_array == NULL &&
         (options->initial_value.ref != 0 || options->initializer != NULL ||
          options->initial_of != NULL || !ls_creator_is_last(next));
}

// Gives a component in eager, whose value ops have made, the chief's value.
static ls_status set_chief_value(ls_strategy *strategy, const char *name,
                                 ls_variable *component) {
  ls_runtime_state *state = NULL;
  LS_OWN(ls_array, own) = NULL;
  LS_OWN(ls_array, value) = NULL;
  if (ls_strategy_communicator(strategy) == NULL || component->graph != NULL)
    return ls_ok();
  LS_RETURN_IF_ERROR(ls_runtime_state_get(component->runtime, &state));
  LS_RETURN_IF_ERROR(ls_store_read(state->store, component, &own));
  LS_RETURN_IF_ERROR(take_bytes(strategy, name, own, &value));
  return value == NULL ? ls_ok()
                       : ls_store_write(state->store, component, value);
}

// ---- Checks ----------------------------------------------------------------
static const char *variable_create_name_of(const ls_variable_options *options) {
  return options->name != NULL ? options->name : "none";
}

static ls_status
variable_create_check_options(const ls_variable_options *options,
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
        "variable '%s': synchronization NONE is not possible in a strategy; "
        "change synchronization to ON_WRITE or ON_READ",
        variable_create_name_of(options));
  default:
    return ls_invalid_argument(
        "variable '%s': synchronization %d is none of AUTO, ON_WRITE, ON_READ",
        variable_create_name_of(options), (int)options->synchronization);
  }
  if ((unsigned)options->aggregation > LS_AGGREGATION_ONLY_FIRST_REPLICA)
    return ls_invalid_argument("variable '%s': aggregation %d is none of NONE, "
                               "SUM, MEAN, ONLY_FIRST_REPLICA",
                               variable_create_name_of(options),
                               (int)options->aggregation);
  return ls_ok();
}

static ls_status check_dtype(const ls_variable_options *options,
                             ls_dtype dtype) {
  if (options->aggregation != LS_AGGREGATION_MEAN || ls_dtype_is_float(dtype) ||
      dtype == LS_DTYPE_NONE)
    return ls_ok();
  return ls_invalid_argument(
      "variable '%s': MEAN of %s values; only floats have one",
      variable_create_name_of(options), ls_dtype_name(dtype));
}

// Returns the requested dtype, as far as the options tell.
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
ls_status ls_component_list_add(ls_component_list *list,
                                ls_variable *component) {
  if (list == NULL) {
    ls_variable_release(component);
    return ls_null_argument(__func__, "list");
  }
  if (!LS_GROW(list->allocator, list->items, list->capacity, list->count + 1)) {
    ls_variable_release(component);
    return ls_out_of_memory();
  }
  list->items[list->count++] = component;
  return ls_ok();
}

// Creates a component: the first one as requested, the others under an absolute
// name with the first one's value.
static ls_status create_component(const ls_creator *next,
                                  const ls_variable_options *asked,
                                  ls_variable *first, size_t index,
                                  ls_variable **out_component) {
  if (index == 0) return ls_creator_create(next, asked, out_component);
  char name[LS_MAX_FULL_NAME + 32];
  snprintf(name, sizeof(name), "%s/replica_%zu", first->name, index);
  ls_variable_options options = *asked;
  options.name = name;
  options.initial_array = NULL;
  options.initial_value = ls_failed_tensor();
  options.initializer = NULL;
  options.initial_of = first;
  LS_NAME_SCOPE(NULL);
  return ls_creator_create(next, &options, out_component);
}

// Returns the device of component `index`: a requested device, the device of
// another variable, or the strategy's.
static const char *place_of_component(const ls_strategy *strategy,
                                      const ls_variable_options *options,
                                      size_t index) {
  const ls_variable *beside = options->colocate_with;
  if (options->devices != NULL) return options->devices[index];
  if (beside == NULL) return ls_strategy_device_here(strategy, (int32_t)index);
  return ls_variable_device(
      beside->num_components > 0 ? beside->components[index] : beside);
}

static size_t num_components_of(const ls_strategy *strategy,
                                const ls_variable_options *options) {
  const ls_variable *beside = options->colocate_with;
  if (options->devices != NULL) return options->num_devices;
  if (beside == NULL) return (size_t)strategy->num_replicas;
  return beside->num_components > 0 ? beside->num_components : 1;
}

// Splits a saved value, the aggregate of all components, into the components'
// initial shares, as a restore does. NULL: each component starts with the
// value.
static ls_status share_of_saved(const ls_strategy *strategy,
                                const ls_variable_options *options,
                                size_t count, ls_array **out_share) {
  const ls_array *value = options->initial_array;
  *out_share = NULL;
  if (options->restored_from == 0 || value == NULL ||
      options->synchronization != LS_SYNCHRONIZATION_ON_READ)
    return ls_ok();
  ls_variable whole = {.allocator = strategy->allocator,
                       .type = {ls_array_dtype(value), ls_array_shape(value)},
                       .aggregation = options->aggregation,
                       .num_components = count};
  return ls_share_saved_on_read(&whole, value, out_share);
}

// Creates the components of a strategy's variable with the next outer creator,
// which is `user`.
static ls_status create_components(ls_strategy *strategy,
                                   const ls_variable_options *asked, void *user,
                                   ls_component_list *components) {
  ls_variable_options options = *asked;
  options.colocate_with = NULL;
  options.devices = NULL;
  options.num_devices = 0;
  const size_t count = num_components_of(strategy, asked);
  LS_OWN(ls_array, share) = NULL;
  LS_RETURN_IF_ERROR(share_of_saved(strategy, asked, count, &share));
  if (share != NULL) options.initial_array = share;
  LS_OWN(ls_array, chiefs) = NULL;
  LS_RETURN_IF_ERROR(
      chief_array(strategy, asked->name, options.initial_array, &chiefs));
  if (chiefs != NULL) options.initial_array = chiefs;
  for (size_t i = 0; i < count; ++i) {
    ls_variable *component = NULL;
    {
      LS_DEVICE_SCOPE(place_of_component(strategy, asked, i));
      LS_RETURN_IF_ERROR(create_component(
          user, &options, i == 0 ? NULL : components->items[0], i, &component));
    }
    if (i == 0) component->joining = true;
    LS_RETURN_IF_ERROR(ls_component_list_add(components, component));
    if (i == 0 && is_made(&options, user))
      LS_RETURN_IF_ERROR(set_chief_value(strategy, asked->name, component));
  }
  return ls_ok();
}

// Checks the components that a user's creator made: plain variables, each with
// an initializer.
static ls_status check_components(const ls_variable_options *options,
                                  const ls_component_list *list) {
  if (list->count == 0)
    return ls_invalid_argument("variable '%s': its creator made no component",
                               variable_create_name_of(options));
  for (size_t i = 0; i < list->count; ++i) {
    ls_variable *component = list->items[i];
    if (component->num_components > 0)
      return ls_failed_precondition(
          "the creator of '%s' returned a distributed variable; strategies do "
          "not nest",
          component->name);
    if (component->graph == NULL || component->initializer.id != 0) continue;
    {
      LS_INIT_SCOPE;
      component->initializer = ls_group(NULL, 0, NULL);
    }
    if (ls_op_is_failed(component->initializer))
      return ls_graph_take_error(component->graph);
  }
  return check_dtype(options, list->items[0]->type.dtype);
}

// ---- The container ---------------------------------------------------------
// The class and aggregation of a new variable.
typedef struct nature {
  ls_variable_synchronization synchronization;
  const ls_variable_rules *rules;
  const char *class_name;
} nature;

static ls_status choose_nature(const ls_variable_recipe *recipe,
                               const ls_variable_options *options,
                               nature *out) {
  LS_RETURN_IF_ERROR(
      variable_create_check_options(options, &out->synchronization));
  LS_RETURN_IF_ERROR(check_dtype(options, asked_dtype(options)));
  const bool on_read = out->synchronization == LS_SYNCHRONIZATION_ON_READ;
  if (recipe->strategy->uses_policies) {
    const bool lazy = options->batch_initialization;
    out->rules =
        on_read ? recipe->policies->on_read : recipe->policies->on_write;
    out->class_name = lazy ? recipe->classes->lazy_variable_class
                           : recipe->classes->variable_class;
    if (out->class_name == NULL)
      return ls_invalid_argument("variable '%s': %s has no %s",
                                 variable_create_name_of(options),
                                 recipe->strategy->label,
                                 lazy ? "LazyVariableClass" : "VariableClass");
  } else {
    out->rules = on_read ? recipe->classes->on_read : recipe->classes->on_write;
    out->class_name = out->rules == NULL ? NULL : out->rules->class_name;
  }
  return out->rules != NULL
             ? ls_ok()
             : ls_invalid_argument("variable '%s': %s has no class for %s",
                                   variable_create_name_of(options),
                                   recipe->strategy->label,
                                   on_read ? "ON_READ" : "ON_WRITE");
}

static ls_nest leaf_of(ls_variable *variable) {
  return (ls_nest){.kind = LS_KIND_VARIABLE, .as.ref = variable};
}

static ls_status join_collections(const ls_variable_options *options,
                                  ls_variable *container) {
  static const char *const usual[] = {LS_COLLECTION_GLOBAL_VARIABLES};
  ls_graph *graph = container->graph;
  const bool given = options->collections != NULL;
  const char *const *names = given ? options->collections : usual;
  const size_t count = given ? options->num_collections : 1;
  for (size_t i = 0; i < count; ++i) {
    if (graph == NULL && strcmp(names[i], LS_COLLECTION_GLOBAL_STEP) != 0)
      continue;
    LS_RETURN_IF_ERROR(
        ls_graph_add_to_collection(graph != NULL ? graph : ls_graph_current(),
                                   names[i], leaf_of(container)));
  }
  if (graph == NULL) return ls_ok();
  for (size_t i = 0; i < container->num_components; ++i)
    ls_graph_remove_from_collection(graph, LS_COLLECTION_TRAINABLE_VARIABLES,
                                    leaf_of(container->components[i]));
  return container->trainable
             ? ls_graph_add_to_collection(
                   graph, LS_COLLECTION_TRAINABLE_VARIABLES, leaf_of(container))
             : ls_ok();
}

// In a build graph, makes one op that runs all initializers; the graph owns it.
static ls_status join_graph(ls_variable *container) {
  ls_graph *graph = container->graph;
  LS_OWN_ARRAY(graph->allocator, ls_op, ops, container->num_components);
  if (ops == NULL ||
      !LS_GROW(graph->allocator, graph->variables, graph->variables_capacity,
               graph->num_variables + 1))
    return ls_out_of_memory();
  for (size_t i = 0; i < container->num_components; ++i)
    ops[i] = container->components[i]->initializer;
  {
    LS_NAME_SCOPE(NULL);
    container->initializer =
        ls_group_by_device(ops, container->num_components, NULL);
  }
  if (ls_op_is_failed(container->initializer))
    return ls_graph_take_error(graph);
  graph->variables[graph->num_variables++] =
      ls_object_retain(&container->object);
  return ls_ok();
}

static ls_status set_nature(const ls_variable_recipe *recipe,
                            const ls_variable_options *options, nature kind,
                            ls_variable *container) {
  container->synchronization = kind.synchronization;
  container->aggregation = options->aggregation;
  container->rules = kind.rules;
  container->class_name = kind.class_name;
  container->strategy = ls_object_retain(&recipe->strategy->object);
  if (!recipe->strategy->uses_policies) return ls_ok();
  LS_NEW_OR_RETURN(container->allocator, ls_variable_policy, policy);
  *policy = (ls_variable_policy){kind.rules, options->aggregation};
  container->policy = policy;
  return ls_ok();
}

// Moves the components into the container, which then owns them.
static void take_components(ls_component_list *list, ls_variable *container) {
  container->components = list->items;
  container->num_components = list->count;
  for (size_t i = 0; i < list->count; ++i) {
    ls_variable *component = list->items[i];
    component->container = container;
    component->family = container->id;
    component->index = i;
    component->joining = false;
    if (component->strategy == NULL)
      component->strategy = ls_object_retain(container->strategy);
  }
  *list = (ls_component_list){.allocator = list->allocator};
}

// Stores which component each replica has, if that is not the order of
// replicas. If a replica has no component of its own, nothing is stored.
static ls_status note_own(ls_variable *container) {
  const ls_strategy *strategy = ls_strategy_of(container);
  const size_t count = container->num_components;
  if (count != (size_t)strategy->num_replicas) return ls_ok();
  bool in_order = true;
  LS_OWN_ARRAY_OR_RETURN(container->allocator, size_t, own, count);
  LS_OWN_ARRAY_OR_RETURN(container->allocator, bool, taken, count);
  for (size_t r = 0; r < count; ++r) {
    const ls_status status =
        ls_variable_own_index(container, (int32_t)r, &own[r]);
    const bool is_free = ls_status_is_ok(status) && !taken[own[r]];
    ls_status_free(status);
    if (!is_free) return ls_ok();
    taken[own[r]] = true;
    in_order = in_order && own[r] == r;
  }
  if (!in_order) container->own = ls_give(&own);
  return ls_ok();
}

static ls_status make_container(const ls_variable_recipe *recipe,
                                const ls_variable_options *options, nature kind,
                                ls_component_list *components,
                                ls_variable **out_container) {
  const ls_variable *first = components->items[0];
  const bool joins = first->joining;
  LS_OWN(ls_variable, container) = NULL;
  LS_RETURN_IF_ERROR(ls_variable_make(first->runtime, first->name, first->type,
                                      first->trainable, &container));
  container->graph = first->graph;
  container->restored_from = first->restored_from;
  container->constraint = first->constraint;
  container->constraint_user = first->constraint_user;
  LS_RETURN_IF_ERROR(set_nature(recipe, options, kind, container));
  take_components(components, container);
  LS_RETURN_IF_ERROR(note_own(container));
  {
    LS_INIT_SCOPE;
    // Components whose values were stored one by one stay separate.
    LS_RETURN_IF_ERROR(container->graph != NULL ? join_graph(container)
                       : joins                  ? ls_eager_join(container)
                                                : ls_ok());
    LS_RETURN_IF_ERROR(join_collections(options, container));
    if (recipe->strategy->packs_variables && container->graph == NULL)
      LS_RETURN_IF_ERROR(ls_variable_pack(container));
    if (recipe->strategy->kind->adopt != NULL)
      LS_RETURN_IF_ERROR(
          recipe->strategy->kind->adopt(recipe->strategy, options, container));
  }
  return ls_hand_over(&container, out_container);
}

// ---- Creating --------------------------------------------------------------
static ls_status variables_create(const ls_variable_recipe *recipe,
                                  const ls_variable_options *options,
                                  nature kind, ls_component_list *components,
                                  ls_variable **out_variable) {
  static const char *const no_collection[1] = {NULL};
  ls_variable_options seen = *options;
  seen.synchronization = kind.synchronization;
  seen.collections = no_collection;
  seen.num_collections = 0;
  seen.caching_device = NULL;
  seen.batch_initialization = false;
  {
    LS_STOP_RECORDING_SCOPE;
    LS_RETURN_IF_ERROR(
        recipe->create(recipe->strategy, &seen, recipe->user, components));
    LS_RETURN_IF_ERROR(check_components(options, components));
    return make_container(recipe, options, kind, components, out_variable);
  }
  return ls_ok();
}

static ls_status create_by(const ls_variable_recipe *recipe,
                           const ls_variable_options *options,
                           ls_variable **out_variable) {
  nature kind = {0};
  LS_RETURN_IF_ERROR(choose_nature(recipe, options, &kind));
  ls_component_list components = {.allocator = recipe->strategy->allocator};
  const ls_status status = LS_TRIAL(
      variables_create(recipe, options, kind, &components, out_variable));
  for (size_t i = 0; i < components.count; ++i)
    ls_variable_release(components.items[i]);
  ls_release(components.allocator, components.items);
  return status;
}

ls_status ls_create_mirrored_variable(const ls_variable_recipe *recipe,
                                      const ls_variable_options *options,
                                      ls_variable **out_variable) {
  LS_REQUIRE_OUT(out_variable);
  static const ls_variable_options defaults;
  LS_REQUIRE(recipe);
  if (recipe->strategy == NULL || recipe->create == NULL)
    return ls_invalid_argument("a recipe needs a strategy and a creator");
  const ls_strategy_class *kind = recipe->strategy->kind;
  if (!kind->distributes)
    return ls_failed_precondition("%s makes no distributed variables",
                                  recipe->strategy->label);
  ls_variable_recipe whole = *recipe;
  if (whole.classes == NULL) whole.classes = kind->classes;
  if (whole.policies == NULL) whole.policies = kind->policies;
  return create_by(&whole, options != NULL ? options : &defaults, out_variable);
}

static ls_status check_places(const ls_strategy *strategy,
                              const ls_variable_options *options) {
  const int ways = (options->colocate_with != NULL) +
                   (options->devices != NULL) +
                   (options->single_device != NULL);
  if (ways > 1)
    return ls_invalid_argument("variable '%s' is given several of "
                               "colocate_with, devices and single_device",
                               variable_create_name_of(options));
  if (options->devices != NULL && options->num_devices == 0)
    return ls_invalid_argument("variable '%s' on an empty list of devices",
                               variable_create_name_of(options));
  return options->colocate_with == NULL
             ? ls_ok()
             : ls_validate_colocate(leaf_of(options->colocate_with), strategy);
}

ls_status ls_mirrored_create_variable(ls_strategy *strategy,
                                      const ls_creator *next,
                                      const ls_variable_options *options,
                                      ls_variable **out_variable) {
  ls_variable_options whole = *options;
  if (options->partitioner != NULL) {
    ls_log_limited(strategy->runtime, "partitioned variables", 1,
                   LS_LOG_WARNING, "distribute",
                   "variables are not partitioned in a strategy's scope: '%s' "
                   "is created unpartitioned",
                   variable_create_name_of(options));
    whole.partitioner = NULL;
  }
  LS_RETURN_IF_ERROR(check_places(strategy, options));
  if (options->single_device != NULL) {
    whole.single_device = NULL;
    {
      LS_DEVICE_SCOPE(options->single_device);
      return ls_creator_create(next, &whole, out_variable);
    }
  }
  const ls_status status = ls_create_mirrored_variable(
      &(ls_variable_recipe){.strategy = strategy,
                            .create = create_components,
                            .user = (void *)(uintptr_t)next},
      &whole, out_variable);
  // Other ranks may wait for this one's part in the initial value.
  if (strategy->follows_chief || is_made(&whole, next))
    ls_strategy_tell_ranks(strategy, status);
  return status;
}
