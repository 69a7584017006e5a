// SPDX-License-Identifier: Apache-2.0
// Whether the tests are built with a sanitizer that makes them many times
// slower and has memory functions of its own.
#ifndef LS_TESTS_SUPPORT_SANITIZER_H_
#define LS_TESTS_SUPPORT_SANITIZER_H_

#ifndef __has_feature  // clang's; gcc has macros.
#define __has_feature(feature) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||           \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LS_SANITIZED 1
#else
#define LS_SANITIZED 0
#endif

// Where requests for memory are refused one after the other: with sanitizers
// every fifth. Without them all are, and from one to the next the same code is
// passed.
enum { FAULT_STRIDE = LS_SANITIZED ? 5 : 1 };

#endif  // LS_TESTS_SUPPORT_SANITIZER_H_
