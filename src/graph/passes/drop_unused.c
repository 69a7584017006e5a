// SPDX-License-Identifier: Apache-2.0
//
// Removes everything unused from a lowered graph: nodes, loop values, results
// of branches, arguments and results of replicas, captures.
//
// For example, a loop with a gradient saves values on stacks. If only the loss
// is wanted, nothing pops from a stack: then the loop's output stack is unused,
// so the loop value is removed, and then the ops that push.
#include "base/memory/own.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"
#include "graph/walk.h"

// State of dropping in one graph.
typedef struct dropper {
  ls_rewrite r;
  // True if all merges inside a replicate op with several bodies are kept,
  // because all bodies must have the same merges, even if only some bodies use
  // them.
  bool keeps_merges;
  bool shrunk;  // True if a node lost outputs or operands, in regions too.
} dropper;
LS_OWNED_(dropper, dropper, ls_rewrite_deinit(&ls_owned->r))

// Returns true if an unused node is kept.
static bool node_stays(const ls_node *node, bool keeps_merges) {
  return ls_node_any_trait(node,
                           LS_OP_EFFECT | (keeps_merges ? LS_OP_MERGE : 0u));
}

// ---- Loop values -----------------------------------------------------------
// The node outputs of a region that the wanted results need. Ids of a lowered
// graph are dense.
typedef struct need {
  const ls_graph *graph;
  bool keeps_merges;
  bool *nodes;    // Indexed by id.
  size_t *first;  // Index of each node's output 0 in `outputs`, by id.
  bool *outputs;
} need;

static ls_status init_need(need *n, const ls_graph *graph, bool keeps_merges) {
  const uint64_t most =
      graph->num_nodes == 0 ? 0 : graph->nodes[graph->num_nodes - 1]->id;
  *n = (need){.graph = graph, .keeps_merges = keeps_merges};
  size_t count = 0;
  for (size_t i = 0; i < graph->num_nodes; ++i)
    count += graph->nodes[i]->num_outputs;
  n->nodes = ls_new_array(graph->allocator, bool, most + 1);
  n->first = ls_new_array(graph->allocator, size_t, most + 1);
  n->outputs = ls_new_array(graph->allocator, bool, count);
  if (n->nodes == NULL || n->first == NULL || n->outputs == NULL)
    return ls_out_of_memory();
  count = 0;
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    n->first[graph->nodes[i]->id] = count;
    count += graph->nodes[i]->num_outputs;
  }
  return ls_ok();
}

static void deinit_need(const need *n) {
  if (n->graph == NULL) return;
  ls_release(n->graph->allocator, n->nodes);
  ls_release(n->graph->allocator, n->first);
  ls_release(n->graph->allocator, n->outputs);
}
LS_OWNED_STRUCT(need, deinit_need)

static void drop_unused_mark(need *n, uint64_t ref) {
  n->nodes[ls_ref_id(ref)] = true;
  n->outputs[n->first[ls_ref_id(ref)] + ls_ref_output(ref)] = true;
}

static bool is_marked(const need *n, uint64_t ref) {
  return n->outputs[n->first[ls_ref_id(ref)] + ls_ref_output(ref)];
}

// Marks the operands of marked nodes and of nodes with effects.
static void mark_operands(need *n) {
  for (size_t i = n->graph->num_nodes; i > 0; --i) {
    const ls_node *node = n->graph->nodes[i - 1];
    if (node_stays(node, n->keeps_merges)) n->nodes[node->id] = true;
    for (uint32_t k = 0; n->nodes[node->id] && k < node->num_inputs; ++k)
      drop_unused_mark(n, node->inputs[k]);
  }
}

// Sets `kept` for the loop values that are used: after the loop, by its
// condition, or to compute a used value of the next iteration.
static ls_status find_round(const dropper *d, const ls_node *node, size_t count,
                            bool *kept) {
  const ls_graph *body = node->regions[1];
  LS_OWN(need, condition) = {0};
  LS_OWN(need, trip) = {0};
  LS_RETURN_IF_ERROR(init_need(&condition, node->regions[0], d->keeps_merges));
  LS_RETURN_IF_ERROR(init_need(&trip, body, d->keeps_merges));
  drop_unused_mark(&condition, condition.graph->results[0]);
  mark_operands(&condition);
  for (size_t i = 0; i < count; ++i)
    kept[i] |= is_marked(&condition, condition.graph->parameters[i]);
  for (bool grows = true; grows;) {
    grows = false;
    for (size_t i = 0; i < count; ++i)
      if (kept[i]) drop_unused_mark(&trip, body->results[i]);
    mark_operands(&trip);
    for (size_t i = 0; i < count; ++i)
      if (!kept[i] && is_marked(&trip, body->parameters[i]))
        kept[i] = grows = true;
  }
  return ls_ok();
}

