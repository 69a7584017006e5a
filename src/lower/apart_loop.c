// SPDX-License-Identifier: Apache-2.0
//
// Takes loops apart: computes the condition before the loop and at the end of
// each iteration.
#include "lower/apart.h"

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

// Computes if the loop continues with these values.
static ls_status apart_loop_goes_on(ls_apart *a, const loop *p, ls_graph *to,
                                    uint64_t mask, const uint64_t *values,
                                    uint64_t *out_ref) {
  uint64_t holds = 0;
  LS_RETURN_IF_ERROR(ls_apart_copy_region(a, p->around, p->node->regions[0], to,
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
  LS_RETURN_IF_ERROR(ls_apart_copy_region(a, p->around, p->node->regions[1], to,
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
