// SPDX-License-Identifier: Apache-2.0
// Arena: a chain of blocks, the newest first.
#include "base/memory/arena.h"

#include "base/plain.h"
#include "base/threads/sanitizers.h"

enum {
  FIRST_BLOCK = 1024,
  LARGEST_STEP = 64 * 1024,  // Block sizes double up to this size.
  ALIGNMENT = 16,
};

// The header of a block: 32 bytes, so that the data after it is aligned to 16.
struct ls_arena_block {
  ls_arena_block *before;
  size_t size;  // Bytes of `data`.
  size_t used;
  size_t padding;
  char data[];
};

_Static_assert(sizeof(ls_arena_block) % ALIGNMENT == 0, "data is aligned");

// ---- For the address sanitizer ---------------------------------------------
// Poisons bytes not yet handed out, and a gap after each piece.
#if defined(LS_ADDRESS_SANITIZER)
enum { GAP = 16 };
static void forbid(const void *memory, size_t size) {
  __asan_poison_memory_region(memory, size);
}
static void allow(const void *memory, size_t size) {
  __asan_unpoison_memory_region(memory, size);
}
#else
enum { GAP = 0 };
static void forbid(const void *memory, size_t size) {
  (void)memory, (void)size;
}
static void allow(const void *memory, size_t size) { (void)memory, (void)size; }
#endif

// ---- Blocks ----------------------------------------------------------------
static void arena_keep(ls_arena_block *block, size_t used) {
  block->used = used;
  forbid(block->data + used, block->size - used);
}

void ls_arena_init(ls_arena *arena, ls_allocator *allocator) {
  *arena = (ls_arena){.allocator = allocator};
}

static void drop_top(ls_arena *arena) {
  ls_arena_block *block = arena->top;
  arena->top = block->before;
  arena->bytes -= sizeof(*block) + block->size;
  allow(block->data, block->size);
  ls_release(arena->allocator, block);
}

void ls_arena_deinit(ls_arena *arena) {
  while (arena->top != NULL)
    drop_top(arena);
  arena->next_size = 0;
}

void ls_arena_reset(ls_arena *arena) {
  ls_arena_block *kept = arena->top;
  if (kept == NULL) return;
  arena->top = kept->before;
  while (arena->top != NULL)
    drop_top(arena);
  kept->before = NULL;
  arena_keep(kept, 0);
  arena->top = kept;
}

// Puts a new block with room for `size` bytes on top.
static bool push_block(ls_arena *arena, size_t size) {
  if (arena->next_size == 0) arena->next_size = FIRST_BLOCK;
  size_t room = arena->next_size - sizeof(ls_arena_block);
  if (room < size) room = size;
  size_t total = 0;
  if (__builtin_add_overflow(room, sizeof(ls_arena_block), &total)) {
    return false;
  }
  ls_arena_block *block = ls_allocate(arena->allocator, total);
  if (block == NULL) return false;
  *block = (ls_arena_block){.before = arena->top, .size = room};
  arena_keep(block, 0);
  arena->top = block;
  arena->bytes += total;
  if (arena->next_size < LARGEST_STEP) arena->next_size *= 2;
  return true;
}

void *ls_arena_allocate(ls_arena *arena, size_t size) {
  size_t rounded = 0;
  if (__builtin_add_overflow(size, (size_t)ALIGNMENT - 1 + GAP, &rounded)) {
    return NULL;
  }
  rounded &= ~(size_t)(ALIGNMENT - 1);
  if (rounded == 0) rounded = ALIGNMENT;  // Addresses are unique.
  const ls_arena_block *top = arena->top;
  if (top == NULL || top->size - top->used < rounded)
    if (!push_block(arena, rounded)) return NULL;
  void *memory = arena->top->data + arena->top->used;
  arena->top->used += rounded;
  allow(memory, size);
  return memset(memory, 0, size);
}

void *ls_arena_allocate_array(ls_arena *arena, size_t count, size_t item_size) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, item_size, &bytes)) return NULL;
  return ls_arena_allocate(arena, bytes);
}

void *ls_arena_copy(ls_arena *arena, const void *data, size_t size) {
  void *copy = ls_arena_allocate(arena, size);
  if (copy != NULL && size > 0) memcpy(copy, data, size);
  return copy;
}

char *ls_arena_string(ls_arena *arena, const char *text) {
  return ls_arena_copy(arena, text, strlen(text) + 1);
}

char *ls_arena_format_v(ls_arena *arena, const char *format,
                        va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  const int length = ls_format_v(NULL, 0, format, arguments);
  char *text = length < 0 ? NULL : ls_arena_allocate(arena, (size_t)length + 1);
  if (text != NULL) ls_format_v(text, (size_t)length + 1, format, again);
  va_end(again);
  return text;
}

char *ls_arena_format(ls_arena *arena, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char *text = ls_arena_format_v(arena, format, arguments);
  va_end(arguments);
  return text;
}

ls_arena_mark_point ls_arena_mark(const ls_arena *arena) {
  return (ls_arena_mark_point){
      .block = arena->top,
      .used = arena->top == NULL ? 0 : arena->top->used,
  };
}

void ls_arena_rollback(ls_arena *arena, ls_arena_mark_point mark) {
  while (arena->top != mark.block) {
    LS_ASSERT(arena->top != NULL);
    drop_top(arena);
  }
  if (arena->top != NULL) arena_keep(arena->top, mark.used);
}

size_t ls_arena_bytes(const ls_arena *arena) { return arena->bytes; }
