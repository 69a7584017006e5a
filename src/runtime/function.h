// SPDX-License-Identifier: Apache-2.0
//
// Functions, for the layers above: a strategy traces a function in its own way,
// and shares traces, programs and calls.
#ifndef LS_RUNTIME_FUNCTION_H_
#define LS_RUNTIME_FUNCTION_H_

#include "lockstep/function.h"
#include "runtime/program.h"

// A way of tracing. Zeroed: the callback is called once.
typedef struct ls_tracer {
  uint64_t key;      // Part of a trace's key: the strategy's id, never 0.
  int32_t replicas;  // Number of replicas, part of the key; 0 means 1.
  uint64_t options;  // Options of `self`, part of the key.
  // Traces `function` into `graph`: a function graph that is not yet current,
  // or a current graph being built. In `args` arrays and tensors have become
  // tensors of the graph; distributed leaves are distributed tensors.
  // `*out_result` is a nest like that which a call returns.
  ls_status (*trace)(const struct ls_tracer *tracer, ls_graph *graph,
                     const ls_function_options *function, ls_nest args,
                     ls_nest *out_result);
  // Calls the function op by op, for a tape to record.
  ls_status (*call)(const struct ls_tracer *tracer,
                    const ls_function_options *function, ls_nest args,
                    ls_nest *out_result);
  void *self;
} ls_tracer;

// Calls a function by this tracer; `args` are as the callback gets them.
ls_status ls_function_call_by(ls_function *function, const ls_tracer *tracer,
                              ls_nest args, ls_nest *results);
// Returns (lends) the function's options; the name is never NULL.
const ls_function_options *ls_function_options_of(const ls_function *function);
// Returns true if arguments already have the form that a callback with these
// parameters gets: then ls_parameters_bind is not needed.
bool ls_arguments_are_bound(const ls_parameters *parameters, ls_nest args,
                            ls_nest named);

// Calls `look` with the newest trace, which stays until `look` has returned.
ls_status ls_function_look(const ls_function *function,
                           ls_status (*look)(ls_compiled *compiled,
                                             ls_store *store, void *user),
                           void *user);
// Returns the graph for these arguments, traced if need be, not run. In eager
// mode only.
ls_status ls_function_trace(ls_function *function, ls_nest args,
                            const ls_graph **out_graph);
// Returns the newest graph traced under the current export, else the newest;
// NULL: there is none.
const ls_graph *ls_function_graph_here(const ls_function *function);

// Makes results of a call in a graph being built run the call's effects: takes
// over `made` and returns it so that a session that fetches part of it also
// runs the effects among the nodes from `first` on. Outside of such graphs
// returns `made`.
ls_nest ls_bring_effects(const ls_graph *graph, size_t first, ls_nest made);

#endif  // LS_RUNTIME_FUNCTION_H_
