// SPDX-License-Identifier: Apache-2.0
#include "graph/passes/rewrite.h"

typedef struct ls_rewrite_node {
  uint64_t before, behind;  // Neighbours in the order of nodes; 0: none.
  uint32_t inputs;  // Index of the use by its first operand; others follow.
  uint32_t first, last;  // List of uses of its results.
  uint32_t num_uses, num_leaving;
} ls_rewrite_node;

// ---- Lists -----------------------------------------------------------------
static void rewrite_add_use(ls_rewrite *r, uint32_t use, uint64_t ref) {
  ls_rewrite_node *used = &r->nodes[ls_ref_id(ref)];
  r->uses[use].before = used->last;
  r->uses[use].behind = 0;
  if (used->last != 0)
    r->uses[used->last].behind = use;
  else
    used->first = use;
  used->last = use;
  ++used->num_uses;
}

static void drop_use(ls_rewrite *r, uint32_t use, uint64_t ref) {
  ls_rewrite_node *used = &r->nodes[ls_ref_id(ref)];
  const ls_node_use *node_use = &r->uses[use];
  if (node_use->before != 0)
    r->uses[node_use->before].behind = node_use->behind;
  else
    used->first = node_use->behind;
  if (node_use->behind != 0)
    r->uses[node_use->behind].before = node_use->before;
  else
    used->last = node_use->before;
  --used->num_uses;
}

// Adds the operands of a node as uses.
static ls_status rewrite_list_inputs(ls_rewrite *r, ls_node *node) {
  const size_t first = r->num_uses;
  if (first + node->num_inputs > UINT32_MAX ||
      !LS_GROW(r->graph->allocator, r->uses, r->uses_capacity,
               first + node->num_inputs))
    return ls_out_of_memory();
  r->num_uses += node->num_inputs;
  r->nodes[node->id].inputs = (uint32_t)first;
  for (uint32_t k = 0; k < node->num_inputs; ++k) {
    r->uses[first + k] = (ls_node_use){.user = node, .input = k};
    rewrite_add_use(r, (uint32_t)first + k, node->inputs[k]);
  }
  return ls_ok();
}

// Inserts a node between two neighbours; 0 means that there is none on that
// side.
static void put_between(ls_rewrite *r, uint64_t id, uint64_t before,
                        uint64_t behind) {
  r->nodes[id].before = before;
  r->nodes[id].behind = behind;
  *(before != 0 ? &r->nodes[before].behind : &r->first) = id;
  *(behind != 0 ? &r->nodes[behind].before : &r->last) = id;
}

static void rewrite_take_out(ls_rewrite *r, uint64_t id) {
  const uint64_t before = r->nodes[id].before, behind = r->nodes[id].behind;
  *(before != 0 ? &r->nodes[before].behind : &r->first) = behind;
  *(behind != 0 ? &r->nodes[behind].before : &r->last) = before;
  r->changed = r->moved = true;
}

// ---- Begin, end ------------------------------------------------------------
static ls_status reserve(ls_rewrite *r, uint64_t id) {
  return ls_memory_status(
      LS_GROW(r->graph->allocator, r->nodes, r->nodes_capacity, id + 1));
}

ls_status ls_rewrite_begin(ls_rewrite *r, ls_graph *graph) {
  *r = (ls_rewrite){.graph = graph, .num_uses = 1};
  LS_RETURN_IF_ERROR(reserve(r, graph->next_id));
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    put_between(r, graph->nodes[i]->id, r->last, 0);
    LS_RETURN_IF_ERROR(rewrite_list_inputs(r, graph->nodes[i]));
  }
  for (size_t i = 0; i < graph->num_results; ++i)
    ++r->nodes[ls_ref_id(graph->results[i])].num_leaving;
  return ls_ok();
}

// Sorts the nodes into their order; erased nodes, which the graph still owns,
// come last.
static ls_status put_in_order(ls_rewrite *r) {
  ls_graph *graph = r->graph;
  const size_t count = graph->num_nodes;
  LS_OWN_ARRAY_OR_RETURN(graph->allocator, ls_node *, nodes, count);
  LS_OWN_ARRAY_OR_RETURN(graph->allocator, bool, keep, graph->next_id);
  size_t next = 0;
  for (uint64_t id = r->first; id != 0; id = r->nodes[id].behind) {
    nodes[next++] = ls_graph_node(graph, id);
    keep[id] = true;
  }
  for (size_t i = 0; i < count; ++i)
    if (!keep[graph->nodes[i]->id]) nodes[next++] = graph->nodes[i];
  memcpy(graph->nodes, nodes, count * sizeof(*nodes));
  return ls_graph_keep_nodes(graph, keep);
}

