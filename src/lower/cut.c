// SPDX-License-Identifier: Apache-2.0
// Cuts replicate ops: moves loops, branches and host calls out of their bodies.
#include "lower/cut.h"
#include "graph/copy.h"

static ls_status cut_flow_type_of(const ls_cut_graph *g, uint64_t ref,
                                  bool is_wide, ls_type *out_type) {
  *out_type = ls_graph_type(g->from, ref);
  return is_wide ? ls_wide_type(*out_type, g->request->replicas, out_type)
                 : ls_ok();
}

static void set_value(ls_cut_value *value, bool is_wide, uint64_t ref) {
  if (is_wide)
    value->wide = ref;
  else
    value->common = ref;
}

// ---- Regions ---------------------------------------------------------------
typedef struct leaving {
  ls_cut_graph *g;
  ls_node *node;
  ls_ref_list inputs;
  ls_graph *regions[2];
  uint32_t num_regions;
} leaving;

static void leaving_deinit(leaving *l) {
  for (uint32_t r = 0; r < l->num_regions; ++r)
    ls_graph_free(l->regions[r]);
  ls_release(l->inputs.allocator, l->inputs.items);
}
LS_OWNED_STRUCT(leaving, leaving_deinit)

static ls_status cut_flow_add_input(leaving *l, uint32_t input) {
  uint64_t ref = 0;
  LS_RETURN_IF_ERROR(ls_cut_ref(l->g, l->node->inputs[input],
                                ls_cut_operand_role(l->g, l->node, input),
                                &ref));
  return ls_ref_list_push(&l->inputs, ref);
}

// Declares the values of a loop as parameters of both of its regions.
static ls_status cut_flow_declare(ls_cut_graph *inner) {
  for (size_t i = 0; i < inner->from->num_declared; ++i) {
    const uint64_t ref = inner->from->parameters[i];
    const bool is_wide = ls_cut_varies(inner, ref);
    ls_type type;
    ls_tensor parameter;
    LS_RETURN_IF_ERROR(cut_flow_type_of(inner, ref, is_wide, &type));
    LS_RETURN_IF_ERROR(
        ls_graph_add_parameter(inner->to, type, NULL, &parameter));
    set_value(ls_cut_value_of(inner, ref), is_wide, parameter.ref);
  }
  return ls_ok();
}

static ls_status capture(const leaving *l, uint32_t r, ls_cut_graph *inner) {
  const uint64_t *captured = l->node->inputs + ls_node_captures(l->node, r);
  for (size_t i = 0; i < inner->from->num_captures; ++i) {
    const uint64_t from = captured[i];
    const uint64_t ref = inner->from->captures[i].inner;
    const bool is_wide = ls_cut_varies(l->g, from);
    uint64_t outer = 0, parameter = 0;
    LS_RETURN_IF_ERROR(
        ls_cut_ref(l->g, from, is_wide ? LS_CUT_WIDE : LS_CUT_COMMON, &outer));
    LS_RETURN_IF_ERROR(ls_graph_add_capture(
        inner->to, (ls_tensor){l->g->to, outer}, &parameter));
    set_value(ls_cut_value_of(inner, ref), is_wide, parameter);
  }
  return ls_ok();
}

static ls_status cut_flow_set_results(ls_cut_graph *inner) {
  const size_t count = inner->from->num_results;
  LS_ARENA_ARRAY_OR_RETURN(inner->memory, uint64_t, refs, count + 1);
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(ls_cut_ref(inner, inner->from->results[i],
                                  (ls_cut_role)inner->roles[i], &refs[i]));
  return ls_graph_set_results(inner->to, refs, count);
}

// Begins to cut another graph for the same request.
static ls_status cut_graph_init(ls_cut_graph *g, const ls_cut_request *request,
                                ls_arena *memory, ls_graph *from,
                                ls_graph *to) {
  *g = (ls_cut_graph){
      .request = request, .memory = memory, .from = from, .to = to};
  size_t count = 0;
  LS_ARENA_SET_OR_RETURN(memory, size_t, g->first, from->num_nodes + 1);
  for (size_t i = 0; i < from->num_nodes; ++i) {
    g->first[i] = count;
    count += from->nodes[i]->num_outputs;
  }
  g->values = ls_arena_new_array(memory, ls_cut_value, count + 1);
  return g->values == NULL ? ls_out_of_memory() : ls_ok();
}

