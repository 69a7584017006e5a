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

// Copies a region into `to`. `args` replace the region's declared parameters;
// the values of its results are written to `results`.
static ls_status apart_copy_region(ls_apart *a, ls_apart_level *around,
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
    LS_RETURN_IF_ERROR(
        apart_copy_region(a, l, node->regions[r], to, NULL, masks[r], refs[r]));
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
// Appends the ops that replace the loop or branch to the op's scope.
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
  LS_ARENA_ARRAY_OR_RETURN(&a.memory, uint64_t, results, node->num_outputs + 1);
  LS_RETURN_IF_ERROR(apart_build(&a, results));
  return lower_ops(&a, results);
}

ls_status ls_lower_apart(ls_lower_scope *scope, ls_node *node) {
  return lower_as(scope, node, false);
}

ls_status ls_lower_turned(ls_lower_scope *scope, ls_node *node) {
  return lower_as(scope, node, true);
}

// ---- Loops -----------------------------------------------------------------
// Takes loops apart: computes a loop's condition before the loop and at the end
// of each iteration.

// Loop state: true if the loop continues, the number of trips, and the values.
typedef struct loop {
  ls_apart_level *around;
  ls_node *node;
  size_t count;
  int64_t most;  // Limit of trips; 0: none.
  ls_apart_regions regions;
  ls_type *types;
} loop;
LS_OWNED_(loop, loop, ls_apart_regions_drop(&ls_owned->regions))

enum { GOES_ON, NUM_TRIPS, FIRST_VALUE };

static ls_status declare_round(const loop *p, ls_graph *region,
                               uint64_t *out_refs) {
  for (size_t i = 0; i < FIRST_VALUE + p->count; ++i) {
    ls_tensor made;
    LS_RETURN_IF_ERROR(
        ls_graph_add_parameter(region, p->types[i], NULL, &made));
    out_refs[i] = made.ref;
  }
  return ls_ok();
}

// Computes from these values if the loop continues.
static ls_status apart_loop_goes_on(ls_apart *a, const loop *p, ls_graph *to,
                                    uint64_t mask, const uint64_t *values,
                                    uint64_t *out_ref) {
  uint64_t holds = 0;
  LS_RETURN_IF_ERROR(apart_copy_region(a, p->around, p->node->regions[0], to,
                                       values, mask, &holds));
  return ls_apart_make_and(a, to, mask, holds, out_ref);
}

// Computes the condition again, unless the loop has reached its limit of trips.
static ls_status goes_on_after(ls_apart *a, const loop *p, ls_graph *to,
                               uint64_t mask, uint64_t trips,
                               const uint64_t *values, uint64_t *out_ref) {
  if (p->most == 0) return apart_loop_goes_on(a, p, to, mask, values, out_ref);
  uint64_t terms[2] = {trips, 0}, more = 0;
  LS_RETURN_IF_ERROR(
      ls_apart_make_number(a, to, LS_DTYPE_I64, p->most, &terms[1]));
  LS_RETURN_IF_ERROR(ls_apart_make(a, to, LS_OP_LESS, terms, 2, (ls_attr){0},
                                   LS_DTYPE_BOOL, &more));
  LS_RETURN_IF_ERROR(ls_apart_make_and(a, to, mask, more, &more));
  return apart_loop_goes_on(a, p, to, more, values, out_ref);
}

static ls_status fill_condition(ls_apart *a, loop *p, uint64_t *refs) {
  uint64_t holds = 0;
  ls_graph *to = p->regions.items[0];
  LS_RETURN_IF_ERROR(declare_round(p, to, refs));
  holds = refs[GOES_ON];
  if (!a->together) LS_RETURN_IF_ERROR(ls_apart_make_any(a, to, holds, &holds));
  return ls_graph_set_results(to, &holds, 1);
}

