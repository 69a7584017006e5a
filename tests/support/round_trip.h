// SPDX-License-Identifier: Apache-2.0
// Graphs to text and back.
#ifndef LS_TESTS_SUPPORT_ROUND_TRIP_H_
#define LS_TESTS_SUPPORT_ROUND_TRIP_H_

#include "lockstep/graph.h"

// Prints, parses, compares, prints again. Takes the graph over.
void expect_round_trip(ls_graph *graph);

#endif  // LS_TESTS_SUPPORT_ROUND_TRIP_H_
