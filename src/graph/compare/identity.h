// SPDX-License-Identifier: Apache-2.0
//
// What a graph is, in 128 bits: its nodes with their attributes and constants,
// by content. Two lowered ones that have the same compute the same. Variables
// are told apart by their names, other objects and host kernels by their type
// only: who needs more adds it.
#ifndef LS_GRAPH_COMPARE_IDENTITY_H_
#define LS_GRAPH_COMPARE_IDENTITY_H_

#include "graph/graph.h"

void ls_graph_identify(const ls_graph *graph, uint64_t out_identity[2]);
// The same but for the numbers in constants.
void ls_graph_identify_ops(const ls_graph *graph, uint64_t out_identity[2]);

#endif  // LS_GRAPH_COMPARE_IDENTITY_H_
