// SPDX-License-Identifier: Apache-2.0
#include "graph/compare/same.h"

#include "graph/make/make.h"

void ls_same_values_deinit(ls_same_values *values) {
  ls_release(values->allocator, values->refs);
}

static bool same_is_of(const ls_same_values *values, ls_tensor value) {
  return values != NULL && value.ref != 0 &&
         ls_graph_resolve(value.graph) == values->graph;
}

// Eager values go with their frame.
static void drop_stale(ls_same_values *values) {
  size_t kept = 0;
  for (size_t i = 0; i < values->count; ++i)
    if (ls_graph_node_of(values->graph, values->refs[i]) != NULL)
      values->refs[kept++] = values->refs[i];
  values->count = kept;
}

bool ls_same_values_add(ls_same_values *values, ls_tensor value) {
  if (!same_is_of(values, value)) return true;
  if (values->count == values->capacity) drop_stale(values);
  // Twice the room for what is left: looking for stale ones stays cheap.
  if (values->count >= values->capacity / 2 &&
      !ls_grow(values->allocator, &values->refs, &values->capacity,
               2 * values->count + 1, sizeof(*values->refs)))
    return false;
  values->refs[values->count++] = value.ref;
  return true;
}

ls_tensor ls_same_note(ls_tensor value) {
  return ls_same_values_add(ls_context_current()->same, value)
             ? value
             : ls_make_failed("all_reduce", ls_out_of_memory());
}

bool ls_same_is_noted(ls_tensor value) {
  const ls_same_values *values = ls_context_current()->same;
  for (size_t i = same_is_of(values, value) ? values->count : 0; i > 0; --i)
    if (values->refs[i - 1] == value.ref) return true;
  return false;
}
