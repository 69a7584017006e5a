// SPDX-License-Identifier: Apache-2.0
//
// What a thread (or fiber) is building: the current graph and the scopes that
// new ops get. One context per thread and fiber, swapped as a whole with it;
// lent, never kept.
//
// Scopes are entries on the C stack of whoever opened them, linked outward; an
// entry keeps what it replaced, so leaving needs no look-up.
#ifndef LS_GRAPH_CONTEXT_H_
#define LS_GRAPH_CONTEXT_H_

#include "graph/graph.h"

typedef enum ls_scope_kind {
  LS_SCOPE_CLOSED = 0,  // Never opened, or left.
  LS_SCOPE_GRAPH,
  LS_SCOPE_NAME,
  LS_SCOPE_DEVICE,
  LS_SCOPE_COLOCATE,
  LS_SCOPE_CONTROL,
  LS_SCOPE_REFUSED,
} ls_scope_kind;

// Where a scope entry keeps what it replaced, in `extra`; extra[5] is the
// kind's own: the number of control ops, the id of the op to be beside.
enum {
  LS_SCOPE_SAVED_GRAPH,
  LS_SCOPE_SAVED_NAMES,
  LS_SCOPE_SAVED_DEVICE,
  LS_SCOPE_SAVED_CONTROL,
  LS_SCOPE_SAVED_COLOCATE,
};

typedef struct ls_context {
  ls_graph *graph;  // NULL: the runtime's eager graph.
  const ls_name_scope *names;
  const char *device;
  const ls_scope *control;   // Innermost control scope of this graph.
  const ls_scope *colocate;  // Innermost colocation scope of this graph.
  ls_scope *top;             // Innermost scope of any kind.
  ls_scope *refused;         // Outermost refused scope: nothing works inside.
  ls_status refusal;         // Its reason.
  struct ls_tape *tape;      // Innermost open tape; see runtime/tape.c.
  struct ls_replica *replica;    // See dist/.
  struct ls_strategy *strategy;  // See dist/.
} ls_context;

// This thread's or fiber's. Never NULL.
ls_context *ls_context_current(void);
// For a new fiber: starts as a copy of what the current one builds, with no
// scope of its own.
void ls_context_fork(ls_context *context);

// Makes `graph` current, of whatever kind, with no names, device or control
// dependencies; the pair of ls_scope_end.
void ls_context_enter_graph(ls_scope *scope, ls_graph *graph);
// A scope that was refused: every op inside fails with `status`, taken over.
void ls_context_refuse(ls_scope *scope, ls_status status);

#endif  // LS_GRAPH_CONTEXT_H_
