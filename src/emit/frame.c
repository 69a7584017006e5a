// SPDX-License-Identifier: Apache-2.0
//
// Emits the ops of a graph or region, and keeps their values.
#include "emit/emit.h"

// ---- Values ----------------------------------------------------------------
static ls_emitted find_in(const ls_map *map, uint64_t ref) {
  return (ls_emitted)(uintptr_t)ls_map_find_u64(map, ref);
}

static void insert_in(ls_emitter *e, ls_map *map, uint64_t ref,
                      ls_emitted value) {
  if (!ls_map_insert_u64(map, ref, (void *)(uintptr_t)value))
    ls_emit_fail(e, ls_out_of_memory());
}

// Finds a value of the replica that is emitted: its own, or its part.
static ls_emitted find_of_lane(ls_emitter *e, uint64_t ref) {
  ls_map *own = &e->frame->lanes[e->lane];
  ls_emitted value = find_in(own, ref);
  if (value != 0) return value;
  value = find_in(&e->frame->refs, ref);
  if (!ls_emit_look(e, value)->stacked) return value;
  value = ls_emit_lane(e, value, e->lane);
  insert_in(e, own, ref, value);
  return value;
}

ls_emitted ls_emit_owned_of(ls_emitter *e, uint64_t ref) {
  ls_emit_frame *frame = e->frame;
  if (frame->lanes == NULL) return find_in(&frame->refs, ref);
  if (e->lane >= 0) return find_of_lane(e, ref);
  ls_emitted value = find_in(&frame->refs, ref);
  if (value != 0) return value;
  ls_emitted *lanes = ls_emit_new_list(e, (size_t)e->num_lanes);
  for (int32_t i = 0; lanes != NULL && i < e->num_lanes; ++i)
    lanes[i] = find_in(&frame->lanes[i], ref);
  if (lanes == NULL || lanes[0] == 0) return 0;
  value = ls_emit_stack(e, lanes);
  insert_in(e, &frame->refs, ref, value);
  return value;
}

ls_emitted ls_emit_of(ls_emitter *e, uint64_t ref) {
  const ls_emitted value = ls_emit_owned_of(e, ref);
  return ls_emit_look(e, value)->owner != 0 ? ls_emit_everywhere(e, value)
                                            : value;
}

bool ls_emit_is_stacked(ls_emitter *e, uint64_t ref) {
  return ls_emit_look(e, find_in(&e->frame->refs, ref))->stacked;
}

void ls_emit_bind(ls_emitter *e, uint64_t ref, ls_emitted value) {
  ls_emit_frame *frame = e->frame;
  const bool is_own = frame->lanes != NULL && e->lane >= 0;
  insert_in(e, is_own ? &frame->lanes[e->lane] : &frame->refs, ref, value);
}

// ---- Regions ---------------------------------------------------------------
void ls_emit_enter(ls_emitter *e, ls_graph *region, int32_t lanes,
                   ls_emit_frame *frame) {
  ls_allocator *allocator = e->memory->allocator;
  *frame = (ls_emit_frame){.outer = e->frame, .source = {.body = region}};
  ls_map_init(&frame->refs, allocator);
  e->frame = frame;
  if (lanes < 2) return;
  frame->lanes = ls_arena_new_array(e->memory, ls_map, (size_t)lanes);
  if (frame->lanes == NULL) ls_emit_fail(e, ls_out_of_memory());
  for (int32_t i = 0; frame->lanes != NULL && i < lanes; ++i)
    ls_map_init(&frame->lanes[i], allocator);
}

void ls_emit_leave(ls_emitter *e) {
  ls_emit_frame *frame = e->frame;
  for (int32_t i = 0; frame->lanes != NULL && i < e->num_lanes; ++i)
    ls_map_deinit(&frame->lanes[i]);
  ls_map_deinit(&frame->refs);
  e->frame = frame->outer;
}

// ---- Whole programs --------------------------------------------------------
static void emit_constant(ls_emitter *e, const ls_node *node) {
  ls_emit_bind(
      e, ls_ref(node->id, 0),
      ls_emit_constant(e, ls_node_attr(node, LS_ATTR_ID_VALUE)->as.array));
}

static bool is_element(const ls_node *node) {
  return (ls_node_info(node)->traits & LS_OP_ELEMENTWISE) != 0 &&
         node->num_outputs == 1 && node->num_inputs <= LS_MAX_RANK;
}

// Emits an elementwise op that the language has.
static void emit_element(ls_emitter *e, const ls_node *node) {
  ls_emitted in[LS_MAX_RANK] = {0};
  for (uint32_t i = 0; i < node->num_inputs; ++i)
    in[i] = ls_emit_of(e, node->inputs[i]);
  ls_emitted out = ls_emit_element_of(e, node->type, node->outputs[0].dtype, in,
                                      node->num_inputs);
  ls_emit_bind(e, ls_ref(node->id, 0), out);
}

static void emit_node(ls_emitter *e, const ls_node *node) {
  if (node->type == LS_OP_CONSTANT)
    emit_constant(e, node);
  else if (ls_emit_composed(e) || ls_emit_flow_op(e) || ls_emit_stack_op(e) ||
           ls_emit_replica_op(e) || ls_emit_host_op(e))
    return;
  else if (is_element(node))
    emit_element(e, node);
  else
    ls_emit_refuse(e, "there is no form of this op");
}

void ls_emit_graph(ls_emitter *e) {
  const ls_graph *body = e->frame->source.body;
  const bool varies = e->varies;
  for (size_t i = 0; i < body->num_nodes && ls_emit_is_ok(e); ++i) {
    const ls_node *node = body->nodes[i];
    e->node = node;
    e->varies = varies || node->varying;
    if (node->type == LS_OP_PARAMETER) continue;
    const bool apart =
        e->frame->lanes != NULL && node->varying && !ls_emit_is_batched(e);
    for (int32_t k = 0; apart && k < e->num_lanes && ls_emit_is_ok(e); ++k) {
      e->lane = k;
      emit_node(e, node);
    }
    e->lane = apart ? -1 : e->lane;
    if (!apart) emit_node(e, node);
  }
  e->varies = varies;
}

ls_status ls_emit_program(ls_emitter *e) {
  ls_emit_graph(e);
  e->node = NULL;
  return ls_status_clone(e->status);
}
