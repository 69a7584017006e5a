// SPDX-License-Identifier: Apache-2.0
// Ops beside a loop on the device.
#include "base/require.h"
#include "base/text.h"
#include "base/values/nest_internal.h"
#include "estimator/input/loop_steps.h"
#include "graph/make/make.h"
#include "lockstep/ops.h"
#include "train/hooks/saved.h"

static bool is_float(ls_dtype dtype) {
  return dtype == LS_DTYPE_F16 || dtype == LS_DTYPE_BF16 ||
         dtype == LS_DTYPE_F32 || dtype == LS_DTYPE_F64;
}

// Fails the run unless all of it is finite.
static ls_status sync_ops_check_variable(ls_variable *variable, ls_op *out_op) {
  ls_text message;
  ls_text_init(&message, ls_current_allocator());
  ls_text_append_format(&message, "Gradient for %s:0 is NaN",
                        ls_variable_name(variable));
  ls_status status = ls_text_status(&message);
  if (ls_status_is_ok(status)) {
    const ls_tensor finite = ls_is_finite(ls_variable_read(variable));
    *out_op = ls_make_check_of_numbers(ls_reduce_and(finite, LS_ALL_AXES),
                                       ls_text_data(&message));
    if (ls_op_is_failed(*out_op))
      status = ls_graph_take_error(ls_graph_current());
  }
  ls_text_deinit(&message);
  return status;
}

static ls_status check_all(ls_variable *const *variables, size_t count,
                           ls_nest *ops, size_t *out_count) {
  for (size_t i = 0; i < count; ++i) {
    ls_op op = {0};
    if (!is_float(ls_variable_dtype(variables[i]))) continue;
    LS_RETURN_IF_ERROR(sync_ops_check_variable(variables[i], &op));
    ops[(*out_count)++] = ls_nest_op(op);
  }
  return ls_ok();
}

ls_status ls_tpu_sync_ops(ls_graph *graph, bool broadcast, ls_nest *out_ops) {
  LS_REQUIRE_OUT(out_ops);
  LS_REQUIRE(graph);
  ls_allocator *allocator = ls_current_allocator();
  ls_variable **variables = NULL;
  size_t count = 0, made = 0;
  // The current one is not entered again: its control scopes count.
  LS_SCOPE_BLOCK_(scope);
  if (graph != ls_graph_current()) ls_graph_begin(&scope, graph);
  if (broadcast)
    return ls_take_nest(LS_LIST(ls_nest_op(ls_group(NULL, 0, "no_op"))),
                        out_ops);
  LS_RETURN_IF_ERROR(ls_collection_variables(
      graph, LS_COLLECTION_TRAINABLE_VARIABLES, &variables, &count));
  ls_nest *ops = ls_new_array(allocator, ls_nest, count + 1);
  ls_status status = ops != NULL ? check_all(variables, count, ops, &made)
                                 : ls_out_of_memory();
  if (ls_status_is_ok(status))
    status = ls_take_nest(ls_nest_sequence(LS_KIND_LIST, ops, made), out_ops);
  ls_release(allocator, ops);
  ls_release(allocator, variables);
  return status;
}

ls_status ls_increase_eval_step(ls_tensor iterations, ls_op *out_op) {
  LS_REQUIRE_OUT(out_op);
  ls_variable *step = NULL;
  ls_graph *graph = ls_graph_current();
  LS_RETURN_IF_ERROR(ls_eval_step_get(graph, &step));
  const ls_tensor more =
      ls_add_scalar(ls_convert(iterations, ls_variable_dtype(step)), -1);
  *out_op = ls_tensor_op(ls_variable_assign_add(step, more));
  return ls_op_is_failed(*out_op) ? ls_graph_take_error(graph) : ls_ok();
}
