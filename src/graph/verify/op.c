// SPDX-License-Identifier: Apache-2.0
//
// Verifies the regions of ops: their number, and the values passed in and out.
#include "graph/verify/verify.h"

#include "graph/op_table.h"
#include "graph/walk.h"
#include "lockstep/shape_rules.h"

static ls_graph *region(const ls_verifier *v, uint32_t index) {
  return ls_graph_resolve(v->node->regions[index]);
}

static ls_status op_check_count(const ls_verifier *v, uint32_t regions) {
  if (v->node->num_regions == regions) return ls_ok();
  return ls_verify_broken(v, "it needs %u regions and has %u", regions,
                          v->node->num_regions);
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

// Checks that the op has `own` operands, followed by its regions' captures.
static ls_status op_check_inputs(const ls_verifier *v, size_t own) {
  const size_t wanted =
      own + ls_count_captures(v->node->regions, v->node->num_regions);
  if (v->node->num_inputs == wanted) return ls_ok();
  return ls_verify_broken(
      v, "its regions take %zu inputs with their captures, it has %u", wanted,
      v->node->num_inputs);
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
  LS_RETURN_IF_ERROR(op_check_count(v, 2));
  const ls_graph *cond = region(v, 0), *body = region(v, 1);
  const int64_t carried = ls_node_int(v->node, LS_ATTR_ID_NUM_CARRIED);
  if (v->graph->kind == LS_GRAPH_LOWERED &&
      ls_node_attr(v->node, LS_ATTR_ID_NUM_SAVED) != NULL)
    return ls_verify_broken(v,
                            "a lowered loop saves values on stacks of its own");
  if (cond->num_declared != (size_t)carried ||
      body->num_declared != (size_t)carried)
    return ls_verify_broken(
        v, "%lld values go round, its regions declare %zu and %zu parameters",
        (long long)carried, cond->num_declared, body->num_declared);
  LS_RETURN_IF_ERROR(op_check_inputs(v, (size_t)carried));
  LS_RETURN_IF_ERROR(check_passing(v, 0, 0, 0, (size_t)carried));
  LS_RETURN_IF_ERROR(check_passing(v, 1, 0, 0, (size_t)carried));
  LS_RETURN_IF_ERROR(op_check_captures(v, 0));
  return op_check_captures(v, 1);
}

static ls_status check_cond(const ls_verifier *v) {
  LS_RETURN_IF_ERROR(op_check_count(v, 2));
  const ls_graph *yes = region(v, 0), *no = region(v, 1);
  if (yes->num_declared + no->num_declared != 0)
    return ls_verify_broken(v, "a branch declares parameters");
  LS_RETURN_IF_ERROR(op_check_inputs(v, 1));
  LS_RETURN_IF_ERROR(op_check_captures(v, 0));
  return op_check_captures(v, 1);
}

static ls_status check_call(const ls_verifier *v) {
  LS_RETURN_IF_ERROR(op_check_count(v, 1));
  const ls_graph *body = region(v, 0);
  LS_RETURN_IF_ERROR(op_check_inputs(v, body->num_declared));
  LS_RETURN_IF_ERROR(check_passing(v, 0, 0, 0, body->num_declared));
  return op_check_captures(v, 0);
}

// ---- Replicate -------------------------------------------------------------
// Numbers of operands and results of a replicate op.
typedef struct replicate {
  int64_t replicas, split, wide_split, gathered, wide_gathered;
} replicate;

// Checks that the split arguments of each replica match the parameters of its
// body.
static ls_status op_check_split(const ls_verifier *v, const replicate *op) {
  const ls_attr *classes = ls_node_attr(v->node, LS_ATTR_ID_CLASSES);
  if (classes == NULL && v->node->num_regions != 1) return op_check_count(v, 1);
  if (classes != NULL && classes->as.ints.count != (size_t)op->replicas)
    return ls_verify_broken(v, "%lld replicas, and classes of %zu",
                            (long long)op->replicas, classes->as.ints.count);
  for (int64_t r = 0; r < op->replicas; ++r) {
    const int64_t body = classes == NULL ? 0 : classes->as.ints.items[r];
    if (body >= v->node->num_regions)
      return ls_verify_broken(v, "replica %lld has body %lld of %u",
                              (long long)r, (long long)body,
                              v->node->num_regions);
    for (int64_t s = 0; s < op->split; ++s)
      LS_RETURN_IF_ERROR(check_passing(v, (uint32_t)body,
                                       (size_t)(s * op->replicas + r),
                                       (size_t)s, (size_t)s + 1));
  }
  return ls_ok();
}

// Returns true if a host op makes one call for all replicas.
static bool calls_for_all(const ls_node *node) {
  return node->type == LS_OP_HOST &&
         ls_node_attr(node, LS_ATTR_ID_REPLICAS) != NULL;
}

// Checks wide arguments, which follow the split ones: each replica's part
// matches the parameter.
static ls_status check_wide(const ls_verifier *v, const replicate *op) {
  const ls_graph *body = region(v, 0);
  if (op->wide_split + op->wide_gathered > 0)
    if (v->node->num_regions != 1 ||
        ls_node_attr(v->node, LS_ATTR_ID_CLASSES) != NULL)
      return ls_verify_broken(v,
                              "%lld arguments and %lld results are wide, of "
                              "replicas of several classes",
                              (long long)op->wide_split,
                              (long long)op->wide_gathered);
  for (int64_t i = 0; i < op->wide_split; ++i) {
    const size_t input = (size_t)(op->split * op->replicas + i);
    const size_t parameter = (size_t)(op->split + i);
    const ls_type from = ls_graph_type(v->graph, v->node->inputs[input]);
    const ls_type to = ls_graph_type(body, body->parameters[parameter]);
    ls_type wide;
    const ls_status status = ls_wide_type(to, op->replicas, &wide);
    if (ls_status_is_ok(status) && from.dtype == wide.dtype &&
        ls_shape_compatible(from.shape, wide.shape))
      continue;
    ls_status_free(status);
    return ls_verify_broken(
        v, "wide input %zu is %s, parameter %zu of %lld replicas is %s", input,
        LS_SHAPE_TEXT(from.dtype, from.shape), parameter,
        (long long)op->replicas, LS_SHAPE_TEXT(to.dtype, to.shape));
  }
  return ls_ok();
}

static ls_status check_bodies(const ls_verifier *v, const replicate *op) {
  const size_t declared = (size_t)(op->split + op->wide_split);
  const size_t varying = (size_t)(op->gathered + op->wide_gathered);
  for (uint32_t k = 0; k < v->node->num_regions; ++k) {
    const ls_graph *body = region(v, k);
    if (declared != body->num_declared || varying > body->num_results ||
        body->num_results != region(v, 0)->num_results)
      return ls_verify_broken(v,
                              "%lld replicas, %zu split arguments for %zu "
                              "parameters, %zu gathered of %zu results",
                              (long long)op->replicas, declared,
                              body->num_declared, varying, body->num_results);
    if (ls_graph_any(body, calls_for_all))
      return ls_verify_broken(v, "region %u has a host call of all replicas",
                              k);
  }
  return ls_ok();
}

static ls_status check_replicate(const ls_verifier *v) {
  if (v->node->num_regions == 0) return op_check_count(v, 1);
  const replicate op = {
      ls_node_int(v->node, LS_ATTR_ID_REPLICAS),
      ls_node_int(v->node, LS_ATTR_ID_NUM_SPLIT),
      ls_node_int(v->node, LS_ATTR_ID_NUM_WIDE_SPLIT),
      ls_node_int(v->node, LS_ATTR_ID_NUM_GATHERED),
      ls_node_int(v->node, LS_ATTR_ID_NUM_WIDE_GATHERED),
  };
  LS_RETURN_IF_ERROR(check_bodies(v, &op));
  const size_t outputs = (size_t)(op.gathered * op.replicas) +
                         region(v, 0)->num_results - (size_t)op.gathered;
  if (v->node->num_outputs != outputs)
    return ls_verify_broken(v, "it has %u outputs, its body makes %zu",
                            v->node->num_outputs, outputs);
  LS_RETURN_IF_ERROR(
      op_check_inputs(v, (size_t)(op.split * op.replicas + op.wide_split)));
  LS_RETURN_IF_ERROR(op_check_split(v, &op));
  LS_RETURN_IF_ERROR(check_wide(v, &op));
  for (uint32_t k = 0; k < v->node->num_regions; ++k)
    LS_RETURN_IF_ERROR(op_check_captures(v, k));
  return ls_ok();
}

// ---- Other ops -------------------------------------------------------------
static ls_status check_merge(const ls_verifier *v) {
  LS_RETURN_IF_ERROR(op_check_count(v, 1));
  const ls_graph *body = region(v, 0);
  const int64_t replicas = ls_node_int(v->node, LS_ATTR_ID_REPLICAS);
  const int64_t args = ls_node_int(v->node, LS_ATTR_ID_NUM_ARGS);
  if (args > v->node->num_inputs ||
      body->num_declared != (size_t)(args * replicas))
    return ls_verify_broken(
        v, "%lld arguments of %lld replicas for %zu parameters",
        (long long)args, (long long)replicas, body->num_declared);
  LS_RETURN_IF_ERROR(op_check_inputs(v, (size_t)args));
  return op_check_captures(v, 0);
}

static ls_status check_host(const ls_verifier *v) {
  if (v->graph->kind != LS_GRAPH_LOWERED &&
      ls_node_attr(v->node, LS_ATTR_ID_REPLICAS) != NULL)
    return ls_verify_broken(v, "only lowering makes calls of all replicas");
  return op_check_count(v, 0);
}

ls_status ls_verify_regions(const ls_verifier *v) {
  switch (v->node->type) {
  case LS_OP_WHILE:
    return check_while(v);
  case LS_OP_COND:
    return check_cond(v);
  case LS_OP_CALL:
    return check_call(v);
  case LS_OP_REPLICATE:
    return check_replicate(v);
  case LS_OP_MERGE_CALL:
    return check_merge(v);
  case LS_OP_HOST:
    return check_host(v);
  default:
    return op_check_count(v, 0);
  }
}
