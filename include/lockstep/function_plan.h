// SPDX-License-Identifier: Apache-2.0
// Layer: runtime
//
// Traces and programs of functions: made ahead, printed and measured.
//
// Threads: as in lockstep/function.h.
#ifndef LOCKSTEP_FUNCTION_PLAN_H_
#define LOCKSTEP_FUNCTION_PLAN_H_

#include "lockstep/function.h"
#include "lockstep/host.h"

#ifdef __cplusplus
extern "C" {
#endif

// A concrete function: what `function` records for such arguments, traced here
// and now and never again. Wherever it is called, in a graph or by a strategy
// too, its ops are copies of these. The caller owns a reference.
//   LS_FAILED_PRECONDITION  called while a graph is being built.
// Calls of it are refused as
//   LS_INVALID_ARGUMENT     the arguments are of another structure, dtype or
//                           shape, or another number or variable; names it.
LS_API LS_MUST_USE ls_status ls_function_make_concrete(
    ls_function *function, ls_nest args, ls_function **out_function);

// A concrete function from the text of a function's graph, as ls_graph_print
// gives it of ls_function_graph or of what an export holds
// (lockstep/export.h). It takes a list or tuple with a tensor for each
// parameter, in order, and gives a list of the results. `kernels` names the
// host kernels that may occur (NULL, 0: none). The caller owns a reference.
//   LS_INVALID_ARGUMENT  as ls_graph_parse; the graph is no function's.
//   LS_UNIMPLEMENTED     it uses a variable, whose value no text has.
LS_API LS_MUST_USE ls_status
ls_function_load(const char *text, const ls_host_kernel *const *kernels,
                 size_t num_kernels, ls_function **out_function);

// Calls so far, and setting their number; a call with a loop of k steps
// (ls_step_while) is k. Random ops draw by it: a run that is continued in
// another process goes on where their streams stood.
LS_API uint64_t ls_function_steps(const ls_function *function);
LS_API void ls_function_set_steps(ls_function *function, uint64_t steps);

// Number of traces that were made so far.
LS_API size_t ls_function_num_traces(const ls_function *function);
// The built graph of the newest trace, lent until the function is cleared;
// NULL before the first.
LS_API const ls_graph *ls_function_graph(const ls_function *function);
// The newest trace's program as text: the lowered graph, or the memory plan
// with its streams of instructions. The caller releases it (ls_text_release).
//   LS_FAILED_PRECONDITION  no program yet: call the function first.
LS_API LS_MUST_USE ls_status
ls_function_print_lowered(const ls_function *function, char **out_text);
LS_API LS_MUST_USE ls_status ls_function_print_plan(const ls_function *function,
                                                    char **out_text);

// Counts from now on what each instruction of the newest trace's program
// takes, on this thread's store, or stops that. A step gets some 50 ns an
// instruction slower.
//   LS_FAILED_PRECONDITION  no program yet: call the function first.
LS_API LS_MUST_USE ls_status ls_function_measure(ls_function *function,
                                                 bool on);
// Prints what was counted: planned memory, then time, flops and bytes by
// kernel, with their share of what the machine can do, measured now. The caller
// releases it (ls_text_release).
//   LS_FAILED_PRECONDITION  nothing was measured.
LS_API LS_MUST_USE ls_status ls_function_print_cost(const ls_function *function,
                                                    char **out_text);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_FUNCTION_PLAN_H_
