// SPDX-License-Identifier: Apache-2.0
//
// What follows the gradient of windows' maxima and does as well before it,
// where there are fewer numbers.
//
// A relu behind which maxima were taken: the gradient goes to the largest
// element of a window, which is the maximum, so that it does as well to ask
// whether the maximum is above 0:
//   relu_grad(window_max_grad(y, d), y) = window_max_grad(y, relu_grad(d, max))
// bit for bit, and the relu's output is read once less.
//
// A sum over all places, as a bias wants it: each number of d goes to one place
// of its own channel, so
//   sum over places(window_max_grad(y, d)) = sum over windows(d)
// in another order.
#include "graph/equal.h"
#include "lower/ops.h"

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

static ls_status relu_of_pool(ls_lower_scope *scope, const ls_node *node,
                              const uint64_t *inputs, uint64_t *out_ref) {
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

// Whether a sum over all but the last dimension, which may have been joined to
// one, is meant; then what is summed.
static const ls_node *summed_places(const ls_graph *graph, const ls_node *sum,
                                    uint64_t input) {
  const ls_attr *axes = ls_node_attr(sum, "axes");
  const int32_t rank = ls_graph_type(graph, input).shape.rank;
  if (axes == NULL || axes->as.ints.count + 1 != (size_t)rank ||
      ls_node_int(sum, "keep_dims", 0))
    return NULL;
  for (size_t i = 0; i < axes->as.ints.count; ++i)
    if (axes->as.ints.items[i] == rank - 1) return NULL;
  const ls_node *from = ls_graph_node_of(graph, input);
  if (from == NULL || from->type != LS_OP_RESHAPE) return from;
  const ls_shape before = ls_graph_type(graph, from->inputs[0]).shape;
  const ls_shape after = ls_graph_type(graph, input).shape;
  const bool joined = after.rank == 2 && before.rank > 2 &&
                      before.dim[before.rank - 1] == after.dim[1];
  return joined ? ls_graph_node_of(graph, from->inputs[0]) : NULL;
}

static ls_status sum_of_pool(ls_lower_scope *scope, const ls_node *node,
                             const uint64_t *inputs, uint64_t *out_ref) {
  const ls_node *grad = summed_places(scope->to, node, inputs[0]);
  // With padding of the user's a window may meet nothing, and give nothing.
  if (grad == NULL || grad->type != LS_OP_WINDOW_MAX_GRAD ||
      ls_node_attr(grad, "padding") != NULL)
    return ls_ok();
  const uint64_t windows = grad->inputs[1];
  const int32_t rank = ls_lowered_type(scope, windows).shape.rank;
  int64_t items[LS_MAX_RANK];
  for (int32_t i = 0; i < rank; ++i)
    items[i] = i;
  const ls_attr attrs[] = {LS_ATTR_IS("axes", items, (size_t)rank - 1),
                           LS_ATTR_B("keep_dims", false)};
  return ls_lower_make(scope, LS_OP_REDUCE_SUM, &windows, 1, attrs,
                       LS_COUNT_OF(attrs), node, out_ref);
}

ls_status ls_lower_pool(ls_lower_scope *scope, const ls_node *node,
                        const uint64_t *inputs, uint64_t *out_ref) {
  *out_ref = 0;
  if (node->type == LS_OP_RELU_GRAD)
    return relu_of_pool(scope, node, inputs, out_ref);
  if (node->type == LS_OP_REDUCE_SUM)
    return sum_of_pool(scope, node, inputs, out_ref);
  return ls_ok();
}
