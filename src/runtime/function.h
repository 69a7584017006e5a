// SPDX-License-Identifier: Apache-2.0
//
// Functions, as the layers above see them: how a strategy has its own way of
// tracing, and shares traces, programs and calls.
#ifndef LS_RUNTIME_FUNCTION_H_
#define LS_RUNTIME_FUNCTION_H_

#include "lockstep/distributed.h"
#include "lockstep/function.h"
#include "runtime/program.h"

// A way of tracing. Zeroed: the function itself, once.
typedef struct ls_tracer {
  uint64_t key;      // Part of a trace's key: the strategy's id, never 0.
  int32_t replicas;  // Also part of it. 0: 1.
  uint64_t options;  // Also part of it: what `self` was told.
  // Traces `function` into `graph`: a function graph that is not yet current,
  // or one being built, which is. In `args` arrays and tensors have become
  // tensors of the graph; distributed leaves are distributed tensors.
  // `*out_result` is a nest like what a call returns.
  ls_status (*trace)(const struct ls_tracer *tracer, ls_graph *graph,
                     const ls_function_options *function, ls_nest args,
                     ls_nest *out_result);
  // Runs it op by op: under a tape, which records that.
  ls_status (*call)(const struct ls_tracer *tracer,
                    const ls_function_options *function, ls_nest args,
                    ls_nest *out_result);
  void *self;
} ls_tracer;

// `args` are as its callback gets them.
ls_status ls_function_call_by(ls_function *function, const ls_tracer *tracer,
                              ls_nest args, ls_nest *results);
// Returns the options it was made with, lent; its name is never NULL.
const ls_function_options *ls_function_options_of(const ls_function *function);
// Returns true if arguments are already as a callback with these parameters
// gets them: then there is nothing to bind (ls_parameters_bind).
bool ls_arguments_are_bound(const ls_parameters *parameters, ls_nest args,
                            ls_nest named);

// Looks at the newest trace, which stays until `look` has returned.
ls_status ls_function_look(const ls_function *function,
                           ls_status (*look)(ls_compiled *compiled,
                                             ls_store *store, void *user),
                           void *user);
// The graph for these arguments, traced if need be, not run; in eager.
ls_status ls_function_trace(ls_function *function, ls_nest args,
                            const ls_graph **out_graph);
// The newest one that was traced in an export like the one at hand, else the
// newest; NULL: there is none.
const ls_graph *ls_function_graph_here(const ls_function *function);

// Takes over what a call has made in a graph being built, of the nodes from
// `first` on, and gives it back so that who fetches any of it runs the effects
// among these nodes. Anywhere else as it is.
ls_nest ls_bring_effects(const ls_graph *graph, size_t first, ls_nest made);

#endif  // LS_RUNTIME_FUNCTION_H_
