// SPDX-License-Identifier: Apache-2.0
//
// Decides if replicas can run as one batch. Replicas of one class can; several
// classes run one after the other up to each merge, to which all contribute.
#include "base/runtime_internal.h"
#include "engine/cpu/compile/batching.h"
#include "engine/cpu/kernels/batched.h"

// Most classes: more are rare, and are faster as lanes shared by threads.
enum { MOST_CLASSES = 4 };

// ---- Nodes -----------------------------------------------------------------
static bool can_run(const ls_node *node) {
  if (!node->varying || node->type == LS_OP_PARAMETER ||
      node->type == LS_OP_CONSTANT || node->type == LS_OP_BARRIER)
    return true;
  return node->num_regions == 0 && node->type != LS_OP_HOST &&
         ls_kernel_prepare_of(node->type) != NULL &&
         (ls_node_info(node)->traits & LS_OP_MERGE) == 0 &&
         node->num_inputs + node->num_outputs < LS_CPU_PER_LANE_OPERANDS;
}

static bool all_can_run(const ls_graph *graph) {
  for (size_t i = 0; i < graph->num_nodes; ++i)
    if (!can_run(graph->nodes[i])) return false;
  return true;
}

// Returns true if a node's value depends on the replica that computes it.
static bool depends_on_replica(const ls_node *node) {
  const unsigned traits = ls_node_info(node)->traits;
  return (traits & LS_OP_VARYING) != 0 ||
         ((traits & LS_OP_RANDOM) != 0 &&
          !ls_node_int(node, LS_ATTR_ID_SAME_ON_ALL_REPLICAS));
}

// Returns true if all replicas of a class compute the same, having neither
// examples nor other values of their own.
static bool are_alike(const ls_cpu_region *region, const ls_graph *graph) {
  for (uint32_t s = 0; s < region->num_split; ++s)
    if (ls_shape_num_elements(
            ls_graph_type(graph, graph->parameters[s]).shape) != 0)
      return false;
  for (size_t i = 0; i < graph->num_nodes; ++i)
    if (graph->nodes[i]->varying && depends_on_replica(graph->nodes[i]))
      return false;
  return true;
}

// Marks the nodes that have a value per lane: with one class all nodes that
// vary between replicas, otherwise those that vary within the class.
static void mark_varying(ls_cpu_batched *self) {
  const ls_graph *graph = self->graph;
  const bool alone = self->region->num_bodies == 1;
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    const ls_node *node = graph->nodes[i];
    bool varies = node->varying && depends_on_replica(node);
    if (node->type == LS_OP_PARAMETER) varies = self->lanes == self->replicas;
    for (uint32_t n = 0; n < node->num_inputs; ++n)
      varies = varies || ls_cpu_batched_varies(self, node->inputs[n]);
    self->varies[i] = node->varying && (alone || varies);
  }
}

// ---- Classes ---------------------------------------------------------------
// Finds the first replica of a class; returns false if its replicas are not
// consecutive.
static bool find_first(const ls_cpu_region *region, uint32_t k,
                       uint32_t replicas, uint32_t *out_first) {
  uint32_t first = 0;
  while (first < replicas && region->classes[first] != k)
    ++first;
  *out_first = first;
  for (uint32_t i = 0; i < region->bodies[k].num_lanes; ++i)
    if (first + i >= replicas || region->classes[first + i] != k) return false;
  return true;
}

static ls_status init_class(ls_cpu_classes *classes, uint32_t k) {
  ls_arena *temp = &classes->compiler->temp;
  ls_cpu_body *body = &classes->region->bodies[k];
  ls_cpu_batched *self = &classes->items[k];
  const size_t count = body->graph->num_nodes;
  self->compiler = classes->compiler;
  self->region = classes->region;
  self->body = body;
  self->graph = body->graph;
  self->scope = &body->scope;
  // Counts this rank's replicas; with several ranks there is one class.
  const ls_cpu_share *share = &classes->compiler->share;
  self->replicas =
      ls_cpu_has_remote(share) ? ls_cpu_num_local(share) : body->num_lanes;
  self->lanes = classes->count > 1 && are_alike(classes->region, body->graph)
                    ? 1
                    : self->replicas;
  LS_ARENA_SET_OR_RETURN(temp, bool, self->varies, count);
  LS_ARENA_SET_OR_RETURN(temp, bool, self->is_merged, count);
  LS_ARENA_SET_OR_RETURN(temp, bool, self->needs, count);
  mark_varying(self);
  return ls_ok();
}

// Marks values of shared code that the class uses.
static void find_needs(ls_cpu_batched *self) {
  const ls_graph *graph = self->graph;
  const ls_cpu_region *region = self->region;
  for (size_t i = 0; i < graph->num_nodes; ++i)
    for (uint32_t n = 0;
         self->body->twins[i] == LS_NO_TWIN && n < graph->nodes[i]->num_inputs;
         ++n)
      self->needs[ls_graph_position(
          graph, ls_ref_id(graph->nodes[i]->inputs[n]))] = true;
  for (uint32_t m = 0; m < region->num_merges; ++m)
    self->needs[ls_graph_position(
        graph, ls_ref_id(self->body->merges[m]->inputs[0]))] = true;
  for (uint32_t g = 0; g < region->num_given; ++g)
    self->needs[ls_graph_position(graph, ls_ref_id(graph->results[g]))] = true;
}

