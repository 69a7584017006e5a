// SPDX-License-Identifier: Apache-2.0
//
// What the op custom_gradient holds: whom to ask for gradients.
//
// The op stands behind what the forward callback made. Its operands are the
// inputs, then the callback's results, and it gives the latter. Its rule gives
// gradients to the inputs alone, so that none flow through what lies between.
// It is gone after lowering.
#ifndef LS_GRAPH_CUSTOM_GRADIENT_H_
#define LS_GRAPH_CUSTOM_GRADIENT_H_

#include "graph/graph.h"
#include "lockstep/ops.h"

// The attribute `gradient`.
typedef struct ls_custom_gradient_object {
  ls_object object;
  ls_allocator *allocator;
  ls_gradient_callback gradient;
  void *user;
  ls_nest inputs, outputs;  // Structures alone: the leaves that are tensors
                            // are numbers, others as they are.
} ls_custom_gradient_object;

extern const ls_object_type ls_custom_gradient_type;

#endif  // LS_GRAPH_CUSTOM_GRADIENT_H_
