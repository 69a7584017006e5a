// SPDX-License-Identifier: Apache-2.0
// Time as it passes for this process, and processes that it has started.
#ifndef LS_TESTS_SUPPORT_PROCESS_H_
#define LS_TESTS_SUPPORT_PROCESS_H_

#include <stdint.h>
#include <sys/types.h>

// The monotonic clock.
double seconds_now(void);
int64_t micros_now(void);
// Waits for a child process: its exit code, or minus the signal that killed it.
int wait_for_child(pid_t child);

#endif  // LS_TESTS_SUPPORT_PROCESS_H_
