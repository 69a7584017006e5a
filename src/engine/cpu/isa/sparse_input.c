// SPDX-License-Identifier: Apache-2.0
//
// Gradients of the input of a convolution by 3 by 3 taps from that of maxima of
// its result: for f32, and for values rounded to bf16.
//
// A window's values add to 4 by 4 pixels, 16 channels at a time in registers,
// while a block's taps stay in the first cache. In bf16 two consecutive values
// at the same place make a pair.

#include "engine/cpu/isa/bf16.h"
#include "engine/cpu/isa/isa.h"
#include "engine/cpu/isa/transpose.h"

enum {
  TAPS = 9,
  SIDE = 3,
  NEAR = SIDE + 1,  // Pixels of dx, along a side, that a window adds to.
  PLACES = 4,       // Places of a window.
  BLOCK_F32 = 2 * VF_LANES,
  BLOCK_BF16 = 4 * VF_LANES
};

// ---- A window --------------------------------------------------------------
// Sets at[p] to the channels of a window's block whose values are at place p.
// Finds all four at once, long before the last one is needed: the trip counts
// of the loops over them are then known early, which keeps mispredictions
// cheap.
LS_INLINE void find_channels(uint64_t at[PLACES], const float *d,
                             const uint8_t *places, size_t block) {
  at[0] = at[1] = at[2] = at[3] = 0;
  for (size_t c = 0; c < block; c += VF_LANES) {
    const uint32_t there = vf_nonzero(vf_load(d + c));
    LS_UNROLL
    for (size_t p = 0; p < PLACES; ++p)
      at[p] |= (uint64_t)(there & vb_equal(places + c, (uint8_t)p)) << c;
  }
}

// Stores the two columns of dx that are complete after a window, and shifts the
// others.
LS_INLINE void put_columns(float *const *dx, size_t at, vf sum[NEAR][NEAR]) {
  LS_UNROLL
  for (size_t r = 0; r < NEAR; ++r) {
    float *target = dx[r] + at * VF_LANES;
    vf_store(target, vf_add(vf_load(target), sum[r][0]));
    vf_store(target + VF_LANES, vf_add(vf_load(target + VF_LANES), sum[r][1]));
    sum[r][0] = sum[r][2];
    sum[r][1] = sum[r][3];
    sum[r][2] = sum[r][3] = vf_zero();
  }
}

LS_INLINE void clear_sums(vf sum[NEAR][NEAR]) {
  LS_UNROLL
  for (size_t i = 0; i < NEAR * NEAR; ++i)
    sum[i / NEAR][i % NEAR] = vf_zero();
}

#if defined(__AVX512BF16__)

// ---- bf16, by its instruction ----------------------------------------------
// Taps of a channel in twos, 32 channels of a pair of them to a vector; the
// last one is alone. After a block's channels one has zeros, as the partner of
// a single one.
enum { ROW = (TAPS + 1) / 2 * VF_LANES, NONE = BLOCK_BF16 };

static void pack_taps(float *taps, const float *w, size_t in, size_t out,
                      size_t block) {
  for (size_t t = 0; t < TAPS; t += 2)
    for (size_t c = 0; c < block; c += VF_LANES) {
      float two[2][VF_LANES * VF_LANES] = {{0}};
      for (size_t i = 0; i < 2 && t + i < TAPS; ++i)
        transpose_16x16(two[i], VF_LANES, w + (t + i) * in * out + c, out);
      for (size_t o = 0; o < VF_LANES; ++o)
        vf_store(taps + (c + o) * ROW + t / 2 * VF_LANES,
                 round_two(vf_load(two[0] + o * VF_LANES),
                           vf_load(two[1] + o * VF_LANES)));
    }
  memset(taps + NONE * ROW, 0, ROW * sizeof(float));
}

// Adds the values at one place, (down, right) in its window, to the 4 by 4 sums
// around it.
LS_INLINE void add_place(vf sum[NEAR][NEAR], const uint32_t *values,
                         uint64_t bits, const float *taps, const size_t down,
                         const size_t right) {
  vf *first = sum[down] + right, *second = sum[down + 1] + right,
     *third = sum[down + 2] + right;
  for (; bits != 0; bits = _blsr_u64(bits)) {
    const uint64_t even = _tzcnt_u64(bits);
    bits = _blsr_u64(bits);
    const uint64_t odd = _tzcnt_u64(bits);  // NONE if there is no partner.
    const vf by =
        vi_as_float(vi_set1((int32_t)(values[even] | values[odd] << 16)));
    const float *a = vf_fixed(taps + even * ROW);
    const float *b = vf_fixed(taps + odd * ROW);
    add_pairs(first, first + 1, vf_load(a), vf_load(b), by);
    add_pairs(first + 2, second, vf_load(a + 16), vf_load(b + 16), by);
    add_pairs(second + 1, second + 2, vf_load(a + 32), vf_load(b + 32), by);
    add_pairs(third, third + 1, vf_load(a + 48), vf_load(b + 48), by);
    add_pairs(third + 2, NULL, vf_load(a + 64), vf_load(b + 64), by);
  }
}

