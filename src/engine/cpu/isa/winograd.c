// SPDX-License-Identifier: Apache-2.0
//
// The transforms of winograd.h, 16 channels at a time. Each goes over the
// columns first, then over the rows, with a table of vectors between.

#include "engine/cpu/isa/isa.h"
#include "engine/cpu/isa/pool.h"
#include "engine/cpu/isa/transpose.h"
#include "engine/cpu/isa/vec.h"

enum { IN = 6, OUT = 4, TAPS = 3 };

// B' of six values.
LS_INLINE void to_planes(vf to[IN], const vf d[IN]) {
  const vf four = vf_set1(4), five = vf_set1(5), two = vf_set1(2);
  const vf even = vf_fnma(four, d[2], d[4]), odd = vf_fnma(four, d[1], d[3]);
  const vf far = vf_sub(d[4], d[2]), side = vf_sub(d[3], d[1]);
  to[0] = vf_fma(four, d[0], vf_fnma(five, d[2], d[4]));
  to[1] = vf_add(even, odd);
  to[2] = vf_sub(even, odd);
  to[3] = vf_fma(two, side, far);
  to[4] = vf_fnma(two, side, far);
  to[5] = vf_fma(four, d[1], vf_fnma(five, d[3], d[5]));
}

// A' of six values.
LS_INLINE void to_outputs(vf to[OUT], const vf m[IN]) {
  const vf near = vf_add(m[1], m[2]), slope = vf_sub(m[1], m[2]);
  const vf far = vf_add(m[3], m[4]), steep = vf_sub(m[3], m[4]);
  to[0] = vf_add(vf_add(m[0], near), far);
  to[1] = vf_fma(vf_set1(2), steep, slope);
  to[2] = vf_fma(vf_set1(4), far, near);
  to[3] = vf_add(vf_fma(vf_set1(8), steep, slope), m[5]);
}

// A of four values.
LS_INLINE void from_outputs(vf to[IN], const vf y[OUT]) {
  const vf even = vf_add(y[0], y[2]), odd = vf_add(y[1], y[3]);
  const vf far = vf_fma(vf_set1(4), y[2], y[0]);
  const vf steep = vf_fma(vf_set1(8), y[3], vf_mul(vf_set1(2), y[1]));
  to[0] = y[0];
  to[1] = vf_add(even, odd);
  to[2] = vf_sub(even, odd);
  to[3] = vf_add(far, steep);
  to[4] = vf_sub(far, steep);
  to[5] = y[3];
}

// G of three values.
LS_INLINE void from_taps(vf to[IN], const vf w[TAPS]) {
  const vf sixth = vf_set1(1.0f / 6), twelfth = vf_set1(1.0f / 12);
  const vf minus = vf_set1(-1.0f / 6), small = vf_set1(1.0f / 24);
  const vf ends = vf_add(w[0], w[2]);
  const vf wide = vf_fma(sixth, w[2], vf_mul(small, w[0]));
  to[0] = vf_mul(vf_set1(0.25f), w[0]);
  to[1] = vf_mul(minus, vf_add(ends, w[1]));
  to[2] = vf_mul(minus, vf_sub(ends, w[1]));
  to[3] = vf_fma(twelfth, w[1], wide);
  to[4] = vf_fnma(twelfth, w[1], wide);
  to[5] = w[2];
}

// G' of six values.
LS_INLINE void to_taps(vf to[TAPS], const vf u[IN]) {
  const vf sixth = vf_set1(1.0f / 6), twelfth = vf_set1(1.0f / 12);
  const vf small = vf_set1(1.0f / 24);
  const vf near = vf_add(u[1], u[2]), slope = vf_sub(u[2], u[1]);
  const vf far = vf_add(u[3], u[4]), steep = vf_sub(u[3], u[4]);
  to[0] =
      vf_fma(small, far, vf_fnma(sixth, near, vf_mul(vf_set1(0.25f), u[0])));
  to[1] = vf_fma(twelfth, steep, vf_mul(sixth, slope));
  to[2] = vf_add(vf_mul(sixth, vf_sub(far, near)), u[5]);
}

// The next tile's pixels mostly are those OUT columns further on. Of the last
// tile of a row they are others, which does no harm.
LS_INLINE void prefetch(const float *const *pixels, size_t rows, size_t columns,
                        size_t first, size_t channels, size_t c) {
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = first; j < columns; ++j)
      __builtin_prefetch((const char *)pixels[i * columns + j] +
                         (OUT * channels + c) * sizeof(float));
}

