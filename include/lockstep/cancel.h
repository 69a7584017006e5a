// SPDX-License-Identifier: Apache-2.0
// Layer: base
//
// Cancellation of runs.
//
// A cancel is a flag. Runs (of functions, eager ops, strategies, sessions) that
// start while it is their thread's current one check it at their start, at each
// iteration of a loop, and whenever they wait for the host; once it is
// requested they end with LS_CANCELLED. Their variables are then unchanged;
// loop-carried variables have the values of the last complete iteration,
// wherever that is known: see function.h.
//
// Threads: any thread may request cancellation at any time, but signal handlers
// may not. The current cancel belongs to a thread, or to the replica that runs
// on it.
#ifndef LOCKSTEP_CANCEL_H_
#define LOCKSTEP_CANCEL_H_

#include "lockstep/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_cancel ls_cancel;

LS_API LS_MUST_USE ls_status ls_cancel_create(ls_runtime *runtime,
                                              ls_cancel **out_cancel);
// Destroys the cancel, which must be neither some thread's current one nor that
// of a run. NULL is fine.
LS_API void ls_cancel_destroy(ls_cancel *cancel);

// Requests that the runs end. They, and those that start later, soon fail with
// LS_CANCELLED; a run inside a host function ends when that returns.
LS_API void ls_cancel_request(ls_cancel *cancel);
LS_API bool ls_cancel_is_requested(const ls_cancel *cancel);
// Clears the request.
LS_API void ls_cancel_reset(ls_cancel *cancel);

// Makes the cancel this thread's current one (NULL: none) and returns the
// previous one.
LS_API ls_cancel *ls_cancel_make_current(ls_cancel *cancel);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_CANCEL_H_