// ---- Outputs and operands --------------------------------------------------
// Removes the items whose flag is not set; returns the number left.
static size_t keep_refs(uint64_t *refs, const bool *kept, size_t count) {
  size_t left = 0;
  for (size_t i = 0; i < count; ++i)
    if (kept[i]) refs[left++] = refs[i];
  return left;
}

static void set_int(ls_node *node, ls_attr_id id, size_t value) {
  for (uint32_t i = 0; i < node->num_attrs; ++i)
    if (node->attrs[i].id == id) node->attrs[i].as.i = (int64_t)value;
}

static void renumber_parameters(ls_graph *graph) {
  for (size_t i = 0; i < graph->num_parameters; ++i)
    set_int(ls_graph_node_of(graph, graph->parameters[i]), LS_ATTR_ID_INDEX, i);
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

// Flags a node's used outputs; the caller frees the flags.
static bool *used_outputs(const dropper *d, const ls_node *node) {
  const ls_graph *graph = d->r.graph;
  bool *used = ls_new_array(graph->allocator, bool, node->num_outputs);
  if (used == NULL) return NULL;
  for (const ls_node_use *use = ls_rewrite_first_use(&d->r, node->id);
       use != NULL; use = ls_rewrite_next_use(&d->r, use))
    used[ls_ref_output(use->user->inputs[use->input])] = true;
  if (ls_rewrite_count_leaving(&d->r, node->id) == 0) return used;
  for (size_t i = 0; i < graph->num_results; ++i)
    if (ls_ref_id(graph->results[i]) == node->id)
      used[ls_ref_output(graph->results[i])] = true;
  return used;
}

static size_t count_set(const bool *flags, size_t count) {
  size_t set = 0;
  for (size_t i = 0; i < count; ++i)
    set += flags[i];
  return set;
}

static ls_status keep_outputs(dropper *d, ls_node *node, const bool *kept) {
  d->shrunk |= count_set(kept, node->num_outputs) < node->num_outputs;
  return ls_rewrite_keep_outputs(&d->r, node, kept);
}

// Shrinks a loop. `used` flags its outputs: the loop values, then the saved
// ones.
static ls_status shrink_loop(dropper *d, ls_node *node, bool *used) {
  const size_t count = (size_t)ls_node_int(node, LS_ATTR_ID_NUM_CARRIED);
  LS_RETURN_IF_ERROR(find_round(d, node, count, used));
  const size_t left = count_set(used, count);
  if (left == count) return ls_ok();
  ls_allocator *allocator = d->r.graph->allocator;
  LS_OWN_ARRAY_OR_RETURN(allocator, bool, operands, node->num_inputs);
  for (uint32_t k = 0; k < node->num_inputs; ++k)
    operands[k] = k >= count || used[k];
  ls_graph *body = node->regions[1];
  body->num_results = keep_refs(body->results, used, count);
  keep_declared(body, used);
  keep_declared(node->regions[0], used);
  LS_RETURN_IF_ERROR(ls_rewrite_keep_inputs(&d->r, node, operands));
  LS_RETURN_IF_ERROR(keep_outputs(d, node, used));
  set_int(node, LS_ATTR_ID_NUM_CARRIED, left);
  return ls_ok();
}

static ls_status shrink_branches(dropper *d, ls_node *node, const bool *used) {
  for (size_t r = 0; r < 2; ++r)
    node->regions[r]->num_results =
        keep_refs(node->regions[r]->results, used, node->num_outputs);
  return keep_outputs(d, node, used);
}

// ---- Replicas --------------------------------------------------------------
// The used parts of a replicate op. Arguments: narrow ones, then wide ones.
// Results: gathered ones, then wide and uniform ones.
typedef struct replicate {
  ls_node *node;
  ls_replicate_counts n;
  size_t arguments, results;
  bool *used_arguments, *used_results;
} replicate;

static ls_status init_replicate(ls_node *node, const bool *used_outputs,
                                replicate *r) {
  ls_allocator *allocator = node->regions[0]->allocator;
  r->node = node;
  r->n = ls_replicate_counts_of(node->attrs, node->num_attrs);
  r->arguments = node->regions[0]->num_declared;
  r->results = node->regions[0]->num_results;
  r->used_arguments = ls_new_array(allocator, bool, r->arguments);
  r->used_results = ls_new_array(allocator, bool, r->results);
  if (r->used_arguments == NULL || r->used_results == NULL)
    return ls_out_of_memory();
  for (size_t i = 0; i < r->results; ++i) {
    const size_t count = i < r->n.gathered ? r->n.replicas : 1;
    for (size_t k = 0; k < count; ++k)
      r->used_results[i] |= *used_outputs++;
  }
  return ls_ok();
}

// Finds the arguments that the bodies need for the used results.
static ls_status find_arguments(const dropper *d, replicate *r) {
  const bool keeps_merges = d->keeps_merges || r->node->num_regions > 1;
  for (uint32_t k = 0; k < r->node->num_regions; ++k) {
    const ls_graph *body = r->node->regions[k];
    LS_OWN(need, n) = {0};
    LS_RETURN_IF_ERROR(init_need(&n, body, keeps_merges));
    for (size_t i = 0; i < r->results; ++i)
      if (r->used_results[i]) drop_unused_mark(&n, body->results[i]);
    mark_operands(&n);
    for (size_t i = 0; i < r->arguments; ++i)
      r->used_arguments[i] |= is_marked(&n, body->parameters[i]);
  }
  return ls_ok();
}

static ls_status keep_arguments(dropper *d, const replicate *r) {
  ls_node *node = r->node;
  const bool *used = r->used_arguments;
  if (count_set(used, r->arguments) == r->arguments) return ls_ok();
  ls_allocator *allocator = d->r.graph->allocator;
  LS_OWN_ARRAY_OR_RETURN(allocator, bool, operands, node->num_inputs);
  const size_t wide = r->n.split * r->n.replicas;
  for (size_t i = 0; i < node->num_inputs; ++i)
    operands[i] = i < wide                     ? used[i / r->n.replicas]
                  : i < wide + r->n.wide_split ? used[r->n.split + (i - wide)]
                                               : true;
  for (uint32_t k = 0; k < node->num_regions; ++k)
    keep_declared(node->regions[k], used);
  set_int(node, LS_ATTR_ID_NUM_SPLIT, count_set(used, r->n.split));
  set_int(node, LS_ATTR_ID_NUM_WIDE_SPLIT,
          count_set(used + r->n.split, r->n.wide_split));
  d->shrunk = true;
  return ls_rewrite_keep_inputs(&d->r, node, operands);
}

// Drops unused results. `outputs` flags used outputs; a result that one
// replica's user needs keeps the outputs of all replicas.
static ls_status keep_results(dropper *d, const replicate *r, bool *outputs) {
  ls_node *node = r->node;
  const bool *used = r->used_results;
  if (count_set(used, r->results) == r->results) return ls_ok();
  size_t output = 0;
  for (size_t i = 0; i < r->results; ++i)
    for (size_t k = 0; k < (i < r->n.gathered ? r->n.replicas : 1); ++k)
      outputs[output++] = used[i];
  for (uint32_t k = 0; k < node->num_regions; ++k)
    node->regions[k]->num_results =
        keep_refs(node->regions[k]->results, used, r->results);
  set_int(node, LS_ATTR_ID_NUM_GATHERED, count_set(used, r->n.gathered));
  set_int(node, LS_ATTR_ID_NUM_WIDE_GATHERED,
          count_set(used + r->n.gathered, r->n.wide_gathered));
  return keep_outputs(d, node, outputs);
}

static ls_status shrink_replicate(dropper *d, ls_node *node, bool *used) {
  replicate r = {0};
  LS_OWN_FIELD(d->r.graph->allocator, r.used_results);
  LS_OWN_FIELD(d->r.graph->allocator, r.used_arguments);
  LS_RETURN_IF_ERROR(init_replicate(node, used, &r));
  LS_RETURN_IF_ERROR(find_arguments(d, &r));
  LS_RETURN_IF_ERROR(keep_arguments(d, &r));
  return keep_results(d, &r, used);
}

// ---- Nodes with regions ----------------------------------------------------
static ls_status shrink(dropper *d, ls_node *node) {
  if (node->type != LS_OP_WHILE && node->type != LS_OP_COND &&
      node->type != LS_OP_REPLICATE)
    return ls_ok();
  LS_OWN_MEMORY(d->r.graph->allocator, bool, used) = used_outputs(d, node);
  LS_RETURN_IF_NO_MEMORY(used);
  return node->type == LS_OP_WHILE       ? shrink_loop(d, node, used)
         : node->type == LS_OP_REPLICATE ? shrink_replicate(d, node, used)
                                         : shrink_branches(d, node, used);
}

// ---- Graphs ----------------------------------------------------------------
static ls_status passes_drop(ls_graph *graph, bool keeps_merges,
                             bool *kept_captures, bool *out_shrunk);

// Drops unused nodes in a node's regions, and the operands of dropped captures.
static ls_status drop_in_regions(dropper *d, ls_node *node) {
  if (node->num_regions == 0) return ls_ok();
  ls_allocator *allocator = d->r.graph->allocator;
  LS_OWN_ARRAY_OR_RETURN(allocator, bool, kept, node->num_inputs);
  size_t input = ls_node_captures(node, 0);
  memset(kept, true, input * sizeof(*kept));
  const bool keeps_merges = d->keeps_merges || (node->type == LS_OP_REPLICATE &&
                                                node->num_regions > 1);
  for (uint32_t r = 0; r < node->num_regions; ++r) {
    const size_t count = node->regions[r]->num_captures;
    LS_RETURN_IF_ERROR(
        passes_drop(node->regions[r], keeps_merges, kept + input, &d->shrunk));
    input += count;
  }
  if (count_set(kept, node->num_inputs) == node->num_inputs) return ls_ok();
  d->shrunk = true;
  return ls_rewrite_keep_inputs(&d->r, node, kept);
}

static bool is_declared(const ls_graph *graph, const ls_node *node) {
  if (node->type != LS_OP_PARAMETER) return false;
  const size_t index = (size_t)ls_node_int(node, LS_ATTR_ID_INDEX);
  return index < graph->num_declared &&
         graph->parameters[index] == ls_ref(node->id, 0);
}

static ls_status drop_node(dropper *d, ls_node *node) {
  if (ls_rewrite_count_uses(&d->r, node->id) == 0 &&
      !node_stays(node, d->keeps_merges) && !is_declared(d->r.graph, node)) {
    ls_rewrite_erase(&d->r, node);
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(shrink(d, node));
  return drop_in_regions(d, node);
}

// Keeps the captures whose parameters are still used.
static void keep_captures(const dropper *d, bool *kept) {
  ls_graph *graph = d->r.graph;
  if (graph->num_captures == 0) return;
  uint64_t *parameters = graph->parameters + graph->num_declared;
  size_t left = 0;
  for (size_t i = 0; i < graph->num_captures; ++i) {
    kept[i] = ls_rewrite_count_uses(&d->r, ls_ref_id(parameters[i])) != 0;
    if (kept[i]) graph->captures[left++] = graph->captures[i];
  }
  keep_refs(parameters, kept, graph->num_captures);
  graph->num_parameters = graph->num_declared + left;
  graph->num_captures = left;
  renumber_parameters(graph);
}

// `kept_captures` (NULL: no captures) gets a flag for each capture. Sets
// `*out_shrunk` if another pass may find more.
static ls_status passes_drop(ls_graph *graph, bool keeps_merges,
                             bool *kept_captures, bool *out_shrunk) {
  LS_OWN(dropper, d) = {.keeps_merges = keeps_merges};
  LS_RETURN_IF_ERROR(ls_rewrite_begin(&d.r, graph));
  for (size_t i = graph->num_nodes; i > 0; --i)
    LS_RETURN_IF_ERROR(drop_node(&d, graph->nodes[i - 1]));
  if (kept_captures != NULL) keep_captures(&d, kept_captures);
  *out_shrunk |= d.shrunk;
  return ls_rewrite_end(&d.r);
}

// Repeats until nothing changes, because a value dropped from an inner loop may
// make a value of an outer loop unused.
ls_status ls_drop_unused(ls_graph *graph) {
  bool shrunk = true;
  while (shrunk) {
    shrunk = false;
    LS_RETURN_IF_ERROR(passes_drop(graph, false, NULL, &shrunk));
  }
  return ls_ok();
}
