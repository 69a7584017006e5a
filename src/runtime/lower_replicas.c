// SPDX-License-Identifier: Apache-2.0
//
// How replicated bodies are lowered: what differs between replicas, and what
// each of them gives.
#include "base/runtime_internal.h"
#include "runtime/lower_flow.h"

static bool region_varies(const ls_graph *graph) {
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    const ls_node *node = graph->nodes[i];
    const unsigned traits = ls_node_info(node)->traits;
    if (traits & (LS_OP_VARYING | LS_OP_ON_HOST)) return true;
    if ((traits & LS_OP_RANDOM) &&
        !ls_node_int(node, "same_on_all_replicas", 0))
      return true;
    for (uint32_t r = 0; r < node->num_regions; ++r)
      if (region_varies(node->regions[r])) return true;
  }
  return false;
}

static bool node_varies(const ls_graph *body, const ls_node *node) {
  const unsigned traits = ls_node_info(node)->traits;
  if (traits & LS_OP_MERGE) return false;
  if (traits & (LS_OP_VARYING | LS_OP_ON_HOST)) return true;
  if ((traits & LS_OP_RANDOM) && !ls_node_int(node, "same_on_all_replicas", 0))
    return true;
  for (uint32_t i = 0; i < node->num_inputs; ++i)
    if (ls_graph_node_of(body, node->inputs[i])->varying) return true;
  for (uint32_t r = 0; r < node->num_regions; ++r)
    if (region_varies(node->regions[r])) return true;
  return false;
}

// A stack that differs between replicas is each replica's own from its making
// on. Whether there was one that had been marked as the same for all.
static bool mark_stacks(ls_graph *body) {
  bool found = false;
  for (size_t i = body->num_nodes; i > 0; --i) {
    const ls_node *node = body->nodes[i - 1];
    if (!node->varying) continue;
    for (uint32_t k = 0; k < node->num_inputs; ++k) {
      ls_node *from = ls_graph_node_of(body, node->inputs[k]);
      if (ls_graph_type(body, node->inputs[k]).dtype != LS_DTYPE_VARIANT ||
          from->varying || from->type == LS_OP_PARAMETER)
        continue;
      from->varying = found = true;
    }
  }
  return found;
}

void ls_mark_varying(ls_graph *body, size_t num_split) {
  do {
    for (size_t i = 0; i < body->num_nodes; ++i) {
      ls_node *node = body->nodes[i];
      if (node->type == LS_OP_PARAMETER)
        node->varying = (size_t)ls_node_int(node, "index", 0) < num_split;
      else
        node->varying = node->varying || node_varies(body, node);
    }
  } while (mark_stacks(body));
}

// Stacks stay inside of a replica.
static ls_status check_stacks(const ls_graph *body) {
  bool leaves = false;
  for (size_t i = 0; i < body->num_parameters; ++i)
    leaves |=
        ls_graph_type(body, body->parameters[i]).dtype == LS_DTYPE_VARIANT;
  for (size_t i = 0; i < body->num_results; ++i)
    leaves |= ls_graph_type(body, body->results[i]).dtype == LS_DTYPE_VARIANT;
  if (!leaves) return ls_ok();
  return ls_unimplemented(
      "a loop stands on one side of a border of replicas and its gradient on "
      "the other; a stack does not cross it");
}

// The body's results in their final order: per replica ones first, then those
// that are the same everywhere, then written variables. `place[i]` tells where
// result i of the source went.
static ls_status replica_results(ls_flow *f, ls_lower_scope *inner,
                                 size_t *place, size_t *out_gathered) {
  const ls_graph *from = inner->from;
  ls_ref_list results = {.allocator = f->scope->all->allocator};
  ls_status status = ls_ok();
  for (int uniform = 0; uniform < 2; ++uniform) {
    for (size_t i = 0; i < from->num_results && ls_status_is_ok(status); ++i) {
      const uint64_t ref = ls_lowered(inner, from->results[i]);
      if (ls_graph_node_of(inner->to, ref)->varying == (uniform == 1)) continue;
      place[i] = results.count;
      status = ls_ref_list_push(&results, ref);
    }
    if (uniform == 0) *out_gathered = results.count;
  }
  for (size_t i = 0; i < f->num_written && ls_status_is_ok(status); ++i) {
    uint64_t ref = 0;
    status = ls_lower_read(inner, f->written[i], &ref);
    if (!ls_status_is_ok(status)) break;
    if (ls_graph_node_of(inner->to, ref)->varying)
      status = ls_unimplemented(
          "variable '%s' is written with a value that differs between "
          "replicas; merge it first, for instance with ls_all_reduce",
          f->written[i]->name);
    else
      status = ls_ref_list_push(&results, ref);
  }
  if (ls_status_is_ok(status))
    status = ls_graph_set_results(inner->to, results.items, results.count);
  ls_release(results.allocator, results.items);
  return status;
}

