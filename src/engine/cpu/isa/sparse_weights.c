// SPDX-License-Identifier: Apache-2.0
//
// Gradients of weights of 3 by 3 taps from lists of a result's gradient that is
// mostly zeros: for f32, and for values rounded to bf16.
//
// A value uses 9 pixels of x, of which each slice adds 16 channels to sums that
// stay in registers. In bf16 two consecutive values of a list make a pair.

#include "engine/cpu/isa/bf16.h"
#include "engine/cpu/isa/isa.h"

// Slices of f32 processed together.
#if defined(__AVX512F__)
enum { VECTORS = 2 };
#else
enum { VECTORS = 1 };
#endif
enum { TAPS = 9, SIDE = 3, SLICE = TAPS * VF_LANES };

#define EACH_SUM                                                               \
  LS_UNROLL for (size_t t = 0; t < TAPS; ++t)                                  \
      LS_UNROLL for (size_t v = 0; v < vectors; ++v)

#if defined(__AVX512BF16__)

// ---- bf16, by its instruction ----------------------------------------------
enum { PIXEL = 2 * VF_LANES };  // Channels of a slice.

static void slice_pixels(float *slices, size_t plane, const float *line,
                         size_t channels, size_t count) {
  for (size_t c = 0; c < channels; c += PIXEL, slices += plane)
    for (size_t i = 0; i < count; ++i) {
      const float *from = line + i * channels + c;
      const bool half = c + PIXEL > channels;
      const vf upper = half ? vf_zero() : vf_load(from + VF_LANES);
      vf_store(slices + i * VF_LANES, round_two(vf_load(from), upper));
    }
}

// Adds a pair of values; the second may be a zero without a position.
LS_INLINE void add_pair(vf sum[TAPS][2], const float *even, const float *odd,
                        size_t line, vf by, const size_t vectors) {
  LS_UNROLL
  for (size_t r = 0; r < SIDE; ++r) {
    const float *below = vf_fixed(even + r * line);
    const float *above = odd == NULL ? NULL : vf_fixed(odd + r * line);
    LS_UNROLL
    for (size_t t = 0; t < SIDE; ++t) {
      vf *target = sum[r * SIDE + t];
      add_pairs(target, vectors == 1 ? NULL : target + 1,
                vf_load(below + t * VF_LANES),
                odd == NULL ? vf_zero() : vf_load(above + t * VF_LANES), by);
    }
  }
}

LS_EXPAND void add_values(float *sums, const float *x, size_t line,
                          const int32_t *places, const float *values,
                          size_t count, const size_t vectors) {
  int32_t pairs[VF_LANES];
  vf sum[TAPS][2];
  EACH_SUM sum[t][v] = vf_load(sums + v * SLICE + t * VF_LANES);
  for (size_t i = 0; i < count; i += 2) {
    if (i % PIXEL == 0) {
      const size_t left = count - i < PIXEL ? count - i : PIXEL;
      const size_t few = left < VF_LANES ? left : VF_LANES;
      const vf first = vf_load_n(values + i, few);
      const vf second = vf_load_n(values + i + few, left - few);
      _mm512_storeu_si512(pairs, (__m512i)_mm512_cvtne2ps_pbh(second, first));
    }
    const vf by = vi_as_float(vi_set1(pairs[i % PIXEL / 2]));
    add_pair(sum, x + places[i], i + 1 < count ? x + places[i + 1] : NULL, line,
             by, vectors);
  }
  EACH_SUM vf_store(sums + v * SLICE + t * VF_LANES, sum[t][v]);
}

static void add_list(float *sums, const float *x, size_t line, size_t plane,
                     size_t in, const int32_t *places, const float *values,
                     size_t count) {
  for (; in >= PIXEL; in -= PIXEL, sums += 2 * SLICE, x += plane)
    add_values(sums, x, line, places, values, count, 2);
  if (in > 0) add_values(sums, x, line, places, values, count, 1);
}

