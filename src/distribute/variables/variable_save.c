// SPDX-License-Identifier: Apache-2.0
//
// What files hold of variables that are synchronized on read. It is computed in
// eager whatever is being built: a save is no op of a graph.
#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "distribute/context/context.h"
#include "distribute/cross_device/cross_device.h"
#include "distribute/variables/variable.h"
#include "graph/context.h"
#include "lockstep/eager.h"
#include "runtime/eager/eager.h"

// Arrays in, an array out.
typedef struct work {
  ls_variable *container;
  ls_array *const *arrays;
  ls_status (*run)(const struct work *work, ls_tensor *out_tensor);
} work;

static ls_status run_in_frame(const work *w, ls_array **out_value) {
  LS_RETURN_IF_ERROR(ls_frame_begin());
  ls_tensor made = ls_failed_tensor();
  ls_status status = w->run(w, &made);
  if (ls_status_is_ok(status)) status = ls_tensor_value(made, out_value);
  status = ls_status_join(status, ls_frame_end(NULL));
  if (ls_status_is_ok(status)) return status;
  ls_array_release(*out_value);
  *out_value = NULL;
  return status;
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
        "variable '%s' cannot be saved: it is synchronized on read with "
        "aggregation NONE, so its components make no value",
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
  // Only read; retained while the tensor lives.
  ls_array *array = (ls_array *)(uintptr_t)value;
  *out_share = NULL;
  if (container->aggregation == LS_AGGREGATION_SUM)
    return run_in_eager(&(work){container, &array, variable_save_share},
                        out_share);
  *out_share = ls_array_retain(array);
  return ls_ok();
}
