// SPDX-License-Identifier: Apache-2.0
//
// What contestants of bench/data in C share: what they read, and answering
// orders.

#ifndef BENCH_COMMON_FEED_H_
#define BENCH_COMMON_FEED_H_

#include <stddef.h>
#include <stdint.h>

enum {
  FEED_IMAGES = 60000,    // Of 28x28 bytes, in arrays and IDX files.
  FEED_RECORDS = 100000,  // More than what a data set loads by itself.
  FEED_PIXELS = 784,
  FEED_BATCH = 128,
  FEED_HELD = 10000,  // Records are dealt from as many.
  FEED_JPEGS = 512,
  FEED_PNGS = 128,
  FEED_SIDE = 224,
  FEED_IMAGE_BATCH = 32,
};
#define FEED_SCALE (1.0f / 255)

// The next batch: how many examples it has, 0 behind the last one of an epoch,
// below 0 if it failed, which it has told. With `sum` it adds there the mean of
// each example's numbers and its label.
typedef int64_t (*feed_next)(void *user, double *sum);

double feed_sum_bytes(const unsigned char *values, size_t count);
double feed_sum_floats(const float *values, size_t count);

// Reads an epoch, and answers {"examples": N, "mean": M}; then, to each order
// "run K" of standard input, reads K batches and answers
// {"ms": [W], "cpu_ms": C, "examples": N}: the wall time of one, the CPU time
// of all threads and the examples of all. Returns an exit status.
int feed_serve(feed_next next, void *user);

#endif  // BENCH_COMMON_FEED_H_
