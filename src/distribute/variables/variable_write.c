// SPDX-License-Identifier: Apache-2.0
//
// Writes of distributed variables.
//
// In cross-replica context a write goes to every component; in eager mode one
// value for all components is written to the container, so that equal values
// are stored once. In a replica an aggregated write is a merge call, and in its
// trace a collective.
#include <stdio.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/array_internal.h"
#include "base/values/nest_internal.h"
#include "base/values/numbers.h"
#include "distribute/context/context.h"
#include "distribute/cross_device/cross_device.h"
#include "distribute/replicas/rounds.h"
#include "distribute/values/values.h"
#include "distribute/variables/variable.h"
#include "graph/compare/compare.h"
#include "graph/gather/gather.h"
#include "graph/make/make.h"
#include "lockstep/shape_rules.h"
#include "runtime/eager/eager.h"
#include "runtime/program.h"

// ---- Refusals --------------------------------------------------------------
// Refuses a distributed value in a context, named by `where`, in which its
// components have no meaning.
static ls_status write_refuse_parts(const ls_writing *w, const char *where) {
  return ls_invalid_argument(
      "%s of '%s' %s: the value is distributed; the variable is %s with "
      "aggregation %s",
      ls_writing_name(w), w->variable->name, where,
      w->variable->synchronization == LS_SYNCHRONIZATION_ON_READ ? "ON_READ"
                                                                 : "ON_WRITE",
      ls_aggregation_name(w->variable->aggregation));
}

// Refuses a single value for all replicas where values are summed, unless it is
// zero.
static ls_status write_check_one(const ls_writing *w, ls_nest value) {
  const ls_variable *variable = w->variable;
  if (variable->aggregation != LS_AGGREGATION_SUM ||
      variable->num_components == 1 || ls_is_host_zero(value))
    return ls_ok();
  return ls_invalid_argument(
      "all replicas pass %s to '%s', whose aggregation is SUM: the sum of one "
      "common value is ambiguous; pass each replica's own",
      LS_NEST_TEXT(value), variable->name);
}

// Refuses a distributed value that was made in a replica.
static ls_status write_refuse_own(const ls_writing *w, ls_nest value) {
  return ls_invalid_argument(
      "%s of '%s' in a replica: it has made %s of its own, as others have; a "
      "replica is to give its own part alone, or a value that was made outside "
      "for all",
      ls_writing_name(w), w->variable->name, LS_NEST_TEXT(value));
}

// Checks that the value has a part for each component, and that parts fit as
// far as their types are known.
static ls_status write_check_count(const ls_writing *w, ls_nest value) {
  const ls_variable *variable = w->variable;
  const size_t have = ls_has_components(value) ? ls_count_components(value)
                                               : variable->num_components;
  return have == variable->num_components
             ? ls_ok()
             : ls_invalid_argument(
                   "a value with %zu components for '%s', which has %zu", have,
                   variable->name, variable->num_components);
}

static ls_status check_part(const ls_writing *w, size_t index, ls_nest part) {
  const ls_type type = w->variable->type;
  ls_type given = {0};
  if (part.kind == LS_KIND_TENSOR) {
    const ls_tensor x = part.as.tensor;
    if (ls_graph_current()->kind == LS_GRAPH_EAGER && ls_tensor_is_failed(x))
      return ls_made_status(x);
    given = (ls_type){ls_tensor_dtype(x), ls_tensor_shape(x)};
  } else if (part.kind == LS_KIND_ARRAY) {
    const ls_array *array = ls_nest_as_array(part);
    given = (ls_type){ls_array_dtype(array), ls_array_shape(array)};
  } else if (part.kind == LS_KIND_VARIABLE) {
    given = ((const ls_variable *)part.as.ref)->type;
  } else {
    return part.kind == LS_KIND_SCALAR
               ? ls_value_check_scalar(w->variable, part)
               : ls_ok();
  }
  if (given.dtype == LS_DTYPE_NONE ||
      (given.dtype == type.dtype &&
       ls_shape_compatible(given.shape, type.shape)))
    return ls_ok();
  return ls_invalid_argument("%s of '%s': component %zu is %s, its value %s",
                             ls_writing_name(w), w->variable->name, index,
                             LS_SHAPE_TEXT(type.dtype, type.shape),
                             LS_SHAPE_TEXT(given.dtype, given.shape));
}

