// SPDX-License-Identifier: Apache-2.0
#include "graph/trips.h"

static const ls_node *parameter_at(const ls_graph *graph, uint64_t ref,
                                   size_t *out_index) {
  const ls_node *node = ls_graph_node_of(graph, ref);
  if (node->type != LS_OP_PARAMETER) return NULL;
  *out_index = (size_t)ls_node_int(node, LS_ATTR_ID_INDEX);
  return node;
}

static bool is_constant(const ls_graph *graph, uint64_t ref, int64_t *out) {
  const ls_node *node = ls_graph_node_of(graph, ref);
  if (node->type != LS_OP_CONSTANT) return false;
  *out = ls_array_i64(ls_node_attr(node, LS_ATTR_ID_VALUE)->as.array, 0);
  return true;
}

// Returns true if each trip adds 1 to this carried value, from 0 on.
static bool counts_trips(const ls_graph *outer, const ls_node *loop,
                         size_t at) {
  const ls_graph *region = ls_graph_resolve(loop->regions[1]);
  int64_t first = 1, step = 0;
  size_t index = 0;
  if (at >= (size_t)ls_node_int(loop, LS_ATTR_ID_NUM_CARRIED) ||
      !is_constant(outer, loop->inputs[at], &first) || first != 0)
    return false;
  const ls_node *next = ls_graph_node_of(region, region->results[at]);
  return next->type == LS_OP_ADD &&
         parameter_at(region, next->inputs[0], &index) != NULL && index == at &&
         is_constant(region, next->inputs[1], &step) && step == 1;
}

// Finds a number that is known before the loop: a constant, or a parameter of
// the graph around it, perhaps converted.
static bool find_limit(const ls_graph *graph, uint64_t ref,
                       const ls_graph *outer, const ls_node *loop,
                       ls_trips *out) {
  size_t index = 0;
  const ls_node *node = ls_graph_node_of(graph, ref);
  while (node->type == LS_OP_CONVERT &&
         node->outputs[0].dtype == LS_DTYPE_I64) {
    ref = node->inputs[0];
    node = ls_graph_node_of(graph, ref);
  }
  const ls_dtype dtype = ls_graph_type(graph, ref).dtype;
  if (dtype != LS_DTYPE_I32 && dtype != LS_DTYPE_I64) return false;
  if (is_constant(graph, ref, &out->most)) return true;
  if (parameter_at(graph, ref, &index) == NULL) return false;
  if (graph == outer) {
    out->limit = (int32_t)index;
    return true;
  }
  if (index < graph->num_declared) return false;
  return find_limit(
      outer,
      loop->inputs[ls_node_captures(loop, 0) + index - graph->num_declared],
      outer, loop, out);
}

bool ls_node_count_trips(const ls_graph *outer, const ls_node *loop,
                         uint64_t holds, ls_trips *out) {
  const ls_graph *condition = ls_graph_resolve(loop->regions[0]);
  const ls_node *less = ls_graph_node_of(condition, holds);
  const int64_t most = ls_node_int(loop, LS_ATTR_ID_MAX_TRIPS);
  size_t counter = 0;
  *out = (ls_trips){.limit = -1};
  if (less->type != LS_OP_LESS ||
      parameter_at(condition, less->inputs[0], &counter) == NULL ||
      !counts_trips(outer, loop, counter) ||
      !find_limit(condition, less->inputs[1], outer, loop, out))
    return false;
  if (most > 0 && (out->limit >= 0 || most < out->most)) out->most = most;
  if (out->most < 0) out->most = 0;
  return true;
}
