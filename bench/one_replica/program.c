// SPDX-License-Identifier: Apache-2.0

#include "one_replica/program.h"

#include <omp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/threads/threads.h"
#include "base/threads/workers.h"

void die(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fputs("one_replica: ", stderr);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
  exit(EXIT_FAILURE);
}

static double read_clock(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double seconds_now(void) { return read_clock(CLOCK_MONOTONIC); }

double thread_seconds_now(void) { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

// ---- Memory ----------------------------------------------------------------
void arena_init(bench_arena *arena, size_t size) {
  void *base = mmap(NULL, size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) die("no address space for %zu bytes", size);
  (void)madvise(base, size, MADV_HUGEPAGE);  // Slower where refused.
  arena->base = base;
  arena->size = size;
  arena->used = 0;
}

void arena_deinit(bench_arena *arena) {
  if (arena->base != NULL) munmap(arena->base, arena->size);
  arena->base = NULL;
}

void *arena_take(bench_arena *arena, size_t bytes) {
  void *start = arena->base + arena->used;
  arena->used += (bytes + 63) / 64 * 64 + 256;
  if (arena->used > arena->size) die("an arena is too small");
  return start;
}

float *arena_floats(bench_arena *arena, size_t count) {
  return arena_take(arena, count * sizeof(float));
}

// ---- Threads ---------------------------------------------------------------
void barrier_wait(bench_barrier *barrier) {
  const unsigned seen = __atomic_load_n(&barrier->generation, __ATOMIC_RELAXED);
  if (__atomic_add_fetch(&barrier->arrived, 1, __ATOMIC_ACQ_REL) ==
      barrier->threads) {
    __atomic_store_n(&barrier->arrived, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&barrier->generation, seen + 1, __ATOMIC_RELEASE);
    return;
  }
  while (__atomic_load_n(&barrier->generation, __ATOMIC_ACQUIRE) == seen) {
    ls_spin_pause();
  }
}

// ---- Programs --------------------------------------------------------------
instruction *program_add(bench_program *program, const char *name,
                         instruction_fn *run, const void *params, size_t size,
                         int64_t blocks) {
  if (program->count == MAX_INSTRUCTIONS) die("too many instructions");
  void *copy = arena_take(program->keep, size);
  memcpy(copy, params, size);
  instruction *added = &program->list[program->count++];
  *added =
      (instruction){.name = name, .run = run, .params = copy, .blocks = blocks};
  return added;
}

void program_want_scratch(bench_program *program, size_t bytes) {
  if (bytes > program->scratch) program->scratch = bytes;
}

void program_run_alone(const bench_program *program,
                       const bench_worker *worker) {
  for (size_t i = 0; i < program->count; ++i) {
    const instruction *at = &program->list[i];
    at->run(at->params, 0, at->blocks, worker);
  }
}

// The first block of thread `index`.
static int64_t first_block(int64_t blocks, int index, int threads) {
  return blocks * index / threads;
}

// One past the chain that begins at instruction `i`.
static size_t chain_end(const bench_program *program, size_t i) {
  const int64_t blocks = program->list[i++].blocks;
  while (i < program->count && program->list[i].chained &&
         program->list[i].blocks == blocks) {
    ++i;
  }
  return i;
}

static void run_chain(const bench_program *program, size_t first, size_t last,
                      int64_t begin, int64_t end, const bench_worker *worker) {
  for (int64_t block = begin; block < end; ++block) {
    for (size_t i = first; i < last; ++i) {
      const instruction *at = &program->list[i];
      at->run(at->params, block, block + 1, worker);
    }
  }
}

void program_run_blocks(const bench_program *program,
                        const bench_worker *worker, int threads,
                        bench_barrier *barrier, bool chains, double *times) {
  double before = times != NULL ? seconds_now() : 0;
  for (size_t i = 0; i < program->count;) {
    const instruction *at = &program->list[i];
    const size_t last = chains ? chain_end(program, i) : i + 1;
    const int64_t begin = first_block(at->blocks, worker->index, threads);
    const int64_t end = first_block(at->blocks, worker->index + 1, threads);
    if (last > i + 1) {
      run_chain(program, i, last, begin, end, worker);
    } else if (begin < end) {
      at->run(at->params, begin, end, worker);
    }
    barrier_wait(barrier);
    if (times != NULL) {
      const double after = seconds_now();
      times[i] += after - before;
      before = after;
    }
    i = last;
  }
}

void program_run_openmp(const bench_program *program,
                        const bench_worker *workers, int threads) {
  for (size_t i = 0; i < program->count; ++i) {
    const instruction *at = &program->list[i];
    if (at->whole) {
      at->run(at->params, 0, at->blocks, &workers[0]);
      continue;
    }
#pragma omp parallel num_threads(threads)
    {
      (void)ls_float_mode_enter();
      const int index = omp_get_thread_num(), team = omp_get_num_threads();
      const int64_t begin = first_block(at->blocks, index, team);
      const int64_t end = first_block(at->blocks, index + 1, team);
      if (begin < end) at->run(at->params, begin, end, &workers[index]);
    }
  }
}

double openmp_seconds_now(int threads) {
  double sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
  sum += thread_seconds_now();
  return sum;
}
