// SPDX-License-Identifier: Apache-2.0
// Layer: distribute
//
// Handles over variables: variables without a value of their own that read and
// write others.
//
// A caching variable reads its variable once per caching scope. A packed
// variable stands for one variable on each of several devices: the one on the
// current device. Both are used as any other variable.
//
// Threads: a handle is used as any variable; a caching scope belongs to its
// thread.
#ifndef LOCKSTEP_HANDLES_H_
#define LOCKSTEP_HANDLES_H_

#include "lockstep/variable.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Caching ---------------------------------------------------------------
// Begins a scope in which, on this thread and in the replicas that it starts, a
// caching variable is read once; end it with ls_scope_end.
//   LS_FAILED_PRECONDITION  in the scope: inside another caching scope, which
//                           stays in force.
LS_API void ls_caching_scope_begin(ls_scope *scope);
#define LS_CACHING_SCOPE LS_BARE_SCOPE_(ls_caching_scope_begin)
// Numbers of caching scopes that this thread has entered and left.
typedef struct ls_caching_counts {
  uint64_t entered, left;
} ls_caching_counts;
LS_API ls_caching_counts ls_caching_counts_here(void);
LS_API bool ls_in_caching_scope(void);

// Creates a handle over a plain variable: its first read in a caching scope is
// kept on the CPU and returned by later reads in that scope, even after a
// write. Writes go to the variable; reads of single rows are never kept. The
// caller owns a reference.
//   LS_INVALID_ARGUMENT  a distributed variable, or another handle.
LS_API LS_MUST_USE ls_status
ls_caching_variable_create(ls_variable *variable, ls_variable **out_variable);

// ---- Packed ----------------------------------------------------------------
// Creates a handle over the variables of several leaves, one per device; its
// type and flags are those of the first. `name` may be NULL: the first's. The
// caller owns a reference.
//   LS_FAILED_PRECONDITION  not in eager.
//   LS_INVALID_ARGUMENT     no leaf, or one that is no plain variable, or of
//                           another type than the first: says which.
LS_API LS_MUST_USE ls_status
ls_packed_variable_create(const char *name, const ls_nest *leaves, size_t count,
                          ls_variable **out_variable);
// Returns the packed handle of a distributed variable whose strategy packs
// variables created in eager, "<name>/packed/"; lent. NULL if there is none.
LS_API ls_variable *ls_variable_packed(const ls_variable *variable);
// Gets the variable on this device, else the first one of which it is the
// host's CPU; lent.
//   LS_INVALID_ARGUMENT  there is none: names the device.
LS_API LS_MUST_USE ls_status ls_packed_variable_on(const ls_variable *packed,
                                                   const char *device,
                                                   ls_variable **out_variable);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_HANDLES_H_
