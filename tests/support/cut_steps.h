// SPDX-License-Identifier: Apache-2.0
// Random steps of loops, branches, host calls, draws and collectives, some of
// which all replicas come to together and some not.
#ifndef LS_TESTS_SUPPORT_CUT_STEPS_H_
#define LS_TESTS_SUPPORT_CUT_STEPS_H_

#include "support/step_state.h"

enum { CUT_MOST_CALLS = 4096 };

// A replica's step; `user` of the run is a random_step.
ls_nest cut_step(ls_nest args, ways *self);

// A call of the host: which one, and by which of how many replicas.
typedef struct cut_call {
  int32_t op, replicas, replica;
  float value;
} cut_call;

// Forgets all calls; lists those since then, of all ranks, by replica in its
// order. Whether one has come to a rank that does not host the replica.
void cut_forget_calls(void);
size_t cut_calls(cut_call *out);
bool cut_has_strayed(void);

#endif  // LS_TESTS_SUPPORT_CUT_STEPS_H_
