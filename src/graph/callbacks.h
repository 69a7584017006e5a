// SPDX-License-Identifier: Apache-2.0
//
// Objects of ops that call back: custom gradients, and calls of host kernels as
// engines make them.
#ifndef LS_GRAPH_CALLBACKS_H_
#define LS_GRAPH_CALLBACKS_H_

#include "graph/graph.h"
#include "lockstep/host.h"
#include "lockstep/ops.h"

// The attribute `gradient` of the op custom_gradient: whom to ask for
// gradients.
//
// The op stands after what the forward callback made. Its operands are the
// inputs, then the callback's results, and it gives the latter. Its rule gives
// gradients to the inputs alone, so that none flow through what lies between.
// It is gone after lowering.
typedef struct ls_custom_gradient_object {
  ls_object object;
  ls_allocator *allocator;
  ls_gradient_callback gradient;
  void *user;
  ls_nest inputs, outputs;  // Structures alone: the leaves that are tensors
                            // are numbers, others as they are.
} ls_custom_gradient_object;

extern const ls_object_type ls_custom_gradient_type;

// The target of `ls_host_call.engine`: what ls_host_done and ls_host_give
// call, so that every engine can have its own.
typedef struct ls_host_engine {
  void (*done)(ls_host_call *call, ls_status status);
  ls_status (*give)(ls_host_call *call, size_t output, const void *data);
} ls_host_engine;

#endif  // LS_GRAPH_CALLBACKS_H_
