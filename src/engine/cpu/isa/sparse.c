// SPDX-License-Identifier: Apache-2.0
//
// Gradients of convolutions by 3 by 3 taps from maxima of their results.

#include "engine/cpu/isa/isa.h"
#include "engine/cpu/isa/transpose.h"
#include "engine/cpu/isa/vec.h"

enum {
  TAPS = 9,
  SIDE = 3,
  SLICE = TAPS * VF_LANES,
  BLOCK = 2 * VF_LANES,
  NEAR = SIDE + 1  // Pixels of dx, along a side, that a window meets.
};

// ---- For the input ---------------------------------------------------------
// The channels of a window's block whose values stand at `place`.
LS_INLINE uint32_t stand_at(const uint8_t *places, uint8_t place, size_t block,
                            uint32_t nonzero) {
  uint32_t bits = vb_equal(places, place);
  if (block > VF_LANES) bits |= vb_equal(places + VF_LANES, place) << VF_LANES;
  return bits & nonzero;
}

// Adds what stands at one place, (down, right) in its window, to the 4 by 4
// sums around it.
LS_INLINE void add_place(vf sum[NEAR][NEAR], const float *d, uint32_t bits,
                         const float *taps, const size_t down,
                         const size_t right) {
  for (; bits != 0; bits &= bits - 1) {
    const size_t o = (size_t)__builtin_ctz(bits);
    const vf by = vf_set1(d[o]);
    const float *w = vf_fixed(taps + o * SLICE);
    LS_UNROLL
    for (size_t r = 0; r < SIDE; ++r)
      LS_UNROLL
    for (size_t t = 0; t < SIDE; ++t)
      sum[down + r][right + t] = vf_fma(
          by, vf_load(w + (r * SIDE + t) * VF_LANES), sum[down + r][right + t]);
  }
}

// The block's taps stay in the first cache, its sums in registers. Two columns
// of dx are complete when a window has been added to them; the sums move on
// then.
static void input(float *const *dx, const float *d, const uint8_t *places,
                  const float *taps, size_t windows, size_t out, size_t block) {
  vf sum[NEAR][NEAR];
  LS_UNROLL
  for (size_t i = 0; i < NEAR * NEAR; ++i)
    sum[i / NEAR][i % NEAR] = vf_zero();
  for (size_t i = 0; i < windows; ++i, d += out, places += out) {
    uint32_t nonzero = vf_nonzero(vf_load(d));
    if (block > VF_LANES)
      nonzero |= vf_nonzero(vf_load(d + VF_LANES)) << VF_LANES;
    add_place(sum, d, stand_at(places, 0, block, nonzero), taps, 0, 0);
    add_place(sum, d, stand_at(places, 1, block, nonzero), taps, 0, 1);
    add_place(sum, d, stand_at(places, 2, block, nonzero), taps, 1, 0);
    add_place(sum, d, stand_at(places, 3, block, nonzero), taps, 1, 1);
    LS_UNROLL
    for (size_t r = 0; r < NEAR; ++r) {
      float *to = dx[r] + 2 * i * VF_LANES;
      vf_store(to, vf_add(vf_load(to), sum[r][0]));
      vf_store(to + VF_LANES, vf_add(vf_load(to + VF_LANES), sum[r][1]));
      sum[r][0] = sum[r][2];
      sum[r][1] = sum[r][3];
      sum[r][2] = sum[r][3] = vf_zero();
    }
  }
  LS_UNROLL
  for (size_t r = 0; r < NEAR; ++r) {
    LS_UNROLL
    for (size_t t = 0; t < 2; ++t) {
      float *to = dx[r] + (2 * windows + t) * VF_LANES;
      vf_store(to, vf_add(vf_load(to), sum[r][t]));
    }
  }
}

static void unslice(float *line, const float *slices, size_t plane,
                    const float *relu, size_t channels, size_t count) {
  for (size_t i = 0; i < count; ++i)
    for (size_t c = 0; c < channels; c += VF_LANES) {
      const size_t at = i * channels + c;
      vf v = vf_load(slices + c / VF_LANES * plane + i * VF_LANES);
      if (relu != NULL) v = vf_where_positive(v, vf_load(relu + at));
      vf_store(line + at, v);
    }
}

// ---- For the weights -------------------------------------------------------
// 16 windows by 16 channels; `to` begins at the first of these. `at` are the
// pixels where the windows' values stand.
static void collect_square(const ls_cpu_nonzeros *to, const float *d,
                           size_t pitch, const float *at) {
  float values[VF_LANES * VF_LANES], pixels[VF_LANES * VF_LANES];
  transpose_16x16(values, VF_LANES, d, pitch);
  transpose_16x16(pixels, VF_LANES, at, VF_LANES);
  for (size_t c = 0; c < VF_LANES; ++c) {
    const vf value = vf_load(values + c * VF_LANES);
    const vf pixel = vf_load(pixels + c * VF_LANES);
    const uint32_t bits = vf_nonzero(value);
    const size_t end = c * to->pitch + to->counts[c];
    vi_pack(to->places + end, bits, vf_bits(pixel));
    vf_pack(to->values + end, bits, value);
    to->counts[c] += (uint32_t)__builtin_popcount(bits);
  }
}

// The same for up to 16 windows.
static void collect_windows(const ls_cpu_nonzeros *to, const float *d,
                            const uint8_t *places, size_t pitch,
                            const int32_t *pixels, size_t count) {
  // Whole numbers, as bits: they are moved, never computed with.
  float at[VF_LANES * VF_LANES], rest[VF_LANES * VF_LANES];
  const bool all = count == VF_LANES;
  for (size_t i = 0; i < VF_LANES; ++i) {
    const bool there = i < count;
    vf_store(at + i * VF_LANES,
             there ? vi_as_float(vi_pick(pixels + 4 * i, places + i * pitch))
                   : vf_zero());
    if (!all)
      vf_store(rest + i * VF_LANES, there ? vf_load(d + i * pitch) : vf_zero());
  }
  collect_square(to, all ? d : rest, all ? pitch : VF_LANES, at);
}

static void collect(const ls_cpu_nonzeros *to, const float *d,
                    const uint8_t *places, size_t pitch, size_t channels,
                    const int32_t *pixels, size_t count) {
  for (size_t c = 0; c < channels; c += VF_LANES) {
    const ls_cpu_nonzeros lists = {.counts = to->counts + c,
                                   .places = to->places + c * to->pitch,
                                   .values = to->values + c * to->pitch,
                                   .pitch = to->pitch};
    for (size_t i = 0; i < count; i += VF_LANES)
      collect_windows(&lists, d + i * pitch + c, places + i * pitch + c, pitch,
                      pixels + 4 * i,
                      count - i < VF_LANES ? count - i : VF_LANES);
  }
}

const ls_cpu_sparse LS_ISA_NAME(ls_cpu_sparse) = {
    .block = BLOCK, .input = input, .unslice = unslice, .collect = collect};
