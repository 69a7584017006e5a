// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/run/team.h"

// Measured on machines where a core does 100 flops and moves 30 bytes of cached
// data per nanosecond, and waking takes 15 to 90 us for a parked thread, 0.4
// for a spinning one.
enum { FLOPS_PER_NS = 100, BYTES_PER_NS = 30, WORTH_NS = 20000 };

double ls_cpu_team_nanos(double flops, size_t bytes) {
  return flops / FLOPS_PER_NS + (double)bytes / BYTES_PER_NS;
}

bool ls_cpu_team_gains(double flops, size_t bytes, int64_t blocks) {
  return blocks >= 2 && ls_cpu_team_nanos(flops, bytes) >= WORTH_NS;
}

typedef struct team_job {
  const ls_cpu_team *team;
  ls_kernel_loop loop;
  const ls_kernel_call *call;
} team_job;

static void run_blocks(void *user, int worker, int64_t begin, int64_t end) {
  const team_job *j = user;
  ls_kernel_call call = *j->call;
  call.scratch = j->team->scratch + (size_t)worker * j->team->stride;
  j->loop(&call, begin, end);
}

void ls_cpu_team_run(const ls_cpu_team *team, ls_kernel_loop loop,
                     const ls_kernel_call *call, int64_t blocks) {
  team_job j = {team, loop, call};
  ls_workers_share_or_run(team->workers, run_blocks, &j, blocks);
}
