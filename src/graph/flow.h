// SPDX-License-Identifier: Apache-2.0
//
// Flows: rules for the ops made in a section of code, such as a replicated
// computation.
//
// A flow holds in the graph where it was begun and in graphs inside, including
// the bodies of loops and branches. Flows nest: a flow lies in the one that
// enclosed its first begin. An op passes the innermost flow, then those around
// it. Code that leaves control dependencies (an init scope, a control scope of
// NULL) leaves all flows as well.
//
// Flows do not see nodes that no maker adds: parameters, captures, constants of
// eager values, and the nodes of a text being read.
#ifndef LS_GRAPH_FLOW_H_
#define LS_GRAPH_FLOW_H_

#include "graph/context.h"

typedef struct ls_flow ls_flow;

// Functions of a kind of flow, each optional. While a function runs, its flow
// is the innermost: ops made by the function belong to the flow and to the
// flows around it.
typedef struct ls_flow_type {
  const char *name;
  bool is_replicated;  // True if ls_flow_replicated finds such flows.
  // True if the flow is an ls_system_flow (tpu/pod/system_id.h).
  bool has_system;
  // Called before an op is made. `spec` lists all control inputs, also those of
  // enclosing graphs. The flow may replace the control inputs and the operands
  // (not their number) by lists in `memory`, make ops of its own first
  // (ls_flow_alone_begin), or refuse the op.
  ls_status (*admit)(ls_flow *self, ls_op_spec *spec, ls_arena *memory);
  // Called after the op is made and before other code sees the op: sets marks
  // (ls_node_set_attr), and bans feeds and fetches. A refusal removes the op.
  // The function makes no ops. Copies of the flow's ops, as in gradients of
  // loops, already have their marks.
  ls_status (*mark)(ls_flow *self, ls_op op);
  // Returns the value for a read of the variable; a failed tensor means that
  // the variable is read as usual.
  ls_tensor (*read)(ls_flow *self, ls_variable *variable);
  // Called when the gradient ops that follow are colocated with `op`; `uid`
  // identifies the call of gradients. The flow may change the scope state until
  // leave_gradient, which is called once for each successful enter_gradient, in
  // reverse order. A failure of leave_gradient becomes the graph's error.
  ls_status (*enter_gradient)(ls_flow *self, ls_op op, const char *uid);
  ls_status (*leave_gradient)(ls_flow *self, ls_op op, const char *uid);
} ls_flow_type;

// A flow: the first member of a struct of its owner. Lives as long as a scope
// of it is open.
struct ls_flow {
  const ls_flow_type *type;
};

// A flow that applies to new ops.
typedef struct ls_flow_entry {
  ls_flow *flow;
  const struct ls_flow_entry *outer;
  // The flow applies in this graph and in graphs inside.
  const ls_graph *graph;
} ls_flow_entry;

// Adds ops to the flow until ls_scope_end. A flow may be begun again at any
// time; if it is begun inside itself, the flows in between are left. Refused in
// eager mode.
void ls_flow_begin(ls_scope *scope, ls_flow *flow);
// Leaves control scopes but not flows, for ops that a flow makes itself.
void ls_flow_alone_begin(ls_scope *scope);
// Returns the innermost replicated flow, NULL if there is none.
ls_flow *ls_flow_replicated(void);

// Returns the innermost flow's value for a read of the variable; a failed
// tensor if no flow has one.
ls_tensor ls_flow_read(ls_variable *variable);

// The uid of a call of gradients that has none of its own.
#define LS_NO_GRADIENT_UID "__unsupported__"

// ---- Calls -----------------------------------------------------------------
// Lets the flows admit or refuse an op; called by op_add.c if there are flows.
ls_status ls_flow_admit(ls_op_spec *spec, ls_arena *memory);
ls_status ls_flow_mark(ls_op op);
// Opens a colocation scope and notifies the innermost flow with an
// enter_gradient function; if the flow refuses, so does the scope. `uid` must
// outlive the scope.
void ls_flow_gradient_begin(ls_scope *scope, ls_op op, const char *uid);
// Notifies the innermost flow without opening a colocation scope, for gradient
// ops in loops and branches, which are in another graph than `op`. If there are
// no flows, opens no scope.
void ls_flow_gradient_inside_begin(ls_scope *scope, ls_op op, const char *uid);
// Calls leave_gradient of the flow that a closed scope had notified.
void ls_flow_leave_gradient(const ls_open_scope *opened);

#endif  // LS_GRAPH_FLOW_H_
