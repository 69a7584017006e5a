// SPDX-License-Identifier: Apache-2.0
//
// The common part of distributed variables: their strategy and aggregation, the
// component of the current thread, and the rules of their classes.
#include "distribute/variables/variable.h"

#include <math.h>
#include <stdio.h>

#include "base/require.h"
#include "base/values/nest_internal.h"
#include "distribute/context/context.h"
#include "distribute/values/values.h"
#include "graph/flow.h"
#include "lockstep/export.h"
#include "lockstep/shape_rules.h"
#include "runtime/eager/eager.h"

ls_strategy *ls_variable_strategy(const ls_variable *variable) {
  return (ls_strategy *)variable->strategy;
}

bool ls_strategy_made(const ls_strategy *strategy,
                      const ls_variable *variable) {
  const ls_object *made_by = variable->strategy;
  return strategy->kind->distributes ? made_by == &strategy->object
                                     : made_by == NULL;
}

const char *ls_aggregation_name(ls_variable_aggregation aggregation) {
  switch (aggregation) {
  case LS_AGGREGATION_NONE:
    return "NONE";
  case LS_AGGREGATION_SUM:
    return "SUM";
  case LS_AGGREGATION_MEAN:
    return "MEAN";
  case LS_AGGREGATION_ONLY_FIRST_REPLICA:
    return "ONLY_FIRST_REPLICA";
  }
  return "?";
}

ls_status ls_aggregation_reduce_op(ls_variable_aggregation aggregation,
                                   ls_reduce_op *out_op) {
  LS_REQUIRE_OUT(out_op);
  *out_op = aggregation == LS_AGGREGATION_MEAN ? LS_REDUCE_MEAN : LS_REDUCE_SUM;
  return aggregation == LS_AGGREGATION_SUM || aggregation == LS_AGGREGATION_MEAN
             ? ls_ok()
             : ls_invalid_argument("aggregation %s is no reduce op",
                                   ls_aggregation_name(aggregation));
}

// ---- Colocation ------------------------------------------------------------
static ls_status validate_maker(const ls_variable *variable,
                                const ls_strategy *strategy) {
  const ls_strategy *maker = ls_variable_strategy(variable);
  return maker == strategy
             ? ls_ok()
             : ls_invalid_argument(
                   "colocate_vars_with of %s: variable '%s' was made in %s",
                   strategy->label, variable->name, maker->label);
}

static ls_status no_colocation(ls_nest value, const char *wanted) {
  return ls_invalid_argument("colocate_vars_with takes %s, got %s", wanted,
                             LS_NEST_TEXT(value));
}

ls_status
ls_validate_colocate_distributed_variable(ls_nest value,
                                          const ls_strategy *strategy) {
  return ls_is_distributed_variable(value)
             ? validate_maker(ls_nest_as_variable(value), strategy)
             : no_colocation(value, "a distributed variable");
}

ls_status ls_validate_colocate(ls_nest value, const ls_strategy *strategy) {
  LS_REQUIRE(strategy);
  const ls_variable *variable = ls_nest_as_variable(value);
  return variable != NULL && variable->strategy != NULL
             ? validate_maker(variable, strategy)
             : no_colocation(value, "a variable that a strategy made");
}

// ---- Find a component ------------------------------------------------------
static size_t find_component(const ls_variable *container, const char *device) {
  size_t i = 0;
  while (i < container->num_components &&
         strcmp(ls_variable_device(container->components[i]), device) != 0)
    ++i;
  return i;
}

// Finds a replica's component; tries the replica's own position first.
static size_t find_of_replica(const ls_variable *container, size_t replica,
                              const char *device) {
  const size_t count = container->num_components;
  const char *own =
      replica < count ? container->components[replica]->device : NULL;
  return own != NULL && strcmp(own, device) == 0
             ? replica
             : find_component(container, device);
}

ls_status ls_variable_own_index(const ls_variable *container, int32_t replica,
                                size_t *out_index) {
  const ls_strategy *strategy = ls_strategy_of(container);
  const size_t count = container->num_components;
  // Looks for a component on the replica's device in the current column, else
  // on its devices in order.
  const char *device = ls_strategy_device_here(strategy, replica);
  *out_index = find_of_replica(container, (size_t)replica, device);
  for (int32_t k = 0; k < strategy->num_columns && *out_index == count; ++k)
    *out_index =
        find_of_replica(container, (size_t)replica,
                        ls_strategy_column_device(strategy, k, replica));
  return *out_index < count
             ? ls_ok()
             : ls_invalid_argument("variable '%s' has no component on '%s', "
                                   "the device of replica %d",
                                   container->name, device, replica);
}