static ls_status replica_body(ls_flow *f, ls_lower_scope *inner, size_t *place,
                              size_t *out_gathered) {
  const ls_graph *from = inner->from;
  const size_t replicas = (size_t)ls_node_int(f->node, "replicas", 1);
  inner->replicated = true;
  for (size_t s = 0; s < from->num_declared; ++s) {
    const ls_type type =
        ls_lowered_type(f->scope, f->inputs.items[s * replicas]);
    for (size_t r = 1; r < replicas; ++r) {
      const ls_type other =
          ls_lowered_type(f->scope, f->inputs.items[s * replicas + r]);
      if (!ls_shape_equal(type.shape, other.shape))
        return ls_unimplemented(
            "argument %zu is %s on replica 0 and %s on replica %zu; all must "
            "have one shape",
            s, LS_SHAPE_TEXT(type.dtype, type.shape),
            LS_SHAPE_TEXT(other.dtype, other.shape), r);
    }
    uint64_t ref = 0;
    LS_RETURN_IF_ERROR(ls_flow_declare(inner, type, &ref));
    LS_RETURN_IF_ERROR(ls_lower_map(inner, from->parameters[s], ref));
  }
  LS_RETURN_IF_ERROR(ls_flow_map_captures(f, inner));
  LS_RETURN_IF_ERROR(ls_flow_lower(inner));
  ls_mark_varying(inner->to, from->num_declared);
  return replica_results(f, inner, place, out_gathered);
}

static ls_status lower_replicas(ls_flow *f, size_t *place) {
  const size_t replicas = (size_t)ls_node_int(f->node, "replicas", 1);
  const size_t split = (size_t)ls_node_int(f->node, "num_split", 0);
  for (size_t i = 0; i < split * replicas; ++i)
    LS_RETURN_IF_ERROR(
        ls_ref_list_push(&f->inputs, ls_lowered(f->scope, f->node->inputs[i])));
  ls_lower_scope inner;
  size_t gathered = 0;
  LS_RETURN_IF_ERROR(ls_flow_open(f, f->node->regions[0], "replica", &inner));
  ls_status status = replica_body(f, &inner, place, &gathered);
  if (ls_status_is_ok(status)) status = check_stacks(inner.to);
  ls_lower_scope_deinit(&inner);
  LS_RETURN_IF_ERROR(status);
  const ls_attr attrs[] = {LS_ATTR_I("replicas", (int64_t)replicas),
                           LS_ATTR_I("num_split", (int64_t)split),
                           LS_ATTR_I("num_gathered", (int64_t)gathered)};
  ls_node *made = NULL;
  LS_RETURN_IF_ERROR(ls_flow_append(f, attrs, 3, &made));
  for (size_t i = 0; i < f->node->num_outputs; ++i) {
    const size_t at = place[i / replicas];
    const size_t output = at < gathered ? at * replicas + i % replicas
                                        : gathered * replicas + (at - gathered);
    LS_RETURN_IF_ERROR(ls_lower_map(f->scope, ls_ref(f->node->id, (unsigned)i),
                                    ls_ref(made->id, (unsigned)output)));
  }
  return ls_flow_take_written(f, made, made->num_outputs - f->num_written);
}

ls_status lower_replicate(ls_lower_scope *scope, ls_node *node) {
  if (scope->replicated)
    return ls_invalid_argument("replicas inside replicas: a replicated body "
                               "cannot hold another");
  ls_flow f;
  size_t *place = ls_new_array(scope->all->allocator, size_t,
                               node->regions[0]->num_results + 1);
  if (place == NULL) return ls_out_of_memory();
  ls_status status = ls_flow_begin(&f, scope, node);
  if (ls_status_is_ok(status)) status = lower_replicas(&f, place);
  ls_flow_end(&f);
  ls_release(scope->all->allocator, place);
  return status;
}
