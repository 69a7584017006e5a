// SPDX-License-Identifier: Apache-2.0
#include "nn/optimizer.h"

#include <stdlib.h>

#include "base/memory/own.h"
#include "graph/variables/variable.h"
#include "lockstep/shape_rules.h"

// A node that was not visited yet.
typedef struct place {
  ls_graph *graph;
  ls_node *node;
} place;

typedef struct walk {
  ls_allocator *allocator;
  ls_map *seen;  // Addresses of visited nodes and variables.
  place *stack;
  size_t depth, stack_capacity;
  ls_variable **variables;
  size_t count, capacity;
} walk;

static ls_status mark_seen(walk *w, const void *address, bool *out_new) {
  const uint64_t key = (uintptr_t)address;
  *out_new = ls_map_find_u64(w->seen, key) == NULL;
  if (!*out_new || ls_map_insert_u64(w->seen, key, w)) return ls_ok();
  return ls_out_of_memory();
}

static ls_status reads_push(walk *w, ls_graph *graph, uint64_t id) {
  graph = ls_graph_resolve(graph);
  ls_node *node = ls_graph_node(graph, id);
  bool is_new = false;
  if (node == NULL) return ls_ok();
  LS_RETURN_IF_ERROR(mark_seen(w, node, &is_new));
  if (!is_new) return ls_ok();
  LS_PUSH_OR_RETURN(w->allocator, w->stack, w->depth, w->stack_capacity,
                    (place){graph, node});
  return ls_ok();
}

static ls_status add_read(walk *w, const ls_node *node) {
  ls_variable *variable = ls_node_named_variable(node);
  bool is_new = false;
  // A read may name a component, but a step moves all of them together.
  if (variable != NULL && variable->container != NULL)
    variable = variable->container;
  if (variable == NULL || !variable->trainable ||
      !ls_dtype_is_trainable(variable->type.dtype))
    return ls_ok();
  LS_RETURN_IF_ERROR(mark_seen(w, variable, &is_new));
  if (!is_new) return ls_ok();
  LS_PUSH_OR_RETURN(w->allocator, w->variables, w->count, w->capacity,
                    variable);
  return ls_ok();
}

// Pushes the outer value of a captured parameter.
static ls_status push_outer(walk *w, const place *at) {
  const ls_graph *graph = at->graph;
  for (size_t i = 0; i < graph->num_captures; ++i) {
    if (ls_ref_id(graph->captures[i].inner) == at->node->id)
      return reads_push(w, graph->captures[i].outer.graph,
                        ls_ref_id(graph->captures[i].outer.ref));
  }
  return ls_ok();
}

static ls_status visit_node(walk *w, const place *at) {
  const ls_node *node = at->node;
  if (node->type == LS_OP_READ) return add_read(w, node);
  if (node->type == LS_OP_PARAMETER) return push_outer(w, at);
  for (uint32_t i = 0; i < node->num_inputs; ++i)
    LS_RETURN_IF_ERROR(reads_push(w, at->graph, ls_ref_id(node->inputs[i])));
  for (uint32_t i = 0; i < node->num_regions; ++i) {
    ls_graph *region = node->regions[i];
    for (size_t k = 0; k < region->num_results; ++k)
      LS_RETURN_IF_ERROR(reads_push(w, region, ls_ref_id(region->results[k])));
  }
  return ls_ok();
}

static int by_id(const void *a, const void *b) {
  const uint64_t x = (*(ls_variable *const *)a)->id;
  const uint64_t y = (*(ls_variable *const *)b)->id;
  return (x > y) - (x < y);
}

ls_status ls_reads_find(ls_allocator *allocator, ls_tensor value,
                        ls_variable ***out_variables, size_t *out_count) {
  walk w = {.allocator = allocator};
  LS_OWN(ls_map, seen) = {0};
  ls_map_init(&seen, allocator);
  w.seen = &seen;
  LS_OWN_FIELD(allocator, w.stack);
  LS_OWN_FIELD(allocator, w.variables);
  *out_variables = NULL;
  *out_count = 0;
  LS_RETURN_IF_ERROR(reads_push(&w, value.graph, ls_ref_id(value.ref)));
  while (w.depth > 0) {
    const place at = w.stack[--w.depth];
    LS_RETURN_IF_ERROR(visit_node(&w, &at));
  }
  if (w.count > 0) qsort(w.variables, w.count, sizeof(*w.variables), by_id);
  *out_variables = ls_give(&w.variables);
  *out_count = w.count;
  return ls_ok();
}
