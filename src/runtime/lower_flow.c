// SPDX-License-Identifier: Apache-2.0
//
// How ops with child graphs are lowered. A region's lowered graph captures what
// it reads from around it; variables that it writes go in as carried or
// captured values and come out as results.
#include "base/runtime_internal.h"
#include "runtime/lower_ops.h"

// A list of refs that grows.
typedef struct ref_list {
  ls_allocator *allocator;
  uint64_t *items;
  size_t count, capacity;
} ref_list;

static ls_status push(ref_list *list, uint64_t ref) {
  if (!ls_grow(list->allocator, &list->items, &list->capacity, list->count + 1,
               sizeof(*list->items)))
    return ls_out_of_memory();
  list->items[list->count++] = ref;
  return ls_ok();
}

// What is shared by the ways to lower an op with regions.
typedef struct flow {
  ls_lower_scope *scope;  // Where the op stands.
  ls_node *node;
  ls_graph *regions[2];
  size_t num_regions;
  ref_list inputs;
  ls_variable **written;
  size_t num_written, written_capacity;
} flow;

static ls_status begin(flow *f, ls_lower_scope *scope, ls_node *node) {
  *f = (flow){.scope = scope, .node = node};
  f->inputs.allocator = scope->all->allocator;
  for (uint32_t i = 0; i < node->num_regions; ++i)
    LS_RETURN_IF_ERROR(ls_graph_written(node->regions[i],
                                        scope->all->allocator, &f->written,
                                        &f->num_written, &f->written_capacity));
  return ls_ok();
}

static void end(flow *f) {
  for (size_t i = 0; i < f->num_regions; ++i) ls_graph_free(f->regions[i]);
  ls_release(f->scope->all->allocator, f->inputs.items);
  ls_release(f->scope->all->allocator, f->written);
}

// Enters a region: its captures stand for lowered values around it, and its
// declared parameters for `params` (lowered, with types).
static ls_status open_region(flow *f, ls_graph *from, const char *name,
                             ls_lower_scope *inner) {
  ls_graph *to = NULL;
  LS_RETURN_IF_ERROR(ls_graph_make(LS_GRAPH_LOWERED, name, f->scope->to->runtime,
                                   f->scope->to, &to));
  to->is_while_body = from->is_while_body;
  f->regions[f->num_regions++] = to;
  return ls_lower_scope_init(inner, f->scope->all, f->scope, from, to);
}

static ls_status declare(ls_lower_scope *inner, ls_type type,
                         uint64_t *out_ref) {
  ls_tensor parameter;
  LS_RETURN_IF_ERROR(
      ls_graph_add_parameter(inner->to, type, NULL, &parameter));
  *out_ref = parameter.ref;
  return ls_ok();
}

static ls_status map_captures(flow *f, ls_lower_scope *inner) {
  const ls_graph *from = inner->from;
  for (size_t i = 0; i < from->num_captures; ++i) {
    uint64_t ref = 0;
    const uint64_t outer =
        ls_lowered(f->scope, from->captures[i].outer.ref);
    if (outer == 0)
      return ls_internal("a captured value of '%s' was not lowered",
                         from->name);
    LS_RETURN_IF_ERROR(ls_graph_add_capture(
        inner->to, (ls_tensor){f->scope->to, outer}, &ref));
    LS_RETURN_IF_ERROR(ls_lower_map(inner, from->captures[i].inner, ref));
  }
  return ls_ok();
}

static ls_status lower_region(ls_lower_scope *inner) {
  const ls_graph *from = inner->from;
  return ls_lower_nodes(inner, from->results, from->num_results, NULL, 0,
                        true);
}

