// SPDX-License-Identifier: Apache-2.0
#include "lower/apart.h"
#include "base/memory/own.h"
#include "graph/gather/gather.h"
#include "graph/walk.h"

// ---- Ops --------------------------------------------------------------------
// Makes the ops that replace a loop or branch, finds steps in loops and
// branches, and refuses loops and branches that cannot be taken apart.

static ls_status apart_ops_append(const ls_apart *a, ls_graph *to,
                                  const ls_op_spec *spec,
                                  const uint64_t *inputs, size_t num_outputs,
                                  ls_node **out_node) {
  *out_node = ls_graph_append(to, spec, inputs, num_outputs);
  if (*out_node == NULL) return ls_out_of_memory();
  ls_node_take_place(*out_node, a->scope->from, a->node);
  return ls_ok();
}

// Appends an op with one scalar output.
static ls_status apart_make(const ls_apart *a, ls_graph *to, uint16_t type,
                            const uint64_t *inputs, size_t num_inputs,
                            ls_attr attr, ls_dtype dtype, uint64_t *out_ref) {
  ls_node *node = NULL;
  LS_RETURN_IF_ERROR(
      apart_ops_append(a, to,
                       &(ls_op_spec){.type = type,
                                     .num_inputs = num_inputs,
                                     .attrs = &attr,
                                     .num_attrs = attr.name != NULL},
                       inputs, 1, &node));
  node->outputs[0] = (ls_type){dtype, LS_SCALAR};
  *out_ref = ls_ref(node->id, 0);
  return ls_ok();
}

static ls_status make_number(const ls_apart *a, ls_graph *to, ls_dtype dtype,
                             int64_t value, uint64_t *out_ref) {
  LS_OWN(ls_array, array) = NULL;
  LS_RETURN_IF_ERROR(ls_array_create(dtype, LS_SCALAR, &array));
  ls_array_set_i64(array, 0, value);
  return apart_make(a, to, LS_OP_CONSTANT, NULL, 0, LS_OWN_A(VALUE, array),
                    dtype, out_ref);
}

static ls_status make_not(const ls_apart *a, ls_graph *to, uint64_t x,
                          uint64_t *out_ref) {
  return apart_make(a, to, LS_OP_NOT, &x, 1, (ls_attr){0}, LS_DTYPE_BOOL,
                    out_ref);
}

// Computes `mask && x`; the mask 0 means true.
static ls_status make_and(const ls_apart *a, ls_graph *to, uint64_t mask,
                          uint64_t x, uint64_t *out_ref) {
  const uint64_t inputs[] = {mask, x};
  *out_ref = x;
  return mask == 0 ? ls_ok()
                   : apart_make(a, to, LS_OP_AND, inputs, 2, (ls_attr){0},
                                LS_DTYPE_BOOL, out_ref);
}

// Makes a value that is true if `x` is true on any replica.
static ls_status make_any(const ls_apart *a, ls_graph *to, uint64_t x,
                          uint64_t *out_ref) {
  uint64_t count = 0, terms[2];
  LS_RETURN_IF_ERROR(apart_make(a, to, LS_OP_CONVERT, &x, 1,
                                LS_OWN_T(DTYPE, LS_DTYPE_I32), LS_DTYPE_I32,
                                &count));
  LS_RETURN_IF_ERROR(apart_make(a, to, LS_OP_ALL_REDUCE, &count, 1,
                                LS_OWN_S(REDUCE, "max"), LS_DTYPE_I32,
                                &terms[0]));
  LS_RETURN_IF_ERROR(make_number(a, to, LS_DTYPE_I32, 0, &terms[1]));
  return apart_make(a, to, LS_OP_GREATER, terms, 2, (ls_attr){0}, LS_DTYPE_BOOL,
                    out_ref);
}

ls_status ls_apart_make_region(const ls_apart *a, const char *name,
                               ls_graph *around, ls_graph **out_graph) {
  return ls_graph_make(LS_GRAPH_REGION, name, a->scope->from->runtime, around,
                       out_graph);
}

ls_status ls_apart_append_flow(const ls_apart *a, ls_graph *to, uint16_t type,
                               const uint64_t *leading, size_t num_leading,
                               const ls_attr *attrs, size_t num_attrs,
                               ls_graph **regions, size_t num_regions,
                               const ls_type *types, size_t num_outputs,
                               ls_node **out_node) {
  ls_arena *memory = (ls_arena *)(uintptr_t)&a->memory;
  const size_t count = num_leading + ls_count_captures(regions, num_regions);
  LS_ARENA_ARRAY_OR_RETURN(memory, uint64_t, inputs, count + 1);
  memcpy(inputs, leading, num_leading * sizeof(*inputs));
  ls_list_capture_refs(regions, num_regions, inputs + num_leading);
  LS_RETURN_IF_ERROR(apart_ops_append(a, to,
                                      &(ls_op_spec){.type = type,
                                                    .num_inputs = count,
                                                    .attrs = attrs,
                                                    .num_attrs = num_attrs,
                                                    .regions = regions,
                                                    .num_regions = num_regions},
                                      inputs, num_outputs, out_node));
  // The op owns the regions now.
  memset(regions, 0, num_regions * sizeof(*regions));
  memcpy((*out_node)->outputs, types, num_outputs * sizeof(*types));
  return ls_ok();
}

