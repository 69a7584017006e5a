// SPDX-License-Identifier: Apache-2.0
// Launches: the requests that a program with a replicated computation for the
// cores of a system makes before it is compiled and before it runs. The layer
// that keeps such systems installs the table (ls_runtime.launches).
//
// Thread-safe.
#ifndef LS_ENGINE_LAUNCH_H_
#define LS_ENGINE_LAUNCH_H_

#include "base/text.h"
#include "engine/backend.h"

typedef struct ls_launch_type {
  // Makes the launch of a computation, owned by the caller, or returns the
  // reason why it cannot run. `node` is the op with its metadata.
  ls_status (*make)(ls_runtime *runtime, const ls_node *node,
                    ls_object **out_launch);
  // Appends to `key` whatever tells this launch from others: programs with
  // different keys are compiled separately.
  void (*identify)(const ls_object *launch, ls_text *key);
  // Returns true if a program compiled with it may still run; otherwise it must
  // be compiled again.
  bool (*is_current)(const ls_object *launch);
  // Checks a compiled program against the launch; an error rejects the program.
  ls_status (*check)(ls_object *launch, const ls_program *program,
                     const ls_plan_facts *facts);
  // Starts a run; waits where a core is slow.
  ls_status (*pass)(ls_object *launch);
} ls_launch_type;

#endif  // LS_ENGINE_LAUNCH_H_
