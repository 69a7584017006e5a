// SPDX-License-Identifier: Apache-2.0
//
// What scopes say of strategies and variables: this layer's rooms in a context
// (graph/context.h).
#ifndef LS_DISTRIBUTE_BASE_SCOPED_H_
#define LS_DISTRIBUTE_BASE_SCOPED_H_

#include "graph/context.h"
#include "lockstep/summary.h"

typedef struct ls_distribute_scoped {
  // Strategies and replicas entered, innermost first: context/context.h.
  const struct ls_distribution *distribution;
  // Columns of strategies' devices: base/columns.c.
  const struct ls_column_entry *columns;
  // Strategies whose losses are scaled: context/loss_reduction.c.
  const struct ls_loss_scaling *loss_scaling;
  struct ls_summary_writer *summary_writer;  // NULL: nobody wants any.
  bool sync_on_read;  // Replicas use such variables as the value of all.
} ls_distribute_scoped;

static inline ls_distribute_scoped *
ls_distribute_scoped_in(ls_scope_state *state) {
  return LS_CONTEXT_ROOM(ls_distribute_scoped, state, distribute);
}
static inline ls_distribute_scoped *
ls_distribute_scoped_of(ls_context *context) {
  return ls_distribute_scoped_in(&context->scoped);
}
static inline ls_distribute_scoped *ls_distribute_scoped_here(void) {
  return ls_distribute_scoped_of(ls_context_current());
}

#endif  // LS_DISTRIBUTE_BASE_SCOPED_H_