// Checks all parts of a value before the first part is written.
static ls_status write_check_parts(const ls_writing *w, ls_nest value) {
  LS_RETURN_IF_ERROR(write_check_count(w, value));
  for (size_t i = 0; i < w->variable->num_components; ++i)
    LS_RETURN_IF_ERROR(check_part(w, i, ls_value_part(value, i)));
  return ls_ok();
}

// ---- Aggregate -------------------------------------------------------------
// Returns true if a value has parts that may differ: a distributed value, or a
// variable whose components may differ.
static bool value_has_parts(ls_nest value) {
  if (!ls_is_distributed_variable(value))
    return value.kind == LS_KIND_DISTRIBUTED;
  return ls_variable_differs_freely(ls_nest_as_variable(value));
}

static bool same_parts(ls_nest a, ls_nest b) {
  const size_t count = ls_distributed_count(a);
  if (b.kind != LS_KIND_DISTRIBUTED || ls_distributed_count(b) != count)
    return false;
  for (size_t i = 0; i < count; ++i) {
    const ls_nest x = ls_distributed_component(a, i);
    const ls_nest y = ls_distributed_component(b, i);
    if (ls_nest_is_same(x, y)) continue;
    if (x.kind != LS_KIND_ARRAY || y.kind != LS_KIND_ARRAY ||
        !ls_array_is_same(ls_nest_as_array(x), ls_nest_as_array(y)))
      return false;
  }
  return true;
}

// Replaces the distributed values of the replicas by one of them, if all
// replicas passed the same parts.
static ls_status unite_values(const ls_writing *w, ls_nest *value) {
  const ls_nest first = ls_distributed_component(*value, 0);
  if (first.kind != LS_KIND_DISTRIBUTED) return ls_ok();
  for (size_t r = 1; r < ls_distributed_count(*value); ++r)
    if (!same_parts(first, ls_distributed_component(*value, r)))
      return write_refuse_own(w, first);
  *value = first;
  return ls_ok();
}

static ls_status combine_parts(const ls_variable *variable, ls_nest value,
                               ls_nest *out_value) {
  const size_t count = variable->num_components;
  LS_OWN_ARRAY_OR_RETURN(variable->allocator, ls_tensor, items, count);
  ls_tensor made = ls_failed_tensor();
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(
        ls_value_as_tensor(variable, ls_value_part(value, i), &items[i]));
  LS_RETURN_IF_ERROR(ls_strategy_combine(
      ls_strategy_of(variable),
      variable->aggregation == LS_AGGREGATION_SUM ? LS_REDUCE_SUM
                                                  : LS_REDUCE_MEAN,
      items, count, &made));
  *out_value = ls_leaf(made);
  return ls_ok();
}

// Aggregates one leaf, or one value of each replica. The result is borrowed, or
// is a tensor.
static ls_status write_aggregate(const ls_writing *w, ls_nest value,
                                 ls_nest *out_value) {
  *out_value = value;
  if (!value_has_parts(value)) return write_check_one(w, value);
  if (value.kind == LS_KIND_DISTRIBUTED)
    LS_RETURN_IF_ERROR(unite_values(w, &value));
  LS_RETURN_IF_ERROR(write_check_count(w, value));
  if (w->variable->aggregation != LS_AGGREGATION_ONLY_FIRST_REPLICA)
    return combine_parts(w->variable, value, out_value);
  *out_value = ls_value_part(value, 0);
  return write_check_parts(w, value);
}

