// SPDX-License-Identifier: Apache-2.0
//
// Emits loops and branches. Values of enclosing regions that a region captures
// are used in it as they are.
#include "emit/emit.h"

// ---- Stacks -----------------------------------------------------------------
// Emits stacks: an array with room for all elements, and the number of those in
// it. The room is bounded by the trips of the loops that push: those that they
// count, or max_trips.

// ---- Room ------------------------------------------------------------------
// A stack in a graph, as far as ops there change it and hand it on.
typedef struct room_path {
  int64_t room;   // Number of pushes; -1: there is no bound.
  uint64_t last;  // The stack that nothing there takes.
} room_path;

static room_path follow(const ls_graph *graph, uint64_t ref);

static int64_t add_room(int64_t a, int64_t b) {
  return a < 0 || b < 0 || a + b > LS_MAX_SIZE ? -1 : a + b;
}

// Counts the pushes that a loop makes to the stack it carries at `index`.
static int64_t room_of_loop(const ls_graph *graph, const ls_node *node,
                            uint32_t index) {
  const ls_graph *body = node->regions[1];
  ls_trips counted;
  int64_t trips = ls_node_int(node, LS_ATTR_ID_MAX_TRIPS);
  if (ls_emit_count_trips(graph, node, &counted) && counted.limit < 0)
    trips = counted.most > 0 ? counted.most : 1;
  const int64_t pushes = follow(body, body->parameters[index]).room;
  if (pushes < 0 || (pushes > 0 && trips == 0) ||
      (trips > 0 && pushes > LS_MAX_SIZE / trips))
    return -1;
  return pushes * trips;
}

// Returns the index of a region's result; -1: the value is none.
static int64_t result_of(const ls_graph *graph, uint64_t ref) {
  int64_t i = (int64_t)graph->num_results - 1;
  while (i >= 0 && graph->results[i] != ref)
    --i;
  return i;
}

// Follows a stack through branches that capture it, and give it back as the
// same result, if they do.
static room_path follow_branches(const ls_node *node, uint64_t ref) {
  room_path path = {0};
  int64_t output = -1;
  for (uint32_t r = 0; r < 2 && path.room >= 0; ++r) {
    const ls_graph *branch = node->regions[r];
    const uint64_t *captured = node->inputs + ls_node_captures(node, r);
    for (size_t i = 0; i < branch->num_captures && path.room >= 0; ++i) {
      if (captured[i] != ref) continue;
      const room_path inside = follow(branch, branch->parameters[i]);
      const int64_t given = result_of(branch, inside.last);
      if (inside.room < 0 || inside.room > path.room) path.room = inside.room;
      if (output >= 0 && given >= 0 && given != output) path.room = -1;
      if (given >= 0) output = given;
    }
  }
  if (output >= 0) path.last = ls_ref(node->id, (uint32_t)output);
  return path;
}

// Follows a stack through the op that takes it; false: there is none.
static bool follow_op(const ls_graph *graph, room_path *path) {
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    const ls_node *node = graph->nodes[i];
    for (uint32_t k = 0; k < node->num_inputs; ++k) {
      if (node->inputs[k] != path->last) continue;
      room_path next = {.room = -1, .last = ls_ref(node->id, 0)};
      if (node->type == LS_OP_STACK_PUSH) {
        next.room = 1;
      } else if (node->type == LS_OP_STACK_POP) {
        next.room = 0;
      } else if (node->type == LS_OP_COND) {
        next = follow_branches(node, path->last);
      } else if (node->type == LS_OP_WHILE &&
                 k < ls_node_int(node, LS_ATTR_ID_NUM_CARRIED)) {
        next.room = room_of_loop(graph, node, k);
        next.last = ls_ref(node->id, k);
      }
      path->room = add_room(path->room, next.room);
      path->last = next.last;
      return path->room >= 0 && path->last != 0;
    }
  }
  return false;
}

static room_path follow(const ls_graph *graph, uint64_t ref) {
  room_path path = {.last = ref};
  while (follow_op(graph, &path))
    continue;
  return path;
}

// A branch that is not emitted yet, and the region around it, NULL for the one
// that is emitted.
typedef struct room_place {
  const ls_graph *graph;
  const ls_node *cond;
  const uint64_t *captured;
  const struct room_place *outer;
} room_place;

