// SPDX-License-Identifier: Apache-2.0
//
// The transforms of conv/winograd.h, with planes rounded to bf16: two
// neighbours along the sums of the products make a pair.

#include "engine/cpu/isa/isa.h"
#include "engine/cpu/isa/winograd.h"

#define MULTIPLY_ADD pair_multiply_add
#include "engine/cpu/isa/winograd_product.h"

static void transform_input(float *planes, const float *const *pixels,
                            size_t channels) {
  put_input(planes, pixels, channels, true);
}

// Makes a row of pairs of two rows.
static void transform_weights(float *planes, const float *taps, size_t rows,
                              size_t columns, size_t row) {
  const size_t plane = rows * columns;
  for (size_t r = row; r < row + SOME_ROWS; r += 2)
    for (size_t k = 0; k < columns; k += VF_LANES) {
      vf even[IN][IN], odd[IN][IN];
      weight_planes(even, taps + r * columns + k, (ptrdiff_t)plane);
      weight_planes(odd, taps + (r + 1) * columns + k, (ptrdiff_t)plane);
      float *target = planes + r / 2 * columns + k;
      LS_UNROLL
      for (size_t i = 0; i < IN; ++i)
        LS_UNROLL
      for (size_t j = 0; j < IN; ++j)
        vf_store(target + (i * IN + j) * (plane / 2),
                 pair_bf16(even[i][j], odd[i][j]));
    }
}

// Makes a row of pairs of two columns.
static void turned_weights(float *planes, const float *taps, size_t rows,
                           size_t columns, size_t row) {
  enum { PAIRS = VF_LANES / 2 };
  const size_t plane = rows * columns;
  for (size_t k = 0; k < columns; k += VF_LANES)
    for (size_t r = row; r < row + SOME_ROWS; ++r) {
      vf u[IN][IN];
      weight_planes(u, taps + 8 * plane + r * columns + k, -(ptrdiff_t)plane);
      for (size_t p = 0; p < IN * IN; ++p) {
        float pairs[PAIRS];
        store_rounded(pairs, u[p / IN][p % IN]);
        float *target = planes + p * (plane / 2) + k / 2 * rows + r;
        for (size_t i = 0; i < PAIRS; ++i)
          target[i * rows] = pairs[i];
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