static void add_line_of_windows(float *const *dx, const float *d,
                                const uint8_t *places, const float *taps,
                                size_t windows, size_t out, size_t block) {
  vf sum[NEAR][NEAR];
  _Alignas(64) uint32_t values[BLOCK_BF16 + 1];
  values[NONE] = 0;
  clear_sums(sum);
  for (size_t i = 0; i < windows; ++i, d += out, places += out) {
    uint64_t at[PLACES];
    find_channels(at, d, places, block);
    for (size_t c = 0; c < block; c += VF_LANES) {
      const __m256i halves = (__m256i)_mm512_cvtneps_pbh(vf_load(d + c));
      _mm512_storeu_si512(values + c, _mm512_cvtepu16_epi32(halves));
    }
    add_place(sum, values, at[0], taps, 0, 0);
    add_place(sum, values, at[1], taps, 0, 1);
    add_place(sum, values, at[2], taps, 1, 0);
    add_place(sum, values, at[3], taps, 1, 1);
    put_columns(dx, 2 * i, sum);
  }
  put_columns(dx, 2 * windows, sum);
}

const ls_cpu_sparse_input LS_ISA_NAME(ls_cpu_sparse_input_bf16) = {
    .block = BLOCK_BF16,
    .taps = (NONE + 1) * ROW,
    .pack = pack_taps,
    .add = add_line_of_windows};

#else

// ---- f32 -------------------------------------------------------------------
enum { ROW = TAPS * VF_LANES };

static void pack_taps(float *taps, const float *w, size_t in, size_t out,
                      size_t block) {
  for (size_t t = 0; t < TAPS; ++t)
    for (size_t c = 0; c < block; c += VF_LANES) {
      float lines[VF_LANES * VF_LANES];
      transpose_16x16(lines, VF_LANES, w + t * in * out + c, out);
      for (size_t o = 0; o < VF_LANES; ++o)
        vf_store(taps + (c + o) * ROW + t * VF_LANES,
                 vf_load(lines + o * VF_LANES));
    }
}

LS_INLINE void add_value(vf sum[NEAR][NEAR], float value, const float *taps,
                         const size_t down, const size_t right) {
  const vf by = vf_set1(value);
  const float *w = vf_fixed(taps);
  LS_UNROLL
  for (size_t r = 0; r < SIDE; ++r)
    LS_UNROLL
  for (size_t t = 0; t < SIDE; ++t)
    sum[down + r][right + t] = vf_fma(
        by, vf_load(w + (r * SIDE + t) * VF_LANES), sum[down + r][right + t]);
}

// Adds the values at one place, (down, right) in its window, to the 4 by 4 sums
// around it. In pairs, the second value comes first.
LS_INLINE void add_place(vf sum[NEAR][NEAR], const float *values, uint64_t bits,
                         const float *taps, const size_t down,
                         const size_t right, const bool pairs) {
  for (; bits != 0; bits &= bits - 1) {
    const size_t even = (size_t)__builtin_ctzll(bits);
    if (pairs && (bits & (bits - 1)) != 0) {
      bits &= bits - 1;
      const size_t odd = (size_t)__builtin_ctzll(bits);
      add_value(sum, values[odd], taps + odd * ROW, down, right);
    }
    add_value(sum, values[even], taps + even * ROW, down, right);
  }
}

LS_EXPAND void add_windows(float *const *dx, const float *d,
                           const uint8_t *places, const float *taps,
                           size_t windows, size_t out, size_t block,
                           const bool pairs) {
  vf sum[NEAR][NEAR];
  float own[BLOCK_BF16];
  clear_sums(sum);
  for (size_t i = 0; i < windows; ++i, d += out, places += out) {
    uint64_t at[PLACES];
    find_channels(at, d, places, block);
    if (pairs)
      for (size_t c = 0; c < block; c += VF_LANES)
        vf_store(own + c, vi_as_float(round_bf16(vf_load(d + c))));
    const float *v = pairs ? own : d;
    add_place(sum, v, at[0], taps, 0, 0, pairs);
    add_place(sum, v, at[1], taps, 0, 1, pairs);
    add_place(sum, v, at[2], taps, 1, 0, pairs);
    add_place(sum, v, at[3], taps, 1, 1, pairs);
    put_columns(dx, 2 * i, sum);
  }
  put_columns(dx, 2 * windows, sum);
}

static void add_line_of_windows(float *const *dx, const float *d,
                                const uint8_t *places, const float *taps,
                                size_t windows, size_t out, size_t block) {
  add_windows(dx, d, places, taps, windows, out, block, false);
}

const ls_cpu_sparse_input LS_ISA_NAME(ls_cpu_sparse_input) = {
    .block = BLOCK_F32,
    .taps = BLOCK_F32 * ROW,
    .pack = pack_taps,
    .add = add_line_of_windows};

// ---- bf16, in two steps ----------------------------------------------------
static void pack_rounded(float *taps, const float *w, size_t in, size_t out,
                         size_t block) {
  pack_taps(taps, w, in, out, block);
  for (size_t i = 0; i < block * ROW; i += VF_LANES)
    vf_store(taps + i, vi_as_float(round_bf16(vf_load(taps + i))));
}

static void add_rounded(float *const *dx, const float *d, const uint8_t *places,
                        const float *taps, size_t windows, size_t out,
                        size_t block) {
  add_windows(dx, d, places, taps, windows, out, block, true);
}

const ls_cpu_sparse_input LS_ISA_NAME(ls_cpu_sparse_input_bf16) = {
    .block = BLOCK_BF16,
    .taps = BLOCK_BF16 * ROW,
    .pack = pack_rounded,
    .add = add_rounded};

#endif
