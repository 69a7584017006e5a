// SPDX-License-Identifier: Apache-2.0
//
// Marks nodes that differ between replicas: in the body of a replicate op, or
// in several bodies of which each replica runs one. Also finds merges whose
// operands do not differ, but should.
#include "base/memory/own.h"
#include "graph/passes/passes.h"
#include "graph/walk.h"
#include "lower/ops.h"

static bool is_drawn(const ls_node *node) {
  return (ls_node_info(node)->traits & LS_OP_RANDOM) != 0 &&
         !ls_node_int(node, LS_ATTR_ID_SAME_ON_ALL_REPLICAS);
}

static bool is_local(const ls_node *node) {
  return (ls_node_info(node)->traits & (LS_OP_VARYING | LS_OP_ON_HOST)) != 0;
}

bool ls_node_is_own(const ls_node *node) {
  return is_local(node) || is_drawn(node);
}

static bool depends_on_varying(const ls_graph *body, const ls_node *node) {
  for (uint32_t i = 0; i < node->num_inputs; ++i)
    if (ls_graph_node_of(body, node->inputs[i])->varying) return true;
  return false;
}

static bool node_varies(const ls_graph *body, const ls_node *node) {
  if (ls_node_is_merge(node) || node->once) return false;
  return depends_on_varying(body, node) || ls_node_any(node, ls_node_is_own);
}

// Marks stacks whose values differ between replicas, back to the op that makes
// each. Returns true if a stack was not marked before.
static bool mark_stacks(ls_graph *body) {
  bool found = false;
  for (size_t i = body->num_nodes; i > 0; --i) {
    const ls_node *node = body->nodes[i - 1];
    if (!node->varying) continue;
    for (uint32_t k = 0; k < node->num_inputs; ++k) {
      ls_node *from = ls_graph_node_of(body, node->inputs[k]);
      if (!ls_is_stack(body, node->inputs[k]) || from->varying ||
          from->type == LS_OP_PARAMETER)
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
        node->varying = (size_t)ls_node_int(node, LS_ATTR_ID_INDEX) < num_split;
      else
        node->varying = node->varying || node_varies(body, node);
    }
  } while (mark_stacks(body));
}

// ---- Merges ----------------------------------------------------------------
static unsigned find_sources(const ls_graph *body, const ls_node *node,
                             const unsigned *sources, size_t num_own) {
  unsigned all = (ls_node_any(node, is_local) ? LS_OF_REPLICA : 0u) |
                 (ls_node_any(node, is_drawn) ? LS_OF_DRAWS : 0u);
  if (node->type == LS_OP_PARAMETER &&
      (size_t)ls_node_int(node, LS_ATTR_ID_INDEX) < num_own)
    all |= LS_OF_REPLICA;
  for (uint32_t i = 0; i < node->num_inputs; ++i)
    all |= sources[ls_graph_position(body, ls_ref_id(node->inputs[i]))];
  return all;
}

const ls_node *ls_find_equal_merges(const ls_graph *body, size_t num_own,
                                    unsigned *sources, bool *out_drawn) {
  const ls_node *first = NULL;
  *out_drawn = false;
  for (size_t i = 0; i < body->num_nodes; ++i) {
    const ls_node *node = body->nodes[i];
    sources[i] |= find_sources(body, node, sources, num_own);
    if (!ls_node_any_trait(node, LS_OP_MERGE)) continue;
    if (sources[i] & LS_OF_REPLICA) return NULL;
    if ((sources[i] & (LS_OF_DRAWS | LS_OF_BATCH)) == LS_OF_DRAWS) return NULL;
    *out_drawn |= (sources[i] & LS_OF_DRAWS) != 0;
    if (first == NULL) first = node;
    if (ls_node_is_merge(node)) sources[i] = 0;
  }
  return first;
}

// ---- Classes ---------------------------------------------------------------

// Marks the nodes without a twin in `body`. Returns true if a node was not
// marked before.
static bool mark_lonely(ls_graph *first, const ls_graph *body,
                        const uint32_t *twins, bool *has_twin) {
  bool found = false;
  memset(has_twin, 0, first->num_nodes * sizeof(*has_twin));
  for (size_t i = 0; i < body->num_nodes; ++i)
    if (twins[i] != LS_NO_TWIN) has_twin[twins[i]] = true;
  for (size_t i = 0; i < first->num_nodes; ++i) {
    ls_node *node = first->nodes[i];
    // A captured value is the same in all bodies.
    if (node->varying || ls_node_is_merge(node) ||
        node->type == LS_OP_PARAMETER ||
        (has_twin[i] && !depends_on_varying(first, node)))
      continue;
    node->varying = found = true;
  }
  return found;
}

ls_status ls_mark_classes(ls_graph *const *bodies, size_t count,
                          uint32_t *const *twins) {
  ls_graph *first = bodies[0];
  LS_OWN_ARRAY_OR_RETURN(first->allocator, bool, has_twin,
                         first->num_nodes + 1);
  // A value that varies in one class varies in all classes, and so do its
  // users.
  for (bool found = true; found;) {
    found = false;
    for (size_t k = 1; k < count; ++k) {
      LS_RETURN_IF_ERROR(ls_find_twins(first, bodies[k], twins[k]));
      if (mark_lonely(first, bodies[k], twins[k], has_twin)) found = true;
    }
  }
  for (size_t k = 1; k < count; ++k)
    for (size_t i = 0; i < bodies[k]->num_nodes; ++i)
      bodies[k]->nodes[i]->varying |= twins[k][i] == LS_NO_TWIN;
  return ls_ok();
}