static bool in_eager(void) {
  return ls_graph_current()->kind == LS_GRAPH_EAGER;
}

// ---- One write op ----------------------------------------------------------
static ls_tensor write_op(const ls_writing *w, ls_variable *target,
                          ls_tensor value) {
  const ls_attr attr = LS_OWN_O(VARIABLE, &target->object);
  return ls_op_output(ls_make_op(w->op,
                                 w->options != NULL ? w->options->name : NULL,
                                 &value, 1, &attr, 1),
                      0);
}

// Returns the written tensor; if the value is not to be read, the op, or none
// in eager mode.
static ls_status finish_one(const ls_writing *w, ls_tensor made,
                            ls_nest *out_value) {
  LS_RETURN_IF_ERROR(ls_made_status(made));
  const bool no_value = w->options != NULL && w->options->no_read_value;
  *out_value = !no_value    ? ls_leaf(made)
               : in_eager() ? ls_none()
                            : ls_nest_op(ls_tensor_op(made));
  return ls_ok();
}

// Returns the device of a target; in an export without components, devices do
// not count.
static const char *variable_write_device_of(const ls_variable *target) {
  const bool counts =
      target->container == NULL || !ls_context_current()->scoped.primaries_only;
  return counts && target->device != NULL ? target->device : "";
}

// Writes one variable directly: a plain one, a component, or the container in
// the trace of a replica.
static ls_status write_one(const ls_writing *w, ls_variable *target,
                           ls_nest value, ls_nest *out_value) {
  ls_tensor tensor = ls_failed_tensor(), made = ls_failed_tensor();
  {
    LS_DEVICE_SCOPE(variable_write_device_of(target));
    LS_RETURN_IF_ERROR(ls_value_as_tensor(w->variable, value, &tensor));
    if (ls_variable_is_replicated(target) &&
        ls_tensor_dtype(tensor) != target->type.dtype)
      tensor = ls_convert(tensor, target->type.dtype);
    made = write_op(w, target, tensor);
    return finish_one(w, made, out_value);
  }
}

// Writes to all targets of a handle, by the handle's rules. The name goes to an
// identity after all writes.
static ls_status write_replicated(const ls_writing *w, ls_nest value,
                                  ls_nest *out_value) {
  ls_tensor tensor = ls_failed_tensor();
  LS_RETURN_IF_ERROR(ls_value_as_tensor(w->variable, value, &tensor));
  ls_tensor made = w->variable->rules->write(w->variable, w->op, tensor);
  const char *name = w->options != NULL ? w->options->name : NULL;
  if (name != NULL && !ls_tensor_is_failed(made))
    made = ls_identity_named(made, name);
  return finish_one(w, made, out_value);
}

// ---- All components --------------------------------------------------------
static ls_status variable_write_component(const ls_writing *w, size_t index,
                                          ls_nest value, ls_nest *out_value) {
  ls_variable *component = w->variable->components[index];
  char name[32];
  snprintf(name, sizeof(name), "update_%zu", index);
  ls_scope update = {0};
  ls_status status = ls_ok();
  LS_DEVICE_SCOPE(component->device);
  LS_NAME_SCOPE(name);
  ls_update_begin(&update, ls_strategy_of(w->variable), (int32_t)index,
                  component->device);
  status = write_one(w, component, ls_value_part(value, index), out_value);
  ls_scope_end(&update);
  return status;
}

static ls_status write_each(const ls_writing *w, ls_nest value,
                            ls_nest *out_value) {
  const size_t count = w->variable->num_components;
  ls_allocator *allocator = w->variable->allocator;
  LS_RETURN_IF_ERROR(write_check_parts(w, value));
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, results, count);
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(variable_write_component(w, i, value, &results[i]));
  return ls_update_regroup(ls_strategy_of(w->variable), results, count, true,
                           out_value);
}