static void input(float *planes, const float *const *pixels, size_t channels) {
  for (size_t c = 0; c < channels; c += VF_LANES) {
    prefetch(pixels, IN, IN, IN - OUT, channels, c);
    vf between[IN][IN];
    LS_UNROLL
    for (size_t j = 0; j < IN; ++j) {
      vf column[IN], turned[IN];
      LS_UNROLL
      for (size_t i = 0; i < IN; ++i)
        column[i] = vf_load(pixels[i * IN + j] + c);
      to_planes(turned, column);
      LS_UNROLL
      for (size_t i = 0; i < IN; ++i)
        between[i][j] = turned[i];
    }
    LS_UNROLL
    for (size_t i = 0; i < IN; ++i) {
      vf row[IN];
      to_planes(row, between[i]);
      LS_UNROLL
      for (size_t j = 0; j < IN; ++j)
        vf_store(planes + (i * IN + j) * channels + c, row[j]);
    }
  }
}

// Row i of the 4 by 4 outputs, from what the columns gave.
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
  LS_UNROLL
  for (size_t j = 0; j < IN; ++j) {
    vf column[IN], turned[OUT];
    LS_UNROLL
    for (size_t i = 0; i < IN; ++i)
      column[i] = vf_load(planes + (i * IN + j) * channels);
    to_outputs(turned, column);
    LS_UNROLL
    for (size_t i = 0; i < OUT; ++i)
      between[i][j] = turned[i];
  }
}

static void output(float *const *pixels, const float *planes, size_t channels,
                   const float *bias, bool relu) {
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

static void gradient(float *planes, const float *const *pixels,
                     size_t channels) {
  for (size_t c = 0; c < channels; c += VF_LANES) {
    prefetch(pixels, OUT, OUT, 0, channels, c);
    vf between[IN][OUT];
    LS_UNROLL
    for (size_t j = 0; j < OUT; ++j) {
      vf column[OUT], turned[IN];
      LS_UNROLL
      for (size_t i = 0; i < OUT; ++i)
        column[i] = vf_load(pixels[i * OUT + j] + c);
      from_outputs(turned, column);
      LS_UNROLL
      for (size_t i = 0; i < IN; ++i)
        between[i][j] = turned[i];
    }
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

// The planes of 16 weights side by side: those of the first tap are at `taps`,
// of the next ones `step` on, which may go backwards.
LS_INLINE void weight_planes(vf to[IN][IN], const float *taps, ptrdiff_t step) {
  vf between[IN][TAPS];
  LS_UNROLL
  for (ptrdiff_t j = 0; j < TAPS; ++j) {
    vf column[TAPS], turned[IN];
    LS_UNROLL
    for (ptrdiff_t i = 0; i < TAPS; ++i)
      column[i] = vf_load(taps + (i * TAPS + j) * step);
    from_taps(turned, column);
    LS_UNROLL
    for (size_t i = 0; i < IN; ++i)
      between[i][j] = turned[i];
  }
  LS_UNROLL
  for (size_t i = 0; i < IN; ++i)
    from_taps(to[i], between[i]);
}

static void weights(float *planes, const float *taps, size_t rows,
                    size_t columns, size_t row) {
  const size_t plane = rows * columns;
  for (size_t k = 0; k < columns; k += VF_LANES) {
    vf u[IN][IN];
    weight_planes(u, taps + row * columns + k, (ptrdiff_t)plane);
    LS_UNROLL
    for (size_t i = 0; i < IN; ++i)
      LS_UNROLL
    for (size_t j = 0; j < IN; ++j)
      vf_store(planes + (i * IN + j) * plane + row * columns + k, u[i][j]);
  }
}

static void turned_weights(float *planes, const float *taps, size_t rows,
                           size_t columns, size_t row) {
  enum { SIDE = VF_LANES };
  const size_t plane = rows * columns;
  float block[IN * IN][SIDE * SIDE];
  for (size_t k = 0; k < columns; k += SIDE) {
    for (size_t r = 0; r < SIDE; ++r) {
      vf u[IN][IN];
      weight_planes(u, taps + 8 * plane + (row + r) * columns + k,
                    -(ptrdiff_t)plane);
      LS_UNROLL
      for (size_t i = 0; i < IN; ++i)
        LS_UNROLL
      for (size_t j = 0; j < IN; ++j)
        vf_store(block[i * IN + j] + r * SIDE, u[i][j]);
    }
    for (size_t p = 0; p < IN * IN; ++p)
      transpose_16x16(planes + p * plane + k * rows + row, rows, block[p],
                      SIDE);
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
        const float *more = planes + p * part + j * plane + k;
        LS_UNROLL
        for (size_t i = 0; i < IN; ++i)
          column[i] = vf_add(column[i], vf_load(more + i * IN * plane));
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
    .input = input,
    .output = output,
    .output_pooled = output_pooled,
    .gradient = gradient,
    .weights = weights,
    .turned_weights = turned_weights,
    .weights_gradient = weights_gradient,
};
