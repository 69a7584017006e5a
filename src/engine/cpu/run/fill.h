// SPDX-License-Identifier: Apache-2.0
//
// Fills: first values of buffers that a program computes, such as the draws of
// weights.
//
// A model's weights are made one after another, and nobody looks at them before
// a step is bound to them. So fills are put off: idle workers go through them,
// in their order, while the caller makes, traces and compiles, and who wants a
// value helps with all that is left.
//
// Thread-safe.
#ifndef LS_ENGINE_CPU_RUN_FILL_H_
#define LS_ENGINE_CPU_RUN_FILL_H_

#include "base/threads/threads.h"
#include "base/threads/workers.h"
#include "engine/cpu/run/executable.h"

// Zeroed: nothing is put off. Guarded by the filler's lock.
typedef struct ls_cpu_fill {
  struct ls_cpu_fill *next;
  ls_executable *executable;  // Counted; NULL once all is done.
  void *data;
  uint64_t step, seed;
  int64_t begun, left;  // Blocks that were begun; those that are not done.
} ls_cpu_fill;

typedef struct ls_cpu_filler {
  ls_workers *workers;        // The runtime's; NULL: nothing is put off.
  ls_mutex lock;              // Guards what follows.
  ls_condition rest;          // Nobody runs.
  ls_cpu_fill *first, *last;  // Those with blocks that were not begun.
  int running;                // Threads in a block.
} ls_cpu_filler;

ls_status ls_cpu_filler_init(ls_cpu_filler *filler, ls_runtime *runtime);
// All fills are done or dropped.
void ls_cpu_filler_deinit(ls_cpu_filler *filler);
// Those of a CPU back end.
ls_cpu_filler *ls_cpu_backend_filler(const ls_backend *backend);

// Has `data` written by a run of `executable`, whose only output it is. False:
// that cannot be put off, or is not worth it.
bool ls_cpu_fill_later(ls_cpu_filler *filler, ls_cpu_fill *fill,
                       ls_executable *executable, const ls_run_args *args,
                       void *data);
// Returns when all fills are done.
void ls_cpu_fill_now(ls_cpu_filler *filler);
// The fill's data are not wanted any more.
void ls_cpu_fill_drop(ls_cpu_filler *filler, ls_cpu_fill *fill);

#endif  // LS_ENGINE_CPU_RUN_FILL_H_
