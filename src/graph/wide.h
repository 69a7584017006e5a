// SPDX-License-Identifier: Apache-2.0
//
// Wide values: those of all replicas, one behind the other, as one value.
//
// Where a lowered replicate op's body was cut into several, what differs from
// replica to replica passes between them as one value of the graph around: that
// of replica r is its part r along dimension 0. Only `replicate`, `host`,
// `while` and `cond` take one or give one, and a barrier.
#ifndef LS_GRAPH_WIDE_H_
#define LS_GRAPH_WIDE_H_

#include "lockstep/graph.h"

// The type of such a value, of one replica's.
//   LS_INVALID_ARGUMENT  it has LS_MAX_RANK dimensions.
//   LS_UNIMPLEMENTED     it is a stack, or a resource.
ls_status ls_wide_type(ls_type part, int64_t replicas, ls_type *out_type);
// One replica's of a wide value.
//   LS_INVALID_ARGUMENT  it has no parts, or not so many.
ls_status ls_wide_part(ls_type wide, int64_t replicas, ls_type *out_type);

#endif  // LS_GRAPH_WIDE_H_
