// SPDX-License-Identifier: Apache-2.0
// Two systems at once, as a way to run tests that have one: beside the test's
// system another one stands in its runtime, which is initialized again and
// again and so later than the test's; and in a runtime of its own a thread
// trains on a pod with the name of the test's, and checks what its own feeds
// give.
//
// Who initializes a system for tests (fed, programs, pod_runs, device_runs,
// estimators, resumable, witnessed) begins it, so that all of their tests run
// so: a third of the times, drawn by LS_TEST_SEED; with LS_TEST_BESIDE=always
// each time, with LS_TEST_BESIDE=never not at all.
#ifndef LS_TESTS_SUPPORT_BYSTANDER_H_
#define LS_TESTS_SUPPORT_BYSTANDER_H_

#include "lockstep/runtime.h"

// Begins beside the current runtime's system of this name, if it is drawn and
// none stands there. Its end: that of the runtime, if that is a counted one, or
// bystander_end.
void bystander_begin(const char *name);
// Ends what stands beside this runtime; nothing if there is none.
void bystander_end(ls_runtime *runtime);
// None in this process from now on, as threads or memory of all are counted;
// NULL: they are possible again.
void bystander_forbid(const char *reason);

#endif  // LS_TESTS_SUPPORT_BYSTANDER_H_
