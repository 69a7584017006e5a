// SPDX-License-Identifier: Apache-2.0
// How many threads this process has.
#ifndef LS_TESTS_SUPPORT_THREAD_COUNT_H_
#define LS_TESTS_SUPPORT_THREAD_COUNT_H_

// Those of a sanitizer, which begin with the first one, included.
int thread_count(void);

#endif  // LS_TESTS_SUPPORT_THREAD_COUNT_H_
