// SPDX-License-Identifier: Apache-2.0
//
// Copies eager variables with their values into a new store.
#include "lockstep/export.h"

#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "distribute/context/context.h"
#include "distribute/variables/variable.h"
#include "lockstep/eager.h"
#include "lockstep/strategy_extended.h"
#include "runtime/program.h"

// Copies a variable to the same device and name, without calling the creators
// of variables.
static ls_status copy_plain(ls_variable *variable,
                            const ls_variable_options *asked,
                            ls_variable *joins, ls_variable **out_copy) {
  ls_variable_options options = *asked;
  LS_OWN(ls_array, value) = NULL;
  options.name = variable->name;
  options.initial_of = joins;
  if (joins == NULL) LS_RETURN_IF_ERROR(ls_variable_value(variable, &value));
  options.initial_array = value;
  {
    LS_BESIDE_SCOPE(NULL);
    LS_NAME_SCOPE(NULL);
    LS_DEVICE_SCOPE(variable->device);
    return ls_variable_create(&options, out_copy);
  }
}

static ls_variable_options
variable_copy_options_of(const ls_variable *variable) {
  return (ls_variable_options){.name = variable->name,
                               .trainable = variable->trainable ? LS_FLAG_ON
                                                                : LS_FLAG_OFF,
                               .synchronization = variable->synchronization,
                               .aggregation = variable->aggregation,
                               .constraint = variable->constraint,
                               .constraint_user = variable->constraint_user};
}

static bool is_shared(const ls_variable *variable) {
  const ls_runtime_state *state =
      ls_runtime_slot(variable->runtime, LS_SLOT_RUNTIME);
  return state != NULL && ls_store_is_shared(state->store, variable);
}

// Copies the components of a container (`user`). Components that shared one
// value share one copy.
static ls_status copy_components(ls_strategy *strategy,
                                 const ls_variable_options *asked, void *user,
                                 ls_component_list *components) {
  const ls_variable *from = user;
  const bool shared = is_shared(from);
  (void)strategy;
  for (size_t i = 0; i < from->num_components; ++i) {
    ls_variable *copy = NULL;
    LS_RETURN_IF_ERROR(copy_plain(from->components[i], asked,
                                  shared && i > 0 ? components->items[0] : NULL,
                                  &copy));
    if (i == 0) copy->joining = shared;
    LS_RETURN_IF_ERROR(ls_component_list_add(components, copy));
  }
  return ls_ok();
}

static ls_status copy_distributed(ls_variable *variable,
                                  ls_variable **out_copy) {
  const ls_variable_options options = variable_copy_options_of(variable);
  LS_RETURN_IF_ERROR(ls_create_mirrored_variable(
      &(ls_variable_recipe){.strategy = ls_strategy_of(variable),
                            .create = copy_components,
                            .user = variable},
      &options, out_copy));
  (*out_copy)->class_name = variable->class_name;
  (*out_copy)->rules = variable->rules;
  return ls_ok();
}

// Replaces a handle by its variable; refuses a variable of a graph.
static ls_status find_copied(ls_variable **variable) {
  if ((*variable)->num_targets > 0) *variable = ls_variable_here(*variable);
  return (*variable)->graph == NULL
             ? ls_ok()
             : ls_unimplemented(
                   "a copy of variable '%s', which is of graph '%s'",
                   (*variable)->name, (*variable)->graph->name);
}

ls_status ls_variable_copy(ls_variable *variable, ls_variable **out_copy) {
  LS_REQUIRE_OUT(out_copy, variable);
  LS_RETURN_IF_ERROR(find_copied(&variable));
  if (variable->num_components == 0) {
    const ls_variable_options options = variable_copy_options_of(variable);
    return copy_plain(variable, &options, NULL, out_copy);
  }
  return LS_CROSS_REPLICA(ls_strategy_of(variable), "copying a variable", NULL,
                          copy_distributed(variable, out_copy));
}

// ---- To the CPU ------------------------------------------------------------
static ls_status make_on_cpu(const ls_variable *variable, ls_array *value,
                             ls_variable **out_copy) {
  const char *device = ls_variable_device(
      variable->num_components > 0 ? variable->components[0] : variable);
  char host[LS_MAX_NAME + 16];
  ls_host_cpu_of(device, host, sizeof(host));
  const ls_variable_options options = {
      .name = variable->name,
      .initial_array = value,
      .trainable = variable->trainable ? LS_FLAG_ON : LS_FLAG_OFF,
      .aggregation = variable->aggregation};
  {
    LS_BESIDE_SCOPE(NULL);
    LS_NAME_SCOPE(NULL);
    LS_DEVICE_SCOPE(host);
    return ls_variable_create(&options, out_copy);
  }
  return ls_ok();
}

static ls_status check_copy(const ls_variable *variable,
                            const ls_variable *copy) {
  if (copy == NULL || (copy->num_components == 0 && copy->num_targets == 0 &&
                       copy->graph == NULL && copy->container == NULL &&
                       copy->type.dtype == variable->type.dtype &&
                       ls_shape_equal(copy->type.shape, variable->type.shape)))
    return ls_ok();
  return ls_invalid_argument(
      "the copy of variable '%s' of %s is to be a plain eager variable like "
      "it, got '%s' of %s",
      variable->name, LS_SHAPE_TEXT(variable->type.dtype, variable->type.shape),
      copy->name, LS_SHAPE_TEXT(copy->type.dtype, copy->type.shape));
}

static ls_status copy_value(ls_variable *variable, ls_variable **copy) {
  LS_OWN(ls_array, value) = NULL;
  LS_RETURN_IF_ERROR(ls_variable_value(variable, &value));
  return *copy == NULL ? make_on_cpu(variable, value, copy)
                       : ls_variable_set_value(*copy, value);
}

ls_status ls_variable_copy_to_cpu(ls_variable *variable, ls_variable **copy) {
  LS_REQUIRE(copy, variable);
  LS_RETURN_IF_ERROR(find_copied(&variable));
  LS_RETURN_IF_ERROR(check_copy(variable, *copy));
  if (variable->num_components == 0) return copy_value(variable, copy);
  return LS_CROSS_REPLICA(ls_strategy_of(variable), "copying a variable", NULL,
                          copy_value(variable, copy));
}
