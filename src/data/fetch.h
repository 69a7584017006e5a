// SPDX-License-Identifier: Apache-2.0
// Fetch: the context of reading elements, with temporary memory. One thread
// uses it at a time; an iterator keeps one per working thread.
#ifndef LS_DATA_FETCH_H_
#define LS_DATA_FETCH_H_

#include "base/export.h"
#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "lockstep/dataset.h"

struct ls_work;

typedef struct ls_fetch_block ls_fetch_block;

// Nests that a fetch keeps between calls for a data set, such as a map
// function's arguments.
typedef struct ls_fetch_kept {
  const ls_dataset *dataset;
  ls_nest nests[2];
} ls_fetch_kept;

// Announces elements of a data set that will all be read, by any thread: its
// source may read them together.
typedef struct ls_fetch_soon {
  const ls_dataset *dataset;  // NULL: nothing is announced.
  int64_t first, count;
} ls_fetch_soon;

typedef struct ls_fetch {
  ls_allocator *allocator;
  // An allocator that gives room (ls_fetch_room), for functions that need an
  // allocator.
  ls_allocator stack;
  uint64_t seed;
  int64_t epoch;
  ls_fetch_soon soon;
  // The blocks of a stack of temporary memory.
  ls_fetch_block *blocks;  // The newest first.
  ls_fetch_block *spares;  // Blocks not in use.
  ls_fetch_kept *kept;
  size_t num_kept, kept_capacity;
  // Statistics by the clock: time of the stage at work; see work.h.
  struct ls_work *work;  // NULL: no statistics.
  bool shares;           // Compute threads may help.
  struct ls_stage_count *counts;
  int64_t inner_nanos;
  // The stage at work and its start time, for progress reports. Atomic.
  const ls_dataset *at;
  int64_t since;
  struct ls_fetch *next;   // Link of the list of idle fetches.
  struct ls_fetch *other;  // Link of the list of all fetches.
} ls_fetch;

void ls_fetch_init(ls_fetch *fetch, ls_allocator *allocator, uint64_t seed);
void ls_fetch_deinit(ls_fetch *fetch);
LS_OWNED_STRUCT(ls_fetch, ls_fetch_deinit)

// Frees all room taken after ls_fetch_begin at the end of the block that owns
// the mark:
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
// Returns `size` bytes, aligned to 64; NULL without memory.
LS_PRIVATE_API void *ls_fetch_room(ls_fetch *fetch, size_t size);
// Declares `Type *name`, room for `count` items; returns out-of-memory if there
// is none.
#define LS_ROOM_OR_RETURN(fetch, Type, name, count)                            \
  Type *name = ls_fetch_room(fetch, (count) * sizeof(Type));                   \
  LS_RETURN_IF_NO_MEMORY(name)

// Finds the nests kept for a data set, empty at first. Valid until the next
// call; NULL without memory.
ls_fetch_kept *ls_fetch_keep(ls_fetch *fetch, const ls_dataset *dataset);

#endif  // LS_DATA_FETCH_H_
