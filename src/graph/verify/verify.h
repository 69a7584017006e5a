// SPDX-License-Identifier: Apache-2.0
//
// Declarations shared by the two halves of the verifier.
#ifndef LS_GRAPH_VERIFY_VERIFY_H_
#define LS_GRAPH_VERIFY_VERIFY_H_

#include "base/memory/arena.h"
#include "graph/graph.h"

typedef struct ls_verifier {
  ls_graph *graph;
  ls_node *node;  // NULL: the graph as a whole is checked.
  ls_arena scratch;
} ls_verifier;
LS_OWNED_(ls_verifier, ls_verifier, ls_arena_deinit(&ls_owned->scratch))

// Makes an INTERNAL error: graph and op, then the broken rule and what was
// found.
ls_status ls_verify_broken(const ls_verifier *v, const char *format, ...)
    LS_PRINTF(2, 3);
// Checks that inputs match parameters. The regions themselves have been
// verified, and the op's shape rule has run.
ls_status ls_verify_regions(const ls_verifier *v);
// Verifies one op, whose regions have been verified: its attributes, regions
// and types.
ls_status ls_verify_op(ls_graph *graph, const ls_node *node);
// Reports a broken rule as the fault of the caller, not as an internal error;
// `what` is put before it. Takes `fault` over.
ls_status ls_verify_refused(const char *what, ls_status fault);

#endif  // LS_GRAPH_VERIFY_VERIFY_H_
