// SPDX-License-Identifier: Apache-2.0
// Releases that LS_OWN uses for types of graph and of lower layers.
#ifndef LS_GRAPH_OWN_H_
#define LS_GRAPH_OWN_H_

#include "base/memory/own.h"
#include "lockstep/graph.h"
#include "lockstep/variable.h"

LS_OWNED_POINTER(ls_graph, ls_graph_destroy)
LS_OWNED_POINTER(ls_variable, ls_variable_release)

#endif  // LS_GRAPH_OWN_H_
