// SPDX-License-Identifier: Apache-2.0
//
// What goes into a trace and comes out of it: arguments as tensors of a graph,
// results as the graph's.
#ifndef LS_RUNTIME_TRACE_VALUES_H_
#define LS_RUNTIME_TRACE_VALUES_H_

#include "runtime/signature.h"

// The arguments of a call with that signature as declared parameters of a
// function's graph; distributed ones are distributed parameters.
ls_nest ls_trace_parameters(ls_graph *graph, const ls_signature *signature,
                            ls_nest args);
// The arguments with their arrays as constants of the current graph.
ls_nest ls_trace_constants(ls_nest args);
// Makes the tensors of a nest the results of a function's graph, in the order
// of flattening; of a distributed one its components.
ls_status ls_trace_set_results(ls_graph *graph, ls_nest results);

#endif  // LS_RUNTIME_TRACE_VALUES_H_
