// SPDX-License-Identifier: Apache-2.0
//
// Rewrites of operations on the gradient of window maxima, which work as well
// on its operand, where there are fewer numbers.
//
// A relu followed by maxima: the gradient goes to the largest element of a
// window, which is the maximum, so it is enough to ask whether the maximum is
// above 0:
//
//   relu_grad(window_max_grad(y, d), y) = window_max_grad(y, relu_grad(d, max))
//
// bit for bit, and the relu's output is read once less.
//
// A sum over all positions, for the gradient of a bias: each number of d goes
// to one position of its own channel, so
//
//   sum over positions(window_max_grad(y, d)) = sum over windows(d)
//
// up to the order of the additions.
#include "engine/cpu/passes/passes.h"
#include "graph/compare/compare.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

static bool has_attr(const ls_node *node, const ls_attr *wanted) {
  const ls_attr *has = ls_node_attr(node, (ls_attr_id)wanted->id);
  return has != NULL && ls_attr_equal(has, wanted);
}

// Returns true if `node` takes the maxima that `grad` is the gradient of.
static bool takes_maxima(const ls_rewrite *r, const ls_node *node,
                         const ls_node *grad) {
  if (node->type != LS_OP_REDUCE_WINDOW || node->id > grad->id) return false;
  const ls_attr *reduce = ls_node_attr(node, LS_ATTR_ID_WINDOW_REDUCE);
  bool same = reduce != NULL && strcmp(reduce->as.string, "max") == 0;
  for (uint32_t a = 0; same && a < grad->num_attrs; ++a)
    same = has_attr(node, &grad->attrs[a]);
  return same && ls_shape_equal(node->outputs[0].shape,
                                ls_graph_type(r->graph, grad->inputs[1]).shape);
}

static const ls_node *maxima_of(const ls_rewrite *r, const ls_node *grad) {
  const ls_node_use *use = ls_rewrite_first_use(r, ls_ref_id(grad->inputs[0]));
  while (use != NULL && (grad->inputs[0] != use->user->inputs[use->input] ||
                         !takes_maxima(r, use->user, grad)))
    use = ls_rewrite_next_use(r, use);
  return use != NULL ? use->user : NULL;
}

static ls_status relu_before(ls_rewrite *r, ls_node *relu) {
  if (relu->type != LS_OP_RELU_GRAD) return ls_ok();
  const ls_node *grad =
      ls_rewrite_match(r, relu->inputs[0], LS_OP_WINDOW_MAX_GRAD);
  if (grad == NULL || grad->inputs[0] != relu->inputs[1]) return ls_ok();
  const ls_node *maxima = maxima_of(r, grad);
  if (maxima == NULL) return ls_ok();
  ls_node *mask = NULL;
  const uint64_t masked[] = {grad->inputs[1], ls_ref(maxima->id, 0)};
  LS_RETURN_IF_ERROR(ls_rewrite_insert(
      r, relu, &(ls_op_spec){.type = LS_OP_RELU_GRAD, .num_inputs = 2}, masked,
      maxima->outputs[0], &mask));
  const uint64_t given[] = {relu->inputs[1], ls_ref(mask->id, 0)};
  relu->type = LS_OP_WINDOW_MAX_GRAD;
  ls_rewrite_take_attrs(r, relu, grad);
  return ls_rewrite_set_inputs(r, relu, given, LS_COUNT_OF(given));
}

// Returns the operand of a sum over all but the last dimension, even if these
// dimensions were reshaped to one; otherwise 0.
static uint64_t summed_places(const ls_graph *graph, const ls_node *sum) {
  const uint64_t input = sum->inputs[0];
  const ls_attr *axes = ls_node_attr(sum, LS_ATTR_ID_AXES);
  const int32_t rank = ls_graph_type(graph, input).shape.rank;
  if (axes == NULL || axes->as.ints.count + 1 != (size_t)rank ||
      ls_node_int(sum, LS_ATTR_ID_KEEP_DIMS))
    return 0;
  for (size_t i = 0; i < axes->as.ints.count; ++i)
    if (axes->as.ints.items[i] == rank - 1) return 0;
  const ls_node *from = ls_graph_node_of(graph, input);
  if (from->type != LS_OP_RESHAPE) return input;
  const ls_shape before = ls_graph_type(graph, from->inputs[0]).shape;
  const ls_shape after = ls_graph_type(graph, input).shape;
  const bool joined = after.rank == 2 && before.rank > 2 &&
                      before.dim[before.rank - 1] == after.dim[1];
  return joined ? from->inputs[0] : 0;
}

