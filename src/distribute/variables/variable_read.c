// SPDX-License-Identifier: Apache-2.0
//
// Reads of distributed variables: of one component, or of the aggregate of all.
#include "base/memory/own.h"
#include "distribute/context/context.h"
#include "distribute/cross_device/cross_device.h"
#include "distribute/variables/variable.h"
#include "graph/context.h"
#include "graph/make/make.h"
#include "lockstep/eager.h"
#include "lockstep/strategy_extended.h"
#include "runtime/eager/eager.h"

static ls_tensor fail_read(ls_status status) {
  return ls_make_failed("read_variable", status);
}

static ls_tensor read_here(ls_variable *container, const ls_place *place) {
  switch (place->kind) {
  case LS_PLACE_TRACE:
    return ls_variable_op(LS_OP_READ, container, NULL);
  case LS_PLACE_REPLICA:
  case LS_PLACE_UPDATE:
    return ls_read_component(container, place->index);
  case LS_PLACE_CROSS:
    break;
  }
  return ls_read_component(container, ls_component_here(container));
}

ls_tensor ls_read_mirrored(ls_variable *container) {
  ls_place place;
  const ls_status status = ls_place_of(container, false, &place);
  return ls_status_is_ok(status) ? read_here(container, &place)
                                 : fail_read(status);
}

ls_tensor ls_use_mirrored(ls_variable *container) {
  ls_place place;
  const ls_status status = ls_place_of(container, true, &place);
  if (!ls_status_is_ok(status)) return fail_read(status);
  // If no strategy was entered, the current device is ignored.
  return place.entered ? read_here(container, &place)
                       : ls_read_component(container, 0);
}

static ls_tensor read_aggregated(ls_variable *container) {
  const ls_variable_aggregation aggregation = container->aggregation;
  if (aggregation == LS_AGGREGATION_NONE)
    return fail_read(ls_invalid_argument(
        "variable '%s' is read across replicas, and its aggregation is NONE",
        container->name));
  if (aggregation == LS_AGGREGATION_ONLY_FIRST_REPLICA)
    return ls_read_component(container, 0);
  if (aggregation == LS_AGGREGATION_SUM) {
    const ls_status noted =
        ls_note_unsaveable(container, "a read", "across replicas");
    if (!ls_status_is_ok(noted)) return fail_read(noted);
  }
  LS_OWN_MEMORY(container->allocator, ls_tensor, items) = NULL;
  ls_tensor made = ls_failed_tensor();
  size_t count = 0;
  const ls_nest leaf = {.kind = LS_KIND_VARIABLE, .as.ref = container};
  ls_status status =
      ls_component_tensors(leaf, container->allocator, &items, &count);
  if (ls_status_is_ok(status))
    status = ls_strategy_combine(
        ls_strategy_of(container),
        aggregation == LS_AGGREGATION_SUM ? LS_REDUCE_SUM : LS_REDUCE_MEAN,
        items, count, &made);
  return ls_status_is_ok(status) ? made : fail_read(status);
}

// Reads the aggregate of the components of all replicas, on each replica.
static ls_tensor read_synchronized(ls_variable *container,
                                   const ls_place *place) {
  const ls_variable_aggregation aggregation = container->aggregation;
  if (aggregation == LS_AGGREGATION_NONE)
    return fail_read(ls_invalid_argument(
        "variable '%s' is to be synchronized, and its aggregation is NONE",
        container->name));
  const ls_tensor own = read_here(container, place);
  if (aggregation == LS_AGGREGATION_ONLY_FIRST_REPLICA)
    return ls_collective_broadcast(own, 0);
  return ls_all_reduce(
      aggregation == LS_AGGREGATION_SUM ? LS_REDUCE_SUM : LS_REDUCE_MEAN, own);
}

static const ls_scope_type sync_on_read_scope = {
    .name = "a scope of synchronized reads"};

void ls_sync_on_read_scope_begin(ls_scope *scope) {
  ls_distribute_scoped_of(ls_context_open(scope, &sync_on_read_scope))
      ->sync_on_read = true;
}

// Returns true if a read in a replica gives the aggregate. In a computation
// each replica reads its own component, in any scope.
static bool is_synchronized(const ls_variable *container,
                            const ls_place *place) {
  return ls_distribute_scoped_here()->sync_on_read &&
         !container->rules->replicates &&
         (place->kind == LS_PLACE_REPLICA || place->kind == LS_PLACE_TRACE);
}

