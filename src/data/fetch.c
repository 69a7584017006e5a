// SPDX-License-Identifier: Apache-2.0
#include "data/fetch.h"

#include "lockstep/nest.h"

struct ls_fetch_block {
  ls_fetch_block *below;
  size_t size, used;
  char *data;  // Aligned to 64.
};

enum { LEAST_BLOCK = 64 << 10 };

// ---- An allocator over a fetch's memory ------------------------------------
static void *take_room(ls_allocator *self, size_t size, size_t alignment) {
  ls_fetch *fetch =
      (ls_fetch *)(void *)((char *)self - offsetof(ls_fetch, stack));
  return alignment <= LS_CACHE_LINE ? ls_fetch_room(fetch, size) : NULL;
}

// A release that does nothing: the mark's end frees the memory.
static void leave_room(ls_allocator *self, void *memory) {
  (void)self, (void)memory;
}

void ls_fetch_init(ls_fetch *fetch, ls_allocator *allocator, uint64_t seed) {
  *fetch = (ls_fetch){.allocator = allocator,
                      .stack = {.allocate = take_room, .release = leave_room},
                      .seed = seed};
}

static void release_blocks(ls_fetch *fetch, ls_fetch_block *block) {
  while (block != NULL) {
    ls_fetch_block *below = block->below;
    ls_release(fetch->allocator, block);
    block = below;
  }
}

void ls_fetch_deinit(ls_fetch *fetch) {
  release_blocks(fetch, fetch->blocks);
  release_blocks(fetch, fetch->spares);
  for (size_t i = 0; i < fetch->num_kept; ++i) {
    ls_nest_release(fetch->kept[i].nests[0]);
    ls_nest_release(fetch->kept[i].nests[1]);
  }
  ls_release(fetch->allocator, fetch->kept);
  ls_release(fetch->allocator, fetch->counts);
}

// ---- Memory ----------------------------------------------------------------
ls_fetch_mark ls_fetch_begin(ls_fetch *fetch) {
  ls_fetch_block *block = fetch->blocks;
  return (ls_fetch_mark){fetch, block, block == NULL ? 0 : block->used};
}

// Takes the smallest spare block that is large enough.
static ls_fetch_block *fetch_take_spare(ls_fetch *fetch, size_t size) {
  ls_fetch_block **best = NULL;
  for (ls_fetch_block **at = &fetch->spares; *at != NULL; at = &(*at)->below) {
    if ((*at)->size >= size && (best == NULL || (*at)->size < (*best)->size))
      best = at;
  }
  if (best == NULL) return NULL;
  ls_fetch_block *block = *best;
  *best = block->below;
  return block;
}

// Makes a block; if there are spares, all too small, releases one.
static ls_fetch_block *new_block(ls_fetch *fetch, size_t size) {
  ls_fetch_block *least = fetch->spares;
  if (least != NULL) fetch->spares = least->below;
  ls_release(fetch->allocator, least);
  const size_t whole = size < LEAST_BLOCK ? LEAST_BLOCK : size;
  ls_fetch_block *block =
      ls_allocate(fetch->allocator, sizeof(*block) + LS_CACHE_LINE + whole);
  if (block == NULL) return NULL;
  block->size = whole;
  block->data = (char *)ls_round_to_line((size_t)(block + 1));
  return block;
}

static ls_fetch_block *add_block(ls_fetch *fetch, size_t size) {
  ls_fetch_block *block = fetch_take_spare(fetch, size);
  if (block == NULL) block = new_block(fetch, size);
  if (block == NULL) return NULL;
  block->below = fetch->blocks;
  block->used = 0;
  fetch->blocks = block;
  return block;
}

void *ls_fetch_room(ls_fetch *fetch, size_t size) {
  if (size > SIZE_MAX / 4) return NULL;
  const size_t needed = ls_round_to_line(size);
  ls_fetch_block *block = fetch->blocks;
  if (block == NULL || block->size - block->used < needed)
    block = add_block(fetch, needed);
  if (block == NULL) return NULL;
  char *room = block->data + block->used;
  block->used += needed;
  return room;
}

// Blocks that are not needed any more become spares.
void ls_fetch_end(const ls_fetch_mark *mark) {
  ls_fetch *fetch = mark->fetch;
  while (fetch->blocks != mark->block) {
    ls_fetch_block *block = fetch->blocks;
    fetch->blocks = block->below;
    block->below = fetch->spares;
    fetch->spares = block;
  }
  if (mark->block != NULL) mark->block->used = mark->used;
}

// ---- Kept nests ------------------------------------------------------------
ls_fetch_kept *ls_fetch_keep(ls_fetch *fetch, const ls_dataset *dataset) {
  for (size_t i = 0; i < fetch->num_kept; ++i) {
    if (fetch->kept[i].dataset == dataset) return &fetch->kept[i];
  }
  if (fetch->num_kept == fetch->kept_capacity) {
    const size_t capacity = fetch->kept_capacity * 2 + 4;
    ls_fetch_kept *grown =
        ls_new_array(fetch->allocator, ls_fetch_kept, capacity);
    if (grown == NULL) return NULL;
    if (fetch->num_kept > 0)
      memcpy(grown, fetch->kept, fetch->num_kept * sizeof(*grown));
    ls_release(fetch->allocator, fetch->kept);
    fetch->kept = grown;
    fetch->kept_capacity = capacity;
  }
  fetch->kept[fetch->num_kept] = (ls_fetch_kept){.dataset = dataset};
  return &fetch->kept[fetch->num_kept++];
}