// Cuts region `r` of the op; `roles` are the roles of the region's results.
static ls_status cut_region(leaving *l, uint32_t r, const uint8_t *roles) {
  ls_graph *from = l->node->regions[r], *to = NULL;
  LS_RETURN_IF_ERROR(ls_graph_make(LS_GRAPH_LOWERED, from->name, from->runtime,
                                   l->g->to, &to));
  l->regions[l->num_regions++] = to;
  ls_cut_graph inner;
  LS_RETURN_IF_ERROR(
      cut_graph_init(&inner, l->g->request, l->g->memory, from, to));
  inner.roles = roles;
  LS_RETURN_IF_ERROR(cut_flow_declare(&inner));
  LS_RETURN_IF_ERROR(capture(l, r, &inner));
  LS_RETURN_IF_ERROR(ls_cut_emit(&inner));
  return cut_flow_set_results(&inner);
}

// Returns the roles of the op's results: wide if they differ between replicas,
// else common.
static uint8_t *roles_of_results(const leaving *l) {
  const uint32_t count = l->node->num_outputs;
  uint8_t *roles = ls_arena_new_array(l->g->memory, uint8_t, count + 1);
  for (uint32_t i = 0; roles != NULL && i < count; ++i)
    roles[i] = ls_cut_varies(l->g, ls_ref(l->node->id, i)) ? LS_CUT_WIDE
                                                           : LS_CUT_COMMON;
  return roles;
}

// Appends the op. Its regions have been cut and its own operands are listed.
static ls_status cut_flow_append(leaving *l) {
  ls_cut_graph *g = l->g;
  const ls_node *node = l->node;
  LS_RETURN_IF_ERROR(
      ls_ref_list_push_captures(&l->inputs, l->regions, l->num_regions));
  ls_node *made = ls_graph_append(g->to,
                                  &(ls_op_spec){.type = node->type,
                                                .num_inputs = l->inputs.count,
                                                .attrs = node->attrs,
                                                .num_attrs = node->num_attrs,
                                                .regions = l->regions,
                                                .num_regions = l->num_regions},
                                  l->inputs.items, node->num_outputs);
  if (made == NULL) return ls_out_of_memory();
  l->num_regions = 0;  // The op owns the regions now.
  ls_node_take_place(made, NULL, node);
  for (uint32_t i = 0; i < node->num_outputs; ++i) {
    const uint64_t ref = ls_ref(node->id, i);
    const bool is_wide = ls_cut_varies(g, ref);
    LS_RETURN_IF_ERROR(cut_flow_type_of(g, ref, is_wide, &made->outputs[i]));
    set_value(ls_cut_value_of(g, ref), is_wide, ls_ref(made->id, i));
  }
  return ls_ok();
}

