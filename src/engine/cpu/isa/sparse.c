// SPDX-License-Identifier: Apache-2.0
//
// Gradients of convolutions by 3 by 3 taps from what is not 0 of dy.

#include "engine/cpu/isa/isa.h"
#include "engine/cpu/isa/transpose.h"
#include "engine/cpu/isa/vec.h"

// Slices of x, of 16 channels, whose 9 sums stay in registers.
#if defined(__AVX512F__)
enum { VECTORS = 2 };
#else
enum { VECTORS = 1 };
#endif
enum { TAPS = 9, SIDE = 3, SLICE = TAPS * VF_LANES, BLOCK = 2 * VF_LANES };

// The same pointer, from which the compiler adds up no others beforehand:
// offsets from it are parts of instructions.
LS_INLINE const float *fixed(const float *p) {
  __asm__("" : "+r"(p));
  return p;
}

#define EACH_SUM                                                               \
  LS_UNROLL for (size_t t = 0; t < TAPS; ++t)                                  \
      LS_UNROLL for (size_t v = 0; v < vectors; ++v)

// ---- For the input ---------------------------------------------------------
// A slice of dx from BLOCK channels of dy, whose taps stay in the first cache.
// A column of dx is complete when the third pixel has been added to it; the
// sums move on then.
static void add_block(float *const *dx, const float *dy, const float *taps,
                      size_t width, size_t out, size_t block) {
  vf sum[TAPS];
  LS_UNROLL
  for (size_t t = 0; t < TAPS; ++t)
    sum[t] = vf_zero();
  for (size_t i = 0; i < width; ++i, dy += out) {
    uint32_t bits = vf_nonzero(vf_load(dy));
    if (block > VF_LANES)
      bits |= vf_nonzero(vf_load(dy + VF_LANES)) << VF_LANES;
    for (; bits != 0; bits &= bits - 1) {
      const size_t o = (size_t)__builtin_ctz(bits);
      const vf by = vf_set1(dy[o]);
      const float *w = fixed(taps + o * SLICE);
      LS_UNROLL
      for (size_t t = 0; t < TAPS; ++t)
        sum[t] = vf_fma(by, vf_load(w + t * VF_LANES), sum[t]);
    }
    LS_UNROLL
    for (size_t r = 0; r < SIDE; ++r) {
      float *to = dx[r] + i * VF_LANES;
      vf_store(to, vf_add(vf_load(to), sum[SIDE * r]));
      sum[SIDE * r] = sum[SIDE * r + 1];
      sum[SIDE * r + 1] = sum[SIDE * r + 2];
      sum[SIDE * r + 2] = vf_zero();
    }
  }
  LS_UNROLL
  for (size_t r = 0; r < SIDE; ++r) {
    LS_UNROLL
    for (size_t t = 0; t < SIDE - 1; ++t) {
      float *to = dx[r] + (width + t) * VF_LANES;
      vf_store(to, vf_add(vf_load(to), sum[SIDE * r + t]));
    }
  }
}

static void input(float *const *dx, size_t plane, const float *dy,
                  const float *taps, size_t width, size_t in, size_t out) {
  for (size_t s = 0; s < in / VF_LANES; ++s) {
    float *const to[] = {dx[0] + s * plane, dx[1] + s * plane,
                         dx[2] + s * plane};
    for (size_t o = 0; o < out; o += BLOCK)
      add_block(to, dy + o, taps + (s * out + o) * SLICE, width, out, out - o);
  }
}

// ---- For the weights -------------------------------------------------------
// 16 pixels by 16 channels; `to` begins at the first of these.
static void collect_square(const ls_cpu_nonzeros *to, const float *dy,
                           size_t pitch, const int32_t *places) {
  float turned[VF_LANES * VF_LANES];
  transpose_16x16(turned, VF_LANES, dy, pitch);
  const vi at = vi_load(places);
  for (size_t c = 0; c < VF_LANES; ++c) {
    const vf values = vf_load(turned + c * VF_LANES);
    const uint32_t bits = vf_nonzero(values);
    const size_t end = c * to->pitch + to->counts[c];
    vi_pack(to->places + end, bits, at);
    vf_pack(to->values + end, bits, values);
    to->counts[c] += (uint32_t)__builtin_popcount(bits);
  }
}

static void collect(const ls_cpu_nonzeros *to, const float *dy, size_t pitch,
                    size_t channels, const int32_t *places, size_t count) {
  float rest[VF_LANES * VF_LANES];
  int32_t rest_places[VF_LANES] = {0};
  for (size_t c = 0; c < channels; c += VF_LANES) {
    const ls_cpu_nonzeros at = {.counts = to->counts + c,
                                .places = to->places + c * to->pitch,
                                .values = to->values + c * to->pitch,
                                .pitch = to->pitch};
    const float *from = dy + c;
    size_t i = 0;
    for (; i + VF_LANES <= count; i += VF_LANES, from += VF_LANES * pitch)
      collect_square(&at, from, pitch, places + i);
    if (i == count) continue;
    for (size_t j = 0; j < VF_LANES; ++j, from += pitch) {
      const bool there = i + j < count;
      vf_store(rest + j * VF_LANES, there ? vf_load(from) : vf_zero());
      if (there) rest_places[j] = places[i + j];
    }
    collect_square(&at, rest, VF_LANES, rest_places);
  }
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
            fixed(x + places[i] + v * plane + r * line);
    EACH_SUM sum[t][v] =
        vf_fma(by, vf_load(from[t / SIDE][v] + t % SIDE * VF_LANES), sum[t][v]);
  }
  EACH_SUM vf_store(sums + v * SLICE + t * VF_LANES, sum[t][v]);
}

static void weights(float *sums, const float *x, size_t line, size_t plane,
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

const ls_cpu_sparse LS_ISA_NAME(ls_cpu_sparse) = {
    .input = input, .collect = collect, .weights = weights};
