// SPDX-License-Identifier: Apache-2.0
// Fibers: functions that can pause in the middle and go on later.
//
// Each has a stack of its own (256 KiB and a guard page) and is resumed by
// whoever holds it, like a call that returns when the fiber pauses or ends.
// A fiber stays on the thread that first resumed it. A fiber may resume
// others; pausing goes back to who resumed it. Stacks belong to a pool: one is
// taken at the first resume and given back at the end, so that fibers that run
// one after another share one.
//
// What is at work (base/threads/thread_state.h: what is being built, and the
// current runtime) is swapped with the fiber: each has its own, and starts with
// the runtime of its first resumer.
#ifndef LS_BASE_THREADS_FIBER_H_
#define LS_BASE_THREADS_FIBER_H_

#include "base/memory/allocator.h"

typedef struct ls_fiber ls_fiber;
typedef struct ls_fiber_pool ls_fiber_pool;
typedef void (*ls_fiber_function)(void *user);
struct ls_context;

enum { LS_FIBER_STACK_SIZE = 256 * 1024 };

// A pool of stacks. Thread-safe.
LS_MUST_USE ls_status ls_fiber_pool_create(ls_allocator *allocator,
                                           ls_fiber_pool **out_pool);
// Its fibers must be destroyed before. NULL is fine.
void ls_fiber_pool_destroy(ls_fiber_pool *pool);
// Stacks that exist, in use or not.
size_t ls_fiber_pool_stacks(ls_fiber_pool *pool);

// Creates a fiber that will run fn(user). It has no stack and no context yet.
LS_MUST_USE ls_status ls_fiber_create(ls_fiber_pool *pool, ls_fiber_function fn,
                                      void *user, ls_fiber **out_fiber);
// Destroys a fiber that is done or was never resumed. NULL is fine.
void ls_fiber_destroy(ls_fiber *fiber);

// What is being built inside; before its first resume only.
void ls_fiber_set_context(ls_fiber *fiber, struct ls_context *context);

// Runs the fiber until it pauses or ends. Not for one that is done or running.
//   LS_RESOURCE_EXHAUSTED  no memory for a stack, at the first resume only:
//                          the fiber has not started.
LS_MUST_USE ls_status ls_fiber_resume(ls_fiber *fiber);
// From inside a fiber: returns to who resumed it, until it is resumed again.
void ls_fiber_pause(void);
bool ls_fiber_is_done(const ls_fiber *fiber);
// Returns true if it was resumed at least once.
bool ls_fiber_is_started(const ls_fiber *fiber);
// The fiber this runs on, NULL on a plain thread.
ls_fiber *ls_fiber_current(void);

#endif  // LS_BASE_THREADS_FIBER_H_
