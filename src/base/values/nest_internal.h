// SPDX-License-Identifier: Apache-2.0
// Nests, as the layers above see them.
#ifndef LS_BASE_VALUES_NEST_INTERNAL_H_
#define LS_BASE_VALUES_NEST_INTERNAL_H_

#include "lockstep/array.h"
#include "lockstep/distributed.h"
#include "lockstep/nest.h"

// Deeper nests are refused, so that recursion fits a fiber's stack.
enum { LS_NEST_MAX_DEPTH = 256 };

// Counts `item` among what `holder` holds: it is a level above it. A nest made
// of a holder with too many levels is a failed one.
void ls_nest_deepen(ls_object *holder, ls_nest item);

// The position of the index-th item in the order of flattening: of a dict the
// one with the index-th smallest key, of a sequence `index` itself.
size_t ls_nest_sorted_position(ls_nest nest, size_t index);
// That item, lent.
ls_nest ls_nest_item_sorted(ls_nest nest, size_t index);
// Returns true for a dict or a named tuple, also an empty one.
bool ls_nest_has_keys(ls_nest nest);

// "PerReplica", "Mirrored", "MapOutput".
const char *ls_distributed_kind_name(ls_distributed_kind kind);

// Part `part` of `rows` in `parts`: they differ by at most one, larger ones
// first.
static inline int64_t ls_part_rows(int64_t rows, int64_t parts, int64_t part) {
  return rows / parts + (part < rows % parts);
}
// `rows` rows from row `first` on, as a view that keeps the array; strings are
// copied.
LS_MUST_USE ls_status ls_array_rows(ls_array *array, int64_t first,
                                    int64_t rows, ls_nest *out_leaf);
// Dimension 0 in such parts: a PerReplica of views, which keep the array.
LS_MUST_USE ls_status ls_array_split(ls_array *array, int64_t parts,
                                     ls_nest *out_value);

// Takes over the result of a call that makes a nest, and returns the status it
// failed with. ls_nest_give replaces the nest in `*results`, if all is well.
LS_MUST_USE ls_status ls_take_nest(ls_nest made, ls_nest *out_value);
LS_MUST_USE ls_status ls_nest_give(ls_nest made, ls_nest *results);

// ---- Tensors ---------------------------------------------------------------
// Base knows tensors and ops as handles alone: a graph begins with the table
// that shows its own, so that no runtime has to know of graphs.

// Handles of a graph that is not NULL; stale ones too.
typedef struct ls_tensor_vtable {
  void (*print)(ls_tensor tensor, char *buffer, size_t size);
  void (*print_op)(ls_op op, char *buffer, size_t size);
  // The value of an eager tensor or constant, lent; NULL: not known.
  ls_array *(*known_value)(ls_tensor tensor);
} ls_tensor_vtable;

// The first member of every ls_graph.
typedef struct ls_graph_head {
  const ls_tensor_vtable *tensors;
} ls_graph_head;

static inline const ls_tensor_vtable *
ls_graph_tensors_of(const ls_graph *graph) {
  return ((const ls_graph_head *)(const void *)graph)->tensors;
}
// The value of an eager tensor or constant, lent; NULL: not known.
static inline ls_array *ls_tensor_known_value(ls_tensor tensor) {
  return tensor.graph == NULL
             ? NULL
             : ls_graph_tensors_of(tensor.graph)->known_value(tensor);
}

#endif  // LS_BASE_VALUES_NEST_INTERNAL_H_
