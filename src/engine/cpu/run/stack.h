// SPDX-License-Identifier: Apache-2.0
//
// Stacks of an instance: values that a loop saves, in a number known only at
// run time.
//
// The loop-carried value is a pointer to a stack. All empty stacks of a
// stack_new op are one object, so dropping an empty one loses nothing. The
// first push takes a stack with memory out of the pool of that stack_new, and
// the pop that empties it returns it. Pools are last in, first out, so a run
// like the previous one finds each stack with the memory it needs.
//
// Every stream has pools of its own: a lane touches no other lane's.
#ifndef LS_ENGINE_CPU_RUN_STACK_H_
#define LS_ENGINE_CPU_RUN_STACK_H_

#include "engine/cpu/run/executable.h"

typedef struct ls_cpu_stack {
  struct ls_cpu_stack *next_free, *next_made;
  char *data;
  size_t element;          // Bytes of each element.
  size_t count, capacity;  // Numbers of elements. Count 0: an empty stack.
  uint32_t number;         // Number of its stack_new.
} ls_cpu_stack;

// Stacks of one stack_new in one stream.
typedef struct ls_cpu_stack_pool {
  ls_cpu_stack empty;
  ls_cpu_stack *free;
  ls_cpu_stack *made;  // List of all stacks, the newest first.
} ls_cpu_stack_pool;

typedef struct ls_cpu_stacks {
  ls_allocator *allocator;
  ls_cpu_stack_pool *pools;  // [stream][stack_new]; stream 0 is the shared one.
  size_t num_pools;
  uint32_t num_sites;  // Pools per stream.
  size_t taken;        // Stacks outside their pools. Atomic.
} ls_cpu_stacks;

// Makes pools for `num_sites` stack_new ops in each of `num_streams` streams.
ls_status ls_cpu_stacks_init(ls_cpu_stacks *self, ls_allocator *allocator,
                             uint32_t num_sites, size_t num_streams);
void ls_cpu_stacks_deinit(ls_cpu_stacks *self);
// Returns stacks to their pools, which a failed run may have left outside; call
// before a run.
void ls_cpu_stacks_reset(ls_cpu_stacks *self);

static inline ls_cpu_stack_pool *ls_cpu_stacks_of(const ls_cpu_stacks *self,
                                                  size_t stream) {
  return self->num_sites == 0 ? NULL : &self->pools[stream * self->num_sites];
}

// Pushes `size` bytes of `value`; `*out_stack` is the new stack.
//   LS_RESOURCE_EXHAUSTED  it cannot grow.
ls_status ls_cpu_stack_push(ls_cpu_stacks *self, ls_cpu_stack_pool *pools,
                            ls_cpu_stack *stack, const void *value, size_t size,
                            ls_cpu_stack **out_stack);
// Pops the top into `value`; `*out_stack` is the new stack. An endless stack
// yields zeros below its bottom, or empty stacks if it holds stacks.
//   LS_FAILED_PRECONDITION  it is empty and not endless.
ls_status ls_cpu_stack_pop(ls_cpu_stacks *self, ls_cpu_stack_pool *pools,
                           const ls_executable *executable, ls_cpu_stack *stack,
                           void *value, size_t size, bool holds_stacks,
                           ls_cpu_stack **out_stack);

#endif  // LS_ENGINE_CPU_RUN_STACK_H_
