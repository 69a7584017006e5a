// SPDX-License-Identifier: Apache-2.0
//
// Removing what nothing uses: nodes, values that go round in loops, results of
// branches, captures.
//
// A loop whose gradient was built saves values for it; when only the loss is
// wanted, or when a value was only asked for its shape, nothing takes from the
// stack. Then nobody uses the loop's last stack, the value that goes round
// goes, and with it what pushed.
#include "graph/passes.h"

// Which outputs of a graph's nodes are used. Ids of a lowered graph are dense.
typedef struct usage {
  ls_graph *graph;
  bool *nodes;    // By id.
  size_t *first;  // By id: the place of output 0 in what follows.
  bool *outputs;
  uint32_t *moved;  // What output this one becomes.
  bool shrunk;      // A node lost outputs or operands, at any depth.
  // It is inside of one of several bodies of a replicate op, which all meet in
  // the same merges, also in those that only some of them use.
  bool keeps_merges;
} usage;

static bool has_host_effect(const ls_node *node) {
  if (ls_node_info(node)->traits & LS_OP_EFFECT) return true;
  for (uint32_t r = 0; r < node->num_regions; ++r)
    for (size_t i = 0; i < node->regions[r]->num_nodes; ++i)
      if (has_host_effect(node->regions[r]->nodes[i])) return true;
  return false;
}

static bool has_merge(const ls_node *node) {
  if (ls_node_info(node)->traits & LS_OP_MERGE) return true;
  for (uint32_t r = 0; r < node->num_regions; ++r)
    for (size_t i = 0; i < node->regions[r]->num_nodes; ++i)
      if (has_merge(node->regions[r]->nodes[i])) return true;
  return false;
}

// Whether a node stays though nobody uses it.
static bool stays(const usage *u, const ls_node *node) {
  return has_host_effect(node) || (u->keeps_merges && has_merge(node));
}

static ls_status init_usage(usage *u, ls_graph *graph, bool keeps_merges) {
  const uint64_t most =
      graph->num_nodes == 0 ? 0 : graph->nodes[graph->num_nodes - 1]->id;
  *u = (usage){.graph = graph, .keeps_merges = keeps_merges};
  size_t count = 0;
  for (size_t i = 0; i < graph->num_nodes; ++i)
    count += graph->nodes[i]->num_outputs;
  u->nodes = ls_new_array(graph->allocator, bool, most + 1);
  u->first = ls_new_array(graph->allocator, size_t, most + 1);
  u->outputs = ls_new_array(graph->allocator, bool, count);
  u->moved = ls_new_array(graph->allocator, uint32_t, count);
  if (u->nodes == NULL || u->first == NULL || u->outputs == NULL ||
      u->moved == NULL)
    return ls_out_of_memory();
  count = 0;
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    const ls_node *node = graph->nodes[i];
    u->first[node->id] = count;
    for (uint32_t k = 0; k < node->num_outputs; ++k)
      u->moved[count++] = k;
  }
  return ls_ok();
}

static void deinit_usage(usage *u) {
  ls_release(u->graph->allocator, u->nodes);
  ls_release(u->graph->allocator, u->first);
  ls_release(u->graph->allocator, u->outputs);
  ls_release(u->graph->allocator, u->moved);
}

static void mark(usage *u, uint64_t ref) {
  u->nodes[ls_ref_id(ref)] = true;
  u->outputs[u->first[ls_ref_id(ref)] + ls_ref_output(ref)] = true;
}

static bool is_marked(const usage *u, uint64_t ref) {
  return u->outputs[u->first[ls_ref_id(ref)] + ls_ref_output(ref)];
}

// Marks what the marked nodes and those with effects need.
static void mark_operands(usage *u) {
  for (size_t i = u->graph->num_nodes; i > 0; --i) {
    const ls_node *node = u->graph->nodes[i - 1];
    if (stays(u, node)) u->nodes[node->id] = true;
    for (uint32_t k = 0; u->nodes[node->id] && k < node->num_inputs; ++k)
      mark(u, node->inputs[k]);
  }
}

// ---- Outputs ---------------------------------------------------------------
// Takes the items out whose flag is not set; returns how many are left.
static size_t keep_refs(uint64_t *refs, const bool *kept, size_t count) {
  size_t left = 0;
  for (size_t i = 0; i < count; ++i)
    if (kept[i]) refs[left++] = refs[i];
  return left;
}

