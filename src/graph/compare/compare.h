// SPDX-License-Identifier: Apache-2.0
//
// Equality of regions, identity hashes of graphs, and values that are the same
// on all replicas.
#ifndef LS_GRAPH_COMPARE_COMPARE_H_
#define LS_GRAPH_COMPARE_COMPARE_H_

#include "base/text.h"
#include "graph/context.h"

// ---- equal.c ----------------------------------------------------------------
// Returns true if two regions of one parent are equal op for op: types,
// operands, own attributes, captured values, results and child regions. Names
// and marks are ignored. Otherwise describes the first difference in
// `difference`.
bool ls_graph_equal(ls_graph *a, ls_graph *b, char *difference, size_t size);

// Compares regions as ls_graph_equal does but ignores which values they
// capture.
bool ls_graph_equal_inside(ls_graph *a, ls_graph *b, char *difference,
                           size_t size);

// Returns true if two attributes have the same name, kind and value.
bool ls_attr_equal(const ls_attr *a, const ls_attr *b);

// Appends an attribute's name and value to a key; of an object, its address.
void ls_attr_append_key(ls_text *key, const ls_attr *attr);

// ---- identity.c -------------------------------------------------------------
// Hashes a graph in 128 bits: its nodes in order, with their attributes and
// constants.
// Lowered graphs with equal hashes compute the same. Variables are hashed by
// name, other objects and host kernels by type only; a caller that must tell
// them apart adds more.
void ls_graph_identify(const ls_graph *graph, uint64_t out_identity[2]);
// Hashes an op with its operands, but without the ops of its regions.
uint64_t ls_node_identify(const ls_node *node);
// Hashes the results of a graph and the ops with effects, in order, each with
// the values that it depends on. The order of other ops does not matter: where
// arguments of a call make ops, compilers choose it. Without constants, the
// numbers in them are left out.
//   LS_RESOURCE_EXHAUSTED  no memory.
LS_MUST_USE ls_status ls_graph_identify_values(const ls_graph *graph,
                                               bool with_constants,
                                               uint64_t out_identity[2]);

// ---- Values that are the same on all replicas -------------------------------
typedef struct ls_same_value {
  uint64_t graph;  // The graph's id.
  uint64_t ref;
} ls_same_value;

// A replica's values that are the same on all replicas, because collectives or
// merge calls made them. Used where replicas run op by op, because eager graphs
// keep no record of ops.
typedef struct ls_same_values {
  ls_allocator *allocator;
  // The replica's graph. Values of it and of graphs inside it are noted.
  const ls_graph *graph;
  ls_same_value *items;
  size_t count, capacity;
} ls_same_values;

void ls_same_values_deinit(ls_same_values *values);
// Returns true if the list notes the values of a graph. NULL: no list.
bool ls_same_values_cover(const ls_same_values *values, const ls_graph *graph);
// Adds a value to the list. Returns false without memory.
LS_MUST_USE bool ls_same_values_add(ls_same_values *values, ls_tensor value);

// Adds a value to the current replica's list, if a replica is current. Returns
// the value, or a failed tensor without memory.
ls_tensor ls_same_note(ls_tensor value);
bool ls_same_is_noted(ls_tensor value);

#endif  // LS_GRAPH_COMPARE_COMPARE_H_
