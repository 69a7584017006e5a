// SPDX-License-Identifier: Apache-2.0
//
// Ops as one would write them in plain C: a loop or two without intrinsics,
// left to the compiler, for the machine at hand.

#ifndef BENCH_COMMON_PLAIN_H_
#define BENCH_COMMON_PLAIN_H_

#include <stdint.h>

// What an op is computed on: `count` elements, or `rows` of `columns`.
typedef struct plain_sizes {
  int64_t count, rows, columns;
  // Of a convolution by 3 by 3 taps, with zeros around: each channel makes
  // `multiplier` ones.
  int64_t images, height, width, channels, multiplier;
} plain_sizes;

typedef void (*plain_loop)(void *out, const void *const *in,
                           const plain_sizes *sizes);

// Of low, x, high; scalar bounds or as many.
void plain_clamp(void *out, const void *const *in, const plain_sizes *sizes);
void plain_clamp_each(void *out, const void *const *in,
                      const plain_sizes *sizes);
void plain_clamp_i32(void *out, const void *const *in,
                     const plain_sizes *sizes);

void plain_remainder(void *out, const void *const *in,
                     const plain_sizes *sizes);
void plain_remainder_i32(void *out, const void *const *in,
                         const plain_sizes *sizes);
void plain_popcount_i32(void *out, const void *const *in,
                        const plain_sizes *sizes);
void plain_popcount_i64(void *out, const void *const *in,
                        const plain_sizes *sizes);
void plain_popcount_u8(void *out, const void *const *in,
                       const plain_sizes *sizes);
void plain_atan2(void *out, const void *const *in, const plain_sizes *sizes);
void plain_erfc(void *out, const void *const *in, const plain_sizes *sizes);

// h = a h + b, along rows and along columns.
void plain_scan_rows(void *out, const void *const *in,
                     const plain_sizes *sizes);
void plain_scan_columns(void *out, const void *const *in,
                        const plain_sizes *sizes);

// Of each row.
void plain_maxima(void *out, const void *const *in, const plain_sizes *sizes);
void plain_maxima_i32(void *out, const void *const *in,
                      const plain_sizes *sizes);

// Of x, `rows` indices (i32) and updates.
void plain_scatter_update(void *out, const void *const *in,
                          const plain_sizes *sizes);
void plain_scatter_add(void *out, const void *const *in,
                       const plain_sizes *sizes);

// Gradients of a convolution in groups of one input channel, of (dy, w) and of
// (x, dy).
void plain_depthwise_input(void *out, const void *const *in,
                           const plain_sizes *sizes);
void plain_depthwise_weights(void *out, const void *const *in,
                             const plain_sizes *sizes);

#endif  // BENCH_COMMON_PLAIN_H_
