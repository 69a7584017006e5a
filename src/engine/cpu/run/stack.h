// SPDX-License-Identifier: Apache-2.0
//
// Stacks of an instance: what grows while a program runs.
//
// The value that goes round in a loop is a pointer to a stack. An empty one is
// the empty stack of its stack_new, the same for all; so dropping it loses
// nothing. What is pushed first takes a stack of memory out of the pool of that
// stack_new, and taking the last one brings it back. Pools are last in, first
// out, so a run like the one before finds each stack with the memory it needs.
//
// Every stream has pools of its own: a lane touches no other lane's.
#ifndef LS_ENGINE_CPU_RUN_STACK_H_
#define LS_ENGINE_CPU_RUN_STACK_H_

#include "engine/cpu/run/executable.h"

typedef struct ls_cpu_stack {
  struct ls_cpu_stack *next_free, *next_made;
  char *data;
  size_t element;          // Bytes of each.
  size_t count, capacity;  // Of elements. Count 0: an empty stack.
  uint32_t number;         // Of its stack_new.
} ls_cpu_stack;

// The stacks of one stack_new in one stream.
typedef struct ls_cpu_stack_pool {
  ls_cpu_stack empty;
  ls_cpu_stack *free;
  ls_cpu_stack *made;  // All, the newest first.
} ls_cpu_stack_pool;

typedef struct ls_cpu_stacks {
  ls_allocator *allocator;
  ls_cpu_stack_pool *pools;  // [stream][stack_new]; stream 0 is the shared one.
  size_t num_pools;
  uint32_t num_sites;  // Pools of a stream.
  size_t taken;        // Stacks that are out of their pools. Atomic.
} ls_cpu_stacks;

// `num_sites` stack_news in each of `num_streams` streams.
ls_status ls_cpu_stacks_init(ls_cpu_stacks *self, ls_allocator *allocator,
                             uint32_t num_sites, size_t num_streams);
void ls_cpu_stacks_deinit(ls_cpu_stacks *self);
// Before a run: what a failed run, or one that dropped stacks, left behind is
// in its pools again.
void ls_cpu_stacks_reset(ls_cpu_stacks *self);

static inline ls_cpu_stack_pool *ls_cpu_stacks_of(const ls_cpu_stacks *self,
                                                  size_t stream) {
  return self->num_sites == 0 ? NULL : &self->pools[stream * self->num_sites];
}

// The stack with `size` bytes of `value` on top.
//   LS_RESOURCE_EXHAUSTED  it cannot grow.
ls_status ls_cpu_stack_push(ls_cpu_stacks *self, ls_cpu_stack_pool *pools,
                            ls_cpu_stack *stack, const void *value, size_t size,
                            ls_cpu_stack **out_stack);
// The stack without its top, which is copied to `value`. Below an endless
// stack lie zeros, or if it is a stack of stacks empty ones.
//   LS_FAILED_PRECONDITION  it is empty and ends there.
ls_status ls_cpu_stack_pop(ls_cpu_stacks *self, ls_cpu_stack_pool *pools,
                           const ls_executable *executable, ls_cpu_stack *stack,
                           void *value, size_t size, bool holds_stacks,
                           ls_cpu_stack **out_stack);

#endif  // LS_ENGINE_CPU_RUN_STACK_H_
