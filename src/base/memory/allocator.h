// SPDX-License-Identifier: Apache-2.0
// Allocators: all memory requests of the library.
//
// Every request goes through an ls_allocator; sizes are multiplied with an
// overflow check. Memory is given back with ls_release and the same allocator,
// so an owner remembers its allocator.
#ifndef LS_BASE_MEMORY_ALLOCATOR_H_
#define LS_BASE_MEMORY_ALLOCATOR_H_

#include <stdint.h>
#include <string.h>

#include "base/export.h"
#include "lockstep/allocator.h"
#include "lockstep/status.h"

#define LS_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

// Asserts an invariant of the library, never a caller's argument: traps in
// debug builds, unchecked in release builds.
#ifdef NDEBUG
#define LS_ASSERT(condition) ((void)sizeof((condition) ? 1 : 0))
#else
#define LS_ASSERT(condition) ((condition) ? (void)0 : __builtin_trap())
#endif

// Blocks of at least this size start on a cache line, for vector kernels.
enum { LS_LARGE_BLOCK = 4096, LS_CACHE_LINE = 64 };
static inline size_t ls_round_to_line(size_t size) {
  return (size + LS_CACHE_LINE - 1) & ~(size_t)(LS_CACHE_LINE - 1);
}

// Allocates `size` uninitialized bytes, aligned to 64 from 4 KiB on, else to
// 16. A size of 0 gives a valid block: allocators are never asked for 0 bytes.
// Returns NULL without memory.
static inline void *ls_allocate(ls_allocator *allocator, size_t size) {
  if (size == 0) size = 1;
  const size_t alignment = size >= LS_LARGE_BLOCK ? LS_CACHE_LINE : 16;
  return allocator->allocate(allocator, size, alignment);
}

// ls_allocate_large is for big arrays: they begin at a cache line, and from 2
// MiB on at a huge page, which it asks the kernel for.
enum { LS_HUGE_PAGE = 2 << 20 };
void *ls_allocate_large(ls_allocator *allocator, size_t size);

// Allocates `count` zeroed items of `size` bytes each; NULL without memory or
// if the product overflows.
static inline void *ls_allocate_zeroed(ls_allocator *allocator, size_t count,
                                       size_t size) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
  void *memory = ls_allocate(allocator, bytes);
  if (memory != NULL) memset(memory, 0, bytes);
  return memory;
}

// Allocates one zeroed Type, or NULL.
#define ls_new(allocator, Type)                                                \
  ((Type *)ls_allocate_zeroed((allocator), 1, sizeof(Type)))
// Allocates `count` zeroed items, or NULL. A count of 0 gives a valid block.
#define ls_new_array(allocator, Type, count)                                   \
  ((Type *)ls_allocate_zeroed((allocator), (count), sizeof(Type)))

// Gives memory back; accepts NULL.
static inline void ls_release(ls_allocator *allocator, const void *memory) {
  if (memory != NULL) allocator->release(allocator, (void *)(uintptr_t)memory);
}

// Makes room for at least `needed` items of `item_size` bytes in the growable
// array `*array`, whose capacity is `*capacity` (doubles it; new items are
// zero). Returns false without memory and then changes nothing. `array` points
// to a pointer of any object type.
LS_PRIVATE_API bool ls_grow(ls_allocator *allocator, void *array,
                            size_t *capacity, size_t needed, size_t item_size);
// Grows the array `items` of this capacity; both are variables or fields.
#define LS_GROW(allocator, items, capacity, needed)                            \
  ls_grow(allocator, &(items), &(capacity), needed, sizeof(*(items)))

// Copies `size` bytes and adds a zero byte; NULL without memory.
LS_PRIVATE_API char *ls_copy_text(ls_allocator *allocator, const char *text,
                                  size_t size);

// ---- Graveyard -------------------------------------------------------------
// Number of released objects whose memory is kept: a stale handle then reads
// the object's stale mark instead of another object's memory. Older blocks are
// freed.
enum { LS_GRAVES = 4096 };
// Takes over memory of the system's allocator and frees it later. Accepts NULL.
// Thread-safe.
void ls_bury(void *memory);

// Returns out-of-memory from the enclosing function if `got` is NULL or false.
#define LS_RETURN_IF_NO_MEMORY(got)                                            \
  do {                                                                         \
    if (!(got)) return ls_out_of_memory();                                     \
  } while (0)
// Appends to a growable array, or returns out-of-memory. All arguments but the
// last are evaluated several times.
#define LS_PUSH_OR_RETURN(allocator, items, count, capacity, ...)              \
  do {                                                                         \
    LS_RETURN_IF_NO_MEMORY(LS_GROW(allocator, items, capacity, (count) + 1));  \
    (items)[(count)++] = __VA_ARGS__;                                          \
  } while (0)
// Returns OK if `got` is true, otherwise out-of-memory.
static inline ls_status ls_memory_status(bool got) {
  return got ? ls_ok() : ls_out_of_memory();
}
// Copies a text for ls_release; NULL stays NULL.
static inline ls_status ls_keep_text(ls_allocator *allocator, const char *text,
                                     char **out_copy) {
  *out_copy = text != NULL ? ls_copy_text(allocator, text, strlen(text)) : NULL;
  return ls_memory_status(text == NULL || *out_copy != NULL);
}

#endif  // LS_BASE_MEMORY_ALLOCATOR_H_
