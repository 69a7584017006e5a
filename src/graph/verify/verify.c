// SPDX-License-Identifier: Apache-2.0
//
// The verifier: the rules of a graph, one set for graphs that are being built
// (build, function, region) and one for lowered graphs.
//
//   every graph   ids ascend; inputs are outputs of earlier ops; attributes
//                 and regions fit the op; types are what the shape rule says;
//                 parameters, captures and results are values of the graph
//   build stage   no lowered-only ops; control inputs are earlier ops; names
//                 are unique; a build graph has no parameters and no results
//   lowered       no build-only ops, names, devices or control inputs; every
//                 shape is known
#include "graph/verify/verify.h"

#include <stdio.h>

#include "base/memory/map.h"
#include "base/memory/own.h"
#include "base/plain.h"
#include "base/require.h"
#include "lockstep/shape_rules.h"

ls_status ls_verify_broken(const ls_verifier *v, const char *format, ...) {
  char where[512], what[1024];
  va_list arguments;
  va_start(arguments, format);
  ls_format_v(what, sizeof(what), format, arguments);
  va_end(arguments);
  if (v->node == NULL)
    return ls_internal("graph '%.200s': %s", v->graph->name, what);
  if (v->node->type == LS_OP_NONE || v->node->type >= LS_OP_TABLE_COUNT)
    snprintf(where, sizeof(where), "an op of type %u", v->node->type);
  else
    ls_node_describe(v->graph, v->node, where, sizeof(where));
  return ls_internal("graph '%.200s', %%%llu, %s: %s", v->graph->name,
                     (unsigned long long)v->node->id, where, what);
}

static bool is_lowered(const ls_verifier *v) {
  return v->graph->kind == LS_GRAPH_LOWERED;
}

// Returns true if `ref` is an output of an op before `limit`.
static bool verify_is_value(const ls_graph *graph, uint64_t ref,
                            uint64_t limit) {
  const ls_node *node = ls_graph_node_of(graph, ref);
  return node != NULL && node->id < limit &&
         ls_ref_output(ref) < node->num_outputs;
}

// Adds the names of the graph and op to an error of another module, which is
// taken over.
static ls_status broken_by(const ls_verifier *v, ls_status status) {
  if (ls_status_is_ok(status) ||
      ls_status_code(status) == LS_RESOURCE_EXHAUSTED)
    return status;
  const ls_status broken = ls_verify_broken(v, "%s", ls_status_message(status));
  ls_status_free(status);
  return broken;
}

// ---- One op ----------------------------------------------------------------
static ls_status check_edges(const ls_verifier *v) {
  const ls_node *node = v->node;
  for (uint32_t i = 0; i < node->num_inputs; ++i)
    if (!verify_is_value(v->graph, node->inputs[i], node->id))
      return ls_verify_broken(
          v, "input %u is %%%llu:%u, which is no output of an earlier op", i,
          (unsigned long long)ls_ref_id(node->inputs[i]),
          ls_ref_output(node->inputs[i]));
  if (is_lowered(v) && node->num_control > 0)
    return ls_verify_broken(v, "a lowered op has control inputs");
  for (uint32_t i = 0; i < node->num_control; ++i)
    if (node->control[i] >= node->id ||
        ls_graph_node(v->graph, node->control[i]) == NULL)
      return ls_verify_broken(v, "control input ^%%%llu is no earlier op",
                              (unsigned long long)node->control[i]);
  return broken_by(v, ls_op_check_count(ls_node_info(node), node->num_inputs));
}

static ls_status check_attrs(const ls_verifier *v) {
  const ls_node *node = v->node;
  return broken_by(v, ls_attrs_check(node->type, node->attrs, node->num_attrs,
                                     node->num_inputs));
}

static ls_status check_stage(const ls_verifier *v) {
  const ls_node *node = v->node;
  const unsigned traits = ls_node_info(node)->traits;
  if (is_lowered(v)) {
    if (traits & LS_OP_BUILD_ONLY)
      return ls_verify_broken(v, "lowering should have replaced this op");
    if (node->base != NULL || node->device != NULL)
      return ls_verify_broken(v, "a lowered op has a name or a device");
    return ls_ok();
  }
  if (node->type >= LS_OP_COUNT)
    return ls_verify_broken(v, "only lowering makes this op");
  if (node->varying)
    return ls_verify_broken(v, "only a lowered op is marked as varying");
  if (v->graph->kind == LS_GRAPH_BUILD && node->type == LS_OP_PARAMETER)
    return ls_verify_broken(v, "a build graph has no parameters");
  return ls_ok();
}

