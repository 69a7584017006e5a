// SPDX-License-Identifier: Apache-2.0
// Resizes along rows, then along columns. The weights of each output pixel are
// computed once per axis; the input pixels they apply to are adjacent.
#include "formats/images/image.h"

#include <math.h>

// ---- Weights ---------------------------------------------------------------
typedef struct axis {
  int64_t from, to;  // Numbers of pixels before and after.
  double scale, reach;
  size_t most;  // Most weights of an output pixel.
  ls_tap *taps;
  void *weights;
} axis;

static ls_status make_axis(ls_allocator *allocator, int64_t from, int64_t to,
                           bool antialias, axis *out) {
  *out = (axis){.from = from, .to = to};
  out->scale = (double)from / (double)to;
  out->reach = antialias && out->scale > 1 ? out->scale : 1;
  out->most = (size_t)ceil(out->reach) * 2 + 1;
  size_t count = 0;
  if (__builtin_mul_overflow(out->most, (size_t)to, &count))
    return ls_out_of_memory();
  out->taps = ls_new_array(allocator, ls_tap, (size_t)to);
  out->weights = ls_new_array(allocator, int32_t, count);
  return out->taps != NULL && out->weights != NULL ? ls_ok()
                                                   : ls_out_of_memory();
}

static void free_axis(ls_allocator *allocator, const axis *self) {
  ls_release(allocator, self->taps);
  ls_release(allocator, self->weights);
}

static double weight_at(const axis *self, int64_t pixel, double middle) {
  const double distance =
      fabs(((double)pixel - middle + 0.5) * (1 / self->reach));
  return distance < 1 ? 1 - distance : 0;
}

static void weigh(const axis *self, ls_dtype dtype) {
  _Static_assert(sizeof(int32_t) == sizeof(float), "they share their room");
  for (int64_t i = 0; i < self->to; ++i) {
    const double middle = ((double)i + 0.5) * self->scale;
    int64_t first = (int64_t)(middle - self->reach + 0.5);
    int64_t end = (int64_t)(middle + self->reach + 0.5);
    if (first < 0) first = 0;
    if (end > self->from) end = self->from;
    double sum = 0;
    for (int64_t j = first; j < end; ++j)
      sum += weight_at(self, j, middle);
    int32_t *whole = (int32_t *)self->weights + (size_t)i * self->most;
    float *real = (float *)self->weights + (size_t)i * self->most;
    for (int64_t j = first; j < end; ++j) {
      const double weight = weight_at(self, j, middle) / sum;
      if (dtype == LS_DTYPE_U8)
        whole[j - first] = (int32_t)(0.5 + weight * (1 << LS_TAP_BITS));
      else
        real[j - first] = (float)weight;
    }
    self->taps[i] = (ls_tap){first, (int32_t)(end - first), whole};
  }
}

// ---- Rows ------------------------------------------------------------------
static inline __attribute__((always_inline)) void
row_f32(const axis *self, const float *from, int64_t channels, float *to) {
  for (int64_t i = 0; i < self->to; ++i, to += channels) {
    const ls_tap place = self->taps[i];
    const float *weights = place.weights;
    const float *at = from + place.first * channels;
    for (int64_t c = 0; c < channels; ++c) {
      float sum = 0;
      for (int32_t j = 0; j < place.count; ++j)
        sum += at[j * channels + c] * weights[j];
      to[c] = sum;
    }
  }
}

static void any_row_f32(const axis *self, const float *from, int64_t channels,
                        float *to) {
  switch (channels) {
  case 1:
    row_f32(self, from, 1, to);
    break;
  case 3:
    row_f32(self, from, 3, to);
    break;
  default:
    row_f32(self, from, channels, to);
  }
}

