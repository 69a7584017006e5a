// SPDX-License-Identifier: Apache-2.0
// Layer: tpu
//
// Variables of TPU strategies: additions to those of other strategies.
//
// Outside of computations they behave as a mirrored strategy's. In a
// computation (lockstep/replicate.h) such a variable is the replica's own copy,
// whoever built the computation: it is read and written in place, through one
// handle made around the computation. The copy is the one on the replica's
// core: it is INVALID_ARGUMENT if there is none, and so is a write of an
// ON_WRITE variable that does not reach all copies. It cannot be used in
// replicas of another strategy. Writes of all replicas with another aggregation
// than NONE are aggregated first, whatever tensor they write; rows are written
// with NONE only.
//
// Threads: as for all variables.
#ifndef LOCKSTEP_TPU_VARIABLE_H_
#define LOCKSTEP_TPU_VARIABLE_H_

#include "lockstep/strategy.h"

#ifdef __cplusplus
extern "C" {
#endif

// Gets the op "<name>/handle" of a variable in the current computation, made at
// the first use; its attributes say if the variable is mirrored and packed.
//   LS_INVALID_ARGUMENT     not a TPU strategy's variable, or a replica has no
//                           copy of it on any core: names it.
//   LS_FAILED_PRECONDITION  outside of computations.
LS_API LS_MUST_USE ls_status ls_tpu_variable_handle(ls_variable *variable,
                                                    ls_op *out_op);
// Reads the variable of a leaf: one of a TPU strategy, or a plain one.
//   LS_INVALID_ARGUMENT  it is neither.
LS_API LS_MUST_USE ls_status ls_tpu_read_variable(ls_nest leaf,
                                                  ls_tensor *out_value);

// ---- On several cores ------------------------------------------------------
// In a strategy with `spmd` and several logical cores per replica, a component
// (ls_variable_component) is itself a replicated variable,
// "<name>/r:<replica>": a variable on each core of the replica. As cores never
// differ there, one holds the value, and the others are handles over it, each
// on its core's device.
//
// Reading and saving one takes the value of core 0, writing and restoring it
// reaches all. Its synchronization and aggregation are NONE. Its handle
// (ls_variable_handle) exists in computations and exports only, elsewhere it is
// LS_UNIMPLEMENTED.

// Creates a replicated variable over the variables of some leaves, that of core
// 0 first; type and flags are the first's. `name` may be NULL: the first's. The
// caller owns a reference.
//   LS_INVALID_ARGUMENT  no leaf, or one that is no plain variable; several
//                        dtypes, shapes or graphs: says which.
LS_API LS_MUST_USE ls_status
ls_replicated_variable_create(const char *name, const ls_nest *leaves,
                              size_t count, ls_variable **out_variable);
// Returns the number of its cores; 0 for any other variable.
LS_API size_t ls_replicated_variable_num_cores(const ls_variable *variable);
// Returns the variable on a core, lent; NULL if there is none.
LS_API ls_variable *ls_replicated_variable_on_core(const ls_variable *variable,
                                                   size_t core);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_TPU_VARIABLE_H_