// The same for a node's outputs; those who use them are told at the end.
static void keep_outputs(usage *u, ls_node *node, const bool *kept) {
  uint32_t left = 0;
  for (uint32_t i = 0; i < node->num_outputs; ++i) {
    if (!kept[i]) continue;
    u->moved[u->first[node->id] + i] = left;
    node->outputs[left++] = node->outputs[i];
  }
  u->shrunk |= left < node->num_outputs;
  node->num_outputs = left;
}

static void set_int(ls_node *node, const char *name, size_t value) {
  for (uint32_t i = 0; i < node->num_attrs; ++i)
    if (strcmp(node->attrs[i].name, name) == 0)
      node->attrs[i].as.i = (int64_t)value;
}

static void renumber_parameters(ls_graph *graph) {
  for (size_t i = 0; i < graph->num_parameters; ++i)
    set_int(ls_graph_node_of(graph, graph->parameters[i]), "index", i);
}

static void keep_declared(ls_graph *graph, const bool *kept) {
  const size_t before = graph->num_declared;
  graph->num_declared = keep_refs(graph->parameters, kept, before);
  if (graph->num_declared == before) return;
  memmove(graph->parameters + graph->num_declared, graph->parameters + before,
          (graph->num_parameters - before) * sizeof(*graph->parameters));
  graph->num_parameters -= before - graph->num_declared;
  renumber_parameters(graph);
}

// Sets `kept` for what goes round and is used: after the loop, by its
// condition, or by what a value that is used becomes in the next trip.
static ls_status find_round(const usage *u, const ls_node *node, size_t count,
                            bool *kept) {
  const ls_graph *body = node->regions[1];
  usage condition, trip = {.graph = node->regions[1]};
  ls_status status = init_usage(&condition, node->regions[0], u->keeps_merges);
  if (status == NULL)
    status = init_usage(&trip, node->regions[1], u->keeps_merges);
  if (status == NULL) {
    mark(&condition, condition.graph->results[0]);
    mark_operands(&condition);
  }
  bool more = status == NULL;
  for (size_t i = 0; more && i < count; ++i)
    kept[i] |= is_marked(&condition, condition.graph->parameters[i]);
  while (more) {
    more = false;
    for (size_t i = 0; i < count; ++i)
      if (kept[i]) mark(&trip, body->results[i]);
    mark_operands(&trip);
    for (size_t i = 0; i < count; ++i)
      if (!kept[i] && is_marked(&trip, body->parameters[i]))
        kept[i] = more = true;
  }
  deinit_usage(&condition);
  deinit_usage(&trip);
  return status;
}

static ls_status shrink_loop(usage *u, ls_node *node) {
  const size_t count = (size_t)ls_node_int(node, "num_carried", 0);
  bool *kept = ls_new_array(u->graph->allocator, bool, count);
  if (kept == NULL) return ls_out_of_memory();
  memcpy(kept, u->outputs + u->first[node->id], count * sizeof(*kept));
  ls_status status = find_round(u, node, count, kept);
  size_t left = 0;
  for (size_t i = 0; i < count; ++i)
    left += kept[i];
  if (status == NULL && left < count) {
    ls_graph *body = node->regions[1];
    body->num_results = keep_refs(body->results, kept, count);
    keep_declared(body, kept);
    keep_declared(node->regions[0], kept);
    keep_refs(node->inputs, kept, count);
    memmove(node->inputs + left, node->inputs + count,
            (node->num_inputs - count) * sizeof(*node->inputs));
    node->num_inputs -= (uint32_t)(count - left);
    keep_outputs(u, node, kept);
    set_int(node, "num_carried", left);
  }
  ls_release(u->graph->allocator, kept);
  return status;
}

static void shrink_branches(usage *u, ls_node *node) {
  const bool *kept = u->outputs + u->first[node->id];
  const size_t count = node->num_outputs;
  for (size_t r = 0; r < 2; ++r)
    node->regions[r]->num_results =
        keep_refs(node->regions[r]->results, kept, count);
  keep_outputs(u, node, kept);
}

// ---- Graphs ----------------------------------------------------------------
static ls_status drop(ls_graph *graph, bool keeps_merges, bool *kept_captures,
                      bool *out_shrunk);

