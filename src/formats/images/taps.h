// SPDX-License-Identifier: Apache-2.0
// What a place of a resized image is made of, and the loops over bytes, which
// use wider vectors where the processor has them. The same sums everywhere.
#ifndef LS_FORMATS_IMAGES_TAPS_H_
#define LS_FORMATS_IMAGES_TAPS_H_

#include <stddef.h>
#include <stdint.h>

// Weights of u8 in parts of 2^22: 255 times that leaves room in 32 bits.
enum { LS_TAP_BITS = 22 };

typedef struct ls_tap {
  int64_t first;        // Pixel.
  int32_t count;        // Of pixels, each with a weight:
  const void *weights;  // int32_t of u8, float of f32.
} ls_tap;

// Each of `count` places of a row, from a row of `width` pixels.
void ls_taps_row_u8(const ls_tap *taps, int64_t count,
                    const unsigned char *from, int64_t width, int64_t channels,
                    unsigned char *to);
// `count` samples of the one row that the tap says, from rows.
void ls_taps_column_u8(const ls_tap *tap, const unsigned char *from,
                       size_t stride, size_t count, unsigned char *to);

// The same without wider vectors.
void ls_taps_row_u8_portable(const ls_tap *taps, int64_t count,
                             const unsigned char *from, int64_t width,
                             int64_t channels, unsigned char *to);
void ls_taps_column_u8_portable(const ls_tap *tap, const unsigned char *from,
                                size_t stride, size_t count, unsigned char *to);

#endif  // LS_FORMATS_IMAGES_TAPS_H_
