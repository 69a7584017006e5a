// SPDX-License-Identifier: Apache-2.0
//
// The matrices of conv/winograd.h and the transforms by them, 16 channels at a
// time: over the columns first, then over the rows, with a table of vectors
// between.

#ifndef LS_ENGINE_CPU_ISA_WINOGRAD_H_
#define LS_ENGINE_CPU_ISA_WINOGRAD_H_

#include "engine/cpu/isa/bf16.h"
#include "engine/cpu/isa/transpose.h"

// Powers of the points a and b, which floats hold exactly; G's factors.
#define A1 0.75f
#define A2 (A1 * A1)
#define A3 (A1 * A1 * A1)
#define B1 1.5f
#define B2 (B1 * B1)
#define B3 (B1 * B1 * B1)
#define G0 (1 / (A2 * B2))
#define GA (1 / (2 * A2 * (A2 - B2)))
#define GB (1 / (2 * B2 * (B2 - A2)))

enum { IN = 6, OUT = 4, TAPS = 3, SQUARE = VF_LANES * VF_LANES };

// Multiplies six values by B'.
LS_INLINE void to_planes(vf target[IN], const vf d[IN]) {
  const vf a = vf_set1(A1), a2 = vf_set1(A2), b = vf_set1(B1), b2 = vf_set1(B2);
  const vf sum = vf_set1(A2 + B2), product = vf_set1(A2 * B2);
  const vf even = vf_fnma(b2, d[2], d[4]), odd = vf_fnma(b2, d[1], d[3]);
  const vf far = vf_fnma(a2, d[2], d[4]), side = vf_fnma(a2, d[1], d[3]);
  target[0] = vf_fma(product, d[0], vf_fnma(sum, d[2], d[4]));
  target[1] = vf_fma(a, odd, even);
  target[2] = vf_fnma(a, odd, even);
  target[3] = vf_fma(b, side, far);
  target[4] = vf_fnma(b, side, far);
  target[5] = vf_fma(product, d[1], vf_fnma(sum, d[3], d[5]));
}

// Multiplies six values by A'.
LS_INLINE void to_outputs(vf target[OUT], const vf m[IN]) {
  const vf near = vf_add(m[1], m[2]), slope = vf_sub(m[1], m[2]);
  const vf far = vf_add(m[3], m[4]), steep = vf_sub(m[3], m[4]);
  target[0] = vf_add(vf_add(m[0], near), far);
  target[1] = vf_fma(vf_set1(B1), steep, vf_mul(vf_set1(A1), slope));
  target[2] = vf_fma(vf_set1(B2), far, vf_mul(vf_set1(A2), near));
  target[3] = vf_fma(vf_set1(B3), steep, vf_fma(vf_set1(A3), slope, m[5]));
}

// Multiplies four values by A.
LS_INLINE void from_outputs(vf target[IN], const vf y[OUT]) {
  const vf even = vf_fma(vf_set1(A2), y[2], y[0]);
  const vf odd = vf_fma(vf_set1(A3), y[3], vf_mul(vf_set1(A1), y[1]));
  const vf far = vf_fma(vf_set1(B2), y[2], y[0]);
  const vf steep = vf_fma(vf_set1(B3), y[3], vf_mul(vf_set1(B1), y[1]));
  target[0] = y[0];
  target[1] = vf_add(even, odd);
  target[2] = vf_sub(even, odd);
  target[3] = vf_add(far, steep);
  target[4] = vf_sub(far, steep);
  target[5] = y[3];
}

// Multiplies three values by G.
LS_INLINE void from_taps(vf target[IN], const vf w[TAPS]) {
  const vf near = vf_fma(vf_set1(A2), w[2], w[0]);
  const vf far = vf_fma(vf_set1(B2), w[2], w[0]);
  const vf a = vf_set1(A1), b = vf_set1(B1);
  target[0] = vf_mul(vf_set1(G0), w[0]);
  target[1] = vf_mul(vf_set1(GA), vf_fma(a, w[1], near));
  target[2] = vf_mul(vf_set1(GA), vf_fnma(a, w[1], near));
  target[3] = vf_mul(vf_set1(GB), vf_fma(b, w[1], far));
  target[4] = vf_mul(vf_set1(GB), vf_fnma(b, w[1], far));
  target[5] = w[2];
}