ls_status ls_place_of(const ls_variable *container, bool foreign,
                      ls_place *out_place) {
  const ls_strategy *strategy = ls_strategy_of(container);
  const ls_distribution *entry = ls_distribution_current();
  const bool is_replicated = ls_variable_is_replicated(container);
  *out_place = (ls_place){.kind = LS_PLACE_CROSS};
  if (is_replicated) {
    out_place->kind = LS_PLACE_TRACE;
    out_place->entered = true;
    out_place->count = ls_context_replicas();
  }
  if (entry == NULL || !entry->strategy->kind->distributes) return ls_ok();
  out_place->entered = true;
  if (entry->strategy != strategy)
    return foreign && entry->replica == NULL
               ? ls_ok()
               : ls_mixing_error(entry->strategy, strategy);
  const size_t count = container->num_components;
  if (entry->replica != NULL) {
    out_place->replica = entry->replica;
    out_place->count = entry->replica->count;
    if (is_replicated) return ls_ok();
    out_place->kind =
        entry->replica->graph != NULL ? LS_PLACE_TRACE : LS_PLACE_REPLICA;
    return ls_variable_own_index(container, entry->replica->id,
                                 &out_place->index);
  }
  if (is_replicated && !entry->is_update) {
    for (; entry != NULL; entry = entry->outer)
      out_place->in_merge |= entry->replica != NULL || entry->is_whole_update;
    return ls_ok();
  }
  if (entry->is_update) {
    out_place->kind = LS_PLACE_UPDATE;
    out_place->index = find_component(container, entry->update_device);
    if (out_place->index == count) out_place->index = (size_t)entry->update_id;
    if (out_place->index >= count)
      return ls_invalid_argument("variable '%s' has no component %d",
                                 container->name, entry->update_id);
  }
  return ls_ok();
}

size_t ls_component_here(const ls_variable *container) {
  const char *device = ls_context_current()->scoped.device;
  ls_device_name name;
  if (device == NULL) return 0;
  const ls_status status = ls_device_canonical(device, NULL, &name);
  const size_t index = ls_status_is_ok(status)
                           ? find_component(container, name.text)
                           : container->num_components;
  ls_status_free(status);
  return index < container->num_components ? index : 0;
}

ls_variable *ls_container_here(const ls_variable *container) {
  ls_place place;
  if (ls_variable_is_replicated(container))
    return (ls_variable *)(uintptr_t)container;
  const ls_status status = ls_place_of(container, true, &place);
  // In all other contexts the first component is used.
  size_t index = 0;
  if (ls_status_is_ok(status) && place.kind != LS_PLACE_CROSS)
    index = place.index;
  else if (ls_status_is_ok(status) && place.entered)
    index = ls_component_here(container);
  ls_status_free(status);
  return container->components[index];
}

static bool is_across(const ls_variable *variable) {
  return ls_variable_meant(variable)->num_components > 0 &&
         !ls_variable_is_replicated(variable) &&
         ls_in_cross_replica_context() && !ls_update_replica_id().set;
}

ls_status ls_variable_handle(ls_variable *variable, ls_variable **out_handle) {
  LS_REQUIRE_OUT(out_handle, variable);
  if (is_across(variable))
    return ls_failed_precondition(
        "the handle of variable '%s' in a cross-replica context: take it in a "
        "replica context, or in an update function (ls_strategy_update)",
        variable->name);
  const bool is_replicated =
      variable->replicated != NULL ||
      (variable->rules != NULL && variable->rules->is_replicated);
  if (is_replicated && !ls_in_export() && ls_flow_replicated() == NULL)
    return ls_unimplemented(
        "the handle of variable '%s', which is one on each core of a replica, "
        "outside of a computation (lockstep/replicate.h) and of an export",
        variable->name);
  *out_handle = ls_variable_here(variable);
  return ls_ok();
}

ls_status ls_variable_as_reference(ls_variable *variable,
                                   ls_variable **out_reference) {
  LS_REQUIRE_OUT(out_reference, variable);
  variable = ls_variable_meant(variable);
  if (variable->num_components > 0 && !ls_variable_is_replicated(variable))
    return ls_invalid_argument(
        "distributed variable '%s' cannot be converted to a reference; use its "
        "value, read_value (ls_variable_read)",
        variable->name);
  *out_reference = variable;
  return ls_ok();
}

ls_op_description ls_variable_op_description(const ls_variable *variable) {
  const bool by_first = is_across(variable) || (variable->num_components > 0 &&
                                                variable->rules->replicates);
  const ls_variable *of =
      by_first ? variable->components[0] : ls_variable_here(variable);
  return (ls_op_description){of->name, "variable", of->graph};
}

bool ls_op_description_equal(const ls_op_description *a,
                             const ls_op_description *b) {
  return strcmp(a->name, b->name) == 0 && strcmp(a->type, b->type) == 0 &&
         a->graph == b->graph;
}

