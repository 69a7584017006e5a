// SPDX-License-Identifier: Apache-2.0
// A thread that does something at once, and then each so many seconds of the
// runtime's clock.
//
// Started and stopped by one thread at a time.
#ifndef LS_BASE_THREADS_POLLER_H_
#define LS_BASE_THREADS_POLLER_H_

#include "base/runtime_internal.h"

typedef struct ls_poller ls_poller;

// `fn` runs on the thread, which has the runtime of the caller; false: it is
// not called any more.
LS_MUST_USE ls_status ls_poller_start(const char *name, int64_t nanos,
                                      bool (*fn)(ls_poller *self, void *user),
                                      void *user, ls_poller **out_poller);
// For `fn`: whether it shall end.
bool ls_poller_is_stopped(const ls_poller *poller);
// Waits for `fn`'s end, and frees it. NULL is fine.
void ls_poller_stop(ls_poller *poller);

#endif  // LS_BASE_THREADS_POLLER_H_
