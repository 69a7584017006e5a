// SPDX-License-Identifier: Apache-2.0
// Scaffold scopes, which refuse ops that use values of a program. Also makes
// train ops.
#include "base/runtime_internal.h"
#include "estimator/spec/calls.h"
#include "graph/flow.h"
#include "graph/make/make.h"
#include "graph/op_table.h"
#include "graph/trial.h"
#include "lockstep/estimator_functions.h"
#include "lockstep/ops.h"
#include "lockstep/replicate.h"

typedef struct scaffold_flow {
  ls_flow flow;
  const char *where;
} scaffold_flow;

static ls_status scaffold_scope_admit(ls_flow *self, ls_op_spec *spec,
                                      ls_arena *memory) {
  const scaffold_flow *flow = (const scaffold_flow *)self;
  (void)memory;
  for (size_t i = 0; i < spec->num_inputs; ++i) {
    const ls_op from = ls_tensor_op(spec->inputs[i]);
    if (from.id != 0 && ls_op_is_replicated(from))
      return ls_invalid_argument(
          "%s: op '%s' depends on '%s', which is made inside the TPU program: "
          "tensors that model_fn makes there cannot be used on the host",
          flow->where,
          spec->name != NULL ? spec->name : ls_op_table[spec->type].name,
          ls_tensor_name(spec->inputs[i]));
  }
  return ls_ok();
}

static const ls_flow_type type = {.name = "scaffold",
                                  .admit = scaffold_scope_admit};

void ls_scaffold_scope_begin(ls_scope *scope, ls_scaffold_stretch stretch) {
  static scaffold_flow flows[] = {
      [LS_IN_SCAFFOLD_FN] = {{&type}, "Inside scaffold_fn"},
      [LS_IN_SCAFFOLD_FINALIZE] = {{&type}, "Inside Scaffold.finalize"}};
  ls_flow_begin(scope, &flows[stretch].flow);
}

ls_status ls_program_scaffold(const ls_estimator_spec *spec, ls_graph *graph,
                              ls_scaffold *out_scaffold) {
  const ls_estimator_spec_options *spec_options =
      ls_estimator_spec_values(spec);
  *out_scaffold = (ls_scaffold){0};
  if (spec_options->scaffold_fn == NULL) return ls_ok();
  LS_GRAPH_SCOPE(graph);
  LS_SCOPE_BLOCK_(scope);
  ls_scaffold_scope_begin(&scope, LS_IN_SCAFFOLD_FN);
  LS_RETURN_IF_ERROR(ls_scope_status());
  LS_RETURN_IF_ERROR(
      spec_options->scaffold_fn(spec_options->scaffold_user, out_scaffold));
  return ls_graph_take_error(graph);
}

ls_status ls_program_finalize(ls_scaffold *scaffold, ls_graph *graph) {
  LS_GRAPH_SCOPE(graph);
  LS_SCOPE_BLOCK_(scope);
  ls_scaffold_scope_begin(&scope, LS_IN_SCAFFOLD_FINALIZE);
  LS_RETURN_IF_ERROR(ls_scope_status());
  return ls_scaffold_finalize(scaffold, graph);
}

// ---- Train op --------------------------------------------------------------

static ls_status train_op_make(ls_optimizer *optimizer, ls_tensor loss,
                               ls_op *out_op) {
  ls_variable *step = NULL;
  if (optimizer == NULL)
    return ls_invalid_argument("a train op needs an optimizer");
  LS_RETURN_IF_ERROR(ls_global_step_get(ls_graph_current(), &step));
  const ls_op trained = ls_optimizer_minimize(optimizer, loss);
  const ls_tensor one = ls_op_is_failed(trained)
                            ? ls_failed_tensor()
                            : ls_scalar_i64(LS_DTYPE_I64, 1);
  // Stops here: if this replica went on, it would miss a collective or use the
  // wrong one, and that error would hide the root cause.
  if (ls_tensor_is_failed(one)) return ls_graph_take_error(ls_graph_current());
  const ls_op ops[] = {trained,
                       ls_tensor_op(ls_variable_assign_add(step, one))};
  *out_op = ls_group(ops, 2, "train_op");
  return ls_ok();
}

ls_op ls_train_op(ls_optimizer *optimizer, ls_tensor loss) {
  ls_op made = {0};
  ls_trial trial;
  ls_trial_begin(&trial);
  const ls_status status =
      ls_trial_end(&trial, train_op_make(optimizer, loss, &made));
  return ls_status_is_ok(status)
             ? made
             : ls_tensor_op(ls_make_failed("train_op", status));
}
