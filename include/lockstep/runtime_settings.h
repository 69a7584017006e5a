// SPDX-License-Identifier: Apache-2.0
// Layer: base
//
// Settings of a runtime: threads, devices, environment, debug switches.
//
// Threads: any number of threads may ask at the same time.
#ifndef LOCKSTEP_RUNTIME_SETTINGS_H_
#define LOCKSTEP_RUNTIME_SETTINGS_H_

#include "lockstep/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

// Host calls that runs did not wait for to the end (see stall_ms) and that have
// not ended since. Each holds a thread, if it is in its kernel, and keeps its
// program alive.
LS_API size_t ls_runtime_abandoned_calls(ls_runtime *runtime);

// A variable of the runtime's environment, NULL if unset.
LS_API const char *ls_runtime_environment(const ls_runtime *runtime,
                                          const char *name);
LS_API int ls_runtime_threads(const ls_runtime *runtime);
LS_API int ls_runtime_input_threads(const ls_runtime *runtime);
LS_API int ls_runtime_cpus(const ls_runtime *runtime);
LS_API int ls_runtime_gpus(const ls_runtime *runtime);
LS_API ls_math ls_runtime_math(const ls_runtime *runtime);
// "fast", "direct" or "bf16"; NULL: there is no such math. Static text.
LS_API const char *ls_math_name(ls_math math);

// Returns true if the environment's LS_LOG lets lines of this level through;
// for a sink that shows them to people.
LS_API bool ls_log_is_shown(ls_log_level level);

// One line per debug switch, with its meaning, from the one table there is;
// printed by `lockstep help env`. Static text.
LS_API const char *ls_debug_switches_help(void);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_RUNTIME_SETTINGS_H_
