// SPDX-License-Identifier: Apache-2.0
// Layer: tpu
//
// Variables of TPU strategies: what there is of them beyond any strategy's.
//
// Outside of computations they are a mirrored strategy's. In one
// (lockstep/replicate.h) such a variable stands for the replica's own copy,
// whoever began it: it is read and written as it is there, through one handle
// that is made around the computation. What all replicas write with another
// aggregation than NONE is put together first, whatever tensor it is; rows are
// written with NONE alone.
//
// Threads: as of all variables.
#ifndef LOCKSTEP_TPU_VARIABLE_H_
#define LOCKSTEP_TPU_VARIABLE_H_

#include "lockstep/strategy.h"

#ifdef __cplusplus
extern "C" {
#endif

// The op "<name>/handle" of a variable in the computation at hand, made at the
// first use; it says in attributes whether the variable is mirrored and packed.
//   LS_INVALID_ARGUMENT     no TPU strategy's, or no copy of it is on any core
//                           of some replica: names it.
//   LS_FAILED_PRECONDITION  outside of computations.
LS_API LS_MUST_USE ls_status ls_tpu_variable_handle(ls_variable *variable,
                                                    ls_op *out_op);
// The value of a variable's leaf: one of a TPU strategy, or a plain one.
//   LS_INVALID_ARGUMENT  it is neither.
LS_API LS_MUST_USE ls_status ls_tpu_read_variable(ls_nest leaf,
                                                  ls_tensor *out_value);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_TPU_VARIABLE_H_
