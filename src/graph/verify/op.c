// SPDX-License-Identifier: Apache-2.0
//
// The verifier's knowledge of regions: how many an op holds, and what passes
// between them and it.
#include "graph/verify/verify.h"

static ls_graph *region(const ls_verifier *v, uint32_t index) {
  return ls_graph_resolve(v->node->regions[index]);
}

static ls_status check_count(const ls_verifier *v, uint32_t regions) {
  if (v->node->num_regions == regions) return ls_ok();
  return ls_verify_broken(v, "it holds %u regions and has %u", regions,
                          v->node->num_regions);
}

// Inputs from `input` on become the parameters from `parameter` to `end`.
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

static ls_status check_inputs(const ls_verifier *v, size_t wanted) {
  if (v->node->num_inputs == wanted) return ls_ok();
  return ls_verify_broken(
      v, "its regions take %zu inputs with their captures, it has %u", wanted,
      v->node->num_inputs);
}

static ls_status check_while(const ls_verifier *v) {
  LS_RETURN_IF_ERROR(check_count(v, 2));
  const ls_graph *cond = region(v, 0), *body = region(v, 1);
  const int64_t carried = ls_node_int(v->node, LS_ATTR_ID_NUM_CARRIED);
  if (v->graph->kind == LS_GRAPH_LOWERED &&
      ls_node_attr(v->node, LS_ATTR_ID_NUM_SAVED) != NULL)
    return ls_verify_broken(v, "a lowered loop saves values on stacks of its "
                               "own");
  if (cond->num_declared != (size_t)carried ||
      body->num_declared != (size_t)carried)
    return ls_verify_broken(
        v, "%lld values go round, its regions declare %zu and %zu parameters",
        (long long)carried, cond->num_declared, body->num_declared);
  const size_t behind = (size_t)carried + cond->num_captures;
  LS_RETURN_IF_ERROR(check_inputs(v, behind + body->num_captures));
  LS_RETURN_IF_ERROR(check_passing(v, 0, 0, 0, cond->num_parameters));
  LS_RETURN_IF_ERROR(check_passing(v, 1, 0, 0, (size_t)carried));
  return check_passing(v, 1, behind, (size_t)carried, body->num_parameters);
}

static ls_status check_cond(const ls_verifier *v) {
  LS_RETURN_IF_ERROR(check_count(v, 2));
  const ls_graph *yes = region(v, 0), *no = region(v, 1);
  if (yes->num_declared + no->num_declared != 0)
    return ls_verify_broken(v, "a branch declares parameters");
  LS_RETURN_IF_ERROR(check_inputs(v, 1 + yes->num_captures + no->num_captures));
  LS_RETURN_IF_ERROR(check_passing(v, 0, 1, 0, yes->num_captures));
  return check_passing(v, 1, 1 + yes->num_captures, 0, no->num_captures);
}

static ls_status check_call(const ls_verifier *v) {
  LS_RETURN_IF_ERROR(check_count(v, 1));
  const size_t count = region(v, 0)->num_parameters;
  LS_RETURN_IF_ERROR(check_inputs(v, count));
  return check_passing(v, 0, 0, 0, count);
}

// The split arguments of replica r are the parameters of its body.
static ls_status check_split(const ls_verifier *v, int64_t replicas,
                             int64_t split) {
  const ls_attr *classes = ls_node_attr(v->node, LS_ATTR_ID_CLASSES);
  if (classes == NULL && v->node->num_regions != 1) return check_count(v, 1);
  if (classes != NULL && classes->as.ints.count != (size_t)replicas)
    return ls_verify_broken(v, "%lld replicas, and classes of %zu",
                            (long long)replicas, classes->as.ints.count);
  for (int64_t r = 0; r < replicas; ++r) {
    const int64_t body = classes == NULL ? 0 : classes->as.ints.items[r];
    if (body >= v->node->num_regions)
      return ls_verify_broken(v, "replica %lld has body %lld of %u",
                              (long long)r, (long long)body,
                              v->node->num_regions);
    for (int64_t s = 0; s < split; ++s)
      LS_RETURN_IF_ERROR(check_passing(v, (uint32_t)body,
                                       (size_t)(s * replicas + r), (size_t)s,
                                       (size_t)s + 1));
  }
  return ls_ok();
}

static ls_status check_replicate(const ls_verifier *v) {
  if (v->node->num_regions == 0) return check_count(v, 1);
  const int64_t replicas = ls_node_int(v->node, LS_ATTR_ID_REPLICAS);
  const int64_t split = ls_node_int(v->node, LS_ATTR_ID_NUM_SPLIT);
  const int64_t gathered = ls_node_int(v->node, LS_ATTR_ID_NUM_GATHERED);
  size_t inputs = 0;
  for (uint32_t k = 0; k < v->node->num_regions; ++k) {
    const ls_graph *body = region(v, k);
    if ((size_t)split != body->num_declared ||
        (size_t)gathered > body->num_results ||
        body->num_results != region(v, 0)->num_results)
      return ls_verify_broken(
          v,
          "%lld replicas, %lld split arguments for %zu parameters, %lld "
          "gathered of %zu results",
          (long long)replicas, (long long)split, body->num_declared,
          (long long)gathered, body->num_results);
    inputs += body->num_captures;
  }
  const size_t outputs = (size_t)(gathered * replicas) +
                         region(v, 0)->num_results - (size_t)gathered;
  if (v->node->num_outputs != outputs)
    return ls_verify_broken(v, "it has %u outputs, its body makes %zu",
                            v->node->num_outputs, outputs);
  LS_RETURN_IF_ERROR(check_inputs(v, (size_t)(split * replicas) + inputs));
  LS_RETURN_IF_ERROR(check_split(v, replicas, split));
  size_t input = (size_t)(split * replicas);
  for (uint32_t k = 0; k < v->node->num_regions; ++k) {
    const ls_graph *body = region(v, k);
    LS_RETURN_IF_ERROR(
        check_passing(v, k, input, (size_t)split, body->num_parameters));
    input += body->num_captures;
  }
  return ls_ok();
}

static ls_status check_merge(const ls_verifier *v) {
  LS_RETURN_IF_ERROR(check_count(v, 1));
  const ls_graph *body = region(v, 0);
  const int64_t replicas = ls_node_int(v->node, LS_ATTR_ID_REPLICAS);
  const int64_t args = ls_node_int(v->node, LS_ATTR_ID_NUM_ARGS);
  if (args > v->node->num_inputs ||
      body->num_declared != (size_t)(args * replicas))
    return ls_verify_broken(v,
                            "%lld arguments of %lld replicas for %zu "
                            "parameters",
                            (long long)args, (long long)replicas,
                            body->num_declared);
  LS_RETURN_IF_ERROR(check_inputs(v, (size_t)args + body->num_captures));
  return check_passing(v, 0, (size_t)args, body->num_declared,
                       body->num_parameters);
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
  default:
    return check_count(v, 0);
  }
}