// Returns true if one write to the container replaces a write to each
// component.
static bool writes_once(const ls_writing *w, ls_nest value) {
  ls_runtime_state *state =
      ls_runtime_slot(w->variable->runtime, LS_SLOT_RUNTIME);
  if (!in_eager() || ls_has_components(value) || state == NULL) return false;
  return w->op == LS_OP_ASSIGN || ls_store_is_shared(state->store, w->variable);
}

static ls_status write_once(const ls_writing *w, ls_nest value,
                            ls_nest *out_value) {
  const size_t count = w->variable->num_components;
  ls_nest written = ls_none();
  LS_RETURN_IF_ERROR(write_one(w, w->variable, value, &written));
  if (written.kind == LS_KIND_NONE || count == 1) {
    *out_value = written;
    return ls_ok();
  }
  ls_allocator *allocator = w->variable->allocator;
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, items, count);
  LS_OWN_ARRAY_OR_RETURN(allocator, const char *, devices, count);
  for (size_t i = 0; i < count; ++i) {
    items[i] = written;
    devices[i] = ls_variable_device(w->variable->components[i]);
  }
  return ls_take_nest(
      ls_nest_distributed_on(LS_MIRRORED, items, devices, count), out_value);
}

static ls_status variable_write_all(const ls_writing *w, ls_nest value,
                                    ls_nest *out_value) {
  return writes_once(w, value) ? write_once(w, value, out_value)
                               : write_each(w, value, out_value);
}

static ls_nest merge_write(ls_strategy *strategy, ls_nest args, void *user) {
  const ls_writing *w = user;
  ls_nest value = ls_none(), made = ls_none();
  (void)strategy;
  LS_RETURN_FAILED_IF_ERROR(write_aggregate(w, args, &value));
  return ls_made_nest(variable_write_all(w, value, &made), &made);
}

// ---- In a replica's trace --------------------------------------------------
bool ls_is_from_outside(const ls_replica *replica, ls_tensor tensor) {
  const ls_graph *graph = ls_graph_resolve(tensor.graph);
  if (replica == NULL)  // In a computation outside a strategy's run.
    return graph->kind != LS_GRAPH_REGION &&
           ls_node_mark(ls_graph_node_of(graph, tensor.ref),
                        LS_MARK_REPLICATE) == NULL;
  if (graph == replica->graph && !graph->is_replica)
    return ls_node_mark(ls_graph_node_of(graph, tensor.ref),
                        LS_MARK_REPLICATE) == NULL;
  for (const ls_graph *at = replica->graph->parent; at != NULL; at = at->parent)
    if (at == graph) return true;
  return false;
}

// Returns true if a replica's value is the same on all replicas.
static bool is_one(const ls_writing *w, const ls_place *place, ls_nest value) {
  if (place->count == 1) return true;
  const bool is_tensor = value.kind == LS_KIND_TENSOR;
  // In a computation it is not known which tensors differ.
  if (w->variable->rules->replicates)
    return !is_tensor && value.kind != LS_KIND_VARIABLE;
  return is_tensor ? ls_is_from_outside(place->replica, value.as.tensor)
                   : !value_has_parts(value);
}

static ls_status write_in_trace(const ls_writing *w, const ls_place *place,
                                ls_nest value, ls_nest *out_value) {
  const ls_variable *variable = w->variable;
  if (w->is_common || ls_variable_differs_freely(variable) || place->in_merge)
    return write_one(w, w->variable, value, out_value);
  if (is_one(w, place, value)) {
    LS_RETURN_IF_ERROR(write_check_one(w, value));
    return write_one(w, w->variable, value, out_value);
  }
  ls_tensor x;
  LS_RETURN_IF_ERROR(write_check_count(w, value));
  LS_RETURN_IF_ERROR(ls_value_as_tensor(variable, value, &x));
  x = variable->aggregation == LS_AGGREGATION_ONLY_FIRST_REPLICA
          ? ls_collective_broadcast(x, 0)
          : ls_all_reduce(variable->aggregation == LS_AGGREGATION_SUM
                              ? LS_REDUCE_SUM
                              : LS_REDUCE_MEAN,
                          x);
  LS_RETURN_IF_ERROR(ls_made_status(x));
  return write_one(w, w->variable, ls_leaf(x), out_value);
}

