// SPDX-License-Identifier: Apache-2.0
// Launches: what a program with a replicated computation for the cores of a
// system asks before it is compiled and before it runs. Who keeps such systems
// gives the runtime the table (ls_runtime.launches).
//
// Thread-safe.
#ifndef LS_ENGINE_LAUNCH_H_
#define LS_ENGINE_LAUNCH_H_

#include "base/text.h"
#include "engine/backend.h"

typedef struct ls_launch_type {
  // What a computation is launched by; `node` is the op that knows its
  // metadata. NULL: nothing stands in its way. The caller's.
  ls_status (*make)(ls_runtime *runtime, const ls_node *node,
                    ls_object **out_launch);
  // Appends what tells it from others: programs that differ here are two.
  void (*identify)(const ls_object *launch, ls_text *key);
  // Whether a program that was compiled with it may still run, or must be
  // compiled anew.
  bool (*is_current)(const ls_object *launch);
  // The program was compiled: whether it may be kept.
  ls_status (*check)(ls_object *launch, const ls_program *program,
                     const ls_plan_facts *facts);
  // A run begins; waits where a core is slow.
  ls_status (*pass)(ls_object *launch);
} ls_launch_type;

#endif  // LS_ENGINE_LAUNCH_H_