static ls_status fill_body(ls_apart *a, loop *p, uint64_t *refs,
                           uint64_t *next) {
  ls_graph *to = p->regions.items[1];
  LS_RETURN_IF_ERROR(declare_round(p, to, refs));
  const uint64_t mask = a->together ? 0 : refs[GOES_ON];
  LS_RETURN_IF_ERROR(apart_copy_region(a, p->around, p->node->regions[1], to,
                                       refs + FIRST_VALUE, mask,
                                       next + FIRST_VALUE));
  if (mask != 0)
    LS_RETURN_IF_ERROR(ls_apart_join(a, to, mask, next + FIRST_VALUE,
                                     refs + FIRST_VALUE, p->count,
                                     next + FIRST_VALUE));
  uint64_t terms[2] = {refs[NUM_TRIPS], 0};
  LS_RETURN_IF_ERROR(ls_apart_make_number(a, to, LS_DTYPE_I64, 1, &terms[1]));
  LS_RETURN_IF_ERROR(ls_apart_make(a, to, LS_OP_ADD, terms, 2, (ls_attr){0},
                                   LS_DTYPE_I64, &next[NUM_TRIPS]));
  LS_RETURN_IF_ERROR(goes_on_after(a, p, to, mask, next[NUM_TRIPS],
                                   next + FIRST_VALUE, &next[GOES_ON]));
  return ls_graph_set_results(to, next, FIRST_VALUE + p->count);
}

static ls_status fill_loop(ls_apart *a, loop *p, uint64_t *initial,
                           uint64_t *refs, uint64_t *next) {
  ls_apart_level *l = p->around;
  const ls_node *node = p->node;
  ls_graph *to = l->c.to;
  for (size_t i = 0; i < p->count; ++i) {
    uint64_t *ref = &initial[FIRST_VALUE + i];
    LS_RETURN_IF_ERROR(ls_copied(&l->c, NULL, node->inputs[i], ref));
    p->types[FIRST_VALUE + i] = ls_graph_type(to, *ref);
  }
  p->types[GOES_ON] = (ls_type){LS_DTYPE_BOOL, LS_SCALAR};
  p->types[NUM_TRIPS] = (ls_type){LS_DTYPE_I64, LS_SCALAR};
  LS_RETURN_IF_ERROR(apart_loop_goes_on(
      a, p, to, l->mask, initial + FIRST_VALUE, &initial[GOES_ON]));
  LS_RETURN_IF_ERROR(
      ls_apart_make_number(a, to, LS_DTYPE_I64, 0, &initial[NUM_TRIPS]));
  LS_RETURN_IF_ERROR(
      ls_apart_make_region(a, "while_condition", to, &p->regions.items[0]));
  LS_RETURN_IF_ERROR(
      ls_apart_make_region(a, "while_body", to, &p->regions.items[1]));
  LS_RETURN_IF_ERROR(fill_condition(a, p, refs));
  LS_RETURN_IF_ERROR(fill_body(a, p, refs, next));
  const bool steps = ls_node_int(node, LS_ATTR_ID_COUNTS_STEPS) != 0;
  const ls_attr attrs[] = {
      LS_OWN_I(NUM_CARRIED, (int64_t)(FIRST_VALUE + p->count)),
      LS_OWN_I(MAX_TRIPS, p->most), LS_OWN_B(COUNTS_STEPS, true)};
  ls_node *made = NULL;
  LS_RETURN_IF_ERROR(ls_apart_append_flow(
      a, to, LS_OP_WHILE, initial, FIRST_VALUE + p->count, attrs, steps ? 3 : 2,
      p->regions.items, 2, p->types, FIRST_VALUE + p->count, &made));
  for (size_t i = 0; i < p->count; ++i)
    LS_RETURN_IF_ERROR(
        ls_copying_set(&l->c, ls_ref(node->id, (unsigned)i),
                       ls_ref(made->id, (unsigned)(FIRST_VALUE + i))));
  return ls_ok();
}

ls_status ls_apart_take_loop(ls_apart *a, ls_apart_level *l, ls_node *node) {
  LS_RETURN_IF_ERROR(ls_apart_check_loop(a, node));
  LS_OWN(loop, p) = {.around = l,
                     .node = node,
                     .count = (size_t)ls_node_int(node, LS_ATTR_ID_NUM_CARRIED),
                     .most = ls_node_int(node, LS_ATTR_ID_MAX_TRIPS)};
  uint64_t *refs[3];
  for (size_t i = 0; i < 3; ++i) {
    refs[i] = ls_arena_new_array(&a->memory, uint64_t, FIRST_VALUE + p.count);
    if (refs[i] == NULL) return ls_out_of_memory();
  }
  p.types = ls_arena_new_array(&a->memory, ls_type, FIRST_VALUE + p.count);
  if (p.types == NULL) return ls_out_of_memory();
  return fill_loop(a, &p, refs[0], refs[1], refs[2]);
}
