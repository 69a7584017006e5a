// SPDX-License-Identifier: Apache-2.0
// Layer: base
//
// Settings of a runtime: threads, devices, environment, debug switches.
//
// Threads: any number of threads may call these at the same time.
#ifndef LOCKSTEP_RUNTIME_SETTINGS_H_
#define LOCKSTEP_RUNTIME_SETTINGS_H_

#include "lockstep/runtime.h"
#include "lockstep/shape.h"

#ifdef __cplusplus
extern "C" {
#endif

// Returns the number of host calls that their runs have abandoned (see
// stall_ms) and that have not ended since. Each occupies a thread, if it is in
// its kernel, and keeps its program alive.
LS_API size_t ls_runtime_abandoned_calls(ls_runtime *runtime);

// Returns a variable of the runtime's environment, NULL if unset.
LS_API const char *ls_runtime_environment(const ls_runtime *runtime,
                                          const char *name);
LS_API int ls_runtime_threads(const ls_runtime *runtime);
LS_API int ls_runtime_input_threads(const ls_runtime *runtime);
LS_API int ls_runtime_cpus(const ls_runtime *runtime);
LS_API int ls_runtime_gpus(const ls_runtime *runtime);
// Returns the option `device`, "cpu" by default.
LS_API const char *ls_runtime_device(const ls_runtime *runtime);
// Returns the option `num_devices`; 0: all that the plug-in has.
LS_API int ls_runtime_num_devices(const ls_runtime *runtime);
// Returns the option `topology`; NULL: none.
LS_API const char *ls_runtime_topology(const ls_runtime *runtime);
LS_API bool ls_runtime_exact_bits(const ls_runtime *runtime);
LS_API bool ls_runtime_finds_nan(const ls_runtime *runtime);
LS_API ls_math ls_runtime_math(const ls_runtime *runtime);
// Returns "fast", "direct" or "bf16"; NULL for an unknown number. Static text.
LS_API const char *ls_math_name(ls_math math);

// Takes the description of the first NaN since the last call that a run made
// from numbers, else that a run was given, with the option find_nan: the op,
// its source line, the element, the replica, and the range of its operands.
// Returns false if no run had one. NaN that are meant, and selected away, are
// described too: ask when a result is one. `text` has room for `size` bytes, of
// which LS_NAN_TEXT are enough.
enum { LS_NAN_TEXT = 768 };
LS_API bool ls_runtime_take_nan(ls_runtime *runtime, char *text, size_t size);

// A result of an op, as a run has just computed it.
typedef struct ls_op_result {
  const char *label;  // "op 'head/log' (log) at mine.c:77". Lent, as `data`.
  int32_t replica;    // -1: of all replicas.
  int64_t trip;       // Trip of the innermost loop, from 0 on; -1: no loop.
  bool has_rows;      // Dimension 0 lists rows of an argument, such as a batch.
  ls_dtype dtype;
  ls_shape shape;
  const void *data;
  uint64_t hash;  // Depends on the bytes of the data only.
} ls_op_result;
typedef void (*ls_op_watch)(void *user, const ls_op_result *result);
// Calls `watch` with each result of the kernels of all later runs, with the
// option find_nan; NULL: no more. In the order of the ops if the runtime has
// one thread, else from several threads. Not while something runs.
LS_API void ls_runtime_watch_ops(ls_runtime *runtime, ls_op_watch watch,
                                 void *user);

// Returns true if the environment's LS_LOG enables lines of this level; for a
// log function that shows them to people.
LS_API bool ls_log_is_shown(ls_log_level level);

// Returns one line per debug switch, with its meaning, as printed by `lockstep
// help env`. Static text.
LS_API const char *ls_debug_switches_help(void);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_RUNTIME_SETTINGS_H_
