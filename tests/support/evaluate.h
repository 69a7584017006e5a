// SPDX-License-Identifier: Apache-2.0
// A plain evaluator of lowered programs of i32 scalars, with loops, branches
// and replicas.
#ifndef LS_TESTS_SUPPORT_EVALUATE_H_
#define LS_TESTS_SUPPORT_EVALUATE_H_

#include "graph/graph.h"

// Of the programs it evaluates.
enum {
  REPLICAS = 5,
  MOST = 96,  // Values of a graph, at the most.
};

void evaluate(const ls_graph *graph, const int32_t *parameters,
              int32_t *results);

#endif  // LS_TESTS_SUPPORT_EVALUATE_H_