ls_tensor ls_use_on_read(ls_variable *container) {
  ls_place place;
  const ls_status status = ls_place_of(container, false, &place);
  if (!ls_status_is_ok(status)) return fail_read(status);
  if (is_synchronized(container, &place))
    return read_synchronized(container, &place);
  return place.kind == LS_PLACE_CROSS ? read_aggregated(container)
                                      : read_here(container, &place);
}

ls_tensor ls_read_on_read(ls_variable *container) {
  ls_place place;
  const ls_status status = ls_place_of(container, false, &place);
  if (!ls_status_is_ok(status)) return fail_read(status);
  if (is_synchronized(container, &place))
    return fail_read(ls_unimplemented(
        "read_value of '%s' in a variable_sync_on_read_context; use it as a "
        "tensor (ls_variable_as_tensor)",
        container->name));
  return place.kind == LS_PLACE_CROSS ? read_aggregated(container)
                                      : read_here(container, &place);
}

// ---- Variable save ---------------------------------------------------------
// The saved values of variables that are synchronized on read. They are
// computed in eager mode even while a graph is built, because a save is no op
// of a graph.

// A computation that makes an array from arrays.
typedef struct work {
  ls_variable *container;
  ls_array *const *arrays;
  ls_status (*run)(const struct work *work, ls_tensor *out_tensor);
} work;

static ls_status run_in_frame(const work *w, ls_array **out_value) {
  LS_OWN(ls_array, value) = NULL;
  ls_tensor made = ls_failed_tensor();
  LS_RETURN_IF_ERROR(ls_frame_begin());
  ls_status status = w->run(w, &made);
  if (ls_status_is_ok(status)) status = ls_tensor_value(made, &value);
  LS_RETURN_IF_ERROR(ls_status_join(status, ls_frame_end(NULL)));
  return ls_hand_over(&value, out_value);
}

static ls_status run_in_eager(const work *w, ls_array **out_value) {
  ls_scope eager = {0};
  ls_status status = ls_ok();
  ls_context_enter_graph(&eager, NULL);
  {
    LS_STOP_RECORDING_SCOPE;
    status = run_in_frame(w, out_value);
  }
  ls_scope_end(&eager);
  return status;
}

static ls_status tensor_of(ls_array *array, ls_tensor *out_tensor) {
  *out_tensor = ls_tensor_from_array(array);
  return ls_made_status(*out_tensor);
}

// ---- Saving ----------------------------------------------------------------
static ls_status aggregate(const work *w, ls_tensor *out_tensor) {
  const size_t count = w->container->num_components;
  ls_allocator *allocator = w->container->allocator;
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_tensor, items, count);
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(tensor_of(w->arrays[i], &items[i]));
  const bool sum = w->container->aggregation == LS_AGGREGATION_SUM;
  return ls_reduce_tensors(sum ? LS_REDUCE_SUM : LS_REDUCE_MEAN, items, count,
                           out_tensor);
}

ls_status ls_make_saved_on_read(ls_variable *container,
                                ls_array *const *components,
                                ls_array **out_value) {
  *out_value = NULL;
  if (container->aggregation == LS_AGGREGATION_NONE)
    return ls_invalid_argument(
        "variable '%s' has no one value: it is synchronized on read with "
        "aggregation NONE, so its components make none",
        container->name);
  ls_crossing crossing;
  LS_RETURN_IF_ERROR(ls_cross_replica_begin(
      &crossing, ls_strategy_of(container), "saving a variable"));
  ls_status status = ls_ok();
  if (container->aggregation == LS_AGGREGATION_ONLY_FIRST_REPLICA)
    *out_value = ls_array_retain(components[0]);
  else
    status = run_in_eager(&(work){container, components, aggregate}, out_value);
  return ls_cross_replica_end(&crossing, status, NULL);
}

// ---- Restoring -------------------------------------------------------------
static ls_status variable_save_share(const work *w, ls_tensor *out_tensor) {
  ls_nest made = ls_none();
  ls_tensor value;
  LS_RETURN_IF_ERROR(tensor_of(w->arrays[0], &value));
  LS_RETURN_IF_ERROR(ls_share_of_sum(w->container, ls_leaf(value), &made));
  *out_tensor = ls_nest_tensor(made, 0);
  return ls_ok();
}

ls_status ls_share_saved_on_read(ls_variable *container, const ls_array *value,
                                 ls_array **out_share) {
  // The cast is safe, because the array is only read, and is retained while the
  // tensor lives.
  ls_array *array = (ls_array *)(uintptr_t)value;
  *out_share = NULL;
  if (container->aggregation == LS_AGGREGATION_SUM)
    return run_in_eager(&(work){container, &array, variable_save_share},
                        out_share);
  *out_share = ls_array_retain(array);
  return ls_ok();
}
