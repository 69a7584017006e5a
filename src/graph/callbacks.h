// SPDX-License-Identifier: Apache-2.0
//
// Objects of ops that call back: custom gradients, and the engine's side of
// host calls.
#ifndef LS_GRAPH_CALLBACKS_H_
#define LS_GRAPH_CALLBACKS_H_

#include "graph/graph.h"
#include "lockstep/host.h"
#include "lockstep/ops.h"

// Attribute `gradient` of a custom_gradient op: the user's gradient callback.
//
// The op follows the ops of the forward callback. Its operands are the inputs,
// then the callback's results, which are also its outputs. Its gradient rule
// passes gradients to the inputs only, so no gradients flow through the forward
// ops. Lowering removes the op.
typedef struct ls_custom_gradient_object {
  ls_object object;
  ls_allocator *allocator;
  ls_gradient_callback gradient;
  void *user;
  // Structures; their tensors are replaced by numbers.
  ls_nest inputs, outputs;
} ls_custom_gradient_object;

extern const ls_object_type ls_custom_gradient_type;

// Functions of the engine for a host call, set in `ls_host_call.engine`:
// ls_host_done and ls_host_give call them.
typedef struct ls_host_engine {
  void (*done)(ls_host_call *call, ls_status status);
  ls_status (*give)(ls_host_call *call, size_t output, const void *data);
} ls_host_engine;

#endif  // LS_GRAPH_CALLBACKS_H_
