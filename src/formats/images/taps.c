// SPDX-License-Identifier: Apache-2.0
#include "formats/images/image.h"

#include <stdbool.h>
#include <string.h>

#define ALWAYS_INLINE inline __attribute__((always_inline))

enum { HALF = 1 << (LS_TAP_BITS - 1) };

// Vectors with samples and sums of four channels.
typedef unsigned char bytes16 __attribute__((vector_size(16)));
typedef int32_t sums4 __attribute__((vector_size(16)));

// Widens four bytes to four numbers by interleaving zeros, for which compilers
// know an instruction.
static ALWAYS_INLINE sums4 load4(const unsigned char *at) {
  int32_t four;
  memcpy(&four, at, sizeof(four));
  const sums4 first = {four, 0, 0, 0};
  const bytes16 none = {0}, bytes = (bytes16)first;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  return (sums4)__builtin_shufflevector(bytes, none, 0, 16, 16, 16, 1, 16, 16,
                                        16, 2, 16, 16, 16, 3, 16, 16, 16);
#else
  return (sums4)__builtin_shufflevector(bytes, none, 16, 16, 16, 0, 16, 16, 16,
                                        1, 16, 16, 16, 2, 16, 16, 16, 3);
#endif
}

static ALWAYS_INLINE unsigned char round_u8(int32_t sum) {
  const int32_t value = sum >> LS_TAP_BITS;  // Weights may be negative.
  return (unsigned char)(value > 255 ? 255 : value);
}

// ---- Rows ------------------------------------------------------------------
// Computes one output pixel: `channels` is a constant after inlining, or the
// loop runs channel by channel.
static ALWAYS_INLINE void place_u8(const ls_tap *tap, const unsigned char *from,
                                   int64_t channels, unsigned char *to) {
  const int32_t *weights = tap->weights;
  const unsigned char *at = from + tap->first * channels;
  if (channels > 4) {
    for (int64_t c = 0; c < channels; ++c) {
      int32_t sum = HALF;
      for (int32_t j = 0; j < tap->count; ++j)
        sum += at[j * channels + c] * weights[j];
      to[c] = round_u8(sum);
    }
    return;
  }
  int32_t sums[4] = {HALF, HALF, HALF, HALF};
  for (int32_t j = 0; j < tap->count; ++j)
    for (int64_t c = 0; c < channels; ++c)
      sums[c] += at[j * channels + c] * weights[j];
  for (int64_t c = 0; c < channels; ++c)
    to[c] = round_u8(sums[c]);
}

// Computes three or four channels at once. With three channels reads a byte
// after each pixel, so not for pixels at the row's end.
static ALWAYS_INLINE void place4_u8(const ls_tap *tap,
                                    const unsigned char *from, int64_t channels,
                                    unsigned char *to) {
  const int32_t *weights = tap->weights;
  const unsigned char *at = from + tap->first * channels;
  sums4 sums = {HALF, HALF, HALF, HALF};
  for (int32_t j = 0; j < tap->count; ++j)
    sums += load4(at + j * channels) * weights[j];
  for (int64_t c = 0; c < channels; ++c)
    to[c] = round_u8(sums[c]);
}

// `wide`: the processor has vectors for four sums.
static ALWAYS_INLINE void row_u8(const ls_tap *taps, int64_t count,
                                 const unsigned char *from, int64_t width,
                                 int64_t channels, bool wide,
                                 unsigned char *to) {
  for (int64_t i = 0; i < count; ++i, to += channels) {
    if (wide && (channels == 4 ||
                 (channels == 3 && taps[i].first + taps[i].count < width)))
      place4_u8(&taps[i], from, channels, to);
    else
      place_u8(&taps[i], from, channels, to);
  }
}

static ALWAYS_INLINE void any_row_u8(const ls_tap *taps, int64_t count,
                                     const unsigned char *from, int64_t width,
                                     int64_t channels, bool wide,
                                     unsigned char *to) {
  if (channels == 1)
    row_u8(taps, count, from, width, 1, wide, to);
  else if (channels == 3)
    row_u8(taps, count, from, width, 3, wide, to);
  else if (channels == 4)
    row_u8(taps, count, from, width, 4, wide, to);
  else
    row_u8(taps, count, from, width, channels, wide, to);
}

// ---- Columns ---------------------------------------------------------------
// Works on a part of a row at a time, whose sums stay in the cache.
enum { SPAN = 256 };

static ALWAYS_INLINE void column_u8(const ls_tap *tap,
                                    const unsigned char *from, size_t stride,
                                    size_t count, unsigned char *to) {
  const int32_t *weights = tap->weights;
  from += (size_t)tap->first * stride;
  for (size_t at = 0; at < count; at += SPAN) {
    const size_t size = count - at < SPAN ? count - at : SPAN;
    int32_t sums[SPAN];
    for (size_t i = 0; i < size; ++i)
      sums[i] = HALF;
    for (int32_t j = 0; j < tap->count; ++j) {
      const unsigned char *row = from + (size_t)j * stride + at;
      const int32_t weight = weights[j];
      for (size_t i = 0; i < size; ++i)
        sums[i] += row[i] * weight;
    }
    for (size_t i = 0; i < size; ++i)
      to[at + i] = round_u8(sums[i]);
  }
}

void ls_taps_column_u8_portable(const ls_tap *tap, const unsigned char *from,
                                size_t stride, size_t count,
                                unsigned char *to) {
  column_u8(tap, from, stride, count, to);
}

void ls_taps_row_u8_portable(const ls_tap *taps, int64_t count,
                             const unsigned char *from, int64_t width,
                             int64_t channels, unsigned char *to) {
  any_row_u8(taps, count, from, width, channels, false, to);
}

// ---- By the processor ------------------------------------------------------
#ifdef __x86_64__
#define WIDE __attribute__((target("avx2")))

static WIDE void wide_row_u8(const ls_tap *taps, int64_t count,
                             const unsigned char *from, int64_t width,
                             int64_t channels, unsigned char *to) {
  any_row_u8(taps, count, from, width, channels, true, to);
}

static WIDE void wide_column_u8(const ls_tap *tap, const unsigned char *from,
                                size_t stride, size_t count,
                                unsigned char *to) {
  column_u8(tap, from, stride, count, to);
}

static bool has_wide(void) { return __builtin_cpu_supports("avx2") != 0; }
#else
#define wide_row_u8 ls_taps_row_u8_portable
#define wide_column_u8 ls_taps_column_u8_portable
static bool has_wide(void) { return false; }
#endif

void ls_taps_row_u8(const ls_tap *taps, int64_t count,
                    const unsigned char *from, int64_t width, int64_t channels,
                    unsigned char *to) {
  (has_wide() ? wide_row_u8 : ls_taps_row_u8_portable)(taps, count, from, width,
                                                       channels, to);
}

void ls_taps_column_u8(const ls_tap *tap, const unsigned char *from,
                       size_t stride, size_t count, unsigned char *to) {
  (has_wide() ? wide_column_u8 : ls_taps_column_u8_portable)(tap, from, stride,
                                                             count, to);
}