// Returns the room of a stack that begins empty, with the pushes that follow
// around its branch.
static int64_t room_from(const ls_emitter *e, const room_place *at,
                         uint64_t ref) {
  int64_t room = 0;
  for (;; at = at->outer) {
    const ls_graph *graph = at != NULL ? at->graph : e->frame->source.body;
    const room_path path = follow(graph, ref);
    room = add_room(room, path.room);
    const int64_t output = at != NULL ? result_of(graph, path.last) : -1;
    if (room < 0 || output < 0) return room;
    ref = ls_ref(at->cond->id, (uint32_t)output);
  }
}

static int64_t room_of_branches(ls_emitter *e, const room_place *outer,
                                const ls_node *cond, uint32_t output);

// Returns the room of a stack that a region makes; -1: there is no bound.
static int64_t room_of(ls_emitter *e, const room_place *at, uint64_t ref) {
  if (at == NULL)
    return ls_emit_look(e, ls_emit_owned_of(e, ref))->dims.dim[0].offset;
  const ls_node *node = ls_graph_node_of(at->graph, ref);
  switch (node->type) {
  case LS_OP_PARAMETER:
    return room_of(e, at->outer,
                   at->captured[ls_node_int(node, LS_ATTR_ID_INDEX)]);
  case LS_OP_WHILE:
    return room_of(e, at, node->inputs[ls_ref_output(ref)]);
  case LS_OP_COND:
    return room_of_branches(e, at, node, ls_ref_output(ref));
  case LS_OP_STACK_NEW:
    return room_from(e, at, ref);
  default:
    return node->num_inputs > 0 ? room_of(e, at, node->inputs[0]) : -1;
  }
}

// Returns the room of a stack that one of two branches makes.
static int64_t room_of_branches(ls_emitter *e, const room_place *outer,
                                const ls_node *cond, uint32_t output) {
  int64_t most = 1;
  for (uint32_t r = 0; r < 2 && most >= 0; ++r) {
    const ls_graph *graph = cond->regions[r];
    const room_place at = {graph, cond,
                           cond->inputs + ls_node_captures(cond, r), outer};
    const int64_t room = room_of(e, &at, graph->results[output]);
    if (room < 0 || room > most) most = room;
  }
  return most;
}

static void refuse_unbound(ls_emitter *e) {
  ls_emit_refuse(e, "its size has no bound: loops that push need max_trips, or "
                    "count to a constant");
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
  const int64_t room = follow(graph, ls_ref(node->id, 0)).room;
  ls_batch_dims dims = {.rank = shape.rank};
  for (int32_t i = 0; i < shape.rank; ++i)
    dims.dim[i] = ls_dim_of(shape.dim[i]);
  if (dtype == LS_DTYPE_VARIANT)
    ls_emit_refuse(e, "a stack of stacks has no form: a loop in a loop has no "
                      "gradient on devices");
  else if (room < 0)
    refuse_unbound(e);
  if (!ls_emit_is_ok(e)) return 0;
  dims = ls_emit_lead(e, dims, room > 0 ? room : 1);
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
  const ls_emitted row = ls_emit_reshape(e, item, ls_emit_lead(e, dims, 1));
  return stack_of(
      e, ls_emit_dynamic_update(e, stack, row, starts),
      ls_emit_2(e, LS_OP_ADD, depth, ls_emit_scalar(e, LS_DTYPE_I64, 1)));
}

