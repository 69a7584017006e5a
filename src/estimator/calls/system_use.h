// SPDX-License-Identifier: Apache-2.0
//
// Which estimator uses a system: a core has one program and one pair of queues,
// so a system has one user at a time, whose end shuts it down.
#ifndef LS_ESTIMATOR_CALLS_SYSTEM_USE_H_
#define LS_ESTIMATOR_CALLS_SYSTEM_USE_H_

#include "estimator/config/plan.h"

// A user's, in its own memory. Zeroed: it uses none.
typedef struct ls_system_use {
  struct ls_system_use *next;  // Of the runtime's.
  ls_runtime *runtime;
  ls_system_id *id;    // NULL: none.
  const char *folder;  // The user's model_dir. Lent.
  ls_estimator_mode mode;
} ls_system_use;

// Begins to use the plan's system.
//   LS_FAILED_PRECONDITION  another one does: names the system and that one.
LS_MUST_USE ls_status ls_system_use_begin(ls_system_use *self,
                                          const ls_plan *plan,
                                          const char *folder);
void ls_system_use_end(ls_system_use *self);

#endif  // LS_ESTIMATOR_CALLS_SYSTEM_USE_H_