// Writes a distributed value made outside the replicas: each replica sees all
// parts, so that their aggregate is the same on all.
static ls_status write_parts_in_trace(const ls_writing *w,
                                      const ls_place *place, ls_nest value,
                                      ls_nest *out_value) {
  ls_nest one = ls_none();
  for (size_t i = 0; place->count > 1 && i < ls_distributed_count(value); ++i) {
    const ls_nest part = ls_distributed_component(value, i);
    if (part.kind == LS_KIND_TENSOR &&
        !ls_is_from_outside(place->replica, part.as.tensor))
      return write_refuse_own(w, value);
  }
  LS_RETURN_IF_ERROR(write_aggregate(w, value, &one));
  return write_one(w, w->variable, one, out_value);
}

// Returns true if replicas write their own components as they are.
static bool is_unaggregated(const ls_writing *w) {
  return w->is_common || w->variable->aggregation == LS_AGGREGATION_NONE;
}

// Writes a mirrored variable. The result of an aggregated write is the same on
// all replicas.
static ls_status write_mirrored_in_trace(const ls_writing *w,
                                         const ls_place *place, ls_nest value,
                                         ls_nest *out_value) {
  const bool none = is_unaggregated(w);
  if (none && ls_has_components(value))
    return write_refuse_parts(w, "in a replica");
  LS_RETURN_IF_ERROR(value.kind == LS_KIND_DISTRIBUTED
                         ? write_parts_in_trace(w, place, value, out_value)
                         : write_in_trace(w, place, value, out_value));
  if (none || out_value->kind != LS_KIND_TENSOR) return ls_ok();
  out_value->as.tensor = ls_same_note(out_value->as.tensor);
  return ls_made_status(out_value->as.tensor);
}

// ---- Write by rule ---------------------------------------------------------
static bool is_unmirrored(ls_nest value) {
  return ls_has_components(value) && !ls_is_mirrored(value);
}

static ls_status write_mirrored(const ls_writing *w, ls_nest value,
                                ls_nest *out_value) {
  ls_place place;
  const bool none = is_unaggregated(w);
  LS_RETURN_IF_ERROR(ls_place_of(w->variable, false, &place));
  // Refuses parts that may differ, except for a variable without aggregation.
  if (place.kind == LS_PLACE_CROSS && !none && is_unmirrored(value))
    return write_refuse_parts(w, "across replicas");
  if (place.kind == LS_PLACE_CROSS || (place.kind != LS_PLACE_UPDATE && !none))
    LS_RETURN_IF_ERROR(ls_note_unsaveable(
        w->variable, ls_writing_name(w),
        place.kind == LS_PLACE_CROSS ? "across replicas" : "by all replicas"));
  switch (place.kind) {
  case LS_PLACE_CROSS:
    // Enters the strategy's scope if necessary.
    return LS_CROSS_REPLICA(ls_strategy_of(w->variable), ls_writing_name(w),
                            out_value, variable_write_all(w, value, out_value));
  case LS_PLACE_UPDATE:
    return write_one(w, w->variable->components[place.index],
                     ls_value_part(value, place.index), out_value);
  case LS_PLACE_TRACE:
    return write_mirrored_in_trace(w, &place, value, out_value);
  case LS_PLACE_REPLICA:
    break;
  }
  if (none) {
    if (ls_has_components(value)) return write_refuse_parts(w, "in a replica");
    return write_one(w, w->variable->components[place.index], value, out_value);
  }
  ls_writing merged = *w;
  return ls_take_nest(
      ls_replica_merge_call(place.replica, merge_write, value, &merged),
      out_value);
}

