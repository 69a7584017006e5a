// SPDX-License-Identifier: Apache-2.0
//
// Buffers: the memory of variables.
//
// A model has many variables of a middling size. In pages of 4 KiB the page
// faults of their first touch cost more than drawing their values, so they
// share slabs in huge pages. A slab lives as long as one of its buffers, and
// while it is being filled.
//
// The zeros of a new buffer are written when a program is bound to it, by all
// threads: most buffers are given a value before that.
//
// Thread-safe.
#ifndef LS_ENGINE_CPU_RUN_BUFFER_H_
#define LS_ENGINE_CPU_RUN_BUFFER_H_

#include "base/threads/threads.h"
#include "engine/cpu/run/team.h"

typedef struct ls_cpu_slab ls_cpu_slab;

typedef struct ls_cpu_slabs {
  ls_mutex lock;
  ls_cpu_slab *open;  // The slab being filled, or NULL. Guarded.
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
const void *ls_cpu_look(const ls_buffer *buffer);
void ls_cpu_stream_copy(ls_backend *backend, void *target, const void *from,
                        size_t size);
void *ls_cpu_overwrite(ls_buffer *buffer);
void ls_cpu_copy(ls_buffer *target, const ls_buffer *from);
ls_status ls_cpu_fill_from(ls_buffer *buffer, ls_executable *executable,
                           const ls_run_args *args);

#endif  // LS_ENGINE_CPU_RUN_BUFFER_H_
