// SPDX-License-Identifier: Apache-2.0
// A fetch: the reader of elements, and the memory that it takes on the way. It
// belongs to one thread at a time; an iterator keeps as many as threads work
// for it.
#ifndef LS_DATA_FETCH_H_
#define LS_DATA_FETCH_H_

#include "base/export.h"
#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "lockstep/dataset.h"

struct ls_work;

typedef struct ls_fetch_block ls_fetch_block;

// Nests that a fetch keeps between calls for a data set, such as those to hand
// to a map's function.
typedef struct ls_fetch_kept {
  const ls_dataset *dataset;
  ls_nest nests[2];
} ls_fetch_kept;

// Elements of a data set that will all be read, by whatever thread: its source
// may read them at once.
typedef struct ls_fetch_soon {
  const ls_dataset *dataset;  // NULL: nobody knows.
  int64_t first, count;
} ls_fetch_soon;

typedef struct ls_fetch {
  ls_allocator *allocator;
  // Gives room (ls_fetch_room), to whom memory is given by an allocator alone.
  ls_allocator stack;
  uint64_t seed;
  int64_t epoch;
  ls_fetch_soon soon;
  // Memory, taken as from a stack.
  ls_fetch_block *blocks;  // The newest first.
  ls_fetch_block *spares;  // Not needed now.
  ls_fetch_kept *kept;
  size_t num_kept, kept_capacity;
  // Statistics: time of the stage that is at work, by the clock; see work.h.
  struct ls_work *work;  // NULL: nobody counts.
  bool shares;           // Compute threads may help.
  struct ls_stage_count *counts;
  int64_t inner_nanos;
  // The stage at work, and since when; for who looks on. Atomic.
  const ls_dataset *at;
  int64_t since;
  struct ls_fetch *next;   // Of those that are idle.
  struct ls_fetch *other;  // Of all.
} ls_fetch;

void ls_fetch_init(ls_fetch *fetch, ls_allocator *allocator, uint64_t seed);
void ls_fetch_deinit(ls_fetch *fetch);
LS_OWNED_STRUCT(ls_fetch, ls_fetch_deinit)

// Frees all room taken after ls_fetch_begin at the end of its owner's block:
//   LS_OWN(ls_fetch_mark, mark) = ls_fetch_begin(fetch);
//   LS_ROOM_OR_RETURN(fetch, int64_t, indices, count);
typedef struct ls_fetch_mark {
  ls_fetch *fetch;
  ls_fetch_block *block;
  size_t used;
} ls_fetch_mark;
LS_PRIVATE_API ls_fetch_mark ls_fetch_begin(ls_fetch *fetch);
LS_PRIVATE_API void ls_fetch_end(const ls_fetch_mark *mark);
LS_OWNED_STRUCT(ls_fetch_mark, ls_fetch_end)
// Gives `size` bytes, aligned to 64. NULL: no memory.
LS_PRIVATE_API void *ls_fetch_room(ls_fetch *fetch, size_t size);
// Declares `Type *name`, room for `count` items; returns without memory.
#define LS_ROOM_OR_RETURN(fetch, Type, name, count)                            \
  Type *name = ls_fetch_room(fetch, (count) * sizeof(Type));                   \
  LS_RETURN_IF_NO_MEMORY(name)

// Finds what is kept for a data set; nests are none at first. NULL: no memory.
// Valid until the next call.
ls_fetch_kept *ls_fetch_keep(ls_fetch *fetch, const ls_dataset *dataset);

#endif  // LS_DATA_FETCH_H_
