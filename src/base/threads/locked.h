// SPDX-License-Identifier: Apache-2.0
// Expressions that are evaluated with a lock held.
#ifndef LS_BASE_THREADS_LOCKED_H_
#define LS_BASE_THREADS_LOCKED_H_

#include "base/runtime_internal.h"
#include "base/threads/threads.h"

// Returns the value that an expression has while a mutex is held.
#define LS_LOCKED(mutex, ...)                                                  \
  __extension__({                                                              \
    ls_mutex *ls_held = (mutex);                                               \
    ls_mutex_lock(ls_held);                                                    \
    __typeof__(__VA_ARGS__) ls_value = (__VA_ARGS__);                          \
    ls_mutex_unlock(ls_held);                                                  \
    ls_value;                                                                  \
  })
// The same with a runtime's lock.
#define LS_RUNTIME_LOCKED(runtime, ...)                                        \
  __extension__({                                                              \
    ls_runtime *ls_held = (runtime);                                           \
    ls_runtime_lock(ls_held);                                                  \
    __typeof__(__VA_ARGS__) ls_value = (__VA_ARGS__);                          \
    ls_runtime_unlock(ls_held);                                                \
    ls_value;                                                                  \
  })

#endif  // LS_BASE_THREADS_LOCKED_H_
