// SPDX-License-Identifier: Apache-2.0
// Fibers: functions that can pause and continue later.
//
// Each has its own stack (256 KiB and a guard page). Resuming a fiber is like a
// call that returns when the fiber pauses or ends. A fiber stays on the thread
// that first resumed it. A fiber may resume others; a pause returns to the
// resumer. Stacks belong to a pool: a fiber takes one at its first resume and
// gives it back at its end, so that fibers which run one after another share
// one.
//
// The state of running code (`ls_at_work` in base/threads/thread_state.h: the
// graph being built, the current runtime) is swapped with the fiber: each fiber
// has its own, and starts with its first resumer's runtime.
#ifndef LS_BASE_THREADS_FIBER_H_
#define LS_BASE_THREADS_FIBER_H_

#include <stddef.h>

#include "base/memory/allocator.h"

typedef struct ls_fiber ls_fiber;
typedef struct ls_fiber_pool ls_fiber_pool;
typedef void (*ls_fiber_function)(void *user);
struct ls_context;

enum { LS_FIBER_STACK_SIZE = 256 * 1024 };

// Creates a pool of stacks. Thread-safe.
LS_MUST_USE ls_status ls_fiber_pool_create(ls_allocator *allocator,
                                           ls_fiber_pool **out_pool);
// Destroys a pool, whose fibers must be destroyed already. Accepts NULL.
void ls_fiber_pool_destroy(ls_fiber_pool *pool);
// Returns the number of stacks, free or in use.
size_t ls_fiber_pool_stacks(ls_fiber_pool *pool);

// Creates a fiber that will run fn(user). It has no stack and no context yet.
LS_MUST_USE ls_status ls_fiber_create(ls_fiber_pool *pool, ls_fiber_function fn,
                                      void *user, ls_fiber **out_fiber);
// Destroys a fiber that is done or was never resumed. Accepts NULL.
void ls_fiber_destroy(ls_fiber *fiber);

// Sets the scopes and graph current inside the fiber; only before its first
// resume.
void ls_fiber_set_context(ls_fiber *fiber, struct ls_context *context);

// Runs the fiber until it pauses or ends. Not for a fiber that is done or
// running.
//   LS_RESOURCE_EXHAUSTED  no memory for a stack, at the first resume only:
//                          the fiber has not started.
LS_MUST_USE ls_status ls_fiber_resume(ls_fiber *fiber);
// Pauses the fiber that runs: returns to its resumer, and here when resumed
// again.
void ls_fiber_pause(void);
bool ls_fiber_is_done(const ls_fiber *fiber);
// Returns true if the fiber was resumed at least once.
bool ls_fiber_is_started(const ls_fiber *fiber);
// Returns the fiber that runs on this thread, NULL outside of fibers.
ls_fiber *ls_fiber_current(void);

// ---- Stack switches --------------------------------------------------------
#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#define LS_STACK_IS_CONTEXT 1
#endif

// A stack that is not running: its registers are saved on it.
typedef struct ls_stack {
#if defined(LS_STACK_IS_CONTEXT)
  ucontext_t context;
#else
  void *top;
#endif
} ls_stack;

// Prepares a stack in `size` bytes of memory: the first switch to it calls
// `entry`, which never returns, with the float mode of the caller.
void ls_stack_init(ls_stack *stack, void *memory, size_t size,
                   void (*entry)(void));
// Saves the running stack in `from` and continues on `to`; returns when
// something switches to `from`. Keeps registers and float mode, not the signal
// mask.
void ls_stack_switch(ls_stack *from, ls_stack *to);

#endif  // LS_BASE_THREADS_FIBER_H_
