// SPDX-License-Identifier: Apache-2.0
//
// A relu behind which a maximum of windows was taken: the gradient goes to the
// largest element of a window, which is the maximum, so that it does as well to
// ask whether the maximum is above 0, of which there are fewer:
//   relu_grad(window_max_grad(y, d), y) = window_max_grad(y, relu_grad(d, max))
// bit for bit, and the relu's output is read once less.
#include "graph/equal.h"
#include "runtime/lower_ops.h"

static bool has_attr(const ls_node *node, const ls_attr *wanted) {
  const ls_attr *has = ls_node_attr(node, wanted->name);
  return has != NULL && ls_attr_equal(has, wanted);
}

// The maxima that `grad` is the gradient of; 0: nobody takes them.
static uint64_t maxima_of(const ls_graph *graph, const ls_node *grad) {
  for (size_t i = 0; i < graph->num_nodes && graph->nodes[i] != grad; ++i) {
    const ls_node *node = graph->nodes[i];
    if (node->type != LS_OP_REDUCE_WINDOW || node->inputs[0] != grad->inputs[0])
      continue;
    const ls_attr *reduce = ls_node_attr(node, "reduce");
    bool same = reduce != NULL && strcmp(reduce->as.string, "max") == 0;
    for (uint32_t a = 0; same && a < grad->num_attrs; ++a)
      same = has_attr(node, &grad->attrs[a]);
    if (same && ls_shape_equal(node->outputs[0].shape,
                               ls_graph_type(graph, grad->inputs[1]).shape))
      return ls_ref(node->id, 0);
  }
  return 0;
}

ls_status ls_lower_relu_of_pool(ls_lower_scope *scope, const ls_node *node,
                                const uint64_t *inputs, uint64_t *out_ref) {
  *out_ref = 0;
  if (node->type != LS_OP_RELU_GRAD) return ls_ok();
  const ls_node *grad = ls_graph_node_of(scope->to, inputs[0]);
  if (grad == NULL || grad->type != LS_OP_WINDOW_MAX_GRAD ||
      grad->inputs[0] != inputs[1])
    return ls_ok();
  const uint64_t maxima = maxima_of(scope->to, grad);
  if (maxima == 0) return ls_ok();
  const ls_op_spec give = {.type = grad->type,
                           .num_inputs = grad->num_inputs,
                           .attrs = grad->attrs,
                           .num_attrs = grad->num_attrs};
  const ls_op_spec mask = {.type = LS_OP_RELU_GRAD, .num_inputs = 2};
  const uint64_t masked[] = {grad->inputs[1], maxima};
  ls_node *made = NULL;
  LS_RETURN_IF_ERROR(ls_lower_append(scope, &mask, masked, node, &made));
  const uint64_t given[] = {inputs[1], ls_ref(made->id, 0)};
  LS_RETURN_IF_ERROR(ls_lower_append(scope, &give, given, node, &made));
  *out_ref = ls_ref(made->id, 0);
  return ls_ok();
}
