// SPDX-License-Identifier: Apache-2.0
//
// Convolutions and the maxima of windows behind them become one op each way.
//
// The gradient of maxima of windows of 2 by 2 is 0 in three places of four. So
// where it only goes on to a convolution's gradients, these take the maxima's
// gradient and the maxima's places instead of it; and where a convolution's
// result only goes into such maxima, it is never stored:
//   max = reduce_window(conv(x, w))   max, places = conv_pool_max(x, w)
//   dy = window_max_grad(conv, d)
//   dx = conv_grad_input(dy, w)       conv_pool_grad_input(d, places, w)
//   relu_grad(dx, x)                  conv_pool_grad_input(d, places, x, w)
//   dw = conv_grad_weights(x, dy)     conv_pool_grad_weights(x, d, places)
// Nodes are changed where they stand; what nobody needs then is left for
// ls_drop_unused.
#include "engine/cpu/passes/passes.h"
#include "graph/window.h"

enum { SPATIAL = LS_POOL_RANK - 2 };

// A graph, and how often each node's results are used, by id.
typedef struct joiner {
  ls_graph *graph;
  uint32_t *uses;
  bool changed;
} joiner;

static ls_status count_uses(joiner *j) {
  const ls_graph *graph = j->graph;
  const uint64_t most =
      graph->num_nodes == 0 ? 0 : graph->nodes[graph->num_nodes - 1]->id;
  j->uses = ls_new_array(graph->allocator, uint32_t, most + 1);
  if (j->uses == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < graph->num_nodes; ++i)
    for (uint32_t k = 0; k < graph->nodes[i]->num_inputs; ++k)
      ++j->uses[ls_ref_id(graph->nodes[i]->inputs[k])];
  for (size_t i = 0; i < graph->num_results; ++i)
    ++j->uses[ls_ref_id(graph->results[i])];
  return ls_ok();
}

// ---- What fits -------------------------------------------------------------
// Whether maxima of windows of 2 by 2, without padding, are taken of this.
static bool is_pool(const joiner *j, const ls_node *node) {
  const ls_attr *reduce = ls_node_attr(node, "reduce");
  if (node->type == LS_OP_REDUCE_WINDOW ? strcmp(reduce->as.string, "max") != 0
                                        : node->type != LS_OP_WINDOW_MAX_GRAD)
    return false;
  const ls_type y = ls_graph_type(j->graph, node->inputs[0]);
  ls_window window;
  if (!ls_can_pool(y)) return false;
  ls_status status =
      ls_window_read("", node->attrs, node->num_attrs, SPATIAL, &window);
  bool fits =
      status == NULL && ls_window_is(&window, LS_POOL_SIDE, LS_POOL_SIDE);
  ls_status_free(status);
  for (int i = 0; fits && i < SPATIAL; ++i)
    fits = window.low[i] == 0 && window.high[i] == 0 &&
           !(window.same && y.shape.dim[i + 1] % LS_POOL_SIDE != 0);
  return fits;
}

// Whether the convolution, or its gradient, is one by weights of this shape
// that can be joined with maxima of its result.
static bool is_convolution(const ls_node *node, ls_shape w) {
  return ls_can_join_pool(node->attrs, node->num_attrs, w);
}

// ---- Changing --------------------------------------------------------------
static void forget_inputs(joiner *j, const ls_node *node) {
  for (uint32_t i = 0; i < node->num_inputs; ++i)
    --j->uses[ls_ref_id(node->inputs[i])];
}

static ls_status set_inputs(joiner *j, ls_node *node, const uint64_t *inputs,
                            uint32_t count) {
  uint64_t *copy = ls_arena_new_array(&j->graph->arena, uint64_t, count);
  if (copy == NULL) return ls_out_of_memory();
  forget_inputs(j, node);
  for (uint32_t i = 0; i < count; ++i) {
    copy[i] = inputs[i];
    ++j->uses[ls_ref_id(inputs[i])];
  }
  node->inputs = copy;
  node->num_inputs = count;
  j->changed = true;
  return ls_ok();
}

// Makes of the node one that takes the maxima, and tells their places.
static ls_status become_pool(joiner *j, ls_node *node) {
  const ls_type y = ls_graph_type(j->graph, node->inputs[0]);
  ls_type *outputs = ls_arena_new_array(&j->graph->arena, ls_type, 2);
  if (outputs == NULL) return ls_out_of_memory();
  outputs[0] = outputs[1] = y;
  for (int i = 0; i < 2; ++i) {
    outputs[i].shape.dim[1] /= LS_POOL_SIDE;
    outputs[i].shape.dim[2] /= LS_POOL_SIDE;
  }
  outputs[1].dtype = LS_DTYPE_U8;
  node->type = LS_OP_POOL_MAX;
  node->outputs = outputs;
  node->num_outputs = 2;
  node->num_attrs = 0;
  return set_inputs(j, node, node->inputs, 1);
}

// ---- Backward --------------------------------------------------------------
// Whether the node is a gradient of a convolution that takes `dy` as its
// result's and nowhere else.
static bool takes(const joiner *j, const ls_node *node, uint64_t dy) {
  const bool weights = node->type == LS_OP_CONV_GRAD_WEIGHTS;
  if (!weights && node->type != LS_OP_CONV_GRAD_INPUT) return false;
  if (node->inputs[weights] != dy || node->inputs[!weights] == dy) return false;
  return is_convolution(
      node, weights ? node->outputs[0].shape
                    : ls_graph_type(j->graph, node->inputs[1]).shape);
}

