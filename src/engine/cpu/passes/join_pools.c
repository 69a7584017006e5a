// SPDX-License-Identifier: Apache-2.0
//
// Convolutions and the window maxima of their results, joined into one op,
// forward and backward.
//
// The gradient of maxima of windows of 2 by 2 is 0 in three positions of four.
// So if it only goes to a convolution's gradients, these take the gradient and
// the positions of the maxima instead; and if a convolution's result only goes
// into such maxima, it is never stored:
//
//   max = reduce_window(conv(x, w))   max, places = conv_pool_max(x, w)
//   dy = window_max_grad(conv, d)
//   dx = conv_grad_input(dy, w)       conv_pool_grad_input(d, places, w)
//   relu_grad(dx, x)                  conv_pool_grad_input(d, places, x, w)
//   dw = conv_grad_weights(x, dy)     conv_pool_grad_weights(x, d, places)
//
// Nodes are changed in place; unused ones are left for ls_drop_unused.
#include "engine/cpu/conv/sparse.h"
#include "engine/cpu/passes/passes.h"
#include "graph/passes/rewrite.h"
#include "graph/walk.h"
#include "graph/window.h"

enum { SPATIAL = LS_POOL_RANK - 2 };

// ---- Nodes that can be joined ----------------------------------------------
// Returns true if the node takes maxima of windows of 2 by 2, without padding,
// or is their gradient.
static bool is_pool(const ls_rewrite *r, const ls_node *node) {
  const ls_attr *reduce = ls_node_attr(node, LS_ATTR_ID_WINDOW_REDUCE);
  if (node->type == LS_OP_REDUCE_WINDOW ? strcmp(reduce->as.string, "max") != 0
                                        : node->type != LS_OP_WINDOW_MAX_GRAD)
    return false;
  const ls_type y = ls_graph_type(r->graph, node->inputs[0]);
  ls_window window;
  if (!ls_can_pool(y) || y.shape.dim[3] % LS_POOL_CHANNELS != 0) return false;
  ls_status status =
      ls_window_read("", node->attrs, node->num_attrs, SPATIAL, &window);
  bool fits = ls_status_is_ok(status) &&
              ls_window_is(&window, LS_POOL_SIDE, LS_POOL_SIDE);
  ls_status_free(status);
  for (int i = 0; fits && i < SPATIAL; ++i)
    fits = window.low[i] == 0 && window.high[i] == 0 &&
           !(window.same && y.shape.dim[i + 1] % LS_POOL_SIDE != 0);
  return fits;
}

// Returns true if the convolution, or its gradient, has weights of this shape
// and can be joined with maxima of its result.
static bool is_convolution(const ls_node *node, ls_shape w) {
  return ls_can_join_pool(node->attrs, node->num_attrs, w) &&
         w.dim[2] % LS_POOL_CHANNELS == 0 && w.dim[3] % LS_POOL_CHANNELS == 0;
}

// ---- Changing --------------------------------------------------------------
// Turns the node into one that also takes the maxima and returns their
// positions.
static ls_status become_pool(ls_rewrite *r, ls_node *node) {
  const ls_type y = ls_graph_type(r->graph, node->inputs[0]);
  ls_type outputs[] = {y, y};
  for (int i = 0; i < 2; ++i) {
    outputs[i].shape.dim[1] /= LS_POOL_SIDE;
    outputs[i].shape.dim[2] /= LS_POOL_SIDE;
  }
  outputs[1].dtype = LS_DTYPE_U8;
  node->num_attrs = 0;
  LS_RETURN_IF_ERROR(ls_rewrite_retype(r, node, LS_OP_POOL_MAX, outputs,
                                       LS_COUNT_OF(outputs)));
  return ls_rewrite_set_inputs(r, node, node->inputs, 1);
}

// ---- Backward --------------------------------------------------------------
// Returns true if the node is a gradient of a convolution that takes `dy` as
// the result's gradient and nowhere else.
static bool takes(const ls_rewrite *r, const ls_node *node, uint64_t dy) {
  const bool weights = node->type == LS_OP_CONV_GRAD_WEIGHTS;
  if (!weights && node->type != LS_OP_CONV_GRAD_INPUT) return false;
  if (node->inputs[weights] != dy || node->inputs[!weights] == dy) return false;
  return is_convolution(
      node, weights ? node->outputs[0].shape
                    : ls_graph_type(r->graph, node->inputs[1]).shape);
}

static ls_status take_places(ls_rewrite *r, ls_node *node, uint64_t d,
                             uint64_t places) {
  if (node->type == LS_OP_CONV_GRAD_INPUT) {
    node->type = LS_OP_CONV_POOL_GRAD_INPUT;
    return ls_rewrite_set_inputs(r, node,
                                 (uint64_t[]){d, places, node->inputs[1]}, 3);
  }
  node->type = LS_OP_CONV_POOL_GRAD_WEIGHTS;
  return ls_rewrite_set_inputs(r, node,
                               (uint64_t[]){node->inputs[0], d, places}, 3);
}

