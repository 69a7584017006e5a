// SPDX-License-Identifier: Apache-2.0
//
// A team: the threads that share one instruction's blocks.
//
// Which blocks there are depends on shapes alone, and each gives the same bits
// wherever it runs; a team only decides who runs them: worker w of T begins
// with the w-th part, so that data stays in its core's cache from one
// instruction to the next, and then helps. What is too small to be worth waking
// anybody runs on the caller's thread.
#ifndef LS_ENGINE_CPU_RUN_TEAM_H_
#define LS_ENGINE_CPU_RUN_TEAM_H_

#include "base/threads/workers.h"
#include "engine/cpu/kernels/kernel.h"

struct ls_cpu_team {
  ls_workers *workers;  // The runtime's; NULL: the caller alone.
  int threads;
  char *scratch;  // One part a thread.
  size_t stride;
};

// Runs all blocks. `call->scratch` is set here.
void ls_cpu_team_run(const ls_cpu_team *team, ls_kernel_loop loop,
                     const ls_kernel_call *call, int64_t blocks);

// About what work of this size takes on one core.
double ls_cpu_team_nanos(double flops, size_t bytes);
// Whether it gains by a team: some 20 microseconds of one core.
bool ls_cpu_team_gains(double flops, size_t bytes, int64_t blocks);

#endif  // LS_ENGINE_CPU_RUN_TEAM_H_