// Multiplies six values by G'.
LS_INLINE void to_taps(vf target[TAPS], const vf u[IN]) {
  const vf ga = vf_set1(GA), gb = vf_set1(GB);
  const vf near = vf_mul(ga, vf_add(u[1], u[2]));
  const vf slope = vf_mul(ga, vf_sub(u[1], u[2]));
  const vf far = vf_mul(gb, vf_add(u[3], u[4]));
  const vf steep = vf_mul(gb, vf_sub(u[3], u[4]));
  target[0] = vf_fma(vf_set1(G0), u[0], vf_add(near, far));
  target[1] = vf_fma(vf_set1(B1), steep, vf_mul(vf_set1(A1), slope));
  target[2] = vf_fma(vf_set1(B2), far, vf_fma(vf_set1(A2), near, u[5]));
}

// Multiplies each of `in` columns, whose `in` values are `value` of i and j, by
// `multiply`: to column j of `between`, which has `out` rows.
#define MULTIPLY_COLUMNS(between, multiply, out, in, value)                    \
  LS_UNROLL                                                                    \
  for (size_t j = 0; j < in; ++j) {                                            \
    vf column[in], turned[out];                                                \
    LS_UNROLL                                                                  \
    for (size_t i = 0; i < in; ++i)                                            \
      column[i] = value;                                                       \
    multiply(turned, column);                                                  \
    LS_UNROLL                                                                  \
    for (size_t i = 0; i < out; ++i)                                           \
      between[i][j] = turned[i];                                               \
  }

// Prefetches the next tile's pixels, usually those OUT columns further on.
// After the last tile of a row it prefetches others, which does no harm.
LS_INLINE void prefetch_tile(const float *const *pixels, size_t rows,
                             size_t columns, size_t first, size_t channels,
                             size_t c) {
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = first; j < columns; ++j)
      __builtin_prefetch((const char *)pixels[i * columns + j] +
                         (OUT * channels + c) * sizeof(float));
}

// Computes V of the inputs under a tile, of 16 channels from c on.
LS_INLINE void input_planes(vf target[IN][IN], const float *const *pixels,
                            size_t c) {
  vf between[IN][IN];
  MULTIPLY_COLUMNS(between, to_planes, IN, IN, vf_load(pixels[i * IN + j] + c))
  LS_UNROLL
  for (size_t i = 0; i < IN; ++i)
    to_planes(target[i], between[i]);
}

// Stores V of a tile's channels, rounded to bf16 or not.
LS_INLINE void put_input(float *planes, const float *const *pixels,
                         size_t channels, size_t step, const bool rounds) {
  for (size_t c = 0; c < channels; c += VF_LANES) {
    prefetch_tile(pixels, IN, IN, IN - OUT, step, c);
    vf v[IN][IN];
    input_planes(v, pixels, c);
    LS_UNROLL
    for (size_t i = 0; i < IN; ++i)
      LS_UNROLL
    for (size_t j = 0; j < IN; ++j) {
      const size_t at = (i * IN + j) * channels + c;
      if (rounds)
        store_rounded(planes + at / 2, v[i][j]);
      else
        vf_store(planes + at, v[i][j]);
    }
  }
}

// Computes the planes of 16 adjacent weights: those of the first tap are at
// `taps`, those of the next ones `step` further on.
LS_INLINE void weight_planes(vf target[IN][IN], const float *taps,
                             size_t step) {
  vf between[IN][TAPS];
  MULTIPLY_COLUMNS(between, from_taps, IN, TAPS,
                   vf_load(taps + (i * TAPS + j) * step))
  LS_UNROLL
  for (size_t i = 0; i < IN; ++i)
    from_taps(target[i], between[i]);
}

// Transposes 16 by 16 weights of each tap, the last tap first.
LS_INLINE void turn_taps(float *target, const float *taps, size_t plane,
                         size_t columns) {
  for (size_t t = TAPS * TAPS; t-- > 0; target += SQUARE)
    transpose_16x16(target, VF_LANES, taps + t * plane, columns);
}

#endif  // LS_ENGINE_CPU_ISA_WINOGRAD_H_
