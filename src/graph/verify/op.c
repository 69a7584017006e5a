// SPDX-License-Identifier: Apache-2.0
//
// Verifies the values that ops pass to their regions. The shape rules have
// checked the numbers of regions, operands, parameters and results.
#include "graph/verify/verify.h"

#include "graph/op_table.h"
#include "graph/walk.h"
#include "lockstep/shape_rules.h"

static ls_graph *region(const ls_verifier *v, uint32_t index) {
  return ls_graph_resolve(v->node->regions[index]);
}

// Checks that inputs from `input` on match the parameters from `parameter` to
// `end`.
static ls_status check_passing(const ls_verifier *v, uint32_t index,
                               size_t input, size_t parameter, size_t end) {
  const ls_graph *graph = region(v, index);
  for (; parameter < end; ++parameter, ++input) {
    const ls_type from = ls_graph_type(v->graph, v->node->inputs[input]);
    const ls_type to = ls_graph_type(graph, graph->parameters[parameter]);
    if (from.dtype == to.dtype && ls_shape_compatible(from.shape, to.shape))
      continue;
    return ls_verify_broken(
        v, "input %zu is %s, parameter %zu of region %u is %s", input,
        LS_SHAPE_TEXT(from.dtype, from.shape), parameter, index,
        LS_SHAPE_TEXT(to.dtype, to.shape));
  }
  return ls_ok();
}

// Checks that a region's captures are the operands that are passed for them.
static ls_status op_check_captures(const ls_verifier *v, uint32_t index) {
  const ls_graph *graph = region(v, index);
  const uint32_t first = ls_node_captures(v->node, index);
  for (size_t i = 0; i < graph->num_captures; ++i) {
    const ls_tensor outer = graph->captures[i].outer;
    const bool is_here = ls_graph_resolve(outer.graph) == v->graph;
    // A function that was traced elsewhere captures values of another graph.
    if (is_here ? outer.ref != v->node->inputs[first + i]
                : v->node->type != LS_OP_CALL)
      return ls_verify_broken(
          v, "input %zu is no value that capture %zu of region %u takes",
          first + i, i, index);
  }
  return check_passing(v, index, first, graph->num_declared,
                       graph->num_parameters);
}

static ls_status check_while(const ls_verifier *v) {
  const size_t carried = region(v, 1)->num_declared;
  if (v->graph->kind == LS_GRAPH_LOWERED &&
      ls_node_attr(v->node, LS_ATTR_ID_NUM_SAVED) != NULL)
    return ls_verify_broken(v,
                            "a lowered loop saves values on stacks of its own");
  LS_RETURN_IF_ERROR(check_passing(v, 0, 0, 0, carried));
  return check_passing(v, 1, 0, 0, carried);
}

// ---- Replicate -------------------------------------------------------------
// Checks that the split arguments of each replica match the parameters of its
// body.
static ls_status op_check_split(const ls_verifier *v,
                                const ls_replicate_counts *n) {
  const ls_attr *classes = ls_node_attr(v->node, LS_ATTR_ID_CLASSES);
  for (size_t r = 0; r < n->replicas; ++r)
    for (size_t s = 0; s < n->split; ++s)
      LS_RETURN_IF_ERROR(check_passing(
          v, classes == NULL ? 0 : (uint32_t)classes->as.ints.items[r],
          s * n->replicas + r, s, s + 1));
  return ls_ok();
}

// Returns true if a host op makes one call for all replicas.
static bool calls_for_all(const ls_node *node) {
  return node->type == LS_OP_HOST &&
         ls_node_attr(node, LS_ATTR_ID_REPLICAS) != NULL;
}

// Checks wide arguments, which follow the split ones: each replica's part
// matches the parameter.
static ls_status check_wide(const ls_verifier *v,
                            const ls_replicate_counts *n) {
  const ls_graph *body = region(v, 0);
  for (size_t i = 0; i < n->wide_split; ++i) {
    const size_t input = n->split * n->replicas + i;
    const size_t parameter = n->split + i;
    const ls_type from = ls_graph_type(v->graph, v->node->inputs[input]);
    const ls_type to = ls_graph_type(body, body->parameters[parameter]);
    ls_type wide;
    const ls_status status = ls_wide_type(to, (int64_t)n->replicas, &wide);
    if (ls_status_is_ok(status) && from.dtype == wide.dtype &&
        ls_shape_compatible(from.shape, wide.shape))
      continue;
    ls_status_free(status);
    return ls_verify_broken(
        v, "wide input %zu is %s, parameter %zu of %zu replicas is %s", input,
        LS_SHAPE_TEXT(from.dtype, from.shape), parameter, n->replicas,
        LS_SHAPE_TEXT(to.dtype, to.shape));
  }
  return ls_ok();
}

static ls_status check_replicate(const ls_verifier *v) {
  const ls_replicate_counts n =
      ls_replicate_counts_of(v->node->attrs, v->node->num_attrs);
  for (uint32_t k = 0; k < v->node->num_regions; ++k)
    if (ls_graph_any(region(v, k), calls_for_all))
      return ls_verify_broken(v, "region %u has a host call of all replicas",
                              k);
  LS_RETURN_IF_ERROR(op_check_split(v, &n));
  return check_wide(v, &n);
}

// ---- All ops ---------------------------------------------------------------
static ls_status check_own(const ls_verifier *v) {
  switch (v->node->type) {
  case LS_OP_WHILE:
    return check_while(v);
  case LS_OP_CALL:
    return check_passing(v, 0, 0, 0, region(v, 0)->num_declared);
  case LS_OP_REPLICATE:
    return check_replicate(v);
  case LS_OP_COND:
  case LS_OP_MERGE_CALL:
    return ls_ok();
  default:
    break;
  }
  if (v->node->num_regions > 0)
    return ls_verify_broken(v, "it needs no regions and has %u",
                            v->node->num_regions);
  return v->graph->kind != LS_GRAPH_LOWERED && calls_for_all(v->node)
             ? ls_verify_broken(v, "only lowering makes calls of all replicas")
             : ls_ok();
}

ls_status ls_verify_regions(const ls_verifier *v) {
  LS_RETURN_IF_ERROR(check_own(v));
  for (uint32_t k = 0; k < v->node->num_regions; ++k)
    LS_RETURN_IF_ERROR(op_check_captures(v, k));
  return ls_ok();
}
