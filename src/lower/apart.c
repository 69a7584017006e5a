// SPDX-License-Identifier: Apache-2.0
#include "lower/apart.h"

// ---- Levels ----------------------------------------------------------------
static ls_status take_flow(ls_apart *a, ls_apart_level *l, ls_node *node);

ls_status ls_apart_map_captures(ls_copying *inner, ls_copying *around) {
  const ls_graph *from = inner->from;
  for (size_t i = 0; i < from->num_captures; ++i) {
    uint64_t ref = 0;
    LS_RETURN_IF_ERROR(
        ls_copied(around, NULL, from->captures[i].outer.ref, &ref));
    if (inner->to != around->to)
      LS_RETURN_IF_ERROR(
          ls_graph_add_capture(inner->to, (ls_tensor){around->to, ref}, &ref));
    LS_RETURN_IF_ERROR(ls_copying_set(inner, from->captures[i].inner, ref));
  }
  return ls_ok();
}

static ls_status copy_level(ls_apart *a, ls_apart_level *l) {
  const ls_graph *from = l->c.from;
  size_t first = 0;
  for (size_t i = 0; i < from->num_nodes; ++i) {
    ls_node *node = from->nodes[i];
    LS_RETURN_IF_ERROR(ls_apart_check_node(l, node));
    if (ls_apart_is_free(node) || (ls_apart_is_plain(l, node) && l->mask == 0))
      LS_RETURN_IF_ERROR(ls_copy_node(&l->c, node));
    if (l->mask == 0 || node->type == LS_OP_PARAMETER ||
        ls_apart_is_free(node) || ls_apart_is_plain(l, node))
      continue;
    LS_RETURN_IF_ERROR(ls_apart_mask_plain(a, l, first, i));
    LS_RETURN_IF_ERROR(ls_is_step(node) ? ls_apart_mask_step(a, l, node)
                                        : take_flow(a, l, node));
    first = i + 1;
  }
  return l->mask == 0 ? ls_ok()
                      : ls_apart_mask_plain(a, l, first, from->num_nodes);
}

ls_status ls_apart_copy_region(ls_apart *a, ls_apart_level *around,
                               ls_graph *from, ls_graph *to,
                               const uint64_t *args, uint64_t mask,
                               uint64_t *results) {
  LS_OWN(ls_apart_level, inner) = {.mask = mask};
  from = ls_graph_resolve(from);
  ls_copying_init(&inner.c, &around->c, from, to, &a->memory);
  for (size_t i = 0; i < from->num_declared; ++i)
    LS_RETURN_IF_ERROR(ls_copying_set(&inner.c, from->parameters[i], args[i]));
  LS_RETURN_IF_ERROR(ls_apart_map_captures(&inner.c, &around->c));
  LS_RETURN_IF_ERROR(copy_level(a, &inner));
  for (size_t i = 0; i < from->num_results; ++i)
    LS_RETURN_IF_ERROR(
        ls_copied(&inner.c, NULL, from->results[i], &results[i]));
  return ls_ok();
}

static ls_status set_outputs(ls_apart_level *l, const ls_node *node,
                             const uint64_t *refs) {
  for (uint32_t i = 0; i < node->num_outputs; ++i)
    LS_RETURN_IF_ERROR(ls_copying_set(&l->c, ls_ref(node->id, i), refs[i]));
  return ls_ok();
}

// ---- Branches --------------------------------------------------------------
static ls_status take_branches(ls_apart *a, ls_apart_level *l, ls_node *node) {
  const size_t count = node->num_outputs;
  ls_graph *to = l->c.to;
  uint64_t *refs[3], predicate = 0, other = 0, masks[2];
  for (size_t i = 0; i < 3; ++i) {
    refs[i] = ls_arena_new_array(&a->memory, uint64_t, count + 1);
    if (refs[i] == NULL) return ls_out_of_memory();
  }
  LS_RETURN_IF_ERROR(ls_copied(&l->c, node, node->inputs[0], &predicate));
  LS_RETURN_IF_ERROR(ls_apart_make_not(a, to, predicate, &other));
  LS_RETURN_IF_ERROR(ls_apart_make_and(a, to, l->mask, predicate, &masks[0]));
  LS_RETURN_IF_ERROR(ls_apart_make_and(a, to, l->mask, other, &masks[1]));
  for (size_t r = 0; r < 2; ++r)
    LS_RETURN_IF_ERROR(ls_apart_copy_region(a, l, node->regions[r], to, NULL,
                                            masks[r], refs[r]));
  LS_RETURN_IF_ERROR(
      ls_apart_join(a, to, predicate, refs[0], refs[1], count, refs[2]));
  return set_outputs(l, node, refs[2]);
}