static ls_status verify_check_type(const ls_verifier *v, unsigned output,
                                   ls_type inferred) {
  const ls_type type = v->node->outputs[output];
  if (is_lowered(v) && !ls_shape_is_known(type.shape))
    return ls_verify_broken(v, "output %u is %s; lowered shapes are known",
                            output, LS_SHAPE_TEXT(type.dtype, type.shape));
  if (type.dtype == inferred.dtype &&
      ls_shape_compatible(type.shape, inferred.shape))
    return ls_ok();
  return ls_verify_broken(v, "output %u is %s, by the shape rule %s", output,
                          LS_SHAPE_TEXT(type.dtype, type.shape),
                          LS_SHAPE_TEXT(inferred.dtype, inferred.shape));
}

// Runs the shape rule again and compares types.
static ls_status verify_check_types(ls_verifier *v) {
  const ls_node *node = v->node;
  LS_ARENA_ARRAY_OR_RETURN(&v->scratch, ls_type, in, node->num_inputs);
  ls_type few[2] = {0};
  for (uint32_t i = 0; i < node->num_inputs; ++i)
    in[i] = ls_graph_type(v->graph, node->inputs[i]);
  const ls_op_spec spec = ls_node_spec(node);
  ls_infer infer;
  LS_RETURN_IF_ERROR(broken_by(
      v, ls_infer_run(&infer, &spec, in, node->num_inputs, few, &v->scratch)));
  if (infer.num_out != node->num_outputs)
    return ls_verify_broken(v, "it has %u outputs, by the shape rule %zu",
                            node->num_outputs, infer.num_out);
  for (unsigned i = 0; i < node->num_outputs; ++i)
    LS_RETURN_IF_ERROR(verify_check_type(v, i, infer.out[i]));
  return ls_ok();
}

ls_status ls_verify_op(ls_graph *graph, const ls_node *node) {
  LS_OWN(ls_verifier, v) = {.graph = graph, .node = (ls_node *)(uintptr_t)node};
  ls_arena_init(&v.scratch, graph->allocator);
  LS_RETURN_IF_ERROR(check_attrs(&v));
  LS_RETURN_IF_ERROR(verify_check_types(&v));
  return ls_verify_regions(&v);
}

ls_status ls_verify_refused(const char *what, ls_status fault) {
  if (ls_status_code(fault) != LS_INTERNAL) return fault;
  const ls_status status =
      ls_invalid_argument("%s: %s", what, ls_status_message(fault));
  ls_status_free(fault);
  return status;
}

static ls_status verify_graph(const ls_graph *graph, ls_graph *holder);

static ls_status verify_check_op(ls_verifier *v) {
  const ls_node *node = v->node;
  if (node->type == LS_OP_NONE || node->type >= LS_OP_TABLE_COUNT)
    return ls_verify_broken(v, "there is no such type of op");
  LS_RETURN_IF_ERROR(check_edges(v));
  LS_RETURN_IF_ERROR(check_stage(v));
  LS_RETURN_IF_ERROR(check_attrs(v));
  for (uint32_t i = 0; i < node->num_regions; ++i)
    LS_RETURN_IF_ERROR(
        verify_graph(ls_graph_resolve(node->regions[i]), v->graph));
  const ls_arena_mark_point mark = ls_arena_mark(&v->scratch);
  const ls_status status = verify_check_types(v);
  ls_arena_rollback(&v->scratch, mark);
  LS_RETURN_IF_ERROR(status);
  return ls_verify_regions(v);
}

// ---- The graph -------------------------------------------------------------
static ls_status verify_check_names(ls_verifier *v) {
  LS_OWN(ls_map, names) = {0};
  ls_map_init(&names, v->graph->allocator);
  for (size_t i = 0; i < v->graph->num_nodes; ++i) {
    v->node = v->graph->nodes[i];
    const char *name = ls_node_name(v->graph, v->node);
    if (name[0] == '\0') continue;
    const ls_node *other = ls_map_find_text(&names, name);
    if (other != NULL)
      return ls_verify_broken(v, "%%%llu has this name too",
                              (unsigned long long)other->id);
    LS_RETURN_IF_NO_MEMORY(ls_map_insert_text(&names, name, v->node));
  }
  v->node = NULL;
  return ls_ok();
}