// Returns the node that takes the maxima of which `grad` is the gradient, or
// NULL.
static ls_node *maxima_before(const ls_rewrite *r, const ls_node *grad) {
  const uint64_t y = grad->inputs[0];
  for (const ls_node_use *use = ls_rewrite_first_use(r, ls_ref_id(y));
       use != NULL; use = ls_rewrite_next_use(r, use)) {
    ls_node *node = use->user;
    if (node->id < grad->id && node->inputs[0] == y &&
        (node->type == LS_OP_POOL_MAX ||
         (node->type == LS_OP_REDUCE_WINDOW && is_pool(r, node))))
      return node;
  }
  return NULL;
}

// Returns true if all users of a gradient of maxima can take the positions
// instead.
static bool all_take(const ls_rewrite *r, const ls_node *grad) {
  const ls_node_use *use = ls_rewrite_first_use(r, grad->id);
  if (use == NULL || ls_rewrite_count_leaving(r, grad->id) != 0) return false;
  for (; use != NULL; use = ls_rewrite_next_use(r, use))
    if (!takes(r, use->user, ls_ref(grad->id, 0))) return false;
  return true;
}

static ls_status join_gradient(ls_rewrite *r, ls_node *grad) {
  if (grad->type != LS_OP_WINDOW_MAX_GRAD || !is_pool(r, grad) ||
      !all_take(r, grad))
    return ls_ok();
  const uint64_t d = grad->inputs[1];
  const uint32_t takers = ls_rewrite_count_uses(r, grad->id);
  ls_node *maxima = maxima_before(r, grad);
  if (maxima == NULL) maxima = grad;
  if (maxima->type != LS_OP_POOL_MAX)
    LS_RETURN_IF_ERROR(become_pool(r, maxima));
  // Users of `grad` itself are changed after the others.
  for (uint32_t i = 0; i < takers; ++i)
    LS_RETURN_IF_ERROR(take_places(r, ls_rewrite_first_use(r, grad->id)->user,
                                   d, ls_ref(maxima->id, 1)));
  if (maxima != grad) ls_rewrite_erase(r, grad);
  return ls_ok();
}

// Joins a relu's gradient with the input's gradient that only it uses.
static ls_status join_relu(ls_rewrite *r, ls_node *relu) {
  if (relu->type != LS_OP_RELU_GRAD) return ls_ok();
  const ls_node *grad =
      ls_rewrite_match(r, relu->inputs[0], LS_OP_CONV_POOL_GRAD_INPUT);
  if (grad == NULL || grad->num_inputs != 3 ||
      ls_rewrite_count_uses(r, grad->id) != 1 ||
      !ls_shape_equal(grad->outputs[0].shape,
                      ls_graph_type(r->graph, relu->inputs[1]).shape))
    return ls_ok();
  const uint64_t inputs[] = {grad->inputs[0], grad->inputs[1], relu->inputs[1],
                             grad->inputs[2]};
  relu->type = grad->type;
  relu->origin = grad->origin;
  relu->file = grad->file;
  relu->line = grad->line;
  ls_rewrite_take_attrs(r, relu, grad);
  return ls_rewrite_set_inputs(r, relu, inputs, 4);
}

// ---- Forward ---------------------------------------------------------------
static ls_status join_forward(ls_rewrite *r, ls_node *pool) {
  if (pool->type != LS_OP_POOL_MAX &&
      (pool->type != LS_OP_REDUCE_WINDOW || !is_pool(r, pool)))
    return ls_ok();
  const ls_node *conv = ls_graph_node_of(r->graph, pool->inputs[0]);
  if ((conv->type != LS_OP_CONVOLUTION && conv->type != LS_OP_CONV_BIAS_ACT) ||
      ls_rewrite_count_uses(r, conv->id) != 1 ||
      !is_convolution(conv, ls_graph_type(r->graph, conv->inputs[1]).shape))
    return ls_ok();
  if (pool->type != LS_OP_POOL_MAX) LS_RETURN_IF_ERROR(become_pool(r, pool));
  pool->type = LS_OP_CONV_POOL_MAX;
  pool->origin = conv->origin;
  pool->file = conv->file;
  pool->line = conv->line;
  ls_rewrite_take_attrs(r, pool, conv);
  return ls_rewrite_set_inputs(r, pool, conv->inputs, conv->num_inputs);
}

// ---- Graphs ----------------------------------------------------------------
static ls_status passes_join(ls_graph *graph, void *out_changed) {
  LS_OWN(ls_rewrite, r) = {0};
  LS_RETURN_IF_ERROR(ls_rewrite_begin(&r, graph));
  for (size_t i = 0; i < graph->num_nodes; ++i)
    LS_RETURN_IF_ERROR(join_gradient(&r, graph->nodes[i]));
  for (size_t i = 0; i < graph->num_nodes; ++i)
    LS_RETURN_IF_ERROR(join_relu(&r, graph->nodes[i]));
  for (size_t i = 0; i < graph->num_nodes; ++i)
    LS_RETURN_IF_ERROR(join_forward(&r, graph->nodes[i]));
  *(bool *)out_changed |= r.changed;
  return ls_rewrite_end(&r);
}

ls_status ls_cpu_join_pools(ls_graph *graph, bool *out_changed) {
  *out_changed = false;
  return ls_graph_each(graph, passes_join, out_changed);
}
