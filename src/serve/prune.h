// SPDX-License-Identifier: Apache-2.0
//
// What signatures need of a graph.
#ifndef LS_SERVE_PRUNE_H_
#define LS_SERVE_PRUNE_H_

#include "serve/signature.h"

// A build graph with copies of the ops that the signatures need, under their
// names, and their inputs; initializers are needed by nobody. It uses names of
// `graph` and must go before it (ls_graph_free). What a text could not hold is
// refused.
LS_MUST_USE ls_status ls_serve_prune(ls_graph *graph,
                                     const ls_serve_signatures *signatures,
                                     ls_arena *memory, ls_graph **out_copy);

// The variables that a graph uses, at any depth, in order of their first use:
// lent, in a list in `memory`.
LS_MUST_USE ls_status ls_serve_variables(const ls_graph *graph,
                                         ls_arena *memory,
                                         ls_variable ***out_list,
                                         size_t *out_count);

#endif  // LS_SERVE_PRUNE_H_
