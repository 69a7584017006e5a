// SPDX-License-Identifier: Apache-2.0
// How many threads this process has.
#ifndef LS_TESTS_SUPPORT_THREAD_COUNT_H_
#define LS_TESTS_SUPPORT_THREAD_COUNT_H_

// Those of a sanitizer, which begin with the first one, included.
int thread_count(void);
// Those of that name, of which the system keeps 15 characters.
int threads_called(const char *name);

#endif  // LS_TESTS_SUPPORT_THREAD_COUNT_H_
