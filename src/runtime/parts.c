// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan.h"

#include "graph/walk.h"

enum { NONE = UINT32_MAX };

// Finds the parts: disjoint sets of the graph's nodes, joined step by step.
typedef struct finder {
  const ls_lower_request *request;
  const ls_graph *graph;
  bool *needed;
  uint32_t *parent;  // Towards the root of a set; a root is its own parent.
  uint32_t *effect;  // Node with effects in the same part, or NONE.
  bool *waits;       // Indexed by root: the set has a node that waits.
  ls_map variables;  // Family -> 1 + position of a node that uses it.
  ls_map written;    // Families that are written.
  ls_map states;     // State of host kernels -> 1 + position of a node.
  ls_map orders;     // Order key of host kernels -> 1 + position of a node.
} finder;

static uint32_t parts_root_of(const finder *f, uint32_t i) {
  while (f->parent[i] != i)
    i = f->parent[i];
  return i;
}

static void parts_join(finder *f, uint32_t a, uint32_t b) {
  const uint32_t to = parts_root_of(f, a), from = parts_root_of(f, b);
  f->parent[from] = to;
  f->waits[to] |= f->waits[from];
}

// ---- Needed nodes ----------------------------------------------------------
static bool is_fed(const finder *f, uint64_t ref) {
  for (size_t i = 0; i < f->request->num_feeds; ++i)
    if (f->request->feeds[i] == ref) return true;
  return false;
}

static void parts_need(finder *f, uint64_t id) {
  const size_t at = ls_graph_position(f->graph, id);
  if (at != SIZE_MAX) f->needed[at] = true;
}

static void mark_needed(finder *f) {
  const ls_lower_request *request = f->request;
  for (size_t i = 0; i < request->num_fetches; ++i)
    if (!is_fed(f, request->fetches[i]))
      parts_need(f, ls_ref_id(request->fetches[i]));
  for (size_t i = 0; i < request->num_targets; ++i)
    parts_need(f, request->targets[i].id);
  for (size_t i = f->graph->num_nodes; i-- > 0;) {
    const ls_node *node = f->graph->nodes[i];
    if (!f->needed[i]) continue;
    for (uint32_t k = 0; k < node->num_inputs; ++k)
      if (!is_fed(f, node->inputs[k]))
        parts_need(f, ls_ref_id(node->inputs[k]));
    for (uint32_t k = 0; k < node->num_control; ++k)
      parts_need(f, node->control[k]);
  }
}

// ---- Ties ------------------------------------------------------------------
static bool waits(const ls_node *node) {
  if (node->type != LS_OP_HOST) return false;
  const ls_attr *kernel = ls_node_attr(node, LS_ATTR_ID_KERNEL);
  return (kernel->as.kernel->flags & LS_HOST_WAITS) != 0;
}

// Returns true if `visit` returns true for the node or for one in its regions.
static bool any_inside(finder *f, const ls_node *node, uint32_t at,
                       bool (*visit)(finder *f, const ls_node *node,
                                     uint32_t at)) {
  bool found = false;
  ls_graph_walk walk;
  for (ls_graph_walk_begin_at(&walk, node); ls_graph_walk_next(&walk);)
    found |= visit(f, walk.node, at);
  return found;
}

// Returns true without memory.
static bool visit_write(finder *f, const ls_node *node, uint32_t at) {
  (void)at;
  return ls_node_assigns(node) &&
         !ls_map_insert_u64(&f->written, ls_node_named_variable(node)->family,
                            f);
}

// Joins a node with the first node of this key.
static bool join_by(finder *f, ls_map *map, uint64_t key, uint32_t at) {
  const uintptr_t first = (uintptr_t)ls_map_find_u64(map, key);
  if (first != 0) parts_join(f, (uint32_t)first - 1, at);
  return first != 0 || ls_map_insert_u64(map, key, (void *)((uintptr_t)at + 1));
}

static bool visit_variable(finder *f, const ls_node *node, uint32_t at) {
  const ls_variable *variable = ls_node_named_variable(node);
  if (variable == NULL ||
      ls_map_find_u64(&f->written, variable->family) == NULL)
    return false;
  f->effect[at] = at;
  return !join_by(f, &f->variables, variable->family, at);
}

static bool visit_state(finder *f, const ls_node *node, uint32_t at) {
  if (node->type != LS_OP_HOST) return false;
  f->effect[at] = at;
  const ls_attr *state = ls_node_attr(node, LS_ATTR_ID_STATE);
  if (state == NULL) return false;
  const ls_host_kernel *kernel =
      ls_node_attr(node, LS_ATTR_ID_KERNEL)->as.kernel;
  if (kernel->order != NULL)
    return !join_by(f, &f->orders, kernel->order(state->as.object), at);
  return !waits(node) &&
         !join_by(f, &f->states, (uint64_t)(uintptr_t)state->as.object, at);
}