ls_status ls_apart_append_cond(const ls_apart *a, ls_graph *to,
                               uint64_t predicate, ls_graph **regions,
                               const ls_type *types, size_t num_outputs,
                               ls_node **out_node) {
  return ls_apart_append_flow(a, to, LS_OP_COND, &predicate, 1, NULL, 0,
                              regions, 2, types, num_outputs, out_node);
}

// ---- Join branches ---------------------------------------------------------
static ls_status apart_ops_give(ls_graph *region, ls_graph *around,
                                const uint64_t *refs, size_t count,
                                ls_arena *memory) {
  LS_ARENA_ARRAY_OR_RETURN(memory, uint64_t, inner, count + 1);
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(
        ls_graph_add_capture(region, (ls_tensor){around, refs[i]}, &inner[i]));
  return ls_graph_set_results(region, inner, count);
}

// Selects the values of `yes` where the predicate holds, else the values of
// `no`.
static ls_status join_values(ls_apart *a, ls_graph *to, uint64_t predicate,
                             const uint64_t *yes, const uint64_t *no,
                             size_t count, uint64_t *out_refs) {
  if (count == 0) return ls_ok();
  ls_node *node = NULL;
  LS_ARENA_ARRAY_OR_RETURN(&a->memory, ls_type, types, count + 1);
  for (size_t i = 0; i < count; ++i)
    types[i] = ls_graph_type(to, yes[i]);
  LS_OWN(ls_apart_regions, r) = {{NULL, NULL}};
  LS_RETURN_IF_ERROR(ls_apart_make_region(a, "yes", to, &r.items[0]));
  LS_RETURN_IF_ERROR(ls_apart_make_region(a, "no", to, &r.items[1]));
  LS_RETURN_IF_ERROR(apart_ops_give(r.items[0], to, yes, count, &a->memory));
  LS_RETURN_IF_ERROR(apart_ops_give(r.items[1], to, no, count, &a->memory));
  LS_RETURN_IF_ERROR(
      ls_apart_append_cond(a, to, predicate, r.items, types, count, &node));
  for (size_t i = 0; i < count; ++i)
    out_refs[i] = ls_ref(node->id, (unsigned)i);
  return ls_ok();
}

// ---- Checks ----------------------------------------------------------------
// Returns true if the op itself is a step.
static bool is_step(const ls_node *node) {
  return node->type == LS_OP_MERGE_CALL &&
         ls_node_mark(node, LS_MARK_OUTSIDE) != NULL;
}

bool ls_holds_step(const ls_node *node) { return ls_node_any(node, is_step); }

bool ls_condition_writes(const ls_node *loop) {
  return ls_graph_any(loop->regions[0], ls_node_assigns);
}

static ls_status refuse_node(ls_graph *graph, ls_node *node, const char *why) {
  char text[LS_MAX_FULL_NAME];
  ls_node_describe(graph, node, text, sizeof(text));
  return ls_invalid_argument("%s is %s", text, why);
}

// Refuses an op that all replicas must reach, if only some replicas reach it.
static ls_status check_node(const ls_apart_level *l, const ls_node *node) {
  if (l->mask == 0) return ls_ok();
  ls_graph_walk walk;
  for (ls_graph_walk_begin_at(&walk, node); ls_graph_walk_next(&walk);) {
    if (ls_node_is_collective(walk.node) && !is_step(walk.node))
      return refuse_node(
          walk.graph == NULL ? l->c.from : walk.graph, walk.node,
          "a collective in a loop or branch whose path may differ between "
          "replicas, with outside compiled ops that write variables: make the "
          "condition the same on all, for instance with ls_all_reduce");
    if (is_step(walk.node)) ls_graph_walk_skip_regions(&walk);
  }
  return ls_ok();
}

