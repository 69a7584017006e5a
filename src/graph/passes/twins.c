// SPDX-License-Identifier: Apache-2.0
#include "graph/passes/passes.h"

#include "graph/compare/compare.h"

typedef struct search {
  ls_graph *first, *body;
  const uint32_t *twins;
} search;

// Returns true if two parameters capture the same outer value.
static bool same_capture(const search *s, const ls_node *a, const ls_node *b) {
  const size_t i = (size_t)ls_node_int(a, LS_ATTR_ID_INDEX);
  const size_t k = (size_t)ls_node_int(b, LS_ATTR_ID_INDEX);
  return i >= s->first->num_declared && k >= s->body->num_declared &&
         s->first->captures[i - s->first->num_declared].outer.ref ==
             s->body->captures[k - s->body->num_declared].outer.ref;
}

static bool same_operands(const search *s, const ls_node *a, const ls_node *b) {
  if (a->num_inputs != b->num_inputs) return false;
  for (uint32_t i = 0; i < a->num_inputs; ++i) {
    const uint32_t twin =
        s->twins[ls_graph_position(s->body, ls_ref_id(b->inputs[i]))];
    if (twin == LS_NO_TWIN ||
        s->first->nodes[twin]->id != ls_ref_id(a->inputs[i]) ||
        ls_ref_output(a->inputs[i]) != ls_ref_output(b->inputs[i]))
      return false;
  }
  return true;
}

static bool same_types(const ls_node *a, const ls_node *b) {
  if (a->num_outputs != b->num_outputs) return false;
  for (uint32_t i = 0; i < a->num_outputs; ++i)
    if (a->outputs[i].dtype != b->outputs[i].dtype ||
        !ls_shape_equal(a->outputs[i].shape, b->outputs[i].shape))
      return false;
  return true;
}

static bool is_merge(const ls_node *node) {
  return (ls_node_info(node)->traits & LS_OP_MERGE) != 0;
}

static bool are_twins(const search *s, const ls_node *a, const ls_node *b) {
  char difference[400];
  if (a->varying || a->type != b->type || is_merge(a) || !same_types(a, b))
    return false;
  if (a->type == LS_OP_PARAMETER) return same_capture(s, a, b);
  // Ops whose values must be used once cannot be shared.
  if (ls_node_info(a)->traits & LS_OP_LINEAR) return false;
  if (a->num_attrs != b->num_attrs || a->num_regions != b->num_regions ||
      !same_operands(s, a, b))
    return false;
  for (uint32_t i = 0; i < a->num_attrs; ++i)
    if (!ls_attr_equal(&a->attrs[i], &b->attrs[i])) return false;
  // Captures of regions are operands, compared above.
  for (uint32_t i = 0; i < a->num_regions; ++i)
    if (!ls_graph_equal_inside(a->regions[i], b->regions[i], difference,
                               sizeof(difference)))
      return false;
  return true;
}

// Returns the graph's next merge from `*at` on, NULL if there is none.
static const ls_node *next_merge(const ls_graph *graph, size_t *at) {
  while (*at < graph->num_nodes) {
    const ls_node *node = graph->nodes[(*at)++];
    if (is_merge(node)) return node;
  }
  return NULL;
}

static ls_status other_merges(const ls_node *a, const ls_node *b) {
  return ls_internal(
      "bodies of one replicate op have different merge calls: '%s' and '%s'",
      a == NULL ? "none" : ls_node_info(a)->name,
      b == NULL ? "none" : ls_node_info(b)->name);
}

ls_status ls_find_twins(ls_graph *first, ls_graph *body, uint32_t *twins) {
  const search s = {first, body, twins};
  const size_t count = first->num_nodes;
  size_t merge = 0, at = 0;
  for (size_t i = 0; i < body->num_nodes; ++i) {
    const ls_node *node = body->nodes[i];
    twins[i] = LS_NO_TWIN;
    if (is_merge(node)) {
      const ls_node *other = next_merge(first, &merge);
      if (other == NULL || other->type != node->type ||
          !same_types(other, node))
        return other_merges(other, node);
      twins[i] = (uint32_t)merge - 1;
      continue;
    }
    // Starts after the last match: both bodies have nearly the same order.
    for (size_t k = 0; k < count; ++k) {
      const size_t place = at + k < count ? at + k : at + k - count;
      if (!are_twins(&s, first->nodes[place], node)) continue;
      twins[i] = (uint32_t)place;
      at = place + 1 < count ? place + 1 : 0;
      break;
    }
  }
  const ls_node *left = next_merge(first, &merge);
  return left == NULL ? ls_ok() : other_merges(left, NULL);
}