// ---- The order of emission -------------------------------------------------
static void count_uses(const ls_graph *graph, uint32_t *uses) {
  for (size_t i = 0; i < graph->num_nodes; ++i)
    for (uint32_t n = 0; n < graph->nodes[i]->num_inputs; ++n)
      ++uses[ls_graph_position(graph, ls_ref_id(graph->nodes[i]->inputs[n]))];
  for (size_t i = 0; i < graph->num_results; ++i)
    ++uses[ls_graph_position(graph, ls_ref_id(graph->results[i]))];
}

// Orders the merges by their positions in the first class.
static void sort_merges(ls_cpu_classes *self) {
  for (uint32_t m = 0; m < self->region->num_merges; ++m) {
    uint32_t at = m;
    while (at > 0 && self->addends[self->order[at - 1] * self->count].before >
                         self->addends[m * self->count].before) {
      self->order[at] = self->order[at - 1];
      --at;
    }
    self->order[at] = m;
  }
}

static ls_status find_merges(ls_cpu_classes *self) {
  ls_arena *temp = &self->compiler->temp;
  const uint32_t merges = self->region->num_merges;
  uint32_t **uses = ls_arena_new_array(temp, uint32_t *, self->count);
  self->addends = ls_arena_new_array(temp, ls_cpu_addend, merges * self->count);
  self->order = ls_arena_new_array(temp, uint32_t, merges);
  self->unsent = ls_arena_new_array(temp, ls_cpu_unsent, merges);
  if (uses == NULL || self->addends == NULL || self->order == NULL ||
      self->unsent == NULL)
    return ls_out_of_memory();
  for (uint32_t k = 0; k < self->count; ++k) {
    const ls_graph *graph = self->items[k].graph;
    LS_ARENA_SET_OR_RETURN(temp, uint32_t, uses[k], graph->num_nodes);
    count_uses(graph, uses[k]);
  }
  for (uint32_t m = 0; m < merges; ++m)
    ls_cpu_find_addends(self, uses, m);
  sort_merges(self);
  return ls_ok();
}

// Returns true if the operands of nodes `from` to `node_end` of class k exist
// when the nodes are emitted: merges, and values of shared code, of which
// `shared` nodes have been emitted.
static bool can_emit_all(const ls_cpu_classes *self, uint32_t k, size_t from,
                         size_t node_end, size_t shared, const bool *is_done) {
  const ls_cpu_batched *class = &self->items[k];
  for (size_t i = from; i < node_end; ++i) {
    const ls_node *node = class->graph->nodes[i];
    const uint32_t twin = class->body->twins[i];
    if (k > 0 && twin != LS_NO_TWIN && class->needs[i] && twin >= shared &&
        node->type != LS_OP_PARAMETER && node->type != LS_OP_CONSTANT &&
        (ls_node_info(node)->traits & LS_OP_MERGE) == 0)
      return false;
    if (ls_node_info(node)->traits & LS_OP_MERGE)
      for (uint32_t m = 0; m < self->region->num_merges; ++m)
        if (class->body->merges[m] == node && !is_done[m]) return false;
  }
  return true;
}

// Simulates the emission; returns true if every class finds all operands.
static bool is_in_order(const ls_cpu_classes *self) {
  ls_arena *temp = &self->compiler->temp;
  const uint32_t merges = self->region->num_merges;
  bool *is_done = ls_arena_new_array(temp, bool, merges);
  size_t at[MOST_CLASSES] = {0};
  if (is_done == NULL) return false;
  for (uint32_t e = 0; e <= merges; ++e)
    for (uint32_t k = 0; k < self->count; ++k) {
      const uint32_t m = e < merges ? self->order[e] : 0;
      const size_t node_end = e < merges
                                  ? self->addends[m * self->count + k].before
                                  : self->items[k].graph->num_nodes;
      if (!can_emit_all(self, k, at[k], node_end, at[0], is_done)) return false;
      if (node_end > at[k]) at[k] = node_end;
      if (e < merges && k + 1 == self->count) is_done[m] = true;
    }
  return true;
}

bool ls_cpu_plan_classes(ls_cpu_compiler *compiler, ls_cpu_region *region,
                         ls_cpu_classes *out) {
  *out = (ls_cpu_classes){
      .compiler = compiler, .region = region, .count = region->num_bodies};
  const uint32_t replicas = (uint32_t)compiler->share.replicas;
  if (replicas < 2 || out->count > MOST_CLASSES ||
      (ls_cpu_has_remote(&compiler->share) && out->count > 1) ||
      ls_debug_lanes(compiler->out->backend->runtime) != LS_LANES_TOGETHER)
    return false;
  out->items = ls_arena_new_array(&compiler->temp, ls_cpu_batched, out->count);
  if (!ls_cpu_has_memory(compiler, out->items != NULL)) return false;
  for (uint32_t k = 0; k < out->count; ++k) {
    if (!all_can_run(region->bodies[k].graph) ||
        !find_first(region, k, replicas, &out->items[k].first))
      return false;
    if (ls_cpu_has_remote(&compiler->share))
      out->items[k].first = (uint32_t)compiler->share.first;
    const ls_status status = init_class(out, k);
    if (!ls_status_is_ok(status)) {
      ls_cpu_fail(compiler, status);
      return false;
    }
    find_needs(&out->items[k]);
  }
  const ls_status status = find_merges(out);
  if (ls_status_is_ok(status)) return is_in_order(out);
  ls_cpu_fail(compiler, status);
  return false;
}
