// SPDX-License-Identifier: Apache-2.0
//
// Collections of a build graph.
#include "graph/graph.h"
#include "graph/trial.h"

#include "base/memory/allocator.h"
#include "base/require.h"
#include "graph/context.h"
#include "graph/variables/variable.h"
#include "graph/walk.h"

typedef struct collection {
  ls_nest *leaves;
  size_t count, capacity;
} collection;

static collection *collection_find(const ls_graph *graph, const char *name) {
  return ls_map_find_text(&graph->collections, name);
}

static size_t position_of_leaf(const collection *c, ls_nest leaf) {
  size_t at = 0;
  while (at < c->count && !ls_nest_is_same(c->leaves[at], leaf))
    ++at;
  return at;
}

ls_status ls_graph_add_to_collection(ls_graph *graph, const char *name,
                                     ls_nest leaf) {
  LS_REQUIRE(graph, name);
  collection *c = collection_find(graph, name);
  if (c == NULL) {
    LS_SET_ARRAY_OR_RETURN(graph->allocator, collection, c, 1);
    if (!ls_map_insert_text(&graph->collections, name, c)) {
      ls_release(graph->allocator, c);
      return ls_out_of_memory();
    }
  }
  if (position_of_leaf(c, leaf) < c->count) return ls_ok();
  LS_RETURN_IF_NO_MEMORY(
      LS_GROW(graph->allocator, c->leaves, c->capacity, c->count + 1));
  if (!ls_graph_note(
          graph,
          (ls_graph_undo){.kind = LS_UNDO_ADDED, .text = name, .leaf = leaf}))
    return ls_out_of_memory();
  c->leaves[c->count++] = ls_nest_retain(leaf);
  return ls_ok();
}

void ls_graph_remove_from_collection(ls_graph *graph, const char *name,
                                     ls_nest leaf) {
  collection *c = collection_find(graph, name);
  if (c == NULL) return;
  const size_t at = position_of_leaf(c, leaf);
  if (at == c->count) return;
  // If memory for the undo entry is missing, a refused call does not undo this
  // removal.
  (void)!ls_graph_note(graph, (ls_graph_undo){.kind = LS_UNDO_REMOVED,
                                              .text = name,
                                              .before = at,
                                              .leaf = leaf});
  ls_nest_release(c->leaves[at]);
  for (size_t i = at + 1; i < c->count; ++i)
    c->leaves[i - 1] = c->leaves[i];
  --c->count;
}

void ls_graph_restore_to_collection(ls_graph *graph, const char *name,
                                    ls_nest leaf, size_t position) {
  // The list has room: all additions after the removal have been undone by now.
  collection *c = collection_find(graph, name);
  for (size_t i = c->count++; i > position; --i)
    c->leaves[i] = c->leaves[i - 1];
  c->leaves[position] = leaf;
}

size_t ls_graph_collection(const ls_graph *graph, const char *name,
                           ls_nest *leaves, size_t capacity) {
  const collection *c = collection_find(graph, name);
  for (size_t i = 0; c != NULL && i < c->count && i < capacity; ++i)
    leaves[i] = c->leaves[i];
  return c == NULL ? 0 : c->count;
}

const ls_nest *ls_collection_leaves(const void *value, size_t *out_count) {
  const collection *c = value;
  *out_count = c->count;
  return c->leaves;
}

void ls_graph_drop_collections(ls_graph *graph) {
  ls_map_item item;
  for (size_t at = 0; ls_map_next(&graph->collections, &at, &item);) {
    collection *c = item.value;
    for (size_t i = 0; i < c->count; ++i)
      ls_nest_release(c->leaves[i]);
    ls_release(graph->allocator, c->leaves);
    ls_release(graph->allocator, c);
  }
  ls_map_deinit(&graph->collections);
}

// ---- Losses -----------------------------------------------------------------
// Facts about the losses in a graph: how the last one was reduced, whether an
// optimizer has scaled it, and whether an optimizer's step is in the graph.
// Replicas that share a graph have records of their own, which are swapped with
// their fibers (distribute/replicas/rounds.c). A training step in a region
// counts for the graphs around it, too. In eager mode each tape starts with an
// empty record.
ls_status ls_graph_record_loss_reduction(ls_graph *graph,
                                         const char *reduction) {
  LS_REQUIRE(graph, reduction);
  graph = ls_graph_resolve(graph);
  const char *kept = ls_graph_intern(graph, reduction);
  if (kept == NULL) return ls_out_of_memory();
  graph->losses.reduction = kept;
  return ls_ok();
}

const char *ls_graph_loss_reduction(const ls_graph *graph) {
  graph = ls_graph_resolve((ls_graph *)(uintptr_t)graph);
  return graph->losses.reduction != NULL ? graph->losses.reduction : "";
}

void ls_graph_set_loss_scaled(ls_graph *graph, bool scaled) {
  ls_graph_resolve(graph)->losses.scaled = scaled;
}

bool ls_graph_is_loss_scaled(const ls_graph *graph) {
  return ls_graph_resolve((ls_graph *)(uintptr_t)graph)->losses.scaled;
}

void ls_graph_set_gradients_summed(ls_graph *graph, bool summed) {
  ls_graph_resolve(graph)->losses.summed = summed;
}

bool ls_graph_sums_gradients(const ls_graph *graph) {
  return ls_graph_resolve((ls_graph *)(uintptr_t)graph)->losses.summed;
}

void ls_graph_note_training(ls_graph *graph) {
  for (; graph != NULL; graph = graph->parent) {
    graph = ls_graph_resolve(graph);
    graph->trains = true;
  }
}

void ls_graph_keep_gradients(ls_graph *graph) { graph->keeps_gradients = true; }

bool ls_graph_keeps_gradients(const ls_graph *graph) {
  while (graph != NULL && !graph->keeps_gradients)
    graph = graph->parent;
  return graph != NULL;
}

// ---- Exports ----------------------------------------------------------------
// Information for exports: the variable that an access refers to, and why a
// graph that was traced earlier cannot be exported.
static bool is_packed_handle(const ls_variable *variable) {
  const ls_variable *container =
      variable->num_targets > 0 ? variable->targets[0]->container : NULL;
  return container != NULL && container->packed == variable;
}

ls_variable *ls_variable_meant(const ls_variable *variable) {
  if (ls_context_current()->scoped.primaries_only) {
    if (variable->num_components > 0) return variable->components[0];
    if (is_packed_handle(variable)) return variable->targets[0];
  }
  return (ls_variable *)(uintptr_t)variable;
}

ls_status ls_graph_note_unsaveable(ls_graph *graph, const char *why) {
  graph = ls_graph_resolve(graph);
  if (ls_context_current()->scoped.exporting != 0 ||
      graph->kind == LS_GRAPH_EAGER || graph->unsaveable != NULL)
    return ls_ok();
  graph->unsaveable = ls_graph_intern(graph, why);
  return ls_memory_status(graph->unsaveable != NULL);
}

const char *ls_graph_unsaveable(const ls_graph *graph) {
  graph = ls_graph_resolve((ls_graph *)(uintptr_t)graph);
  const char *why = graph->unsaveable;
  ls_graph_walk walk;
  for (ls_graph_walk_begin(&walk, graph);
       why == NULL && ls_graph_walk_next(&walk);)
    why = walk.graph->unsaveable;
  return why;
}
