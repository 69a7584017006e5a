// SPDX-License-Identifier: Apache-2.0
//
// Segments: the replicate ops between the ops that leave a body.
#include "graph/copy.h"
#include "lower/cut.h"
#include "lower/ops.h"

typedef struct segment {
  ls_cut_graph *g;
  uint32_t level;
  ls_graph *region;
  ls_map inside;             // Ref of the graph -> ref of the region.
  ls_ref_list narrow, wide;  // Split arguments: refs of the graph.
  ls_ref_list results[3];    // Narrow, wide, common: refs of the graph.
} segment;

static void segment_deinit(segment *s) {
  ls_graph_free(s->region);
  ls_map_deinit(&s->inside);
  ls_release(s->narrow.allocator, s->narrow.items);
  ls_release(s->wide.allocator, s->wide.items);
  for (int k = 0; k < 3; ++k)
    ls_release(s->results[k].allocator, s->results[k].items);
}
LS_OWNED_STRUCT(segment, segment_deinit)

enum { NARROW, WIDE, COMMON };  // Indices of `results`.

// ---- Values -----------------------------------------------------------------
ls_status ls_cut_ref(ls_cut_graph *g, uint64_t ref, ls_cut_role role,
                     uint64_t *out_ref) {
  ls_cut_value *value = ls_cut_value_of(g, ref);
  const size_t place = ls_cut_place(g, ref);
  if (role == LS_CUT_COMMON && value->common == 0 &&
      g->kind[place] == LS_CUT_FREE) {
    ls_node *made = NULL;
    LS_RETURN_IF_ERROR(
        ls_graph_move_node(g->from->nodes[place], g->to, NULL, &made));
    value->common = ls_ref(made->id, ls_ref_output(ref));
  }
  *out_ref = role == LS_CUT_COMMON ? value->common : value->wide;
  return *out_ref != 0
             ? ls_ok()
             : ls_internal("the cut of '%s' uses a value of a %s before it is "
                           "there",
                           g->from->name,
                           ls_node_info(g->from->nodes[place])->name);
}

// ---- Arguments -------------------------------------------------------------
static uint64_t value_inside(const segment *s, uint64_t ref) {
  return (uint64_t)(uintptr_t)ls_map_find_u64(&s->inside, ref);
}

static ls_status set_inside(segment *s, uint64_t ref, uint64_t to) {
  return ls_memory_status(
      ls_map_insert_u64(&s->inside, ref, (void *)(uintptr_t)to));
}

static bool is_mine(const segment *s, uint64_t ref) {
  const size_t place = ls_cut_place(s->g, ref);
  return s->g->kind[place] == LS_CUT_SEGMENT && s->g->level[place] == s->level;
}

// Lists a value from outside the segment that differs between replicas as an
// argument.
static ls_status cut_segment_need(segment *s, uint64_t ref) {
  const ls_cut_graph *g = s->g;
  if (is_mine(s, ref) || g->kind[ls_cut_place(g, ref)] == LS_CUT_FREE ||
      !ls_cut_varies(g, ref) || value_inside(s, ref) != 0)
    return ls_ok();
  LS_RETURN_IF_ERROR(set_inside(s, ref, UINT64_MAX));  // Marks it as listed.
  const bool is_wide = ls_cut_value_of(g, ref)->wide != 0;
  return ls_ref_list_push(is_wide ? &s->wide : &s->narrow, ref);
}

static ls_status cut_segment_declare(segment *s, const ls_ref_list *list) {
  for (size_t i = 0; i < list->count; ++i) {
    ls_tensor parameter;
    LS_RETURN_IF_ERROR(ls_graph_add_parameter(
        s->region, ls_graph_type(s->g->from, list->items[i]), NULL,
        &parameter));
    LS_RETURN_IF_ERROR(set_inside(s, list->items[i], parameter.ref));
  }
  return ls_ok();
}

// Returns a value for use inside the region; captures a common value from
// outside.
static ls_status cut_segment_enter(segment *s, uint64_t ref,
                                   uint64_t *out_ref) {
  ls_cut_graph *g = s->g;
  *out_ref = value_inside(s, ref);
  if (*out_ref != 0) return ls_ok();
  const size_t place = ls_cut_place(g, ref);
  if (g->kind[place] == LS_CUT_FREE) {
    ls_node *made = NULL;
    LS_RETURN_IF_ERROR(
        ls_graph_move_node(g->from->nodes[place], s->region, NULL, &made));
    *out_ref = ls_ref(made->id, ls_ref_output(ref));
  } else {
    uint64_t outer = 0;
    LS_RETURN_IF_ERROR(ls_cut_ref(g, ref, LS_CUT_COMMON, &outer));
    LS_RETURN_IF_ERROR(
        ls_graph_add_capture(s->region, (ls_tensor){g->to, outer}, out_ref));
  }
  return set_inside(s, ref, *out_ref);
}

