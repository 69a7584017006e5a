// SPDX-License-Identifier: Apache-2.0
// Layer: tpu
//
// Variables of TPU strategies: what there is of them beyond any strategy's.
//
// Outside of computations they are a mirrored strategy's. In one
// (lockstep/replicate.h) such a variable stands for the replica's own copy,
// whoever began it: it is read and written as it is there, through one handle
// that is made around the computation. Whatever cores its replicas are on, that
// is the copy that lies on the replica's core: none there is INVALID_ARGUMENT,
// and so is a write of an ON_WRITE variable that does not reach all copies. In
// replicas of another strategy it cannot be used. What all replicas write with
// another aggregation than NONE is put together first, whatever tensor it is;
// rows are written with NONE alone.
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

// ---- On several cores ------------------------------------------------------
// Of a strategy that is made with `spmd`, and has several logical cores for
// each replica, a component (ls_variable_component) is itself a replicated
// variable, "<name>/r:<replica>": a variable on each core of the replica. As
// cores never differ there, one has the value, and the others are handles over
// it, each on its core's device.
//
// Reading and saving one takes the value of core 0, writing and restoring it
// reaches all. Its synchronization and aggregation are NONE. Its handle
// (ls_variable_handle) is there in computations and exports alone, else it is
// LS_UNIMPLEMENTED.

// Creates one over the variables of some leaves, that of core 0 first; type and
// flags are the first's. `name` may be NULL: the first's. The caller owns a
// reference.
//   LS_INVALID_ARGUMENT  no leaf, or one that is no plain variable; several
//                        dtypes, shapes or graphs: says which.
LS_API LS_MUST_USE ls_status
ls_replicated_variable_create(const char *name, const ls_nest *leaves,
                              size_t count, ls_variable **out_variable);
// On how many cores it is; 0 of any other variable.
LS_API size_t ls_replicated_variable_num_cores(const ls_variable *variable);
// That on a core, lent; NULL: there is none.
LS_API ls_variable *ls_replicated_variable_on_core(const ls_variable *variable,
                                                   size_t core);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_TPU_VARIABLE_H_
