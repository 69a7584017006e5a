// SPDX-License-Identifier: Apache-2.0
#include "train/events/histogram.h"

#include <math.h>

// Elements are taken this many at once.
enum { CHUNK = 1024 };

static size_t histogram_load(const ls_array *values, int64_t from,
                             double *out) {
  const int64_t left = ls_array_num_elements(values) - from;
  const size_t count = left < CHUNK ? (size_t)left : CHUNK;
  if (ls_array_dtype(values) == LS_DTYPE_F32) {
    const float *at = (const float *)ls_array_data(values) + from;
    for (size_t i = 0; i < count; ++i)
      out[i] = (double)at[i];
  } else {
    for (size_t i = 0; i < count; ++i)
      out[i] = ls_array_f64(values, from + (int64_t)i);
  }
  return count;
}

static void histogram_measure(const ls_array *values, ls_histogram *out) {
  double chunk[CHUNK];
  double least = INFINITY, most = -INFINITY, sum = 0, squares = 0;
  int64_t finite = 0;
  for (int64_t from = 0; from < ls_array_num_elements(values); from += CHUNK) {
    const size_t count = histogram_load(values, from, chunk);
    for (size_t i = 0; i < count; ++i) {
      const double x = chunk[i];
      if (!isfinite(x)) continue;
      if (x < least) least = x;
      if (x > most) most = x;
      sum += x;
      squares += x * x;
      ++finite;
    }
  }
  *out = (ls_histogram){.values = (double)finite, .count = 1};
  if (finite == 0) return;
  out->least = least;
  out->most = most;
  out->sum = sum;
  out->sum_squares = squares;
}

static void histogram_deal(const ls_array *values, ls_histogram *out) {
  double chunk[CHUNK];
  const double least = out->least;
  const double scale = LS_HISTOGRAM_RANGES / (out->most - least);
  int64_t counts[LS_HISTOGRAM_RANGES] = {0};
  for (int64_t from = 0; from < ls_array_num_elements(values); from += CHUNK) {
    const size_t count = histogram_load(values, from, chunk);
    for (size_t i = 0; i < count; ++i) {
      if (!isfinite(chunk[i])) continue;
      const int at = (int)((chunk[i] - least) * scale);
      ++counts[at < LS_HISTOGRAM_RANGES ? at : LS_HISTOGRAM_RANGES - 1];
    }
  }
  out->count = LS_HISTOGRAM_RANGES;
  for (int i = 0; i < LS_HISTOGRAM_RANGES; ++i) {
    out->limits[i] = least + (i + 1) / scale;
    out->counts[i] = (double)counts[i];
  }
  out->limits[LS_HISTOGRAM_RANGES - 1] = out->most;
}

void ls_histogram_of(const ls_array *values, ls_histogram *out) {
  histogram_measure(values, out);
  // A width so small or so large that it is no number is that of one range.
  const double scale = LS_HISTOGRAM_RANGES / (out->most - out->least);
  if (isfinite(scale) && scale > 0) {
    histogram_deal(values, out);
  } else {
    out->limits[0] = out->most;
    out->counts[0] = out->values;
  }
}