static ls_status cut_loop(leaving *l) {
  static const uint8_t common = LS_CUT_COMMON;
  const uint32_t count = (uint32_t)ls_node_int(l->node, LS_ATTR_ID_NUM_CARRIED);
  const uint8_t *roles = roles_of_results(l);
  if (roles == NULL) return ls_out_of_memory();
  for (uint32_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(cut_flow_add_input(l, i));
  LS_RETURN_IF_ERROR(cut_region(l, 0, &common));
  LS_RETURN_IF_ERROR(cut_region(l, 1, roles));
  return cut_flow_append(l);
}

static ls_status cut_branches(leaving *l) {
  const uint8_t *roles = roles_of_results(l);
  if (roles == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(cut_flow_add_input(l, 0));
  LS_RETURN_IF_ERROR(cut_region(l, 0, roles));
  LS_RETURN_IF_ERROR(cut_region(l, 1, roles));
  return cut_flow_append(l);
}

// ---- Host calls ------------------------------------------------------------
// Appends one op for the host calls of all replicas.
static ls_status cut_host(leaving *l) {
  ls_cut_graph *g = l->g;
  const ls_node *node = l->node;
  const size_t own = node->num_attrs;
  LS_ARENA_ARRAY_OR_RETURN(g->memory, int64_t, wide, node->num_inputs + 1);
  LS_ARENA_ARRAY_OR_RETURN(g->memory, ls_attr, attrs, own + 2);
  size_t num_wide = 0;
  for (uint32_t i = 0; i < node->num_inputs; ++i) {
    if (ls_cut_operand_role(g, node, i) == LS_CUT_WIDE) wide[num_wide++] = i;
    LS_RETURN_IF_ERROR(cut_flow_add_input(l, i));
  }
  memcpy(attrs, node->attrs, own * sizeof(*attrs));
  attrs[own] = LS_OWN_I(REPLICAS, (int64_t)g->request->replicas);
  attrs[own + 1] = LS_OWN_IS(WIDE, wide, num_wide);
  ls_node *made =
      ls_graph_append(g->to,
                      &(ls_op_spec){.type = LS_OP_HOST,
                                    .num_inputs = l->inputs.count,
                                    .attrs = attrs,
                                    .num_attrs = own + (num_wide > 0 ? 2 : 1)},
                      l->inputs.items, node->num_outputs);
  if (made == NULL) return ls_out_of_memory();
  ls_node_take_place(made, NULL, node);
  for (uint32_t i = 0; i < node->num_outputs; ++i) {
    const uint64_t ref = ls_ref(node->id, i);
    LS_RETURN_IF_ERROR(cut_flow_type_of(g, ref, true, &made->outputs[i]));
    set_value(ls_cut_value_of(g, ref), true, ls_ref(made->id, i));
  }
  return ls_ok();
}

// Appends a leaving op: a loop, a branch or a host call.
static ls_status cut_emit_leaving(ls_cut_graph *g, ls_node *node) {
  LS_OWN(leaving,
         l) = {.g = g, .node = node, .inputs.allocator = g->to->allocator};
  return node->type == LS_OP_WHILE  ? cut_loop(&l)
         : node->type == LS_OP_COND ? cut_branches(&l)
                                    : cut_host(&l);
}

// ---- The cut ---------------------------------------------------------------

// Appends an op that is the same for all replicas.
static ls_status emit_outer(ls_cut_graph *g, ls_node *node) {
  LS_ARENA_ARRAY_OR_RETURN(g->memory, uint64_t, inputs, node->num_inputs + 1);
  for (uint32_t k = 0; k < node->num_inputs; ++k)
    LS_RETURN_IF_ERROR(
        ls_cut_ref(g, node->inputs[k], LS_CUT_COMMON, &inputs[k]));
  ls_node *made = NULL;
  LS_RETURN_IF_ERROR(ls_graph_move_node(node, g->to, inputs, &made));
  for (uint32_t k = 0; k < node->num_outputs; ++k)
    ls_cut_value_of(g, ls_ref(node->id, k))->common = ls_ref(made->id, k);
  return ls_ok();
}

ls_status ls_cut_emit(ls_cut_graph *g) {
  LS_RETURN_IF_ERROR(ls_cut_plan(g));
  ls_cut_find_wanted(g);
  for (uint32_t level = 0; level <= g->num_levels; ++level) {
    ls_node *leaving_node = NULL;
    for (size_t i = 0; i < g->from->num_nodes; ++i) {
      if (g->level[i] != level) continue;
      if (g->kind[i] == LS_CUT_OUTER)
        LS_RETURN_IF_ERROR(emit_outer(g, g->from->nodes[i]));
      if (g->kind[i] == LS_CUT_LEAVES) leaving_node = g->from->nodes[i];
    }
    LS_RETURN_IF_ERROR(ls_cut_emit_segment(g, level, leaving_node));
    if (leaving_node != NULL)
      LS_RETURN_IF_ERROR(cut_emit_leaving(g, leaving_node));
  }
  return ls_ok();
}

// ---- Cut a replicate op ----------------------------------------------------
static ls_status cut_take_arguments(ls_cut_graph *g) {
  const ls_cut_request *request = g->request;
  const size_t replicas = request->replicas;
  const uint64_t *inputs = request->inputs;
  for (size_t i = 0; i < g->from->num_parameters; ++i) {
    ls_cut_value *value = ls_cut_value_of(g, g->from->parameters[i]);
    if (i >= request->num_split) {
      value->common = *inputs++;
      continue;
    }
    value->narrow =
        ls_arena_copy(g->memory, inputs, replicas * sizeof(*inputs));
    if (value->narrow == NULL) return ls_out_of_memory();
    inputs += replicas;
  }
  return ls_ok();
}

static ls_status cut_give_results(ls_cut_graph *g) {
  const ls_cut_request *request = g->request;
  uint64_t *out = request->outputs;
  for (size_t i = 0; i < g->from->num_results; ++i) {
    const uint64_t ref = g->from->results[i];
    if (i >= request->num_gathered) {
      LS_RETURN_IF_ERROR(ls_cut_ref(g, ref, LS_CUT_COMMON, out++));
      continue;
    }
    const uint64_t *narrow = ls_cut_value_of(g, ref)->narrow;
    memcpy(out, narrow, request->replicas * sizeof(*out));
    out += request->replicas;
  }
  return ls_ok();
}

static ls_status cut_replicate(ls_cut_graph *g) {
  LS_ARENA_ARRAY_OR_RETURN(g->memory, uint8_t, roles, g->from->num_results + 1);
  for (size_t i = 0; i < g->from->num_results; ++i)
    roles[i] = i < g->request->num_gathered ? LS_CUT_NARROW : LS_CUT_COMMON;
  g->roles = roles;
  LS_RETURN_IF_ERROR(cut_take_arguments(g));
  LS_RETURN_IF_ERROR(ls_cut_emit(g));
  return cut_give_results(g);
}

ls_status ls_cut_replicas(const ls_cut_request *request) {
  LS_OWN(ls_arena, memory) = {.allocator = request->to->allocator};
  ls_cut_graph g;
  LS_RETURN_IF_ERROR(
      cut_graph_init(&g, request, &memory, request->body, request->to));
  return cut_replicate(&g);
}