// Checks that declared parameters come first, then captures, both in order of
// ops.
static ls_status check_parameters(const ls_verifier *v) {
  const ls_graph *graph = v->graph;
  size_t seen = 0;
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    const ls_node *node = graph->nodes[i];
    if (node->type != LS_OP_PARAMETER) continue;
    if (seen == graph->num_parameters ||
        graph->parameters[seen] != ls_ref(node->id, 0))
      return ls_verify_broken(v, "%%%llu is not parameter %zu of the list",
                              (unsigned long long)node->id, seen);
    if (ls_node_int(node, LS_ATTR_ID_INDEX) != (int64_t)seen)
      return ls_verify_broken(v, "parameter %zu, %%%llu, has index %lld", seen,
                              (unsigned long long)node->id,
                              (long long)ls_node_int(node, LS_ATTR_ID_INDEX));
    ++seen;
  }
  if (seen != graph->num_parameters ||
      graph->num_declared + graph->num_captures != seen)
    return ls_verify_broken(
        v, "%zu parameters: %zu are listed, %zu declared, %zu capture", seen,
        graph->num_parameters, graph->num_declared, graph->num_captures);
  return ls_ok();
}

static ls_status verify_check_captures(const ls_verifier *v, ls_graph *holder) {
  const ls_graph *graph = v->graph;
  for (size_t i = 0; i < graph->num_captures; ++i) {
    const ls_capture *capture = &graph->captures[i];
    if (capture->inner != graph->parameters[graph->num_declared + i])
      return ls_verify_broken(v, "capture %zu is not parameter %zu", i,
                              graph->num_declared + i);
    const ls_graph *outer = ls_graph_resolve(capture->outer.graph);
    // Skips captures of the graph around, which is not verified here.
    if (outer == NULL || outer != holder) continue;
    const ls_type from = ls_graph_type(outer, capture->outer.ref);
    const ls_type to = ls_graph_type(graph, capture->inner);
    if (!verify_is_value(outer, capture->outer.ref, UINT64_MAX) ||
        from.dtype != to.dtype || !ls_shape_compatible(from.shape, to.shape))
      return ls_verify_broken(
          v, "capture %zu is %s, but captures %%%llu of graph '%.80s', %s", i,
          LS_SHAPE_TEXT(to.dtype, to.shape),
          (unsigned long long)ls_ref_id(capture->outer.ref), outer->name,
          LS_SHAPE_TEXT(from.dtype, from.shape));
  }
  return ls_ok();
}

static ls_status check_whole(ls_verifier *v, ls_graph *holder) {
  const ls_graph *graph = v->graph;
  LS_RETURN_IF_ERROR(check_parameters(v));
  LS_RETURN_IF_ERROR(verify_check_captures(v, holder));
  for (size_t i = 0; i < graph->num_results; ++i)
    if (!verify_is_value(graph, graph->results[i], UINT64_MAX))
      return ls_verify_broken(v, "result %zu is no value of the graph", i);
  if (graph->kind == LS_GRAPH_BUILD && graph->num_results > 0)
    return ls_verify_broken(v, "a build graph has no results");
  if (holder != NULL &&
      (graph->kind == LS_GRAPH_LOWERED) != (holder->kind == LS_GRAPH_LOWERED))
    return ls_verify_broken(v, "only a lowered graph has lowered regions");
  return graph->kind == LS_GRAPH_LOWERED ? ls_ok() : verify_check_names(v);
}

static ls_status check_ops(ls_verifier *v) {
  uint64_t last = 0;
  for (size_t i = 0; i < v->graph->num_nodes; ++i) {
    v->node = v->graph->nodes[i];
    if (v->node->id <= last || v->node->id >= v->graph->next_id)
      return ls_verify_broken(v, "its id is not between %llu and %llu",
                              (unsigned long long)last,
                              (unsigned long long)v->graph->next_id);
    last = v->node->id;
    LS_RETURN_IF_ERROR(verify_check_op(v));
  }
  v->node = NULL;
  return ls_ok();
}

// Verifies a graph; `holder` is the graph whose op has it as a region, NULL for
// the outermost.
static ls_status verify_graph(const ls_graph *graph, ls_graph *holder) {
  // Only caches of composed names are written, so the cast is safe.
  LS_OWN(ls_verifier, v) = {.graph = (ls_graph *)(uintptr_t)graph};
  ls_arena_init(&v.scratch, graph->allocator);
  LS_RETURN_IF_ERROR(check_ops(&v));
  return check_whole(&v, holder);
}

ls_status ls_graph_verify(const ls_graph *graph) {
  LS_REQUIRE(graph);
  graph = ls_graph_resolve((ls_graph *)(uintptr_t)graph);
  if (graph->kind == LS_GRAPH_EAGER)
    return ls_failed_precondition(
        "the eager graph has no rules to check: its ops run as they are added");
  return verify_graph(graph, NULL);
}
