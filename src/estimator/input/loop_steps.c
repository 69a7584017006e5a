// SPDX-License-Identifier: Apache-2.0
// How many steps a run of a loop makes.
#include "estimator/input/loop_steps.h"

#include "base/memory/own.h"
#include "base/require.h"
#include "base/text.h"
#include "lockstep/graph_ops.h"
#include "lockstep/variable_parts.h"

// ---- The variable ----------------------------------------------------------
// Notes in the graph that it is placed with the global step.
static ls_status mark_beside(const ls_variable *variable,
                             const ls_variable *step) {
  LS_OWN(ls_text, place) = {0};
  ls_text_init(&place, ls_current_allocator());
  ls_text_append_format(&place, "loc:@%s", ls_variable_name(step));
  LS_RETURN_IF_ERROR(ls_text_status(&place));
  const char *places[] = {ls_text_data(&place)};
  return ls_op_set_attr(ls_variable_initializer(variable),
                        &(ls_attr){.name = "_class",
                                   .kind = LS_ATTR_STRINGS,
                                   .as.strings = {places, 1}});
}

static ls_status loop_steps_make(ls_graph *graph, ls_variable *step,
                                 ls_variable **out_variable) {
  static const char *const collections[] = {LS_COLLECTION_ITERATIONS_PER_LOOP,
                                            LS_COLLECTION_LOCAL_VARIABLES};
  LS_GRAPH_SCOPE(graph);
  LS_NAME_SCOPE("");
  LS_NAME_SCOPE(LS_TPU_ESTIMATOR "/");
  LS_DEVICE_SCOPE(ls_op_device(ls_variable_initializer(step)));
  LS_RETURN_IF_ERROR(
      ls_variable_create(&(ls_variable_options){.name = LS_ITERATIONS_PER_LOOP,
                                                .dtype = LS_DTYPE_I32,
                                                .shape = LS_SCALAR,
                                                .trainable = LS_FLAG_OFF,
                                                .collections = collections,
                                                .num_collections = 2},
                         out_variable));
  ls_variable_release(*out_variable);  // The graph has it.
  return mark_beside(*out_variable, step);
}

ls_status ls_iterations_per_loop(ls_graph *graph, ls_variable **out_variable) {
  LS_REQUIRE_OUT(out_variable);
  LS_REQUIRE(graph);
  ls_variable *step = NULL;
  ls_nest there[2] = {ls_none(), ls_none()};
  const size_t count =
      ls_graph_collection(graph, LS_COLLECTION_ITERATIONS_PER_LOOP, there, 2);
  if (count > 1)
    return ls_failed_precondition("Multiple iterations_per_loop_var in "
                                  "collection '%s' of graph '%s': %zu",
                                  LS_COLLECTION_ITERATIONS_PER_LOOP,
                                  ls_graph_name(graph), count);
  *out_variable = count == 1 ? ls_nest_as_variable(there[0]) : NULL;
  if (*out_variable != NULL) return ls_ok();
  LS_RETURN_IF_ERROR(ls_global_step_get(graph, &step));
  return loop_steps_make(graph, step, out_variable);
}

ls_status ls_load_iterations(const ls_run_context *context,
                             ls_variable *variable, int64_t count) {
  LS_OWN(ls_array, value) = NULL;
  const int32_t number = count < INT32_MAX ? (int32_t)count : INT32_MAX;
  LS_RETURN_IF_ERROR(
      ls_array_create_copy(LS_DTYPE_I32, LS_SCALAR, &number, &value));
  return ls_session_set_variable_value(ls_run_context_session(context),
                                       variable, value);
}
