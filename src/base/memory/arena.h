// SPDX-License-Identifier: Apache-2.0
// Arena: many small objects that are freed together.
//
// Blocks come from an ls_allocator and double in size up to 64 KiB; a larger
// request gets its own block. Single objects are not freed, but all that were
// allocated after a mark can be dropped. A zeroed arena (or one without a
// block) is valid for every function but those that allocate.
//
// Thread-compatible.
#ifndef LS_BASE_MEMORY_ARENA_H_
#define LS_BASE_MEMORY_ARENA_H_

#include "base/memory/allocator.h"

typedef struct ls_arena_block ls_arena_block;

typedef struct ls_arena {
  ls_allocator *allocator;
  ls_arena_block *top;  // The block in use; each points to the previous one.
  size_t next_size;     // Size of the next block.
  size_t bytes;         // Total size of all blocks with their headers.
} ls_arena;

// A position in an arena: a rollback drops all later allocations.
typedef struct ls_arena_mark_point {
  ls_arena_block *block;
  size_t used;
} ls_arena_mark_point;

// Initializes an arena; allocates nothing yet. The allocator outlives the
// arena.
void ls_arena_init(ls_arena *arena, ls_allocator *allocator);
// Frees all memory. The arena may be initialized again.
void ls_arena_deinit(ls_arena *arena);
// Drops all content but keeps the newest block for reuse.
void ls_arena_reset(ls_arena *arena);

// Allocates `size` zeroed bytes, aligned to 16; NULL without memory. Valid
// until the arena is reset, deinitialized or rolled back to an earlier mark.
void *ls_arena_allocate(ls_arena *arena, size_t size);
// Allocates `count` zeroed items; NULL also if the product overflows.
void *ls_arena_allocate_array(ls_arena *arena, size_t count, size_t item_size);
#define ls_arena_new(arena, Type)                                              \
  ((Type *)ls_arena_allocate(arena, sizeof(Type)))
#define ls_arena_new_array(arena, Type, count)                                 \
  ((Type *)ls_arena_allocate_array((arena), (count), sizeof(Type)))
// Declares `Type *name`, one zeroed Type, or returns out-of-memory.
#define LS_ARENA_NEW_OR_RETURN(arena, Type, name)                              \
  Type *name = ls_arena_new(arena, Type);                                      \
  LS_RETURN_IF_NO_MEMORY(name)
// Declares `Type *name`, `count` zeroed items, or returns out-of-memory.
#define LS_ARENA_ARRAY_OR_RETURN(arena, Type, name, count)                     \
  Type *name = ls_arena_new_array(arena, Type, count);                         \
  LS_RETURN_IF_NO_MEMORY(name)
// Sets `place`, such as a field, to `count` zeroed items, or returns
// out-of-memory.
#define LS_ARENA_SET_OR_RETURN(arena, Type, place, count)                      \
  do {                                                                         \
    (place) = ls_arena_new_array(arena, Type, count);                          \
    LS_RETURN_IF_NO_MEMORY(place);                                             \
  } while (0)

// Copies into the arena; NULL without memory.
void *ls_arena_copy(ls_arena *arena, const void *data, size_t size);
char *ls_arena_string(ls_arena *arena, const char *text);
char *ls_arena_format(ls_arena *arena, const char *format, ...) LS_PRINTF(2, 3);
char *ls_arena_format_v(ls_arena *arena, const char *format, va_list arguments);

// Returns the current position.
ls_arena_mark_point ls_arena_mark(const ls_arena *arena);
// Drops all that was allocated after `mark`. Later marks become invalid; a
// reset makes all marks invalid.
void ls_arena_rollback(ls_arena *arena, ls_arena_mark_point mark);

// Returns the bytes that the arena holds, used or not.
size_t ls_arena_bytes(const ls_arena *arena);

#endif  // LS_BASE_MEMORY_ARENA_H_
