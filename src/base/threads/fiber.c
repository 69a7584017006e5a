// SPDX-License-Identifier: Apache-2.0
// Fibers: functions on stacks that are switched in user code.
//
// Address and thread sanitizers are notified of each switch, so that each
// treats a fiber as a thread of its own.
#define _GNU_SOURCE
#include "base/threads/fiber.h"
#include "base/memory/own.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/status_cause.h"
#include "base/threads/locked.h"
#include "base/threads/sanitizers.h"
#include "base/threads/thread_state.h"
#include "base/threads/threads.h"

#if defined(LS_ADDRESS_SANITIZER)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(LS_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif

ls_fiber *ls_fiber_current(void) { return ls_this_thread.work.fiber; }

// ---- Stacks ----------------------------------------------------------------
#if defined(LS_ADDRESS_SANITIZER) || defined(LS_THREAD_SANITIZER)
// Sanitizers add padding around variables on a stack.
enum { STACK_SIZE = 2 * LS_FIBER_STACK_SIZE };
#else
enum { STACK_SIZE = LS_FIBER_STACK_SIZE };
#endif

typedef struct fiber_stack fiber_stack;
struct fiber_stack {
  fiber_stack *next;  // Link in the list of free stacks.
  char *mapping;      // A guard page, followed by the stack.
  size_t guard;
};

LS_OWNED_POINTER(ls_fiber_pool, ls_fiber_pool_destroy)

struct ls_fiber_pool {
  ls_allocator *allocator;
  ls_mutex lock;  // Guards the fields below.
  fiber_stack *free;
  size_t num_stacks;  // All stacks, free or in use.
  size_t num_fibers;
};

ls_status ls_fiber_pool_create(ls_allocator *allocator,
                               ls_fiber_pool **out_pool) {
  *out_pool = NULL;
  LS_OWN_NEW_OR_RETURN(allocator, ls_fiber_pool, pool);
  pool->allocator = allocator;
  LS_RETURN_IF_ERROR(ls_mutex_init(&pool->lock));
  return ls_hand_over(&pool, out_pool);
}

void ls_fiber_pool_destroy(ls_fiber_pool *pool) {
  if (pool == NULL) return;
  LS_ASSERT(pool->num_fibers == 0);
  while (pool->free != NULL) {
    fiber_stack *stack = pool->free;
    pool->free = stack->next;
    munmap(stack->mapping, stack->guard + STACK_SIZE);
    ls_release(pool->allocator, stack);
  }
  ls_mutex_deinit(&pool->lock);
  ls_release(pool->allocator, pool);
}

size_t ls_fiber_pool_stacks(ls_fiber_pool *pool) {
  return LS_LOCKED(&pool->lock, pool->num_stacks);
}

static ls_status map_stack(ls_allocator *allocator, fiber_stack **out_stack) {
  LS_NEW_OR_RETURN(allocator, fiber_stack, stack);
  stack->guard = (size_t)sysconf(_SC_PAGESIZE);
  const size_t size = stack->guard + STACK_SIZE;
  void *mapping =
      mmap(NULL, size, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  // The guard page is at the low end: stacks grow down on all our machines.
  if (mapping == MAP_FAILED ||
      mprotect(mapping, stack->guard, PROT_NONE) != 0) {
    ls_status status = LS_NO_MEMORY("no stack of %d KiB for a fiber: %s",
                                    STACK_SIZE / 1024, strerror(errno));
    if (mapping != MAP_FAILED) munmap(mapping, size);
    ls_release(allocator, stack);
    return status;
  }
  stack->mapping = mapping;
  *out_stack = stack;
  return ls_ok();
}

static ls_status take_stack(ls_fiber_pool *pool, fiber_stack **out_stack) {
  ls_mutex_lock(&pool->lock);
  fiber_stack *stack = pool->free;
  if (stack != NULL) pool->free = stack->next;
  ls_mutex_unlock(&pool->lock);
  if (stack == NULL) {
    LS_RETURN_IF_ERROR(map_stack(pool->allocator, &stack));
    ls_mutex_lock(&pool->lock);
    ++pool->num_stacks;
    ls_mutex_unlock(&pool->lock);
  }
  *out_stack = stack;
  return ls_ok();
}

static void give_stack(ls_fiber_pool *pool, fiber_stack *stack) {
#if defined(LS_ADDRESS_SANITIZER)
  // The fiber's last frames never return, so that they never unpoison their
  // memory.
  __asan_unpoison_memory_region(stack->mapping + stack->guard, STACK_SIZE);
#endif
  ls_mutex_lock(&pool->lock);
  stack->next = pool->free;
  pool->free = stack;
  ls_mutex_unlock(&pool->lock);
}

// ---- Fibers ----------------------------------------------------------------
struct ls_fiber {
  ls_fiber_pool *pool;
  ls_fiber_function fn;
  void *user;
  fiber_stack *stack;  // Held from the first resume to the end.
  bool started;
  bool done;
  bool running;  // Resumed, and neither paused nor done.
  pthread_t thread;
  ls_stack inside;   // The fiber's stack while paused.
  ls_stack outside;  // The resumer's stack while the fiber runs.
  ls_at_work own;    // The fiber's state while paused.
  ls_at_work outer;  // The resumer's state while the fiber runs.
#if defined(LS_ADDRESS_SANITIZER)
  void *fake_inside;  // Sanitizer: saved fake stacks and the resumer's bounds.
  void *fake_outside;
  const void *outer_bottom;
  size_t outer_size;
#endif
#if defined(LS_THREAD_SANITIZER)
  void *tsan_inside;
  void *tsan_outside;
#endif
};

ls_status ls_fiber_create(ls_fiber_pool *pool, ls_fiber_function fn, void *user,
                          ls_fiber **out_fiber) {
  *out_fiber = NULL;
  LS_NEW_OR_RETURN(pool->allocator, ls_fiber, fiber);
  fiber->pool = pool;
  fiber->own.fiber = fiber;
  fiber->fn = fn;
  fiber->user = user;
  ls_mutex_lock(&pool->lock);
  ++pool->num_fibers;
  ls_mutex_unlock(&pool->lock);
  *out_fiber = fiber;
  return ls_ok();
}

// Releases the fiber's stack and thread sanitizer's record of it.
static void end_fiber(ls_fiber *fiber) {
#if defined(LS_THREAD_SANITIZER)
  __tsan_destroy_fiber(fiber->tsan_inside);
#endif
  give_stack(fiber->pool, fiber->stack);
  fiber->stack = NULL;
}

void ls_fiber_destroy(ls_fiber *fiber) {
  if (fiber == NULL) return;
  LS_ASSERT(!fiber->started || fiber->done);
  if (fiber->stack != NULL) end_fiber(fiber);
  ls_fiber_pool *pool = fiber->pool;
  ls_mutex_lock(&pool->lock);
  --pool->num_fibers;
  ls_mutex_unlock(&pool->lock);
  ls_release(pool->allocator, fiber);
}

void ls_fiber_set_context(ls_fiber *fiber, struct ls_context *context) {
  LS_ASSERT(!fiber->started);
  fiber->own.context = context;
}

bool ls_fiber_is_done(const ls_fiber *fiber) { return fiber->done; }
bool ls_fiber_is_started(const ls_fiber *fiber) { return fiber->started; }

// Completes a switch from the resumer's stack; runs on the fiber's stack.
static void arrive_inside(ls_fiber *fiber) {
#if defined(LS_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(fiber->fake_inside, &fiber->outer_bottom,
                                  &fiber->outer_size);
#endif
  (void)fiber;
}