// The regions of a node, and the operands for their captures.
static ls_status drop_in_regions(usage *u, ls_node *node) {
  size_t input = node->num_inputs;
  for (uint32_t r = 0; r < node->num_regions; ++r)
    input -= node->regions[r]->num_captures;
  size_t left = input;
  const bool keeps_merges = u->keeps_merges || (node->type == LS_OP_REPLICATE &&
                                                node->num_regions > 1);
  for (uint32_t r = 0; r < node->num_regions; ++r) {
    const size_t count = node->regions[r]->num_captures;
    bool *kept = ls_new_array(u->graph->allocator, bool, count);
    if (kept == NULL) return ls_out_of_memory();
    const ls_status status =
        drop(node->regions[r], keeps_merges, kept, &u->shrunk);
    for (size_t i = 0; status == NULL && i < count; ++i, ++input)
      if (kept[i]) node->inputs[left++] = node->inputs[input];
    ls_release(u->graph->allocator, kept);
    LS_RETURN_IF_ERROR(status);
  }
  u->shrunk |= left < node->num_inputs;
  node->num_inputs = (uint32_t)left;
  return ls_ok();
}

static ls_status mark_node(usage *u, ls_node *node) {
  if (stays(u, node)) u->nodes[node->id] = true;
  if (!u->nodes[node->id]) return ls_ok();
  if (node->type == LS_OP_WHILE) LS_RETURN_IF_ERROR(shrink_loop(u, node));
  if (node->type == LS_OP_COND) shrink_branches(u, node);
  if (node->num_regions != 0) LS_RETURN_IF_ERROR(drop_in_regions(u, node));
  for (uint32_t k = 0; k < node->num_inputs; ++k)
    mark(u, node->inputs[k]);
  return ls_ok();
}

static void keep_captures(usage *u, bool *kept) {
  ls_graph *graph = u->graph;
  if (graph->num_captures == 0) return;
  uint64_t *parameters = graph->parameters + graph->num_declared;
  size_t left = 0;
  for (size_t i = 0; i < graph->num_captures; ++i) {
    kept[i] = is_marked(u, parameters[i]);
    if (kept[i]) graph->captures[left++] = graph->captures[i];
  }
  keep_refs(parameters, kept, graph->num_captures);
  graph->num_parameters = graph->num_declared + left;
  graph->num_captures = left;
  renumber_parameters(graph);
}

static uint64_t moved(const usage *u, uint64_t ref) {
  return ls_ref(ls_ref_id(ref),
                u->moved[u->first[ls_ref_id(ref)] + ls_ref_output(ref)]);
}

static void tell_users(const usage *u) {
  const ls_graph *graph = u->graph;
  for (size_t i = 0; i < graph->num_results; ++i)
    graph->results[i] = moved(u, graph->results[i]);
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    const ls_node *node = graph->nodes[i];
    for (uint32_t k = 0; k < node->num_inputs; ++k)
      node->inputs[k] = moved(u, node->inputs[k]);
    for (uint32_t r = 0; r < node->num_regions; ++r)
      for (size_t c = 0; c < node->regions[r]->num_captures; ++c) {
        ls_tensor *outer = &node->regions[r]->captures[c].outer;
        outer->ref = moved(u, outer->ref);
      }
  }
}

// `kept_captures` tells which captures are left; NULL if there are none.
// Sets `*out_shrunk` if more may be unused now.
static ls_status drop(ls_graph *graph, bool keeps_merges, bool *kept_captures,
                      bool *out_shrunk) {
  usage u;
  ls_status status = init_usage(&u, graph, keeps_merges);
  for (size_t i = 0; status == NULL && i < graph->num_declared; ++i)
    mark(&u, graph->parameters[i]);
  for (size_t i = 0; status == NULL && i < graph->num_results; ++i)
    mark(&u, graph->results[i]);
  for (size_t i = graph->num_nodes; status == NULL && i > 0; --i)
    status = mark_node(&u, graph->nodes[i - 1]);
  if (status == NULL) {
    if (kept_captures != NULL) keep_captures(&u, kept_captures);
    tell_users(&u);
    status = ls_graph_keep_nodes(graph, u.nodes);
  }
  *out_shrunk |= u.shrunk;
  deinit_usage(&u);
  return status;
}

// What an inner loop no longer takes may leave a value of an outer one unused.
ls_status ls_drop_unused(ls_graph *graph) {
  ls_status status = ls_ok();
  bool shrunk = true;
  while (status == NULL && shrunk) {
    shrunk = false;
    status = drop(graph, false, NULL, &shrunk);
  }
  return status;
}
