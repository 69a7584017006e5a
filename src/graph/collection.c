// SPDX-License-Identifier: Apache-2.0
//
// Collections of a build graph.
#include "graph/graph.h"
#include "graph/trial.h"

#include "base/memory/allocator.h"
#include "base/require.h"

typedef struct collection {
  ls_nest *leaves;
  size_t count, capacity;
} collection;

static collection *collection_find(const ls_graph *graph, const char *name) {
  return ls_map_find_text(&graph->collections, name);
}

static size_t position(const collection *c, ls_nest leaf) {
  size_t at = 0;
  while (at < c->count && !ls_nest_is_same(c->leaves[at], leaf))
    ++at;
  return at;
}

ls_status ls_graph_add_to_collection(ls_graph *graph, const char *name,
                                     ls_nest leaf) {
  LS_REQUIRE(graph);
  LS_REQUIRE(name);
  collection *c = collection_find(graph, name);
  if (c == NULL) {
    c = ls_new(graph->allocator, collection);
    if (c == NULL) return ls_out_of_memory();
    if (!ls_map_insert_text(&graph->collections, name, c)) {
      ls_release(graph->allocator, c);
      return ls_out_of_memory();
    }
  }
  if (position(c, leaf) < c->count) return ls_ok();
  if (!ls_grow(graph->allocator, &c->leaves, &c->capacity, c->count + 1,
               sizeof(*c->leaves)))
    return ls_out_of_memory();
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
  const size_t at = position(c, leaf);
  if (at == c->count) return;
  // Without memory to note it, it stays out whatever comes.
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
  // Nothing has been added since that was not taken out again: there is room.
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
