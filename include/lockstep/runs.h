// SPDX-License-Identifier: Apache-2.0
// Layer: engine
//
// Runs in progress in a runtime, for debugging.
//
// Threads: any thread may call this at any time, but signal handlers may not.
#ifndef LOCKSTEP_RUNS_H_
#define LOCKSTEP_RUNS_H_

#include "lockstep/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

// Prints a table of the runs in progress: the op that each replica is in and
// what it waits for, which replicas have reached each merge call and which have
// not, and the latest turns. Each line ends with a newline; "" when nothing
// runs. Runs continue meanwhile, so lines of a table may be taken at slightly
// different times. The caller releases the text (ls_text_release).
LS_API LS_MUST_USE ls_status ls_runs_print(ls_runtime *runtime,
                                           char **out_text);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_RUNS_H_
