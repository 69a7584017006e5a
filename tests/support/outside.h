// SPDX-License-Identifier: Apache-2.0
// Ops of replicated computations that are put outside by hand, as a number
// draws them.
#ifndef LS_TESTS_SUPPORT_OUTSIDE_H_
#define LS_TESTS_SUPPORT_OUTSIDE_H_

#include "graph/graph.h"

// Marks ops of the graph's computations, at any depth, as compiled outside, in
// one of a few clusters: any but those that cores alone can run, and those that
// use variables, which are the cores'. Returns how many.
size_t put_some_outside(ls_graph *graph, uint64_t seed);

#endif  // LS_TESTS_SUPPORT_OUTSIDE_H_
