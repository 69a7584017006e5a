// SPDX-License-Identifier: Apache-2.0
//
// Thread teams: the threads that share one instruction's blocks.
//
// The blocks depend on shapes alone, and each gives the same bits on any
// thread; a team only decides which thread runs them: worker w of T starts with
// the w-th part, so that data stays in its core's cache from one instruction to
// the next, and then helps others. Work too small to be worth waking a thread
// runs on the caller's thread.
#ifndef LS_ENGINE_CPU_RUN_TEAM_H_
#define LS_ENGINE_CPU_RUN_TEAM_H_

#include "base/threads/workers.h"
#include "engine/cpu/kernels/kernel.h"

struct ls_cpu_team {
  ls_workers *workers;  // The runtime's workers; NULL: the caller alone.
  int threads;
  char *scratch;
  size_t size;  // Bytes of scratch.
};

// For the scratch of loops whose number of blocks varies.
#define LS_CPU_MANY_BLOCKS INT64_MAX
// Returns the bytes of scratch that a team needs for blocks that use `bytes`
// each: as much for each thread that can have a block.
size_t ls_cpu_team_size(int threads, size_t bytes, int64_t blocks);

// Runs all blocks. Sets `call->scratch`.
void ls_cpu_team_run(const ls_cpu_team *team, ls_kernel_loop loop,
                     const ls_kernel_call *call, int64_t blocks);

// Estimates the time of work of this size on one core.
double ls_cpu_team_nanos(double flops, size_t bytes);
// Returns true if a team makes the work faster: from some 20 microseconds of
// one core on.
bool ls_cpu_team_gains(double flops, size_t bytes, int64_t blocks);

#endif  // LS_ENGINE_CPU_RUN_TEAM_H_