static ls_status take_places(joiner *j, ls_node *node, uint64_t d,
                             uint64_t places) {
  if (node->type == LS_OP_CONV_GRAD_INPUT) {
    node->type = LS_OP_CONV_POOL_GRAD_INPUT;
    return set_inputs(j, node, (uint64_t[]){d, places, node->inputs[1]}, 3);
  }
  node->type = LS_OP_CONV_POOL_GRAD_WEIGHTS;
  return set_inputs(j, node, (uint64_t[]){node->inputs[0], d, places}, 3);
}

// The node before `grad` that takes the maxima whose gradient it is, or NULL.
static ls_node *maxima_before(const joiner *j, const ls_node *grad) {
  for (size_t i = 0; j->graph->nodes[i] != grad; ++i) {
    ls_node *node = j->graph->nodes[i];
    if (node->type != LS_OP_POOL_MAX &&
        (node->type != LS_OP_REDUCE_WINDOW || !is_pool(j, node)))
      continue;
    if (node->inputs[0] == grad->inputs[0]) return node;
  }
  return NULL;
}

static ls_status join_gradient(joiner *j, size_t position) {
  ls_graph *graph = j->graph;
  ls_node *grad = graph->nodes[position];
  if (grad->type != LS_OP_WINDOW_MAX_GRAD || !is_pool(j, grad)) return ls_ok();
  const uint64_t dy = ls_ref(grad->id, 0), d = grad->inputs[1];
  uint32_t takers = 0;
  for (size_t i = position + 1; i < graph->num_nodes; ++i)
    takers += takes(j, graph->nodes[i], dy);
  if (takers == 0 || takers != j->uses[grad->id]) return ls_ok();
  ls_node *maxima = maxima_before(j, grad);
  if (maxima == NULL) maxima = grad;
  if (maxima->type != LS_OP_POOL_MAX)
    LS_RETURN_IF_ERROR(become_pool(j, maxima));
  if (maxima != grad) forget_inputs(j, grad);  // Nobody needs it any more.
  for (size_t i = position + 1; i < graph->num_nodes; ++i)
    if (takes(j, graph->nodes[i], dy))
      LS_RETURN_IF_ERROR(
          take_places(j, graph->nodes[i], d, ls_ref(maxima->id, 1)));
  return ls_ok();
}

// A relu's gradient of such a gradient alone becomes the two in one.
static ls_status join_relu(joiner *j, ls_node *relu) {
  if (relu->type != LS_OP_RELU_GRAD) return ls_ok();
  const ls_node *grad = ls_graph_node_of(j->graph, relu->inputs[0]);
  if (grad->type != LS_OP_CONV_POOL_GRAD_INPUT || grad->num_inputs != 3 ||
      j->uses[grad->id] != 1 ||
      !ls_shape_equal(grad->outputs[0].shape,
                      ls_graph_type(j->graph, relu->inputs[1]).shape))
    return ls_ok();
  const uint64_t inputs[] = {grad->inputs[0], grad->inputs[1], relu->inputs[1],
                             grad->inputs[2]};
  relu->type = grad->type;
  relu->attrs = grad->attrs;
  relu->num_attrs = grad->num_attrs;
  ls_node_retain_attrs(relu);
  return set_inputs(j, relu, inputs, 4);
}

// ---- Forward ---------------------------------------------------------------
static ls_status join_forward(joiner *j, ls_node *pool) {
  if (pool->type != LS_OP_POOL_MAX &&
      (pool->type != LS_OP_REDUCE_WINDOW || !is_pool(j, pool)))
    return ls_ok();
  const ls_node *conv = ls_graph_node_of(j->graph, pool->inputs[0]);
  if ((conv->type != LS_OP_CONVOLUTION && conv->type != LS_OP_CONV_BIAS_ACT) ||
      j->uses[conv->id] != 1 ||
      !is_convolution(conv, ls_graph_type(j->graph, conv->inputs[1]).shape))
    return ls_ok();
  if (pool->type != LS_OP_POOL_MAX) LS_RETURN_IF_ERROR(become_pool(j, pool));
  pool->type = LS_OP_CONV_POOL_MAX;
  pool->origin = conv->origin;
  pool->file = conv->file;
  pool->line = conv->line;
  pool->attrs = conv->attrs;
  pool->num_attrs = conv->num_attrs;
  ls_node_retain_attrs(pool);
  return set_inputs(j, pool, conv->inputs, conv->num_inputs);
}

// ---- Graphs ----------------------------------------------------------------
static ls_status join(ls_graph *graph, bool *out_changed) {
  joiner j = {.graph = graph};
  ls_status status = count_uses(&j);
  for (size_t i = 0; status == NULL && i < graph->num_nodes; ++i)
    status = join_gradient(&j, i);
  for (size_t i = 0; status == NULL && i < graph->num_nodes; ++i)
    status = join_relu(&j, graph->nodes[i]);
  for (size_t i = 0; status == NULL && i < graph->num_nodes; ++i)
    status = join_forward(&j, graph->nodes[i]);
  ls_release(graph->allocator, j.uses);
  *out_changed |= j.changed;
  for (size_t i = 0; i < graph->num_nodes; ++i)
    for (uint32_t r = 0; status == NULL && r < graph->nodes[i]->num_regions;
         ++r)
      status = join(graph->nodes[i]->regions[r], out_changed);
  return status;
}

ls_status ls_cpu_join_pools(ls_graph *graph, bool *out_changed) {
  *out_changed = false;
  return join(graph, out_changed);
}
