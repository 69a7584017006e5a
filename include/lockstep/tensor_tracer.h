// SPDX-License-Identifier: Apache-2.0
// Layer: estimator
//
// Tensor tracing: logs the tensors from which a loss is computed, a line each
// in every run, to find out where numbers go wrong.
//
// It is on if the environment's TENSOR_TRACER_FLAGS (or LS_TENSOR_TRACER_FLAGS,
// which takes precedence) has --enable: without a value, or with 1, t, true, y
// or yes. Flags are --name, --name=value, --name='value' or --name="value",
// separated by blanks:
//   trace_mode         nan-inf       true if an element is NaN or infinite; the
//                                    default
//                      part-tensor   the first three elements
//                      full-tensor   all elements
//                      norm          the root of the sum of squares
//                      max-abs       the largest absolute value
//   trace_scalar       also traces scalars; default: left out
//   op_range=A:B       only numbers A to B of the ops to trace, from 0
//   included_opnames, included_optypes
//                      patterns (`*`, `?`, `[a-z]`) separated by commas: only
//                      ops whose name or type matches one of them
//   excluded_opnames, excluded_optypes
//                      patterns of ops to leave out
// Switches are on with the values above. A line such as
//   replica 0: 'dense/relu:0' norm = 3.25
// goes, unless the runtime has a log function, to standard error: information
// each time; a NaN or infinity is a warning, printed there once.
//
// Traced are the results, of floats and except for nan-inf of integers, of all
// ops that the loss needs in its graph: no constants, inputs and ops with
// effects, and no ops inside loops and branches.
//
// Threads: as for graphs.
#ifndef LOCKSTEP_TENSOR_TRACER_H_
#define LOCKSTEP_TENSOR_TRACER_H_

#include "lockstep/estimator_spec.h"

#ifdef __cplusplus
extern "C" {
#endif

LS_API bool ls_tensor_tracer_is_on(void);

// Adds tracing ops to a computation for TPUs, while it is built, for what
// `loss`, and `train_op` (id 0: none) if given, need; hosts run them.
// `*out_loss` is the same loss, which waits for them. `*out_ops`, which the
// caller owns, is a list of ops that must run in any case; it is empty if
// nothing is traced. Without flags it behaves as with --enable alone.
//   LS_INVALID_ARGUMENT  an unknown flag or mode: lists the known ones.
LS_API LS_MUST_USE ls_status ls_trace_tpu(ls_tensor loss, ls_op train_op,
                                          ls_tensor *out_loss,
                                          ls_nest *out_ops);

// Makes a host function for CPUs, with its arguments, that adds such ops for
// what `fetches` need, tensors and ops of the current graph. Its `call` is NULL
// if nothing is traced. Free it with ls_trace_cpu_end after the call. Fails as
// ls_trace_tpu.
LS_API LS_MUST_USE ls_status ls_trace_cpu(ls_nest fetches,
                                          ls_host_function *out_call);
LS_API void ls_trace_cpu_end(ls_host_function *call);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_TENSOR_TRACER_H_