static ls_status take_flow(ls_apart *a, ls_apart_level *l, ls_node *node) {
  if (node->type == LS_OP_WHILE) return ls_apart_take_loop(a, l, node);
  if (node->type == LS_OP_COND) return take_branches(a, l, node);
  return ls_apart_refuse(
      l->c.from, node,
      "called in a loop or branch whose path differs between replicas, with "
      "outside compiled ops that write variables");
}

// ---- Entry points ----------------------------------------------------------
// Appends the ops that replace the loop or branch to its scope.
static ls_status lower_ops(const ls_apart *a, const uint64_t *results) {
  ls_lower_scope *scope = a->scope;
  const ls_node *node = a->node;
  ls_graph *from = a->to;
  LS_OWN(ls_shared_scope, inner) = ls_lower_share_scope(scope, from);
  inner.in_apart = !a->together;
  LS_RETURN_IF_ERROR(ls_graph_set_results(from, results, node->num_outputs));
  for (size_t i = 0; i < from->num_captures; ++i)
    LS_RETURN_IF_ERROR(
        ls_lower_map(&inner, from->captures[i].inner,
                     ls_lowered(scope, from->captures[i].outer.ref)));
  LS_RETURN_IF_ERROR(ls_lower_flow_inline(scope, &inner));
  for (size_t i = 0; i < node->num_outputs; ++i)
    LS_RETURN_IF_ERROR(ls_lower_map(scope, ls_ref(node->id, (unsigned)i),
                                    ls_lowered(&inner, from->results[i])));
  return ls_ok();
}

static ls_status apart_build(ls_apart *a, uint64_t *results) {
  const ls_node *node = a->node;
  LS_OWN(ls_apart_level, l) = {.mask = 0};
  ls_copying_init(&l.c, NULL, a->scope->from, a->to, &a->memory);
  for (uint32_t i = 0; i < node->num_inputs; ++i) {
    uint64_t ref = 0;
    LS_RETURN_IF_ERROR(ls_graph_add_capture(
        a->to, (ls_tensor){a->scope->from, node->inputs[i]}, &ref));
    LS_RETURN_IF_ERROR(ls_copying_set(&l.c, node->inputs[i], ref));
  }
  LS_RETURN_IF_ERROR(take_flow(a, &l, a->node));
  for (uint32_t i = 0; i < node->num_outputs; ++i)
    LS_RETURN_IF_ERROR(ls_copied(&l.c, NULL, ls_ref(node->id, i), &results[i]));
  return ls_ok();
}

static void apart_deinit(ls_apart *a) {
  ls_graph_free(a->to);
  ls_arena_deinit(&a->memory);
}
LS_OWNED_STRUCT(ls_apart, apart_deinit)

static ls_status lower_as(ls_lower_scope *scope, ls_node *node, bool together) {
  LS_OWN(ls_apart, a) = {.scope = scope, .node = node, .together = together};
  ls_arena_init(&a.memory, scope->all->allocator);
  LS_RETURN_IF_ERROR(ls_apart_make_region(&a, "apart", scope->from, &a.to));
  uint64_t *results =
      ls_arena_new_array(&a.memory, uint64_t, node->num_outputs + 1);
  LS_RETURN_IF_NO_MEMORY(results);
  LS_RETURN_IF_ERROR(apart_build(&a, results));
  return lower_ops(&a, results);
}

ls_status ls_lower_apart(ls_lower_scope *scope, ls_node *node) {
  return lower_as(scope, node, false);
}

ls_status ls_lower_turned(ls_lower_scope *scope, ls_node *node) {
  return lower_as(scope, node, true);
}
