// SPDX-License-Identifier: Apache-2.0
//
// What a variable is inside: identity and rules, no value.
#ifndef LS_GRAPH_VARIABLE_H_
#define LS_GRAPH_VARIABLE_H_

#include "graph/graph.h"
#include "lockstep/variable.h"

extern const ls_object_type ls_variable_object_type;

struct ls_variable {
  ls_object object;
  ls_allocator *allocator;
  ls_runtime *runtime;
  char *name;
  ls_type type;
  uint64_t id;      // Unique in the runtime's life; the order of creation.
  bool trainable;
  ls_graph *graph;  // Its build graph; NULL in eager.
  ls_op initializer;
};

// A variable without ops or value: what the parser and the maker use.
ls_status ls_variable_make(ls_runtime *runtime, const char *name, ls_type type,
                           bool trainable, ls_variable **out_variable);
// What an eager variable starts with, and that it is gone: in runtime/, for the
// same reason as graph/eager_hook.h.
ls_status ls_eager_initialize(ls_variable *variable, ls_tensor value);
void ls_eager_forget(const ls_variable *variable);

#endif  // LS_GRAPH_VARIABLE_H_
