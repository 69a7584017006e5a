// SPDX-License-Identifier: Apache-2.0
//
// What a context says of tapes and functions: this layer's rooms in it
// (graph/context.h).
#ifndef LS_RUNTIME_SCOPED_H_
#define LS_RUNTIME_SCOPED_H_

#include "graph/context.h"

typedef struct ls_runtime_scoped {
  bool unrecorded;  // No tape records eager ops.
} ls_runtime_scoped;

typedef struct ls_runtime_work {
  const struct ls_tape_walk *walks;  // Backward passes here, innermost first.
  // Callbacks of functions that run inside of each other here.
  int32_t callbacks;
} ls_runtime_work;

static inline ls_runtime_scoped *ls_runtime_scoped_of(ls_context *context) {
  return LS_CONTEXT_ROOM(ls_runtime_scoped, &context->scoped, runtime);
}
static inline ls_runtime_work *ls_runtime_work_here(void) {
  return LS_CONTEXT_ROOM(ls_runtime_work, ls_context_current(), runtime);
}

#endif  // LS_RUNTIME_SCOPED_H_
