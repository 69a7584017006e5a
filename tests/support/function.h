// SPDX-License-Identifier: Apache-2.0
// Functions for tests.
#ifndef LS_TESTS_SUPPORT_FUNCTION_H_
#define LS_TESTS_SUPPORT_FUNCTION_H_

#include "lockstep/function.h"

// A function 'f' of this callback. The caller's.
ls_function *function_of(ls_callback call, void *user);

#endif  // LS_TESTS_SUPPORT_FUNCTION_H_
