// SPDX-License-Identifier: Apache-2.0
//
// What the halves of the verifier share.
#ifndef LS_GRAPH_VERIFY_H_
#define LS_GRAPH_VERIFY_H_

#include "base/arena.h"
#include "graph/graph.h"

typedef struct ls_verifier {
  ls_graph *graph;
  ls_node *node;  // NULL: the graph as a whole is looked at.
  ls_arena scratch;
} ls_verifier;

// INTERNAL: graph and op, then the rule and what was found.
ls_status ls_verify_broken(const ls_verifier *v, const char *format, ...)
    LS_PRINTF(2, 3);
// Attributes are there, of their kinds, and point to something; of a node that
// need be no more than type, inputs and attributes: INVALID_ARGUMENT.
ls_status ls_check_attrs(const ls_node *node);
// Whether the op has an attribute of this name; if not it is a mark.
bool ls_op_has_attr(uint16_t type, const char *name);
ls_status ls_verify_attrs(const ls_verifier *v);
// The number of regions, and that inputs and parameters belong together. The
// regions themselves are right already.
ls_status ls_verify_regions(const ls_verifier *v);

#endif  // LS_GRAPH_VERIFY_H_
