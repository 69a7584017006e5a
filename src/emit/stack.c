// SPDX-License-Identifier: Apache-2.0
//
// Emits stacks: an array with room for all elements, and the number of those in
// it. The room is bounded by the trips of the loops that push: those that they
// count, or max_trips.
#include "emit/emit.h"

// ---- Room ------------------------------------------------------------------
static int64_t room_after(const ls_graph *graph, uint64_t ref);

static int64_t add_room(int64_t a, int64_t b) {
  return a < 0 || b < 0 || a + b > LS_MAX_SIZE ? -1 : a + b;
}

// Counts the pushes that a loop makes to the stack it carries at `index`.
static int64_t room_of_loop(const ls_graph *graph, const ls_node *node,
                            uint32_t index) {
  const ls_graph *body = node->regions[1];
  ls_emit_trips counted;
  int64_t trips = ls_node_int(node, LS_ATTR_ID_MAX_TRIPS);
  if (ls_emit_count_trips(graph, node, &counted) && counted.limit < 0)
    trips = counted.most > 0 ? counted.most : 1;
  const int64_t pushes = room_after(body, body->parameters[index]);
  if (pushes < 0 || (pushes > 0 && trips == 0) ||
      (trips > 0 && pushes > LS_MAX_SIZE / trips))
    return -1;
  return add_room(pushes * trips, room_after(graph, ls_ref(node->id, index)));
}

// Counts the pushes to a stack in what follows in a graph; -1: there is no
// bound, or a branch pushes.
static int64_t room_after(const ls_graph *graph, uint64_t ref) {
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    const ls_node *node = graph->nodes[i];
    for (uint32_t k = 0; k < node->num_inputs; ++k) {
      if (node->inputs[k] != ref) continue;
      switch (node->type) {
      case LS_OP_STACK_PUSH:
        return add_room(1, room_after(graph, ls_ref(node->id, 0)));
      case LS_OP_STACK_POP:
        return room_after(graph, ls_ref(node->id, 0));
      case LS_OP_WHILE:
        if (k < ls_node_int(node, LS_ATTR_ID_NUM_CARRIED))
          return room_of_loop(graph, node, k);
        return -1;
      default:
        return -1;
      }
    }
  }
  return 0;
}

// ---- Ops -------------------------------------------------------------------
static ls_emitted stack_of(ls_emitter *e, ls_emitted items, ls_emitted depth) {
  const ls_emitted_value from = *ls_emit_look(e, items);
  const ls_emitted out = ls_emit_value(e, from.dtype, from.dims, NULL);
  if (out == 0) return 0;
  e->values[out] = from;
  e->values[out].depth = depth;
  return out;
}

static ls_emitted stack_new(ls_emitter *e, const ls_node *node) {
  const ls_graph *graph = e->frame->source.body;
  const ls_dtype dtype = ls_node_attr(node, LS_ATTR_ID_DTYPE)->as.dtype;
  const ls_shape shape = ls_node_attr(node, LS_ATTR_ID_SHAPE)->as.shape;
  const int64_t room = room_after(graph, ls_ref(node->id, 0));
  ls_batch_dims dims = {.rank = shape.rank};
  for (int32_t i = 0; i < shape.rank; ++i)
    dims.dim[i] = ls_dim_of(shape.dim[i]);
  if (room < 0 || dtype == LS_DTYPE_VARIANT || shape.rank >= LS_MAX_RANK) {
    ls_emit_refuse(
        e,
        "its size has no bound: loops that push need max_trips, or count to a "
        "constant");
    return 0;
  }
  dims = ls_dims_with_leading(dims, room > 0 ? room : 1);
  return stack_of(e, ls_emit_broadcast(e, ls_emit_scalar(e, dtype, 0), dims),
                  ls_emit_scalar(e, LS_DTYPE_I64, 0));
}

static ls_emitted stack_push(ls_emitter *e) {
  const ls_emitted stack = ls_operand(e, 0), item = ls_operand(e, 1);
  const ls_emitted depth = ls_emit_look(e, stack)->depth;
  ls_emitted starts[LS_MAX_RANK];
  const ls_batch_dims dims = ls_batch_dims_at(e, item);
  const ls_emitted zero = ls_emit_scalar(e, LS_DTYPE_I64, 0);
  for (int32_t i = 0; i < LS_MAX_RANK; ++i)
    starts[i] = i == 0 ? depth : zero;
  const ls_emitted row =
      ls_emit_reshape(e, item, ls_dims_with_leading(dims, 1));
  return stack_of(
      e, ls_emit_dynamic_update(e, stack, row, starts),
      ls_emit_2(e, LS_OP_ADD, depth, ls_emit_scalar(e, LS_DTYPE_I64, 1)));
}

static void stack_pop(ls_emitter *e, const ls_node *node) {
  const ls_emitted stack = ls_operand(e, 0);
  const ls_emitted depth =
      ls_emit_2(e, LS_OP_SUB, ls_emit_look(e, stack)->depth,
                ls_emit_scalar(e, LS_DTYPE_I64, 1));
  ls_compose_give(e, stack_of(e, stack, depth));
  ls_emit_bind(e, ls_ref(node->id, 1), ls_emit_gather(e, stack, depth, 0));
}

bool ls_emit_stack_op(ls_emitter *e) {
  const uint16_t op = e->node->type;
  if (op != LS_OP_STACK_NEW && op != LS_OP_STACK_PUSH && op != LS_OP_STACK_POP)
    return false;
  if (e->language->flow == NULL)
    ls_emit_refuse(e, "there are no stacks");
  else if (op == LS_OP_STACK_NEW)
    ls_compose_give(e, stack_new(e, e->node));
  else if (op == LS_OP_STACK_PUSH)
    ls_compose_give(e, stack_push(e));
  else
    stack_pop(e, e->node);
  return true;
}