const ls_cpu_sparse_weights LS_ISA_NAME(ls_cpu_sparse_weights_bf16) = {
    .channels = PIXEL, .bytes = 2, .slice = slice_pixels, .add = add_list};

#else

// ---- f32 -------------------------------------------------------------------
static void slice_pixels(float *slices, size_t plane, const float *line,
                         size_t channels, size_t count) {
  for (size_t c = 0; c < channels; c += VF_LANES, slices += plane)
    for (size_t i = 0; i < count; ++i)
      vf_store(slices + i * VF_LANES, vf_load(line + i * channels + c));
}

LS_EXPAND void add_values(float *sums, const float *x, size_t line,
                          size_t plane, const int32_t *places,
                          const float *values, size_t count,
                          const size_t vectors) {
  vf sum[TAPS][VECTORS];
  EACH_SUM sum[t][v] = vf_load(sums + v * SLICE + t * VF_LANES);
  for (size_t i = 0; i < count; ++i) {
    const vf by = vf_set1(values[i]);
    const float *from[SIDE][VECTORS];
    LS_UNROLL for (size_t r = 0; r < SIDE; ++r)
        LS_UNROLL for (size_t v = 0; v < vectors; ++v) from[r][v] =
            vf_fixed(x + places[i] + v * plane + r * line);
    EACH_SUM sum[t][v] =
        vf_fma(by, vf_load(from[t / SIDE][v] + t % SIDE * VF_LANES), sum[t][v]);
  }
  EACH_SUM vf_store(sums + v * SLICE + t * VF_LANES, sum[t][v]);
}

static void add_list(float *sums, const float *x, size_t line, size_t plane,
                     size_t in, const int32_t *places, const float *values,
                     size_t count) {
  const size_t slices = in / VF_LANES;
  size_t s = 0;
  for (; s + VECTORS <= slices; s += VECTORS)
    add_values(sums + s * SLICE, x + s * plane, line, plane, places, values,
               count, VECTORS);
  for (; s < slices; ++s)
    add_values(sums + s * SLICE, x + s * plane, line, plane, places, values,
               count, 1);
}

const ls_cpu_sparse_weights LS_ISA_NAME(ls_cpu_sparse_weights) = {
    .channels = VF_LANES, .bytes = 4, .slice = slice_pixels, .add = add_list};

// ---- bf16, in two steps ----------------------------------------------------
static void slice_rounded(float *slices, size_t plane, const float *line,
                          size_t channels, size_t count) {
  for (size_t c = 0; c < channels; c += VF_LANES, slices += plane)
    for (size_t i = 0; i < count; ++i)
      vf_store(slices + i * VF_LANES,
               vi_as_float(round_bf16(vf_load(line + i * channels + c))));
}

// Adds rounded values as for f32, but the second value of each pair first.
static void add_rounded(float *sums, const float *x, size_t line, size_t plane,
                        size_t in, const int32_t *places, const float *values,
                        size_t count) {
  enum { SOME = 2 * VF_LANES };
  for (; count > 0; places += SOME, values += SOME) {
    const size_t some = count < SOME ? count : SOME;
    float own[SOME], turned[SOME];
    int32_t at[SOME];
    for (size_t i = 0; i < SOME; i += VF_LANES) {
      const size_t lanes = i >= some             ? 0
                           : some - i < VF_LANES ? some - i
                                                 : VF_LANES;
      vf_store(own + i, vi_as_float(round_bf16(vf_load_n(values + i, lanes))));
    }
    for (size_t i = 0; i < some; ++i) {
      const size_t from = (i ^ 1) < some ? i ^ 1 : i;
      turned[i] = own[from];
      at[i] = places[from];
    }
    add_list(sums, x, line, plane, in, at, turned, some);
    count -= some;
  }
}

const ls_cpu_sparse_weights LS_ISA_NAME(ls_cpu_sparse_weights_bf16) = {
    .channels = VF_LANES,
    .bytes = 2,
    .slice = slice_rounded,
    .add = add_rounded};

#endif
