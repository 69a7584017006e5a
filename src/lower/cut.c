// SPDX-License-Identifier: Apache-2.0
#include "lower/cut.h"

#include "graph/copy.h"

ls_status ls_cut_graph_init(ls_cut_graph *g, const ls_cut_request *request,
                            ls_arena *memory, ls_graph *from, ls_graph *to) {
  *g = (ls_cut_graph){
      .request = request, .memory = memory, .from = from, .to = to};
  size_t count = 0;
  g->first = ls_arena_new_array(memory, size_t, from->num_nodes + 1);
  if (g->first == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < from->num_nodes; ++i) {
    g->first[i] = count;
    count += from->nodes[i]->num_outputs;
  }
  g->values = ls_arena_new_array(memory, ls_cut_value, count + 1);
  return g->values == NULL ? ls_out_of_memory() : ls_ok();
}

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
    ls_node *leaving = NULL;
    for (size_t i = 0; i < g->from->num_nodes; ++i) {
      if (g->level[i] != level) continue;
      if (g->kind[i] == LS_CUT_OUTER)
        LS_RETURN_IF_ERROR(emit_outer(g, g->from->nodes[i]));
      if (g->kind[i] == LS_CUT_LEAVES) leaving = g->from->nodes[i];
    }
    LS_RETURN_IF_ERROR(ls_cut_emit_segment(g, level, leaving));
    if (leaving != NULL) LS_RETURN_IF_ERROR(ls_cut_emit_leaving(g, leaving));
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

static ls_status cut(ls_cut_graph *g) {
  LS_ARENA_ARRAY_OR_RETURN(g->memory, uint8_t, roles, g->from->num_results + 1);
  for (size_t i = 0; i < g->from->num_results; ++i)
    roles[i] = i < g->request->num_gathered ? LS_CUT_NARROW : LS_CUT_COMMON;
  g->roles = roles;
  LS_RETURN_IF_ERROR(cut_take_arguments(g));
  LS_RETURN_IF_ERROR(ls_cut_emit(g));
  return cut_give_results(g);
}

ls_status ls_cut_replicas(const ls_cut_request *request) {
  LS_OWN(ls_arena, memory) = {0};
  ls_arena_init(&memory, request->to->allocator);
  ls_cut_graph g;
  LS_RETURN_IF_ERROR(
      ls_cut_graph_init(&g, request, &memory, request->body, request->to));
  return cut(&g);
}
