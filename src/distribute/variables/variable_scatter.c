// SPDX-License-Identifier: Apache-2.0
//
// Scatters into distributed variables: updates rows of every component, or
// aggregates the rows of all replicas first.
#include <stdio.h>

#include "base/memory/own.h"
#include "distribute/context/context.h"
#include "distribute/cross_device/cross_device.h"
#include "distribute/variables/variable.h"
#include "graph/compare/compare.h"
#include "graph/make/make.h"
#include "lockstep/shape_rules.h"
#include "runtime/eager/eager.h"

typedef struct scattering {
  ls_variable *variable;
  ls_scatter_op op;
  bool is_common;  // See ls_scatter_common.
} scattering;

static ls_tensor fail_scatter(ls_status status) {
  return ls_make_failed("assign_scatter", status);
}

static ls_status scatter_each(const scattering *s, ls_tensor indices,
                              ls_tensor updates, ls_nest *out_value) {
  const size_t count = s->variable->num_components;
  ls_allocator *allocator = s->variable->allocator;
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, results, count);
  for (size_t i = 0; i < count; ++i) {
    ls_variable *component = s->variable->components[i];
    char name[32];
    snprintf(name, sizeof(name), "update_%zu", i);
    {
      LS_DEVICE_SCOPE(component->device);
      {
        LS_NAME_SCOPE(name);
        results[i] =
            ls_leaf(ls_variable_scatter_op(component, s->op, indices, updates));
      }
    }
    LS_RETURN_IF_ERROR(ls_made_status(results[i].as.tensor));
  }
  return ls_update_regroup(ls_strategy_of(s->variable), results, count, true,
                           out_value);
}

// Returns the argument of the first replica, if it fits the variable's rows.
static ls_status first_of(const scattering *s, const ls_tensor *each,
                          size_t count, ls_tensor *out_first) {
  *out_first = each[0];
  const ls_dtype dtype = ls_tensor_dtype(each[0]);
  const ls_shape first = ls_tensor_shape(each[0]);
  for (size_t r = 1; r < count; ++r) {
    ls_shape shape = ls_tensor_shape(each[r]);
    if (shape.rank > 0 && first.rank > 0) shape.dim[0] = first.dim[0];
    if (ls_tensor_dtype(each[r]) != dtype || !ls_shape_compatible(shape, first))
      return ls_invalid_argument(
          "scatter_%s of '%s': replica %zu has %s, replica 0 %s",
          ls_scatter_name(s->op), s->variable->name, r,
          LS_SHAPE_TEXT(ls_tensor_dtype(each[r]), ls_tensor_shape(each[r])),
          LS_SHAPE_TEXT(dtype, first));
  }
  return ls_ok();
}

// Concatenates one argument from all replicas.
static ls_status aggregate_argument(const scattering *s, ls_nest leaf,
                                    ls_tensor *out_tensor) {
  const ls_variable *variable = s->variable;
  LS_OWN_MEMORY(variable->allocator, ls_tensor, items) = NULL;
  size_t count = 0;
  LS_RETURN_IF_ERROR(
      ls_component_tensors(leaf, variable->allocator, &items, &count));
  // If all replicas passed one object, it counts once per replica.
  const size_t all = variable->num_components;
  LS_OWN_ARRAY_OR_RETURN(variable->allocator, ls_tensor, each, all);
  for (size_t r = 0; r < all; ++r)
    each[r] = items[count == 1 ? 0 : r];
  return variable->aggregation == LS_AGGREGATION_ONLY_FIRST_REPLICA
             ? first_of(s, each, all, out_tensor)
             : ls_gather_tensors(each, all, 0, out_tensor);
}

// Scales the gathered values for a mean; 16-bit floats are scaled in f32.
static ls_tensor scaled_for_mean(const scattering *s, ls_tensor updates) {
  return s->variable->aggregation == LS_AGGREGATION_MEAN
             ? ls_mean_of_sum(updates, (double)s->variable->num_components,
                              false)
             : updates;
}

// Joins the deltas of all replicas; for a mean, scales their values.
static ls_status aggregate_delta(const scattering *s, ls_nest args,
                                 ls_tensor *indices, ls_tensor *updates) {
  LS_RETURN_IF_ERROR(aggregate_argument(s, ls_nest_item(args, 0), indices));
  LS_RETURN_IF_ERROR(aggregate_argument(s, ls_nest_item(args, 1), updates));
  *updates = scaled_for_mean(s, *updates);
  return ls_made_status(*updates);
}

static ls_nest merge_scatter(ls_strategy *strategy, ls_nest args, void *user) {
  const scattering *s = user;
  ls_tensor indices, updates;
  ls_nest made = ls_none();
  (void)strategy;
  LS_RETURN_FAILED_IF_ERROR(aggregate_delta(s, args, &indices, &updates));
  return ls_made_nest(scatter_each(s, indices, updates, &made), &made);
}

