// SPDX-License-Identifier: Apache-2.0
//
// Gradients of convolutions by 3 by 3 taps from maxima of their results:
// functions shared by f32 and bf16.

#include "engine/cpu/isa/isa.h"
#include "engine/cpu/isa/transpose.h"
#include "engine/cpu/isa/vec.h"

// ---- For the input ---------------------------------------------------------
static void unslice_line(float *line, const float *slices, size_t plane,
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
// Number of windows to prefetch ahead, which are too far apart for the
// processor's own prefetch; includes the next group.
enum { AHEAD = 2 * VF_LANES };

// Lists 16 windows by 16 channels; `lists` begins at the first of these. `at`
// are the pixels of the windows' values.
static void collect_square(const ls_cpu_nonzeros *lists, const float *d,
                           size_t pitch, const float *at) {
  float values[VF_LANES * VF_LANES], pixels[VF_LANES * VF_LANES];
  transpose_16x16(values, VF_LANES, d, pitch);
  transpose_16x16(pixels, VF_LANES, at, VF_LANES);
  for (size_t c = 0; c < VF_LANES; ++c) {
    const vf value = vf_load(values + c * VF_LANES);
    const vf pixel = vf_load(pixels + c * VF_LANES);
    const uint32_t bits = vf_nonzero(value);
    const size_t end = c * lists->pitch + lists->counts[c];
    vi_pack(lists->places + end, bits, vf_bits(pixel));
    vf_pack(lists->values + end, bits, value);
    lists->counts[c] += (uint32_t)__builtin_popcount(bits);
  }
}

// Lists up to 16 windows by 16 channels.
static void collect_windows(const ls_cpu_nonzeros *lists, const float *d,
                            const uint8_t *places, size_t pitch,
                            const int32_t *pixels, size_t count) {
  // Integers stored as bits: they are moved, never computed with.
  float at[VF_LANES * VF_LANES], rest[VF_LANES * VF_LANES];
  const bool is_full = count == VF_LANES;
  for (size_t i = 0; i < VF_LANES; ++i) {
    const bool there = i < count;
    __builtin_prefetch(d + (i + AHEAD) * pitch);
    __builtin_prefetch(places + (i + AHEAD) * pitch);
    vf_store(at + i * VF_LANES,
             there ? vi_as_float(vi_pick(pixels + 4 * i, places + i * pitch))
                   : vf_zero());
    if (!is_full)
      vf_store(rest + i * VF_LANES, there ? vf_load(d + i * pitch) : vf_zero());
  }
  collect_square(lists, is_full ? d : rest, is_full ? pitch : VF_LANES, at);
}

static void collect_nonzeros(const ls_cpu_nonzeros *lists, const float *d,
                             const uint8_t *places, size_t pitch,
                             size_t channels, const int32_t *pixels,
                             size_t count) {
  for (size_t i = 0; i < count; i += VF_LANES)
    for (size_t c = 0; c < channels; c += VF_LANES) {
      const ls_cpu_nonzeros square = {
          .counts = lists->counts + c,
          .places = lists->places + c * lists->pitch,
          .values = lists->values + c * lists->pitch,
          .pitch = lists->pitch};
      collect_windows(&square, d + i * pitch + c, places + i * pitch + c, pitch,
                      pixels + 4 * i,
                      count - i < VF_LANES ? count - i : VF_LANES);
    }
}

const ls_cpu_sparse LS_ISA_NAME(ls_cpu_sparse) = {.unslice = unslice_line,
                                                  .collect = collect_nonzeros};
