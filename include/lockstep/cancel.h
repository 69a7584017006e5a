// SPDX-License-Identifier: Apache-2.0
// Layer: base
//
// Cancelling runs.
//
// A cancel is a flag. Runs that begin while it is their thread's current one
// (of functions, eager ops, strategies, sessions) look at it where they begin,
// at each trip of a loop, and whenever they wait for the host; once it is
// requested they end with LS_CANCELLED. Their variables are then as before or,
// if they are the values that a loop goes round with, as its last whole trip
// left them, wherever that is known: see function.h.
//
// Threads: any thread may request at any time, but for signal handlers. What is
// current belongs to a thread, or to the replica that runs on it.
#ifndef LOCKSTEP_CANCEL_H_
#define LOCKSTEP_CANCEL_H_

#include "lockstep/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_cancel ls_cancel;

LS_API LS_MUST_USE ls_status ls_cancel_create(ls_runtime *runtime,
                                              ls_cancel **out_cancel);
// It may be nobody's current one, nor that of a run. NULL is fine.
LS_API void ls_cancel_destroy(ls_cancel *cancel);

// Has the runs end. They, and those that begin later, are told LS_CANCELLED,
// soon; one in a host function when that returns.
LS_API void ls_cancel_request(ls_cancel *cancel);
LS_API bool ls_cancel_is_requested(const ls_cancel *cancel);
// It is as new.
LS_API void ls_cancel_reset(ls_cancel *cancel);

// Makes it this thread's; NULL: none. The one before is returned.
LS_API ls_cancel *ls_cancel_make_current(ls_cancel *cancel);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_CANCEL_H_