// The region's results: its own, then the values of written variables.
static ls_status set_results(flow *f, ls_lower_scope *inner) {
  ref_list results = {.allocator = f->scope->all->allocator};
  ls_status status = ls_ok();
  for (size_t i = 0; i < inner->from->num_results && ls_status_is_ok(status);
       ++i)
    status = push(&results, ls_lowered(inner, inner->from->results[i]));
  for (size_t i = 0; i < f->num_written && ls_status_is_ok(status); ++i) {
    uint64_t ref = 0;
    status = ls_lower_read(inner, f->written[i], &ref);
    if (ls_status_is_ok(status)) status = push(&results, ref);
  }
  if (ls_status_is_ok(status))
    status = ls_graph_set_results(inner->to, results.items, results.count);
  ls_release(results.allocator, results.items);
  return status;
}

static ls_status add_captured_inputs(flow *f) {
  for (size_t r = 0; r < f->num_regions; ++r)
    for (size_t i = 0; i < f->regions[r]->num_captures; ++i)
      LS_RETURN_IF_ERROR(
          push(&f->inputs, f->regions[r]->captures[i].outer.ref));
  return ls_ok();
}

static ls_status append_flow(flow *f, const ls_attr *attrs, size_t num_attrs,
                             ls_node **out_node) {
  LS_RETURN_IF_ERROR(add_captured_inputs(f));
  LS_RETURN_IF_ERROR(ls_lower_append(f->scope,
                                     &(ls_op_spec){
                                         .type = f->node->type,
                                         .num_inputs = f->inputs.count,
                                         .attrs = attrs,
                                         .num_attrs = num_attrs,
                                         .regions = f->regions,
                                         .num_regions = f->num_regions,
                                     },
                                     f->inputs.items, f->node, out_node));
  f->num_regions = 0;  // The node has them.
  return ls_ok();
}

// The variables' new values are the last outputs of `made`.
static ls_status take_written(flow *f, const ls_node *made) {
  const size_t first = made->num_outputs - f->num_written;
  for (size_t i = 0; i < f->num_written; ++i)
    LS_RETURN_IF_ERROR(ls_lower_write(f->scope, f->written[i],
                                      ls_ref(made->id, (unsigned)(first + i))));
  return ls_ok();
}

// ---- Loops -----------------------------------------------------------------
static ls_status loop_region(flow *f, size_t which, const char *name) {
  ls_graph *from = f->node->regions[which];
  ls_lower_scope inner;
  LS_RETURN_IF_ERROR(open_region(f, from, name, &inner));
  ls_status status = ls_ok();
  const size_t carried = (size_t)ls_node_int(f->node, "num_carried", 0);
  for (size_t i = 0; i < carried + f->num_written && ls_status_is_ok(status);
       ++i) {
    uint64_t ref = 0;
    status = declare(&inner, ls_lowered_type(f->scope, f->inputs.items[i]),
                     &ref);
    if (!ls_status_is_ok(status)) break;
    if (i < carried)
      status = ls_lower_map(&inner, from->parameters[i], ref);
    else if (!ls_map_insert_u64(&inner.variables,
                                (uintptr_t)f->written[i - carried],
                                (void *)(uintptr_t)ref))
      status = ls_out_of_memory();
  }
  if (ls_status_is_ok(status)) status = map_captures(f, &inner);
  if (ls_status_is_ok(status)) status = lower_region(&inner);
  if (ls_status_is_ok(status)) {
    if (which == 1) {
      status = set_results(f, &inner);
    } else {
      const uint64_t ref = ls_lowered(&inner, from->results[0]);
      status = ls_graph_set_results(inner.to, &ref, 1);
    }
  }
  ls_lower_scope_deinit(&inner);
  return status;
}

