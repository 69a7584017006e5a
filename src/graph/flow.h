// SPDX-License-Identifier: Apache-2.0
//
// Flows: what rules over the ops that are made in a stretch of code, as a
// replicated computation does.
//
// A flow holds in the graph where it was begun and in those inside: ops of
// loops' and branches' bodies come through the same door. Flows lie in each
// other, each in the one around where it was begun first; an op is asked of the
// innermost, then of those around it. Who leaves control dependencies (an init
// scope, a control scope of NULL) leaves all flows as well.
//
// Nodes that no maker adds are not theirs: parameters, captures, constants of
// eager values, what a text is read into.
#ifndef LS_GRAPH_FLOW_H_
#define LS_GRAPH_FLOW_H_

#include "graph/context.h"

typedef struct ls_flow ls_flow;

// Functions of a kind of flow; each function may be NULL. While one works, its
// flow is the innermost: ops that it makes are the flow's and of those around.
typedef struct ls_flow_type {
  const char *name;
  bool is_replicated;  // ls_flow_replicated asks for this.
  bool has_system;     // It is an ls_system_flow: tpu/pod/system_id.h.
  // Before an op is made. `spec` is the maker's, with all that the op is to
  // wait for, also in graphs around. The flow may replace its control inputs
  // and its operands, as many as there were, by lists in `memory`; it may make
  // ops of its own before it (ls_flow_alone_begin); it may refuse it.
  ls_status (*admit)(ls_flow *self, ls_op_spec *spec, ls_arena *memory);
  // The op is there, and nobody has seen it: marks (ls_node_set_attr), bans of
  // feed and fetch. A refusal takes it back. Makes no ops. A copy of an op that
  // was made in the flow (gradients of loops make some) comes with its marks.
  ls_status (*mark)(ls_flow *self, ls_op op);
  // Returns what stands for a read of the variable; a failed tensor: its read
  // does.
  ls_tensor (*read)(ls_flow *self, ls_variable *variable);
  // Gradient ops that follow are beside `op`, and were asked for by the call
  // that `uid` tells from others; in between the flow may change what scopes
  // say. leave_gradient is told of each that was not refused, the last one
  // first; what it fails with becomes the graph's error.
  ls_status (*enter_gradient)(ls_flow *self, ls_op op, const char *uid);
  ls_status (*leave_gradient)(ls_flow *self, ls_op op, const char *uid);
} ls_flow_type;

// One flow: the owner's, who has what else it knows behind this. It lives as
// long as a scope of it is open.
struct ls_flow {
  const ls_flow_type *type;
};

// A flow in force.
typedef struct ls_flow_entry {
  ls_flow *flow;
  const struct ls_flow_entry *outer;
  const ls_graph *graph;  // It holds there and inside.
} ls_flow_entry;

// Ops are the flow's until ls_scope_end. It may be begun again, at any time; in
// itself, those that lie in it are left. Refused in eager.
void ls_flow_begin(ls_scope *scope, ls_flow *flow);
// Leaves the control scopes and stays in the flows: for ops that a flow makes
// for itself.
void ls_flow_alone_begin(ls_scope *scope);
// The innermost replicated flow here; NULL: there is none.
ls_flow *ls_flow_replicated(void);

// Returns what the innermost flow that knows gives for a read of the variable;
// a failed tensor: none does.
ls_tensor ls_flow_read(ls_variable *variable);

// The uid of a call of gradients that has none.
#define LS_NO_GRADIENT_UID "__unsupported__"

// ---- Doors -----------------------------------------------------------------
// Called by op_add.c, where there are flows.
ls_status ls_flow_admit(ls_op_spec *spec, ls_arena *memory);
ls_status ls_flow_mark(ls_op op);
// A colocation scope of which the innermost flow that wants to is told; if that
// refuses, so is the scope. `uid` lives as long.
void ls_flow_gradient_begin(ls_scope *scope, ls_op op, const char *uid);
// The same without a colocation: for ops of a loop's or branch's gradient,
// which lie in another graph than `op`. Without flows nothing is opened.
void ls_flow_gradient_inside_begin(ls_scope *scope, ls_op op, const char *uid);
// Called by ls_scope_end.
void ls_flow_leave_gradient(const ls_open_scope *opened);

#endif  // LS_GRAPH_FLOW_H_