static ls_status check_loop(const ls_apart *a, const ls_node *loop) {
  const ls_graph *condition = ls_graph_resolve(loop->regions[0]);
  bool draws = false;
  for (size_t i = 0; i < condition->num_nodes; ++i)
    draws = draws || ls_node_any_trait(condition->nodes[i], LS_OP_RANDOM);
  if (ls_node_attr(loop, LS_ATTR_ID_NUM_SAVED) == NULL && !draws)
    return ls_ok();
  return ls_unimplemented(
      "a loop %s %s",
      draws ? "draws random numbers in its condition and"
            : "has a gradient and",
      a->together ? "writes a variable in its condition"
                  : "has outside compiled ops that write a variable, and "
                    "replicas make different numbers of iterations");
}

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
    LS_RETURN_IF_ERROR(check_node(l, node));
    if (ls_apart_is_free(node) || (ls_apart_is_plain(l, node) && l->mask == 0))
      LS_RETURN_IF_ERROR(ls_copy_node(&l->c, node));
    if (l->mask == 0 || node->type == LS_OP_PARAMETER ||
        ls_apart_is_free(node) || ls_apart_is_plain(l, node))
      continue;
    LS_RETURN_IF_ERROR(ls_apart_mask_plain(a, l, first, i));
    LS_RETURN_IF_ERROR(is_step(node) ? ls_apart_mask_step(a, l, node)
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
    LS_ARENA_SET_OR_RETURN(&a->memory, uint64_t, refs[i], count + 1);
  }
  LS_RETURN_IF_ERROR(ls_copied(&l->c, node, node->inputs[0], &predicate));
  LS_RETURN_IF_ERROR(make_not(a, to, predicate, &other));
  LS_RETURN_IF_ERROR(make_and(a, to, l->mask, predicate, &masks[0]));
  LS_RETURN_IF_ERROR(make_and(a, to, l->mask, other, &masks[1]));
  for (size_t r = 0; r < 2; ++r)
    LS_RETURN_IF_ERROR(
        apart_copy_region(a, l, node->regions[r], to, NULL, masks[r], refs[r]));
  LS_RETURN_IF_ERROR(
      join_values(a, to, predicate, refs[0], refs[1], count, refs[2]));
  return set_outputs(l, node, refs[2]);
}

static ls_status take_loop(ls_apart *a, ls_apart_level *l, ls_node *node);

static ls_status take_flow(ls_apart *a, ls_apart_level *l, ls_node *node) {
  if (node->type == LS_OP_WHILE) return take_loop(a, l, node);
  if (node->type == LS_OP_COND) return take_branches(a, l, node);
  return refuse_node(
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
  return make_and(a, to, mask, holds, out_ref);
}

// Computes the condition again, unless the loop has reached its limit of trips.
static ls_status goes_on_after(ls_apart *a, const loop *p, ls_graph *to,
                               uint64_t mask, uint64_t trips,
                               const uint64_t *values, uint64_t *out_ref) {
  if (p->most == 0) return apart_loop_goes_on(a, p, to, mask, values, out_ref);
  uint64_t terms[2] = {trips, 0}, more = 0;
  LS_RETURN_IF_ERROR(make_number(a, to, LS_DTYPE_I64, p->most, &terms[1]));
  LS_RETURN_IF_ERROR(apart_make(a, to, LS_OP_LESS, terms, 2, (ls_attr){0},
                                LS_DTYPE_BOOL, &more));
  LS_RETURN_IF_ERROR(make_and(a, to, mask, more, &more));
  return apart_loop_goes_on(a, p, to, more, values, out_ref);
}

static ls_status fill_condition(ls_apart *a, loop *p, uint64_t *refs) {
  uint64_t holds = 0;
  ls_graph *to = p->regions.items[0];
  LS_RETURN_IF_ERROR(declare_round(p, to, refs));
  holds = refs[GOES_ON];
  if (!a->together) LS_RETURN_IF_ERROR(make_any(a, to, holds, &holds));
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
    LS_RETURN_IF_ERROR(join_values(a, to, mask, next + FIRST_VALUE,
                                   refs + FIRST_VALUE, p->count,
                                   next + FIRST_VALUE));
  uint64_t terms[2] = {refs[NUM_TRIPS], 0};
  LS_RETURN_IF_ERROR(make_number(a, to, LS_DTYPE_I64, 1, &terms[1]));
  LS_RETURN_IF_ERROR(apart_make(a, to, LS_OP_ADD, terms, 2, (ls_attr){0},
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
  LS_RETURN_IF_ERROR(make_number(a, to, LS_DTYPE_I64, 0, &initial[NUM_TRIPS]));
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

static ls_status take_loop(ls_apart *a, ls_apart_level *l, ls_node *node) {
  LS_RETURN_IF_ERROR(check_loop(a, node));
  LS_OWN(loop, p) = {.around = l,
                     .node = node,
                     .count = (size_t)ls_node_int(node, LS_ATTR_ID_NUM_CARRIED),
                     .most = ls_node_int(node, LS_ATTR_ID_MAX_TRIPS)};
  uint64_t *refs[3];
  for (size_t i = 0; i < 3; ++i) {
    LS_ARENA_SET_OR_RETURN(&a->memory, uint64_t, refs[i],
                           FIRST_VALUE + p.count);
  }
  LS_ARENA_SET_OR_RETURN(&a->memory, ls_type, p.types, FIRST_VALUE + p.count);
  return fill_loop(a, &p, refs[0], refs[1], refs[2]);
}
