// SPDX-License-Identifier: Apache-2.0
//
// The clock, and what the machine can do at most: multiply-adds from registers,
// and copies and sums in memory, on so many threads at once.

#ifndef BENCH_COMMON_MACHINE_H_
#define BENCH_COMMON_MACHINE_H_

#include <stddef.h>
#include <stdint.h>

double machine_seconds(void);  // Monotonic.

// Sorts the times and returns the one in the middle.
double machine_median(double *times, size_t count);

// Runs `rounds` rounds of multiply-adds on registers and returns their flops.
// What they compute goes to `sink`.
double machine_multiply_add(float *sink, int64_t rounds);
// Flops of one run of machine_peak_run on this many threads.
double machine_peak_flops(int threads);
// Runs the same multiply-adds in each of so many threads, which takes some
// milliseconds. Returns the seconds it took, 0 if a thread could not be made.
double machine_peak_run(int threads);

// Copies `bytes` from `from` to `to`, each thread its part. Returns seconds,
// 0 if a thread could not be made.
double machine_copy_run(int threads, void *to, const void *from, size_t bytes);

// Reads `ways` times `bytes` at `from`, from one end to the other, and writes
// `bytes` of sums to `to`, on the border of a cache line, as often as it takes
// to forget what threads cost. Returns the seconds of one time, by the faster
// way to store sums; 0 if a thread could not be made.
double machine_sum_run(int threads, void *to, const void *from, size_t bytes,
                       int ways);

#endif  // BENCH_COMMON_MACHINE_H_