static ls_status lower_loop(flow *f) {
  const size_t carried = (size_t)ls_node_int(f->node, "num_carried", 0);
  for (size_t i = 0; i < carried; ++i)
    LS_RETURN_IF_ERROR(
        push(&f->inputs, ls_lowered(f->scope, f->node->inputs[i])));
  for (size_t i = 0; i < f->num_written; ++i) {
    uint64_t ref = 0;
    LS_RETURN_IF_ERROR(ls_lower_read(f->scope, f->written[i], &ref));
    LS_RETURN_IF_ERROR(push(&f->inputs, ref));
  }
  LS_RETURN_IF_ERROR(loop_region(f, 0, "while_condition"));
  LS_RETURN_IF_ERROR(loop_region(f, 1, "while_body"));
  const ls_attr attrs[] = {
      LS_ATTR_I("num_carried", (int64_t)(carried + f->num_written)),
      LS_ATTR_I("max_trips", ls_node_int(f->node, "max_trips", 0))};
  ls_node *made = NULL;
  LS_RETURN_IF_ERROR(append_flow(f, attrs, 2, &made));
  for (size_t i = 0; i < carried; ++i)
    LS_RETURN_IF_ERROR(ls_lower_map(f->scope, ls_ref(f->node->id, (unsigned)i),
                                    ls_ref(made->id, (unsigned)i)));
  return take_written(f, made);
}

ls_status lower_while(ls_lower_scope *scope, ls_node *node) {
  flow f;
  ls_status status = begin(&f, scope, node);
  if (ls_status_is_ok(status)) status = lower_loop(&f);
  end(&f);
  return status;
}

// ---- Branches --------------------------------------------------------------
static ls_status branch_region(flow *f, size_t which, const char *name) {
  ls_lower_scope inner;
  LS_RETURN_IF_ERROR(open_region(f, f->node->regions[which], name, &inner));
  ls_status status = map_captures(f, &inner);
  if (ls_status_is_ok(status)) status = lower_region(&inner);
  if (ls_status_is_ok(status)) status = set_results(f, &inner);
  ls_lower_scope_deinit(&inner);
  return status;
}

static ls_status lower_branches(flow *f) {
  LS_RETURN_IF_ERROR(
      push(&f->inputs, ls_lowered(f->scope, f->node->inputs[0])));
  LS_RETURN_IF_ERROR(branch_region(f, 0, "cond_then"));
  LS_RETURN_IF_ERROR(branch_region(f, 1, "cond_else"));
  ls_node *made = NULL;
  LS_RETURN_IF_ERROR(append_flow(f, NULL, 0, &made));
  for (unsigned i = 0; i < f->node->num_outputs; ++i)
    LS_RETURN_IF_ERROR(ls_lower_map(f->scope, ls_ref(f->node->id, i),
                                    ls_ref(made->id, i)));
  return take_written(f, made);
}

ls_status lower_cond(ls_lower_scope *scope, ls_node *node) {
  flow f;
  ls_status status = begin(&f, scope, node);
  if (ls_status_is_ok(status)) status = lower_branches(&f);
  end(&f);
  return status;
}

// ---- Calls -----------------------------------------------------------------
// A call is flattened: the function's nodes become nodes of this scope. The
// inner scope shares the lowered graph and hands its variables back.
ls_status lower_call(ls_lower_scope *scope, ls_node *node) {
  ls_graph *from = node->regions[0];
  ls_lower_scope inner = *scope;
  inner.from = from;
  ls_map_init(&inner.values, scope->all->allocator);
  ls_status status = ls_ok();
  for (size_t i = 0; i < from->num_parameters && ls_status_is_ok(status); ++i)
    status = ls_lower_map(&inner, from->parameters[i],
                          ls_lowered(scope, node->inputs[i]));
  if (ls_status_is_ok(status)) status = lower_region(&inner);
  scope->variables = inner.variables;
  scope->known = inner.known;
  scope->key = inner.key;
  for (size_t i = 0; i < from->num_results && ls_status_is_ok(status); ++i)
    status = ls_lower_map(scope, ls_ref(node->id, (unsigned)i),
                          ls_lowered(&inner, from->results[i]));
  ls_map_deinit(&inner.values);
  return status;
}

// ---- Replicas --------------------------------------------------------------
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

