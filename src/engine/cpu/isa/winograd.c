// SPDX-License-Identifier: Apache-2.0
//
// The transforms of conv/winograd.h, with planes of floats.

#include "engine/cpu/isa/winograd.h"

#include "engine/cpu/isa/isa.h"
#include "engine/cpu/isa/pool.h"

#define MULTIPLY_ADD vf_fma
#include "engine/cpu/isa/winograd_product.h"

static void transform_input(float *planes, const float *const *pixels,
                            size_t channels, size_t step) {
  put_input(planes, pixels, channels, step, false);
}

// Returns row i of the 4 by 4 outputs, from the results of the columns.
LS_INLINE void output_row(vf row[OUT], const vf between[IN], vf shift,
                          bool adds, bool relu) {
  to_outputs(row, between);
  LS_UNROLL
  for (size_t j = 0; j < OUT; ++j) {
    if (adds) row[j] = vf_add(row[j], shift);
    if (relu) row[j] = vf_max(vf_zero(), row[j]);
  }
}

LS_INLINE void output_columns(vf between[OUT][IN], const float *planes,
                              size_t channels) {
  MULTIPLY_COLUMNS(between, to_outputs, OUT, IN,
                   vf_load(planes + (i * IN + j) * channels))
}

static void transform_output(float *const *pixels, const float *planes,
                             size_t channels, const float *bias, bool relu) {
  for (size_t c = 0; c < channels; c += VF_LANES) {
    vf between[OUT][IN];
    output_columns(between, planes + c, channels);
    const vf shift = bias != NULL ? vf_load(bias + c) : vf_zero();
    LS_UNROLL
    for (size_t i = 0; i < OUT; ++i) {
      vf row[OUT];
      output_row(row, between[i], shift, bias != NULL, relu);
      LS_UNROLL
      for (size_t j = 0; j < OUT; ++j)
        vf_store(pixels[i * OUT + j] + c, row[j]);
    }
  }
}

static void output_pooled(float *const *maxima, uint8_t *const *places,
                          const float *planes, size_t channels,
                          const float *bias, bool relu) {
  for (size_t c = 0; c < channels; c += VF_LANES) {
    vf between[OUT][IN];
    output_columns(between, planes + c, channels);
    const vf shift = bias != NULL ? vf_load(bias + c) : vf_zero();
    LS_UNROLL
    for (size_t i = 0; i < OUT; i += 2) {
      vf top[OUT], bottom[OUT];
      output_row(top, between[i], shift, bias != NULL, relu);
      output_row(bottom, between[i + 1], shift, bias != NULL, relu);
      LS_UNROLL
      for (size_t j = 0; j < OUT; j += 2) {
        const vf x[] = {top[j], top[j + 1], bottom[j], bottom[j + 1]};
        pool_four(maxima[i + j / 2] + c, places[i + j / 2] + c, x);
      }
    }
  }
}

static void transform_gradient(float *planes, const float *const *pixels,
                               size_t channels) {
  for (size_t c = 0; c < channels; c += VF_LANES) {
    prefetch_tile(pixels, OUT, OUT, 0, channels, c);
    vf between[IN][OUT];
    MULTIPLY_COLUMNS(between, from_outputs, IN, OUT,
                     vf_load(pixels[i * OUT + j] + c))
    LS_UNROLL
    for (size_t i = 0; i < IN; ++i) {
      vf row[IN];
      from_outputs(row, between[i]);
      LS_UNROLL
      for (size_t j = 0; j < IN; ++j)
        vf_store(planes + (i * IN + j) * channels + c, row[j]);
    }
  }
}

static void transform_weights(float *planes, const float *taps, size_t rows,
                              size_t columns, const ls_cpu_block *block) {
  const size_t plane = (block->m1 - block->m0) * (block->n1 - block->n0);
  for (size_t r = block->m0; r < block->m1; ++r)
    for (size_t k = block->n0; k < block->n1; k += VF_LANES) {
      vf u[IN][IN];
      weight_planes(u, taps + r * columns + k, rows * columns);
      LS_UNROLL
      for (size_t i = 0; i < IN; ++i)
        LS_UNROLL
      for (size_t j = 0; j < IN; ++j)
        vf_store(planes + (i * IN + j) * plane, u[i][j]);
      planes += VF_LANES;
    }
}

static void turned_weights(float *planes, const float *taps, size_t rows,
                           size_t columns, const ls_cpu_block *block) {
  const size_t width = block->m1 - block->m0;
  const size_t plane = (block->n1 - block->n0) * width;
  float some[TAPS * TAPS * SQUARE];
  for (size_t k = block->n0; k < block->n1; k += VF_LANES)
    for (size_t row = block->m0; row < block->m1; row += VF_LANES) {
      turn_taps(some, taps + row * columns + k, rows * columns, columns);
      float *target = planes + (k - block->n0) * width + (row - block->m0);
      for (size_t r = 0; r < VF_LANES; ++r, target += width) {
        vf u[IN][IN];
        weight_planes(u, some + r * VF_LANES, SQUARE);
        LS_UNROLL
        for (size_t i = 0; i < IN; ++i)
          LS_UNROLL
        for (size_t j = 0; j < IN; ++j)
          vf_store(target + (i * IN + j) * plane, u[i][j]);
      }
    }
}

static void weights_gradient(float *taps, const float *planes, size_t parts,
                             size_t part, size_t plane, size_t n) {
  for (size_t k = 0; k < n; k += VF_LANES) {
    vf between[TAPS][IN];
    LS_UNROLL
    for (size_t j = 0; j < IN; ++j) {
      vf column[IN], turned[TAPS];
      LS_UNROLL
      for (size_t i = 0; i < IN; ++i)
        column[i] = vf_load(planes + (i * IN + j) * plane + k);
      for (size_t p = 1; p < parts; ++p) {
        const float *next_part = planes + p * part + j * plane + k;
        LS_UNROLL
        for (size_t i = 0; i < IN; ++i)
          column[i] = vf_add(column[i], vf_load(next_part + i * IN * plane));
      }
      to_taps(turned, column);
      LS_UNROLL
      for (size_t i = 0; i < TAPS; ++i)
        between[i][j] = turned[i];
    }
    LS_UNROLL
    for (size_t i = 0; i < TAPS; ++i) {
      vf row[TAPS];
      to_taps(row, between[i]);
      LS_UNROLL
      for (size_t j = 0; j < TAPS; ++j)
        vf_store(taps + (i * TAPS + j) * plane + k, row[j]);
    }
  }
}

const ls_cpu_winograd LS_ISA_NAME(ls_cpu_winograd) = {
    .output = transform_output,
    .output_pooled = output_pooled,
    .gradient = transform_gradient,
    .weights_gradient = weights_gradient,
};

const ls_cpu_winograd_planes LS_ISA_NAME(ls_cpu_winograd_f32) = {
    .values = 1,
    .input = transform_input,
    .weights = transform_weights,
    .turned_weights = turned_weights,
    .multiply = multiply_planes,
};
