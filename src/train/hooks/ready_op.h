// SPDX-License-Identifier: Apache-2.0
// An op that says which variables have no value.
#ifndef LS_TRAIN_HOOKS_READY_OP_H_
#define LS_TRAIN_HOOKS_READY_OP_H_

#include "lockstep/variable.h"

// A list of strings in the current graph, one for each variable: its name, or
// "" where it has a value. Failed: see the graph's error.
ls_tensor ls_report_uninitialized(ls_variable *const *variables, size_t count,
                                  const char *name);

#endif  // LS_TRAIN_HOOKS_READY_OP_H_
