// SPDX-License-Identifier: Apache-2.0
//
// Variables of the eager graph: their values are in the runtime's store.
#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/threads/locked.h"
#include "runtime/eager/eager.h"

// Returns the delayed draw of a value, which the caller releases; NULL if the
// value exists. Another thread may read the value meanwhile, which draws it.
static ls_late_draw *late_draw_of(ls_tensor value) {
  if (value.graph == NULL || value.graph->kind != LS_GRAPH_EAGER) return NULL;
  ls_runtime *runtime = ls_eager_of(value.graph)->state->runtime;
  const ls_node *node = ls_graph_node_of(value.graph, value.ref);
  if (node == NULL) return NULL;
  return LS_RUNTIME_LOCKED(runtime, ls_object_retain(node->late));
}

ls_status ls_eager_initialize(ls_variable *variable, ls_tensor value) {
  ls_runtime_state *state = NULL;
  LS_OWN(ls_array, array) = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_state_get(variable->runtime, &state));
  ls_late_draw *late = late_draw_of(value);
  if (late != NULL) {
    const ls_status status =
        ls_store_fill(state->store, variable, late->compiled, late->step);
    ls_object_release(late);
    return status;
  }
  LS_RETURN_IF_ERROR(ls_tensor_value(value, &array));
  return ls_store_write(state->store, variable, array);
}

ls_status ls_eager_initialize_zero(ls_variable *variable) {
  ls_runtime_state *state = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_state_get(variable->runtime, &state));
  return ls_store_add_zero(state->store, variable);
}

ls_status ls_eager_reserve(ls_variable *variable) {
  ls_runtime_state *state = NULL;
  ls_place *place = NULL;
  ls_buffer *buffer = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_state_get(variable->runtime, &state));
  LS_RETURN_IF_ERROR(ls_store_place(state->store, variable, &place));
  return ls_place_buffer(state->store, place, &buffer);
}

void ls_eager_forget(ls_variable *variable) {
  ls_runtime_state *state = ls_runtime_slot(variable->runtime, LS_SLOT_RUNTIME);
  if (state == NULL) return;
  // Components that are still referenced keep their values.
  bool lives_on = false;
  for (size_t i = 0; i < variable->num_components; ++i)
    lives_on |= !ls_object_is_unique(variable->components[i]);
  if (lives_on) ls_status_free(ls_store_split(state->store, variable));
  ls_store_forget(state->store, variable);
}

ls_status ls_eager_join(ls_variable *container) {
  ls_runtime_state *state = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_state_get(container->runtime, &state));
  return ls_store_join(state->store, container);
}

// Reads a value made of several components, on the current device.
static ls_status read_parts(ls_variable *container, ls_array **out_array) {
  const ls_graph *graph = ls_graph_current();
  if (graph == NULL) return ls_out_of_memory();
  if (graph->kind != LS_GRAPH_EAGER)
    return ls_unimplemented(
        "the value of variable '%s' on the host, in graph '%s'",
        container->name, graph->name);
  {
    LS_STOP_RECORDING_SCOPE;
    LS_RETURN_IF_ERROR(ls_frame_begin());
    const ls_status status =
        ls_tensor_value(ls_variable_read(container), out_array);
    ls_status_free(ls_frame_end(NULL));
    return status;
  }
  return ls_ok();
}

ls_status ls_variable_value(ls_variable *variable, ls_array **out_array) {
  LS_REQUIRE_OUT(out_array);
  LS_REQUIRE(variable);
  variable = ls_variable_meant(variable);
  if (variable->graph != NULL)
    return ls_unimplemented(
        "the value of variable '%s' on the host: it is of graph '%s', take a "
        "session's (ls_session_variable_value)",
        variable->name, variable->graph->name);
  ls_runtime_state *state = NULL;
  LS_RETURN_IF_ERROR(ls_variable_settle(variable));
  LS_RETURN_IF_ERROR(ls_runtime_state_get(variable->runtime, &state));
  if (variable->num_components > 0 &&
      (variable->synchronization == LS_SYNCHRONIZATION_ON_READ ||
       !ls_store_is_shared(state->store, variable)))
    return read_parts(variable, out_array);
  return ls_store_read(state->store, variable, out_array);
}

ls_status ls_variable_set_value(ls_variable *variable, const ls_array *array) {
  LS_REQUIRE(variable, array);
  ls_runtime_state *state = NULL;
  variable = ls_variable_meant(variable);
  LS_RETURN_IF_ERROR(ls_variable_settle(variable));
  LS_RETURN_IF_ERROR(ls_runtime_state_get(variable->runtime, &state));
  return ls_store_write(state->store, variable, array);
}
