// SPDX-License-Identifier: Apache-2.0
//
// The transforms of conv/winograd.h, with planes rounded to bf16: two
// neighbours along the sums of the products make a pair.

#include "engine/cpu/isa/isa.h"
#include "engine/cpu/isa/winograd.h"

#define MULTIPLY_ADD pair_multiply_add
#include "engine/cpu/isa/winograd_product.h"

static void transform_input(float *planes, const float *const *pixels,
                            size_t channels, size_t step) {
  put_input(planes, pixels, channels, step, true);
}

// Makes a row of pairs of two rows.
static void transform_weights(float *planes, const float *taps, size_t rows,
                              size_t columns, const ls_cpu_block *block) {
  const size_t tap = rows * columns;
  const size_t plane = (block->m1 - block->m0) * (block->n1 - block->n0);
  for (size_t r = block->m0; r < block->m1; r += 2)
    for (size_t k = block->n0; k < block->n1; k += VF_LANES) {
      vf even[IN][IN], odd[IN][IN];
      weight_planes(even, taps + r * columns + k, tap);
      weight_planes(odd, taps + (r + 1) * columns + k, tap);
      LS_UNROLL
      for (size_t i = 0; i < IN; ++i)
        LS_UNROLL
      for (size_t j = 0; j < IN; ++j)
        vf_store(planes + (i * IN + j) * (plane / 2),
                 pair_bf16(even[i][j], odd[i][j]));
      planes += VF_LANES;
    }
}

// Makes a row of pairs of two columns.
static void turned_weights(float *planes, const float *taps, size_t rows,
                           size_t columns, const ls_cpu_block *block) {
  const size_t width = block->m1 - block->m0;
  const size_t plane = (block->n1 - block->n0) / 2 * width;
  float some[TAPS * TAPS * SQUARE];
  for (size_t k = block->n0; k < block->n1; k += VF_LANES)
    for (size_t row = block->m0; row < block->m1; row += VF_LANES) {
      turn_taps(some, taps + row * columns + k, rows * columns, columns);
      float *target = planes + (k - block->n0) / 2 * width + (row - block->m0);
      for (size_t r = 0; r < VF_LANES; r += 2, target += width) {
        vf even[IN][IN], odd[IN][IN];
        weight_planes(even, some + r * VF_LANES, SQUARE);
        weight_planes(odd, some + (r + 1) * VF_LANES, SQUARE);
        LS_UNROLL
        for (size_t i = 0; i < IN; ++i)
          LS_UNROLL
        for (size_t j = 0; j < IN; ++j)
          vf_store(target + (i * IN + j) * plane,
                   pair_bf16(even[i][j], odd[i][j]));
      }
    }
}

const ls_cpu_winograd_planes LS_ISA_NAME(ls_cpu_winograd_bf16) = {
    .values = 2,
    .input = transform_input,
    .weights = transform_weights,
    .turned_weights = turned_weights,
    .multiply = multiply_planes,
};
