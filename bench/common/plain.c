// SPDX-License-Identifier: Apache-2.0
#include "common/plain.h"

#include <math.h>
#include <string.h>

// Defines a loop over all elements of type T, whose operands are x and y.
#define EACH(name, T, expression)                                              \
  void name(void *out, const void *const *in, const plain_sizes *sizes) {      \
    T *restrict o = out;                                                       \
    const T *restrict a = in[0], *restrict b = in[1];                          \
    for (int64_t i = 0; i < sizes->count; ++i) {                               \
      const T x = a[i], y = b[i];                                              \
      o[i] = (T)(expression);                                                  \
      (void)y;                                                                 \
    }                                                                          \
  }
EACH(plain_remainder, float, fmodf(x, y))
EACH(plain_remainder_i32, int32_t, x % y)
EACH(plain_popcount_i32, int32_t, __builtin_popcount((uint32_t)x))
EACH(plain_popcount_i64, int64_t, __builtin_popcountll((uint64_t)x))
EACH(plain_popcount_u8, uint8_t, __builtin_popcount(x))
EACH(plain_atan2, float, atan2f(x, y))
EACH(plain_erfc, float, erfcf(x))

#define CLAMP(name, T, LOW, HIGH)                                              \
  void name(void *out, const void *const *in, const plain_sizes *sizes) {      \
    T *restrict o = out;                                                       \
    const T *restrict low = in[0], *restrict x = in[1],                        \
                      *restrict high = in[2];                                  \
    for (int64_t i = 0; i < sizes->count; ++i) {                               \
      const T least = LOW, most = HIGH;                                        \
      const T above = x[i] < least ? least : x[i];                             \
      o[i] = above > most ? most : above;                                      \
    }                                                                          \
  }
CLAMP(plain_clamp, float, low[0], high[0])
CLAMP(plain_clamp_each, float, low[i], high[i])
CLAMP(plain_clamp_i32, int32_t, low[0], high[0])

void plain_scan_rows(void *out, const void *const *in,
                     const plain_sizes *sizes) {
  float *restrict o = out;
  const float *restrict a = in[0], *restrict b = in[1];
  const int64_t n = sizes->columns;
  for (int64_t i = 0; i < sizes->rows; ++i) {
    float h = 0;
    for (int64_t j = 0; j < n; ++j) {
      h = a[i * n + j] * h + b[i * n + j];
      o[i * n + j] = h;
    }
  }
}

void plain_scan_columns(void *out, const void *const *in,
                        const plain_sizes *sizes) {
  float *o = out;
  const float *restrict a = in[0], *restrict b = in[1];
  const int64_t n = sizes->columns;
  memcpy(o, b, (size_t)n * sizeof(*o));
  for (int64_t i = 1; i < sizes->rows; ++i) {
    const float *before = o + (i - 1) * n;
    float *after = o + i * n;
    for (int64_t j = 0; j < n; ++j)
      after[j] = a[i * n + j] * before[j] + b[i * n + j];
  }
}

#define MAXIMA(name, T)                                                        \
  void name(void *out, const void *const *in, const plain_sizes *sizes) {      \
    T *restrict o = out;                                                       \
    const T *restrict x = in[0];                                               \
    const int64_t n = sizes->columns;                                          \
    for (int64_t i = 0; i < sizes->rows; ++i) {                                \
      T most = x[i * n];                                                       \
      for (int64_t j = 1; j < n; ++j)                                          \
        most = x[i * n + j] > most ? x[i * n + j] : most;                      \
      o[i] = most;                                                             \
    }                                                                          \
  }
MAXIMA(plain_maxima, float)
MAXIMA(plain_maxima_i32, int32_t)

void plain_scatter_update(void *out, const void *const *in,
                          const plain_sizes *sizes) {
  float *restrict o = out;
  const int32_t *restrict at = in[1];
  const float *restrict updates = in[2];
  memcpy(o, in[0], (size_t)sizes->count * sizeof(*o));
  for (int64_t i = 0; i < sizes->rows; ++i)
    if (at[i] >= 0 && at[i] < sizes->count) o[at[i]] = updates[i];
}

void plain_scatter_add(void *out, const void *const *in,
                       const plain_sizes *sizes) {
  float *restrict o = out;
  const int32_t *restrict at = in[1];
  const float *restrict updates = in[2];
  memcpy(o, in[0], (size_t)sizes->count * sizeof(*o));
  for (int64_t i = 0; i < sizes->rows; ++i)
    if (at[i] >= 0 && at[i] < sizes->count) o[at[i]] += updates[i];
}

// ---- Convolutions ----------------------------------------------------------
static void add_input(const plain_sizes *s, float *restrict dx,
                      const float *restrict dy, const float *restrict w) {
  for (int64_t c = 0; c < s->channels; ++c)
    for (int64_t j = 0; j < s->multiplier; ++j)
      dx[c] += dy[c * s->multiplier + j] * w[c * s->multiplier + j];
}

static void add_weights(const plain_sizes *s, float *restrict dw,
                        const float *restrict dy, const float *restrict x) {
  for (int64_t c = 0; c < s->channels; ++c)
    for (int64_t j = 0; j < s->multiplier; ++j)
      dw[c * s->multiplier + j] += dy[c * s->multiplier + j] * x[c];
}

// Calls `add` for each output and each of its taps that is not on the zeros.
#define EACH_TAP(s, add)                                                       \
  for (int64_t n = 0; n < s->images; ++n)                                      \
    for (int64_t y = 0; y < s->height; ++y)                                    \
      for (int64_t x = 0; x < s->width; ++x)                                   \
        for (int64_t t = 0; t < 9; ++t) {                                      \
          const int64_t from_y = y + t / 3 - 1, from_x = x + t % 3 - 1;        \
          if (from_y < 0 || from_y >= s->height || from_x < 0 ||               \
              from_x >= s->width)                                              \
            continue;                                                          \
          const int64_t i = (n * s->height + from_y) * s->width + from_x;      \
          const int64_t o = (n * s->height + y) * s->width + x;                \
          add;                                                                 \
        }

void plain_depthwise_input(void *out, const void *const *in,
                           const plain_sizes *s) {
  float *dx = out;
  const float *dy = in[0], *w = in[1];
  const int64_t made = s->channels * s->multiplier;
  memset(dx, 0,
         (size_t)(s->images * s->height * s->width * s->channels) *
             sizeof(*dx));
  EACH_TAP(s, add_input(s, dx + i * s->channels, dy + o * made, w + t * made))
}

void plain_depthwise_weights(void *out, const void *const *in,
                             const plain_sizes *s) {
  float *dw = out;
  const float *x_of = in[0], *dy = in[1];
  const int64_t made = s->channels * s->multiplier;
  memset(dw, 0, (size_t)(9 * made) * sizeof(*dw));
  EACH_TAP(s,
           add_weights(s, dw + t * made, dy + o * made, x_of + i * s->channels))
}
