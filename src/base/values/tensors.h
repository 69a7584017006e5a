// SPDX-License-Identifier: Apache-2.0
//
// What nests show of tensors and ops: base knows them as handles alone. A
// graph begins with the table that shows its own, so that no runtime has to
// know of graphs.
#ifndef LS_BASE_VALUES_TENSORS_H_
#define LS_BASE_VALUES_TENSORS_H_

#include "lockstep/array.h"
#include "lockstep/nest.h"

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

#endif  // LS_BASE_VALUES_TENSORS_H_
