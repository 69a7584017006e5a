// SPDX-License-Identifier: Apache-2.0
// Layer: estimator
//
// Tensor tracing: what the tensors are on the way to a loss, a line of the log
// each in every run, to find out where numbers go wrong.
//
// It is on where the environment's TENSOR_TRACER_FLAGS (or
// LS_TENSOR_TRACER_FLAGS, which wins) has --enable: without a value, or with 1,
// t, true, y or yes. Flags are --name, --name=value, --name='value' or
// --name="value", with blanks between them:
//   trace_mode         nan-inf       whether an element is nan or infinite; the
//                                    default
//                      part-tensor   the first three elements
//                      full-tensor   all elements
//                      norm          the root of the sum of squares
//                      max-abs       the largest absolute value
//   trace_scalar       scalars, too; else they are left out
//   op_range=A:B       of all that would be traced number A to B, from 0
//   included_opnames, included_optypes
//                      patterns (`*`, `?`, `[a-z]`) between commas: only ops
//                      whose name or type fits one of them
//   excluded_opnames, excluded_optypes
//                      the same: none of these
// Switches are on with the values above. A line says
//   replica 0: 'dense/relu:0' norm = 3.25
// and goes, without a sink of the runtime's, to standard error: information
// each time; that there is a nan or infinity is a warning, and comes there
// once.
//
// Traced are the results, of floats and but for nan-inf of integers, of all ops
// that the loss needs in its graph: not constants, inputs and what has effects,
// nor what stands inside of loops and branches.
//
// Threads: as of graphs.
#ifndef LOCKSTEP_TENSOR_TRACER_H_
#define LOCKSTEP_TENSOR_TRACER_H_

#include "lockstep/estimator_spec.h"

#ifdef __cplusplus
extern "C" {
#endif

LS_API bool ls_tensor_tracer_is_on(void);

// In a computation for TPUs, while it is made: adds ops behind what `loss`, and
// `train_op` (id 0: none) if it is there, need, which hosts run. `*out_loss` is
// the same loss, which waits for them. `*out_ops` is a list of ops to be run in
// any case, the caller's; an empty one if nothing is traced. Without flags as
// if there was --enable alone.
//   LS_INVALID_ARGUMENT  a flag or mode that there is not: lists those that
//                        there are.
LS_API LS_MUST_USE ls_status ls_trace_tpu(ls_tensor loss, ls_op train_op,
                                          ls_tensor *out_loss,
                                          ls_nest *out_ops);

// For CPUs: `*out_call` is a function on the host, with what it is given, that
// adds such ops for what `fetches` need, tensors and ops of the current graph.
// Its `call` is NULL if nothing is traced. Given back with ls_trace_cpu_end
// once it was called. The same statuses.
LS_API LS_MUST_USE ls_status ls_trace_cpu(ls_nest fetches,
                                          ls_host_function *out_call);
LS_API void ls_trace_cpu_end(ls_host_function *call);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_TENSOR_TRACER_H_
