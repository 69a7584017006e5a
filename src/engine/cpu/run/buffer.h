// SPDX-License-Identifier: Apache-2.0
//
// Buffers: the memory of variables.
//
// A model has many variables of medium size. In pages of 4 KiB the page faults
// of their first touch cost more than drawing their values, so they share slabs
// in huge pages. A slab lives as long as one of its buffers, and while it is
// being filled.
//
// The zeros of a new buffer are written when a program is bound to it, by all
// threads: most buffers get a value before that.
//
// Thread-safe.
#ifndef LS_ENGINE_CPU_RUN_BUFFER_H_
#define LS_ENGINE_CPU_RUN_BUFFER_H_

#include "base/threads/threads.h"
#include "base/threads/workers.h"
#include "engine/cpu/run/executable.h"
#include "engine/cpu/run/team.h"

typedef struct ls_cpu_slab ls_cpu_slab;

typedef struct ls_cpu_slabs {
  ls_mutex lock;
  ls_cpu_slab *open;  // The slab being filled, or NULL. Under the lock.
} ls_cpu_slabs;

ls_status ls_cpu_slabs_init(ls_cpu_slabs *slabs);
void ls_cpu_slabs_deinit(ls_cpu_slabs *slabs, ls_allocator *allocator);
// Returns the slabs of a CPU back end.
ls_cpu_slabs *ls_cpu_backend_slabs(ls_backend *backend);

// Writes the zeros of the buffers that have no value yet; entries may be NULL.
// Requires that no program bound to one of them runs.
void ls_cpu_write_zeros(ls_cpu_slabs *slabs, ls_buffer *const *buffers,
                        size_t count, const ls_cpu_team *team);

// Functions of the back end's table: engine/backend.h.
ls_status ls_cpu_create_buffer(ls_backend *backend, ls_type type,
                               ls_buffer **out_buffer);
ls_status ls_cpu_upload(ls_buffer *buffer, const void *data);
ls_status ls_cpu_download(const ls_buffer *buffer, void *data);
ls_status ls_cpu_look(const ls_buffer *buffer, const void **out_data);
void ls_cpu_stream_copy(ls_backend *backend, void *target, const void *from,
                        size_t size);
void *ls_cpu_overwrite(ls_buffer *buffer);
ls_status ls_cpu_copy(ls_buffer *target, const ls_buffer *from);
ls_status ls_cpu_fill_from(ls_buffer *buffer, ls_executable *executable,
                           const ls_run_args *args);

// ---- Deferred fills --------------------------------------------------------
// Deferred fills: initial values of buffers that a program computes, such as
// random weights.
//
// A model's weights are made one after another, and nobody reads them before a
// step is bound to them. So idle workers compute them, in order, while the
// caller builds, traces and compiles; a thread that needs a value helps until
// all fills are done.
//
// Thread-safe.

// Zero-initialized: nothing is deferred. Guarded by the filler's lock.
typedef struct ls_cpu_fill {
  struct ls_cpu_fill *next;
  ls_executable *executable;  // Retained; NULL once all blocks are done.
  void *data;
  uint64_t step, seed;
  // Numbers of blocks that were started, and that are not finished.
  int64_t begun, left;
} ls_cpu_fill;

typedef struct ls_cpu_filler {
  ls_workers *workers;  // The runtime's workers; NULL: nothing is deferred.
  ls_mutex lock;        // Guards the fields below.
  ls_condition rest;    // Signalled when no thread is in a block.
  // List of fills with blocks that were not started.
  ls_cpu_fill *first, *last;
  int num_running;  // Number of threads in a block.
} ls_cpu_filler;

ls_status ls_cpu_filler_init(ls_cpu_filler *filler, ls_runtime *runtime);
// Requires that all fills are done or dropped.
void ls_cpu_filler_deinit(ls_cpu_filler *filler);
// Returns the filler of a CPU back end.
ls_cpu_filler *ls_cpu_backend_filler(const ls_backend *backend);

// Completes all fills.
void ls_cpu_finish_fills(ls_cpu_filler *filler);

#endif  // LS_ENGINE_CPU_RUN_BUFFER_H_