void ls_rewrite_deinit(ls_rewrite *r) {
  if (r->graph == NULL) return;
  ls_release(r->graph->allocator, r->nodes);
  ls_release(r->graph->allocator, r->uses);
  r->nodes = NULL;
  r->uses = NULL;
}

ls_status ls_rewrite_end(ls_rewrite *r) {
  const ls_status status = r->moved ? put_in_order(r) : ls_ok();
  ls_rewrite_deinit(r);
  return status;
}

// ---- Uses ------------------------------------------------------------------
static const ls_node_use *use_at(const ls_rewrite *r, uint32_t use) {
  return use != 0 ? &r->uses[use] : NULL;
}

const ls_node_use *ls_rewrite_first_use(const ls_rewrite *r, uint64_t id) {
  return use_at(r, r->nodes[id].first);
}

const ls_node_use *ls_rewrite_last_use(const ls_rewrite *r, uint64_t id) {
  return use_at(r, r->nodes[id].last);
}

const ls_node_use *ls_rewrite_next_use(const ls_rewrite *r,
                                       const ls_node_use *use) {
  return use_at(r, use->behind);
}

const ls_node_use *ls_rewrite_previous_use(const ls_rewrite *r,
                                           const ls_node_use *use) {
  return use_at(r, use->before);
}

uint32_t ls_rewrite_count_leaving(const ls_rewrite *r, uint64_t id) {
  return r->nodes[id].num_leaving;
}

uint32_t ls_rewrite_count_uses(const ls_rewrite *r, uint64_t id) {
  return r->nodes[id].num_uses + r->nodes[id].num_leaving;
}

ls_node *ls_rewrite_match(const ls_rewrite *r, uint64_t ref, uint16_t type) {
  ls_node *node = ls_graph_node_of(r->graph, ref);
  return node != NULL && node->type == type ? node : NULL;
}

// ---- Changes ---------------------------------------------------------------
// Returns the capture of a region that gets its value from operand `input` of a
// node, else NULL.
static ls_capture *captured_by(const ls_node *node, uint32_t input) {
  for (uint32_t r = node->num_regions; r > 0; --r) {
    const uint32_t first = ls_node_captures(node, r - 1);
    if (input >= first) return &node->regions[r - 1]->captures[input - first];
  }
  return NULL;
}

void ls_rewrite_set_input(ls_rewrite *r, ls_node *node, uint32_t input,
                          uint64_t ref) {
  const uint32_t use = r->nodes[node->id].inputs + input;
  drop_use(r, use, node->inputs[input]);
  rewrite_add_use(r, use, ref);
  node->inputs[input] = ref;
  ls_capture *capture = captured_by(node, input);
  if (capture != NULL) capture->outer.ref = ref;
  r->changed = true;
}

static void drop_inputs(ls_rewrite *r, const ls_node *node) {
  for (uint32_t k = 0; k < node->num_inputs; ++k)
    drop_use(r, r->nodes[node->id].inputs + k, node->inputs[k]);
}

ls_status ls_rewrite_set_inputs(ls_rewrite *r, ls_node *node,
                                const uint64_t *inputs, uint32_t count) {
  LS_ARENA_ARRAY_OR_RETURN(&r->graph->arena, uint64_t, copy, count);
  LS_ASSERT(node->num_regions == 0 || count == node->num_inputs);
  memcpy(copy, inputs, count * sizeof(*copy));
  drop_inputs(r, node);
  node->inputs = copy;
  node->num_inputs = count;
  for (uint32_t k = 0; k < count; ++k) {
    ls_capture *capture = captured_by(node, k);
    if (capture != NULL) capture->outer.ref = copy[k];
  }
  r->changed = true;
  return rewrite_list_inputs(r, node);
}

ls_status ls_rewrite_keep_inputs(ls_rewrite *r, ls_node *node,
                                 const bool *kept) {
  drop_inputs(r, node);
  uint32_t left = 0;
  for (uint32_t k = 0; k < node->num_inputs; ++k)
    if (kept[k]) node->inputs[left++] = node->inputs[k];
  node->num_inputs = left;
  r->changed = true;
  return rewrite_list_inputs(r, node);
}

