// SPDX-License-Identifier: Apache-2.0
//
// Counts the trips of loops.
#ifndef LS_GRAPH_TRIPS_H_
#define LS_GRAPH_TRIPS_H_

#include "graph/graph.h"

// Trips of a loop that counts them: `most` or, if `limit` is not -1, as many as
// that parameter of the graph around it says, and `most` at most, if that is
// not 0.
typedef struct ls_trips {
  int64_t most;
  int32_t limit;
} ls_trips;

// Counts the trips that a loop of graph `outer` makes while `holds`, a value in
// its condition, is true. Returns false if they are not known before it begins.
bool ls_node_count_trips(const ls_graph *outer, const ls_node *loop,
                         uint64_t holds, ls_trips *out);

#endif  // LS_GRAPH_TRIPS_H_
