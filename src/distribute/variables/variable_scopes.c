// SPDX-License-Identifier: Apache-2.0
//
// Scopes that determine properties of a strategy's new variables. Each is a
// creator of variables that changes the options, and calls the next outer
// creator.
#include "base/values/nest_internal.h"
#include "distribute/context/context.h"
#include "distribute/values/values.h"
#include "graph/make/make.h"
#include "lockstep/strategy_extended.h"

typedef struct said {
  ls_strategy *strategy;
  ls_reduce_op method;
  ls_nest with;
} said;

// The entry of a scope: its creator and the option that it sets.
typedef struct said_entry {
  ls_creator_entry creator;
  said said;
} said_entry;

static ls_status check_in_force(const ls_strategy *strategy, const char *noun) {
  if (strategy == NULL) return ls_invalid_argument("the strategy is NULL");
  const ls_strategy *current = ls_strategy_current();
  if (current == strategy) return ls_ok();
  if (current == NULL) return ls_out_of_memory();
  if (current->kind->distributes)
    return ls_status_annotate(ls_mixing_error(current, strategy),
                              "%s of %s: need to be inside scope", noun,
                              strategy->label);
  return ls_failed_precondition(
      "%s of %s: need to be inside scope, it is not in force here", noun,
      strategy->label);
}

static void variable_scopes_begin(ls_scope *scope, ls_variable_creator create,
                                  said s, ls_status status) {
  if (!ls_status_is_ok(status)) {
    ls_context_refuse(scope, status);
    return;
  }
  ls_context_open(scope, &ls_graph_scopes.creator);
  said_entry *entry = LS_SCOPE_ENTRY(said_entry, scope);
  entry->said = s;
  ls_creator_entry_push(
      &entry->creator,
      (ls_creator_entry){.create = create, .user = &entry->said});
}

// ---- Synchronized on read --------------------------------------------------
static const char sync_on_read[] = "variables that are synchronized on read";

static ls_status create_sync_on_read(const ls_creator *next,
                                     const ls_variable_options *options,
                                     void *user, ls_variable **out_variable) {
  const said *s = user;
  ls_variable_options changed = *options;
  *out_variable = NULL;
  LS_RETURN_IF_ERROR(check_in_force(s->strategy, sync_on_read));
  changed.synchronization = LS_SYNCHRONIZATION_ON_READ;
  changed.aggregation =
      s->method == LS_REDUCE_SUM ? LS_AGGREGATION_SUM : LS_AGGREGATION_MEAN;
  changed.trainable = LS_FLAG_OFF;
  return ls_creator_create(next, &changed, out_variable);
}

void ls_sync_on_read_variables_scope_begin(ls_scope *scope,
                                           ls_strategy *strategy,
                                           ls_reduce_op method) {
  ls_status status = check_in_force(strategy, sync_on_read);
  if (ls_status_is_ok(status) && method != LS_REDUCE_SUM &&
      method != LS_REDUCE_MEAN)
    status = ls_invalid_argument("%s by %s, which is neither SUM nor MEAN",
                                 sync_on_read, LS_REDUCE_OP_TEXT(method));
  variable_scopes_begin(scope, create_sync_on_read,
                        (said){.strategy = strategy, .method = method}, status);
}

void ls_replica_sync_on_read_variables_scope_begin(ls_scope *scope,
                                                   const ls_replica *replica,
                                                   ls_reduce_op method) {
  ls_sync_on_read_variables_scope_begin(
      scope, replica == NULL ? NULL : replica->strategy, method);
}

// ---- Colocation ------------------------------------------------------------
static const char colocate[] = "colocate_vars_with";

// Creates a variable on the devices of a distributed value, or on the devices
// of a variable.
static ls_status create_on(const ls_creator *next, ls_nest with,
                           ls_variable_options *options,
                           ls_variable **out_variable) {
  LS_OWN(ls_device_set, devices) = {0};
  LS_RETURN_IF_ERROR(
      ls_destination_set((ls_destinations){.value = with}, with, &devices));
  LS_OWN_ARRAY_OR_RETURN(devices.allocator, const char *, names, devices.count);
  for (size_t i = 0; i < devices.count; ++i)
    names[i] = devices.names[i].text;
  options->devices = names;
  options->num_devices = devices.count;
  return ls_creator_create(next, options, out_variable);
}

static ls_status create_colocated(const ls_creator *next,
                                  const ls_variable_options *options,
                                  void *user, ls_variable **out_variable) {
  const said *s = user;
  ls_variable_options changed = *options;
  *out_variable = NULL;
  LS_RETURN_IF_ERROR(check_in_force(s->strategy, colocate));
  // The choice of an inner scope takes precedence.
  if (options->colocate_with != NULL || options->devices != NULL ||
      options->single_device != NULL)
    return ls_creator_create(next, options, out_variable);
  if (s->with.kind == LS_KIND_DISTRIBUTED)
    return create_on(next, s->with, &changed, out_variable);
  changed.colocate_with = ls_nest_as_variable(s->with);
  return ls_creator_create(next, &changed, out_variable);
}

// Checks that a value's devices are the strategy's.
static ls_status variable_scopes_check_value(const ls_strategy *strategy,
                                             ls_nest with) {
  LS_OWN(ls_device_set, devices) = {0};
  LS_RETURN_IF_ERROR(
      ls_destination_set((ls_destinations){.value = with}, with, &devices));
  for (size_t i = 0; i < devices.count; ++i)
    if (ls_strategy_device_index(strategy, devices.names[i].text) < 0)
      return ls_invalid_argument("%s %s, which is on '%s', no device of %s",
                                 colocate, LS_NEST_TEXT(with),
                                 devices.names[i].text, strategy->label);
  return ls_ok();
}

// Checks that the variable belongs to the strategy. Strategies without
// components accept any variable.
static ls_status variable_scopes_check_variable(const ls_strategy *strategy,
                                                ls_nest with) {
  if (strategy->kind->distributes)
    return strategy->kind->beside_components
               ? ls_validate_colocate(with, strategy)
               : ls_validate_colocate_distributed_variable(with, strategy);
  return ls_nest_as_variable(with) != NULL
             ? ls_ok()
             : ls_invalid_argument("%s takes a variable, got %s", colocate,
                                   LS_NEST_TEXT(with));
}

void ls_colocate_variables_scope_begin(ls_scope *scope, ls_strategy *strategy,
                                       ls_nest with) {
  ls_status status = check_in_force(strategy, colocate);
  if (ls_status_is_ok(status))
    status = with.kind == LS_KIND_DISTRIBUTED && strategy->kind->distributes
                 ? variable_scopes_check_value(strategy, with)
                 : variable_scopes_check_variable(strategy, with);
  variable_scopes_begin(scope, create_colocated,
                        (said){.strategy = strategy, .with = with}, status);
}
