// SPDX-License-Identifier: Apache-2.0
//
// Decides where each node of a graph that is cut goes, and which values leave
// their segment.
#include "base/memory/own.h"
#include "graph/walk.h"
#include "lower/cut.h"

// ---- Kinds -----------------------------------------------------------------
static bool is_free(const ls_node *node) {
  return node->num_inputs == 0 && node->num_regions == 0 &&
         (ls_node_info(node)->traits &
          (LS_OP_RANDOM | LS_OP_EFFECT | LS_OP_ON_HOST | LS_OP_LINEAR)) == 0;
}

// Returns true if the segment of the node's level makes one of the node's
// operands.
static bool uses_own_segment(const ls_cut_graph *g, size_t place) {
  const ls_node *node = g->from->nodes[place];
  for (uint32_t k = 0; k < node->num_inputs; ++k) {
    const size_t from = ls_cut_place(g, node->inputs[k]);
    if (g->kind[from] == LS_CUT_SEGMENT && g->level[from] == g->level[place])
      return true;
  }
  return false;
}

// Returns true if a node is the same for all replicas and needs no value of its
// level's segment.
static bool is_outer(const ls_cut_graph *g, size_t place) {
  const ls_node *node = g->from->nodes[place];
  if (ls_node_any_trait(node, LS_OP_MERGE) || ls_node_has_effects(node))
    return false;
  for (uint32_t k = 0; k < node->num_outputs; ++k)
    if (ls_cut_varies(g, ls_ref(node->id, k))) return false;
  for (uint32_t k = 0; k < node->num_inputs; ++k)
    if (ls_cut_varies(g, node->inputs[k])) return false;
  return !uses_own_segment(g, place);
}

// Returns the number of leaving ops before the node's operands. A node with
// effects stays after all earlier leaving ops.
static uint32_t find_level(const ls_cut_graph *g, const ls_node *node) {
  if (ls_node_has_effects(node)) return g->num_levels;
  uint32_t level = 0;
  for (uint32_t k = 0; k < node->num_inputs; ++k) {
    const size_t from = ls_cut_place(g, node->inputs[k]);
    if (g->kind[from] == LS_CUT_PARAMETER || g->kind[from] == LS_CUT_FREE)
      continue;
    const uint32_t own = g->level[from] + (g->kind[from] == LS_CUT_LEAVES);
    if (own > level) level = own;
  }
  return level;
}

static void join_operands(const ls_cut_graph *g, size_t place) {
  const ls_node *node = g->from->nodes[place];
  for (uint32_t k = 0; k < node->num_inputs; ++k) {
    const size_t from = ls_cut_place(g, node->inputs[k]);
    if (g->kind[from] == LS_CUT_OUTER && g->level[from] == g->level[place])
      g->kind[from] = LS_CUT_SEGMENT;
  }
}

// Moves outer nodes into the segment that uses them, so that they can be fused
// with their users as without a cut.
static void join_segments(const ls_cut_graph *g) {
  for (size_t i = g->from->num_nodes; i-- > 0;)
    if (g->kind[i] == LS_CUT_SEGMENT) join_operands(g, i);
  for (size_t i = 0; i < g->from->num_nodes; ++i)
    if (g->kind[i] == LS_CUT_OUTER && uses_own_segment(g, i))
      g->kind[i] = LS_CUT_SEGMENT;
}

// Returns true for nodes that are best made where they are used: cheap nodes,
// which are fused into another kernel there instead of being stored; and empty
// stacks, which must be made next to the loop that fills them, because a stack
// cannot cross segments.
static bool is_made_at_its_use(const ls_node *node) {
  return node->type == LS_OP_STACK_NEW ||
         ((ls_node_info(node)->traits & (LS_OP_ELEMENTWISE | LS_OP_RANDOM)) !=
              0 &&
          !ls_node_has_effects(node));
}

// Moves nodes that are made at their use to the level of their first use.
static ls_status sink_nodes(const ls_cut_graph *g) {
  const ls_graph *from = g->from;
  LS_ARENA_ARRAY_OR_RETURN(g->memory, uint32_t, first_use, from->num_nodes + 1);
  for (size_t i = 0; i < from->num_nodes; ++i)
    first_use[i] = UINT32_MAX;
  for (size_t i = 0; i < from->num_results; ++i)
    first_use[ls_cut_place(g, from->results[i])] = 0;
  for (size_t i = from->num_nodes; i-- > 0;) {
    const ls_node *node = from->nodes[i];
    const bool may = (g->kind[i] == LS_CUT_OUTER ||  //
                      g->kind[i] == LS_CUT_SEGMENT) &&
                     is_made_at_its_use(node);
    if (may && first_use[i] != UINT32_MAX && first_use[i] > g->level[i])
      g->level[i] = first_use[i];
    for (uint32_t k = 0; k < node->num_inputs; ++k) {
      const size_t place = ls_cut_place(g, node->inputs[k]);
      if (g->level[i] < first_use[place]) first_use[place] = g->level[i];
    }
  }
  return ls_ok();
}