// Ties a node to all nodes with effects that it needs through values and
// control edges.
static void join_inputs(finder *f, const ls_node *node, uint32_t at) {
  for (uint32_t k = 0; k < node->num_inputs + node->num_control; ++k) {
    const bool is_value = k < node->num_inputs;
    if (is_value && is_fed(f, node->inputs[k])) continue;
    const size_t from = ls_graph_position(
        f->graph, is_value ? ls_ref_id(node->inputs[k])
                           : node->control[k - node->num_inputs]);
    if (from == SIZE_MAX || f->effect[from] == NONE) continue;
    if (f->effect[at] == NONE)
      f->effect[at] = f->effect[from];
    else
      parts_join(f, f->effect[at], f->effect[from]);
  }
}

static size_t count_waiting(const finder *f) {
  size_t count = 0;
  for (uint32_t i = 0; i < f->graph->num_nodes; ++i)
    count += f->needed[i] && f->effect[i] == i && parts_root_of(f, i) == i &&
             f->waits[i];
  return count;
}

static ls_status join_all(finder *f) {
  const uint32_t count = (uint32_t)f->graph->num_nodes;
  bool failed = false;
  for (uint32_t i = 0; i < count; ++i)
    if (f->needed[i])
      failed |= any_inside(f, f->graph->nodes[i], i, visit_write);
  for (uint32_t i = 0; i < count && !failed; ++i) {
    const ls_node *node = f->graph->nodes[i];
    if (!f->needed[i]) continue;
    if (ls_node_has_effects(node)) f->effect[i] = i;
    failed |= any_inside(f, node, i, visit_variable);
    failed |= any_inside(f, node, i, visit_state);
    join_inputs(f, node, i);
  }
  return failed ? ls_out_of_memory() : ls_ok();
}

// ---- Parts -----------------------------------------------------------------
// Returns the part of a node; all sets that do not wait are the first part.
static uint32_t parts_part_of(const finder *f, uint64_t id, uint32_t *numbers,
                              size_t *count) {
  const size_t at = ls_graph_position(f->graph, id);
  if (at == SIZE_MAX || f->effect[at] == NONE) return 0;
  const uint32_t root = parts_root_of(f, f->effect[at]);
  if (!f->waits[root]) return 0;
  if (numbers[root] == NONE) numbers[root] = (uint32_t)(*count)++;
  return numbers[root];
}

static void number_parts(const finder *f, uint32_t *numbers,
                         ls_program_parts *out) {
  const ls_lower_request *request = f->request;
  size_t count = 0;
  for (size_t i = 0; i < request->num_fetches; ++i)
    out->fetches[i] =
        is_fed(f, request->fetches[i])
            ? 0
            : parts_part_of(f, ls_ref_id(request->fetches[i]), numbers, &count);
  for (size_t i = 0; i < request->num_targets; ++i)
    out->targets[i] = parts_part_of(f, request->targets[i].id, numbers, &count);
  out->count = count;
}

static ls_status parts_find(finder *f, ls_arena *memory,
                            ls_program_parts *out) {
  const size_t count = f->graph->num_nodes;
  mark_needed(f);
  size_t num_waiting = 0;
  for (uint32_t i = 0; i < count; ++i) {
    f->parent[i] = i;
    f->effect[i] = NONE;
    f->waits[i] = f->needed[i] && ls_node_any(f->graph->nodes[i], waits);
    num_waiting += f->waits[i];
  }
  if (num_waiting < 2) return ls_ok();
  LS_RETURN_IF_ERROR(join_all(f));
  if (count_waiting(f) < 2) return ls_ok();
  LS_ARENA_ARRAY_OR_RETURN(memory, uint32_t, numbers, count);
  memset(numbers, 0xff, count * sizeof(*numbers));
  number_parts(f, numbers, out);
  return ls_ok();
}

ls_status ls_find_parts(const ls_lower_request *request, ls_arena *memory,
                        ls_program_parts *out_parts) {
  const size_t count = request->graph->num_nodes;
  finder f = {.request = request, .graph = request->graph};
  f.needed = ls_arena_new_array(memory, bool, count + 1);
  f.waits = ls_arena_new_array(memory, bool, count + 1);
  f.parent = ls_arena_new_array(memory, uint32_t, count + 1);
  f.effect = ls_arena_new_array(memory, uint32_t, count + 1);
  *out_parts = (ls_program_parts){
      .count = 1,
      .fetches = ls_arena_new_array(memory, uint32_t, request->num_fetches + 1),
      .targets =
          ls_arena_new_array(memory, uint32_t, request->num_targets + 1)};
  if (f.needed == NULL || f.waits == NULL || f.parent == NULL ||
      f.effect == NULL || out_parts->fetches == NULL ||
      out_parts->targets == NULL)
    return ls_out_of_memory();
  ls_allocator *allocator = request->graph->allocator;
  ls_map_init(&f.variables, allocator);
  ls_map_init(&f.written, allocator);
  ls_map_init(&f.states, allocator);
  ls_map_init(&f.orders, allocator);
  const ls_status status = parts_find(&f, memory, out_parts);
  ls_map_deinit(&f.variables);
  ls_map_deinit(&f.written);
  ls_map_deinit(&f.states);
  ls_map_deinit(&f.orders);
  return status;
}
