// SPDX-License-Identifier: Apache-2.0
//
// A training step as a flat list of instructions, and the ways to run it.
//
// An instruction is cut into blocks, whose number is a function of the shapes
// alone; it may be asked for any range of them, on any thread, with the same
// bits. Nothing is allocated once a program is built.

#ifndef BENCH_ONE_REPLICA_PROGRAM_H_
#define BENCH_ONE_REPLICA_PROGRAM_H_

#include <oneapi/dnnl/dnnl.h>

#include "engine/cpu/kernels.h"

enum { MAX_THREADS = 16, MAX_INSTRUCTIONS = 256 };

// Ends the program with a message: a benchmark has nobody to hand errors to.
_Noreturn void die(const char *format, ...)
    __attribute__((format(printf, 1, 2)));
double seconds_now(void);
double thread_seconds_now(void);  // That this thread ran.

// ---- Memory ----------------------------------------------------------------
// A stretch of address space on huge pages, handed out from the bottom.
typedef struct bench_arena {
  char *base;
  size_t size, used;
} bench_arena;

void arena_init(bench_arena *arena, size_t size);
void arena_deinit(bench_arena *arena);
// 64-byte aligned. Successive buffers are spaced so that two streams through
// them do not meet at the same offset of a page.
void *arena_take(bench_arena *arena, size_t bytes);
float *arena_floats(bench_arena *arena, size_t count);

// ---- Threads ---------------------------------------------------------------
// What a thread brings to an instruction.
typedef struct bench_worker {
  int index;
  dnnl_stream_t stream;
  void *scratch;  // Of the largest size that any instruction asked for.
} bench_worker;

// Where threads wait for each other, spinning.
typedef struct bench_barrier {
  int threads;
  char padding0[64];
  int arrived;
  char padding1[64];
  unsigned generation;
  char padding2[64];
} bench_barrier;

void barrier_wait(bench_barrier *barrier);

// ---- Programs --------------------------------------------------------------
// Runs blocks [begin, end) of an instruction.
typedef void instruction_fn(const void *params, int64_t begin, int64_t end,
                            const bench_worker *worker);

typedef struct instruction {
  const char *name;
  instruction_fn *run;
  const void *params;
  int64_t blocks;
  // Block b needs block b of the instruction before it and nothing else that
  // is not older: the two may run block by block, without a barrier between.
  bool chained;
  bool whole;  // Brings its own threads: called once, for all its blocks.
} instruction;

typedef struct bench_program {
  bench_arena *keep;   // Parameters of instructions.
  bench_arena *frame;  // What the step writes.
  const ls_cpu_kernels *kernels;
  bool vendor;     // Large products and convolutions by oneDNN, whole.
  double flops;    // 2 x multiply-add of products and convolutions.
  size_t scratch;  // Bytes that a thread needs.
  size_t count;
  instruction list[MAX_INSTRUCTIONS];
} bench_program;

// Appends an instruction and returns it. `params` are copied.
instruction *program_add(bench_program *program, const char *name,
                         instruction_fn *run, const void *params, size_t size,
                         int64_t blocks);
void program_want_scratch(bench_program *program, size_t bytes);

// Runs every block of every instruction on this thread.
void program_run_alone(const bench_program *program,
                       const bench_worker *worker);

// One thread's part of a run: its share of each instruction's blocks, the same
// for the same number of blocks, and a barrier after each instruction. With
// `chains` instructions that are chained run block by block. Unless NULL,
// `times` takes the seconds that each instruction (or chain, counted where it
// begins) took, barrier included.
void program_run_blocks(const bench_program *program,
                        const bench_worker *worker, int threads,
                        bench_barrier *barrier, bool chains, double *times);

// Runs `whole` instructions as they are, the blocks of others on OpenMP's
// threads.
void program_run_openmp(const bench_program *program,
                        const bench_worker *workers, int threads);

// Seconds that OpenMP's threads ran, together.
double openmp_seconds_now(int threads);

#endif  // BENCH_ONE_REPLICA_PROGRAM_H_