ls_status ls_rewrite_retype(ls_rewrite *r, ls_node *node, uint16_t type,
                            const ls_type *outputs, uint32_t num_outputs) {
  LS_ARENA_ARRAY_OR_RETURN(&r->graph->arena, ls_type, copy, num_outputs);
  memcpy(copy, outputs, num_outputs * sizeof(*copy));
  node->type = type;
  node->outputs = copy;
  node->num_outputs = num_outputs;
  r->changed = true;
  return ls_ok();
}

void ls_rewrite_take_attrs(ls_rewrite *r, ls_node *node, const ls_node *from) {
  ls_node_retain_attrs(from);
  for (uint32_t i = 0; i < node->num_attrs; ++i) {
    if (node->attrs[i].kind == LS_ATTR_ARRAY)
      ls_array_release((ls_array *)(uintptr_t)node->attrs[i].as.array);
    if (node->attrs[i].kind == LS_ATTR_OBJECT)
      ls_object_release((ls_object *)(uintptr_t)node->attrs[i].as.object);
  }
  node->attrs = from->attrs;
  node->num_attrs = from->num_attrs;
  r->changed = true;
}

// Renumbers a node's results in all their uses: `to` maps outputs to new
// outputs.
static void tell_users(ls_rewrite *r, const ls_node *node, const uint32_t *to) {
  for (uint32_t use = r->nodes[node->id].first; use != 0;
       use = r->uses[use].behind) {
    const ls_node_use *node_use = &r->uses[use];
    uint64_t *ref = &node_use->user->inputs[node_use->input];
    *ref = ls_ref(node->id, to[ls_ref_output(*ref)]);
    ls_capture *capture = captured_by(node_use->user, node_use->input);
    if (capture != NULL) capture->outer.ref = *ref;
  }
  r->changed = true;
  if (r->nodes[node->id].num_leaving == 0) return;
  for (size_t i = 0; i < r->graph->num_results; ++i) {
    uint64_t *ref = &r->graph->results[i];
    if (ls_ref_id(*ref) == node->id)
      *ref = ls_ref(node->id, to[ls_ref_output(*ref)]);
  }
}

ls_status ls_rewrite_add_output(ls_rewrite *r, ls_node *node, uint32_t output,
                                ls_type type) {
  const uint32_t count = node->num_outputs;
  ls_type *types = ls_arena_new_array(&r->graph->arena, ls_type, count + 1U);
  LS_OWN_ARRAY(r->graph->allocator, uint32_t, to, count);
  if (types != NULL && to != NULL) {
    types[output] = type;
    for (uint32_t i = 0; i < count; ++i) {
      to[i] = i < output ? i : i + 1;
      types[to[i]] = node->outputs[i];
    }
    node->outputs = types;
    node->num_outputs = count + 1;
    tell_users(r, node, to);
  }
  const bool done = types != NULL && to != NULL;
  return ls_memory_status(done);
}

ls_status ls_rewrite_keep_outputs(ls_rewrite *r, ls_node *node,
                                  const bool *kept) {
  uint32_t left = 0;
  LS_OWN_ARRAY_OR_RETURN(r->graph->allocator, uint32_t, to, node->num_outputs);
  for (uint32_t i = 0; i < node->num_outputs; ++i) {
    to[i] = left;
    if (kept[i]) node->outputs[left++] = node->outputs[i];
  }
  if (left < node->num_outputs) tell_users(r, node, to);
  node->num_outputs = left;
  return ls_ok();
}

ls_status ls_rewrite_insert(ls_rewrite *r, ls_node *before,
                            const ls_op_spec *spec, const uint64_t *inputs,
                            ls_type output, ls_node **out_node) {
  ls_node *node = ls_graph_append(r->graph, spec, inputs, 1);
  *out_node = node;
  if (node == NULL) return ls_out_of_memory();
  node->outputs[0] = output;
  ls_node_take_place(node, NULL, before);
  node->once = before->once;
  node->varying = before->varying;
  LS_RETURN_IF_ERROR(reserve(r, node->id));
  put_between(r, node->id, r->nodes[before->id].before, before->id);
  r->changed = r->moved = true;
  return rewrite_list_inputs(r, node);
}

void ls_rewrite_move_behind(ls_rewrite *r, const ls_node *node,
                            const ls_node *other) {
  rewrite_take_out(r, node->id);
  put_between(r, node->id, other->id, r->nodes[other->id].behind);
}

void ls_rewrite_erase(ls_rewrite *r, ls_node *node) {
  LS_ASSERT(ls_rewrite_count_uses(r, node->id) == 0);
  drop_inputs(r, node);
  rewrite_take_out(r, node->id);
}