void ls_mark_varying(ls_graph *body, size_t num_split) {
  for (size_t i = 0; i < body->num_nodes; ++i) {
    ls_node *node = body->nodes[i];
    node->varying = node->type == LS_OP_PARAMETER
                        ? (size_t)ls_node_int(node, "index", 0) < num_split
                        : node_varies(body, node);
  }
}

// The body's results in their final order: per replica ones first, then those
// that are the same everywhere, then written variables. `place[i]` tells where
// result i of the source went.
static ls_status replica_results(flow *f, ls_lower_scope *inner,
                                 size_t *place, size_t *out_gathered) {
  const ls_graph *from = inner->from;
  ref_list results = {.allocator = f->scope->all->allocator};
  ls_status status = ls_ok();
  for (int uniform = 0; uniform < 2; ++uniform) {
    for (size_t i = 0; i < from->num_results && ls_status_is_ok(status); ++i) {
      const uint64_t ref = ls_lowered(inner, from->results[i]);
      if (ls_graph_node_of(inner->to, ref)->varying == (uniform == 1)) continue;
      place[i] = results.count;
      status = push(&results, ref);
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
      status = push(&results, ref);
  }
  if (ls_status_is_ok(status))
    status = ls_graph_set_results(inner->to, results.items, results.count);
  ls_release(results.allocator, results.items);
  return status;
}

static ls_status replica_body(flow *f, ls_lower_scope *inner, size_t *place,
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
    LS_RETURN_IF_ERROR(declare(inner, type, &ref));
    LS_RETURN_IF_ERROR(ls_lower_map(inner, from->parameters[s], ref));
  }
  LS_RETURN_IF_ERROR(map_captures(f, inner));
  LS_RETURN_IF_ERROR(lower_region(inner));
  ls_mark_varying(inner->to, from->num_declared);
  return replica_results(f, inner, place, out_gathered);
}

static ls_status lower_replicas(flow *f, size_t *place) {
  const size_t replicas = (size_t)ls_node_int(f->node, "replicas", 1);
  const size_t split = (size_t)ls_node_int(f->node, "num_split", 0);
  for (size_t i = 0; i < split * replicas; ++i)
    LS_RETURN_IF_ERROR(
        push(&f->inputs, ls_lowered(f->scope, f->node->inputs[i])));
  ls_lower_scope inner;
  size_t gathered = 0;
  LS_RETURN_IF_ERROR(
      open_region(f, f->node->regions[0], "replica", &inner));
  const ls_status status = replica_body(f, &inner, place, &gathered);
  ls_lower_scope_deinit(&inner);
  LS_RETURN_IF_ERROR(status);
  const ls_attr attrs[] = {LS_ATTR_I("replicas", (int64_t)replicas),
                           LS_ATTR_I("num_split", (int64_t)split),
                           LS_ATTR_I("num_gathered", (int64_t)gathered)};
  ls_node *made = NULL;
  LS_RETURN_IF_ERROR(append_flow(f, attrs, 3, &made));
  for (size_t i = 0; i < f->node->num_outputs; ++i) {
    const size_t at = place[i / replicas];
    const size_t output = at < gathered
                              ? at * replicas + i % replicas
                              : gathered * replicas + (at - gathered);
    LS_RETURN_IF_ERROR(ls_lower_map(f->scope, ls_ref(f->node->id, (unsigned)i),
                                    ls_ref(made->id, (unsigned)output)));
  }
  return take_written(f, made);
}

ls_status lower_replicate(ls_lower_scope *scope, ls_node *node) {
  if (scope->replicated)
    return ls_invalid_argument("replicas inside replicas: a replicated body "
                               "cannot hold another");
  flow f;
  size_t *place = ls_new_array(scope->all->allocator, size_t,
                               node->regions[0]->num_results + 1);
  if (place == NULL) return ls_out_of_memory();
  ls_status status = begin(&f, scope, node);
  if (ls_status_is_ok(status)) status = lower_replicas(&f, place);
  end(&f);
  ls_release(scope->all->allocator, place);
  return status;
}
