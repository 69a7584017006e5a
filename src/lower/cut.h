// SPDX-License-Identifier: Apache-2.0
//
// The cut: a replicate op's lowered body without what all replicas come to
// together. Host calls, and loops and branches that go the same way on all,
// become ops around smaller replicate ops, so that what stays inside is pure
// and a variable in a loop stays one.
//
//   replicate { a; while { b }; host; c }
//     ->  replicate { a }; while { replicate { b } }; host of all; replicate {
//     c }
//
// A value that differs passes between them as one that is wide: those of all
// replicas, one behind the other (engine/backend.h).
#ifndef LS_LOWER_CUT_H_
#define LS_LOWER_CUT_H_

#include "lower/common_values.h"

typedef struct ls_cut_request {
  const ls_common_values *values;  // Of the body.
  ls_graph *body;                  // What has its results; it is used up.
  ls_graph *to;                    // The graph around.
  uint32_t replicas;
  size_t num_split, num_gathered;
  // As the replicate op's would be: of each split argument and gathered result
  // one for each replica, then those that are one for all.
  const uint64_t *inputs;
  uint64_t *outputs;      // Filled.
  const ls_node *origin;  // What the user built, of `from`.
  ls_graph *from;
} ls_cut_request;

// Whether there is something to cut out of a body and nothing that would be in
// the way: a stack or a value of LS_MAX_RANK dimensions that would cross.
ls_status ls_can_cut(const ls_common_values *values, const ls_graph *body,
                     bool *out_can);
ls_status ls_cut_replicas(const ls_cut_request *request);

#endif  // LS_LOWER_CUT_H_
