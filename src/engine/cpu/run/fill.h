// SPDX-License-Identifier: Apache-2.0
//
// Deferred fills: initial values of buffers that a program computes, such as
// random weights.
//
// A model's weights are made one after another, and nobody reads them before a
// step is bound to them. So fills are deferred: idle workers compute them, in
// their order, while the caller builds, traces and compiles; a thread that
// needs a value helps until all fills are done.
//
// Thread-safe.
#ifndef LS_ENGINE_CPU_RUN_FILL_H_
#define LS_ENGINE_CPU_RUN_FILL_H_

#include "base/threads/threads.h"
#include "base/threads/workers.h"
#include "engine/cpu/run/executable.h"

// Zero-initialized: nothing is deferred. Guarded by the filler's lock.
typedef struct ls_cpu_fill {
  struct ls_cpu_fill *next;
  ls_executable *executable;  // Retained; NULL once all blocks are done.
  void *data;
  uint64_t step, seed;
  // Number of blocks that were started, and that are not done.
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

// Defers writing `data`, the only output of `executable`. Returns false if that
// is not possible or not worth it.
bool ls_cpu_defer_fill(ls_cpu_filler *filler, ls_cpu_fill *fill,
                       ls_executable *executable, const ls_run_args *args,
                       void *data);
// Completes all fills.
void ls_cpu_finish_fills(ls_cpu_filler *filler);
// Cancels a fill whose data are not wanted any more.
void ls_cpu_cancel_fill(ls_cpu_filler *filler, ls_cpu_fill *fill);

#endif  // LS_ENGINE_CPU_RUN_FILL_H_
