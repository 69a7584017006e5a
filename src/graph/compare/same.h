// SPDX-License-Identifier: Apache-2.0
//
// Values of a replica that are the same on all: what collectives and merge
// calls have given it. Replicas that run op by op cannot see it in the ops, of
// which eager keeps no record.
#ifndef LS_GRAPH_COMPARE_SAME_H_
#define LS_GRAPH_COMPARE_SAME_H_

#include "graph/context.h"

typedef struct ls_same_values {
  ls_allocator *allocator;
  const ls_graph *graph;  // The replica's: values of others are not noted.
  uint64_t *refs;
  size_t count, capacity;
} ls_same_values;

void ls_same_values_deinit(ls_same_values *values);
// Notes a value. False: no memory.
LS_MUST_USE bool ls_same_values_add(ls_same_values *values, ls_tensor value);

// The same for the replica at hand, outside of which nothing is noted: gives
// the value, or a failed one without memory.
ls_tensor ls_same_note(ls_tensor value);
bool ls_same_is_noted(ls_tensor value);

#endif  // LS_GRAPH_COMPARE_SAME_H_