// ---- Results ---------------------------------------------------------------
static ls_status list_own_results(segment *s) {
  const ls_cut_graph *g = s->g;
  for (size_t i = 0; i < g->from->num_nodes; ++i) {
    const ls_node *node = g->from->nodes[i];
    if (g->kind[i] != LS_CUT_SEGMENT || g->level[i] != s->level) continue;
    for (uint32_t k = 0; k < node->num_outputs; ++k) {
      const uint8_t wanted = g->values[g->first[i] + k].wanted;
      const uint64_t ref = ls_ref(node->id, k);
      if (wanted & LS_CUT_NARROW)
        LS_RETURN_IF_ERROR(ls_ref_list_push(&s->results[NARROW], ref));
      if (wanted & LS_CUT_WIDE)
        LS_RETURN_IF_ERROR(ls_ref_list_push(&s->results[WIDE], ref));
      if (wanted & LS_CUT_COMMON)
        LS_RETURN_IF_ERROR(ls_ref_list_push(&s->results[COMMON], ref));
    }
  }
  return ls_ok();
}

static bool cut_segment_has(const ls_ref_list *list, uint64_t ref) {
  for (size_t i = 0; i < list->count; ++i)
    if (list->items[i] == ref) return true;
  return false;
}

// Lists a value as a result if the segment must convert it to another role for
// later users.
static ls_status bring_value(segment *s, uint64_t ref, ls_cut_role role) {
  const ls_cut_value *value = ls_cut_value_of(s->g, ref);
  if (role == LS_CUT_COMMON ||
      (role == LS_CUT_WIDE ? value->wide != 0 : value->narrow != NULL))
    return ls_ok();
  ls_ref_list *list = &s->results[role == LS_CUT_WIDE ? WIDE : NARROW];
  return cut_segment_has(list, ref) ? ls_ok() : ls_ref_list_push(list, ref);
}

static ls_status cut_segment_list_results(segment *s, const ls_node *leaving) {
  const ls_cut_graph *g = s->g;
  LS_RETURN_IF_ERROR(list_own_results(s));
  for (uint32_t k = 0; leaving != NULL && k < leaving->num_inputs; ++k)
    LS_RETURN_IF_ERROR(
        bring_value(s, leaving->inputs[k], ls_cut_operand_role(g, leaving, k)));
  for (size_t i = 0; leaving == NULL && i < g->from->num_results; ++i)
    LS_RETURN_IF_ERROR(
        bring_value(s, g->from->results[i], (ls_cut_role)g->roles[i]));
  return ls_ok();
}

static ls_status cut_segment_set_results(segment *s) {
  LS_OWN(ls_ref_list, refs) = {.allocator = s->region->allocator};
  for (int k = 0; k < 3; ++k)
    for (size_t i = 0; i < s->results[k].count; ++i) {
      uint64_t ref = 0;
      LS_RETURN_IF_ERROR(cut_segment_enter(s, s->results[k].items[i], &ref));
      LS_RETURN_IF_ERROR(ls_ref_list_push(&refs, ref));
    }
  return ls_graph_set_results(s->region, refs.items, refs.count);
}

// ---- The region ------------------------------------------------------------
static ls_status copy_nodes(segment *s) {
  const ls_cut_graph *g = s->g;
  for (size_t i = 0; i < g->from->num_nodes; ++i) {
    ls_node *node = g->from->nodes[i], *made = NULL;
    if (g->kind[i] != LS_CUT_SEGMENT || g->level[i] != s->level) continue;
    LS_ARENA_ARRAY_OR_RETURN(g->memory, uint64_t, inputs, node->num_inputs + 1);
    for (uint32_t k = 0; k < node->num_inputs; ++k)
      LS_RETURN_IF_ERROR(cut_segment_enter(s, node->inputs[k], &inputs[k]));
    LS_RETURN_IF_ERROR(ls_graph_move_node(node, s->region, inputs, &made));
    for (uint32_t k = 0; k < node->num_outputs; ++k)
      LS_RETURN_IF_ERROR(
          set_inside(s, ls_ref(node->id, k), ls_ref(made->id, k)));
  }
  return ls_ok();
}

static ls_status find_arguments(segment *s) {
  const ls_cut_graph *g = s->g;
  for (size_t i = 0; i < g->from->num_nodes; ++i) {
    const ls_node *node = g->from->nodes[i];
    if (g->kind[i] != LS_CUT_SEGMENT || g->level[i] != s->level) continue;
    for (uint32_t k = 0; k < node->num_inputs; ++k)
      LS_RETURN_IF_ERROR(cut_segment_need(s, node->inputs[k]));
  }
  for (int k = 0; k < 3; ++k)
    for (size_t i = 0; i < s->results[k].count; ++i)
      LS_RETURN_IF_ERROR(cut_segment_need(s, s->results[k].items[i]));
  return ls_ok();
}

static ls_status fill_region(segment *s) {
  LS_RETURN_IF_ERROR(find_arguments(s));
  LS_RETURN_IF_ERROR(cut_segment_declare(s, &s->narrow));
  LS_RETURN_IF_ERROR(cut_segment_declare(s, &s->wide));
  LS_RETURN_IF_ERROR(copy_nodes(s));
  LS_RETURN_IF_ERROR(cut_segment_set_results(s));
  ls_mark_varying(s->region, s->region->num_declared);
  return ls_ok();
}