ls_tensor ls_read_component(ls_variable *container, size_t index) {
  ls_variable *component = container->components[index];
  LS_DEVICE_SCOPE(component->device);
  return ls_variable_op(LS_OP_READ, component, NULL);
}

const char *ls_variable_class_name(const ls_variable *variable) {
  return variable->class_name != NULL ? variable->class_name : "";
}

// ---- Values ----------------------------------------------------------------
// Returns true if a host scalar is a value of an integer type.
static bool is_number_of(ls_dtype dtype, ls_nest scalar) {
  const bool is_unsigned = ls_dtype_is_unsigned(dtype);
  const size_t size = ls_dtype_size(dtype);
  if (!ls_dtype_is_float(scalar.dtype) && size == sizeof(int64_t))
    return !is_unsigned || scalar.as.i64 >= 0;
  const double end = ldexp(1, (int)(8 * size) - (is_unsigned ? 0 : 1));
  const double number = ls_nest_number(scalar);
  return number >= (is_unsigned ? 0 : -end) && number < end &&
         number == floor(number);
}

ls_status ls_value_check_scalar(const ls_variable *variable, ls_nest leaf) {
  const ls_dtype dtype = variable->type.dtype;
  return !ls_dtype_is_integer(dtype) || is_number_of(dtype, leaf)
             ? ls_ok()
             : ls_invalid_argument("%s is no value of '%s', which is %s",
                                   LS_NEST_TEXT(leaf), variable->name,
                                   ls_dtype_name(dtype));
}

ls_status ls_value_as_tensor(const ls_variable *variable, ls_nest leaf,
                             ls_tensor *out_tensor) {
  const ls_dtype dtype = variable->type.dtype;
  if (leaf.kind != LS_KIND_SCALAR)
    return ls_distributed_as_tensor(leaf, out_tensor);
  LS_RETURN_IF_ERROR(ls_value_check_scalar(variable, leaf));
  *out_tensor = ls_dtype_is_float(leaf.dtype) || ls_dtype_is_float(dtype)
                    ? ls_scalar(dtype, ls_nest_number(leaf))
                    : ls_scalar_i64(dtype, leaf.as.i64);
  if (variable->type.shape.rank > 0)
    *out_tensor = ls_broadcast(*out_tensor, variable->type.shape);
  return ls_made_status(*out_tensor);
}

ls_nest ls_value_part(ls_nest value, size_t index) {
  if (value.kind == LS_KIND_DISTRIBUTED)
    return ls_distributed_component(value, index);
  if (!ls_is_distributed_variable(value)) return value;
  return (ls_nest){.kind = LS_KIND_VARIABLE,
                   .as.ref = ls_variable_component(value.as.ref, index)};
}

ls_status ls_value_order(const ls_variable *variable, ls_nest value,
                         ls_nest *out_value) {
  const size_t count = variable->num_components;
  if (count == 0 ||
      (value.kind != LS_KIND_DISTRIBUTED && !ls_nest_is_node(value))) {
    *out_value = ls_nest_retain(value);
    return ls_ok();
  }
  LS_OWN_ARRAY_OR_RETURN(variable->allocator, const char *, devices, count);
  for (size_t i = 0; i < count; ++i)
    devices[i] = ls_variable_device(variable->components[i]);
  return ls_order_components(
      value, &(ls_device_list){.devices = devices, .count = count}, out_value);
}

// ---- Classes ---------------------------------------------------------------
const ls_variable_rules ls_mirrored_rules = {.class_name = "MirroredVariable",
                                             .read = ls_read_mirrored,
                                             .as_tensor = ls_use_mirrored,
                                             .write = ls_write_as_maker,
                                             .scatter = ls_scatter_mirrored,
                                             .here = ls_container_here};

const ls_variable_rules ls_sync_on_read_rules = {
    .class_name = "SyncOnReadVariable",
    .read = ls_read_on_read,
    .as_tensor = ls_use_on_read,
    .write = ls_write_as_maker,
    .scatter = ls_scatter_on_read,
    .here = ls_container_here,
    .make_saved = ls_make_saved_on_read,
    .share_saved = ls_share_saved_on_read};

const ls_variable_rules *ls_mirrored_variable_rules(void) {
  return &ls_mirrored_rules;
}

const ls_variable_rules *ls_sync_on_read_variable_rules(void) {
  return &ls_sync_on_read_rules;
}

const ls_variable_class_map ls_mirrored_classes = {
    .on_write = &ls_mirrored_rules,
    .on_read = &ls_sync_on_read_rules,
    .variable_class = "DistributedVariable"};

const ls_variable_policy_map ls_mirrored_policies = {
    .on_write = &ls_mirrored_rules, .on_read = &ls_sync_on_read_rules};
