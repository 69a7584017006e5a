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

size_t ls_cpu_team_size(int threads, size_t bytes, int64_t blocks) {
  if (bytes == 0) return 0;
  // Adds more than a page, so that no two threads share a line or alias.
  const size_t line = LS_CACHE_LINE, apart = threads > 1 ? 4096 + 192 : 0;
  const size_t stride = (bytes + line - 1) / line * line + apart;
  const size_t count = (size_t)(blocks < threads ? blocks : threads);
  size_t size = 0;
  return __builtin_mul_overflow(stride, count, &size) ? SIZE_MAX : size;
}

typedef struct team_job {
  const ls_cpu_team *team;
  ls_kernel_loop loop;
  const ls_kernel_call *call;
  int64_t blocks;
} team_job;

// With fewer blocks than threads the scratch belongs to the blocks: that of
// the first one of a range is its own.
static void run_blocks(void *user, int worker, int64_t begin, int64_t end) {
  const team_job *j = user;
  const bool is_few = j->blocks < j->team->threads;
  const size_t count = (size_t)(is_few ? j->blocks : j->team->threads);
  const size_t stride = j->team->size / count / LS_CACHE_LINE * LS_CACHE_LINE;
  ls_kernel_call call = *j->call;
  call.scratch = j->team->scratch + (size_t)(is_few ? begin : worker) * stride;
  j->loop(&call, begin, end);
}

void ls_cpu_team_run(const ls_cpu_team *team, ls_kernel_loop loop,
                     const ls_kernel_call *call, int64_t blocks) {
  team_job j = {team, loop, call, blocks};
  ls_workers_share_or_run(team->workers, run_blocks, &j, blocks);
}