ls_status ls_share_of_sum(const ls_variable *variable, ls_nest value,
                          ls_nest *out_share) {
  ls_tensor x;
  LS_RETURN_IF_ERROR(ls_value_as_tensor(variable, value, &x));
  // Divides in i64 or f32, where the number of components is exact.
  const ls_dtype dtype = variable->type.dtype;
  x = ls_is_half(dtype) ? ls_convert(x, LS_DTYPE_F32) : ls_widen_integers(x);
  const ls_dtype wide = ls_tensor_dtype(x);
  x = ls_div(x, ls_scalar(wide, (double)variable->num_components));
  if (wide != dtype) x = ls_convert(x, dtype);
  *out_share = ls_leaf(x);
  return ls_made_status(x);
}

static ls_status write_on_read_across(const ls_writing *w, ls_nest value,
                                      ls_nest *out_value) {
  const ls_variable_aggregation aggregation = w->variable->aggregation;
  const bool read = w->options == NULL || !w->options->no_read_value;
  const bool sum = aggregation == LS_AGGREGATION_SUM;
  LS_RETURN_IF_ERROR(
      ls_note_unsaveable(w->variable, ls_writing_name(w), "across replicas"));
  if (is_unmirrored(value)) return write_refuse_parts(w, "across replicas");
  if (sum && w->op != LS_OP_ASSIGN)
    return ls_failed_precondition(
        "%s of '%s' in a cross-replica context: its aggregation is SUM, so the "
        "value for each replica is undefined",
        ls_writing_name(w), w->variable->name);
  if (read && aggregation == LS_AGGREGATION_NONE)
    return ls_invalid_argument(
        "%s of '%s' in a cross-replica context: its value afterwards cannot be "
        "read, as its aggregation is NONE",
        ls_writing_name(w), w->variable->name);
  LS_RETURN_IF_ERROR(write_check_parts(w, value));
  const ls_nest one = ls_value_part(value, 0);
  ls_nest share = one, written = ls_none();
  if (sum) LS_RETURN_IF_ERROR(ls_share_of_sum(w->variable, one, &share));
  LS_RETURN_IF_ERROR(variable_write_all(w, share, &written));
  if (!read) {
    *out_value = written;
    return ls_ok();
  }
  ls_op after =
      in_eager() ? (ls_op){0}
                 : ls_tensor_op(ls_nest_tensor(ls_value_part(written, 0), 0));
  ls_tensor made = ls_failed_tensor();
  {
    LS_CONTROL_SCOPE(&after, after.id != 0 ? 1 : 0);
    made = ls_variable_read(w->variable);
  }
  ls_nest_release(written);
  *out_value = ls_leaf(made);
  return ls_made_status(made);
}

static ls_status write_on_read(const ls_writing *w, ls_nest value,
                               ls_nest *out_value) {
  ls_place place;
  LS_RETURN_IF_ERROR(ls_place_of(w->variable, false, &place));
  if (place.kind == LS_PLACE_CROSS)
    return LS_CROSS_REPLICA(ls_strategy_of(w->variable), ls_writing_name(w),
                            out_value,
                            write_on_read_across(w, value, out_value));
  if (ls_has_components(value)) return write_refuse_parts(w, "in a replica");
  return place.kind == LS_PLACE_TRACE
             ? write_in_trace(w, &place, value, out_value)
             : write_one(w, w->variable->components[place.index], value,
                         out_value);
}

static ls_status write_any(const ls_writing *w, ls_nest given,
                           ls_nest *out_value) {
  LS_OWN(ls_nest, value) = ls_none();
  *out_value = ls_none();
  LS_RETURN_IF_ERROR(ls_value_order(w->variable, given, &value));
  return LS_TRIAL_WITH(
      out_value, w->variable->num_targets > 0
                     ? write_replicated(w, value, out_value)
                 : w->variable->num_components == 0
                     ? write_one(w, w->variable, value, out_value)
                 : w->variable->synchronization == LS_SYNCHRONIZATION_ON_READ
                     ? write_on_read(w, value, out_value)
                     : write_mirrored(w, value, out_value));
}