// ---- The op ----------------------------------------------------------------
static ls_status cut_segment_list_inputs(const segment *s,
                                         ls_ref_list *inputs) {
  const ls_cut_graph *g = s->g;
  for (size_t i = 0; i < s->narrow.count; ++i) {
    const ls_cut_value *value = ls_cut_value_of(g, s->narrow.items[i]);
    for (uint32_t r = 0; r < g->request->replicas; ++r)
      LS_RETURN_IF_ERROR(ls_ref_list_push(inputs, value->narrow[r]));
  }
  for (size_t i = 0; i < s->wide.count; ++i)
    LS_RETURN_IF_ERROR(
        ls_ref_list_push(inputs, ls_cut_value_of(g, s->wide.items[i])->wide));
  return ls_ref_list_push_captures(inputs, &s->region, 1);
}

// Sets the results' refs in the outer graph.
static ls_status set_values(const segment *s, ls_node *made) {
  const ls_cut_graph *g = s->g;
  const uint32_t replicas = g->request->replicas;
  uint32_t output = 0;
  for (int k = 0; k < 3; ++k)
    for (size_t i = 0; i < s->results[k].count; ++i) {
      const uint64_t ref = s->results[k].items[i];
      ls_type type = ls_graph_type(g->from, ref);
      ls_cut_value *value = ls_cut_value_of(g, ref);
      if (k == WIDE) LS_RETURN_IF_ERROR(ls_wide_type(type, replicas, &type));
      if (k == WIDE) value->wide = ls_ref(made->id, output);
      if (k == COMMON) value->common = ls_ref(made->id, output);
      if (k == NARROW)
        value->narrow = ls_arena_new_array(g->memory, uint64_t, replicas);
      if (k == NARROW && value->narrow == NULL) return ls_out_of_memory();
      for (uint32_t r = 0; r < (k == NARROW ? replicas : 1); ++r) {
        if (k == NARROW) value->narrow[r] = ls_ref(made->id, output);
        made->outputs[output++] = type;
      }
    }
  return ls_ok();
}

static ls_status cut_segment_append(segment *s) {
  const ls_cut_request *request = s->g->request;
  LS_OWN(ls_ref_list, inputs) = {.allocator = s->region->allocator};
  LS_RETURN_IF_ERROR(cut_segment_list_inputs(s, &inputs));
  const size_t narrow = s->results[NARROW].count;
  const ls_attr attrs[] = {
      LS_OWN_I(REPLICAS, (int64_t)request->replicas),
      LS_OWN_I(NUM_SPLIT, (int64_t)s->narrow.count),
      LS_OWN_I(NUM_GATHERED, (int64_t)narrow),
      LS_OWN_I(NUM_WIDE_SPLIT, (int64_t)s->wide.count),
      LS_OWN_I(NUM_WIDE_GATHERED, (int64_t)s->results[WIDE].count)};
  const bool is_wide = s->wide.count + s->results[WIDE].count > 0;
  ls_node *made =
      ls_graph_append(s->g->to,
                      &(ls_op_spec){.type = LS_OP_REPLICATE,
                                    .num_inputs = inputs.count,
                                    .attrs = attrs,
                                    .num_attrs = is_wide ? 5 : 3,
                                    .regions = &s->region,
                                    .num_regions = 1},
                      inputs.items,
                      narrow * request->replicas + s->results[WIDE].count +
                          s->results[COMMON].count);
  LS_RETURN_IF_NO_MEMORY(made);
  s->region = NULL;  // The op owns the region now.
  ls_node_take_place(made, request->from, request->origin);
  return set_values(s, made);
}

static bool is_empty(const segment *s) {
  const ls_cut_graph *g = s->g;
  if (s->results[NARROW].count + s->results[WIDE].count > 0) return false;
  for (size_t i = 0; i < g->from->num_nodes; ++i)
    if (g->kind[i] == LS_CUT_SEGMENT && g->level[i] == s->level) return false;
  return true;
}

ls_status ls_cut_emit_segment(ls_cut_graph *g, uint32_t level,
                              const ls_node *leaving) {
  LS_OWN(segment, s) = {.g = g, .level = level};
  ls_allocator *allocator = g->to->allocator;
  s.narrow.allocator = s.wide.allocator = allocator;
  for (int k = 0; k < 3; ++k)
    s.results[k].allocator = allocator;
  ls_map_init(&s.inside, allocator);
  LS_RETURN_IF_ERROR(cut_segment_list_results(&s, leaving));
  if (is_empty(&s)) return ls_ok();
  LS_RETURN_IF_ERROR(ls_graph_make(LS_GRAPH_LOWERED, "replica", g->to->runtime,
                                   g->to, &s.region));
  LS_RETURN_IF_ERROR(fill_region(&s));
  return cut_segment_append(&s);
}
