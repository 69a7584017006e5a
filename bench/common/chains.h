// SPDX-License-Identifier: Apache-2.0
//
// Chains of elementwise operations as one would write them by hand: a single
// loop, compiled for the machine at hand, that keeps what is between in
// registers. With the library's own functions, so to the same bits.

#ifndef BENCH_COMMON_CHAINS_H_
#define BENCH_COMMON_CHAINS_H_

#include <stddef.h>

// `count` is a multiple of 16.
typedef void (*chain_loop)(float *out, const float *x, const float *y,
                           size_t count);

// relu(x y + x) - y
void chain_short(float *out, const float *x, const float *y, size_t count);
// t = t x + y, six times, from t = x
void chain_cheap(float *out, const float *x, const float *y, size_t count);
// x - 0.1 (0.9 y + x)
void chain_scaled(float *out, const float *x, const float *y, size_t count);
// erf(x y) + exp(y) x
void chain_dear(float *out, const float *x, const float *y, size_t count);

#endif  // BENCH_COMMON_CHAINS_H_
