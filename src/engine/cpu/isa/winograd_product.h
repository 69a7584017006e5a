// SPDX-License-Identifier: Apache-2.0
//
// M = V U of conv/winograd.h, plane by plane: registers hold a few tiles by one
// or two vectors of output channels. MULTIPLY_ADD adds a product to a chain.

#ifndef LS_ENGINE_CPU_ISA_WINOGRAD_PRODUCT_H_
#define LS_ENGINE_CPU_ISA_WINOGRAD_PRODUCT_H_

#include "engine/cpu/isa/product/product_tile.h"

// Multiplies some tiles of a plane.
LS_EXPAND void multiply_tiles(float *m, size_t m_pitch, const float *v,
                              size_t v_pitch, const float *u, size_t in,
                              size_t out, bool adds, const size_t tiles,
                              const size_t vectors) {
  vf sum[LS_TILE_ROWS][LS_TILE_VECTORS];
  LS_UNROLL
  for (size_t i = 0; i < tiles; ++i)
    LS_UNROLL
  for (size_t w = 0; w < vectors; ++w)
    sum[i][w] = adds ? vf_load(m + i * m_pitch + w * VF_LANES) : vf_zero();
  for (size_t k = 0; k < in; ++k, u += out) {
    vf row[LS_TILE_VECTORS];
    LS_UNROLL
    for (size_t w = 0; w < vectors; ++w)
      row[w] = vf_load(u + w * VF_LANES);
    LS_UNROLL
    for (size_t i = 0; i < tiles; ++i) {
      const vf x = vf_set1(v[i * v_pitch + k]);
      LS_UNROLL
      for (size_t w = 0; w < vectors; ++w)
        sum[i][w] = MULTIPLY_ADD(x, row[w], sum[i][w]);
    }
  }
  LS_UNROLL
  for (size_t i = 0; i < tiles; ++i)
    LS_UNROLL
  for (size_t w = 0; w < vectors; ++w)
    vf_store(m + i * m_pitch + w * VF_LANES, sum[i][w]);
}

// Multiplies all tiles of a plane, for `vectors` of output channels.
LS_EXPAND void multiply_panel(float *m, size_t m_pitch, const float *v,
                              size_t v_pitch, const float *u, size_t tiles,
                              size_t in, size_t out, bool adds,
                              const size_t vectors) {
  size_t t = 0;
#define MULTIPLY(rows)                                                         \
  for (; t + rows <= tiles; t += rows)                                         \
    multiply_tiles(m + t * m_pitch, m_pitch, v + t * v_pitch, v_pitch, u, in,  \
                   out, adds, rows, vectors);
  LS_TILE_EACH_ROWS(MULTIPLY)
#undef MULTIPLY
}

static void multiply_planes(float *m, size_t m_pitch, const float *v,
                            size_t v_pitch, const float *u, size_t tiles,
                            size_t in, size_t out, bool adds) {
  enum { PANEL = LS_TILE_VECTORS * VF_LANES };
  for (size_t p = 0; p < IN * IN; ++p, m += out, v += in, u += in * out) {
    size_t o = 0;
    for (; o + PANEL <= out; o += PANEL)
      multiply_panel(m + o, m_pitch, v, v_pitch, u + o, tiles, in, out, adds,
                     LS_TILE_VECTORS);
    for (; o < out; o += VF_LANES)
      multiply_panel(m + o, m_pitch, v, v_pitch, u + o, tiles, in, out, adds,
                     1);
  }
}

#endif  // LS_ENGINE_CPU_ISA_WINOGRAD_PRODUCT_H_