// Below an endless stack's items are zeros, and it stays empty.
static void stack_pop(ls_emitter *e, const ls_node *node) {
  const ls_emitted stack = ls_operand(e, 0);
  const ls_emitted depth = ls_emit_look(e, stack)->depth;
  const ls_emitted zero = ls_emit_scalar(e, LS_DTYPE_I64, 0);
  const ls_emitted one = ls_emit_scalar(e, LS_DTYPE_I64, 1);
  const ls_emitted rest =
      ls_emit_2(e, LS_OP_MAXIMUM, ls_emit_2(e, LS_OP_SUB, depth, one), zero);
  const ls_emitted item = ls_emit_gather(e, stack, rest, 0);
  ls_compose_give(e, stack_of(e, stack, rest));
  ls_emit_bind(e, ls_ref(node->id, 1),
               ls_emit_select(e, ls_emit_2(e, LS_OP_GREATER, depth, zero), item,
                              ls_emit_number(e, item, 0)));
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

static ls_emitted_list new_list(ls_emitter *e, size_t count) {
  ls_emitted *items = ls_emit_new_list(e, count);
  return (ls_emitted_list){.items = items, .count = items != NULL ? count : 0};
}

// Appends the depths of stacks.
static ls_emitted_list with_depths(ls_emitter *e, ls_emitted_list values) {
  ls_emitted_list list = new_list(e, 2 * values.count);
  if (list.items == NULL) return list;
  list.count = values.count;
  for (size_t i = 0; i < values.count; ++i) {
    const ls_emitted depth = ls_emit_look(e, values.items[i])->depth;
    list.items[i] = values.items[i];
    if (depth != 0) list.items[list.count++] = depth;
  }
  return list;
}

// Gives stacks their depths, which follow them, as in `like`.
static ls_emitted_list take_depths(ls_emitter *e, ls_emitted_list values,
                                   ls_emitted_list like) {
  size_t at = like.count;
  for (size_t i = 0; i < like.count && i < values.count; ++i)
    if (ls_emit_look(e, like.items[i])->depth != 0 && at < values.count)
      e->values[values.items[i]].depth = values.items[at++];
  values.count = like.count < values.count ? like.count : values.count;
  return values;
}

// Values of a graph, and those of the language that carry them: values that
// each device has of its own are one.
typedef struct carriage {
  ls_emitted_list carriers;
  size_t count;
  size_t *at;       // Carrier of each value.
  int32_t *owners;  // Owner of each value.
} carriage;

// Returns the carrier of the value that an earlier one is on another device, or
// the next one.
static size_t carrier_of(const ls_emitter *e, const carriage *c, size_t index,
                         ls_emitted value) {
  const ls_emitted_value own = *ls_emit_look(e, value);
  for (size_t i = 0; own.owner > 1 && i < index; ++i)
    if (c->owners[i] == 1 &&
        ls_emit_look(e, c->carriers.items[c->at[i]])->origin == own.origin)
      return c->at[i];
  return c->carriers.count;
}

// `is_joined`: one carrier may carry several values; else each has its own.
static carriage make_carriage(ls_emitter *e, ls_emitted_list values,
                              bool is_joined) {
  carriage c = {.carriers = new_list(e, values.count + 1),
                .count = values.count,
                .at = ls_arena_new_array(e->memory, size_t, values.count + 1),
                .owners =
                    ls_arena_new_array(e->memory, int32_t, values.count + 1)};
  if (c.at == NULL || c.owners == NULL) ls_emit_fail(e, ls_out_of_memory());
  c.carriers.count = 0;
  for (size_t i = 0; ls_emit_is_ok(e) && i < values.count; ++i) {
    c.owners[i] = ls_emit_look(e, values.items[i])->owner;
    c.at[i] = is_joined ? carrier_of(e, &c, i, values.items[i]) : i;
    if (c.at[i] == c.carriers.count)
      c.carriers.items[c.carriers.count++] = values.items[i];
  }
  return c;
}

// Makes carriers of the same types.
static ls_emitted_list new_carriers(ls_emitter *e, const carriage *c) {
  ls_emitted_list list = new_list(e, c->carriers.count);
  for (size_t i = 0; i < list.count; ++i) {
    const ls_emitted_value from = *ls_emit_look(e, c->carriers.items[i]);
    list.items[i] = ls_emit_value(e, from.dtype, from.dims, NULL);
    e->values[list.items[i]].stacked = from.stacked;
  }
  return list;
}

// Returns the values that carriers carry.
static ls_emitted_list unload(ls_emitter *e, const carriage *c,
                              ls_emitted_list carriers) {
  ls_emitted_list values = new_list(e, c->count);
  for (size_t i = 0; i < values.count; ++i)
    values.items[i] =
        ls_emit_owned(e, carriers.items[c->at[i]], c->owners[i] - 1);
  return values;
}

// Returns the value for carrier `at`: what all its values are, or of each
// device its own one.
static ls_emitted load_one(ls_emitter *e, const carriage *c, size_t at,
                           ls_emitted_list values) {
  ls_emitted first = 0;
  bool is_common = true;
  ls_emitted *items = ls_emit_new_list(e, (size_t)e->num_devices);
  for (size_t i = 0; items != NULL && i < c->count; ++i) {
    if (c->at[i] != at) continue;
    const ls_emitted_value value = *ls_emit_look(e, values.items[i]);
    if (first == 0) first = values.items[i];
    is_common &= value.origin == ls_emit_look(e, first)->origin &&
                 (value.owner == 0 || value.owner == c->owners[i]);
    if (c->owners[i] > 0) items[c->owners[i] - 1] = values.items[i];
  }
  if (is_common || items == NULL) return ls_emit_owned(e, first, -1);
  for (int32_t d = 0; d < e->num_devices; ++d) {
    const ls_emitted item = items[d] != 0 ? items[d] : first;
    items[d] =
        ls_emit_look(e, item)->owner != 0 ? ls_emit_everywhere(e, item) : item;
  }
  return ls_emit_pick(e, items);
}

static ls_emitted_list load(ls_emitter *e, const carriage *c,
                            ls_emitted_list values) {
  ls_emitted_list list = new_list(e, c->carriers.count);
  for (size_t i = 0; i < list.count && values.count > 0; ++i)
    list.items[i] = load_one(e, c, i, values);
  return list;
}

// Enters region `r` of an op, whose declared parameters are `declared`.
static void enter_region(ls_emitter *e, const ls_node *node, uint32_t r,
                         ls_emitted_list declared, ls_emit_frame *frame) {
  ls_graph *region = node->regions[r];
  const uint64_t *captured = node->inputs + ls_node_captures(node, r);
  ls_emitted_list captures = new_list(e, region->num_captures);
  for (size_t i = 0; i < captures.count; ++i)
    captures.items[i] = ls_emit_owned_of(e, captured[i]);
  ls_emit_enter(e, region, 1, frame);
  for (size_t i = 0; i < declared.count && i < region->num_declared; ++i)
    ls_emit_bind(e, region->parameters[i], declared.items[i]);
  for (size_t i = 0; i < captures.count; ++i)
    ls_emit_bind(e, region->parameters[region->num_declared + i],
                 captures.items[i]);
}

static ls_emitted_list list_inputs(ls_emitter *e, const ls_node *node,
                                   size_t count) {
  ls_emitted_list list = new_list(e, count);
  for (size_t i = 0; i < list.count; ++i)
    list.items[i] = ls_emit_owned_of(e, node->inputs[i]);
  return list;
}

// Emits the ops of a region; returns its results.
static ls_emitted_list emit_region(ls_emitter *e, const ls_node *node,
                                   uint32_t r, ls_emitted_list declared) {
  ls_emit_frame frame;
  const ls_graph *region = node->regions[r];
  ls_emitted_list results = new_list(e, region->num_results);
  enter_region(e, node, r, declared, &frame);
  ls_emit_graph(e);
  e->node = node;
  for (size_t i = 0; i < region->num_results && i < results.count; ++i)
    results.items[i] = ls_emit_owned_of(e, region->results[i]);
  ls_emit_leave(e);
  return results;
}

static void bind_results(ls_emitter *e, const ls_node *node,
                         ls_emitted_list values) {
  for (uint32_t i = 0; i < node->num_outputs && i < values.count; ++i)
    ls_emit_bind(e, ls_ref(node->id, i), values.items[i]);
}

// ---- Loops -----------------------------------------------------------------
// Emits the condition, which also bounds the number of trips.
static ls_emitted loop_condition(ls_emitter *e, const ls_node *node,
                                 ls_emitted_list parameters, ls_emitted trips) {
  const int64_t most = ls_node_int(node, LS_ATTR_ID_MAX_TRIPS);
  const ls_emitted_list values = emit_region(e, node, 0, parameters);
  if (values.count == 0) return 0;
  ls_emitted limit = 0;
  if (node == e->around.loop)
    limit = e->around.num_trips;
  else if (most > 0)
    limit = ls_emit_scalar(e, LS_DTYPE_U64, (double)most);
  return limit == 0 ? values.items[0]
                    : ls_emit_2(e, LS_OP_AND, values.items[0],
                                ls_emit_2(e, LS_OP_LESS, trips, limit));
}

// Sets what random ops of a trip see: its step, or an iteration that no other
// trip has (ls_cpu_iteration).
static void begin_trip(ls_emitter *e, const ls_node *node, ls_emitted trips) {
  if (ls_node_int(node, LS_ATTR_ID_COUNTS_STEPS) != 0) {
    if (e->step != 0) e->step = ls_emit_2(e, LS_OP_ADD, e->step, trips);
    return;
  }
  const ls_emitted outer = e->iteration;
  if (outer == 0)
    e->iteration = trips;
  else
    e->iteration =
        ls_emit_2(e, LS_OP_ADD,
                  ls_emit_2(e, LS_OP_MUL, outer,
                            ls_emit_integer(e, LS_DTYPE_U64,
                                            UINT64_C(0x9E3779B97F4A7C15))),
                  trips);
}

static void count_steps(ls_emitter *e, const ls_node *node, ls_emitted trips) {
  if (ls_node_int(node, LS_ATTR_ID_COUNTS_STEPS) == 0) return;
  if (e->frame != &e->base) {
    ls_emit_refuse(e, "a loop in another region counts its trips as steps");
    return;
  }
  const ls_emitted most =
      e->steps != 0 ? e->steps : ls_emit_scalar(e, LS_DTYPE_U64, 1);
  e->steps = ls_emit_2(e, LS_OP_MAXIMUM, most, trips);
}

// Keeps the carriers of the last whole trip where a host call has failed. The
// language selects whole values by a scalar.
static void keep_whole_trips(ls_emitter *e, ls_emitted_list inside,
                             ls_emitted_list values, size_t count) {
  const ls_emitted is_live = ls_emit_is_live(e);
  for (size_t i = 0; i < count && ls_emit_is_ok(e); ++i) {
    const ls_emitted in[] = {is_live, values.items[i], inside.items[i]};
    const ls_emitted_value from = *ls_emit_look(e, inside.items[i]);
    values.items[i] = ls_emit_value(e, from.dtype, from.dims, NULL);
    if (values.items[i] == 0) return;
    e->values[values.items[i]].stacked = from.stacked;
    (void)e->language->element(e, LS_OP_SELECT, in, 3, values.items[i]);
  }
}

// The last carriers are the number of trips so far, and the ticket of the next
// host call, a failed one of which ends the loop, or what the loop's calls give
// after the launch.
static void emit_while(ls_emitter *e, const ls_node *node) {
  const ls_emit_flow *flow = e->language->flow;
  const ls_emitted step = e->step, iteration = e->iteration;
  const size_t count = (size_t)ls_node_int(node, LS_ATTR_ID_NUM_CARRIED);
  const ls_emitted_list first = list_inputs(e, node, count);
  carriage c = make_carriage(e, with_depths(e, first), true);
  const size_t last = c.carriers.count++;
  const bool calls = e->ticket != 0 && ls_emit_calls_host(node);
  const bool is_outer = calls && e->frame == &e->base;
  const bool is_around = node == e->around.loop;
  ls_emitted_list *blocks = &e->around.blocks;
  if (!ls_emit_is_ok(e)) return;
  if (is_outer) e->loop = node->id;
  c.carriers.items[last] = ls_emit_scalar(e, LS_DTYPE_U64, 0);
  if (calls) c.carriers.items[c.carriers.count++] = e->ticket;
  if (is_around) ls_emit_begin_blocks(e);
  if (is_around) ls_emit_append(e, &c.carriers, *blocks);
  const ls_emitted_list results = new_carriers(e, &c);
  const ls_emitted_list before = new_carriers(e, &c);
  const ls_emitted_list inside = new_carriers(e, &c);
  if (!ls_emit_is_ok(e)) return;
  flow->while_begin(e, c.carriers, before, results);
  if (calls) e->ticket = before.items[last + 1];
  e->around.trip = before.items[last];
  begin_trip(e, node, before.items[last]);
  ls_emitted holds =
      loop_condition(e, node, take_depths(e, unload(e, &c, before), first),
                     before.items[last]);
  if (calls) holds = ls_emit_2(e, LS_OP_AND, holds, ls_emit_is_live(e));
  if (!ls_emit_is_ok(e)) return;
  flow->while_next(e, holds, inside);
  if (calls) e->ticket = inside.items[last + 1];
  for (size_t i = 0; is_around && i < blocks->count; ++i)
    blocks->items[i] = inside.items[last + 1 + i];
  e->around.trip = inside.items[last];
  e->step = step;
  e->iteration = iteration;
  begin_trip(e, node, inside.items[last]);
  const ls_emitted_list values =
      load(e, &c,
           with_depths(
               e, emit_region(e, node, 1,
                              take_depths(e, unload(e, &c, inside), first))));
  e->step = step;
  e->iteration = iteration;
  if (!ls_emit_is_ok(e)) return;
  values.items[last] = ls_emit_2(e, LS_OP_ADD, inside.items[last],
                                 ls_emit_scalar(e, LS_DTYPE_U64, 1));
  if (is_outer) keep_whole_trips(e, inside, values, last + 1);
  if (calls) values.items[last + 1] = e->ticket;
  for (size_t i = 0; is_around && i < blocks->count; ++i)
    values.items[last + 1 + i] = blocks->items[i];
  flow->while_end(e, values, c.carriers);
  if (calls) e->ticket = results.items[last + 1];
  if (is_around)
    ls_emit_append(e, &e->around.given,
                   (ls_emitted_list){results.items + last + 1, blocks->count});
  if (is_outer || is_around) e->loop = 0;
  count_steps(e, node, results.items[last]);
  bind_results(e, node, take_depths(e, unload(e, &c, results), first));
}

// ---- Branches --------------------------------------------------------------
static size_t count_stacks(const ls_node *node) {
  size_t count = 0;
  for (uint32_t i = 0; i < node->num_outputs; ++i)
    count += node->outputs[i].dtype == LS_DTYPE_VARIANT;
  return count;
}

// Gives the stacks of a branch the room that those of both need.
static void even_rooms(ls_emitter *e, const ls_node *node,
                       ls_emitted_list values) {
  static const int64_t none[LS_MAX_RANK];
  for (uint32_t i = 0; i < values.count && ls_emit_is_ok(e); ++i) {
    ls_emitted_value stack = *ls_emit_look(e, values.items[i]);
    if (stack.depth == 0) continue;
    const int64_t room = room_of_branches(e, NULL, node, i);
    const int64_t more[LS_MAX_RANK] = {room - stack.dims.dim[0].offset};
    stack.dims.dim[0] = ls_dim_of(room);
    if (room < 0)
      refuse_unbound(e);
    else if (more[0] > 0)
      values.items[i] = stack_of(e,
                                 ls_emit_pad(e, values.items[i],
                                             ls_emit_scalar(e, stack.dtype, 0),
                                             none, more, none, stack.dims),
                                 stack.depth);
  }
}

// Appends the ticket of the next host call to a list, which has room.
static ls_emitted_list with_ticket(const ls_emitter *e, ls_emitted_list list,
                                   bool calls) {
  if (calls && list.items != NULL) list.items[list.count++] = e->ticket;
  return list;
}

// The first branch decides the types of the results.
static void emit_cond(ls_emitter *e, const ls_node *node) {
  const ls_emit_flow *flow = e->language->flow;
  const ls_emitted_list none = {0};
  const ls_emitted ticket = e->ticket;
  const bool calls = ticket != 0 && ls_emit_calls_host(node);
  const ls_emitted_list results =
      new_list(e, node->num_outputs + count_stacks(node) + calls);
  const ls_emitted predicate = ls_operand(e, 0);
  for (size_t i = 0; i < results.count; ++i)
    results.items[i] =
        ls_emit_value(e, LS_DTYPE_NONE, (ls_batch_dims){0}, NULL);
  if (!ls_emit_is_ok(e) || results.count == 0) return;
  flow->if_begin(e, predicate, results);
  const ls_emitted_list first = emit_region(e, node, 0, none);
  even_rooms(e, node, first);
  ls_emitted_list values = with_ticket(e, with_depths(e, first), calls);
  const carriage c = make_carriage(e, values, false);
  if (!ls_emit_is_ok(e)) return;
  for (size_t i = 0; i < results.count; ++i) {
    const ls_emitted_value from = *ls_emit_look(e, values.items[i]);
    ls_emitted_value *result = &e->values[results.items[i]];
    result->dtype = from.dtype;
    result->dims = from.dims;
    result->stacked = from.stacked;
  }
  flow->if_next(e, load(e, &c, values));
  e->ticket = ticket;
  const ls_emitted_list second = emit_region(e, node, 1, none);
  even_rooms(e, node, second);
  values = load(e, &c, with_ticket(e, with_depths(e, second), calls));
  if (!ls_emit_is_ok(e)) return;
  flow->if_end(e, values);
  if (calls) e->ticket = results.items[results.count - 1];
  bind_results(e, node, take_depths(e, unload(e, &c, results), first));
}

bool ls_emit_flow_op(ls_emitter *e) {
  const ls_node *node = e->node;
  if (node->type != LS_OP_WHILE && node->type != LS_OP_COND) return false;
  // Parts for the replica that is emitted are made outside of the regions.
  for (uint32_t i = 0; i < node->num_inputs; ++i)
    (void)ls_emit_owned_of(e, node->inputs[i]);
  if (e->language->flow == NULL)
    ls_emit_refuse(e, "there are no regions");
  else if (ls_node_attr(node, LS_ATTR_ID_NUM_SAVED) != NULL)
    ls_emit_refuse(e, "there are no stacks");
  else if (node->type == LS_OP_WHILE)
    emit_while(e, node);
  else
    emit_cond(e, node);
  return true;
}
