// SPDX-License-Identifier: Apache-2.0
//
// Products with mostly-zero operands: lists of the nonzero values.

#include "engine/cpu/isa/isa.h"
#include "engine/cpu/isa/vec.h"

// ---- Lists -----------------------------------------------------------------
static size_t count_nonzeros(const float *values, size_t count) {
  size_t found = 0, i = 0;
  for (; i + VF_LANES <= count; i += VF_LANES)
    found += (size_t)__builtin_popcount(vf_nonzero(vf_load(values + i)));
  if (i < count)
    found += (size_t)__builtin_popcount(
        vf_nonzero(vf_load_n(values + i, count - i)));
  return found;
}

// Returns true if all values are finite: 0 by any other value is NaN.
static bool are_finite(const float *values, size_t count) {
  vf sum = vf_zero();
  size_t i = 0;
  for (; i + VF_LANES <= count; i += VF_LANES)
    sum = vf_fma(vf_load(values + i), vf_zero(), sum);
  sum = vf_fma(vf_load_n(values + i, count - i), vf_zero(), sum);
  return vf_sum(sum) == 0;
}

// Returns the lanes of the values from `at` on that are listed.
LS_INLINE uint32_t bits_at(const float *values, size_t count, size_t at,
                           bool lists_all) {
  const size_t left = count - at;
  const uint32_t there =
      left < VF_LANES ? ((uint32_t)1 << left) - 1 : (uint32_t)0xFFFF;
  if (lists_all) return there;
  return vf_nonzero(left < VF_LANES ? vf_load_n(values + at, left)
                                    : vf_load(values + at));
}

#if defined(__AVX512F__)
static size_t list_row(ls_cpu_nonzero *list, const float *values, size_t count,
                       int32_t step) {
  const ls_cpu_nonzero *const begin = list;
  const __m512i first =
      _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
  vi place = _mm512_mullo_epi32(
      _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
      _mm512_set1_epi32(step));
  for (size_t i = 0; i < count; i += VF_LANES) {
    const vf v = count - i < VF_LANES ? vf_load_n(values + i, count - i)
                                      : vf_load(values + i);
    const uint32_t bits = vf_nonzero(v), low = bits & 0xff, high = bits >> 8;
    // Makes pairs of a place and a value.
    const vi a = _mm512_permutex2var_epi32(place, first, vf_bits(v));
    const vi b = _mm512_permutex2var_epi32(place, second, vf_bits(v));
    _mm512_storeu_si512(list, _mm512_maskz_compress_epi64((__mmask8)low, a));
    list += __builtin_popcount(low);
    _mm512_storeu_si512(list, _mm512_maskz_compress_epi64((__mmask8)high, b));
    list += __builtin_popcount(high);
    place =
        _mm512_add_epi32(place, _mm512_set1_epi32((int32_t)VF_LANES * step));
  }
  return (size_t)(list - begin);
}
#else
static size_t list_row(ls_cpu_nonzero *list, const float *values, size_t count,
                       int32_t step) {
  const ls_cpu_nonzero *const begin = list;
  for (size_t i = 0; i < count; i += VF_LANES)
    for (uint32_t bits = bits_at(values, count, i, false); bits != 0;
         bits &= bits - 1) {
      const size_t at = i + (size_t)__builtin_ctz(bits);
      *list++ = (ls_cpu_nonzero){(int32_t)at * step, values[at]};
    }
  return (size_t)(list - begin);
}
#endif

static void list_columns(ls_cpu_nonzero *list, size_t pitch, uint32_t *counts,
                         const float *values, size_t count, int32_t place,
                         bool lists_all) {
  for (size_t i = 0; i < count; i += VF_LANES)
    for (uint32_t bits = bits_at(values, count, i, lists_all); bits != 0;
         bits &= bits - 1) {
      const size_t at = i + (size_t)__builtin_ctz(bits);
      list[at * pitch + counts[at]++] = (ls_cpu_nonzero){place, values[at]};
    }
}

// ---- Lines -----------------------------------------------------------------
// Adds a line; sums stay in registers from one row of the list to the next.
LS_EXPAND void add_line_of(float *sums, size_t count,
                           const ls_cpu_nonzero *list, const uint32_t *begin,
                           const float *w, size_t tap, const size_t taps) {
  vf sum[LS_ZEROS_TAPS];
  LS_UNROLL
  for (size_t t = 0; t < taps; ++t)
    sum[t] = vf_zero();
  const ls_cpu_nonzero *at = list + begin[0];
  for (size_t q = 0; q < count + taps - 1; ++q) {
    if (q < count) sum[0] = vf_load(sums + q * VF_LANES);
    for (const ls_cpu_nonzero *const end = list + begin[q + 1]; at < end;
         ++at) {
      const vf by = vf_set1(at->value);
      const float *row = w + at->place;
      LS_UNROLL
      for (size_t t = 0; t < taps; ++t)
        sum[t] = vf_fma(by, vf_load(row + t * tap), sum[t]);
    }
    if (q + 1 >= taps)
      vf_store(sums + (q + 1 - taps) * VF_LANES, sum[taps - 1]);
    LS_UNROLL
    for (size_t t = taps - 1; t > 0; --t)
      sum[t] = sum[t - 1];
  }
}

static void add_line(float *sums, size_t count, const ls_cpu_nonzero *list,
                     const uint32_t *begin, const float *w, size_t tap,
                     size_t taps) {
  switch (taps) {
  case 2:
    add_line_of(sums, count, list, begin, w, tap, 2);
    break;
  case 3:
    add_line_of(sums, count, list, begin, w, tap, 3);
    break;
  case 4:
    add_line_of(sums, count, list, begin, w, tap, 4);
    break;
  default:
    add_line_of(sums, count, list, begin, w, tap, 5);
    break;
  }
}

// ---- Columns ---------------------------------------------------------------
LS_EXPAND void add_column_of(float *sums, const float *const *x,
                             const ls_cpu_nonzero *list, size_t count,
                             bool adds, const size_t vectors) {
  vf sum[LS_ZEROS_VECTORS];
  LS_UNROLL
  for (size_t v = 0; v < vectors; ++v)
    sum[v] = vf_zero();
  for (size_t i = 0; i < count; ++i) {
    const vf by = vf_set1(list[i].value);
    const ptrdiff_t place = list[i].place;
    LS_UNROLL
    for (size_t v = 0; v < vectors; ++v)
      sum[v] = vf_fma(by, vf_load(x[v] + place), sum[v]);
  }
  LS_UNROLL
  for (size_t v = 0; v < vectors; ++v) {
    float *target = sums + v * VF_LANES;
    vf_store(target, adds ? vf_add(vf_load(target), sum[v]) : sum[v]);
  }
}

static void add_column(float *sums, const float *const *x, size_t vectors,
                       const ls_cpu_nonzero *list, size_t count, bool adds) {
  switch (vectors) {
  case 1:
    add_column_of(sums, x, list, count, adds, 1);
    break;
  case 2:
    add_column_of(sums, x, list, count, adds, 2);
    break;
  case 3:
    add_column_of(sums, x, list, count, adds, 3);
    break;
  case 4:
    add_column_of(sums, x, list, count, adds, 4);
    break;
  case 5:
    add_column_of(sums, x, list, count, adds, 5);
    break;
  default:
    add_column_of(sums, x, list, count, adds, 6);
    break;
  }
}

const ls_cpu_zeros LS_ISA_NAME(ls_cpu_zeros) = {.count = count_nonzeros,
                                                .are_finite = are_finite,
                                                .list_row = list_row,
                                                .list_columns = list_columns,
                                                .add_line = add_line,
                                                .add_column = add_column};
