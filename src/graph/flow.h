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

// Functions of a kind of flow, each optional. While one runs, its flow is the
// innermost: ops that it makes belong to the flow and those around it.
typedef struct ls_flow_type {
  const char *name;
  bool is_replicated;  // Found by ls_flow_replicated.
  bool has_system;     // It is an ls_system_flow: tpu/pod/system_id.h.
  // Called before an op is made. `spec` lists all control inputs, also of
  // enclosing graphs. The flow may replace the control inputs and the operands
  // (not their number) by lists in `memory`, make ops of its own first
  // (ls_flow_alone_begin), or refuse the op.
  ls_status (*admit)(ls_flow *self, ls_op_spec *spec, ls_arena *memory);
  // Called after the op is made, before anyone has seen it: sets marks
  // (ls_node_set_attr), and bans feeds and fetches. A refusal removes the op.
  // Makes no ops. A copy of one of the flow's ops, as gradients of loops make
  // them, already has its marks.
  ls_status (*mark)(ls_flow *self, ls_op op);
  // Returns the value for a read of the variable, or a failed tensor for an
  // ordinary read.
  ls_tensor (*read)(ls_flow *self, ls_variable *variable);
  // Called when the gradient ops that follow are colocated with `op`; `uid`
  // identifies the call of gradients. The flow may change the scope state
  // meanwhile. leave_gradient is called for each accepted one, in reverse
  // order; its failure becomes the graph's error.
  ls_status (*enter_gradient)(ls_flow *self, ls_op op, const char *uid);
  ls_status (*leave_gradient)(ls_flow *self, ls_op op, const char *uid);
} ls_flow_type;

// A flow, embedded in a larger struct by its owner. Lives as long as a scope of
// it is open.
struct ls_flow {
  const ls_flow_type *type;
};

// A flow in force.
typedef struct ls_flow_entry {
  ls_flow *flow;
  const struct ls_flow_entry *outer;
  const ls_graph *graph;  // Holds in this graph and graphs inside.
} ls_flow_entry;

// Adds ops to the flow until ls_scope_end. A flow may be begun again at any
// time; when begun inside itself, flows in between are left. Refused in eager
// mode.
void ls_flow_begin(ls_scope *scope, ls_flow *flow);
// Leaves control scopes but not flows, for ops that a flow makes itself.
void ls_flow_alone_begin(ls_scope *scope);
// Returns the innermost replicated flow, NULL if there is none.
ls_flow *ls_flow_replicated(void);

// Returns the innermost flow's value for a read of the variable; a failed
// tensor if no flow has one.
ls_tensor ls_flow_read(ls_variable *variable);

// The uid of calls of gradients without one.
#define LS_NO_GRADIENT_UID "__unsupported__"

// ---- Calls -----------------------------------------------------------------
// Called by op_add.c if there are flows.
ls_status ls_flow_admit(ls_op_spec *spec, ls_arena *memory);
ls_status ls_flow_mark(ls_op op);
// Opens a colocation scope and notifies the innermost flow with an
// enter_gradient function; if the flow refuses, so does the scope. `uid` must
// outlive the scope.
void ls_flow_gradient_begin(ls_scope *scope, ls_op op, const char *uid);
// Notifies the flow without a colocation, for gradient ops of loops and
// branches, which are in another graph than `op`. Without flows no scope is
// opened.
void ls_flow_gradient_inside_begin(ls_scope *scope, ls_op op, const char *uid);
// Called by ls_scope_end.
void ls_flow_leave_gradient(const ls_open_scope *opened);

#endif  // LS_GRAPH_FLOW_H_