static void resize_rows(const axis *self, const ls_pixels *from,
                        const ls_pixels *to) {
  for (int64_t y = 0; y < from->height; ++y) {
    const char *row = (const char *)from->data + (size_t)y * from->stride;
    char *out = (char *)to->data + (size_t)y * to->stride;
    if (from->dtype == LS_DTYPE_U8) {
      ls_taps_row_u8(self->taps, self->to, (const unsigned char *)row,
                     from->width, from->channels, (unsigned char *)out);
    } else {
      any_row_f32(self, (const float *)(const void *)row, from->channels,
                  (float *)(void *)out);
    }
  }
}

// ---- Columns ---------------------------------------------------------------
// Works on a part of a row at a time, whose sums stay in the cache.
enum { SPAN = 256 };

static void column_f32(const ls_tap *place, const ls_pixels *from, size_t at,
                       size_t count, float *to) {
  float sums[SPAN];
  const float *weights = place->weights;
  for (size_t i = 0; i < count; ++i)
    sums[i] = 0;
  for (int32_t j = 0; j < place->count; ++j) {
    const char *line =
        (const char *)from->data + (size_t)(place->first + j) * from->stride;
    const float *row = (const float *)(const void *)line + at;
    const float weight = weights[j];
    for (size_t i = 0; i < count; ++i)
      sums[i] += row[i] * weight;
  }
  memcpy(to + at, sums, count * sizeof(*sums));
}

static void resize_columns(const axis *self, const ls_pixels *from,
                           const ls_pixels *to) {
  const size_t samples = (size_t)(to->width * to->channels);
  for (int64_t y = 0; y < to->height; ++y) {
    char *out = (char *)to->data + (size_t)y * to->stride;
    if (from->dtype == LS_DTYPE_U8) {
      ls_taps_column_u8(&self->taps[y], from->data, from->stride, samples,
                        (unsigned char *)out);
      continue;
    }
    for (size_t at = 0; at < samples; at += SPAN) {
      column_f32(&self->taps[y], from, at,
                 samples - at < SPAN ? samples - at : SPAN,
                 (float *)(void *)out);
    }
  }
}

// ---- Rows and columns ------------------------------------------------------
static void copy_rows(const ls_pixels *from, const ls_pixels *to) {
  const size_t bytes =
      (size_t)(to->width * to->channels) * ls_dtype_size(to->dtype);
  for (int64_t y = 0; y < to->height; ++y) {
    memcpy((char *)to->data + (size_t)y * to->stride,
           (const char *)from->data + (size_t)y * from->stride, bytes);
  }
}

static ls_status resize_both(ls_allocator *allocator, const axis *across,
                             const axis *down, const ls_pixels *from,
                             const ls_pixels *to) {
  ls_pixels between = *to;
  between.height = from->height;
  between.stride =
      (size_t)(to->width * to->channels) * ls_dtype_size(to->dtype);
  size_t bytes = 0;
  if (__builtin_mul_overflow(between.stride, (size_t)from->height, &bytes))
    return ls_out_of_memory();
  between.data = ls_allocate(allocator, bytes);
  if (between.data == NULL) return ls_out_of_memory();
  resize_rows(across, from, &between);
  resize_columns(down, &between, to);
  ls_release(allocator, between.data);
  return ls_ok();
}

ls_status ls_pixels_resize(ls_allocator *allocator, const ls_pixels *from,
                           bool antialias, const ls_pixels *to) {
  const bool wide = from->width != to->width, high = from->height != to->height;
  axis across = {0}, down = {0};
  ls_status status = ls_ok();
  if (wide)
    status = make_axis(allocator, from->width, to->width, antialias, &across);
  if (high && ls_status_is_ok(status))
    status = make_axis(allocator, from->height, to->height, antialias, &down);
  if (ls_status_is_ok(status)) {
    if (wide) weigh(&across, from->dtype);
    if (high) weigh(&down, from->dtype);
    if (wide && high)
      status = resize_both(allocator, &across, &down, from, to);
    else if (wide)
      resize_rows(&across, from, to);
    else if (high)
      resize_columns(&down, from, to);
    else
      copy_rows(from, to);
  }
  free_axis(allocator, &across);
  free_axis(allocator, &down);
  return status;
}