// Scatters in the trace of a replica: collectives gather the deltas of all
// replicas. If only the first replica's deltas count, the indices of the others
// are set out of range.
static ls_status scatter_in_trace(const scattering *s, const ls_place *place,
                                  ls_tensor indices, ls_tensor updates,
                                  ls_nest *out_value) {
  const ls_variable_aggregation aggregation = s->variable->aggregation;
  if (aggregation == LS_AGGREGATION_ONLY_FIRST_REPLICA) {
    const ls_dtype dtype = ls_tensor_dtype(indices);
    const ls_tensor zero = ls_scalar_i64(LS_DTYPE_I32, 0);
    const ls_tensor is_first = ls_equal(ls_replica_id(), zero);
    const ls_tensor none = ls_broadcast_like(ls_scalar_i64(dtype, -1), indices);
    indices = ls_select(ls_broadcast_like(is_first, indices), indices, none);
  }
  if (place->count > 1) {
    indices = ls_all_gather(indices, 0);
    updates = ls_all_gather(updates, 0);
  }
  updates = scaled_for_mean(s, updates);
  *out_value = ls_leaf(ls_same_note(
      ls_variable_scatter_op(s->variable, s->op, indices, updates)));
  return ls_made_status(out_value->as.tensor);
}

// Returns true if the scatter is refused: in computations, rows can only be
// written without aggregation.
static bool is_refused(const scattering *s, const ls_place *place) {
  const ls_variable_aggregation aggregation = s->variable->aggregation;
  if (s->is_common) return false;
  if (s->variable->rules->replicates)
    return aggregation != LS_AGGREGATION_NONE &&
           (place->kind == LS_PLACE_TRACE || place->kind == LS_PLACE_REPLICA);
  return (s->op == LS_SCATTER_MIN || s->op == LS_SCATTER_MAX ||
          s->op == LS_SCATTER_UPDATE) &&
         (aggregation == LS_AGGREGATION_SUM ||
          aggregation == LS_AGGREGATION_MEAN);
}

static ls_status scatter_any(const scattering *s, ls_tensor indices,
                             ls_tensor updates, ls_nest *out_value) {
  const ls_variable *variable = s->variable;
  const ls_variable_aggregation aggregation =
      s->is_common ? LS_AGGREGATION_NONE : variable->aggregation;
  ls_place place;
  LS_RETURN_IF_ERROR(ls_place_of(variable, false, &place));
  if (is_refused(s, &place))
    return ls_unimplemented("scatter_%s of '%s', whose aggregation is %s",
                            ls_scatter_name(s->op), variable->name,
                            ls_aggregation_name(aggregation));
  const bool across = place.kind == LS_PLACE_CROSS;
  if (across ||
      (place.kind != LS_PLACE_UPDATE && aggregation != LS_AGGREGATION_NONE))
    LS_RETURN_IF_ERROR(ls_note_unsaveable(
        variable, "a scatter", across ? "across replicas" : "by all replicas"));
  if (across) return scatter_each(s, indices, updates, out_value);
  ls_variable *target = place.kind == LS_PLACE_TRACE
                            ? s->variable
                            : variable->components[place.index];
  if (place.kind == LS_PLACE_UPDATE || aggregation == LS_AGGREGATION_NONE) {
    *out_value =
        ls_leaf(ls_variable_scatter_op(target, s->op, indices, updates));
    return ls_made_status(out_value->as.tensor);
  }
  if (place.kind == LS_PLACE_TRACE)
    return scatter_in_trace(s, &place, indices, updates, out_value);
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_leaf(indices), ls_leaf(updates));
  scattering merged = *s;
  const ls_nest made =
      ls_replica_merge_call(place.replica, merge_scatter, args, &merged);
  return ls_take_nest(made, out_value);
}

static ls_tensor scatter_as_maker(const scattering *s, ls_tensor indices,
                                  ls_tensor updates) {
  LS_OWN(ls_nest, made) = ls_none();
  const ls_status status =
      LS_TRIAL_WITH(&made, scatter_any(s, indices, updates, &made));
  if (!ls_status_is_ok(status)) return fail_scatter(status);
  return ls_written_here(s->variable, made);
}

ls_tensor ls_scatter_mirrored(ls_variable *container, ls_scatter_op op,
                              ls_tensor indices, ls_tensor updates) {
  return scatter_as_maker(&(scattering){container, op, false}, indices,
                          updates);
}

ls_tensor ls_scatter_common(ls_variable *variable, ls_scatter_op op,
                            ls_tensor indices, ls_tensor updates) {
  const scattering s = {ls_variable_meant(variable), op, true};
  return s.variable->num_components == 0
             ? ls_variable_scatter(variable, op, indices, updates)
             : scatter_as_maker(&s, indices, updates);
}

ls_tensor ls_scatter_on_read(ls_variable *container, ls_scatter_op op,
                             ls_tensor indices, ls_tensor updates) {
  (void)indices, (void)updates;
  return fail_scatter(
      ls_unimplemented("scatter_%s of '%s', whose synchronization is ON_READ",
                       ls_scatter_name(op), container->name));
}
