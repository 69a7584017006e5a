// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/run/stack.h"

#include "base/status_cause.h"

enum { FIRST_BYTES = 4096 };  // First allocation of a stack of small elements.

ls_status ls_cpu_stacks_init(ls_cpu_stacks *self, ls_allocator *allocator,
                             uint32_t num_sites, size_t num_streams) {
  *self = (ls_cpu_stacks){.allocator = allocator, .num_sites = num_sites};
  if (num_sites == 0) return ls_ok();
  size_t count = 0;
  if (__builtin_mul_overflow(num_streams, num_sites, &count))
    return ls_out_of_memory();
  LS_SET_ARRAY_OR_RETURN(allocator, ls_cpu_stack_pool, self->pools, count);
  self->num_pools = count;
  for (size_t i = 0; i < count; ++i)
    self->pools[i].empty.number = (uint32_t)(i % num_sites);
  return ls_ok();
}

void ls_cpu_stacks_deinit(ls_cpu_stacks *self) {
  for (size_t i = 0; i < self->num_pools; ++i) {
    ls_cpu_stack *at = self->pools[i].made;
    while (at != NULL) {
      ls_cpu_stack *next = at->next_made;
      ls_release(self->allocator, at->data);
      ls_release(self->allocator, at);
      at = next;
    }
  }
  ls_release(self->allocator, self->pools);
}

void ls_cpu_stacks_reset(ls_cpu_stacks *self) {
  if (self->taken == 0) return;
  for (size_t i = 0; i < self->num_pools; ++i) {
    ls_cpu_stack_pool *pool = &self->pools[i];
    // Pushes the newest first, so that the oldest is taken first again.
    pool->free = NULL;
    for (ls_cpu_stack *at = pool->made; at != NULL; at = at->next_made) {
      at->count = 0;
      at->next_free = pool->free;
      pool->free = at;
    }
  }
  self->taken = 0;
}

// ---- Memory ----------------------------------------------------------------
static ls_cpu_stack *take_stack(ls_cpu_stacks *self, ls_cpu_stack_pool *pool) {
  ls_cpu_stack *stack = pool->free;
  if (stack != NULL) {
    pool->free = stack->next_free;
  } else {
    stack = ls_new(self->allocator, ls_cpu_stack);
    if (stack == NULL) return NULL;
    stack->number = pool->empty.number;
    stack->next_made = pool->made;
    pool->made = stack;
  }
  __atomic_add_fetch(&self->taken, 1, __ATOMIC_RELAXED);
  return stack;
}

static void return_stack(ls_cpu_stacks *self, ls_cpu_stack_pool *pool,
                         ls_cpu_stack *stack) {
  stack->next_free = pool->free;
  pool->free = stack;
  __atomic_sub_fetch(&self->taken, 1, __ATOMIC_RELAXED);
}

static ls_status no_memory_for(const ls_cpu_stack *stack, size_t element) {
  return LS_NO_MEMORY("no memory for a stack with more than %zu values of %zu "
                      "bytes",
                      stack->count, element);
}

// Doubles the capacity, or makes the first allocation.
static ls_status grow_stack(ls_cpu_stacks *self, ls_cpu_stack *stack) {
  const size_t element = stack->element;
  size_t capacity = FIRST_BYTES / (element + 1) + 1, bytes = 0;
  if (stack->capacity != 0 &&
      __builtin_mul_overflow(stack->capacity, 2, &capacity))
    return no_memory_for(stack, element);
  if (__builtin_mul_overflow(capacity, element, &bytes))
    return no_memory_for(stack, element);
  char *data = ls_allocate_large(self->allocator, bytes);
  if (data == NULL) return no_memory_for(stack, element);
  if (stack->count != 0) memcpy(data, stack->data, stack->count * element);
  ls_release(self->allocator, stack->data);
  stack->data = data;
  stack->capacity = capacity;
  return ls_ok();
}

// Sets the size of the elements of an empty stack.
static void set_element(ls_cpu_stack *stack, size_t element) {
  if (stack->element == element) return;
  const size_t bytes = stack->capacity * stack->element;
  stack->capacity = element == 0 ? 0 : bytes / element;
  stack->element = element;
}

// ---- Push and pop ----------------------------------------------------------
static ls_status check_element_size(const ls_cpu_stack *stack, size_t size) {
  if (stack->element == size) return ls_ok();
  return ls_internal("a stack of values of %zu bytes is used with %zu bytes",
                     stack->element, size);
}

ls_status ls_cpu_stack_push(ls_cpu_stacks *self, ls_cpu_stack_pool *pools,
                            ls_cpu_stack *stack, const void *value, size_t size,
                            ls_cpu_stack **out_stack) {
  ls_cpu_stack_pool *pool = &pools[stack->number];
  const bool was_empty = stack->count == 0;
  if (was_empty) {
    stack = take_stack(self, pool);
    if (stack == NULL) return ls_out_of_memory();
    set_element(stack, size);
  }
  ls_status status = check_element_size(stack, size);
  if (ls_status_is_ok(status) && stack->count == stack->capacity)
    status = grow_stack(self, stack);
  if (!ls_status_is_ok(status)) {
    if (was_empty) return_stack(self, pool, stack);
    return status;
  }
  memcpy(stack->data + stack->count * size, value, size);
  ++stack->count;
  *out_stack = stack;
  return ls_ok();
}

ls_status ls_cpu_stack_pop(ls_cpu_stacks *self, ls_cpu_stack_pool *pools,
                           const ls_executable *executable, ls_cpu_stack *stack,
                           void *value, size_t size, bool holds_stacks,
                           ls_cpu_stack **out_stack) {
  ls_cpu_stack_pool *pool = &pools[stack->number];
  *out_stack = stack;
  if (stack->count == 0) {
    if (!executable->stack_is_endless[stack->number])
      return ls_failed_precondition("a value is taken from an empty stack");
    if (holds_stacks)
      memcpy(value, &stack, sizeof(stack));
    else
      memset(value, 0, size);
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(check_element_size(stack, size));
  memcpy(value, stack->data + --stack->count * size, size);
  if (stack->count != 0) return ls_ok();
  return_stack(self, pool, stack);
  *out_stack = &pool->empty;
  return ls_ok();
}
