// SPDX-License-Identifier: Apache-2.0
// Defines macros for the sanitizer of this build, for gcc (which has macros)
// and clang (which has features).
#ifndef LS_BASE_THREADS_SANITIZERS_H_
#define LS_BASE_THREADS_SANITIZERS_H_

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LS_ADDRESS_SANITIZER
#endif
#if __has_feature(thread_sanitizer)
#define LS_THREAD_SANITIZER
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define LS_ADDRESS_SANITIZER
#endif
#if defined(__SANITIZE_THREAD__)
#define LS_THREAD_SANITIZER
#endif

#if defined(LS_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#endif

#endif  // LS_BASE_THREADS_SANITIZERS_H_
