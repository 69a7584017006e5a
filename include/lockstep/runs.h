// SPDX-License-Identifier: Apache-2.0
// Layer: engine
//
// Runs: what is under way in a runtime, for a person who wonders.
//
// Threads: any thread may ask at any time, but for signal handlers.
#ifndef LOCKSTEP_RUNS_H_
#define LOCKSTEP_RUNS_H_

#include "lockstep/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

// A table of the runs that are under way: which replica is in which op, what it
// waits for, who has come to each merge and who has not, and what the last
// turns were. Each line ends with a newline; "" when nothing runs. A run goes
// on meanwhile, so lines of a table may be a moment apart. The caller releases
// it (ls_text_release). Thread-safe; not for signal handlers.
LS_API LS_MUST_USE ls_status ls_runs_print(ls_runtime *runtime,
                                           char **out_text);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_RUNS_H_
