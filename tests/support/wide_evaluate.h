// SPDX-License-Identifier: Apache-2.0
// A plain evaluator of lowered programs of i32 numbers, with ops of replicas,
// loops, branches and host calls.
#ifndef LS_TESTS_SUPPORT_WIDE_EVALUATE_H_
#define LS_TESTS_SUPPORT_WIDE_EVALUATE_H_

#include "graph/graph.h"

enum { WIDE_MOST_REPLICAS = 7, WIDE_MOST_VALUES = 48 };

// A value on each replica; what is one for all is the same on each. So an op of
// replicas is its body. Of less than the most replicas the rest are there too,
// but nobody meets them.
typedef int32_t wide_row[WIDE_MOST_REPLICAS];

// What a graph gives, of at most 100 nodes; `replicas` meet. A host call gives
// three times its operand, and the replica more.
void wide_evaluate(const ls_graph *graph, int64_t replicas,
                   wide_row *parameters, wide_row *results);

#endif  // LS_TESTS_SUPPORT_WIDE_EVALUATE_H_