ls_status ls_cut_plan(ls_cut_graph *g) {
  const ls_graph *from = g->from;
  LS_ARENA_SET_OR_RETURN(g->memory, uint8_t, g->kind, from->num_nodes + 1);
  LS_ARENA_SET_OR_RETURN(g->memory, uint32_t, g->level, from->num_nodes + 1);
  g->num_levels = 0;
  for (size_t i = 0; i < from->num_nodes; ++i) {
    const ls_node *node = from->nodes[i];
    if (node->type == LS_OP_PARAMETER) {
      g->kind[i] = LS_CUT_PARAMETER;
    } else if (is_free(node)) {
      g->kind[i] = LS_CUT_FREE;
    } else if (ls_node_leaves(g->request->values, from, node)) {
      g->kind[i] = LS_CUT_LEAVES;
      g->level[i] = g->num_levels++;
    } else {
      g->level[i] = find_level(g, node);
      g->kind[i] = is_outer(g, i) ? LS_CUT_OUTER : LS_CUT_SEGMENT;
    }
  }
  LS_RETURN_IF_ERROR(sink_nodes(g));
  join_segments(g);
  return ls_ok();
}

// ---- Values that cross -----------------------------------------------------
ls_cut_role ls_cut_operand_role(const ls_cut_graph *g, const ls_node *node,
                                uint32_t input) {
  bool varies = ls_cut_varies(g, node->inputs[input]);
  if (node->type == LS_OP_WHILE &&
      input < (uint32_t)ls_node_int(node, LS_ATTR_ID_NUM_CARRIED))
    varies = ls_cut_varies(g, ls_ref(node->id, input));
  return varies ? LS_CUT_WIDE : LS_CUT_COMMON;
}

// Records that a value is needed in this role outside of its segment.
static void want_value(const ls_cut_graph *g, uint64_t ref, uint32_t level,
                       ls_cut_role role) {
  const size_t place = ls_cut_place(g, ref);
  if (g->kind[place] != LS_CUT_SEGMENT) return;
  ls_cut_value *value = ls_cut_value_of(g, ref);
  if (role != LS_CUT_COMMON && !ls_cut_varies(g, ref)) {
    // A user in the segment of the same level makes the form from the common
    // value itself.
    if (g->level[place] == level) return;
    role = LS_CUT_COMMON;
  }
  value->wanted |= (uint8_t)role;
}

static void want_operand(const ls_cut_graph *g, size_t user, uint32_t input) {
  const ls_node *node = g->from->nodes[user];
  const uint64_t ref = node->inputs[input];
  const size_t place = ls_cut_place(g, ref);
  if (g->kind[user] == LS_CUT_LEAVES)
    want_value(g, ref, g->level[user], ls_cut_operand_role(g, node, input));
  else if (g->kind[user] == LS_CUT_OUTER || g->level[place] != g->level[user])
    want_value(g, ref, g->level[user],
               ls_cut_varies(g, ref) ? LS_CUT_WIDE : LS_CUT_COMMON);
}

void ls_cut_find_wanted(ls_cut_graph *g) {
  const ls_graph *from = g->from;
  for (size_t i = 0; i < from->num_nodes; ++i)
    for (uint32_t k = 0; k < from->nodes[i]->num_inputs; ++k)
      want_operand(g, i, k);
  for (size_t i = 0; i < from->num_results; ++i)
    want_value(g, from->results[i], g->num_levels, (ls_cut_role)g->roles[i]);
}

// ---- Check the cut ---------------------------------------------------------
static bool may_cross(const ls_cut_graph *g, uint64_t ref) {
  const ls_type type = ls_graph_type(g->from, ref);
  if (type.dtype == LS_DTYPE_VARIANT) return false;
  return !ls_cut_varies(g, ref) ||
         (type.dtype != LS_DTYPE_RESOURCE && type.shape.rank < LS_MAX_RANK);
}

static bool stay_together(const ls_cut_graph *g, size_t a, size_t b) {
  return g->kind[a] == g->kind[b] && g->kind[a] != LS_CUT_LEAVES &&
         (g->kind[a] == LS_CUT_OUTER || g->level[a] == g->level[b]);
}

static ls_status can_cut(const ls_cut_request *request, ls_arena *memory,
                         ls_graph *from, bool *found, bool *out_can) {
  ls_cut_graph g = {.request = request, .memory = memory, .from = from};
  LS_RETURN_IF_ERROR(ls_cut_plan(&g));
  for (size_t i = 0; i < from->num_nodes && *out_can; ++i) {
    const ls_node *node = from->nodes[i];
    for (uint32_t k = 0; k < node->num_inputs; ++k)
      *out_can &= stay_together(&g, i, ls_cut_place(&g, node->inputs[k])) ||
                  may_cross(&g, node->inputs[k]);
    if (g.kind[i] != LS_CUT_LEAVES) continue;
    *found = true;
    for (uint32_t k = 0; k < node->num_outputs; ++k)
      *out_can &= may_cross(&g, ls_ref(node->id, k));
    for (uint32_t r = 0; r < node->num_regions && *out_can; ++r)
      LS_RETURN_IF_ERROR(
          can_cut(request, memory, node->regions[r], found, out_can));
  }
  return ls_ok();
}

ls_status ls_can_cut(const ls_common_values *values, const ls_graph *body,
                     bool *out_can) {
  LS_OWN(ls_arena, memory) = {.allocator = body->allocator};
  const ls_cut_request request = {.values = values};
  bool found = false;
  *out_can = true;
  const ls_status status =
      can_cut(&request, &memory, (ls_graph *)(uintptr_t)body, &found, out_can);
  *out_can &= found;
  return status;
}
