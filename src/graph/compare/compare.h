// SPDX-License-Identifier: Apache-2.0
//
// Sameness: of regions op for op, of graphs by their content, and of values of
// a replica that are those of all.
#ifndef LS_GRAPH_COMPARE_COMPARE_H_
#define LS_GRAPH_COMPARE_COMPARE_H_

#include "base/text.h"
#include "graph/context.h"

// ---- equal.c ----------------------------------------------------------------
// Returns true if two regions of one parent are the same op for op: types,
// operands, own attributes, captured values, results, child regions. Names and
// marks are not compared. If not, the first difference is written into
// `difference`.
bool ls_graph_equal(ls_graph *a, ls_graph *b, char *difference, size_t size);

// The same, whatever the captured values are.
bool ls_graph_equal_inside(ls_graph *a, ls_graph *b, char *difference,
                           size_t size);

// Returns true if two attributes have the same name, kind and value.
bool ls_attr_equal(const ls_attr *a, const ls_attr *b);

// Appends what an attribute is to a key: its name, and what its value is by.
void ls_attr_append_key(ls_text *key, const ls_attr *attr);

// ---- identity.c -------------------------------------------------------------
// Sums up a graph in 128 bits: its nodes with their attributes and constants,
// by content. Two lowered ones that have the same compute the same. Variables
// are told apart by their names, other objects and host kernels by their type
// only: a caller that needs more adds it.
void ls_graph_identify(const ls_graph *graph, uint64_t out_identity[2]);
// The same but for the numbers in constants.
void ls_graph_identify_ops(const ls_graph *graph, uint64_t out_identity[2]);

// ---- Values that are the same on all replicas -------------------------------
// Collectives and merge calls have given them to a replica. Replicas that run
// op by op cannot see it in the ops, of which eager keeps no record.
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

#endif  // LS_GRAPH_COMPARE_COMPARE_H_