ls_status ls_variable_write(ls_variable *variable, ls_write_op op,
                            ls_nest value, const ls_write_options *options,
                            ls_nest *out_value) {
  LS_REQUIRE_OUT(out_value, variable);
  static const uint16_t ops[] = {LS_OP_ASSIGN, LS_OP_ASSIGN_ADD,
                                 LS_OP_ASSIGN_SUB};
  LS_RETURN_IF_ERROR(ls_nest_status(value));
  LS_RETURN_IF_ERROR(ls_scope_status());
  if ((unsigned)op >= LS_COUNT_OF(ops))
    return ls_invalid_argument("a write needs a variable and an operation");
  variable = ls_variable_meant(variable);
  if (variable->num_targets > 0 && !variable->rules->is_replicated)
    variable = ls_variable_here(variable);
  LS_RETURN_IF_ERROR(ls_variable_settle(variable));
  const ls_writing w = {
      .variable = variable, .op = ops[op], .options = options};
  const ls_status status = write_any(&w, value, out_value);
  ls_failure_hand_over(status);
  return status;
}

ls_tensor ls_written_here(const ls_variable *variable, ls_nest made) {
  return ls_nest_tensor(made.kind == LS_KIND_DISTRIBUTED
                            ? ls_value_part(made, ls_component_here(variable))
                            : made,
                        0);
}

static ls_tensor write_as_maker(const ls_writing *w, ls_tensor value) {
  LS_OWN(ls_nest, made) = ls_none();
  const ls_status status = write_any(w, ls_leaf(value), &made);
  if (!ls_status_is_ok(status))
    return ls_make_failed(ls_writing_name(w), status);
  return ls_written_here(w->variable, made);
}

ls_tensor ls_write_as_maker(ls_variable *container, uint16_t op,
                            ls_tensor value) {
  return write_as_maker(&(ls_writing){.variable = container, .op = op}, value);
}

// ---- Common values ---------------------------------------------------------
static ls_tensor write_plain(const ls_writing *w, ls_tensor value) {
  return w->op == LS_OP_ASSIGN ? ls_variable_assign(w->variable, value)
                               : ls_variable_assign_add(w->variable, value);
}

static ls_nest merge_common(ls_strategy *strategy, ls_nest args, void *user) {
  (void)strategy;
  const ls_nest first = ls_distributed_component(args, 0);
  const ls_tensor made = write_plain(user, ls_nest_tensor(first, 0));
  LS_RETURN_FAILED_IF_ERROR(ls_made_status(made));
  return ls_leaf(made);
}

static ls_tensor write_for_all(ls_writing *w, ls_tensor value) {
  char noun[LS_MAX_FULL_NAME + 32];
  snprintf(noun, sizeof(noun), "%s of '%s', which all replicas make together,",
           ls_writing_name(w), w->variable->name);
  LS_OWN(ls_nest, made) = ls_replica_merge_as(ls_replica_context(), noun,
                                              merge_common, ls_leaf(value), w);
  return made.kind == LS_KIND_TENSOR
             ? made.as.tensor
             : ls_make_failed(ls_writing_name(w), ls_nest_status(made));
}

ls_tensor ls_write_common(ls_variable *variable, uint16_t op, ls_tensor value) {
  ls_writing w = {
      .variable = ls_variable_meant(variable), .op = op, .is_common = true};
  if (w.variable->num_components == 0)
    return w.variable->container == NULL &&
                   ls_context_current()->hooks != NULL && ls_num_replicas() > 1
               ? write_for_all(&w, value)
               : write_plain(&w, value);
  const ls_status status = ls_variable_settle(w.variable);
  return ls_status_is_ok(status) ? write_as_maker(&w, value)
                                 : ls_make_failed(ls_writing_name(&w), status);
}