static ls_status sum_before(ls_rewrite *r, ls_node *sum) {
  const uint64_t places =
      sum->type == LS_OP_REDUCE_SUM ? summed_places(r->graph, sum) : 0;
  const ls_node *grad =
      places != 0 ? ls_rewrite_match(r, places, LS_OP_WINDOW_MAX_GRAD) : NULL;
  // With explicit padding a window may be empty, and then contributes nothing.
  if (grad == NULL || ls_node_attr(grad, LS_ATTR_ID_PADDING) != NULL)
    return ls_ok();
  const uint64_t windows = grad->inputs[1];
  const int32_t rank = ls_graph_type(r->graph, windows).shape.rank;
  int64_t items[LS_MAX_RANK];
  for (int32_t i = 0; i < rank; ++i)
    items[i] = i;
  const ls_attr axes = LS_OWN_IS(AXES, items, (size_t)rank - 1);
  const ls_attr keep_dims = LS_OWN_B(KEEP_DIMS, false);
  LS_RETURN_IF_ERROR(ls_node_set_attr(r->graph, sum, &axes));
  LS_RETURN_IF_ERROR(ls_node_set_attr(r->graph, sum, &keep_dims));
  return ls_rewrite_set_inputs(r, sum, &windows, 1);
}

// `in_classes`: the graph is one of several bodies of a replicate op, in which
// an op that is the same on all replicas must stay the same in all bodies.
static ls_status go_before(ls_graph *graph, bool in_classes,
                           bool *out_changed) {
  LS_OWN(ls_rewrite, r) = {0};
  LS_RETURN_IF_ERROR(ls_rewrite_begin(&r, graph));
  const size_t count = graph->num_nodes;  // Inserted nodes come after.
  for (size_t i = 0; i < count; ++i) {
    if (in_classes && !graph->nodes[i]->varying) continue;
    LS_RETURN_IF_ERROR(relu_before(&r, graph->nodes[i]));
    LS_RETURN_IF_ERROR(sum_before(&r, graph->nodes[i]));
  }
  *out_changed |= r.changed;
  LS_RETURN_IF_ERROR(ls_rewrite_end(&r));
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    const ls_node *node = graph->nodes[i];
    const bool classes = node->type == LS_OP_REPLICATE && node->num_regions > 1;
    for (uint32_t k = 0; k < node->num_regions; ++k)
      LS_RETURN_IF_ERROR(
          go_before(node->regions[k], in_classes || classes, out_changed));
  }
  return ls_ok();
}

// Moves a relu's gradient, and sums over positions, of the gradient of window
// maxima to before that gradient. Nodes that become unused are left in place.
static ls_status cpu_go_before_windows(ls_graph *graph, bool *out_changed) {
  *out_changed = false;
  return go_before(graph, false, out_changed);
}

// ---- All passes ------------------------------------------------------------
ls_status ls_cpu_prepare(ls_backend *backend, ls_program *program) {
  ls_graph *body = program->body;
  ls_runtime *runtime = backend->runtime;
  bool changed;
  LS_RETURN_IF_ERROR(cpu_go_before_windows(body, &changed));
  if (changed) LS_RETURN_IF_ERROR(ls_drop_unused(body));
  LS_RETURN_IF_ERROR(ls_watch_pass(runtime, body, "windows", false));
  LS_RETURN_IF_ERROR(ls_cpu_join_pools(body, &changed));
  if (changed) LS_RETURN_IF_ERROR(ls_drop_unused(body));
  LS_RETURN_IF_ERROR(ls_watch_pass(runtime, body, "join_pools", false));
  LS_RETURN_IF_ERROR(ls_cpu_join_products(body, &changed));
  if (changed) LS_RETURN_IF_ERROR(ls_drop_unused(body));
  LS_RETURN_IF_ERROR(ls_watch_pass(runtime, body, "join_products", false));
  LS_RETURN_IF_ERROR(ls_cpu_rematerialize(body));
  return ls_watch_pass(runtime, body, "rematerialize", true);
}
