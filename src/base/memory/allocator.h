// SPDX-License-Identifier: Apache-2.0
// Memory requests as the library's own code makes them.
//
// Everything goes through an ls_allocator; sizes are multiplied with a check.
// Whatever is made here is given back with ls_release and the same allocator,
// so an owner remembers the allocator it was made with.
#ifndef LS_BASE_MEMORY_ALLOCATOR_H_
#define LS_BASE_MEMORY_ALLOCATOR_H_

#include <stdint.h>
#include <string.h>

#include "base/export.h"
#include "lockstep/allocator.h"
#include "lockstep/status.h"

#define LS_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

// Guards against our own mistakes, never against a caller's: a debug build
// traps, a release build does not look.
#ifdef NDEBUG
#define LS_ASSERT(condition) ((void)sizeof((condition) ? 1 : 0))
#else
#define LS_ASSERT(condition) ((condition) ? (void)0 : __builtin_trap())
#endif

// From this size on a block starts on a cache line, as vector kernels like it.
enum { LS_LARGE_BLOCK = 4096, LS_CACHE_LINE = 64 };

// `size` bytes, undefined, or NULL: aligned to 64 from 4 KiB on, else to 16. No
// bytes are a block too: no allocator is asked for 0.
static inline void *ls_allocate(ls_allocator *allocator, size_t size) {
  if (size == 0) size = 1;
  const size_t alignment = size >= LS_LARGE_BLOCK ? LS_CACHE_LINE : 16;
  return allocator->allocate(allocator, size, alignment);
}

// The same for what holds much data: from 2 MiB on a block starts on a huge
// page's border and asks for such pages, and is always on a cache line.
enum { LS_HUGE_PAGE = 2 << 20 };
void *ls_allocate_large(ls_allocator *allocator, size_t size);

// Room for `count` items of `size` bytes each, zeroed; NULL without memory or
// when the product does not fit.
static inline void *ls_allocate_zeroed(ls_allocator *allocator, size_t count,
                                       size_t size) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
  void *memory = ls_allocate(allocator, bytes);
  if (memory != NULL) memset(memory, 0, bytes);
  return memory;
}

// One zeroed Type, or NULL.
#define ls_new(allocator, Type)                                                \
  ((Type *)ls_allocate_zeroed((allocator), 1, sizeof(Type)))
// `count` zeroed items, or NULL. Zero items are a block too.
#define ls_new_array(allocator, Type, count)                                   \
  ((Type *)ls_allocate_zeroed((allocator), (count), sizeof(Type)))

// Gives memory back; NULL is fine.
static inline void ls_release(ls_allocator *allocator, const void *memory) {
  if (memory != NULL) allocator->release(allocator, (void *)(uintptr_t)memory);
}

// Makes room for at least `needed` items of `item_size` bytes in the growable
// array `*array`, which holds `*capacity` (doubling it; new items are zero).
// False without memory; then nothing has changed. `array` points to a pointer
// of any object type: ls_grow(a, &items, &capacity, n, sizeof(*items)).
LS_PRIVATE_API bool ls_grow(ls_allocator *allocator, void *array,
                            size_t *capacity, size_t needed, size_t item_size);

// A copy of `size` bytes, followed by a zero byte, or NULL.
LS_PRIVATE_API char *ls_copy_text(ls_allocator *allocator, const char *text,
                                  size_t size);

// ---- Graveyard -------------------------------------------------------------
// Keeps the newest blocks that plain handles point to after their things have
// gone, and gives older ones back: a stale handle then reads what was left
// there, which marks it as stale, and not memory of something else.
enum { LS_GRAVES = 4096 };
// Takes over memory of the system's allocator. NULL is fine. Thread-safe.
void ls_bury(void *memory);

// Returns out-of-memory from the enclosing function if `got` is NULL or false.
#define LS_RETURN_IF_NO_MEMORY(got)                                            \
  do {                                                                         \
    if (!(got)) return ls_out_of_memory();                                     \
  } while (0)
// Appends to a growable array, for which see ls_grow, or returns out-of-memory.
// The arguments but the last one are evaluated several times.
#define LS_PUSH_OR_RETURN(allocator, items, count, capacity, ...)              \
  do {                                                                         \
    LS_RETURN_IF_NO_MEMORY(ls_grow(allocator, &(items), &(capacity),           \
                                   (count) + 1, sizeof(*(items))));            \
    (items)[(count)++] = __VA_ARGS__;                                          \
  } while (0)
// Returns OK if `got`, else out-of-memory.
static inline ls_status ls_memory_status(bool got) {
  return got ? ls_ok() : ls_out_of_memory();
}

#endif  // LS_BASE_MEMORY_ALLOCATOR_H_
