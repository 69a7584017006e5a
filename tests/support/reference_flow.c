// SPDX-License-Identifier: Apache-2.0
//
// The reference: control flow, variables and stacks.
#include "support/expect.h"
#include "support/reference_ops.h"

// ---- Variables -------------------------------------------------------------
static const ls_variable *variable_of(const ref_op *op) {
  return (const ls_variable *)ls_node_attr(op->node, LS_ATTR_ID_VARIABLE)
      ->as.object;
}

void ref_read(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  (void)in;
  const ref_tensor held = ref_variable(op->run, variable_of(op));
  ref_copy(&held, out);
}

void ref_assign(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  const ls_dtype dtype = out->type.dtype;
  const ref_tensor held = ref_variable(op->run, variable_of(op));
  for (int64_t k = 0; k < out->count; ++k) {
    ref_number x = in->at[k];
    if (op->type != LS_OP_ASSIGN)
      x = ref_binary_number(op->type == LS_OP_ASSIGN_ADD ? LS_OP_ADD
                                                         : LS_OP_SUB,
                            dtype, held.at[k], x);
    out->at[k] = ref_stored(dtype, x);
  }
  ref_set_variable(op->run, variable_of(op), *out);
}

// Operands: indices and updates, for a scatter of what the variable holds.
void ref_assign_scatter(const ref_op *op, const ref_tensor *in,
                        ref_tensor *out) {
  const ref_tensor operands[] = {ref_variable(op->run, variable_of(op)), in[0],
                                 in[1]};
  ref_scatter(op, operands, out);
  ref_set_variable(op->run, variable_of(op), *out);
}

// ---- Regions ---------------------------------------------------------------
// The results of region `index` for its declared parameters and then its
// captures.
static ref_tensor *run_region(const ref_op *op, uint32_t index,
                              const ref_tensor *declared,
                              const ref_tensor *captures) {
  const ls_graph *graph = ls_graph_resolve(op->node->regions[index]);
  ref_tensor *arguments =
      ref_allocate(op->run, graph->num_parameters, sizeof(*arguments));
  ref_tensor *results =
      ref_allocate(op->run, graph->num_results, sizeof(*results));
  for (size_t i = 0; i < graph->num_parameters; ++i)
    arguments[i] = i < graph->num_declared ? declared[i]
                                           : captures[i - graph->num_declared];
  ref_evaluate_graph(op->run, graph, arguments, results);
  return results;
}

static size_t captures_of(const ref_op *op, uint32_t index) {
  return ls_graph_resolve(op->node->regions[index])->num_captures;
}

static void give(const ref_op *op, const ref_tensor *values, ref_tensor *out) {
  for (size_t i = 0; i < op->num_out; ++i)
    out[i] = values[i];
}

void ref_while(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  const size_t carried = (size_t)ref_int(op, "num_carried", 0);
  const int64_t most = ref_int(op, "max_trips", 0);
  const ref_tensor *values = in;
  const ref_tensor *captured = in + carried;
  for (int64_t trip = 0; most == 0 || trip < most; ++trip) {
    if (run_region(op, 0, values, captured)->at[0].whole == 0) break;
    values = run_region(op, 1, values, captured + captures_of(op, 0));
  }
  give(op, values, out);
}

void ref_cond(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  const bool holds = in->at[0].whole != 0;
  const ref_tensor *captured = in + 1 + (holds ? 0 : captures_of(op, 0));
  give(op, run_region(op, holds ? 0 : 1, NULL, captured), out);
}

void ref_call(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  const size_t declared = ls_graph_resolve(op->node->regions[0])->num_declared;
  give(op, run_region(op, 0, in, in + declared), out);
}

void ref_custom_gradient(const ref_op *op, const ref_tensor *in,
                         ref_tensor *out) {
  give(op, in + ref_int(op, "num_inputs", 0), out);
}

// ---- Stacks ----------------------------------------------------------------
void ref_stack_new(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  (void)in;
  out->at[0].whole = ref_stack_create(op->run, ref_int(op, "endless", 0) != 0);
}

void ref_stack_push(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  ref_stack_add(op->run, in->at[0].whole, in[1]);
  out->at[0] = in->at[0];
}

void ref_stack_pop(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  out->at[0] = in->at[0];
  if (!ref_stack_take(op->run, in->at[0].whole, &out[1]))
    fail_msg("nothing is left on a stack");
}
