// SPDX-License-Identifier: Apache-2.0
// Where the thread is: in the default strategy's replica, or across those of a
// strategy.
#ifndef LS_TESTS_SUPPORT_CONTEXTS_H_
#define LS_TESTS_SUPPORT_CONTEXTS_H_

#include "lockstep/strategy.h"

// Exactly one of the two is there, always.
void expect_one_context(void);
void expect_default(void);
void expect_cross(ls_strategy *strategy);

#endif  // LS_TESTS_SUPPORT_CONTEXTS_H_
