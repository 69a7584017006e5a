// SPDX-License-Identifier: Apache-2.0
// Layer: runtime
//
// Traces and programs of functions: makes them ahead of time, prints and
// measures them.
//
// Threads: as in lockstep/function.h.
#ifndef LOCKSTEP_FUNCTION_PLAN_H_
#define LOCKSTEP_FUNCTION_PLAN_H_

#include "lockstep/device.h"
#include "lockstep/function.h"
#include "lockstep/host.h"

#ifdef __cplusplus
extern "C" {
#endif

// Makes a concrete function: the trace of `function` for such arguments,
// recorded now and never again. Wherever it is called, in a graph or by a
// strategy too, its ops are copied. The caller owns a reference.
//   LS_FAILED_PRECONDITION  called while a graph is being built.
// Calls of it fail with
//   LS_INVALID_ARGUMENT  an argument differs in structure, dtype or shape, or
//                        is another number or variable; names it. Or a
//                        collective was traced for another number of replicas.
LS_API LS_MUST_USE ls_status ls_function_make_concrete(
    ls_function *function, ls_nest args, ls_function **out_function);

// Makes a concrete function from the text of a function's graph, as printed by
// ls_graph_print of ls_function_graph or of a graph in an export
// (lockstep/export.h). It takes a list or tuple with a tensor for each
// parameter, in order, and returns a list of the results. `kernels` names the
// host kernels that may occur (NULL, 0: none). The caller owns a reference.
//   LS_INVALID_ARGUMENT  as ls_graph_parse; the graph is not a function's.
//   LS_UNIMPLEMENTED     it uses a variable, whose value no text has.
LS_API LS_MUST_USE ls_status
ls_function_load(const char *text, const ls_host_kernel *const *kernels,
                 size_t num_kernels, ls_function **out_function);

// Get and set the number of calls so far; a call with a loop of k steps
// (ls_step_while) counts as k when it ends, as one before. Random ops draw by
// it: setting it lets a run that resumes in another process continue their
// streams.
LS_API uint64_t ls_function_steps(const ls_function *function);
LS_API void ls_function_set_steps(ls_function *function, uint64_t steps);

// Lets later calls only trace and compile, or run again: meanwhile they compute
// nothing, change no variable and have no results. For the figures of a program
// before its memory is allocated.
LS_API void ls_function_set_compiles_only(ls_function *function, bool on);

// Returns the number of traces made so far.
LS_API size_t ls_function_num_traces(const ls_function *function);
// Returns the built graph of the newest trace, lent until the function is
// cleared, or called after a TPU system of the trace was initialized again; NULL
// if there is none.
LS_API const ls_graph *ls_function_graph(const ls_function *function);
// Prints the newest trace's program: the lowered graph, or the memory plan with
// its streams of instructions. The caller releases the text (ls_text_release).
//   LS_FAILED_PRECONDITION  no program yet: call the function first.
LS_API LS_MUST_USE ls_status
ls_function_print_lowered(const ls_function *function, char **out_text);
LS_API LS_MUST_USE ls_status ls_function_print_plan(const ls_function *function,
                                                    char **out_text);

// Returns figures of the newest trace's program.
//   LS_FAILED_PRECONDITION  no program yet: call the function first.
LS_API LS_MUST_USE ls_status ls_function_describe_program(
    const ls_function *function, ls_program_figures *out_figures);

// Lists the instructions of the newest trace's program in their order: writes
// up to `capacity`, and sets `*out_count` to their number.
//   LS_FAILED_PRECONDITION  no program yet: call the function first.
//   LS_UNIMPLEMENTED        the program is a plug-in's, which lists none.
LS_API LS_MUST_USE ls_status ls_function_list_instructions(
    const ls_function *function, ls_instruction_figures *instructions,
    size_t capacity, size_t *out_count);

// Starts or stops timing each instruction of the newest trace's program, on
// this thread's store. It slows a step by some 50 ns per instruction.
//   LS_FAILED_PRECONDITION  no program yet: call the function first.
LS_API LS_MUST_USE ls_status ls_function_measure(ls_function *function,
                                                 bool on);
// Prints the measurements: planned memory, then time, flops and bytes by
// kernel, with their share of the machine's speed, measured now. The caller
// releases the text (ls_text_release).
//   LS_FAILED_PRECONDITION  nothing was measured.
LS_API LS_MUST_USE ls_status ls_function_print_cost(const ls_function *function,
                                                    char **out_text);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_FUNCTION_PLAN_H_