// Switches to the resumer's stack; returns when the fiber is resumed.
static void switch_outside(ls_fiber *fiber) {
#if defined(LS_ADDRESS_SANITIZER)
  // A NULL tells the address sanitizer to free this fiber's fake stack.
  __sanitizer_start_switch_fiber(fiber->done ? NULL : &fiber->fake_inside,
                                 fiber->outer_bottom, fiber->outer_size);
#endif
#if defined(LS_THREAD_SANITIZER)
  __tsan_switch_to_fiber(fiber->tsan_outside, 0);
#endif
  ls_stack_switch(&fiber->inside, &fiber->outside);
  arrive_inside(fiber);
}

// Switches from the resumer's stack to the fiber's; returns when the fiber
// pauses or ends.
static void switch_inside(ls_fiber *fiber) {
#if defined(LS_ADDRESS_SANITIZER)
  __sanitizer_start_switch_fiber(&fiber->fake_outside,
                                 fiber->stack->mapping + fiber->stack->guard,
                                 STACK_SIZE);
#endif
#if defined(LS_THREAD_SANITIZER)
  fiber->tsan_outside = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(fiber->tsan_inside, 0);
#endif
  ls_stack_switch(&fiber->outside, &fiber->inside);
#if defined(LS_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(fiber->fake_outside, NULL, NULL);
#endif
}

// The outermost frame of each fiber's stack; never returns.
static void run_fiber(void) {
  ls_fiber *fiber = ls_this_thread.work.fiber;
  arrive_inside(fiber);
  fiber->fn(fiber->user);
  fiber->done = true;
  switch_outside(fiber);
  __builtin_unreachable();
}

static ls_status start_fiber(ls_fiber *fiber) {
  LS_RETURN_IF_ERROR(take_stack(fiber->pool, &fiber->stack));
  ls_stack_init(&fiber->inside, fiber->stack->mapping + fiber->stack->guard,
                STACK_SIZE, run_fiber);
#if defined(LS_THREAD_SANITIZER)
  fiber->tsan_inside = __tsan_create_fiber(0);
#endif
  fiber->thread = pthread_self();
  fiber->own.runtime = ls_this_thread.work.runtime;
  fiber->own.cancel = ls_this_thread.work.cancel;
  fiber->own.run = ls_this_thread.work.run;
  fiber->started = true;
  return ls_ok();
}

ls_status ls_fiber_resume(ls_fiber *fiber) {
  LS_ASSERT(!fiber->done && !fiber->running);
  if (!fiber->started) LS_RETURN_IF_ERROR(start_fiber(fiber));
  LS_ASSERT(pthread_equal(fiber->thread, pthread_self()));
  fiber->outer = ls_this_thread.work;
  ls_this_thread.work = fiber->own;
  fiber->running = true;
  switch_inside(fiber);
  fiber->running = false;
  fiber->own = ls_this_thread.work;
  ls_this_thread.work = fiber->outer;
  if (fiber->done) end_fiber(fiber);
  return ls_ok();
}

void ls_fiber_pause(void) {
  LS_ASSERT(ls_fiber_current() != NULL);
  switch_outside(ls_fiber_current());
}
