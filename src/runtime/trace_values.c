// SPDX-License-Identifier: Apache-2.0
#include "runtime/trace_values.h"

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "graph/graph.h"
#include "lockstep/distributed.h"
#include "lockstep/ops.h"

// ---- Arguments -------------------------------------------------------------
// Turns the arguments' values into parameters.
typedef struct to_parameters {
  ls_graph *graph;
  const ls_signature *signature;
  size_t leaf, slot;
} to_parameters;

static ls_nest next_parameter(to_parameters *p) {
  ls_tensor parameter;
  const ls_status status = ls_graph_add_parameter(
      p->graph, p->signature->types[p->slot++], NULL, &parameter);
  return ls_status_is_ok(status) ? ls_leaf(parameter) : ls_fail(status);
}

static ls_nest to_parameter(ls_nest leaf, void *user) {
  to_parameters *p = user;
  const ls_leaf_key *key = &p->signature->keys[p->leaf++];
  if (key->kind == LS_KIND_ARRAY) return next_parameter(p);
  if (key->kind != LS_KIND_DISTRIBUTED) return ls_nest_retain(leaf);
  LS_OWN_ARRAY(p->graph->allocator, ls_nest, items, key->slots);
  if (items == NULL) return ls_fail(ls_out_of_memory());
  for (size_t i = 0; i < key->slots; ++i)
    items[i] = next_parameter(p);
  return ls_nest_distributed(ls_distributed_kind_of(leaf), items, key->slots);
}

ls_nest ls_trace_parameters(ls_graph *graph, const ls_signature *signature,
                            ls_nest args) {
  to_parameters p = {.graph = graph, .signature = signature};
  return ls_nest_map(args, to_parameter, &p);
}

static ls_nest to_constant(ls_nest leaf, void *user) {
  if (leaf.kind == LS_KIND_ARRAY) return ls_leaf(ls_constant(leaf.as.ref));
  if (leaf.kind != LS_KIND_DISTRIBUTED) return ls_nest_retain(leaf);
  const size_t count = ls_distributed_count(leaf);
  ls_allocator *allocator = ls_graph_current()->allocator;
  LS_OWN_ARRAY(allocator, ls_nest, items, count);
  if (items == NULL) return ls_fail(ls_out_of_memory());
  for (size_t i = 0; i < count; ++i)
    items[i] = to_constant(ls_distributed_component(leaf, i), user);
  return ls_nest_distributed(ls_distributed_kind_of(leaf), items, count);
}

ls_nest ls_trace_constants(ls_nest args) {
  return ls_nest_map(args, to_constant, NULL);
}

// ---- Results ---------------------------------------------------------------
// The refs of leaves that are tensors, or distributed ones. Returns how many
// there are; `refs` may be NULL.
static size_t list_refs(const ls_nest *leaves, size_t num_leaves,
                        uint64_t *refs) {
  size_t count = 0;
  for (size_t i = 0; i < num_leaves; ++i) {
    const size_t components = leaves[i].kind == LS_KIND_DISTRIBUTED
                                  ? ls_distributed_count(leaves[i])
                                  : 0;
    for (size_t c = 0; c < (components > 0 ? components : 1); ++c) {
      const ls_nest leaf =
          components > 0 ? ls_distributed_component(leaves[i], c) : leaves[i];
      if (leaf.kind != LS_KIND_TENSOR) continue;
      if (refs != NULL) refs[count] = leaf.as.tensor.ref;
      ++count;
    }
  }
  return count;
}

ls_status ls_trace_set_results(ls_graph *graph, ls_nest results) {
  ls_allocator *allocator = graph->allocator;
  const size_t num_leaves = ls_nest_num_leaves(results);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, leaves, num_leaves);
  ls_nest_flatten(results, leaves, num_leaves);
  const size_t count = list_refs(leaves, num_leaves, NULL);
  LS_OWN_ARRAY_OR_RETURN(allocator, uint64_t, refs, count);
  list_refs(leaves, num_leaves, refs);
  return ls_graph_set_results(graph, refs, count);
}
